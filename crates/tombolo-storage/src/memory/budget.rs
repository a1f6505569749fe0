//! `Budget`: how much memory a store may take from the system, over all its structures together.
//!
//! Each structure that grows — a region by its step, the undo notes by their doubling — takes the
//! bytes here first and gives them back when its memory is freed. A budget may have a parent: what
//! is taken from the child is taken from the parent too. So the images kept for snapshots have a
//! bound of their own within the store's, and the parts of a replay, filled by several threads, are
//! put under the store's budget when they become a store.
//!
//! Slots that are freed stay with their structure: deletions make room for rows of the same table,
//! keys of the same index, values of the same size class.
//!
//! Not here: which call is refused and what becomes of its transaction (`store.rs`). Nothing here
//! is touched by a transaction that grows nothing. The bitmaps of the slabs (a bit per slot) are
//! not counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes that may be taken, and that are. See the module's head.
#[derive(Debug)]
pub struct Budget {
    bytes_max: AtomicU64,
    held_bytes: AtomicU64,
    parent: OnceLock<Arc<Budget>>,
}

/// A budget has no room for what was asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget {
    /// The bound that would be exceeded, in bytes.
    pub bytes_max: u64,
}

impl Budget {
    /// A budget of `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Arc<Budget> {
        let (bytes_max, held_bytes) = (AtomicU64::new(bytes_max), AtomicU64::new(0));
        Arc::new(Budget { bytes_max, held_bytes, parent: OnceLock::new() })
    }

    /// A budget of `bytes_max` bytes within this one.
    pub fn child(self: &Arc<Self>, bytes_max: u64) -> Arc<Budget> {
        let child = Budget::new(bytes_max);
        self.adopt(&child);
        child
    }

    /// Puts a budget that has no parent, with all it holds, under this one, which may then hold
    /// more than it should: it lends nothing before enough was given back.
    ///
    /// # Panics
    /// When `child` has a parent.
    pub fn adopt(self: &Arc<Self>, child: &Budget) {
        assert!(child.parent.set(self.clone()).is_ok(), "a budget has one parent");
        self.take_anyway(child.held_bytes());
    }

    /// Sets the bound; what is held above it stays.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        // No order is needed: budgets guard numbers, not memory.
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// The bound.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// How many bytes are held.
    #[inline]
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// That there are not so many left, here or above; nothing is taken then.
    pub fn take(&self, bytes: u64) -> Result<(), OverBudget> {
        let bytes_max = self.bytes_max();
        let with = |held: u64| held.checked_add(bytes).filter(|&held| held <= bytes_max);
        let taken = self.held_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
        taken.map_err(|_| OverBudget { bytes_max })?;
        if let Some(parent) = self.parent.get()
            && let Err(over) = parent.take(bytes)
        {
            self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(over);
        }
        Ok(())
    }

    /// Takes bytes even where there are none left: taking changes back must not stop.
    pub fn take_anyway(&self, bytes: u64) {
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(parent) = self.parent.get() {
            parent.take_anyway(bytes);
        }
    }

    /// Gives bytes back.
    pub fn give(&self, bytes: u64) {
        let held_before = self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(held_before >= bytes, "more was given back than taken");
        if let Some(parent) = self.parent.get() {
            parent.give(bytes);
        }
    }
}

/// What a structure may take: so much of its own, and what its budget has.
#[derive(Clone, Debug)]
pub struct Allowance {
    /// Most bytes for each region of the structure.
    pub limit_bytes: usize,
    /// Where the bytes come from, if they are counted.
    pub budget: Option<Arc<Budget>>,
    /// Whether memory is taken in small steps and small pages: for what grows while transactions
    /// wait and does not stay, where the stall of a step matters more than the speed of access.
    pub is_gradual: bool,
}

impl Allowance {
    /// So many bytes for each region, taken from `budget`.
    pub fn new(limit_bytes: usize, budget: &Arc<Budget>) -> Self {
        Self { limit_bytes, budget: Some(budget.clone()), is_gradual: false }
    }

    /// The same in small steps.
    #[must_use]
    pub fn gradual(self) -> Self {
        Self { is_gradual: true, ..self }
    }
}

impl From<usize> for Allowance {
    /// So many bytes for each region, in no budget.
    fn from(limit_bytes: usize) -> Self {
        Self { limit_bytes, budget: None, is_gradual: false }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
