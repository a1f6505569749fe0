//! The input stage: prepares requests on a thread other than the execution thread (TPK-3, TPK-43).
//!
//! The settings have the number of input stages; without any, callers put their calls directly into the
//! queue of the execution stage. Each caller belongs to one input stage, so its calls keep their order. This stage
//! answers an invalid request itself.
//!
//! Not here: sockets and their bytes (the server), anything that needs the store.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tombolo_storage::sync::{AtomicU64, Ordering};

use crate::pipeline::stage::{Stage, StageKind, Step};
use crate::pipeline::stages::output::Outbox;
use crate::pipeline::state::{Shared, add};
use crate::pipeline::transport::{Call, Queue, Refusal, Reply, call_load};
use crate::threads::panic_message;

/// What an input stage does with a request.
pub trait Prepare<R>: Send {
    /// Makes a request ready for execution, in place: decoded, checked, converted.
    ///
    /// # Errors
    /// What is wrong with it, in words for its caller; it is not executed.
    fn prepare(&mut self, request: &mut R) -> Result<(), Box<str>>;
}

impl<R, F: FnMut(&mut R) -> Result<(), Box<str>> + Send> Prepare<R> for F {
    fn prepare(&mut self, request: &mut R) -> Result<(), Box<str>> {
        self(request)
    }
}

/// The input stage.
pub(crate) struct Input<R, A> {
    pub(crate) intake: Arc<Queue<Call<R>>>,
    pub(crate) input_queue: Arc<Queue<Call<R>>>,
    pub(crate) prepare: Box<dyn Prepare<R>>,
    pub(crate) request_bytes: fn(&R) -> usize,
    pub(crate) outbox: Outbox<A>,
    pub(crate) shared: Arc<Shared<A>>,
    /// Input stages that have not ended; the last one closes the input queue.
    pub(crate) inputs_left: Arc<AtomicU64>,
    /// Calls that are ready and found no room yet.
    pub(crate) ready: Vec<Call<R>>,
}

impl<R, A> Input<R, A> {
    /// Prepares what was drained; what is not valid is answered.
    fn prepare_all(&mut self) {
        let mut refused = self.outbox.parcels.take();
        let prepare = &mut self.prepare;
        self.ready.retain_mut(|call| {
            let prepared = catch_unwind(AssertUnwindSafe(|| prepare.prepare(&mut call.request)));
            let what = match prepared {
                Ok(Ok(())) => return true,
                Ok(Err(what)) => what,
                Err(panic) => format!("preparing it panicked: {}", panic_message(&*panic)).into(),
            };
            refused.push(call.reply(Reply::Refused(Refusal::Invalid(what))));
            false
        });
        add(&self.shared.counters.refused, refused.len() as u64);
        self.outbox.post(refused);
    }

    /// Hands ready calls on; says whether none is left.
    fn hand_on(&mut self) -> bool {
        if self.ready.is_empty() {
            return true;
        }
        let request_bytes = self.request_bytes;
        let load = |call: &Call<R>| call_load(request_bytes, &call.request);
        if self.input_queue.put_many(&mut self.ready, load).is_none() {
            // Only after a stage broke down, and then the callers were notified.
            self.ready.clear();
        }
        self.ready.is_empty()
    }
}

impl<R: Send + 'static, A: Send + 'static> Stage for Input<R, A> {
    fn kind(&self) -> StageKind {
        StageKind::Input
    }

    fn step(&mut self, _: u64) -> Step {
        if !self.outbox.send() || !self.hand_on() {
            return Step::IdleUntil(None);
        }
        let is_open = self.intake.drain(&mut self.ready);
        if self.ready.is_empty() {
            if is_open {
                return Step::IdleUntil(None);
            }
            // Partners: the other input stages' decrements; the last one has seen all of them end.
            if self.inputs_left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.input_queue.close();
            }
            return Step::Ended;
        }
        self.prepare_all();
        self.hand_on();
        Step::Progress
    }

    fn worked(&self, ns: u64) {
        self.shared.counters.worked(StageKind::Input, ns);
    }
}
