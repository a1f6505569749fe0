//! The rows that every engine is loaded with: those that our own loader makes.
//!
//! Not here: what is in them (`workload/debit_credit/load.rs`).

use std::ops::ControlFlow;

use tombolo_engine::transaction::{Reading, Stop, execute};
use tombolo_storage::error::SchemaError;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::Bare;
use tombolo_storage::store::{Store, Table, resolve_table};

use crate::failure::{Blamed, Failure};
use crate::workload::Workload;
use crate::workload::debit_credit::Scale;
use crate::workload::debit_credit::schema::{Account, Branch, Holder, Teller};

/// Bytes of a row that are no number, as many as ours have.
#[cfg(feature = "peers")]
pub(super) const FILLER_BYTES: usize = 108;

/// Rows between two looks at the progress of loading.
#[cfg(feature = "peers")]
const PART_ROWS: usize = 10_000;

/// A branch, a teller or an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: i32,
    /// The password that permits access.
    pub(super) code: i64,
    /// In cents.
    pub(super) balance: i64,
}

/// The tables, the small ones first.
pub(super) const TABLES: [&str; 3] = ["branch", "teller", "account"];

/// The balances of all branches, tellers and accounts, each table's by its ids from 1.
pub(super) type Balances = [Vec<i64>; 3];

/// All rows, each table's by its ids from 1.
pub(super) struct Rows(pub(super) [Vec<Row>; 3]);

impl Rows {
    /// The initial rows of a database.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub(super) fn of(scale: Scale, threads: usize) -> Result<Self, Failure> {
        let mut store = MemoryStore::<Bare>::new(Limits::default());
        scale.load_parts(&mut store, threads, |_, _, _| Ok(())).or_environment()?;
        Self::read(&mut store)
    }

    /// The rows in `store`.
    ///
    /// # Errors
    /// When it cannot be read, or ids are missing.
    pub(super) fn read<S: Store>(store: &mut S) -> Result<Self, Failure> {
        let tables = tables(store).or_check()?;
        let (branch, teller, account) = tables;
        let read = execute(store, |mut tx| {
            let rows = [of(&mut tx, &branch)?, of(&mut tx, &teller)?, of(&mut tx, &account)?];
            tx.commit(rows)
        });
        let tables = read.or_check()?;
        for (name, rows) in TABLES.iter().zip(&tables) {
            if let Some((_, row)) = (1..).zip(rows).find(|(id, row)| row.id != *id) {
                return Err(Failure::check(format!(
                    "table {name}: a row in front of {} is missing",
                    row.id
                )));
            }
        }
        Ok(Self(tables))
    }

    /// How many rows there are.
    #[cfg(feature = "peers")]
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// Gives the rows of the table at this position to `put`, a part at a time, and reports to `progress` after
    /// each what part of all tables is loaded when they are in their order.
    ///
    /// # Errors
    /// Those of `put`.
    #[cfg(feature = "peers")]
    pub(super) fn load_table<E>(
        &self,
        table: usize,
        progress: &mut dyn FnMut(f64),
        mut put: impl FnMut(&[Row]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut done: usize = self.0[..table].iter().map(Vec::len).sum();
        for part in self.0[table].chunks(PART_ROWS) {
            put(part)?;
            done += part.len();
            progress(done as f64 / self.count() as f64);
        }
        Ok(())
    }

    /// Their balances.
    pub(super) fn balances(&self) -> Balances {
        self.0.each_ref().map(|rows| rows.iter().map(|row| row.balance).collect())
    }
}

type Tables = (Table<Branch>, Table<Teller>, Table<Account>);

fn tables<S: Store>(store: &S) -> Result<Tables, SchemaError> {
    let schema = store.schema();
    Ok((resolve_table(schema)?, resolve_table(schema)?, resolve_table(schema)?))
}

/// The rows of a table, by id.
fn of<S: Store, R: Holder>(tx: &mut Reading<'_, S>, table: &Table<R>) -> Result<Vec<Row>, Stop> {
    let mut places = Vec::new();
    tx.rows(table, |row| {
        places.push(row);
        ControlFlow::Continue(())
    })?;
    let row = |place| {
        let row = tx.pin(table, place)?;
        Ok(Row { id: row.get(R::ID), code: row.get(R::CODE), balance: row.get(R::BALANCE) })
    };
    let mut rows: Vec<Row> = places.into_iter().map(row).collect::<Result<_, Stop>>()?;
    rows.sort_unstable_by_key(|row| row.id);
    Ok(rows)
}
