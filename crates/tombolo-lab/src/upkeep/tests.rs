//! What was logged comes back, however it is replayed; what cannot come back is refused by name.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::islands::commit::{Age, IslandId, TransactionNumber};
use tombolo_engine::islands::membership::{Membership, found, membership_tables};
use tombolo_engine::islands::prepared::{PreparedParts, prepared_tables};
use tombolo_engine::recovery::OpenFailure;
use tombolo_storage::disk::{Disk, MemDisk};
use tombolo_storage::memory::held::{Guard, Locks};
use tombolo_storage::paged::store::{PagedSettings, PagedStore};
use tombolo_storage::profile::Conventional;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::{Store, resolve_index, resolve_table};
use tombolo_storage::value_log::{LogBuffer, LogSettings, LogWriter};

use tombolo_storage::disk::OsDisk;
use tombolo_storage::value_log::LogFailure;

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_storage::memory::image::{ImageSettings, Step};
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::value_log::LogPosition;

use super::check;
use super::in_doubt::InDoubt;
use super::inspect::{inspect, inspect_pages};
use crate::failure::Blame;
use crate::files::{
    Created, Logged, OpenOptions, Opened, create, disks, open, open_directories, survey,
};
use crate::progress::Progress;
use crate::rows::{StateHash, state_hash};

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
        let opened = open(&[Arc::new(disk.clone())], &options(threads), &clock, &mut ()).unwrap();
        let Opened { mut store, writer, recovery, .. } = opened;
        assert_eq!(state_hash(&mut store).unwrap(), hash, "{threads} threads");
        assert!(store.check().is_empty());
        assert_eq!((recovery.epoch, recovery.transactions), (epoch, 40_502));
        assert!(recovery.is_clean() && recovery.record_bytes > 40_500 * 30, "{recovery:?}");
        assert_eq!(recovery.last_group + 1, writer.newest());
        let again = open(&[Arc::new(disk.clone())], &options(threads), &clock, &mut ());
        assert!(matches!(again, Err(OpenFailure::Log(LogFailure::InUse { .. }))), "{again:?}");
    }
}

/// A clock on which every look takes a second.
#[derive(Default)]
struct SlowClock(AtomicU64);

impl Clock for SlowClock {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1_000_000_000, Ordering::Relaxed)
    }
    fn unix_us(&self) -> u64 {
        0
    }
    fn process_cpu(&self) -> Duration {
        Duration::ZERO
    }
    fn thread_cpu(&self) -> Duration {
        Duration::ZERO
    }
}

/// What was reported.
#[derive(Debug, Default)]
struct Reports(Vec<(f64, String)>);

impl Progress for Reports {
    fn begin(&mut self, _: &str) {}
    fn part(&mut self, part: f64, detail: &str) {
        self.0.push((part, detail.to_owned()));
    }
    fn end(&mut self) {}
}

#[test]
fn who_waits_hears_how_far_it_is_and_how_long_it_takes() {
    let disk = MemDisk::new();
    let doors: [Arc<dyn Disk>; 1] = [Arc::new(disk.clone())];
    let Created { mut store, mut writer, .. } = create(&doors, &options(1)).unwrap();
    fill(&mut store, &mut writer, 40_500);
    drop(writer);
    let mut looked = Reports::default();
    survey(&doors, &options(1), &SlowClock::default(), &mut looked).unwrap();
    let mut opened = Reports::default();
    open(&doors, &options(1), &SlowClock::default(), &mut opened).unwrap();
    for Reports(reported) in [looked, opened] {
        assert!(reported.is_sorted_by(|(before, _), (after, _)| before <= after), "{reported:?}");
        let (part, detail) = reported.last().unwrap();
        assert!(*part > 0.0 && detail.contains(" transactions, about "), "{reported:?}");
        assert!(detail.ends_with(" s left"), "{reported:?}");
    }
}

/// Makes a paged database with one table.
fn on_pages(directory: &Path) -> PagedStore<Conventional> {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::open(directory).unwrap());
    let settings = PagedSettings { pool_bytes: 1 << 20, ..PagedSettings::default() };
    let mut store = PagedStore::<Conventional>::create(&disk, &settings).unwrap();
    store.create_table(TableDef::of::<Number>().with::<NumberKey>()).unwrap();
    store
}

#[test]
fn who_waits_for_a_restart_hears_how_far_it_is_and_how_long_it_takes() {
    let scratch = tempfile::tempdir().unwrap();
    drop(on_pages(scratch.path())); // not closed
    let mut told = [(); 2].map(|()| Reports::default());
    let [checked, recovered] = &mut told;
    check::check(&[scratch.path()], None, None, checked).unwrap();
    let clock = SlowClock::default();
    let restart = super::recover::recover_pages(scratch.path(), &clock, recovered).unwrap();
    assert!(restart.unwrap().log_bytes > 0);
    assert!(recovered.0.iter().all(|(_, detail)| detail.ends_with(" s left")), "{recovered:?}");
    for Reports(reported) in &told {
        let restarting = reported.iter().filter(|(_, detail)| detail.contains(" of log"));
        let parts: Vec<f64> = restarting.map(|(part, _)| *part).collect();
        assert!(parts.len() > 1 && parts.is_sorted() && parts.last() == Some(&1.0), "{reported:?}");
    }
    // It is closed now.
    let mut again = Reports::default();
    assert!(super::recover::recover_pages(scratch.path(), &clock, &mut again).unwrap().is_none());
    assert!(again.0.is_empty(), "{again:?}");
}

#[test]
fn directories_without_a_database_are_refused_and_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let clock = SystemClock::new();
    let refused =
        |path: &Path| open_directories(&[path], &options(1), &clock, &mut ()).unwrap_err();
    let error = refused(scratch.path());
    assert_eq!(error.blame(), Blame::Usage);
    assert!(error.to_string().contains("holds no database of profile memory"), "{error}");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    assert_eq!(refused(&scratch.path().join("nowhere")).blame(), Blame::Usage);
}

#[test]
fn islands_are_checked_each_and_opened_one_by_one() {
    let scratch = tempfile::tempdir().unwrap();
    let island = |number: usize| scratch.path().join(format!("island-{number}"));
    for number in 0..2 {
        fs::create_dir(island(number)).unwrap();
        let disk = Arc::new(OsDisk::open(&island(number)).unwrap());
        drop(create::<MemoryLogged>(&[disk], &options(1)).unwrap());
    }
    let check = |tamper| check::check(&[scratch.path()], tamper, None, &mut ());
    let checked = check(None).unwrap();
    assert!(checked.failure().is_none());
    let names = checked.verification.checks.iter().map(|(name, _)| name.as_str());
    let names: Vec<&str> = names.collect();
    assert!(names.contains(&"island-0/log") && names.contains(&"island-1/log"), "{names:?}");
    let refused = check(Some("c01")).unwrap_err().to_string();
    assert!(refused.contains("holds 2 islands"), "{refused}");
    let refused = open_directories(&[scratch.path()], &options(1), &SystemClock::new(), &mut ());
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("recover takes one"), "{refused}");
    // Damage is reported with the island that has it.
    let log = fs::read_dir(island(1)).unwrap().map(|file| file.unwrap().path());
    let log = log.into_iter().find(|path| path.ends_with("log-000001")).unwrap();
    let mut bytes = fs::read(&log).unwrap();
    bytes.fill(0xA5);
    fs::write(&log, bytes).unwrap();
    match check(None) {
        Ok(checked) => {
            let failure = checked.failure().unwrap().to_string();
            assert!(failure.contains("island-1"), "{failure}");
        }
        Err(refused) => assert!(refused.to_string().contains("log-000001"), "{refused}"),
    }
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
            open_directories(&[scratch.path()], &options(threads), &SystemClock::new(), &mut ());
        let error = opened.unwrap_err();
        assert_eq!(error.blame(), Blame::Check);
        let text = error.to_string();
        assert!(text.contains("log-000001 at offset ") && text.contains(", group "), "{text}");
    }
}

/// Writes a checkpoint of what was logged through `writer` since the image was made.
fn checkpoint(checkpointing: &mut Checkpointing, records: &LogBuffer, position: LogPosition) {
    let Checkpointing { checkpoints, parts } = checkpointing;
    parts.iter_mut().for_each(|part| part.install(position, records.as_slice()).unwrap());
    let needs: Vec<_> = parts.iter_mut().map(|part| part.needs().unwrap().unwrap()).collect();
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

/// Makes a database of 9,000 rows in `directories`, with an image of them; the rows' hash.
fn with_image(directories: &[&Path]) -> StateHash {
    let image = Some(ImageSettings { block_bytes: 64 << 10, ..ImageSettings::default() });
    let with = OpenOptions { image, ..options(2) };
    let created: Created<MemoryLogged> = create(&disks(directories).unwrap(), &with).unwrap();
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
    state_hash(&mut store).unwrap()
}

#[test]
fn recovering_uses_nothing_again_that_an_archive_may_lack() {
    let scratch = tempfile::tempdir().unwrap();
    let image = Some(ImageSettings { block_bytes: 64 << 10, ..ImageSettings::default() });
    let (with, clock) = (OpenOptions { image, ..options(1) }, SystemClock::new());
    let created: Created<MemoryLogged> = create(&disks(&[scratch.path()]).unwrap(), &with).unwrap();
    let Created { mut store, mut writer, .. } = created;
    fill(&mut store, &mut writer, 40_500);
    drop(writer);
    let opened = open_directories(&[scratch.path()], &with, &clock, &mut ()).unwrap();
    let Opened { mut store, mut writer, checkpointing, .. } = opened;
    // From here on no replay needs the first segment; whether it was archived is not known.
    checkpoint(&mut checkpointing.unwrap(), &LogBuffer::new(), writer.position());
    let others = resolve_table::<Other>(store.schema()).unwrap();
    let key = resolve_index::<OtherKey>(store.schema()).unwrap();
    // A crash meets the last segment with room for less than recovery asks for.
    let block_bytes = with.log.block_bytes;
    for id in 100_000.. {
        if writer.space().available_bytes() < 2 * block_bytes {
            break;
        }
        store.begin().unwrap();
        store.begin_writes();
        let row = store.create(&others, |row| row.set(Other::KEY, id)).unwrap();
        store.insert(&key, id, row).unwrap();
        store.commit().unwrap();
        log(&mut store, &mut writer);
    }
    drop(writer);
    let segment = scratch.path().join("log-000001");
    let before = fs::read(&segment).unwrap();
    let recovered =
        crate::upkeep::recover::recover(&[scratch.path()], false, &clock, &mut ()).unwrap();
    assert!(recovered.groups < recovered.last_group, "the first segment is still needed");
    assert!(fs::read(&segment).unwrap() == before, "a segment was used again");
}

#[test]
fn an_image_in_several_directories_is_looked_after_with_all_of_them() {
    let scratch = tempfile::tempdir().unwrap();
    let [own, second] = ["own", "second"].map(|name| scratch.path().join(name));
    let both = [own.as_path(), &second];
    both.iter().for_each(|directory| fs::create_dir(directory).unwrap());
    let hash = with_image(&both);
    let survey = inspect(&both, &mut ()).unwrap().image.unwrap();
    assert_eq!((survey.directories, survey.damage.len()), (2, 0));
    let checked = check::check(&both, None, None, &mut ()).unwrap();
    assert_eq!((checked.state_hash, checked.failure().is_none()), (Some(hash), true));
    let clock = SystemClock::new();
    let recovered = crate::upkeep::recover::recover(&both, false, &clock, &mut ()).unwrap();
    assert!(recovered.image_bytes > 9_000 * 16);
    let reported = [
        inspect(&[&own], &mut ()).unwrap_err(),
        check::check(&[&own], None, None, &mut ()).unwrap_err(),
        crate::upkeep::recover::recover(&[&own], true, &clock, &mut ()).unwrap_err(),
    ];
    for refused in reported {
        let text = refused.to_string();
        assert!(text.contains("--checkpoint-directory DIR for each"), "{text}");
        assert_eq!(refused.blame(), Blame::Usage, "{text}");
    }
    let wrong = scratch.path().join("wrong");
    fs::create_dir(&wrong).unwrap();
    let three = [own.as_path(), &second, &wrong];
    let reported = [
        inspect(&three, &mut ()).unwrap_err(),
        check::check(&three, None, None, &mut ()).unwrap_err(),
        crate::upkeep::recover::recover(&three, true, &clock, &mut ()).unwrap_err(),
    ];
    for refused in reported {
        let text = refused.to_string();
        assert!(text.contains("lies in 2 directories, 3 were given"), "{text}");
        assert_eq!(refused.blame(), Blame::Usage, "{text}");
    }
    let dump = check::check(&[scratch.path(), &second], None, None, &mut ()).unwrap_err();
    assert!(dump.to_string().contains("leave --checkpoint-directory out"), "{dump}");
}

#[test]
fn an_image_is_inspected_checked_and_recovered_by_those_who_look_after_it() {
    let scratch = tempfile::tempdir().unwrap();
    let hash = with_image(&[scratch.path()]);
    let found = inspect(&[scratch.path()], &mut ()).unwrap();
    let survey = found.image.unwrap();
    // Group 1 is the empty one that begins the epoch.
    assert_eq!((survey.complete, survey.position.group), (1, 2));
    assert_eq!(survey.rings.iter().map(|ring| ring.live).sum::<u64>(), 9_000);
    // The table is in the image and in the group that ties the log to it.
    assert_eq!(found.tables.iter().map(|table| &*table.table).collect::<Vec<_>>(), ["number"]);
    let clock = SystemClock::new();
    let recovered = open_directories(&[scratch.path()], &options(2), &clock, &mut ()).unwrap();
    assert_eq!(state_hash(&mut { recovered.store }).unwrap(), hash);
    assert!(recovered.recovery.image_bytes > 9_000 * 16);
    drop(recovered.writer);

    let file = scratch.path().join(&survey.rings[0].file);
    fs::write(&file, vec![0; fs::metadata(&file).unwrap().len() as usize]).unwrap();
    let damaged = inspect(&[scratch.path()], &mut ()).unwrap().image.unwrap().damage;
    assert_eq!(damaged.len(), 1);
    let refused = open_directories(&[scratch.path()], &options(2), &clock, &mut ()).unwrap_err();
    assert_eq!(refused.blame(), Blame::Check);
    let text = refused.to_string();
    assert!(text.contains(&survey.rings[0].file) && text.contains("at offset"), "{text}");
    let checked = check::check(&[scratch.path()], None, None, &mut ()).unwrap();
    let found = &checked.verification.damage[0];
    assert_eq!((&*found.check, found.file.is_some()), ("image", true));
}

#[test]
fn a_paged_database_with_undecided_transactions_is_inspected_and_not_checked() {
    let scratch = tempfile::tempdir().unwrap();
    let mut store = on_pages(scratch.path());
    let table = resolve_table::<Number>(store.schema()).unwrap();
    let key = resolve_index::<NumberKey>(store.schema()).unwrap();
    store.begin().unwrap();
    store.begin_writes();
    let row = store.create(&table, |row| row.set(Number::ID, 1)).unwrap();
    store.insert(&key, 1, row).unwrap();
    let number = TransactionNumber { island: IslandId(1), opening: 3, counter: 7 };
    store.prepare(number.owner()).unwrap();
    drop(store);
    let refused = check::check(&[scratch.path()], None, None, &mut ()).unwrap_err();
    assert_eq!(refused.blame(), Blame::Environment);
    assert!(refused.to_string().contains("opened, which decides them"), "{refused}");
    let found = inspect_pages(scratch.path()).unwrap();
    assert!(found.files.iter().any(|(name, bytes)| name == "pages" && *bytes > 0), "{found:?}");
    assert_eq!(found.in_doubt, [in_doubt("1.3.7", "prepared", 1)]);
}

fn in_doubt(transaction: &str, state: &str, waits_for: u16) -> InDoubt {
    let (transaction, state) = (transaction.to_owned(), state.to_owned());
    InDoubt { transaction, state, waits_for: vec![waits_for] }
}

/// Makes an island that has prepared a part of one transaction, and decided another one.
fn island(directory: &Path, own: &Membership) {
    fs::create_dir(directory).unwrap();
    let disk = Arc::new(OsDisk::open(directory).unwrap());
    let Created { mut store, mut writer, .. } = create(&[disk], &options(1)).unwrap();
    fill(&mut store, &mut writer, 10);
    for table in prepared_tables().into_iter().chain(membership_tables()) {
        store.create_table(table).unwrap();
    }
    found(&mut store, own).unwrap();
    let (parts, mut locks) = (PreparedParts::new(store.schema()).unwrap(), Locks::new().unwrap());
    let number = |island, counter| TransactionNumber { island, opening: 1, counter };
    let other = IslandId(1 - own.island.0);
    let prepared = number(other, 5);
    let part = {
        let guard = Guard::part(&locks);
        let mut guarded = guard.over(&mut store);
        let key = resolve_index::<NumberKey>(guarded.schema()).unwrap();
        guarded.begin().unwrap();
        guarded.begin_writes();
        assert!(guarded.lookup(&key, 1).unwrap().is_some());
        guarded.commit().unwrap();
        guard.into_part().unwrap()
    };
    locks.acquire(prepared.owner(), part.locks).unwrap();
    let age = Age { at: 0, first: prepared };
    parts.prepare(&mut store, &locks, (prepared, age), &part.changes).unwrap();
    parts.decide(&mut store, &mut locks, (number(own.island, 6), None), &[other]).unwrap();
    log(&mut store, &mut writer);
}

#[test]
fn islands_are_checked_together_and_inspected_each() {
    let scratch = tempfile::tempdir().unwrap();
    let place = |number: usize| scratch.path().join(format!("island-{number}"));
    for number in 0..2 {
        let (id, keys) = (IslandId(number as u16), "hash".to_owned());
        island(&place(number), &Membership { database: 7, island: id, islands: 2, keys });
    }
    let found = inspect(&[place(1)], &mut ()).unwrap();
    let expected = [in_doubt("0.1.5", "prepared", 0), in_doubt("1.1.6", "decided", 0)];
    assert_eq!(found.in_doubt.unwrap(), expected);

    let check = || check::check(&[scratch.path()], None, None, &mut ());
    let whole = check().unwrap();
    assert!(whole.failure().is_none());
    assert!(whole.verification.checks.contains(&("islands".to_owned(), true)));
    assert!(whole.notice.unwrap().contains("2 parts of transactions"));
    // One alone is whole, too, and is no database to run a workload on.
    let alone = check::check(&[place(1)], None, None, &mut ()).unwrap();
    assert!(alone.failure().is_none() && alone.notice.unwrap().contains("this is island 1 of 2"));
    let tampered = check::check(&[place(1)], Some("c01"), None, &mut ()).unwrap_err();
    assert!(tampered.to_string().contains("for a whole database"), "{tampered}");

    let says = |what: &str| {
        let checked = check().unwrap();
        assert!(checked.failure().is_some() && checked.state_hash.is_none());
        let damage = &checked.verification.damage;
        assert!(damage.iter().any(|finding| finding.what.contains(what)), "{damage:?}");
    };
    let away = scratch.path().join("away");
    fs::rename(place(0), &away).unwrap();
    let refused = check().unwrap_err().to_string();
    assert!(refused.contains("holds island-1, and island-0 is missing"), "{refused}");
    fs::rename(place(1), place(0)).unwrap();
    says("island-0 holds island 1 of a database of 2");
    fs::rename(&away, place(1)).unwrap();
    says("island-1 holds island 0 of a database of 2");
    fs::rename(place(0), &away).unwrap();
    fs::rename(place(1), place(0)).unwrap();
    says("island-0 is one of 2 islands, and island-1 is missing");
    let keys = "hash".to_owned();
    island(&place(1), &Membership { database: 8, island: IslandId(1), islands: 2, keys });
    says("island-1 belongs to another database");
}
