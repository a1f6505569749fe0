//! The simulated clock: time passes when the world says so, never by itself.
//!
//! Clones are the same clock. Processor time is the same as time: in the simulator nothing else runs. A thread
//! that waits for the disk lets other work run [`Meanwhile`], as threads would: what is lent to this thread is
//! run until the wait is over. Not here: what that is (`pipeline_engine/stages.rs`).

use std::cell::RefCell;
use std::time::Duration;

use tombolo_engine::clock::Clock;
use tombolo_storage::sync::{Arc, AtomicU64, Ordering};

/// The calendar when a world begins: the night of 22 November 2026.
const BEGIN_US: u64 = 1_795_305_600_000_000;

/// What works while a thread waits.
pub trait Meanwhile {
    /// Works until this time, or less.
    fn run_until(&mut self, until_ns: u64);
}

thread_local! {
    static LENT: RefCell<Option<Box<dyn Meanwhile>>> = const { RefCell::new(None) };
}

/// Lends `others` to the waits of this thread; the guard gives up what is left of them.
#[must_use]
pub fn lend(others: Box<dyn Meanwhile>) -> Lent {
    LENT.set(Some(others));
    Lent(())
}

/// While it lives, waits of this thread let others work.
#[derive(Debug)]
pub struct Lent(());

impl Drop for Lent {
    fn drop(&mut self) {
        LENT.take();
    }
}

/// A clock that is set.
#[derive(Clone, Debug, Default)]
pub struct SimClock {
    // One thread uses it at a time; the atomic is there because doors are `Sync`. Relaxed suffices.
    now_ns: Arc<AtomicU64>,
}

impl SimClock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `ns` nanoseconds pass.
    pub fn advance(&self, ns: u64) {
        self.now_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Waits, as for a disk: what is lent to this thread works meanwhile.
    pub fn wait(&self, ns: u64) {
        let until = self.now_ns() + ns;
        // Taken out, so that a wait within it is a plain one.
        if let Some(mut others) = LENT.take() {
            others.run_until(until);
            LENT.set(Some(others));
        }
        self.advance_to(until);
    }

    /// Lets time pass until `ns`, if that lies ahead.
    pub fn advance_to(&self, ns: u64) {
        self.now_ns.fetch_max(ns, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn unix_us(&self) -> u64 {
        BEGIN_US + self.now_ns() / 1_000
    }

    fn process_cpu(&self) -> Duration {
        Duration::from_nanos(self.now_ns())
    }

    fn thread_cpu(&self) -> Duration {
        self.process_cpu()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_work_while_a_thread_waits() {
        struct Worker(SimClock, Arc<AtomicU64>);
        impl Meanwhile for Worker {
            fn run_until(&mut self, until_ns: u64) {
                self.0.wait(1); // a wait within it ends by itself
                self.1.store(until_ns, Ordering::Relaxed);
            }
        }
        let (clock, seen) = (SimClock::new(), Arc::new(AtomicU64::new(0)));
        let lent = lend(Box::new(Worker(clock.clone(), seen.clone())));
        clock.wait(7);
        drop(lent);
        assert_eq!((clock.now_ns(), seen.load(Ordering::Relaxed)), (7, 7));
        clock.wait(7);
        assert_eq!((clock.now_ns(), seen.load(Ordering::Relaxed)), (14, 7));
    }

    #[test]
    fn time_passes_when_set_and_never_back() {
        let clock = SimClock::new();
        let same = clock.clone();
        clock.advance(5);
        same.advance_to(3);
        assert_eq!((clock.now_ns(), same.thread_cpu()), (5, Duration::from_nanos(5)));
        same.advance_to(9);
        assert_eq!(clock.now_ns(), 9);
    }
}
