//! Recovery: finds the groups of the log, passes them to the caller for replay, and cuts off
//! the rest (TPK-20 … TPK-26).
//!
//! ```text
//!   lock ─► read headers ─► walk the chain, replaying ─► why does it end here?
//!                                                          │            │
//!                              a later group knew it to be durable      no such group
//!                                        │                              │
//!                          refuse, or lose it if allowed ─────► cut: write again what is in
//!                                                               doubt, sync what was replayed,
//!                                                               write the new epoch's first group
//!                                                               over the place, sync
//! ```
//!
//! The place where the chain ends is a *torn tail* if no group in place after it, of the chain's
//! epoch or a later one, has a watermark at or above the missing group's number: then the missing
//! group was never reported as durable. Otherwise it is damage. The cut is durable when recovery
//! returns: the first group of the new epoch is where the tail began, and groups of an older epoch
//! after it continue no chain. Before that, segments that begin after the cut are wiped at their beginnings,
//! because a recovery from a later group looks for its start among the segments' first
//! groups and must not find one that was cut off. A crash before the new epoch's group
//! leaves the log as it was found, so a second recovery finds the same. The rest of the tail is
//! wiped afterwards, so that it is not reported twice; nothing depends on it.
//!
//! An accepted loss destroys no data: the segments from the damage on are first copied to files with
//! other names (`aside.rs`).
//!
//! One gap remains: damage to the very last group, for which no later one vouches, looks
//! like a torn tail. `LogWriter::seal` closes this gap when a database is idle.
//!
//! Not here: following the chain (`walk.rs`), replaying (`memory/recovery/`), threads.

use std::fmt;

use super::aligned::AlignedBuffer;
use super::archive;
use super::aside;
use super::directory::Directory;
use super::groups::{Groups, Place};
use super::lock::DirectoryLock;
use super::segment::{FIRST_GROUP_OFFSET, file_name};
use super::settings::{GroupNumber, LogFailure, LogKind, LogSettings};
use super::side;
use super::space::Pool;
use super::start::RecoverOptions;
use super::walk::{End, Passed, Surplus, Walk};
use super::writer::{Closed, LogWriter, Segments, Tail};
use crate::disk::{Disk, Operation};
use crate::plant::{self, Plant};
use crate::sync::Arc;

/// A mismatch, as text, and its group.
pub type Refused = (GroupNumber, String);

/// Receives every transaction of the log, in order.
pub trait Replay {
    /// Replays the transactions of one group (or of several with one run of records); the last has the number
    /// `group`.
    ///
    /// # Errors
    /// An error in these or in earlier transactions; recovery then stops.
    fn replay(&mut self, group: GroupNumber, records: &[u8]) -> Result<(), Refused>;

    /// How many transactions there are up to the end of what is replayed next; where records have
    /// positions, the one behind them.
    fn ends_at(&mut self, _: u64) {}

    /// Called after all transactions, if the log is not refused; nothing was changed on the disk yet.
    /// Deferred work, and work of other threads, has ended when this returns.
    ///
    /// # Errors
    /// An error and its group; recovery then stops.
    fn complete(&mut self) -> Result<(), Refused> {
        Ok(())
    }
}

impl<F: FnMut(GroupNumber, &[u8]) -> Result<(), String>> Replay for F {
    fn replay(&mut self, group: GroupNumber, records: &[u8]) -> Result<(), Refused> {
        self(group, records).map_err(|what| (group, what))
    }
}

/// The progress of recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of segments read so far.
    pub bytes: u64,
    /// Bytes of all segments; the log may end long before.
    pub bytes_max: u64,
    /// Groups replayed.
    pub groups: u64,
    /// Transactions replayed.
    pub transactions: u64,
}

/// The end of a log, and the part that was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file.
    pub file: String,
    /// The offset in it.
    pub offset: u64,
    /// The first group after the log.
    pub group: GroupNumber,
    /// The bytes found there: the remains of a group that was never known to be durable, and
    /// whole groups after it.
    pub torn_bytes: u64,
    /// The damage, if it was not a torn tail; its loss was accepted.
    pub damage: Option<LogFailure>,
    /// The loss by the damage; none with a torn tail.
    pub lost: Lost,
    /// Files in the directory with the former content, if a loss was accepted.
    pub kept: Vec<String>,
}

/// The content after damage to a log, as far as the intact groups there show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Groups, from the damaged one on.
    pub groups: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Row changes in the readable ones of them: creations, changes and deletions.
    pub row_changes: u64,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { groups, transactions, row_changes } = *self;
        let many = |number: u64, what: &str| match number {
            1 => format!("1 {what}"),
            more => format!("{more} {what}s"),
        };
        f.write_str(&many(groups, "group"))?;
        if transactions > 0 {
            write!(f, ", {}", many(transactions, "transaction"))?;
        }
        match row_changes {
            0 => Ok(()),
            _ => write!(f, ", at least {}", many(row_changes, "row change")),
        }
    }
}

/// A log that was opened.
#[derive(Debug)]
pub struct Recovered {
    /// Continues the log.
    pub writer: LogWriter,
    /// Groups replayed.
    pub groups: u64,
    /// Transactions replayed.
    pub transactions: u64,
    /// The part that was cut off, if any.
    pub cut: Option<Cut>,
}

/// Opens the log of `disk` after any end of its last process, passing all its transactions to
/// `replay`.
///
/// # Errors
/// `NoLog`, `InUse`, `OtherVersion`, `Damaged`, `Irreparable`, `Replay`, `Disk`; `Full` when there is no room for the
/// group that begins the new epoch. After an error the directory is unchanged.
pub fn recover(
    disk: Arc<dyn Disk>,
    settings: LogSettings,
    options: RecoverOptions,
    replay: &mut dyn Replay,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recovered, LogFailure> {
    settings.check()?;
    let lock = DirectoryLock::take(&*disk)?;
    recover_locked(lock, disk, settings, options, replay, progress)
}

/// The same for a caller that has the lock already, because it loaded an image before.
///
/// # Errors
/// As [`recover`], except `InUse`.
pub fn recover_locked(
    lock: DirectoryLock,
    disk: Arc<dyn Disk>,
    settings: LogSettings,
    options: RecoverOptions,
    replay: &mut dyn Replay,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recovered, LogFailure> {
    settings.check()?;
    let Directory { segments, unfinished, damaged, damage } =
        Directory::read(&*disk, options.accept_loss, &settings)?;
    let keep = options.keep;
    let mut walk = Walk::new(segments, options, replay, progress);
    walk.run()?;
    let cut = walk.judge(damage)?;
    walk.complete()?;
    let walked = Walked { end: walk.end, cut, unfinished, damaged };
    walked.write_on(lock, disk, settings, keep)
}

/// A log whose end is known, and of which nothing was changed so far.
pub(super) struct Walked {
    pub(super) end: End,
    pub(super) cut: Option<Cut>,
    /// Numbers of unfinished files.
    pub(super) unfinished: Vec<u64>,
    /// Numbers of unreadable files whose loss is accepted.
    pub(super) damaged: Vec<u64>,
}

impl Walked {
    /// Cuts off what is behind the end, and opens the log to be written on there. Groups as of `keep` go to the
    /// archive before.
    ///
    /// # Errors
    /// Those of [`recover`] that the disk gives.
    pub(super) fn write_on(
        self,
        lock: DirectoryLock,
        disk: Arc<dyn Disk>,
        settings: LogSettings,
        keep: Option<GroupNumber>,
    ) -> Result<Recovered, LogFailure> {
        let Self { mut end, mut cut, unfinished, damaged } = self;
        let Progress { groups, transactions, .. } = end.progress;
        let segments = &end.groups.segments;
        let salt = segments.first().map_or(settings.salt, |segment| segment.header.salt);
        let settings = LogSettings { salt, ..settings };
        let leftovers_end = end.leftovers_end()?;
        if let Some(group) = keep.filter(|_| !plant::is(Plant::ArchiveNotKept)) {
            archive::keep(&mut end, group)?;
        }
        if let Some(cut) = cut.as_mut().filter(|cut| cut.damage.is_some()) {
            let Groups { segments, place } = &end.groups;
            let behind = segments.iter().skip(place.segment).map(|segment| segment.number);
            let files = behind.chain(damaged.iter().chain(&unfinished).copied());
            cut.kept = aside::keep(&*disk, &files.collect::<Vec<_>>())?;
        }
        remove(&*disk, &unfinished)?;
        wipe_behind(&*disk, &settings, &end)?;
        let Segments { pool, closed, current } =
            open_segments(&*disk, &settings, &mut end, &damaged)?;
        let Place { at, chain, .. } = end.groups.place;
        // What was set aside continues the newest group, which the next one will be no more: it goes into that.
        let aside = match settings.kind {
            LogKind::Paged => side::read(&*disk, chain, salt)?,
            LogKind::Value | LogKind::Command => None,
        };
        let (aside_end, aside) = aside.unwrap_or((end.transactions, Vec::new()));
        let tail = Tail {
            newest: chain.number - 1,
            checksum: chain.previous.unwrap_or_default(),
            // Not where the newest group ends if what followed was released while it was set aside.
            transactions: aside_end - aside.len() as u64,
            time_us: end.time_us,
            epoch: end.newest_epoch + u32::from(!plant::is(Plant::EpochNotRaised)),
            at,
        };
        let segments = Segments { pool, current, closed };
        let mut writer =
            LogWriter::start(Arc::clone(&disk), settings, lock, segments, tail, &aside)?;
        if let Some(leftovers_end) = leftovers_end {
            writer.wipe(leftovers_end)?;
        }
        remove(&*disk, &damaged)?;
        Ok(Recovered { writer, groups, transactions, cut })
    }
}

/// Takes the groups that are to be cut off from the disk, the newest first: each may say that those before it were
/// durable. After a crash, one of these that was written over would be taken for damaged while a later one is there.
fn wipe_behind(disk: &dyn Disk, settings: &LogSettings, end: &End) -> Result<(), LogFailure> {
    let mut behind = end.behind.clone();
    behind.sort_unstable_by_key(|group| std::cmp::Reverse(group.number));
    for Surplus { segment, at, .. } in behind {
        let reader = &end.groups.segments[segment];
        let segment = reader.open_for_writing(disk, settings.direct)?;
        segment.wipe(at, at + reader.header.block_bytes)?;
    }
    Ok(())
}

/// Opens the segments for writing and makes the replayed groups durable: after the end of a process
/// alone, they may be only in the system's memory. Groups for which no later group vouches are written again,
/// because a sync may have failed before. Segments that do not belong to the log lose their first group,
/// if a later recovery could mistake it for a start.
fn open_segments(
    disk: &dyn Disk,
    settings: &LogSettings,
    end: &mut End,
    damaged: &[u64],
) -> Result<Segments, LogFailure> {
    let Groups { segments, place } = &mut end.groups;
    let numbers = segments.iter().map(|segment| segment.number);
    let mut pool = Pool {
        next_number: numbers.chain(damaged.iter().copied()).max().unwrap_or(0) + 1,
        next_sequence: segments.last().map_or(0, |last| last.header.sequence) + 1,
        log_bytes: segments.iter().map(|segment| segment.header.segment_bytes).sum(),
        ..Pool::default()
    };
    let (mut closed, mut current) = (Vec::new(), None);
    // The chain may have passed groups that an earlier recovery cut off: a medium that lies brings them
    // back.
    let start = end.passed.first().map_or(place.segment, |passed| passed.segment);
    let mut buffer = AlignedBuffer::default();
    for (position, reader) in segments.iter_mut().enumerate() {
        let segment = reader.open_for_writing(disk, settings.direct)?;
        let passed = end.passed.iter().find(|passed| passed.segment == position);
        for group in end.doubtful.iter().filter(|group| group.segment == position) {
            let bytes = buffer.try_first(group.bytes, Operation::Read, &*segment.file)?;
            reader.read(group.at, bytes)?;
            segment.file.write_at(bytes, group.at)?;
        }
        if passed.is_some() && !plant::is(Plant::TailNotCut) {
            segment.file.sync()?;
        }
        let is_current = position == place.segment;
        match passed {
            _ if is_current && !reader.ends_at(place.at) => current = Some(segment.whole()?),
            Some(&Passed { last, run_ends, transactions, .. }) => {
                closed.push(Closed { segment, last, run_ends, transactions, is_synced: true });
            }
            None => {
                if position > start
                    && reader.begins_with()?.is_some()
                    && !plant::is(Plant::CutNotWiped)
                {
                    let first_end = FIRST_GROUP_OFFSET + reader.header.block_bytes;
                    segment.wipe(FIRST_GROUP_OFFSET, first_end)?;
                }
                pool.spare.push(segment);
            }
        }
    }
    // The same holds for the directory: a file may have been created just before.
    if !plant::is(Plant::DroppedDirectoryFsync) {
        disk.sync_dir()?;
    }
    Ok(Segments { pool, closed, current })
}

/// Removes files without content.
fn remove(disk: &dyn Disk, numbers: &[u64]) -> Result<(), LogFailure> {
    for &number in numbers {
        disk.remove(&file_name(number))?;
    }
    if !numbers.is_empty() {
        disk.sync_dir()?;
    }
    Ok(())
}
