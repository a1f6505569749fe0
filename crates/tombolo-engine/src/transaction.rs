//! A transaction's phases, as types.
//!
//! ```text
//!   execute ──► Reading ──write()──► Writing ──commit()──► Committed ──returned──► the store commits
//!                 │ │                   └─ any other ending: undone, or the store is poisoned if it has no undo
//!                 │ └── commit() ──► Committed            (a read-only transaction)
//!                 └── abort(), or any other ending: there is nothing to undo
//! ```
//!
//! A transaction ends when its procedure has returned, not before, and the procedure's result
//! decides how: a procedure that returns an error, or panics, has changed nothing, even if it called
//! `commit` before (docs/decisions/0029).
//!
//! A *reads-first* transaction (the paper's "two-phase", LG-11) does all reading that may lead to
//! an abort before its first write. [`Writing`] has no `abort`, so such a transaction needs no undo
//! and runs in every profile. [`Transaction`] reads, writes and aborts in any order, and exists only
//! if the store can undo. Not here: the calls of a procedure and their order (`procedure.rs`).

use std::ops::ControlFlow;

use tombolo_storage::error::{Error, Result};
use tombolo_storage::key::{IndexType, Range};
use tombolo_storage::plant::{self, Plant};
use tombolo_storage::row::{Fields, Row, RowId, RowMut};
use tombolo_storage::store::{Index, Order, Phase, Store, Table, TableType};

/// The reason that a transaction ended without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The procedure aborted, for this reason, by which aborts are counted and printed.
    Abort(&'static str),
    /// The store refused a call.
    Error(Error),
}

impl From<Error> for Stop {
    #[inline]
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Abort(reason) => write!(f, "aborted: {reason}"),
            Self::Error(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Stop {}

/// A procedure's answer: its transaction commits when the procedure returns this. Only `commit` creates it.
#[derive(Debug)]
#[must_use = "a transaction commits when its procedure returns this"]
pub struct Committed<T>(T);

macro_rules! read_and_commit_calls {
    () => {
        /// Commits with `answer`, once the procedure has returned the result of this method.
        ///
        /// # Errors
        /// None: if the commit of the store fails, the caller gets that error.
        #[inline(always)]
        pub fn commit<T>(self, answer: T) -> Result<Committed<T>, Stop> {
            Ok(Committed(answer))
        }

        /// The row with this key in an index; the first one if the index is not unique.
        #[inline(always)]
        pub fn lookup<I: IndexType>(
            &mut self,
            index: &Index<I>,
            key: I::Key<'_>,
        ) -> Result<Option<RowId>> {
            self.store.lookup(index, key)
        }

        /// Looks up `keys` together; see [`Store::lookup_many`].
        #[inline(always)]
        pub fn lookup_many<I: IndexType>(
            &mut self,
            index: &Index<I>,
            keys: &[I::Key<'_>],
            found: &mut [Option<RowId>],
        ) -> Result<()> {
            self.store.lookup_many(index, keys, found)
        }

        /// The same as `lookup`, but announces a change of the row; see
        /// [`Store::lookup_for_update`].
        #[inline(always)]
        pub fn lookup_for_update<I: IndexType>(
            &mut self,
            index: &Index<I>,
            key: I::Key<'_>,
        ) -> Result<Option<RowId>> {
            self.store.lookup_for_update(index, key)
        }

        /// The same as `lookup_many`, but announces changes of the rows; see
        /// [`Store::lookup_many_for_update`].
        #[inline(always)]
        pub fn lookup_many_for_update<I: IndexType>(
            &mut self,
            index: &Index<I>,
            keys: &[I::Key<'_>],
            found: &mut [Option<RowId>],
        ) -> Result<()> {
            self.store.lookup_many_for_update(index, keys, found)
        }

        /// Visits the rows with keys in `range`, until the visitor stops.
        #[inline(always)]
        pub fn scan<I: IndexType>(
            &mut self,
            index: &Index<I>,
            range: Range<I::Key<'_>>,
            order: Order,
            visit: impl FnMut(RowId) -> ControlFlow<()>,
        ) -> Result<()> {
            self.store.scan(index, range, order, visit)
        }

        /// Visits all rows of a table in the store's own order, until the visitor stops.
        #[inline(always)]
        pub fn rows<R: TableType>(
            &mut self,
            table: &Table<R>,
            visit: impl FnMut(RowId) -> ControlFlow<()>,
        ) -> Result<()> {
            self.store.rows(table, visit)
        }

        /// Announces a look-up of `key`; see [`Store::prefetch_lookup`].
        #[inline(always)]
        pub fn prefetch_lookup<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
            self.store.prefetch_lookup(index, key);
        }

        /// Announces the insertion of an entry with `key`; see [`Store::prefetch_insert`].
        #[inline(always)]
        pub fn prefetch_insert<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
            self.store.prefetch_insert(index, key);
        }

        /// Announces an access to the columns `fields` of a row.
        #[inline(always)]
        pub fn prefetch<R: TableType>(&self, table: &Table<R>, row: RowId, fields: Fields<R>) {
            self.store.prefetch(table, row, fields);
        }

        /// Holds a row in place for reading.
        #[inline(always)]
        pub fn pin<R: TableType>(
            &self,
            table: &Table<R>,
            row: RowId,
        ) -> Result<Row<R, S::Pin<'_>>> {
            self.store.pin(table, row)
        }
    };
}

macro_rules! write_calls {
    () => {
        /// Changes a row in place, within `fields`.
        #[inline(always)]
        pub fn update<R: TableType>(
            &mut self,
            table: &Table<R>,
            row: RowId,
            fields: Fields<R>,
            change: impl FnOnce(&mut RowMut<'_, R>),
        ) -> Result<()> {
            self.store.update(table, row, fields, change)
        }

        /// Sets the variable-length column whose handle is at `offset` of the row.
        #[inline]
        pub fn set_variable<R: TableType>(
            &mut self,
            table: &Table<R>,
            row: RowId,
            offset: usize,
            value: &[u8],
        ) -> Result<()> {
            self.store.set_variable(table, row, offset, value)
        }

        /// Creates a row and fills it in place.
        #[inline(always)]
        pub fn create<R: TableType>(
            &mut self,
            table: &Table<R>,
            fill: impl FnOnce(&mut RowMut<'_, R>),
        ) -> Result<RowId> {
            self.store.create(table, fill)
        }

        /// Deletes a row; the caller removes its index entries.
        #[inline(always)]
        pub fn delete<R: TableType>(&mut self, table: &Table<R>, row: RowId) -> Result<()> {
            self.store.delete(table, row)
        }

        /// Adds an index entry.
        #[inline(always)]
        pub fn insert<I: IndexType>(
            &mut self,
            index: &Index<I>,
            key: I::Key<'_>,
            row: RowId,
        ) -> Result<()> {
            self.store.insert(index, key, row)
        }

        /// Adds index entries in ascending order of their keys; see [`Store::insert_run`].
        #[inline(always)]
        pub fn insert_run<'k, I: IndexType>(
            &mut self,
            index: &Index<I>,
            rows: &[RowId],
            key: impl Fn(usize) -> I::Key<'k>,
        ) -> Result<()> {
            self.store.insert_run(index, rows, key)
        }

        /// Removes the index entry of `row` under `key`; returns whether there was one.
        #[inline(always)]
        pub fn remove<I: IndexType>(
            &mut self,
            index: &Index<I>,
            key: I::Key<'_>,
            row: RowId,
        ) -> Result<bool> {
            self.store.remove(index, key, row)
        }
    };
}

/// The first phase of a reads-first transaction: it has changed nothing and may abort.
#[derive(Debug)]
pub struct Reading<'s, S: Store> {
    store: &'s mut S,
}

impl<'s, S: Store> Reading<'s, S> {
    read_and_commit_calls!();

    /// Ends the reading phase. From here on the transaction can neither return to it nor abort.
    #[inline(always)]
    pub fn write(self) -> Writing<'s, S> {
        self.store.begin_writes();
        Writing { store: self.store }
    }

    /// Ends the transaction without effect, once the procedure has returned the result of this method.
    ///
    /// # Errors
    /// Always: the abort itself.
    #[inline(always)]
    pub fn abort<T>(self, reason: &'static str) -> Result<T, Stop> {
        Err(Stop::Abort(reason))
    }
}

/// The second phase of a reads-first transaction: it may read and write, and can only commit.
#[derive(Debug)]
pub struct Writing<'s, S: Store> {
    store: &'s mut S,
}

impl<S: Store> Writing<'_, S> {
    read_and_commit_calls!();
    write_calls!();
}

/// A transaction that reads, writes and aborts in any order; only for stores with undo.
#[derive(Debug)]
pub struct Transaction<'s, S: Store> {
    store: &'s mut S,
}

impl<S: Store> Transaction<'_, S> {
    read_and_commit_calls!();
    write_calls!();

    /// The store, for code that works on whole rows of any schema (storage `dynamic.rs`). Its calls are
    /// part of this transaction; the code must neither begin nor end one.
    #[inline(always)]
    pub fn store(&mut self) -> &mut S {
        self.store
    }

    /// Undoes every change, once the procedure has returned the result of this method.
    ///
    /// # Errors
    /// Always: the abort itself.
    #[inline(always)]
    pub fn abort<T>(self, reason: &'static str) -> Result<T, Stop> {
        Err(Stop::Abort(reason))
    }
}

/// Guard of a transaction whose procedure runs: ends the transaction if the procedure does not commit, because
/// of an abort, an error or a panic.
struct OpenTransaction<'s, S: Store>(&'s mut S);

impl<S: Store> OpenTransaction<'_, S> {
    /// Ends the transaction after the procedure has returned.
    #[inline(always)]
    fn returned<T>(self, ended: Result<Committed<T>, Stop>) -> Result<T, Stop> {
        let ended = match ended {
            Ok(Committed(answer)) => match self.0.commit() {
                Ok(()) => Ok(answer),
                Err(error) => Err(stopped(self.0, Stop::Error(error))),
            },
            Err(stop) => Err(stopped(self.0, stop)),
        };
        std::mem::forget(self);
        ended
    }
}

impl<S: Store> Drop for OpenTransaction<'_, S> {
    /// Ends the transaction after the procedure panicked.
    #[inline(always)]
    fn drop(&mut self) {
        unwound(self.0);
    }
}

/// Begins a transaction that may abort at any point, and that its owner ends by [`finish`], also after a panic: for one
/// that spans several stores.
///
/// # Errors
/// As [`Store::begin`].
pub fn begin<S: Store>(store: &mut S) -> Result<(), Stop> {
    const { assert!(S::UNDO, "a transaction over several stores may have to be undone") };
    store.begin()?;
    store.begin_writes();
    Ok(())
}

/// Commits the open transaction, or undoes it.
///
/// # Errors
/// The reason that it did not commit.
pub fn finish<S: Store>(store: &mut S, ended: Result<(), Stop>) -> Result<(), Stop> {
    match ended.and_then(|()| Ok(store.commit()?)) {
        Ok(()) => Ok(()),
        Err(stop) => Err(stopped(store, stop)),
    }
}

/// Ends a transaction that has not committed; returns the reason, or the error of the abort itself.
#[inline]
fn stopped<S: Store>(store: &mut S, stop: Stop) -> Stop {
    match (store.phase(), stop) {
        (Phase::Idle, _) => stop,
        (_, Stop::Abort(_)) => store.abort().map_or_else(Stop::Error, |()| stop),
        (_, Stop::Error(_)) => {
            end(store);
            stop
        }
    }
}

/// Undoes an open transaction, or poisons the store.
fn end<S: Store>(store: &mut S) {
    let ended = match store.phase() {
        Phase::Idle => Ok(()),
        Phase::Reading => store.abort(),
        Phase::Writing => store.fail(),
    };
    // A store that cannot end its transaction poisons itself; the next call returns the reason.
    debug_assert!(ended.is_ok() || !S::UNDO, "{ended:?}");
}

#[cold]
#[inline(never)]
fn unwound<S: Store>(store: &mut S) {
    if store.phase() != Phase::Idle && plant::is(Plant::PanicNotUndone) {
        let _ = store.commit(); // as if the guard were not there
    } else {
        end(store);
    }
}

/// Runs one reads-first transaction.
///
/// # Errors
/// The reason that it ended. A transaction that fails after its first write is undone, or poisons a store
/// without undo.
#[inline(always)]
pub fn execute<S: Store, T>(
    store: &mut S,
    body: impl FnOnce(Reading<'_, S>) -> Result<Committed<T>, Stop>,
) -> Result<T, Stop> {
    store.begin()?;
    let open = OpenTransaction(store);
    let ended = body(Reading { store: &mut *open.0 });
    open.returned(ended)
}

/// Runs the body of a reads-first transaction as a step of one that is open: it commits with that, and what it has
/// changed is undone with it. It may abort; whatever came before it is then undone, too.
///
/// # Errors
/// The reason that the step ended, with which the transaction has to end.
#[inline(always)]
pub fn step<S: Store, T>(
    store: &mut S,
    body: impl FnOnce(Reading<'_, S>) -> Result<Committed<T>, Stop>,
) -> Result<T, Stop> {
    const { assert!(S::UNDO, "a step is undone with its transaction") };
    body(Reading { store }).map(|Committed(answer)| answer)
}

/// Runs one transaction that may abort at any point; does not compile for stores without undo.
///
/// # Errors
/// The reason that it ended; its changes are undone.
#[inline(always)]
pub fn execute_undoable<S: Store, T>(
    store: &mut S,
    body: impl FnOnce(Transaction<'_, S>) -> Result<Committed<T>, Stop>,
) -> Result<T, Stop> {
    const { assert!(S::UNDO, "this store has no undo: use a reads-first transaction") };
    store.begin()?;
    store.begin_writes();
    let open = OpenTransaction(store);
    let ended = body(Transaction { store: &mut *open.0 });
    open.returned(ended)
}
