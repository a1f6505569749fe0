//! Latches (LG-21, switch S6): they protect a structure for a moment, as locks protect rows for a
//! transaction.
//!
//! [`Latching`] is the switch: [`Latched`] is the real thing, [`Unlatched`] its zero-sized sibling,
//! which makes what contains it `!Sync`: the compiler refuses to share an engine without latches.
//! A component that is generic over `L: Latching` uses `L::Latch` for data it holds elsewhere
//! (page frames), [`ShortLatch`] for a few steps, [`Latch`] around small control structures, and `L::Counter`
//! for numbers.
//!
//! There is no deadlock detection: a thread takes several latches in one fixed order, or tries.
//! A thread that asks for a latch it already holds exclusively waits for ever. No latch is held
//! while waiting for a lock.

mod counter;
mod data;
mod guarded;
mod line;
mod none;
mod parking;
mod shared;
mod short;

#[cfg(loom)]
#[cfg(test)]
mod loom_tests;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

pub use counter::{AtomicCounter, Counter, PlainCounter};
pub use data::{Latch, LatchGuard};
pub use guarded::{GuardedU32, GuardedU64};
pub use line::Line;
pub use none::{NoGuard, NoLatch, Unlatched};
pub use shared::{ExclusiveGuard, SharedExclusiveLatch, SharedGuard};
pub use short::{ShortGuard, ShortLatch};

use std::fmt::Debug;

/// S6: whether structures are latched.
pub trait Latching: Copy + Debug + Default + Send + Sync + 'static {
    /// What protects a structure.
    type Latch: RawLatch;
    /// A number that several threads may count with, where several threads may exist.
    type Counter: Counter;
    /// Whether a thread can wait for another: without latches there is no other thread.
    const WAITS: bool;
}

/// Latches on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latched;

impl Latching for Latched {
    type Latch = SharedExclusiveLatch;
    type Counter = AtomicCounter;
    const WAITS: bool = true;
}

/// A latch without the data it protects.
///
/// # Safety
/// If the latch is `Sync`, then while an exclusive guard exists no other guard of the same latch
/// exists, and dropping a guard happens before a later guard is given out that excludes it or that
/// it excluded.
pub unsafe trait RawLatch: Debug + Default + Send + 'static {
    /// Holds the latch together with other shared guards.
    type Shared<'a>: Debug;
    /// Holds the latch alone.
    type Exclusive<'a>: Debug;

    /// Waits until no one holds the latch exclusively.
    fn shared(&self) -> Self::Shared<'_>;

    /// Waits until no one holds the latch.
    fn exclusive(&self) -> Self::Exclusive<'_>;

    /// `None` where [`RawLatch::shared`] would wait.
    fn try_shared(&self) -> Option<Self::Shared<'_>>;

    /// `None` where [`RawLatch::exclusive`] would wait.
    fn try_exclusive(&self) -> Option<Self::Exclusive<'_>>;

    /// Makes a shared guard of this latch exclusive, or gives it back if there are others: two
    /// threads that wait for each other's upgrade would wait for ever.
    ///
    /// # Errors
    /// The guard, unchanged.
    fn try_upgrade<'a>(
        &'a self,
        shared: Self::Shared<'a>,
    ) -> Result<Self::Exclusive<'a>, Self::Shared<'a>>;
}
