//! S5 off: nothing is locked, every request is granted, and no instruction is left of it.
//!
//! For profiles that run one transaction at a time, or whose transactions do not meet.

use super::mode::Mode;
use super::name::LockName;
use super::{LockError, LockSettings, Locking, Reads};
use crate::row::RowId;
use crate::store::Damage;

/// No locks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLocks;

/// What a transaction holds where there are no locks.
#[derive(Debug, Default)]
pub struct NoHeldLocks;

impl Locking for NoLocks {
    type Held = NoHeldLocks;
    const LOCKS: bool = false;

    fn new(_: LockSettings) -> Self {
        Self
    }

    fn open_session(&self) -> Result<NoHeldLocks, LockError> {
        Ok(NoHeldLocks)
    }

    fn set_waits(&self, _: &mut NoHeldLocks, _: u32) {}

    fn close_session(&self, _: NoHeldLocks) {}

    #[inline(always)]
    fn begin(&self, _: &mut NoHeldLocks, _: u64) {}

    #[inline(always)]
    fn lock_store(&self, _: &mut NoHeldLocks, _: u16, _: Mode) -> Result<(), LockError> {
        Ok(())
    }

    #[inline(always)]
    fn lock_page(&self, _: &mut NoHeldLocks, _: u16, _: u32, _: Mode) -> Result<(), LockError> {
        Ok(())
    }

    #[inline(always)]
    fn lock_row(&self, _: &mut NoHeldLocks, _: u16, _: RowId, _: Mode) -> Result<(), LockError> {
        Ok(())
    }

    #[inline(always)]
    fn try_lock_row(
        &self,
        _: &mut NoHeldLocks,
        _: u16,
        _: RowId,
        _: Mode,
    ) -> Result<(), LockError> {
        Ok(())
    }

    #[inline(always)]
    fn has_row(&self, _: &NoHeldLocks, _: RowId, _: Mode) -> bool {
        true
    }

    #[inline(always)]
    fn lock_gap(&self, _: &mut NoHeldLocks, _: u16, _: LockName) -> Result<(), LockError> {
        Ok(())
    }

    #[inline(always)]
    fn lower_row(&self, _: &mut NoHeldLocks, _: RowId) {}

    #[inline(always)]
    fn announce_gaps(&self, _: &mut NoHeldLocks) {}

    #[inline(always)]
    fn has_gap_locks(&self) -> bool {
        false
    }

    #[inline(always)]
    fn enter_gap(
        &self,
        _: &mut NoHeldLocks,
        _: u16,
        _: LockName,
        _: LockName,
    ) -> Result<bool, LockError> {
        Ok(true)
    }

    #[inline(always)]
    fn wait_for_gap(&self, _: &mut NoHeldLocks, _: LockName) -> Result<(), LockError> {
        Ok(())
    }

    #[inline(always)]
    fn is_gap_locked(&self, _: &NoHeldLocks, _: LockName, _: Reads) -> bool {
        false
    }

    #[inline(always)]
    fn hand_on_gap(&self, _: &NoHeldLocks, _: LockName, _: LockName, _: Reads) {}

    fn shut(&self) {}

    fn settle(&self, _: &mut NoHeldLocks) {}

    fn locks_of(&self, _: &NoHeldLocks) -> Vec<(LockName, Mode)> {
        Vec::new()
    }

    fn lock_again(&self, _: &mut NoHeldLocks, _: LockName, _: Mode) -> Result<(), LockError> {
        Ok(())
    }

    #[inline(always)]
    fn release_all(&self, _: &mut NoHeldLocks) {}

    fn check(&self, _: &[&NoHeldLocks]) -> Vec<Damage> {
        Vec::new()
    }
}
