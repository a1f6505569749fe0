//! Restarts one by one: what they say they did, and what is refused.

use super::*;
use crate::dynamic::DynamicTable;
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
    let mut store = PagedStore::<Conventional>::open(&disk, &small()).unwrap();
    let restart = store.restart().unwrap();
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
    let store = PagedStore::<Conventional>::open(&disk, &small()).unwrap();
    assert_eq!(store.restart(), None);
}

#[test]
fn what_cannot_be_restarted_is_refused_as_it_is() {
    let made = || {
        let disk = CrashDisk::default();
        let (mut store, table) = notes(&disk);
        for at in 0..20 {
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
    assert!(refused(&disk).to_string().contains("log"), "{}", refused(&disk));
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
    // It is another database's: the pages know numbers that it has not reached.
    let (disk, other) = (made(), CrashDisk::default());
    drop(notes(&other));
    log_files(&disk).iter().for_each(|name| disk.remove(name).unwrap());
    for (name, bytes) in files(&other).into_iter().filter(|(name, _)| name.starts_with("log-0")) {
        disk.open(&name, Open::New).unwrap().write_at(&bytes, 0).unwrap();
    }
    let error = PagedStore::<Conventional>::open(&disk, &small()).err().unwrap();
    assert!(error.to_string().contains("the log ends at"), "{error}");
}
