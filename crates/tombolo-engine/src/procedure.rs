//! Procedures: transactions written once, for every store.
//!
//! A procedure is a type. It is bound to a schema once (its tables and indexes become handles) and
//! then runs on any store with that schema. The compiler generates one copy of its code per store,
//! in the one place that lists the stores (lab `drive/open.rs`). Everything a procedure needs
//! is in its input: it reads no clock and draws no random number, so that the same inputs in the
//! same order produce the same state.
//!
//! A caller that has several inputs at hand may look ahead (TPK-44): [`Procedure::locate`] prefetches
//! the index entries and rows of a transaction while earlier ones still run. It changes nothing. The rows it
//! finds are [`Hints`], which the transaction uses instead of looking them up, unless an entry was removed from
//! one of the indexes since.

use tombolo_storage::error::SchemaError;
use tombolo_storage::row::RowId;
use tombolo_storage::schema::Schema;
use tombolo_storage::store::Store;

use crate::hints::Hints;
use crate::transaction::{Committed, Reading, Stop, execute, step};

/// The steps of looking ahead at a transaction. Each prefetches the memory that the next one reads; in order, and
/// with other work in between, none of them waits for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// The first step: prefetches the places of its keys in the indexes.
    Keys,
    /// The second step: prefetches the rows of these keys.
    Rows,
}

/// A reads-first transaction (LG-11): it decides whether to abort before its first write.
pub trait Procedure: Sized {
    /// The type of its input.
    type Input;
    /// The type of its answer.
    type Answer;

    /// Resolves the tables and indexes it uses.
    ///
    /// # Errors
    /// When the schema lacks one of them or defines it differently.
    fn bind(schema: &Schema) -> Result<Self, SchemaError>;

    /// The sum of [`Store::removals`] of all indexes in which [`Procedure::locate`] finds rows: while it
    /// does not change, the hints are valid. `None` for a procedure that does not look ahead.
    #[inline(always)]
    fn removals<S: Store>(&self, store: &S) -> Option<u64> {
        let _ = store;
        None
    }

    /// Prefetches the memory that its transaction with `input` will read, and notes the rows it finds for
    /// [`Procedure::run_located`]. Locks nothing, changes nothing; compiles to nothing on a store that
    /// cannot look ahead. Called by [`Procedure::look_ahead`].
    #[inline(always)]
    fn locate<S: Store>(&self, store: &S, input: &Self::Input, ahead: Ahead, hints: &mut Hints) {
        let _ = (store, input, ahead, hints);
    }

    /// Runs it.
    ///
    /// # Errors
    /// Its own abort, or an error of the store.
    fn run<S: Store>(
        &self,
        tx: Reading<'_, S>,
        input: &Self::Input,
    ) -> Result<Committed<Self::Answer>, Stop>;

    /// Runs it with the rows noted by looking ahead: all of them, or none. Each is the row that a look-up
    /// would find now.
    ///
    /// # Errors
    /// As [`Procedure::run`].
    #[inline(always)]
    fn run_located<S: Store>(
        &self,
        tx: Reading<'_, S>,
        input: &Self::Input,
        located: &[RowId],
    ) -> Result<Committed<Self::Answer>, Stop> {
        let _ = located;
        self.run(tx, input)
    }

    /// Looks ahead at a transaction: first for its keys, later for its rows, with the same `hints`.
    #[inline(always)]
    fn look_ahead<S: Store>(
        &self,
        store: &S,
        input: &Self::Input,
        ahead: Ahead,
        hints: &mut Hints,
    ) {
        hints.begin(if ahead == Ahead::Rows { self.removals(store) } else { None });
        self.locate(store, input, ahead, hints);
    }

    /// Runs it as one transaction on `store`.
    ///
    /// # Errors
    /// See [`execute`].
    #[inline(always)]
    fn call<S: Store>(&self, store: &mut S, input: &Self::Input) -> Result<Self::Answer, Stop> {
        execute(store, |tx| self.run(tx, input))
    }

    /// The same with the rows found by looking ahead.
    ///
    /// # Errors
    /// See [`execute`].
    #[inline(always)]
    fn call_located<S: Store>(
        &self,
        store: &mut S,
        input: &Self::Input,
        hints: &Hints,
    ) -> Result<Self::Answer, Stop> {
        let located = self.located(store, hints);
        execute(store, |tx| self.run_located(tx, input, located))
    }

    /// The same as a step of the open transaction of `store`; see [`step`].
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    fn step_located<S: Store>(
        &self,
        store: &mut S,
        input: &Self::Input,
        hints: &Hints,
    ) -> Result<Self::Answer, Stop> {
        let located = self.located(store, hints);
        step(store, |tx| self.run_located(tx, input, located))
    }

    /// The rows that looking ahead found, if they are still those of their keys.
    #[inline(always)]
    fn located<'h, S: Store>(&self, store: &S, hints: &'h Hints) -> &'h [RowId] {
        // First: without hints there is nothing to compare.
        if hints.is_none() { &[] } else { hints.rows(self.removals(store)) }
    }
}
