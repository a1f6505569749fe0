//! The output stage: replies go to their callers (TPK-12, TPK-47).
//!
//! What arrives here may leave: it waited elsewhere for what it had to wait for. The stage takes
//! everything that is there, sorts it by caller and hands each caller all that is its own with one
//! call. With several output stages each caller belongs to one of them, so its replies keep their
//! order.
//!
//! [`Outbox`] is the other end: how stages post replies, and keep them while there is no room. Where
//! callers carry there is no output stage: the stage that lets a reply go hands it out itself
//! ([`Delivery`]), so that none waits behind another thread's work. Not here: what a caller does with
//! a reply (`callers/`).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::pipeline::stage::{Stage, StageKind, Step};
use crate::pipeline::state::{Shared, add};
use crate::pipeline::transport::{
    Answered, CallerId, Load, NotPut, Pool, Queue, Reply, Sink, Tagged, drop_guarded, guarded,
};

/// What lies in an output queue: replies that left together.
pub(crate) type Parcel<A> = Vec<Answered<A>>;

/// Where a stage posts replies.
pub(crate) struct Outbox<A> {
    outputs: Vec<Arc<Queue<Parcel<A>>>>,
    pub(crate) parcels: Arc<Pool<Parcel<A>>>,
    /// What found no room, with the output it is for.
    held: VecDeque<(usize, Parcel<A>)>,
    /// Hands replies out where there is no output stage.
    delivery: Delivery<A>,
}

impl<A> Outbox<A> {
    pub(crate) fn new(
        outputs: Vec<Arc<Queue<Parcel<A>>>>,
        parcels: Arc<Pool<Parcel<A>>>,
        shared: Arc<Shared<A>>,
    ) -> Self {
        Self { outputs, parcels, held: VecDeque::new(), delivery: Delivery::new(shared) }
    }

    /// Posts replies, in their order.
    pub(crate) fn post(&mut self, mut parcel: Parcel<A>) {
        if parcel.is_empty() {
            return self.parcels.give(parcel);
        }
        match self.outputs.len() {
            0 => {
                self.delivery.hand_out(&mut parcel);
                return self.parcels.give(parcel);
            }
            1 => self.held.push_back((0, parcel)),
            _ => self.sort(parcel),
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
    pub(crate) fn send(&mut self) -> bool {
        while let Some((output, parcel)) = self.held.pop_front() {
            let transactions = parcel.len() as u64;
            let bytes = transactions * size_of::<Answered<A>>() as u64;
            match self.outputs[output].offer(parcel, Load { transactions, bytes }) {
                Ok(()) => {}
                // Only after a stage broke down, and then the callers were notified.
                Err(NotPut::Closed(_)) => {}
                Err(NotPut::Full(parcel)) => {
                    self.held.push_front((output, parcel));
                    return false;
                }
            }
        }
        true
    }

    /// Nothing more will be posted.
    pub(crate) fn close(&self) {
        self.outputs.iter().for_each(|output| output.close());
    }
}

/// Replies of one caller, on their way out.
struct Pile<A> {
    /// The caller whose place this is; with its sink if it is there.
    generation: u32,
    sink: Option<Arc<dyn Sink<A>>>,
    is_touched: bool,
    replies: Vec<Tagged<A>>,
}

impl<A> Default for Pile<A> {
    fn default() -> Self {
        Self { generation: 0, sink: None, is_touched: false, replies: Vec::new() }
    }
}

/// Hands replies to their callers.
pub(crate) struct Delivery<A> {
    shared: Arc<Shared<A>>,
    /// Replies by caller, and the callers that have some; empty between steps.
    piles: Vec<Pile<A>>,
    touched: Vec<u32>,
    /// Replies to callers that are gone.
    unclaimed: Vec<Reply<A>>,
}

impl<A> Delivery<A> {
    fn new(shared: Arc<Shared<A>>) -> Self {
        Self { shared, piles: Vec::new(), touched: Vec::new(), unclaimed: Vec::new() }
    }

    /// Hands all replies of `parcel` out.
    fn hand_out(&mut self, parcel: &mut Parcel<A>) {
        self.sort(parcel);
        self.deliver();
    }

    /// The pile of a caller's place. The place's owner is looked up for the first of its replies, and so after
    /// what was just taken was handed on: no caller that comes later has a reply in there.
    fn pile(&mut self, slot: u32) -> &mut Pile<A> {
        let at = slot as usize;
        if at >= self.piles.len() {
            self.piles.resize_with(at + 1, Pile::default);
        }
        let pile = &mut self.piles[at];
        if !pile.is_touched {
            (pile.generation, pile.sink) = self.shared.callers.at(slot);
            pile.is_touched = true;
            self.touched.push(slot);
        }
        pile
    }

    fn sort(&mut self, parcel: &mut Parcel<A>) {
        for answered in parcel.drain(..) {
            let pile = self.pile(answered.caller.slot);
            if pile.sink.is_some() && pile.generation == answered.caller.generation {
                pile.replies.push((answered.tag, answered.reply));
            } else {
                self.unclaimed.push(answered.reply);
            }
        }
        drop_guarded(&mut self.unclaimed);
    }

    fn deliver(&mut self) {
        for slot in self.touched.drain(..) {
            let Pile { generation, sink, is_touched, replies } = &mut self.piles[slot as usize];
            *is_touched = false;
            let Some(sink) = sink.take().filter(|_| !replies.is_empty()) else { continue };
            add(&self.shared.counters.replies, replies.len() as u64);
            // A caller's code may panic; that is its own loss, not the other callers'.
            if catch_unwind(AssertUnwindSafe(|| sink.deliver(replies))).is_err() {
                self.shared.callers.remove(CallerId { slot, generation: *generation });
            }
            drop_guarded(replies);
            guarded(|| drop(sink)); // its owner may be gone
        }
    }
}

/// The output stage.
pub(crate) struct Output<A> {
    queue: Arc<Queue<Parcel<A>>>,
    shared: Arc<Shared<A>>,
    parcels: Arc<Pool<Parcel<A>>>,
    arrived: Vec<Parcel<A>>,
    delivery: Delivery<A>,
}

impl<A: Send + 'static> Output<A> {
    pub(crate) fn new(
        queue: Arc<Queue<Parcel<A>>>,
        shared: Arc<Shared<A>>,
        parcels: Arc<Pool<Parcel<A>>>,
    ) -> Self {
        let delivery = Delivery::new(shared.clone());
        Self { queue, shared, parcels, arrived: Vec::new(), delivery }
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
        for mut parcel in self.arrived.drain(..) {
            self.delivery.sort(&mut parcel);
            self.parcels.give(parcel);
        }
        self.delivery.deliver();
        Step::Progress
    }

    fn worked(&self, ns: u64) {
        self.shared.counters.worked(StageKind::Output, ns);
    }
}
