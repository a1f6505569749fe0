//! Prepared transactions: they may commit or abort, as a coordinator decides, and can do so after a crash.
//!
//! ```text
//!                prepare                       decide
//!   WRITING ───────────────► prepared ───────────────────► committed, or undone
//!              log: kind 41     │  ▲                         log: as ever
//!                               crash, restart
//! ```
//!
//! A transaction that prepares leaves its session and takes everything with it: its locks and their session in the lock
//! table, its undo records, its ghosts, its entry in the list that checkpoints respect. It is then a session of
//! its own, which no call reaches, and the old session begins anew. A decision commits or aborts
//! that session, by the same code as any other.
//!
//! It requests no more locks, so it never gives way in a deadlock; a transaction that needs one of its locks waits, and
//! gives up after the longest wait. How its locks survive a crash: `restart/prepared.rs`.
//!
//! Not here: coordinators, votes, messages.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::database::Database;
use super::transaction::{Ghost, Session, UNKNOWN};
use crate::error::{Error, Result};
use crate::latch::Latch;
use crate::lock::{LockName, Locking, Mode};
use crate::log::{LockEntry, Logging};
use crate::owner::Owner;
use crate::paged::heap::Place;
use crate::plant::{self, Plant};
use crate::profile::PagedProfile;
use crate::row::RowId;
use crate::store::Phase;

/// What a transaction that was asked to prepare promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// It can commit and it can abort, after a crash too, and holds its locks until it is decided.
    Prepared,
    /// It changed nothing: it is over, and there is nothing to decide.
    ReadOnly,
}

/// How a prepared transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// What it changed stays.
    Commit,
    /// What it changed is undone.
    Abort,
}

/// A transaction that is prepared and not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedTransaction {
    /// The number by which its coordinator knows it.
    pub owner: Owner,
    /// The LSN from which on the log is kept for it: the less, the older it is.
    pub log_since: u64,
}

/// Sessions without a thread, by the numbers of their transactions; none while one is being prepared or decided.
type Places<P> = BTreeMap<Owner, Option<Session<P>>>;

/// The transactions that are prepared and not decided.
pub(super) struct PreparedSessions<P: PagedProfile> {
    sessions: Latch<RefCell<Places<P>>, P::Latching>,
    max: usize,
}

/// What prepared transactions deleted, by positions of tables and indexes.
#[derive(Debug, Default)]
pub(super) struct PreparedDeletions {
    pub(super) rows: Vec<(usize, Place)>,
    pub(super) entries: BTreeSet<(usize, RowId, Vec<u8>)>,
}

impl<P: PagedProfile> PreparedSessions<P> {
    pub(super) fn new(max: u32) -> Self {
        Self { sessions: Latch::new(RefCell::default()), max: max as usize }
    }

    /// Takes a place for a transaction.
    fn reserve(&self, owner: Owner) -> Result<()> {
        let sessions = self.sessions.hold();
        let mut sessions = sessions.borrow_mut();
        if sessions.contains_key(&owner) {
            return Err(Error::PreparedAlready { owner });
        }
        if sessions.len() >= self.max {
            return Err(Error::TooManyPrepared { max: self.max as u64 });
        }
        sessions.insert(owner, None);
        Ok(())
    }

    /// Enters one that is prepared; `false` if there is one with its number.
    pub(super) fn enter(&self, owner: Owner, session: Session<P>) -> bool {
        let sessions = self.sessions.hold();
        let before = sessions.borrow_mut().insert(owner, Some(session));
        before.flatten().is_none()
    }

    /// Takes one out that is to be decided; its place stays.
    fn take(&self, owner: Owner) -> Result<Session<P>> {
        let sessions = self.sessions.hold();
        let session = sessions.borrow_mut().get_mut(&owner).and_then(Option::take);
        session.ok_or(Error::NotPrepared { owner })
    }

    /// Gives a place back.
    fn free(&self, owner: Owner) {
        self.sessions.hold().borrow_mut().remove(&owner);
    }

    /// Those that may be decided, by number.
    pub(super) fn list(&self) -> Vec<PreparedTransaction> {
        let sessions = self.sessions.hold();
        let sessions = sessions.borrow();
        let listed = sessions.iter().filter_map(|(&owner, session)| {
            let log_since = session.as_ref()?.since.at();
            Some(PreparedTransaction { owner, log_since })
        });
        listed.collect()
    }

    /// The numbers of those that are not decided.
    pub(super) fn owners(&self) -> Vec<Owner> {
        self.list().into_iter().map(|prepared| prepared.owner).collect()
    }

    /// What they deleted: it is there until they are decided.
    pub(super) fn deleted(&self) -> PreparedDeletions {
        let mut deleted = PreparedDeletions::default();
        let sessions = self.sessions.hold();
        for session in sessions.borrow().values().flatten() {
            let mut start = 0;
            for &ghost in &session.ghosts {
                match ghost {
                    Ghost::Row { table, place } => deleted.rows.push((table, place)),
                    Ghost::Entry { index, row, key_end } => {
                        let key = session.ghost_keys[start..key_end].to_vec();
                        start = key_end;
                        deleted.entries.insert((index, row, key));
                    }
                }
            }
        }
        deleted
    }
}

/// A lock as the log has it.
fn entry_of((name, mode): (LockName, Mode)) -> LockEntry {
    let mut entry = [mode as u8; size_of::<LockEntry>()];
    entry[..8].copy_from_slice(&name.word().to_le_bytes());
    entry
}

/// The lock that the log has; `None` if it is none.
pub(super) fn lock_of(entry: &LockEntry) -> Option<(LockName, Mode)> {
    let (name, [mode]) = entry.split_first_chunk::<8>()? else { return None };
    let name = LockName::from_stored(u64::from_le_bytes(*name))?;
    Some((name, *Mode::ALL.get(usize::from(*mode))?))
}

impl<P: PagedProfile> Session<P> {
    /// Prepares the transaction; the vote counts when the log is durable up to the LSN.
    pub(super) fn prepare(&mut self, database: &Database<P>, owner: Owner) -> Result<(Vote, u64)> {
        assert_ne!(self.phase, Phase::Idle, "a transaction is prepared that has begun");
        database.refuse_poisoned()?;
        if !P::Locks::LOCKS || !P::Log::RECORDS || database.log.unread().is_none() {
            return Err(Error::CannotPrepare);
        }
        // What it changed may all be undone.
        if self.phase == Phase::Reading || database.log.newest_undoable(&self.log) == 0 {
            self.commit_unhardened(database)?;
            return Ok((Vote::ReadOnly, self.committed_at));
        }
        database.prepared.reserve(owner)?;
        match self.detach(database, owner) {
            Ok((session, lsn)) => {
                database.prepared.enter(owner, session);
                Ok((Vote::Prepared, lsn))
            }
            Err(error) => {
                database.prepared.free(owner);
                Err(error)
            }
        }
    }

    /// Logs that the transaction is prepared, and returns it as a session of its own, with the LSN that must be
    /// durable. Where it fails the transaction goes on.
    fn detach(&mut self, database: &Database<P>, owner: Owner) -> Result<(Self, u64)> {
        let max = database.prepared.list().len() as u64;
        let fresh = Self::unadmitted(database);
        let mut session = fresh.map_err(|_| Error::TooManyPrepared { max })?;
        // A gap that it holds may be handed on by a transaction whose record of that was logged before this one
        // looks at the gap's name. That one is still writing, so the log is kept from its beginning on, too.
        self.since.begin(database.checkpoints.oldest());
        let locks = self.held.get_mut().as_ref().map(|held| database.locks.locks_of(held));
        let entries: Vec<LockEntry> = locks.into_iter().flatten().map(entry_of).collect();
        let logged = database.log.prepare(&mut self.log, self.since.at(), owner, &entries);
        let lsn = logged.inspect_err(|_| _ = session.leave(database))?;
        if plant::is(Plant::PreparedLogReleased) {
            self.since.end();
        }
        if plant::is(Plant::PreparedBeginningReleased) {
            self.since.begin(lsn);
        }
        if let Some(held) = self.held.get_mut() {
            database.locks.settle(held);
        }
        std::mem::swap(self, &mut session);
        // What a session keeps from one transaction to the next.
        (self.lane, self.isolation) = (session.lane, session.isolation);
        self.committed_at = session.committed_at;
        std::mem::swap(&mut self.copies, &mut session.copies);
        std::mem::swap(&mut self.row, &mut session.row);
        std::mem::swap(&mut self.before, &mut session.before);
        std::mem::swap(&mut self.key, &mut session.key);
        std::mem::swap(&mut self.end_key, &mut session.end_key);
        std::mem::swap(&mut self.probes, &mut session.probes);
        Ok((session, lsn))
    }

    /// Ends the prepared transaction with this number, which is not this session's. Up to the LSN the log has to be
    /// durable before a commit is answered; an abort is.
    pub(super) fn decide(
        &mut self,
        database: &Database<P>,
        owner: Owner,
        decision: Decision,
    ) -> Result<u64> {
        database.refuse_poisoned()?;
        let mut session = database.prepared.take(owner)?;
        let decided = match decision {
            Decision::Commit => session.commit_unhardened(database),
            Decision::Abort => session.abort(database).and_then(|()| {
                // A restart would find it prepared again whose decision was not logged.
                database.log.flush().inspect_err(|_| database.poison(UNKNOWN))
            }),
        };
        let mut lsn = 0;
        if decided.is_ok() && decision == Decision::Commit {
            lsn = session.committed_at;
            self.committed_at = lsn;
        }
        session.leave(database);
        database.prepared.free(owner);
        decided.map(|()| lsn)
    }
}
