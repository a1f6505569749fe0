//! The stages of a pipeline as the world steps them: any that may have work, one after the other,
//! and others while one waits for the disk, as if each had a thread.
//!
//! A stage that called itself idle is stepped again when the engine has woken its thread, or when its time
//! has come, and not before: where nothing wakes it, it never wakes, as its thread would not.
//!
//! Not here: submitting calls and what their replies must say (`life.rs`, `replies.rs`).

use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_engine::pipeline::{Signal, Stage, StageKind, Step as StageStep};
use tombolo_engine::rng::Rng;
use tombolo_storage::sync::Mutex;

use crate::clock::{Meanwhile, SimClock};
use crate::trace::{Trace, number_of};

/// A stage and what wakes its thread; nothing does that of another process.
pub(crate) type Signalled = (Box<dyn Stage>, Option<Arc<Signal>>);

/// A stage, and when it looks again.
struct Seat {
    /// `None` while it is stepped and when it has ended.
    stage: Option<Box<dyn Stage>>,
    signal: Option<Arc<Signal>>,
    /// Whether it is idle, and the time until then if it has one.
    idle: Option<Option<u64>>,
}

/// The stages of a pipeline, or of several, as the world steps them.
pub(crate) struct Stages {
    seats: Vec<Seat>,
    ended: usize,
    /// Called when an execution stage was stepped.
    settle: Box<dyn Fn() + Send>,
    clock: SimClock,
    trace: Trace,
    /// Chances of what happens while a stage waits.
    rng: Rng,
}

impl Stages {
    /// `settle` is called when an execution stage was stepped.
    pub(crate) fn new(
        stages: impl Iterator<Item = Signalled>,
        (clock, trace): (&SimClock, &Trace),
        rng: Rng,
        settle: Box<dyn Fn() + Send>,
    ) -> Self {
        let seat = |(stage, signal)| Seat { stage: Some(stage), signal, idle: None };
        Self {
            seats: stages.map(seat).collect(),
            ended: 0,
            settle,
            clock: clock.clone(),
            trace: trace.clone(),
            rng,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended == self.seats.len()
    }

    /// Stages whose signal `is_one` look again.
    fn rouse(&mut self, is_one: impl Fn(Option<&Arc<Signal>>) -> bool) {
        let roused = self.seats.iter_mut().filter(|seat| is_one(seat.signal.as_ref()));
        roused.for_each(|seat| seat.idle = None);
    }

    /// Something changed: stages that nothing wakes look again.
    pub(crate) fn wake(&mut self) {
        self.rouse(|signal| signal.is_none());
    }

    /// Takes out one of the stages that may have work and that `may` be stepped, by their numbers and kinds.
    pub(crate) fn take_ready(
        &mut self,
        rng: &mut Rng,
        may: impl Fn(usize, StageKind) -> bool,
    ) -> Option<(usize, Box<dyn Stage>)> {
        self.rouse(|signal| signal.is_some_and(|signal| signal.is_awake()));
        let now = self.clock.now_ns();
        let is_ready = |n: usize, seat: &Seat| {
            seat.stage.as_ref().is_some_and(|stage| may(n, stage.kind()))
                && seat.idle.is_none_or(|until| until.is_some_and(|until| until <= now))
        };
        let ready = (0..self.seats.len()).filter(|&n| is_ready(n, &self.seats[n]));
        let chosen = rng.below(ready.clone().count().max(1) as u64) as usize;
        let n = ready.clone().nth(chosen)?;
        let Seat { stage, signal, .. } = &mut self.seats[n];
        // Before it looks: what happens from here on wakes it.
        signal.iter().for_each(|signal| signal.announce());
        stage.take().map(|stage| (n, stage))
    }

    /// Puts a stage back that has made `step`.
    pub(crate) fn put_back(&mut self, n: usize, stage: Box<dyn Stage>, step: StageStep) {
        let (kind, now) = (stage.kind(), self.clock.now_ns());
        self.trace.event(&[number_of("step"), n as u64, now], || format!(" {n} {kind}: {step:?}"));
        self.clock.advance(200 + self.rng.below(1_000));
        if kind == StageKind::Execution {
            (self.settle)();
        }
        let seat = &mut self.seats[n];
        match step {
            StageStep::IdleUntil(until) => {
                (seat.stage, seat.idle) = (Some(stage), Some(until));
                return;
            }
            StageStep::Progress => seat.stage = Some(stage),
            StageStep::Ended => {
                stage.retire();
                self.ended += 1;
            }
        }
        seat.idle = None;
        // Its thread is awake: all stages of that look again.
        if let Some(own) = seat.signal.clone() {
            self.rouse(|signal| signal.is_some_and(|signal| Arc::ptr_eq(signal, &own)));
        }
        self.wake();
    }

    /// The next moment at which a stage wants to be called.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let seats = self.seats.iter().filter(|seat| seat.stage.is_some());
        seats.filter_map(|seat| seat.idle.flatten()).min()
    }
}

/// Whether a stage of this kind asks nothing of the disk. A stage that does may have to wait for what
/// the stage that waits already holds.
pub(crate) fn never_waits(kind: StageKind) -> bool {
    matches!(kind, StageKind::Input | StageKind::Execution | StageKind::Output)
}

/// The stages that work while one waits for the disk.
pub(super) struct Others {
    pub(super) stages: Arc<Mutex<Stages>>,
    /// Whether it is a caller that flushes: the logging stage's own thread may look then, and finds that
    /// the stage is taken.
    pub(super) is_carried: bool,
}

impl Meanwhile for Others {
    fn run_until(&mut self, until_ns: u64) {
        let may = |_, kind| never_waits(kind) || (self.is_carried && kind == StageKind::Logging);
        let mut stages = self.stages.lock();
        while stages.clock.now_ns() < until_ns {
            let mut rng = stages.rng.clone();
            let taken = stages.take_ready(&mut rng, may);
            stages.rng = rng;
            let Some((n, mut stage)) = taken else { return };
            let now = stages.clock.now_ns();
            drop(stages);
            let step = stage.step(now);
            stages = self.stages.lock();
            stages.put_back(n, stage, step);
        }
    }
}
