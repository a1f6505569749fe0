//! Loading many rows: in transactions of a bounded size, several under way.
//!
//! Not here: these transactions (`batches.rs`), rows that belong together (`Database::transaction`), the rows of
//! islands (`islands/load.rs`).

use std::fmt;

use tombolo_storage::store::Table;

use crate::batches::{Batches, row_bytes};
use crate::database::Database;
use crate::error::Error;
use crate::tx::Tx;
use crate::tx::derived::TableRow;

/// The error that ended a load, and the number of rows loaded before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The number of loaded rows: of one database the first ones; of several islands some behind the refused row may be
    /// among them.
    pub loaded: u64,
    /// The error of the next batch; a batch is one transaction, so none of its rows was loaded.
    pub error: Error,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows were loaded, but not the next ones: {}", self.loaded, self.error)
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<LoadError> for Error {
    fn from(failed: LoadError) -> Self {
        failed.error
    }
}

impl Database {
    /// Inserts a row for each value, with its index entries; returns their number. Suits any number of rows: they
    /// are inserted in transactions of some hundred rows each, between which other calls run. When this returns
    /// `Ok`, all rows are durable.
    ///
    /// ```
    /// use tombolo::{Database, Table};
    ///
    /// #[derive(Table)]
    /// struct Word {
    ///     #[key]
    ///     number: u32,
    ///     text: String,
    /// }
    ///
    /// let db = Database::builder().define::<Word>().in_memory()?;
    /// let words = db.table::<Word>()?;
    /// let rows = (0..10_000).map(|number| Word { number, text: format!("word {number}") });
    /// assert_eq!(db.load(&words, rows)?, 10_000);
    /// // A row that exists already ends the load; the error has the number of rows before it.
    /// let again = db.load(&words, [Word { number: 7, text: String::new() }]).unwrap_err();
    /// assert_eq!(again.loaded, 0);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of a refused batch. The rows before it are loaded.
    pub fn load<R>(
        &self,
        table: &Table<R>,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64, LoadError>
    where
        R: TableRow + Send + 'static,
    {
        let table = *table;
        let insert = move |tx: &mut Tx<'_>, row: &R| tx.insert_row(&table, row).map(drop);
        let mut batches = Batches::new(std::slice::from_ref(self), insert);
        for row in rows {
            let bytes = row_bytes(&row);
            batches.add(0, row, bytes)?;
        }
        batches.finish(|_| ())
    }
}
