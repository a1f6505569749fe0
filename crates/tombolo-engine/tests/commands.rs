//! Memory store, pipeline and command log together: what was answered is there after a restart,
//! because the commands are run again.
//!
//! As `durable.rs`, whose log holds values: the pipeline is the same. Not here: torn and reordered
//! writes (storage `command_log/tests/model.rs`).
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

use std::collections::BTreeMap;
use std::sync::Arc;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::command_log::{
    Arguments, BadArguments, CommandStore, Decoder, Encoder, ProcedureNumbers, Procedures, call,
    log_bytes_max, recover,
};
use tombolo_engine::pipeline::{
    Batch, Builder, Durability, Executor, Failure, Options, Pipeline, Refusal, Reply, Spread,
    ValueLogGroups,
};
use tombolo_engine::procedure::Procedure;
use tombolo_engine::settings::Settings;
use tombolo_engine::threads::on_each;
use tombolo_engine::transaction::{Committed, Reading, Stop};
use tombolo_storage::disk::{Fault, MemDisk, Operation};
use tombolo_storage::error::SchemaError;
use tombolo_storage::memory::Limits;
use tombolo_storage::row::Fields;
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::{Index, Store, Table, resolve_index, resolve_table};
use tombolo_storage::value_log::{LogBuffer, LogKind, LogSettings, LogWriter};

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

/// Adds 1 to an account, or makes it; panics or only reads when asked to.
struct Increment {
    table: Table<Account>,
    key: Index<AccountKey>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Add(i32),
    AddAndPanic(i32),
    Abort,
    Read(i32),
}

impl Arguments for Ask {
    fn bytes_max(&self) -> usize {
        1 + Encoder::NUMBER_BYTES_MAX
    }

    fn encode(&self, out: &mut Encoder<'_>) {
        let (kind, id) = match *self {
            Self::Add(id) => (0, id),
            Self::AddAndPanic(id) => (1, id),
            Self::Abort => (2, 0),
            Self::Read(id) => (3, id),
        };
        out.byte(kind);
        out.signed(id.into());
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, BadArguments> {
        let (kind, id) = (from.byte()?, from.signed()? as i32);
        match kind {
            0 => Ok(Self::Add(id)),
            _ => Err(BadArguments::new("only an addition writes and commits")),
        }
    }
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

fn procedures() -> Procedures {
    let mut procedures = Procedures::new();
    procedures.register::<Increment>("increment", 1);
    procedures
}

struct Bank {
    store: CommandStore,
    increment: Increment,
    numbers: ProcedureNumbers,
}

impl Bank {
    fn new(store: CommandStore, numbers: ProcedureNumbers) -> Self {
        let increment = Increment::bind(store.schema()).unwrap();
        Self { store, increment, numbers }
    }

    fn balances(&mut self) -> BTreeMap<i32, i64> {
        let mut read = |id| self.increment.call(&mut self.store, &Ask::Read(id)).unwrap();
        let balances = (0..CLIENTS).map(|id| (id, read(id)));
        balances.filter(|(_, balance)| *balance > 0).collect()
    }
}

impl Executor for Bank {
    type Request = Ask;
    type Answer = i64;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, Ask, i64>) {
        let number = self.numbers.of("increment", 1).unwrap();
        batch.each(|ask| {
            let outcome = call(&self.increment, number, &mut self.store, ask);
            (outcome, self.store.log_bytes())
        });
    }

    fn log_bytes_max(&self, ask: &Ask) -> u64 {
        if matches!(ask, Ask::Read(_) | Ask::Abort) { 0 } else { log_bytes_max(ask) }
    }

    fn take_log(&mut self, into: &mut LogBuffer) {
        self.store.take_log(into);
    }
}

fn settings() -> LogSettings {
    LogSettings {
        kind: LogKind::Command,
        segment_bytes: 256 << 10,
        direct: false,
        ..LogSettings::default()
    }
}

/// A store with its table, which the pipeline will log with the procedure's number.
fn created(disk: &MemDisk) -> (Bank, LogWriter) {
    let mut store = CommandStore::new(Limits::default());
    store.create_table(TableDef::of::<Account>().with::<AccountKey>()).unwrap();
    let numbers = procedures().define(&mut store).unwrap();
    let writer = LogWriter::create(Arc::new(disk.clone()), settings()).unwrap();
    (Bank::new(store, numbers), writer)
}

fn recovered(disk: &MemDisk) -> (Bank, LogWriter) {
    let (disk, limits) = (Arc::new(disk.clone()), Limits::default());
    let found = recover(disk, settings(), false, limits, &procedures(), &mut |_| {}).unwrap();
    (Bank::new(found.store, found.numbers), found.writer)
}

fn start(bank: Bank, writer: LogWriter, spread: Spread) -> Pipeline<Bank> {
    let options = Options::new(&Settings::default(), 2);
    let options = Options { spread, batch_transactions_max: 7, ..options };
    let groups = ValueLogGroups::new(writer);
    Builder::new(bank, options).log(Box::new(groups)).start(Arc::new(SystemClock::new()))
}

const SPREADS: [Spread; 3] = [Spread::One, Spread::Two, Spread::Each];

#[test]
fn a_database_comes_back_after_a_close_as_often_as_you_like() {
    for spread in SPREADS {
        let disk = MemDisk::new();
        let (mut bank, mut writer) = created(&disk);
        for round in 1..=3 {
            let pipeline = start(bank, writer, spread);
            on_each(0..CLIENTS, |client| {
                let mut caller = pipeline.caller(1);
                for n in 1..=50 {
                    let added = caller.call(Ask::Add(client), Durability::Group);
                    assert_eq!(added, Reply::Durable(Ok((round - 1) * 50 + n)));
                }
                let panicked = caller.call(Ask::AddAndPanic(client), Durability::Sync);
                let Reply::Durable(Err(Failure::Panicked(why))) = panicked else {
                    panic!("{panicked:?}")
                };
                assert!(why.contains("asked to panic"));
                let aborted = caller.call(Ask::Abort, Durability::Group);
                assert_eq!(aborted, Reply::Durable(Err(Failure::Stopped(Stop::Abort("asked to")))));
                let read = caller.call(Ask::Read(client), Durability::Group);
                assert_eq!(read, Reply::Durable(Ok(round * 50)));
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
        let (bank, writer) = created(&disk);
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
        if told.iter().all(|(balance, _)| *balance == 0) {
            // Not even the table needs to be there.
            continue;
        }
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
