//! Threads that take turns on a simulated clock: at any time one of them runs, the one whose moment
//! comes first, so that what they do together is the same every time.
//!
//! A thread says how long its work takes ([`Turn::work`]); until then the others have their turns.
//! So stages work at the same simulated time as if each had a core, and a stage that waits for the
//! disk in the middle of a step does so without its knowledge. Not here: faults, chance, what the
//! threads do.

use tombolo_engine::clock::Clock;
use tombolo_storage::sync::{Arc, Condvar, Mutex};

use crate::clock::SimClock;

/// When a thread has its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// Then: it works until that time.
    At(u64),
    /// When another one wakes it, or at that time.
    Idle(Option<u64>),
    /// Never again.
    Ended,
}

#[derive(Debug)]
struct State {
    running: usize,
    due: Vec<Due>,
    /// Whether something has happened since the idle threads last looked for work.
    is_fresh: bool,
    /// Whether no thread will ever have anything to do.
    is_stuck: bool,
}

#[derive(Debug)]
struct Turns {
    state: Mutex<State>,
    changed: Vec<Condvar>,
    clock: SimClock,
}

/// One thread's side of it.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    me: usize,
}

/// As many threads as asked for, on `clock`. The first one has its turn now; each of the others
/// begins with [`Turn::begin`].
pub(super) fn take_turns(threads: usize, clock: SimClock) -> Vec<Turn> {
    let due = vec![Due::At(clock.now_ns()); threads];
    let state = State { running: 0, due, is_fresh: true, is_stuck: false };
    let changed = (0..threads).map(|_| Condvar::new()).collect();
    let turns = Arc::new(Turns { state: Mutex::new(state), changed, clock });
    (0..threads).map(|me| Turn { turns: Arc::clone(&turns), me }).collect()
}

impl State {
    /// Whose turn is next, and when.
    fn first(&self, now_ns: u64) -> Option<(u64, usize)> {
        let moments = self.due.iter().enumerate().filter_map(|(thread, due)| match due {
            Due::At(ns) | Due::Idle(Some(ns)) => Some(((*ns).max(now_ns), thread)),
            Due::Idle(None) | Due::Ended => None,
        });
        moments.min()
    }

    fn wake(&mut self, thread: usize, now_ns: u64) {
        if matches!(self.due[thread], Due::Idle(_)) {
            self.due[thread] = Due::At(now_ns);
        }
    }

    /// Chooses the thread that runs next, and lets time pass until then.
    fn choose(&mut self, clock: &SimClock) {
        let now_ns = clock.now_ns();
        // When all are idle, each looks once more: a stage may pass on what it held and still report that it is
        // idle.
        if self.is_fresh && !self.due.iter().any(|due| matches!(due, Due::At(_))) {
            self.is_fresh = false;
            (0..self.due.len()).for_each(|thread| self.wake(thread, now_ns));
        }
        match self.first(now_ns) {
            Some((ns, thread)) => {
                clock.advance_to(ns);
                self.running = thread;
            }
            None => (self.is_stuck, self.running) = (true, 0),
        }
    }
}

impl Turn {
    pub(super) fn now_ns(&self) -> u64 {
        self.turns.clock.now_ns()
    }

    /// Waits for the first turn.
    pub(super) fn begin(&self) {
        self.wait(self.turns.state.lock());
    }

    /// Works for so long.
    pub(super) fn work(&self, ns: u64) {
        self.pass(Due::At(self.now_ns() + ns));
    }

    /// Waits until it is woken, or until a time; returns `false` if no thread ever will wake it.
    pub(super) fn idle(&self, until_ns: Option<u64>) -> bool {
        self.pass(Due::Idle(until_ns));
        !self.turns.state.lock().is_stuck
    }

    /// What this thread did may be something to do for those.
    pub(super) fn wake(&self, threads: &[usize]) {
        let mut state = self.turns.state.lock();
        state.is_fresh = true;
        threads.iter().for_each(|&thread| state.wake(thread, self.turns.clock.now_ns()));
    }

    /// Gives up all further turns.
    pub(super) fn end(self) {
        let mut state = self.turns.state.lock();
        state.due[self.me] = Due::Ended;
        state.choose(&self.turns.clock);
        self.turns.changed[state.running].notify_one();
    }

    fn pass(&self, due: Due) {
        let mut state = self.turns.state.lock();
        state.due[self.me] = due;
        state.choose(&self.turns.clock);
        if state.running != self.me {
            self.turns.changed[state.running].notify_one();
            self.wait(state);
        }
    }

    fn wait(&self, mut state: tombolo_storage::sync::MutexGuard<'_, State>) {
        while state.running != self.me {
            state = self.turns.changed[self.me].wait(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_engine::threads::Running;

    #[test]
    fn turns_are_in_the_order_of_time() {
        let seen: Arc<Mutex<Vec<(u64, usize)>>> = Arc::default();
        let clock = SimClock::new();
        let mut turns = take_turns(3, clock).into_iter();
        let first = turns.next().unwrap();
        let others: Vec<Running> = turns
            .map(|turn| {
                let seen = Arc::clone(&seen);
                let started = Running::start("turn", move || {
                    turn.begin();
                    for _ in 0..3 {
                        turn.work(10 * turn.me as u64);
                        seen.lock().push((turn.now_ns(), turn.me));
                    }
                    turn.wake(&[0]);
                    turn.end();
                });
                started.unwrap()
            })
            .collect();
        let mut woken = 0;
        while first.idle(None) {
            woken += 1;
        }
        others.into_iter().for_each(Running::join);
        assert_eq!(*seen.lock(), [(10, 1), (20, 1), (20, 2), (30, 1), (40, 2), (60, 2)]);
        assert!(woken >= 2, "each of the others ended with progress");
    }
}
