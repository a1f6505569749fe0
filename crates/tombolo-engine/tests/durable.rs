//! Memory store, pipeline and value log together: what was answered is there after a restart.
//!
//! A kill is a disk that refuses everything from some write or sync on: what the process does
//! afterwards reaches nobody, and the next one sees what was on the disk. Not here: torn and
//! reordered writes (the simulator's).
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

use std::collections::BTreeMap;
use std::sync::Arc;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::pipeline::{
    Batch, Builder, Call, Caller, Durability, Executor, Failure, Options, Pipeline, Refusal, Reply,
    Spread, ValueLogGroups,
};
use tombolo_engine::procedure::Procedure;
use tombolo_engine::settings::Settings;
use tombolo_engine::threads::on_each;
use tombolo_engine::transaction::{Committed, Reading, Stop};
use tombolo_storage::disk::{Fault, MemDisk, Operation};
use tombolo_storage::error::SchemaError;
use tombolo_storage::memory::recovery::ReplayPart;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::row::Fields;
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::{Index, Store, Table, resolve_index, resolve_table};
use tombolo_storage::value_log::{
    LogBuffer, LogFailure, LogSettings, LogWriter, RecoverOptions, recover,
};

type Accounts = MemoryStore<MemoryLogged>;

const CLIENTS: i32 = 4;

tombolo_storage::table! {
    /// Accounts, one per client, and how often each was changed.
    pub struct Account = "account" {
        ID: Integer [0..=999_999];
        BALANCE: BigInt => hot;
    }
}
tombolo_storage::index! {
    /// By number.
    pub struct AccountKey = "account_pk" on Account (ID: Integer) unique Tree;
}

const BALANCE: Fields<Account> = Fields::none().with(Account::BALANCE);

/// Adds 1 to an account, or makes it; panics or aborts when asked to.
struct Increment {
    table: Table<Account>,
    key: Index<AccountKey>,
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Add(i32),
    AddAndPanic(i32),
    Abort,
    Read(i32),
}

impl Procedure for Increment {
    type Input = Ask;
    type Answer = i64;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self { table: resolve_table(schema)?, key: resolve_index(schema)? })
    }

    fn run<S: Store>(&self, mut tx: Reading<'_, S>, ask: &Ask) -> Result<Committed<i64>, Stop> {
        let id = match *ask {
            Ask::Abort => return tx.abort("asked to"),
            Ask::Add(id) | Ask::AddAndPanic(id) | Ask::Read(id) => id,
        };
        let found = tx.lookup(&self.key, id)?;
        let mut balance = match found {
            Some(row) => tx.pin(&self.table, row)?.get(Account::BALANCE),
            None => 0,
        };
        if matches!(ask, Ask::Read(_)) {
            return tx.commit(balance);
        }
        balance += 1;
        let mut tx = tx.write();
        match found {
            Some(row) => tx.update(&self.table, row, BALANCE, |row| {
                row.set(Account::BALANCE, balance);
            })?,
            None => {
                let row = tx.create(&self.table, |row| {
                    row.set(Account::ID, id);
                    row.set(Account::BALANCE, balance);
                })?;
                tx.insert(&self.key, id, row)?;
            }
        }
        assert!(!matches!(ask, Ask::AddAndPanic(_)), "asked to panic");
        tx.commit(balance)
    }
}

struct Bank {
    store: Accounts,
    increment: Increment,
}

impl Bank {
    fn new(store: Accounts) -> Self {
        let increment = Increment::bind(store.schema()).unwrap();
        Self { store, increment }
    }

    fn balances(&mut self) -> BTreeMap<i32, i64> {
        let mut read = |id| self.increment.call(&mut self.store, &Ask::Read(id)).unwrap();
        let balances = (0..CLIENTS + 10).map(|id| (id, read(id)));
        balances.filter(|(_, balance)| *balance > 0).collect()
    }
}

impl Executor for Bank {
    type Request = Ask;
    type Answer = i64;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, Ask, i64>) {
        batch.each(|ask| {
            let outcome = self.increment.call(&mut self.store, ask);
            (outcome, self.store.log_bytes())
        });
    }

    fn locate(&mut self, calls: &mut [Call<Ask>]) {
        assert!(!calls.is_empty());
    }

    fn log_bytes_max(&self, ask: &Ask) -> u64 {
        if matches!(ask, Ask::Read(_) | Ask::Abort) { 0 } else { 256 }
    }

    fn take_log(&mut self, into: &mut LogBuffer) {
        self.store.take_log(into);
    }
}

fn settings() -> LogSettings {
    LogSettings { segment_bytes: 256 << 10, direct: false, ..LogSettings::default() }
}

/// A store with its table, and the log that knows of it.
fn created(disk: &MemDisk, settings: LogSettings) -> (Bank, LogWriter) {
    let mut store = Accounts::new(Limits::default());
    store.create_table(TableDef::of::<Account>().with::<AccountKey>()).unwrap();
    let mut writer = LogWriter::create(Arc::new(disk.clone()), settings).unwrap();
    let mut log = LogBuffer::new();
    store.take_log(&mut log);
    writer.append_group(&[log.as_slice()], log.transactions(), None).unwrap();
    writer.sync().unwrap();
    (Bank::new(store), writer)
}

fn recovered(disk: &MemDisk) -> (Bank, LogWriter) {
    let mut part = ReplayPart::new(0, 1, Limits::default());
    let (disk, options) = (Arc::new(disk.clone()), RecoverOptions::default());
    let recovered = recover(disk, settings(), options, &mut part, &mut |_| {}).unwrap();
    let parts = vec![part.finish().unwrap()];
    (Bank::new(Accounts::from_replay(Limits::default(), parts).unwrap()), recovered.writer)
}

fn start(bank: Bank, writer: LogWriter, spread: Spread) -> Pipeline<Bank> {
    let options = Options::new(&Settings::default(), 2);
    let options = Options { spread, batch_transactions_max: 7, locate_ahead: 3, ..options };
    let groups = ValueLogGroups::new(writer);
    Builder::new(bank, options).log(Box::new(groups)).start(Arc::new(SystemClock::new()))
}

const SPREADS: [Spread; 3] = [Spread::One, Spread::Two, Spread::Each];

fn call(caller: &mut Caller<Ask, i64>, ask: Ask) -> i64 {
    match caller.call(ask, Durability::Group) {
        Reply::Durable(Ok(balance)) => balance,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_database_comes_back_after_a_close_as_often_as_you_like() {
    for spread in SPREADS {
        let disk = MemDisk::new();
        let (mut bank, mut writer) = created(&disk, settings());
        for round in 1..=3 {
            let pipeline = start(bank, writer, spread);
            on_each(0..CLIENTS, |client| {
                let mut caller = pipeline.caller(1);
                for n in 1..=50 {
                    assert_eq!(call(&mut caller, Ask::Add(client)), (round - 1) * 50 + n);
                }
                let panicked = caller.call(Ask::AddAndPanic(client), Durability::Sync);
                let Reply::Durable(Err(Failure::Panicked(why))) = panicked else {
                    panic!("{panicked:?}")
                };
                assert!(why.contains("asked to panic"));
                let aborted = caller.call(Ask::Abort, Durability::Group);
                assert_eq!(aborted, Reply::Durable(Err(Failure::Stopped(Stop::Abort("asked to")))));
                assert_eq!(call(&mut caller, Ask::Read(client)), round * 50);
            });
            let closed = pipeline.close();
            assert_eq!(closed.poison, None);
            drop(closed);
            (bank, writer) = recovered(&disk);
            let expected: BTreeMap<i32, i64> = (0..CLIENTS).map(|id| (id, round * 50)).collect();
            assert_eq!(bank.balances(), expected, "{spread:?}");
        }
    }
}

#[test]
fn what_was_answered_survives_a_kill_at_any_write_or_sync() {
    for (at, spread) in (0..60).zip(SPREADS.into_iter().cycle()) {
        let disk = MemDisk::new();
        let (bank, writer) = created(&disk, settings());
        let operation = if at % 2 == 0 { Operation::Write } else { Operation::Sync };
        disk.set_fault(Some(Fault { operation, after: at, kind: std::io::ErrorKind::Other }));
        let pipeline = start(bank, writer, spread);
        // What each client was told: a balance it saw durable, and whether it has one under way.
        let told = on_each(0..CLIENTS, |client| {
            let mut caller = pipeline.caller(1);
            let mut balance = 0;
            loop {
                match caller.call(Ask::Add(client), Durability::Group) {
                    Reply::Durable(Ok(next)) => {
                        assert_eq!(next, balance + 1);
                        balance = next;
                    }
                    Reply::Refused(Refusal::Unknown(_)) => return (balance, 1),
                    Reply::Refused(Refusal::Poisoned(_)) => return (balance, 0),
                    other => panic!("{other:?}"),
                }
            }
        });
        let closed = pipeline.close();
        assert!(closed.poison.is_some());
        drop((closed.executor, closed.log));
        disk.set_fault(None);
        let (mut bank, _) = recovered(&disk);
        let balances = bank.balances();
        for (client, (balance, under_way)) in (0..).zip(told) {
            let found = balances.get(&client).copied().unwrap_or(0);
            assert!(
                (balance..=balance + under_way).contains(&found),
                "client {client} was told {balance}, {found} came back (fault {at}, {spread:?})"
            );
        }
    }
}

#[test]
fn a_full_disk_refuses_writes_and_reads_go_on() {
    let disk = MemDisk::new();
    let (bank, writer) = created(&disk, settings());
    disk.set_capacity_bytes(Some(600 << 10));
    let pipeline = start(bank, writer, Spread::Two);
    let mut caller = pipeline.caller(1);
    let mut balance = 0;
    let refused = loop {
        match caller.call(Ask::Add(1), Durability::Group) {
            Reply::Durable(Ok(next)) => balance = next,
            other => break other,
        }
        assert!(balance < 100_000, "the disk never fills");
    };
    assert_eq!(refused, Reply::Refused(Refusal::LogFull));
    assert!(balance > 10, "{balance} came first");
    assert_eq!(call(&mut caller, Ask::Read(1)), balance);
    assert_eq!(caller.call(Ask::Add(1), Durability::Group), Reply::Refused(Refusal::LogFull));
    // Room is made: writing resumes by itself, after at most a few refusals.
    disk.set_capacity_bytes(None);
    let resumed = (0..10_000).find_map(|_| match caller.call(Ask::Add(1), Durability::Group) {
        Reply::Durable(Ok(next)) => Some(next),
        _ => None,
    });
    assert_eq!(resumed, Some(balance + 1));
    drop(pipeline.close());
    let (mut bank, _) = recovered(&disk);
    assert_eq!(bank.balances(), [(1, balance + 1)].into());
}

#[test]
fn a_log_goes_on_through_many_segments_while_calls_wait_for_them() {
    let disk = MemDisk::new();
    let small = LogSettings { segment_bytes: 64 << 10, ..settings() };
    let (bank, writer) = created(&disk, small);
    let pipeline = start(bank, writer, Spread::Two);
    on_each(0..CLIENTS, |client| {
        let mut caller = pipeline.caller(1);
        for n in 1..=200 {
            assert_eq!(call(&mut caller, Ask::Add(client)), n);
        }
    });
    let closed = pipeline.close();
    assert_eq!((closed.poison.clone(), closed.statistics.refused), (None, 0));
    drop(closed);
    let (mut bank, _) = recovered(&disk);
    assert_eq!(bank.balances(), (0..CLIENTS).map(|id| (id, 200)).collect());
}

#[test]
fn tables_made_before_the_pipeline_are_logged_by_it() {
    let disk = MemDisk::new();
    let mut store = Accounts::new(Limits::default());
    store.create_table(TableDef::of::<Account>().with::<AccountKey>()).unwrap();
    let writer = LogWriter::create(Arc::new(disk.clone()), settings()).unwrap();
    drop(start(Bank::new(store), writer, Spread::Two).close());
    assert!(recovered(&disk).0.balances().is_empty());
}

#[test]
fn one_process_per_directory() {
    let disk = MemDisk::new();
    let (bank, writer) = created(&disk, settings());
    let pipeline = start(bank, writer, Spread::One);
    let mut part = ReplayPart::new(0, 1, Limits::default());
    let options = RecoverOptions::default();
    let second = recover(Arc::new(disk.clone()), settings(), options, &mut part, &mut |_| {});
    assert!(matches!(second, Err(LogFailure::InUse { .. })));
    drop(pipeline);
    recovered(&disk);
}
