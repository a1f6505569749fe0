//! Estimates the duration of a flush, and the part of it that depends on the number of bytes.
//!
//! A flush takes a fixed time, which all calls of a group share, and a time per byte, which they do not.
//! Small and large flushes are averaged separately, each flush with the nearer average; the line through
//! the two averages gives the cost of a byte. An average that no recent flush is near to is kept, because an old
//! estimate of the device is better than none. If the two averages do not differ significantly, bytes are
//! assumed to cost nothing.
//!
//! Not here: the use of these estimates (`caller_turnaround.rs`).

/// The weight of a new flush in the averages: one in this many.
const MEMORY: u64 = 8;

/// Closer averages reveal nothing about the cost of a byte, because the noise of flushes is greater.
const DIFFERENCE_MIN_BYTES: u64 = 16 << 10;

/// A flush that takes more than this many times the average is a hiccup and counts as this many times.
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

/// A running mean in which the new value weighs one in `memory`.
pub(crate) const fn mean(known: u64, new: u64, memory: u64) -> u64 {
    (known * (memory - 1) + new) / memory
}

/// Measurements of flushes.
#[derive(Debug, Default)]
pub(crate) struct FlushTime {
    small: Average,
    /// Empty until a size occurs that differs from the small ones.
    large: Average,
    /// The durations of the last two flushes, and the bytes of the last.
    last_ns: [u64; 2],
    last_bytes: u64,
}

impl FlushTime {
    /// Records a flush of `bytes` bytes that took `ns`.
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

    /// The duration of a flush: the shorter of the last two.
    pub(crate) fn ns(&self) -> u64 {
        self.last_ns[0].min(self.last_ns[1])
    }

    /// The part of it that is due to the bytes of the last flush.
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
