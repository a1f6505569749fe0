//! The log (S2, S3, S4): the changes of transactions, written before the changed pages are (LG-18).
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
//! `LogSettings::first_lsn` on; 0 means none. [`Numbers`] counts as if the records were written.
//!
//! Records are physiological: they name a page and a row or entry in it, and hold the bytes that
//! changed, before and after. A change is undone by another change, a *compensation*, which is
//! redone and never undone. A transaction keeps a copy of its records that can be undone, so that abort never
//! reads the shared buffer.
//!
//! Latches: publishing records takes none. A flush takes no page latch, so a thread that holds a page latch may wait
//! for a flush.
//!
//! Not here: what redo and undo do with a record (the store's), restart, threads and clocks (a group is the records
//! that came while the device was busy).

#[expect(
    unsafe_code,
    reason = "the ring is written and drained at the same time, in different places"
)]
mod buffer;
mod checkpoint;
mod file;
mod flush;
mod none;
mod numbers;
mod prepare;
mod read;
pub mod record;
mod room;
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
pub use room::{LogRoom, RestInUse};
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

/// Is shown records: from which LSN on a restart needs the log, the record's LSN, and the record.
pub type VisitRecord<'a> = dyn FnMut(u64, u64, &Record<'_>) + 'a;

/// What happened to a row, a record or an index entry. The numbers are those on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChangeKind {
    /// Some of a row's bytes were overwritten.
    RowUpdated = 1,
    /// A row or a value was created.
    RowCreated = 2,
    /// A row or a value was deleted; its place is kept.
    RowDeleted = 3,
    /// A deletion was undone.
    RowRevived = 4,
    /// The place of a row or a value was freed.
    RowPurged = 5,
    /// An index entry was inserted.
    EntryInserted = 6,
    /// An index entry was marked as deleted.
    EntryDeleted = 7,
    /// The mark was removed, by the transaction itself or by its abort.
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

    /// Whether abort undoes it. The other kinds are compensations, or remove ghosts.
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

    /// The kind of change that undoes it; `None` if it is not undone.
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

    /// Whether it leaves a ghost, which is removed when its transaction has committed. That takes as much of the log
    /// as the change itself.
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
    /// The page, the slot, and whether a row, a value or an entry is there.
    pub place: Place,
    /// The row, or the row that an index entry leads to; for a value, its place in the form of a row id.
    pub row: RowId,
    /// Where in the row the images begin, in bytes.
    pub within: u16,
}

/// A change that is to be undone, in reusable buffers.
#[derive(Clone, Debug)]
pub struct UndoRecord {
    /// The change.
    pub change: Change,
    /// The bytes before the change.
    pub before: Vec<u8>,
    /// The bytes after the change.
    pub after: Vec<u8>,
    /// The LSN of the transaction's previous change that is not undone; 0 if there is none.
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
/// After a failed write or sync the log promises nothing more: all calls for records that were not
/// known to be durable by then fail with [`Error::Poisoned`] and the reason.
///
/// The default implementations are for logs that assemble no records; a log of records overrides them all.
pub trait Logging: Sized + Send + 'static {
    /// S3: whether records are assembled. Without records the log can undo nothing.
    const RECORDS: bool;
    /// S4: whether there are log sequence numbers.
    const NUMBERS: bool;

    /// The pool's handle, by which it flushes the log before it writes a page.
    type Ahead: WriteAhead + Send + 'static;
    /// What a session keeps of its transaction.
    type Transaction: Debug + Default + Send;

    /// Creates a log, with a file on `disk` if it needs one.
    ///
    /// # Errors
    /// When there is a log already, the disk fails or is full, or the settings make no sense.
    fn create(settings: LogSettings, disk: Option<Arc<dyn Disk>>) -> Result<Self, LogError>;

    /// Opens the log of a database, to continue it. If it was not closed ([`Logging::unread`]), the caller must redo
    /// its records before it logs anything.
    ///
    /// # Errors
    /// When it is damaged, in use or of another version, the disk fails, or the
    /// settings make no sense.
    fn open(settings: LogSettings, disk: Option<Arc<dyn Disk>>) -> Result<Self, LogError> {
        Self::open_with(settings, disk, None, &mut |_, _, _| ())
    }

    /// The same, after comparing the log with the mark of `pages`: if it belongs to other pages, nothing is written.
    /// Shows the records that a restart needs, in order, before it compares.
    ///
    /// # Errors
    /// As [`Logging::open`]; `NotTogether`.
    fn open_with(
        settings: LogSettings,
        disk: Option<Arc<dyn Disk>>,
        pages: Option<PagesMark>,
        visit: &mut VisitRecord<'_>,
    ) -> Result<Self, LogError> {
        _ = (pages, visit);
        Self::create(settings, disk)
    }

    /// The number of the database that the log belongs to; 0 if no log is stored.
    fn number(&self) -> u64 {
        0
    }

    /// The range of LSNs that a restart needs: its beginning and its end, which are equal if the log was closed.
    /// `None` if the log stores no records.
    fn unread(&self) -> Option<(u64, u64)> {
        None
    }

    /// Shows the records that the log had when it was opened, from an LSN on, in order.
    ///
    /// # Errors
    /// As [`read_log`].
    fn read(&self, from: u64, visit: &mut dyn FnMut(u64, &Record<'_>)) -> Result<(), LogError> {
        _ = (from, visit);
        Ok(())
    }

    /// Adds a record that was read to its transaction. A restart calls this for each record of a transaction that
    /// did not end, in order, and then [`Logging::resume`].
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

    /// Reserves the space again that the transaction needs to end.
    ///
    /// # Errors
    /// `LogFull`; `Poisoned`.
    fn resume(&self, transaction: &mut Self::Transaction) -> Result<(), Error> {
        _ = transaction;
        Ok(())
    }

    /// A handle for the pool.
    fn ahead(&self) -> Self::Ahead;

    /// Starts transaction `id`.
    fn begin(&self, transaction: &mut Self::Transaction, id: u64);

    /// Logs one change, while the caller holds its page exclusively, before another thread can see the change.
    /// `before` and `after` are the changed bytes of the row or entry, from `change.within` on; either
    /// may be empty. Returns the number to stamp on the page.
    ///
    /// # Errors
    /// `LogFull` when there is no space for it (the transaction can still abort, or commit what it
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

    /// Logs several changes of one page, as consecutive records: each with its bytes after the change, and none before.
    /// Each can be undone, and leaves no ghost.
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

    /// Logs the changes that one step of a structure will make to pages, all held exclusively: all or none of them are
    /// redone; they belong to no transaction and are never undone. Returns the number to stamp on all the pages.
    ///
    /// When the disk is full, steps may still use some space that is reserved for them; an error means that this
    /// is used up, too.
    ///
    /// # Errors
    /// As [`Logging::change`]: the step must not be done. A log that is not poisoned has none of it.
    fn step<S: PageSize>(&self, step: &Step<'_, S>) -> Result<Stamp, Error>;

    /// The same as [`Logging::change`], not inlined: for all but the most frequent kinds of changes. Calls of `change`
    /// with a constant kind are inlined, because most of the record is then constant, too.
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

    /// Logs that the transaction committed. Returns the LSN that must be durable before the commit is reported. For a
    /// transaction that changed nothing it logs nothing and returns 0.
    ///
    /// # Errors
    /// `Poisoned`. Space for the record was reserved with the first change; the space reserved for removing ghosts
    /// stays reserved until [`Logging::end_commit`].
    fn commit(&self, transaction: &mut Self::Transaction) -> Result<u64, Error>;

    /// Logs that the transaction is prepared, its number at its coordinator (`owner`), and its locks. Until it is
    /// decided, a restart needs the log from `since` on. Returns the LSN that must be durable before the vote
    /// is sent; 0 for a transaction that changed nothing.
    ///
    /// # Errors
    /// `LogFull` when there is no space for it: nothing was logged, the transaction goes on; `Poisoned`.
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

    /// Reports that the ghosts of the committed transaction are removed, logs that if there were any, and frees the
    /// remaining reserved space. Other transactions must not see the removal before.
    ///
    /// # Errors
    /// `Poisoned`. Space for the record was reserved.
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

    /// The LSN of the newest commit record; 0 if there is none. A transaction without a commit record must harden
    /// this one before it is answered, because it may have read rows that are not durable yet.
    #[inline(always)]
    fn newest_commit(&self) -> u64 {
        0
    }

    /// The end of the log: later records have this LSN or a greater one.
    #[inline(always)]
    fn tail(&self) -> u64 {
        0
    }

    /// The LSN before which the log is durable; at most the tail.
    #[inline(always)]
    fn durable(&self) -> u64 {
        0
    }

    /// Bytes that the log took in its files so far, with what fills blocks up: those that it had when it was opened,
    /// and what flushes wrote since. 0 if there are no files.
    fn taken_bytes(&self) -> u64 {
        self.room().map_or(0, LogRoom::taken_bytes)
    }

    /// The log as to its room on the disk; `None` if there are no files.
    #[inline(always)]
    fn room(&self) -> Option<LogRoom<'_>> {
        None
    }

    /// Makes all records so far durable, whether or not the settings demand that of commits
    /// (with [`Durability::None`] it does nothing).
    ///
    /// # Errors
    /// `Poisoned`.
    #[inline(always)]
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Removes the transaction's newest change that is not undone and copies it into `undo`;
    /// `false` when all are undone. Skips changes that are only redone.
    #[inline(always)]
    fn next_undo(&self, transaction: &mut Self::Transaction, undo: &mut UndoRecord) -> bool {
        _ = (transaction, undo);
        false
    }

    /// Ends undoing before all is undone, so that the transaction can go on: only the changes that
    /// [`Logging::next_undo`] has shown are undone.
    #[inline(always)]
    fn stop_undo(&self, transaction: &mut Self::Transaction) {
        _ = transaction;
    }

    /// Logs the compensation of the change that [`Logging::next_undo`] showed last: redone, never undone.
    ///
    /// # Errors
    /// `Poisoned`. Space for it was reserved with the change, if it is not longer.
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

    /// Logs that the transaction is undone and has ended.
    ///
    /// # Errors
    /// `Poisoned`.
    #[inline(always)]
    fn end_abort(&self, transaction: &mut Self::Transaction) -> Result<(), Error> {
        self.commit(transaction).map(drop)
    }

    /// Logs that a checkpoint began at `began`, and the pages whose changes may still be missing in the file.
    ///
    /// # Errors
    /// `LogFull`; `Poisoned`.
    fn checkpoint(&self, began: u64, dirty: &[DirtyPage]) -> Result<(), Error> {
        _ = (began, dirty);
        Ok(())
    }

    /// Reports that a restart needs no record before `lsn`. Makes the log durable up to there, and frees segments
    /// before it for reuse. Returns how many.
    ///
    /// # Errors
    /// `LogFull`: nothing was released; `Poisoned`.
    fn release_before(&self, lsn: u64) -> Result<usize, Error> {
        _ = lsn;
        Ok(0)
    }

    /// The files to copy so that a restart from the copy finds all that is durable now; the caller must not release
    /// segments before they are copied. `None` if the log stores no records.
    ///
    /// # Errors
    /// When the disk fails.
    fn kept(&self) -> Result<Option<KeptLog>, LogError> {
        Ok(None)
    }

    /// Counts of records, bytes and flushes so far.
    fn usage(&self) -> LogUsage {
        LogUsage::default()
    }

    /// Reads back the durable log and reports damage. There must be no transaction.
    fn check(&self) -> Vec<Damage> {
        Vec::new()
    }

    /// Ends the log of a database whose pages are all durable, so that a restart needs no record of it.
    /// Must be called before the data file is marked as closed; after that nothing is logged.
    ///
    /// # Errors
    /// When the disk fails: the database counts as not closed.
    fn close(&self) -> Result<(), LogError> {
        Ok(())
    }
}
