//! What a database has done and what waits in it, at one moment.
//!
//! Not here: times of single calls, which callers measure themselves. The numbers are read one after the other
//! while the database works: each is right, their sums nearly.

use std::sync::Arc;

use tombolo_engine::pipeline::{self, ArchiveStatistics};
use tombolo_storage::sync::Ordering;

use crate::calls::Counters;

/// A database's numbers since it was opened; lengths of queues are those of the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that aborted or were refused by the store.
    pub aborted: u64,
    /// Transactions that panicked.
    pub panicked: u64,
    /// Calls that did not run because one with the same request id did before.
    pub repeated: u64,
    /// Calls whose deadline had passed when their turn came, or passed while they ran.
    pub expired: u64,
    /// Calls that were cancelled before their end.
    pub cancelled: u64,
    /// Calls that were taken in and refused without running: for want of room in the log, or after
    /// a failure.
    pub refused: u64,
    /// Calls that wait to run.
    pub waiting_to_run: u64,
    /// Transactions that have run and wait to be written.
    pub waiting_for_log: u64,
    /// Replies that wait to be handed out.
    pub waiting_to_leave: u64,
    /// Times the log was made durable.
    pub flushes: u64,
    /// Transactions that became durable by those.
    pub flushed_transactions: u64,
    /// Bytes of their records.
    pub flushed_bytes: u64,
    /// Time spent in flushes, in nanoseconds.
    pub flush_ns: u64,
    /// The longest flush, in nanoseconds.
    pub flush_ns_max: u64,
    /// Time that transactions have run, in nanoseconds; calls that ran on their caller's thread are not
    /// timed.
    pub execution_ns: u64,
    /// Times the database was held for longer than the setting `slice_us_max`, by a transaction or
    /// by several; [`Database::overruns`](crate::Database::overruns) names them.
    pub overruns: u64,
    /// The longest of those, in nanoseconds.
    pub overrun_ns_max: u64,
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Bytes of them that were written, those of one under way among them.
    pub checkpoint_bytes: u64,
    /// Time from beginning to completing them, in nanoseconds.
    pub checkpoint_ns: u64,
    /// Times a checkpoint was put off because the disk was full.
    pub checkpoints_put_off: u64,
    /// Whether a checkpoint is under way.
    pub checkpoint_is_under_way: bool,
    /// Why no checkpoint is written any more, if so: the disk failed, and the log grows until the database is
    /// opened again.
    pub checkpoint_failure: Option<Arc<str>>,
    /// The last group of transactions that is in the log's archive; 0 without one.
    pub archived_group: u64,
    /// Files written to the archive.
    pub archive_files: u64,
    /// Their bytes.
    pub archive_bytes: u64,
    /// Times that an archive file could not be written.
    pub archive_failures: u64,
    /// Why the last archive file could not be written, if so: it is tried again, and the log grows meanwhile.
    pub archive_failure: Option<Arc<str>>,
    /// Bytes taken from the system for rows, indexes and what undoes transactions.
    pub memory_bytes: u64,
    /// Bytes that the second copy of all rows takes, which checkpoints are written from: beyond
    /// [`Statistics::memory_bytes`]. With `checkpoint_copy = none`, the blocks that are being copied and written.
    pub second_copy_bytes: u64,
}

impl Statistics {
    pub(crate) fn new(
        counted: &pipeline::Statistics,
        checkpoint_failure: Option<Arc<str>>,
        archive: ArchiveStatistics,
        own: &Counters,
    ) -> Self {
        Self {
            committed: own.committed.load(Ordering::Relaxed),
            aborted: own.aborted.load(Ordering::Relaxed),
            // However else a call ends is in its envelope, where the pipeline does not look.
            panicked: counted.failed + own.panicked.load(Ordering::Relaxed),
            repeated: own.repeated.load(Ordering::Relaxed),
            expired: own.expired.load(Ordering::Relaxed),
            cancelled: own.cancelled.load(Ordering::Relaxed),
            refused: counted.refused,
            waiting_to_run: counted.input_queue.transactions,
            waiting_for_log: counted.log_queue.transactions,
            waiting_to_leave: counted.output_queue.transactions,
            flushes: counted.flushes,
            flushed_transactions: counted.flushed_transactions,
            flushed_bytes: counted.flushed_bytes,
            flush_ns: counted.flush_ns,
            flush_ns_max: counted.flush_ns_max,
            execution_ns: counted.busy.execution_ns,
            overruns: counted.overruns,
            overrun_ns_max: counted.overrun_ns_max,
            checkpoints: counted.checkpoint.count,
            checkpoint_bytes: counted.checkpoint.bytes,
            checkpoint_ns: counted.checkpoint.wall_ns,
            checkpoints_put_off: counted.checkpoint.put_off,
            checkpoint_is_under_way: counted.checkpoint.is_writing,
            checkpoint_failure,
            archived_group: archive.group,
            archive_files: archive.parts,
            archive_bytes: archive.bytes,
            archive_failures: archive.failures,
            archive_failure: archive.failure,
            memory_bytes: own.memory_bytes(),
            second_copy_bytes: counted.checkpoint.copy_bytes,
        }
    }

    /// Transactions a flush made durable on average; 0 before the first.
    pub fn transactions_per_flush(&self) -> f64 {
        if self.flushes == 0 {
            return 0.0;
        }
        self.flushed_transactions as f64 / self.flushes as f64
    }
}
