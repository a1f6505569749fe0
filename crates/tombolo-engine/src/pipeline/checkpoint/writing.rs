//! The stage that writes batches of blocks, in parallel with the stage that prepares them (TPK-16, TPK-25).
//!
//! While it writes and syncs a batch, the other stage installs groups and copies the next batch out of DB′;
//! a single stage would leave the device idle for a good part of the time.
//!
//! Not here: the content of a batch (storage `memory/image/part.rs`), when one is due. Invariant: one batch
//! of a part is under way at a time.

use std::sync::Arc;

use tombolo_storage::memory::image::{Batch, Written};
use tombolo_storage::sync::Mutex;

use crate::clock::Clock;
use crate::pipeline::stage::{Stage, StageKind, Step};
use crate::pipeline::state::{Shared, add};
use crate::pipeline::transport::Signal;

/// Between a part's two stages.
#[derive(Debug)]
pub(crate) struct Exchange {
    inner: Mutex<Inner>,
    /// The thread that prepares.
    preparing: Arc<Signal>,
    /// The thread that writes.
    writing: Arc<Signal>,
}

#[derive(Debug, Default)]
struct Inner {
    due: Option<Batch>,
    /// With how long it took, in nanoseconds.
    written: Option<(Written, u64)>,
    is_closed: bool,
}

impl Exchange {
    pub(crate) fn new(preparing: Arc<Signal>, writing: Arc<Signal>) -> Self {
        Self { inner: Mutex::default(), preparing, writing }
    }

    /// Hands a batch over; the one before was taken back.
    pub(crate) fn put(&self, batch: Batch) {
        let before = self.inner.lock().due.replace(batch);
        assert!(before.is_none(), "one batch is under way at a time");
        self.writing.wake();
    }

    /// What was written meanwhile, and the time that took in nanoseconds.
    pub(crate) fn take_back(&self) -> Option<(Written, u64)> {
        self.inner.lock().written.take()
    }

    /// Nothing more is to be written.
    pub(crate) fn close(&self) {
        self.inner.lock().is_closed = true;
        self.writing.wake();
    }
}

/// The stage that writes.
pub(crate) struct Writing<A> {
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) shared: Arc<Shared<A>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl<A: Send + 'static> Stage for Writing<A> {
    fn kind(&self) -> StageKind {
        StageKind::Checkpoint
    }

    fn step(&mut self, _: u64) -> Step {
        let mut inner = self.exchange.inner.lock();
        if inner.is_closed {
            return Step::Ended;
        }
        let Some(batch) = inner.due.take() else { return Step::IdleUntil(None) };
        drop(inner);
        let begun_ns = self.clock.now_ns();
        let written = batch.write();
        let ns = self.clock.now_ns() - begun_ns;
        self.exchange.inner.lock().written = Some((written, ns));
        self.exchange.preparing.wake();
        Step::Progress
    }

    fn worked(&self, ns: u64) {
        add(&self.shared.counters.busy_ns[4], ns);
    }
}
