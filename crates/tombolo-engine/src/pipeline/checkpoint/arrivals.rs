//! `Arrivals`: the installments that a stage took from its handover and has not processed, in the order of the log.
//!
//! A stage that has processed all of them takes everything that the handover has; then it processes the installments,
//! and the records after them that it must read from the log. Processing is installing (`preparing.rs`) or sending
//! (`remote_checkpoint/client.rs`), which are not here. Invariant: when the stage notices a demand, it has taken
//! everything that was durable before the demand.

use std::collections::VecDeque;
use std::sync::Arc;

use tombolo_storage::value_log::LogPosition;

use crate::pipeline::checkpoint::handover::{Handover, Installment, give_back};
use crate::pipeline::checkpoint::state::CheckpointState;
use crate::pipeline::log::Records;
use crate::pipeline::stage::Step;
use crate::pipeline::transport::Pool;

/// See the module's head.
pub(crate) struct Arrivals<B> {
    handover: Arc<Handover<B>>,
    state: Arc<CheckpointState>,
    buffers: Arc<Pool<B>>,
    vectors: Arc<Pool<Vec<B>>>,
    waiting: VecDeque<Arc<Installment<B>>>,
    /// Up to where the log is to be read when nothing waits.
    pub(crate) behind: Option<LogPosition>,
    /// What of the log's files was taken since this was looked at last.
    pub(crate) file_bytes: u64,
    /// Nothing more comes.
    pub(crate) is_closed: bool,
    /// Demands that were made before the handover was looked at last.
    pub(crate) asked: u64,
}

impl<B: Records> Arrivals<B> {
    pub(crate) fn new(
        handover: Arc<Handover<B>>,
        state: Arc<CheckpointState>,
        buffers: Arc<Pool<B>>,
        vectors: Arc<Pool<Vec<B>>>,
    ) -> Self {
        let (waiting, behind, file_bytes) = (VecDeque::new(), None, 0);
        let (is_closed, asked) = (false, 0);
        Self { handover, state, buffers, vectors, waiting, behind, file_bytes, is_closed, asked }
    }

    /// Takes what was handed over, when all before was dealt with.
    pub(crate) fn take(&mut self) {
        if !self.is_caught_up() {
            return;
        }
        // First, so that what was durable before a demand is among what is taken now.
        self.asked = self.state.asked();
        let taken = self.handover.take(&mut self.waiting);
        self.behind = taken.behind;
        self.file_bytes += taken.file_bytes;
        self.is_closed = !taken.is_open;
    }

    /// Whether all that was taken was dealt with.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.waiting.is_empty() && self.behind.is_none()
    }

    /// The next installment.
    pub(crate) fn front(&self) -> Option<&Installment<B>> {
        self.waiting.front().map(|installment| &**installment)
    }

    /// The next installment was dealt with; where the log ends behind it.
    pub(crate) fn passed(&mut self) -> Option<LogPosition> {
        let installment = self.waiting.pop_front()?;
        let position = installment.position;
        give_back(installment, &self.buffers, &self.vectors);
        Some(position)
    }

    /// What has to be read from the log now that nothing waits.
    pub(crate) fn to_read(&self) -> Option<LogPosition> {
        self.behind.filter(|_| self.waiting.is_empty())
    }

    /// Nothing is dealt with any more; only the end is waited for.
    pub(crate) fn leave(&mut self) -> Step {
        for installment in self.waiting.drain(..).chain(self.handover.leave()) {
            give_back(installment, &self.buffers, &self.vectors);
        }
        self.behind = None;
        if self.handover.is_closed() { Step::Ended } else { Step::IdleUntil(None) }
    }
}
