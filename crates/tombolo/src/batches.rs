//! `Batches`: many rows on their way to their islands, in transactions of a bounded size, several under way.
//!
//! The caller's thread produces the next rows while the islands insert those before, each its own. Not here: where a
//! row belongs (`load.rs`, `repartition.rs`). Invariant: when a batch was refused, those that have not run do not run.

use std::collections::VecDeque;
use std::sync::Arc;

use tombolo_storage::error::Error as StoreError;
use tombolo_storage::sync::{AtomicBool, Ordering};

use super::{Islands, OnIslands};
use crate::calls::{CallOptions, Pending};
use crate::error::{Error, Stop};
use crate::load::{BATCH_BYTES, LoadError, UNDER_WAY_MAX};
use crate::tx::Tx;

/// The reason of a batch that does not run because another one was refused.
const AFTER_ANOTHER: &str = "another batch was refused";

/// Rows of one island that are inserted together.
struct Batch<T> {
    rows: Vec<T>,
    /// About how many they log.
    bytes: usize,
}

/// Rows on their way. See the file's head.
pub(super) struct Batches<T> {
    insert: OnIslands<Batch<T>, u64>,
    /// Of each island: those that are not submitted yet.
    next: Vec<Batch<T>>,
    under_way: VecDeque<Pending<u64>>,
    has_failed: Arc<AtomicBool>,
    done: u64,
}

impl<T: Send + 'static> Batches<T> {
    /// Of rows that `insert` inserts.
    pub(super) fn new(
        islands: &Islands,
        insert: impl Fn(&mut Tx<'_>, &T) -> Result<(), Stop> + Send + Sync + 'static,
    ) -> Self {
        let has_failed = Arc::new(AtomicBool::new(false));
        let failed = has_failed.clone();
        let insert = islands.register_closure("load", move |tx, batch: &Batch<T>| {
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
        });
        let next = (0..islands.islands()).map(|_| Batch { rows: Vec::new(), bytes: 0 }).collect();
        Self { insert, next, under_way: VecDeque::new(), has_failed, done: 0 }
    }

    /// How many rows were inserted, as far as that is known.
    pub(super) const fn done(&self) -> u64 {
        self.done
    }

    /// Adds a row for an island, which logs about so many bytes.
    ///
    /// # Errors
    /// That of a refused batch.
    pub(super) fn add(&mut self, island: usize, row: T, bytes: usize) -> Result<(), LoadError> {
        let next = &self.next[island];
        if next.bytes + bytes > BATCH_BYTES && !next.rows.is_empty() {
            self.submit(island)?;
        }
        let next = &mut self.next[island];
        next.rows.push(row);
        next.bytes += bytes;
        Ok(())
    }

    /// Submits the rows of an island, if there are any.
    fn submit(&mut self, island: usize) -> Result<(), LoadError> {
        if self.next[island].rows.is_empty() {
            return Ok(());
        }
        while self.under_way.len() >= UNDER_WAY_MAX * self.next.len() {
            self.take_answer()?;
        }
        let batch = std::mem::replace(&mut self.next[island], Batch { rows: Vec::new(), bytes: 0 });
        // A row that is longer than a batch is a batch of its own.
        let options = CallOptions::new().log_bytes_max(batch.bytes.max(2 * BATCH_BYTES) as u64);
        let held = |batch: &Batch<T>| batch.rows.capacity() * size_of::<T>() + batch.bytes;
        match self.insert.on(island).with(options).input_bytes(held).submit(batch) {
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
        match pending.wait() {
            Ok(rows) => {
                self.done += rows;
                Ok(())
            }
            Err(error) => Err(self.end(error)),
        }
    }

    /// Ends after a batch was refused: waits for those under way, of which some may have run.
    fn end(&mut self, mut error: Error) -> LoadError {
        self.has_failed.store(true, Ordering::Relaxed);
        for pending in self.under_way.drain(..) {
            match pending.wait() {
                Ok(rows) => self.done += rows,
                Err(first) if error == Error::Aborted(AFTER_ANOTHER) => error = first,
                Err(_) => {}
            }
        }
        LoadError { loaded: self.done, error }
    }

    /// Inserts what is left, and tells `report` how many rows there are after each batch; returns the number of all
    /// rows.
    ///
    /// # Errors
    /// That of a refused batch.
    pub(super) fn finish(&mut self, mut report: impl FnMut(u64)) -> Result<u64, LoadError> {
        (0..self.next.len()).try_for_each(|island| self.submit(island))?;
        while !self.under_way.is_empty() {
            self.take_answer()?;
            report(self.done);
        }
        Ok(self.done)
    }
}
