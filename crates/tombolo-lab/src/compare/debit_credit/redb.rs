//! Debit-credit on redb (docs/compare.md).
//!
//! # Rows
//! A row is a value of fixed width under its id (`values`).
//!
//! # Durability
//! `group`: a file, `Durability::Immediate`: a sync per transaction. `none`: in memory,
//! `Durability::None`.

use redb::backends::InMemoryBackend;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, Table, TableDefinition};

use super::embedded::{Embedded, OneThread};
use super::rows::{Balances, TABLES};
use super::values::{self, Value};
use super::{Opening, made};
use crate::compare::REDB_VERSION;
use crate::failure::Failure;
use crate::workload::debit_credit::input::Input;

/// All rows in memory.
const CACHE_BYTES: usize = 4 << 30;

type Rows<'t> = Table<'t, u32, &'static Value>;

/// A redb database.
pub(super) struct Redb {
    database: Database,
    durability: Durability,
}

fn failed(error: impl Into<redb::Error>) -> Failure {
    Failure::check(format!("redb failed: {}", error.into()))
}

fn definition(table: &str) -> TableDefinition<'_, u32, &'static Value> {
    TableDefinition::new(table)
}

impl Redb {
    /// Makes a database and loads it.
    ///
    /// # Errors
    /// When redb refuses.
    pub(super) fn open(
        opening: &Opening<'_>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<OneThread<Self>, Failure> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let (database, durability) = if opening.plan.is_durable() {
            let file = made(&opening.directory)?.join("redb.db");
            (builder.create(file), Durability::Immediate)
        } else {
            (builder.create_with_backend(InMemoryBackend::new()), Durability::None)
        };
        let redb = Self { database: database.map_err(failed)?, durability };
        redb.load(opening, progress)?;
        Ok(OneThread::new(redb, opening))
    }

    fn load(&self, opening: &Opening<'_>, progress: &mut dyn FnMut(f64)) -> Result<(), Failure> {
        let transaction = self.database.begin_write().map_err(failed)?;
        for (number, table) in TABLES.iter().enumerate() {
            let mut table = transaction.open_table(definition(table)).map_err(failed)?;
            opening.rows.load_table(number, progress, |part| {
                part.iter().try_for_each(|row| {
                    let inserted = table.insert(row.id as u32, &values::value(row));
                    inserted.map(drop).map_err(failed)
                })
            })?;
        }
        transaction.commit().map_err(failed)
    }

    /// The calls of one transaction; how many commit.
    fn transact(&self, calls: &[Input]) -> Result<u64, Failure> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        transaction.set_durability(self.durability).map_err(failed)?;
        let mut committed = 0;
        {
            let [branch, teller, account] = TABLES;
            let open = |table| transaction.open_table(definition(table)).map_err(failed);
            let mut tables = [open(branch)?, open(teller)?, open(account)?];
            for input in calls {
                committed += u64::from(call(&mut tables, input)?);
            }
        }
        transaction.commit().map_err(failed)?;
        Ok(committed)
    }
}

/// One call; whether it commits.
fn call(tables: &mut [Rows<'_>; 3], input: &Input) -> Result<bool, Failure> {
    let ids = values::ids(input);
    let mut rows = [[0; values::ROW_BYTES]; 3];
    for ((row, table), id) in rows.iter_mut().zip(&*tables).zip(ids) {
        let Some(found) = table.get(id).map_err(failed)? else { return Ok(false) };
        *row = *found.value();
    }
    let Some(rows) = values::moved(&rows, input) else { return Ok(false) };
    for ((row, table), id) in rows.iter().zip(tables).zip(ids) {
        table.insert(id, row).map_err(failed)?;
    }
    Ok(true)
}

impl Embedded for Redb {
    fn version(&self) -> &str {
        REDB_VERSION
    }

    fn transactions(&mut self) -> Result<impl FnMut(&[Input]) -> Result<u64, Failure>, Failure> {
        Ok(|calls: &[Input]| self.transact(calls))
    }

    fn balances(&mut self) -> Result<Balances, Failure> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let mut balances = Balances::default();
        for (found, table) in balances.iter_mut().zip(TABLES) {
            let table = transaction.open_table(definition(table)).map_err(failed)?;
            for row in table.iter().map_err(failed)? {
                let (_, bytes) = row.map_err(failed)?;
                found.push(values::balance(bytes.value()));
            }
        }
        Ok(balances)
    }
}
