//! A database that runs: what an application holds on to.
//!
//! Not here: making one (`builder.rs`, `open.rs`), the way of a call in and out (`core.rs`).

use std::any::type_name;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tombolo_engine::pipeline::{Overrun, Pipeline};
use tombolo_engine::procedure::Procedure;
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable, Schema};
use tombolo_storage::store::{Index, Table, resolve_index, resolve_table};

use crate::builder::Builder;
use crate::calls::{
    CallOptions, ClosureBody, OWN_PREFIX, Once, Outcome, ProcedureBody, Promise, Registered,
    Transactions, register,
};
use crate::core::{Core, Parts};
use crate::error::Error;
use crate::open::Recovery;
use crate::statistics::Statistics;
use crate::stop::Stop;
use crate::tx::{DynamicTable, Tx};

/// A main-memory database: tables in memory, transactions one after the other, and a log on disk that
/// brings all of it back.
///
/// Any number of threads may call it simultaneously. Transactions run in one order, each alone, so there is
/// nothing to lock and nothing to retry. Answers leave when they are durable.
///
/// Dropping it closes it, as [`Database::close`] does, without reporting errors.
pub struct Database {
    core: Arc<Core>,
    recovery: Option<Recovery>,
    /// Whether the database is closed when this is dropped.
    is_owner: bool,
}

impl Database {
    /// Opens the database in a directory, with the tables it has; makes directory and database
    /// where there are none. Tables are defined with [`Database::builder`].
    ///
    /// # Errors
    /// See [`Builder::open`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().open(directory)
    }

    /// A database in memory alone, without tables; see [`Builder::in_memory`].
    ///
    /// # Errors
    /// See [`Builder::in_memory`].
    pub fn in_memory() -> Result<Self, Error> {
        Self::builder().in_memory()
    }

    /// What to make a database of: tables, settings, limits.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn new(parts: Parts, recovery: Option<Recovery>) -> Self {
        Self { core: Arc::new(Core::new(parts)), recovery, is_owner: true }
    }

    /// The same database, for a thread that works with it and does not close it.
    pub(crate) fn view(&self) -> Self {
        Self { core: self.core.clone(), recovery: self.recovery.clone(), is_owner: false }
    }

    /// Runs a closure as one transaction and sleeps until its answer is durable. `Ok` commits; an error
    /// undoes everything, and so does a panic.
    ///
    /// Nothing else runs meanwhile. So a closure computes, reads and writes, and does nothing that waits. It
    /// runs on the calling thread where the database is free, otherwise on another caller's thread or on the
    /// database's own. So it must not rely on a thread's own state, and a thread with a small stack calls
    /// [`Transactions::submit`] instead.
    ///
    /// ```
    /// # tombolo::table! {
    /// #     /// Counters by number.
    /// #     pub struct Counter = "counter" { ID: Integer; VALUE: BigInt; }
    /// # }
    /// # tombolo::index! {
    /// #     /// By number.
    /// #     pub struct CounterKey = "counter_pk" on Counter (ID: Integer) unique Tree;
    /// # }
    /// # use tombolo::{Database, TableDef};
    /// # let db = Database::builder()
    /// #     .table(TableDef::of::<Counter>().with::<CounterKey>())
    /// #     .in_memory()?;
    /// let (counters, by_id) = (db.table::<Counter>()?, db.index::<CounterKey>()?);
    /// let id = db.transaction(move |tx| {
    ///     tx.insert(&counters, |row| {
    ///         row.set(Counter::ID, 7);
    ///         row.set(Counter::VALUE, 1);
    ///     })?;
    ///     Ok(7)
    /// })?;
    /// let value = db.transaction(move |tx| {
    ///     let Some(row) = tx.lookup(&by_id, id)? else { return Ok(None) };
    ///     Ok(Some(tx.get(&counters, row)?.get(Counter::VALUE)))
    /// })?;
    /// assert_eq!(value, Some(1));
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// Why there is no answer; see [`Error`].
    pub fn transaction<A, F>(&self, closure: F) -> Result<A, Error>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<A, Stop> + Send + 'static,
        A: Send + 'static,
    {
        self.with(CallOptions::new()).transaction(closure)
    }

    /// Transactions of closures with these options.
    pub const fn with<W: Promise>(&self, options: CallOptions<W>) -> Transactions<'_, W> {
        Transactions::new(&self.core, options)
    }

    /// One transaction of a closure, with an id that is remembered from now on, also after a crash. It runs at
    /// most once: a later call with that id is answered [`Error::Repeated`], with the outcome of the first,
    /// which [`Database::outcome`] also returns. Any number that no other request has can be the id: a UUID, a
    /// random one. It is remembered for `request_ids_s_min` seconds (60) at least, and as long as it is one of
    /// the newest `request_ids_min` (100,000); after that the call would run again. [`Registered::once`] and
    /// [`Transactions::once`] are the same for procedures and with other options.
    ///
    /// The id becomes durable with the transaction, in the same group of the log. A transaction that aborts is
    /// remembered, too. A call is not remembered, and may be tried again with the same id, if it was refused
    /// before it ran, if its deadline passed, or if there was no memory for it. A call with an id writes the id
    /// in any case, and so waits for room in the log; what it writes besides is bounded by
    /// [`log_bytes_max`](CallOptions::log_bytes_max), and is nothing with
    /// [`read_only`](CallOptions::read_only).
    ///
    /// ```
    /// use tombolo::{Database, Error, Outcome};
    ///
    /// let db = Database::in_memory()?;
    /// assert_eq!(db.outcome(0x5EED)?, Outcome::Unknown);
    /// db.once(0x5EED).transaction(|_| Ok("paid"))?;
    /// // The caller has not heard of it and tries again.
    /// let again = db.once(0x5EED).transaction(|_| Ok("paid twice"));
    /// assert_eq!(again, Err(Error::Repeated(Outcome::Committed)));
    /// assert_eq!(db.outcome(0x5EED)?, Outcome::Committed);
    /// # Ok::<(), Error>(())
    /// ```
    pub const fn once(&self, id: u128) -> Once<Transactions<'_>> {
        self.with(CallOptions::new()).once(id)
    }

    /// Registers a procedure, which is bound to the tables here and compiled for the store: the fastest way to
    /// run a transaction again and again. When a table or an index is dropped later, the procedure is bound
    /// once more at its next call; if it cannot be, its calls are refused
    /// ([`StoreError::Dropped`](crate::StoreError::Dropped)). Registering it again makes it as fast as before.
    /// See [`procedure`](crate::procedure).
    ///
    /// # Errors
    /// When its tables or indexes are not there as it declares them.
    pub fn register<P>(&self) -> Result<Registered<P::Input, P::Answer>, Error>
    where
        P: Procedure<Input: Send + 'static, Answer: Send + 'static> + Send + Sync + 'static,
    {
        let body = ProcedureBody::<P>::bind(&self.core.schema.get())?;
        Ok(register(&self.core, type_name::<P>(), body))
    }

    /// Registers a closure, which is called with an input each time. Reports of slow calls list it under
    /// `name`.
    pub fn register_closure<I, A, F>(&self, name: &'static str, closure: F) -> Registered<I, A>
    where
        F: Fn(&mut Tx<'_>, &I) -> Result<A, Stop> + Send + Sync + 'static,
        I: Send + 'static,
        A: Send + 'static,
    {
        register(&self.core, name, ClosureBody::new(closure))
    }

    /// What became of the call with this request id ([`Database::once`]), whichever process
    /// made it. The answer is as durable as the call's own would have been. It waits for its turn like
    /// any call: [`Transactions::outcome`] asks with a deadline, or for an early answer.
    ///
    /// # Errors
    /// Why there is no answer; see [`Error`].
    pub fn outcome(&self, request_id: u128) -> Result<Outcome, Error> {
        self.with(CallOptions::new()).outcome(request_id)
    }

    /// The tables and indexes as they are now, with the empty places of tables that were dropped
    /// ([`Schema::live_tables`] leaves them out); those whose names begin with `tombolo_` are the
    /// database's own.
    pub fn schema(&self) -> Arc<Schema> {
        self.core.schema.get()
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The handle of a table that is declared with [`table!`](crate::table). It is for this database
    /// only.
    ///
    /// # Errors
    /// When the database has no such table, or another of that name.
    pub fn table<R: DeclaredTable>(&self) -> Result<Table<R>, Error> {
        Ok(resolve_table(&self.core.schema.get())?)
    }

    /// The handle of an index that is declared with [`index!`](crate::index). It is for this database
    /// only.
    ///
    /// # Errors
    /// When the database has no such index, or another of that name.
    pub fn index<I: DeclaredIndex>(&self) -> Result<Index<I>, Error> {
        Ok(resolve_index(&self.core.schema.get())?)
    }

    /// The handle of a table whose columns are known at run time only. It is for this database only.
    ///
    /// # Errors
    /// When the database has no such table.
    pub fn dynamic_table(&self, name: &str) -> Result<DynamicTable, Error> {
        let schema = self.core.schema.get();
        match schema.table(name) {
            Some(position) if !name.starts_with(OWN_PREFIX) => {
                Ok(DynamicTable::new(&schema, position))
            }
            _ => Err(Error::Schema(format!("{name}: no such table"))),
        }
    }

    /// What came back when the directory was opened; `None` for a new database, or one in memory.
    pub const fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// What was counted since it was opened, and how long the queues are now.
    ///
    /// ```
    /// # let db = tombolo::Database::in_memory()?;
    /// db.transaction(|_| Ok(()))?;
    /// let statistics = db.statistics();
    /// assert_eq!((statistics.committed, statistics.waiting_to_run), (1, 0));
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    pub fn statistics(&self) -> Statistics {
        let counted = self.core.with_pipeline(|pipeline| {
            let archive = pipeline.archive_statistics().unwrap_or_default();
            (pipeline.statistics(), pipeline.checkpoint_failure(), archive)
        });
        let (counted, checkpoint_failure, archive) = counted.unwrap_or_default();
        Statistics::new(&counted, checkpoint_failure, archive, &self.core.counters)
    }

    /// Procedures and closures that were seen to hold the database for longer than the setting
    /// `slice_us_max`, by name. Calls that ran on their caller's thread are not timed.
    pub fn overruns(&self) -> Vec<Overrun> {
        self.core.with_pipeline(Pipeline::overruns).unwrap_or_default()
    }

    /// Closes it. No more calls are accepted; when this returns, all earlier calls are answered and on disk,
    /// and the directory may be opened again. A last checkpoint is written (setting `checkpoint_at_close`), so
    /// that the next opening replays nothing. Handles that are left answer [`Error::Closed`].
    ///
    /// # Errors
    /// [`Error::Poisoned`] when a failure had ended all work before. [`Error::CheckpointsFailed`] when the
    /// last checkpoint, or one before, could not be written, [`Error::DiskFull`] when the disk had no room
    /// for the last: the database is closed all the same and nothing is lost, but the next opening replays
    /// what the checkpoint would have held. [`Error::Nested`] within a transaction, of this database or
    /// another: no more calls are accepted, but closing continues without a thread that waits for it, and the
    /// directory may be opened again a little later.
    pub fn close(self) -> Result<(), Error> {
        self.core.close()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.is_owner {
            // A caller that wants to know calls `close`; calls that failed were answered.
            let _ = self.core.close();
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.core.schema.get();
        let names = schema.live_tables().map(|(_, table)| &table.name);
        let tables: Vec<_> = names.filter(|name| !name.starts_with(OWN_PREFIX)).collect();
        f.debug_struct("Database").field("tables", &tables).finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Database>();
    shared::<Registered<u8, u8>>();
};
