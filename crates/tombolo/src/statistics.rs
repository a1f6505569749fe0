//! `Statistics`: a database's counters and queue lengths at one moment.
//!
//! Not here: times of single calls, which callers can measure themselves. The numbers are read one after the
//! other while the database works: each is exact, but sums of them are approximate.

use std::sync::Arc;

use tombolo_engine::pipeline::{self, ArchiveStatistics};
use tombolo_storage::sync::Ordering;

use crate::calls::{Counters, OverIslands};

/// Counters since the database was opened, and the current lengths of queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that aborted or were refused by the store.
    pub aborted: u64,
    /// Transactions that panicked.
    pub panicked: u64,
    /// Calls that did not run because a call with the same request id had run before.
    pub repeated: u64,
    /// Calls whose deadline had passed when their turn came, or passed while they ran.
    pub expired: u64,
    /// Calls that were cancelled before their end.
    pub cancelled: u64,
    /// Of the committed transactions, those over several islands ([`Islands`](crate::Islands)): each is counted on the
    /// island on which it began.
    pub over_islands: u64,
    /// Of these, closures that reached their islands as they went: with declared parts they would hold their
    /// islands for less time.
    pub over_islands_by_closure: u64,
    /// Of these, declared parts that their islands ran, by messages: their caller did not get all islands at once.
    pub over_islands_by_messages: u64,
    /// Of these, those that were ordered: they were written to the logs of their islands without being prepared
    /// ([`AtomicCommit::Ordered`](crate::AtomicCommit::Ordered)).
    pub over_islands_ordered: u64,
    /// Calls that were queued but refused without running: for lack of room in the log, or after
    /// a failure.
    pub refused: u64,
    /// Calls that wait to run.
    pub waiting_to_run: u64,
    /// Transactions that have run and wait to be written to the log.
    pub waiting_for_log: u64,
    /// Replies that wait for delivery.
    pub waiting_to_leave: u64,
    /// Times the log was made durable.
    pub flushes: u64,
    /// Transactions made durable by these flushes.
    pub flushed_transactions: u64,
    /// Bytes of log records in these flushes.
    pub flushed_bytes: u64,
    /// Time spent in flushes, in nanoseconds.
    pub flush_ns: u64,
    /// The longest flush, in nanoseconds.
    pub flush_ns_max: u64,
    /// Total run time of transactions, in nanoseconds; calls that ran on their caller's thread are not
    /// timed.
    pub execution_ns: u64,
    /// Number of times that one or several transactions occupied the database for longer than the setting
    /// `slice_us_max`; [`Database::overruns`](crate::Database::overruns) names them.
    pub overruns: u64,
    /// The longest of these times, in nanoseconds.
    pub overrun_ns_max: u64,
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Bytes written by checkpoints, including one under way.
    pub checkpoint_bytes: u64,
    /// Total duration of the completed checkpoints, in nanoseconds.
    pub checkpoint_ns: u64,
    /// Times a checkpoint was put off because the disk was full.
    pub checkpoints_put_off: u64,
    /// Whether a checkpoint is under way.
    pub checkpoint_is_under_way: bool,
    /// The failure that stopped checkpoints, if any: the disk failed, and the log grows until the database is
    /// opened again.
    pub checkpoint_failure: Option<Arc<str>>,
    /// The last group of transactions in the log's archive; 0 without an archive.
    pub archived_group: u64,
    /// Files written to the archive.
    pub archive_files: u64,
    /// Bytes written to the archive.
    pub archive_bytes: u64,
    /// Failed attempts to write an archive file.
    pub archive_failures: u64,
    /// The error of the last attempt, if it failed: archiving is retried, and the log grows meanwhile.
    pub archive_failure: Option<Arc<str>>,
    /// Bytes allocated from the system for rows, indexes and undo notes.
    pub memory_bytes: u64,
    /// Bytes of the second copy of all rows, from which checkpoints are written, in addition to
    /// [`Statistics::memory_bytes`]. With `checkpoint_copy = none`: of the blocks that are
    /// being copied and written.
    pub second_copy_bytes: u64,
}

/// How many fields are numbers.
const NUMBERS: usize = 32;

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
            // Other endings of a call are recorded in its envelope, which the pipeline does not read.
            panicked: counted.failed + own.panicked.load(Ordering::Relaxed),
            repeated: own.repeated.load(Ordering::Relaxed),
            expired: own.expired.load(Ordering::Relaxed),
            cancelled: own.cancelled.load(Ordering::Relaxed),
            over_islands: [OverIslands::Parts, OverIslands::Messages, OverIslands::Closure]
                .map(|how| own.over_islands(how))
                .iter()
                .sum(),
            over_islands_by_closure: own.over_islands(OverIslands::Closure),
            over_islands_by_messages: own.over_islands(OverIslands::Messages),
            over_islands_ordered: own.ordered(),
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

    /// Those of several islands together. Counts, bytes and times are added, the longest times are the longest of all;
    /// of a failure, one is there. `archived_group` is the smallest: each island has a log of its own.
    ///
    /// ```
    /// # use tombolo::{Database, Statistics};
    /// let db = Database::builder().islands(2).in_memory()?;
    /// for key in 0..10u64 {
    ///     db.at(&key)?.transaction(|_| Ok(()))?;
    /// }
    /// assert_eq!(Statistics::sum(&db.statistics()).committed, 10);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    pub fn sum<'s>(all: impl IntoIterator<Item = &'s Self>) -> Self {
        let mut all = all.into_iter();
        let mut sum = all.next().cloned().unwrap_or_default();
        for one in all {
            sum.add(one.clone());
        }
        sum
    }

    fn add(&mut self, mut other: Self) {
        let flush_ns_max = self.flush_ns_max.max(other.flush_ns_max);
        let overrun_ns_max = self.overrun_ns_max.max(other.overrun_ns_max);
        let archived_group = self.archived_group.min(other.archived_group);
        let both = self.numbers().into_iter().zip(other.numbers());
        both.for_each(|(sum, other)| *sum = sum.saturating_add(*other));
        (self.flush_ns_max, self.overrun_ns_max) = (flush_ns_max, overrun_ns_max);
        self.archived_group = archived_group;
        self.checkpoint_is_under_way |= other.checkpoint_is_under_way;
        self.checkpoint_failure = self.checkpoint_failure.take().or(other.checkpoint_failure);
        self.archive_failure = self.archive_failure.take().or(other.archive_failure);
    }

    /// All that are numbers, in the order of the fields.
    #[expect(
        clippy::too_many_lines,
        reason = "a field that is added and left out here does not compile"
    )]
    pub(crate) const fn numbers(&mut self) -> [&mut u64; NUMBERS] {
        let Self {
            committed,
            aborted,
            panicked,
            repeated,
            expired,
            cancelled,
            over_islands,
            over_islands_by_closure,
            over_islands_by_messages,
            over_islands_ordered,
            refused,
            waiting_to_run,
            waiting_for_log,
            waiting_to_leave,
            flushes,
            flushed_transactions,
            flushed_bytes,
            flush_ns,
            flush_ns_max,
            execution_ns,
            overruns,
            overrun_ns_max,
            checkpoints,
            checkpoint_bytes,
            checkpoint_ns,
            checkpoints_put_off,
            checkpoint_is_under_way: _,
            checkpoint_failure: _,
            archived_group,
            archive_files,
            archive_bytes,
            archive_failures,
            archive_failure: _,
            memory_bytes,
            second_copy_bytes,
        } = self;
        [
            committed,
            aborted,
            panicked,
            repeated,
            expired,
            cancelled,
            over_islands,
            over_islands_by_closure,
            over_islands_by_messages,
            over_islands_ordered,
            refused,
            waiting_to_run,
            waiting_for_log,
            waiting_to_leave,
            flushes,
            flushed_transactions,
            flushed_bytes,
            flush_ns,
            flush_ns_max,
            execution_ns,
            overruns,
            overrun_ns_max,
            checkpoints,
            checkpoint_bytes,
            checkpoint_ns,
            checkpoints_put_off,
            archived_group,
            archive_files,
            archive_bytes,
            archive_failures,
            memory_bytes,
            second_copy_bytes,
        ]
    }

    /// Transactions a flush made durable on average; 0 before the first.
    pub fn transactions_per_flush(&self) -> f64 {
        if self.flushes == 0 {
            return 0.0;
        }
        self.flushed_transactions as f64 / self.flushes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_adds_counts_and_keeps_the_longest_times() {
        let mut one = Statistics::default();
        one.numbers().into_iter().zip(1..).for_each(|(field, number)| *field = number);
        let other = Statistics {
            committed: 10,
            flush_ns_max: 3,
            overrun_ns_max: 1_000,
            archived_group: 2,
            checkpoint_is_under_way: true,
            archive_failure: Some("the disk".into()),
            ..Statistics::default()
        };
        let sum = Statistics::sum([&one, &other]);
        assert_eq!(sum.committed, one.committed + 10);
        assert_eq!(sum.second_copy_bytes, one.second_copy_bytes);
        assert_eq!((sum.flush_ns_max, sum.overrun_ns_max), (one.flush_ns_max, 1_000));
        assert_eq!(sum.archived_group, 2);
        assert!(sum.checkpoint_is_under_way && sum.checkpoint_failure.is_none());
        assert_eq!(sum.archive_failure.as_deref(), Some("the disk"));
        assert_eq!(Statistics::sum([]), Statistics::default());
    }
}
