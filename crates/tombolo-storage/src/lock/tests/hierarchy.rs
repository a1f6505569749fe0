//! Intentions, what covers what, escalation, limits: one thread, no waiting.

use super::super::IfLocks;
use super::*;
use crate::latch::Unlatched;
use Mode::{
    Exclusive as X, IntentionExclusive as IX, IntentionShared as IS, Shared as S,
    SharedIntentionExclusive as SIX,
};

type Locks = Hierarchical<Unlatched>;

fn modes<const N: usize>(held: &HeldLocks, names: [LockName; N]) -> [Option<Mode>; N] {
    names.map(|name| held.mode_of(name))
}

const NAMES: fn(u16, u32, u16) -> [LockName; 3] = |store, page, slot| {
    [LockName::store(store), LockName::page(store, page), LockName::row(row(page, slot))]
};

#[test]
fn a_row_lock_stands_on_intentions() {
    let locks = Locks::new(SMALL);
    let mut held = begin(&locks, 1);
    locks.lock_row(&mut held, 1, row(10, 1), S).unwrap();
    assert_eq!(modes(&held, NAMES(1, 10, 1)), [Some(IS), Some(IS), Some(S)]);
    locks.lock_row(&mut held, 1, row(10, 2), X).unwrap();
    assert_eq!(modes(&held, NAMES(1, 10, 2)), [Some(IX), Some(IX), Some(X)]);
    locks.lock_row(&mut held, 1, row(11, 1), S).unwrap();
    assert_eq!(modes(&held, NAMES(1, 11, 1)), [Some(IX), Some(IS), Some(S)]);
    // Read, then changed: all three are converted or stay.
    locks.lock_row(&mut held, 1, row(11, 1), X).unwrap();
    assert_eq!(modes(&held, NAMES(1, 11, 1)), [Some(IX), Some(IX), Some(X)]);
    assert_eq!(held.len(), 6);
    end(&locks, [held]);
}

#[test]
fn what_is_held_is_not_locked_again() {
    let locks = Locks::new(SMALL);
    let mut held = begin(&locks, 1);
    for _ in 0..3 {
        locks.lock_row(&mut held, 1, row(10, 1), X).unwrap();
        locks.lock_row(&mut held, 1, row(10, 1), S).unwrap();
        locks.lock_page(&mut held, 1, 10, IS).unwrap();
        locks.lock_store(&mut held, 1, IX).unwrap();
    }
    assert_eq!((held.len(), modes(&held, NAMES(1, 10, 1))), (3, [Some(IX), Some(IX), Some(X)]));
    end(&locks, [held]);
}

#[test]
fn a_lock_above_covers_what_is_below() {
    let locks = Locks::new(SMALL);
    let mut held = begin(&locks, 1);
    locks.lock_page(&mut held, 1, 10, S).unwrap();
    locks.lock_row(&mut held, 1, row(10, 1), S).unwrap();
    assert_eq!(modes(&held, NAMES(1, 10, 1)), [Some(IS), Some(S), None]);
    locks.lock_row(&mut held, 1, row(10, 1), X).unwrap();
    assert_eq!(modes(&held, NAMES(1, 10, 1)), [Some(IX), Some(SIX), Some(X)]);
    locks.lock_store(&mut held, 2, X).unwrap();
    locks.lock_page(&mut held, 2, 20, X).unwrap();
    locks.lock_row(&mut held, 2, row(21, 1), X).unwrap();
    locks.lock_store(&mut held, 3, S).unwrap();
    locks.lock_row(&mut held, 3, row(30, 1), S).unwrap();
    assert_eq!(held.len(), 5);
    locks.lock_row(&mut held, 3, row(30, 1), X).unwrap();
    assert_eq!(modes(&held, NAMES(3, 30, 1)), [Some(SIX), Some(IX), Some(X)]);
    end(&locks, [held]);
}

#[test]
fn what_cannot_be_granted_at_once_is_an_error_without_latches() {
    let locks = Locks::new(SMALL);
    let (mut first, mut second) = (begin(&locks, 1), begin(&locks, 2));
    locks.lock_row(&mut first, 1, row(10, 1), X).unwrap();
    let refused = Err(LockError::Unavailable);
    assert_eq!(locks.lock_row(&mut second, 1, row(10, 1), S), refused);
    assert_eq!(locks.lock_page(&mut second, 1, 10, S), refused);
    assert_eq!(locks.lock_store(&mut second, 1, S), refused);
    locks.lock_row(&mut second, 1, row(10, 2), S).unwrap();
    assert_eq!(locks.lock_page(&mut first, 1, 10, X), refused);
    assert_eq!(modes(&first, NAMES(1, 10, 1)), [Some(IX), Some(IX), Some(X)]);
    locks.release_all(&mut first);
    locks.lock_row(&mut second, 1, row(10, 1), X).unwrap();
    end(&locks, [first, second]);
}

#[test]
fn many_rows_of_a_page_become_a_lock_on_the_page() {
    let locks = Locks::new(LockSettings { rows_per_page_max: 4, ..SMALL });
    let mut held = begin(&locks, 1);
    for slot in 0..4 {
        locks.lock_row(&mut held, 1, row(10, slot), S).unwrap();
    }
    locks.lock_row(&mut held, 1, row(11, 0), S).unwrap();
    assert_eq!(held.len(), 2 + 4 + 2);
    locks.lock_row(&mut held, 1, row(10, 4), S).unwrap();
    assert_eq!(modes(&held, NAMES(1, 10, 0)), [Some(IS), Some(S), None]);
    assert_eq!(modes(&held, NAMES(1, 11, 0)), [Some(IS), Some(IS), Some(S)]);
    // Changing rows of a page that is read as a whole: again one by one, then the whole.
    for slot in 0..5 {
        locks.lock_row(&mut held, 1, row(10, slot), X).unwrap();
    }
    assert_eq!(modes(&held, NAMES(1, 10, 0)), [Some(IX), Some(X), None]);
    assert_eq!(held.len(), 4);
    end(&locks, [held]);
}

#[test]
fn many_pages_of_a_store_become_a_lock_on_the_store() {
    let locks = Locks::new(LockSettings { pages_per_store_max: 3, ..SMALL });
    let mut held = begin(&locks, 1);
    locks.lock_row(&mut held, 2, row(99, 0), X).unwrap();
    for page in 0..3 {
        locks.lock_row(&mut held, 1, row(page, 0), if page == 1 { X } else { S }).unwrap();
    }
    assert_eq!(held.len(), 3 + 1 + 6);
    locks.lock_row(&mut held, 1, row(3, 0), S).unwrap();
    assert_eq!(held.len(), 3 + 1);
    assert_eq!(held.mode_of(LockName::store(1)), Some(X));
    assert_eq!(modes(&held, NAMES(2, 99, 0)), [Some(IX), Some(IX), Some(X)]);
    end(&locks, [held]);
}

#[test]
fn where_others_are_in_the_way_escalation_is_put_off() {
    let locks = Locks::new(LockSettings { rows_per_page_max: 4, ..SMALL });
    let (mut held, mut other) = (begin(&locks, 1), begin(&locks, 2));
    locks.lock_row(&mut other, 1, row(10, 100), S).unwrap();
    let page = LockName::page(1, 10);
    for slot in 0..8 {
        locks.lock_row(&mut held, 1, row(10, slot), X).unwrap();
        assert_eq!(held.mode_of(page), Some(IX));
    }
    locks.release_all(&mut other);
    // It is tried after as many rows as the first time, not at every row.
    locks.lock_row(&mut held, 1, row(10, 8), X).unwrap();
    assert_eq!((held.len(), held.mode_of(page)), (11, Some(IX)));
    for slot in 9..12 {
        locks.lock_row(&mut held, 1, row(10, slot), X).unwrap();
    }
    assert_eq!((held.len(), held.mode_of(page)), (2, Some(X)));
    end(&locks, [held, other]);
}

#[test]
fn a_full_table_escalates_before_it_refuses() {
    let settings = LockSettings { requests_max: 12, sessions_max: 2, ..SMALL };
    let locks = Locks::new(settings);
    let mut held = begin(&locks, 1);
    for slot in 0..100 {
        locks.lock_row(&mut held, 1, row(10, slot), X).unwrap();
    }
    assert_eq!(held.mode_of(LockName::page(1, 10)), Some(X));
    let mut other = begin(&locks, 2);
    // One page per row, and this one's store cannot be locked as a whole.
    locks.lock_row(&mut other, 2, row(99, 0), S).unwrap();
    let filled = (0..100).find_map(|page| {
        let result = locks.lock_row(&mut held, 2, row(page, 0), X);
        result.err().map(|error| (page, error))
    });
    assert!(matches!(filled, Some((1..100, LockError::TableFull))), "{filled:?}");
    locks.release_all(&mut other);
    // Now it can.
    locks.lock_row(&mut held, 2, row(50, 0), X).unwrap();
    locks.lock_row(&mut held, 2, row(51, 0), X).unwrap();
    locks.lock_row(&mut held, 2, row(52, 0), X).unwrap();
    locks.lock_row(&mut held, 2, row(53, 0), X).unwrap();
    assert_eq!(held.mode_of(LockName::store(2)), Some(X));
    end(&locks, [held, other]);
}

#[test]
fn sessions_are_limited_and_come_back() {
    let locks = Locks::new(LockSettings { sessions_max: 2, ..SMALL });
    let (first, second) = (begin(&locks, 1), begin(&locks, 2));
    assert_eq!(locks.open_session().err(), Some(LockError::TooManySessions));
    locks.close_session(second);
    let third = begin(&locks, 3);
    end(&locks, [first, third]);
}

#[test]
fn surplus_requests_return_to_the_common_chain() {
    let locks = Locks::new(LockSettings { requests_max: 400, sessions_max: 4, ..SMALL });
    let mut held = begin(&locks, 1);
    for page in 0..150 {
        locks.lock_row(&mut held, 1, row(page, 0), X).unwrap();
    }
    assert_eq!(held.len(), 301);
    locks.release_all(&mut held);
    let mut other = begin(&locks, 2);
    for page in 0..150 {
        locks.lock_row(&mut other, 1, row(page, 0), X).unwrap();
    }
    end(&locks, [held, other]);
}

#[test]
fn locks_behind_an_if_are_off_until_switched_on() {
    let locks = IfLocks::<Unlatched>::new(SMALL);
    locks.switch(true);
    let (mut first, mut second) = (begin(&locks, 1), begin(&locks, 2));
    locks.lock_row(&mut first, 1, row(10, 1), X).unwrap();
    assert!(locks.try_lock_row(&mut second, 1, row(10, 1), X).is_err());
    locks.switch(false);
    locks.lock_row(&mut second, 1, row(10, 1), X).unwrap();
    assert_eq!(second.len(), 2, "the intentions it had before");
    locks.release_all(&mut first);
    assert!(first.is_empty());
    end(&locks, [first, second]);
}

#[test]
fn probes_count_what_was_granted() {
    use crate::probe::{self, Counter};
    let locks = Locks::new(SMALL);
    let mut held = begin(&locks, 1);
    probe::take();
    for slot in [1, 2, 1] {
        locks.lock_row(&mut held, 1, row(10, slot), X).unwrap();
    }
    let work = probe::take();
    let counted = [Counter::Locks, Counter::RowLocks, Counter::IntentionLocks, Counter::Latches];
    let expected = if probe::enabled() { [4, 2, 2, 0] } else { [0; 4] };
    assert_eq!(counted.map(|counter| work.get(counter)), expected);
    end(&locks, [held]);
}

#[test]
fn the_checker_finds_what_does_not_agree() {
    let locks = Locks::new(SMALL);
    let (mut held, other) = (begin(&locks, 1), begin(&locks, 2));
    locks.lock_row(&mut held, 1, row(10, 1), X).unwrap();
    let finds = |what: &str| {
        let damage = locks.check(&[&held, &other]);
        assert!(damage.iter().any(|damage| damage.what.contains(what)), "{what}: {damage:?}");
    };
    assert_eq!(locks.check(&[&held, &other]), []);
    // A wait without a request.
    locks.table.sessions.get(1).set_waits_for(Some(LockName::store(1)));
    finds("session 1 waits for another lock than it says");
    locks.table.sessions.get(1).set_waits_for(None);
    // A lock that is held and not in the table.
    let (name, id, _) = held.iter().last().unwrap();
    let chain = locks.table.chain(name);
    locks.table.release((name, id));
    finds("row 10.1: session 0 lists it as Exclusive, the table does not");
    finds("are queued");
    // A lock in the table that no session holds.
    locks.table.acquire(1, chain, (name, X, id), false);
    finds("row 10.1: granted to session 1, which does not list it");
    locks.table.release((name, id));
    locks.table.acquire(0, chain, (name, X, id), false);
    end(&locks, [held, other]);
}

/// Ends the transaction of a session and begins its next one.
fn next(locks: &Locks, held: &mut HeldLocks) {
    locks.release_all(held);
    assert!(held.is_empty());
    locks.begin(held, 1);
}

#[test]
fn the_next_transaction_inherits_the_intentions_on_stores() {
    let locks = Locks::new(SMALL);
    let mut held = begin(&locks, 1);
    crate::probe::take();
    for inherited in [0, 2, 2] {
        locks.lock_row(&mut held, 1, row(10, 1), X).unwrap();
        locks.lock_row(&mut held, 2, row(20, 1), S).unwrap();
        assert_eq!(modes(&held, NAMES(1, 10, 1)), [Some(IX), Some(IX), Some(X)]);
        assert_eq!(held.len(), 6, "{inherited}");
        assert_eq!(locks.check(&[&held]), []);
        let work = crate::probe::take();
        let counts = [crate::probe::Counter::Locks, crate::probe::Counter::InheritedLocks];
        if crate::probe::enabled() {
            assert_eq!(counts.map(|counter| work.get(counter)), [6, inherited]);
        }
        next(&locks, &mut held);
        assert_eq!(held.kept().count(), 2);
        assert_eq!(locks.check(&[&held]), []);
    }
    // What is only read is locked for reading only, whatever the transaction before did.
    locks.lock_row(&mut held, 1, row(10, 1), S).unwrap();
    assert_eq!(modes(&held, NAMES(1, 10, 1)), [Some(IS), Some(IS), Some(S)]);
    locks.lock_store(&mut held, 1, S).unwrap();
    let mut other = begin(&locks, 2);
    locks.lock_store(&mut other, 1, S).unwrap();
    locks.lock_row(&mut held, 2, row(20, 1), X).unwrap();
    assert_eq!(modes(&held, NAMES(2, 20, 1)), [Some(IX), Some(IX), Some(X)]);
    end(&locks, [held, other]);
}

#[test]
fn a_session_that_a_kept_lock_excludes_takes_it_out() {
    let locks = Locks::new(SMALL);
    let (mut first, mut second) = (begin(&locks, 1), begin(&locks, 2));
    locks.lock_row(&mut first, 1, row(10, 1), X).unwrap();
    let refused = Err(LockError::Unavailable);
    assert_eq!(locks.lock_store(&mut second, 1, S), refused);
    // It was asked for, so it is not kept.
    next(&locks, &mut first);
    assert_eq!(first.kept().count(), 0);
    locks.lock_row(&mut first, 1, row(10, 1), X).unwrap();
    next(&locks, &mut first);
    assert_eq!(first.kept().count(), 1);
    locks.lock_store(&mut second, 1, X).unwrap();
    assert_eq!(locks.check(&[&first, &second]), []);
    assert_eq!(locks.lock_row(&mut first, 1, row(10, 1), S), refused);
    locks.release_all(&mut second);
    locks.lock_row(&mut first, 1, row(10, 1), S).unwrap();
    assert_eq!(modes(&first, NAMES(1, 10, 1)), [Some(IS), Some(IS), Some(S)]);
    // A conversion takes out the others' as well.
    locks.begin(&mut second, 3);
    locks.lock_row(&mut second, 1, row(11, 1), X).unwrap();
    next(&locks, &mut second);
    locks.lock_store(&mut first, 1, X).unwrap();
    assert_eq!(second.kept().count(), 1, "it is not informed");
    end(&locks, [first, second]);
}
