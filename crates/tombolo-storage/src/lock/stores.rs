//! Locks on stores, which sessions keep from one transaction for the next (ISL-15).
//!
//! A lock that is kept is claimed with one exchange of its request's word. One that was kept in the other mode of IS
//! and IX is converted where it is.
//!
//! Not here: which locks are kept (`table/mod.rs`), and where the session has them (`held.rs`).

use super::LockError;
use super::held::{At, HeldLocks};
use super::hierarchical::Hierarchical;
use super::mode::Mode;
use super::name::LockName;
use crate::latch::Latching;
use crate::probe::{self, Counter};

/// Counts a lock that was granted.
#[inline(always)]
pub(super) fn count_lock(name: LockName, mode: Mode) {
    probe::count(Counter::Locks, 1);
    probe::count(Counter::RowLocks, name.is_row().into());
    probe::count(Counter::IntentionLocks, (mode.is_intention() && !name.is_row()).into());
}

impl<L: Latching> Hierarchical<L> {
    /// Locks a store that the transaction has no lock on: as the session's last one left it, or as any lock.
    pub(super) fn store(
        &self,
        held: &mut HeldLocks,
        store: u16,
        mode: Mode,
        patient: bool,
    ) -> Result<At, LockError> {
        if let Some(at) = held.place_of_store(store).filter(|at| held.is_kept(*at))
            && self.claim_kept(held, at, store, mode, patient)?
        {
            return Ok(at);
        }
        let (name, Some(id)) = (LockName::store(store), held.free_request()) else {
            return Err(LockError::TableFull);
        };
        let chain = self.table.chain(name);
        let answer = self.table.acquire(held.session, chain, (name, mode, id), patient && L::WAITS);
        self.granted_by(held, name, answer)?;
        count_lock(name, mode);
        Ok(held.add_store((store, chain), mode, self.pages_per_store_max))
    }

    /// Goes on with the lock at `at` on a store, as the session's last transaction left it; `false` if it is kept no
    /// longer.
    #[inline(always)]
    pub(super) fn claim_kept(
        &self,
        held: &mut HeldLocks,
        at: At,
        store: u16,
        mode: Mode,
        patient: bool,
    ) -> Result<bool, LockError> {
        match self.table.claim(held.request(at)) {
            Some(granted) if granted == mode => {
                probe::count(Counter::InheritedLocks, 1);
                held.take_up(at, self.pages_per_store_max);
                count_lock(LockName::store(store), mode);
                Ok(true)
            }
            granted => self.claim_in_mode(held, at, (store, granted), mode, patient),
        }
    }

    /// The same with a lock that was `granted` in another mode, or is kept no longer.
    #[inline(never)]
    fn claim_in_mode(
        &self,
        held: &mut HeldLocks,
        at: At,
        (store, granted): (u16, Option<Mode>),
        mode: Mode,
        patient: bool,
    ) -> Result<bool, LockError> {
        let lock = (LockName::store(store), held.request(at));
        let Some(granted) = granted.filter(|_| mode.is_intention()) else {
            if granted.is_some() {
                self.table.release(lock);
            }
            held.lose_kept(at);
            return Ok(false);
        };
        if granted.covers(mode) {
            // A reader does not go on with what a writer left: it would exclude other readers of all.
            self.table.lower(lock, granted, mode);
            held.set_mode(at, mode);
        } else if let Err(error) = self.convert(held, at, lock.0, mode, patient) {
            // The transaction holds what it held before.
            self.table.release(lock);
            held.lose_kept(at);
            return Err(error);
        }
        held.take_up(at, self.pages_per_store_max);
        count_lock(lock.0, mode);
        Ok(true)
    }
}
