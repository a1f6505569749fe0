//! The output stage: replies go to their callers (TPK-12, TPK-47).
//!
//! What arrives here may leave: it waited elsewhere for what it had to wait for. The stage takes
//! everything that is there, sorts it by caller and hands each caller all that is its own with one
//! call. With several output stages each caller belongs to one of them, so its replies keep their
//! order.
//!
//! [`Outbox`] is the other end: how stages post replies, and keep them while there is no room. Not
//! here: what a caller does with a reply (`callers.rs`).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::call::{Answered, CallerId};
use super::callers::{Place, Tagged};
use super::pool::Pool;
use super::queue::{Load, NotPut, Queue};
use super::shared::Shared;
use super::statistics::add;
use super::{Stage, StageKind, Step};

/// What lies in an output queue: replies that left together.
pub(super) type Parcel<A> = Vec<Answered<A>>;

/// Where a stage posts replies.
#[derive(Debug)]
pub(super) struct Outbox<A> {
    pub(super) outputs: Vec<Arc<Queue<Parcel<A>>>>,
    pub(super) parcels: Arc<Pool<Parcel<A>>>,
    /// What found no room, with the output it is for.
    held: VecDeque<(usize, Parcel<A>)>,
}

impl<A> Outbox<A> {
    pub(super) fn new(outputs: Vec<Arc<Queue<Parcel<A>>>>, parcels: Arc<Pool<Parcel<A>>>) -> Self {
        Self { outputs, parcels, held: VecDeque::new() }
    }

    /// Posts replies, in their order.
    pub(super) fn post(&mut self, parcel: Parcel<A>) {
        if parcel.is_empty() {
            return self.parcels.give(parcel);
        }
        if self.outputs.len() == 1 {
            self.held.push_back((0, parcel));
        } else {
            self.sort(parcel);
        }
        self.send();
    }

    /// Splits a parcel by the output each caller belongs to.
    fn sort(&mut self, mut parcel: Parcel<A>) {
        let mut parts: Vec<_> = self.outputs.iter().map(|_| self.parcels.take()).collect();
        for answered in parcel.drain(..) {
            parts[answered.caller.slot as usize % self.outputs.len()].push(answered);
        }
        self.parcels.give(parcel);
        self.held.extend(parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()));
    }

    /// Sends what is held; says whether nothing is left.
    pub(super) fn send(&mut self) -> bool {
        while let Some((output, parcel)) = self.held.pop_front() {
            let transactions = parcel.len() as u64;
            let bytes = transactions * size_of::<Answered<A>>() as u64;
            match self.outputs[output].offer(parcel, Load { transactions, bytes }) {
                Ok(()) => {}
                // Only after a stage broke down, and then the callers were told.
                Err(NotPut::Closed(_)) => {}
                Err(NotPut::Full(parcel)) => {
                    self.held.push_front((output, parcel));
                    return false;
                }
            }
        }
        true
    }

    /// Nothing more will be posted by anybody.
    pub(super) fn close(&self) {
        self.outputs.iter().for_each(|output| output.close());
    }
}

/// The output stage.
pub(super) struct Output<A> {
    queue: Arc<Queue<Parcel<A>>>,
    shared: Arc<Shared<A>>,
    parcels: Arc<Pool<Parcel<A>>>,
    arrived: Vec<Parcel<A>>,
    /// A copy of the register, and how old it is.
    places: Vec<Place<A>>,
    version: u64,
    /// Replies by caller, and the callers that have some.
    sorted: Vec<Vec<Tagged<A>>>,
    touched: Vec<u32>,
}

impl<A> Output<A> {
    pub(super) fn new(
        queue: Arc<Queue<Parcel<A>>>,
        shared: Arc<Shared<A>>,
        parcels: Arc<Pool<Parcel<A>>>,
    ) -> Self {
        Self {
            queue,
            shared,
            parcels,
            arrived: Vec::new(),
            places: Vec::new(),
            version: 0,
            sorted: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Takes over changes of the register; after a drain, so that every caller in it is known.
    fn look_at_register(&mut self) {
        let version = self.shared.callers.version();
        if version != self.version {
            self.version = version;
            self.shared.callers.copy_into(&mut self.places);
            self.sorted.resize_with(self.places.len(), Vec::new);
        }
    }

    fn is_there(&self, caller: CallerId) -> bool {
        let place = &self.places[caller.slot as usize];
        place.generation == caller.generation && place.sink.is_some()
    }

    fn sort(&mut self, parcel: &mut Parcel<A>) {
        for answered in parcel.drain(..) {
            if !self.is_there(answered.caller) {
                continue;
            }
            let replies = &mut self.sorted[answered.caller.slot as usize];
            if replies.is_empty() {
                self.touched.push(answered.caller.slot);
            }
            replies.push((answered.tag, answered.reply));
        }
    }

    fn deliver(&mut self) {
        for slot in self.touched.drain(..) {
            let replies = &mut self.sorted[slot as usize];
            let place = &mut self.places[slot as usize];
            let Some(sink) = &place.sink else { continue };
            add(&self.shared.counters.replies, replies.len() as u64);
            // A caller's code may panic; that is its own loss, not the other callers'.
            if catch_unwind(AssertUnwindSafe(|| sink.deliver(replies))).is_err() {
                place.sink = None;
                self.shared.callers.remove(CallerId { slot, generation: place.generation });
            }
            replies.clear();
        }
    }
}

impl<A: Send + 'static> Stage for Output<A> {
    fn kind(&self) -> StageKind {
        StageKind::Output
    }

    fn step(&mut self, _: u64) -> Step {
        let is_open = self.queue.drain(&mut self.arrived);
        if self.arrived.is_empty() {
            return if is_open { Step::IdleUntil(None) } else { Step::Ended };
        }
        self.look_at_register();
        let mut arrived = std::mem::take(&mut self.arrived);
        for mut parcel in arrived.drain(..) {
            self.sort(&mut parcel);
            self.parcels.give(parcel);
        }
        self.arrived = arrived;
        self.deliver();
        Step::Progress
    }

    fn retire(self: Box<Self>) {}

    fn worked(&self, ns: u64) {
        add(&self.shared.counters.busy_ns[3], ns);
    }
}
