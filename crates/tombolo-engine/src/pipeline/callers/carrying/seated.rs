//! Stages in seats, stepped by their own threads and by callers.
//!
//! Not here: a caller's decision to take a turn (`mod.rs`). Invariant: the logging stage's own thread keeps its
//! timer.

use std::sync::{Arc, OnceLock};

use tombolo_storage::plant::{self, Plant};
use tombolo_storage::sync::{AtomicU64, Ordering};

use super::carrier::Carrier;
use super::{Carrying, NEVER_NS, Steppable, Stepped, Turn};
use crate::clock::Clock;
use crate::pipeline::log::Records;
use crate::pipeline::stage::{Stage, StageKind, Step};
use crate::pipeline::stages::execution::Execution;
use crate::pipeline::stages::{Executor, Logging};
use crate::pipeline::state::Shared;
use crate::pipeline::transport::{Seat, Signal};

/// A stage in a seat, for its own thread.
pub(crate) struct InSeat<T, A> {
    pub(crate) kind: StageKind,
    pub(crate) seat: Arc<Seat<T>>,
    pub(crate) shared: Arc<Shared<A>>,
    /// The time at which the own thread looks again by itself.
    pub(crate) timer_ns: Arc<AtomicU64>,
    /// The stage, once it has ended.
    pub(crate) ended: Option<T>,
}

impl<T: Stage, A: Send + 'static> Stage for InSeat<T, A> {
    fn kind(&self) -> StageKind {
        self.kind
    }

    fn step(&mut self, now_ns: u64) -> Step {
        // First: a caller that steps the stage meanwhile must see that no timer is set.
        self.timer_ns.store(NEVER_NS, Ordering::SeqCst);
        let Some(mut held) = self.seat.take() else {
            // The holder looks again, or wakes this thread. A broken stage was reported already.
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

/// The execution stage, for callers.
pub(crate) struct ExecutionSeat<E: Executor>(Arc<Seat<Execution<E>>>);

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
            self.0.wake(); // the stage ends on its own thread
        }
        let stepped = if step == Step::Progress { Stepped::Progress } else { Stepped::Idle };
        Turn { stepped, is_asked_for, handed_on }
    }

    fn wake(&self) {
        self.0.wake();
    }
}

/// A stage that knows when it has work even if nothing arrives.
pub(crate) trait Timed: Stage {
    fn timer_ns(&mut self) -> Option<u64>;
}

impl<A: Send + 'static, B: Records> Timed for Logging<A, B> {
    fn timer_ns(&mut self) -> Option<u64> {
        self.timer_ns()
    }
}

/// The logging stage, for callers.
pub(crate) struct LogSeat<T, A> {
    pub(crate) seat: Arc<Seat<T>>,
    pub(crate) shared: Arc<Shared<A>>,
    pub(crate) timer_ns: Arc<AtomicU64>,
}

impl<T: Timed, A: Send + 'static> Steppable for LogSeat<T, A> {
    fn turn(&self, now_ns: u64) -> Turn {
        let Some(mut held) = self.seat.take() else { return Turn::TAKEN };
        let step = held.stage().step(now_ns);
        let until_ns = match step {
            Step::Progress => held.stage().timer_ns(),
            Step::IdleUntil(until_ns) => until_ns,
            Step::Ended => Some(0), // the stage ends on its own thread
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

    fn ask(&self) {
        let Some(held) = self.seat.take() else { return };
        let _ = held.give_back(); // the thread that is woken looks for all that asked
        self.pass_on();
    }

    fn timer_ns(&self) -> u64 {
        self.timer_ns.load(Ordering::SeqCst)
    }
}

/// The logging stage, with the signal of its own thread.
type LogStage<E> = (Logging<<E as Executor>::Answer, <E as Executor>::Records>, Arc<Signal>);

/// Stages in seats: the parts for callers, and those for their own threads.
pub(crate) struct Seated<E: Executor> {
    pub(crate) carrier: Carrier<E>,
    pub(crate) execution: Box<dyn Stage>,
    pub(crate) log: Option<Box<dyn Stage>>,
}

/// The surroundings that stages in seats share.
pub(crate) struct Around<'a, A> {
    pub(crate) shared: &'a Arc<Shared<A>>,
    pub(crate) clock: &'a Arc<dyn Clock>,
    /// The longest time that a caller works for others.
    pub(crate) slice_ns_max: u64,
    /// The longest time that a group without waiting calls may wait.
    pub(crate) promised_ns_max: u64,
}

impl<A: Send + 'static> Around<'_, A> {
    pub(super) fn in_seat<T: Stage + 'static>(
        &self,
        kind: StageKind,
        seat: &Arc<Seat<T>>,
    ) -> (Box<dyn Stage>, Arc<AtomicU64>) {
        let timer_ns = Arc::new(AtomicU64::new(NEVER_NS));
        let (seat, shared) = (seat.clone(), self.shared.clone());
        (Box::new(InSeat { kind, seat, shared, timer_ns: timer_ns.clone(), ended: None }), timer_ns)
    }

    /// Other logs have this one looked at when what it waits for may have been flushed, or they wait for it.
    fn look_for_others<B: Records>(&self, seat: &Arc<Seat<Logging<A, B>>>)
    where
        A: 'static,
    {
        let mut held = seat.take().unwrap_or_else(|| unreachable!("the stage does not run yet"));
        let (own, shared) = (Arc::downgrade(seat), self.shared.clone());
        let clock = self.clock.clone();
        if let Some(in_common) = held.stage().in_common() {
            in_common.looked_at_by(move || {
                let Some(seat) = own.upgrade() else { return };
                let Some(mut held) = seat.take() else { return }; // its holder looks again
                held.stage().look_at_others(clock.now_ns());
                let has_more = held.stage().has_more();
                if (held.give_back() || has_more) && !shared.waiters.wake_one(shared.durable()) {
                    seat.wake();
                }
            });
        }
        let _ = held.give_back();
    }

    /// Puts the stages into seats, each with the signal of its own thread.
    pub(crate) fn put_in_seats<E: Executor<Answer = A>>(
        &self,
        (execution, signal): (Execution<E>, Arc<Signal>),
        log: Option<LogStage<E>>,
    ) -> Seated<E> {
        let execution = Arc::new(Seat::new(execution, signal));
        let (execution_stage, _) = self.in_seat(StageKind::Execution, &execution);
        let log = log.map(|(stage, signal)| {
            let seat = Arc::new(Seat::new(stage, signal));
            let (stage, timer_ns) = self.in_seat(StageKind::Logging, &seat);
            self.look_for_others(&seat);
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
