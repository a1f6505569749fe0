//! Loom: callers that wait for the log flush it themselves or are woken when it was flushed.
//!
//! Each caller hands on a record, as execution does for it, and waits for the position behind it. A log
//! lies in a seat; its own thread sleeps until it is woken. Whatever the interleaving, every record is
//! durable when its caller goes on, and no thread sleeps for ever. Bugs that are planted are noticed.

use std::time::Duration;

use tombolo_storage::sync::Mutex;
use tombolo_storage::sync::loom::{self, thread};

use super::super::log::Room;
use super::super::queue::{Load, Queue};
use super::*;

const ONE: Load = Load { transactions: 1, bytes: 1 };

/// A log of positions.
struct Positions {
    records: Arc<Queue<u64>>,
    shared: Arc<Shared<u64>>,
}

impl Stage for Positions {
    fn kind(&self) -> StageKind {
        StageKind::Logging
    }

    fn step(&mut self, _: u64) -> Step {
        let mut flushed = Vec::new();
        let is_open = self.records.drain(&mut flushed);
        let Some(&position) = flushed.last() else {
            return if is_open { Step::IdleUntil(None) } else { Step::Ended };
        };
        self.shared.set_durable(position);
        self.shared.waiters.wake_up_to(position);
        Step::Progress
    }

    fn retire(self: Box<Self>) {}

    fn worked(&self, _: u64) {}
}

impl Timed for Positions {
    fn timer_ns(&mut self) -> Option<u64> {
        None
    }
}

/// Callers that wait for the log do not step execution.
struct NoExecution;

impl Steppable for NoExecution {
    fn turn(&self, _: u64) -> Turn {
        unreachable!("no caller steps execution here")
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
    records: Arc<Queue<u64>>,
    /// Behind the last record; who holds it has execution.
    position: Mutex<u64>,
}

/// A caller's part: its transaction is handed on, and it waits for the log.
fn call(world: &World) {
    let mut position = world.position.lock();
    *position += 1;
    let own = *position;
    world.records.offer_silently(own, ONE).unwrap();
    drop(position);
    world.carrying.wait(own).unwrap();
    assert!(world.carrying.shared.durable() >= own, "told before it was durable");
}

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

/// Calls from as many threads, and the end.
fn calls_are_durable(callers: u64) {
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
    let carrying = Carrying {
        execution: Box::new(NoExecution),
        log: Some(Box::new(log)),
        shared,
        clock: clock.clone(),
        slice_ns_max: 1_000,
        promised_ns_max: 1_000,
        broken: OnceLock::new(),
    };
    let world = Arc::new(World { carrying, records: records.clone(), position: Mutex::new(0) });
    let own = thread::spawn(move || run_own(own, &signal));
    let others: Vec<_> = (1..callers)
        .map(|_| {
            let world = world.clone();
            thread::spawn(move || call(&world))
        })
        .collect();
    call(&world);
    others.into_iter().for_each(|other| other.join().unwrap());
    records.close();
    own.join().unwrap();
}

#[test]
fn a_lone_caller_flushes_or_is_woken() {
    loom::model(|| calls_are_durable(1));
}

#[test]
fn of_two_callers_one_flushes_and_both_go_on() {
    loom::model(|| calls_are_durable(2));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_caller_that_does_not_enter_itself_is_noticed() {
    plant::with(Plant::WaiterNotEntered, || loom::model(|| calls_are_durable(2)));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_leader_that_is_not_woken_is_noticed() {
    plant::with(Plant::LeaderNotWoken, || loom::model(|| calls_are_durable(2)));
}

#[test]
#[should_panic(expected = "deadlock")]
fn word_for_the_log_that_is_ignored_is_noticed() {
    plant::with(Plant::WordIgnored, || loom::model(|| calls_are_durable(2)));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_thread_that_leaves_no_word_is_noticed() {
    plant::with(Plant::WordNotLeft, || loom::model(|| calls_are_durable(2)));
}

#[test]
#[should_panic(expected = "told before it was durable")]
fn a_caller_that_goes_on_too_early_is_noticed() {
    plant::with(Plant::CarriedToldEarly, || loom::model(|| calls_are_durable(1)));
}
