//! Loom: no call is overlooked, whichever thread has the stage.
//!
//! A stage that takes everything from a queue lies in a seat; its own thread sleeps until it is woken,
//! callers put calls in without waking it, and step it or leave word. Whatever the interleaving, every
//! call is taken once, and no thread sleeps forever.

use tombolo_storage::sync::loom::{self, thread};
use tombolo_storage::sync::{Arc, Mutex};

use crate::pipeline::stage::Step;
use crate::pipeline::transport::queue::{Load, Queue};
use crate::pipeline::transport::seat::Seat;
use crate::pipeline::transport::signal::Signal;

const ONE: Load = Load { transactions: 1, bytes: 1 };

/// A stage that takes calls.
struct Taking {
    calls: Arc<Queue<u32>>,
    seen: Arc<Mutex<Vec<u32>>>,
}

impl Taking {
    /// Takes what there is; says whether there was anything, or more may come.
    fn step(&mut self) -> Step {
        let mut calls = Vec::new();
        let is_open = self.calls.drain(&mut calls);
        let has_taken = !calls.is_empty();
        self.seen.lock().append(&mut calls);
        match is_open {
            _ if has_taken => Step::Progress,
            true => Step::IdleUntil(None),
            false => Step::Ended,
        }
    }
}

/// The stage's own thread: sleeps until there is something, ends with the queue.
fn run_own(seat: &Seat<Taking>, signal: &Signal) {
    loop {
        signal.announce();
        let Some(mut held) = seat.take() else {
            signal.sleep(None); // its holder looks again, or wakes this thread
            continue;
        };
        let step = held.stage().step();
        match step {
            _ if held.give_back() => signal.retract(),
            Step::Progress => signal.retract(),
            Step::IdleUntil(_) => signal.sleep(None),
            Step::Ended => return,
        }
    }
}

/// A caller's part: puts a call in without waking a thread, and looks after it.
fn call(seat: &Seat<Taking>, calls: &Queue<u32>, call: u32) {
    calls.offer_silently(call, ONE).unwrap();
    let Some(mut held) = seat.take() else { return };
    held.stage().step();
    if held.give_back() {
        seat.wake();
    }
}

/// Calls from as many threads, one of them submitting, and the end.
fn calls_are_seen(callers: u32) {
    let signal = std::sync::Arc::new(Signal::new());
    let bound = Load { transactions: 8, bytes: 8 };
    let calls = Arc::new(Queue::new(bound, signal.clone(), Vec::new()));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let stage = Taking { calls: calls.clone(), seen: seen.clone() };
    let seat = Arc::new(Seat::new(stage, signal.clone()));
    let own = {
        let seat = seat.clone();
        thread::spawn(move || run_own(&seat, &signal))
    };
    let others: Vec<_> = (1..callers)
        .map(|number| {
            let (seat, calls) = (seat.clone(), calls.clone());
            thread::spawn(move || call(&seat, &calls, number))
        })
        .collect();
    call(&seat, &calls, 0);
    others.into_iter().for_each(|other| other.join().unwrap());
    calls.close();
    own.join().unwrap();
    let mut seen = seen.lock().clone();
    seen.sort_unstable();
    assert_eq!(seen, (0..callers).collect::<Vec<_>>());
}

#[test]
fn a_call_is_seen_by_its_caller_or_the_own_thread() {
    loom::model(|| calls_are_seen(1));
}

#[test]
fn a_call_is_seen_that_finds_another_caller_there() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| calls_are_seen(2));
}
