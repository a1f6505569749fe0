//! How a stage's thread notices that there is work: it is woken when it sleeps, and only then.
//!
//! A thread announces that it is about to sleep, looks at its queues once more, and only then parks. A thread
//! that hands it work looks afterwards whether it has announced. Work is handed over under a mutex which the
//! sleeper locks when it looks: if it looked before, its announcement is visible to the thread that came after;
//! if it looks after, it sees the work (`queue/loom_tests.rs`). Signalling a thread that runs costs one load.
//!
//! Not here: which threads sleep and for how long (`threads.rs`).

use std::time::Duration;

use tombolo_storage::sync::{AtomicU32, Ordering, Parker};

/// The thread runs, and will look at its queues.
const AWAKE: u32 = 0;
/// It sleeps or is about to.
const ASLEEP: u32 = 1;

/// What wakes one thread.
///
/// All its orderings are the strongest, though the mutexes around would do: loom does not see the order of one
/// thread's store and another's swap otherwise, and only a thread that falls asleep pays.
#[derive(Debug)]
pub struct Signal {
    state: AtomicU32,
    parker: Parker<()>,
}

impl Default for Signal {
    fn default() -> Self {
        Self::new()
    }
}

impl Signal {
    /// Of a thread that is awake.
    pub fn new() -> Self {
        Self { state: AtomicU32::new(AWAKE), parker: Parker::new() }
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Wakes the thread if it sleeps or is about to; called after what it shall see was done.
    #[inline]
    pub fn wake(&self) {
        if self.state.load(Ordering::SeqCst) == ASLEEP && self.change(ASLEEP, AWAKE) {
            self.parker.unpark(());
        }
    }

    /// Whether the thread was woken since it announced that it would sleep.
    pub fn is_awake(&self) -> bool {
        self.state.load(Ordering::SeqCst) == AWAKE
    }

    /// The thread is about to sleep: what it looks at after this call is not missed.
    pub fn announce(&self) {
        self.state.store(ASLEEP, Ordering::SeqCst);
    }

    /// The thread has found work and stays awake after all.
    pub fn retract(&self) {
        // Another thread may have woken it in between; the word then ends its next sleep early.
        self.state.store(AWAKE, Ordering::SeqCst);
    }

    /// Sleeps until woken, or for `time_max`; only after [`Signal::announce`].
    pub fn sleep(&self, time_max: Option<Duration>) {
        match time_max {
            Some(time) => drop(self.parker.park_for(time)),
            None => self.parker.park(),
        }
        self.state.store(AWAKE, Ordering::SeqCst);
    }
}
