//! The caller carries: a thread that waits for its call does the stages' work itself.
//!
//! ```text
//!   call ─► execution free? ──yes─► run it here ─► durable already? ──yes──────────────► answer
//!              │ no                                   │ no                                 ▲
//!              ▼                                      ▼                                    │
//!        [input queue], leave word ─► wait:  device free? ──yes─► write and sync the group │
//!                                      ▲        │ no: leave word                           │
//!                                      └─ sleep ┘ ◄─ woken: the log is durable, or lead ───┘
//! ```
//!
//! One thread at a time has a stage (`seat.rs`). A caller that finds execution free and nothing
//! queued runs its transaction on its own stack, and so pays for the transaction and not for two
//! threads that wake each other. A caller that finds it taken spins briefly; where that does not help
//! it leaves the call in the queue and word with the thread that has it: that one executes the call
//! before it goes. The same for the log: the caller that finds the device free writes and syncs the
//! group, the others wait, and the one that has waited longest leads the next. The stages' own threads
//! are for what no caller waits for: calls that were submitted, long work, timers, and more work than a
//! caller should do for others.
//!
//! A caller does no more for others than `slice_us_max`, and what the machine's scheduler adds: then
//! the stage's own thread continues. It never flushes for others once its own call is answered.
//!
//! Not here: the caller's own transaction (`carry/carrier.rs`); what a stage does; where a queued
//! call's reply arrives (`callers.rs`). Invariants: a thread that put something in without waking the
//! stage's own thread takes the stage, or leaves word with its holder, before it sleeps; a thread that
//! gives a stage back and finds word looks again, or passes it on; a timer of the logging stage is kept
//! by its own thread.

mod carrier;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use tombolo_storage::plant::{self, Plant};
use tombolo_storage::sync::{AtomicU64, Ordering, Parker, Spin, thread_local};

use super::call::{Refusal, panic_message};
use super::execution::Execution;
use super::executor::Executor;
use super::log::Records;
use super::logging::Logging;
use super::seat::Seat;
use super::shared::Shared;
use super::signal::Signal;
use super::waiters::Sleeper;
use super::{Stage, StageKind, Step};
use crate::clock::Clock;
use crate::threads::WhenBroken;

pub use carrier::Carrier;

/// No timer.
const NEVER_NS: u64 = u64::MAX;

/// A stage in a seat, as its own thread steps it.
pub(super) struct InSeat<T, A> {
    kind: StageKind,
    seat: Arc<Seat<T>>,
    shared: Arc<Shared<A>>,
    /// When the own thread looks again by itself.
    timer_ns: Arc<AtomicU64>,
    /// The stage, once it has ended.
    ended: Option<T>,
}

impl<T: Stage, A: Send + 'static> Stage for InSeat<T, A> {
    fn kind(&self) -> StageKind {
        self.kind
    }

    fn step(&mut self, now_ns: u64) -> Step {
        // First: a caller that steps the stage meanwhile finds that no timer is kept.
        self.timer_ns.store(NEVER_NS, Ordering::SeqCst);
        let Some(mut held) = self.seat.take() else {
            // Its holder looks again, or wakes this thread. That the stage broke was reported.
            return if self.seat.drop_broken() { Step::Ended } else { Step::IdleUntil(None) };
        };
        let step = held.stage().step(now_ns);
        if let Step::IdleUntil(until_ns) = step {
            self.timer_ns.store(until_ns.unwrap_or(NEVER_NS), Ordering::SeqCst);
        }
        if step == Step::Ended {
            self.ended = held.empty();
            return step;
        }
        match step {
            _ if !held.give_back() => step,
            Step::IdleUntil(_) => Step::Progress,
            step => step,
        }
    }

    fn retire(self: Box<Self>) {
        if let Some(stage) = self.ended {
            Box::new(stage).retire();
        }
    }

    fn worked(&self, ns: u64) {
        self.shared.counters.worked(self.kind, ns);
    }
}

/// The result of a caller's step of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stepped {
    /// It did something.
    Progress,
    /// There was nothing to do.
    Idle,
    /// Another thread has the stage, and word was left with it.
    Taken,
}

/// What was handed to the log without waking its thread, and whether a call waits for it.
type HandedOn = Option<bool>;

/// What a caller that continues owes to others: each is paid by the next turn at that stage, or settled.
#[derive(Clone, Copy, Debug, Default)]
struct Debt {
    /// Records that the log's thread was not woken for.
    handed_on: HandedOn,
    /// Another thread left word at execution.
    execution: bool,
    /// The same at the log.
    log: bool,
}

/// A caller's turn at a stage.
#[derive(Clone, Copy, Debug)]
struct Turn {
    stepped: Stepped,
    /// Whether another thread left word: the caller looks again, or passes it on.
    is_asked_for: bool,
    handed_on: HandedOn,
}

impl Turn {
    const TAKEN: Self = Self { stepped: Stepped::Taken, is_asked_for: false, handed_on: None };
}

/// A stage that callers may step, whatever its executor.
trait Steppable: Send + Sync {
    /// Steps it once, or leaves word with the thread that has it.
    fn turn(&self, now_ns: u64) -> Turn;

    /// Wakes its own thread.
    fn wake(&self);

    /// Passes word on to a thread that is to look.
    fn pass_on(&self) {
        self.wake();
    }

    /// When its own thread looks again by itself, if nothing wakes it.
    fn timer_ns(&self) -> u64 {
        NEVER_NS
    }
}

/// Execution, for callers.
struct ExecutionSeat<E: Executor>(Arc<Seat<Execution<E>>>);

impl<E: Executor> Steppable for ExecutionSeat<E> {
    fn turn(&self, now_ns: u64) -> Turn {
        let Some(mut held) = self.0.take() else { return Turn::TAKEN };
        let stage = held.stage();
        stage.set_carried(true);
        let step = stage.step(now_ns);
        stage.set_carried(false);
        let handed_on = stage.take_carried();
        let is_asked_for = held.give_back();
        if step == Step::Ended {
            self.0.wake(); // it ends on its own thread
        }
        let stepped = if step == Step::Progress { Stepped::Progress } else { Stepped::Idle };
        Turn { stepped, is_asked_for, handed_on }
    }

    fn wake(&self) {
        self.0.wake();
    }
}

/// A stage that says when it has something to do even if nothing arrives.
trait Timed: Stage {
    fn timer_ns(&mut self) -> Option<u64>;
}

impl<A: Send + 'static, B: Records> Timed for Logging<A, B> {
    fn timer_ns(&mut self) -> Option<u64> {
        self.timer_ns()
    }
}

/// The log, for callers.
struct LogSeat<T, A> {
    seat: Arc<Seat<T>>,
    shared: Arc<Shared<A>>,
    timer_ns: Arc<AtomicU64>,
}

impl<T: Timed, A: Send + 'static> Steppable for LogSeat<T, A> {
    fn turn(&self, now_ns: u64) -> Turn {
        let Some(mut held) = self.seat.take() else { return Turn::TAKEN };
        let step = held.stage().step(now_ns);
        let until_ns = match step {
            Step::Progress => held.stage().timer_ns(),
            Step::IdleUntil(until_ns) => until_ns,
            Step::Ended => Some(0), // it ends on its own thread
        };
        // That thread keeps the stage's timer.
        let own_looks_late = until_ns.is_some_and(|ns| ns < self.timer_ns());
        let is_asked_for = held.give_back();
        if own_looks_late {
            self.seat.wake();
        }
        let stepped = if step == Step::Progress { Stepped::Progress } else { Stepped::Idle };
        Turn { stepped, is_asked_for, handed_on: None }
    }

    fn wake(&self) {
        self.seat.wake();
    }

    fn pass_on(&self) {
        if plant::is(Plant::LeaderNotWoken) {
            return;
        }
        if !self.shared.waiters.wake_one(self.shared.durable()) {
            self.seat.wake();
        }
    }

    fn timer_ns(&self) -> u64 {
        self.timer_ns.load(Ordering::SeqCst)
    }
}

/// What waiting callers do of the stages' work; of any executor with these answers.
pub(super) struct Carrying<A> {
    execution: Box<dyn Steppable>,
    log: Option<Box<dyn Steppable>>,
    shared: Arc<Shared<A>>,
    clock: Arc<dyn Clock>,
    /// How long a caller works for others at most.
    slice_ns_max: u64,
    /// How long a group may wait that no call waits for.
    promised_ns_max: u64,
    broken: OnceLock<WhenBroken>,
}

impl<A> std::fmt::Debug for Carrying<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carrying").finish_non_exhaustive()
    }
}

impl<A> Carrying<A> {
    /// Works until `is_done`, or until there is nothing this thread can do: then it may sleep, and is
    /// woken by what it waits for. Says whether it is done.
    pub(super) fn carry_until(&self, is_done: &dyn Fn() -> bool) -> bool {
        self.work_until(Some(&*self.execution), Debt::default(), is_done)
    }

    fn work_until(
        &self,
        execution: Option<&dyn Steppable>,
        mut debt: Debt,
        is_done: &dyn Fn() -> bool,
    ) -> bool {
        let (mut spin, mut until_ns) = (Spin::new(), None);
        loop {
            if is_done() {
                self.settle(execution, debt);
                return true;
            }
            let now_ns = self.clock.now_ns();
            if !self.round(execution, now_ns, &mut debt, is_done) {
                // A flush takes longer than sleeping and waking.
                if execution.is_none() || !spin.again() {
                    self.settle(execution, debt);
                    return is_done();
                }
            } else if now_ns > *until_ns.get_or_insert(now_ns + self.slice_ns_max) && !is_done() {
                // Enough was done for others.
                self.leave_to_own_threads(execution);
                return is_done();
            }
        }
    }

    /// A turn at each stage, as long as it is not done; says whether there was anything to do. Where
    /// another thread left word, there may be more.
    fn round(
        &self,
        execution: Option<&dyn Steppable>,
        now_ns: u64,
        debt: &mut Debt,
        is_done: &dyn Fn() -> bool,
    ) -> bool {
        let mut has_progress = false;
        if let Some(execution) = execution {
            let turn = self.turn(StageKind::Execution, execution, now_ns);
            has_progress = turn.stepped == Stepped::Progress || turn.is_asked_for;
            debt.execution = turn.is_asked_for;
            debt.handed_on = debt.handed_on.max(turn.handed_on);
            if is_done() {
                return has_progress;
            }
        }
        if let Some(log) = &self.log {
            let turn = self.turn(StageKind::Logging, &**log, now_ns);
            has_progress |= turn.stepped == Stepped::Progress || turn.is_asked_for;
            debt.log = turn.is_asked_for;
            debt.handed_on = None; // it was looked after, or word was left
        }
        has_progress
    }

    /// The stages' own threads continue: the log's, and execution's where this thread stepped that.
    fn leave_to_own_threads(&self, execution: Option<&dyn Steppable>) {
        execution.into_iter().chain(self.log.as_deref()).for_each(Steppable::pass_on);
    }

    /// Looks at execution once more, for the thread that left word; passes on what comes of it.
    fn look_again(&self, execution: &dyn Steppable) -> HandedOn {
        let turn = self.turn(StageKind::Execution, execution, self.clock.now_ns());
        if turn.is_asked_for || turn.stepped == Stepped::Progress {
            execution.pass_on(); // there may be more
        }
        turn.handed_on
    }

    /// Pays what this thread owes to others before it continues.
    fn settle(&self, execution: Option<&dyn Steppable>, mut debt: Debt) {
        if plant::is(Plant::WordForgotten) {
            debt = Debt { handed_on: debt.handed_on, ..Debt::default() };
        }
        let mut handed_on = debt.handed_on;
        if let Some(execution) = execution.filter(|_| debt.execution) {
            handed_on = handed_on.max(self.look_again(execution));
        }
        let Some(log) = &self.log else { return };
        if debt.log {
            log.pass_on(); // this thread does not flush for others
        }
        let Some(is_waited_for) = handed_on else { return };
        let is_in_time = || {
            let by_ns = self.clock.now_ns().saturating_add(self.promised_ns_max);
            log.timer_ns() <= by_ns
        };
        if (is_waited_for || !is_in_time()) && !plant::is(Plant::FlushNotAskedFor) {
            log.wake();
        }
    }

    /// A turn at a stage; one that panics breaks the pipeline.
    fn turn(&self, kind: StageKind, place: &dyn Steppable, now_ns: u64) -> Turn {
        match catch_unwind(AssertUnwindSafe(|| place.turn(now_ns))) {
            Ok(turn) => {
                if turn.stepped == Stepped::Progress {
                    let ns = self.clock.now_ns().saturating_sub(now_ns);
                    self.shared.counters.worked(kind, ns);
                }
                turn
            }
            Err(panic) => {
                self.break_down(kind, &panic_message(&*panic));
                Turn::TAKEN
            }
        }
    }

    /// A stage panicked: nothing is acknowledged any more, for this reason.
    #[cold]
    fn break_down(&self, kind: StageKind, message: &str) -> Arc<str> {
        if let Some(broken) = self.broken.get() {
            broken(kind, message);
        }
        self.shared.set_poison(message)
    }

    /// What is called when a stage panics on a caller's thread.
    pub(super) fn set_broken(&self, broken: WhenBroken) {
        let is_first = self.broken.set(broken).is_ok();
        assert!(is_first, "a pipeline is wired once");
    }

    /// Whether the log is durable up to `position`, or never will be; `None` if that is still open.
    fn look(&self, position: u64) -> Option<Result<(), Refusal>> {
        let is_durable = || self.shared.durable() >= position || plant::is(Plant::CarriedToldEarly);
        if is_durable() {
            return Some(Ok(()));
        }
        let reason = self.shared.poison()?;
        // The last flush before the failure may have been this one's.
        Some(if is_durable() { Ok(()) } else { Err(Refusal::Unknown(reason.clone())) })
    }

    /// Waits until the log is durable up to `position`.
    fn wait(&self, position: u64) -> Result<(), Refusal> {
        let is_over = || self.look(position).is_some();
        // Calls that this thread ran for others may have logged behind `position`.
        let mut debt = Debt { handed_on: Some(true), ..Debt::default() };
        while !self.work_until(None, std::mem::take(&mut debt), &is_over) {
            // A thread that ends may have its place to sleep no more.
            let sleeper = SLEEPER.try_with(Sleeper::clone).unwrap_or_default();
            if !plant::is(Plant::WaiterNotEntered) {
                self.shared.waiters.enter(position, &sleeper);
            }
            // The last look, when this thread can be found: the holder of the log's seat sees it.
            if !self.work_until(None, Debt::default(), &is_over) {
                sleeper.park();
            }
            self.shared.waiters.leave(&sleeper);
        }
        self.look(position).unwrap_or(Ok(()))
    }
}

thread_local! {
    /// Where this thread sleeps. A word left over from an earlier wait only makes one more turn.
    static SLEEPER: Sleeper = Arc::new(Parker::new());
}

/// The logging stage, with the signal of its own thread.
type LogStage<E> = (Logging<<E as Executor>::Answer, <E as Executor>::Records>, Arc<Signal>);

/// Stages in seats: what callers have of them, and what the own threads step.
pub(super) struct Seated<E: Executor> {
    pub(super) carrier: Carrier<E>,
    pub(super) execution: Box<dyn Stage>,
    pub(super) log: Option<Box<dyn Stage>>,
}

/// What stages in seats share.
pub(super) struct Around<'a, A> {
    pub(super) shared: &'a Arc<Shared<A>>,
    pub(super) clock: &'a Arc<dyn Clock>,
    /// How long a caller works for others at most.
    pub(super) slice_ns_max: u64,
    /// How long a group may wait that no call waits for.
    pub(super) promised_ns_max: u64,
}

impl<A: Send + 'static> Around<'_, A> {
    fn in_seat<T: Stage + 'static>(
        &self,
        kind: StageKind,
        seat: &Arc<Seat<T>>,
    ) -> (Box<dyn Stage>, Arc<AtomicU64>) {
        let timer_ns = Arc::new(AtomicU64::new(NEVER_NS));
        let (seat, shared) = (seat.clone(), self.shared.clone());
        (Box::new(InSeat { kind, seat, shared, timer_ns: timer_ns.clone(), ended: None }), timer_ns)
    }

    /// Puts the stages into seats, each with the signal of its own thread.
    pub(super) fn put_in_seats<E: Executor<Answer = A>>(
        &self,
        (execution, signal): (Execution<E>, Arc<Signal>),
        log: Option<LogStage<E>>,
    ) -> Seated<E> {
        let execution = Arc::new(Seat::new(execution, signal));
        let (execution_stage, _) = self.in_seat(StageKind::Execution, &execution);
        let log = log.map(|(stage, signal)| {
            let seat = Arc::new(Seat::new(stage, signal));
            let (stage, timer_ns) = self.in_seat(StageKind::Logging, &seat);
            (LogSeat { seat, shared: self.shared.clone(), timer_ns }, stage)
        });
        let (log, log_stage) = log.unzip();
        let carrying = Carrying {
            execution: Box::new(ExecutionSeat(execution.clone())),
            log: log.map(|log| Box::new(log) as Box<dyn Steppable>),
            shared: self.shared.clone(),
            clock: self.clock.clone(),
            slice_ns_max: self.slice_ns_max,
            promised_ns_max: self.promised_ns_max,
            broken: OnceLock::new(),
        };
        let carrier = Carrier { execution, carrying: Arc::new(carrying) };
        Seated { carrier, execution: execution_stage, log: log_stage }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
