//! `Database`: the application's handle of a running database.
//!
//! Not here: opening one (`builder.rs`, `open.rs`), the path of a call (`core.rs`).

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
use crate::error::{Error, Stop};
use crate::open::Recovery;
use crate::statistics::Statistics;
use crate::tx::{DynamicTable, Tx};

/// A main-memory database: tables in memory, one transaction at a time, and a log on disk from which it
/// recovers.
///
/// Any number of threads may call it concurrently. Transactions run one at a time, so there are no locks
/// and no conflicts to retry. Calls return when their transaction is durable.
///
/// Dropping the value closes the database, as [`Database::close`] does, without reporting errors.
pub struct Database {
    core: Arc<Core>,
    recovery: Option<Recovery>,
    /// Whether the database is closed when this is dropped.
    is_owner: bool,
}

impl Database {
    /// Opens the database in a directory, with the tables it has; creates directory and database
    /// if they do not exist. To define tables, use [`Database::builder`].
    ///
    /// # Errors
    /// See [`Builder::open`].
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().open(directory)
    }

    /// A database in memory only, without tables; see [`Builder::in_memory`].
    ///
    /// # Errors
    /// See [`Builder::in_memory`].
    pub fn in_memory() -> Result<Self, Error> {
        Self::builder().in_memory()
    }

    /// A builder, for tables, settings and limits.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn new(parts: Parts, recovery: Option<Recovery>) -> Self {
        Self { core: Arc::new(Core::new(parts)), recovery, is_owner: true }
    }

    /// The same database, for a thread that uses it without closing it.
    pub(crate) fn view(&self) -> Self {
        Self { core: self.core.clone(), recovery: self.recovery.clone(), is_owner: false }
    }

    /// Runs a closure as one transaction and blocks until its answer is durable. `Ok` commits; an error
    /// or a panic undoes everything.
    ///
    /// No other transaction runs meanwhile, so a closure should compute, read and write, but never block. It
    /// runs on the calling thread if the database is idle, otherwise on another caller's thread or on the
    /// database's own. So it must not rely on thread-local state, and a thread with a small stack should call
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
    /// The reason that there is no answer; see [`Error`].
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

    /// One transaction of a closure with a request id, which the database remembers even after a crash. It runs
    /// at most once: a later call with that id returns [`Error::Repeated`] with the outcome of the first call,
    /// which [`Database::outcome`] also returns. Any unique number can be the id: a UUID, or a
    /// random number. It is remembered for at least `request_ids_s_min` seconds (60), and as long as it is one of
    /// the newest `request_ids_min` (100,000) ids; after that the call would run again. [`Registered::once`] and
    /// [`Transactions::once`] are the same for procedures and for other options.
    ///
    /// The id becomes durable with the transaction, in the same group of the log. A transaction that aborts is
    /// remembered, too. A call is not remembered, and may be retried with the same id, if it was refused
    /// before it ran, if its deadline passed, or if there was no memory for it. A call with an id always writes
    /// the id, and therefore waits for room in the log; its other writes are bounded by
    /// [`log_bytes_max`](CallOptions::log_bytes_max), and forbidden with
    /// [`read_only`](CallOptions::read_only).
    ///
    /// ```
    /// use tombolo::{Database, Error, Outcome};
    ///
    /// let db = Database::in_memory()?;
    /// assert_eq!(db.outcome(0x5EED)?, Outcome::Unknown);
    /// db.once(0x5EED).transaction(|_| Ok("paid"))?;
    /// // The caller did not receive the answer and tries again.
    /// let again = db.once(0x5EED).transaction(|_| Ok("paid twice"));
    /// assert_eq!(again, Err(Error::Repeated(Outcome::Committed)));
    /// assert_eq!(db.outcome(0x5EED)?, Outcome::Committed);
    /// # Ok::<(), Error>(())
    /// ```
    pub const fn once(&self, id: u128) -> Once<Transactions<'_>> {
        self.with(CallOptions::new()).once(id)
    }

    /// Registers a procedure, which is bound to the tables of this database and compiled for the store: the
    /// fastest way to run a transaction often. When a table or an index is dropped later, the next call binds the
    /// procedure once more; if that fails, its calls are refused
    /// ([`StoreError::Dropped`](crate::StoreError::Dropped)). Registering it again makes it as fast as before.
    /// See [`procedure`](crate::procedure).
    ///
    /// # Errors
    /// When the database does not have its tables or indexes as it declares them.
    pub fn register<P>(&self) -> Result<Registered<P::Input, P::Answer>, Error>
    where
        P: Procedure<Input: Send + 'static, Answer: Send + 'static> + Send + Sync + 'static,
    {
        let body = ProcedureBody::<P>::bind(&self.core.schema.get())?;
        Ok(register(&self.core, type_name::<P>(), body))
    }

    /// Registers a closure, to be called repeatedly with different inputs. Reports of slow calls list it under
    /// `name`.
    pub fn register_closure<I, A, F>(&self, name: &'static str, closure: F) -> Registered<I, A>
    where
        F: Fn(&mut Tx<'_>, &I) -> Result<A, Stop> + Send + Sync + 'static,
        I: Send + 'static,
        A: Send + 'static,
    {
        register(&self.core, name, ClosureBody::new(closure))
    }

    /// The outcome of the call with this request id ([`Database::once`]), even if another process
    /// made it. The answer is as durable as the call's own would have been. The query waits for its turn like
    /// any call; use [`Transactions::outcome`] for a deadline or an early answer.
    ///
    /// # Errors
    /// The reason that there is no answer; see [`Error`].
    pub fn outcome(&self, request_id: u128) -> Result<Outcome, Error> {
        self.with(CallOptions::new()).outcome(request_id)
    }

    /// The current tables and indexes, including the empty entries of dropped tables
    /// ([`Schema::live_tables`] omits them). Names that begin with `tombolo_` are the database's own.
    pub fn schema(&self) -> Arc<Schema> {
        self.core.schema.get()
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The handle of a table declared with [`table!`](crate::table), for use with this database only.
    ///
    /// # Errors
    /// When the database has no such table, or a different one of that name.
    pub fn table<R: DeclaredTable>(&self) -> Result<Table<R>, Error> {
        Ok(resolve_table(&self.core.schema.get())?)
    }

    /// The handle of an index declared with [`index!`](crate::index), for use with this database only.
    ///
    /// # Errors
    /// When the database has no such index, or a different one of that name.
    pub fn index<I: DeclaredIndex>(&self) -> Result<Index<I>, Error> {
        Ok(resolve_index(&self.core.schema.get())?)
    }

    /// The handle of a table whose columns are known only at run time, for use with this database only.
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

    /// A report of recovery when the directory was opened; `None` for a new database, or one in memory.
    pub const fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// Counters since the database was opened, and the current lengths of its queues.
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

    /// The names of procedures and closures that occupied the database for longer than the setting
    /// `slice_us_max`. Calls that ran on their caller's thread are not timed.
    pub fn overruns(&self) -> Vec<Overrun> {
        self.core.with_pipeline(Pipeline::overruns).unwrap_or_default()
    }

    /// Closes the database. No more calls are accepted; when this returns, all earlier calls are answered and on
    /// disk, and the directory may be opened again. A last checkpoint is written (setting
    /// `checkpoint_at_close`), so that the next opening replays nothing. Remaining handles return
    /// [`Error::Closed`].
    ///
    /// # Errors
    /// [`Error::Poisoned`] when a failure had stopped the database before. [`Error::CheckpointsFailed`] when the
    /// last checkpoint, or an earlier one, could not be written; [`Error::DiskFull`] when the disk had no room
    /// for the last one: the database is closed nevertheless and nothing is lost, but the next opening replays
    /// the log since the last complete checkpoint. [`Error::Nested`] within a transaction of any database: no
    /// more calls are accepted, but closing continues in the background, and the directory may be opened again a
    /// little later.
    pub fn close(self) -> Result<(), Error> {
        self.core.close()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.is_owner {
            // For errors of closing there is `close`; failed calls have their answers already.
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
