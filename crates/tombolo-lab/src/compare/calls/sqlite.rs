//! Calls of SQLite (docs/compare.md).
//!
//! # Callers
//! A single caller has a connection of its own with prepared statements. Several callers take turns on
//! one connection, with a lock around each transaction; the connection keeps their prepared statements.
//! A database in a file also has readers, each with a connection and a statement of its own; a database in
//! memory has only the one connection.
//!
//! Not here: its settings, and what makes its commits durable (`compare/sqlite.rs`).

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Error, Statement};

use super::{ACCOUNTS, CENTS_EACH, Caller, Engine, Opening};
use crate::compare::made;
use crate::compare::sqlite::{self, failed};
use crate::failure::Failure;

/// The settings with a file, of which there are several connections.
const DURABLE: &str = "PRAGMA cache_size = -65536;";

const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";
const UPDATE: &str = "UPDATE account SET cents = cents + ?2 WHERE id = ?1";
const READ: &str = "SELECT cents FROM account WHERE id = ?1";

/// A SQLite database.
pub(super) struct Sqlite {
    /// The connection that writes.
    connection: Mutex<Connection>,
    /// Where it lies, if not in memory.
    file: Option<PathBuf>,
}

fn connect(file: Option<&PathBuf>) -> Result<Connection, Error> {
    sqlite::open(file.map(PathBuf::as_path), if file.is_some() { DURABLE } else { "" })
}

fn load(connection: &Connection) -> Result<(), Error> {
    connection
        .execute_batch("CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER); BEGIN")?;
    let mut insert = connection.prepare("INSERT INTO account VALUES (?1, ?2)")?;
    (0..ACCOUNTS).try_for_each(|id| insert.execute((id, CENTS_EACH)).map(drop))?;
    drop(insert);
    connection.execute_batch("COMMIT")?;
    sqlite::empty_log(connection)
}

impl Sqlite {
    /// Makes a database and loads it.
    ///
    /// # Errors
    /// When SQLite refuses.
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self, Failure> {
        let file = match opening.is_durable {
            true => Some(made(opening.directory)?.join("sqlite.db")),
            false => None,
        };
        let connection = connect(file.as_ref()).map_err(failed)?;
        load(&connection).map_err(failed)?;
        Ok(Self { connection: Mutex::new(connection), file })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Sqlite {
    fn version(&self) -> &str {
        rusqlite::version()
    }

    fn note(&self) -> Option<&str> {
        Some(match self.file {
            Some(_) => "a file, WAL, synchronous = FULL",
            None => ":memory:, journal off, one connection",
        })
    }

    fn with_caller(
        &self,
        alone: bool,
        work: &mut dyn FnMut(&mut dyn Caller),
    ) -> Result<(), Failure> {
        if alone {
            let connection = self.lock();
            work(&mut Alone::prepare(&connection).map_err(failed)?);
            return Ok(());
        }
        let own = match &self.file {
            Some(file) => Some(connect(Some(file)).map_err(failed)?),
            None => None,
        };
        let read = own.as_ref().map(|own| own.prepare(READ)).transpose().map_err(failed)?;
        work(&mut InTurn { sqlite: self, read });
        Ok(())
    }

    fn total_cents(&self) -> Result<Option<i64>, Failure> {
        let sum = self.lock().query_row("SELECT sum(cents) FROM account", (), |row| row.get(0));
        sum.map(Some).map_err(failed)
    }
}

/// A single caller, with a connection of its own.
struct Alone<'c> {
    begin: Statement<'c>,
    update: Statement<'c>,
    commit: Statement<'c>,
    read: Statement<'c>,
}

impl<'c> Alone<'c> {
    fn prepare(connection: &'c Connection) -> Result<Self, Error> {
        Ok(Self {
            begin: connection.prepare(BEGIN)?,
            update: connection.prepare(UPDATE)?,
            commit: connection.prepare(COMMIT)?,
            read: connection.prepare(READ)?,
        })
    }
}

/// Both changes as one transaction.
fn transfer(
    [begin, update, commit]: [&mut Statement<'_>; 3],
    (from, to, cents): (i32, i32, i64),
) -> Result<(), Error> {
    begin.raw_execute()?;
    update.execute((from, -cents))?;
    update.execute((to, cents))?;
    commit.raw_execute().map(drop)
}

impl Caller for Alone<'_> {
    fn transfer(&mut self, from: i32, to: i32, cents: i64) -> Result<(), Failure> {
        let Self { begin, update, commit, .. } = self;
        transfer([begin, update, commit], (from, to, cents)).map_err(failed)
    }

    fn read(&mut self, account: i32) -> Result<i64, Failure> {
        self.read.query_row([account], |row| row.get(0)).map_err(failed)
    }
}

/// One of several callers.
struct InTurn<'s> {
    sqlite: &'s Sqlite,
    /// The statement of its own connection, where it has one.
    read: Option<Statement<'s>>,
}

impl InTurn<'_> {
    fn transfer_in_turn(&self, input: (i32, i32, i64)) -> Result<(), Error> {
        let connection = self.sqlite.lock();
        let mut begin = connection.prepare_cached(BEGIN)?;
        let mut update = connection.prepare_cached(UPDATE)?;
        let mut commit = connection.prepare_cached(COMMIT)?;
        transfer([&mut begin, &mut update, &mut commit], input)
    }
}

impl Caller for InTurn<'_> {
    fn transfer(&mut self, from: i32, to: i32, cents: i64) -> Result<(), Failure> {
        self.transfer_in_turn((from, to, cents)).map_err(failed)
    }

    fn read(&mut self, account: i32) -> Result<i64, Failure> {
        let found = match &mut self.read {
            Some(read) => read.query_row([account], |row| row.get(0)),
            None => {
                let connection = self.sqlite.lock();
                let read = connection.prepare_cached(READ);
                read.and_then(|mut read| read.query_row([account], |row| row.get(0)))
            }
        };
        found.map_err(failed)
    }
}
