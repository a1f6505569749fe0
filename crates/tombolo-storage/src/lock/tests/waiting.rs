//! Transactions that wait: order, conversions, deadlocks, time-outs. A test continues when the lock
//! table shows a waiting request, never after some time.

use super::super::session::Verdict;
use super::*;
use crate::plant::{self, Plant};
use crate::store::Damage;
use Mode::{Exclusive as X, Shared as S};

type Locks = Hierarchical<Latched>;

const A: u32 = 1;
const B: u32 = 2;
const C: u32 = 3;

fn lock(locks: &Locks, held: &mut HeldLocks, page: u32, mode: Mode) -> Result<(), LockError> {
    locks.lock_row(held, 1, row(page, 0), mode)
}

/// Returns when `session` waits for a lock.
fn until_it_waits(locks: &Locks, session: u32) {
    while locks.table.sessions.get(session).waits_for().is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn first_come_first_served() {
    let locks = Locks::new(SMALL);
    let order = std::sync::Mutex::new(Vec::new());
    let mut first = begin(&locks, 1);
    lock(&locks, &mut first, A, X).unwrap();
    std::thread::scope(|scope| {
        let mut others: Vec<HeldLocks> = (2..5).map(|rank| begin(&locks, rank)).collect();
        let modes = [X, S, X];
        for (held, mode) in others.drain(..).zip(modes) {
            let session = held.session;
            let (locks, order) = (&locks, &order);
            scope.spawn(move || {
                let mut held = held;
                lock(locks, &mut held, A, mode).unwrap();
                order.lock().unwrap().push(held.session);
                locks.release_all(&mut held);
                locks.close_session(held);
            });
            until_it_waits(locks, session);
        }
        assert_eq!(locks.check(&[]).iter().filter(|d| unexpected(d)).count(), 0);
        // A fourth may not overtake, even with a mode that the holder would allow.
        let mut fourth = begin(&locks, 9);
        let refused = locks.try_lock_row(&mut fourth, 1, row(A, 0), S);
        assert_eq!(refused, Err(LockError::Unavailable));
        locks.release_all(&mut fourth);
        locks.close_session(fourth);
        locks.release_all(&mut first);
    });
    assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
    end(&locks, [first]);
}

/// `check` without the sessions that other threads hold finds their locks unlisted, and nothing
/// else.
fn unexpected(damage: &Damage) -> bool {
    !damage.what.contains("does not list it") && !damage.what.contains("are queued")
}

#[test]
fn shared_locks_are_granted_together() {
    let locks = Locks::new(SMALL);
    let mut first = begin(&locks, 1);
    lock(&locks, &mut first, A, X).unwrap();
    let both_hold = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for rank in 2..4 {
            let mut held = begin(&locks, rank);
            let session = held.session;
            let (locks, both_hold) = (&locks, &both_hold);
            scope.spawn(move || {
                lock(locks, &mut held, A, S).unwrap();
                both_hold.wait();
                locks.release_all(&mut held);
                locks.close_session(held);
            });
            until_it_waits(locks, session);
        }
        locks.release_all(&mut first);
    });
    end(&locks, [first]);
}

#[test]
fn a_conversion_goes_before_new_requests() {
    let locks = Locks::new(SMALL);
    let (mut first, mut second) = (begin(&locks, 1), begin(&locks, 2));
    lock(&locks, &mut first, A, S).unwrap();
    lock(&locks, &mut second, A, S).unwrap();
    let order = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let mut third = begin(&locks, 3);
        let (third_session, first_session) = (third.session, first.session);
        let (locks, order, first) = (&locks, &order, &mut first);
        scope.spawn(move || {
            lock(locks, &mut third, A, X).unwrap();
            order.lock().unwrap().push("new");
            locks.release_all(&mut third);
            locks.close_session(third);
        });
        until_it_waits(locks, third_session);
        scope.spawn(move || {
            lock(locks, first, A, X).unwrap();
            order.lock().unwrap().push("conversion");
            locks.release_all(first);
        });
        until_it_waits(locks, first_session);
        locks.release_all(&mut second);
    });
    assert_eq!(*order.lock().unwrap(), ["conversion", "new"]);
    end(&locks, [first, second]);
}

#[test]
#[should_panic(expected = "it still waits")]
fn a_conversion_that_gives_up_and_lets_none_in_is_noticed() {
    plant::with(Plant::CancelGrantsNone, a_conversion_that_gives_up_lets_others_in);
}

/// A request that waits behind a conversion only is granted when the conversion gives up.
#[test]
fn a_conversion_that_gives_up_lets_others_in() {
    let locks = Locks::new(SMALL);
    let (mut first, mut second) = (begin(&locks, 1), begin(&locks, 2));
    lock(&locks, &mut first, A, S).unwrap();
    lock(&locks, &mut second, A, S).unwrap();
    let mut third = begin(&locks, 3);
    let (converting, new) = (second.session, third.session);
    std::thread::scope(|scope| {
        let (locks, second) = (&locks, &mut second);
        let converts = scope.spawn(move || lock(locks, second, A, X));
        until_it_waits(locks, converting);
        let third = &mut third;
        let shares = scope.spawn(move || lock(locks, third, A, S));
        until_it_waits(locks, new);
        let name = locks.table.sessions.get(converting).waits_for().unwrap();
        assert!(locks.table.cancel(converting, name, Some(Verdict::Deadlock)));
        // At once, not when a lock is released or the wait has lasted too long.
        assert_eq!(locks.table.sessions.get(new).waits_for(), None, "it still waits");
        assert_eq!(shares.join().unwrap(), Ok(()));
        assert_eq!(converts.join().unwrap(), Err(LockError::Deadlock));
    });
    end(&locks, [first, second, third]);
}

/// A conversion that still waits still holds up new requests, even those that the granted locks
/// would allow.
#[test]
fn new_requests_wait_as_long_as_a_conversion_does() {
    let locks = Locks::new(SMALL);
    let mut holders: Vec<HeldLocks> = (1..4).map(|rank| begin(&locks, rank)).collect();
    for held in &mut holders {
        locks.lock_store(held, 1, Mode::IntentionExclusive).unwrap();
    }
    std::thread::scope(|scope| {
        let mut new = begin(&locks, 9);
        let (locks, new_session) = (&locks, new.session);
        let (converting, others) = holders.split_first_mut().unwrap();
        let converting_session = converting.session;
        scope.spawn(move || {
            locks.lock_store(converting, 1, S).unwrap();
            locks.release_all(converting);
        });
        until_it_waits(locks, converting_session);
        scope.spawn(move || {
            locks.lock_store(&mut new, 1, Mode::IntentionExclusive).unwrap();
            locks.release_all(&mut new);
            locks.close_session(new);
        });
        until_it_waits(locks, new_session);
        locks.release_all(&mut others[0]);
        for session in [converting_session, new_session] {
            assert!(locks.table.sessions.get(session).waits_for().is_some());
        }
        locks.release_all(&mut others[1]);
    });
    end(&locks, holders);
}

/// Each transaction of the given age rank locks its own row and then its neighbour's; all hold the
/// first before any asks for the second, and they ask in the order of the ranks given. Returns the
/// ranks of the victims.
fn circle(ranks: &[u64]) -> Vec<u64> {
    let locks = Locks::new(SMALL);
    let pages = [A, B, C];
    let mut sessions: Vec<HeldLocks> = ranks.iter().map(|rank| begin(&locks, *rank)).collect();
    for (held, page) in sessions.iter_mut().zip(pages) {
        lock(&locks, held, page, X).unwrap();
    }
    let victims = std::sync::Mutex::new(Vec::new());
    let last = ranks.len() - 1;
    std::thread::scope(|scope| {
        for (i, held) in sessions.iter_mut().enumerate() {
            let (session, next) = (held.session, pages[(i + 1) % ranks.len()]);
            let (locks, victims) = (&locks, &victims);
            scope.spawn(move || {
                match lock(locks, held, next, X) {
                    Ok(()) => {}
                    Err(LockError::Deadlock) => victims.lock().unwrap().push(ranks[i]),
                    Err(error) => panic!("{error}"),
                }
                locks.release_all(held);
            });
            if i != last {
                until_it_waits(locks, session);
            }
        }
    });
    end(&locks, sessions);
    victims.into_inner().unwrap()
}

#[test]
fn of_two_in_a_deadlock_the_younger_gives_way() {
    assert_eq!(circle(&[1, 2]), [2]);
    assert_eq!(circle(&[2, 1]), [2]);
}

#[test]
fn of_three_in_a_deadlock_the_youngest_gives_way() {
    for ranks in [[1, 2, 3], [3, 1, 2], [2, 3, 1], [3, 2, 1]] {
        assert_eq!(circle(&ranks), [3], "{ranks:?}");
    }
}

#[test]
fn two_conversions_of_one_lock_are_a_deadlock() {
    for (one, other) in [(1, 2), (2, 1)] {
        let locks = Locks::new(SMALL);
        let (mut first, mut second) = (begin(&locks, one), begin(&locks, other));
        lock(&locks, &mut first, A, S).unwrap();
        lock(&locks, &mut second, A, S).unwrap();
        let session = first.session;
        std::thread::scope(|scope| {
            let (locks, first) = (&locks, &mut first);
            let converted = scope.spawn(move || {
                let result = lock(locks, first, A, X);
                let kept = first.mode_of(LockName::row(row(A, 0)));
                locks.release_all(first);
                (result, kept)
            });
            until_it_waits(locks, session);
            let result = lock(locks, &mut second, A, X);
            let kept = second.mode_of(LockName::row(row(A, 0)));
            locks.release_all(&mut second);
            let results = [converted.join().unwrap(), (result, kept)];
            let younger = usize::from(other > one);
            assert_eq!(results[younger], (Err(LockError::Deadlock), Some(S)));
            assert_eq!(results[1 - younger], (Ok(()), Some(X)));
        });
        end(&locks, [first, second]);
    }
}

/// The older waits behind a transaction that itself only waits: the circle goes through a place in
/// a queue, not through a lock that is held.
#[test]
fn a_deadlock_through_a_queue_is_found() {
    let locks = Locks::new(SMALL);
    let (mut first, mut second, mut third) = (begin(&locks, 1), begin(&locks, 2), begin(&locks, 3));
    lock(&locks, &mut first, A, S).unwrap();
    lock(&locks, &mut third, B, X).unwrap();
    std::thread::scope(|scope| {
        let sessions = (second.session, third.session);
        let (locks, second, third) = (&locks, &mut second, &mut third);
        // The second waits for the first; the third, which could share with the first, waits behind
        // the second; the first then waits for the third.
        let second = scope.spawn(move || {
            let result = lock(locks, second, A, X);
            locks.release_all(second);
            result
        });
        until_it_waits(locks, sessions.0);
        let third = scope.spawn(move || {
            let result = lock(locks, third, A, S);
            locks.release_all(third);
            result
        });
        until_it_waits(locks, sessions.1);
        assert_eq!(lock(locks, &mut first, B, X), Ok(()));
        locks.release_all(&mut first);
        assert_eq!(second.join().unwrap(), Ok(()));
        assert_eq!(third.join().unwrap(), Err(LockError::Deadlock));
    });
    end(&locks, [first, second, third]);
}

/// What waited behind a conversion that is given up is granted, if what is held allows it.
#[test]
fn a_conversion_that_is_given_up_lets_others_go_on() {
    let locks = Locks::new(LockSettings { wait_intervals_max: 30, ..SMALL });
    let (mut first, mut second, mut third) = (begin(&locks, 1), begin(&locks, 2), begin(&locks, 3));
    lock(&locks, &mut first, A, S).unwrap();
    lock(&locks, &mut second, A, S).unwrap();
    std::thread::scope(|scope| {
        let (converting, new) = (second.session, third.session);
        let (locks, second, third) = (&locks, &mut second, &mut third);
        let second = scope.spawn(move || lock(locks, second, A, X));
        until_it_waits(locks, converting);
        let third = scope.spawn(move || lock(locks, third, A, S));
        until_it_waits(locks, new);
        let name = LockName::row(row(A, 0));
        assert!(locks.table.cancel(converting, name, Some(Verdict::Deadlock)));
        assert_eq!(second.join().unwrap(), Err(LockError::Deadlock));
        assert_eq!(third.join().unwrap(), Ok(()));
    });
    end(&locks, [first, second, third]);
}

#[test]
fn a_wait_ends_after_the_intervals_allowed() {
    let locks = Locks::new(LockSettings { wait_interval_ms: 1, wait_intervals_max: 3, ..SMALL });
    let (mut first, mut second) = (begin(&locks, 1), begin(&locks, 2));
    lock(&locks, &mut first, A, X).unwrap();
    assert_eq!(lock(&locks, &mut second, A, S), Err(LockError::TimedOut));
    assert_eq!(second.mode_of(LockName::row(row(A, 0))), None);
    // A conversion that is given up stays what it was.
    lock(&locks, &mut first, B, S).unwrap();
    lock(&locks, &mut second, B, S).unwrap();
    assert_eq!(lock(&locks, &mut second, B, X), Err(LockError::TimedOut));
    assert_eq!(second.mode_of(LockName::row(row(B, 0))), Some(S));
    lock(&locks, &mut second, C, X).unwrap();
    end(&locks, [first, second]);
}
