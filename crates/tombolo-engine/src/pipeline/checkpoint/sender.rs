//! The logging stage's way to the checkpoint stages: the records of each flush, and how the log ends.
//!
//! Not here: what the stages do with them.

use std::sync::Arc;

use tombolo_storage::value_log::{GroupNumber, LogPosition, LogSettings};

use super::handover::{Handover, Installment, give_back};
use super::state::CheckpointState;
use super::writing::Exchange;
use crate::pipeline::log::Records;
use crate::pipeline::transport::Pool;

/// Records of a flush that are copied have at most so many bytes: to copy more costs more than what it
/// spares.
pub(crate) const COPIED_BYTES_MAX: u64 = 16 << 10;

/// What logging hands records on with.
pub(crate) struct CheckpointSender<B> {
    pub(crate) state: Arc<CheckpointState>,
    pub(crate) handovers: Vec<Arc<Handover<B>>>,
    pub(crate) exchanges: Vec<Arc<Exchange>>,
    pub(crate) buffers: Arc<Pool<B>>,
    pub(crate) vectors: Arc<Pool<Vec<B>>>,
    /// The log's, if its files are read back.
    pub(crate) settings: Option<LogSettings>,
    /// Records of a flush are copied if they have no more bytes.
    pub(crate) copied_bytes_max: u64,
    /// Before which group the log was released, 0 before the first release: a former process may have kept log
    /// that its archive lacked then, though a checkpoint made it needless.
    pub(crate) released: GroupNumber,
    /// Whether all before the next flush was handed on.
    pub(crate) is_gapless: bool,
}

impl<B: Records> CheckpointSender<B> {
    /// Hands on what a flush made durable, which ends at `position`; `records` is empty afterwards.
    pub(crate) fn hand_on(&mut self, position: Option<LogPosition>, records: &mut Vec<B>) {
        let record_bytes = records.iter().map(|records| records.bytes().len() as u64).sum();
        let is_for_stages = record_bytes > 0 && self.state.failure().is_none();
        let Some(position) = position.filter(|_| is_for_stages) else {
            return records.drain(..).for_each(|records| self.buffers.give_records(records));
        };
        let settings = self.settings.as_ref();
        let file_bytes =
            settings.map_or(record_bytes, |settings| settings.group_bytes(record_bytes));
        if record_bytes <= self.copied_bytes_max && self.is_gapless {
            for handover in &self.handovers {
                handover.put_copy(position, records, file_bytes);
            }
            return records.drain(..).for_each(|records| self.buffers.give_records(records));
        }
        let bytes = records.iter().map(|records| records.memory_bytes() as u64).sum();
        let records = std::mem::replace(records, self.vectors.take());
        let installment = Arc::new(Installment::new(position, records, file_bytes));
        for handover in &self.handovers {
            match self.is_gapless {
                true => handover.put(&installment, bytes),
                false => handover.put_position(position),
            }
        }
        self.is_gapless = true;
        give_back(installment, &self.buffers, &self.vectors);
    }

    /// The log is durable up to `position`, and its records are read from its files.
    pub(crate) fn put_position(&mut self, position: LogPosition) {
        self.handovers.iter().for_each(|handover| handover.put_position(position));
        self.is_gapless = true;
    }

    /// The ends through which other code reaches the stages.
    pub(crate) fn control(&self) -> CheckpointControl<B> {
        let Self { state, handovers, exchanges, .. } = self;
        CheckpointControl {
            state: Arc::clone(state),
            handovers: handovers.clone(),
            exchanges: exchanges.clone(),
        }
    }

    /// Before which group the log may go, if that is news.
    pub(crate) fn newly_releasable(&mut self) -> Option<GroupNumber> {
        let needed_from = self.state.needed_from();
        let is_news = needed_from > self.released;
        self.released = needed_from;
        is_news.then_some(needed_from)
    }

    /// The log ends at `position`, and what is behind all that was handed on is of no rows.
    pub(crate) fn put_end(&self, position: LogPosition) {
        let end = Arc::new(Installment::new(position, Vec::new(), 0));
        for handover in &self.handovers {
            match self.is_gapless {
                true => handover.put(&end, 0),
                false => handover.put_position(position),
            }
        }
    }

    /// Nothing more comes; the log ends at `position`.
    pub(crate) fn close(&self, position: Option<LogPosition>) {
        if let Some(position) = position {
            self.put_end(position);
        }
        self.handovers.iter().for_each(|handover| handover.close());
    }
}

/// The state of checkpoints, and what ends their stages.
pub(crate) struct CheckpointControl<B> {
    pub(crate) state: Arc<CheckpointState>,
    handovers: Vec<Arc<Handover<B>>>,
    exchanges: Vec<Arc<Exchange>>,
}

impl<B: Records> CheckpointControl<B> {
    /// A stage broke down, and nothing more comes.
    pub(crate) fn close_broken(&self, reason: &str) {
        self.state.fail(reason);
        self.handovers.iter().for_each(|handover| handover.close());
        self.exchanges.iter().for_each(|exchange| exchange.close());
    }
}
