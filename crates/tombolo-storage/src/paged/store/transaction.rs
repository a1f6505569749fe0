//! One session and its transaction: how it begins, locks, and ends.
//!
//! ```text
//!            begin               begin_writes
//!   IDLE ───────────► READING ─────────────────► WRITING
//!     ▲                  │ commit, abort            │ commit, abort (by the log)
//!     └──────────────────┴──────────────────────────┘
//! ```
//!
//! A prepared transaction (`prepared.rs`) leaves its session, and becomes a session of its own that waits for
//! a decision.
//!
//! Commit, in this order: its record is logged; ghosts are removed, with log space that was reserved
//! for that; locks are released and the transaction is deregistered; the record is hardened; the caller is
//! answered. Because locks are released early, others see a transaction's rows before they are durable. So every answer
//! waits for the log; the answer of a transaction that logged nothing waits for the commit record that was the newest
//! when its locks were released.
//!
//! Not here: what calls do between begin and end (`calls.rs`), how changes are undone (`undo.rs`).

use std::cell::{Cell, RefCell};

use super::checkpoint::WritingSince;
use super::database::{Database, StructureLog, change};
use super::entries::Probes;
use super::error::OpenError;
use super::isolation::{GapLocks, HeldOf, Isolation};
use super::rows::RowCopies;
use super::sessions::Sessions;
use crate::error::{Error, Result};
use crate::lock::{LockError, Locking, Mode};
use crate::log::{ChangeKind, Logging};
use crate::paged::btree::{LastInsertions, Routes};
use crate::paged::heap::{Place, RowFile};
use crate::paged::page::StoreId;
use crate::plant::{self, Plant};
use crate::profile::PagedProfile;
use crate::row::RowId;
use crate::store::Phase;
use crate::sync::Arc;

/// Something deleted that keeps its place until the transaction commits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ghost {
    /// A row of the table at this position, or a value that no row has any more.
    Row {
        /// The table's position.
        table: usize,
        /// Where it lies.
        place: Place,
    },
    /// An entry of the index at this position; it may have been inserted again since.
    Entry {
        /// The index's position.
        index: usize,
        /// The row it leads to.
        row: RowId,
        /// Where its key ends in `ghost_keys`; it begins where that of the one before ends.
        key_end: usize,
    },
}

pub(super) const UNKNOWN: &str = "the log could not be written: what was committed last is unknown";

pub(super) const NOT_GIVEN_BACK: &str = "a transaction keeps its locks that could not be ended";

/// Returns when the log is durable up to the commit record at `lsn`, on which an answer depends. The locks are
/// released.
#[inline]
pub(super) fn harden<P: PagedProfile>(database: &Database<P>, lsn: u64) -> Result<()> {
    database.log.harden(lsn).inspect_err(|_| database.poison(UNKNOWN))
}

/// A session: what belongs to one thread's transaction.
pub(super) struct Session<P: PagedProfile> {
    pub(super) phase: Phase,
    /// What its transaction holds; none once the session has ended.
    pub(super) held: HeldOf<P>,
    /// What checkpoints know of it.
    pub(super) since: Arc<WritingSince>,
    pub(super) place: <P::Sessions as Sessions<P::Latching>>::Place,
    pub(super) log: <P::Log as Logging>::Transaction,
    pub(super) lane: usize,
    /// What its transaction is promised.
    pub(super) isolation: Isolation,
    /// Whether a commit waits until it is durable.
    pub(super) hardens: bool,
    /// The greater it is, the younger the transaction counts in deadlock detection.
    rank: u64,
    /// Whether the next transaction keeps the rank: the last one gave way to others.
    keeps_rank: Cell<bool>,
    /// The place of its last commit in the log ([`super::PagedStore::committed_at`]).
    pub(super) committed_at: u64,
    /// Where rows are copied to for reading (S9).
    pub(super) copies: RowCopies,
    /// The row being changed (S9), and what it was.
    pub(super) row: Vec<u8>,
    pub(super) before: Vec<u8>,
    /// Keys of the call at hand; the second is for ranges.
    pub(super) key: Vec<u8>,
    pub(super) end_key: Vec<u8>,
    /// By position of an index, the session's last insertion into it.
    pub(super) last_insertions: Vec<LastInsertions>,
    /// Keys of a call with many.
    pub(super) probes: Probes,
    /// Its ways down the indexes.
    pub(super) routes: RefCell<Routes>,
    pub(super) ghosts: Vec<Ghost>,
    pub(super) ghost_keys: Vec<u8>,
    /// Rows that it made, or whose column it changed, in tables that are spread: positions of these, and rows.
    pub(super) placed: Vec<(usize, RowId)>,
    /// Whether its last transaction could be neither committed nor undone: no other may see what it changed.
    is_abandoned: bool,
}

impl<P: PagedProfile> Session<P> {
    pub(super) fn open(database: &Database<P>) -> Result<Self, OpenError> {
        database.admit_session()?;
        Ok(Self::unadmitted(database).inspect_err(|_| database.dismiss_session())?)
    }

    /// A session that needs no page frames of its own: it fixes pages only while the thread's other session, which
    /// has been admitted, does nothing.
    pub(super) fn unadmitted(database: &Database<P>) -> Result<Self, LockError> {
        let held = database.locks.open_session()?;
        Ok(Self {
            phase: Phase::Idle,
            held: RefCell::new(Some(held)),
            since: database.checkpoints.enter(),
            place: database.sessions.open(),
            log: Default::default(),
            lane: database.next_lane(),
            isolation: database.isolation,
            hardens: true,
            rank: 0,
            keeps_rank: Cell::new(false),
            committed_at: 0,
            copies: RowCopies::default(),
            row: Vec::new(),
            before: Vec::new(),
            key: Vec::new(),
            end_key: Vec::new(),
            last_insertions: vec![LastInsertions::default(); database.indexes.len()],
            probes: Probes::default(),
            routes: RefCell::default(),
            ghosts: Vec::new(),
            ghost_keys: Vec::new(),
            placed: Vec::new(),
            is_abandoned: false,
        })
    }

    /// Ends the session; an open transaction is aborted, or poisons a database that cannot undo it,
    /// as does one whose thread panics: structures it left half changed are not walked again.
    /// Nothing happens the second time.
    pub(super) fn end(&mut self, database: &Database<P>) {
        if std::thread::panicking() && self.phase != Phase::Idle {
            return database.poison("a thread panicked in the middle of a transaction");
        }
        if self.phase != Phase::Idle && self.abort(database).is_err() {
            let reason = "a session ended in the middle of a transaction that cannot be undone";
            self.poison(database, reason);
        }
        if self.leave(database) {
            database.dismiss_session();
        }
    }

    /// Gives back what the session has of the database; `false` the second time.
    pub(super) fn leave(&mut self, database: &Database<P>) -> bool {
        let Some(mut held) = self.held.get_mut().take() else { return false };
        if !self.is_abandoned {
            database.locks.release_all(&mut held);
            database.locks.close_session(held);
        }
        database.sessions.close(&self.place);
        database.checkpoints.leave(&self.since);
        true
    }

    #[inline]
    pub(super) fn begin(&mut self, database: &Database<P>) -> Result<()> {
        database.refuse_poisoned()?;
        if self.phase != Phase::Idle {
            let reason = "a transaction began before the last one had ended";
            database.poison(reason);
            return Err(Error::Poisoned { reason });
        }
        let number = database.sessions.begin(&self.place);
        database.log.begin(&mut self.log, number);
        if P::Locks::LOCKS {
            if !self.keeps_rank.take() {
                self.rank = number;
            }
            if let Some(held) = self.held.get_mut() {
                database.locks.begin(held, self.rank);
            }
        }
        self.phase = Phase::Reading;
        Ok(())
    }

    /// Notes a call (S10).
    #[inline(always)]
    pub(super) fn note(&self, database: &Database<P>, changes: bool) {
        debug_assert_ne!(self.phase, Phase::Idle, "a call belongs to a transaction");
        database.sessions.call(&self.place, changes);
    }

    /// Locks a row; waits if need be, so nothing may be latched.
    #[inline(always)]
    pub(super) fn lock(
        &self,
        database: &Database<P>,
        store: StoreId,
        row: RowId,
        mode: Mode,
    ) -> Result<()> {
        if !P::Locks::LOCKS || self.has_locked(database, row, mode) {
            return Ok(());
        }
        self.lock_row(database, store, row, mode).map_err(|error| self.refused(error))
    }

    /// Whether a row is locked, as it mostly is where it was looked up: without a call.
    #[inline(always)]
    fn has_locked(&self, database: &Database<P>, row: RowId, mode: Mode) -> bool {
        let held = self.held.borrow();
        held.as_ref().is_some_and(|held| database.locks.has_row(held, row, mode))
    }

    #[cold]
    #[inline(never)]
    fn lock_row(
        &self,
        database: &Database<P>,
        store: StoreId,
        row: RowId,
        mode: Mode,
    ) -> Result<(), LockError> {
        self.locking(|held| database.locks.lock_row(held, store.0, row, mode))
    }

    /// Locks a row if that is possible without waiting.
    #[inline(always)]
    pub(super) fn try_lock(
        &self,
        database: &Database<P>,
        store: StoreId,
        row: RowId,
        mode: Mode,
    ) -> Result<(), LockError> {
        if !P::Locks::LOCKS {
            return Ok(());
        }
        // Written out: as a closure it would be a function of its own, which look-ups call.
        match self.held.borrow_mut().as_mut() {
            Some(held) => database.locks.try_lock_row(held, store.0, row, mode),
            None => Err(LockError::TooManySessions),
        }
    }

    /// Lets others change a row that was read under its lock, if the transaction does not mind.
    #[inline(always)]
    pub(super) fn end_read(&self, database: &Database<P>, row: RowId) {
        if P::Locks::LOCKS && self.isolation == Isolation::ReadCommitted {
            self.let_change(database, row);
        }
    }

    #[cold]
    fn let_change(&self, database: &Database<P>, row: RowId) {
        if let Some(held) = self.held.borrow_mut().as_mut() {
            database.locks.lower_row(held, row);
        }
    }

    /// Locks all rows of a table.
    pub(super) fn lock_table(
        &self,
        database: &Database<P>,
        store: StoreId,
        mode: Mode,
    ) -> Result<()> {
        let locked = self.locking(|held| database.locks.lock_store(held, store.0, mode));
        locked.map_err(|error| self.refused(error))
    }

    #[inline(always)]
    fn locking(
        &self,
        lock: impl FnOnce(&mut <P::Locks as Locking>::Held) -> Result<(), LockError>,
    ) -> Result<(), LockError> {
        if !P::Locks::LOCKS {
            return Ok(());
        }
        match self.held.borrow_mut().as_mut() {
            Some(held) => lock(held),
            None => Err(LockError::TooManySessions),
        }
    }

    /// A lock that was not granted, in a store's words.
    #[cold]
    pub(super) fn refused(&self, error: LockError) -> Error {
        // A victim comes back with its old rank, so that its turn comes.
        self.keeps_rank.set(error.retry());
        error.into()
    }

    /// Refuses everything from now on, in all sessions; what this one's transaction did stays as
    /// it is, and locked.
    #[cold]
    pub(super) fn poison(&mut self, database: &Database<P>, reason: &'static str) {
        database.poison(reason);
        if self.phase != Phase::Idle {
            self.abandon(database);
        }
    }

    #[inline]
    pub(super) fn commit(&mut self, database: &Database<P>) -> Result<()> {
        let is_early = plant::is(Plant::ReaderNotHardened) && self.phase == Phase::Reading;
        self.commit_unhardened(database)?;
        if is_early {
            return Ok(());
        }
        if self.hardens { harden(database, self.committed_at) } else { Ok(()) }
    }

    /// The same without waiting for the log: nothing may be answered before it is durable up to `committed_at`.
    #[inline]
    pub(super) fn commit_unhardened(&mut self, database: &Database<P>) -> Result<()> {
        database.refuse_poisoned()?;
        let logged = database.log.commit(&mut self.log);
        let lsn = match logged {
            Ok(lsn) => lsn,
            Err(error) => {
                database.poison(UNKNOWN);
                self.abandon(database);
                return Err(error);
            }
        };
        let purged = if self.ghosts.is_empty() { Ok(()) } else { self.purge_ghosts(database) };
        if purged.and_then(|()| database.log.end_commit(&mut self.log)).is_err() {
            // The transaction is committed all the same; what it deleted is not cleared away.
            database.poison("what a committed transaction deleted could not be cleared away");
        }
        // While the locks are held: what replaces a version that was read has a greater number.
        self.committed_at = if lsn > 0 { lsn } else { database.log.newest_commit() };
        self.finish(database, true);
        Ok(())
    }

    pub(super) fn abort(&mut self, database: &Database<P>) -> Result<()> {
        let undone = match self.phase {
            Phase::Writing => self.undo(database),
            _ => Ok(()),
        };
        match undone {
            Ok(()) => self.finish(database, false),
            Err(_) => {
                database.poison("an aborted transaction could not be undone");
                self.abandon(database);
            }
        }
        undone.and_then(|()| harden(database, database.log.newest_commit()))?;
        // It may have ended for want of room.
        database.make_room_if_refused();
        Ok(())
    }

    /// Releases what the transaction holds.
    #[inline]
    fn finish(&mut self, database: &Database<P>, committed: bool) {
        if P::Locks::LOCKS
            && let Some(held) = self.held.get_mut()
        {
            database.locks.release_all(held);
        }
        self.clear(database, committed);
    }

    /// Ends a transaction of a poisoned database that could be neither committed nor undone. Its locks stay: other
    /// sessions' transactions, which go on until their next call is refused, never see a part of it.
    #[cold]
    fn abandon(&mut self, database: &Database<P>) {
        self.is_abandoned = true;
        self.clear(database, false);
    }

    #[inline]
    fn clear(&mut self, database: &Database<P>, committed: bool) {
        self.ghosts.clear();
        self.ghost_keys.clear();
        self.placed.clear();
        if self.phase == Phase::Writing {
            self.since.end();
        }
        database.sessions.end(&self.place, committed);
        self.phase = Phase::Idle;
    }

    /// Takes away what the transaction deleted, entries before their rows as they were deleted.
    pub(super) fn purge_ghosts(&mut self, database: &Database<P>) -> Result<()> {
        let log = &database.log;
        let mut key_start = 0;
        for at in 0..self.ghosts.len() {
            match self.ghosts[at] {
                Ghost::Row { table, place } => {
                    let table = &database.tables[table];
                    table.rows.purge(&database.pages, place, |place, record| {
                        let change = change(ChangeKind::RowPurged, table.store, place, place.row());
                        log.change_apart(&mut self.log, change, record, &[])
                    })?;
                }
                Ghost::Entry { index, row, key_end } => {
                    let index = &database.indexes[index];
                    let key = &self.ghost_keys[key_start..key_end];
                    key_start = key_end;
                    let structure = StructureLog(database);
                    let noted = |place| {
                        let change = change(ChangeKind::EntryRemoved, index.store, place, row);
                        log.change_apart(&mut self.log, change, key, &[])
                    };
                    let gaps = GapLocks::of(&self.held, database, index, self.isolation);
                    index.tree.purge::<Error>(
                        &database.pages,
                        key,
                        row,
                        noted,
                        &structure,
                        &gaps,
                    )?;
                }
            }
        }
        Ok(())
    }
}
