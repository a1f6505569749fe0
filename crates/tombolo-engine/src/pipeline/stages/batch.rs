//! `LogBatch`: what the execution stage hands to the logging stage.

use crate::pipeline::log::Records;
use crate::pipeline::transport::Answered;

/// What the execution stage hands on: a batch's records, and the answers that wait for them.
#[derive(Debug)]
pub(crate) struct LogBatch<A, B> {
    pub(crate) records: B,
    pub(crate) answers: Vec<Answered<A>>,
    pub(crate) transactions: u64,
    /// Callers that wait for the position, besides those that wait for an answer.
    pub(crate) waiting: u64,
    /// The log's position behind the records.
    pub(crate) position: u64,
    /// What of the log's room the records were charged.
    pub(crate) charge: u64,
    /// Whether one of the calls asked for a flush.
    pub(crate) wants_sync: bool,
    /// Whether one of the calls was answered already, which a crash may lose.
    pub(crate) is_promised: bool,
    /// When its first transaction began.
    pub(crate) executed_ns: u64,
    /// When its last one ended.
    pub(crate) ended_ns: u64,
}

impl<A, B: Records> LogBatch<A, B> {
    /// How many calls wait for it.
    pub(crate) fn waiting(&self) -> u64 {
        self.answers.len() as u64 + self.waiting
    }

    /// Whether any call waits for it.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting() > 0
    }

    /// The room it takes in a queue.
    pub(crate) fn load_bytes(&self) -> u64 {
        (self.records.bytes().len() + self.answers.len() * size_of::<Answered<A>>()) as u64
    }
}
