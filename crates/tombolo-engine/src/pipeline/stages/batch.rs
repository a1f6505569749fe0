//! `LogBatch`: the item that the execution stage passes to the logging stage.

use crate::pipeline::log::Records;
use crate::pipeline::transport::Answered;

/// A batch's records, and the answers that wait for them.
#[derive(Debug)]
pub(crate) struct LogBatch<A, B> {
    pub(crate) records: B,
    pub(crate) answers: Vec<Answered<A>>,
    pub(crate) transactions: u64,
    /// Callers that wait for the position, in addition to those that wait for an answer.
    pub(crate) waiting: u64,
    /// The log's position after the records.
    pub(crate) position: u64,
    /// That of a transaction over several pipelines; otherwise `NO_EPOCH`.
    pub(crate) epoch: u64,
    /// The room of the log that the records were charged.
    pub(crate) charge: u64,
    /// Whether one of the calls asked for a flush.
    pub(crate) wants_sync: bool,
    /// Whether one of the calls was answered early, so that a crash may lose it.
    pub(crate) is_promised: bool,
    /// Whether the engine itself waits until it is durable.
    pub(crate) is_wanted: bool,
    /// The time at which its first transaction began.
    pub(crate) executed_ns: u64,
    /// The time at which its last one ended.
    pub(crate) ended_ns: u64,
}

impl<A, B: Records> LogBatch<A, B> {
    /// The number of calls that wait for it.
    pub(crate) fn waiting(&self) -> u64 {
        self.answers.len() as u64 + self.waiting
    }

    /// Whether any call, or the engine itself, waits for it.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting() > 0 || self.is_wanted
    }

    /// Its size in a queue.
    pub(crate) fn load_bytes(&self) -> u64 {
        (self.records.bytes().len() + self.answers.len() * size_of::<Answered<A>>()) as u64
    }
}
