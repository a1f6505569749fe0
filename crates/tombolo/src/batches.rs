//! `Batches`: many rows on their way into a database or its islands, in transactions of a bounded size, several under
//! way.
//!
//! The caller's thread produces the next rows while each island inserts its own and those before are logged. Not here:
//! where a row belongs (`load.rs`, `islands/`), how paged databases insert (`paged/load.rs`), rows that belong
//! together.
//!
//! Invariant: batches of an island run in the order of their rows; when one was refused, those that have not run do not
//! run. So of a database with one engine, the loaded rows are always the first ones.

use std::collections::VecDeque;
use std::sync::Arc;

use tombolo_storage::error::Error as StoreError;
use tombolo_storage::sync::{AtomicBool, Ordering};

use crate::calls::{CallOptions, ClosureBody, Pending, Registered, register};
use crate::database::Database;
use crate::error::{Error, Stop};
use crate::load::LoadError;
use crate::tx::Tx;
use crate::tx::derived::TableRow;

/// Approximate log bytes of a batch; less than the default limit of a call.
const BATCH_BYTES: usize = 48 << 10;

/// The most bytes that a row logs in addition to its content.
pub(crate) const RECORD_BYTES: usize = 64;

/// The most batches of an island under way: one is produced, one runs, the others are written.
pub(crate) const UNDER_WAY_MAX: usize = 16;

/// The reason of a batch that does not run because another one was refused.
pub(crate) const AFTER_ANOTHER: &str = "another batch was refused";

/// Rows that are inserted together.
pub(crate) struct Batch<T> {
    pub(crate) rows: Vec<T>,
    /// About how many bytes they log.
    bytes: usize,
}

impl<T> Batch<T> {
    pub(crate) const fn new() -> Self {
        Self { rows: Vec::new(), bytes: 0 }
    }

    /// Adds a row that logs about so many bytes; if it has no room here, it begins the next batch, and this one is
    /// complete.
    pub(crate) fn add(&mut self, row: T, bytes: usize) -> Option<Self> {
        let is_full = self.bytes + bytes > BATCH_BYTES && !self.rows.is_empty();
        let complete = is_full.then(|| std::mem::replace(self, Self::new()));
        self.rows.push(row);
        self.bytes += bytes;
        complete
    }
}

/// Inserts rows one batch after the other; returns their number.
///
/// # Errors
/// That of a refused batch.
pub(crate) fn in_batches<R: TableRow>(
    rows: impl IntoIterator<Item = R>,
    mut insert: impl FnMut(Vec<R>) -> Result<(), Error>,
) -> Result<u64, LoadError> {
    let mut insert = |loaded: u64, batch: Batch<R>| {
        let count = batch.rows.len() as u64;
        insert(batch.rows).map(|()| loaded + count).map_err(|error| LoadError { loaded, error })
    };
    let mut batch = Batch::new();
    let loaded = rows.into_iter().try_fold(0, |loaded, row| {
        let bytes = row_bytes(&row);
        batch.add(row, bytes).map_or(Ok(loaded), |complete| insert(loaded, complete))
    })?;
    if batch.rows.is_empty() { Ok(loaded) } else { insert(loaded, batch) }
}

/// About how many bytes a row logs.
pub(crate) fn row_bytes<R: TableRow>(row: &R) -> usize {
    R::SIZE + RECORD_BYTES + row.outside_bytes()
}

/// What inserts batches into islands: those of one island in the order in which they are submitted.
pub(crate) trait Inserter<T> {
    /// A batch that was submitted.
    type UnderWay;

    /// Submits rows of an island.
    ///
    /// # Errors
    /// Why they are not inserted.
    fn submit(&mut self, island: usize, batch: Batch<T>) -> Result<Self::UnderWay, Error>;

    /// Waits for a batch; returns the number of its rows.
    ///
    /// # Errors
    /// Why none of them was inserted.
    fn wait(&mut self, under_way: Self::UnderWay) -> Result<u64, Error>;

    /// Batches that have not run do not run ([`AFTER_ANOTHER`]).
    fn stop(&self);
}

/// Inserts batches by the calls of memory stores.
pub(crate) struct Queued<T> {
    /// Into each island.
    insert: Vec<Registered<Batch<T>, u64>>,
    has_failed: Arc<AtomicBool>,
}

impl<T: Send + 'static> Inserter<T> for Queued<T> {
    type UnderWay = Pending<u64>;

    fn submit(&mut self, island: usize, batch: Batch<T>) -> Result<Pending<u64>, Error> {
        // A row that is longer than a batch is a batch of its own.
        let options = CallOptions::new().log_bytes_max(batch.bytes.max(2 * BATCH_BYTES) as u64);
        let held = |batch: &Batch<T>| batch.rows.capacity() * size_of::<T>() + batch.bytes;
        self.insert[island].with(options).input_bytes(held).submit(batch)
    }

    fn wait(&mut self, under_way: Pending<u64>) -> Result<u64, Error> {
        under_way.wait()
    }

    fn stop(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }
}

/// Rows on their way. See the file's head.
pub(crate) struct Batches<T, I: Inserter<T> = Queued<T>> {
    inserter: I,
    /// Of each island: those that are not submitted yet.
    next: Vec<Batch<T>>,
    under_way: VecDeque<I::UnderWay>,
    done: u64,
}

impl<T: Send + 'static> Batches<T> {
    /// Of rows that `insert` inserts into these islands, or into a database that has one engine.
    pub(crate) fn new(
        islands: &[Database],
        insert: impl Fn(&mut Tx<'_>, &T) -> Result<(), Stop> + Send + Sync + 'static,
    ) -> Self {
        let has_failed = Arc::new(AtomicBool::new(false));
        let failed = has_failed.clone();
        let insert = move |tx: &mut Tx<'_>, batch: &Batch<T>| {
            if failed.load(Ordering::Relaxed) {
                return Err(Stop::Abort(AFTER_ANOTHER));
            }
            let made = batch.rows.iter().try_for_each(|row| insert(tx, row));
            // One that met a lock runs again.
            let is_over = |stop: &Stop| !matches!(stop, Stop::Error(StoreError::Held { .. }));
            if made.as_ref().is_err_and(is_over) {
                failed.store(true, Ordering::Relaxed);
            }
            made.map(|()| batch.rows.len() as u64)
        };
        let first = register(islands[0].core(), "load", ClosureBody::new(insert));
        let insert = islands.iter().map(|island| first.on(island.core())).collect();
        Self::by(Queued { insert, has_failed }, islands.len())
    }
}

impl<T, I: Inserter<T>> Batches<T, I> {
    /// Of rows that `inserter` inserts into so many islands.
    pub(crate) fn by(inserter: I, islands: usize) -> Self {
        let next = (0..islands).map(|_| Batch::new()).collect();
        Self { inserter, next, under_way: VecDeque::new(), done: 0 }
    }

    /// How many rows were inserted, as far as that is known.
    pub(crate) const fn done(&self) -> u64 {
        self.done
    }

    /// Adds a row for an island, which logs about so many bytes.
    ///
    /// # Errors
    /// That of a refused batch.
    pub(crate) fn add(&mut self, island: usize, row: T, bytes: usize) -> Result<(), LoadError> {
        self.next[island].add(row, bytes).map_or(Ok(()), |batch| self.submit(island, batch))
    }

    /// Submits rows of an island, if there are any.
    fn submit(&mut self, island: usize, batch: Batch<T>) -> Result<(), LoadError> {
        if batch.rows.is_empty() {
            return Ok(());
        }
        while self.under_way.len() >= UNDER_WAY_MAX * self.next.len() {
            self.take_answer()?;
        }
        match self.inserter.submit(island, batch) {
            Ok(pending) => {
                self.under_way.push_back(pending);
                Ok(())
            }
            Err(error) => Err(self.end(error)),
        }
    }

    /// Waits for the oldest batch.
    fn take_answer(&mut self) -> Result<(), LoadError> {
        let Some(pending) = self.under_way.pop_front() else { return Ok(()) };
        match self.inserter.wait(pending) {
            Ok(rows) => {
                self.done += rows;
                Ok(())
            }
            Err(error) => Err(self.end(error)),
        }
    }

    /// Ends after a batch, or a row, was refused: waits for those under way, of which some may have run.
    pub(crate) fn end(&mut self, mut error: Error) -> LoadError {
        self.inserter.stop();
        for pending in self.under_way.drain(..) {
            match self.inserter.wait(pending) {
                Ok(rows) => self.done += rows,
                Err(first) if error == Error::Aborted(AFTER_ANOTHER) => error = first,
                Err(_) => {}
            }
        }
        LoadError { loaded: self.done, error }
    }

    /// Inserts what is left, and calls `report` with the number of rows after each batch; returns the number of all
    /// rows.
    ///
    /// # Errors
    /// That of a refused batch.
    pub(crate) fn finish(&mut self, mut report: impl FnMut(u64)) -> Result<u64, LoadError> {
        for island in 0..self.next.len() {
            let batch = std::mem::replace(&mut self.next[island], Batch::new());
            self.submit(island, batch)?;
        }
        while !self.under_way.is_empty() {
            self.take_answer()?;
            report(self.done);
        }
        Ok(self.done)
    }
}
