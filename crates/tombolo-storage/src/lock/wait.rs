//! How a transaction waits for a lock, and for how long.
//!
//! A session sleeps in its own place until another session hands it a verdict: the one whose
//! release grants the lock, or the one that finds a deadlock. Most transactions end sooner than a thread
//! falls asleep and is woken, so the session looks for a while before. Storage reads no clock: patience
//! is a number of intervals.

use std::time::Duration;

use super::hierarchical::Hierarchical;
use super::name::LockName;
use super::session::Verdict;
use super::{LockError, LockSettings};
use crate::latch::Latching;
use crate::sync::{Ordering, Spin};

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    interval: Duration,
    /// Unless a session has a number of its own.
    pub(super) intervals_max: u32,
}

impl Patience {
    pub(super) fn new(settings: &LockSettings) -> Self {
        assert!(settings.wait_interval_ms > 0, "wait_interval_ms must not be 0");
        Self {
            interval: Duration::from_millis(settings.wait_interval_ms.into()),
            intervals_max: settings.wait_intervals_max,
        }
    }
}

impl<L: Latching> Hierarchical<L> {
    /// Sleeps until the queued request of `session` for `name` is granted, or gives it up. In that
    /// case a new request has left the queue and a conversion is held as before.
    #[cold]
    pub(super) fn wait(&self, session: u32, name: LockName) -> Result<(), LockError> {
        assert!(L::WAITS, "without latches no other thread is waited for");
        let place = self.table.sessions.get(session);
        let mut spin = Spin::transaction();
        while spin.again() {
            if place.waits_for() != Some(name) {
                // The session that ended the wait hands the verdict over at this moment.
                return result(place.parker.park());
            }
        }
        let mut refused = LockError::TimedOut;
        for _ in 0..place.wait_intervals_max.get() {
            // Relaxed: partner of the store in `shut`; one interval more or less.
            if self.is_shut.load(Ordering::Relaxed) {
                refused = LockError::Shut;
                break;
            }
            // Each time: a gap's lock that was handed on may close a circle of sessions that all wait already.
            self.break_circles(session);
            if let Some(verdict) = place.parker.park_for(self.patience.interval) {
                return result(verdict);
            }
        }
        if self.table.cancel(session, name, None) {
            return Err(refused);
        }
        // The wait ended in the last moment, and the verdict is there.
        result(place.parker.park())
    }
}

fn result(verdict: Verdict) -> Result<(), LockError> {
    match verdict {
        Verdict::Granted => Ok(()),
        Verdict::Deadlock => Err(LockError::Deadlock),
    }
}
