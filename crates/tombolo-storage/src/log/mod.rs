//! The log (S2, S3, S4): what a transaction changed, written down before the pages are (LG-18).
//!
//! [`Logging`] is the switch, and these are its positions:
//!
//! | | `Log<ToDisk, L>` | `Log<InMemory, L>` | [`Numbers`] | [`NoLog`] |
//! |---|---|---|---|---|
//! | S2: flushed at commit | yes | no: a ring, overwritten | no | no |
//! | S3: records are assembled | yes | yes | no | no |
//! | S4: numbers on pages and transactions | yes | yes | yes | no |
//!
//! A log sequence number (LSN) is the byte position of a record's beginning in the endless log, from
//! `LogSettings::first_lsn` on; 0 is none. [`Numbers`] counts on by the length the record would have.
//!
//! Records are physiological: they name a page and a row or entry in it, and hold the bytes that
//! changed, before and after. What undoes a change is a change of its own, a *compensation*, which is
//! redone and never undone. A transaction keeps its own copy of what it can undo, so that abort never
//! reads the shared buffer.
//!
//! Latches: there is none where records are published. What is held to flush is never held while asking
//! for a latch: a flush takes no page latch, so a thread that holds one may wait for a flush.
//!
//! Not here: what redo and undo do with a record (the store's), threads and clocks (a group is what
//! came while the device was busy), restart.

#[expect(unsafe_code, reason = "the ring is written and drained at the same time, in places apart")]
mod buffer;
mod checkpoint;
mod file;
mod flush;
mod none;
mod numbers;
mod prepare;
mod read;
pub mod record;
mod run;
mod session;
mod settings;
mod transaction;

#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::fmt::Debug;

pub use file::{FORMAT_VERSION, KeptLog, LOG_FILES};
pub use none::NoLog;
pub use numbers::{NumberedTransaction, Numbers};
pub use prepare::LockEntry;
pub(crate) use prepare::parse as parse_prepared;
pub use read::{LogEnd, read_log};
pub use session::{Destination, InMemory, Log, LogAhead, ToDisk};
pub use settings::{Durability, LogError, LogFailure, LogSettings, LogUsage};
pub use transaction::LogTransaction;

use self::record::Record;
use crate::disk::Disk;
use crate::error::Error;
use crate::owner::Owner;
use crate::paged::heap::Place;
use crate::paged::page::{PageId, PageSize, StoreId};
use crate::paged::pool::{DirtyPage, PagesMark, WriteAhead};
use crate::paged::step::{Stamp, Step};
use crate::row::RowId;
use crate::store::Damage;
use crate::sync::Arc;

/// What happened to a row, a record or an index entry. The numbers are those on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChangeKind {
    /// Some of a row's bytes became others.
    RowUpdated = 1,
    /// A row or a value was made.
    RowCreated = 2,
    /// A row or a value was deleted; its place is kept.
    RowDeleted = 3,
    /// A deletion was taken back.
    RowRevived = 4,
    /// The place of a row or a value was given back.
    RowPurged = 5,
    /// An index entry was inserted.
    EntryInserted = 6,
    /// An index entry was marked as deleted.
    EntryDeleted = 7,
    /// The mark was taken off again, by the transaction itself or by its abort.
    EntryRevived = 8,
    /// An index entry was removed.
    EntryRemoved = 9,
}

impl ChangeKind {
    /// All kinds, in the order of their numbers, which begin at 1.
    pub const ALL: [Self; 9] = [
        Self::RowUpdated,
        Self::RowCreated,
        Self::RowDeleted,
        Self::RowRevived,
        Self::RowPurged,
        Self::EntryInserted,
        Self::EntryDeleted,
        Self::EntryRevived,
        Self::EntryRemoved,
    ];

    /// The kind with this number.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match (byte as usize).checked_sub(1) {
            Some(at) if at < Self::ALL.len() => Some(Self::ALL[at]),
            _ => None,
        }
    }

    /// Whether abort takes it back. The others are compensations, or clear away what was deleted.
    #[inline(always)]
    pub const fn is_undoable(self) -> bool {
        self.undone_by().is_some()
    }
}

impl ChangeKind {
    /// Whether it is of an index's entry; else of a row or a value.
    #[inline(always)]
    pub const fn is_of_entry(self) -> bool {
        self as u8 >= Self::EntryInserted as u8
    }

    /// What takes it back; `None` if nothing does.
    pub const fn undone_by(self) -> Option<Self> {
        match self {
            Self::RowUpdated => Some(Self::RowUpdated),
            Self::RowCreated => Some(Self::RowPurged),
            Self::RowDeleted => Some(Self::RowRevived),
            Self::EntryInserted => Some(Self::EntryRemoved),
            Self::EntryDeleted => Some(Self::EntryRevived),
            Self::EntryRevived => Some(Self::EntryDeleted),
            Self::RowRevived | Self::RowPurged | Self::EntryRemoved => None,
        }
    }

    /// Whether something of it is cleared away once its transaction has committed, which takes as
    /// much of the log as the change itself.
    #[inline(always)]
    pub const fn is_cleared(self) -> bool {
        matches!(self, Self::RowDeleted | Self::EntryDeleted)
    }
}

/// One change of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The heap file or index it happened to.
    pub store: StoreId,
    /// The page, the slot, and what lies there.
    pub place: Place,
    /// The row, or the row an index entry leads to; of a value, its own place as that of a row.
    pub row: RowId,
    /// Where in the row the images begin, in bytes.
    pub within: u16,
}

/// A change that is to be undone, in buffers that are used again.
#[derive(Clone, Debug)]
pub struct UndoRecord {
    /// The change.
    pub change: Change,
    /// The bytes as they were.
    pub before: Vec<u8>,
    /// The bytes as they are.
    pub after: Vec<u8>,
    /// The LSN of the transaction's change before this one that is not undone, 0 for none.
    pub previous: u64,
}

impl UndoRecord {
    /// Buffers for [`Logging::next_undo`].
    pub const fn new() -> Self {
        let place = Place::of_record(PageId(0), 0);
        let (kind, store, row) = (ChangeKind::RowUpdated, StoreId(0), RowId::new(0));
        let change = Change { kind, store, place, row, within: 0 };
        Self { change, before: Vec::new(), after: Vec::new(), previous: 0 }
    }
}

impl Default for UndoRecord {
    fn default() -> Self {
        Self::new()
    }
}

/// S2, S3, S4: the log, which is called with every change.
///
/// After a failed write or sync of the log nothing is promised any more: everything that was not
/// known to be durable by then fails with [`Error::Poisoned`] and the reason.
///
/// What a call does by default is right where no records are assembled; a log of records has all of them.
pub trait Logging: Sized + Send + 'static {
    /// S3: whether records are assembled. Where they are not, nothing can be undone by the log.
    const RECORDS: bool;
    /// S4: whether there are log sequence numbers.
    const NUMBERS: bool;

    /// What the pool asks before it writes a page.
    type Ahead: WriteAhead + Send + 'static;
    /// What a session keeps of its transaction.
    type Transaction: Debug + Default + Send;

    /// Makes a log, a file of it on `disk` where one is needed.
    ///
    /// # Errors
    /// When there is a log already, the disk fails or is full, or the settings make no sense.
    fn create(settings: LogSettings, disk: Option<Arc<dyn Disk>>) -> Result<Self, LogError>;

    /// Opens the log of a database, to be written on. If it was not closed ([`Logging::unread`]), its records are
    /// to be redone before anything is logged.
    ///
    /// # Errors
    /// When it is damaged, in use or of another version, the disk fails, or the
    /// settings make no sense.
    fn open(settings: LogSettings, disk: Option<Arc<dyn Disk>>) -> Result<Self, LogError> {
        Self::open_with(settings, disk, None)
    }

    /// The same if the log is that of `pages`; nothing is written if not.
    ///
    /// # Errors
    /// As [`Logging::open`]; `NotTogether`.
    fn open_with(
        settings: LogSettings,
        disk: Option<Arc<dyn Disk>>,
        pages: Option<PagesMark>,
    ) -> Result<Self, LogError> {
        _ = pages;
        Self::create(settings, disk)
    }

    /// The number of the database whose log it is; 0 where none is kept.
    fn number(&self) -> u64 {
        0
    }

    /// The LSNs of the records that a restart needs: the first one's, and where they end, which are equal if
    /// the log was closed. `None` where none are kept that could be read.
    fn unread(&self) -> Option<(u64, u64)> {
        None
    }

    /// Shows the records that were there when the log was opened, from an LSN on, in order.
    ///
    /// # Errors
    /// As [`read_log`].
    fn read(&self, from: u64, visit: &mut dyn FnMut(u64, &Record<'_>)) -> Result<(), LogError> {
        _ = (from, visit);
        Ok(())
    }

    /// Takes a record that was read into the transaction it belongs to: one by one, all those of a transaction
    /// that did not end, then [`Logging::resume`].
    ///
    /// # Errors
    /// What is wrong with it.
    fn recall(
        &self,
        transaction: &mut Self::Transaction,
        lsn: u64,
        record: &Record<'_>,
    ) -> Result<(), &'static str> {
        _ = (transaction, lsn, record);
        Ok(())
    }

    /// The LSN of the transaction's newest change that is not undone; 0 if there is none.
    fn newest_undoable(&self, transaction: &Self::Transaction) -> u64 {
        _ = transaction;
        0
    }

    /// Sets the space aside that the transaction needs to end, as it was when its records were made.
    ///
    /// # Errors
    /// `Disk` when it is full; `Poisoned`.
    fn resume(&self, transaction: &mut Self::Transaction) -> Result<(), Error> {
        _ = transaction;
        Ok(())
    }

    /// A handle for the pool.
    fn ahead(&self) -> Self::Ahead;

    /// Starts transaction `id`.
    fn begin(&self, transaction: &mut Self::Transaction, id: u64);

    /// Logs one change, while its page is held alone and before another thread can see the change.
    /// `before` and `after` are what changes of the row or entry, from `change.within` on; either
    /// may be empty. Returns the number to stamp on the page.
    ///
    /// # Errors
    /// `Disk` when there is no space for it (the transaction can still abort, or commit what it
    /// did before); `Poisoned`. Nothing was logged then.
    ///
    /// # Panics
    /// When an image is longer than the longest row.
    fn change(
        &self,
        transaction: &mut Self::Transaction,
        change: Change,
        before: &[u8],
        after: &[u8],
    ) -> Result<Stamp, Error>;

    /// Logs several changes of one page, one behind the other: of each its image after, and none before. Each can be
    /// undone, and clears nothing away when its transaction commits.
    ///
    /// # Errors
    /// As [`Logging::change`]: none of them was logged then.
    #[inline(always)]
    fn changes<'a>(
        &self,
        transaction: &mut Self::Transaction,
        changes: impl Iterator<Item = (Change, &'a [u8])>,
    ) -> Result<Stamp, Error> {
        let mut stamp = None;
        for (change, after) in changes {
            stamp = self.change(transaction, change, &[], after)?;
        }
        Ok(stamp)
    }

    /// Logs what one step of a structure will do to pages, all held alone: they are redone all or none,
    /// belong to no transaction and are never undone. Returns the number to stamp on all of them.
    ///
    /// Where the disk is full, space that changes may not use is left for steps; an error means
    /// that it is used up too.
    ///
    /// # Errors
    /// As [`Logging::change`]: the step must not be done. A log that is not poisoned has none of it.
    fn step<S: PageSize>(&self, step: &Step<'_, S>) -> Result<Stamp, Error>;

    /// The same in a function of its own, for all changes but those that are the most: where their kind is known, most
    /// of a record is, too.
    ///
    /// # Errors
    /// As [`Logging::change`].
    #[inline(never)]
    fn change_apart(
        &self,
        transaction: &mut Self::Transaction,
        change: Change,
        before: &[u8],
        after: &[u8],
    ) -> Result<Stamp, Error> {
        self.change(transaction, change, before, after)
    }

    /// Writes that the transaction committed, nothing for one that changed nothing. Returns the
    /// number that must be durable before the commit is reported; 0 for a transaction that changed
    /// nothing.
    ///
    /// # Errors
    /// `Poisoned`. Space for the record was set aside with the first change; what was set aside for
    /// what it deleted stays so until [`Logging::end_commit`].
    fn commit(&self, transaction: &mut Self::Transaction) -> Result<u64, Error>;

    /// Logs that the transaction may commit or abort as its coordinator decides, the number it knows it by, and its
    /// locks. A restart needs the log from `since` on until it is decided. Returns the number that must be durable
    /// before that is promised; 0 for a transaction that changed nothing.
    ///
    /// # Errors
    /// `Disk` when there is no space for it: nothing was logged, the transaction goes on; `Poisoned`.
    fn prepare(
        &self,
        transaction: &mut Self::Transaction,
        since: u64,
        owner: Owner,
        entries: &[LockEntry],
    ) -> Result<u64, Error> {
        _ = (transaction, since, owner, entries);
        Ok(0)
    }

    /// Says that what the committed transaction deleted is cleared away, and writes that down if there was
    /// anything; space that is left is given back. No other transaction may see the change before.
    ///
    /// # Errors
    /// `Poisoned`. Space for the record was set aside.
    #[inline(always)]
    fn end_commit(&self, _: &mut Self::Transaction) -> Result<(), Error> {
        Ok(())
    }

    /// Returns when everything up to `lsn` is as durable as the settings demand: immediately with
    /// [`Durability::None`] and [`Durability::Async`].
    ///
    /// # Errors
    /// `Poisoned`: whether the transaction will be found after a restart is unknown.
    #[inline(always)]
    fn harden(&self, lsn: u64) -> Result<(), Error> {
        _ = lsn;
        Ok(())
    }

    /// The number of the newest record that commits a transaction: what a transaction without such a
    /// record must harden before it is answered, because it may have read what is not durable yet. 0
    /// where there are none.
    #[inline(always)]
    fn newest_commit(&self) -> u64 {
        0
    }

    /// Where the log ends: what is logged from now on has this LSN or a greater one.
    #[inline(always)]
    fn tail(&self) -> u64 {
        0
    }

    /// The log before this LSN is durable: at most its tail.
    #[inline(always)]
    fn durable(&self) -> u64 {
        0
    }

    /// Makes everything durable that was logged so far, whatever the settings demand of commits
    /// (but with [`Durability::None`] nothing).
    ///
    /// # Errors
    /// `Poisoned`.
    #[inline(always)]
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Takes the newest change that is not undone yet off the transaction and shows it in `undo`;
    /// `false` when all are undone. Changes that are only redone are skipped.
    #[inline(always)]
    fn next_undo(&self, transaction: &mut Self::Transaction, undo: &mut UndoRecord) -> bool {
        _ = (transaction, undo);
        false
    }

    /// Says that the transaction goes on: what [`Logging::next_undo`] has shown so far is all that is undone.
    #[inline(always)]
    fn stop_undo(&self, transaction: &mut Self::Transaction) {
        _ = transaction;
    }

    /// Logs what undoes the change that [`Logging::next_undo`] showed last: redone, never undone.
    ///
    /// # Errors
    /// `Poisoned`. Space for it was set aside with the change, if it is no longer.
    #[inline(always)]
    fn compensate(
        &self,
        transaction: &mut Self::Transaction,
        change: Change,
        before: &[u8],
        after: &[u8],
    ) -> Result<Stamp, Error> {
        self.change(transaction, change, before, after)
    }

    /// Writes that the transaction is undone; it is over.
    ///
    /// # Errors
    /// `Poisoned`.
    #[inline(always)]
    fn end_abort(&self, transaction: &mut Self::Transaction) -> Result<(), Error> {
        self.commit(transaction).map(drop)
    }

    /// Logs that a checkpoint began at `began`, and of which pages the file may lack changes all the same.
    ///
    /// # Errors
    /// `Disk` when it is full; `Poisoned`.
    fn checkpoint(&self, began: u64, dirty: &[DirtyPage]) -> Result<(), Error> {
        _ = (began, dirty);
        Ok(())
    }

    /// Says that a restart needs nothing before `lsn`, which makes the log durable up to there; its
    /// segments are used again. Returns how many.
    ///
    /// # Errors
    /// `Disk` when it is full: nothing was released; `Poisoned`.
    fn release_before(&self, lsn: u64) -> Result<usize, Error> {
        _ = lsn;
        Ok(0)
    }

    /// What is to be copied so that a restart finds what is durable now; nothing may be released before it is. `None`
    /// where nothing is kept.
    ///
    /// # Errors
    /// When the disk fails.
    fn kept(&self) -> Result<Option<KeptLog>, LogError> {
        Ok(None)
    }

    /// What was written so far.
    fn usage(&self) -> LogUsage {
        LogUsage::default()
    }

    /// Reads back what is durable. There must be no transaction.
    fn check(&self) -> Vec<Damage> {
        Vec::new()
    }

    /// Ends the log of a database whose pages are all durable: nothing in it is needed any more.
    /// Must be called before the data file is marked as closed; nothing is logged after that.
    ///
    /// # Errors
    /// When the disk fails: the database counts as not closed.
    fn close(&self) -> Result<(), LogError> {
        Ok(())
    }
}
