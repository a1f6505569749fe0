//! The only place where storage waits: atomics, mutex, condition variable, parking and the spin
//! hint, from the standard library, from loom (`--cfg loom`) or from shuttle (`--cfg shuttle`).
//!
//! Latches, the lock table and the log buffer are written against these names, so what loom and
//! shuttle explore is the code that runs. Loom takes *every* order of a few steps of one structure;
//! shuttle takes *drawn* orders of whole transactions of a whole store, each again from its seed.
//! Not here: threads (the engine starts them), clocks (a bounded wait counts intervals, it does not
//! ask what time it is), any policy of which thread waits for which.
//!
//! A mutex that a panicking thread held is simply taken over: what a panic left behind is judged by
//! the engine, which poisons the database, not by the next thread that needs the mutex.

use std::sync::PoisonError;
use std::time::Duration;

#[cfg(loom)]
use loom as library;
#[cfg(shuttle)]
use shuttle as library;
#[cfg(not(any(loom, shuttle)))]
use std as library;

pub use library::hint::spin_loop;
pub use library::sync::Arc;
pub use library::sync::MutexGuard;
pub use library::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

/// The model checker itself, for the tests of code that waits through this module.
#[cfg(loom)]
pub use loom;

#[cfg(shuttle)]
pub use shuttle;

pub use library::thread_local;

/// Lets other threads run that are ready to.
pub fn give_way() {
    library::thread::yield_now();
}

/// Mutual exclusion that ignores poisoning (see the head of this file).
#[derive(Debug, Default)]
pub struct Mutex<T>(library::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A free mutex around `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(library::sync::Mutex::new(value))
    }

    /// A free mutex around `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Mutex<T> {
        Mutex(library::sync::Mutex::new(value))
    }

    /// Waits until the mutex is free and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What threads that hold a [`Mutex`] wait on for a change of what it protects.
///
/// It counts them, so that a notification on which no thread waits takes no system call. The count rises while the
/// mutex is held, so a thread that changed what it protects, and gave it back, knows of all that did not see that.
#[derive(Debug, Default)]
pub struct Condvar {
    waiting: AtomicU32,
    changed: library::sync::Condvar,
}

impl Condvar {
    /// A condition variable on which no thread waits.
    #[cfg(not(loom))]
    pub const fn new() -> Condvar {
        Condvar { waiting: AtomicU32::new(0), changed: library::sync::Condvar::new() }
    }

    /// A condition variable on which no thread waits.
    #[cfg(loom)]
    pub fn new() -> Condvar {
        Condvar { waiting: AtomicU32::new(0), changed: library::sync::Condvar::new() }
    }

    /// Gives the mutex up, waits for a notification and takes the mutex again. May return without
    /// a notification.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Like [`Condvar::wait`], for at most `interval`; the second value says whether it passed.
    /// Under loom no interval ever passes.
    pub fn wait_for<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        interval: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let (guard, result) =
            self.changed.wait_timeout(guard, interval).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        (guard, result.timed_out())
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.changed.notify_one();
        }
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }
}

/// Where one thread sleeps until another one hands it a word.
///
/// One place: a word handed over before the thread parks is kept, a second one replaces it.
#[derive(Debug)]
pub struct Parker<T> {
    word: Mutex<Option<T>>,
    arrived: Condvar,
}

impl<T> Parker<T> {
    /// A parker without a word.
    #[cfg(not(loom))]
    pub const fn new() -> Parker<T> {
        Parker { word: Mutex::new(None), arrived: Condvar::new() }
    }

    /// A parker without a word.
    #[cfg(loom)]
    pub fn new() -> Parker<T> {
        Parker { word: Mutex::new(None), arrived: Condvar::new() }
    }

    /// Sleeps until there is a word, and takes it.
    pub fn park(&self) -> T {
        let mut place = self.word.lock();
        loop {
            match place.take() {
                Some(word) => return word,
                None => place = self.arrived.wait(place),
            }
        }
    }

    /// Sleeps until there is a word or one whole `interval` has passed without. Under shuttle that is as long as it
    /// takes to let another thread run.
    pub fn park_for(&self, interval: Duration) -> Option<T> {
        #[cfg(shuttle)]
        give_way();
        let mut place = self.word.lock();
        let mut passed = cfg!(shuttle);
        while place.is_none() && !passed {
            (place, passed) = self.arrived.wait_for(place, interval);
        }
        place.take()
    }

    /// Hands the sleeping thread its word. All this thread did before is visible to it afterwards.
    pub fn unpark(&self, word: T) {
        *self.word.lock() = Some(word);
        self.arrived.notify_one();
    }
}

impl<T> Default for Parker<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Patience: each turn pauses twice as long as the one before, up to a longest one. Loom and shuttle get no
/// turns: to them a spinning thread is one more way to try again.
#[derive(Debug)]
pub struct Spin {
    turns: u32,
    pauses: u32,
    pauses_max: u32,
}

impl Spin {
    /// Before parking: seven turns, a few microseconds on today's processors, about what parking and
    /// waking cost.
    pub const fn new() -> Spin {
        Spin::of(7, 1, 64)
    }

    /// For what another thread uses again and again, each time for less than parking costs: some 100
    /// microseconds in six turns, the first of which leaves that thread time for dozens of uses.
    pub const fn long() -> Spin {
        Spin::of(6, 128, 512)
    }

    /// For a lock that its holder's transaction gives back when it ends: some 40 microseconds, about what
    /// sleeping and being woken cost.
    pub const fn transaction() -> Spin {
        Spin::of(32, 1, 64)
    }

    /// For what is given back within microseconds, and next to this thread: some 20 microseconds in short turns.
    pub const fn short_turns() -> Spin {
        Spin::of(200, 1, 2)
    }

    const fn of(turns: u32, pauses: u32, pauses_max: u32) -> Spin {
        Spin { turns: if cfg!(any(loom, shuttle)) { 0 } else { turns }, pauses, pauses_max }
    }

    /// Spends a turn; `false` when none is left and the thread should do without.
    pub fn again(&mut self) -> bool {
        if self.turns == 0 {
            return false;
        }
        for _ in 0..self.pauses {
            spin_loop();
        }
        self.turns -= 1;
        self.pauses = self.pauses_max.min(self.pauses * 2);
        true
    }
}

impl Default for Spin {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_handed_over_early_is_kept() {
        let parker = Parker::new();
        parker.unpark(1);
        parker.unpark(2);
        assert_eq!(parker.park(), 2);
        assert_eq!(parker.park_for(Duration::from_millis(1)), None);
    }

    #[test]
    fn a_parked_thread_gets_its_word() {
        let parker = Parker::new();
        let got = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| parker.park());
            parker.unpark("go");
            waiting.join().unwrap()
        });
        assert_eq!(got, "go");
    }

    #[test]
    fn a_mutex_survives_a_panic() {
        let mutex = Mutex::new(1);
        let panicked = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let _guard = mutex.lock();
                    panic!("while holding the mutex");
                })
                .join()
        });
        assert!(panicked.is_err());
        assert_eq!(*mutex.lock(), 1);
    }

    #[test]
    fn patience_ends() {
        for (mut spin, turns) in [(Spin::new(), 7), (Spin::long(), 6), (Spin::transaction(), 32)] {
            assert_eq!(std::iter::from_fn(|| spin.again().then_some(())).count(), turns);
        }
    }
}
