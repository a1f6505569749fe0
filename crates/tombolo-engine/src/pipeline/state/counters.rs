//! What the stages and the callers of a pipeline count.
//!
//! Each counter but one has one writer, which adds once per batch or flush. Not here: what a caller sees of it
//! (`assembly/statistics.rs`).

use tombolo_storage::sync::{AtomicU64, Ordering};

use crate::pipeline::stage::StageKind;

/// The counters' places.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) executed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) early: AtomicU64,
    /// Transactions that their callers ran and could report immediately, and those that had to wait for the log:
    /// each is a batch of its own.
    pub(crate) carried_early: AtomicU64,
    pub(crate) carried_waiting: AtomicU64,
    /// Not a count: the thread that ran the last call itself, by a number of the thread's own.
    pub(crate) carried_by: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) groups: AtomicU64,
    pub(crate) seals: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) flushed_transactions: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) flush_ns: AtomicU64,
    pub(crate) flush_ns_max: AtomicU64,
    pub(crate) replies: AtomicU64,
    pub(crate) slices: AtomicU64,
    pub(crate) slices_late: AtomicU64,
    pub(crate) slice_ns: AtomicU64,
    pub(crate) slice_ns_max: AtomicU64,
    pub(crate) long_works: AtomicU64,
    /// Those that were taken in and are not over; what bounds them adds to it.
    pub(crate) long_under_way: AtomicU64,
    pub(crate) overruns: AtomicU64,
    pub(crate) overrun_ns_max: AtomicU64,
    pub(crate) busy_ns: [AtomicU64; 5],
}

impl Counters {
    /// A stage of this kind has worked so long.
    pub(crate) fn worked(&self, kind: StageKind, ns: u64) {
        let at = match kind {
            StageKind::Input => 0,
            StageKind::Execution => 1,
            StageKind::Logging => 2,
            StageKind::Output => 3,
            StageKind::Checkpoint => 4,
            StageKind::Room | StageKind::Archive => return,
        };
        add(&self.busy_ns[at], ns);
    }

    /// The log was flushed. The logging stage alone says so.
    pub(crate) fn flushed(&self, flush: Flush) {
        add_alone(&self.flushes, 1);
        add_alone(&self.flushed_transactions, flush.transactions);
        add_alone(&self.flushed_bytes, flush.bytes);
        add_alone(&self.flush_ns, flush.ns);
        self.flush_ns_max.store(get(&self.flush_ns_max).max(flush.ns), Ordering::Relaxed);
    }
}

/// Adds to a counter. Readers want numbers that are about right, not an order.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Adds to a counter that one thread at a time writes: no atomic addition.
#[inline]
pub(crate) fn add_alone(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

/// What a counter holds.
pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// What the logging stage reports of one flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Transactions it made durable.
    pub transactions: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// How long writing and syncing took, in nanoseconds.
    pub ns: u64,
}
