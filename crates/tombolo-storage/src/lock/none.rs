//! S5 off: nothing is locked, every request is granted, and no instruction is left of it.
//!
//! For profiles that run one transaction at a time, or whose transactions do not meet.

use super::mode::Mode;
use super::{LockError, LockSettings, Locking};
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
    fn release_all(&self, _: &mut NoHeldLocks) {}

    fn check(&self, _: &[&NoHeldLocks]) -> Vec<Damage> {
        Vec::new()
    }
}
