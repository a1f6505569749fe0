//! `Signal`: wakes a stage's thread when there is work, and only if the thread sleeps.
//!
//! A thread announces that it is about to sleep, looks at its queues once more, and only then parks. A thread
//! that gives it work checks the announcement afterwards. Work is passed on under a mutex which the
//! sleeper locks when it looks: if it looked before, its announcement is visible to the thread that came after;
//! if it looks after, it sees the work (`queue/loom_tests.rs`). Signalling a running thread costs one load.
//!
//! Not here: the threads that sleep, and for how long (`threads.rs`).

use std::time::Duration;

use tombolo_storage::sync::{AtomicU32, Ordering, Parker};

/// The thread runs and will look at its queues.
const AWAKE: u32 = 0;
/// It sleeps or is about to.
const ASLEEP: u32 = 1;

/// The signal of one thread.
///
/// All its orderings are the strongest, although the surrounding mutexes would suffice: otherwise loom does not
/// see the order of one thread's store and another's swap, and the cost is paid only by a thread that goes to sleep.
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
    /// The signal of a thread that is awake.
    pub fn new() -> Self {
        Self { state: AtomicU32::new(AWAKE), parker: Parker::new() }
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Wakes the thread if it sleeps or is about to; to be called after the work that it has to see.
    #[inline]
    pub fn wake(&self) {
        if self.state.load(Ordering::SeqCst) == ASLEEP && self.change(ASLEEP, AWAKE) {
            self.parker.unpark(());
        }
    }

    /// Whether the thread was woken since its announcement.
    pub fn is_awake(&self) -> bool {
        self.state.load(Ordering::SeqCst) == AWAKE
    }

    /// Announces that the thread is about to sleep: after this call it must look at its queues once more.
    pub fn announce(&self) {
        self.state.store(ASLEEP, Ordering::SeqCst);
    }

    /// Retracts the announcement, because the thread has found work.
    pub fn retract(&self) {
        // Another thread may have woken it in between; that wake-up then ends its next sleep early.
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
