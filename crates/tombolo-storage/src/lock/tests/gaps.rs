//! Gaps: S at any time, IX for an instant, what becomes of S where a gap vanishes, escalation.

use super::super::{IfLocks, Reads};
use super::*;
use crate::latch::Unlatched;
use crate::memory::test_random::Random;
use crate::plant::{self, Plant};
use std::collections::{BTreeMap, BTreeSet};

const TABLE: u16 = 1;
const INDEX: u16 = 2;

/// The gap below the `n`th entry.
fn gap(n: u16) -> LockName {
    LockName::gap(INDEX, 1 + u64::from(n))
}

fn read<K: Locking>(locks: &K, held: &mut K::Held, gap: LockName) {
    locks.lock_gap(held, TABLE, gap).unwrap();
}

/// Whether the session may insert below row 90, where it would be row `n`.
fn enters<K: Locking>(locks: &K, held: &mut K::Held, n: u16) -> bool {
    locks.enter_gap(held, TABLE, gap(90), gap(n)).unwrap()
}

#[test]
fn a_gap_is_entered_where_no_other_transaction_reads_it() {
    let locks = Hierarchical::<Unlatched>::new(SMALL);
    let (mut first, mut second) = (begin(&locks, 1), begin(&locks, 2));
    assert!(!locks.has_gap_locks() && enters(&locks, &mut first, 10));
    assert!(first.is_empty(), "to enter is not to hold");
    read(&locks, &mut first, gap(90));
    read(&locks, &mut first, gap(90));
    assert!(locks.has_gap_locks() && first.len() == 1);
    assert!(!enters(&locks, &mut second, 11));
    assert_eq!(locks.wait_for_gap(&mut second, gap(90)), Err(LockError::Unavailable));
    // Its own reader enters, and reads both parts then.
    assert!(enters(&locks, &mut first, 12));
    assert!(
        locks.is_gap_locked(&second, gap(12), Reads::OfOthers)
            && !locks.is_gap_locked(&first, gap(12), Reads::OfOthers)
    );
    read(&locks, &mut second, gap(90));
    assert!(!enters(&locks, &mut first, 13), "another one reads it now");
    locks.release_all(&mut first);
    assert!(
        !locks.is_gap_locked(&second, gap(12), Reads::OfOthers) && enters(&locks, &mut second, 14)
    );
    end(&locks, [first, second]);
    assert!(!locks.has_gap_locks());
}

#[test]
fn what_others_hold_on_a_gap_that_vanishes_is_handed_on() {
    let locks = Hierarchical::<Unlatched>::new(SMALL);
    let mut all: Vec<_> = (0..4).map(|rank| begin(&locks, rank)).collect();
    // 0 reads both, 1 the one that vanishes, 2 the one above, 3 the one that vanishes and takes it away.
    for (session, n) in [(0, 10), (0, 90), (1, 10), (2, 90), (3, 10)] {
        read(&locks, &mut all[session], gap(n));
    }
    locks.hand_on_gap(&all[3], gap(10), gap(90), Reads::OfOthers);
    assert_eq!(locks.check(&all.iter().collect::<Vec<_>>()), []);
    locks.release_all(&mut all[3]);
    locks.release_all(&mut all[0]);
    assert!(!locks.is_gap_locked(&all[3], gap(10), Reads::OfOthers));
    locks.release_all(&mut all[2]);
    assert!(locks.is_gap_locked(&all[3], gap(90), Reads::OfOthers), "session 1 has it by now");
    // It reads that gap itself: it has it. It reads a new gap with the old one's name: it has it not.
    for n in [90, 10] {
        read(&locks, &mut all[1], gap(n));
        assert!(locks.is_gap_locked(&all[3], gap(n), Reads::OfOthers));
    }
    assert_eq!(locks.check(&all.iter().collect::<Vec<_>>()), []);
    locks.hand_on_gap(&all[3], gap(10), LockName::gap(INDEX, 0), Reads::OfOthers);
    locks.hand_on_gap(&all[3], gap(90), gap(91), Reads::OfOthers);
    end(&locks, all);
    assert!(!locks.has_gap_locks());
}

#[test]
fn one_that_waits_enters_when_the_last_reader_ends_and_looks_again_when_its_gap_vanishes() {
    let locks = Hierarchical::<Latched>::new(SMALL);
    for vanishes in [false, true] {
        let (mut reader, mut writer) = (begin(&locks, 1), begin(&locks, 2));
        let mut other = begin(&locks, 3);
        read(&locks, &mut reader, gap(90));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| locks.wait_for_gap(&mut writer, gap(90)));
            locks.until_one_waits();
            // Readers do not wait for it.
            read(&locks, &mut other, gap(90));
            locks.release_all(&mut other);
            match vanishes {
                true => locks.hand_on_gap(&other, gap(90), gap(91), Reads::OfOthers),
                false => locks.release_all(&mut reader),
            }
            assert_eq!(waits.join().unwrap(), Ok(()));
        });
        assert!(writer.is_empty());
        assert_eq!(locks.is_gap_locked(&writer, gap(91), Reads::OfOthers), vanishes);
        end(&locks, [reader, writer, other]);
    }
}

#[test]
fn two_readers_that_insert_wait_in_a_circle_and_the_younger_gives_way() {
    let locks = Hierarchical::<Latched>::new(SMALL);
    let (mut older, mut younger) = (begin(&locks, 1), begin(&locks, 2));
    read(&locks, &mut older, gap(90));
    read(&locks, &mut younger, gap(90));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| locks.wait_for_gap(&mut older, gap(90)));
        locks.until_one_waits();
        assert_eq!(locks.wait_for_gap(&mut younger, gap(90)), Err(LockError::Deadlock));
        locks.release_all(&mut younger);
        assert_eq!(waits.join().unwrap(), Ok(()));
    });
    assert!(enters(&locks, &mut older, 10));
    end(&locks, [older, younger]);
}

/// The circle is closed by what is handed on: both wait already, one of them for what the other is given.
#[test]
fn a_circle_closed_by_handing_on_is_found() {
    let locks = Hierarchical::<Latched>::new(SMALL);
    let (mut older, mut younger) = (begin(&locks, 1), begin(&locks, 2));
    let (mut third, leaving) = (begin(&locks, 3), begin(&locks, 4));
    read(&locks, &mut third, gap(90));
    read(&locks, &mut younger, gap(10));
    locks.lock_row(&mut older, TABLE, row(7, 5), Mode::Exclusive).unwrap();
    std::thread::scope(|scope| {
        let enters = scope.spawn(|| {
            // Looks again as often as it is let in.
            while !enters(&locks, &mut older, 10) {
                locks.wait_for_gap(&mut older, gap(90))?;
            }
            locks.release_all(&mut older);
            Ok(())
        });
        locks.until_one_waits();
        let locked = scope.spawn(|| {
            let locked = locks.lock_row(&mut younger, TABLE, row(7, 5), Mode::Shared);
            locks.release_all(&mut younger);
            locked
        });
        locks.until_waiting(2);
        locks.hand_on_gap(&leaving, gap(10), gap(90), Reads::OfOthers);
        locks.release_all(&mut third);
        assert_eq!(enters.join().unwrap(), Ok::<(), LockError>(()));
        assert_eq!(locked.join().unwrap(), Err(LockError::Deadlock));
    });
    end(&locks, [older, younger, third, leaving]);
}

#[test]
fn many_gaps_become_a_lock_on_the_table() {
    let settings = LockSettings { rows_per_page_max: 4, pages_per_store_max: 3, ..SMALL };
    let locks = Hierarchical::<Unlatched>::new(settings);
    let (mut held, mut other) = (begin(&locks, 1), begin(&locks, 2));
    locks.lock_row(&mut held, TABLE, row(7, 1), Mode::Shared).unwrap();
    locks.lock_gap(&mut held, 30, LockName::gap(31, 0)).unwrap();
    for n in 0..10 {
        read(&locks, &mut held, gap(n));
        assert_eq!(held.len(), 4 + usize::from(n) + 1, "store, page, row, the other index's gap");
    }
    read(&locks, &mut held, gap(10));
    assert_eq!(held.mode_of(LockName::store(TABLE)), Some(Mode::Shared));
    assert_eq!(held.len(), 2, "what the table covers is released");
    read(&locks, &mut held, gap(20));
    assert!(held.len() == 2 && !locks.is_gap_locked(&other, gap(5), Reads::OfOthers));
    let refused = locks.lock_row(&mut other, TABLE, row(7, 9), Mode::Exclusive);
    assert_eq!(refused, Err(LockError::Unavailable), "it excludes insertions of other sessions");
    end(&locks, [held, other]);
}

#[test]
fn a_full_table_has_room_for_the_lock_on_the_whole() {
    let settings = LockSettings { requests_max: 16, sessions_max: 2, ..SMALL };
    let locks = Hierarchical::<Unlatched>::new(settings);
    let (mut held, mut other) = (begin(&locks, 1), begin(&locks, 2));
    for n in 0..40 {
        read(&locks, &mut held, gap(n));
    }
    assert_eq!((held.len(), held.mode_of(LockName::store(TABLE))), (1, Some(Mode::Shared)));
    locks.release_all(&mut held);
    // Not where another one changes the table.
    locks.lock_row(&mut other, TABLE, row(7, 9), Mode::Exclusive).unwrap();
    let full = (0..40).find_map(|n| locks.lock_gap(&mut held, TABLE, gap(n)).err());
    assert_eq!(full, Some(LockError::TableFull));
    end(&locks, [held, other]);
}

#[test]
fn a_row_that_was_read_may_be_changed_but_not_deleted() {
    let locks = Hierarchical::<Unlatched>::new(SMALL);
    let (mut reader, mut writer) = (begin(&locks, 1), begin(&locks, 2));
    let one = row(7, 1);
    let lock = |held: &mut HeldLocks, mode| locks.lock_row(held, TABLE, one, mode);
    lock(&mut reader, Mode::Shared).unwrap();
    assert_eq!(lock(&mut writer, Mode::SharedIntentionExclusive), Err(LockError::Unavailable));
    locks.lower_row(&mut reader, one);
    lock(&mut writer, Mode::SharedIntentionExclusive).unwrap();
    assert_eq!(lock(&mut reader, Mode::Shared), Err(LockError::Unavailable));
    assert_eq!(lock(&mut writer, Mode::Exclusive), Err(LockError::Unavailable));
    locks.lower_row(&mut writer, one);
    assert_eq!(writer.mode_of(LockName::row(one)), Some(Mode::SharedIntentionExclusive));
    locks.release_all(&mut reader);
    lock(&mut writer, Mode::Exclusive).unwrap();
    end(&locks, [reader, writer]);
}

#[test]
fn switched_off_locks_lock_no_gaps() {
    let locks = IfLocks::<Unlatched>::new(SMALL);
    let mut held = begin(&locks, 1);
    read(&locks, &mut held, gap(1));
    locks.announce_gaps(&mut held);
    assert!(held.is_empty() && !locks.has_gap_locks());
    locks.switch(true);
    read(&locks, &mut held, gap(1));
    assert!(held.len() == 1 && locks.has_gap_locks());
    locks.switch(false);
    end(&locks, [held]);
}

#[test]
#[should_panic(expected = "was read")]
fn a_gap_that_is_entered_while_it_is_read_is_noticed() {
    let model = what_was_absent_stays_locked_whatever_comes_and_goes_around_it;
    plant::with(Plant::GapEnteredAnyway, model);
}

/// An index as a set of numbers, and which session's reading covers which number: each number that is not in
/// the index keeps its readers whatever is inserted and removed around it.
#[test]
fn what_was_absent_stays_locked_whatever_comes_and_goes_around_it() {
    const SESSIONS: u64 = 4;
    const NUMBERS: u64 = 24;
    let locks = Hierarchical::<Unlatched>::new(SMALL);
    let mut random = Random::new(29);
    let mut sessions: Vec<_> = (0..SESSIONS).map(|rank| begin(&locks, rank)).collect();
    let mut index: BTreeSet<u64> = (0..NUMBERS).step_by(3).collect();
    let mut read: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    let name = |n: Option<u64>| LockName::gap(INDEX, n.map_or(0, |n| 1 + n));
    let (mut entered, mut refused, mut handed_on) = (0, 0, 0);
    for step in 0..30_000 {
        let (own, n) = (random.below(SESSIONS) as usize, random.below(NUMBERS));
        let above = index.range(n + 1..).next().copied();
        match (random.below(20), index.contains(&n)) {
            (0..=2, _) => {
                locks.release_all(&mut sessions[own]);
                locks.begin(&mut sessions[own], step);
                read.values_mut().for_each(|readers| {
                    readers.remove(&own);
                });
            }
            (3..=8, false) => {
                locks.lock_gap(&mut sessions[own], TABLE, name(above)).unwrap();
                read.entry(n).or_default().insert(own);
            }
            (_, false) => {
                let gaps = (name(above), name(Some(n)));
                if locks.enter_gap(&mut sessions[own], TABLE, gaps.0, gaps.1).unwrap() {
                    let readers = read.remove(&n).unwrap_or_default();
                    assert!(readers.iter().all(|reader| *reader == own), "{n} was read");
                    index.insert(n);
                    entered += 1;
                } else {
                    refused += 1;
                }
            }
            (3..=6, true) => {
                // What removes it goes on, or ends; here with all it read.
                let goes_on = random.below(3) == 0;
                let reads = if goes_on { Reads::All } else { Reads::OfOthers };
                if !goes_on {
                    locks.release_all(&mut sessions[own]);
                    locks.begin(&mut sessions[own], step);
                    read.values_mut().for_each(|readers| {
                        readers.remove(&own);
                    });
                }
                index.remove(&n);
                handed_on += u64::from(locks.is_gap_locked(&sessions[own], name(Some(n)), reads));
                locks.hand_on_gap(&sessions[own], name(Some(n)), name(above), reads);
            }
            (_, true) => {}
        }
        for (n, readers) in &read {
            let above = index.range(n + 1..).next().copied();
            for reader in readers {
                let other = (reader + 1) % SESSIONS as usize;
                assert!(
                    locks.is_gap_locked(&sessions[other], name(above), Reads::OfOthers),
                    "step {step}: {n}"
                );
            }
        }
        if step % 100 == 0 {
            assert_eq!(locks.check(&sessions.iter().collect::<Vec<_>>()), []);
        }
    }
    assert!(
        entered > 1_000 && refused > 1_000 && handed_on > 100,
        "{entered} {refused} {handed_on}"
    );
    end(&locks, sessions);
}
