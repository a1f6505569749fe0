//! [`Log`]: records assembled by sessions, published to one ring, flushed where S2 is on.
//!
//! A record is assembled at the end of its transaction's own buffer; sessions take positions one after the
//! other, and copy their records concurrently. Records that can be undone stay in the transaction's buffer until its
//! end.
//!
//! Invariants: a record's `previous` leads backwards; a transaction that has records has reserved the space it
//! needs to end (`reserved`), and the ring's total is the sum over all.
//!
//! The instructions of a change and a commit: `examples/log_probe.rs`.
//!
//! Not here: undo, waiting until a transaction is durable.

use std::marker::PhantomData;

use super::buffer::{Claim, Full, Publisher, Ring};
use super::file::{KeptLog, LogFile};
use super::flush::{Flush, Flusher};
use super::record::{Content, END_BYTES, Record};
use super::room::LogRoom;
use super::settings::{Durability, LogError, LogFailure, LogSettings, LogUsage};
use super::transaction::LogTransaction;
use super::{Change, ChangeKind, LockEntry, Logging, UndoRecord, VisitRecord};
use crate::disk::Disk;
use crate::error::Error;
use crate::latch::Latching;
use crate::owner::Owner;
use crate::paged::page::{PageSize, append_runs};
use crate::paged::pool::{DirtyPage, NoWriteAhead, PagesMark, WriteAhead};
use crate::paged::step::{SpaceImage, Stamp, Step};
use crate::plant::{self, Plant};
use crate::probe::{self, Counter};
use crate::store::Damage;
use crate::sync::Arc;

/// Where records go (S2).
pub trait Destination: Send + Sync + 'static {
    /// Whether they are ever flushed.
    const FLUSHES: bool;
    /// What the pool asks.
    type Ahead<L: Latching>: WriteAhead + Send + 'static;
    /// A handle for the pool.
    fn ahead<L: Latching>(log: &Log<Self, L>) -> Self::Ahead<L>
    where
        Self: Sized;
}

/// S2 on: to a file, as the settings demand.
#[derive(Clone, Copy, Debug)]
pub struct ToDisk;

/// S2 off: to the ring, which is overwritten when it is full.
#[derive(Clone, Copy, Debug)]
pub struct InMemory;

impl Destination for ToDisk {
    const FLUSHES: bool = true;
    type Ahead<L: Latching> = LogAhead<L>;
    fn ahead<L: Latching>(log: &Log<Self, L>) -> LogAhead<L> {
        LogAhead { core: Arc::clone(&log.core), marker: PhantomData }
    }
}

impl Destination for InMemory {
    const FLUSHES: bool = false;
    type Ahead<L: Latching> = NoWriteAhead;
    fn ahead<L: Latching>(_: &Log<Self, L>) -> NoWriteAhead {
        NoWriteAhead
    }
}

/// What all handles of a log share.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) ring: Ring,
    /// None where nothing is flushed.
    pub(super) flusher: Option<Flusher>,
}

/// The log (S3 and S4 on).
///
/// Without latches it cannot be shared, nor can its handle for the pool:
///
/// ```compile_fail
/// use tombolo_storage::latch::Unlatched;
/// use tombolo_storage::log::{Log, ToDisk};
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<Log<ToDisk, Unlatched>>();
/// ```
///
/// ```compile_fail
/// use tombolo_storage::latch::Unlatched;
/// use tombolo_storage::log::LogAhead;
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<LogAhead<Unlatched>>();
/// ```
///
/// With latches it can:
///
/// ```
/// use tombolo_storage::latch::Latched;
/// use tombolo_storage::log::{Log, ToDisk};
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<Log<ToDisk, Latched>>();
/// ```
#[derive(Debug)]
pub struct Log<D: Destination, L: Latching> {
    pub(super) core: Arc<Core>,
    pub(super) durability: Durability,
    marker: PhantomData<(D, L::Latch)>,
}

/// The write-ahead rule, for the pool: flushes the log before a page is written (LG-18).
#[derive(Debug)]
pub struct LogAhead<L: Latching> {
    core: Arc<Core>,
    marker: PhantomData<L::Latch>,
}

impl<L: Latching> Clone for LogAhead<L> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), marker: PhantomData }
    }
}

impl<L: Latching> WriteAhead for LogAhead<L> {
    const LOGS: bool = true;

    fn is_kept(&self) -> bool {
        self.core.flusher.is_some()
    }

    fn number(&self) -> u64 {
        self.core.number()
    }

    #[inline]
    fn durable(&self) -> u64 {
        self.core.durable()
    }

    fn flush_to(&self, lsn: u64) -> Result<(), Error> {
        // Asked also for what is durable: after a failure no page may follow the log any more.
        self.core.refuse_poisoned()?;
        self.core.flush_to(lsn, u64::MAX)
    }
}

impl Core {
    /// Publishes a record; flushes or takes space where there is no room.
    #[inline(always)]
    pub(super) fn publish(
        &self,
        publisher: &mut Publisher,
        record: &[u8],
        image: &[u8],
        claim: Claim,
    ) -> Result<u64, Error> {
        let mut result = self.ring.publish(publisher, record, image, claim);
        while let Err(full) = result {
            self.make_room(full)?;
            result = self.ring.publish(publisher, record, image, claim);
        }
        let Ok(lsn) = result else { unreachable!("the loop ends with success") };
        probe::count(Counter::LogRecords, 1 + claim.more);
        probe::count(Counter::LogBytes, (record.len() + image.len()) as u64);
        Ok(lsn)
    }

    #[cold]
    fn make_room(&self, full: Full) -> Result<(), Error> {
        match (&self.flusher, full) {
            (Some(flusher), Full::Ring { tail }) => flusher.make_room(&self.ring, tail),
            (Some(flusher), Full::File { needed }) => flusher.take_space(&self.ring, needed),
            (None, _) => {
                self.ring.recycle();
                Ok(())
            }
        }
    }

    pub(super) fn flush_to(&self, lsn: u64, end: u64) -> Result<(), Error> {
        let flushed = self.flusher.as_ref().map(|flusher| flusher.flush_to(&self.ring, lsn, end));
        flushed.map_or(Ok(()), |flushed| flushed.map(drop))
    }

    /// The same for a session that holds no latch: the one that led the flush makes the next segment ready.
    fn harden_to(&self, lsn: u64, end: u64) -> Result<(), Error> {
        let Some(flusher) = &self.flusher else { return Ok(()) };
        if flusher.flush_to(&self.ring, lsn, end)? == Flush::Led {
            flusher.file().prepare_ahead();
        }
        Ok(())
    }

    fn refuse_poisoned(&self) -> Result<(), Error> {
        let reason = self.flusher.as_ref().and_then(Flusher::poisoned);
        reason.map_or(Ok(()), |reason| Err(Error::Poisoned { reason }))
    }

    fn durable(&self) -> u64 {
        self.flusher.as_ref().map_or(0, Flusher::durable)
    }

    fn number(&self) -> u64 {
        self.flusher.as_ref().map_or(0, |flusher| flusher.file().number())
    }
}

impl<D: Destination, L: Latching> Log<D, L> {
    fn with(
        settings: LogSettings,
        disk: Option<Arc<dyn Disk>>,
        file: impl FnOnce(Arc<dyn Disk>, &LogSettings) -> Result<LogFile, LogError>,
    ) -> Result<Self, LogError> {
        let bytes = settings.buffer_bytes.max(LogSettings::BUFFER_BYTES_MIN);
        if bytes > LogSettings::BUFFER_BYTES_MAX {
            let what = "a log buffer has at most 1 GiB";
            return Err(LogFailure::Setting { name: "buffer_bytes", what }.into());
        }
        let flusher = match (D::FLUSHES && settings.durability != Durability::None, disk) {
            (false, _) => None,
            (true, Some(disk)) => Some(Flusher::new(file(disk, &settings)?)),
            (true, None) => {
                let what = "only `none` goes without a directory";
                return Err(LogFailure::Setting { name: "durability", what }.into());
            }
        };
        let (first, limit) = match &flusher {
            Some(flusher) => (flusher.file().base(), Some(flusher.file().limit())),
            None => (settings.first_lsn(), None),
        };
        let ring = Ring::new(bytes.next_power_of_two(), first, limit);
        let core = Arc::new(Core { ring, flusher });
        Ok(Self { core, durability: settings.durability, marker: PhantomData })
    }

    /// Publishes a change and keeps it if it can be undone.
    #[inline(always)]
    fn log(
        &self,
        transaction: &mut LogTransaction,
        record: &Record<'_>,
        kind: ChangeKind,
    ) -> Result<Stamp, Error> {
        let claim = transaction.claim(record.is_redo_only, record.bytes() as u64);
        let start = record.encode(&mut transaction.records);
        let publisher = transaction.publisher.get_or_insert_with(|| self.core.ring.publisher());
        let published = self.core.publish(publisher, &transaction.records[start..], &[], claim);
        match published {
            Ok(lsn) if !record.is_redo_only => transaction.undoable.push((start, lsn)),
            _ => transaction.records.truncate(start),
        }
        let lsn = published?;
        transaction.published(lsn, claim.reserved_after);
        if kind.is_cleared() && !record.is_redo_only {
            transaction.to_clear += record.bytes() as u64;
        }
        probe::count(Counter::LsnWrites, 1); // the page's
        Ok(Some(lsn))
    }

    /// Publishes the record that commits or aborts a transaction; 0 if it has nothing to end.
    fn end(&self, transaction: &mut LogTransaction, commits: bool) -> Result<u64, Error> {
        if transaction.first == 0 {
            return Ok(0);
        }
        let (durable, clears) = (self.core.durable(), transaction.to_clear > 0);
        let content = match commits {
            true => Content::Committed { durable, clears },
            false => Content::Aborted { durable },
        };
        let to_end = if clears { END_BYTES as u64 } else { 0 };
        let claim = Claim {
            reserved_after: if commits { transaction.to_clear + to_end } else { 0 },
            commits: u64::from(commits),
            aborts: u64::from(!commits),
            ..Claim::default()
        };
        let lsn = self.publish_end(transaction, content, claim)?;
        transaction.is_clearing = commits;
        Ok(lsn)
    }

    /// Publishes one of the records that end a transaction, out of what it has reserved.
    #[inline(always)]
    fn publish_end(
        &self,
        transaction: &mut LogTransaction,
        content: Content<'_>,
        claim: Claim,
    ) -> Result<u64, Error> {
        let &mut LogTransaction { id, last, reserved, .. } = transaction;
        let record = Record { is_redo_only: true, transaction: id, previous: last, content };
        let claim = Claim { reserved_before: reserved, ..claim };
        let start = record.encode(&mut transaction.records);
        let publisher = transaction.publisher.get_or_insert_with(|| self.core.ring.publisher());
        let lsn = self.core.publish(publisher, &transaction.records[start..], &[], claim)?;
        transaction.published(lsn, claim.reserved_after);
        Ok(lsn)
    }

    /// Publishes the records of a step, each of which is given how many follow.
    fn publish_step(&self, mut contents: Vec<Content<'_>>) -> Result<Stamp, Error> {
        let count = contents.len();
        let step =
            |content, previous| Record { is_redo_only: true, transaction: 0, previous, content };
        // With the first record all of them are promised space: a full disk takes all or none.
        let bytes = contents.iter().map(|content| step(*content, 0).bytes() as u64);
        let mut rest = bytes.sum::<u64>();
        let (mut reserved_before, mut newest) = (0, None);
        let publisher = &mut self.core.ring.common();
        for (at, content) in contents.iter_mut().enumerate() {
            content.set_following((count - 1 - at) as u16);
            let record = step(*content, newest.unwrap_or_default());
            let (_, image) = record.images();
            let header = record.header();
            assert_eq!(record.bytes(), header.len() + image.len(), "no padding comes behind it");
            rest -= record.bytes() as u64;
            let claim = Claim { reserved_before, reserved_after: rest, ..Claim::default() };
            newest = Some(self.core.publish(publisher, &header, image, claim)?);
            reserved_before = rest;
            probe::count(Counter::LsnWrites, 1);
        }
        Ok(newest)
    }
}

impl<D: Destination, L: Latching> Logging for Log<D, L> {
    const RECORDS: bool = true;
    const NUMBERS: bool = true;

    type Ahead = D::Ahead<L>;
    type Transaction = LogTransaction;

    fn create(settings: LogSettings, disk: Option<Arc<dyn Disk>>) -> Result<Self, LogError> {
        Self::with(settings, disk, LogFile::create)
    }

    fn open_with(
        settings: LogSettings,
        disk: Option<Arc<dyn Disk>>,
        pages: Option<PagesMark>,
        visit: &mut VisitRecord<'_>,
    ) -> Result<Self, LogError> {
        Self::with(settings, disk, |disk, settings| LogFile::open(disk, settings, pages, visit))
    }

    fn number(&self) -> u64 {
        self.core.number()
    }

    fn unread(&self) -> Option<(u64, u64)> {
        let file = self.core.flusher.as_ref()?.file();
        Some((file.needed(), file.base()))
    }

    fn read(&self, from: u64, visit: &mut dyn FnMut(u64, &Record<'_>)) -> Result<(), LogError> {
        self.core.flusher.as_ref().map_or(Ok(()), |flusher| flusher.file().read(from, visit))
    }

    fn recall(
        &self,
        transaction: &mut LogTransaction,
        lsn: u64,
        record: &Record<'_>,
    ) -> Result<(), &'static str> {
        transaction.recall(lsn, record)
    }

    fn newest_undoable(&self, transaction: &LogTransaction) -> u64 {
        transaction.newest_undoable()
    }

    fn resume(&self, transaction: &mut LogTransaction) -> Result<(), Error> {
        if plant::is(Plant::RestartReservesNothing) {
            return Ok(());
        }
        let bytes = transaction.bytes_to_end();
        let claim = Claim { reserved_after: bytes, ..Claim::default() };
        while let Err(full) = self.core.ring.reserve(claim) {
            self.core.make_room(full)?;
        }
        transaction.reserved = bytes;
        Ok(())
    }

    fn ahead(&self) -> D::Ahead<L> {
        D::ahead(self)
    }

    #[inline]
    fn begin(&self, transaction: &mut LogTransaction, id: u64) {
        debug_assert!(
            transaction.reserved == 0 || self.core.refuse_poisoned().is_err(),
            "the transaction before was neither committed nor aborted"
        );
        transaction.reset(id);
    }

    #[inline(always)]
    fn change(
        &self,
        transaction: &mut LogTransaction,
        change: Change,
        before: &[u8],
        after: &[u8],
    ) -> Result<Stamp, Error> {
        let record = Record {
            is_redo_only: !change.kind.is_undoable() || transaction.is_undoing,
            transaction: transaction.id,
            previous: 0,
            content: Content::Change { change, before, after },
        };
        self.log(transaction, &record, change.kind)
    }

    #[inline(always)]
    fn changes<'a>(
        &self,
        transaction: &mut LogTransaction,
        changes: impl Iterator<Item = (Change, &'a [u8])>,
    ) -> Result<Stamp, Error> {
        self.publish_run(transaction, changes)
    }

    fn step<S: PageSize>(&self, step: &Step<'_, S>) -> Result<Stamp, Error> {
        let space = step.space.map(SpaceImage::to_bytes);
        let made = step.made.iter().map(|&made| Content::PageMade { made, following: 0 });
        let whole = step.images.iter().map(|page| (None, *page));
        let changed = step.changed.iter().map(|[before, after]| (Some(*before), *after));
        let mut runs = Vec::new();
        let images: Vec<_> = whole
            .chain(changed)
            .map(|(before, after)| {
                let start = runs.len();
                append_runs(before.map(|before| before.bytes()), after.bytes(), &mut runs);
                (before.is_none(), after, start..runs.len())
            })
            .collect();
        let images = images.into_iter().map(|(is_whole, page, bytes)| {
            let (store, page, bytes) = (page.store(), page.id(), &runs[bytes]);
            Content::PageImage { store, page, following: 0, is_whole, bytes }
        });
        let entry = step.entry.map(|entry| Content::MapEntry { entry, following: 0 });
        let freed = step.freed.iter().map(|&freed| Content::PageFreed { freed, following: 0 });
        let space = space.as_ref().map(|bytes| Content::Space { bytes, following: 0 });
        let contents = made.chain(images).chain(entry).chain(freed).chain(space);
        self.publish_step(contents.collect())
    }

    fn commit(&self, transaction: &mut LogTransaction) -> Result<u64, Error> {
        assert!(!transaction.is_undoing, "a transaction that began to undo must abort");
        self.end(transaction, true)
    }

    fn end_commit(&self, transaction: &mut LogTransaction) -> Result<(), Error> {
        let ended = match transaction.to_clear {
            0 => Ok(0),
            _ => self.publish_end(transaction, Content::Ended, Claim::default()),
        };
        self.core.ring.give_back(std::mem::take(&mut transaction.reserved));
        ended.map(drop)
    }

    fn prepare(
        &self,
        transaction: &mut LogTransaction,
        since: u64,
        owner: Owner,
        entries: &[LockEntry],
    ) -> Result<u64, Error> {
        self.publish_prepared(transaction, since, owner, entries)
    }

    fn harden(&self, lsn: u64) -> Result<(), Error> {
        match self.durability {
            _ if plant::is(Plant::CommitNotFlushed) => Ok(()),
            Durability::None | Durability::Async => Ok(()),
            Durability::Group => self.core.harden_to(lsn, u64::MAX),
            // The commit record and nothing behind it.
            Durability::Sync => self.core.harden_to(lsn, lsn + END_BYTES as u64),
        }
    }

    fn newest_commit(&self) -> u64 {
        self.core.ring.newest_commit()
    }

    fn tail(&self) -> u64 {
        self.core.ring.tail()
    }

    #[inline(always)]
    fn durable(&self) -> u64 {
        self.core.durable()
    }

    #[inline(always)]
    fn room(&self) -> Option<LogRoom<'_>> {
        LogRoom::of(&self.core)
    }

    fn flush(&self) -> Result<(), Error> {
        self.core.flush_to(self.core.ring.tail() - 1, u64::MAX)
    }

    fn next_undo(&self, transaction: &mut LogTransaction, undo: &mut UndoRecord) -> bool {
        transaction.is_undoing = true;
        let Some((start, _)) = transaction.undoable.pop() else { return false };
        let record = Record::parse(&transaction.records[start..]);
        let Ok(Record { content: Content::Change { change, before, after }, .. }) = record else {
            unreachable!("a transaction keeps whole changes only")
        };
        undo.change = change;
        undo.before.clear();
        undo.before.extend_from_slice(before);
        undo.after.clear();
        undo.after.extend_from_slice(after);
        undo.previous = transaction.newest_undoable();
        transaction.forget(start, change.kind);
        true
    }

    fn stop_undo(&self, transaction: &mut LogTransaction) {
        transaction.is_undoing = false;
    }

    fn compensate(
        &self,
        transaction: &mut LogTransaction,
        change: Change,
        before: &[u8],
        after: &[u8],
    ) -> Result<Stamp, Error> {
        assert!(transaction.is_undoing, "nothing was taken off to be undone");
        let record = Record {
            is_redo_only: true,
            transaction: transaction.id,
            previous: 0,
            content: Content::Change { change, before, after },
        };
        self.log(transaction, &record, change.kind)
    }

    fn end_abort(&self, transaction: &mut LogTransaction) -> Result<(), Error> {
        assert!(transaction.undoable.is_empty(), "changes are left that are not undone");
        self.end(transaction, false).map(|_| ())
    }

    fn usage(&self) -> LogUsage {
        let published = self.core.ring.published();
        let mut usage = LogUsage {
            records: published.records,
            bytes: published.bytes,
            commits: published.commits,
            aborts: published.aborts,
            buffer_bytes: self.core.ring.capacity() as u64,
            ..LogUsage::default()
        };
        if let Some(flusher) = &self.core.flusher {
            (usage.flushes, usage.buffer_full) = flusher.counts();
            usage.flushed_bytes = flusher.durable() - flusher.file().base();
            usage.file_bytes = flusher.file().bytes();
        }
        usage
    }

    fn check(&self) -> Vec<Damage> {
        let Some(flusher) = &self.core.flusher else { return Vec::new() };
        let damage = |what| vec![Damage { check: "log", what }];
        if let Some(reason) = flusher.poisoned() {
            return damage(reason.to_owned());
        }
        let verified = flusher.file().verify(flusher.durable());
        verified.map_or_else(|error| damage(error.to_string()), |()| Vec::new())
    }

    fn checkpoint(&self, began: u64, dirty: &[DirtyPage]) -> Result<(), Error> {
        self.publish_checkpoint(began, dirty)
    }

    fn release_before(&self, lsn: u64) -> Result<usize, Error> {
        let Some(flusher) = &self.core.flusher else { return Ok(0) };
        self.core.flush_to(lsn - 1, u64::MAX)?;
        flusher.release_before(&self.core.ring, lsn)
    }

    fn kept(&self) -> Result<Option<KeptLog>, LogError> {
        let kept = self.core.flusher.as_ref().map(|flusher| flusher.file().kept());
        Ok(kept.transpose()?)
    }

    fn close(&self) -> Result<(), LogError> {
        self.core.flusher.as_ref().map_or(Ok(()), |flusher| flusher.close(&self.core.ring))
    }
}
