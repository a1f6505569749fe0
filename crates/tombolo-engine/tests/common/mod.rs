//! A bank behind a pipeline, whatever its log holds, and what has to hold with any log.
//!
//! A kill is a disk that refuses everything from some write or sync on: what the process does
//! afterwards has no effect, and the next one sees what was on the disk. Not here: torn and
//! reordered writes (the simulator's).

use std::collections::BTreeMap;
use std::sync::Arc;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::pipeline::{
    Builder, Caller, Durability, Executor, Failure, Options, Pipeline, Refusal, Reply, Spread,
    ValueLogGroups,
};
use tombolo_engine::procedure::Procedure;
use tombolo_engine::settings::Settings;
use tombolo_engine::threads::on_each;
use tombolo_engine::transaction::{Committed, Reading, Stop};
use tombolo_storage::disk::{Fault, MemDisk, Operation};
use tombolo_storage::error::SchemaError;
use tombolo_storage::row::Fields;
use tombolo_storage::schema::Schema;
use tombolo_storage::store::{Index, Store, Table, resolve_index, resolve_table};
use tombolo_storage::value_log::{LogBuffer, LogWriter};

pub(crate) const CLIENTS: i32 = 4;

tombolo_storage::table! {
    /// Accounts, one per client, and how often each was changed.
    pub(crate) struct Account = "account" {
        ID: Integer [0..=999_999];
        BALANCE: BigInt => hot;
    }
}
tombolo_storage::index! {
    /// By number.
    pub(crate) struct AccountKey = "account_pk" on Account (ID: Integer) unique Tree;
}

const BALANCE: Fields<Account> = Fields::none().with(Account::BALANCE);

/// Adds 1 to an account, or makes it; panics or aborts when asked to.
pub(crate) struct Increment {
    table: Table<Account>,
    key: Index<AccountKey>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
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

/// Accounts and their log.
pub(crate) trait Bank: Executor<Request = Ask, Answer = i64, Records = LogBuffer> {
    /// Whether the table is on disk before the pipeline starts.
    const STARTS_DURABLE: bool;
    /// The setting of that name.
    const LOCATE_AHEAD: usize;

    /// A new one on `disk`, with its table.
    fn created(disk: &MemDisk) -> (Self, LogWriter)
    where
        Self: Sized;

    /// What comes back from `disk`.
    fn recovered(disk: &MemDisk) -> (Self, LogWriter)
    where
        Self: Sized;

    /// The balance of account `id`; 0 where there is none.
    fn balance(&mut self, id: i32) -> i64;

    /// All accounts that were made.
    fn balances(&mut self) -> BTreeMap<i32, i64> {
        let balances = (0..CLIENTS + 10).map(|id| (id, self.balance(id)));
        balances.filter(|(_, balance)| *balance > 0).collect()
    }
}

/// A pipeline around `bank`.
pub(crate) fn start<B: Bank>(bank: B, writer: LogWriter, spread: Spread) -> Pipeline<B> {
    let options = Options::new(&Settings::default(), 2);
    let locate_ahead = Some(B::LOCATE_AHEAD);
    let options = Options { spread, batch_transactions_max: 7, locate_ahead, ..options };
    let groups = ValueLogGroups::new(writer);
    Builder::new(bank, options).log(Box::new(groups)).start(Arc::new(SystemClock::new())).unwrap()
}

const SPREADS: [Spread; 4] = [Spread::One, Spread::Two, Spread::Carried, Spread::Each];

/// The balance that a call answers.
pub(crate) fn answer(caller: &mut Caller<Ask, i64>, ask: Ask) -> i64 {
    match caller.call(ask, Durability::Group) {
        Reply::Durable(Ok(balance)) => balance,
        other => panic!("{other:?}"),
    }
}

/// What was answered is there after a close, as often as you like.
pub(crate) fn comes_back_after_closes<B: Bank>() {
    for spread in SPREADS {
        let disk = MemDisk::new();
        let (mut bank, mut writer) = B::created(&disk);
        for round in 1..=3 {
            let pipeline = start(bank, writer, spread);
            on_each(0..CLIENTS, |client| {
                let mut caller = pipeline.caller(1);
                for n in 1..=50 {
                    assert_eq!(answer(&mut caller, Ask::Add(client)), (round - 1) * 50 + n);
                }
                let panicked = caller.call(Ask::AddAndPanic(client), Durability::Sync);
                let Reply::Durable(Err(Failure::Panicked(why))) = panicked else {
                    panic!("{panicked:?}")
                };
                assert!(why.contains("asked to panic"));
                let aborted = caller.call(Ask::Abort, Durability::Group);
                assert_eq!(aborted, Reply::Durable(Err(Failure::Stopped(Stop::Abort("asked to")))));
                assert_eq!(answer(&mut caller, Ask::Read(client)), round * 50);
            });
            let closed = pipeline.close();
            assert_eq!(closed.poison, None);
            drop(closed);
            (bank, writer) = B::recovered(&disk);
            let expected: BTreeMap<i32, i64> = (0..CLIENTS).map(|id| (id, round * 50)).collect();
            assert_eq!(bank.balances(), expected, "{spread:?}");
        }
    }
}

/// What was answered survives a kill at any write or sync.
pub(crate) fn survives_kills<B: Bank>() {
    for (at, spread) in (0..60).zip(SPREADS.into_iter().cycle()) {
        let disk = MemDisk::new();
        let (bank, writer) = B::created(&disk);
        let operation = if at % 2 == 0 { Operation::Write } else { Operation::Sync };
        disk.set_fault(Some(Fault { operation, after: at, kind: std::io::ErrorKind::Other }));
        let pipeline = start(bank, writer, spread);
        // What each client was answered: a balance it saw durable, and whether it has one under way.
        let reported = on_each(0..CLIENTS, |client| {
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
        if !B::STARTS_DURABLE && reported.iter().all(|(balance, _)| *balance == 0) {
            // Not even the table needs to be there.
            continue;
        }
        let (mut bank, _) = B::recovered(&disk);
        let balances = bank.balances();
        for (client, (balance, under_way)) in (0..).zip(reported) {
            let found = balances.get(&client).copied().unwrap_or(0);
            assert!(
                (balance..=balance + under_way).contains(&found),
                "client {client} was reported {balance}, {found} came back (fault {at}, {spread:?})"
            );
        }
    }
}
