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
use tombolo_engine::clock::SystemClock;

use crate::compare::rounds::Engine;
use crate::compare::sqlite::{self, failed};
use crate::compare::{Batch, Watch};
use crate::failure::Failure;
use crate::histogram::Latencies;
use crate::rows::{StateHash, Verification};
use crate::workload::tpcc::input::{Input, Mix};
use crate::workload::tpcc::loader::Scale;
use statements::Statements;

/// The settings besides those of every database in memory.
const SETTINGS: &str = "PRAGMA page_size = 8192;
     PRAGMA temp_store = MEMORY;
     PRAGMA foreign_keys = OFF;";

/// A SQLite database in memory.
pub(super) struct Sqlite {
    connection: Connection,
    mix: Mix,
    clock: SystemClock,
}

impl Sqlite {
    /// Makes a database and loads it; reports to `progress` which part is done.
    ///
    /// # Errors
    /// When SQLite refuses.
    pub(super) fn open(scale: Scale, progress: &mut dyn FnMut(f64)) -> Result<Self, Failure> {
        let connection = sqlite::open(None, SETTINGS).map_err(failed)?;
        let execute = |sql: &str| connection.execute_batch(sql).map_err(failed);
        execute("BEGIN")?;
        execute(&schema::tables(scale.mix))?;
        rows::load(&connection, scale, progress)?;
        execute("COMMIT")?;
        Ok(Self { connection, mix: scale.mix, clock: SystemClock::new() })
    }
}

impl Engine<Input, (Verification, StateHash)> for Sqlite {
    fn version(&self) -> &str {
        rusqlite::version()
    }

    fn run(&mut self, inputs: &[Input], _: &mut Latencies) -> Result<Batch, Failure> {
        let mut statements = Statements::prepare(&self.connection, self.mix).map_err(failed)?;
        let watch = Watch::start(&self.clock);
        let mut committed = 0;
        for input in inputs {
            let answer = black_box(statements.run(input).map_err(failed)?);
            committed += u64::from(answer.is_some());
        }
        Ok(watch.stop(committed, inputs.len() as u64 - committed))
    }

    fn found(&mut self) -> Result<(Verification, StateHash), Failure> {
        let mut verification = Verification::default();
        for (name, query) in checks::queries() {
            verification.note(name, checks::violation(&self.connection, query).map_err(failed)?);
        }
        verification.note("pages", checks::damage(&self.connection).map_err(failed)?);
        let tables = crate::workload::tpcc::schema::tables(self.mix);
        let hash = checks::state_hash(&self.connection, &tables).map_err(failed)?;
        Ok((verification, hash))
    }
}

#[cfg(test)]
mod tests;
