//! Isolation levels: what transactions see of each other; and locks on the gaps between an index's entries.
//!
//! *Serializable*, the default:
//!
//! | what a transaction reads | locks S, until it ends |
//! |---|---|
//! | a key of a unique index that is there | its row |
//! | the first row of a key of another index | its row, and the gap below its entry |
//! | a key that is not there | the gap it would be in |
//! | a range | its rows, the gaps below their entries and the gap behind the range |
//!
//! An insertion waits for other sessions that hold the gap that it divides; if its own transaction holds the gap, it
//! then holds both parts. When an entry is removed, others' locks on its gap are handed on to the gap above, which
//! grows by it. Entries marked deleted count as entries.
//!
//! *Read committed*: a transaction reads committed rows, which may change immediately afterwards. A row's lock is
//! lowered to IS after the read, so that no other transaction deletes the row while its id is in use; gaps are not
//! locked. Rows that are read in place (S9 off), or under a lock on their page or table, stay locked S. Changes are
//! locked as above.
//!
//! Not here: queues (`lock/table/gaps.rs`), where entries are (`btree/gaps.rs`).

use std::cell::{Cell, RefCell};

use super::database::{Database, IndexStore};
use crate::lock::{LockError, LockName, Locking, Mode, Reads};
use crate::paged::btree::{GapEnd, Gaps, Meet, Newcomer};
use crate::plant::{self, Plant};
use crate::profile::PagedProfile;
use crate::row::RowId;
use crate::store::Order;

/// What a transaction is promised about the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// As if it ran alone: what it read stays as it is until it ends, and what it did not find does not appear.
    #[default]
    Serializable,
    /// It reads nothing that is not committed, and no more is promised.
    ReadCommitted,
}

/// What a session's transactions hold.
pub(super) type HeldOf<P> = RefCell<Option<<<P as PagedProfile>::Locks as Locking>::Held>>;

/// A transaction's locks on the gaps of one index, for one call.
pub(super) struct GapLocks<'a, P: PagedProfile> {
    held: &'a HeldOf<P>,
    locks: &'a P::Locks,
    /// The index's number.
    index: u16,
    /// Its table's, which covers its gaps if it is locked as a whole.
    table: u16,
    /// Whether what the transaction reads is to stay as it is.
    reads: bool,
    /// Whose reads of a gap that vanishes are kept.
    kept: Reads,
    /// A gap that is to be read.
    expected: Cell<Option<GapEnd>>,
    refused: Cell<Option<LockError>>,
}

impl<'a, P: PagedProfile> GapLocks<'a, P> {
    #[inline(always)]
    pub(super) fn of(
        held: &'a HeldOf<P>,
        database: &'a Database<P>,
        index: &IndexStore<P>,
        isolation: Isolation,
    ) -> Self {
        let reads = isolation == Isolation::Serializable;
        let (index, table) = (index.store.0, index.table_store.0);
        let (locks, expected, refused) = (&database.locks, Cell::new(None), Cell::new(None));
        Self { held, locks, index, table, reads, kept: Reads::OfOthers, expected, refused }
    }

    /// The same where these reads of gaps that vanish are kept.
    pub(super) fn keep(mut self, kept: Reads) -> Self {
        if !plant::is(Plant::OwnGapsNotHandedOn) {
            self.kept = kept;
        }
        self
    }

    /// Reads the gaps that a scan has read when it has seen the entry of `key` and `row`, which is locked.
    #[inline]
    pub(super) fn read_beside(&self, key: &[u8], row: RowId, order: Order) {
        let below = || GapEnd::below(key, row);
        match order {
            Order::Forward => self.read(below),
            Order::Backward => {
                self.read_expected();
                self.expect(below);
            }
        }
    }

    /// A lock that could not be had.
    #[inline(always)]
    pub(super) fn refused(&self) -> Option<LockError> {
        if P::Locks::LOCKS { self.refused.get() } else { None }
    }

    /// Waits until a gap may be entered. Nothing is latched.
    #[cold]
    pub(super) fn wait(&self, gap: GapEnd) -> Result<(), LockError> {
        match self.held.borrow_mut().as_mut() {
            Some(held) => self.locks.wait_for_gap(held, self.name(gap)),
            None => Err(LockError::TooManySessions),
        }
    }

    #[inline(always)]
    fn name(&self, gap: GapEnd) -> LockName {
        LockName::gap(self.index, gap.word())
    }

    /// Does something with what the transaction holds; notes it if a lock is refused.
    #[inline(always)]
    fn with<T: Default>(
        &self,
        locking: impl FnOnce(&mut <P::Locks as Locking>::Held) -> Result<T, LockError>,
    ) -> T {
        let mut held = self.held.borrow_mut();
        let done = held.as_mut().map_or(Err(LockError::TooManySessions), locking);
        done.unwrap_or_else(|error| {
            self.refused.set(Some(error));
            T::default()
        })
    }
}

impl<P: PagedProfile> Newcomer for GapLocks<'_, P> {
    /// Whether another transaction has to be waited for before `row` may be taken as it is.
    fn meet(&mut self, row: RowId, deleted: bool) -> Meet {
        if !P::Locks::LOCKS {
            return if deleted { Meet::Pass } else { Meet::Duplicate };
        }
        let locked = match self.held.borrow_mut().as_mut() {
            Some(held) => self.locks.try_lock_row(held, self.table, row, Mode::Shared),
            None => Err(LockError::TooManySessions),
        };
        match locked {
            Ok(()) if deleted => Meet::Pass,
            Ok(()) => Meet::Duplicate,
            Err(_) => Meet::Wait,
        }
    }
}

impl<P: PagedProfile> Gaps for GapLocks<'_, P> {
    const LOCKED: bool = P::Locks::LOCKS;

    #[inline(always)]
    fn in_use(&self) -> bool {
        self.locks.has_gap_locks()
    }

    fn announce(&self) {
        self.with(|held| {
            self.locks.announce_gaps(held);
            Ok(())
        });
    }

    #[inline]
    fn read(&self, gap: impl FnOnce() -> GapEnd) {
        if self.reads {
            self.with(|held| self.locks.lock_gap(held, self.table, self.name(gap())));
        }
    }

    #[inline]
    fn expect(&self, gap: impl FnOnce() -> GapEnd) {
        if self.reads {
            self.expected.set(Some(gap()));
        }
    }

    fn read_expected(&self) {
        if let Some(gap) = self.expected.take() {
            self.read(|| gap);
        }
    }

    fn enter(&self, gap: GapEnd, lower: GapEnd) -> bool {
        let (gap, lower) = (self.name(gap), self.name(lower));
        self.with(|held| self.locks.enter_gap(held, self.table, gap, lower))
    }

    fn is_locked(&self, gap: GapEnd) -> bool {
        self.with(|held| Ok(self.locks.is_gap_locked(held, self.name(gap), self.kept)))
    }

    fn hand_on(&self, gap: GapEnd, above: GapEnd) {
        self.with(|held| {
            self.locks.hand_on_gap(held, self.name(gap), self.name(above), self.kept);
            Ok(())
        });
    }
}
