//! Memory store, pipeline and value log together: long reads under load, a memory budget, and
//! procedures that panic in the midst of their changes.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

use std::sync::Arc;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::pipeline::{
    Batch, Builder, Durability, Executor, Failure, LongWork, Options, Pipeline, Reply, Sliced,
    Spread, ValueLogGroups,
};
use tombolo_engine::procedure::Procedure;
use tombolo_engine::settings::Settings;
use tombolo_engine::threads::on_each;
use tombolo_engine::transaction::{Committed, Reading, Stop};
use tombolo_storage::disk::MemDisk;
use tombolo_storage::dynamic::DynamicTable;
use tombolo_storage::error::{Error, SchemaError};
use tombolo_storage::memory::recovery::ReplayPart;
use tombolo_storage::memory::snapshot::Slice;
use tombolo_storage::memory::{Limits, MemoryStore, Snapshot, SnapshotCursor};
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::row::{Fields, RowId};
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::{Index, Store, Table, resolve_index, resolve_table};
use tombolo_storage::value_log::{LogBuffer, LogSettings, LogWriter, RecoverOptions, recover};

type Accounts = MemoryStore<MemoryLogged>;

tombolo_storage::table! {
    /// Accounts with a text that says their balance again, and an index on it.
    pub struct Account = "account" {
        ID: Integer [0..=999_999];
        BALANCE: BigInt => hot;
        NOTE: Text;
    }
}
tombolo_storage::index! {
    /// By number.
    pub struct AccountKey = "account_pk" on Account (ID: Integer) unique Tree;
}
tombolo_storage::index! {
    /// By balance.
    pub struct ByBalance = "account_balance" on Account (BALANCE: BigInt, ID: Integer) unique Tree;
}

const BALANCE: Fields<Account> = Fields::none().with(Account::BALANCE);
const EACH: i64 = 1_000;

fn note(balance: i64) -> String {
    format!("{balance}:{}", "x".repeat(balance as usize % 100))
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Make(i32),
    Remove(i32),
    Transfer(i32, i32, i64),
    /// A transfer, a removal and a new account; and then a panic.
    Panic(i32, i32, i32),
}

struct Bank {
    table: Table<Account>,
    key: Index<AccountKey>,
    by_balance: Index<ByBalance>,
}

impl Procedure for Bank {
    type Input = Ask;
    type Answer = i64;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self {
            table: resolve_table(schema)?,
            key: resolve_index(schema)?,
            by_balance: resolve_index(schema)?,
        })
    }

    fn run<S: Store>(&self, mut tx: Reading<'_, S>, ask: &Ask) -> Result<Committed<i64>, Stop> {
        let found = |row: Option<RowId>| row.ok_or(Stop::Abort("no such account"));
        let (from, to, amount) = match *ask {
            Ask::Make(id) => {
                let mut tx = tx.write();
                self.make(&mut tx, id)?;
                return tx.commit(EACH);
            }
            Ask::Remove(id) => {
                let row = found(tx.lookup(&self.key, id)?)?;
                let mut tx = tx.write();
                self.remove(&mut tx, id, row)?;
                return tx.commit(0);
            }
            Ask::Transfer(from, to, amount) => (from, to, amount),
            Ask::Panic(from, to, _) => (from, to, 7),
        };
        let rows = [found(tx.lookup(&self.key, from)?)?, found(tx.lookup(&self.key, to)?)?];
        let mut tx = tx.write();
        self.add(&mut tx, from, rows[0], -amount)?;
        self.add(&mut tx, to, rows[1], amount)?;
        if let Ask::Panic(_, _, new) = *ask {
            self.remove(&mut tx, from, rows[0])?;
            self.make(&mut tx, new)?;
            panic!("asked to panic");
        }
        tx.commit(amount)
    }
}

type Writing<'a, S> = tombolo_engine::transaction::Writing<'a, S>;

impl Bank {
    fn make<S: Store>(&self, tx: &mut Writing<'_, S>, id: i32) -> Result<(), Error> {
        let row = tx.create(&self.table, |row| {
            row.set(Account::ID, id);
            row.set(Account::BALANCE, EACH);
        })?;
        tx.set_variable(&self.table, row, Account::NOTE.offset(), note(EACH).as_bytes())?;
        tx.insert(&self.key, id, row)?;
        tx.insert(&self.by_balance, (EACH, id), row)
    }

    fn remove<S: Store>(&self, tx: &mut Writing<'_, S>, id: i32, row: RowId) -> Result<(), Error> {
        let balance = tx.pin(&self.table, row)?.get(Account::BALANCE);
        tx.remove(&self.key, id, row)?;
        tx.remove(&self.by_balance, (balance, id), row)?;
        tx.delete(&self.table, row)
    }

    fn add<S: Store>(
        &self,
        tx: &mut Writing<'_, S>,
        id: i32,
        row: RowId,
        amount: i64,
    ) -> Result<(), Error> {
        let before = tx.pin(&self.table, row)?.get(Account::BALANCE);
        let after = before + amount;
        tx.remove(&self.by_balance, (before, id), row)?;
        tx.update(&self.table, row, BALANCE, |row| row.set(Account::BALANCE, after))?;
        tx.set_variable(&self.table, row, Account::NOTE.offset(), note(after).as_bytes())?;
        tx.insert(&self.by_balance, (after, id), row)
    }
}

struct Database {
    store: Accounts,
    bank: Bank,
}

impl Executor for Database {
    type Request = Ask;
    type Answer = i64;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, Ask, i64>) {
        batch.each(|ask| (self.bank.call(&mut self.store, ask), self.store.log_bytes()));
    }

    fn log_bytes_max(&self, _: &Ask) -> u64 {
        2_048
    }

    fn take_log(&mut self, into: &mut LogBuffer) {
        self.store.take_log(into);
    }
}

/// Sums all balances, and verifies that each row is whole.
#[derive(Default)]
struct Audit {
    snapshot: Option<Snapshot>,
    cursor: SnapshotCursor,
    sum: i64,
}

impl LongWork<Database> for Audit {
    fn begin(&mut self, database: &mut Database) -> Result<(), Stop> {
        self.snapshot = Some(database.store.open_snapshot()?);
        Ok(())
    }

    fn slice(
        &mut self,
        database: &mut Database,
        rows_max: usize,
        _: u64,
    ) -> Result<Sliced<i64>, Stop> {
        let Some(snapshot) = &self.snapshot else { return Err(Stop::Abort("it never began")) };
        let (mut rows, sum) = (0, &mut self.sum);
        let Database { store, bank } = database;
        let left =
            store.read_slice(snapshot, &bank.table, &mut self.cursor, rows_max, |_, row| {
                let balance = row.get(Account::BALANCE);
                assert_eq!(row.get(Account::NOTE), note(balance).as_bytes());
                *sum += balance;
                rows += 1;
            })?;
        match left {
            Slice::More => Ok(Sliced::More { rows }),
            Slice::Done => Ok(Sliced::Done(*sum)),
        }
    }

    fn end(&mut self, database: &mut Database) {
        if let Some(snapshot) = self.snapshot.take() {
            database.store.close_snapshot(snapshot);
        }
    }

    fn give_back(&mut self, database: &mut Database) -> bool {
        database.store.give_back_closed()
    }
}

fn settings() -> LogSettings {
    LogSettings { segment_bytes: 16 << 20, direct: false, ..LogSettings::default() }
}

fn start(disk: &MemDisk, memory_bytes_max: u64, spread: Spread) -> Pipeline<Database> {
    let mut store = Accounts::new(Limits::default());
    store.set_memory_bytes_max(memory_bytes_max);
    let table = TableDef::of::<Account>().with::<AccountKey>().with::<ByBalance>();
    store.create_table(table).unwrap();
    let writer = LogWriter::create(Arc::new(disk.clone()), settings()).unwrap();
    let bank = Bank::bind(store.schema()).unwrap();
    let options = Options::new(&Settings::default(), 2);
    let options = Options { spread, batch_transactions_max: 16, ..options };
    Builder::new(Database { store, bank }, options)
        .log(Box::new(ValueLogGroups::new(writer)))
        .start(Arc::new(SystemClock::new()))
        .unwrap()
}

/// All rows as text.
fn rows(store: &mut Accounts) -> Vec<String> {
    let table = DynamicTable::new(store.schema(), 0);
    let ids = table.row_ids(store).unwrap();
    let text = |row: &RowId| table.read(store, *row, |values| format!("{values:?}")).unwrap();
    ids.iter().map(text).collect()
}

/// Closes; the store is sound, and the log describes it.
fn close(pipeline: Pipeline<Database>, disk: &MemDisk) -> Accounts {
    let closed = pipeline.close();
    assert_eq!(closed.poison, None);
    let mut store = closed.executor.unwrap().store;
    drop(closed.log);
    assert_eq!(store.check(), []);
    let mut part = ReplayPart::new(0, 1, Limits::default());
    let (disk, options) = (Arc::new(disk.clone()), RecoverOptions::default());
    drop(recover(disk, settings(), options, &mut part, &mut |_| {}).unwrap());
    let mut again = Accounts::from_replay(Limits::default(), vec![part.finish().unwrap()]).unwrap();
    assert_eq!(again.check(), []);
    assert_eq!(rows(&mut again), rows(&mut store));
    store
}

/// A number that follows from `n` alone.
fn scattered(n: i32, below: i32) -> i32 {
    ((n as u32).wrapping_mul(2_654_435_761) >> 8) as i32 % below
}

#[test]
fn long_reads_under_load_see_one_state() {
    const ACCOUNTS: i32 = 3_000;
    for spread in [Spread::One, Spread::Two, Spread::Carried, Spread::Each] {
        let disk = MemDisk::new();
        let pipeline = start(&disk, u64::MAX, spread);
        let mut caller = pipeline.caller(1);
        for id in 0..ACCOUNTS {
            assert!(caller.call(Ask::Make(id), Durability::Async).outcome().unwrap().is_ok());
        }
        on_each(0..3, |client| {
            let mut caller = pipeline.caller(10);
            if client == 0 {
                let mut replies = Vec::new();
                for tag in 0..12 {
                    let audit = Box::new(Audit::default());
                    pipeline.long().submit_by(&mut caller, audit, tag, Durability::Group).unwrap();
                    if tag % 3 == 2 {
                        while caller.in_flight() > 0 {
                            caller.wait(&mut replies).unwrap();
                        }
                    }
                }
                assert_eq!(replies.len(), 12);
                for (_, reply) in replies {
                    assert_eq!(reply, Reply::Durable(Ok(i64::from(ACCOUNTS) * EACH)), "{spread:?}");
                }
                return;
            }
            for n in 0..1_500 {
                let n = n * 3 + client;
                let (from, to) = (scattered(n, ACCOUNTS), scattered(n + 7, ACCOUNTS));
                let ask = Ask::Transfer(from, to, i64::from(n % 50));
                assert!(caller.call(ask, Durability::Async).outcome().unwrap().is_ok());
            }
        });
        let statistics = pipeline.statistics();
        assert_eq!(statistics.long_works, 12);
        assert!(statistics.slices > 12, "{} slices", statistics.slices);
        let store = close(pipeline, &disk);
        assert_eq!(store.snapshot_bytes(), 0);
    }
}

#[test]
fn a_panic_in_the_midst_of_changes_leaves_no_trace() {
    let disk = MemDisk::new();
    let pipeline = start(&disk, u64::MAX, Spread::Two);
    let mut caller = pipeline.caller(1);
    for id in 0..40 {
        assert_eq!(caller.call(Ask::Make(id), Durability::Group), Reply::Durable(Ok(EACH)));
    }
    on_each(0..4, |client| {
        let mut caller = pipeline.caller(1);
        let own = |n: i32| client * 10 + n % 10;
        for n in 0..100 {
            let panicked = caller.call(Ask::Panic(own(n), own(n + 1), 100 + n), Durability::Group);
            let Reply::Durable(Err(Failure::Panicked(why))) = panicked else {
                panic!("{panicked:?}")
            };
            assert_eq!(&*why, "asked to panic");
            let moved = caller.call(Ask::Transfer(own(n), own(n + 3), 1), Durability::Group);
            assert_eq!(moved, Reply::Durable(Ok(1)));
        }
    });
    let audit = Box::new(Audit::default());
    pipeline.long().submit_by(&mut caller, audit, 1, Durability::Group).unwrap();
    let mut replies = Vec::new();
    caller.wait(&mut replies).unwrap();
    assert_eq!(replies, [(1, Reply::Durable(Ok(40 * EACH)))]);
    let mut store = close(pipeline, &disk);
    assert_eq!(rows(&mut store).len(), 40);
}

#[test]
fn at_the_end_of_the_memory_budget_reads_and_deletions_go_on() {
    let disk = MemDisk::new();
    let pipeline = start(&disk, 1 << 20, Spread::Two);
    let mut caller = pipeline.caller(1);
    let mut fill = |from: i32| {
        for id in from.. {
            match caller.call(Ask::Make(id), Durability::Async).outcome().unwrap() {
                Ok(_) => {}
                Err(Failure::Stopped(Stop::Error(Error::NoSpace { held_bytes }))) => {
                    assert!(held_bytes <= 1 << 20);
                    return id;
                }
                Err(other) => panic!("{other}"),
            }
        }
        unreachable!("the budget is used up before numbers are")
    };
    let full = fill(0);
    assert!(full > 2_000, "{full} accounts");
    let mut other = pipeline.caller(1);
    for id in 0..full / 2 {
        let removed = other.call(Ask::Remove(id), Durability::Async);
        assert!(removed.outcome().unwrap().is_ok());
    }
    let again = fill(full);
    assert!(again - full > full / 3, "{full} accounts, then {}", again - full);
    let audit = Box::new(Audit::default());
    pipeline.long().submit_by(&mut other, audit, 1, Durability::Group).unwrap();
    let mut replies = Vec::new();
    other.wait(&mut replies).unwrap();
    let accounts = i64::from(again - full / 2);
    assert_eq!(replies, [(1, Reply::Durable(Ok(accounts * EACH)))]);
    close(pipeline, &disk);
}
