//! The lock manager, tested from outside: scenarios with one thread, scenarios in which threads
//! wait, and random work against two independent definitions of what may be granted.

mod gaps;
mod hierarchy;
mod random;
mod waiting;

use super::{HeldLocks, Hierarchical, LockError, LockName, LockSettings, Locking, Mode};
use crate::latch::{Latched, Latching};
use crate::row::RowId;

/// The row at a slot of a page.
fn row(page: u32, slot: u16) -> RowId {
    RowId::new(u64::from(page) << 16 | u64::from(slot))
}

/// A small table in which nothing escalates and waits end after a few seconds.
const SMALL: LockSettings = LockSettings {
    buckets: 4,
    requests_max: 512,
    sessions_max: 8,
    rows_per_page_max: u16::MAX,
    pages_per_store_max: u16::MAX,
    wait_interval_ms: 100,
    wait_intervals_max: 100,
};

/// Opens a session with a transaction.
fn begin<K: Locking>(locks: &K, age_rank: u64) -> K::Held {
    let mut held = locks.open_session().unwrap();
    locks.begin(&mut held, age_rank);
    held
}

/// Ends the transactions and verifies that nothing is left of them.
fn end<K: Locking>(locks: &K, sessions: impl IntoIterator<Item = K::Held>) {
    let mut sessions: Vec<K::Held> = sessions.into_iter().collect();
    assert_eq!(locks.check(&sessions.iter().collect::<Vec<_>>()), []);
    for held in &mut sessions {
        locks.release_all(held);
    }
    assert_eq!(locks.check(&sessions.iter().collect::<Vec<_>>()), []);
    sessions.into_iter().for_each(|held| locks.close_session(held));
    assert_eq!(locks.check(&[]), []);
}

fn is_shared<T: Sync + Send>() {}
fn is_sent<T: Send>() {}

#[test]
fn a_latched_lock_table_is_shared_an_unlatched_one_is_sent() {
    is_shared::<Hierarchical<Latched>>();
    is_sent::<Hierarchical<crate::latch::Unlatched>>();
    is_sent::<HeldLocks>();
}

#[test]
fn removed_locks_have_no_size() {
    assert_eq!(size_of::<super::NoLocks>() + size_of::<super::NoHeldLocks>(), 0);
}

#[test]
fn what_can_be_cured_by_trying_again() {
    use LockError::{Deadlock, TableFull, TimedOut, TooManySessions, Unavailable};
    assert!([Deadlock, TimedOut, Unavailable].iter().all(|error| error.retry()));
    assert!(![TableFull, TooManySessions].iter().any(|error| error.retry()));
}

impl<L: Latching> Hierarchical<L> {
    /// Returns when a session waits for a lock.
    pub(crate) fn until_one_waits(&self) {
        self.until_waiting(1);
    }

    /// Returns when so many sessions wait.
    pub(crate) fn until_waiting(&self, count: usize) {
        while self.waiting() < count {
            std::thread::yield_now();
        }
    }

    /// Whether a session waits.
    pub(crate) fn one_waits(&self) -> bool {
        self.waiting() > 0
    }

    fn waiting(&self) -> usize {
        let sessions = &self.table.sessions;
        let waits = |id: &u32| sessions.get(*id).waits_for().is_some();
        (0..sessions.count() as u32).filter(waits).count()
    }
}
