//! `LogSender`: passes the records of the execution stage to the logging stage, within the room of the log.
//!
//! Not here: running transactions (`execution/`), the time of a flush (`logging.rs`). Invariant: the
//! charges of all records passed on never exceed the room that the logging stage published.

use std::sync::Arc;

use tombolo_storage::plant::{self, Plant};

use crate::pipeline::log::common::NO_EPOCH;
use crate::pipeline::log::{Cost, Records};
use crate::pipeline::stages::batch::LogBatch;
use crate::pipeline::transport::{Answered, Load, NotPut, Pool, Queue, Refusal};

/// The execution stage's connection to the logging stage.
#[derive(Debug)]
pub(crate) struct LogSender<A, B> {
    pub(crate) queue: Arc<Queue<LogBatch<A, B>>>,
    pub(crate) buffers: Arc<Pool<B>>,
    pub(crate) group_bytes_max: u64,
    pub(crate) cost: Cost,
    /// The position after all records passed to the logging stage.
    pub(crate) position: u64,
    /// The charges of these: records and overhead.
    pub(crate) charged: u64,
    /// A batch that found no room in the queue.
    pub(crate) held: Option<LogBatch<A, B>>,
    /// Set if a caller's thread has passed on records without waking the logging stage's thread: whether any
    /// call waits for them.
    pub(crate) carried: Option<bool>,
}

/// The answers and callers that wait for records.
#[derive(Debug)]
pub(crate) struct Waiting<A> {
    pub(crate) answers: Vec<Answered<A>>,
    pub(crate) transactions: u64,
    /// Callers that wait for the position after the records, without an answer among these.
    pub(crate) waiting: u64,
    pub(crate) wants_sync: bool,
    /// Whether a call was answered early, so that a crash may lose it.
    pub(crate) is_promised: bool,
    /// Whether the engine itself waits for the position.
    pub(crate) is_wanted: bool,
}

impl<A, B: Records> LogSender<A, B> {
    pub(crate) fn new(
        queue: Arc<Queue<LogBatch<A, B>>>,
        buffers: Arc<Pool<B>>,
        group_bytes_max: u64,
        cost: Cost,
    ) -> Self {
        let (position, charged, held, carried) = (0, 0, None, None);
        Self { queue, buffers, group_bytes_max, cost, position, charged, held, carried }
    }

    /// The most bytes of records of one batch, with room up to this sum of charges.
    pub(crate) fn fitting(&self, room_until: u64) -> u64 {
        if plant::is(Plant::ReservationSkipped) {
            return u64::MAX;
        }
        self.cost.fitting(room_until.saturating_sub(self.charged)).min(self.group_bytes_max)
    }

    /// The refusal of a call that may log `log_bytes`, for lack of room.
    pub(crate) fn refusal(&self, log_bytes: u64) -> Refusal {
        let log_bytes_max = self.group_bytes_max;
        match log_bytes > log_bytes_max {
            true => Refusal::TooLarge { log_bytes, log_bytes_max },
            false => Refusal::LogFull,
        }
    }

    /// A batch of records and the answers that wait for them.
    #[inline]
    pub(crate) fn batch(&mut self, records: B, replies: Waiting<A>, now_ns: u64) -> LogBatch<A, B> {
        let Waiting { answers, transactions, waiting, wants_sync, is_promised, is_wanted } =
            replies;
        let record_bytes = records.bytes().len() as u64;
        let charge = self.cost.of(record_bytes);
        self.charged += charge;
        self.position += record_bytes;
        LogBatch {
            records,
            answers,
            transactions,
            waiting,
            position: self.position,
            epoch: NO_EPOCH,
            charge,
            wants_sync,
            is_promised,
            is_wanted,
            executed_ns: now_ns,
            ended_ns: now_ns,
        }
    }

    /// Keeps records, and the answers that wait for them, until they are passed on.
    pub(crate) fn hold(&mut self, records: B, replies: Waiting<A>, now_ns: u64) {
        assert!(self.held.is_none(), "held records are passed on first");
        self.held = Some(self.batch(records, replies, now_ns));
    }

    /// Passes on the held batch; returns whether none is left. Wakes the logging stage's thread, unless
    /// a caller's thread does this, which takes care of the log itself.
    pub(crate) fn hand_on(&mut self, is_carried: bool) -> bool {
        self.held.take().is_none_or(|batch| self.offer(batch, is_carried))
    }

    /// The same with a batch of a transaction over several pipelines, whatever room the queue has: its batches go into
    /// all their queues at one moment.
    pub(crate) fn put(&mut self, batch: LogBatch<A, B>) {
        assert!(self.held.is_none(), "held records are passed on first");
        self.carried = self.carried.max(Some(batch.is_waited_for()));
        let load = Load { transactions: batch.transactions, bytes: batch.load_bytes() };
        self.queue.put_anyway_silently(batch, load);
    }

    /// The same with a new batch.
    #[inline]
    pub(crate) fn offer(&mut self, batch: LogBatch<A, B>, is_carried: bool) -> bool {
        let load = Load { transactions: batch.transactions, bytes: batch.load_bytes() };
        let is_waited_for = batch.is_waited_for();
        match self.queue.offer_silently(batch, load) {
            Ok(()) if is_carried => {
                self.carried = self.carried.max(Some(is_waited_for));
                true
            }
            Ok(()) => {
                if !plant::is(Plant::HandedOnSilently) {
                    self.queue.wake();
                }
                true
            }
            // Only after a stage broke down; the callers have been notified.
            Err(NotPut::Closed(_)) => true,
            Err(NotPut::Full(batch)) => {
                self.held = Some(batch);
                self.queue.wake(); // batches that callers passed on silently may fill the queue
                false
            }
        }
    }
}
