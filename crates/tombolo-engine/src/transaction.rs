//! A transaction's phases, as types.
//!
//! ```text
//!   execute ──► Reading ──write()──► Writing ──commit()──► Committed ──returned──► the store commits
//!                 │ │                   └─ any other way out: undone, or the store is poisoned where nothing can be
//!                 │ └── commit() ──► Committed            (a read-only transaction)
//!                 └── abort(), or any other way out: there is nothing to undo
//! ```
//!
//! A transaction ends when its procedure has returned, not before, and what the procedure returns
//! decides how: a procedure that returns an error, or panics, has changed nothing, whether or not it called
//! `commit` before (docs/decisions/0029).
//!
//! A *reads-first* transaction (the paper's "two-phase", LG-11) does all reading that may lead to
//! an abort before its first write. [`Writing`] has no `abort`, so such a transaction needs no undo
//! and runs in every profile. [`Transaction`] reads, writes and aborts as it likes and is only made
//! where the store can undo. Not here: which calls are made, and in which order (`procedure.rs`).

use std::ops::ControlFlow;

use tombolo_storage::error::{Error, Result};
use tombolo_storage::key::{IndexType, Range};
use tombolo_storage::plant::{self, Plant};
use tombolo_storage::row::{Fields, Row, RowId, RowMut};
use tombolo_storage::store::{Index, Order, Phase, Store, Table, TableType};

/// Why a transaction ended without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The procedure decided so; the reason as counted and printed.
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

/// A procedure's answer: its transaction commits when the procedure returns this. Made by `commit`
/// and by nothing else.
#[derive(Debug)]
#[must_use = "a transaction commits when its procedure returns this"]
pub struct Committed<T>(T);

macro_rules! read_and_commit_calls {
    () => {
        /// Commits with `answer`, when the procedure has returned what this answers.
        ///
        /// # Errors
        /// None: what the store's commit fails with is the caller's answer.
        #[inline(always)]
        pub fn commit<T>(self, answer: T) -> Result<Committed<T>, Stop> {
            Ok(Committed(answer))
        }

        /// The row a unique index holds for `key`; of a non-unique one, the first.
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

        /// The same as `lookup`, but says that the row will be changed; see
        /// [`Store::lookup_for_update`].
        #[inline(always)]
        pub fn lookup_for_update<I: IndexType>(
            &mut self,
            index: &Index<I>,
            key: I::Key<'_>,
        ) -> Result<Option<RowId>> {
            self.store.lookup_for_update(index, key)
        }

        /// The same as `lookup_many`, but says that the rows will be changed; see
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

        /// Visits the rows whose keys lie in `range`, until the visitor breaks off.
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

        /// Visits all rows of a table in the store's own order, until the visitor breaks off.
        #[inline(always)]
        pub fn rows<R: TableType>(
            &mut self,
            table: &Table<R>,
            visit: impl FnMut(RowId) -> ControlFlow<()>,
        ) -> Result<()> {
            self.store.rows(table, visit)
        }

        /// Says that `key` will be looked up soon; see [`Store::prefetch_lookup`].
        #[inline(always)]
        pub fn prefetch_lookup<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
            self.store.prefetch_lookup(index, key);
        }

        /// Says that an entry with `key` will be inserted soon; see [`Store::prefetch_insert`].
        #[inline(always)]
        pub fn prefetch_insert<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
            self.store.prefetch_insert(index, key);
        }

        /// Says that the bytes of `fields` of a row will be read or written soon.
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

        /// Sets the variable-length column whose handle lies at `offset` of the row.
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

        /// Makes a row and fills it in place.
        #[inline(always)]
        pub fn create<R: TableType>(
            &mut self,
            table: &Table<R>,
            fill: impl FnOnce(&mut RowMut<'_, R>),
        ) -> Result<RowId> {
            self.store.create(table, fill)
        }

        /// Deletes a row; its index entries are the caller's business.
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

        /// Removes the index entry of `row` under `key`; says whether there was one.
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

    /// Leaves the reading phase; there is no way back and no abort from here.
    #[inline(always)]
    pub fn write(self) -> Writing<'s, S> {
        self.store.begin_writes();
        Writing { store: self.store }
    }

    /// Ends the transaction without effect, when the procedure has returned what this answers.
    ///
    /// # Errors
    /// Always: the abort itself.
    #[inline(always)]
    pub fn abort<T>(self, reason: &'static str) -> Result<T, Stop> {
        Err(Stop::Abort(reason))
    }
}

/// The second phase of a reads-first transaction: it may read and write, and only commits.
#[derive(Debug)]
pub struct Writing<'s, S: Store> {
    store: &'s mut S,
}

impl<S: Store> Writing<'_, S> {
    read_and_commit_calls!();
    write_calls!();
}

/// A transaction that reads, writes and aborts in any order; only where the store can undo.
#[derive(Debug)]
pub struct Transaction<'s, S: Store> {
    store: &'s mut S,
}

impl<S: Store> Transaction<'_, S> {
    read_and_commit_calls!();
    write_calls!();

    /// The store, for what works on whole rows of any schema (storage `dynamic.rs`). Its calls are
    /// part of this transaction; it must neither begin nor end one.
    #[inline(always)]
    pub fn store(&mut self) -> &mut S {
        self.store
    }

    /// The store, for reading what its own calls offer in addition to [`Store`]'s.
    #[inline(always)]
    pub fn store_ref(&self) -> &S {
        self.store
    }

    /// Takes every change back, when the procedure has returned what this answers.
    ///
    /// # Errors
    /// Always: the abort itself.
    #[inline(always)]
    pub fn abort<T>(self, reason: &'static str) -> Result<T, Stop> {
        Err(Stop::Abort(reason))
    }
}

/// A transaction whose procedure runs: ends it if the procedure leaves it open, by an abort, an error or
/// a panic.
struct OpenTransaction<'s, S: Store>(&'s mut S);

impl<S: Store> OpenTransaction<'_, S> {
    /// The procedure has returned.
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
    /// The procedure unwinds.
    #[inline(always)]
    fn drop(&mut self) {
        unwound(self.0);
    }
}

/// Ends a transaction that has not committed; answers why, or what kept it from its own abort.
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

/// Takes an open transaction back, or poisons the store.
fn end<S: Store>(store: &mut S) {
    let ended = match store.phase() {
        Phase::Idle => Ok(()),
        Phase::Reading => store.abort(),
        Phase::Writing => store.fail(),
    };
    // A store that cannot end its transaction poisons itself; the next call says why.
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
/// What stopped it. A transaction that fails after its first write is undone, or poisons a store
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

/// Runs one transaction that may abort at any point; does not compile for stores without undo.
///
/// # Errors
/// What stopped it; its changes are undone then.
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
