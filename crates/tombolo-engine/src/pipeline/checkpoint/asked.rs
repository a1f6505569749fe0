//! Requests of a checkpoint stage without a second copy for rows, and their results.
//!
//! Not here: serving them (`stages/copying.rs`). Invariant: a stage has at most one request under way.

use std::sync::Arc;

use tombolo_storage::memory::image::Request;
use tombolo_storage::sync::Mutex;

use crate::pipeline::transport::Signal;

/// Where a stage asks for rows.
pub(crate) trait AskRows: Send + Sync {
    /// Has a request served by the execution stage; it comes back by way of `asked`.
    fn ask(&self, request: Request, asked: &Arc<Asked>);

    /// Serves a request from what the execution stage has left, if it has ended: whether there are rows.
    fn ask_retired(&self, request: &mut Request) -> Option<bool>;
}

/// A request that comes back.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// What was copied is to be written when the log is durable up to this position.
    Served(Request, u64),
    /// The execution stage takes nothing, or nothing now.
    NotTaken(Request),
    /// The store has failed, or its executor does not show its rows.
    NoRows,
}

/// The way back.
#[derive(Debug)]
pub(crate) struct Asked {
    fetched: Mutex<Option<Fetched>>,
    stage: Arc<Signal>,
}

impl Asked {
    /// For a stage on the thread that `stage` wakes.
    pub(crate) fn new(stage: Arc<Signal>) -> Self {
        Self { fetched: Mutex::new(None), stage }
    }

    /// Gives a request back.
    pub(crate) fn put(&self, fetched: Fetched) {
        *self.fetched.lock() = Some(fetched);
        self.stage.wake();
    }

    /// What has come back.
    pub(crate) fn take(&self) -> Option<Fetched> {
        self.fetched.lock().take()
    }
}
