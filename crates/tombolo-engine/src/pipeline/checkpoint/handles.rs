//! Handles for programs: a checkpoint that the program demanded, and a hold on all checkpoints.
//!
//! While the image and the log after it are copied, no checkpoint begins; a checkpoint under way ends
//! first. So the image does not change, and no group of the log after it is released, since only a complete
//! checkpoint allows that. Transactions continue, and the log grows. Not here: copying. Invariant: the end of a hold
//! wakes the stages that wanted a checkpoint meanwhile.

use std::sync::Arc;

use super::demands::CheckpointRefusal;
use super::state::CheckpointState;
use crate::pipeline::state::get;

/// A checkpoint that was asked for.
#[derive(Clone, Debug)]
pub struct CheckpointHandle(Result<(Arc<CheckpointState>, u64), CheckpointRefusal>);

impl CheckpointHandle {
    /// Asks for a checkpoint that holds everything that was durable before this call.
    pub(crate) fn ask(state: Option<&Arc<CheckpointState>>) -> Self {
        let Some(state) = state else { return Self(Err(CheckpointRefusal::Off)) };
        let mut demands = state.demands.lock();
        demands.asked += 1;
        let number = demands.asked;
        drop(demands);
        state.wake_stages();
        Self(Ok((Arc::clone(state), number)))
    }

    /// What became of it, if it is over.
    pub fn poll(&self) -> Option<Result<(), CheckpointRefusal>> {
        match &self.0 {
            Err(refusal) => Some(Err(refusal.clone())),
            Ok((state, number)) => state.demands.lock().outcome(*number),
        }
    }

    /// Waits until it is complete.
    ///
    /// # Errors
    /// Why it will not be, or not now.
    pub fn wait(&self) -> Result<(), CheckpointRefusal> {
        let (state, number) = self.0.as_ref().map_err(CheckpointRefusal::clone)?;
        let mut demands = state.demands.lock();
        loop {
            if let Some(outcome) = demands.outcome(*number) {
                return outcome;
            }
            demands = state.demands_changed.wait(demands);
        }
    }
}

/// No checkpoint is written as long as this lives.
#[derive(Debug)]
#[must_use = "checkpoints resume when it is dropped"]
pub struct CheckpointHold(Option<Arc<CheckpointState>>);

impl CheckpointHold {
    /// Waits for the checkpoint that is under way, if one is, and lets no other begin. A database that
    /// writes none, or none any more, is held without a hold.
    ///
    /// # Errors
    /// `Full` when the one under way finds the disk full.
    pub(crate) fn new(state: Option<&Arc<CheckpointState>>) -> Result<Self, CheckpointRefusal> {
        let Some(state) = state else { return Ok(Self(None)) };
        let mut activity = state.activity.lock();
        activity.holds += 1;
        let hold = Self(Some(Arc::clone(state)));
        state.wake_stages(); // one that speaks for another process reports it
        let put_off = get(&state.counts.put_off);
        while state.failure().is_none() && activity.is_busy {
            if get(&state.counts.put_off) > put_off {
                drop(activity);
                return Err(state.last_refusal());
            }
            activity = state.rested.wait(activity);
        }
        drop(activity);
        Ok(hold)
    }
}

impl Drop for CheckpointHold {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            state.activity.lock().holds -= 1;
            state.wake_stages();
        }
    }
}
