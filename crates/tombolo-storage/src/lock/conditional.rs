//! S5 as an `if` (LG-26): the same lock table, and a switch that each call looks at while it runs.
//!
//! The paper removed most components by `if` statements and rewrote a method only where the `if`
//! itself could be measured. This is that form of the locking switch, for comparing it with
//! [`super::NoLocks`]; no product profile uses it. The switch is set between transactions: locks
//! taken while it was on are released whatever it says.

use super::hierarchical::Hierarchical;
use super::mode::Mode;
use super::name::LockName;
use super::{HeldLocks, LockError, LockSettings, Locking, Reads};
use crate::latch::Latching;
use crate::row::RowId;
use crate::store::Damage;
use crate::sync::{AtomicBool, Ordering};

/// Locks that can be switched on at run time; off at first.
pub struct IfLocks<L: Latching> {
    locks: Hierarchical<L>,
    on: AtomicBool,
}

impl<L: Latching> IfLocks<L> {
    /// Switches locking on or off for the transactions that begin from now on. No transaction may
    /// be open.
    pub fn switch(&self, on: bool) {
        // Relaxed, as in `on`, without a partner: no other memory goes with the switch, and the
        // caller orders the call against the end of every transaction.
        self.on.store(on, Ordering::Relaxed);
    }

    #[inline(always)]
    fn on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }
}

impl<L: Latching> Locking for IfLocks<L> {
    type Held = HeldLocks;
    const LOCKS: bool = true;

    fn new(settings: LockSettings) -> Self {
        Self { locks: Hierarchical::new(settings), on: AtomicBool::new(false) }
    }

    fn open_session(&self) -> Result<HeldLocks, LockError> {
        self.locks.open_session()
    }

    fn set_waits(&self, held: &mut HeldLocks, intervals_max: u32) {
        self.locks.set_waits(held, intervals_max);
    }

    fn shut(&self) {
        self.locks.shut();
    }

    fn close_session(&self, held: HeldLocks) {
        self.locks.close_session(held);
    }

    #[inline]
    fn begin(&self, held: &mut HeldLocks, age_rank: u64) {
        if self.on() {
            self.locks.begin(held, age_rank);
        }
    }

    fn lock_store(&self, held: &mut HeldLocks, store: u16, mode: Mode) -> Result<(), LockError> {
        if self.on() { self.locks.lock_store(held, store, mode) } else { Ok(()) }
    }

    fn lock_page(
        &self,
        held: &mut HeldLocks,
        store: u16,
        page: u32,
        mode: Mode,
    ) -> Result<(), LockError> {
        if self.on() { self.locks.lock_page(held, store, page, mode) } else { Ok(()) }
    }

    #[inline]
    fn lock_row(
        &self,
        held: &mut HeldLocks,
        store: u16,
        row: RowId,
        mode: Mode,
    ) -> Result<(), LockError> {
        if self.on() { self.locks.lock_row(held, store, row, mode) } else { Ok(()) }
    }

    #[inline]
    fn try_lock_row(
        &self,
        held: &mut HeldLocks,
        store: u16,
        row: RowId,
        mode: Mode,
    ) -> Result<(), LockError> {
        if self.on() { self.locks.try_lock_row(held, store, row, mode) } else { Ok(()) }
    }

    #[inline(always)]
    fn has_row(&self, held: &HeldLocks, row: RowId, mode: Mode) -> bool {
        !self.on() || self.locks.has_row(held, row, mode)
    }

    fn lock_gap(&self, held: &mut HeldLocks, table: u16, gap: LockName) -> Result<(), LockError> {
        if self.on() { self.locks.lock_gap(held, table, gap) } else { Ok(()) }
    }

    fn lower_row(&self, held: &mut HeldLocks, row: RowId) {
        self.locks.lower_row(held, row);
    }

    fn announce_gaps(&self, held: &mut HeldLocks) {
        if self.on() {
            self.locks.announce_gaps(held);
        }
    }

    #[inline]
    fn has_gap_locks(&self) -> bool {
        self.on() && self.locks.has_gap_locks()
    }

    fn enter_gap(
        &self,
        held: &mut HeldLocks,
        table: u16,
        gap: LockName,
        lower: LockName,
    ) -> Result<bool, LockError> {
        self.locks.enter_gap(held, table, gap, lower)
    }

    fn wait_for_gap(&self, held: &mut HeldLocks, gap: LockName) -> Result<(), LockError> {
        self.locks.wait_for_gap(held, gap)
    }

    fn is_gap_locked(&self, held: &HeldLocks, gap: LockName, reads: Reads) -> bool {
        self.locks.is_gap_locked(held, gap, reads)
    }

    fn hand_on_gap(&self, held: &HeldLocks, gap: LockName, above: LockName, reads: Reads) {
        self.locks.hand_on_gap(held, gap, above, reads);
    }

    fn settle(&self, held: &mut HeldLocks) {
        self.locks.settle(held);
    }

    fn locks_of(&self, held: &HeldLocks) -> Vec<(LockName, Mode)> {
        self.locks.locks_of(held)
    }

    fn lock_again(
        &self,
        held: &mut HeldLocks,
        name: LockName,
        mode: Mode,
    ) -> Result<(), LockError> {
        if self.on() { self.locks.lock_again(held, name, mode) } else { Ok(()) }
    }

    #[inline]
    fn release_all(&self, held: &mut HeldLocks) {
        if self.on() || !held.is_empty() {
            self.locks.release_all(held);
        }
    }

    fn check(&self, sessions: &[&HeldLocks]) -> Vec<Damage> {
        self.locks.check(sessions)
    }
}
