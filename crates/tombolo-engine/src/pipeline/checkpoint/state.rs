//! The state of a database's checkpoints that the rest of the pipeline sees: demands, holds, failure, counts, and the
//! oldest group of the log that is needed.
//!
//! The stages of this process update it through their coordinator (`coordinator.rs`); if another process writes the
//! image, its reports update it (`remote_checkpoint/mirror.rs`).
//!
//! Not here: when a checkpoint begins. Invariants: the oldest needed group is published only when a catalogue with it
//! is durable; while the image may change, *busy* is set, so that a copy of the image waits.

use std::sync::{Arc, OnceLock};

use tombolo_storage::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use tombolo_storage::value_log::GroupNumber;

use super::demands::{CheckpointRefusal, Demands};
use crate::pipeline::state::get;
use crate::pipeline::transport::Signal;

/// Counts since the pipeline started.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) count: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) wall_ns: AtomicU64,
    pub(crate) put_off: AtomicU64,
    pub(crate) read_back_bytes: AtomicU64,
    pub(crate) processes: AtomicU64,
    pub(crate) process_cpu_ns: AtomicU64,
    /// Memory of DB′ by part, and the largest sum of all parts so far.
    pub(crate) copy_bytes: Vec<AtomicU64>,
    copy_bytes_max: AtomicU64,
}

impl Counts {
    /// Notes the memory that a part of DB′ takes now.
    pub(crate) fn note_copy(&self, number: usize, bytes: u64) {
        self.copy_bytes[number].store(bytes, Ordering::Relaxed);
        self.copy_bytes_max.fetch_max(self.copy_bytes(), Ordering::Relaxed);
    }

    pub(crate) fn copy_bytes(&self) -> u64 {
        self.copy_bytes.iter().map(get).sum()
    }
}

/// Whether the image may change.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// A checkpoint is under way, or about to begin.
    pub(crate) is_busy: bool,
    /// All stages have ended in good order.
    pub(crate) is_over: bool,
    /// The number of copies of the image under way; while there are any, no checkpoint begins (`handles.rs`).
    pub(crate) holds: usize,
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct CheckpointState {
    pub(crate) activity: Mutex<Activity>,
    /// Signalled when a checkpoint has ended or is delayed.
    pub(crate) rested: Condvar,
    pub(crate) demands: Mutex<Demands>,
    pub(crate) demands_changed: Condvar,
    /// The log may be released before this group.
    needed_from: AtomicU64,
    log_is_short: AtomicBool,
    pub(crate) is_writing: AtomicBool,
    /// Whether the last checkpoint was left out because the disk was full.
    pub(crate) has_given_up: AtomicBool,
    failure: OnceLock<Arc<str>>,
    /// Why no checkpoint is written for now, if that will pass by itself.
    pub(crate) interruption: Mutex<Option<Arc<str>>>,
    pub(crate) counts: Counts,
    /// The threads of the parts.
    stages: Vec<Arc<Signal>>,
    /// The logging stage's thread.
    logging: Arc<Signal>,
}

impl CheckpointState {
    /// For an image that needs the log from this group on, with one stage for each of `stages`; `is_writing` if an
    /// interrupted checkpoint is continued.
    pub(crate) fn new(
        needed_from: GroupNumber,
        is_writing: bool,
        stages: Vec<Arc<Signal>>,
        logging: Arc<Signal>,
    ) -> Self {
        Self {
            activity: Mutex::new(Activity { is_busy: is_writing, ..Activity::default() }),
            rested: Condvar::new(),
            demands: Mutex::default(),
            demands_changed: Condvar::new(),
            needed_from: AtomicU64::new(needed_from),
            log_is_short: AtomicBool::new(false),
            is_writing: AtomicBool::new(is_writing),
            has_given_up: AtomicBool::new(false),
            failure: OnceLock::new(),
            interruption: Mutex::default(),
            counts: Counts {
                copy_bytes: stages.iter().map(|_| AtomicU64::new(0)).collect(),
                ..Counts::default()
            },
            stages,
            logging,
        }
    }

    /// Marks the image as changing, unless checkpoints are held off; returns whether it may change.
    pub(crate) fn try_begin(&self) -> bool {
        let mut activity = self.activity.lock();
        let may = activity.holds == 0;
        activity.is_busy |= may;
        may
    }

    /// Marks the image as unchanging until the next `try_begin`.
    pub(crate) fn rest(&self) {
        self.activity.lock().is_busy = false;
        self.rested.notify_all();
    }

    /// Wakes the threads that wait for a rest, because something else that they look at has changed.
    pub(crate) fn wake_holders(&self) {
        // A thread that was about to wait has seen the change, or waits.
        drop(self.activity.lock());
        self.rested.notify_all();
    }

    /// Whether checkpoints are held off.
    pub(crate) fn is_held(&self) -> bool {
        self.activity.lock().holds > 0
    }

    /// The reason that the newest demand was refused, if the disk was full.
    pub(crate) fn last_refusal(&self) -> CheckpointRefusal {
        let refused = self.demands.lock().refused.clone();
        refused.map_or(CheckpointRefusal::Closed, |(_, refusal)| refusal)
    }

    /// The reason that the last checkpoint was left out, if the disk was full.
    pub(crate) fn last_left_out(&self) -> Option<Arc<str>> {
        self.has_given_up().then(|| self.last_refusal().to_string().into())
    }

    pub(crate) fn has_given_up(&self) -> bool {
        self.has_given_up.load(Ordering::SeqCst)
    }

    /// Refuses the unmet demands up to this one, because the disk is full.
    pub(crate) fn refuse_demands(&self, up_to: u64, full: &str) {
        self.demands.lock().refused = Some((up_to, CheckpointRefusal::Full(full.into())));
        self.demands_changed.notify_all();
    }

    /// Refuses all unanswered demands.
    pub(crate) fn end_demands(&self, end: CheckpointRefusal) {
        self.demands.lock().end.get_or_insert(end);
        self.demands_changed.notify_all();
    }

    /// Marks the demands up to this one as met.
    pub(crate) fn meet_demands(&self, up_to: u64) {
        let mut demands = self.demands.lock();
        demands.met = demands.met.max(up_to);
        drop(demands);
        self.demands_changed.notify_all();
    }

    /// The number of demands so far.
    pub(crate) fn asked(&self) -> u64 {
        self.demands.lock().asked
    }

    /// Ends checkpoints: the image, or the log behind it, has failed.
    pub(crate) fn fail(&self, reason: &str) {
        let reason = self.failure.get_or_init(|| reason.into()).clone();
        self.is_writing.store(false, Ordering::Relaxed);
        self.end_demands(CheckpointRefusal::Failed(reason));
        self.wake_holders();
        self.wake_stages();
    }

    /// Why no checkpoint can be written at this moment, if so: never again, or not for now.
    pub(crate) fn trouble(&self) -> Option<Arc<str>> {
        self.failure().cloned().or_else(|| self.interruption.lock().clone())
    }

    /// Why no checkpoint is written any more, if so.
    pub(crate) fn failure(&self) -> Option<&Arc<str>> {
        self.failure.get()
    }

    /// The group before which the log may be released.
    pub(crate) fn needed_from(&self) -> GroupNumber {
        // Partner: `set_needed_from`.
        self.needed_from.load(Ordering::Acquire)
    }

    /// A durable catalogue needs the log from this group on.
    pub(crate) fn set_needed_from(&self, group: GroupNumber) {
        self.needed_from.store(group, Ordering::Release);
        self.logging.wake();
    }

    /// Sets whether the log runs short of room, which a checkpoint would free.
    pub(crate) fn set_log_is_short(&self, is_short: bool) {
        // Relaxed: the flag passes on nothing but itself; a late look finds it, too.
        if self.log_is_short() != is_short {
            self.log_is_short.store(is_short, Ordering::Relaxed);
            self.wake_stages();
        }
    }

    pub(crate) fn log_is_short(&self) -> bool {
        self.log_is_short.load(Ordering::Relaxed)
    }

    /// How many parts there are.
    pub(crate) fn parts(&self) -> u64 {
        self.stages.len() as u64
    }

    /// Whether a checkpoint is being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.is_writing.load(Ordering::Relaxed)
    }

    pub(crate) fn wake_stages(&self) {
        self.stages.iter().for_each(|stage| stage.wake());
    }

    /// The numbers so far.
    pub(crate) fn statistics(&self) -> CheckpointStatistics {
        CheckpointStatistics {
            count: get(&self.counts.count),
            bytes: get(&self.counts.bytes),
            wall_ns: get(&self.counts.wall_ns),
            put_off: get(&self.counts.put_off),
            read_back_bytes: get(&self.counts.read_back_bytes),
            processes: get(&self.counts.processes),
            process_cpu_ns: get(&self.counts.process_cpu_ns),
            copy_bytes: self.counts.copy_bytes(),
            copy_bytes_max: get(&self.counts.copy_bytes_max),
            is_writing: self.is_writing(),
            has_failed: self.failure().is_some(),
        }
    }
}

/// A pipeline's checkpoints since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStatistics {
    /// Checkpoints that were completed.
    pub count: u64,
    /// Bytes of blocks that were written, those of a checkpoint under way among them.
    pub bytes: u64,
    /// Time from beginning to completing, in nanoseconds, over all of them.
    pub wall_ns: u64,
    /// The number of delays because the disk was full.
    pub put_off: u64,
    /// Bytes of records that were read back from the log, because the stage was behind.
    pub read_back_bytes: u64,
    /// Processes that were started to write checkpoints: 0 if this process writes them, more than 1 if one has ended
    /// unasked.
    pub processes: u64,
    /// Processor time of these processes, in nanoseconds, as far as they have reported it.
    pub process_cpu_ns: u64,
    /// Memory that DB′ takes, a second copy of all rows; without one, blocks that are being copied and written.
    pub copy_bytes: u64,
    /// The most that it has taken so far.
    pub copy_bytes_max: u64,
    /// Whether a checkpoint is being written.
    pub is_writing: bool,
    /// Whether no more checkpoints are written, because the disk failed.
    pub has_failed: bool,
}
