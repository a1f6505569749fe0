//! Full disks, room that is kept, pages without an owner.

use super::*;
use crate::dynamic::DynamicTable;
use crate::paged::page::{PageKind, StoreId};
use crate::schema::ColumnDef;
use crate::types::{Integer, Text};
use crate::value::Value;

/// A row that became shorter has its room until its transaction ends: an abort finds it however
/// full the disk is by then.
#[test]
fn an_abort_needs_no_room() {
    let disk = MemDisk::new();
    let mut settings = settings();
    settings.log.durability = Durability::None; // the log takes no space
    let mut store = PagedStore::<Conventional>::create(&disk, &settings).unwrap();
    let columns = vec![ColumnDef::of::<Integer>("id"), ColumnDef::of::<Text>("body")];
    store.create_table(TableDef { name: "t".into(), columns, indexes: vec![] }).unwrap();
    let table = DynamicTable::new(store.schema(), 0);
    let text = "x".repeat(6_000);
    let row = |id, length: usize| [Value::Integer(id), Value::Text(&text[..length])];
    store.begin().unwrap();
    store.begin_writes();
    let first = table.insert(&mut store, &row(1, 6_000)).unwrap();
    for id in 0..3 {
        table.insert(&mut store, &row(id, 6_000)).unwrap();
    }
    store.commit().unwrap();
    let mut other = store.session().unwrap().unwrap();
    store.begin().unwrap();
    store.begin_writes();
    table.update(&mut store, first, &row(1, 0)).unwrap();
    table.update(&mut store, first, &row(1, 10)).unwrap();
    let used = disk.open(PAGES_FILE, Open::Read).unwrap().len().unwrap();
    disk.set_capacity_bytes(Some(used));
    let fill = |store: &mut PagedStore<Conventional>| {
        let mut made = 0;
        for length in [1_500, 500] {
            loop {
                store.begin().unwrap();
                store.begin_writes();
                match table.insert(store, &row(made, length)) {
                    Ok(_) => store.commit().unwrap(),
                    Err(error) => {
                        assert!(error.is_full(), "{error:?}");
                        store.abort().unwrap();
                        break;
                    }
                }
                made += 1;
            }
        }
        made
    };
    assert!(fill(&mut other) > 0);
    store.abort().unwrap();
    assert_eq!(store.check(), []);
    // Committed, it gives the room to others.
    store.begin().unwrap();
    store.begin_writes();
    table.update(&mut store, first, &row(1, 10)).unwrap();
    store.commit().unwrap();
    assert!(fill(&mut other) >= 4);
    assert_eq!(store.check(), []);
}

#[test]
fn a_page_without_an_owner_is_damage() {
    let mut bank = Bank::<Conventional>::create(&MemDisk::new(), 1_000);
    assert_eq!(bank.store.check(), []);
    let pages = &bank.store.database.pages;
    let lost = pages.new_page(StoreId(1), PageKind::Leaf).unwrap();
    let id = crate::paged::pool::ReadPage::page(&lost).id();
    drop(lost);
    let found = bank.store.check();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].what, format!("page {} is not free and nothing leads to it", id.0));
}

fn used_bytes(disk: &MemDisk) -> u64 {
    let names = disk.list().unwrap();
    names.iter().map(|name| bytes_of(disk, name).len() as u64).sum()
}

/// Transfers that are run again where that may help; how often it did. Nobody makes checkpoints.
fn transfer_all(bank: &mut Bank<Conventional>, count: i32, accounts: i32) -> Result<u32, Error> {
    let mut again = 0;
    for n in 0..count {
        let (from, to) = (n % (accounts / 2), accounts / 2 + n % (accounts / 3));
        let mut tries = 0;
        while let Err(error) = bank.transfer(from, to, 1) {
            tries += 1;
            if !error.retry() || tries > 100 {
                return Err(error);
            }
            again += u32::from(matches!(error, Error::LogFull { .. }));
        }
    }
    Ok(again)
}

/// What fills the disk is log that no restart needs once pages are written.
#[test]
fn a_log_that_fills_the_disk_is_freed() {
    let disk = MemDisk::new();
    let mut bank = Bank::<Conventional>::create(&disk, 100);
    disk.set_capacity_bytes(Some(used_bytes(&disk) + (4 << 20)));
    let again = transfer_all(&mut bank, 6_000, 100).unwrap();
    assert!((2..40).contains(&again), "{again}");
    assert_eq!(bank.store.check(), []);
    assert_eq!(bank.sum(), (100, 100 * START));
    bank.store.close().unwrap();
}

/// Those that come while one seeks room wait for it.
#[test]
fn a_log_that_fills_the_disk_is_freed_for_eight_sessions() {
    let disk = MemDisk::new();
    let mut bank = Bank::<Conventional>::create(&disk, 100);
    disk.set_capacity_bytes(Some(used_bytes(&disk) + (4 << 20)));
    let sessions: Vec<_> = (0..8).map(|_| bank.session()).collect();
    let keeper = bank.session();
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let keep = move || {
            while !is_over.load(Ordering::Relaxed) {
                if keeper.store.checkpoint_due() {
                    keeper.store.checkpoint().unwrap();
                }
                std::thread::yield_now();
            }
        };
        let keeping = scope.spawn(keep);
        let work = |mut session: Bank<Conventional>| transfer_all(&mut session, 1_000, 100);
        let working: Vec<_> =
            sessions.into_iter().map(|session| scope.spawn(move || work(session))).collect();
        let ended: Vec<_> = working.into_iter().map(|thread| thread.join().unwrap()).collect();
        is_over.store(true, Ordering::Relaxed);
        keeping.join().unwrap();
        assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    });
    assert_eq!(bank.store.check(), []);
    assert_eq!(bank.sum(), (100, 100 * START));
}

/// The log filled the disk when the process ended. What it no longer needs is freed before the first transaction.
#[test]
fn an_opening_frees_a_log_that_fills_the_disk() {
    let disk = MemDisk::new();
    let mut bank = Bank::<Conventional>::create(&disk, 100);
    let mut other = bank.session();
    other.store.begin().unwrap();
    other.store.begin_writes();
    other.add_row(1_000).unwrap();
    disk.set_capacity_bytes(Some(used_bytes(&disk) + (4 << 20)));
    transfer_all(&mut bank, 6_000, 100).unwrap_err();
    let length = bank.store.log_usage().file_bytes;
    let fault = Fault { operation: Operation::Write, after: 0, kind: std::io::ErrorKind::Other };
    disk.set_fault(Some(fault));
    drop((other, bank));
    disk.set_fault(None);
    let store = PagedStore::<Conventional>::open(&disk, &settings()).unwrap();
    let freed = length.saturating_sub(store.log_usage().file_bytes);
    assert!(store.restart().is_some() && freed >= 2 << 20, "{freed} of {length}");
    let mut bank = Bank::with(store);
    assert_eq!(transfer_all(&mut bank, 100, 100), Ok(0));
    assert!(transfer_all(&mut bank, 5_000, 100).is_ok());
    assert_eq!(bank.store.check(), []);
    assert_eq!(bank.sum(), (100, 100 * START));
}

/// Where a transaction needs the log nothing is freed, and nothing is written to try it. The error says what helps.
#[test]
fn a_log_that_is_needed_is_not_freed() {
    let disk = MemDisk::new();
    let mut settings = settings();
    settings.log.segment_bytes = 256 << 10;
    let mut bank = Bank::<Conventional>::create_with(&disk, &settings, 100);
    let mut other = bank.session();
    other.store.begin().unwrap();
    other.store.begin_writes();
    other.add_row(1_000).unwrap();
    disk.set_capacity_bytes(Some(used_bytes(&disk) + (3 << 20)));
    let full = transfer_all(&mut bank, 6_000, 100).unwrap_err();
    assert_eq!(full, Error::LogFull { again: false });
    let (text, first) = (full.to_string(), Error::LogFull { again: true }.to_string());
    for says in ["the files log-", "make room on it", "tombolo recover DIR"] {
        assert!(text.contains(says), "{text}");
    }
    assert!(first.contains("the files log-") && !format!("{text}{first}").contains("offset"));
    let before = bank.store.log_usage();
    for _ in 0..20 {
        assert_eq!(bank.transfer(1, 50, 1), Err(full));
    }
    assert_eq!(bank.store.log_usage(), before);
    // What sought room in vain was one.
    assert!(!bank.store.checkpoint_due());
    let made = bank.store.checkpoint().unwrap().unwrap();
    assert_eq!(made.released_segments, 0, "{made:?}");
    assert_eq!(bank.store.log_usage(), before);
    other.store.abort().unwrap();
    // It may be refused once more before room is sought.
    let _ = bank.transfer(1, 50, 0);
    assert!(transfer_all(&mut bank, 3_000, 100).is_ok());
    assert_eq!(bank.sum(), (100, 100 * START));
}

/// A backup keeps the log: who finds no room meanwhile is refused, and does not wait for it.
#[test]
fn nothing_is_freed_while_a_backup_is_made() {
    let disk = MemDisk::new();
    let mut bank = Bank::<Conventional>::create(&disk, 100);
    let copied = bank.session();
    disk.set_capacity_bytes(Some(used_bytes(&disk) + (4 << 20)));
    let mut refused = None;
    let end = || {
        refused = transfer_all(&mut bank, 6_000, 100).err();
        copied.store.kept_log()
    };
    copied.store.backup_until(&MemDisk::new(), end).unwrap();
    assert_eq!(refused, Some(Error::LogFull { again: false }));
    let _ = bank.transfer(1, 50, 0);
    assert!(transfer_all(&mut bank, 3_000, 100).is_ok());
}
