//! Sessions of a paged database that run drawn transactions and note what they saw: for tests that judge it.
//!
//! Few keys in two indexes, one of them not unique, next to rows that take more pages than the pool has: sessions
//! wait for each other's locks, look for what others insert and delete, evict each other's pages, let each other's
//! rows grow and revive each other's entries, and make checkpoints. Rows have balances, whose sum is always 0.
//!
//! Where the disk fails a session stops. What it did not ask to commit counts as aborted; a commit that was not
//! confirmed may have happened. The sessions of the database as it is opened again go on with the same history.
//!
//! Not here: threads, the source of random numbers, disks.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tombolo_verify::{Datum, History, Holds, Level, Operation, Outcome, Transaction};

use tombolo_storage::disk::Disk;
use tombolo_storage::error::Error;
use tombolo_storage::key::Range;
use tombolo_storage::lock::LockSettings;
use tombolo_storage::log::LogSettings;
use tombolo_storage::paged::store::{Isolation, PagedSettings, PagedStore};
use tombolo_storage::profile::Conventional;
use tombolo_storage::row::{Fields, RowId};
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::{Index, Order, Store, Table, resolve_index, resolve_table};

tombolo_storage::table! {
    /// Keys with a value that no other write writes.
    struct Item = "item" {
        KEY: Integer;
        GROUP: Integer;
        VALUE: BigInt => hot;
        BALANCE: BigInt => hot;
        TEXT: Varchar<2000>;
    }
}
tombolo_storage::index! { struct ByKey = "item_pk" on Item (KEY: Integer) unique Tree; }
tombolo_storage::index! { struct ByGroup = "item_group" on Item (GROUP: Integer) multiple Tree; }

const TABLE: &str = "item";
/// Keys of a group.
const GROUP_KEYS: i32 = 3;

/// How much there is of everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Keys that most operations are about.
    pub(crate) keys: i32,
    /// Keys behind these, whose rows take more pages than the pool has.
    pub(crate) keys_aside: i32,
    /// Whether transactions look at all of those again; where there are many, more is open than can be judged.
    pub(crate) looks_again: bool,
    pub(crate) pool_bytes: usize,
    /// What all transactions are promised.
    pub(crate) isolation: Isolation,
}

impl Sizes {
    /// Of a database.
    pub(crate) fn settings(&self) -> PagedSettings {
        // A wait that does not end is one of too many steps, or of a thread that nothing wakes.
        let locks = LockSettings { wait_intervals_max: u32::MAX, ..LockSettings::default() };
        // Both as small as they can be: checkpoints release segments, and take them again.
        let log = LogSettings { segment_bytes: 0, buffer_bytes: 0, ..LogSettings::default() };
        let Self { pool_bytes, isolation, .. } = *self;
        PagedSettings { pool_bytes, locks, log, isolation, ..PagedSettings::default() }
    }
}

/// How many transactions were judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    pub(crate) transactions: usize,
    pub(crate) aborted: usize,
    /// Whether it is proved; otherwise there is no sign of an anomaly, and too much is open to exclude all.
    pub(crate) is_decided: bool,
}

/// A source of random numbers: one below its argument.
pub(crate) type Draw = Box<dyn FnMut(u32) -> u32 + Send>;

/// Why a session stops.
pub(crate) type Stopped = Box<dyn std::error::Error>;

/// What all sessions of a database saw, before and after it was opened again.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    clock: Arc<AtomicU64>,
    /// How many transactions changed nothing.
    readers: Arc<AtomicU64>,
    history: Arc<Mutex<Vec<Transaction>>>,
}

/// One session with its handles and what it saw.
pub(crate) struct Caller {
    store: PagedStore<Conventional>,
    table: Table<Item>,
    by_key: Index<ByKey>,
    by_group: Index<ByGroup>,
    sizes: Sizes,
    session: i64,
    values: i64,
    pub(crate) seen: Seen,
    draw: Draw,
}

impl Caller {
    /// The first session of a new database with most keys.
    pub(crate) fn first<D: Disk + Clone + 'static>(disk: &D, sizes: Sizes, draw: Draw) -> Self {
        let mut store = PagedStore::create(disk, &sizes.settings()).unwrap();
        let table = TableDef::of::<Item>().with::<ByKey>().with::<ByGroup>();
        store.create_table(table).unwrap();
        let mut first = Self::of(store, sizes, Seen::default(), 0, draw);
        let made = first.transaction(|caller, seen| {
            caller.store.begin_writes();
            // Of those that most operations are about, half is there.
            let is_there = |key: &i32| *key >= sizes.keys || key % 2 == 0;
            let mut keys = (0..caller.keys()).filter(is_there);
            keys.try_for_each(|key| caller.insert(key, seen)).map(|()| true)
        });
        made.unwrap();
        first
    }

    /// Another session of the same database, of a number that no session of this history has.
    pub(crate) fn another(&self, session: i64, draw: Draw) -> Self {
        let store = self.store.session().unwrap().unwrap();
        Self::of(store, self.sizes, self.seen.clone(), session, draw)
    }

    /// A session that goes on with a history.
    pub(crate) fn of(
        store: PagedStore<Conventional>,
        sizes: Sizes,
        seen: Seen,
        session: i64,
        draw: Draw,
    ) -> Self {
        Self {
            table: resolve_table(store.schema()).unwrap(),
            by_key: resolve_index(store.schema()).unwrap(),
            by_group: resolve_index(store.schema()).unwrap(),
            sizes,
            store,
            session,
            values: 0,
            seen,
            draw,
        }
    }

    /// Reads everything when the other sessions have ended. Heaps and indexes agree, and no money came or went.
    pub(crate) fn read_all(&mut self) {
        let read = self.transaction(|caller, seen| {
            let mut sum = 0;
            for key in 0..caller.keys() {
                let row = caller.store.lookup(&caller.by_key, key)?;
                let value = row.map(|row| caller.value(row)).transpose()?;
                sum += row.map_or(Ok(0), |row| caller.balance(row))?;
                seen.push(Operation::read(TABLE, i64::from(key), value));
            }
            assert_eq!(sum, 0, "the sum of all balances");
            Ok(true)
        });
        read.unwrap();
        assert_eq!(self.store.check(), []);
    }

    /// Reads everything, and judges what all sessions saw: whether it is what they were promised.
    pub(crate) fn judge(mut self) -> Judged {
        let level = match self.sizes.isolation {
            Isolation::Serializable => Level::StrictSerializable,
            Isolation::ReadCommitted => Level::ReadCommitted,
        };
        self.read_all();
        let history = self.seen.history.lock().unwrap();
        let verdict = History::of(history.iter()).unwrap().judge(level);
        let holds = verdict.levels.of(level);
        assert!(holds != Holds::No, "{verdict}");
        let aborted = history.iter().filter(|one| one.outcome == Outcome::Aborted).count();
        Judged { transactions: history.len(), aborted, is_decided: holds == Holds::Yes }
    }

    fn keys(&self) -> i32 {
        self.sizes.keys + self.sizes.keys_aside
    }

    fn draw(&mut self, below: i32) -> i32 {
        (self.draw)(below as u32) as i32
    }

    /// Runs a transaction and notes what it saw and what became of it; an error is why no other one can follow.
    fn transaction(
        &mut self,
        work: impl FnOnce(&mut Self, &mut Vec<Operation>) -> Result<bool, Error>,
    ) -> Result<(), Stopped> {
        let (begin, mut seen) = (self.seen.clock.fetch_add(1, Ordering::SeqCst), Vec::new());
        self.store.begin()?;
        let worked = work(self, &mut seen);
        let (outcome, ended) = match &worked {
            Ok(true) => match self.store.commit() {
                Ok(()) => (Outcome::Committed, Ok(())),
                error => (Outcome::Unknown, error),
            },
            Ok(false) | Err(Error::Deadlock) => (Outcome::Aborted, self.store.abort()),
            Err(_) => (Outcome::Aborted, worked.map(drop)),
        };
        let commit = (outcome == Outcome::Committed).then(|| self.place(&seen));
        let end = self.seen.clock.fetch_add(1, Ordering::SeqCst);
        let one = Transaction {
            outcome,
            commit,
            ..Transaction::committed(self.session, begin, end, seen)
        };
        self.seen.history.lock().unwrap().push(one);
        Ok(ended?)
    }

    /// A place of its own for the transaction that was just committed; those that changed nothing are behind
    /// the newest one that did.
    fn place(&self, seen: &[Operation]) -> u64 {
        let is_change =
            |op: &Operation| matches!(op, Operation::Write { .. } | Operation::Delete { .. });
        let behind = match seen.iter().any(is_change) {
            true => 0,
            false => 1 + self.seen.readers.fetch_add(1, Ordering::Relaxed) % 0xFFFF,
        };
        (self.store.committed_at() << 16) + behind
    }

    /// A transaction of a few operations on keys drawn, and now and then a checkpoint.
    ///
    /// # Errors
    /// Why the session stops.
    pub(crate) fn random(&mut self) -> Result<(), Stopped> {
        if self.draw(16) == 0 {
            self.store.checkpoint()?;
        }
        let commits = self.draw(6) > 0;
        let operations = 1 + self.draw(4);
        self.transaction(|caller, seen| {
            let mut writes = false;
            for _ in 0..operations {
                let Sizes { keys, keys_aside, .. } = caller.sizes;
                let (key, aside) = (caller.draw(2 * keys), keys + caller.draw(keys_aside));
                let key = if key < keys { key } else { aside };
                match caller.draw(9) {
                    0 => {
                        let last = key + caller.draw(GROUP_KEYS);
                        caller.range(key, last, seen)?;
                    }
                    1 => caller.group(key / GROUP_KEYS, seen)?,
                    2 => {
                        let to = caller.draw(keys);
                        caller.begin_writes(&mut writes);
                        caller.transfer(key, to, seen)?;
                    }
                    _ => caller.operation(key, &mut writes, seen)?,
                }
            }
            // What appeared or changed behind its back shows when it looks again.
            if caller.sizes.looks_again && caller.draw(2) == 0 {
                caller.range(0, caller.sizes.keys - 1, seen)?;
            }
            Ok(commits)
        })
    }

    fn begin_writes(&mut self, writes: &mut bool) {
        if !*writes {
            self.store.begin_writes();
            *writes = true;
        }
    }

    fn operation(
        &mut self,
        key: i32,
        writes: &mut bool,
        seen: &mut Vec<Operation>,
    ) -> Result<(), Error> {
        let id = i64::from(key);
        let is_write = self.draw(3) > 0;
        if is_write {
            self.begin_writes(writes);
        }
        let row = match is_write {
            true => self.store.lookup_for_update(&self.by_key, key)?,
            false => self.store.lookup(&self.by_key, key)?,
        };
        let Some(row) = row else {
            seen.push(Operation::read(TABLE, id, None));
            return if is_write { self.insert(key, seen) } else { Ok(()) };
        };
        let before = self.value(row)?;
        if !is_write {
            seen.push(Operation::read(TABLE, id, Some(before)));
            return Ok(());
        }
        if self.draw(4) == 0 {
            return self.move_row(row, key, seen);
        }
        if self.draw(3) == 0 && self.balance(row)? == 0 {
            assert!(self.store.remove(&self.by_group, key / GROUP_KEYS, row)?);
            assert!(self.store.remove(&self.by_key, key, row)?);
            self.store.delete(&self.table, row)?;
            seen.push(Operation::delete(TABLE, id).over(Some(before)));
            return Ok(());
        }
        let value = self.next_value();
        self.store.update(&self.table, row, Fields::none().with(Item::VALUE), |row| {
            row.set(Item::VALUE, value);
        })?;
        if self.draw(2) == 0 {
            let text = self.text(value);
            self.store.update(&self.table, row, Fields::none().with(Item::TEXT), |row| {
                row.set(Item::TEXT, text.as_slice());
            })?;
        }
        seen.push(Operation::write(TABLE, id, value).over(Some(before)));
        Ok(())
    }

    /// Moves what a row has to another one, or an amount if it has nothing.
    fn transfer(&mut self, from: i32, to: i32, seen: &mut Vec<Operation>) -> Result<(), Error> {
        let mut rows = [None; 2];
        for (row, key) in rows.iter_mut().zip([from, to]) {
            *row = self.store.lookup_for_update(&self.by_key, key)?;
            if row.is_none() {
                seen.push(Operation::read(TABLE, i64::from(key), None));
                return Ok(());
            }
        }
        let [Some(source), Some(target)] = rows else { return Ok(()) };
        if source == target {
            return Ok(());
        }
        let amount = match self.balance(source)? {
            0 => 1 + i64::from(self.draw(9)),
            all => all,
        };
        for (row, key, change) in [(source, from, -amount), (target, to, amount)] {
            let (before, value) = (self.value(row)?, self.next_value());
            let balance = self.balance(row)? + change;
            let changed = Fields::none().with(Item::VALUE).with(Item::BALANCE);
            self.store.update(&self.table, row, changed, |row| {
                row.set(Item::VALUE, value);
                row.set(Item::BALANCE, balance);
            })?;
            seen.push(Operation::write(TABLE, i64::from(key), value).over(Some(before)));
        }
        Ok(())
    }

    /// Gives the row of `key` another key, if that is free; its transaction has entries of both until it ends.
    fn move_row(&mut self, row: RowId, key: i32, seen: &mut Vec<Operation>) -> Result<(), Error> {
        let (before, to) = (self.value(row)?, self.draw(self.sizes.keys));
        match self.store.insert(&self.by_key, to, row) {
            Ok(()) => {}
            Err(Error::Duplicate { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        let value = self.next_value();
        let changed = Fields::none().with(Item::KEY).with(Item::GROUP).with(Item::VALUE);
        self.store.update(&self.table, row, changed, |row| {
            row.set(Item::KEY, to);
            row.set(Item::GROUP, to / GROUP_KEYS);
            row.set(Item::VALUE, value);
        })?;
        assert!(self.store.remove(&self.by_key, key, row)?);
        if key / GROUP_KEYS != to / GROUP_KEYS {
            assert!(self.store.remove(&self.by_group, key / GROUP_KEYS, row)?);
            self.store.insert(&self.by_group, to / GROUP_KEYS, row)?;
        }
        seen.push(Operation::delete(TABLE, i64::from(key)).over(Some(before)));
        seen.push(Operation::write(TABLE, i64::from(to), value).over(None));
        Ok(())
    }

    /// All keys of a range, in one order or the other.
    fn range(&mut self, key: i32, last: i32, seen: &mut Vec<Operation>) -> Result<(), Error> {
        let order = if self.draw(2) == 0 { Order::Forward } else { Order::Backward };
        let mut found = Vec::new();
        let visit = |row| {
            found.push(row);
            ControlFlow::Continue(())
        };
        self.store.scan(&self.by_key, Range::between(key, last), order, visit)?;
        self.note_scan((key, last), &found, seen)
    }

    /// All keys of a group, or only whether it has any.
    fn group(&mut self, group: i32, seen: &mut Vec<Operation>) -> Result<(), Error> {
        let keys = (group * GROUP_KEYS, group * GROUP_KEYS + GROUP_KEYS - 1);
        let mut found = Vec::new();
        if self.draw(2) == 0 {
            let Some(row) = self.store.lookup(&self.by_group, group)? else {
                return self.note_scan(keys, &[], seen);
            };
            let (key, value) = (self.key(row)?, self.value(row)?);
            seen.push(Operation::read(TABLE, i64::from(key), Some(value)));
            return Ok(());
        }
        let visit = |row| {
            found.push(row);
            ControlFlow::Continue(())
        };
        self.store.scan(&self.by_group, Range::between(group, group), Order::Forward, visit)?;
        self.note_scan(keys, &found, seen)
    }

    fn note_scan(
        &mut self,
        (first, last): (i32, i32),
        found: &[RowId],
        seen: &mut Vec<Operation>,
    ) -> Result<(), Error> {
        let mut rows = Vec::new();
        for &row in found {
            rows.push((Datum::from(i64::from(self.key(row)?)), self.value(row)?));
        }
        seen.push(Operation::scan(TABLE, i64::from(first), i64::from(last), rows));
        Ok(())
    }

    fn insert(&mut self, key: i32, seen: &mut Vec<Operation>) -> Result<(), Error> {
        let (value, text) = (self.next_value(), self.text(self.values));
        let row = self.store.create(&self.table, |row| {
            row.set(Item::KEY, key);
            row.set(Item::GROUP, key / GROUP_KEYS);
            row.set(Item::VALUE, value);
            row.set(Item::BALANCE, 0);
            row.set(Item::TEXT, text.as_slice());
        })?;
        match self.store.insert(&self.by_key, key, row) {
            Ok(()) => {
                self.store.insert(&self.by_group, key / GROUP_KEYS, row)?;
                seen.push(Operation::write(TABLE, i64::from(key), value).over(None));
            }
            // Another session was faster.
            Err(Error::Duplicate { .. }) => self.store.delete(&self.table, row)?,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn key(&mut self, row: RowId) -> Result<i32, Error> {
        Ok(self.store.pin(&self.table, row)?.get(Item::KEY))
    }

    fn value(&mut self, row: RowId) -> Result<Datum, Error> {
        let pinned = self.store.pin(&self.table, row)?;
        Ok(Datum::from(pinned.get(Item::VALUE)))
    }

    fn balance(&mut self, row: RowId) -> Result<i64, Error> {
        Ok(self.store.pin(&self.table, row)?.get(Item::BALANCE))
    }

    fn next_value(&mut self) -> i64 {
        self.values += 1;
        (self.session << 32) + self.values
    }

    /// Up to two thousand bytes, so that what grows outgrows its page.
    fn text(&mut self, value: i64) -> Vec<u8> {
        vec![b'a' + (value % 26) as u8; [0, 20, 700, 2_000][self.draw(4) as usize]]
    }
}
