//! What the execution stage did, in order, for the world to judge.
//!
//! Not here: whether it is right (`replies.rs`, `oracle/history.rs`).

use crate::workload::additions::Addition;
use crate::workload::model::Outcome;
use crate::workload::request::Request;

/// Something the execution stage did.
#[derive(Debug)]
pub(super) enum Happened {
    /// It ran a request, with this outcome.
    Ran(Request, Result<Outcome, String>),
    /// It began a long read of this tag.
    OpenedSnapshot(u64),
    /// It began to add something for the call of this tag.
    BeganAddition(u64),
    /// It made the addition part of the schema in the call of this tag, or was refused.
    Added(u64, Addition, Result<(), String>),
    /// It gave the addition up in the call of this tag, because an open long read knows rows without it.
    GaveUp(u64),
}

/// What the executor and the world share.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// What happened, in order, and was not judged yet.
    happened: Vec<Happened>,
    /// What began and has not ended; if it is still here later, it panicked.
    pub(super) running: Option<Request>,
}

impl Journal {
    /// What began and never ended has panicked.
    pub(super) fn settle(&mut self) {
        if let Some(request) = self.running.take() {
            self.happened.push(Happened::Ran(request, Ok(Outcome::Panicked)));
        }
    }

    /// Something happened.
    pub(super) fn note(&mut self, happened: Happened) {
        self.settle();
        self.happened.push(happened);
    }

    /// All that happened and was not judged yet.
    pub(super) fn take(&mut self) -> Vec<Happened> {
        self.settle();
        std::mem::take(&mut self.happened)
    }
}
