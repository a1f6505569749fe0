//! What the execution stage runs: the store, and call after call on it.
//!
//! Compiled for the two stores the product has; behind that one dynamic call per transaction, into
//! the envelope. Not here: queues and threads (the engine's pipeline), what a call does.

use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_engine::pipeline::{Batch, Call, Executor};
use tombolo_engine::procedure::Ahead;
use tombolo_engine::transaction::Transaction;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::{Memory, MemoryLogged, MemoryProfile};
use tombolo_storage::sync::{AtomicU64, Ordering};
use tombolo_storage::value_log::LogBuffer;

use super::desk::enter_database_thread;
use super::envelope::{Envelope, How, Otherwise, Request};
use crate::evolve::Evolving;
use crate::tx::{Inner, Tables};

/// The store of a database with a log.
pub(crate) type Logged = MemoryStore<MemoryLogged>;
/// The store of a database in memory.
pub(crate) type Volatile = MemoryStore<Memory>;

/// One of the product's profiles: which of an envelope's doors leads to its store.
pub(crate) trait Product: MemoryProfile + 'static {
    fn run(envelope: &mut dyn Envelope, store: &mut MemoryStore<Self>, tables: &mut Tables) -> How
    where
        Self: Sized;
    fn locate(envelope: &dyn Envelope, store: &MemoryStore<Self>, ahead: Ahead)
    where
        Self: Sized;
    fn inner(transaction: Transaction<'_, MemoryStore<Self>>) -> Inner<'_>
    where
        Self: Sized;
    fn any(runner: Box<Runner<Self>>) -> AnyRunner
    where
        Self: Sized;
}

impl Product for MemoryLogged {
    #[inline]
    fn run(envelope: &mut dyn Envelope, store: &mut Logged, tables: &mut Tables) -> How {
        envelope.run_logged(store, tables)
    }
    fn locate(envelope: &dyn Envelope, store: &Logged, ahead: Ahead) {
        envelope.locate_logged(store, ahead);
    }
    fn inner(transaction: Transaction<'_, Logged>) -> Inner<'_> {
        Inner::Logged(transaction)
    }
    fn any(runner: Box<Runner<Self>>) -> AnyRunner {
        AnyRunner::Logged(runner)
    }
}

impl Product for Memory {
    #[inline]
    fn run(envelope: &mut dyn Envelope, store: &mut Volatile, tables: &mut Tables) -> How {
        envelope.run_volatile(store, tables)
    }
    fn locate(envelope: &dyn Envelope, store: &Volatile, ahead: Ahead) {
        envelope.locate_volatile(store, ahead);
    }
    fn inner(transaction: Transaction<'_, Volatile>) -> Inner<'_> {
        Inner::Volatile(transaction)
    }
    fn any(runner: Box<Runner<Self>>) -> AnyRunner {
        AnyRunner::Volatile(runner)
    }
}

/// What the execution thread counts; it is the only one that writes them.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) committed: AtomicU64,
    pub(crate) aborted: AtomicU64,
    /// Of calls with a request id; the pipeline counts the others.
    pub(crate) panicked: AtomicU64,
    pub(crate) repeated: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) memory_bytes: AtomicU64,
}

/// Adds 1, as the only writer. Readers want numbers that are about right, not an order.
#[inline]
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Bytes of a transaction in the log that its own records do not count.
pub(crate) const TRANSACTION_BYTES: u64 = 4;

/// The store, and what runs calls on it.
pub(crate) struct Runner<P: Product> {
    store: MemoryStore<P>,
    tables: Tables,
    counters: Arc<Counters>,
    clock: Arc<dyn Clock>,
}

impl<P: Product> Runner<P> {
    pub(crate) fn new(
        store: MemoryStore<P>,
        tables: Tables,
        counters: Arc<Counters>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        counters.memory_bytes.store(store.memory_bytes(), Ordering::Relaxed);
        Self { store, tables, counters, clock }
    }

    #[inline]
    fn run(&mut self, request: &mut Request) {
        let Some(envelope) = &mut request.envelope else { unreachable!("it was not answered yet") };
        if request.deadline_ns != u64::MAX && self.clock.now_ns() >= request.deadline_ns {
            envelope.end_otherwise(Otherwise::Expired);
            return count(&self.counters.expired);
        }
        // Held to what was reserved for it, so that an executed batch always finds its room.
        let log_bytes = request.log_bytes_max.saturating_sub(TRANSACTION_BYTES);
        self.store.set_transaction_log_bytes_max(log_bytes as usize);
        match P::run(&mut **envelope, &mut self.store, &mut self.tables) {
            How::Committed => count(&self.counters.committed),
            How::Aborted => count(&self.counters.aborted),
            How::Panicked => count(&self.counters.panicked),
            How::Repeated => count(&self.counters.repeated),
        }
    }
}

impl<P: Product> Executor for Runner<P>
where
    MemoryStore<P>: Send,
{
    type Request = Request;
    type Answer = Box<dyn Envelope>;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, Request, Box<dyn Envelope>>) {
        enter_database_thread();
        while let Some(request) = batch.request() {
            // A panic leaves the envelope in the request; the pipeline answers in its place.
            self.run(request);
            let Some(envelope) = request.envelope.take() else {
                unreachable!("what ran is still there")
            };
            // However it ended is in the envelope, which so returns to its pool.
            batch.answer(Ok(envelope), self.store.log_bytes());
        }
        self.counters.memory_bytes.store(self.store.memory_bytes(), Ordering::Relaxed);
    }

    fn locate(&mut self, calls: &mut [Call<Request>]) {
        // In two rounds, so that what one asks for has come when the next reads it.
        for ahead in [Ahead::Keys, Ahead::Rows] {
            for envelope in calls.iter().filter_map(|call| call.request.envelope.as_deref()) {
                P::locate(envelope, &self.store, ahead);
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
}

/// The runner of either product, as the pipeline has it.
pub(crate) enum AnyRunner {
    Logged(Box<Runner<MemoryLogged>>),
    Volatile(Box<Runner<Memory>>),
}

/// Calls the same on either runner.
macro_rules! on {
    ($any:expr, $runner:ident => $call:expr) => {
        match $any {
            AnyRunner::Logged($runner) => $call,
            AnyRunner::Volatile($runner) => $call,
        }
    };
}

impl AnyRunner {
    /// The store, for what changes its schema.
    pub(crate) fn store(&mut self) -> &mut dyn Evolving {
        on!(self, runner => &mut runner.store)
    }
}

impl Executor for AnyRunner {
    type Request = Request;
    type Answer = Box<dyn Envelope>;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, Request, Box<dyn Envelope>>) {
        on!(self, runner => runner.execute(batch));
    }

    fn locate(&mut self, calls: &mut [Call<Request>]) {
        on!(self, runner => runner.locate(calls));
    }

    fn log_bytes_max(&self, request: &Request) -> u64 {
        on!(self, runner => runner.log_bytes_max(request))
    }

    fn name_of(&self, request: &Request) -> &'static str {
        on!(self, runner => runner.name_of(request))
    }

    fn take_log(&mut self, into: &mut LogBuffer) {
        on!(self, runner => runner.take_log(into));
    }
}
