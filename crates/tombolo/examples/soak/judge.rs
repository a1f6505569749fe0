//! How long calls took, and which of them waited for what they need not wait for.
//!
//! A durable call waits for two flushes at most: the one that is under way when it has run, and its own. How long they
//! take depends on the device. And it waits for three threads to get a core: its own, the one that executes it, and the
//! one that flushes. How long that takes depends on the machine. So a call is judged by what it took *beyond*: its
//! latency, less the two longest flushes that ended while it waited, less the three longest pauses that a thread which
//! only computes had meanwhile. In memory there are no flushes and two such threads. Reported percentiles are of whole
//! latencies.
//!
//! Which thread a call waited for cannot be seen from outside. Where the thread that only computes got no core for
//! longer than [`PAUSE_NS_MAX`], the one that held the database may have waited longer still. Such a run reports that
//! the machine was busy, and does not fail for starvation.
//!
//! A thread is starved if one of ten thousand of its calls, or any where it has made fewer, took more than
//! [`BEYOND_NS_MAX`] beyond.
//!
//! Not here: what calls do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use tombolo::Database;
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::threads::pause;

/// What a call may take beyond flushes and pauses.
pub(crate) const BEYOND_NS_MAX: u64 = 50_000_000;
/// A longer pause, and the machine was busy: three of them are what a call may take beyond.
const PAUSE_NS_MAX: u64 = BEYOND_NS_MAX / 3;
/// Of so many calls of a thread, one may take longer: the percentile 99.99.
const CALLS_PER_LATE_ONE: u64 = 10_000;

/// How long calls of one kind took, in nanoseconds.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Result<Self, String> {
        let counts = Histogram::new_with_max(3_600_000_000_000, 3);
        counts.map(Self).map_err(|error| error.to_string())
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        // All have the same bounds.
        let _ = self.0.add(&other.0);
    }

    /// As JSON, in microseconds.
    pub(crate) fn json(&self) -> String {
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |quantile| us(self.0.value_at_quantile(quantile));
        let (p50, p99, p9999) = (at(0.5), at(0.99), at(0.9999));
        let (count, max) = (self.0.len(), us(self.0.max()));
        format!(
            "{{\"count\":{count},\"p50\":{p50:.1},\"p99\":{p99:.1},\"p9999\":{p9999:.1},\"max\":{max:.1}}}"
        )
    }
}

/// A call that took longer than [`BEYOND_NS_MAX`] in all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slow {
    pub(crate) begun_ns: u64,
    pub(crate) ended_ns: u64,
}

/// So much time, of a flush or without a core, ended then.
#[derive(Clone, Copy, Debug)]
struct Lapse {
    until_ns: u64,
    ns: u64,
}

/// What the device and the machine did while calls were made, in order.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    flushes: Vec<Lapse>,
    pauses: Vec<Lapse>,
}

/// Shorter ones excuse no call.
const WORTH_A_NOTE_NS: u64 = 500_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

impl Watched {
    /// Looks every millisecond for flushes that have ended, until it `is_over`.
    pub(crate) fn flushes(db: &Database, clock: &SystemClock, is_over: &AtomicBool) -> Self {
        let mut flushes = Vec::new();
        let mut flushed_ns = db.statistics().flush_ns;
        while !is_over.load(Ordering::Relaxed) {
            pause(BETWEEN_LOOKS);
            let now_ns = db.statistics().flush_ns;
            let ns = now_ns - flushed_ns;
            flushed_ns = now_ns;
            if ns > WORTH_A_NOTE_NS {
                flushes.push(Lapse { until_ns: clock.now_ns(), ns });
            }
        }
        Self { flushes, ..Self::default() }
    }

    /// Computes until it `is_over`, and notes when it got no core.
    pub(crate) fn pauses(clock: &SystemClock, is_over: &AtomicBool) -> Self {
        let (mut pauses, mut last_ns) = (Vec::new(), clock.now_ns());
        while !is_over.load(Ordering::Relaxed) {
            let until_ns = clock.now_ns();
            let ns = until_ns - last_ns;
            last_ns = until_ns;
            if ns > WORTH_A_NOTE_NS {
                pauses.push(Lapse { until_ns, ns });
            }
        }
        Self { pauses, ..Self::default() }
    }

    /// Adds what another thread saw.
    pub(crate) fn add(&mut self, other: Self) {
        self.flushes.extend(other.flushes);
        self.pauses.extend(other.pauses);
    }

    /// The longest time for which a thread that only computes got no core.
    pub(crate) fn pause_ns_max(&self) -> u64 {
        self.pauses.iter().map(|pause| pause.ns).max().unwrap_or_default()
    }

    /// Whether other programs took so much of the machine that waits say nothing about the database.
    pub(crate) fn machine_is_busy(&self) -> bool {
        self.pause_ns_max() > PAUSE_NS_MAX
    }

    /// What a call took beyond flushes and pauses.
    pub(crate) fn beyond_ns(&self, call: Slow) -> u64 {
        // The look behind a call's end shows the flush that it waited for.
        let reported_ns = call.ended_ns + 2 * BETWEEN_LOOKS.as_nanos() as u64;
        let threads = if self.flushes.is_empty() { 2 } else { 3 };
        let excused_ns = longest(2, &self.flushes, call.begun_ns, reported_ns)
            + longest(threads, &self.pauses, call.begun_ns, call.ended_ns);
        (call.ended_ns - call.begun_ns).saturating_sub(excused_ns)
    }

    /// The longest of a thread's `calls` beyond, of which `slow` were slow in all, that may not be late.
    pub(crate) fn beyond_at_p9999_ns(&self, calls: u64, slow: &[Slow]) -> u64 {
        let mut beyond: Vec<u64> = slow.iter().map(|&call| self.beyond_ns(call)).collect();
        beyond.sort_unstable();
        let may_be_late = (calls / CALLS_PER_LATE_ONE) as usize;
        beyond.len().checked_sub(may_be_late + 1).map_or(0, |at| beyond[at])
    }
}

/// The sum of the `count` longest of `lapses` that began before `until_ns` and ended after `from_ns`.
fn longest(count: usize, lapses: &[Lapse], from_ns: u64, until_ns: u64) -> u64 {
    let first = lapses.partition_point(|lapse| lapse.until_ns < from_ns);
    let meanwhile = lapses[first..].iter().take_while(|lapse| lapse.until_ns - lapse.ns < until_ns);
    let mut all: Vec<u64> = meanwhile.map(|lapse| lapse.ns).collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    all.iter().take(count).sum()
}

#[cfg(test)]
mod tests {
    use super::{Lapse, Slow, Watched};

    const MS: u64 = 1_000_000;

    fn lapses(of: &[(u64, u64)]) -> Vec<Lapse> {
        of.iter().map(|&(until, ms)| Lapse { until_ns: until * MS, ns: ms * MS }).collect()
    }

    fn slow(begun_ms: u64, ended_ms: u64) -> Slow {
        Slow { begun_ns: begun_ms * MS, ended_ns: ended_ms * MS }
    }

    #[test]
    fn two_flushes_and_three_pauses_excuse_a_call() {
        let flushes = lapses(&[(10, 8), (50, 40), (90, 20), (300, 90)]);
        let pauses = lapses(&[(30, 1), (60, 7), (70, 5), (80, 2)]);
        let watched = Watched { flushes, pauses };
        assert_eq!(watched.beyond_ns(slow(20, 200)), (180 - 40 - 20 - 7 - 5 - 2) * MS);
        assert_eq!(watched.beyond_ns(slow(65, 200)), (135 - 20 - 5 - 2) * MS);
        assert_eq!(watched.beyond_ns(slow(100, 200)), 100 * MS, "it was over before the last");
        // The look behind it shows the flush that it waited for.
        assert_eq!(watched.beyond_ns(slow(200, 299)), 9 * MS);
        assert_eq!(watched.beyond_ns(slow(250, 260)), 0);
        let in_memory = Watched { flushes: Vec::new(), ..watched };
        assert_eq!(in_memory.beyond_ns(slow(20, 200)), (180 - 7 - 5) * MS);
    }

    #[test]
    fn one_of_ten_thousand_may_be_late() {
        let watched = Watched::default();
        let calls = [slow(0, 70), slow(0, 60)];
        assert_eq!(watched.beyond_at_p9999_ns(9_999, &calls), 70 * MS);
        assert_eq!(watched.beyond_at_p9999_ns(10_000, &calls), 60 * MS);
        assert_eq!(watched.beyond_at_p9999_ns(20_000, &calls), 0);
    }
}
