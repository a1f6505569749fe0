//! A stage's seat: which thread has the stage, one at a time.
//!
//! A stage is stepped by its own thread, or by a caller that waits and finds it free. A thread first
//! does its part — puts a call into the stage's queue — and then tries to take the seat. If the seat
//! is taken, it leaves word, in one atomic step, with the thread that has it. That thread reads the word when
//! it gives the seat back, and then looks at the stage again or wakes the stage's own thread. So a call is
//! never overlooked, and no thread waits for a seat.
//!
//! ```text
//!            take()                    take() by another thread: None
//!   free ─────────────► taken ───────────────────────────────► taken, asked for
//!     ▲                   │ give_back() == false                    │ give_back() == true
//!     └───────────────────┴─────────────────────────────────────────┘
//! ```
//!
//! *free*: no thread has the stage, and no work that was put in before is overlooked. *taken*: one
//! thread has it. *asked for*: something may have been put in since its holder looked last. A stage
//! that panicked, or was taken out, is never taken again.
//!
//! Not here: when a caller takes a seat (`callers/carrying/`), what a stage does. Invariant: only the thread
//! that has turned the word from *free* to *taken* reaches the stage, until it turns it back.
#![expect(
    unsafe_code,
    reason = "one word says which thread may reach the stage: a lock inside of it is \
          a tenth of what a call costs"
)]

use std::sync::Arc;

use tombolo_storage::plant::{self, Plant};
use tombolo_storage::sync::{AtomicU32, Ordering};

use crate::pipeline::transport::signal::Signal;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const ASKED_FOR: u32 = 2;
/// Its holder unwound.
const BROKEN: u32 = 3;
/// The stage was taken out.
const EMPTY: u32 = 4;

/// A seat with a stage. All orderings are the strongest: a taker's failed attempt and the holder's
/// return are ordered by the one word, and so are the queues' contents before and after them.
pub(crate) struct Seat<T> {
    word: AtomicU32,
    stage: StageCell<T>,
    /// Of the stage's own thread.
    signal: Arc<Signal>,
}

// SAFETY: a shared seat gives its stage, by `Held`, to one thread at a time (the head's invariant), so
// it moves between threads and is never shared: `Send` is all it takes.
unsafe impl<T: Send> Sync for Seat<T> {}

/// The seat, taken. A thread that unwinds drops it, and leaves the seat broken: the stage may be in no
/// state to be stepped.
pub(crate) struct Held<'s, T>(&'s Seat<T>);

impl<T> Seat<T> {
    /// A free seat with `stage`, whose own thread `signal` wakes.
    pub(crate) fn new(stage: T, signal: Arc<Signal>) -> Self {
        Self { word: AtomicU32::new(FREE), stage: StageCell::new(stage), signal }
    }

    /// Takes the seat, or leaves word with the thread that has it.
    pub(crate) fn take(&self) -> Option<Held<'_, T>> {
        loop {
            match self.exchange(FREE, TAKEN) {
                Ok(_) => return Some(Held(self)),
                // Written also where word was left before: what this thread did is ordered before what
                // the holder does when it finds word.
                Err(word @ (TAKEN | ASKED_FOR)) => {
                    if plant::is(Plant::WordNotLeft) || self.exchange(word, ASKED_FOR).is_ok() {
                        return None;
                    }
                }
                Err(_) => return None,
            }
        }
    }

    /// Takes the seat if it is free, and leaves no word.
    #[inline]
    pub(crate) fn try_take(&self) -> Option<Held<'_, T>> {
        self.exchange(FREE, TAKEN).ok().map(|_| Held(self))
    }

    /// Whether word was left with the thread that has it.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.word.load(Ordering::Relaxed) == ASKED_FOR
    }

    /// Drops the stage here if it panicked; says whether it had.
    pub(crate) fn drop_broken(&self) -> bool {
        let is_broken = self.exchange(BROKEN, EMPTY).is_ok();
        if is_broken {
            // SAFETY: only one thread turns BROKEN to EMPTY, nothing leads back, and no `Held` is made
            // in either state: this thread alone reaches the stage.
            drop(unsafe { (*self.stage.get()).take() });
        }
        is_broken
    }

    /// Wakes the stage's own thread.
    pub(crate) fn wake(&self) {
        self.signal.wake();
    }

    #[inline]
    fn exchange(&self, from: u32, to: u32) -> Result<u32, u32> {
        self.word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
    }
}

impl<T> Held<'_, T> {
    /// The stage.
    #[inline]
    pub(crate) fn stage(&mut self) -> &mut T {
        // SAFETY: this `Held` was made by the thread that took the seat, and there is no other until it
        // is given back; the reference borrows it.
        match unsafe { &mut *self.0.stage.get() } {
            Some(stage) => stage,
            None => unreachable!("a seat without a stage is not taken"),
        }
    }

    /// Gives the seat back; says whether another thread asked for it meanwhile. Then this thread
    /// looks at the stage again, or wakes its own thread.
    #[inline]
    #[must_use = "another thread may have asked for it"]
    pub(crate) fn give_back(self) -> bool {
        self.leave(FREE) && !plant::is(Plant::WordIgnored)
    }

    /// Takes the stage out for good.
    pub(crate) fn empty(self) -> Option<T> {
        // SAFETY: as in `stage`; the word then says that nothing is there, before this `Held` goes.
        let stage = unsafe { (*self.0.stage.get()).take() };
        self.leave(EMPTY);
        stage
    }

    #[inline]
    fn leave(self, after: u32) -> bool {
        let was = self.0.word.swap(after, Ordering::SeqCst);
        std::mem::forget(self);
        was == ASKED_FOR
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.0.word.swap(BROKEN, Ordering::SeqCst);
    }
}

/// Where the stage lies.
#[cfg(not(loom))]
struct StageCell<T>(std::cell::UnsafeCell<Option<T>>);
/// Where the stage lies; loom verifies that no two threads reach it simultaneously.
#[cfg(loom)]
struct StageCell<T>(tombolo_storage::sync::loom::cell::UnsafeCell<Option<T>>);

impl<T> StageCell<T> {
    fn new(stage: T) -> Self {
        Self(From::from(Some(stage)))
    }

    #[cfg(not(loom))]
    #[inline]
    fn get(&self) -> *mut Option<T> {
        self.0.get()
    }

    #[cfg(loom)]
    fn get(&self) -> *mut Option<T> {
        self.0.with_mut(|stage| stage)
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    fn seat() -> Seat<u32> {
        Seat::new(7, Arc::new(Signal::new()))
    }

    #[test]
    fn one_thread_has_it_and_learns_that_another_asked() {
        let seat = seat();
        let mut held = seat.take().unwrap();
        *held.stage() += 1;
        assert!(seat.try_take().is_none());
        assert!(!held.give_back(), "no word was left");
        let held = seat.take().unwrap();
        assert!(seat.take().is_none() && seat.take().is_none());
        assert!(held.give_back());
        assert_eq!(seat.take().unwrap().empty(), Some(8));
        assert!(seat.take().is_none() && seat.try_take().is_none());
        assert!(seat.take().is_none(), "a retired stage stays away");
    }

    #[test]
    fn a_panic_leaves_it_broken() {
        let seat = seat();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = seat.take();
            panic!("while it is held");
        }));
        assert!(panicked.is_err());
        assert!(seat.take().is_none());
        assert!(seat.drop_broken() && !seat.drop_broken(), "its own thread learns of it once");
        assert!(seat.take().is_none());
    }
}
