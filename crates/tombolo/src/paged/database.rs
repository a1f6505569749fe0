//! `PagedDatabase`: the application's handle of an open paged database.
//!
//! Not here: opening one (`builder.rs`), sessions (`sessions.rs`), the calls of a transaction (`tx.rs`).
//! Invariant: no answer leaves before all that its transaction wrote and read is durable.

use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::threads::{Recurring, panic_message};
use tombolo_engine::transaction::{Stop as EngineStop, execute_undoable};
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::paged::store::{Checkpoint, Isolation, OpenError, Restart};
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable, Schema};
use tombolo_storage::store::{Index, Table, resolve_index, resolve_table};
use tombolo_storage::sync::{AtomicU64, Mutex, Ordering};

use super::again::Patience;
use super::lender::Lent;
use super::sessions::{Session, Sessions, Store};
use super::tx::{PagedTables, PagedTx};
use crate::calls::{OWN_PREFIX, OnDatabaseThread, on_database_thread};
use crate::error::{Error, Stop};
use crate::tx::{DynamicTable, engine_stop, stopped};

/// How often the log's length is looked at, for a checkpoint.
const CHECKPOINT_LOOKS: Duration = Duration::from_millis(100);

/// A database whose rows are in pages on disk: it may be larger than memory, and the transactions of several threads
/// run at the same time. See [`Builder::paged`](crate::Builder::paged).
///
/// Transactions are serializable, by locks, unless [`Isolation::ReadCommitted`] is asked for. Each runs on its caller's
/// thread and returns when it is durable. After a crash the database is restarted from its log when it is opened.
///
/// What [`Database`](crate::Database) has and this has not:
///
/// | | instead |
/// |---|---|
/// | calls that are queued, deadlines, request ids, early answers | closures, on several threads |
/// | cursors, pages | short transactions; a part of a [`PagedTx::range`] |
/// | snapshots ([`Database::scan`](crate::Database::scan)) | [`PagedDatabase::read`], whose rows stay as they are |
/// | changes of tables while it runs, added columns and indexes | a new table, filled from the old one |
/// | log archive | backups ([`PagedDatabase::backup`]) |
///
/// Several of them are a database of islands: [`PagedBuilder::islands`](crate::PagedBuilder::islands).
///
/// Dropping the value closes the database, as [`PagedDatabase::close`] does, without reporting errors.
pub struct PagedDatabase {
    pub(super) tables: PagedTables,
    pub(super) sessions: Sessions,
    pub(super) isolation: Isolation,
    pub(super) clock: SystemClock,
    pub(super) counters: Counters,
    /// The thread that makes checkpoints, and writes pages before a miss has to.
    upkeep: Mutex<Option<Recurring>>,
    checkpoint_failure: Arc<Mutex<Option<String>>>,
    restart: Option<Restart>,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) committed: AtomicU64,
    pub(super) over_islands: AtomicU64,
    aborted: AtomicU64,
    pub(super) panicked: AtomicU64,
    deadlocks: AtomicU64,
    lock_timeouts: AtomicU64,
}

impl Counters {
    // Relaxed, and where they are read: each number is exact, no order between them is promised.
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counters of a [`PagedDatabase`] since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PagedStatistics {
    /// Transactions that committed. One over several islands counts on the island that it reached first.
    pub committed: u64,
    /// Of these, transactions over several islands ([`PagedIslands`](crate::PagedIslands)).
    pub over_islands: u64,
    /// Transactions that aborted or were refused by the store; of those that ran again, each time.
    pub aborted: u64,
    /// Transactions that panicked.
    pub panicked: u64,
    /// Transactions that were undone because they waited in a circle with others.
    pub deadlocks: u64,
    /// Transactions that were undone because a lock was not granted in time.
    pub lock_timeouts: u64,
    /// Sessions that were opened for calls: as many as ran at the same time.
    pub sessions: u64,
    /// Pages that the pool holds.
    pub pool_pages: u64,
    /// Pages that were found in the pool.
    pub pool_hits: u64,
    /// Pages that were read from the disk.
    pub pool_misses: u64,
    /// Times the log was made durable.
    pub flushes: u64,
    /// Transactions that wrote a commit record.
    pub flushed_transactions: u64,
    /// Bytes that were written to the log.
    pub flushed_bytes: u64,
    /// Length of the log's files, in bytes.
    pub log_bytes: u64,
    /// Why checkpoints stopped, if they did. Transactions continue, and the log grows.
    pub checkpoint_failure: Option<String>,
}

impl PagedStatistics {
    /// All numbers, in their order.
    pub(super) fn numbers(&mut self) -> [&mut u64; 14] {
        let Self {
            committed,
            over_islands,
            aborted,
            panicked,
            deadlocks,
            lock_timeouts,
            sessions,
            pool_pages,
            pool_hits,
            pool_misses,
            flushes,
            flushed_transactions,
            flushed_bytes,
            log_bytes,
            checkpoint_failure: _,
        } = self;
        [
            committed,
            over_islands,
            aborted,
            panicked,
            deadlocks,
            lock_timeouts,
            sessions,
            pool_pages,
            pool_hits,
            pool_misses,
            flushes,
            flushed_transactions,
            flushed_bytes,
            log_bytes,
        ]
    }
}

/// How a transaction runs.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) isolation: Isolation,
    pub(super) only_reads: bool,
    /// Whether its commit waits until it is durable.
    pub(super) hardens: bool,
}

impl How {
    /// One that reads and writes.
    pub(super) const fn writing(isolation: Isolation) -> Self {
        Self { isolation, only_reads: false, hardens: true }
    }

    /// One that only reads.
    pub(super) const fn reading(isolation: Isolation) -> Self {
        Self { isolation, only_reads: true, hardens: true }
    }
}

/// How one run of a closure ended without effect, or with an unknown one.
pub(super) enum Ended {
    /// It gave way to others, and may run again.
    GaveWay(StoreError),
    Error(Error),
}

impl PagedDatabase {
    /// Of a store that was opened, for up to so many calls at a time.
    pub(super) fn start(
        store: Store,
        tables: PagedTables,
        isolation: Isolation,
        sessions_max: usize,
    ) -> Result<Self, Error> {
        let restart = store.restart();
        let database = Self {
            tables,
            sessions: Sessions::new(store, sessions_max),
            isolation,
            clock: SystemClock::new(),
            counters: Counters::default(),
            upkeep: Mutex::default(),
            checkpoint_failure: Arc::default(),
            restart,
        };
        let (session, failure) = (database.sessions.open()?, database.checkpoint_failure.clone());
        let look = move || {
            // What fails here is reported by the transaction that has to write a page itself.
            let _ = session.make_frames_ready();
            look_for_checkpoint(&session, &failure)
        };
        let failure = database.checkpoint_failure.clone();
        let panicked = move |message| {
            *failure.lock() =
                Some(format!("the thread that makes checkpoints panicked: {message}"));
        };
        let recurring = Recurring::start("tombolo-pages", CHECKPOINT_LOOKS, look, panicked)?;
        let waker = recurring.waker();
        database.sessions.ask(|store| store.when_few_frames_are_ready(move || waker.wake()));
        *database.upkeep.lock() = Some(recurring);
        Ok(database)
    }

    /// Runs a closure as one transaction on this thread, and blocks until it is durable. `Ok` commits; an error or a
    /// panic undoes everything. If the transaction waited in a circle with others and was chosen to give way, all is
    /// undone and the closure runs again, for up to ten seconds: so it must not change anything but by its transaction.
    ///
    /// ```
    /// # use tombolo::{Database, Table};
    /// # #[derive(Table)]
    /// # struct Counter { #[key] id: u32, value: u64 }
    /// # let place = tempfile::tempdir().unwrap();
    /// let db = Database::builder().define::<Counter>().paged().pool_bytes(8 << 20).open(place.path())?;
    /// let by_id = db.index::<CounterKey>()?;
    /// db.transaction(|tx| tx.upsert_row(&by_id, &Counter { id: 7, value: 1 }).map(drop))?;
    /// let value = db.read(|tx| Ok(tx.find_row(&by_id, 7)?.map(|(_, row)| row.value)))?;
    /// assert_eq!(value, Some(1));
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// The reason that there is no answer; see [`Error`]. [`Error::Refused`] with a retryable error where it gave way
    /// for too long, or a lock was not granted within ten seconds.
    pub fn transaction<A>(
        &self,
        closure: impl Fn(&mut PagedTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Error> {
        self.transaction_at(self.isolation, closure)
    }

    /// The same with this isolation.
    ///
    /// # Errors
    /// As [`PagedDatabase::transaction`].
    pub fn transaction_at<A>(
        &self,
        isolation: Isolation,
        closure: impl Fn(&mut PagedTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Error> {
        self.run_again(How::writing(isolation), closure).map(|(answer, _)| answer)
    }

    /// The same for a closure that only reads; writes are refused ([`Error::LogTooLong`]).
    ///
    /// # Errors
    /// As [`PagedDatabase::transaction`].
    pub fn read<A>(
        &self,
        closure: impl Fn(&mut PagedTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Error> {
        self.run_again(How::reading(self.isolation), closure).map(|(answer, _)| answer)
    }

    /// A transaction that runs once: if it gives way to others, the caller gets the error
    /// ([`Error::is_retryable`]).
    ///
    /// # Errors
    /// As [`PagedDatabase::transaction`].
    pub fn transaction_once<A>(
        &self,
        closure: impl FnOnce(&mut PagedTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Error> {
        let mut session = self.take()?;
        let ran = self.run(&mut session, How::writing(self.isolation), closure);
        ran.map(|(answer, _)| answer).map_err(|ended| self.error(ended))
    }

    pub(super) fn take(&self) -> Result<Lent<'_, Session>, Error> {
        match on_database_thread() {
            true => Err(Error::Nested),
            false => self.sessions.take(),
        }
    }

    /// Runs a closure until it does not give way. Returns its answer, and its place in the order of commits
    /// ([`Store::committed_at`]).
    pub(super) fn run_again<A>(
        &self,
        how: How,
        closure: impl Fn(&mut PagedTx<'_>) -> Result<A, Stop>,
    ) -> Result<(A, u64), Error> {
        self.run_again_in(&mut *self.take()?, how, closure)
    }

    /// The same in this session.
    pub(super) fn run_again_in<A>(
        &self,
        session: &mut Session,
        how: How,
        closure: impl Fn(&mut PagedTx<'_>) -> Result<A, Stop>,
    ) -> Result<(A, u64), Error> {
        let mut patience = Patience::default();
        loop {
            // A victim keeps its rank in its session, so that its turn comes.
            match self.run(session, how, &closure) {
                Ok(placed) => return Ok(placed),
                Err(Ended::GaveWay(StoreError::Deadlock | StoreError::LogFull { .. }))
                    if patience.pauses(&self.clock) => {}
                Err(ended) => return Err(self.error(ended)),
            }
        }
    }

    pub(super) fn error(&self, ended: Ended) -> Error {
        match ended {
            Ended::GaveWay(error) => Error::stopped(Stop::Error(error), &self.tables.schema),
            Ended::Error(error) => error,
        }
    }

    /// Runs a closure once, as a transaction of this session.
    fn run<A>(
        &self,
        session: &mut Session,
        how: How,
        closure: impl FnOnce(&mut PagedTx<'_>) -> Result<A, Stop>,
    ) -> Result<(A, u64), Ended> {
        let Session { store, ids } = session;
        ids.begin();
        store.set_isolation(how.isolation);
        store.set_hardens(how.hardens);
        let (mut own, mut is_committing) = (None, false);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let _here = OnDatabaseThread::enter();
            execute_undoable(store, |mut transaction| {
                let store = transaction.store();
                let mut tx = PagedTx::new(store, &self.tables, ids, how.only_reads);
                let ended = closure(&mut tx);
                // What doomed it counts, whatever the closure made of it.
                match (ended, tx.refused()) {
                    (_, Some(error)) => Err(EngineStop::Error(error)),
                    (Err(stop), None) => Err(engine_stop(stop, &mut own)),
                    (Ok(answer), None) => {
                        transaction.store().verify_homes().map_err(EngineStop::Error)?;
                        is_committing = true;
                        transaction.commit(answer)
                    }
                }
            })
        }));
        match ran {
            Ok(Ok(answer)) => {
                Counters::count(&self.counters.committed);
                Ok((answer, store.committed_at()))
            }
            Ok(Err(stop)) => Err(self.ended(stopped(stop, own), is_committing)),
            Err(panic) => {
                Counters::count(&self.counters.panicked);
                Err(Ended::Error(Error::Panicked(panic_message(&*panic))))
            }
        }
    }

    /// How a transaction ended that did not commit, or of which that is unknown.
    pub(super) fn ended(&self, stop: Stop, was_committing: bool) -> Ended {
        Counters::count(&self.counters.aborted);
        match stop {
            Stop::Error(error) if was_committing => {
                Ended::Error(Error::Unknown(error.to_string().into()))
            }
            Stop::Error(StoreError::Poisoned { reason }) => {
                Ended::Error(Error::Poisoned(reason.into()))
            }
            Stop::Error(error) if error.retry() => {
                match error {
                    StoreError::LogFull { .. } => {}
                    StoreError::Deadlock => Counters::count(&self.counters.deadlocks),
                    _ => Counters::count(&self.counters.lock_timeouts),
                }
                Ended::GaveWay(error)
            }
            stop => Ended::Error(Error::stopped(stop, &self.tables.schema)),
        }
    }

    /// The tables and indexes.
    pub fn schema(&self) -> Arc<Schema> {
        self.tables.schema.clone()
    }

    /// As [`Database::table`](crate::Database::table).
    ///
    /// # Errors
    /// When the database has no such table, or a different one of that name.
    pub fn table<R: DeclaredTable>(&self) -> Result<Table<R>, Error> {
        Ok(resolve_table(&self.tables.schema)?)
    }

    /// As [`Database::index`](crate::Database::index).
    ///
    /// # Errors
    /// When the database has no such index, or a different one of that name.
    pub fn index<I: DeclaredIndex>(&self) -> Result<Index<I>, Error> {
        Ok(resolve_index(&self.tables.schema)?)
    }

    /// As [`Database::dynamic_table`](crate::Database::dynamic_table).
    ///
    /// # Errors
    /// When the database has no such table.
    pub fn dynamic_table(&self, name: &str) -> Result<DynamicTable, Error> {
        match self.tables.schema.table(name) {
            Some(position) if !name.starts_with(OWN_PREFIX) => {
                Ok(DynamicTable::new(&self.tables.schema, position))
            }
            _ => Err(Error::Schema(format!("{name}: no such table"))),
        }
    }

    /// What the restart did when the directory was opened; `None` if the database had been closed, or is new.
    pub const fn restart(&self) -> Option<Restart> {
        self.restart
    }

    /// Writes pages that the data file lacks, so that the next restart has less to do, and lets go of log that it will
    /// not need. Transactions of other threads continue. A thread of the database does it whenever the log has grown by
    /// [`PagedBuilder::checkpoint_log_bytes`](crate::PagedBuilder::checkpoint_log_bytes).
    ///
    /// # Errors
    /// [`Error::DiskFull`], after which nothing is lost; [`Error::Disk`], [`Error::Closed`], [`Error::Nested`].
    pub fn checkpoint(&self) -> Result<(), Error> {
        let session = self.take()?;
        let made: Result<Option<Checkpoint>, OpenError> = session.store.checkpoint();
        made.map(drop).map_err(|error| Error::paged(&error))
    }

    /// Counters since the database was opened.
    pub fn statistics(&self) -> PagedStatistics {
        let asked = self.sessions.ask(|store| (store.pool_usage(), store.log_usage()));
        let (pool, log) = asked.unwrap_or_default();
        let pool = pool.unwrap_or_default();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PagedStatistics {
            committed: read(&self.counters.committed),
            over_islands: read(&self.counters.over_islands),
            aborted: read(&self.counters.aborted),
            panicked: read(&self.counters.panicked),
            deadlocks: read(&self.counters.deadlocks),
            lock_timeouts: read(&self.counters.lock_timeouts),
            sessions: self.sessions.count() as u64,
            pool_pages: pool.frames,
            pool_hits: pool.hits,
            pool_misses: pool.misses,
            flushes: log.flushes,
            flushed_transactions: log.commits,
            flushed_bytes: log.flushed_bytes,
            log_bytes: log.file_bytes,
            checkpoint_failure: self.checkpoint_failure.lock().clone(),
        }
    }

    /// Verifies every structure, while no transaction runs.
    #[cfg(test)]
    pub(crate) fn check(&self) -> Vec<tombolo_storage::store::Damage> {
        let mut session = self.take().expect("it is open");
        tombolo_storage::store::Store::check(&mut session.store)
    }

    /// Waits for calls under way, writes all pages and closes the database: the next opening restarts nothing.
    ///
    /// # Errors
    /// When log or disk fail: nothing is lost, and the next opening restarts the database. [`Error::Nested`] within a
    /// transaction.
    pub fn close(self) -> Result<(), Error> {
        self.end()
    }

    fn end(&self) -> Result<(), Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        // Its thread has a session.
        drop(self.upkeep.lock().take());
        self.sessions.close().map_err(|error| Error::paged(&error))
    }
}

/// Makes a checkpoint if one is due. A full disk loses nothing, and it is tried again.
fn look_for_checkpoint(session: &Store, failure: &Mutex<Option<String>>) -> ControlFlow<()> {
    if !session.checkpoint_due() {
        return ControlFlow::Continue(());
    }
    match session.checkpoint() {
        Ok(_) => {
            *failure.lock() = None;
            ControlFlow::Continue(())
        }
        Err(error) => {
            *failure.lock() = Some(Error::paged(&error).to_string());
            if error.is_full() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }
}

impl Drop for PagedDatabase {
    fn drop(&mut self) {
        // For errors of closing there is `close`.
        let _ = self.end();
    }
}

impl fmt::Debug for PagedDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables: Vec<_> = self.tables.schema.tables.iter().map(|table| &table.name).collect();
        f.debug_struct("PagedDatabase").field("tables", &tables).finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<PagedDatabase>();
};
