//! Callers that wait until the log is durable up to a position.
//!
//! A caller that carried its transaction has the outcome on its own stack; it only waits for a
//! position of the log. It enters itself here, looks at the position once more, and sleeps; the logging stage
//! wakes all callers whose position a flush has reached. Not here: the choice of the thread that flushes
//! (`callers/carrying/`).

use std::sync::Arc;

use tombolo_storage::sync::{Mutex, Parker};

/// The parker of a sleeping thread.
pub(crate) type Sleeper = Arc<Parker<()>>;

/// Sleeping callers, with the positions they wait for.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<Vec<(u64, Sleeper)>>);

impl Waiters {
    /// Enters a thread that is about to sleep.
    pub(crate) fn enter(&self, position: u64, sleeper: &Sleeper) {
        self.0.lock().push((position, sleeper.clone()));
    }

    /// Removes a thread that does not sleep after all, or was woken for another reason.
    pub(crate) fn leave(&self, sleeper: &Sleeper) {
        self.0.lock().retain(|(_, other)| !Arc::ptr_eq(other, sleeper));
    }

    /// Wakes all callers that wait for this position or an earlier one.
    pub(crate) fn wake_up_to(&self, position: u64) {
        let mut waiters = self.0.lock();
        if waiters.is_empty() {
            return;
        }
        let reached: Vec<_> = waiters.extract_if(.., |waiter| waiter.0 <= position).collect();
        drop(waiters);
        reached.iter().for_each(|(_, sleeper)| sleeper.unpark(()));
    }

    /// Wakes the caller that has waited longest for a position after `durable`, so that it takes care of the log;
    /// returns whether there is one. It stays entered. A caller whose position was reached is not chosen, because
    /// it may be about to continue and would not look.
    pub(crate) fn wake_one(&self, durable: u64) -> bool {
        let waiters = self.0.lock();
        let first = waiters.iter().find(|waiter| waiter.0 > durable);
        let first = first.map(|(_, sleeper)| sleeper.clone());
        drop(waiters);
        first.inspect(|sleeper| sleeper.unpark(())).is_some()
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn is_woken(sleeper: &Sleeper) -> bool {
        sleeper.park_for(Duration::ZERO).is_some()
    }

    #[test]
    fn those_whose_position_is_reached_are_woken_once() {
        let waiters = Waiters::default();
        let sleepers: Vec<Sleeper> = (0..3).map(|_| Arc::default()).collect();
        for (position, sleeper) in [(10, &sleepers[0]), (20, &sleepers[1]), (10, &sleepers[2])] {
            waiters.enter(position, sleeper);
        }
        waiters.leave(&sleepers[2]);
        waiters.wake_up_to(10);
        assert_eq!(sleepers.iter().map(is_woken).collect::<Vec<_>>(), [true, false, false]);
        assert!(waiters.wake_one(10) && is_woken(&sleepers[1]));
        assert!(!waiters.wake_one(20), "its position was reached: it may look no more");
        waiters.wake_up_to(20);
        assert!(is_woken(&sleepers[1]) && !waiters.wake_one(10));
    }
}
