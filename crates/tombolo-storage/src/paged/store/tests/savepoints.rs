//! Savepoints next to other sessions, and before a vote. Random ones: `crashes/`, and the library's model test.

use super::*;
use crate::owner::Owner;
use crate::plant::{self, Plant};

/// What a transaction found absent stays so, also if the entry below which it looked was its own and is gone.
#[test]
fn reads_behind_a_savepoint_stay_as_they_were() {
    let disk = MemDisk::new();
    let mut bank = Bank::<Conventional>::create_with(&disk, &impatient(), 0);
    bank.add(10).unwrap();
    bank.add(20).unwrap();
    let mut other = bank.session();
    bank.begin_writes();
    let savepoint = bank.store.savepoint();
    bank.add_row(15).unwrap();
    assert_eq!(bank.store.lookup(&bank.by_id, 12), Ok(None));
    assert_eq!(bank.store.back_to(savepoint), Ok(true));
    assert_eq!(other.add(12), Err(Error::LockTimeout));
    assert_eq!(bank.store.lookup(&bank.by_id, 15), Ok(None));
    // What no transaction looked for is free.
    other.add(25).unwrap();
    bank.add_row(12).unwrap();
    bank.store.commit().unwrap();
    assert_eq!(other.sum(), (4, 4 * START));
    assert_eq!(bank.store.check(), []);
}

#[test]
fn a_gap_of_its_own_that_is_not_handed_on_is_noticed() {
    let test =
        || plant::with(Plant::OwnGapsNotHandedOn, reads_behind_a_savepoint_stay_as_they_were);
    assert!(catch_unwind(test).is_err());
}

/// The locks of what was changed behind a savepoint stay, too; deletions are none any more.
#[test]
fn rows_that_were_changed_behind_a_savepoint_stay_locked() {
    let mut bank = Bank::<Conventional>::create_with(&MemDisk::new(), &impatient(), 10);
    let mut other = bank.session();
    bank.begin_writes();
    bank.remove_row(1);
    let savepoint = bank.store.savepoint();
    bank.remove_row(2);
    bank.move_row(3, 30);
    assert_eq!(bank.store.back_to(savepoint), Ok(false), "it had made no row");
    assert_eq!(other.transfer(2, 4, 5), Err(Error::LockTimeout));
    assert_eq!(other.transfer(4, 5, 5), Ok(()));
    bank.store.commit().unwrap();
    assert_eq!(other.transfer(2, 3, 5), Ok(()));
    assert_eq!(other.sum(), (9, 9 * START));
    assert_eq!(bank.store.check(), []);
}

/// One that went back to its beginning has changed nothing, and there is nothing to decide.
#[test]
fn a_transaction_that_undid_all_votes_that_it_only_read() {
    let mut bank = Bank::<Conventional>::create(&MemDisk::new(), 10);
    for undoes in [true, false] {
        bank.begin_writes();
        bank.remove_row(1);
        if undoes {
            assert_eq!(bank.store.back_to(Savepoint::BEGINNING), Ok(false));
        }
        assert_eq!(bank.store.has_changed(), !undoes);
        let vote = bank.store.prepare(Owner::new(1)).unwrap();
        assert_eq!(vote, if undoes { Vote::ReadOnly } else { Vote::Prepared });
    }
    bank.store.decide(Owner::new(1), Decision::Abort).unwrap();
    assert_eq!(bank.sum(), (10, 10 * START));
    assert_eq!(bank.store.check(), []);
}
