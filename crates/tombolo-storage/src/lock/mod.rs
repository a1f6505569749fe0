//! Locks (LG-17, switch S5): strict hierarchical locking. A transaction locks the rows it reads and
//! changes, with intention locks on their pages and stores, and keeps every lock until it ends.
//!
//! [`Locking`] is the switch: [`Hierarchical`] is the real thing, [`NoLocks`] its zero-sized
//! sibling, [`IfLocks`] the same lock table behind one `if` at run time, to measure what the
//! zero-sized form saves (LG-26).
//!
//! Gaps between the entries of an index are locked, too, so that no other transaction inserts an entry that this one
//! would have had to see (`gaps.rs`).
//!
//! Read `mode.rs` (the tables), `table/` (queues: which request is granted, in which order) with
//! `group.rs`,
//! `held.rs` (what one transaction holds), `hierarchical.rs` (intentions, escalation), then
//! `wait.rs` and `deadlock.rs`.
//!
//! Not here: what has to be locked (the paged store's calls), transaction numbers, latches (`latch/`). No thread waits
//! for a lock while it holds a latch: it calls [`Locking::try_lock_row`]; if that fails, it releases the latch, locks
//! the row and looks again.

mod check;
mod conditional;
mod deadlock;
mod detached;
mod gaps;
mod group;
mod held;
mod hierarchical;
mod mode;
mod name;
mod none;
mod session;
mod stores;
mod table;
mod wait;

#[cfg(loom)]
#[cfg(test)]
mod loom_tests;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

pub use conditional::IfLocks;
pub use held::HeldLocks;
pub use hierarchical::Hierarchical;
pub use mode::Mode;
pub use name::LockName;
pub use none::{NoHeldLocks, NoLocks};

use crate::row::RowId;
use crate::store::Damage;

/// Whose reads of a gap are kept when it vanishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Those of other transactions: the one that takes the entry away is about to end.
    OfOthers,
    /// Also its own: it goes on.
    All,
}

/// The sizes and limits of a lock table.
#[derive(Clone, Copy, Debug)]
pub struct LockSettings {
    /// Chains the locks are hashed into, those of a page and its rows into one bucket; rounded up so that the number
    /// of buckets is a power of two.
    pub buckets: u32,
    /// Locks that all transactions together can hold or wait for.
    pub requests_max: u32,
    /// Sessions open at a time: at most 32,767.
    pub sessions_max: u32,
    /// Rows of one page that a transaction locks one by one before it tries to lock the page.
    pub rows_per_page_max: u16,
    /// Pages of one store that a transaction locks one by one before it tries to lock the store.
    pub pages_per_store_max: u16,
    /// Milliseconds a waiting transaction sleeps at a stretch.
    pub wait_interval_ms: u32,
    /// Stretches after which it gives up.
    pub wait_intervals_max: u32,
}

impl Default for LockSettings {
    /// Room for a few hundred transactions of a few hundred locks each; waits end after ten
    /// seconds.
    fn default() -> Self {
        Self {
            buckets: 1 << 14,
            requests_max: 1 << 16,
            sessions_max: 256,
            rows_per_page_max: 64,
            pages_per_store_max: 1_024,
            wait_interval_ms: 100,
            wait_intervals_max: 100,
        }
    }
}

/// Why a lock was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockError {
    /// Granting it would have taken for ever: the transaction waited in a circle with others and
    /// was chosen to give way. It must abort.
    Deadlock,
    /// The longest wait allowed passed.
    TimedOut,
    /// It could not be granted immediately, and waiting was not allowed or not possible.
    Unavailable,
    /// The lock table has no room, even after locking pages or stores instead of rows was tried.
    TableFull,
    /// As many sessions are open as the lock table has places for.
    TooManySessions,
    /// Nothing is waited for any more ([`Locking::shut`]).
    Shut,
}

impl LockError {
    /// Whether the same transaction may succeed when it is simply tried again.
    pub const fn retry(self) -> bool {
        matches!(self, Self::Deadlock | Self::TimedOut | Self::Unavailable)
    }
}

impl std::fmt::Display for LockError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Deadlock => "deadlock: this transaction was the victim; retry it",
            Self::TimedOut => "a lock was not granted in time; retry",
            Self::Unavailable => "another transaction holds a lock on this: try again",
            Self::TableFull => "the lock table is full: raise requests_max or lock fewer rows",
            Self::TooManySessions => "no session is free in the lock table: raise sessions_max",
            Self::Shut => "locks are not given back any more",
        })
    }
}

impl std::error::Error for LockError {}

/// S5: whether transactions lock what they read and change.
///
/// A session runs one transaction at a time: [`Locking::begin`], locks, [`Locking::release_all`].
/// After an error the transaction holds what it held before and must end.
pub trait Locking: Sized + Send + 'static {
    /// What the transaction of one session holds; the session owns it, its memory is used again.
    type Held: Send;

    /// Whether anything is locked at all.
    const LOCKS: bool;

    /// An empty lock table.
    fn new(settings: LockSettings) -> Self;

    /// A place for a session.
    ///
    /// # Errors
    /// `TooManySessions`.
    fn open_session(&self) -> Result<Self::Held, LockError>;

    /// How many intervals the session waits for a lock from now on, in place of
    /// [`LockSettings::wait_intervals_max`].
    fn set_waits(&self, held: &mut Self::Held, intervals_max: u32);

    /// Lets no session wait any more: those that do, or would, get `Shut`. For what is locked and will stay so.
    fn shut(&self);

    /// Gives a session's place back.
    ///
    /// # Panics
    /// When it still holds locks.
    fn close_session(&self, held: Self::Held);

    /// Starts a transaction. Of the transactions in a deadlock the one with the greatest `age_rank`
    /// gives way: a number that grows with each beginning makes it the youngest. A transaction that
    /// is tried again may keep its number, so that its turn comes.
    fn begin(&self, held: &mut Self::Held, age_rank: u64);

    /// Locks a whole store.
    ///
    /// # Errors
    /// All of [`LockError`] but `TooManySessions`, as for all that lock.
    fn lock_store(&self, held: &mut Self::Held, store: u16, mode: Mode) -> Result<(), LockError>;

    /// Locks a page, with the intention on its store.
    ///
    /// # Errors
    /// See [`Locking::lock_store`].
    fn lock_page(
        &self,
        held: &mut Self::Held,
        store: u16,
        page: u32,
        mode: Mode,
    ) -> Result<(), LockError>;

    /// Locks a row, with the intentions on its page and its store: S to read it, SIX to change it, X to make
    /// or delete it. Its location is page << 16 | slot.
    ///
    /// # Errors
    /// See [`Locking::lock_store`].
    fn lock_row(
        &self,
        held: &mut Self::Held,
        store: u16,
        row: RowId,
        mode: Mode,
    ) -> Result<(), LockError>;

    /// Like [`Locking::lock_row`], but never waits.
    ///
    /// # Errors
    /// `Unavailable` where the other would wait; `TableFull`.
    fn try_lock_row(
        &self,
        held: &mut Self::Held,
        store: u16,
        row: RowId,
        mode: Mode,
    ) -> Result<(), LockError>;

    /// Whether the transaction need not lock a row, because it has locked it so.
    fn has_row(&self, held: &Self::Held, row: RowId, mode: Mode) -> bool;

    /// Locks a gap of an index of the table `table` S: until the transaction ends no other one enters it.
    /// Never waits. The caller has the latches of the leaf that the gap ends in and of the one that an entry
    /// of the gap would be in.
    ///
    /// # Errors
    /// `TableFull`.
    fn lock_gap(&self, held: &mut Self::Held, table: u16, gap: LockName) -> Result<(), LockError>;

    /// Lowers a lock S on a row to IS: others may change the row, not delete it. A stronger lock stays.
    fn lower_row(&self, held: &mut Self::Held, row: RowId);

    /// Says that the transaction may lock gaps: [`Locking::has_gap_locks`] from now on until it ends.
    fn announce_gaps(&self, held: &mut Self::Held);

    /// Whether any gap may be locked; the caller has the leaf alone that an entry is to come into or go from.
    fn has_gap_locks(&self) -> bool;

    /// Whether the transaction may insert an entry into `gap` now, which divides it: `lower` is its part
    /// below the entry. A transaction that has the gap locked itself has both parts locked then. The caller
    /// has latches as for [`Locking::lock_gap`], that of the new entry's leaf alone.
    ///
    /// # Errors
    /// `TableFull`.
    fn enter_gap(
        &self,
        held: &mut Self::Held,
        table: u16,
        gap: LockName,
        lower: LockName,
    ) -> Result<bool, LockError>;

    /// Waits until the transaction might have entered `gap`; it has to look again.
    ///
    /// # Errors
    /// See [`Locking::lock_store`].
    fn wait_for_gap(&self, held: &mut Self::Held, gap: LockName) -> Result<(), LockError>;

    /// Whether another transaction has `gap` locked, or, if its `reads` count too, this one.
    fn is_gap_locked(&self, held: &Self::Held, gap: LockName, reads: Reads) -> bool;

    /// Hands locks on `gap`, which vanishes with the entry above it, on to `above`, which grows by it. Never waits and
    /// never fails. The caller has the leaf of the entry alone and that of the next entry too.
    fn hand_on_gap(&self, held: &Self::Held, gap: LockName, above: LockName, reads: Reads);

    /// Gives back what the session has besides the locks of its transaction, which will ask for no more but hold
    /// them for long.
    fn settle(&self, held: &mut Self::Held);

    /// The locks of the transaction in the order in which it got them, gaps by the names they have now; one that is
    /// handed on meanwhile may be shown by its old name.
    fn locks_of(&self, held: &Self::Held) -> Vec<(LockName, Mode)>;

    /// Takes one of those locks again, after those that were shown before it, without waiting. A gap may be locked
    /// twice.
    ///
    /// # Errors
    /// `TableFull`; `Unavailable` if another transaction has it, which cannot be if the two held theirs at a time.
    fn lock_again(
        &self,
        held: &mut Self::Held,
        name: LockName,
        mode: Mode,
    ) -> Result<(), LockError>;

    /// Releases all locks of the transaction, which ends.
    fn release_all(&self, held: &mut Self::Held);

    /// Verifies the lock table and that it agrees with what `sessions` (all that are open) hold.
    /// For quiet moments: no other thread locks meanwhile.
    fn check(&self, sessions: &[&Self::Held]) -> Vec<Damage>;
}
