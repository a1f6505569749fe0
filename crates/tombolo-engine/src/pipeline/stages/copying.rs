//! Serves the requests of checkpoint stages for rows when there is no second copy: between two batches, in slices.
//!
//! A request is a long work without a caller (`long.rs`): each slice copies slots of the store into blocks, for as long
//! as a slice may take, and slices take turns with other long work. After the last slice the request returns with the
//! log's current position, up to which the stage then waits. When the pipeline is closed, the execution stage ends
//! before the last checkpoint is written; the checkpoint stages then copy from the executor that it left.
//!
//! Not here: the content of a request (storage `memory/image/request.rs`), waiting and writing (`checkpoint/`).
//! Invariant: each request returns once, even if its work fails.

use std::sync::Arc;

use tombolo_storage::memory::image::Request;
use tombolo_storage::sync::{AtomicBool, Mutex};

use crate::pipeline::checkpoint::{AskRows, Asked, Fetched};
use crate::pipeline::stages::executor::Executor;
use crate::pipeline::stages::long::{LongCall, LongWork, Sliced};
use crate::pipeline::transport::{Durability, Load, Queue};
use crate::transaction::Stop;

/// Bytes that count as one row of a slice: the first slice copies a part of even the shortest block.
const ROW_BYTES: usize = 32;

/// Why rows are not copied.
const NO_ROWS: &str = "the rows cannot be copied";

/// Where the rows are.
pub(crate) struct Desk<E: Executor> {
    pub(crate) queue: Arc<Queue<LongCall<E>>>,
    pub(crate) retired: Arc<Mutex<Option<E>>>,
}

impl<E: Executor> AskRows for Desk<E> {
    fn ask(&self, request: Request, asked: &Arc<Asked>) {
        let copying = Copying { request: Some(request), asked: asked.clone(), position: 0 };
        let call = LongCall {
            work: Box::new(copying),
            caller: None,
            tag: 0,
            durability: Durability::Async,
            is_cancelled: Arc::new(AtomicBool::new(false)),
        };
        // Where it is not taken in, it goes back as it is dropped.
        drop(self.queue.try_put(call, Load::default()));
    }

    fn ask_retired(&self, request: &mut Request) -> Option<bool> {
        let mut retired = self.retired.lock();
        let rows = retired.as_mut()?.rows_in_place();
        let Some(rows) = rows else { return Some(false) };
        while !request.is_served() {
            request.serve(rows, usize::MAX);
        }
        Some(true)
    }
}

/// A request on its way through the execution stage.
struct Copying {
    request: Option<Request>,
    asked: Arc<Asked>,
    /// The log's position at the last slice.
    position: u64,
}

impl Copying {
    fn give_back(&mut self, has_rows: bool) {
        let Some(request) = self.request.take() else { return };
        self.asked.put(match request.is_served() {
            true => Fetched::Served(request, self.position),
            false if has_rows => Fetched::NotTaken(request),
            false => Fetched::NoRows,
        });
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.give_back(true);
    }
}

impl<E: Executor> LongWork<E> for Copying {
    fn begin(&mut self, _: &mut E) -> Result<(), Stop> {
        Ok(())
    }

    fn slice(
        &mut self,
        executor: &mut E,
        rows_max: usize,
        log_end: u64,
    ) -> Result<Sliced<E::Answer>, Stop> {
        self.position = log_end;
        let Some(rows) = executor.rows_in_place() else {
            self.give_back(false);
            return Err(Stop::Abort(NO_ROWS));
        };
        let Some(request) = &mut self.request else { return Ok(Sliced::Over) };
        let bytes = request.serve(rows, rows_max.saturating_mul(ROW_BYTES));
        Ok(match request.is_served() {
            true => Sliced::Over,
            false => Sliced::More { rows: bytes.div_ceil(ROW_BYTES) },
        })
    }

    fn end(&mut self, _: &mut E) {
        self.give_back(true);
    }
}
