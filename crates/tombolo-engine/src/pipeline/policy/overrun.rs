//! Procedures that hold the execution thread for too long: noticed per batch, then named.
//!
//! No clock is read per transaction. A batch of one transaction that takes longer than `slice_us_max` is
//! an overrun, and reported immediately under the name the executor gives the request
//! ([`Executor::name_of`](super::Executor::name_of)). One of several is an overrun where it took longer
//! than its transactions' mean explains by more than `slice_us_max`; the transactions after it are then
//! timed one by one for a while, and those that take too long are reported. Times are the wall's: a
//! thread that the machine suspended looks the same, so a single report proves nothing.
//!
//! Not here: doing something about it.

use std::sync::Arc;

use tombolo_storage::sync::{Mutex, Ordering};

use crate::pipeline::state::{Shared, add, get};

/// What a kind of request has overrun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// Its name, as the executor gives it.
    pub name: &'static str,
    /// How often it was seen to.
    pub count: u64,
    /// The longest, in nanoseconds.
    pub ns_max: u64,
}

/// Transactions timed one by one after an overrun.
const WATCHED: usize = 256;

/// Names that are remembered.
const NAMES_MAX: usize = 64;

/// The weight of the newest batch in the mean: a 16th.
const MEAN_SHIFT: u32 = 4;

/// Overruns by name, for the statistics.
pub(crate) type Overruns = Arc<Mutex<Vec<Overrun>>>;

/// Watches the batches of an execution stage.
#[derive(Debug)]
pub(crate) struct Watch {
    ns_max: u64,
    /// Mean time of a transaction, once one batch was seen.
    mean_ns: Option<u64>,
    /// Transactions still to be timed.
    left: usize,
    overruns: Overruns,
}

impl Watch {
    pub(crate) fn new(ns_max: u64, overruns: Overruns) -> Self {
        Self { ns_max, mean_ns: None, left: 0, overruns }
    }

    /// Whether transactions are timed one by one now.
    #[inline]
    pub(crate) fn is_close(&self) -> bool {
        self.left > 0
    }

    /// A batch took so long; `lone` is the name of its only transaction, unless those were timed one by
    /// one.
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
        // A transaction that overruns says nothing of the others.
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

    /// A batch took too long.
    #[cold]
    fn overran<A>(&mut self, ns: u64, lone: Option<&'static str>, shared: &Shared<A>) {
        add(&shared.counters.overruns, 1);
        let longest = &shared.counters.overrun_ns_max;
        longest.store(get(longest).max(ns), Ordering::Relaxed); // written here only
        if let Some(name) = lone {
            self.report(name, ns);
        }
    }

    /// A transaction that was timed took so long.
    pub(crate) fn transaction(&mut self, name: &'static str, ns: u64) {
        self.left -= 1;
        if ns > self.ns_max {
            self.report(name, ns);
        }
    }

    /// A transaction of this name took too long.
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
