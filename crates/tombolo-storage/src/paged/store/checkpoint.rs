//! Fuzzy checkpoints: they move the position from which a restart must read the log, while transactions run (TPK's
//! sliding checkpoints, for pages).
//!
//! A checkpoint writes the pages that have had unwritten changes since before the last checkpoint. So each page is
//! written at most once per checkpoint, however often it changes. A restart needs the log from the least of three
//! positions: the beginning of this checkpoint, the first change that a page in the file lacks, and the beginning of
//! the oldest writing transaction. The log before that is released.
//!
//! Not here: threads and clocks (the caller asks whether one is due), how pages are written (`pool/write_back.rs`),
//! what a restart does.

use std::cell::RefCell;
use std::io::ErrorKind;

use super::database::Database;
use super::error::OpenError;
use super::rows::RowAccess;
use crate::error::Error;
use crate::latch::{Latch, Latching};
use crate::log::Logging;
use crate::plant::{self, Plant};
use crate::profile::PagedProfile;
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering};

/// What a session says that writes nothing.
const NOT_WRITING: u64 = u64::MAX;

/// Where the log was durable when a session's transaction began to write: its records are there or later.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct WritingSince(AtomicU64);

impl WritingSince {
    // Relaxed, all: a session takes positions in the log, by an exchange of its tail, after its word is set, and a
    // checkpoint looks at the words after it has exchanged the tail. So it sees the word of each session with
    // records before that tail; those of others are behind it.

    /// The transaction's records will be at `lsn` or later.
    #[inline(always)]
    pub(super) fn begin(&self, lsn: u64) {
        self.0.store(lsn, Ordering::Relaxed);
    }

    /// Where the transaction's records begin at the earliest.
    pub(super) fn at(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Nothing of the transaction is left to be done.
    #[inline(always)]
    pub(super) fn end(&self) {
        self.0.store(NOT_WRITING, Ordering::Relaxed);
    }
}

/// What checkpoints know of sessions, and of each other.
pub(super) struct Checkpoints<L: Latching> {
    sessions: Latch<RefCell<Vec<Arc<WritingSince>>>, L>,
    /// Held while one is made.
    making: Mutex<()>,
    /// Where the last one began.
    began: AtomicU64,
    /// Bytes that the log had taken in its files by then.
    began_bytes: AtomicU64,
    /// Bytes that it takes after that until the next one is due.
    log_bytes: u64,
}

impl<L: Latching> Checkpoints<L> {
    /// Of a database with this log; the first one is due when that has taken `log_bytes` more in its files.
    pub(super) fn new(log: &impl Logging, log_bytes: u64) -> Self {
        let sessions = Latch::new(RefCell::new(Vec::new()));
        let (began, began_bytes) = (log.tail(), log.taken_bytes());
        let [began, began_bytes] = [began, began_bytes].map(AtomicU64::new);
        Self { sessions, making: Mutex::default(), began, began_bytes, log_bytes }
    }

    /// Takes the last one for one that began at `lsn`, which says what pages the next one writes. That is due as if
    /// all of the log that is kept had come since.
    pub(super) fn continue_from(&self, lsn: u64) {
        // Relaxed: the database is being opened, no other thread has it.
        self.began.store(lsn, Ordering::Relaxed);
        self.began_bytes.store(0, Ordering::Relaxed);
    }

    /// Takes a session in.
    pub(super) fn enter(&self) -> Arc<WritingSince> {
        let session = Arc::new(WritingSince(AtomicU64::new(NOT_WRITING)));
        self.sessions.hold().borrow_mut().push(Arc::clone(&session));
        session
    }

    /// Lets go of a session.
    pub(super) fn leave(&self, session: &Arc<WritingSince>) {
        self.sessions.hold().borrow_mut().retain(|other| !Arc::ptr_eq(other, session));
    }

    /// Where the oldest transaction that writes began.
    pub(super) fn oldest(&self) -> u64 {
        let sessions = self.sessions.hold();
        let begins = sessions.borrow();
        let begins = begins.iter().map(|session| session.0.load(Ordering::Relaxed));
        begins.min().unwrap_or(NOT_WRITING)
    }
}

/// What a checkpoint came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The log's tail when it began.
    pub began: u64,
    /// The LSN from which on a restart reads the log now.
    pub needed: u64,
    /// Pages that still have changes which the file lacks.
    pub dirty_pages: usize,
    /// Segments of the log that are used again.
    pub released_segments: usize,
}

impl<P: PagedProfile> Database<P> {
    /// Whether the files of the log have taken as much as a restart should have to read at most.
    pub(super) fn checkpoint_due(&self) -> bool {
        let Checkpoints { began_bytes, log_bytes, .. } = &self.checkpoints;
        // Relaxed: a checkpoint more or less does no harm.
        self.log.taken_bytes() >= began_bytes.load(Ordering::Relaxed).saturating_add(*log_bytes)
    }

    /// Makes a checkpoint; waits for one under way. None where pages are written only when the database is closed.
    pub(super) fn checkpoint(&self) -> Result<Option<Checkpoint>, OpenError> {
        self.checkpoint_held().map(|(made, _)| made)
    }

    /// The same; none other is made as long as the guard lives.
    pub(super) fn checkpoint_held(
        &self,
    ) -> Result<(Option<Checkpoint>, MutexGuard<'_, ()>), OpenError> {
        self.refuse_poisoned()?;
        let making = self.checkpoints.making.lock();
        Ok((self.make_checkpoint()?, making))
    }

    fn make_checkpoint(&self) -> Result<Option<Checkpoint>, OpenError> {
        let checkpoints = &self.checkpoints;
        // Relaxed, and where it is stored: the mutex orders the two.
        let last = checkpoints.began.load(Ordering::Relaxed);
        let (began, began_bytes) = (self.log.tail(), self.log.taken_bytes());
        let Some(dirty) = self.pages.checkpoint(last, began)? else { return Ok(None) };
        let first_missing = dirty.iter().map(|dirty| dirty.recovery_lsn).min();
        let oldest = match plant::is(Plant::OldestForgotten) {
            true => began,
            false => checkpoints.oldest(),
        };
        let needed = began.min(first_missing.unwrap_or(began)).min(oldest);
        match self.log.checkpoint(began, &dirty) {
            // Without room a restart looks at more pages.
            Err(Error::Disk { kind: ErrorKind::StorageFull, .. }) => {}
            logged => logged?,
        }
        // A transaction that ended meanwhile has records before that, and its last one behind: without it a
        // restart would take it for one that did not end.
        self.log.flush()?;
        let released_segments = self.log.release_before(needed)?;
        checkpoints.began.store(began, Ordering::Relaxed);
        checkpoints.began_bytes.store(began_bytes, Ordering::Relaxed);
        Ok(Some(Checkpoint { began, needed, dirty_pages: dirty.len(), released_segments }))
    }
}
