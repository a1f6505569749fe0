//! The register of callers: a slot with a [`Sink`] for replies, for each caller.
//!
//! Calls contain the slot's number, so a call needs neither an allocation nor a reference count. Slots are reused
//! with a new generation; a reply to a former owner is dropped.
//!
//! Not here: the callers' ends (`callers/`), the delivery of replies (`stages/output.rs`).

use std::sync::Arc;

use tombolo_storage::sync::Mutex;

use crate::pipeline::transport::call::{CallerId, Reply};
use crate::pipeline::transport::slots::Slots;

/// A reply with the tag of its call.
pub type Tagged<A> = (u64, Reply<A>);

/// The receiver of a caller's replies. Called on an output stage's thread, with many replies at a time; it
/// must neither take long nor wait for a caller.
pub trait Sink<A>: Send + Sync {
    /// Takes all `replies`, in the order in which they left the pipeline.
    fn deliver(&self, replies: &mut Vec<Tagged<A>>);

    /// A stage broke down, for this reason: calls without a reply may never get one.
    fn broken(&self, reason: &Arc<str>) {
        let _ = reason;
    }
}

impl<A, F: Fn(u64, Reply<A>) + Send + Sync> Sink<A> for F {
    fn deliver(&self, replies: &mut Vec<Tagged<A>>) {
        replies.drain(..).for_each(|(tag, reply)| self(tag, reply));
    }
}

/// A slot of the register.
pub(crate) struct Registration<A> {
    generation: u32,
    sink: Option<Arc<dyn Sink<A>>>,
}

impl<A> Default for Registration<A> {
    fn default() -> Self {
        Self { generation: 0, sink: None }
    }
}

/// The register of callers.
pub(crate) struct Callers<A>(Slots<Mutex<Registration<A>>>);

impl<A> std::fmt::Debug for Callers<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Callers").field(&self.0).finish()
    }
}

impl<A> Callers<A> {
    pub(crate) fn new() -> Self {
        Self(Slots::default())
    }

    pub(crate) fn register(&self, sink: Arc<dyn Sink<A>>) -> CallerId {
        let slot = self.0.take();
        let mut place = self.0.get(slot).lock();
        place.generation = place.generation.wrapping_add(1);
        place.sink = Some(sink);
        CallerId { slot, generation: place.generation }
    }

    pub(crate) fn remove(&self, caller: CallerId) {
        let mut place = self.0.get(caller.slot).lock();
        let sink = if place.generation == caller.generation { place.sink.take() } else { None };
        drop(place);
        if sink.is_some() {
            self.0.give(caller.slot);
        }
    }

    /// The current generation of a slot, and its sink. A caller registers before it
    /// submits, so the owner of a reply is registered, or gone.
    pub(crate) fn at(&self, slot: u32) -> (u32, Option<Arc<dyn Sink<A>>>) {
        let place = self.0.get(slot).lock();
        (place.generation, place.sink.clone())
    }

    /// Notifies every caller that a stage broke down.
    pub(crate) fn broken(&self, reason: &Arc<str>) {
        let mut sinks = Vec::new();
        self.0.each(|place| sinks.extend(place.lock().sink.clone()));
        sinks.iter().for_each(|sink| sink.broken(reason));
    }
}
