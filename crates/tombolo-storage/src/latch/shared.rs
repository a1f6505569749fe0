//! The real latch: shared or exclusive, one word, spin then park.
//!
//! ```text
//!   bit 31 EXCLUSIVE   held alone
//!   bit 30 PARKED      a thread sleeps in this latch's queue (parking.rs); set and cleared only
//!                      while the queue is held still
//!   bit 29 HAND_OVER   the first of them was overtaken once: the latch passes to it and to no
//!                      other thread; implies PARKED
//!   bits 0–28          shared holders
//! ```
//!
//! Fairness. A shared request waits behind PARKED, so readers that come and go cannot starve a
//! writer. A free latch may be taken exclusively past the queue (no convoy: a thread that works
//! need not wait for one that is being woken), but a sleeper is overtaken once only; then it asks
//! for the latch to be handed over. Leading shared sleepers are always handed the latch, all
//! together.
//!
//! Invariants: EXCLUSIVE excludes shared holders. If PARKED is set and the latch is free, a thread
//! is on the way to wake the queue's head, or the head was woken and is on its way to the latch: no
//! wake-up is lost. `loom_tests.rs` explores both.
//!
//! Not here: deadlock detection (LG-21), time-outs, owners (a guard may be dropped by another
//! thread).

use super::RawLatch;
use super::parking::{self, Head, Wake, Want};
use crate::plant::{self, Plant};
use crate::probe::{self, Counter};
use crate::sync::{AtomicU32, Ordering, Spin};

const EXCLUSIVE: u32 = 1 << 31;
const PARKED: u32 = 1 << 30;
const HAND_OVER: u32 = 1 << 29;
const HOLDERS: u32 = HAND_OVER - 1;

/// A latch that many hold shared or one holds alone.
#[derive(Debug)]
pub struct SharedExclusiveLatch {
    state: AtomicU32,
}

impl Default for SharedExclusiveLatch {
    fn default() -> Self {
        Self { state: AtomicU32::new(0) }
    }
}

const fn excludes_shared(state: u32) -> bool {
    state & (EXCLUSIVE | PARKED) != 0
}

const fn excludes_exclusive(state: u32) -> bool {
    state & (EXCLUSIVE | HAND_OVER | HOLDERS) != 0
}

impl SharedExclusiveLatch {
    /// Whether any thread holds it at this moment; for assertions.
    pub fn is_held(&self) -> bool {
        // Relaxed without a partner: an answer that is old when it arrives orders nothing.
        self.state.load(Ordering::Relaxed) & (EXCLUSIVE | HOLDERS) != 0
    }

    /// Replaces `state` by `next` if it still stands, as the step that takes the latch.
    #[inline(always)]
    fn take(&self, state: u32, next: u32) -> bool {
        // Acquire: partner of the Release in `release`. Every change of the word is a
        // read-modify-write, so it continues the release sequences of all earlier holders.
        // Relaxed on failure: nothing was taken.
        self.state.compare_exchange(state, next, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    fn take_shared(&self) -> bool {
        // Relaxed: only a guess, which `take` verifies.
        let state = self.state.load(Ordering::Relaxed);
        debug_assert!(state & HOLDERS < HOLDERS);
        !excludes_shared(state) && self.take(state, state + 1)
    }

    #[cold]
    fn shared_slowly(&self) {
        let mut spin = Spin::new();
        loop {
            // Relaxed: only a guess, which `take` verifies.
            let state = self.state.load(Ordering::Relaxed);
            if !excludes_shared(state) {
                if self.take(state, state + 1) {
                    return;
                }
            } else if !spin.again() {
                let announce = || self.announce(excludes_shared, PARKED);
                if parking::park(self.address(), Want::Shared, announce) == Some(Wake::Granted) {
                    return;
                }
            }
        }
    }

    #[cold]
    fn exclusive_slowly(&self) {
        let (mut spin, mut want, mut mark) = (Spin::new(), Want::Exclusive, PARKED);
        loop {
            // Relaxed: only a guess, which `take` verifies.
            let state = self.state.load(Ordering::Relaxed);
            let is_alone = !excludes_exclusive(state);
            if is_alone || plant::is(Plant::ExclusivePastReaders) && state & EXCLUSIVE == 0 {
                if self.take(state, state | EXCLUSIVE) {
                    return;
                }
            } else if !spin.again() {
                let announce = || self.announce(excludes_exclusive, mark);
                match parking::park(self.address(), want, announce) {
                    Some(Wake::Granted) => return,
                    Some(Wake::TryAgain) => {
                        (spin, want, mark) = (Spin::new(), Want::Overdue, PARKED | HAND_OVER);
                    }
                    None => {}
                }
            }
        }
    }

    /// Sets `mark` while the latch is taken; `false` if it is not. Called with the queue held
    /// still.
    fn announce(&self, excludes: fn(u32) -> bool, mark: u32) -> bool {
        // Relaxed, both: nothing is taken. The thread that gives the latch back sees the bits
        // because it does a read-modify-write of the same word; the queue is ordered by its mutex.
        let mut state = self.state.load(Ordering::Relaxed);
        while excludes(state) {
            match self.state.compare_exchange(
                state,
                state | mark,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    #[inline(always)]
    fn release(&self, held: u32) {
        // Release: partner of the Acquire in `take` and in `give_away`.
        let left = self.state.fetch_sub(held, Ordering::Release) - held;
        if left & PARKED != 0 && left & HOLDERS == 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        parking::wake(self.address(), |head| self.give_away(head));
    }

    /// Decides, with the queue held still, what the head of the queue gets.
    fn give_away(&self, head: Head) -> Option<Wake> {
        let (wake, holders) = match head.want {
            Want::Shared => (Wake::Granted, head.count),
            Want::Overdue => (Wake::Granted, EXCLUSIVE),
            Want::Exclusive => (Wake::TryAgain, 0),
        };
        let marks = match head.behind {
            Some(Want::Overdue) => PARKED | HAND_OVER,
            Some(Want::Shared | Want::Exclusive) => PARKED,
            None => 0,
        };
        // Relaxed: verified by the exchange below.
        let mut state = self.state.load(Ordering::Relaxed);
        // Another thread was quicker and took the latch: giving it back wakes the head.
        while state & (EXCLUSIVE | HOLDERS) == 0 {
            // Acquire: partner of the Release in `release`, on behalf of the threads that are
            // woken; the parker hands on what it made visible.
            match self.state.compare_exchange(
                state,
                holders | marks,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(wake),
                Err(now) => state = now,
            }
        }
        None
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// Holds a [`SharedExclusiveLatch`] shared; gives it back when dropped.
#[must_use]
#[derive(Debug)]
pub struct SharedGuard<'a> {
    latch: &'a SharedExclusiveLatch,
}

impl Drop for SharedGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.latch.release(1);
    }
}

/// Holds a [`SharedExclusiveLatch`] alone; gives it back when dropped.
#[must_use]
#[derive(Debug)]
pub struct ExclusiveGuard<'a> {
    latch: &'a SharedExclusiveLatch,
}

impl Drop for ExclusiveGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.latch.release(EXCLUSIVE);
    }
}

// SAFETY: (1) an exclusive guard is made when the word went from no holder to EXCLUSIVE, in `take`,
// `try_upgrade` or `give_away`; from then until the guard's drop every way to a guard sees
// EXCLUSIVE and fails. (2) `release` and `take` pair Release with Acquire over read-modify-writes
// of one word, which orders each guard after those it excluded.
unsafe impl RawLatch for SharedExclusiveLatch {
    type Shared<'a> = SharedGuard<'a>;
    type Exclusive<'a> = ExclusiveGuard<'a>;

    #[inline(always)]
    fn shared(&self) -> SharedGuard<'_> {
        probe::count(Counter::Latches, 1);
        if !self.take_shared() {
            self.shared_slowly();
        }
        SharedGuard { latch: self }
    }

    #[inline(always)]
    fn exclusive(&self) -> ExclusiveGuard<'_> {
        probe::count(Counter::Latches, 1);
        if !self.take(0, EXCLUSIVE) {
            self.exclusive_slowly();
        }
        ExclusiveGuard { latch: self }
    }

    #[inline]
    fn try_shared(&self) -> Option<SharedGuard<'_>> {
        loop {
            // Relaxed: only a guess, which `take` verifies.
            let state = self.state.load(Ordering::Relaxed);
            if excludes_shared(state) {
                return None;
            }
            // Another reader in between is no reason to fail.
            if self.take(state, state + 1) {
                probe::count(Counter::Latches, 1);
                return Some(SharedGuard { latch: self });
            }
        }
    }

    #[inline]
    fn try_exclusive(&self) -> Option<ExclusiveGuard<'_>> {
        // Relaxed: only a guess, which `take` verifies.
        let state = self.state.load(Ordering::Relaxed);
        (!excludes_exclusive(state) && self.take(state, state | EXCLUSIVE)).then(|| {
            probe::count(Counter::Latches, 1);
            ExclusiveGuard { latch: self }
        })
    }

    fn try_upgrade<'a>(
        &'a self,
        shared: SharedGuard<'a>,
    ) -> Result<ExclusiveGuard<'a>, SharedGuard<'a>> {
        let latch = shared.latch;
        assert!(std::ptr::eq(latch, self), "the guard of another latch");
        // Relaxed: only a guess, which `take` verifies.
        let mut state = latch.state.load(Ordering::Relaxed);
        while state & HOLDERS == 1 {
            // Sleepers do not stand in the way: they wait for this guard in any case.
            if latch.take(state, (state - 1) | EXCLUSIVE) {
                std::mem::forget(shared);
                return Ok(ExclusiveGuard { latch });
            }
            state = latch.state.load(Ordering::Relaxed);
        }
        Err(shared)
    }
}
