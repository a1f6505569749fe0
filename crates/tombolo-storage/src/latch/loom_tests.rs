//! The latch under loom: every interleaving, up to the stated number of preemptions, of a few
//! threads.
//!
//! Loom's own checks do the work: it fails when a data access is not ordered by the latch and when
//! all threads sleep (a lost wake-up).

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::{Latched, RawLatch, SharedExclusiveLatch, ShortLatch};
use crate::plant::{self, Plant};

/// Data that only the latch orders; loom watches each access.
struct Shared {
    latch: SharedExclusiveLatch,
    data: UnsafeCell<u32>,
}

// SAFETY: `data` is reached under `latch` only, which is what these tests put to the test: loom
// fails when two accesses are not ordered.
unsafe impl Sync for Shared {}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { latch: SharedExclusiveLatch::default(), data: UnsafeCell::new(0) })
    }

    fn increase(&self) {
        let _guard = self.latch.exclusive();
        // SAFETY: the guard is exclusive.
        self.data.with_mut(|data| unsafe { *data += 1 });
    }

    fn read(&self) -> u32 {
        let _guard = self.latch.shared();
        // SAFETY: the guard keeps writers out.
        self.data.with(|data| unsafe { *data })
    }

    fn increase_by_upgrade(&self) -> bool {
        let guard = self.latch.shared();
        match self.latch.try_upgrade(guard) {
            Ok(_guard) => {
                // SAFETY: the guard is exclusive.
                self.data.with_mut(|data| unsafe { *data += 1 });
                true
            }
            Err(_) => false,
        }
    }
}

fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(test);
}

fn in_threads(shared: &Arc<Shared>, works: &[fn(&Shared)]) {
    let (last, others) = works.split_last().unwrap();
    let threads: Vec<_> = others
        .iter()
        .map(|work| {
            let (shared, work) = (Arc::clone(shared), *work);
            thread::spawn(move || work(&shared))
        })
        .collect();
    last(shared);
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(!shared.latch.is_held());
}

#[test]
fn writers_exclude_each_other() {
    explore(3, || {
        let shared = Shared::new();
        in_threads(&shared, &[Shared::increase, Shared::increase]);
        assert_eq!(shared.read(), 2);
    });
}

#[test]
fn three_writers_hand_the_latch_on() {
    explore(2, || {
        let shared = Shared::new();
        in_threads(&shared, &[Shared::increase, Shared::increase, Shared::increase]);
        assert_eq!(shared.read(), 3);
    });
}

#[test]
fn a_sleeper_is_overtaken_once_and_served() {
    explore(2, || {
        let shared = Shared::new();
        let twice = |shared: &Shared| {
            shared.increase();
            shared.increase();
        };
        in_threads(&shared, &[Shared::increase, twice]);
        assert_eq!(shared.read(), 3);
    });
}

#[test]
fn readers_and_a_writer() {
    explore(2, || {
        let shared = Shared::new();
        let read = |shared: &Shared| assert!(shared.read() <= 1);
        in_threads(&shared, &[Shared::increase, read, read]);
        assert_eq!(shared.read(), 1);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_writer_among_readers_is_noticed() {
    plant::with(Plant::ExclusivePastReaders, readers_and_a_writer);
}

/// The writer that is handed the latch by the last reader comes after the other reader too.
#[test]
fn an_overtaken_writer_comes_after_all_readers() {
    explore(2, || {
        let shared = Shared::new();
        let write_and_read = |shared: &Shared| {
            shared.increase();
            shared.read();
        };
        let read = |shared: &Shared| assert!(shared.read() <= 2);
        in_threads(&shared, &[Shared::increase, read, write_and_read]);
        assert_eq!(shared.read(), 2);
    });
}

#[test]
fn an_upgrade_excludes_everybody() {
    explore(2, || {
        let shared = Shared::new();
        let upgrade = |shared: &Shared| {
            shared.increase_by_upgrade();
        };
        in_threads(&shared, &[upgrade, upgrade, Shared::increase]);
        assert!((1..=3).contains(&shared.read()));
    });
}

/// Data that only a short latch orders.
#[derive(Default)]
struct Short {
    latch: ShortLatch<Latched>,
    data: UnsafeCell<u32>,
}

// SAFETY: as of `Shared`.
unsafe impl Sync for Short {}

impl Short {
    fn increase(&self) {
        let _guard = self.latch.hold();
        // SAFETY: the guard is the only one.
        self.data.with_mut(|data| unsafe { *data += 1 });
    }
}

#[test]
fn a_short_latch_is_held_by_one_thread_at_a_time() {
    explore(3, || {
        let short = Arc::new(Short::default());
        let other = Arc::clone(&short);
        let thread = thread::spawn(move || other.increase());
        short.increase();
        thread.join().unwrap();
        let _guard = short.latch.hold();
        // SAFETY: the guard is the only one.
        assert_eq!(short.data.with(|data| unsafe { *data }), 2);
    });
}
