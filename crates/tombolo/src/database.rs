//! A database that runs: what an application holds on to, and the way of a call in and out.
//!
//! [`Database`] owns the pipeline and closes it; [`Core`] is what handles share with it, so that a
//! handle that outlives its database is told that it is closed. Not here: making one (`builder.rs`,
//! `open.rs`), what travels (`calls/`). Invariants: a call that was taken in is answered, also while
//! the database closes; no thread of a database waits for one.

use std::any::type_name;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tombolo_engine::clock::Clock;
use tombolo_engine::pipeline::{
    self, LongIntake, LongWork, NotSubmitted, Overrun, Pipeline, Reply, Submitter,
};
use tombolo_engine::procedure::Procedure;
use tombolo_engine::threads::Running;
use tombolo_engine::transaction::Stop;
use tombolo_storage::disk::Disk;
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable, Schema};
use tombolo_storage::store::{Index, Table, resolve_index, resolve_table};
use tombolo_storage::sync::{Mutex, MutexGuard};

use crate::builder::Builder;
use crate::calls::{
    Answered, AnyRunner, CallOptions, ClosureBody, Counters, Desk, Durability, Envelope,
    Identified, OWN_PREFIX, Otherwise, Outcome, ProcedureBody, Promise, REQUEST_LOG_BYTES_MAX, Ran,
    Registered, Request, Ticket, Transactions, block_on, on_database_thread, register,
    wait_a_moment,
};
use crate::error::Error;
use crate::open::Recovery;
use crate::statistics::Statistics;
use crate::tx::{DynamicTable, KnownSchema, Tx};

/// Desks, so that threads do not all share one.
const DESKS: usize = 4;

/// The longest that a call with a deadline sleeps before it looks for room again.
const ROOM_WAIT_MAX: Duration = Duration::from_millis(1);

/// No deadline.
const NEVER_NS: u64 = u64::MAX;

/// Whether a call waits for room in the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    Waits,
    None,
}

/// One way in, and where its replies arrive.
struct Way {
    submitter: Submitter<Request, Box<dyn Envelope>>,
    desk: Arc<Desk>,
}

/// What a database and its handles share.
pub(crate) struct Core {
    ways: Vec<Way>,
    schema: Arc<KnownSchema>,
    long: LongIntake<AnyRunner>,
    clock: Arc<dyn Clock>,
    durability: Durability,
    /// What a call may log that does not say.
    log_bytes_max: u64,
    /// Its directories; none of a database in memory.
    disks: Vec<Arc<dyn Disk>>,
    counters: Arc<Counters>,
    /// Held by whoever adds an index or a column.
    turn: Mutex<()>,
    /// There until it is closed.
    pipeline: Mutex<Option<Pipeline<AnyRunner>>>,
}

/// What a database is made of.
pub(crate) struct Parts {
    pub(crate) pipeline: Pipeline<AnyRunner>,
    pub(crate) schema: Arc<KnownSchema>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) durability: Durability,
    pub(crate) log_bytes_max: u64,
    pub(crate) disks: Vec<Arc<dyn Disk>>,
    pub(crate) counters: Arc<Counters>,
}

impl Core {
    /// Takes a call in. One that is not comes back with the reason.
    pub(crate) fn submit<W: Promise>(
        &self,
        envelope: Box<dyn Envelope>,
        options: &CallOptions<W>,
        patience: Patience,
    ) -> Result<Ticket, (Box<dyn Envelope>, Error)> {
        if patience == Patience::Waits && on_database_thread() {
            return Err((envelope, Error::Nested));
        }
        let deadline_ns = options.deadline.map_or(NEVER_NS, |time| {
            let ns = u64::try_from(time.as_nanos()).unwrap_or(NEVER_NS);
            self.clock.now_ns().saturating_add(ns)
        });
        let (envelope, log_bytes_max) = match options.request_id {
            None => (envelope, options.log_bytes_max.unwrap_or(self.log_bytes_max)),
            Some(id) => {
                // Given no bound of its own, it has the usual one, and its id is in that.
                let usual = self.log_bytes_max.saturating_sub(REQUEST_LOG_BYTES_MAX);
                let own = options.log_bytes_max.unwrap_or(usual);
                let with_id = own.saturating_add(REQUEST_LOG_BYTES_MAX);
                (Identified::envelope(id, envelope, own), with_id)
            }
        };
        let request = Request { envelope: Some(envelope), deadline_ns, log_bytes_max };
        let durability = match options.durability.unwrap_or(self.durability) {
            _ if W::IS_EARLY => pipeline::Durability::Async,
            Durability::Group => pipeline::Durability::Group,
            Durability::Sync => pipeline::Durability::Sync,
        };
        let desk = own_desk(self.ways.len());
        let tag = self.ways[desk].desk.open();
        match self.put(&self.ways[desk].submitter, request, tag.into(), durability, patience) {
            Ok(()) => Ok(Ticket { desk, tag, deadline_ns }),
            Err((request, error)) => {
                self.ways[desk].desk.close(tag);
                let Some(envelope) = request.envelope else { unreachable!("it did not run") };
                Err((envelope, error))
            }
        }
    }

    /// Takes a call in, whenever there is room.
    pub(crate) fn submit_waiting<W: Promise>(
        &self,
        envelope: Box<dyn Envelope>,
        options: &CallOptions<W>,
    ) -> Result<Ticket, Error> {
        self.submit(envelope, options, Patience::Waits).map_err(|(envelope, error)| {
            envelope.recycle();
            error
        })
    }

    /// Takes long work in, whose answer need not wait for the log.
    pub(crate) fn submit_long(&self, work: Box<dyn LongWork<AnyRunner>>) -> Result<Ticket, Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        let desk = own_desk(self.ways.len());
        let Way { submitter, desk: replies } = &self.ways[desk];
        let tag = replies.open();
        match self.long.submit(submitter, work, tag.into(), pipeline::Durability::Async) {
            Ok(_) => Ok(Ticket { desk, tag, deadline_ns: NEVER_NS }),
            Err(not_taken) => {
                replies.close(tag);
                Err(match not_taken {
                    NotSubmitted::Full(_) => Error::QueueFull,
                    NotSubmitted::Refused(_, refusal) => refusal.into(),
                })
            }
        }
    }

    /// Puts a request into the queue.
    fn put(
        &self,
        submitter: &Submitter<Request, Box<dyn Envelope>>,
        mut request: Request,
        tag: u64,
        durability: pipeline::Durability,
        patience: Patience,
    ) -> Result<(), (Request, Error)> {
        let deadline_ns = request.deadline_ns;
        if patience == Patience::Waits && deadline_ns == NEVER_NS {
            let put = submitter.submit(request, tag, durability);
            return put.map_err(|(request, refusal)| (request, refusal.into()));
        }
        loop {
            match submitter.try_submit(request, tag, durability) {
                Ok(()) => return Ok(()),
                Err(NotSubmitted::Refused(request, refusal)) => {
                    return Err((request, refusal.into()));
                }
                Err(NotSubmitted::Full(request)) if patience == Patience::None => {
                    return Err((request, Error::QueueFull));
                }
                Err(NotSubmitted::Full(full)) => request = full,
            }
            match self.left(deadline_ns) {
                Some(left) => wait_a_moment(left.min(ROOM_WAIT_MAX)),
                None => return Err((request, Error::Expired)),
            }
        }
    }

    /// How long it is until a deadline; `MAX` where there is none, `None` where it has passed.
    fn left(&self, deadline_ns: u64) -> Option<Duration> {
        if deadline_ns == NEVER_NS {
            return Some(Duration::MAX);
        }
        let left_ns = deadline_ns.saturating_sub(self.clock.now_ns());
        (left_ns > 0).then(|| Duration::from_nanos(left_ns))
    }

    /// Where a call's reply arrives.
    pub(crate) fn desk(&self, ticket: Ticket) -> &Desk {
        &self.ways[ticket.desk].desk
    }

    /// Sleeps until a call is answered, or its deadline has passed.
    pub(crate) fn wait<A: 'static, W: Promise>(
        &self,
        ticket: Ticket,
    ) -> Result<W::Answer<A>, Error> {
        let desk = self.desk(ticket);
        let left = || match on_database_thread() {
            true => None, // it has other things to do
            false => self.left(ticket.deadline_ns),
        };
        let reply = block_on(|waker| desk.poll(ticket.tag, waker), left);
        // It may have come just now.
        match reply.or_else(|| desk.abandon(ticket.tag).map(Ok)) {
            Some(reply) => self.answer::<A, W>(reply),
            None => Err(Error::TimedOut),
        }
    }

    /// The answer in a reply.
    pub(crate) fn answer<A: 'static, W: Promise>(
        &self,
        reply: Result<Answered, Arc<str>>,
    ) -> Result<W::Answer<A>, Error> {
        let reply = reply.map_err(Error::Unknown)?;
        let is_durable = matches!(reply, Reply::Durable(_));
        let mut envelope = match reply.outcome()? {
            Ok(envelope) => envelope,
            Err(failure) => return Err(Error::failed(failure, &self.schema.get())),
        };
        let ran = envelope.ran().downcast_mut::<Option<Ran<A>>>().and_then(Option::take);
        envelope.recycle();
        match ran {
            Some(Ran::Ended(Ok(answer))) => Ok(W::answer(answer, is_durable)),
            Some(Ran::Ended(Err(stop))) => Err(Error::stopped(stop, &self.schema.get())),
            Some(Ran::Otherwise(how)) => Err(match how {
                Otherwise::Expired => Error::Expired,
                Otherwise::Repeated(outcome) => Error::Repeated(outcome),
                Otherwise::Stopped(stop) => Error::stopped(stop, &self.schema.get()),
                Otherwise::Panicked { message, has_committed: false } => Error::Panicked(message),
                Otherwise::Panicked { message, .. } => Error::PanickedCommitted(message),
            }),
            None => unreachable!("a call that was answered has an outcome of its type"),
        }
    }

    /// Asks the pipeline something, unless it is closed. What waits does so afterwards.
    pub(crate) fn with_pipeline<T>(
        &self,
        ask: impl FnOnce(&Pipeline<AnyRunner>) -> T,
    ) -> Result<T, Error> {
        self.pipeline.lock().as_ref().map(ask).ok_or(Error::Closed)
    }

    /// The caller's turn to add to a table; it sleeps until that comes. Not for a database's thread.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Where it lies; nowhere if it is in memory.
    pub(crate) fn disks(&self) -> &[Arc<dyn Disk>] {
        &self.disks
    }

    /// Lets nothing more in and waits until all is answered and on disk.
    fn close(&self) -> Result<(), Error> {
        let Some(pipeline) = self.pipeline.lock().take() else { return Ok(()) };
        if on_database_thread() {
            // It cannot wait for itself, and says so; what is under way is answered and written all
            // the same.
            pipeline.shut();
            match Running::start_for("tombolo-close", |pipeline: Pipeline<AnyRunner>| {
                drop(pipeline.close());
            }) {
                Ok((_, give)) => drop(give.send(pipeline)),
                // Nobody can wait for it then: its threads are left alone.
                Err(_) => std::mem::forget(pipeline),
            }
            return Err(Error::Nested);
        }
        // The store and the log go here, and with the log the lock on the directory.
        let closed = pipeline.close();
        closed.poison.map_or(Ok(()), |reason| Err(Error::Poisoned(reason)))
    }
}

/// The desk of the calling thread: threads take turns.
fn own_desk(desks: usize) -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Only a number is handed out.
        static OWN: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    OWN.with(|own| own % desks)
}

/// A main-memory database: tables in memory, transactions one after the other on a thread of its
/// own, and a log on disk that brings all of it back.
///
/// Any number of threads may call it at once; what they ask for runs in one order, each transaction
/// alone, so there is nothing to lock and nothing to retry. Answers leave when they are durable.
///
/// Dropping it closes it, as [`Database::close`] does, without telling of errors.
pub struct Database {
    core: Arc<Core>,
    recovery: Option<Recovery>,
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
        let Parts { pipeline, schema, clock, durability, log_bytes_max, disks, counters } = parts;
        let way = |_| {
            let desk = Arc::new(Desk::default());
            Way { submitter: pipeline.register(desk.clone()), desk }
        };
        let ways = (0..DESKS).map(way).collect();
        let (long, pipeline) = (pipeline.long(), Mutex::new(Some(pipeline)));
        let turn = Mutex::new(());
        let core = Core {
            ways,
            schema,
            long,
            clock,
            durability,
            log_bytes_max,
            disks,
            counters,
            turn,
            pipeline,
        };
        Self { core: Arc::new(core), recovery }
    }

    /// Runs a closure as one transaction, on the execution thread, and sleeps until its answer is
    /// durable. `Ok` commits; an error undoes everything, and so does a panic.
    ///
    /// Nothing else runs meanwhile, so a closure computes and reads and writes, and does nothing
    /// that waits.
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
    /// let id = db.transaction({
    ///     let counters = counters.clone();
    ///     move |tx| {
    ///         tx.insert(&counters, |row| {
    ///             row.set(Counter::ID, 7);
    ///             row.set(Counter::VALUE, 1);
    ///         })?;
    ///         Ok(7)
    ///     }
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

    /// Registers a procedure, which is bound to the tables here and compiled for the store: the
    /// fastest way to run a transaction again and again. See [`procedure`](crate::procedure).
    ///
    /// # Errors
    /// When its tables or indexes are not there as it declares them.
    pub fn register<P>(&self) -> Result<Registered<P::Input, P::Answer>, Error>
    where
        P: Procedure<Input: Send + 'static, Answer: Send + 'static> + Send + Sync + 'static,
    {
        let procedure = P::bind(&self.core.schema.get())?;
        Ok(register(&self.core, type_name::<P>(), ProcedureBody(procedure)))
    }

    /// Registers a closure, which is called with an input each time. Statistics of slow calls know
    /// it by `name`.
    pub fn register_closure<I, A, F>(&self, name: &'static str, closure: F) -> Registered<I, A>
    where
        F: Fn(&mut Tx<'_>, &I) -> Result<A, Stop> + Send + Sync + 'static,
        I: Send + 'static,
        A: Send + 'static,
    {
        register(&self.core, name, ClosureBody::new(closure))
    }

    /// What became of the call with this request id ([`CallOptions::request_id`]), whichever process
    /// made it. The answer is as durable as the call's own would have been.
    ///
    /// # Errors
    /// Why there is no answer; see [`Error`].
    pub fn outcome(&self, request_id: u128) -> Result<Outcome, Error> {
        let reads = self.with(CallOptions::new().read_only());
        reads.transaction(move |tx| Ok(tx.outcome(request_id)?))
    }

    /// The tables and indexes as they are now; those whose names begin with `tombolo_` are the
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

    /// Procedures and closures that were seen to hold the execution thread for longer than the
    /// setting `slice_us_max`, by name.
    pub fn overruns(&self) -> Vec<Overrun> {
        self.core.with_pipeline(Pipeline::overruns).unwrap_or_default()
    }

    /// Closes it: nothing more is taken in, all that was is answered and on disk when this returns,
    /// and the directory may be opened again. A last checkpoint is written (setting
    /// `checkpoint_at_close`), so that opening it replays nothing. Handles that are left answer [`Error::Closed`].
    ///
    /// # Errors
    /// [`Error::Poisoned`] when a failure had ended all work before. [`Error::Nested`] within a
    /// transaction, of this database or another: nothing more is taken in, but the rest goes on
    /// without anybody who waits for it, and the directory may be opened again a little later.
    pub fn close(self) -> Result<(), Error> {
        self.core.close()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A caller that wants to know calls `close`; calls that failed were told.
        let _ = self.core.close();
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.core.schema.get();
        let names = schema.tables.iter().map(|table| &table.name);
        let tables: Vec<_> = names.filter(|name| !name.starts_with(OWN_PREFIX)).collect();
        f.debug_struct("Database").field("tables", &tables).finish_non_exhaustive()
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Database>();
    shared::<Registered<u8, u8>>();
};
