//! Loom: callers that wait for the log flush it themselves or are woken when it was flushed.
//!
//! A caller hands on a record, as execution does for it, and waits for the position behind it; or it
//! queues its call, carries until that is answered, and sleeps where it cannot. A log lies in a seat; its
//! own thread sleeps until it is woken. Whatever the interleaving, every record is durable when its
//! caller continues, and no thread sleeps forever. Bugs that are planted are noticed.
//!
//! Execution has no thread of its own here: word that was left is looked at by the caller that found it.

use std::time::Duration;

use tombolo_storage::sync::loom::{self, thread};

use tombolo_storage::sync::{AtomicU64, Ordering};

use super::seated::{Around, LogSeat, Timed};
use super::*;
use crate::pipeline::log::Room;
use crate::pipeline::stage::{Stage, Step};
use crate::pipeline::transport::{Load, Queue, Seat, Signal};

const ONE: Load = Load { transactions: 1, bytes: 1 };

/// A call that was queued.
#[derive(Debug, Default)]
struct Queued {
    is_answered: AtomicU64,
    sleeper: Parker<()>,
}

/// A record, and the queued call that it is of.
type Record = (u64, Option<Arc<Queued>>);

/// A log of positions.
struct Positions {
    records: Arc<Queue<Record>>,
    shared: Arc<Shared<u64>>,
}

impl Stage for Positions {
    fn kind(&self) -> StageKind {
        StageKind::Logging
    }

    fn step(&mut self, _: u64) -> Step {
        let mut flushed = Vec::new();
        let is_open = self.records.drain(&mut flushed);
        let Some(&(position, _)) = flushed.last() else {
            return if is_open { Step::IdleUntil(None) } else { Step::Ended };
        };
        self.shared.set_durable(position);
        for queued in flushed.into_iter().filter_map(|(_, queued)| queued) {
            queued.is_answered.store(1, Ordering::SeqCst);
            queued.sleeper.unpark(());
        }
        self.shared.waiters.wake_up_to(position);
        Step::Progress
    }
}

impl Timed for Positions {
    fn timer_ns(&mut self) -> Option<u64> {
        None
    }
}

/// What calls write.
struct Writes {
    calls: Arc<Queue<Arc<Queued>>>,
    records: Arc<Queue<Record>>,
    /// Behind the last record.
    position: u64,
}

impl Writes {
    fn write(&mut self, queued: Option<Arc<Queued>>) -> u64 {
        self.position += 1;
        self.records.offer_silently((self.position, queued), ONE).unwrap();
        self.position
    }
}

/// As [`ExecutionSeat`] steps execution.
impl Steppable for Arc<Seat<Writes>> {
    fn turn(&self, _: u64) -> Turn {
        let Some(mut held) = self.take() else { return Turn::TAKEN };
        let mut calls = Vec::new();
        held.stage().calls.drain(&mut calls);
        let (stepped, handed_on) =
            if calls.is_empty() { (Stepped::Idle, None) } else { (Stepped::Progress, Some(true)) };
        for queued in calls {
            held.stage().write(Some(queued));
        }
        Turn { stepped, is_asked_for: held.give_back(), handed_on }
    }

    fn wake(&self) {}
}

/// Time stands still: no caller has worked long enough for others.
struct NoTime;

impl Clock for NoTime {
    fn now_ns(&self) -> u64 {
        0
    }
    fn unix_us(&self) -> u64 {
        0
    }
    fn process_cpu(&self) -> Duration {
        Duration::ZERO
    }
    fn thread_cpu(&self) -> Duration {
        Duration::ZERO
    }
}

struct World {
    carrying: Carrying<u64>,
    execution: Arc<Seat<Writes>>,
    calls: Arc<Queue<Arc<Queued>>>,
}

/// A caller that finds execution free: its transaction is handed on, and it waits for the log.
fn carried(world: &World) {
    let mut held = loop {
        match world.execution.try_take() {
            Some(held) => break held,
            None => thread::yield_now(),
        }
    };
    let own = held.stage().write(None);
    if held.give_back() {
        world.carrying.look_again(&world.execution);
    }
    world.carrying.wait(own).unwrap();
    assert!(world.carrying.shared.durable() >= own, "answered before it was durable");
}

/// A caller that has found it taken.
fn queued(world: &World) {
    let queued = Arc::new(Queued::default());
    world.calls.offer_silently(queued.clone(), ONE).unwrap();
    let is_answered = || queued.is_answered.load(Ordering::SeqCst) == 1;
    if !world.carrying.carry_until(&is_answered) {
        queued.sleeper.park();
    }
    assert!(is_answered(), "woken by its answer");
}

/// A caller's part.
type Part = fn(&World);

/// The log's own thread.
fn run_own(mut stage: Box<dyn Stage>, signal: &Signal) {
    loop {
        signal.announce();
        match stage.step(0) {
            Step::Progress => signal.retract(),
            Step::IdleUntil(_) => signal.sleep(None),
            Step::Ended => return stage.retire(),
        }
    }
}

/// A thread for each call, and the end.
fn calls_are_durable(parts: &'static [Part]) {
    let signal = Arc::new(Signal::new());
    let room = Room { bytes: 0, is_all: true, more_is_wanted: false };
    let shared = Arc::new(Shared::new(room));
    let bound = Load { transactions: 8, bytes: 8 };
    let records = Arc::new(Queue::new(bound, signal.clone(), Vec::new()));
    let stage = Positions { records: records.clone(), shared: shared.clone() };
    let seat = Arc::new(Seat::new(stage, signal.clone()));
    let clock: Arc<dyn Clock> = Arc::new(NoTime);
    let around =
        Around { shared: &shared, clock: &clock, slice_ns_max: 1_000, promised_ns_max: 1_000 };
    let (own, timer_ns) = around.in_seat(StageKind::Logging, &seat);
    let log = LogSeat { seat, shared: shared.clone(), timer_ns };
    let unwatched = Arc::new(Signal::new());
    let calls = Arc::new(Queue::new(bound, unwatched.clone(), Vec::new()));
    let writes = Writes { calls: calls.clone(), records: records.clone(), position: 0 };
    let execution = Arc::new(Seat::new(writes, unwatched));
    let carrying = Carrying {
        execution: Box::new(execution.clone()),
        log: Some(Box::new(log)),
        shared,
        clock: clock.clone(),
        slice_ns_max: 1_000,
        promised_ns_max: 1_000,
        broken: OnceLock::new(),
    };
    let world = Arc::new(World { carrying, execution, calls });
    let own = thread::spawn(move || run_own(own, &signal));
    let [first, others @ ..] = parts else { unreachable!("there is a caller") };
    let others: Vec<_> = others
        .iter()
        .map(|part| {
            let world = world.clone();
            thread::spawn(move || part(&world))
        })
        .collect();
    first(&world);
    others.into_iter().for_each(|other| other.join().unwrap());
    records.close();
    own.join().unwrap();
}

#[test]
fn a_lone_caller_flushes_or_is_woken() {
    loom::model(|| calls_are_durable(&[carried]));
}

#[test]
fn of_two_callers_one_flushes_and_both_go_on() {
    loom::model(|| calls_are_durable(&[carried, carried]));
}

#[test]
fn calls_that_were_queued_are_executed_and_answered() {
    loom::model(|| calls_are_durable(&[queued, queued]));
    loom::model(|| calls_are_durable(&[queued, carried]));
}

#[test]
#[should_panic(expected = "deadlock")]
fn word_that_is_forgotten_behind_an_own_flush_is_noticed() {
    plant::with(Plant::WordForgotten, || loom::model(|| calls_are_durable(&[queued, queued])));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_caller_that_does_not_enter_itself_is_noticed() {
    plant::with(Plant::WaiterNotEntered, || loom::model(|| calls_are_durable(&[carried, carried])));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_leader_that_is_not_woken_is_noticed() {
    plant::with(Plant::LeaderNotWoken, || loom::model(|| calls_are_durable(&[carried, carried])));
}

#[test]
#[should_panic(expected = "deadlock")]
fn word_for_the_log_that_is_ignored_is_noticed() {
    plant::with(Plant::WordIgnored, || loom::model(|| calls_are_durable(&[carried, carried])));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_thread_that_leaves_no_word_is_noticed() {
    plant::with(Plant::WordNotLeft, || loom::model(|| calls_are_durable(&[carried, carried])));
}

#[test]
#[should_panic(expected = "answered before it was durable")]
fn a_caller_that_goes_on_too_early_is_noticed() {
    plant::with(Plant::CarriedAnsweredEarly, || loom::model(|| calls_are_durable(&[carried])));
}
