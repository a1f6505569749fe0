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

use super::journal::Journal;
use crate::clock::{Meanwhile, SimClock};
use crate::trace::{Trace, number_of};
use crate::world::World;

/// A stage and what wakes its thread; nothing does that of another process.
pub(super) type Signalled = (Box<dyn Stage>, Option<Arc<Signal>>);

/// The stages of a pipeline, as the world steps them.
pub(super) struct Stages {
    /// By number; one that is being stepped or has ended is `None`.
    stages: Vec<Option<Box<dyn Stage>>>,
    signals: Vec<Option<Arc<Signal>>>,
    /// When each wants to be called again; `None`: now.
    idle: Vec<Option<Option<u64>>>,
    ended: usize,
    journal: Arc<Mutex<Journal>>,
    clock: SimClock,
    trace: Trace,
    /// Chances of what happens while a stage waits.
    rng: Rng,
}

impl Stages {
    pub(super) fn new(
        stages: Vec<Signalled>,
        world: &mut World,
        journal: Arc<Mutex<Journal>>,
    ) -> Self {
        let (stages, signals): (Vec<_>, _) =
            stages.into_iter().map(|(stage, signal)| (Some(stage), signal)).unzip();
        Self {
            idle: vec![None; stages.len()],
            stages,
            signals,
            ended: 0,
            journal,
            clock: world.clock.clone(),
            trace: world.trace.clone(),
            rng: Rng::from_seed(world.rng.next_u64()),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended == self.stages.len()
    }

    /// Something changed: stages that nothing wakes look around.
    pub(super) fn wake(&mut self) {
        let signals = self.signals.iter().zip(&mut self.idle);
        signals.filter(|(signal, _)| signal.is_none()).for_each(|(_, idle)| *idle = None);
    }

    /// Stages whose thread was woken look around.
    fn hear(&mut self) {
        for (signal, idle) in self.signals.iter().zip(&mut self.idle) {
            if signal.as_ref().is_some_and(|signal| signal.is_awake()) {
                *idle = None;
            }
        }
    }

    /// The thread of a stage is awake: all its stages look around.
    fn stay_awake(&mut self, n: usize) {
        self.idle[n] = None;
        let Some(own) = self.signals[n].clone() else { return };
        for (signal, idle) in self.signals.iter().zip(&mut self.idle) {
            if signal.as_ref().is_some_and(|signal| Arc::ptr_eq(signal, &own)) {
                *idle = None;
            }
        }
    }

    /// Takes out one of the stages that may have work and that `may` be stepped.
    pub(super) fn take_ready(
        &mut self,
        rng: &mut Rng,
        may: impl Fn(StageKind) -> bool,
    ) -> Option<(usize, Box<dyn Stage>)> {
        self.hear();
        let now = self.clock.now_ns();
        let is_due = |idle: Option<Option<u64>>| match idle {
            None => true,
            Some(until) => until.is_some_and(|until| until <= now),
        };
        let is_there = |n: usize| self.stages[n].as_ref().is_some_and(|stage| may(stage.kind()));
        let is_ready = |n: &usize| is_there(*n) && is_due(self.idle[*n]);
        let ready = (0..self.stages.len()).filter(is_ready);
        let chosen = rng.below(ready.clone().count().max(1) as u64) as usize;
        let n = ready.clone().nth(chosen)?;
        // Before it looks: what happens from here on wakes it.
        self.signals[n].iter().for_each(|signal| signal.announce());
        self.stages[n].take().map(|stage| (n, stage))
    }

    /// Puts a stage back that has made `step`.
    pub(super) fn put_back(&mut self, n: usize, stage: Box<dyn Stage>, step: StageStep) {
        let (kind, now) = (stage.kind(), self.clock.now_ns());
        self.trace.event(&[number_of("step"), n as u64, now], || format!(" {kind}: {step:?}"));
        self.clock.advance(200 + self.rng.below(1_000));
        if kind == StageKind::Execution {
            self.journal.lock().settle();
        }
        match step {
            StageStep::IdleUntil(until) => {
                self.stages[n] = Some(stage);
                self.idle[n] = Some(until);
                return;
            }
            StageStep::Progress => self.stages[n] = Some(stage),
            StageStep::Ended => {
                stage.retire();
                self.ended += 1;
            }
        }
        self.stay_awake(n);
        self.wake();
    }

    /// The next moment at which a stage wants to be called.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let idle = self.stages.iter().zip(&self.idle).filter(|(stage, _)| stage.is_some());
        idle.filter_map(|(_, idle)| idle.flatten()).min()
    }
}

/// Whether a stage of this kind asks nothing of the disk. A stage that does may have to wait for what
/// the stage that waits already holds.
pub(super) fn never_waits(kind: StageKind) -> bool {
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
        let is_carried = self.is_carried;
        let may = |kind| never_waits(kind) || (is_carried && kind == StageKind::Logging);
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
