//! The rows that every engine is loaded with: those that our own loader makes.
//!
//! Not here: what is in them (`workload/debit_credit/load.rs`).

use crate::failure::{Blamed, Failure};
use crate::store::DynamicStore;
use crate::workload::debit_credit::Scale;
use crate::workload::debit_credit::load;
pub(super) use crate::workload::debit_credit::load::Row;

/// Bytes of a row that are no number, as many as ours have.
#[cfg(feature = "peers")]
pub(super) const FILLER_BYTES: usize = 108;

/// Rows between two looks at the progress of loading.
#[cfg(feature = "peers")]
const PART_ROWS: usize = 10_000;

/// The tables, the small ones first.
pub(super) const TABLES: [&str; 3] = ["branch", "teller", "account"];

/// The balances of all branches, tellers and accounts, each table's by its ids from 1.
pub(super) type Balances = [Vec<i64>; 3];

/// All rows, each table's by its ids from 1.
pub(super) struct Rows(pub(super) [Vec<Row>; 3]);

impl Rows {
    /// The initial rows of a database.
    pub(super) fn of(scale: Scale, threads: usize) -> Self {
        Self(load::rows(scale, threads))
    }

    /// The rows in `store`.
    ///
    /// # Errors
    /// When it cannot be read, or ids are missing.
    pub(super) fn read(store: &mut dyn DynamicStore) -> Result<Self, Failure> {
        let tables = load::stored_rows(store).or_check()?;
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
