//! Tombolo's side of `compare calls`: the library, called as a program calls it; and the hidden command
//! that `--counter callgrind` starts under valgrind.
//!
//! Not here: other engines, callers, figures (the lab).

use std::path::PathBuf;

use tombolo::{Database, Error, Registered, Stop, Table};
use tombolo_lab::compare::calls::{self, ACCOUNTS, CENTS_EACH, Caller, Counting, Engine, Opening};
use tombolo_lab::failure::Failure;

#[derive(Table)]
struct Account {
    #[key]
    id: i32,
    cents: i64,
}

/// The input of a transfer: source account, target account, amount.
type Transfer = (i32, i32, i64);

/// A database with the accounts, and the registered calls.
struct Own {
    database: Database,
    transfer: Registered<Transfer, ()>,
    read: Registered<i32, i64>,
    total: Registered<(), i64>,
}

fn failed(error: Error) -> Failure {
    Failure::check(format!("tombolo failed: {error}"))
}

/// Opens Tombolo's side.
///
/// # Errors
/// When the library returns one.
pub(super) fn open_own(opening: &Opening<'_>) -> Result<Box<dyn Engine>, Failure> {
    let builder = Database::builder().define::<Account>();
    let database = match opening.is_durable {
        true => builder.open(opening.directory),
        false => builder.in_memory(),
    };
    let database = database.map_err(|error| Failure::environment(error.to_string()))?;
    let own = Own::register(database).map_err(failed)?;
    own.load().map_err(failed)?;
    Ok(Box::new(own))
}

impl Own {
    fn register(database: Database) -> Result<Self, Error> {
        const MISSING: Stop = Stop::Abort("no such account");
        let (accounts, by_id) = (database.table::<Account>()?, database.index::<AccountKey>()?);
        let transfer = database.register_closure("transfer", move |tx, input: &Transfer| {
            let &(from, to, cents) = input;
            for (id, change) in [(from, -cents), (to, cents)] {
                let row = tx.lookup(&by_id, id)?.ok_or(MISSING)?;
                let left = tx.get(&accounts, row)?.get(Account::CENTS) + change;
                tx.set(&accounts, row, Account::CENTS, left)?;
            }
            Ok(())
        });
        let read = database.register_closure("read", move |tx, &id: &i32| {
            let row = tx.lookup(&by_id, id)?.ok_or(MISSING)?;
            Ok(tx.get(&accounts, row)?.get(Account::CENTS))
        });
        let total = database.register_closure("total", move |tx, (): &()| {
            Ok(tx.iter_table(&accounts)?.map(|(_, account)| account.get(Account::CENTS)).sum())
        });
        Ok(Self { database, transfer, read, total })
    }

    fn load(&self) -> Result<(), Error> {
        let accounts = (0..ACCOUNTS).map(|id| Account { id, cents: CENTS_EACH });
        self.database.load(&self.database.table()?, accounts)?;
        Ok(())
    }
}

impl Engine for Own {
    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    fn with_caller(&self, _: bool, work: &mut dyn FnMut(&mut dyn Caller)) -> Result<(), Failure> {
        work(&mut &*self);
        Ok(())
    }

    fn total_cents(&self) -> Result<Option<i64>, Failure> {
        self.total.call(()).map(Some).map_err(failed)
    }

    fn log(&self) -> Option<(u64, u64)> {
        let statistics = self.database.statistics();
        Some((statistics.flushed_bytes, statistics.flushes))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.database.close().map_err(failed)
    }
}

impl Caller for &Own {
    fn transfer(&mut self, from: i32, to: i32, cents: i64) -> Result<(), Failure> {
        self.transfer.call((from, to, cents)).map_err(failed)
    }

    fn read(&mut self, account: i32) -> Result<i64, Failure> {
        self.read.call(account).map_err(failed)
    }
}

/// Count calls of an engine, as a process under callgrind
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The engine
    #[arg(long)]
    engine: String,
    /// Whether answers are durable: none or group
    #[arg(long)]
    durability: String,
    /// The kind of call
    #[arg(long, value_delimiter = ',')]
    what: Vec<String>,
    /// The number of counted calls
    #[arg(long)]
    counted: u64,
    /// A directory that does not exist yet
    #[arg(long)]
    directory: PathBuf,
    /// Count the instructions of all threads
    #[arg(long)]
    all_threads: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let is_durable = arguments.durability != calls::durability_name(false);
    let opening = Opening { directory: &arguments.directory, is_durable };
    let counting = Counting {
        engine: &arguments.engine,
        whats: &arguments.what,
        calls: arguments.counted,
        all_threads: arguments.all_threads,
    };
    calls::child(counting, &opening, &open_own)
}
