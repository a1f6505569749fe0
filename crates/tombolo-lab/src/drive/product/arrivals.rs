//! An open loop: the times at which calls should begin, answered or not.
//!
//! Calls arrive one by one at random, at a given rate on average (a Poisson process drawn from the seed). A call that
//! begins late is timed from when it should have begun, so that a system that is too slow for the rate cannot hide it
//! by having its callers wait. Between two batches, while inputs are made, this clock stands still: a call that was
//! late before a batch's end is as late when the next batch begins.
//!
//! Not here: calls (`clients.rs`).

use tombolo_engine::rng::Rng;

use crate::drive::Behind;

/// What the generator's numbers for arrivals are drawn by, in addition to the seed.
const STREAM: &[u64] = &[0x6172_7269_7661_6c73];

/// When calls should begin.
#[derive(Debug)]
pub(crate) struct Arrivals {
    rng: Rng,
    /// The mean time between two.
    gap_ns: f64,
    /// When the next one is due, on a clock that stands still between batches.
    due_ns: f64,
    /// What that clock showed when the batch began, and the clock of the run.
    began: (f64, u64),
    behind: Behind,
}

impl Arrivals {
    /// `rate` calls a second.
    pub(crate) fn new(rate: u64, seed: u64) -> Self {
        let gap_ns = 1e9 / rate as f64;
        let rng = Rng::stream(seed, STREAM);
        let mut arrivals =
            Self { rng, gap_ns, due_ns: 0.0, began: (0.0, 0), behind: Behind::default() };
        arrivals.advance();
        arrivals
    }

    fn advance(&mut self) {
        // In (0, 1]: the logarithm of nothing would be infinite.
        let drawn = (self.rng.below(1 << 53) + 1) as f64 / (1u64 << 53) as f64;
        self.due_ns -= self.gap_ns * drawn.ln();
    }

    /// When the next call is due, by the clock of the run.
    fn due(&self) -> u64 {
        let (shown, began_ns) = self.began;
        (began_ns as f64 + (self.due_ns - shown)).max(0.0) as u64
    }

    /// A batch begins.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.began.1 = now_ns;
    }

    /// A batch is over.
    pub(crate) fn end(&mut self, now_ns: u64) {
        self.began.0 += (now_ns - self.began.1) as f64;
    }

    /// When the call that begins now should have begun; `None` if no call is due.
    pub(crate) fn next(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.due();
        if due_ns > now_ns {
            return None;
        }
        self.behind.ns_max = self.behind.ns_max.max(now_ns - due_ns);
        self.advance();
        Some(due_ns)
    }

    /// The run ends with calls up to `until_ns`: what is due by then does not begin. How many those are
    /// is counted by the mean time between two, since there may be billions.
    pub(crate) fn give_up(&mut self, until_ns: u64) {
        if let Some(late_ns) = until_ns.checked_sub(self.due()) {
            self.behind.not_begun += (late_ns as f64 / self.gap_ns) as u64 + 1;
            self.due_ns = f64::INFINITY;
        }
    }

    /// How far calls were behind so far.
    pub(crate) const fn behind(&self) -> Behind {
        self.behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_calls_are_due_in_a_second_whether_they_begin_or_not() {
        let mut arrivals = Arrivals::new(50_000, 1);
        arrivals.begin(7_000);
        let end_ns = 1_000_007_000;
        let mut begun = 0;
        let mut last_ns = 0;
        while let Some(due_ns) = arrivals.next(end_ns) {
            assert!(due_ns >= last_ns && due_ns >= 7_000, "{due_ns} after {last_ns}");
            (begun, last_ns) = (begun + 1, due_ns);
        }
        assert!((49_000..51_000).contains(&begun), "{begun}");
        assert!(arrivals.behind().ns_max > 999_000_000, "the first began a second late");
        assert_eq!(arrivals.behind().not_begun, 0);
        arrivals.give_up(2_000_007_000);
        let missed = arrivals.behind().not_begun;
        assert!((49_000..51_000).contains(&missed), "{missed}");
        assert_eq!(arrivals.next(u64::MAX - 1), None, "after that there is none");
    }

    #[test]
    fn its_clock_stands_still_between_batches() {
        let mut arrivals = Arrivals::new(1_000_000, 1);
        arrivals.begin(1_000);
        arrivals.end(51_000);
        arrivals.begin(9_000_000);
        // What was due in the first 50 µs is still up to 50 µs late, and no more.
        let due_ns = arrivals.next(9_000_000).unwrap();
        assert!((8_950_000..9_000_000).contains(&due_ns), "{due_ns}");
        let rest = std::iter::from_fn(|| arrivals.next(9_000_000)).count();
        assert!((20..100).contains(&rest), "{rest}");
    }
}
