//! One lock under loom: two transactions in every interleaving up to the stated number of
//! preemptions.
//!
//! The data a lock protects is a relaxed atomic, read and written in two steps: a lock that did not
//! exclude or did not order its holders would lose an increase. Loom itself fails when all threads
//! sleep: a wake-up lost or a deadlock not found. No interval ever passes under loom.

use loom::thread;

use super::{Hierarchical, LockError, LockSettings, Locking, Mode};
use crate::latch::Latched;
use crate::sync::{Arc, AtomicU32, Ordering};

const SETTINGS: LockSettings = LockSettings {
    buckets: 2,
    requests_max: 8,
    sessions_max: 2,
    rows_per_page_max: 8,
    pages_per_store_max: 8,
    wait_interval_ms: 1,
    wait_intervals_max: 2,
};

const STORE: u16 = 1;

/// A lock table and data that a lock on `STORE` protects.
struct World {
    locks: Hierarchical<Latched>,
    data: AtomicU32,
}

impl World {
    fn increase(&self) {
        let seen = self.data.load(Ordering::Relaxed);
        self.data.store(seen + 1, Ordering::Relaxed);
    }

    /// Locks `STORE` in each mode in turn and increases the data; says what came of it.
    fn transaction(&self, age_rank: u64, modes: &[Mode]) -> Result<(), LockError> {
        let mut held = self.locks.open_session()?;
        self.locks.begin(&mut held, age_rank);
        let mut lock = |mode: &Mode| self.locks.lock_store(&mut held, STORE, *mode);
        let result = modes.iter().try_for_each(&mut lock);
        if result.is_ok() {
            self.increase();
        }
        self.locks.release_all(&mut held);
        self.locks.close_session(held);
        result
    }
}

/// Runs two transactions and hands both results and the data to `check`.
fn explore(
    preemptions: usize,
    modes: &'static [Mode],
    check: impl Fn([Result<(), LockError>; 2], u32) + Sync + Send + 'static,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 10_000;
    model.check(move || {
        let locks = Hierarchical::new(SETTINGS);
        let world = Arc::new(World { locks, data: AtomicU32::new(0) });
        let other = Arc::clone(&world);
        let older = thread::spawn(move || other.transaction(1, modes));
        let younger = world.transaction(2, modes);
        let older = older.join().unwrap();
        assert_eq!(world.locks.check(&[]), []);
        check([older, younger], world.data.load(Ordering::Relaxed));
    });
}

#[test]
fn a_waiting_transaction_is_woken_and_sees_what_was_changed() {
    explore(2, &[Mode::Exclusive], |results, data| {
        assert_eq!((results, data), ([Ok(()), Ok(())], 2));
    });
}

#[test]
fn of_two_conversions_the_younger_gives_way() {
    explore(2, &[Mode::Shared, Mode::Exclusive], |results, data| {
        assert_eq!(results[0], Ok(()), "the older always gets through");
        assert!(matches!(results[1], Ok(()) | Err(LockError::Deadlock)));
        assert_eq!(data, 1 + u32::from(results[1].is_ok()));
    });
}

/// A lock that says what is below is kept for the session's next transaction, or taken out by a
/// session that it excludes: at every moment of both.
#[test]
fn a_kept_lock_is_claimed_or_called_in() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.max_branches = 10_000;
    model.check(|| {
        let world = Arc::new(World { locks: Hierarchical::new(SETTINGS), data: AtomicU32::new(0) });
        let other = Arc::clone(&world);
        let alone = thread::spawn(move || other.transaction(1, &[Mode::Exclusive]));
        let mut held = world.locks.open_session().unwrap();
        for age_rank in [2, 3] {
            world.locks.begin(&mut held, age_rank);
            world.locks.lock_store(&mut held, STORE, Mode::IntentionExclusive).unwrap();
            world.increase();
            world.locks.release_all(&mut held);
        }
        alone.join().unwrap().unwrap();
        assert_eq!(world.locks.check(&[&held]), []);
        world.locks.close_session(held);
        assert_eq!(world.locks.check(&[]), []);
        assert_eq!(world.data.load(Ordering::Relaxed), 3);
    });
}
