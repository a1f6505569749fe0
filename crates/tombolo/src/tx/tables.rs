//! The tables of a database as calls need them: indexes as data, request ids, what was found ahead.
//!
//! Not here: transactions (`mod.rs`), the stage that owns this (`calls/runner.rs`).

use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_engine::hints::Upcoming;
use tombolo_storage::dynamic::DynamicTable as Entries;
use tombolo_storage::error::{Error as StoreError, SchemaError};
use tombolo_storage::schema::Schema;
use tombolo_storage::sync::Mutex;

use super::handles::{Handles, Of};
use super::watch::Limits;
use crate::calls::{Kept, Requests};
use crate::cancels::Cancels;
use crate::trace::Recorder;

/// The tables of a database, with their indexes as data.
pub(crate) struct Tables {
    pub(super) entries: Vec<Entries>,
    requests: Requests,
    known: Arc<KnownSchema>,
    /// The number of the handles that this database gives out now; no other database of the process has it.
    pub(crate) database: u32,
    /// Which older handles are valid.
    handles: Handles,
    /// The rows that looking ahead found for the calls of the current batch.
    pub(crate) upcoming: Upcoming,
    /// The same for the current call.
    pub(super) limits: Limits,
    /// What notes the calls, if a trace is recorded.
    recorder: Option<Arc<Recorder>>,
}

/// The schema, as all threads know it. A thread that asks for it gets the current one, which is never changed:
/// a change makes another.
pub(crate) struct KnownSchema(Mutex<(Arc<Schema>, Handles)>);

impl KnownSchema {
    pub(crate) fn get(&self) -> Arc<Schema> {
        self.0.lock().0.clone()
    }

    /// As [`Handles::admit`], at this moment.
    pub(crate) fn admit(&self, database: u32, of: Of) -> Result<(), StoreError> {
        self.0.lock().1.admit(database, of)
    }
}

impl Tables {
    /// Of a store with this schema, whose handles have this number ([`next_number`](super::next_number)).
    ///
    /// # Errors
    /// When the schema has no table to remember requests in.
    pub(crate) fn numbered(
        database: u32,
        schema: &Schema,
        kept: Kept,
        clock: Arc<dyn Clock>,
        cancels: Arc<Cancels>,
    ) -> Result<Self, SchemaError> {
        let tables = 0..schema.tables.len();
        let entries = tables.map(|position| Entries::new(schema, position)).collect();
        let (own, handles) = (schema.clone().of_database(database), Handles::of(database));
        let known = Arc::new(KnownSchema(Mutex::new((Arc::new(own), handles.clone()))));
        let requests = Requests::new(schema, kept)?;
        let upcoming = Upcoming::default();
        let limits = Limits::none(clock, cancels);
        Ok(Self { entries, requests, known, database, handles, upcoming, limits, recorder: None })
    }

    /// The same, with a number of its own.
    #[cfg(test)]
    pub(crate) fn new(
        schema: &Schema,
        kept: Kept,
        clock: Arc<dyn Clock>,
        cancels: Arc<Cancels>,
    ) -> Result<Self, SchemaError> {
        Self::numbered(super::next_number(), schema, kept, clock, cancels)
    }

    /// A queued call with this number begins, with a deadline on the database's clock (`u64::MAX` for none); returns
    /// why it must not begin, if so.
    #[inline]
    pub(crate) fn begin(&mut self, deadline_ns: u64, number: u64) -> Option<StoreError> {
        self.limits.set(deadline_ns, number)
    }

    /// A call begins that its caller's own thread runs: nothing ends it early, and looking ahead found no rows for it.
    #[inline]
    pub(crate) fn begin_carried(&mut self) {
        self.upcoming.ran();
        self.limits.lift();
    }

    /// The same, and it ends at a deadline.
    #[cold]
    pub(crate) fn begin_until(&mut self, deadline_ns: u64) {
        self.upcoming.ran();
        self.limits.set_deadline(deadline_ns);
    }

    /// Whether calls are to be noted, or were until lately.
    #[inline(always)]
    pub(crate) const fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    /// What notes the next call, unless the trace has ended.
    pub(crate) fn recorder(&mut self) -> Option<Arc<Recorder>> {
        self.recorder = self.recorder.take().filter(|recorder| !recorder.is_over());
        self.recorder.clone()
    }

    /// From now on calls are noted there; whether none is noted elsewhere.
    pub(crate) fn record(&mut self, recorder: Arc<Recorder>) -> bool {
        let is_free = self.recorder().is_none();
        if is_free {
            self.recorder = Some(recorder);
        }
        is_free
    }

    /// The store has this schema from now on: later calls know its tables and indexes.
    pub(crate) fn follow(&mut self, schema: &Schema) {
        let known = self.known.get();
        if *known == *schema {
            return;
        }
        let tables = 0..schema.tables.len();
        self.entries = tables.map(|position| Entries::new(schema, position)).collect();
        self.database = self.handles.follow(&known, schema);
        let own = Arc::new(schema.clone().of_database(self.database));
        *self.known.0.lock() = (own, self.handles.clone());
    }

    /// Whether a handle may be used that does not carry the current number.
    #[cold]
    #[inline(never)]
    pub(crate) fn admit_older(&self, database: u32, of: Of) -> Result<(), StoreError> {
        self.handles.admit(database, of)
    }

    /// The same while parts of transactions may be held: then the number may be the current one.
    #[cold]
    #[inline(never)]
    pub(super) fn admit_guarded(&self, database: u32, of: Of) -> Result<(), StoreError> {
        if database == self.database { Ok(()) } else { self.handles.admit(database, of) }
    }

    /// The schema, for other threads.
    pub(crate) fn known(&self) -> Arc<KnownSchema> {
        self.known.clone()
    }

    /// Where request ids are remembered.
    pub(crate) const fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The time since 1970, in microseconds.
    pub(crate) fn unix_us(&self) -> u64 {
        self.limits.unix_us()
    }
}
