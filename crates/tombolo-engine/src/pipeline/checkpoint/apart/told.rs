//! The course of checkpoints that another process writes: as that process reports it.
//!
//! Not here: the course of those that are written here (`course.rs`). Invariants: what was reported once stays
//! so, whatever an older report says; while a process may write to the image the only place says *writing*, so
//! that a copy of the image waits.

use tombolo_storage::sync::Ordering;

use super::super::super::statistics::{add, get};
use super::super::course::{Course, Place};
use super::super::demands::CheckpointRefusal;
use super::protocol::{Counted, Report};

impl Course {
    /// Lets a process write to the image from here on, unless checkpoints are held off.
    pub(super) fn lets_process_write(&self) -> bool {
        let mut inner = self.inner.lock();
        let may = inner.holds == 0;
        if may {
            inner.places[0] = Place::Writing;
        }
        may
    }

    /// No process writes to the image, before it is let again.
    pub(super) fn no_process_writes(&self) {
        self.inner.lock().places[0] = Place::Resting;
        self.rested.notify_all();
    }

    /// Whether checkpoints are held off.
    pub(super) fn is_held(&self) -> bool {
        self.inner.lock().holds > 0
    }

    /// Demands, from the first on, that were met or refused for want of room.
    pub(super) fn answered(&self) -> u64 {
        let demands = self.demands.lock();
        demands.met.max(demands.refused.as_ref().map_or(0, |(up_to, _)| *up_to))
    }

    /// A process was started.
    pub(super) fn has_process(&self) {
        add(&self.counts.processes, 1);
    }

    /// The process is there and has the image.
    pub(super) fn is_back(&self) {
        *self.away.lock() = None;
    }

    /// There is no process, for this reason; another one is started.
    pub(super) fn is_away(&self, why: &str) {
        *self.away.lock() = Some(why.into());
        self.is_writing.store(false, Ordering::Relaxed);
        self.no_process_writes();
    }

    /// Takes what a process says; `before` is what it said last. Whether it holds checkpoints off that
    /// are held off now.
    pub(super) fn take(&self, before: &Report, now: &Report, is_held: bool) {
        let of = |counted: &Counted| counted.process_counts();
        for ((counter, now), before) in
            self.told_counts().zip(of(&now.counted)).zip(of(&before.counted))
        {
            add(counter, now.saturating_sub(before));
        }
        self.counts.note_copy(0, now.counted.copy_bytes);
        self.is_writing.store(now.is_writing, Ordering::Relaxed);
        if now.needed_from > self.needed_from() {
            // Partner: `needed_from`. The process says what is durable.
            self.needed_from.store(now.needed_from, Ordering::Release);
            self.logging.wake();
        }
        if now.met > before.met {
            self.meet(now.met);
        }
        if now.refused_up_to > before.refused_up_to || now.counted.put_off > before.counted.put_off
        {
            let mut demands = self.demands.lock();
            let full = CheckpointRefusal::Full(now.refused.as_str().into());
            demands.refused = Some((now.refused_up_to, full));
            drop(demands);
            self.demands_changed.notify_all();
        }
        if !now.failure.is_empty() {
            self.fail(&now.failure);
        }
        match is_held {
            true => self.no_process_writes(),
            // A waiting thread looks whether the disk was found full.
            false => drop(self.inner.lock()),
        }
        self.rested.notify_all();
    }

    /// Counters that the process has, too.
    fn told_counts(&self) -> impl Iterator<Item = &tombolo_storage::sync::AtomicU64> {
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
    pub(super) fn ends(&self) {
        *self.away.lock() = None;
        self.is_writing.store(false, Ordering::Relaxed);
        self.no_process_writes();
        self.end_demands(CheckpointRefusal::Closed);
    }

    /// In the process: so many checkpoints were asked for.
    pub(super) fn has_asked(&self, asked: u64) {
        let mut demands = self.demands.lock();
        demands.asked = demands.asked.max(asked);
        drop(demands);
        self.wake_stages();
    }

    /// In the process: whether no checkpoint may begin.
    pub(super) fn hold(&self, holds: bool) {
        self.inner.lock().holds = usize::from(holds);
        self.wake_stages();
    }

    /// In the process: all there is to say but for the time it took, which is the caller's to add.
    pub(super) fn report(&self, connection: u64, hold: u64, seen: u64) -> Report {
        let inner = self.inner.lock();
        let held = if inner.is_at_rest() { hold } else { 0 };
        let is_over = inner.places.iter().all(|place| matches!(place, Place::Over));
        drop(inner);
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
    /// In the order of [`Course::told_counts`].
    fn process_counts(&self) -> [u64; 6] {
        let Self { count, bytes, wall_ns, put_off, read_back_bytes, cpu_ns, .. } = *self;
        [count, bytes, wall_ns, put_off, read_back_bytes, cpu_ns]
    }
}
