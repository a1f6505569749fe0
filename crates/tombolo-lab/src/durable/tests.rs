//! What was logged comes back, whoever replays it; what cannot come back is refused by name.

use std::fs;
use std::sync::Arc;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::recovery::OpenFailure;
use tombolo_storage::disk::MemDisk;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::{Store, resolve_index, resolve_table};
use tombolo_storage::value_log::{LogBuffer, LogSettings, LogWriter};

use tombolo_storage::disk::OsDisk;
use tombolo_storage::value_log::LogFailure;

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_storage::memory::image::{ImageSettings, Step};
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::value_log::LogPosition;

use super::*;
use crate::dump::state_hash;
use crate::failure::Blame;
use crate::inspect::inspect;

tombolo_storage::table! {
    /// Numbers.
    pub struct Number = "number" { ID: Integer [0..=999_999]; VALUE: BigInt => hot; }
}
tombolo_storage::index! {
    /// By number.
    pub struct NumberKey = "number_pk" on Number (ID: Integer) unique Tree;
}
tombolo_storage::table! {
    /// Other numbers.
    pub struct Other = "other" { KEY: Integer [0..=999_999]; }
}
tombolo_storage::index! {
    /// By number.
    pub struct OtherKey = "other_pk" on Other (KEY: Integer) unique Tree;
}

fn options(threads: usize) -> OpenOptions {
    let log = LogSettings { segment_bytes: 1 << 20, direct: false, ..LogSettings::default() };
    OpenOptions { log, threads, ..OpenOptions::default() }
}

fn log(store: &mut Logged, writer: &mut LogWriter) {
    let mut records = LogBuffer::new();
    store.take_log(&mut records);
    writer.append_group(&[records.as_slice()], records.transactions(), None).unwrap();
    writer.sync().unwrap();
}

/// Makes both tables and `count` rows of each, `count` transactions.
fn fill(store: &mut Logged, writer: &mut LogWriter, count: i32) {
    store.create_table(TableDef::of::<Number>().with::<NumberKey>()).unwrap();
    store.create_table(TableDef::of::<Other>().with::<OtherKey>()).unwrap();
    let (numbers, others) = (
        resolve_table::<Number>(store.schema()).unwrap(),
        resolve_table::<Other>(store.schema()).unwrap(),
    );
    let (key, other) = (
        resolve_index::<NumberKey>(store.schema()).unwrap(),
        resolve_index::<OtherKey>(store.schema()).unwrap(),
    );
    for id in 0..count {
        store.begin().unwrap();
        store.begin_writes();
        let row = store.create(&numbers, |row| {
            row.set(Number::ID, id);
            row.set(Number::VALUE, i64::from(id) * 3);
        });
        store.insert(&key, id, row.unwrap()).unwrap();
        let row = store.create(&others, |row| row.set(Other::KEY, id)).unwrap();
        store.insert(&other, id, row).unwrap();
        store.commit().unwrap();
        if id % 1_000 == 999 {
            log(store, writer);
        }
    }
    log(store, writer);
}

#[test]
fn a_database_comes_back_whoever_replays_it() {
    let disk = MemDisk::new();
    let Created { mut store, mut writer, .. } =
        create(&[Arc::new(disk.clone())], &options(1)).unwrap();
    fill(&mut store, &mut writer, 40_500);
    let hash = state_hash(&mut store).unwrap();
    drop(writer);
    for (epoch, threads) in (2..).zip([1, 2, 3]) {
        let clock = SystemClock::new();
        let opened = open(Arc::new(disk.clone()), &options(threads), &clock, &mut ()).unwrap();
        let Opened { mut store, writer, recovery, .. } = opened;
        assert_eq!(state_hash(&mut store).unwrap(), hash, "{threads} threads");
        assert!(store.check().is_empty());
        assert_eq!((recovery.epoch, recovery.transactions), (epoch, 40_502));
        assert!(recovery.is_clean() && recovery.record_bytes > 40_500 * 30, "{recovery:?}");
        assert_eq!(recovery.last_group + 1, writer.newest());
        let again = open(Arc::new(disk.clone()), &options(threads), &clock, &mut ());
        assert!(matches!(again, Err(OpenFailure::Log(LogFailure::InUse { .. }))), "{again:?}");
    }
}

#[test]
fn directories_without_a_database_are_refused_and_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let clock = SystemClock::new();
    let refused =
        |path: &std::path::Path| open_directory(path, &options(1), &clock, &mut ()).unwrap_err();
    let error = refused(scratch.path());
    assert_eq!(error.blame(), Blame::Usage);
    assert!(error.to_string().contains("holds no database of profile memory"), "{error}");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    assert_eq!(refused(&scratch.path().join("nowhere")).blame(), Blame::Usage);
}

#[test]
fn damage_is_refused_with_its_place() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = Arc::new(OsDisk::open(scratch.path()).unwrap());
    let Created { mut store, mut writer, .. } = create(&[disk], &options(1)).unwrap();
    fill(&mut store, &mut writer, 2_500);
    drop(writer);
    let file = scratch.path().join("log-000001");
    let mut bytes = fs::read(&file).unwrap();
    bytes[40_000] ^= 1;
    fs::write(&file, bytes).unwrap();
    for threads in [1, 2] {
        let opened =
            open_directory(scratch.path(), &options(threads), &SystemClock::new(), &mut ());
        let error = opened.unwrap_err();
        assert_eq!(error.blame(), Blame::Environment);
        let text = error.to_string();
        assert!(text.contains("log-000001 at offset ") && text.contains(", group "), "{text}");
    }
}

/// Writes a checkpoint of what was logged through `writer` since the image was made.
fn checkpoint(checkpointing: &mut Checkpointing, records: &LogBuffer, position: LogPosition) {
    let Checkpointing { checkpoints, parts } = checkpointing;
    parts.iter_mut().for_each(|part| part.install(position, records.as_slice()).unwrap());
    let needs: Vec<_> = parts.iter_mut().map(|part| part.needs().unwrap()).collect();
    let begun = checkpoints.begin(&needs).unwrap();
    let done = parts.iter_mut().map(|part| {
        part.begin(&begun);
        loop {
            if let Step::Complete(completed) = part.step().unwrap() {
                break completed;
            }
        }
    });
    let done: Vec<_> = done.collect();
    checkpoints.complete(&done).unwrap();
}

#[test]
fn an_image_is_inspected_checked_and_recovered_by_those_who_look_after_it() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = Arc::new(OsDisk::open(scratch.path()).unwrap());
    let image = Some(ImageSettings { block_bytes: 64 << 10, ..ImageSettings::default() });
    let with = OpenOptions { image, ..options(2) };
    let created: Created<MemoryLogged> = create(&[disk], &with).unwrap();
    let Created { mut store, mut writer, checkpointing } = created;
    let mut checkpointing = checkpointing.unwrap();
    store.create_table(TableDef::of::<Number>().with::<NumberKey>()).unwrap();
    let (numbers, key) = (
        resolve_table::<Number>(store.schema()).unwrap(),
        resolve_index::<NumberKey>(store.schema()).unwrap(),
    );
    store.begin().unwrap();
    store.begin_writes();
    for id in 0..9_000 {
        let row = store.create(&numbers, |row| row.set(Number::ID, id)).unwrap();
        store.insert(&key, id, row).unwrap();
    }
    store.commit().unwrap();
    let mut records = LogBuffer::new();
    store.take_log(&mut records);
    writer.append_group(&[records.as_slice()], records.transactions(), None).unwrap();
    writer.sync().unwrap();
    checkpoint(&mut checkpointing, &records, writer.position());
    let hash = state_hash(&mut store).unwrap();
    drop((writer, checkpointing));

    let found = inspect(scratch.path(), &mut ()).unwrap();
    let survey = found.image.unwrap();
    // Group 1 is the empty one that begins the epoch.
    assert_eq!((survey.complete, survey.position.group), (1, 2));
    assert_eq!(survey.rings.iter().map(|ring| ring.live).sum::<u64>(), 9_000);
    // The table is in the image and in the group that ties the log to it.
    assert_eq!(found.tables.iter().map(|table| &*table.table).collect::<Vec<_>>(), ["number"]);
    let clock = SystemClock::new();
    let recovered = open_directory(scratch.path(), &options(2), &clock, &mut ()).unwrap();
    assert_eq!(state_hash(&mut { recovered.store }).unwrap(), hash);
    assert!(recovered.recovery.image_bytes > 9_000 * 16);
    drop(recovered.writer);

    let file = scratch.path().join(&survey.rings[0].file);
    fs::write(&file, vec![0; fs::metadata(&file).unwrap().len() as usize]).unwrap();
    let damaged = inspect(scratch.path(), &mut ()).unwrap().image.unwrap().damage;
    assert_eq!(damaged.len(), 1);
    let refused = open_directory(scratch.path(), &options(2), &clock, &mut ()).unwrap_err();
    assert_eq!(refused.blame(), Blame::Environment);
    let text = refused.to_string();
    assert!(text.contains(&survey.rings[0].file) && text.contains("at offset"), "{text}");
    let checked = crate::check::check(scratch.path(), None, None, &mut ()).unwrap();
    let found = &checked.verification.damage[0];
    assert_eq!((&*found.check, found.file.is_some()), ("image", true));
}
