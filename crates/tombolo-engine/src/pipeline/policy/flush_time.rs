//! How long a flush takes, and how much of that is due to how much was written.
//!
//! A flush takes a time of its own, which a larger group shares, and some for each byte, which it does not.
//! Small and large flushes are averaged apart, each flush with the average it is nearer to; the line through
//! the two averages gives the cost of a byte. An average that no flush comes near to any more stays: an old
//! estimate of the device is better than none. Where the two differ too little to be significant, bytes are
//! taken to cost nothing.
//!
//! Not here: what is made of it (`caller_turnaround.rs`).

/// How fast what is learned is forgotten: each flush weighs one in so many.
const MEMORY: u64 = 8;

/// Averages that lie closer say nothing of a byte: the noise of flushes is greater.
const DIFFERENCE_MIN_BYTES: u64 = 16 << 10;

/// A flush that takes more than so many times the average counts as that: a hiccup.
const HICCUP: u64 = 4;

/// An average of flushes.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    bytes: u64,
    ns: u64,
}

impl Average {
    fn add(&mut self, bytes: u64, ns: u64) {
        if self.ns == 0 {
            *self = Self { bytes, ns };
            return;
        }
        let ns = ns.min(HICCUP * self.ns);
        self.bytes = mean(self.bytes, bytes, MEMORY);
        self.ns = mean(self.ns, ns, MEMORY);
    }
}

/// A running mean, in which what is new weighs one in `memory`.
pub(crate) const fn mean(known: u64, new: u64, memory: u64) -> u64 {
    (known * (memory - 1) + new) / memory
}

/// What is known of flushes.
#[derive(Debug, Default)]
pub(crate) struct FlushTime {
    small: Average,
    /// Empty until a size was seen that differs from the small ones.
    large: Average,
    /// How long the last two took, and the bytes of the last.
    last_ns: [u64; 2],
    last_bytes: u64,
}

impl FlushTime {
    /// A flush of so many bytes took so long.
    pub(crate) fn took(&mut self, bytes: u64, ns: u64) {
        let Self { small, large, .. } = self;
        let is_one = large.ns == 0;
        if is_one && small.ns > 0 && bytes + DIFFERENCE_MIN_BYTES <= small.bytes {
            *large = std::mem::take(small);
        }
        let between = match is_one {
            true => small.bytes + DIFFERENCE_MIN_BYTES,
            false => u64::midpoint(small.bytes, large.bytes),
        };
        let is_small = small.ns == 0 || bytes < between;
        if is_small { small } else { large }.add(bytes, ns);
        self.last_ns = [ns, self.last_ns[0]];
        self.last_bytes = bytes;
    }

    /// How long one takes: the last, or the one before if that was shorter.
    pub(crate) fn ns(&self) -> u64 {
        self.last_ns[0].min(self.last_ns[1])
    }

    /// How much of that is due to the bytes of the last one.
    pub(crate) fn bytes_ns(&self) -> u64 {
        let Self { small, large, .. } = self;
        let bytes = large.bytes.saturating_sub(small.bytes);
        if bytes < DIFFERENCE_MIN_BYTES {
            return 0;
        }
        let ns = large.ns.saturating_sub(small.ns);
        let of_last = u128::from(ns) * u128::from(self.last_bytes) / u128::from(bytes);
        u64::try_from(of_last).unwrap_or(u64::MAX).min(self.ns())
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    /// Flushes of these sizes on a device with a fixed time and one for each KB.
    fn after(sizes_kb: &[u64], fixed_ns: u64, kb_ns: u64) -> FlushTime {
        let mut time = FlushTime::default();
        for (n, kb) in sizes_kb.iter().cycle().take(40 * sizes_kb.len()).enumerate() {
            let hiccup = if n % 17 == 3 { 50 } else { 1 };
            time.took(kb << 10, (fixed_ns + kb * kb_ns) * hiccup);
        }
        time
    }

    #[test]
    fn what_bytes_cost_is_separated_from_the_rest() {
        let time = after(&[100, 400, 200, 300], 100_000, 1_000);
        let bytes_ns = time.bytes_ns();
        assert!((200_000..=400_000).contains(&bytes_ns), "about 300 us of 400: {bytes_ns}");
        let time = after(&[100, 400, 200, 300], 400_000, 10);
        assert!(time.bytes_ns() < 100_000, "about 3 us of 403: {}", time.bytes_ns());
    }

    #[test]
    fn one_that_is_smaller_than_all_before_tells_as_much() {
        let mut time = FlushTime::default();
        (0..100).for_each(|_| time.took(50 << 10, 150_000));
        assert_eq!(time.bytes_ns(), 0);
        time.took(25 << 10, 125_000);
        time.took(50 << 10, 150_000);
        assert_eq!(time.bytes_ns(), 50_000.min(time.ns()));
    }

    #[test]
    fn sizes_that_hardly_differ_say_nothing() {
        let time = after(&[8, 4, 6], 50_000, 20_000);
        assert_eq!(time.bytes_ns(), 0);
        assert!(after(&[300], 50_000, 20_000).bytes_ns() == 0);
        assert_eq!(FlushTime::default().bytes_ns(), 0);
    }
}
