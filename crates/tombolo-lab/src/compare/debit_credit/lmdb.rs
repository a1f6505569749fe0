//! Debit-credit on LMDB (docs/compare.md).
//!
//! A tree per table. Not here: its environment, and what makes its commits durable (`compare/lmdb.rs`).

use heed::{Env, Error, PutFlags, RwTxn};

use super::Opening;
use super::embedded::{Embedded, OneThread};
use super::rows::{Balances, Row, TABLES};
use super::values::{self, Value};
use crate::compare::lmdb::{self, Tree, failed};
use crate::compare::made;
use crate::failure::Failure;
use crate::workload::debit_credit::input::Input;

/// Room in the map for each row: five times what it takes. What is not used takes none.
const MAP_BYTES_PER_ROW: usize = 1 << 10;
/// Room in the map for a small database, whose commits copy as many pages; and what the map grows by.
const MAP_BYTES_MIN: usize = 1 << 30;

/// An LMDB environment.
pub(super) struct Lmdb {
    environment: Env,
    /// In the order of the tables.
    trees: [Tree; 3],
    version: String,
}

impl Lmdb {
    /// Makes a database and loads it.
    ///
    /// # Errors
    /// When LMDB refuses.
    pub(super) fn open(
        opening: &Opening<'_>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<OneThread<Self>, Failure> {
        let directory = made(&opening.directory)?;
        let map_bytes = MAP_BYTES_MIN + opening.rows.count() * MAP_BYTES_PER_ROW;
        // In whole pages, of whatever size.
        let map_bytes = map_bytes.next_multiple_of(MAP_BYTES_MIN);
        let is_durable = opening.plan.is_durable();
        let (environment, trees) = lmdb::make(directory, map_bytes, TABLES, is_durable)?;
        let lmdb = Self { environment, trees, version: lmdb::version() };
        lmdb.load(opening, progress).map_err(failed)?;
        Ok(OneThread::new(lmdb, opening))
    }

    fn load(&self, opening: &Opening<'_>, progress: &mut dyn FnMut(f64)) -> Result<(), Error> {
        let mut transaction = self.environment.write_txn()?;
        for (table, tree) in self.trees.iter().enumerate() {
            opening.rows.load_table(table, progress, |part| {
                part.iter().try_for_each(|row @ Row { id, .. }| {
                    let (key, row) = ((*id as u32).to_ne_bytes(), values::value(row));
                    tree.put_with_flags(&mut transaction, PutFlags::APPEND, &key, &row)
                })
            })?;
        }
        transaction.commit()
    }

    /// The calls of one transaction; how many commit.
    fn transact(&self, calls: &[Input]) -> Result<u64, Failure> {
        let transaction = self.environment.write_txn().map_err(failed)?;
        let mut writing = Writing { trees: &self.trees, transaction };
        let committed = values::execute(&mut writing, calls)?;
        writing.transaction.commit().map_err(failed)?;
        Ok(committed)
    }
}

/// A write transaction.
struct Writing<'t> {
    trees: &'t [Tree; 3],
    transaction: RwTxn<'t>,
}

impl values::Transaction for Writing<'_> {
    fn get(&self, table: usize, id: u32) -> Result<Option<Value>, Failure> {
        let found = self.trees[table].get(&self.transaction, &id.to_ne_bytes()).map_err(failed)?;
        Ok(found.and_then(|bytes| bytes.try_into().ok()))
    }

    fn put(&mut self, table: usize, id: u32, row: &Value) -> Result<(), Failure> {
        self.trees[table].put(&mut self.transaction, &id.to_ne_bytes(), row).map_err(failed)
    }
}

impl Embedded for Lmdb {
    fn version(&self) -> &str {
        &self.version
    }

    fn transactions(&mut self) -> Result<impl FnMut(&[Input]) -> Result<u64, Failure>, Failure> {
        Ok(|calls: &[Input]| self.transact(calls))
    }

    fn balances(&mut self) -> Result<Balances, Failure> {
        let transaction = self.environment.read_txn().map_err(failed)?;
        let mut balances = Balances::default();
        for (table, tree) in self.trees.iter().enumerate() {
            for row in tree.iter(&transaction).map_err(failed)? {
                let (key, bytes) = row.map_err(failed)?;
                let id = key.try_into().map(u32::from_ne_bytes);
                let taken = id.ok().and_then(|id| values::collect(&mut balances, table, id, bytes));
                taken.ok_or_else(|| Failure::check("lmdb lost a row or part of one"))?;
            }
        }
        Ok(balances)
    }
}
