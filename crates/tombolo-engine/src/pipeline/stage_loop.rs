//! The stages of one thread, stepped in turn; the thread sleeps when none of them has work.
//!
//! If a stage panics, only that stage ends, and the pipeline is notified. Not here: starting threads
//! (`threads.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::pipeline::stage::{Stage, StageKind, Step};
use crate::pipeline::transport::Signal;
use crate::threads::panic_message;

/// Called with the stage that panicked, and its message.
pub type WhenBroken = Arc<dyn Fn(StageKind, &str) + Send + Sync>;

/// Consecutive steps of the execution stage if other stages share its thread: one flush then covers
/// them all.
const EXECUTION_STEPS: u32 = 16;

/// The stages of one thread, stepped in turn.
pub struct StageLoop {
    /// The stages that have not ended, in the order of the path.
    stages: Vec<Box<dyn Stage>>,
    signal: Arc<Signal>,
    spin_ns: u64,
    steps: Steps,
}

/// The parameters of stepping.
struct Steps {
    clock: Arc<dyn Clock>,
    broken: WhenBroken,
}

/// The result of a turn so far.
struct Turn {
    now_ns: u64,
    has_progress: bool,
    until_ns: Option<u64>,
}

impl Steps {
    /// Steps each of `stages` once, the execution stage a few times; those that end leave.
    fn take(&self, stages: &mut Vec<Box<dyn Stage>>, turn: &mut Turn) {
        let mut at = 0;
        while at < stages.len() {
            let stage = &mut stages[at];
            let mut steps = if stage.kind() == StageKind::Execution { EXECUTION_STEPS } else { 1 };
            let last = loop {
                match catch_unwind(AssertUnwindSafe(|| stage.step(turn.now_ns))) {
                    Ok(Step::Progress) => {
                        turn.has_progress = true;
                        let before_ns = std::mem::replace(&mut turn.now_ns, self.clock.now_ns());
                        stage.worked(turn.now_ns - before_ns);
                        steps -= 1;
                        if steps == 0 {
                            break Ok(Step::Progress);
                        }
                    }
                    other => break other,
                }
            };
            match last {
                Ok(Step::Ended) => stages.remove(at).retire(),
                Ok(Step::IdleUntil(Some(ns))) => {
                    turn.until_ns = Some(turn.until_ns.map_or(ns, |until| until.min(ns)));
                    at += 1;
                }
                Ok(_) => at += 1,
                Err(panic) => {
                    let kind = stages.remove(at).kind();
                    (self.broken)(kind, &panic_message(&*panic));
                }
            }
        }
    }
}

impl StageLoop {
    /// A loop over stages that `signal` wakes; a thread without work spins for `spin_ns` before it
    /// sleeps.
    pub fn new(
        stages: Vec<Box<dyn Stage>>,
        signal: Arc<Signal>,
        clock: Arc<dyn Clock>,
        spin_ns: u64,
        broken: WhenBroken,
    ) -> Self {
        Self { stages, signal, spin_ns, steps: Steps { clock, broken } }
    }

    /// Steps every stage once, the execution stage a few times. The result is idle until the earliest of their
    /// times, and ended when all have ended.
    pub fn turn(&mut self) -> Step {
        let now_ns = self.steps.clock.now_ns();
        let mut turn = Turn { now_ns, has_progress: false, until_ns: None };
        self.steps.take(&mut self.stages, &mut turn);
        match turn.has_progress {
            _ if self.stages.is_empty() => Step::Ended,
            true => Step::Progress,
            false => Step::IdleUntil(turn.until_ns),
        }
    }

    /// A turn; if there is nothing to do, sleeps until woken, for `time_max` at most.
    pub fn turn_or_sleep(&mut self, time_max: Option<Duration>) -> Step {
        self.signal.announce();
        let step = self.turn();
        let Step::IdleUntil(until_ns) = step else {
            self.signal.retract();
            return step;
        };
        let left = until_ns.map(|ns| ns.saturating_sub(self.steps.clock.now_ns()));
        let left = left.map(Duration::from_nanos);
        match [left, time_max].into_iter().flatten().min() {
            Some(Duration::ZERO) => self.signal.retract(),
            shortest => self.signal.sleep(shortest),
        }
        step
    }

    /// Turns until all stages have ended.
    pub fn run(mut self) {
        let mut idle_since_ns = None;
        loop {
            let mut step = self.turn();
            if matches!(step, Step::IdleUntil(_)) {
                if self.may_spin(&mut idle_since_ns) {
                    std::hint::spin_loop();
                    continue;
                }
                step = self.turn_or_sleep(None);
            }
            match step {
                Step::Ended => break,
                Step::Progress => idle_since_ns = None,
                Step::IdleUntil(_) => {}
            }
        }
    }

    /// Whether it is too early to sleep.
    fn may_spin(&self, idle_since_ns: &mut Option<u64>) -> bool {
        if self.spin_ns == 0 {
            return false;
        }
        let now_ns = self.steps.clock.now_ns();
        now_ns - *idle_since_ns.get_or_insert(now_ns) < self.spin_ns
    }
}
