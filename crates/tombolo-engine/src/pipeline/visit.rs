//! Input and execution visit the logging stage's thread while a thread of their own would not help.
//!
//! Where everybody who calls waits for the same flush, nothing is executed while it runs. Two
//! threads then only hand each call over, and each hand-over costs a wake: as much as the
//! transaction. So the stages before the log are stepped by the logging stage's thread for as long
//! as nobody calls during a flush. A flush itself never holds them up: whoever calls while one runs
//! wakes their own thread, which takes them home.
//!
//! ```text
//!                  their thread sleeps              QUIET_MIN flushes without a call
//!     ┌── home ──────────────────────► left open ──────────────────────────────┐
//!     │    ▲                             │ ▲ │                                 ▼
//!     │    └── somebody calls: woken ────┘ │ └─── a flush ends without a call ► visiting ──┐
//!     └── calls: stepped by their thread   └──────────── a flush begins ◄───────┘ ◄─ calls ┘
//! ```
//!
//! *home*: their own thread has them and is awake, or about to look again. *left open*: it sleeps,
//! they lie here; their signal wakes it. *visiting*: they lie here, the logging stage's thread
//! locks them for each of its turns; their signal wakes that one.
//!
//! Not here: how stages are stepped (`threads.rs`), when a flush is due (`logging.rs`). The logging
//! stage, the log's one owner, never moves. Invariants: one thread steps them at a time, because
//! they are moved out of the slot or its mutex is held; a call is seen by one of the two threads,
//! because whoever begins to be responsible for them looks at their queues afterwards
//! (`visit/loom_tests.rs`).

use std::sync::Arc;

use tombolo_storage::sync::{AtomicU64, Mutex};

use super::Stage;
use super::signal::Signal;
use super::statistics::{add, get};

/// Flushes in a row without a call before the stages visit. Who is wrong about it pays two wakes;
/// with calls at random moments, so many in a row mean that the device is idle most of the time.
const QUIET_MIN: u32 = if cfg!(loom) { 1 } else { 4 };

/// Stages that visit.
pub(crate) type VisitOfStages = Visit<Vec<Box<dyn Stage>>>;

#[derive(Debug)]
struct Slot<T> {
    guests: Option<T>,
    /// What had run when the flush began.
    ran: u64,
    /// Flushes in a row during which nothing ran and nobody called.
    quiet: u32,
}

/// Where stages lie that no thread has.
#[derive(Debug)]
pub(crate) struct Visit<T> {
    slot: Mutex<Slot<T>>,
    /// Of their own thread; its host is the logging stage's.
    signal: Arc<Signal>,
    /// How long they have worked as visitors.
    worked_ns: AtomicU64,
}

/// What it must be possible to ask of guests.
pub(crate) trait Guests {
    /// Whether something waits for them.
    fn are_called(&self) -> bool;
}

impl Guests for Vec<Box<dyn Stage>> {
    fn are_called(&self) -> bool {
        self.iter().any(|stage| stage.is_called())
    }
}

impl<T: Guests> Visit<T> {
    /// Of stages that `signal` wakes, which has a host.
    pub(crate) fn new(signal: Arc<Signal>) -> Self {
        let slot = Slot { guests: None, ran: 0, quiet: 0 };
        Self { slot: Mutex::new(slot), signal, worked_ns: AtomicU64::new(0) }
    }

    /// Their own thread leaves them open and sleeps until it has to take them home; only after it
    /// has announced that, looked at them once more and found nothing to do.
    pub(crate) fn leave_and_sleep(&self, guests: T) -> T {
        let none = self.slot.lock().guests.replace(guests);
        assert!(none.is_none(), "they are in one place");
        loop {
            self.signal.park();
            let mut slot = self.slot.lock();
            // A word left over from before they went is none.
            if !self.signal.is_away()
                && let Some(guests) = slot.guests.take()
            {
                self.signal.retract();
                return guests;
            }
        }
    }

    /// For the logging stage's thread: steps them with `step`, if they visit; it answers for how
    /// many nanoseconds they have worked.
    pub(crate) fn with_visitors(&self, step: impl FnOnce(&mut T) -> u64) {
        if !self.signal.is_away() {
            return;
        }
        // Only this thread lets them visit, and while they do only this thread takes the slot.
        if let Some(guests) = &mut self.slot.lock().guests {
            add(&self.worked_ns, step(guests));
        }
    }

    /// How long they have worked as visitors, in nanoseconds.
    pub(crate) fn worked_ns(&self) -> u64 {
        get(&self.worked_ns)
    }

    /// A flush begins: until it ends, who calls wakes the stages' own thread. `ran` counts what they
    /// have executed.
    pub(crate) fn flush_begins(&self, ran: u64) {
        let mut slot = self.slot.lock();
        slot.ran = ran;
        // Who called before this saw that they were away, and is seen now.
        if self.signal.come_back() && slot.guests.as_ref().is_some_and(Guests::are_called) {
            self.signal.wake();
        }
    }

    /// The flush has ended; none of its answers has left. If nothing has run since it began and
    /// nobody has called, lately neither, they visit; the caller steps them before it sleeps.
    pub(crate) fn flush_ended(&self, ran: u64) {
        let mut slot = self.slot.lock();
        let guests = slot.guests.as_ref();
        let is_quiet = ran == slot.ran && guests.is_some_and(|guests| !guests.are_called());
        slot.quiet = if is_quiet { slot.quiet.saturating_add(1) } else { 0 };
        // Whoever calls in this moment wakes their thread, and then they stay.
        if slot.quiet >= QUIET_MIN && !self.signal.go_away() {
            slot.quiet = 0;
        }
    }

    /// The logging stage's thread ends: who visits goes home.
    pub(crate) fn send_home(&self) {
        if self.signal.come_back() {
            self.signal.wake();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
