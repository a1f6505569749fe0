//! Numbers that every thread counts with: atomic where there are latches, plain where there are
//! none.
//!
//! For transaction numbers and log sequence numbers. A counter orders nothing but itself: what must
//! be seen together with a number needs a latch.

use std::cell::Cell;

use crate::sync::{AtomicU64, Ordering};

/// A number that only its own operations change.
pub trait Counter: std::fmt::Debug + Default + Send + 'static {
    /// A counter that stands at `value`.
    fn new(value: u64) -> Self;

    /// Where it stands.
    fn get(&self) -> u64;

    /// Adds `amount` and says where it stood before. Wraps.
    fn advance(&self, amount: u64) -> u64;

    /// Sets it to `value` if it stands lower.
    fn raise(&self, value: u64);
}

/// Counted by many threads.
#[derive(Debug, Default)]
pub struct AtomicCounter(AtomicU64);

// Relaxed throughout, without a partner: each call is one atomic step on one word, and the counter
// orders no other memory.
impl Counter for AtomicCounter {
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    #[inline(always)]
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn advance(&self, amount: u64) -> u64 {
        self.0.fetch_add(amount, Ordering::Relaxed)
    }

    #[inline(always)]
    fn raise(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

/// Counted by one thread.
#[derive(Debug, Default)]
pub struct PlainCounter(Cell<u64>);

impl Counter for PlainCounter {
    fn new(value: u64) -> Self {
        Self(Cell::new(value))
    }

    #[inline(always)]
    fn get(&self) -> u64 {
        self.0.get()
    }

    #[inline(always)]
    fn advance(&self, amount: u64) -> u64 {
        let before = self.0.get();
        self.0.set(before.wrapping_add(amount));
        before
    }

    #[inline(always)]
    fn raise(&self, value: u64) {
        self.0.set(self.0.get().max(value));
    }
}
