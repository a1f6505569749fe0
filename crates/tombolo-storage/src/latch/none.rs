//! S6 off: latches of no size that are always free.
//!
//! Soundness rests on [`NoLatch`] being `!Sync`: whatever contains one stays within one thread at a
//! time, so there is no thread to exclude. It is `Send`: the engine may move.

use std::cell::Cell;
use std::marker::PhantomData;

use super::{Latching, PlainCounter, RawLatch};

/// Latches off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlatched;

impl Latching for Unlatched {
    type Latch = NoLatch;
    type Counter = PlainCounter;
    const WAITS: bool = false;
}

/// No latch: every guard is given immediately, to the one thread there is.
///
/// ```compile_fail
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<tombolo_storage::latch::NoLatch>();
/// ```
#[derive(Clone, Debug, Default)]
pub struct NoLatch {
    one_thread: PhantomData<Cell<()>>,
}

/// Stands where a guard would be.
#[derive(Debug)]
pub struct NoGuard<'a> {
    latch: PhantomData<&'a NoLatch>,
}

const GUARD: NoGuard<'static> = NoGuard { latch: PhantomData };

// SAFETY: not `Sync`, so nothing is promised.
unsafe impl RawLatch for NoLatch {
    type Shared<'a> = NoGuard<'a>;
    type Exclusive<'a> = NoGuard<'a>;

    #[inline(always)]
    fn shared(&self) -> NoGuard<'_> {
        GUARD
    }

    #[inline(always)]
    fn exclusive(&self) -> NoGuard<'_> {
        GUARD
    }

    #[inline(always)]
    fn try_shared(&self) -> Option<NoGuard<'_>> {
        Some(GUARD)
    }

    #[inline(always)]
    fn try_exclusive(&self) -> Option<NoGuard<'_>> {
        Some(GUARD)
    }

    #[inline(always)]
    fn try_upgrade<'a>(&'a self, shared: NoGuard<'a>) -> Result<NoGuard<'a>, NoGuard<'a>> {
        Ok(shared)
    }
}
