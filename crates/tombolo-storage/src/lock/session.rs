//! What other transactions may know of a session: what it waits for, and how to wake it.

use std::cell::Cell;

use super::LockError;
use super::name::LockName;
use crate::latch::{GuardedU32, GuardedU64, Latch, Latching};
use crate::sync::Parker;

/// No request, no session.
pub(super) const NONE: u32 = u32::MAX;

/// How a wait ended; handed over by the session that ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Granted,
    /// Chosen to give way.
    Deadlock,
}

/// One session, as seen by all.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) parker: Parker<Verdict>,
    /// The lock it waits for, 0 for none. Protected by the latch of that lock's bucket: under it,
    /// the session has a waiting request there if and only if this names the lock.
    waits_for: GuardedU64,
    /// The greater, the younger its transaction.
    pub(super) age_rank: GuardedU64,
    /// Counts its transactions: shows whether a session is still in the one that was seen.
    pub(super) transaction: GuardedU64,
    /// How many intervals it waits for a lock. Only its own thread looks.
    pub(super) wait_intervals_max: GuardedU32,
    next_free: GuardedU32,
}

impl Session {
    /// What it waits for; without the bucket's latch, a hint.
    pub(super) fn waits_for(&self) -> Option<LockName> {
        match self.waits_for.get() {
            0 => None,
            word => Some(LockName::from_word(word)),
        }
    }

    pub(super) fn set_waits_for(&self, name: Option<LockName>) {
        self.waits_for.set(name.map_or(0, LockName::word));
    }
}

/// All sessions: a fixed number of places.
pub(super) struct Sessions<L: Latching> {
    places: Box<[Session]>,
    /// The first of the free places, chained by `next_free`.
    free: Latch<Cell<u32>, L>,
}

impl<L: Latching> Sessions<L> {
    pub(super) fn new(sessions_max: u32) -> Self {
        assert!(0 < sessions_max && sessions_max < NONE, "sessions_max is out of range");
        let place = |id: u32| Session {
            parker: Parker::new(),
            waits_for: GuardedU64::new(0),
            age_rank: GuardedU64::new(0),
            transaction: GuardedU64::new(0),
            wait_intervals_max: GuardedU32::new(0),
            next_free: GuardedU32::new(if id + 1 == sessions_max { NONE } else { id + 1 }),
        };
        let free = Latch::new(Cell::new(0));
        Self { places: (0..sessions_max).map(place).collect(), free }
    }

    #[inline(always)]
    pub(super) fn get(&self, id: u32) -> &Session {
        &self.places[id as usize]
    }

    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    pub(super) fn open(&self) -> Result<u32, LockError> {
        let free = self.free.hold();
        let id = free.get();
        if id == NONE {
            return Err(LockError::TooManySessions);
        }
        free.set(self.get(id).next_free.get());
        Ok(id)
    }

    pub(super) fn close(&self, id: u32) {
        assert!(self.get(id).waits_for().is_none());
        let free = self.free.hold();
        self.get(id).next_free.set(free.get());
        free.set(id);
    }
}
