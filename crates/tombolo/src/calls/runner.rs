//! `Runner`: the library's executor, which runs calls on the store in the execution stage.
//!
//! There is one dynamic call per transaction, into the envelope. Not here: queues and threads (the engine's
//! pipeline), the code of a call.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

use tombolo_engine::islands::commit::{Event, IslandId};
use tombolo_engine::pipeline::{Batch, Call, Executor};
use tombolo_engine::procedure::Ahead;
use tombolo_storage::memory::budget::Budget;
use tombolo_storage::memory::held::{Guard, Locks, Witness};
use tombolo_storage::memory::image::RowsInPlace;
use tombolo_storage::owner::Owner;
use tombolo_storage::sync::{AtomicU64, Ordering};
use tombolo_storage::value_log::LogBuffer;

use super::envelope::{Envelope, How, Otherwise, Request};
use super::waiting::OnDatabaseThread;
use crate::error::Stop;
use crate::product::{GuardedProduct, Product, TRANSACTION_BYTES};
use crate::tx::{Guards, Tables};

/// Counters of the thread that runs transactions; there is one such thread at a time.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) committed: AtomicU64,
    pub(crate) aborted: AtomicU64,
    /// Panicked calls with a request id; the pipeline counts the others.
    pub(crate) panicked: AtomicU64,
    pub(crate) repeated: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    /// Committed transactions over several islands, by how they ran.
    over_islands: [AtomicU64; 3],
    /// Those of them that were ordered.
    ordered: AtomicU64,
    /// The store's memory budget, which counts its allocations.
    memory: Arc<Budget>,
}

/// How a transaction over several islands ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverIslands {
    /// Declared parts, on their caller's thread.
    Parts,
    /// Declared parts, by messages.
    Messages,
    /// A closure that reached islands as it went.
    Closure,
}

impl Counters {
    /// For a database whose store allocates from `memory`.
    pub(crate) fn new(memory: Arc<Budget>) -> Self {
        let zero = AtomicU64::default;
        let (committed, aborted, panicked, repeated) = (zero(), zero(), zero(), zero());
        let (expired, cancelled) = (zero(), zero());
        let over_islands = [zero(), zero(), zero()];
        let ordered = zero();
        Self {
            committed,
            aborted,
            panicked,
            repeated,
            expired,
            cancelled,
            over_islands,
            ordered,
            memory,
        }
    }

    /// Counts a transaction over so many islands that began here, and which committed or not.
    pub(crate) fn count_over_islands(&self, islands: usize, how: OverIslands, commits: bool) {
        self.count(if commits { How::Committed } else { How::Aborted });
        if commits && islands > 1 {
            count(&self.over_islands[how as usize]);
        }
    }

    /// Counts a transaction over several islands that is ordered.
    pub(crate) fn count_ordered(&self) {
        count(&self.ordered);
    }

    /// Committed transactions over several islands that were ordered.
    pub(crate) fn ordered(&self) -> u64 {
        self.ordered.load(Ordering::Relaxed)
    }

    /// Committed transactions over several islands that ran in this way.
    pub(crate) fn over_islands(&self, how: OverIslands) -> u64 {
        self.over_islands[how as usize].load(Ordering::Relaxed)
    }

    /// Counts how a call's turn ended.
    #[inline]
    pub(crate) fn count(&self, how: How) {
        count(match how {
            How::Committed => &self.committed,
            How::Aborted | How::NoRoom => &self.aborted,
            How::Panicked => &self.panicked,
            How::Repeated => &self.repeated,
            How::Expired => &self.expired,
            How::Cancelled => &self.cancelled,
        });
    }

    /// Bytes that the store has allocated now.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.held_bytes()
    }
}

/// Adds 1, as the only writer. Readers want numbers that are about right, not an order.
#[inline]
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// A store with the code that runs calls on it.
pub(crate) struct Site {
    pub(crate) store: Product,
    pub(crate) tables: Tables,
    pub(crate) counters: Arc<Counters>,
}

/// An island among others, which runs its calls with regard to parts of transactions that it holds.
pub(crate) trait Neighbour: Send {
    /// Runs a batch and answers its calls.
    fn execute(&mut self, site: &mut Site, batch: &mut Batch<'_, Request, Box<dyn Envelope>>);

    /// Begins a transaction over several islands, in its envelope, which is answered by `number`.
    fn begin(
        &mut self,
        site: &mut Site,
        log_bytes_max: u64,
        number: u64,
        envelope: Box<dyn Envelope>,
    );

    /// Does at once what island `from` has just sent, unless something else from there comes first: then all of it is
    /// for the next turn.
    fn receive(&mut self, site: &mut Site, log_bytes_max: u64, from: IslandId);

    /// Takes its turn: does all that has arrived, as far as the log has room.
    fn attend(&mut self, site: &mut Site, log_bytes_max: u64);

    /// Hands over what it owes since that was last called.
    fn owed(&mut self) -> Owed;

    /// The locks of the parts that it holds.
    fn locks(&self) -> &Locks;
}

/// What an island owes when all that it has logged is durable.
#[derive(Default)]
pub(crate) struct Owed {
    /// What happens then.
    pub(crate) events: Vec<Event<'static>>,
    /// The calls that waited for a lock and have ended, by the pipeline's number.
    pub(crate) ended: Vec<(u64, Box<dyn Envelope>)>,
}

impl Owed {
    pub(crate) const fn is_empty(&self) -> bool {
        self.events.is_empty() && self.ended.is_empty()
    }
}

/// The store of a database, or of one of several islands.
pub(crate) struct Runner {
    site: Site,
    /// What makes it one of several islands.
    neighbour: Option<Box<dyn Neighbour>>,
}

impl Site {
    #[inline]
    pub(crate) fn run(&mut self, number: u64, request: &mut Request) {
        if self.tables.is_recorded() {
            return self.run_recorded(number, request);
        }
        let Self { store, tables, counters } = self;
        let Ok(envelope) = begin(store, tables, counters, number, request) else { return };
        let how = envelope.run(store, tables);
        counters.count(how);
    }

    /// The same while a trace is recorded, if it has not just ended.
    #[cold]
    #[inline(never)]
    fn run_recorded(&mut self, number: u64, request: &mut Request) {
        let Some(recorder) = self.tables.recorder() else { return self.run(number, request) };
        let noted = request.envelope.as_ref().filter(|envelope| envelope.is_noted());
        let mut noted = noted.map(|envelope| recorder.begin(envelope.name()));
        let guard = Guard::local(recorder.no_locks()).seen_by(Some(&*recorder));
        match self.run_guarded(number, request, &guard) {
            Ok(how) => noted.iter_mut().for_each(|noted| noted.end(how == How::Committed)),
            Err(_) => unreachable!("nothing is locked"),
        }
    }

    /// As [`run_guarded`].
    pub(crate) fn run_guarded(
        &mut self,
        number: u64,
        request: &mut Request,
        guard: &Guard<'_>,
    ) -> Result<How, Owner> {
        let Self { store, tables, counters } = self;
        run_guarded(&mut guard.over(store), (tables, counters), number, request)
    }
}

/// Runs a call while parts of transactions are held, as the store's guard has it: it commits, or is set aside.
///
/// # Errors
/// An owner of a lock that it met: then it is to run again.
pub(crate) fn run_guarded(
    store: &mut GuardedProduct<'_>,
    (tables, counters): (&mut Tables, &Counters),
    number: u64,
    request: &mut Request,
) -> Result<How, Owner> {
    let how = match begin(store.parts().0, tables, counters, number, request) {
        Ok(envelope) => envelope.run_guarded(store, tables)?,
        Err(how) => return Ok(how),
    };
    counters.count(how);
    Ok(how)
}

/// The envelope of a call that begins; or how it ended, because it must not begin.
#[inline(always)]
fn begin<'r>(
    store: &mut Product,
    tables: &mut Tables,
    counters: &Counters,
    number: u64,
    request: &'r mut Request,
) -> Result<&'r mut dyn Envelope, How> {
    let Some(envelope) = &mut request.envelope else { unreachable!("it was not answered yet") };
    if let Some(ended) = tables.begin(request.deadline_ns, number) {
        let (stop, how) = (Stop::Error(ended), How::stopped(&Stop::Error(ended)));
        counters.count(how);
        envelope.end_otherwise(Otherwise::Stopped(stop));
        return Err(how);
    }
    hold_to(store, request.log_bytes_max);
    Ok(&mut **envelope)
}

impl Runner {
    pub(crate) fn new(
        store: Product,
        tables: Tables,
        counters: Arc<Counters>,
        neighbour: Option<Box<dyn Neighbour>>,
    ) -> Self {
        Self { site: Site { store, tables, counters }, neighbour }
    }

    /// The tables, as calls see them.
    pub(crate) const fn tables(&self) -> &Tables {
        &self.site.tables
    }

    /// The store, for changes of its schema.
    pub(crate) fn store(&mut self) -> &mut Product {
        &mut self.site.store
    }

    /// Runs the transaction of a caller that carries it, which may log `log_bytes_max` bytes, and puts its outcome
    /// into `ended`; returns how many bytes it has logged.
    #[inline]
    pub(crate) fn carry<A>(
        &mut self,
        log_bytes_max: u64,
        run: impl FnOnce(&mut Product, &Tables) -> Result<A, Stop>,
        ended: &mut Option<Result<A, Stop>>,
    ) -> usize {
        let _entered = OnDatabaseThread::enter();
        self.site.tables.begin_carried();
        hold_to(&mut self.site.store, log_bytes_max);
        let outcome = run(&mut self.site.store, &self.site.tables);
        self.site.counters.count(How::of(&outcome));
        *ended = Some(outcome);
        self.site.store.log_bytes()
    }

    /// Whether transactions have to run under locks.
    #[inline(always)]
    pub(crate) fn holds_parts(&self) -> bool {
        self.neighbour.as_ref().is_some_and(|neighbour| !neighbour.locks().is_empty())
    }

    /// Whether transactions have to run with a guard: under locks, or because a trace is recorded.
    #[inline(always)]
    pub(crate) fn is_guarded(&self) -> bool {
        self.site.tables.is_recorded() || self.holds_parts()
    }

    /// The same as [`Runner::carry`] with a guard. There is no outcome if it met a lock.
    #[cold]
    #[inline(never)]
    pub(crate) fn carry_guarded<A>(
        &mut self,
        name: &'static str,
        log_bytes_max: u64,
        run: impl FnOnce(&mut Product, Guards<'_>, &Tables) -> Result<A, Stop>,
        ended: &mut Option<Result<A, Stop>>,
    ) -> usize {
        let _entered = OnDatabaseThread::enter();
        let recorder = self.site.tables.recorder();
        let mut noted = recorder.as_ref().map(|recorder| recorder.begin(name));
        self.site.tables.begin_carried();
        hold_to(&mut self.site.store, log_bytes_max);
        let no_locks = recorder.as_ref().map(|recorder| recorder.no_locks());
        let locks = self.neighbour.as_ref().map(|neighbour| neighbour.locks()).or(no_locks);
        let (store, tables) = (&mut self.site.store, &self.site.tables);
        let ran = match locks {
            Some(locks) => {
                let witness = recorder.as_deref().map(|recorder| recorder as &dyn Witness);
                let guard = Guard::local(locks).seen_by(witness);
                unless_held(&guard, || run(store, Some(&guard), tables))
            }
            // The trace has just ended.
            None => Ok(Ok(run(store, None, tables))),
        };
        if let Ok(ran) = ran {
            let outcome = ran.unwrap_or_else(|panic| resume_unwind(panic));
            let how = How::of(&outcome);
            self.site.counters.count(how);
            noted.iter_mut().for_each(|noted| noted.end(how == How::Committed));
            *ended = Some(outcome);
        }
        self.site.store.log_bytes()
    }

    /// An island's transaction begins on a caller's thread: it runs under the locks of the parts that are held, up to
    /// its deadline if it has one.
    pub(crate) fn begin_guarded(
        &mut self,
        log_bytes_max: u64,
        deadline_ns: Option<u64>,
    ) -> (&mut Product, &Locks, &Tables) {
        match deadline_ns {
            None => self.site.tables.begin_carried(),
            Some(deadline_ns) => self.site.tables.begin_until(deadline_ns),
        }
        hold_to(&mut self.site.store, log_bytes_max);
        self.guarded()
    }

    /// An island's store, and the locks of the parts that are held.
    pub(crate) fn guarded(&mut self) -> (&mut Product, &Locks, &Tables) {
        let Some(neighbour) = &self.neighbour else { unreachable!("an island has neighbours") };
        (&mut self.site.store, neighbour.locks(), &self.site.tables)
    }

    /// An island's store with what makes it an island.
    pub(crate) fn island(&mut self) -> (&mut Site, &mut dyn Neighbour) {
        let Some(neighbour) = &mut self.neighbour else { unreachable!("an island has neighbours") };
        (&mut self.site, &mut **neighbour)
    }

    /// The counters.
    pub(crate) fn counters(&self) -> &Counters {
        &self.site.counters
    }
}

/// Runs what `guard` is for. If it met a lock, an owner of one: what it did after that means nothing, not even a panic.
pub(crate) fn unless_held<A>(
    guard: &Guard<'_>,
    run: impl FnOnce() -> A,
) -> Result<thread::Result<A>, Owner> {
    let ran = catch_unwind(AssertUnwindSafe(run));
    guard.met().map_or(Ok(ran), Err)
}

/// Limits the next transaction to the room reserved for it, so that the log of every batch fits.
#[inline]
pub(crate) fn hold_to(store: &mut Product, log_bytes_max: u64) {
    let log_bytes = log_bytes_max.saturating_sub(TRANSACTION_BYTES);
    store.set_transaction_log_bytes_max(log_bytes as usize);
}

impl Executor for Runner {
    type Request = Request;
    type Answer = Box<dyn Envelope>;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, Request, Box<dyn Envelope>>) {
        let _entered = OnDatabaseThread::enter();
        if let Some(neighbour) = &mut self.neighbour {
            return neighbour.execute(&mut self.site, batch);
        }
        while let Some((number, request)) = batch.tagged_request() {
            self.site.tables.upcoming.advance();
            // A panic leaves the envelope in the request; the pipeline answers in its place.
            self.site.run(number, request);
            let Some(envelope) = request.envelope.take() else {
                unreachable!("what ran is still there")
            };
            // The outcome is in the envelope, which therefore returns to its pool.
            batch.answer(Ok(envelope), self.site.store.log_bytes());
        }
        self.site.tables.upcoming.ran();
    }

    fn locate(&mut self, calls: &mut [Call<Request>]) {
        // In two rounds: the second reads what the first has prefetched.
        let upcoming = self.site.tables.upcoming.begin(calls.len());
        for ahead in [Ahead::Keys, Ahead::Rows] {
            for (call, hints) in calls.iter().zip(&mut *upcoming) {
                if let Some(envelope) = &call.request.envelope {
                    envelope.locate(&self.site.store, ahead, hints);
                }
            }
        }
    }

    fn log_bytes_max(&self, request: &Request) -> u64 {
        request.log_bytes_max
    }

    fn name_of(&self, request: &Request) -> &'static str {
        request.envelope.as_ref().map_or("a call", |envelope| envelope.name())
    }

    fn take_log(&mut self, into: &mut LogBuffer) {
        self.site.store.take_log(into);
    }

    fn rows_in_place(&mut self) -> Option<RowsInPlace<'_>> {
        self.site.store.rows_in_place()
    }
}
