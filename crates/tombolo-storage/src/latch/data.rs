//! `Latch`: a latch around the data it protects, for small control structures.
//!
//! A guard gives out shared references only; what changes lies in `Cell`s. That is what lets one
//! safe interface serve both siblings: with latches the guard excludes other threads, without them
//! there are none, and in neither case does a second guard of the same thread (a deadlock with
//! latches, harmless without) make two mutable references to one thing.

use std::ops::Deref;

use super::{Latching, RawLatch};

/// Data of type `T` that one thread at a time reaches.
pub struct Latch<T, L: Latching> {
    latch: L::Latch,
    data: T,
}

// SAFETY: a shared `Latch` gives `&T` only through a guard of `latch`, and the guard is exclusive.
// (1) If `L::Latch` is `Sync`, `RawLatch` promises that one guard exists at a time and that guards
// are ordered, so the data moves from thread to thread: `T: Send` is what that takes, as for a
// mutex. (2) If it is not, neither is the `Latch`. Sending one needs `T: Send` and is derived.
unsafe impl<T: Send, L: Latching> Sync for Latch<T, L> where L::Latch: Sync {}

impl<T, L: Latching> Latch<T, L> {
    /// A free latch around `data`.
    pub fn new(data: T) -> Self {
        Self { latch: L::Latch::default(), data }
    }

    /// Waits until no other thread holds the data.
    #[inline(always)]
    pub fn hold(&self) -> LatchGuard<'_, T, L> {
        LatchGuard { _held: self.latch.exclusive(), data: &self.data }
    }

    /// The data of a latch that no other thread can reach.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.data
    }
}

impl<T: Default, L: Latching> Default for Latch<T, L> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T, L: Latching> std::fmt::Debug for Latch<T, L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Latch").finish_non_exhaustive()
    }
}

/// Holds the data of a [`Latch`]; let go by dropping.
pub struct LatchGuard<'a, T, L: Latching> {
    data: &'a T,
    _held: <L::Latch as RawLatch>::Exclusive<'a>,
}

impl<T, L: Latching> Deref for LatchGuard<'_, T, L> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.data
    }
}
