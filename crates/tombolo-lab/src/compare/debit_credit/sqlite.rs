//! Debit-credit on SQLite (docs/compare.md). Not here: its settings, and what makes its commits durable
//! (`compare/sqlite.rs`).

use rusqlite::{Connection, Error, Statement};

use super::Opening;
use super::embedded::{Embedded, OneThread};
use super::rows::{Balances, FILLER_BYTES, Row, TABLES};
use crate::compare::made;
use crate::compare::sqlite::{self, failed};
use crate::failure::Failure;
use crate::workload::debit_credit::input::Input;
use crate::workload::debit_credit::schema::BALANCE_MAX;

/// The settings with a file, and in memory.
const DURABLE: &str = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -4194304;";
const IN_MEMORY: &str = "PRAGMA page_size = 8192;";
/// What a transaction decides by.
const READ: &str = "SELECT a.code, a.balance, t.balance, b.balance
     FROM account a, teller t, branch b WHERE a.id = ?1 AND t.id = ?2 AND b.id = ?3";

/// A SQLite database.
pub(super) struct Sqlite {
    connection: Connection,
}

impl Sqlite {
    /// Makes a database and loads it.
    ///
    /// # Errors
    /// When SQLite refuses.
    pub(super) fn open(
        opening: &Opening<'_>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<OneThread<Self>, Failure> {
        let (file, settings) = match opening.plan.is_durable() {
            true => (Some(made(&opening.directory)?.join("sqlite.db")), DURABLE),
            false => (None, IN_MEMORY),
        };
        let connection = sqlite::open(file.as_deref(), settings).map_err(failed)?;
        let sqlite = Self { connection };
        sqlite.load(opening, progress).map_err(failed)?;
        Ok(OneThread::new(sqlite, opening))
    }

    fn load(&self, opening: &Opening<'_>, progress: &mut dyn FnMut(f64)) -> Result<(), Error> {
        let Self { connection } = self;
        connection.execute_batch("BEGIN")?;
        for (number, table) in TABLES.iter().enumerate() {
            connection.execute_batch(&format!(
                "CREATE TABLE {table} (id INTEGER PRIMARY KEY, balance, code, filler)"
            ))?;
            let insert = format!("INSERT INTO {table} VALUES (?1, ?2, ?3, ?4)");
            let mut insert = connection.prepare(&insert)?;
            let blanks = " ".repeat(FILLER_BYTES);
            opening.rows.load_table(number, progress, |part| {
                part.iter().try_for_each(|Row { id, code, balance }| {
                    insert.execute((id, balance, code, &blanks)).map(drop)
                })
            })?;
        }
        connection.execute_batch("COMMIT")?;
        sqlite::empty_log(connection)
    }
}

/// The statements, prepared.
struct Statements<'c> {
    begin: Statement<'c>,
    commit: Statement<'c>,
    read: Statement<'c>,
    /// In the order of the tables.
    write: [Statement<'c>; 3],
}

impl<'c> Statements<'c> {
    fn prepare(connection: &'c Connection) -> Result<Self, Error> {
        let write = |table: &str| {
            connection.prepare(&format!("UPDATE {table} SET balance = ?2 WHERE id = ?1"))
        };
        let [branch, teller, account] = TABLES;
        Ok(Self {
            begin: connection.prepare("BEGIN IMMEDIATE")?,
            commit: connection.prepare("COMMIT")?,
            read: connection.prepare(READ)?,
            write: [write(branch)?, write(teller)?, write(account)?],
        })
    }

    /// The calls of one transaction; how many commit.
    fn transact(&mut self, calls: &[Input]) -> Result<u64, Error> {
        self.begin.raw_execute()?;
        let mut committed = 0;
        for input in calls {
            committed += u64::from(self.call(input)?);
        }
        self.commit.raw_execute()?;
        Ok(committed)
    }

    /// One call; whether it commits.
    fn call(&mut self, input: &Input) -> Result<bool, Error> {
        let ids = [input.branch, input.teller, input.account];
        let found = self.read.query_row((ids[2], ids[1], ids[0]), |row| {
            Ok((row.get::<_, i64>(0)?, [row.get(3)?, row.get(2)?, row.get(1)?]))
        });
        let (code, balances): (i64, [i64; 3]) = match found {
            Err(Error::QueryReturnedNoRows) => return Ok(false),
            found => found?,
        };
        let balances = balances.map(|balance| balance + i64::from(input.amount));
        let suffices = balances.iter().all(|balance| (0..=BALANCE_MAX).contains(balance));
        if code != input.code || !suffices {
            return Ok(false);
        }
        for ((write, id), balance) in self.write.iter_mut().zip(ids).zip(balances) {
            write.execute((id, balance))?;
        }
        Ok(true)
    }
}

impl Embedded for Sqlite {
    fn version(&self) -> &str {
        rusqlite::version()
    }

    fn transactions(&mut self) -> Result<impl FnMut(&[Input]) -> Result<u64, Failure>, Failure> {
        let mut statements = Statements::prepare(&self.connection).map_err(failed)?;
        Ok(move |calls: &[Input]| statements.transact(calls).map_err(failed))
    }

    fn balances(&mut self) -> Result<Balances, Failure> {
        let read = |table: &str| {
            let query = format!("SELECT balance FROM {table} ORDER BY id");
            let mut query = self.connection.prepare(&query)?;
            query.query_map((), |row| row.get(0))?.collect::<Result<Vec<i64>, Error>>()
        };
        let mut balances = Balances::default();
        for (found, table) in balances.iter_mut().zip(TABLES) {
            *found = read(table).map_err(failed)?;
        }
        Ok(balances)
    }
}
