//! How an initial database gets into a store.
//!
//! Parts of it are generated on several threads and stored by the calling one, in a fixed order, so
//! what the store holds, and where, never depends on the schedule. Each part is stored in
//! transactions of a thousand rows: a store with undo or a log need not hold a whole table's.
//!
//! Not here: which parts there are, and what is in them (each workload's loader).

use std::ops::Range;

use tombolo_engine::threads;
use tombolo_engine::transaction::{Stop, Writing, execute};
use tombolo_storage::error::Error;
use tombolo_storage::key::IndexType;
use tombolo_storage::row::{RowId, RowMut};
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable};
use tombolo_storage::store::{Index, Store, Table};

use super::error::WorkloadError;

/// The rows of a transaction while loading.
const BATCH_ROWS: usize = 1_000;

/// A generated row that can be written into a row of the declared table `R`.
pub trait Fill<R> {
    /// Writes every column that is not to stay empty.
    fn fill(&self, row: &mut RowMut<'_, R>);
}

/// Stores `parts` in their order, each made by `generate` on one of `threads` threads and stored by
/// `store_part`; `after_part` gets the store after each, with how many of how many are stored.
///
/// # Errors
/// The first of `store_part` and `after_part`; what was stored so far stays.
///
/// # Panics
/// When there is not at least one thread.
pub(super) fn load_parts<S: Store, P: Sync, R: Send>(
    store: &mut S,
    parts: &[P],
    threads: usize,
    generate: impl Fn(&P) -> R + Sync,
    store_part: impl Fn(&mut S, &R) -> Result<(), Error>,
    mut after_part: impl FnMut(&mut S, usize, usize) -> Result<(), WorkloadError>,
) -> Result<(), WorkloadError> {
    let mut done = 0;
    let mut result = Ok(());
    threads::ordered_parallel(parts, threads, generate, |rows| {
        // After a refusal the remaining parts are only taken from their threads.
        if result.is_ok() {
            done += 1;
            let stored = store_part(store, &rows).map_err(WorkloadError::from);
            result = stored.and_then(|()| after_part(store, done, parts.len()));
        }
    });
    result
}

/// Stores `rows` rows in transactions of [`BATCH_ROWS`], of which each has a range of them.
pub(super) fn store_ranges<S: Store>(
    store: &mut S,
    rows: usize,
    mut store_range: impl FnMut(&mut Writing<'_, S>, Range<usize>) -> Result<(), Error>,
) -> Result<(), Error> {
    for first in (0..rows).step_by(BATCH_ROWS) {
        let range = first..rows.min(first + BATCH_ROWS);
        let stored = execute(store, |tx| {
            let mut tx = tx.write();
            store_range(&mut tx, range)?;
            tx.commit(())
        });
        // Without undo the store poisons itself and says so; why is what the caller needs.
        stored.map_err(|stop| match stop {
            Stop::Error(error) => error,
            Stop::Abort(_) => unreachable!("what writes does not abort"),
        })?;
    }
    Ok(())
}

/// Makes a row of `table` for each of `rows`.
pub(super) fn create_rows<S: Store, R: DeclaredTable, T: Fill<R>>(
    tx: &mut Writing<'_, S>,
    table: &Table<R>,
    rows: &[T],
) -> Result<Vec<RowId>, Error> {
    rows.iter().map(|row| tx.create(table, |to| row.fill(to))).collect()
}

/// Adds the entries of `rows`, which are in the order of their keys.
pub(super) fn insert_run<'a, S: Store, I: DeclaredIndex, T>(
    tx: &mut Writing<'_, S>,
    index: &Index<I>,
    rows: &'a [T],
    ids: &[RowId],
    key: impl Fn(&'a T) -> <I as IndexType>::Key<'a>,
) -> Result<(), Error> {
    tx.insert_run(index, ids, |at| key(&rows[at]))
}

/// Makes rows, which are in the order of their keys, in a table with one index.
pub(super) fn create_keyed<'a, S: Store, R: DeclaredTable, I: DeclaredIndex, T: Fill<R>>(
    tx: &mut Writing<'_, S>,
    (table, index): (&Table<R>, &Index<I>),
    rows: &'a [T],
    key: impl Fn(&'a T) -> <I as IndexType>::Key<'a>,
) -> Result<(), Error> {
    let ids = create_rows(tx, table, rows)?;
    insert_run(tx, index, rows, &ids, key)
}

/// The same for any number of rows, in transactions of [`BATCH_ROWS`].
pub(super) fn store_keyed<S: Store, R: DeclaredTable, I: DeclaredIndex, T: Fill<R>>(
    store: &mut S,
    of: (&Table<R>, &Index<I>),
    rows: &[T],
    key: impl for<'a> Fn(&'a T) -> <I as IndexType>::Key<'a>,
) -> Result<(), Error> {
    store_ranges(store, rows.len(), |tx, range| create_keyed(tx, of, &rows[range], &key))
}
