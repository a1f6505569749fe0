//! Entries that are inserted together: as if one by one, however their run ends.

use super::*;

/// Accounts whose entries are inserted together, and what is in the index.
fn rows<P: PagedProfile>(bank: &mut Bank<P>, ids: &[i32]) -> Vec<RowId> {
    let create = |id: &i32| {
        let fill = |row: &mut RowMut<'_, Account>| {
            row.set(Account::ID, *id);
            row.set(Account::NAME, b"of a run");
        };
        bank.store.create(&bank.table, fill).unwrap()
    };
    ids.iter().map(create).collect()
}

fn insert_run<P: PagedProfile>(bank: &mut Bank<P>, ids: &[i32]) -> Result<(), Error> {
    let rows = rows(bank, ids);
    bank.store.insert_run(&bank.by_id, &rows, |at| ids[at])?;
    bank.store.insert_run(&bank.by_name, &rows, |_| b"of a run")
}

fn is_there<P: PagedProfile>(bank: &mut Bank<P>, id: i32) -> bool {
    bank.store.lookup(&bank.by_id, id).unwrap().is_some()
}

fn runs<P: PagedProfile>() {
    let disk = MemDisk::new();
    let mut bank = Bank::<P>::create(&disk, 0);
    let mut other = bank.session();
    // Two sessions take turns, whose keys lie between each other's.
    for round in 0..40 {
        for (bank, side) in [(&mut bank, 0), (&mut other, 50_000)] {
            let ids: Vec<_> = (0..150).map(|i| side + round * 1_000 + i).collect();
            bank.store.begin().unwrap();
            bank.store.begin_writes();
            insert_run(bank, &ids).unwrap();
            if round % 4 == 3 { bank.store.abort() } else { bank.store.commit() }.unwrap();
        }
    }
    assert_eq!(bank.sum().0, 2 * 30 * 150);
    bank.store.begin().unwrap();
    for (round, i) in (0..40).flat_map(|round| [0, 63, 64, 149].map(|i| (round, i))) {
        assert_eq!(is_there(&mut bank, round * 1_000 + i), round % 4 != 3, "{round} {i}");
    }
    // A run that meets a key which is there has inserted those before it, and goes back with its transaction.
    bank.store.begin_writes();
    let ids = [900_001, 900_002, 5, 900_003];
    let rows = rows(&mut bank, &ids);
    let refused = bank.store.insert_run(&bank.by_id, &rows, |at| ids[at]);
    assert!(matches!(refused, Err(Error::Duplicate { .. })), "{refused:?}");
    assert_eq!(ids.map(|id| is_there(&mut bank, id)), [true, true, true, false]);
    bank.store.abort().unwrap();
    bank.store.begin().unwrap();
    assert_eq!(ids.map(|id| is_there(&mut bank, id)), [false, false, true, false]);
    bank.store.commit().unwrap();
    drop(other);
    assert_eq!(bank.store.check(), []);
}

#[test]
fn runs_are_as_if_inserted_one_by_one() {
    runs::<Conventional>();
    runs::<NoBtreeKeys>();
}

/// A session that has read a gap holds every part of it after its own run has divided it.
#[test]
fn a_run_into_a_gap_that_its_session_has_read_keeps_others_out() {
    let disk = MemDisk::new();
    let mut bank = Bank::<Conventional>::create_with(&disk, &impatient(), 10);
    let mut other = bank.session();
    bank.store.begin().unwrap();
    assert!(!is_there(&mut bank, 103));
    bank.store.begin_writes();
    let ids = [100, 102, 104, 106];
    let rows = rows(&mut bank, &ids);
    bank.store.insert_run(&bank.by_id, &rows, |at| ids[at]).unwrap();
    for id in [99, 101, 103, 105, 107] {
        assert_eq!(other.add(id), Err(Error::LockTimeout), "{id} would be in the gap");
    }
    assert!(!is_there(&mut bank, 103));
    bank.store.abort().unwrap();
    other.add(103).unwrap();
    drop(other);
    assert_eq!(bank.store.check(), []);
}
