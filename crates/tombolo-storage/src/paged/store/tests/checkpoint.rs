//! Checkpoints: how far they let the log go, and what holds it back.

use super::*;
use crate::log::read_log;
use crate::log::record::END_BYTES;

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
    // The record of the first one lies between.
    let behind = first.began + END_BYTES as u64;
    assert!(held.needed <= behind + 8 && held.began > first.began, "{held:?}");
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

/// A caller that waits for each commit fills a block with each: what its files take counts, not its records.
#[test]
fn the_files_of_the_log_stay_short() {
    let disk = MemDisk::new();
    let settings = PagedSettings { checkpoint_log_bytes: 1 << 20, ..settings() };
    let mut bank = Bank::<Conventional>::create_with(&disk, &settings, 100);
    let (mut made, mut files_max) = (0, 0);
    for n in 0..4_000 {
        bank.transfer(n % 41, 41 + n % 59, 1).unwrap();
        if bank.store.checkpoint_due() {
            bank.store.checkpoint().unwrap().unwrap();
            made += 1;
        }
        files_max = files_max.max(bank.store.log_usage().file_bytes);
    }
    let usage = bank.store.log_usage();
    assert!(usage.flushed_bytes < 4 << 20, "{usage:?}");
    assert!((14..20).contains(&made) && files_max <= 8 << 20, "{made}, {files_max}: {usage:?}");
    // A restart counts what it found: the next one is due as if nothing had happened.
    let since = (0..).find(|_| {
        bank.transfer(1, 50, 1).unwrap();
        bank.store.checkpoint_due()
    });
    assert!(since.is_some_and(|since| since < 300), "{since:?}");
    let fault = Fault { operation: Operation::Write, after: 0, kind: std::io::ErrorKind::Other };
    disk.set_fault(Some(fault));
    drop(bank);
    disk.set_fault(None);
    let store = PagedStore::<Conventional>::open(&disk, &settings).unwrap();
    assert!(store.restart().is_some() && store.checkpoint_due());
}

/// A page is written once it has been dirty since before the last checkpoint; so the log that is kept ends up as
/// long as two of what lies between checkpoints, however often pages change.
#[test]
fn the_log_stays_short() {
    let disk = MemDisk::new();
    let settings = PagedSettings { checkpoint_log_bytes: 2 << 20, ..settings() };
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
        assert!(pair[1].began - pair[0].began < 160_000, "{pair:?}");
    }
    assert_eq!(bank.sum(), (100, 100 * START));
    bank.store.close().unwrap();
}

/// Of pages that changed since the log begins, redo reads those that the file lacked changes of at the last
/// checkpoint, and those that changed since.
#[test]
fn redo_reads_no_page_that_a_checkpoint_found_in_the_file() {
    let disk = MemDisk::new();
    let settings =
        PagedSettings { checkpoint_log_bytes: 4 << 20, pool_bytes: 128 << 10, ..settings() };
    let mut store = PagedStore::<Conventional>::create(&disk, &settings).unwrap();
    store.create_table(TableDef::of::<Account>().with::<ById>().with::<ByName>()).unwrap();
    let mut bank = Bank::with(store);
    (0..6_000).for_each(|id| bank.add(id).unwrap());
    let mut random = Random::new(3);
    let (mut made, mut old) = (0, bank.session());
    let mut left = 5;
    while left > 0 {
        left -= u32::from(made == 4);
        let [from, to] = [0, 3_000].map(|from| from + random.below(3_000) as i32);
        bank.transfer(from, to, 1).unwrap();
        if bank.store.checkpoint_due() {
            bank.store.checkpoint().unwrap().unwrap();
            made += 1;
        }
        if made == 2 && old.store.active().is_empty() {
            // It holds the log back, so that more of it is read.
            old.store.begin().unwrap();
            old.store.begin_writes();
            old.add_row(9_999).unwrap();
        }
    }
    let mut changed = std::collections::BTreeSet::new();
    read_log(&disk, 0, |_, record| changed.extend(record.page())).unwrap();
    // Nothing more is written.
    let (operation, kind) = (Operation::Write, std::io::ErrorKind::Other);
    disk.set_fault(Some(Fault { operation, after: 0, kind }));
    drop((old, bank));
    disk.set_fault(None);
    let mut store = PagedStore::<Conventional>::open(&disk, &settings).unwrap();
    let restart = store.restart().unwrap();
    // At most those in the 16 frames, two for each transfer since, and what the open transaction changed.
    let (changed, read) = (changed.len() as u64, restart.pages_redone);
    assert!(changed > 45 && read <= 16 + 2 * 5 + 3, "{read} of {changed} pages: {restart:?}");
    assert_eq!(store.check(), []);
    assert_eq!(Bank::with(store).sum(), (6_000, 6_000 * START));
}

#[test]
fn pages_that_are_written_at_the_end_have_no_checkpoints() {
    let bank = Bank::<NoDirectory>::create(&MemDisk::new(), 10);
    assert!(bank.store.checkpoint().unwrap().is_some());
    let bank = Bank::<Lattice00010>::create(&MemDisk::new(), 10);
    assert_eq!(bank.store.checkpoint().unwrap(), None);
}
