//! Transactions that wait for locks on one island, in order of arrival; each runs again when the part that holds its
//! lock has ended.
//!
//! A part waits only for a younger transaction, and otherwise dies (wait-die). So every chain of waits, across all
//! islands, leads from older to younger transactions: there is no cycle, and the oldest finishes. A local transaction
//! holds no locks while it waits, so it may wait for any part. Not here: locks (the store's), deadlines.

use super::event::{Action, Work};
use super::identity::{Age, TransactionNumber};

#[derive(Debug, Default)]
pub(super) struct Waits(Vec<(TransactionNumber, Work)>);

/// Whether a part of this age may wait for one of that age. It may for an earlier run of its own transaction,
/// which has ended at its coordinator: a decision is all that is missing.
pub(super) fn may_wait(age: Age, holder: Age) -> bool {
    age <= holder
}

impl Waits {
    pub(super) fn add(&mut self, by: TransactionNumber, work: Work) {
        self.0.push((by, work));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a part of this transaction waits.
    pub(super) fn has(&self, transaction: TransactionNumber) -> bool {
        let is_it =
            |work: &Work| matches!(work, Work::Part { number, .. } if *number == transaction);
        self.0.iter().any(|(_, work)| is_it(work))
    }

    /// A local transaction gives up; says whether it waited.
    pub(super) fn give_up(&mut self, caller: u64) -> bool {
        let before = self.0.len();
        self.0.retain(|(_, work)| !matches!(work, Work::Local { call, .. } if *call == caller));
        self.0.len() < before
    }

    /// `ended` holds nothing any more: runs what waits for it again, parts only while they are `wanted`.
    pub(super) fn wake(
        &mut self,
        ended: TransactionNumber,
        wanted: impl Fn(TransactionNumber) -> bool,
        out: &mut Vec<Action>,
    ) {
        let woken = self.0.extract_if(.., |(by, _)| *by == ended).map(|(_, work)| work);
        let is_wanted = |work: &Work| match work {
            Work::Part { number, .. } => wanted(*number),
            Work::Local { .. } => true,
        };
        out.extend(woken.filter(is_wanted).map(Action::Run));
    }
}
