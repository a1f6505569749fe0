//! `LongIntake`: submitting long work.
//!
//! Not here: running it (`stages/long.rs`).

use std::sync::Arc;

use tombolo_storage::sync::{AtomicBool, Ordering};

use crate::pipeline::callers::{Caller, NotSubmitted, Submitter};
use crate::pipeline::stages::{Executor, LONG_WORKS_MAX, LongCall, LongHandle, LongWork};
use crate::pipeline::state::Shared;
use crate::pipeline::transport::{Durability, Load, NotPut, Queue, Refusal};

/// The entrance for long work; see [`crate::pipeline::Pipeline::long`].
#[derive(Debug)]
pub struct LongIntake<E: Executor> {
    pub(crate) queue: Arc<Queue<LongCall<E>>>,
    pub(crate) shared: Arc<Shared<E::Answer>>,
}

impl<E: Executor> Clone for LongIntake<E> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), shared: self.shared.clone() }
    }
}

/// The error of [`LongIntake::submit`], with the work.
pub type NotTaken<E> = NotSubmitted<Box<dyn LongWork<E>>>;

impl<E: Executor> LongIntake<E> {
    /// Submits long work; its answer goes to the submitter's sink under `tag`.
    ///
    /// # Errors
    /// The work, when too many wait already ([`LONG_WORKS_MAX`]) or no more is accepted.
    pub fn submit(
        &self,
        submitter: &Submitter<E::Request, E::Answer>,
        work: Box<dyn LongWork<E>>,
        tag: u64,
        durability: Durability,
    ) -> Result<LongHandle, NotTaken<E>> {
        let refusal = || match self.shared.poison() {
            Some(reason) => Refusal::Poisoned(reason.clone()),
            None => Refusal::Closed,
        };
        if self.shared.poison().is_some() {
            return Err(NotSubmitted::Refused(work, refusal()));
        }
        // Waiting and running ones are counted, because each costs a snapshot.
        let under_way = &self.shared.counters.long_under_way;
        if under_way.fetch_add(1, Ordering::Relaxed) >= LONG_WORKS_MAX {
            under_way.fetch_sub(1, Ordering::Relaxed);
            return Err(NotSubmitted::Full(work));
        }
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let handle = LongHandle { is_cancelled: is_cancelled.clone() };
        let caller = Some(submitter.id);
        let call = LongCall { work, caller, tag, durability, is_cancelled };
        let put = self.queue.try_put(call, Load { transactions: 1, bytes: 0 });
        if put.is_err() {
            under_way.fetch_sub(1, Ordering::Relaxed);
        }
        match put {
            Ok(()) => Ok(handle),
            Err(NotPut::Full(call)) => Err(NotSubmitted::Full(call.work)),
            Err(NotPut::Closed(call)) => Err(NotSubmitted::Refused(call.work, refusal())),
        }
    }

    /// Submits long work for a caller that fetches its replies; it counts as one call under way.
    ///
    /// # Errors
    /// As [`LongIntake::submit`].
    pub fn submit_by(
        &self,
        caller: &mut Caller<E::Request, E::Answer>,
        work: Box<dyn LongWork<E>>,
        tag: u64,
        durability: Durability,
    ) -> Result<LongHandle, NotTaken<E>> {
        let handle = self.submit(&caller.submitter, work, tag, durability)?;
        caller.in_flight += 1;
        Ok(handle)
    }
}
