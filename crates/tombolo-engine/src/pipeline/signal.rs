//! How a stage's thread is told that there is work: woken when it sleeps, and only then.
//!
//! A thread announces that it is about to sleep, looks at its queues once more, and only then
//! parks. Whoever hands it work looks afterwards whether it has announced. Work is handed over
//! under a mutex which the thread locks when it looks: if it looked before, its announcement is
//! visible to whoever came after; if it looks after, it sees the work (`queue/loom_tests.rs`).
//! Telling a thread that runs costs one load.
//!
//! Not here: who sleeps and for how long (`threads.rs`).

use std::time::Duration;

use tombolo_storage::sync::{AtomicBool, Ordering, Parker};

/// What wakes one thread.
///
/// All its orderings are the strongest, though the mutexes around would do: loom does not see the
/// order of one thread's store and another's swap otherwise, and only who falls asleep pays.
#[derive(Debug, Default)]
pub struct Signal {
    asleep: AtomicBool,
    parker: Parker<()>,
}

impl Signal {
    /// Of a thread that is awake.
    pub fn new() -> Self {
        Self { asleep: AtomicBool::new(false), parker: Parker::new() }
    }

    /// Wakes the thread if it sleeps or is about to; called after what it shall see was done.
    pub fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            self.parker.unpark(());
        }
    }

    /// The thread is about to sleep: what it looks at after this call is not missed.
    pub fn announce(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// The thread has found work and stays awake after all.
    pub fn retract(&self) {
        // Somebody may have woken it in between; the word then ends its next sleep early.
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Sleeps until woken, or for `time_max`; only after [`Signal::announce`].
    pub fn sleep(&self, time_max: Option<Duration>) {
        match time_max {
            Some(time) => drop(self.parker.park_for(time)),
            None => self.parker.park(),
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}
