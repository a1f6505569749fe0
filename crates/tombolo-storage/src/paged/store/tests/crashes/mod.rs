//! Random transactions, a crash at some call to the disk, also during restart, and disks that are full for a while:
//! afterwards the database is what had committed, what was prepared is held, and work goes on.
//!
//! A case is known by its number: `TOMBOLO_CRASH_FIRST` and `TOMBOLO_CRASH_CASES` say from which one on and how
//! many are run.

mod prepared;
mod reads;

use super::*;
use crate::dynamic::DynamicTable;
use crate::log::read_log;
use crate::log::record::Content;
use crate::owner::Owner;
use crate::plant::{self, Plant};
use crate::schema::{ColumnDef, IndexDef, IndexKind};
use crate::types::{Integer, Text, Varchar};
use crate::value::Value;
use crate::value_log::tests::crash_disk::CrashDisk;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Rows of a table: which table, its key.
type Key = (usize, i64);
/// A row's group, and its text.
type Row_ = (i64, String);
type Rows = BTreeMap<Key, Row_>;
/// What a transaction made of rows, and which it found absent.
#[derive(Clone, Default)]
struct Changes {
    rows: BTreeMap<Key, Option<Row_>>,
    absent: BTreeSet<Key>,
}

/// What was asked for, and not answered before a crash.
enum Doubt {
    /// A commit, after which there would be these rows.
    Commit(Rows),
    /// That a transaction with these changes is prepared.
    Prepare(Owner, Changes),
    /// That a prepared one commits or aborts.
    Decide(Owner, Decision),
}

const TABLES: usize = 3;
const IDS: u64 = 40;

/// Why a run ends.
enum Stop {
    /// The disk did.
    Crashed,
}

type Run<T = ()> = Result<T, Stop>;

pub(super) fn definition(number: usize) -> TableDef {
    let columns = vec![
        ColumnDef::of::<Integer>("id"),
        ColumnDef::of::<Integer>("kind"),
        ColumnDef::of::<Text>("body"),
        ColumnDef::of::<Varchar<250>>("label"),
    ];
    let index = |name: &str, columns: &[usize], unique| IndexDef {
        name: format!("{name}{number}").into(),
        columns: columns.to_vec(),
        unique,
        kind: IndexKind::Tree,
    };
    let mut indexes = vec![index("pk", &[0], true)];
    if number != 1 {
        indexes.push(index("by_kind", &[1], false));
        // Long keys, few of which fit a page.
        indexes.push(index("by_label", &[3], false));
    }
    TableDef { name: format!("t{number}").into(), columns, indexes }
}

fn crash_settings() -> PagedSettings {
    let mut settings = settings();
    settings.pool_bytes = 16 * 8192;
    settings.log.segment_bytes = 64 << 10;
    settings.log.buffer_bytes = 0;
    (settings.locks.wait_interval_ms, settings.locks.wait_intervals_max) = (1, 1);
    settings.locks.buckets = 64;
    settings.locks.requests_max = 4_000;
    settings.locks.sessions_max = 8;
    settings
}

/// A session and its transaction.
struct Client<P: PagedProfile> {
    store: PagedStore<P>,
    /// What its transaction changed so far; none is under way if there is none.
    changes: Option<Changes>,
}

struct World<P: PagedProfile> {
    random: Random,
    disk: CrashDisk,
    clients: Vec<Client<P>>,
    tables: Vec<DynamicTable>,
    /// What has committed.
    committed: Rows,
    /// What is prepared and not decided.
    prepared: BTreeMap<Owner, Changes>,
    /// Transactions that were asked to prepare so far.
    owners: u128,
    doubt: Option<Doubt>,
    /// One in how many steps decides a transaction, if one is prepared.
    decides: u64,
    /// Whether a table may have come that is not known.
    table_in_doubt: bool,
    /// Whether pages may be torn.
    tears: bool,
    /// One in how many steps finds the disk full, or with room again; never if 0.
    fills: u64,
}

impl<P: PagedProfile> World<P> {
    fn create(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let disk = CrashDisk::default();
        let store = PagedStore::create(&disk, &crash_settings()).unwrap();
        let tears = random.below(5) > 0;
        let fills = [0, 0, 10, 40][random.below(4) as usize];
        let (committed, prepared, owners) = Default::default();
        let (doubt, table_in_doubt) = (None, false);
        let decides = [3, 20, 100][random.below(3) as usize];
        let clients = vec![Client { store, changes: None }];
        let tables = Vec::new();
        Self {
            random,
            disk,
            clients,
            tables,
            committed,
            prepared,
            owners,
            doubt,
            decides,
            table_in_doubt,
            tears,
            fills,
        }
    }

    /// Lets sessions work on what was opened.
    fn enter(&mut self, store: PagedStore<P>) {
        let tables = store.schema().tables.len();
        assert!(
            tables == self.tables.len() || tables == self.tables.len() + 1 && self.table_in_doubt
        );
        self.table_in_doubt = false;
        self.tables = (0..tables).map(|at| DynamicTable::new(store.schema(), at)).collect();
        self.clients = vec![Client { store, changes: None }];
    }

    fn add_table(&mut self) -> Run {
        self.clients.truncate(1);
        let number = self.tables.len();
        match self.clients[0].store.create_table(definition(number)) {
            Ok(_) => self.tables.push(DynamicTable::new(self.clients[0].store.schema(), number)),
            Err(_) if self.disk.has_failed() => {
                self.table_in_doubt = true;
                return Err(Stop::Crashed);
            }
            Err(error) => assert!(self.disk.is_limited(), "{error}"),
        }
        Ok(())
    }

    /// Lets the disk end soon.
    fn limit(&mut self) {
        let room = [0, 0, 30_000, 200_000][self.random.below(4) as usize];
        let bytes = self.disk.used_bytes() + self.random.below(room + 1) as usize;
        self.disk.set_capacity_bytes(Some(bytes));
    }

    fn any_row(&mut self) -> Row_ {
        let longest = [0, 8, 60, 60, 700, 3_000][self.random.below(6) as usize];
        let letter = char::from(b'a' + self.random.below(26) as u8);
        let text = std::iter::repeat_n(letter, self.random.below(longest + 1) as usize).collect();
        (self.random.below(7) as i64, text)
    }

    /// One change by a client, which has keys of its own.
    fn change(&mut self, at: usize) -> Result<(), Error> {
        let table = self.random.below(self.tables.len() as u64) as usize;
        let id = (self.random.below(IDS) * 2 + at as u64) as i64;
        let new = self.any_row();
        let label = label(new.0, id);
        let text = Value::Text(&new.1);
        let values = [Value::Integer(id), Value::Integer(new.0), text, Value::Text(&label)];
        let deletes = self.random.below(3) == 0;
        let Client { store, changes } = &mut self.clients[at];
        let Some(changes) = changes else { return Ok(()) };
        let table_at = &self.tables[table];
        let index = table_at.indexes().next().unwrap();
        let key = (table, id);
        match store.lookup_for_update(index, &[Value::Integer(id)])? {
            None if deletes => {
                changes.absent.insert(key);
            }
            None => {
                table_at.insert(store, &values)?;
                assert!(!is_absent(&self.prepared, key), "{key:?} is a phantom");
                changes.rows.insert(key, Some(new));
            }
            Some(row) if deletes => {
                table_at.delete(store, row)?;
                changes.rows.insert(key, None);
            }
            Some(row) => {
                table_at.update(store, row, &values)?;
                changes.rows.insert(key, Some(new));
            }
        }
        Ok(())
    }

    /// Deletes all rows of a table that a client has.
    fn delete_all(&mut self, at: usize) -> Result<(), Error> {
        let table = self.random.below(self.tables.len() as u64) as usize;
        let Client { store, changes } = &mut self.clients[at];
        let Some(changes) = changes else { return Ok(()) };
        let index = self.tables[table].indexes().next().unwrap();
        for id in (0..IDS as i64).map(|id| id * 2 + at as i64) {
            if let Some(row) = store.lookup_for_update(index, &[Value::Integer(id)])? {
                self.tables[table].delete(store, row)?;
                changes.rows.insert((table, id), None);
            }
        }
        Ok(())
    }

    /// Makes all rows that a client may have and that are not there, so that trees grow, or shrink when it aborts.
    fn insert_all(&mut self, at: usize) -> Result<(), Error> {
        for table in 0..self.tables.len() {
            for id in (0..IDS as i64).map(|id| id * 2 + at as i64) {
                let new = (self.random.below(7) as i64, String::new());
                let label = label(new.0, id);
                let (text, label) = (Value::Text(&new.1), Value::Text(&label));
                let values = [Value::Integer(id), Value::Integer(new.0), text, label];
                let Client { store, changes } = &mut self.clients[at];
                let Some(changes) = changes else { return Ok(()) };
                let index = self.tables[table].indexes().next().unwrap();
                if store.lookup_for_update(index, &[Value::Integer(id)])?.is_none() {
                    self.tables[table].insert(store, &values)?;
                    assert!(!is_absent(&self.prepared, (table, id)), "{id} is a phantom");
                    changes.rows.insert((table, id), Some(new));
                }
            }
        }
        Ok(())
    }

    fn change_some(&mut self, at: usize) -> Result<(), Error> {
        match self.random.below(40) {
            0 => self.delete_all(at),
            1 => self.insert_all(at),
            2..6 => self.read_some(at),
            _ => self.change(at),
        }
    }

    /// Changes behind a savepoint, which are undone mostly. What was found absent stays so.
    fn part(&mut self, at: usize, depth: u64) -> Result<(), Error> {
        let savepoint = self.clients[at].store.savepoint();
        let before = self.clients[at].changes.clone();
        let count = self.random.below(5);
        let ended = (0..count).try_for_each(|_| match self.random.below(4 + 2 * depth) {
            0 => self.part(at, depth + 1),
            _ => self.change_some(at),
        });
        match ended {
            // It goes on without the part that found no room.
            Err(error) if error.is_full() && !self.disk.has_failed() => {}
            Ok(()) if self.random.below(3) > 0 => {}
            ended => return ended,
        }
        let Client { store, changes } = &mut self.clients[at];
        store.back_to(savepoint)?;
        if let (Some(changes), Some(before)) = (changes, before) {
            changes.rows = before.rows;
        }
        Ok(())
    }

    fn step(&mut self) -> Run {
        let is_time =
            self.tables.is_empty() || self.tables.len() < TABLES && self.random.below(60) == 0;
        if is_time && self.clients.iter().all(|client| client.changes.is_none()) {
            return self.add_table();
        }
        if self.fills > 0 && self.random.below(self.fills) == 0 {
            match self.random.below(3) {
                0 => self.disk.set_capacity_bytes(None),
                _ => self.limit(),
            }
        }
        if self.clients.len() < 2 {
            let session = self.clients[0].store.session();
            self.clients
                .extend(session.map(|store| Client { store: store.unwrap(), changes: None }));
        }
        let at = self.random.below(self.clients.len() as u64) as usize;
        if !self.prepared.is_empty() && self.random.below(self.decides) == 0 {
            self.decide_one(at)?;
        }
        if self.clients[at].changes.is_none() {
            self.clients[at].store.begin().map_err(|_| Stop::Crashed)?;
            self.clients[at].store.begin_writes();
            self.clients[at].changes = Some(Changes::default());
        }
        for _ in 0..self.random.below(4) {
            let changed = match self.random.below(6) {
                0 => self.part(at, 0),
                _ => self.change_some(at),
            };
            match changed {
                Ok(()) => {}
                Err(Error::LockTimeout | Error::Deadlock) => return self.end(at, false),
                Err(_) if self.disk.has_failed() => return Err(Stop::Crashed),
                Err(error) if error.is_full() => return self.end(at, false),
                Err(error) => panic!("{error:?}"),
            }
        }
        match self.random.below(9) {
            0..3 => self.end(at, true),
            3 => self.end(at, false),
            4 => self.prepare(at),
            _ => return Ok(()),
        }?;
        // The other session's transaction goes on.
        let store = &mut self.clients[at].store;
        let kept = match self.random.below(12) {
            0..2 => store.checkpoint().map(drop),
            2 => store.make_frames_ready(),
            _ => return Ok(()),
        };
        match kept {
            Err(_) if self.disk.has_failed() => return Err(Stop::Crashed),
            kept => assert!(kept.as_ref().err().is_none_or(OpenError::is_full), "{kept:?}"),
        }
        Ok(())
    }

    fn end(&mut self, at: usize, commits: bool) -> Run {
        let changes = self.clients[at].changes.take().unwrap();
        let after = changed(&self.committed, changes);
        let store = &mut self.clients[at].store;
        match if commits { store.commit() } else { store.abort() } {
            Ok(()) if commits => self.committed = after,
            Ok(()) => {}
            Err(error) => {
                // No full disk stops a commit or an abort.
                assert!(self.disk.has_failed(), "{error}");
                self.doubt = commits.then_some(Doubt::Commit(after));
                return Err(Stop::Crashed);
            }
        }
        Ok(())
    }

    /// Works until the disk fails, or for a while.
    fn work(&mut self, steps: u64) -> Run {
        (0..steps).try_for_each(|_| self.step())
    }

    /// Nothing is written any more, and what is not durable may be lost.
    fn crash(&mut self) {
        self.disk.fail_after(Some(0));
        self.clients.clear();
        self.disk = match self.random.below(4) {
            0 => self.disk.kill(),
            _ if self.tears => self.disk.crash(&mut self.random),
            _ => self.disk.crash_whole(&mut self.random),
        };
    }

    /// Restarts, with crashes in between; the database is as it was.
    fn restart(&mut self) {
        for _ in 0..self.random.below(5) {
            let calls = [10, 60, 300][self.random.below(3) as usize];
            self.disk.fail_after(Some(self.random.below(calls)));
            if self.fills > 0 && self.random.below(2) == 0 {
                self.limit();
            }
            let opened = self.open();
            self.crash();
            drop(opened);
        }
        self.disk.fail_after(None);
        if self.fills > 0 && self.random.below(2) == 0 {
            self.limit();
        }
        let opened = self.open().or_else(|_| {
            // It was full, and now there is room.
            self.disk.set_capacity_bytes(None);
            self.open()
        });
        match opened {
            Ok(store) => self.enter(store),
            Err(error) => panic!("{error}"),
        }
        self.verify();
    }

    /// Opens the database. If it is refused for want of room, no record was written: nothing was begun.
    fn open(&self) -> Result<PagedStore<P>, OpenError> {
        let end = |disk: &CrashDisk| read_log(disk, 0, |_, _| ()).map(|end| end.lsn);
        let before = self.disk.is_limited().then(|| end(&self.disk.kill()).unwrap());
        let opened = PagedStore::open(&self.disk, &crash_settings());
        if let (Err(error), Some(before), false) = (&opened, before, self.disk.has_failed()) {
            assert!(error.is_full() && error.to_string().contains("room"), "{error}");
            assert_eq!(end(&self.disk.kill()), Ok(before), "{error}");
        }
        opened
    }

    fn verify(&mut self) {
        assert_eq!(self.clients[0].store.check(), []);
        self.verify_prepared();
        let may_be = match self.doubt.take() {
            Some(Doubt::Commit(rows)) => Some(rows),
            _ => None,
        };
        if !self.prepared.is_empty() {
            return self.verify_undecided(may_be);
        }
        let store = &mut self.clients[0].store;
        let mut found = Rows::new();
        store.begin().unwrap();
        for (at, table) in self.tables.iter().enumerate() {
            for row in table.row_ids(store).unwrap() {
                let (key, row) = table.read(store, row, |values| row_of(at, values)).unwrap();
                assert_eq!(found.insert(key, row), None, "twice");
            }
        }
        store.commit().unwrap();
        if may_be.is_some_and(|rows| rows == found) {
            self.committed = found;
        } else {
            assert!(found == self.committed, "{}", difference(&self.committed, &found));
        }
    }

    fn close(&mut self) {
        self.clients.truncate(1);
        let client = self.clients.remove(0);
        // Transactions of sessions that end are aborted; this one's, too.
        let closed = match client.changes {
            Some(_) => return,
            None => client.store.close(),
        };
        match closed {
            Ok(()) => {}
            Err(OpenError::Undecided { owners }) => assert!(self.prepared.keys().eq(&owners)),
            Err(error) => assert!(self.disk.has_failed() || error.is_full(), "{error}"),
        }
    }
}

/// What rows become by changes.
fn changed(rows: &Rows, changes: Changes) -> Rows {
    let mut rows = rows.clone();
    for (key, row) in changes.rows {
        match row {
            Some(row) => rows.insert(key, row),
            None => rows.remove(&key),
        };
    }
    rows
}

/// Whether a prepared transaction counts on there being no such row.
fn is_absent(prepared: &BTreeMap<Owner, Changes>, key: Key) -> bool {
    prepared.values().any(|changes| changes.absent.contains(&key))
}

pub(super) fn label(kind: i64, id: i64) -> String {
    format!("{kind:0120}{id:0100}")
}

fn row_of(table: usize, values: &[Value<'_>]) -> (Key, Row_) {
    match *values {
        [Value::Integer(id), Value::Integer(kind), Value::Text(text), Value::Text(named)] => {
            assert_eq!(named, label(kind, id));
            ((table, id), (kind, text.to_owned()))
        }
        ref other => panic!("{other:?}"),
    }
}

fn difference(expected: &Rows, found: &Rows) -> String {
    let keys: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let differ = keys.into_iter().filter(|key| expected.get(key) != found.get(key));
    let short = |row: Option<&Row_>| row.map(|(kind, text)| (*kind, text.len()));
    differ
        .map(|key| format!("{key:?}: {:?} {:?}\n", short(expected.get(key)), short(found.get(key))))
        .collect()
}

/// No number is that of two transactions.
fn audit(disk: &CrashDisk) {
    let mut ended = BTreeSet::new();
    let found = read_log(disk, 0, |lsn, record| {
        let id = record.transaction;
        assert!(id == 0 || !ended.contains(&id), "{id} at {lsn}");
        let ends = match record.content {
            Content::Committed { clears, .. } => !clears,
            Content::Aborted { .. } | Content::Ended => true,
            _ => false,
        };
        if ends {
            ended.insert(id);
        }
    });
    found.unwrap();
}

fn case<P: PagedProfile>(seed: u64) {
    let mut world = World::<P>::create(seed);
    for _ in 0..1 + world.random.below(4) {
        let (calls, steps) = [(30, 40), (200, 80), (1_500, 200)][world.random.below(3) as usize];
        let calls = world.random.below(calls);
        world.disk.fail_after(Some(calls));
        let worked = world.work(steps);
        if worked.is_ok() && world.random.below(2) == 0 {
            world.close();
        }
        world.crash();
        world.restart();
        audit(&world.disk);
    }
    world.decide_all();
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn cases<P: PagedProfile>(count: u64) {
    let first = number("TOMBOLO_CRASH_FIRST").unwrap_or(0);
    let (next, end) =
        (AtomicU64::new(first), first + number("TOMBOLO_CRASH_CASES").unwrap_or(count));
    let some = || {
        while let Some(seed) = Some(next.fetch_add(1, Relaxed)).filter(|seed| *seed < end) {
            if seed > first && (seed - first).is_multiple_of(5_000) {
                eprintln!("{} of {} crash cases", seed - first, end - first);
            }
            if let Err(panic) = catch_unwind(|| case::<P>(seed)) {
                eprintln!("case {seed}");
                next.store(end, Relaxed);
                resume_unwind(panic);
            }
        }
    };
    // More than there are cores: a case waits for its own locks most of the time.
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(some))));
}

#[test]
fn what_committed_is_there_after_any_crash() {
    cases::<Conventional>(8_000);
}

#[test]
fn the_same_where_all_pages_stay_in_memory() {
    cases::<AloneBufferManager>(2_000);
}

/// One of the first cases notices a bug that is planted.
fn notices(plant: Plant) {
    let passes = |seed| catch_unwind(|| plant::with(plant, || case::<Conventional>(seed))).is_ok();
    assert!(!(0..2_000).all(passes), "{}", plant.name());
}

#[test]
fn pages_that_are_written_too_early_or_not_at_all_are_noticed() {
    notices(Plant::PageBeforeItsLog);
    notices(Plant::DirtyPageDropped);
    notices(Plant::PagesNotSynced);
}

#[test]
fn pages_that_a_crash_tore_and_that_have_no_copy_are_noticed() {
    notices(Plant::CopyNotKept);
    notices(Plant::SlotsUsedEarly);
}

#[test]
fn a_checkpoint_that_releases_what_a_restart_needs_is_noticed() {
    notices(Plant::DirtyPagesNotListed);
    notices(Plant::OldestForgotten);
}

#[test]
fn a_commit_that_is_answered_before_it_is_durable_is_noticed() {
    notices(Plant::CommitNotFlushed);
}

#[test]
fn a_restart_that_repeats_what_a_page_has_is_noticed() {
    notices(Plant::RedoneTwice);
}

#[test]
fn a_tree_that_is_divided_wrongly_is_noticed() {
    notices(Plant::NeighbourNotLinked);
    notices(Plant::SeparatorTooLow);
}

#[test]
fn a_row_that_comes_where_a_transaction_found_none_is_noticed() {
    notices(Plant::GapEnteredAnyway);
}

#[test]
fn a_restart_that_reserves_no_log_space_is_noticed() {
    notices(Plant::RestartReservesNothing);
}

#[test]
fn a_restart_without_the_locks_of_prepared_transactions_is_noticed() {
    notices(Plant::PreparedLocksForgotten);
    notices(Plant::HandedOnGapsForgotten);
}

#[test]
fn a_restart_that_does_not_know_of_savepoints_is_noticed() {
    notices(Plant::UndoneDeletionsCleared);
}

#[test]
fn a_log_that_is_not_kept_for_prepared_transactions_is_noticed() {
    notices(Plant::PreparedLogReleased);
    notices(Plant::PreparedBeginningReleased);
    notices(Plant::PreparedForgottenByRestart);
}
