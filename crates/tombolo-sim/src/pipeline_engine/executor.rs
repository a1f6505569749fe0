//! The executor of a simulated database: runs requests on a store, and notes in the journal what ran.
//!
//! Not here: the history that judges it (`oracle/history.rs`), long work (`long_read.rs`, `addition.rs`).

use std::sync::Arc;

use tombolo_engine::pipeline::{Batch, Executor};
use tombolo_engine::transaction::Stop;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::image::RowsInPlace;
use tombolo_storage::store::Store;
use tombolo_storage::sync::Mutex;

use super::calls::Asked;
use super::journal::{Happened, Journal};
use crate::database::Recording;
use crate::database::log::TRANSACTION_BYTES_MAX;
use crate::workload::additions::{Addition, Begun, count};
use crate::workload::request::Request;
use crate::workload::step::Step;
use crate::workload::store::{Handles, outcome};

/// Runs requests on a store.
pub(super) struct SimExecutor<R: Recording> {
    pub(super) store: MemoryStore<R::Profile>,
    pub(super) handles: Handles,
    pub(super) recording: R,
    pub(super) journal: Arc<Mutex<Journal>>,
    /// An addition that holds all rows and is not part of the schema yet.
    pub(super) built: Option<Begun>,
    /// Long reads that are open.
    pub(super) reads: usize,
}

impl<R: Recording> Executor for SimExecutor<R> {
    type Request = Asked;
    type Answer = u64;
    type Records = R::Buffer;

    fn execute(&mut self, batch: &mut Batch<'_, Asked, u64>) {
        self.journal.lock().settle();
        while let Some(asked) = batch.request() {
            let ended = match asked.clone() {
                Asked::Run(request) => self.run(request),
                Asked::FinishAddition(tag) => self.finish_addition(tag),
            };
            batch.answer(ended, self.recording.bytes(&self.store));
        }
    }

    fn log_bytes_max(&self, asked: &Asked) -> u64 {
        match asked {
            Asked::Run(request) => log_bytes_max(request),
            Asked::FinishAddition(_) => TRANSACTION_BYTES_MAX,
        }
    }

    fn take_log(&mut self, into: &mut R::Buffer) {
        self.recording.take(&mut self.store, into);
    }

    fn rows_in_place(&mut self) -> Option<RowsInPlace<'_>> {
        self.store.rows_in_place()
    }
}

/// What a request may log.
pub(super) fn log_bytes_max(request: &Request) -> u64 {
    if request.work.only_reads() { 0 } else { TRANSACTION_BYTES_MAX }
}

impl<R: Recording> SimExecutor<R> {
    /// Runs a request for its client, which carries it; says also how much that has logged.
    pub(super) fn carry(&mut self, request: Request) -> (Result<u64, Stop>, usize) {
        self.journal.lock().settle();
        let ended = self.run(request);
        (ended, self.recording.bytes(&self.store))
    }

    fn run(&mut self, request: Request) -> Result<u64, Stop> {
        self.journal.lock().running = Some(request.clone());
        let ended = self.handles.run(&mut self.store, &request);
        let mut journal = self.journal.lock();
        journal.running = None;
        let found = outcome(&ended).map_err(|error| error.to_string());
        journal.note(Happened::Ran(request.clone(), found));
        drop(journal);
        self.recording.ran(&Step::Request(request));
        ended
    }

    /// Makes what was built part of the schema.
    fn finish_addition(&mut self, tag: u64) -> Result<u64, Stop> {
        let Some(begun) = self.built.take() else { return Err(Stop::Abort("none was built")) };
        let addition = begun.addition();
        let finished = begun.finish(&mut self.store);
        if addition == Addition::Column && self.reads > 0 && finished.is_err() {
            self.journal.lock().note(Happened::GaveUp(tag));
            return Err(Stop::Abort("a long read is open"));
        }
        let finished = finished.and_then(|()| self.handles.follow(self.store.schema()));
        self.recording.ran(&Step::Added(count(self.store.schema())));
        let added = finished.map_err(|error| error.to_string());
        self.journal.lock().note(Happened::Added(tag, addition, added));
        Ok(0)
    }
}
