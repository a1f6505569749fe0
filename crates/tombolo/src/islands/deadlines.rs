//! `Deadlines`: what an island waits for no longer than so long.
//!
//! Those of one kind pass in the order in which they were set, so each kind is a queue. Most are for nothing by
//! then, because what they bound has ended. Not here: the settings among the times (`waits.rs`), the thread that sleeps
//! until the first deadline (`mail.rs`).

use std::collections::VecDeque;

use tombolo_engine::islands::commit::{Age, Deadline};

use super::mail::NEVER_NS;
use super::waits::Waits;

/// Until a commit that found no room runs again.
const RETRY_NS: u64 = 10_000_000;
/// Until a transaction that gave way to an older one runs again, for each time it did.
const AGAIN_NS: u64 = 50_000;
/// It grows no longer after so many times.
const AGAIN_MAX: u32 = 200;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// To the protocol.
    Passed(Deadline),
    /// A transaction of this call runs again, with its age.
    Again(u64, Age),
}

/// The deadlines of an island. See the file's head.
#[derive(Debug)]
pub(super) struct Deadlines {
    waits: Waits,
    patience: VecDeque<(u64, Deadline)>,
    ask: VecDeque<(u64, Deadline)>,
    retry: VecDeque<(u64, Deadline)>,
    /// Those with times of their own; a few.
    own: Vec<(u64, Due)>,
}

impl Deadlines {
    pub(super) fn new(waits: Waits) -> Self {
        let (patience, ask, retry) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Self { waits, patience, ask, retry, own: Vec::new() }
    }

    pub(super) fn set(&mut self, deadline: Deadline, now_ns: u64) {
        let (queue, after_ns) = match deadline {
            Deadline::Patience(_) | Deadline::Local(_) => {
                (&mut self.patience, self.waits.others_ns())
            }
            Deadline::Ask(_) => (&mut self.ask, self.waits.decision_ns()),
            Deadline::Retry(_) => (&mut self.retry, RETRY_NS),
        };
        queue.push_back((now_ns + after_ns, deadline));
    }

    /// The transaction of `call` gave way for the `runs`-th time.
    pub(super) fn set_again(&mut self, call: u64, age: Age, runs: u32, now_ns: u64) {
        let after_ns = AGAIN_NS * u64::from(runs.min(AGAIN_MAX));
        self.own.push((now_ns + after_ns, Due::Again(call, age)));
    }

    /// A call waits for a lock, and has a deadline of its own.
    pub(super) fn set_call(&mut self, call: u64, deadline_ns: u64, now_ns: u64) {
        match deadline_ns < now_ns + self.waits.others_ns() {
            true => self.own.push((deadline_ns, Due::Passed(Deadline::Local(call)))),
            false => self.set(Deadline::Local(call), now_ns),
        }
    }

    /// One that has passed.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<Due> {
        if let Some(at) = self.own.iter().position(|(at_ns, _)| *at_ns <= now_ns) {
            return Some(self.own.swap_remove(at).1);
        }
        let mut queues = [&mut self.retry, &mut self.ask, &mut self.patience].into_iter();
        let passed = queues.find_map(|queue| queue.pop_front_if(|(at_ns, _)| *at_ns <= now_ns));
        passed.map(|(_, deadline)| Due::Passed(deadline))
    }

    /// Drops those in front that are for nothing.
    pub(super) fn forget(&mut self, is_for_nothing: impl Fn(&Deadline) -> bool) {
        for queue in [&mut self.retry, &mut self.ask, &mut self.patience] {
            while queue.pop_front_if(|(_, deadline)| is_for_nothing(deadline)).is_some() {}
        }
    }

    /// When the next one passes.
    pub(super) fn next_ns(&self) -> u64 {
        let queues = [&self.retry, &self.ask, &self.patience].into_iter();
        let first = queues.filter_map(|queue| queue.front()).map(|(at_ns, _)| *at_ns);
        first.chain(self.own.iter().map(|(at_ns, _)| *at_ns)).min().unwrap_or(NEVER_NS)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tombolo_engine::islands::commit::{IslandId, TransactionNumber};

    use super::*;

    #[test]
    fn each_passes_once_in_its_time() {
        let number = |counter| TransactionNumber { island: IslandId(0), opening: 1, counter };
        let age = Age { at: 0, first: number(9) };
        let [others, decision] = [5, 2].map(Duration::from_millis);
        let waits = Waits { others, decision, ..Waits::default() };
        let (patience_ns, ask_ns) = (waits.others_ns(), waits.decision_ns());
        let mut deadlines = Deadlines::new(waits);
        assert_eq!((deadlines.next_ns(), deadlines.take(u64::MAX)), (NEVER_NS, None));
        for counter in 0..3 {
            deadlines.set(Deadline::Patience(number(counter)), counter);
        }
        deadlines.set(Deadline::Ask(number(1)), 5);
        deadlines.set_again(7, age, 2, 5);
        assert_eq!(deadlines.next_ns(), 5 + 2 * AGAIN_NS);
        assert_eq!(deadlines.take(2 * AGAIN_NS), None);
        assert_eq!(deadlines.take(5 + 2 * AGAIN_NS), Some(Due::Again(7, age)));
        assert_eq!(deadlines.next_ns(), 5 + ask_ns);
        deadlines.forget(|deadline| *deadline == Deadline::Patience(number(0)));
        let mut passed = std::iter::from_fn(|| deadlines.take(patience_ns + 1));
        assert_eq!(passed.next(), Some(Due::Passed(Deadline::Ask(number(1)))));
        assert_eq!(passed.next(), Some(Due::Passed(Deadline::Patience(number(1)))));
        assert_eq!(passed.next(), None);
        assert_eq!(deadlines.next_ns(), 2 + patience_ns);
        deadlines.set_call(8, 20, 10);
        deadlines.set_call(9, u64::MAX, 10);
        assert_eq!(deadlines.take(20), Some(Due::Passed(Deadline::Local(8))));
        assert_eq!(deadlines.take(patience_ns), None);
    }
}
