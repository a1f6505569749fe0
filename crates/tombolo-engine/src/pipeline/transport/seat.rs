//! A stage's seat: it is held by at most one thread, which may step the stage.
//!
//! A stage is stepped by its own thread, or by a waiting caller that finds it free. A thread first
//! does its part — puts a call into the stage's queue — and then tries to take the seat. If the seat
//! is taken, it asks the holder to look again, in one atomic step. The holder notices this when
//! it gives the seat back, and then looks at the stage again or wakes the stage's own thread. So no call is
//! overlooked, and no thread waits for a seat.
//!
//! ```text
//!            take()                    take() by another thread: None
//!   free ─────────────► taken ───────────────────────────────► taken, asked for
//!     ▲                   │ give_back() == false                    │ give_back() == true
//!     └───────────────────┴─────────────────────────────────────────┘
//! ```
//!
//! *free*: no thread has the stage, and no earlier work is overlooked. *taken*: one
//! thread has it. *asked for*: work may have arrived since its holder looked last. A stage
//! that panicked, or was taken out, is never taken again.
//!
//! Not here: a caller's decision to take a seat (`callers/carrying/`), the work of a stage. Invariant: only the
//! thread that has changed the state from *free* to *taken* accesses the stage, until it changes it back.
#![expect(
    unsafe_code,
    reason = "an atomic state guards access to the stage: a lock would cost a tenth of a call"
)]

use std::sync::Arc;

use tombolo_storage::plant::{self, Plant};
use tombolo_storage::sync::{AtomicU32, Ordering};

use crate::pipeline::transport::signal::Signal;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const ASKED_FOR: u32 = 2;
/// The holder panicked.
const BROKEN: u32 = 3;
/// The stage was taken out.
const EMPTY: u32 = 4;

/// A seat with a stage. All orderings are the strongest: a taker's failed attempt and the holder's
/// return are ordered by the state, and so are the queues' contents before and after them.
pub(crate) struct Seat<T> {
    state: AtomicU32,
    /// Not 0 while a thread waits to which others leave the seat. Like the next one it decides nothing.
    wanted_by: AtomicU32,
    /// Not 0 while its holder has other seats, too: how many transactions in a row that was so.
    for_several: AtomicU32,
    stage: StageCell<T>,
    /// The signal of the stage's own thread.
    signal: Arc<Signal>,
}

// SAFETY: a shared seat gives its stage, by `Held`, to one thread at a time (the head's invariant), so
// it moves between threads and is never shared: `Send` is all it takes.
unsafe impl<T: Send> Sync for Seat<T> {}

/// A taken seat. If a panic drops it, the seat is broken, because the stage may be in an inconsistent state.
pub(crate) struct Held<'s, T>(&'s Seat<T>);

impl<T> Seat<T> {
    /// A free seat with `stage`, whose own thread `signal` wakes.
    pub(crate) fn new(stage: T, signal: Arc<Signal>) -> Self {
        let (state, wanted_by) = (AtomicU32::new(FREE), AtomicU32::new(0));
        let for_several = AtomicU32::new(0);
        Self { state, wanted_by, for_several, stage: StageCell::new(stage), signal }
    }

    /// Takes the seat, or asks its holder to look again.
    pub(crate) fn take(&self) -> Option<Held<'_, T>> {
        loop {
            match self.exchange(FREE, TAKEN) {
                Ok(_) => return Some(Held(self)),
                // Written even if the holder was asked before: this orders the work of this thread before
                // the holder's next look.
                Err(state @ (TAKEN | ASKED_FOR)) => {
                    if plant::is(Plant::WordNotLeft) || self.exchange(state, ASKED_FOR).is_ok() {
                        return None;
                    }
                }
                Err(_) => return None,
            }
        }
    }

    /// Takes the seat if it is free; otherwise does not ask for it.
    #[inline]
    pub(crate) fn try_take(&self) -> Option<Held<'_, T>> {
        self.exchange(FREE, TAKEN).ok().map(|_| Held(self))
    }

    /// Whether the seat was free a moment ago. Unlike an attempt to take it this leaves its line to the holder.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.state.load(Ordering::Relaxed) == FREE
    }

    /// Asks the threads that take the seat again and again to leave it to this one, whose number this is.
    pub(crate) fn want(&self, number: u32) {
        self.wanted_by.store(number, Ordering::Relaxed);
    }

    /// The thread of this number waits no more.
    pub(crate) fn want_no_more(&self, number: u32) {
        let (want, none) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.wanted_by.compare_exchange(number, 0, want, none);
    }

    /// The thread that waits for the seat and asks others to leave it, or 0.
    #[inline]
    pub(crate) fn wanted_by(&self) -> u32 {
        self.wanted_by.load(Ordering::Relaxed)
    }

    /// The holder says that it has other seats, too, and in how many transactions in a row a holder had; 0 if it has
    /// this one only.
    pub(crate) fn set_for_several(&self, in_a_row: u32) {
        self.for_several.store(in_a_row, Ordering::Relaxed);
    }

    /// What the holder said.
    pub(crate) fn for_several(&self) -> u32 {
        self.for_several.load(Ordering::Relaxed)
    }

    /// Whether the holder was asked to look again.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ASKED_FOR
    }

    /// Drops the stage if it panicked; returns whether it had.
    pub(crate) fn drop_broken(&self) -> bool {
        let is_broken = self.exchange(BROKEN, EMPTY).is_ok();
        if is_broken {
            // SAFETY: only one thread turns BROKEN to EMPTY, nothing leads back, and no `Held` is made
            // in either state: only this thread accesses the stage.
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
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
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

    /// Gives the seat back; returns whether another thread asked for it meanwhile. If so, this thread
    /// looks at the stage again or wakes the stage's own thread.
    #[inline]
    #[must_use = "another thread may have asked for it"]
    pub(crate) fn give_back(self) -> bool {
        self.leave(FREE) && !plant::is(Plant::WordIgnored)
    }

    /// Takes the stage out for good.
    pub(crate) fn empty(self) -> Option<T> {
        // SAFETY: as in `stage`; the state becomes EMPTY before this `Held` is gone.
        let stage = unsafe { (*self.0.stage.get()).take() };
        self.leave(EMPTY);
        stage
    }

    #[inline]
    fn leave(self, after: u32) -> bool {
        let was = self.0.state.swap(after, Ordering::SeqCst);
        std::mem::forget(self);
        was == ASKED_FOR
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.0.state.swap(BROKEN, Ordering::SeqCst);
    }
}

/// The cell of the stage.
#[cfg(not(loom))]
struct StageCell<T>(std::cell::UnsafeCell<Option<T>>);
/// The cell of the stage; loom verifies that no two threads access it simultaneously.
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
