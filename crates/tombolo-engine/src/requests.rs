//! Requests with an id: what became of them is known after any end of the process, and no id runs
//! twice.
//!
//! ```text
//!   run_once ──► id known? ── yes ──► answered as it ended first, nothing runs
//!                   │ no
//!                a row for the id, as the preface of the transaction that runs now
//!                   ├─ commits: row and effect are one transaction of the log
//!                   └─ aborts:  both are undone; the id's row says so in a transaction of its own
//! ```
//!
//! Rows lie in a table of the database's own ([`Request`]), so that log, image, recovery and the
//! memory budget treat them as any others. A row's number is the time at which it was made, in
//! microseconds since 1970, or one more than the newest if that is later. A new row deletes the oldest
//! once there are as many as are remembered in any case ([`Kept::ids`]) and the oldest is old enough
//! ([`Kept::time_us`]). Both ends are found through an index, so nothing has to be rebuilt when a
//! directory is opened.
//!
//! Not here: answers, which are of any type and are not kept; how an id travels with its call (the
//! library, the simulator). Invariants: an id is committed exactly if what its request wrote is there;
//! a request that did not run leaves no trace, and its id may be used again; a request without an id
//! comes through none of this.

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo_storage::error::{Error, Result, SchemaError};
use tombolo_storage::key::Range;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::plant::{self, Plant};
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::row::RowId;
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::{Index, Order, Phase, Store, Table, resolve_index, resolve_table};

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

/// What the row of a request holds that committed.
pub const COMMITTED: i16 = 1;
const ABORTED: i16 = 2;

/// Bytes that remembering a request adds to the log, at most: a row made, and two
/// deleted.
pub const REQUEST_LOG_BYTES_MAX: u64 = 128;

/// Rows deleted for a new one, at most: two, where fewer are remembered than once were.
const FORGOTTEN_MAX: u64 = 2;

/// What became of a call with a request id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It committed: all it did is there.
    Committed,
    /// It ran and ended without effect: by its own decision, refused by the store, or by a panic.
    Aborted,
    /// No call with this id has run that is remembered: it may not have arrived, or still wait, or
    /// as many others as are remembered came after it.
    Unknown,
}

/// The definition of the table that ids are remembered in.
pub fn request_table() -> TableDef {
    TableDef::of::<Request>().with::<ById>().with::<ByNumber>()
}

/// The outcome of a request with an id.
#[derive(Debug)]
pub enum Once<T> {
    /// It ran, to its end.
    Ran(T),
    /// It ran and panicked with this; it is remembered as aborted.
    Panicked(Box<dyn Any + Send>),
    /// It had run before, with this outcome; nothing ran now.
    Repeated(Outcome),
    /// The store refused to remember it; nothing ran.
    Refused(Error),
}

/// Which ids are remembered: the newest ones, and all young ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// How many are remembered, whatever their age.
    pub ids: u64,
    /// A request that is younger than this, in microseconds, is not forgotten, however many there are: they
    /// take room in the store's budget as any rows do.
    pub time_us: u64,
}

impl Kept {
    /// Whether the row with this number was made less than `time_us` ago. A time that is as far ahead, or
    /// further, is a mistake of the clock, and such a row is forgotten by the number of rows alone.
    fn is_young(self, number: i64, now_us: u64) -> bool {
        u64::try_from(number).is_ok_and(|made_us| now_us.abs_diff(made_us) < self.time_us)
    }
}

/// Where ids are remembered, and which.
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
    /// When the schema lacks the table or has it otherwise.
    pub fn new(schema: &Schema, kept: Kept) -> Result<Self, SchemaError> {
        Ok(Self {
            table: resolve_table(schema)?,
            by_id: resolve_index(schema)?,
            by_number: resolve_index(schema)?,
            kept,
        })
    }

    /// What became of the call with `id`, as the open transaction sees it.
    ///
    /// # Errors
    /// What the store refused.
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
    /// unless one with that id has run. It is remembered as what `outcome` says: one that did not commit
    /// as aborted, or, where its id may be used again, as unknown.
    pub fn run_once<P: MemoryProfile, T>(
        &self,
        store: &mut MemoryStore<P>,
        (id, now_us): (u128, u64),
        run: impl FnOnce(&mut MemoryStore<P>) -> T,
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

    /// Opens the transaction of a call with `id`, whose preface says that it committed; or answers
    /// what became of it before.
    fn begin<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
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

    /// Remembers that the call with `id` had no effect. Where there is no memory for that, it is not
    /// remembered.
    fn aborted<P: MemoryProfile>(&self, store: &mut MemoryStore<P>, request: (u128, u64)) {
        if plant::is(Plant::AbortNotRemembered) || store.begin().is_err() {
            return; // poisoned, as its own answer says
        }
        store.begin_writes();
        let remembered = self.remember(store, request, ABORTED).and_then(|()| store.commit());
        if remembered.is_err() && store.phase() != Phase::Idle {
            let _ = store.abort(); // a store that cannot undo says so from now on
        }
    }

    /// Makes the row of an id and deletes the oldest, as part of the open transaction.
    fn remember<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        (id, now_us): (u128, u64),
        outcome: i16,
    ) -> Result<()> {
        let newest = self.edge(store, Order::Backward)?;
        let number = newest.map_or(0, |(_, newest)| newest + 1).max(now_us as i64);
        for _ in 0..FORGOTTEN_MAX {
            let Some((row, oldest)) = self.edge(store, Order::Forward)? else { break };
            let are_few = store.rows_number(&self.table) < self.kept.ids;
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
