//! Why a transaction ends before its closure does: a write was refused, a deadline passed, its caller cancelled it.
//!
//! A closure is ended at its next call of the transaction: that call is refused, and the transaction is undone, no
//! matter what the closure does with the refusal. At every 64th call or visited row the watch reads the clock, if
//! there is a deadline, and a flag that is set when any call is cancelled. A call that its caller's thread runs has no
//! deadline, and no thread could cancel it.
//!
//! Not here: the list of cancelled calls (`cancels.rs`). Procedures, and closures that compute without calling
//! their transaction, are not ended.

use std::cell::Cell;
use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_storage::error::{Error as StoreError, Result};

use crate::cancels::Cancels;

/// The number of calls and visited rows between two looks.
const STRIDE: u64 = 64;

/// The deadline and the cancellation of the current call.
pub(super) struct Limits {
    clock: Arc<dyn Clock>,
    cancels: Arc<Cancels>,
    /// Its deadline on that clock; `MAX` for none.
    deadline_ns: u64,
    /// Its number, if it can be cancelled.
    number: Option<u64>,
    /// The number of calls before its first look.
    left: u64,
}

impl Limits {
    pub(super) fn none(clock: Arc<dyn Clock>, cancels: Arc<Cancels>) -> Self {
        Self { clock, cancels, deadline_ns: u64::MAX, number: None, left: u64::MAX }
    }

    /// Sets the limits of a queued call that begins; returns the reason if it must not begin.
    #[inline]
    pub(super) fn set(&mut self, deadline_ns: u64, number: u64) -> Option<StoreError> {
        (self.deadline_ns, self.number, self.left) = (deadline_ns, Some(number), STRIDE);
        self.ended()
    }

    /// Sets the deadline of a transaction over several islands, which has no number.
    pub(super) fn set_deadline(&mut self, deadline_ns: u64) {
        (self.deadline_ns, self.number, self.left) = (deadline_ns, None, STRIDE);
    }

    /// Removes the limits, for a call that has none.
    #[inline]
    pub(super) fn lift(&mut self) {
        // If the previous call had none either, which is usual, the cache line need not be written.
        if self.left != u64::MAX {
            (self.deadline_ns, self.number, self.left) = (u64::MAX, None, u64::MAX);
        }
    }

    /// The time since 1970, in microseconds.
    pub(super) fn unix_us(&self) -> u64 {
        self.clock.unix_us()
    }

    /// The reason that the call must end, if there is one.
    #[inline]
    fn ended(&self) -> Option<StoreError> {
        if self.number.is_some_and(|number| self.cancels.contains(number)) {
            return Some(StoreError::Cancelled);
        }
        let has_passed = self.deadline_ns != u64::MAX && self.clock.now_ns() >= self.deadline_ns;
        has_passed.then_some(StoreError::DeadlinePassed)
    }
}

/// The state of the watch while a closure runs; each look gets the limits of the call.
pub(super) struct Watch {
    /// The number of calls before the next look; never 0 if nothing can end the call.
    left: Cell<u64>,
    /// The first refusal, which dooms the transaction.
    refused: Cell<Option<StoreError>>,
}

impl Watch {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { left: Cell::new(limits.left), refused: Cell::new(None) }
    }

    /// Counts a call or a visited row.
    #[inline]
    pub(super) fn pass(&self, limits: &Limits) -> Result<()> {
        let left = self.left.get() - 1;
        self.left.set(left);
        if left > 0 { Ok(()) } else { self.look(limits) }
    }

    /// Counts visited rows.
    pub(super) fn pass_rows(&self, limits: &Limits, rows: usize) -> Result<()> {
        let left = self.left.get().saturating_sub(STRIDE.min(rows as u64));
        self.left.set(left);
        if left > 0 { Ok(()) } else { self.look(limits) }
    }

    /// Counts a call that writes. After a refused write no other write runs.
    #[inline]
    pub(super) fn pass_write(&self, limits: &Limits) -> Result<()> {
        match self.refused.get() {
            Some(error) => Err(error),
            None => self.pass(limits),
        }
    }

    #[cold]
    fn look(&self, limits: &Limits) -> Result<()> {
        if let Some(error) = limits.ended() {
            self.left.set(1); // so that the next call looks, too
            self.refuse(error);
            return Err(error);
        }
        self.left.set(STRIDE);
        Ok(())
    }

    /// Notes a refused write: from now on the transaction can only abort.
    #[cold]
    pub(super) fn refuse(&self, error: StoreError) {
        self.refused.set(self.refused.get().or(Some(error)));
    }

    /// Called when a savepoint has undone the refused write: the transaction continues, unless its deadline or its
    /// caller ended the call.
    pub(super) fn forgive(&self) {
        let is_over = |error: &StoreError| {
            matches!(error, StoreError::DeadlinePassed | StoreError::Cancelled)
        };
        self.refused.set(self.refused.get().filter(is_over));
    }

    /// The reason that the transaction can only abort, if there is one.
    pub(super) fn refused(&self) -> Option<StoreError> {
        self.refused.get()
    }
}
