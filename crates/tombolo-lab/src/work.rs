//! What the components were asked to do, per transaction: the counters of a build with probes.
//!
//! Cargo feature `probe`; without it nothing is counted and there is nothing to report. Not here:
//! where counters are increased (storage `probe.rs`).

use std::collections::BTreeMap;

use tombolo_storage::probe::{self, Counter, Work};

/// The counters with their names in results.
const COUNTERS: [(&str, Counter); 11] = [
    ("locks", Counter::Locks),
    ("row_locks", Counter::RowLocks),
    ("intention_locks", Counter::IntentionLocks),
    ("inherited_locks", Counter::InheritedLocks),
    ("latches", Counter::Latches),
    ("pins", Counter::Pins),
    ("log_records", Counter::LogRecords),
    ("log_bytes", Counter::LogBytes),
    ("lsn_writes", Counter::LsnWrites),
    ("compares", Counter::Compares),
    ("page_copies", Counter::PageCopies),
];

/// Counts by component, of one thread or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkDone {
    counts: [u64; COUNTERS.len()],
}

impl WorkDone {
    /// The uses by the calling thread since the last call of this function.
    pub fn take() -> Self {
        let work: Work = probe::take();
        Self { counts: COUNTERS.map(|(_, counter)| work.get(counter)) }
    }

    /// Adds what another thread did.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
    }

    /// By name, divided by `transactions`; nothing in a build without probes.
    pub fn per_transaction(&self, transactions: u64) -> Option<BTreeMap<&'static str, f64>> {
        let per = |count: u64| count as f64 / transactions.max(1) as f64;
        let by_name =
            COUNTERS.iter().zip(self.counts).map(|((name, _), count)| (*name, per(count)));
        probe::enabled().then(|| by_name.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_reported_where_it_is_counted() {
        WorkDone::take();
        probe::count(Counter::Pins, 46);
        let mut work = WorkDone::take();
        work.add(&WorkDone::default());
        let reported = work.per_transaction(2);
        assert_eq!(reported.is_some(), probe::enabled());
        if let Some(reported) = reported {
            assert_eq!(
                (reported["pins"], reported["locks"], reported.len()),
                (23.0, 0.0, COUNTERS.len())
            );
        }
    }
}
