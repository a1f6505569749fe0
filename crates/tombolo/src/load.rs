//! Loading many rows: in transactions of a bounded size, several under way.
//!
//! The caller's thread produces the rows of the next batch while the execution stage inserts the previous one
//! and the logging stage writes the one before. Not here: rows that belong together (`Database::transaction`).
//!
//! Invariant: batches run in the order of their rows, and none runs after one that was refused, so the loaded
//! rows are always the first ones.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use tombolo_storage::store::Table;
use tombolo_storage::sync::{AtomicBool, Ordering};

use crate::calls::{CallOptions, Pending};
use crate::database::Database;
use crate::error::{Error, Stop};
use crate::tx::derived::TableRow;

/// Approximate log bytes of a batch; less than the default limit of a call.
pub(crate) const BATCH_BYTES: usize = 48 << 10;

/// The most bytes that a row logs in addition to its content.
pub(crate) const RECORD_BYTES: usize = 64;

/// The most batches under way: one is produced, one runs, the others are written.
pub(crate) const UNDER_WAY_MAX: usize = 16;

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
        let mut load = Load::new(self, *table);
        let mut batch = Vec::new();
        let mut bytes = 0;
        for row in rows {
            let row_bytes = R::SIZE + RECORD_BYTES + row.outside_bytes();
            if bytes + row_bytes > BATCH_BYTES && !batch.is_empty() {
                load.submit(std::mem::take(&mut batch), bytes)?;
                bytes = 0;
            }
            bytes += row_bytes;
            batch.push(row);
        }
        load.submit(batch, bytes)?;
        load.finish()
    }
}

/// A load under way.
struct Load<'d, R: TableRow> {
    database: &'d Database,
    table: Table<R>,
    /// Whether a batch was refused.
    has_failed: Arc<AtomicBool>,
    under_way: VecDeque<Pending<u64>>,
    loaded: u64,
}

impl<'d, R: TableRow + Send + 'static> Load<'d, R> {
    fn new(database: &'d Database, table: Table<R>) -> Self {
        let has_failed = Arc::new(AtomicBool::new(false));
        Self { database, table, has_failed, under_way: VecDeque::new(), loaded: 0 }
    }

    /// Submits a batch, which logs at most `bytes` bytes.
    fn submit(&mut self, batch: Vec<R>, bytes: usize) -> Result<(), LoadError> {
        if batch.is_empty() {
            return Ok(());
        }
        while self.under_way.len() >= UNDER_WAY_MAX {
            self.take_answer()?;
        }
        // A row that is longer than a batch is a batch of its own.
        let options = CallOptions::new().log_bytes_max(bytes.max(2 * BATCH_BYTES) as u64);
        let held = batch.capacity() * size_of::<R>() + bytes;
        let (table, has_failed) = (self.table, self.has_failed.clone());
        let submitted = self.database.with(options).input_bytes(held).submit(move |tx| {
            if has_failed.load(Ordering::Relaxed) {
                return Err(Stop::Abort("a batch before it was refused"));
            }
            let made = batch.iter().try_for_each(|row| tx.insert_row(&table, row).map(drop));
            has_failed.store(made.is_err(), Ordering::Relaxed);
            made.map(|()| batch.len() as u64)
        });
        match submitted {
            Ok(pending) => self.under_way.push_back(pending),
            Err(error) => return Err(self.end(error)),
        }
        Ok(())
    }

    /// Waits for the oldest batch.
    fn take_answer(&mut self) -> Result<(), LoadError> {
        let Some(pending) = self.under_way.pop_front() else { return Ok(()) };
        match pending.wait() {
            Ok(rows) => {
                self.loaded += rows;
                Ok(())
            }
            Err(error) => Err(self.end(error)),
        }
    }

    /// Ends the load after a batch was refused.
    fn end(&mut self, error: Error) -> LoadError {
        self.has_failed.store(true, Ordering::Relaxed);
        for pending in self.under_way.drain(..) {
            // Answers of batches before one that was not queued, and of some that ran before this was known.
            self.loaded += pending.wait().unwrap_or(0);
        }
        LoadError { loaded: self.loaded, error }
    }

    fn finish(mut self) -> Result<u64, LoadError> {
        while !self.under_way.is_empty() {
            self.take_answer()?;
        }
        Ok(self.loaded)
    }
}
