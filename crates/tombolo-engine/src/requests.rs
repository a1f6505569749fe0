//! Requests with an id: no id runs twice, and the outcome is known even after a crash.
//!
//! ```text
//!   run_once ──► id known? ── yes ──► returns the first outcome, runs nothing
//!                   │ no
//!                a row for the id, as the preface of the transaction that runs now
//!                   ├─ commits: row and effect are one transaction of the log
//!                   └─ aborts:  both are undone; a transaction of its own records the abort under the id
//! ```
//!
//! The rows are in a table of the database's own ([`Request`]), so that log, image, recovery and the
//! memory budget treat them like any others. A row's number is the time at which it was created, in
//! microseconds since 1970, or one more than the newest if that is later. A new row deletes the oldest
//! if there are more than [`Kept::ids`] and the oldest is older than [`Kept::time_us`]. Both ends are found
//! through an index, so nothing has to be rebuilt when a directory is opened.
//!
//! Not here: answers, which are of any type and are not stored; the transport of an id with its call (the
//! library, the simulator). Invariants: an id is recorded as committed exactly if the writes of its request
//! exist; a request that did not run leaves no trace, and its id may be used again; a request without an id
//! runs none of this code.

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo_storage::error::{Error, Result, SchemaError};
use tombolo_storage::key::Range;
use tombolo_storage::memory::preface::Prefaced;
use tombolo_storage::plant::{self, Plant};
use tombolo_storage::row::RowId;
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::{Index, Order, Phase, Store, Table, resolve_index, resolve_table};

/// With what the names of a database's own tables and indexes begin.
pub const OWN_PREFIX: &str = "tombolo_";

tombolo_storage::table! {
    /// Requests that ran with an id.
    pub struct Request = "tombolo_request" { ID: Uuid; NUMBER: BigInt; OUTCOME: SmallInt; }
}
tombolo_storage::index! {
    /// By id.
    pub struct ById = "tombolo_request_by_id" on Request (ID: Uuid) unique Hash;
}
tombolo_storage::index! {
    /// In the order they ran.
    pub struct ByNumber = "tombolo_request_by_number" on Request (NUMBER: BigInt) unique Tree;
}

/// The stored outcome of a committed request.
pub const COMMITTED: i16 = 1;
const ABORTED: i16 = 2;

/// The most bytes that remembering a request adds to the log: one row created, and two deleted.
pub const REQUEST_LOG_BYTES_MAX: u64 = 128;

/// The most rows deleted for a new one: two, so that the table shrinks after the setting was lowered.
const FORGOTTEN_MAX: u64 = 2;

/// The outcome of a call with a request id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It committed.
    Committed,
    /// It ran and ended without effect: by its own decision, refused by the store, or by a panic.
    Aborted,
    /// No call with this id is remembered: it may not have arrived, may still be waiting, or has been
    /// forgotten after many others.
    Unknown,
}

/// The definition of the table of request ids.
pub fn request_table() -> TableDef {
    TableDef::of::<Request>().with::<ById>().with::<ByNumber>()
}

/// The outcome of a request with an id.
#[derive(Debug)]
pub enum Once<T> {
    /// It ran to its end.
    Ran(T),
    /// It ran and panicked with this; it is remembered as aborted.
    Panicked(Box<dyn Any + Send>),
    /// It had run before, with this outcome; nothing ran now.
    Repeated(Outcome),
    /// The store refused to remember it; nothing ran.
    Refused(Error),
}

/// The rule for remembering ids: the newest ones, and all young ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The number of newest ids that are remembered at any age.
    pub ids: u64,
    /// No request younger than this, in microseconds, is forgotten, regardless of their number; their rows
    /// count towards the store's memory budget like any others.
    pub time_us: u64,
}

impl Kept {
    /// Whether the row with this number was created less than `time_us` ago. A time at least as far in the future
    /// is an error of the clock; such a row is forgotten by the number of rows only.
    fn is_young(self, number: i64, now_us: u64) -> bool {
        u64::try_from(number).is_ok_and(|made_us| now_us.abs_diff(made_us) < self.time_us)
    }
}

/// The table of request ids, with the rule for remembering them.
#[derive(Clone, Debug)]
pub struct Requests {
    table: Table<Request>,
    by_id: Index<ById>,
    by_number: Index<ByNumber>,
    kept: Kept,
}

impl Requests {
    /// Remembers ids in a table of this schema.
    ///
    /// # Errors
    /// When the schema lacks the table or defines it differently.
    pub fn new(schema: &Schema, kept: Kept) -> Result<Self, SchemaError> {
        Ok(Self {
            table: resolve_table(schema)?,
            by_id: resolve_index(schema)?,
            by_number: resolve_index(schema)?,
            kept,
        })
    }

    /// The outcome of the call with `id`, as the open transaction sees it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn outcome<S: Store>(&self, store: &mut S, id: u128) -> Result<Outcome> {
        match self.known(store, id)? {
            Outcome::Unknown if plant::is(Plant::UnknownIsAborted) => Ok(Outcome::Aborted),
            outcome => Ok(outcome),
        }
    }

    fn known<S: Store>(&self, store: &mut S, id: u128) -> Result<Outcome> {
        let Some(row) = store.lookup(&self.by_id, id.to_be_bytes())? else {
            return Ok(Outcome::Unknown);
        };
        Ok(match store.pin(&self.table, row)?.get(Request::OUTCOME) {
            COMMITTED => Outcome::Committed,
            _ => Outcome::Aborted,
        })
    }

    /// Runs a request with `id` at this time since 1970, as one transaction that `run` begins and ends,
    /// unless one with that id has run. The outcome that `outcome` returns is remembered: a request that did not
    /// commit is aborted or, if its id may be used again, unknown. A store that checks what held parts have locked
    /// may refuse it with `Held`: then it is to run again.
    pub fn run_once<S: Prefaced, T>(
        &self,
        store: &mut S,
        (id, now_us): (u128, u64),
        run: impl FnOnce(&mut S) -> T,
        outcome: impl FnOnce(&T) -> Outcome,
    ) -> Once<T> {
        match self.begin(store, (id, now_us)) {
            Ok(None) => {}
            Ok(Some(outcome)) => return Once::Repeated(outcome),
            Err(error) => return Once::Refused(error),
        }
        // The transaction's own guard undoes what a panic interrupts; what is caught here has to be
        // remembered before its answer, so it becomes one.
        let ran = catch_unwind(AssertUnwindSafe(|| run(store)));
        if store.phase() != Phase::Idle {
            let _ = store.fail(); // no transaction continued the preface
        }
        if ran.as_ref().map_or(Outcome::Aborted, outcome) == Outcome::Aborted {
            self.aborted(store, (id, now_us));
        }
        ran.map_or_else(Once::Panicked, Once::Ran)
    }

    /// Opens the transaction of a call with `id`, whose preface records that it committed; or returns
    /// its earlier outcome.
    fn begin<S: Prefaced>(
        &self,
        store: &mut S,
        (id, now_us): (u128, u64),
    ) -> Result<Option<Outcome>> {
        store.begin()?;
        let known = match self.known(store, id) {
            Ok(Outcome::Unknown) => {
                store.begin_writes();
                self.remember(store, (id, now_us), COMMITTED).map(|()| None)
            }
            known => known.map(Some),
        };
        match known {
            Ok(None) if plant::is(Plant::IdCommittedAlone) => store.commit()?,
            Ok(None) => store.preface(),
            _ => store.abort()?,
        }
        known
    }

    /// Records that the call with `id` aborted, if there is memory for that.
    fn aborted<S: Prefaced>(&self, store: &mut S, request: (u128, u64)) {
        if plant::is(Plant::AbortNotRemembered) || store.begin().is_err() {
            return; // poisoned; the call's own answer reports that
        }
        store.begin_writes();
        let remembered = self.remember(store, request, ABORTED).and_then(|()| store.commit());
        if remembered.is_err() && store.phase() != Phase::Idle {
            let _ = store.abort(); // a store that cannot undo is poisoned from now on
        }
    }

    /// Creates the row of an id and deletes the oldest, as part of the open transaction.
    fn remember<S: Prefaced>(
        &self,
        store: &mut S,
        (id, now_us): (u128, u64),
        outcome: i16,
    ) -> Result<()> {
        let newest = self.edge(store, Order::Backward)?;
        let number = newest.map_or(0, |(_, newest)| newest + 1).max(now_us as i64);
        for _ in 0..FORGOTTEN_MAX {
            let Some((row, oldest)) = self.edge(store, Order::Forward)? else { break };
            let are_few = store.rows_number(&self.table)? < self.kept.ids;
            if are_few || self.kept.is_young(oldest, now_us) {
                break;
            }
            let id = store.pin(&self.table, row)?.get(Request::ID);
            store.remove(&self.by_id, id, row)?;
            store.remove(&self.by_number, oldest, row)?;
            store.delete(&self.table, row)?;
        }
        let id = id.to_be_bytes();
        let row = store.create(&self.table, |row| {
            row.set(Request::ID, id);
            row.set(Request::NUMBER, number);
            row.set(Request::OUTCOME, outcome);
        })?;
        store.insert(&self.by_id, id, row)?;
        store.insert(&self.by_number, number, row)
    }

    /// The row remembered last, or first, with its number.
    fn edge<S: Store>(&self, store: &mut S, order: Order) -> Result<Option<(RowId, i64)>> {
        let mut edge = None;
        store.scan(&self.by_number, Range::all(), order, |row| {
            edge = Some(row);
            ControlFlow::Break(())
        })?;
        let Some(row) = edge else { return Ok(None) };
        Ok(Some((row, store.pin(&self.table, row)?.get(Request::NUMBER))))
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests;
