//! The time for which `auto` waits for callers that were just answered, if it waits at all.
//!
//! If every flush begins immediately, callers that call again as soon as they are answered split into two halves:
//! one half executes while the other's flush runs, and every call waits for two flushes. If the
//! answered callers return in less time than a flush takes, one flush for all is better.
//!
//! ```text
//!   a calls were answered by the last flush, b calls have executed meanwhile, a flush takes F
//!   at once    ├─ F: b ─┤├─ F: a ─┤├─ F: b ─┤              a + b answers in 2 F
//!   together   a ··├─ F: a + b ─┤ a + b ··├─ F: a + b ─┤   a + b answers in F + w
//! ```
//!
//! Waiting for a time w costs each of the b calls w, and saves each of the a calls F − w. So it
//! pays up to w = F a / (a + b), and only if callers return within w. Their recent turnaround predicts
//! that; it is measured whether or not a flush waited for them. The part K of F that is due to the flush's bytes
//! is not shared: a larger group takes longer, so w = F a / (a + b) - K. It does not matter which callers return,
//! only how many calls have run since. A caller that leaves for good costs one or two waits of at most F: a missing
//! caller counts as a slow one, and slow callers are not waited for. A lone caller never waits: when its
//! call arrives, all answered callers have returned.
//!
//! Not here: other reasons for a flush (`logging.rs`). Times are those of the pipeline's clock.

use crate::pipeline::policy::flush_time::{FlushTime, mean};

/// One answered call in this many, rounded down, need not return.
const STRAGGLERS: u64 = 64;

/// One flush in this many does not wait, because only different sizes reveal the cost of a byte.
const TRIES: u64 = 64;

/// The weight of a new flush in the averages: one in this many.
const MEMORY: u64 = 4;

/// A completed flush.
#[derive(Clone, Copy, Debug, Default)]
struct Release {
    at_ns: u64,
    /// Calls it answered.
    answered: u64,
    /// Calls that have run since.
    came: u64,
    /// The time until enough of them had run.
    return_ns: Option<u64>,
}

impl Release {
    const fn enough(&self) -> u64 {
        self.answered - self.answered / STRAGGLERS
    }

    fn came(&mut self, calls: u64, ended_ns: u64) {
        self.came += calls;
        if self.came >= self.enough() && self.return_ns.is_none() {
            self.return_ns = Some(ended_ns.saturating_sub(self.at_ns));
        }
    }
}

/// Measurements of the callers' turnaround.
#[derive(Debug, Default)]
pub(crate) struct CallerTurnaround {
    last: Release,
    /// The flush before, until it is known how many callers returned before the last one ended.
    before: Option<Release>,
    /// Calls that ran before the last one ended and were not part of it.
    pending: u64,
    /// The turnaround of answered callers.
    return_ns: Option<u64>,
    flush_time: FlushTime,
    flushes: u64,
}

impl CallerTurnaround {
    /// Records that a flush of `bytes` bytes, which took `flush_ns`, has ended and answered `answered` calls.
    pub(crate) fn released(&mut self, now_ns: u64, answered: u64, bytes: u64, flush_ns: u64) {
        self.learn();
        let release = Release { at_ns: now_ns, answered, ..Release::default() };
        self.before = Some(std::mem::replace(&mut self.last, release));
        self.pending = 0;
        self.flush_time.took(bytes, flush_ns);
        self.flushes += 1;
    }

    /// Records that `calls` calls which wait for the next flush have run, the last until `ended_ns`.
    pub(crate) fn ran(&mut self, calls: u64, ended_ns: u64) {
        if ended_ns > self.last.at_ns {
            return self.last.came(calls, ended_ns);
        }
        self.pending += calls;
        if let Some(before) = &mut self.before {
            before.came(calls, ended_ns);
        }
    }

    /// The time until which the next flush waits for callers to return; `None` if it does not wait. To be called
    /// when all calls that have run were recorded.
    pub(crate) fn wait_until(&mut self) -> Option<u64> {
        self.learn();
        let Release { at_ns, answered, came, .. } = self.last;
        if came >= self.last.enough() || self.flushes.is_multiple_of(TRIES) {
            return None;
        }
        let shared_ns = self.flush_time.ns() * answered / (answered + self.pending);
        let worth_ns = shared_ns.saturating_sub(self.flush_time.bytes_ns());
        self.return_ns.filter(|&return_ns| return_ns <= worth_ns).map(|_| at_ns + worth_ns)
    }

    /// Learns from the flush before the last one.
    fn learn(&mut self) {
        let Some(before) = self.before.take().filter(|before| before.answered > 0) else { return };
        let gone_ns = self.last.at_ns.saturating_sub(before.at_ns);
        // A caller that has not returned for long may have left for good, so this has a short memory.
        let return_ns = before.return_ns.unwrap_or(gone_ns).min(2 * self.flush_time.ns());
        let known = self.return_ns.map_or(return_ns, |known| mean(known, return_ns, MEMORY));
        self.return_ns = Some(known);
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH_NS: u64 = 1_000;

    /// Callers in a closed loop, each back so long after its answer, one after the other; says how
    /// long `flushes` flushes took and how many calls they answered.
    fn closed_loop(callers: u64, each_ns: u64, flushes: u64) -> (u64, u64) {
        let mut returns = CallerTurnaround::default();
        // When each open call has executed, in order; the caller answered last comes last.
        let mut executed: std::collections::VecDeque<u64> =
            (1..=callers).map(|n| n * each_ns).collect();
        let (mut now_ns, mut answered, mut seen) = (executed[0], 0, 0);
        for _ in 0..flushes {
            loop {
                let ran = executed.iter().take_while(|&&ended_ns| ended_ns <= now_ns).count();
                executed.range(seen..ran.max(seen)).for_each(|&ended_ns| returns.ran(1, ended_ns));
                seen = ran.max(seen);
                let next_ns = executed.get(seen).copied();
                match (returns.wait_until().filter(|&until_ns| until_ns > now_ns), next_ns) {
                    (Some(until_ns), next_ns) => {
                        now_ns = next_ns.map_or(until_ns, |next_ns| next_ns.min(until_ns));
                    }
                    (None, Some(next_ns)) if seen == 0 => now_ns = next_ns,
                    (None, _) => break,
                }
            }
            now_ns += FLUSH_NS;
            let count = std::mem::take(&mut seen) as u64;
            executed.drain(..count as usize);
            returns.released(now_ns, count, count * 100, FLUSH_NS);
            answered += count;
            let mut last_ns = executed.back().copied().unwrap_or_default().max(now_ns);
            executed.extend((0..count).map(|_| {
                last_ns += each_ns;
                last_ns
            }));
        }
        (now_ns, answered)
    }

    #[test]
    fn callers_that_come_back_soon_share_a_flush() {
        let (ns, answered) = closed_loop(16, 10, 1_000);
        assert!(ns <= 1_000 * (FLUSH_NS + 170), "a flush and all coming back: {ns}");
        assert!(answered >= 15 * 990, "{answered} of 16 by each flush");
    }

    #[test]
    fn callers_that_take_long_are_not_waited_for() {
        // Together they need 1,600 for what a flush needs 1,000 for: halves overlap better.
        let (ns, answered) = closed_loop(16, 100, 1_000);
        assert!(ns <= 1_005 * FLUSH_NS, "flush behind flush: {ns}");
        assert!((7_900..=8_100).contains(&answered), "{answered}");
    }

    #[test]
    fn a_lone_caller_never_waits() {
        let (ns, answered) = closed_loop(1, 300, 100);
        assert_eq!((ns, answered), (100 * (FLUSH_NS + 300), 100));
    }

    #[test]
    fn a_caller_that_does_not_come_back_is_soon_not_waited_for() {
        let mut returns = CallerTurnaround::default();
        let mut now_ns = 0;
        let mut flush = |returns: &mut CallerTurnaround, answered, pending, came| {
            now_ns += FLUSH_NS;
            returns.released(now_ns, answered, 100, FLUSH_NS);
            returns.ran(pending, now_ns);
            let waits = returns.wait_until().is_some();
            returns.ran(came, now_ns + 10);
            waits
        };
        for _ in 0..4 {
            flush(&mut returns, 8, 8, 8);
        }
        assert!(flush(&mut returns, 8, 8, 0), "they came back each time");
        let waits = (0..6).map(|_| flush(&mut returns, 1, 1, 0)).filter(|&waits| waits).count();
        assert!(waits <= 2, "{waits} times in vain");
        for _ in 0..6 {
            flush(&mut returns, 8, 8, 8);
        }
        assert!(flush(&mut returns, 8, 8, 8), "they came back again");
    }

    #[test]
    fn nothing_is_waited_for_when_nothing_is_known_or_no_caller_was_answered() {
        let mut returns = CallerTurnaround::default();
        assert_eq!(returns.wait_until(), None);
        returns.released(5_000, 0, 0, FLUSH_NS);
        assert_eq!(returns.wait_until(), None);
        returns.ran(3, 4_000);
        returns.released(6_000, 3, 300, FLUSH_NS);
        assert_eq!(returns.wait_until(), None, "no caller has come back yet");
    }
}
