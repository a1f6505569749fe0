//! TPC-C on SQLite in memory, at its best (docs/compare.md: settings, what was tried, figures).
//!
//! [`schema`] holds the tables, [`rows`] loads them, [`statements`] and [`transactions`] are the
//! work, [`checks`] proves it.
//!
//! # No rollback journal
//! The database keeps no undo information: all five transactions decide before their first write
//! whether to abort, so there is never anything to roll back, and no statement after the first
//! write can fail for a reason of the data. It is the counterpart of our profile `bare`; against
//! `memory`, which keeps undo, the comparison favours SQLite.

mod checks;
mod rows;
mod schema;
mod statements;
mod transactions;

use std::hint::black_box;

use rusqlite::Connection;
use tombolo_engine::clock::Clock;

use super::{Batch, Engine, Watch};
use crate::compare::sqlite::{self, failed};
use crate::failure::Failure;
use crate::rows::{StateHash, Verification};
use crate::workload::tpcc::input::{Input, Mix};
use crate::workload::tpcc::loader::Scale;
use statements::Statements;
use transactions::Answer;

/// The settings besides those of every database in memory.
const SETTINGS: &str = "PRAGMA page_size = 8192;
     PRAGMA temp_store = MEMORY;
     PRAGMA foreign_keys = OFF;";

/// A SQLite database in memory.
pub(super) struct Sqlite {
    connection: Connection,
    mix: Mix,
}

impl Sqlite {
    /// An empty database.
    ///
    /// # Errors
    /// When SQLite cannot be opened.
    pub(super) fn open() -> Result<Self, Failure> {
        let connection = sqlite::open(None, SETTINGS).map_err(failed)?;
        Ok(Self { connection, mix: Mix::Paper })
    }
}

impl Engine for Sqlite {
    fn name(&self) -> &str {
        "sqlite"
    }

    fn version(&self) -> &str {
        rusqlite::version()
    }

    fn load(&mut self, scale: Scale, progress: &mut dyn FnMut(f64)) -> Result<(), Failure> {
        self.mix = scale.mix;
        let execute = |sql: &str| self.connection.execute_batch(sql).map_err(failed);
        execute("BEGIN")?;
        execute(&schema::tables(scale.mix))?;
        rows::load(&self.connection, scale, progress)?;
        execute("COMMIT")
    }

    fn run(&mut self, inputs: &[Input], clock: &dyn Clock) -> Result<Batch, Failure> {
        let mut statements = Statements::prepare(&self.connection, self.mix).map_err(failed)?;
        let watch = Watch::start(clock);
        let mut committed = 0;
        for input in inputs {
            match black_box(statements.run(input).map_err(failed)?) {
                Answer::InvalidItem => {}
                _ => committed += 1,
            }
        }
        Ok(watch.stop(committed, inputs.len() as u64 - committed))
    }

    fn verify(&mut self) -> Result<Verification, Failure> {
        let mut verification = Verification::default();
        for (name, query) in checks::queries() {
            verification.note(name, checks::violation(&self.connection, query).map_err(failed)?);
        }
        verification.note("pages", checks::damage(&self.connection).map_err(failed)?);
        Ok(verification)
    }

    fn state_hash(&mut self) -> Result<StateHash, Failure> {
        let tables = crate::workload::tpcc::schema::tables(self.mix);
        checks::state_hash(&self.connection, &tables).map_err(failed)
    }
}

#[cfg(test)]
mod tests;
