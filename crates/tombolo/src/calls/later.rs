//! Calls that are answered later than the pipeline replies: on an island among others, those that wait for a lock or
//! for other islands.
//!
//! The pipeline gets a mark as the answer, which is dropped where replies arrive, and the call's slot stays open. Not
//! here: when it is answered (`islands/member.rs`). Invariant: a call whose pipeline's answer is the mark is
//! answered once through [`LaterSlots::answer`], unless its database stops.

use std::any::Any;
use std::sync::Arc;

use tombolo_engine::pipeline::{Reply, Sink, Tagged};

use super::envelope::{Envelope, How, Otherwise};
use super::reply_slots::ReplySlots;
use crate::product::Product;
use crate::tx::Tables;

/// The mark.
pub(crate) struct Later;

impl Envelope for Later {
    fn run(&mut self, _: &mut Product, _: &mut Tables) -> How {
        unreachable!("it is an answer")
    }

    fn of_islands(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn end_otherwise(&mut self, _: Otherwise) {}

    fn name(&self) -> &'static str {
        "a call that waits"
    }

    fn input(&mut self) -> &mut dyn Any {
        unreachable!("it is an answer")
    }

    fn ran(&mut self) -> &mut dyn Any {
        unreachable!("it is an answer")
    }
}

/// A set of reply slots in which the mark does not count as a reply.
pub(crate) struct LaterSlots(pub(crate) Arc<ReplySlots>);

impl LaterSlots {
    /// Answers a call, by the number by which the pipeline knew it; what it answers is durable, or there is no log.
    pub(crate) fn answer(sets: &[Arc<ReplySlots>], number: u64, envelope: Box<dyn Envelope>) {
        let set = &sets[(number >> 32) as usize]; // see `ReplySlots::number`
        set.deliver(&mut vec![(number, Reply::Durable(Ok(envelope)))]);
    }
}

impl Sink<Box<dyn Envelope>> for LaterSlots {
    fn deliver(&self, replies: &mut Vec<Tagged<Box<dyn Envelope>>>) {
        replies.retain_mut(|(_, reply)| match reply {
            Reply::Durable(Ok(envelope))
            | Reply::PreCommitted(Ok(envelope))
            | Reply::Volatile(Ok(envelope)) => {
                !envelope.of_islands().is_some_and(|mark| mark.is::<Later>())
            }
            _ => true,
        });
        self.0.deliver(replies);
    }

    fn broken(&self, reason: &Arc<str>) {
        self.0.broken(reason);
    }
}
