//! Why a transaction ends before its closure does: a write was refused, a deadline passed, its caller cancelled it.
//!
//! A closure ends where it calls its transaction: that call is refused, and the transaction is undone no matter
//! what the closure does with the refusal. Every 64th call or visited row reads the clock, if there is a deadline,
//! and a flag that says whether any call was cancelled. A call that its caller's own thread runs has no deadline,
//! and no thread could cancel it.
//!
//! Not here: how a cancelled call is known (`cancels.rs`); closures that compute without calling
//! their transaction, which nothing ends, and procedures.

use std::cell::Cell;
use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_storage::error::{Error as StoreError, Result};

use crate::cancels::Cancels;

/// Calls, and rows visited, between two looks.
const STRIDE: u64 = 64;

/// The deadline and the cancellation of the current call.
pub(super) struct Limits {
    clock: Arc<dyn Clock>,
    cancels: Arc<Cancels>,
    /// Its deadline on that clock; `MAX` for none.
    deadline_ns: u64,
    /// Its number, if it can be cancelled.
    number: Option<u64>,
    /// Calls until its first look.
    left: u64,
}

impl Limits {
    pub(super) fn none(clock: Arc<dyn Clock>, cancels: Arc<Cancels>) -> Self {
        Self { clock, cancels, deadline_ns: u64::MAX, number: None, left: u64::MAX }
    }

    /// A queued call begins, with these limits; returns why it must not begin, if so.
    #[inline]
    pub(super) fn set(&mut self, deadline_ns: u64, number: u64) -> Option<StoreError> {
        (self.deadline_ns, self.number, self.left) = (deadline_ns, Some(number), STRIDE);
        self.ended()
    }

    /// A transaction over several islands begins: it may have a deadline, and no number.
    pub(super) fn set_deadline(&mut self, deadline_ns: u64) {
        (self.deadline_ns, self.number, self.left) = (deadline_ns, None, STRIDE);
    }

    /// A call begins that has neither.
    #[inline]
    pub(super) fn lift(&mut self) {
        // Mostly the call before had none either: then this one need not write the cache line.
        if self.left != u64::MAX {
            (self.deadline_ns, self.number, self.left) = (u64::MAX, None, u64::MAX);
        }
    }

    /// The time since 1970, in microseconds.
    pub(super) fn unix_us(&self) -> u64 {
        self.clock.unix_us()
    }

    /// Why the call has to end, if it has to.
    #[inline]
    fn ended(&self) -> Option<StoreError> {
        if self.number.is_some_and(|number| self.cancels.contains(number)) {
            return Some(StoreError::Cancelled);
        }
        let has_passed = self.deadline_ns != u64::MAX && self.clock.now_ns() >= self.deadline_ns;
        has_passed.then_some(StoreError::DeadlinePassed)
    }
}

/// What is watched while a closure runs; the limits of its call are given to each look.
pub(super) struct Watch {
    /// Calls until the next look; where nothing ends the call there are always some.
    left: Cell<u64>,
    /// The first refusal, which dooms the transaction.
    refused: Cell<Option<StoreError>>,
}

impl Watch {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { left: Cell::new(limits.left), refused: Cell::new(None) }
    }

    /// A call begins, or a row is visited.
    #[inline]
    pub(super) fn pass(&self, limits: &Limits) -> Result<()> {
        let left = self.left.get() - 1;
        self.left.set(left);
        if left > 0 { Ok(()) } else { self.look(limits) }
    }

    /// So many rows are visited.
    pub(super) fn pass_rows(&self, limits: &Limits, rows: usize) -> Result<()> {
        let left = self.left.get().saturating_sub(STRIDE.min(rows as u64));
        self.left.set(left);
        if left > 0 { Ok(()) } else { self.look(limits) }
    }

    /// A call that writes begins. After a refused write no other write runs.
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

    /// The refused write was taken back: the transaction continues, unless the call was ended by its deadline
    /// or caller.
    pub(super) fn forgive(&self) {
        let is_over = |error: &StoreError| {
            matches!(error, StoreError::DeadlinePassed | StoreError::Cancelled)
        };
        self.refused.set(self.refused.get().filter(is_over));
    }

    /// Why the transaction can only abort, if so.
    pub(super) fn refused(&self) -> Option<StoreError> {
        self.refused.get()
    }
}
