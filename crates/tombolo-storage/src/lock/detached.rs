//! Locks of transactions that request no more locks: a prepared transaction holds its locks until it is decided, and
//! takes them again after a crash.
//!
//! Such a transaction never waits, so it is in no circle of waits and never gives way (`deadlock.rs`);
//! a transaction that waits for it waits until its own time limit. Its requests come from the table's common
//! chain.
//!
//! Not here: its log records (`log/prepare.rs`), the locks that changes of an index hand on.

use super::LockError;
use super::held::HeldLocks;
use super::hierarchical::Hierarchical;
use super::mode::Mode;
use super::name::LockName;
use crate::latch::Latching;

impl<L: Latching> Hierarchical<L> {
    /// Releases the locks that are kept from the session's last transaction.
    pub(super) fn let_go_of_kept(&self, held: &mut HeldLocks) {
        for lock in held.forget_kept() {
            if self.table.claim(lock.1).is_some() {
                self.table.release(lock);
            }
            self.table.give_free(lock.1);
        }
    }

    /// See [`super::Locking::locks_of`].
    pub(super) fn held_now(&self, held: &HeldLocks) -> Vec<(LockName, Mode)> {
        // What a gap's request is named by now, only the table knows.
        let named = held.iter().map(|(name, request, mode)| match name.is_gap() {
            true => (self.table.request(request).name(), mode),
            false => (name, mode),
        });
        let strays = held.strays().map(|stray| (self.table.request(stray).name(), Mode::Shared));
        named.chain(strays).collect()
    }

    /// See [`super::Locking::lock_again`].
    pub(super) fn retake(
        &self,
        held: &mut HeldLocks,
        name: LockName,
        mode: Mode,
    ) -> Result<(), LockError> {
        self.stock(held);
        if let Some(store) = name.store_number() {
            return match held.store(store) {
                Some(_) => Err(LockError::Unavailable),
                None => self.store(held, store, mode, false).map(drop),
            };
        }
        let Err(vacant) = held.search(name) else {
            return if name.is_gap() { Ok(()) } else { Err(LockError::Unavailable) };
        };
        if !name.is_gap() {
            return self.acquire(held, vacant, name, mode, false).map(|_| ());
        }
        let Some(id) = held.free_request() else { return Err(LockError::TableFull) };
        self.count_gap(held);
        if self.table.share_gap(held.session, name, id) {
            held.add(vacant, (name, self.table.chain(name)), Mode::Shared, 0);
        }
        Ok(())
    }
}
