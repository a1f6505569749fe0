//! Procedures that occupy the execution thread for too long: detected per batch, then named.
//!
//! The clock is not read per transaction. A batch of one transaction that takes longer than `slice_us_max` is
//! an overrun, and is reported immediately under the executor's name for the request
//! ([`Executor::name_of`](super::Executor::name_of)). A batch of several transactions is an overrun if it takes
//! more than `slice_us_max` longer than their mean predicts; the following transactions are then
//! timed individually for a while, and those that take too long are reported. Times are wall-clock times: a
//! suspended thread looks the same, so a single report proves nothing.
//!
//! Not here: any reaction to overruns.

use std::sync::Arc;

use tombolo_storage::sync::{Mutex, Ordering};

use crate::pipeline::state::{Shared, add, get};

/// The overruns of one kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// Its name, from the executor.
    pub name: &'static str,
    /// The number of observed overruns.
    pub count: u64,
    /// The longest, in nanoseconds.
    pub ns_max: u64,
}

/// Transactions timed individually after an overrun.
const WATCHED: usize = 256;

/// The most names that are remembered.
const NAMES_MAX: usize = 64;

/// The weight of the newest batch in the mean: a 16th.
const MEAN_SHIFT: u32 = 4;

/// Overruns by name, for the statistics.
pub(crate) type Overruns = Arc<Mutex<Vec<Overrun>>>;

/// Watches the batches of an execution stage.
#[derive(Debug)]
pub(crate) struct Watch {
    ns_max: u64,
    /// Mean time of a transaction, after the first batch.
    mean_ns: Option<u64>,
    /// Transactions still to be timed.
    left: usize,
    overruns: Overruns,
}

impl Watch {
    pub(crate) fn new(ns_max: u64, overruns: Overruns) -> Self {
        Self { ns_max, mean_ns: None, left: 0, overruns }
    }

    /// Whether transactions are currently timed individually.
    #[inline]
    pub(crate) fn is_close(&self) -> bool {
        self.left > 0
    }

    /// Records the time of a batch; `lone` is the name of its only transaction, unless transactions were timed
    /// individually.
    pub(crate) fn batch<A>(
        &mut self,
        transactions: u64,
        ns: u64,
        lone: Option<&'static str>,
        shared: &Shared<A>,
    ) {
        if transactions == 0 {
            return;
        }
        let each_ns = ns / transactions;
        // An overrun says nothing about the mean of other transactions.
        let mean_ns = *self.mean_ns.get_or_insert(each_ns.min(self.ns_max));
        let explained_ns = match transactions {
            1 => 0,
            several => mean_ns.saturating_mul(2 * several),
        };
        if ns > explained_ns.saturating_add(self.ns_max) {
            self.overran(ns, lone, shared);
            if transactions > 1 {
                self.left = WATCHED;
            }
        } else {
            let mean_ns = mean_ns - (mean_ns >> MEAN_SHIFT) + (each_ns >> MEAN_SHIFT);
            self.mean_ns = Some(mean_ns);
        }
    }

    /// Records a batch that took too long.
    #[cold]
    fn overran<A>(&mut self, ns: u64, lone: Option<&'static str>, shared: &Shared<A>) {
        add(&shared.counters.overruns, 1);
        let longest = &shared.counters.overrun_ns_max;
        longest.store(get(longest).max(ns), Ordering::Relaxed); // written here only
        if let Some(name) = lone {
            self.report(name, ns);
        }
    }

    /// Records the time of a transaction that was timed individually.
    pub(crate) fn transaction(&mut self, name: &'static str, ns: u64) {
        self.left -= 1;
        if ns > self.ns_max {
            self.report(name, ns);
        }
    }

    /// Reports a transaction of this name that took too long.
    #[cold]
    fn report(&self, name: &'static str, ns: u64) {
        let mut overruns = self.overruns.lock();
        if let Some(overrun) = overruns.iter_mut().find(|overrun| overrun.name == name) {
            overrun.count += 1;
            overrun.ns_max = overrun.ns_max.max(ns);
        } else if overruns.len() < NAMES_MAX {
            overruns.push(Overrun { name, count: 1, ns_max: ns });
        }
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::log::Room;

    #[test]
    fn overruns_are_counted_by_batch_and_then_named() {
        let room = Room { bytes: 0, is_all: true, more_is_wanted: false };
        let shared = Shared::<u64>::new(room);
        let overruns = Overruns::default();
        let mut watch = Watch::new(200_000, overruns.clone());
        for _ in 0..20 {
            watch.batch(256, 256 * 1_000, None, &shared);
        }
        // Large batches of short transactions are none.
        watch.batch(256, 256 * 1_700, None, &shared);
        assert!(!watch.is_close());
        watch.batch(10, 450_000, None, &shared);
        assert!(watch.is_close());
        assert_eq!(get(&shared.counters.overruns), 1);
        assert_eq!(get(&shared.counters.overrun_ns_max), 450_000);
        for n in 0..WATCHED as u64 {
            watch.transaction("quick", 900);
            if n % 100 == 0 && watch.is_close() {
                watch.transaction("slow", 300_000 + n);
            }
            if !watch.is_close() {
                break;
            }
        }
        assert!(!watch.is_close());
        assert_eq!(*overruns.lock(), [Overrun { name: "slow", count: 3, ns_max: 300_200 }]);
    }

    #[test]
    fn a_lone_overrun_is_named_at_once_and_hides_no_other() {
        let room = Room { bytes: 0, is_all: true, more_is_wanted: false };
        let shared = Shared::<u64>::new(room);
        let overruns = Overruns::default();
        let mut watch = Watch::new(200_000, overruns.clone());
        // The first of all, which is no measure for those behind it.
        watch.batch(1, 8_000_000_000, Some("runaway"), &shared);
        assert_eq!(
            *overruns.lock(),
            [Overrun { name: "runaway", count: 1, ns_max: 8_000_000_000 }]
        );
        assert!(!watch.is_close());
        watch.batch(1, 200_000, Some("long"), &shared);
        watch.batch(1, 200_001, Some("too long"), &shared);
        let named: Vec<_> = overruns.lock().iter().map(|overrun| overrun.name).collect();
        assert_eq!(named, ["runaway", "too long"]);
        watch.batch(4, 1_900_000, None, &shared);
        assert!(watch.is_close());
        assert_eq!(get(&shared.counters.overruns), 3);
    }
}
