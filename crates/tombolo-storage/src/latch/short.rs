//! A latch for a few steps on memory, always exclusive: it is released by a store, not by an exchange. A thread that
//! finds it taken spins and yields; no thread sleeps, and none is preferred.
//!
//! Its holder must not wait for anything. The words that it protects must be safe to access without it, because it
//! promises the compiler nothing ([`super::RawLatch`] does).

use std::marker::PhantomData;

use super::Latching;
use crate::probe::{self, Counter};
use crate::sync::{AtomicU32, Ordering, Spin, give_way};

const FREE: u32 = 0;
const HELD: u32 = 1;

/// A latch that one thread holds for a moment; nothing without latches.
#[derive(Debug)]
pub struct ShortLatch<L: Latching> {
    state: AtomicU32,
    marker: PhantomData<L::Latch>,
}

impl<L: Latching> Default for ShortLatch<L> {
    fn default() -> Self {
        Self { state: AtomicU32::new(FREE), marker: PhantomData }
    }
}

impl<L: Latching> ShortLatch<L> {
    /// Waits until no other thread holds the latch.
    #[inline(always)]
    pub fn hold(&self) -> ShortGuard<'_, L> {
        if L::WAITS {
            probe::count(Counter::Latches, 1);
            if !self.take() {
                self.take_slowly();
            }
        }
        ShortGuard { latch: self }
    }

    #[inline(always)]
    fn take(&self) -> bool {
        // Acquire: partner of the Release where a guard ends. Relaxed on failure: nothing was taken.
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn take_slowly(&self) {
        let mut spin = Spin::new();
        loop {
            // Relaxed: only a guess, which `take` verifies.
            if self.state.load(Ordering::Relaxed) == FREE && self.take() {
                return;
            }
            if !spin.again() {
                give_way();
            }
        }
    }
}

/// Holds a [`ShortLatch`]; gives it back when dropped.
#[must_use]
#[derive(Debug)]
pub struct ShortGuard<'a, L: Latching> {
    latch: &'a ShortLatch<L>,
}

impl<L: Latching> ShortGuard<'_, L> {
    /// Whether it holds this latch.
    #[inline(always)]
    pub fn is_of(&self, latch: &ShortLatch<L>) -> bool {
        std::ptr::eq(self.latch, latch)
    }
}

impl<L: Latching> Drop for ShortGuard<'_, L> {
    #[inline(always)]
    fn drop(&mut self) {
        if L::WAITS {
            // Release: partner of the Acquire in `take`.
            self.latch.state.store(FREE, Ordering::Release);
        }
    }
}
