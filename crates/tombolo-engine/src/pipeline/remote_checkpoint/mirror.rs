//! The state of checkpoints that another process writes: in the database's process as that process reports it, and
//! in that process as it is reported.
//!
//! Not here: the state itself (`checkpoint/state.rs`). Invariants: an older report does not change what a later one has
//! reported; while a process may write to the image the state is *busy*, so that a copy of the image waits.

use tombolo_storage::sync::{AtomicU64, Ordering};

use super::protocol::{Counted, Report};
use crate::pipeline::checkpoint::{CheckpointRefusal, CheckpointState};
use crate::pipeline::state::{add, get};

impl CheckpointState {
    /// Demands, from the first on, that were met or refused for want of room.
    pub(super) fn answered(&self) -> u64 {
        let demands = self.demands.lock();
        demands.met.max(demands.refused.as_ref().map_or(0, |(up_to, _)| *up_to))
    }

    /// The process answers: it has the image.
    pub(super) fn clear_interruption(&self) {
        *self.interruption.lock() = None;
    }

    /// There is no process, for this reason; another one is started.
    pub(super) fn interrupt(&self, why: &str) {
        *self.interruption.lock() = Some(why.into());
        self.is_writing.store(false, Ordering::Relaxed);
        self.rest();
    }

    /// Takes what the process reports over; `before` is its last report. `is_held`: it holds checkpoints off
    /// that are held off now.
    pub(super) fn mirror(&self, before: &Report, now: &Report, is_held: bool) {
        let of = |counted: &Counted| counted.process_counts();
        for ((counter, now), before) in
            self.mirrored_counts().zip(of(&now.counted)).zip(of(&before.counted))
        {
            add(counter, now.saturating_sub(before));
        }
        self.counts.note_copy(0, now.counted.copy_bytes);
        self.is_writing.store(now.is_writing, Ordering::Relaxed);
        if now.needed_from > self.needed_from() {
            self.set_needed_from(now.needed_from); // the process reports what is durable
        }
        if now.met > before.met {
            self.meet_demands(now.met);
        }
        if now.refused_up_to > before.refused_up_to || now.counted.put_off > before.counted.put_off
        {
            self.refuse_demands(now.refused_up_to, &now.refused);
        }
        if !now.failure.is_empty() {
            self.fail(&now.failure);
        }
        match is_held {
            true => self.rest(),
            false => self.wake_holders(), // they look whether the disk was found full
        }
    }

    /// Counters that the process has, too.
    fn mirrored_counts(&self) -> impl Iterator<Item = &AtomicU64> {
        let counts = &self.counts;
        [
            &counts.count,
            &counts.bytes,
            &counts.wall_ns,
            &counts.put_off,
            &counts.read_back_bytes,
            &counts.process_cpu_ns,
        ]
        .into_iter()
    }

    /// The process has ended as it was to, or is not needed any more.
    pub(super) fn end_mirror(&self) {
        self.clear_interruption();
        self.is_writing.store(false, Ordering::Relaxed);
        self.rest();
        self.end_demands(CheckpointRefusal::Closed);
    }

    /// In the process: so many checkpoints were asked for.
    pub(super) fn raise_demands(&self, asked: u64) {
        let mut demands = self.demands.lock();
        demands.asked = demands.asked.max(asked);
        drop(demands);
        self.wake_stages();
    }

    /// In the process: whether no checkpoint may begin.
    pub(super) fn hold_off(&self, holds: bool) {
        self.activity.lock().holds = usize::from(holds);
        self.wake_stages();
    }

    /// In the process: all there is to report but for the time it took, which the caller adds.
    pub(super) fn report(&self, connection: u64, hold: u64, seen: u64) -> Report {
        let activity = self.activity.lock();
        let held = if activity.is_busy { 0 } else { hold };
        let is_over = activity.is_over;
        drop(activity);
        let demands = self.demands.lock();
        let refused = demands.refused.clone();
        let met = demands.met;
        drop(demands);
        let counts = &self.counts;
        Report {
            connection,
            needed_from: self.needed_from(),
            met,
            refused_up_to: refused.as_ref().map_or(0, |(up_to, _)| *up_to),
            refused: refused.map(|(_, refusal)| refusal.to_string()).unwrap_or_default(),
            failure: self.failure().map(ToString::to_string).unwrap_or_default(),
            is_writing: self.is_writing(),
            held,
            is_over,
            seen,
            counted: Counted {
                count: get(&counts.count),
                bytes: get(&counts.bytes),
                wall_ns: get(&counts.wall_ns),
                put_off: get(&counts.put_off),
                read_back_bytes: get(&counts.read_back_bytes),
                copy_bytes: self.counts.copy_bytes(),
                ..Counted::default()
            },
        }
    }
}

impl Counted {
    /// In the order of [`CheckpointState::mirrored_counts`].
    fn process_counts(&self) -> [u64; 6] {
        let Self { count, bytes, wall_ns, put_off, read_back_bytes, cpu_ns, .. } = *self;
        [count, bytes, wall_ns, put_off, read_back_bytes, cpu_ns]
    }
}
