//! Visits under loom: no call is missed by both threads, nobody sleeps for ever, and one thread at a
//! time has the stages.
//!
//! A call that neither thread sees, or a thread that nobody sends home, would leave all threads
//! asleep, which loom reports.

use tombolo_storage::sync::loom::{self, thread};

use super::*;
use crate::pipeline::queue::{Load, Queue};

const ONE: Load = Load { transactions: 1, bytes: 1 };

/// The stages before the log: they take calls, and close what is behind them at the end.
struct Before {
    calls: Arc<Queue<u32>>,
    log: Arc<Queue<u32>>,
    seen: Vec<u32>,
}

impl Guests for Before {
    fn are_called(&self) -> bool {
        self.calls.has_items()
    }
}

impl Before {
    /// Takes what there is; whether it did anything.
    fn step(&mut self) -> bool {
        let mut calls = Vec::new();
        let is_open = self.calls.drain(&mut calls);
        let has_taken = !calls.is_empty();
        self.seen.append(&mut calls);
        if !is_open {
            self.log.close();
        }
        has_taken
    }
}

/// The stages' own thread.
fn run_own(visit: &Visit<Before>, signal: &Signal, mut before: Before) -> Vec<u32> {
    while before.log.is_open() {
        signal.announce();
        if before.step() || !before.log.is_open() {
            signal.retract();
            continue;
        }
        before = visit.leave_and_sleep(before);
    }
    before.seen
}

/// The logging stage's thread: `flushes` flushes, then it only steps who visits.
fn run_host(visit: &Visit<Before>, host: &Signal, log: &Queue<u32>, mut flushes: u32) {
    loop {
        host.announce();
        let mut has_work = false;
        visit.with_visitors(|before| {
            has_work = before.step();
            0
        });
        if flushes > 0 {
            flushes -= 1;
            has_work = true;
            visit.flush_begins(0);
            visit.flush_ended(0);
        }
        if has_work {
            host.retract();
        } else if log.is_open() {
            host.sleep(None);
        } else {
            break visit.send_home();
        }
    }
}

/// Calls from another thread, while `flushes` flushes begin and end.
fn calls_are_seen(calls_made: u32, flushes: u32) {
    let host = Arc::new(Signal::new());
    let signal = Arc::new(Signal::with_host(host.clone()));
    let bound = Load { transactions: 8, bytes: 8 };
    let calls = Arc::new(Queue::new(bound, signal.clone(), Vec::new()));
    let log = Arc::new(Queue::new(bound, host.clone(), Vec::new()));
    let visit = Arc::new(Visit::new(signal.clone()));
    let caller = {
        let calls = calls.clone();
        thread::spawn(move || {
            (0..calls_made).for_each(|call| calls.try_put(call, ONE).unwrap());
            calls.close();
        })
    };
    let own = {
        let (visit, log) = (visit.clone(), log.clone());
        thread::spawn(move || run_own(&visit, &signal, Before { calls, log, seen: Vec::new() }))
    };
    run_host(&visit, &host, &log, flushes);
    caller.join().unwrap();
    assert_eq!(own.join().unwrap(), (0..calls_made).collect::<Vec<_>>());
}

#[test]
fn a_call_is_seen_wherever_the_stages_are() {
    loom::model(|| calls_are_seen(1, 1));
}

#[test]
fn a_call_is_seen_when_a_second_flush_begins() {
    loom::model(|| calls_are_seen(1, 2));
}
