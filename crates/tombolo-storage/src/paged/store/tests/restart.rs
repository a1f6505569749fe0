//! Restarts one by one: what they say they did, and what is refused.

use super::*;
use crate::dynamic::DynamicTable;
use crate::log::record::Content;
use crate::log::{ChangeKind, read_log};
use crate::paged::page::SlotKind;
use crate::profile::NoLsn;
use crate::value::Value;
use crate::value_log::tests::crash_disk::CrashDisk;

fn small() -> PagedSettings {
    let mut settings = settings();
    settings.log.segment_bytes = 64 << 10;
    settings
}

/// A database with a table of notes.
fn notes(disk: &CrashDisk) -> (PagedStore<Conventional>, DynamicTable) {
    let mut store = PagedStore::create(disk, &small()).unwrap();
    store.create_table(crashes::definition(0)).unwrap();
    let table = DynamicTable::new(store.schema(), 0);
    (store, table)
}

fn insert(store: &mut PagedStore<Conventional>, table: &DynamicTable, ids: std::ops::Range<i64>) {
    store.begin().unwrap();
    store.begin_writes();
    for id in ids {
        let text = "x".repeat(id as usize % 90);
        let label = crashes::label(1, id);
        let (text, label) = (Value::Text(&text), Value::Text(&label));
        table.insert(store, &[Value::Integer(id), Value::Integer(1), text, label]).unwrap();
    }
}

/// Every file, byte by byte.
fn files(disk: &CrashDisk) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let file = disk.open(&name, Open::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        (name, bytes)
    };
    disk.list().unwrap().into_iter().map(read).collect()
}

fn refused(disk: &CrashDisk) -> OpenError {
    let before = files(disk);
    let error = PagedStore::<Conventional>::open(disk, &small()).err().unwrap();
    let lock = |name: &str| name.contains("lock");
    let changed = |files: Vec<(String, Vec<u8>)>| -> Vec<_> {
        files.into_iter().filter(|(name, _)| !lock(name)).collect()
    };
    assert!(changed(before) == changed(files(disk)), "{error}: something was written");
    error
}

#[test]
fn a_restart_says_what_it_did() {
    let disk = CrashDisk::default();
    let (mut store, table) = notes(&disk);
    insert(&mut store, &table, 0..100);
    store.commit().unwrap();
    let mut second = store.session().unwrap().unwrap();
    // Below the others: what it found absent is another gap than theirs.
    insert(&mut second, &table, -50..0);
    insert(&mut store, &table, 200..210);
    store.commit().unwrap();
    let disk = disk.kill();
    drop((second, store));
    let unwanted = PagedSettings { restarts: false, ..small() };
    let refused = PagedStore::<Conventional>::open(&disk, &unwanted).err().unwrap();
    assert!(refused.is_not_closed(), "{refused}");
    let mut told = Vec::new();
    let mut tell = |now: RestartProgress| told.push(now);
    let store = PagedStore::<Conventional>::open_reporting(&disk, &small(), &mut tell);
    let mut store = store.unwrap();
    let restart = store.restart().unwrap();
    is_told_in_order(&told, restart);
    assert_eq!((restart.transactions_undone, restart.transactions_cleared), (1, 0));
    assert!(restart.records_redone > 400 && restart.records_skipped == 0, "{restart:?}");
    assert!(restart.pages_redone >= 4 && restart.log_bytes > 40_000, "{restart:?}");
    assert_eq!(store.check(), []);
    store.begin().unwrap();
    assert_eq!(table.row_ids(&mut store).unwrap().len(), 110);
    store.commit().unwrap();
    // Numbers go on, and what is closed needs no restart.
    store.begin().unwrap();
    assert!(store.active()[0].transaction > 3, "{:?}", store.active());
    store.abort().unwrap();
    store.close().unwrap();
    let mut tell = |now: RestartProgress| panic!("it was closed: {now:?}");
    let store = PagedStore::<Conventional>::open_reporting(&disk, &small(), &mut tell).unwrap();
    assert_eq!(store.restart(), None);
}

/// Of both passes, and of the transaction that is undone.
fn is_told_in_order(told: &[RestartProgress], restart: Restart) {
    let part = |now: &RestartProgress| now.bytes as f64 / now.bytes_max as f64;
    assert!(told.is_sorted_by(|before, after| part(before) <= part(after)), "{told:?}");
    let last = told.last().unwrap();
    let redo = told.iter().position(|now| now.transactions_to_undo == 1).unwrap();
    assert!(redo > 0, "analysis is told, too: {told:?}");
    assert_eq!(told[redo].bytes_max - told[redo].bytes, restart.log_bytes, "{told:?}");
    assert!(told[redo..].iter().filter(|now| part(now) < 1.0).count() > 1, "{told:?}");
    assert_eq!((last.bytes, last.transactions_to_undo), (last.bytes_max, 0), "{told:?}");
}

#[test]
fn what_cannot_be_restarted_is_refused_as_it_is() {
    let made = || {
        let disk = CrashDisk::default();
        let (mut store, table) = notes(&disk);
        for at in 0..60 {
            insert(&mut store, &table, at * 50..at * 50 + 50);
            store.commit().unwrap();
        }
        store.database.pages.flush().unwrap();
        disk.kill()
    };
    let log_files = |disk: &CrashDisk| -> Vec<String> {
        let files = disk.list().unwrap().into_iter();
        files.filter(|name| name.starts_with("log-0")).collect()
    };
    // The data file is missing.
    let disk = made();
    disk.remove(PAGES_FILE).unwrap();
    assert!(refused(&disk).to_string().contains(PAGES_FILE), "{}", refused(&disk));
    // The log is.
    let disk = made();
    log_files(&disk).iter().for_each(|name| disk.remove(name).unwrap());
    assert!(
        refused(&disk).to_string().contains("the log's files are missing"),
        "{}",
        refused(&disk)
    );
    // A part of it is.
    let disk = made();
    assert!(log_files(&disk).len() > 3);
    disk.remove(&log_files(&disk)[0]).unwrap();
    assert!(refused(&disk).to_string().contains("missing"), "{}", refused(&disk));
    // It is damaged where it is needed.
    let disk = made();
    let file = disk.open(&log_files(&disk)[1], Open::Write).unwrap();
    let mut byte = [0; 1];
    file.read_at(&mut byte, 20_000).unwrap();
    file.write_at(&[byte[0] ^ 1], 20_000).unwrap();
    let error = refused(&disk);
    assert_eq!(error.damage().unwrap().0, log_files(&disk)[1], "{error}");
}

/// Puts the files of `from` with these beginnings of their names in the place of those of `disk`.
fn replace(disk: &CrashDisk, from: &[(String, Vec<u8>)], beginning: &str) {
    let is_one = |name: &&String| name.starts_with(beginning);
    disk.list().unwrap().iter().filter(is_one).for_each(|name| disk.remove(name).unwrap());
    for (name, bytes) in from.iter().filter(|(name, _)| is_one(&name)) {
        disk.open(name, Open::New).unwrap().write_at(bytes, 0).unwrap();
    }
}

/// Commits, and moves up what a restart needs.
fn go_on(store: &mut PagedStore<Conventional>, table: &DynamicTable, from: i64) {
    for at in 0..3 {
        insert(store, table, from + at * 50..from + at * 50 + 50);
        store.commit().unwrap();
        store.checkpoint().unwrap().unwrap();
    }
}

#[test]
fn pages_and_log_of_different_times_or_databases_are_refused() {
    const TEXT: &str = "do not belong together";
    let together = |disk: &CrashDisk, what: &str| {
        let error = refused(disk).to_string();
        assert!(error.contains(TEXT) && error.contains(what), "{error}");
    };
    for closes in [false, true] {
        let disk = CrashDisk::default();
        let (mut store, table) = notes(&disk);
        go_on(&mut store, &table, 0);
        let end = |store: PagedStore<Conventional>| {
            if closes {
                store.close().unwrap()
            }
        };
        end(store);
        let (disk, before) = (disk.kill(), files(&disk));
        let mut store = PagedStore::open(&disk, &small()).unwrap();
        go_on(&mut store, &table, 1_000);
        end(store);
        let after = files(&disk);
        replace(&disk, &before, "pages");
        together(&disk.kill(), "the pages are older than the log");
        replace(&disk, &after, "pages");
        replace(&disk, &before, "log-");
        together(&disk.kill(), "the log is older than the pages");
        let other = CrashDisk::default();
        let mut settings = small();
        settings.log.salt = 7;
        drop(PagedStore::<Conventional>::create(&other, &settings).unwrap());
        replace(&disk, &files(&other), "log-");
        together(&disk.kill(), "they are of different databases");
        replace(&disk, &after, "log-");
        replace(&disk, &files(&other), "pages");
        together(&disk.kill(), "they are of different databases");
        replace(&disk, &after, "pages");
        assert!(PagedStore::<Conventional>::open(&disk.kill(), &small()).is_ok());
    }
}

#[test]
fn another_version_is_refused_before_the_log_is_written() {
    let disk = CrashDisk::default();
    drop(notes(&disk));
    let disk = disk.kill();
    let file = disk.open(PAGES_FILE, Open::Write).unwrap();
    let mut page = vec![0; 8_192];
    file.read_at(&mut page, 0).unwrap();
    page[48] = 9;
    let checksum = crc32c::crc32c(&page[4..]);
    page[..4].copy_from_slice(&checksum.to_le_bytes());
    file.write_at(&page, 0).unwrap();
    drop(file);
    let error = refused(&disk).to_string();
    assert!(error.contains("a newer program wrote it"), "{error}");
}

/// A database whose file of pages is short, or whose first page is not whole.
#[test]
fn pages_are_put_back_from_copies_or_refused_before_anything_is_written() {
    let closed = |rows: i64| {
        let disk = CrashDisk::default();
        let (mut store, table) = notes(&disk);
        for at in 0..rows / 50 {
            insert(&mut store, &table, at * 50..at * 50 + 50);
            store.commit().unwrap();
        }
        store.close().unwrap();
        disk.kill()
    };
    let file = |disk: &CrashDisk| disk.open(PAGES_FILE, Open::Write).unwrap();
    let flip = |disk: &CrashDisk| {
        let (file, mut byte) = (file(disk), [0]);
        file.read_at(&mut byte, 20).unwrap();
        file.write_at(&[byte[0] ^ 1], 20).unwrap();
    };
    // All pages are among the copies.
    for len in [0, 100, 5_000, 8_192, 50_000] {
        let disk = closed(200);
        file(&disk).set_len(len).unwrap();
        let unwanted = PagedSettings { restarts: false, ..small() };
        let refused = PagedStore::<Conventional>::open(&disk, &unwanted).err().unwrap();
        assert_eq!(refused.damage().unwrap().1, len, "{refused}");
        let mut store = PagedStore::<Conventional>::open(&disk, &small()).unwrap();
        store.begin().unwrap();
        assert_eq!(table_of(&store).row_ids(&mut store).unwrap().len(), 200);
        store.commit().unwrap();
        assert_eq!(store.check(), []);
    }
    // They are not.
    for len in [0, 100, 5_000, 8_192, 50_000] {
        let disk = closed(8_000);
        file(&disk).set_len(len).unwrap();
        let error = refused(&disk);
        assert_eq!(error.damage().unwrap().1, len, "{error}");
        assert!(error.to_string().contains("it should hold"), "{error}");
    }
    let disk = closed(200);
    flip(&disk);
    assert!(PagedStore::<Conventional>::open(&disk, &small()).is_ok());
    // Of two copies of page 0 with one LSN, the older one says that the file was closed.
    let disk = closed(200);
    let mut store = PagedStore::<Conventional>::open(&disk, &small()).unwrap();
    let table = table_of(&store);
    insert(&mut store, &table, 200..210);
    store.commit().unwrap();
    let disk = disk.kill();
    drop(store);
    flip(&disk);
    let mut store = PagedStore::<Conventional>::open(&disk, &small()).unwrap();
    assert!(store.restart().unwrap().records_redone > 0);
    store.begin().unwrap();
    assert_eq!(table.row_ids(&mut store).unwrap().len(), 210);
    store.commit().unwrap();
    // Without copies of them.
    for is_short in [false, true] {
        let disk = closed(200);
        match is_short {
            false => flip(&disk),
            true => file(&disk).set_len(100).unwrap(),
        }
        disk.remove("pages-copies").unwrap();
        let error = refused(&disk);
        assert_eq!(error.damage().unwrap().0, PAGES_FILE, "{error}");
    }
}

fn table_of(store: &PagedStore<Conventional>) -> DynamicTable {
    DynamicTable::new(store.schema(), 0)
}

/// A log that is gone is not taken for one that never was.
#[test]
fn a_log_that_is_missing_is_refused_by_every_profile() {
    let disk = CrashDisk::default();
    drop(notes(&disk).0.close());
    let names = disk.list().unwrap().into_iter().filter(|name| name.starts_with("log-"));
    names.for_each(|name| disk.remove(&name).unwrap());
    let disk = disk.kill();
    assert!(refused(&disk).to_string().contains("the log's files are missing"));
    let mut unlogged = small();
    unlogged.log.durability = Durability::None;
    let errors = [
        PagedStore::<NoLsn>::open(&disk, &small()).err(),
        PagedStore::<Conventional>::open(&disk, &unlogged).err(),
    ];
    for error in errors.map(Option::unwrap) {
        assert!(error.to_string().contains("the log's files are missing"), "{error}");
    }
}

/// A byte that changed is repaired from a page's copy, or found when its page is read.
#[test]
fn every_changed_byte_is_found_after_a_crash() {
    let disk = CrashDisk::default();
    let (mut store, table) = notes(&disk);
    go_on(&mut store, &table, 0);
    insert(&mut store, &table, 200..210);
    store.commit().unwrap();
    let pages = u64::from(store.database.pages.page_count());
    let disk = disk.kill();
    drop(store);
    let blank = vec![("pages-copies".to_owned(), vec![0; 512 << 10])];
    let mut random = Random::new(9);
    let offsets = (0..120).chain((120..8_192).step_by(199));
    let offsets = offsets.chain((0..60).map(|_| 8_192 + random.below((pages - 1) * 8_192)));
    let mut found = [0; 2];
    for (at, offset) in offsets.enumerate() {
        let (disk, has_copies) = (disk.kill(), at % 2);
        if has_copies == 0 {
            replace(&disk, &blank, "pages-copies");
        }
        let file = disk.open(PAGES_FILE, Open::Write).unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, offset).unwrap();
        file.write_at(&[byte[0] ^ 0x10], offset).unwrap();
        drop(file);
        let damage = match PagedStore::<Conventional>::open(&disk, &small()) {
            Ok(mut store) => {
                let damage = store.check().len();
                if damage == 0 {
                    store.begin().unwrap();
                    assert_eq!(table.row_ids(&mut store).unwrap().len(), 160, "{offset}");
                    store.commit().unwrap();
                }
                damage
            }
            Err(error) => {
                assert_eq!(error.damage().map(|(file, ..)| file), Some(PAGES_FILE), "{error}");
                1
            }
        };
        found[has_copies] += u32::from(damage > 0);
    }
    assert!(found[0] > 80 && found[1] == 0, "{found:?}");
}

#[test]
fn a_sync_that_fails_in_a_restart_loses_nothing() {
    let disk = MemDisk::new();
    drop(Bank::<Conventional>::create(&disk, 200));
    let mut failed = 0;
    for after in 0.. {
        let (operation, kind) = (Operation::Sync, std::io::ErrorKind::Other);
        disk.set_fault(Some(Fault { operation, after, kind }));
        let opened = PagedStore::<Conventional>::open(&disk, &settings());
        disk.set_fault(None);
        if let Ok(store) = opened {
            assert_eq!(Bank::with(store).sum(), (200, 200 * START));
            break;
        }
        failed += 1;
    }
    assert!(failed > 3, "{failed} syncs failed");
}

/// A value's place has no lock: once it is given back another session may use it, though the transaction that gave
/// it back has not ended yet.
#[test]
fn what_was_given_back_and_used_again_is_not_given_back_twice() {
    let disk = CrashDisk::default();
    let (mut store, table) = notes(&disk);
    let long = |store: &mut PagedStore<Conventional>, ids: std::ops::Range<i64>| {
        store.begin().unwrap();
        store.begin_writes();
        for id in ids {
            let (text, label) = ("y".repeat(3_000), crashes::label(1, id));
            let (text, label) = (Value::Text(&text), Value::Text(&label));
            table.insert(store, &[Value::Integer(id), Value::Integer(1), text, label]).unwrap();
        }
    };
    long(&mut store, 0..10);
    store.commit().unwrap();
    let mut other = store.session().unwrap().unwrap();
    store.begin().unwrap();
    store.begin_writes();
    let index = table.indexes().next().unwrap();
    for id in 0..10 {
        let row = store.lookup_for_update(index, &[Value::Integer(id)]).unwrap().unwrap();
        let label = crashes::label(1, id);
        let (text, label) = (Value::Text(""), Value::Text(&label));
        table
            .update(&mut store, row, &[Value::Integer(id), Value::Integer(1), text, label])
            .unwrap();
    }
    // It commits, and a crash comes before the record that ends it.
    let PagedStore { database, session, .. } = &mut store;
    database.log.commit(&mut session.log).unwrap();
    session.purge_ghosts(database).unwrap();
    long(&mut other, 100..120);
    other.commit().unwrap();
    let crashed = disk.kill();
    store.session.ghosts.clear();
    store.session.ghost_keys.clear();
    store.session.phase = Phase::Reading;
    drop((other, store));
    let (mut given, mut used) = (std::collections::BTreeSet::new(), 0);
    read_log(&crashed, 0, |_, record| {
        let Content::Change { change, .. } = record.content else { return };
        let place = (change.place.page, change.place.slot);
        match change.kind {
            _ if change.place.kind != SlotKind::Value => {}
            ChangeKind::RowPurged => drop(given.insert(place)),
            ChangeKind::RowCreated => used += u32::from(given.contains(&place)),
            _ => {}
        }
    })
    .unwrap();
    assert!(used > 0, "the test needs a place that is used again");
    let mut store = PagedStore::<Conventional>::open(&crashed, &small()).unwrap();
    assert_eq!(store.restart().unwrap().transactions_cleared, 1);
    assert_eq!(store.check(), []);
    store.begin().unwrap();
    let rows = table.row_ids(&mut store).unwrap();
    let mut lengths = [0; 2];
    for row in rows {
        let found = table.read(&store, row, |values| match values[2] {
            Value::Text(text) => text.len(),
            ref other => panic!("{other:?}"),
        });
        lengths[usize::from(found.unwrap() == 3_000)] += 1;
    }
    assert_eq!(lengths, [10, 20]);
    store.commit().unwrap();
}
