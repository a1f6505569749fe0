//! Requests that carry an id, on a store: run at most once by the engine's own code.
//!
//! Not here: which requests carry one and are sent again (`world/repeats.rs`), what is remembered and for
//! how long as the model has it (`model.rs`).

use tombolo_engine::requests::{self, COMMITTED, Kept, Once, Requests};
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::{Error, SchemaError};
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::snapshot::{Slice, Snapshot, SnapshotCursor};
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::row::{Row, RowBytes};
use tombolo_storage::schema::{DeclaredTable, Schema};
use tombolo_storage::store::{Store, Table, resolve_table};

use super::model::{Outcome, REQUEST_IDS_MAX, Remembered};
use super::tables::row_ids;

/// What a request answers that had run before, by how it ended then.
const REPEATED_COMMITTED: &str = "it had committed before";
const REPEATED_ABORTED: &str = "it had aborted before";

/// What the reason of an abort is to the model.
pub(crate) fn aborted(reason: &str) -> Outcome {
    match reason {
        REPEATED_COMMITTED => Outcome::Repeated(true),
        REPEATED_ABORTED => Outcome::Repeated(false),
        _ => Outcome::Aborted,
    }
}

/// Where a store remembers ids.
#[derive(Clone, Debug)]
pub(super) struct Identified {
    requests: Requests,
    table: Table<requests::Request>,
}

/// A row of an id as the model has it, and its number.
fn remembered<P: RowBytes>(row: &Row<requests::Request, P>) -> (i64, Remembered) {
    let id = u128::from_be_bytes(row.get(requests::Request::ID));
    let has_committed = row.get(requests::Request::OUTCOME) == COMMITTED;
    (row.get(requests::Request::NUMBER), Remembered { id, has_committed })
}

impl Identified {
    /// Of a store that remembers them.
    ///
    /// # Errors
    /// When it does so otherwise.
    pub(super) fn of(schema: &Schema) -> Result<Option<Self>, SchemaError> {
        if schema.table(requests::Request::NAME).is_none() {
            return Ok(None);
        }
        let requests = Requests::new(schema, Kept { ids: REQUEST_IDS_MAX, time_us: 0 })?;
        Ok(Some(Self { requests, table: resolve_table(schema)? }))
    }

    /// Runs a request with `id` unless one has run; a panic is an abort then, as it is to the caller.
    pub(super) fn run<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        id: u128,
        run: impl FnOnce(&mut MemoryStore<P>) -> Result<u64, Stop>,
    ) -> Result<u64, Stop> {
        let outcome = |ended: &Result<_, _>| match ended {
            Ok(_) => requests::Outcome::Committed,
            Err(_) => requests::Outcome::Aborted,
        };
        match self.requests.run_once(store, (id, 0), run, outcome) {
            Once::Ran(ended) => ended,
            Once::Panicked(_) => Err(Stop::Abort("it panicked")),
            Once::Repeated(requests::Outcome::Committed) => Err(Stop::Abort(REPEATED_COMMITTED)),
            Once::Repeated(_) => Err(Stop::Abort(REPEATED_ABORTED)),
            Once::Refused(error) => Err(Stop::Error(error)),
        }
    }

    /// What became of the request with `id`, within a transaction; whether it committed.
    pub(super) fn outcome<S: Store>(&self, store: &mut S, id: u128) -> Result<Option<bool>, Error> {
        Ok(match self.requests.outcome(store, id)? {
            requests::Outcome::Committed => Some(true),
            requests::Outcome::Aborted => Some(false),
            requests::Outcome::Unknown => None,
        })
    }

    /// All that is remembered, by number, with what a pinned row failed with, in words.
    pub(super) fn rows<S: Store>(&self, store: &mut S) -> Result<Vec<(i64, Remembered)>, String> {
        let ids = row_ids(store, &self.table)?;
        let read = |id| store.pin(&self.table, id).map(|row| remembered(&row));
        ids.into_iter().map(read).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    /// See `Handles::read_slice`.
    pub(super) fn read_slice<P: MemoryProfile>(
        &self,
        store: &MemoryStore<P>,
        snapshot: &Snapshot,
        cursor: &mut SnapshotCursor,
        rows_max: usize,
        number: &mut u64,
    ) -> Result<Slice, Error> {
        store.read_slice(snapshot, &self.table, cursor, rows_max, |_, row| {
            let (position, remembered) = remembered(&row);
            *number ^= remembered.number(position);
        })
    }
}

/// What became of the requests with these ids, as a store says that was just opened.
///
/// # Errors
/// What it refused, in words.
pub(crate) fn outcomes<S: Store>(store: &mut S, ids: &[u128]) -> Result<Vec<Option<bool>>, String> {
    let identified = Identified::of(store.schema()).map_err(|error| error.to_string())?;
    let Some(identified) = identified else { return Ok(vec![None; ids.len()]) };
    store.begin().map_err(|error| error.to_string())?;
    let outcomes = ids.iter().map(|&id| identified.outcome(store, id)).collect::<Result<_, _>>();
    store.commit().map_err(|error| error.to_string())?;
    outcomes.map_err(|error: Error| error.to_string())
}
