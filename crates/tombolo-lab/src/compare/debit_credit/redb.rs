//! Debit-credit on redb (docs/compare.md).
//!
//! # Rows
//! A row is a value of fixed width under its id (`values`).
//!
//! Not here: what makes its commits durable (`compare/redb.rs`).

use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};

use super::Opening;
use super::embedded::{Embedded, OneThread};
use super::rows::{Balances, TABLES};
use super::values::{self, Value};
use crate::compare::redb::{Redb, VERSION, failed};
use crate::failure::Failure;
use crate::workload::debit_credit::input::Input;

/// All rows in memory.
const CACHE_BYTES: usize = 4 << 30;

type Rows<'t> = Table<'t, u32, &'static Value>;

fn definition(table: &str) -> TableDefinition<'_, u32, &'static Value> {
    TableDefinition::new(table)
}

/// Makes a database and loads it.
///
/// # Errors
/// When redb refuses.
pub(super) fn open(
    opening: &Opening<'_>,
    progress: &mut dyn FnMut(f64),
) -> Result<OneThread<Redb>, Failure> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    let redb = Redb::make(&builder, &opening.directory, opening.plan.is_durable())?;
    load(&redb, opening, progress)?;
    Ok(OneThread::new(redb, opening))
}

fn load(redb: &Redb, opening: &Opening<'_>, progress: &mut dyn FnMut(f64)) -> Result<(), Failure> {
    let transaction = redb.database.begin_write().map_err(failed)?;
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
fn transact(redb: &Redb, calls: &[Input]) -> Result<u64, Failure> {
    let transaction = redb.write()?;
    let committed = {
        let [branch, teller, account] = TABLES;
        let open = |table| transaction.open_table(definition(table)).map_err(failed);
        let mut tables = [open(branch)?, open(teller)?, open(account)?];
        values::execute(&mut tables, calls)?
    };
    transaction.commit().map_err(failed)?;
    Ok(committed)
}

impl values::Transaction for [Rows<'_>; 3] {
    fn get(&self, table: usize, id: u32) -> Result<Option<Value>, Failure> {
        Ok(self[table].get(id).map_err(failed)?.map(|found| *found.value()))
    }

    fn put(&mut self, table: usize, id: u32, row: &Value) -> Result<(), Failure> {
        self[table].insert(id, row).map(drop).map_err(failed)
    }
}

impl Embedded for Redb {
    fn version(&self) -> &str {
        VERSION
    }

    fn transactions(&mut self) -> Result<impl FnMut(&[Input]) -> Result<u64, Failure>, Failure> {
        Ok(|calls: &[Input]| transact(self, calls))
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
