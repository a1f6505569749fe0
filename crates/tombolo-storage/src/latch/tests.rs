//! The latches with real threads, and the siblings' common behaviour.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::*;

const fn send<T: Send>() {}
const fn sync<T: Sync>() {}

/// A latched structure is shared, an unlatched one is sent.
const _: () = {
    sync::<Latch<Cell<u32>, Latched>>();
    sync::<AtomicCounter>();
    send::<Latch<Cell<u32>, Latched>>();
    send::<Latch<Cell<u32>, Unlatched>>();
    send::<PlainCounter>();
};

#[test]
fn removed_latches_have_no_size() {
    assert_eq!(size_of::<NoLatch>(), 0);
    assert_eq!(size_of::<NoGuard<'_>>(), 0);
    assert_eq!(size_of::<Latch<Cell<u64>, Unlatched>>(), 8);
    assert_eq!(size_of::<SharedExclusiveLatch>(), 4);
}

fn exclusion<L: Latching>() {
    let latch = L::Latch::default();
    let shared = latch.shared();
    let exclusive = latch.try_upgrade(shared).unwrap_or_else(|_| panic!("no other holder"));
    assert_eq!(latch.try_shared().is_some(), !L::WAITS);
    assert_eq!(latch.try_exclusive().is_some(), !L::WAITS);
    drop(exclusive);
    let (first, second) = (latch.shared(), latch.try_shared());
    assert!(second.is_some());
    assert_eq!(latch.try_exclusive().is_some(), !L::WAITS);
    assert_eq!(latch.try_upgrade(first).is_ok(), !L::WAITS);
}

#[test]
fn exclusive_excludes_where_there_are_latches() {
    exclusion::<Latched>();
    exclusion::<Unlatched>();
}

#[test]
fn a_free_latch_stays_free_after_every_kind_of_use() {
    let latch = SharedExclusiveLatch::default();
    drop(latch.exclusive());
    drop((latch.shared(), latch.shared()));
    drop(latch.try_upgrade(latch.shared()));
    assert!(!latch.is_held());
    assert!(latch.try_exclusive().is_some());
}

fn counting<L: Latching>() {
    let counter = L::Counter::new(5);
    assert_eq!(counter.advance(2), 5);
    counter.raise(6);
    assert_eq!(counter.get(), 7);
    counter.raise(u64::MAX);
    counter.advance(1);
    assert_eq!(counter.get(), 0);
}

#[test]
fn counters_agree() {
    counting::<Latched>();
    counting::<Unlatched>();
}

#[test]
fn data_under_a_latch_counts_right_from_many_threads() {
    const THREADS: u32 = 4;
    const TURNS: u32 = 20_000;
    let latch = Latch::<Cell<u32>, Latched>::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..TURNS {
                    let data = latch.hold();
                    data.set(data.get() + 1);
                }
            });
        }
    });
    assert_eq!(latch.hold().get(), THREADS * TURNS);
}

/// Readers see a pair of numbers that a writer changes one after the other, never half changed.
#[test]
fn readers_never_see_half_a_change() {
    const TURNS: u32 = 20_000;
    let latch = SharedExclusiveLatch::default();
    let (left, right) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..TURNS {
                    let _guard = latch.exclusive();
                    left.fetch_add(1, Ordering::Relaxed);
                    right.fetch_add(1, Ordering::Relaxed);
                }
            });
            scope.spawn(|| {
                for _ in 0..TURNS {
                    let _guard = latch.shared();
                    let seen = (left.load(Ordering::Relaxed), right.load(Ordering::Relaxed));
                    assert_eq!(seen.0, seen.1);
                }
            });
        }
    });
    assert_eq!(left.into_inner(), 2 * TURNS);
}

/// Two readers hold the latch in turns so that it is never free, until the writer has been in.
#[test]
fn a_writer_is_not_starved_by_readers() {
    let latch = SharedExclusiveLatch::default();
    let (started, written) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut held = Some(latch.shared());
                started.fetch_add(1, Ordering::SeqCst);
                while !written.load(Ordering::SeqCst) {
                    // Overlap where that is possible; where a writer waits, let go first.
                    match latch.try_shared() {
                        Some(next) => held = Some(next),
                        None => {
                            drop(held.take());
                            held = Some(latch.shared());
                        }
                    }
                }
                drop(held);
            });
        }
        scope.spawn(|| {
            while started.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            let _guard = latch.exclusive();
            written.store(true, Ordering::SeqCst);
        });
    });
    assert!(!latch.is_held());
}
