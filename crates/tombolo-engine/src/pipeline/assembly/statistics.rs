//! The counters of a pipeline, as a caller reads them.
//!
//! Not here: histograms; a caller that wants one gives the logging stage an observer of flushes.

use crate::pipeline::checkpoint::CheckpointStatistics;
use crate::pipeline::state::{Counters, get};
use crate::pipeline::transport::Load;

/// Time a kind of stage has worked, in nanoseconds, over all its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Input stages.
    pub input_ns: u64,
    /// The execution stage.
    pub execution_ns: u64,
    /// The logging stage, its waiting for the device among it.
    pub logging_ns: u64,
    /// Output stages.
    pub output_ns: u64,
    /// Checkpoint stages, their waiting for the device among it.
    pub checkpoint_ns: u64,
}

/// A pipeline's numbers since it started; the queues' lengths are those of the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Transactions that ran, whatever became of them.
    pub executed: u64,
    /// Those of them that had no effect: aborted, refused by the store, panicked.
    pub failed: u64,
    /// Calls that were refused without running, behind the submitter.
    pub refused: u64,
    /// Batches the execution stage made.
    pub batches: u64,
    /// Replies that left without waiting for the log.
    pub early: u64,
    /// Times the log was made durable for waiting transactions.
    pub flushes: u64,
    /// Groups written for that.
    pub groups: u64,
    /// Empty groups that sealed the last one.
    pub seals: u64,
    /// Times a group waited because the log had no room.
    pub stalls: u64,
    /// Transactions that became durable by flushes.
    pub flushed_transactions: u64,
    /// Bytes of their records.
    pub flushed_bytes: u64,
    /// Time spent in flushes, in nanoseconds.
    pub flush_ns: u64,
    /// The longest flush, in nanoseconds.
    pub flush_ns_max: u64,
    /// Replies handed to callers.
    pub replies: u64,
    /// Slices of long work that ran.
    pub slices: u64,
    /// Those of them that took longer than `slice_us_max`.
    pub slices_late: u64,
    /// Time spent in slices, in nanoseconds.
    pub slice_ns: u64,
    /// The longest slice, in nanoseconds.
    pub slice_ns_max: u64,
    /// Long works that are over, whatever became of them.
    pub long_works: u64,
    /// Batches that took longer than their transactions' mean explains by more than
    /// `slice_us_max`: in each of them a procedure ran for too long.
    pub overruns: u64,
    /// The longest of those batches, in nanoseconds.
    pub overrun_ns_max: u64,
    /// Checkpoints, where they are written.
    pub checkpoint: CheckpointStatistics,
    /// How long each kind of stage has worked.
    pub busy: Busy,
    /// What waits for execution.
    pub input_queue: Load,
    /// What waits for logging.
    pub log_queue: Load,
    /// What waits for output, in all output queues.
    pub output_queue: Load,
}

impl Statistics {
    /// Transactions a flush made durable on average; 0 before the first.
    pub fn transactions_per_flush(&self) -> f64 {
        if self.flushes == 0 {
            return 0.0;
        }
        self.flushed_transactions as f64 / self.flushes as f64
    }

    pub(crate) fn of(counters: &Counters) -> Self {
        let carried_early = get(&counters.carried_early);
        let carried = carried_early + get(&counters.carried_waiting);
        Self {
            executed: get(&counters.executed) + carried,
            failed: get(&counters.failed),
            refused: get(&counters.refused),
            batches: get(&counters.batches) + carried,
            early: get(&counters.early) + carried_early,
            flushes: get(&counters.flushes),
            groups: get(&counters.groups),
            seals: get(&counters.seals),
            stalls: get(&counters.stalls),
            flushed_transactions: get(&counters.flushed_transactions),
            flushed_bytes: get(&counters.flushed_bytes),
            flush_ns: get(&counters.flush_ns),
            flush_ns_max: get(&counters.flush_ns_max),
            replies: get(&counters.replies),
            slices: get(&counters.slices),
            slices_late: get(&counters.slices_late),
            slice_ns: get(&counters.slice_ns),
            slice_ns_max: get(&counters.slice_ns_max),
            long_works: get(&counters.long_works),
            overruns: get(&counters.overruns),
            overrun_ns_max: get(&counters.overrun_ns_max),
            busy: Busy {
                input_ns: get(&counters.busy_ns[0]),
                execution_ns: get(&counters.busy_ns[1]),
                logging_ns: get(&counters.busy_ns[2]),
                output_ns: get(&counters.busy_ns[3]),
                checkpoint_ns: get(&counters.busy_ns[4]),
            },
            ..Self::default()
        }
    }
}
