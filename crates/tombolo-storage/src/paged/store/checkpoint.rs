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

use super::database::Database;
use super::error::OpenError;
use super::rows::RowAccess;
use crate::latch::{Latch, Latching};
use crate::log::Logging;
use crate::paged::pool::DirtyPage;
use crate::plant::{self, Plant};
use crate::profile::PagedProfile;
use crate::sync::{Arc, AtomicU64, Condvar, Mutex, Ordering};

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

/// Who uses pages and log as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    #[default]
    Free,
    /// A checkpoint, or who seeks room for the log: it ends soon.
    Checkpoint,
    /// A copy: it takes long, and its end may depend on other threads.
    Copy,
}

/// The turn of a thread, until it is dropped: no other makes a checkpoint meanwhile.
pub(super) struct HeldTurn<'a, L: Latching>(&'a Checkpoints<L>);

impl<L: Latching> Drop for HeldTurn<'_, L> {
    fn drop(&mut self) {
        *self.0.turn.lock() = Turn::Free;
        self.0.turn_ended.notify_one();
    }
}

/// Log that has been written since a checkpoint after which the next one is due if the disk has no room for a segment.
const SHORT_BYTES: u64 = 256 << 10;

/// Where a checkpoint began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Began {
    pub(super) lsn: u64,
    /// Bytes that the log had taken in its files.
    bytes: u64,
}

/// What checkpoints know of sessions, and of each other.
pub(super) struct Checkpoints<L: Latching> {
    sessions: Latch<RefCell<Vec<Arc<WritingSince>>>, L>,
    /// Whose turn it is.
    turn: Mutex<Turn>,
    turn_ended: Condvar,
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
        let (turn, turn_ended) = Default::default();
        Self { sessions, turn, turn_ended, began, began_bytes, log_bytes }
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

    /// Waits for the thread that has the turn, and takes it.
    fn take_turn(&self) -> HeldTurn<'_, L> {
        let mut turn = self.turn.lock();
        while *turn != Turn::Free {
            turn = self.turn_ended.wait(turn);
        }
        *turn = Turn::Checkpoint;
        HeldTurn(self)
    }

    /// The same; `None` while a copy is made.
    pub(super) fn take_turn_unless_copied(&self) -> Option<HeldTurn<'_, L>> {
        let mut turn = self.turn.lock();
        while *turn == Turn::Checkpoint {
            turn = self.turn_ended.wait(turn);
        }
        if *turn == Turn::Copy {
            return None;
        }
        *turn = Turn::Checkpoint;
        Some(HeldTurn(self))
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
    /// The LSN from which on a restart needs the log now. A log without room says so once it frees a segment.
    pub needed: u64,
    /// Pages that still have changes which the file lacks.
    pub dirty_pages: usize,
    /// Segments of the log that are used again.
    pub released_segments: usize,
}

impl<P: PagedProfile> Database<P> {
    /// Whether the files of the log have taken as much as a restart should have to read at most, or there is no room
    /// for more of them.
    pub(super) fn checkpoint_due(&self) -> bool {
        let Checkpoints { began_bytes, log_bytes, .. } = &self.checkpoints;
        // Relaxed: a checkpoint more or less does no harm.
        let taken = self.log.taken_bytes().saturating_sub(began_bytes.load(Ordering::Relaxed));
        taken >= *log_bytes || taken >= SHORT_BYTES && self.is_short_of_room()
    }

    /// Makes a checkpoint; waits for one under way. None where pages are written only when the database is closed.
    pub(super) fn checkpoint(&self) -> Result<Option<Checkpoint>, OpenError> {
        self.refuse_poisoned()?;
        let _turn = self.checkpoints.take_turn();
        self.make_checkpoint()
    }

    /// The same before a copy is made; no other is made as long as the turn is held.
    pub(super) fn checkpoint_before_copy(
        &self,
    ) -> Result<(Option<Checkpoint>, HeldTurn<'_, P::Latching>), OpenError> {
        self.refuse_poisoned()?;
        let turn = self.checkpoints.take_turn();
        let made = self.make_checkpoint()?;
        *self.checkpoints.turn.lock() = Turn::Copy;
        // Who waits to seek room need not wait for the copy.
        self.checkpoints.turn_ended.notify_all();
        Ok((made, turn))
    }

    fn make_checkpoint(&self) -> Result<Option<Checkpoint>, OpenError> {
        if let Some(room) = self.log.room().filter(|room| room.is_short()) {
            return self.checkpoint_for_room(room);
        }
        // Relaxed, and where it is stored: the turn orders the two.
        let last = self.checkpoints.began.load(Ordering::Relaxed);
        let began = self.begin_checkpoint();
        let Some(dirty) = self.pages.checkpoint(last, began.lsn)? else { return Ok(None) };
        self.end_checkpoint(began, self.needed(began, &dirty), &dirty).map(Some)
    }

    /// Where a checkpoint begins that is made now.
    pub(super) fn begin_checkpoint(&self) -> Began {
        Began { lsn: self.log.tail(), bytes: self.log.taken_bytes() }
    }

    /// From where on a restart needs the log, when the file may lack changes of these pages.
    pub(super) fn needed(&self, began: Began, dirty: &[DirtyPage]) -> u64 {
        let first_missing = dirty.iter().map(|dirty| dirty.recovery_lsn).min();
        let oldest = match plant::is(Plant::OldestForgotten) {
            true => began.lsn,
            false => self.checkpoints.oldest(),
        };
        began.lsn.min(first_missing.unwrap_or(began.lsn)).min(oldest)
    }

    /// Logs a checkpoint whose pages are written, and lets go of the log before `needed`.
    pub(super) fn end_checkpoint(
        &self,
        began: Began,
        needed: u64,
        dirty: &[DirtyPage],
    ) -> Result<Checkpoint, OpenError> {
        match self.log.checkpoint(began.lsn, dirty) {
            // Without room a restart looks at more pages.
            Err(error) if error.is_full() => {}
            logged => logged?,
        }
        // A transaction that ended meanwhile has records before that, and its last one behind: without it a
        // restart would take it for one that did not end.
        self.log.flush()?;
        let released_segments = self.log.release_before(needed)?;
        Ok(self.note_checkpoint(began, needed, dirty.len(), released_segments))
    }

    /// Takes a checkpoint for the last one.
    pub(super) fn note_checkpoint(
        &self,
        began: Began,
        needed: u64,
        dirty_pages: usize,
        released_segments: usize,
    ) -> Checkpoint {
        self.checkpoints.began.store(began.lsn, Ordering::Relaxed);
        self.checkpoints.began_bytes.store(began.bytes, Ordering::Relaxed);
        Checkpoint { began: began.lsn, needed, dirty_pages, released_segments }
    }
}
