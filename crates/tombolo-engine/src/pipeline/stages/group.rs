//! `Group`: the batches that the logging stage makes durable together.
//!
//! Not here: writing it, releasing its answers (`logging.rs`). Invariant: its transactions over several pipelines are
//! all of one epoch.

use crate::pipeline::log::Records;
use crate::pipeline::log::common::NO_EPOCH;
use crate::pipeline::policy::GroupPolicy;
use crate::pipeline::stages::batch::LogBatch;
use crate::pipeline::transport::Answered;

/// Batches that were executed and are not durable.
#[derive(Debug)]
pub(super) struct Group<A, B> {
    pub(super) records: Vec<B>,
    /// The number of batches already written by a flush that ran out of room.
    pub(super) written: usize,
    pub(super) answers: Vec<Vec<Answered<A>>>,
    /// The number of calls that wait for it.
    pub(super) waiting: u64,
    pub(super) transactions: u64,
    pub(super) bytes: u64,
    pub(super) position: u64,
    /// That of its transactions over several pipelines, if it has any.
    pub(super) epoch: u64,
    pub(super) charges: u64,
    pub(super) first_ns: u64,
    pub(super) wants_sync: bool,
    /// Whether some calls were answered early, which bounds the time until the flush.
    pub(super) is_promised: bool,
    /// Whether the engine itself waits for it.
    pub(super) is_wanted: bool,
}

impl<A, B: Records> Group<A, B> {
    pub(super) fn new() -> Self {
        Self {
            records: Vec::new(),
            written: 0,
            answers: Vec::new(),
            waiting: 0,
            transactions: 0,
            bytes: 0,
            position: 0,
            epoch: NO_EPOCH,
            charges: 0,
            first_ns: 0,
            wants_sync: false,
            is_promised: false,
            is_wanted: false,
        }
    }

    /// Empties it and keeps its vectors.
    pub(super) fn reset(&mut self) {
        let records = std::mem::take(&mut self.records);
        let answers = std::mem::take(&mut self.answers);
        assert!(records.is_empty() && answers.is_empty(), "everything was passed on");
        *self = Self { records, answers, ..Self::new() };
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.answers.is_empty()
    }

    pub(super) fn add(&mut self, batch: LogBatch<A, B>) {
        if self.is_empty() {
            self.first_ns = batch.executed_ns;
        }
        self.transactions += batch.transactions;
        self.bytes += batch.records.bytes().len() as u64;
        self.position = batch.position;
        self.epoch = self.epoch.max(batch.epoch);
        self.charges += batch.charge;
        self.wants_sync |= batch.wants_sync;
        self.is_promised |= batch.is_promised;
        self.is_wanted |= batch.is_wanted;
        self.waiting += batch.waiting();
        self.records.push(batch.records);
        if !batch.answers.is_empty() {
            self.answers.push(batch.answers);
        }
    }

    /// Whether a batch may go into the group, which has transactions of one epoch.
    pub(super) const fn admits(&self, batch: &LogBatch<A, B>) -> bool {
        self.epoch == NO_EPOCH || batch.epoch == NO_EPOCH || batch.epoch == self.epoch
    }

    /// The records of the last of several batches, as a batch for which no caller waits: a planted bug.
    #[cold]
    pub(super) fn split_last(&mut self) -> Option<LogBatch<A, B>> {
        let records = if self.records.len() > 1 { self.records.pop()? } else { return None };
        let (answers, transactions, waiting) = (Vec::new(), 0, 0);
        let (charge, wants_sync, is_promised, is_wanted) = (0, false, false, false);
        let (position, executed_ns, ended_ns) = (self.position, self.first_ns, self.first_ns);
        let epoch = NO_EPOCH;
        self.bytes -= records.bytes().len() as u64;
        Some(LogBatch {
            records,
            answers,
            transactions,
            waiting,
            position,
            epoch,
            charge,
            wants_sync,
            is_promised,
            is_wanted,
            executed_ns,
            ended_ns,
        })
    }

    /// The latest time of its flush, if nothing else arrives; with `auto` not before `until_ns`.
    pub(super) fn deadline_ns(&self, policy: &GroupPolicy, until_ns: Option<u64>) -> u64 {
        let loss_ns = match self.is_promised || self.waiting == 0 {
            true => self.first_ns.saturating_add(policy.async_loss_ns_max / 2),
            false => u64::MAX,
        };
        match policy.time_ns {
            None if self.waiting > 0 || self.is_wanted => {
                until_ns.map_or(0, |until_ns| until_ns.min(loss_ns))
            }
            None => loss_ns,
            Some(of_group) => self.first_ns.saturating_add(of_group).min(loss_ns),
        }
    }

    pub(super) fn is_due(&self, now_ns: u64, policy: &GroupPolicy, until_ns: Option<u64>) -> bool {
        self.wants_sync
            || self.transactions >= policy.transactions
            || now_ns >= self.deadline_ns(policy, until_ns)
    }
}
