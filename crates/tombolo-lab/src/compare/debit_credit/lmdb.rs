//! Debit-credit on LMDB (docs/compare.md).
//!
//! # Rows
//! A tree per table, its keys native integers, which LMDB compares as such.
//!
//! Not here: its environment, and what makes its commits durable (`compare/lmdb.rs`).

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, Error, IntegerComparator, PutFlags};

use super::embedded::{Embedded, OneThread};
use super::rows::{Balances, Row, TABLES};
use super::values::{self, Value};
use super::{Opening, made};
use crate::compare::lmdb::{self, failed};
use crate::failure::Failure;
use crate::workload::debit_credit::input::Input;

/// Room in the map for each row: five times what it takes. What is not used takes none.
const MAP_BYTES_PER_ROW: usize = 1 << 10;
/// Room in the map for a small database, whose commits copy as many pages; and what the map grows by.
const MAP_BYTES_MIN: usize = 1 << 30;

type Tree = Database<'static, Bytes, Bytes, IntegerComparator>;

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
        let trees = TABLES.len() as u32;
        let environment = lmdb::open(directory, map_bytes, trees, opening.plan.is_durable())?;
        let trees = create(&environment).map_err(failed)?;
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
    fn transact(&self, calls: &[Input]) -> Result<u64, Error> {
        let mut transaction = self.environment.write_txn()?;
        let mut committed = 0;
        'calls: for input in calls {
            let keys = values::ids(input).map(u32::to_ne_bytes);
            let mut rows = [[0; values::ROW_BYTES]; 3];
            for ((row, tree), key) in rows.iter_mut().zip(&self.trees).zip(&keys) {
                let found = tree.get(&transaction, key)?;
                let Some(found) = found.and_then(|bytes| Value::try_from(bytes).ok()) else {
                    continue 'calls;
                };
                *row = found;
            }
            let Some(rows) = values::moved(&rows, input) else { continue };
            for ((row, tree), key) in rows.iter().zip(&self.trees).zip(&keys) {
                tree.put(&mut transaction, key, row)?;
            }
            committed += 1;
        }
        transaction.commit()?;
        Ok(committed)
    }
}

fn create(environment: &Env) -> Result<[Tree; 3], Error> {
    let transaction = environment.write_txn()?;
    let created =
        environment.create_databases_and_commit(transaction, |databases, transaction| {
            let options = databases.database_options().types::<Bytes, Bytes>();
            let mut create = |table| {
                let mut options = options.key_comparator::<IntegerComparator>();
                options.name(table).create(transaction)
            };
            let [branch, teller, account] = TABLES;
            let trees = [create(branch)?, create(teller)?, create(account)?];
            Ok::<_, Error>(CommitOrAbort::<_, ()>::Commit(trees))
        })?;
    Ok(created.unwrap_commit())
}

impl Embedded for Lmdb {
    fn version(&self) -> &str {
        &self.version
    }

    fn transactions(&mut self) -> Result<impl FnMut(&[Input]) -> Result<u64, Failure>, Failure> {
        Ok(|calls: &[Input]| self.transact(calls).map_err(failed))
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
