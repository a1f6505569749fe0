//! Checkpoints: how far they let the log go, and what holds it back.

use super::*;
use crate::log::read_log;

fn log_begins_at(disk: &MemDisk) -> u64 {
    read_log(disk, 0, |_, _| ()).unwrap().base
}

#[test]
fn a_transaction_that_writes_holds_the_log_back() {
    let disk = MemDisk::new();
    let mut bank = Bank::<Conventional>::create(&disk, 500);
    let checkpoint = |bank: &Bank<Conventional>| bank.store.checkpoint().unwrap().unwrap();
    let young = checkpoint(&bank);
    assert!(young.dirty_pages > 5 && young.needed == 8, "{young:?}");
    let first = checkpoint(&bank);
    assert_eq!((first.dirty_pages, first.needed), (0, first.began), "{first:?}");
    let mut other = bank.session();
    other.store.begin().unwrap();
    other.store.begin_writes();
    (500..1_000).for_each(|id| bank.add(id).unwrap());
    let held = checkpoint(&bank);
    assert!(held.needed <= first.began + 8 && held.began > first.began, "{held:?}");
    assert_eq!(log_begins_at(&disk), held.needed);
    other.add_row(1_000).unwrap();
    other.store.abort().unwrap();
    let free = checkpoint(&bank);
    assert!(free.needed >= held.began, "{free:?}");
    assert_eq!(log_begins_at(&disk), free.needed);
    bank.store.begin().unwrap();
    let row = bank.find(3).unwrap();
    bank.store.commit().unwrap();
    assert!(row.location() > 0);
    assert_eq!(bank.sum(), (1_000, 1_000 * START));
}

/// A page is written once it has been dirty since before the last checkpoint; so the log that is kept ends up as
/// long as two of what lies between checkpoints, however often pages change.
#[test]
fn the_log_stays_short() {
    let disk = MemDisk::new();
    let settings = PagedSettings { checkpoint_log_bytes: 300_000, ..settings() };
    let mut store = PagedStore::<Conventional>::create(&disk, &settings).unwrap();
    store.create_table(TableDef::of::<Account>().with::<ById>().with::<ByName>()).unwrap();
    let mut bank = Bank::with(store);
    (0..100).for_each(|id| bank.add(id).unwrap());
    let mut checkpoints = Vec::new();
    for n in 0..6_000 {
        bank.transfer(n % 41, 41 + n % 59, 1).unwrap_or_else(|error| panic!("{n}: {error}"));
        if bank.store.checkpoint_due() {
            checkpoints.push(bank.store.checkpoint().unwrap().unwrap());
        }
    }
    assert!((3..30).contains(&checkpoints.len()), "{checkpoints:?}");
    for pair in checkpoints.windows(2) {
        assert!(pair[1].needed >= pair[0].began, "{pair:?}");
        assert!(pair[1].began - pair[0].began < 310_000, "{pair:?}");
    }
    assert_eq!(bank.sum(), (100, 100 * START));
    bank.store.close().unwrap();
}

#[test]
fn pages_that_are_written_at_the_end_have_no_checkpoints() {
    let bank = Bank::<NoDirectory>::create(&MemDisk::new(), 10);
    assert!(bank.store.checkpoint().unwrap().is_some());
    let bank = Bank::<Lattice00010>::create(&MemDisk::new(), 10);
    assert_eq!(bank.store.checkpoint().unwrap(), None);
}
