//! `Runner`: the library's executor, which runs calls on the store in the execution stage.
//!
//! There is one dynamic call per transaction, into the envelope. Not here: queues and threads (the engine's
//! pipeline), the code of a call.

use std::sync::Arc;

use tombolo_engine::pipeline::{Batch, Call, Executor};
use tombolo_engine::procedure::Ahead;
use tombolo_storage::memory::budget::Budget;
use tombolo_storage::memory::held::Guard;
use tombolo_storage::memory::image::RowsInPlace;
use tombolo_storage::owner::Owner;
use tombolo_storage::sync::{AtomicU64, Ordering};
use tombolo_storage::value_log::LogBuffer;

use super::envelope::{Envelope, How, Otherwise, Request};
use super::waiting::OnDatabaseThread;
use crate::product::{Product, TRANSACTION_BYTES};
use crate::stop::Stop;
use crate::tx::Tables;

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
    /// The store's memory budget, which counts its allocations.
    memory: Arc<Budget>,
}

impl Counters {
    /// For a database whose store allocates from `memory`.
    pub(crate) fn new(memory: Arc<Budget>) -> Self {
        let zero = AtomicU64::default;
        let (committed, aborted, panicked, repeated) = (zero(), zero(), zero(), zero());
        let (expired, cancelled) = (zero(), zero());
        Self { committed, aborted, panicked, repeated, expired, cancelled, memory }
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

/// The store with the code that runs calls on it.
pub(crate) struct Runner {
    store: Product,
    tables: Tables,
    counters: Arc<Counters>,
}

impl Runner {
    pub(crate) fn new(store: Product, tables: Tables, counters: Arc<Counters>) -> Self {
        Self { store, tables, counters }
    }

    #[inline]
    fn run(&mut self, number: u64, request: &mut Request) {
        let Ok(envelope) = self.begin(number, request) else { return };
        let how = envelope.run(&mut self.store, &mut self.tables);
        self.count(how);
    }

    /// Runs a call while parts of transactions are held, as `guard` has it: it commits, or is set aside. If it met
    /// a lock, an owner of one: then it is to run again, or has ended if [`Envelope::can_run_again`] says no.
    #[cfg_attr(not(test), expect(dead_code, reason = "for islands, which come with issue 25"))]
    pub(crate) fn run_guarded(
        &mut self,
        number: u64,
        request: &mut Request,
        guard: &Guard<'_>,
    ) -> Result<How, Owner> {
        let envelope = match self.begin(number, request) {
            Ok(envelope) => envelope,
            Err(how) => return Ok(how),
        };
        let ran = envelope.run_guarded(&mut guard.over(&mut self.store), &mut self.tables);
        match ran {
            Ok(how) => self.count(how),
            Err(_) if envelope.can_run_again() => {}
            Err(_) => self.count(How::Aborted),
        }
        ran
    }

    /// The envelope of a call that begins; or how it ended, because it must not begin.
    #[inline(always)]
    fn begin<'r>(
        &mut self,
        number: u64,
        request: &'r mut Request,
    ) -> Result<&'r mut dyn Envelope, How> {
        let Some(envelope) = &mut request.envelope else { unreachable!("it was not answered yet") };
        if let Some(ended) = self.tables.begin(request.deadline_ns, number) {
            let (stop, how) = (Stop::Error(ended), How::stopped(&Stop::Error(ended)));
            self.count(how);
            envelope.end_otherwise(Otherwise::Stopped(stop));
            return Err(how);
        }
        hold_to(&mut self.store, request.log_bytes_max);
        Ok(&mut **envelope)
    }

    #[inline]
    fn count(&self, how: How) {
        count(match how {
            How::Committed => &self.counters.committed,
            How::Aborted | How::NoRoom => &self.counters.aborted,
            How::Panicked => &self.counters.panicked,
            How::Repeated => &self.counters.repeated,
            How::Expired => &self.counters.expired,
            How::Cancelled => &self.counters.cancelled,
        });
    }

    /// The tables, as calls see them.
    pub(crate) const fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The store, for changes of its schema.
    pub(crate) fn store(&mut self) -> &mut Product {
        &mut self.store
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
        self.tables.begin_carried();
        hold_to(&mut self.store, log_bytes_max);
        let outcome = run(&mut self.store, &self.tables);
        self.count(How::of(&outcome));
        *ended = Some(outcome);
        self.store.log_bytes()
    }
}

/// Limits the next transaction to the room reserved for it, so that the log of every batch fits.
#[inline]
fn hold_to(store: &mut Product, log_bytes_max: u64) {
    let log_bytes = log_bytes_max.saturating_sub(TRANSACTION_BYTES);
    store.set_transaction_log_bytes_max(log_bytes as usize);
}

impl Executor for Runner {
    type Request = Request;
    type Answer = Box<dyn Envelope>;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, Request, Box<dyn Envelope>>) {
        let _entered = OnDatabaseThread::enter();
        while let Some((number, request)) = batch.tagged_request() {
            self.tables.upcoming.advance();
            // A panic leaves the envelope in the request; the pipeline answers in its place.
            self.run(number, request);
            let Some(envelope) = request.envelope.take() else {
                unreachable!("what ran is still there")
            };
            // The outcome is in the envelope, which therefore returns to its pool.
            batch.answer(Ok(envelope), self.store.log_bytes());
        }
        self.tables.upcoming.ran();
    }

    fn locate(&mut self, calls: &mut [Call<Request>]) {
        // In two rounds: the second reads what the first has prefetched.
        let upcoming = self.tables.upcoming.begin(calls.len());
        for ahead in [Ahead::Keys, Ahead::Rows] {
            for (call, hints) in calls.iter().zip(&mut *upcoming) {
                if let Some(envelope) = &call.request.envelope {
                    envelope.locate(&self.store, ahead, hints);
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
        self.store.take_log(into);
    }

    fn rows_in_place(&mut self) -> Option<RowsInPlace<'_>> {
        self.store.rows_in_place()
    }
}
