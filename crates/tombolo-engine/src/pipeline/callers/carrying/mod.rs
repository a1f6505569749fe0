//! Carrying: a thread that waits for its call does the stages' work itself.
//!
//! ```text
//!   call ─► execution free? ──yes─► run it here ─► durable already? ──yes──────────────► answer
//!              │ no                                   │ no                                 ▲
//!              ▼                                      ▼                                    │
//!        [input queue], ask holder ─► wait:  device free? ──yes─► write and sync the group │
//!                                      ▲        │ no: ask the holder                       │
//!                                      └─ sleep ┘ ◄─ woken: the log is durable, or lead ───┘
//! ```
//!
//! One thread at a time has a stage (`seat.rs`). A caller that finds execution free and nothing
//! queued runs its transaction on its own stack, which avoids the cost of two threads waking each other. A
//! caller that finds execution taken spins briefly; if that does not help,
//! it queues the call and asks the holder of the seat to look again: that thread executes the call
//! before it leaves. The same holds for the log: the caller that finds the device free writes and syncs the
//! group, the others wait, and the one that has waited longest leads the next group. The stages' own threads
//! do the work that no caller waits for: submitted calls, long work, timers, and more work than a
//! caller should do for others.
//!
//! A caller works for others for at most `slice_us_max`, plus what the machine's scheduler adds; then
//! the stage's own thread continues. A caller never flushes for others once its own call is answered.
//!
//! Not here: the caller's own transaction (`carrier.rs`); the work of a stage; the arrival of a queued
//! call's reply (`callers/mod.rs`). Invariants: a thread that has queued something without waking the
//! stage's own thread takes the stage, or asks its holder to look again, before it sleeps; a thread that
//! gives a stage back and was asked looks again, or passes the request on.

pub(crate) mod carrier;
pub(crate) mod seated;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use tombolo_storage::plant::{self, Plant};
use tombolo_storage::sync::{Parker, Spin, thread_local};

use crate::clock::Clock;
use crate::pipeline::stage::StageKind;
use crate::pipeline::stage_loop::WhenBroken;
use crate::pipeline::state::Shared;
use crate::pipeline::transport::{Refusal, Sleeper};
use crate::threads::panic_message;

/// No timer.
const NEVER_NS: u64 = u64::MAX;

/// The result of a caller's step of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stepped {
    /// It made progress.
    Progress,
    /// There was nothing to do.
    Idle,
    /// Another thread has the stage and was asked to look again.
    Taken,
}

/// Whether records were passed to the log without waking its thread and, if so, whether a call waits for them.
type HandedOn = Option<bool>;

/// The work that a caller still has to do for others: done by the next turn at that stage, or by `settle`.
#[derive(Clone, Copy, Debug, Default)]
struct Debt {
    /// Records for which the log's thread was not woken.
    handed_on: HandedOn,
    /// Another thread asked to look at execution again.
    execution: bool,
    /// The same at the log.
    log: bool,
}

/// A caller's turn at a stage.
#[derive(Clone, Copy, Debug)]
struct Turn {
    stepped: Stepped,
    /// Whether another thread asked to look again: the caller does, or passes the request on.
    is_asked_for: bool,
    handed_on: HandedOn,
}

impl Turn {
    const TAKEN: Self = Self { stepped: Stepped::Taken, is_asked_for: false, handed_on: None };
}

/// A stage that callers may step, whatever its executor.
trait Steppable: Send + Sync {
    /// Steps it once, or asks the holder to look again.
    fn turn(&self, now_ns: u64) -> Turn;

    /// Wakes its own thread.
    fn wake(&self);

    /// Passes the request to look again on to another thread.
    fn pass_on(&self) {
        self.wake();
    }

    /// Has another thread step it.
    fn ask(&self) {
        self.wake();
    }

    /// The time at which its own thread looks again by itself, if nothing wakes it.
    fn timer_ns(&self) -> u64 {
        NEVER_NS
    }
}

/// The stages' work that waiting callers do, for any executor with these answers.
pub(crate) struct Carrying<A> {
    execution: Box<dyn Steppable>,
    log: Option<Box<dyn Steppable>>,
    shared: Arc<Shared<A>>,
    clock: Arc<dyn Clock>,
    /// The longest time that a caller works for others.
    slice_ns_max: u64,
    /// The longest time that a group without waiting calls may wait.
    promised_ns_max: u64,
    broken: OnceLock<WhenBroken>,
}

impl<A> std::fmt::Debug for Carrying<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carrying").finish_non_exhaustive()
    }
}

impl<A> Carrying<A> {
    /// Works until `is_done`, or until there is nothing this thread can do: then it may sleep until the event
    /// that it waits for wakes it. Returns whether it is done.
    pub(crate) fn carry_until(&self, is_done: &dyn Fn() -> bool) -> bool {
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
                // The caller has done enough for others.
                self.leave_to_own_threads(execution);
                return is_done();
            }
        }
    }

    /// A turn at each stage, until it is done; returns whether there was anything to do. If another
    /// thread asked for a stage, there may be more.
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
            debt.handed_on = None; // this turn handled it, or the holder was asked to
        }
        has_progress
    }

    /// Leaves the work to the stages' own threads: the log's, and execution's if this thread stepped that.
    fn leave_to_own_threads(&self, execution: Option<&dyn Steppable>) {
        execution.into_iter().chain(self.log.as_deref()).for_each(Steppable::pass_on);
    }

    /// Looks at execution once more, for the thread that asked; returns what this has passed to the log.
    fn look_again(&self, execution: &dyn Steppable) -> HandedOn {
        let turn = self.turn(StageKind::Execution, execution, self.clock.now_ns());
        if turn.is_asked_for || turn.stepped == Stepped::Progress {
            execution.pass_on(); // there may be more
        }
        turn.handed_on
    }

    /// Does the remaining work for others before this thread continues.
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

    /// Stops the pipeline after a stage panicked: nothing is acknowledged any more, for this reason.
    #[cold]
    fn break_down(&self, kind: StageKind, message: &str) -> Arc<str> {
        if let Some(broken) = self.broken.get() {
            broken(kind, message);
        }
        self.shared.set_poison(message)
    }

    /// Sets the callback for a stage that panics on a caller's thread.
    pub(crate) fn set_broken(&self, broken: WhenBroken) {
        let is_first = self.broken.set(broken).is_ok();
        assert!(is_first, "a pipeline is wired once");
    }

    /// Has another thread flush the log.
    fn ask_for_flush(&self) {
        if let Some(log) = &self.log {
            log.ask();
        }
    }

    /// Whether the log is durable up to `position`, or never will be; `None` if that is undecided.
    fn look(&self, position: u64) -> Option<Result<(), Refusal>> {
        let is_durable =
            || self.shared.durable() >= position || plant::is(Plant::CarriedAnsweredEarly);
        if is_durable() {
            return Some(Ok(()));
        }
        let reason = self.shared.poison()?;
        // The last flush before the failure may have covered this position.
        Some(if is_durable() { Ok(()) } else { Err(Refusal::Unknown(reason.clone())) })
    }

    /// Waits until the log is durable up to `position`.
    fn wait(&self, position: u64) -> Result<(), Refusal> {
        let is_over = || self.look(position).is_some();
        // Calls that this thread ran for others may have logged after `position`.
        let mut debt = Debt { handed_on: Some(true), ..Debt::default() };
        while !self.work_until(None, std::mem::take(&mut debt), &is_over) {
            // A thread that is ending may have lost its sleeper.
            let sleeper = SLEEPER.try_with(Sleeper::clone).unwrap_or_default();
            if !plant::is(Plant::WaiterNotEntered) {
                self.shared.waiters.enter(position, &sleeper);
            }
            // A last look after the thread is entered: from now on the holder of the log's seat finds it.
            if !self.work_until(None, Debt::default(), &is_over) {
                sleeper.park();
            }
            self.shared.waiters.leave(&sleeper);
        }
        self.look(position).unwrap_or(Ok(()))
    }
}

thread_local! {
    /// This thread's sleeper. A wake-up left over from an earlier wait only causes one more turn.
    static SLEEPER: Sleeper = Arc::new(Parker::new());
}

#[cfg(all(test, loom))]
mod loom_tests;
