//! Recovery: finds the groups that are the log, gives them to whoever replays them, and cuts off
//! what is not (TPK-20 … TPK-26).
//!
//! ```text
//!   lock ─► read headers ─► walk the chain, replaying ─► why does it end here?
//!                                                          │            │
//!                              a later group knew it to be durable      no such group
//!                                        │                              │
//!                          refuse, or lose it if told to ─────► cut: write again what is in
//!                                                               doubt, sync what was replayed,
//!                                                               write the new epoch's first group
//!                                                               over the place, sync
//! ```
//!
//! The place where the chain ends is a *torn tail* if no group in place behind it, of the chain's
//! epoch or a later one, has a watermark at or above the missing group's number: nobody was told
//! then that the missing group is durable. Otherwise it is damage. The cut is durable when recovery
//! returns: the first group of the new epoch lies where the tail began, and whatever of an older epoch
//! lies behind it continues no chain. A segment that begins behind the cut is wiped at its beginning
//! before that: a recovery from a later group on looks for its start among the segments' first
//! groups, and one that was cut off must not be taken for it. A crash before the new epoch's group
//! leaves the log as it was found, so a second recovery finds the same. What is left of the tail is
//! wiped after that, so that nobody is told of it twice; nothing depends on it.
//!
//! The window that remains: damage to the newest group of all, which no later one vouches for, looks
//! like a torn tail. `LogWriter::seal` closes it when a database is idle.
//!
//! Not here: what replaying does (`memory/recovery/`), threads.

use std::collections::VecDeque;

use super::aligned::AlignedBuffer;
use super::directory::Directory;
use super::group::Group;
use super::reader::{Chain, SegmentReader};
use super::segment::{FIRST_GROUP_OFFSET, Segment, file_name};
use super::settings::{GroupNumber, LogFailure, LogSettings};
use super::space::Pool;
use super::start::RecoverOptions;
use super::writer::{Closed, LogWriter, Tail, lock};
use crate::disk::{Disk, Operation};
use crate::plant::{self, Plant};
use crate::sync::Arc;

/// What is given every transaction of the log, in order.
pub trait Replay {
    /// Replays the transactions of one group (or of several that hold one run of records), whose last
    /// has the number `group`.
    ///
    /// # Errors
    /// What is wrong with them, in words; recovery stops then.
    fn replay(&mut self, group: GroupNumber, records: &[u8]) -> Result<(), String>;

    /// All was given and the log is what it seems to be; nothing was changed on the disk yet. What
    /// is put off or done by other threads is over when this returns.
    ///
    /// # Errors
    /// What is wrong, in words, and with which group; recovery stops then.
    fn complete(&mut self) -> Result<(), (GroupNumber, String)> {
        Ok(())
    }
}

impl<F: FnMut(GroupNumber, &[u8]) -> Result<(), String>> Replay for F {
    fn replay(&mut self, group: GroupNumber, records: &[u8]) -> Result<(), String> {
        self(group, records)
    }
}

/// How far recovery is.
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

/// Where a log ended and what was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// The first group that is not in the log.
    pub group: GroupNumber,
    /// Bytes of what was found there: the remains of a group that was never known to be durable, and
    /// whole groups behind it.
    pub torn_bytes: u64,
    /// The damage, if it was that and no torn tail; its loss was accepted.
    pub damage: Option<LogFailure>,
    /// Groups from `group` on that the damage took away, as far as what lies behind it tells; none
    /// are lost with a torn tail.
    pub lost_groups: u64,
    /// Transactions in them, as far as an intact group behind the damage tells.
    pub lost_transactions: u64,
}

/// A log that was opened.
#[derive(Debug)]
pub struct Recovered {
    /// Goes on with it.
    pub writer: LogWriter,
    /// Groups replayed.
    pub groups: u64,
    /// Transactions replayed.
    pub transactions: u64,
    /// What was cut off, if anything was.
    pub cut: Option<Cut>,
}

/// Opens the log of `disk` after any end of its last process, giving all its transactions to
/// `replay`.
///
/// # Errors
/// `NoLog`, `InUse`, `OtherVersion`, `Damaged`, `Replay`, `Disk`; `Full` when there is no room for the
/// group that begins the new epoch. The directory is as it was then.
pub fn recover(
    disk: Arc<dyn Disk>,
    settings: LogSettings,
    options: RecoverOptions,
    replay: &mut dyn Replay,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recovered, LogFailure> {
    settings.check()?;
    let lock = lock(&*disk)?;
    let Directory { segments, unfinished, damaged, damage } =
        Directory::read(&*disk, options.accept_loss, &settings)?;
    let mut walk = Walk::new(segments, options, replay, progress);
    walk.run()?;
    let cut = walk.judge(damage)?;
    walk.complete()?;
    let (groups, transactions) = (walk.progress.groups, walk.progress.transactions);
    let mut end = walk.end();
    let salt = end.segments.first().map_or(settings.salt, |segment| segment.header.salt);
    let settings = LogSettings { salt, ..settings };
    let leftovers_end = end.leftovers_end()?;
    // Nothing was changed so far.
    remove(&*disk, &unfinished)?;
    let Opened { pool, closed, current } = open_segments(&*disk, &settings, &mut end, &damaged)?;
    let tail = Tail {
        newest: end.chain.number - 1,
        checksum: end.chain.previous.unwrap_or_default(),
        transactions: end.transactions,
        epoch: end.newest_epoch + u32::from(!plant::is(Plant::EpochNotRaised)),
        at: end.at,
    };
    let mut writer =
        LogWriter::start(Arc::clone(&disk), settings, lock, pool, tail, current, closed)?;
    if let Some(leftovers_end) = leftovers_end {
        writer.wipe(leftovers_end)?;
    }
    remove(&*disk, &damaged)?;
    Ok(Recovered { writer, groups, transactions, cut })
}

/// The way along the chain.
pub(super) struct Walk<'a> {
    pub(super) segments: Vec<SegmentReader>,
    options: RecoverOptions,
    replay: &'a mut dyn Replay,
    report: &'a mut dyn FnMut(Progress),
    pub(super) progress: Progress,
    /// Which segment the next group is looked for in, and where.
    segment: usize,
    at: u64,
    pub(super) chain: Chain,
    /// Transactions in all groups so far.
    pub(super) transactions: u64,
    /// The segments the chain passed through, in that order.
    pub(super) passed: Vec<Passed>,
    /// Records that go on in the next group, and where their first group lies.
    pending: Option<Pending>,
    /// The group that the chain ends before, and where it should be. A cut may be before that.
    broken: Broken,
    /// The newest epoch of any group in place.
    newest_epoch: u32,
    /// The groups so far that no group so far says are durable, in their order.
    doubtful: VecDeque<Doubtful>,
}

/// Where the chain ends.
#[derive(Clone, Copy, Default)]
struct Broken {
    number: GroupNumber,
    segment: usize,
    at: u64,
}

/// A group that was replayed and may be in the system's memory only: after a failed sync a system
/// calls what it could not write clean, so that another sync would be believed for nothing.
#[derive(Clone, Copy)]
struct Doubtful {
    number: GroupNumber,
    segment: usize,
    at: u64,
    /// Bytes up to where the next group begins.
    bytes: usize,
}

/// A segment with groups of the chain.
#[derive(Clone, Copy)]
pub(super) struct Passed {
    pub(super) segment: usize,
    /// The newest group in it.
    pub(super) last: GroupNumber,
    /// Whether that one's records go on in the next segment.
    runs_on: bool,
}

/// The first groups of a run, and the state to go back to if the rest is not there.
struct Pending {
    records: Vec<u8>,
    segment: usize,
    at: u64,
    chain: Chain,
    transactions: u64,
    passed: Vec<Passed>,
}

/// What lies in place behind the end of the chain.
#[derive(Default)]
struct Behind {
    /// The first group that says the missing one was durable, with its file.
    vouching: Option<(String, Group)>,
    /// Bytes of all groups there.
    bytes: u64,
    /// The newest group that is there or is said to be durable.
    newest: GroupNumber,
    /// Transactions of the log up to the newest.
    transactions: u64,
}

/// Where a walk ended.
struct End {
    segments: Vec<SegmentReader>,
    /// The segment writing goes on in, if any group or the first one belongs there.
    segment: usize,
    at: u64,
    chain: Chain,
    transactions: u64,
    passed: Vec<Passed>,
    newest_epoch: u32,
    doubtful: VecDeque<Doubtful>,
}

impl End {
    /// Where the remains of groups behind the end stop, if there are any and they can be told from
    /// those of an earlier use.
    fn leftovers_end(&mut self) -> Result<Option<u64>, LogFailure> {
        match self.segments.get_mut(self.segment) {
            Some(reader) if reader.header.uses == 1 && !reader.ends_at(self.at) => {
                let end = reader.blank_from(self.at)?;
                Ok((end > self.at).then_some(end))
            }
            _ => Ok(None),
        }
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        segments: Vec<SegmentReader>,
        options: RecoverOptions,
        replay: &'a mut dyn Replay,
        report: &'a mut dyn FnMut(Progress),
    ) -> Self {
        let bytes_max = segments.iter().map(|segment| segment.header.segment_bytes).sum();
        Self {
            segments,
            options,
            replay,
            report,
            progress: Progress { bytes_max, ..Progress::default() },
            segment: 0,
            at: FIRST_GROUP_OFFSET,
            chain: Chain { number: 1, previous: Some(0), epoch: 0 },
            transactions: 0,
            passed: Vec::new(),
            pending: None,
            broken: Broken::default(),
            newest_epoch: 0,
            doubtful: VecDeque::new(),
        }
    }

    /// Replays the chain up to its end.
    pub(super) fn run(&mut self) -> Result<(), LogFailure> {
        self.find_start()?;
        loop {
            while self.step()? {}
            if !self.enter_next_segment()? {
                break;
            }
        }
        self.broken = self.find_broken()?;
        if let Some(pending) = self.pending.take() {
            // A run is there as a whole or not at all.
            self.segment = pending.segment;
            self.at = pending.at;
            self.chain = pending.chain;
            self.transactions = pending.transactions;
            self.passed = pending.passed;
            self.doubtful.retain(|group| group.number < self.chain.number);
        }
        (self.report)(self.progress);
        Ok(())
    }

    /// Begins with the newest segment whose first group is not newer than the first one asked for,
    /// and does not go on with records that began before. That group is the log's: what an earlier
    /// recovery cut off was wiped from the segments' beginnings.
    fn find_start(&mut self) -> Result<(), LogFailure> {
        let start = self.options.first;
        if start.group <= 1 {
            return Ok(());
        }
        let mut oldest = None;
        for (position, segment) in self.segments.iter_mut().enumerate().rev() {
            let first = segment.first_group()?.map(|placed| placed.group);
            let Some(group) = first else { continue };
            if group.number <= start.group && !group.continues {
                self.segment = position;
                self.chain = Chain { number: group.number, previous: None, epoch: group.epoch };
                return Ok(());
            }
            oldest = Some((group.number, segment.name().to_owned()));
        }
        match oldest {
            Some((number, file)) if start.checksum.is_some() => Err(start.is_gone(number, file)),
            _ => Ok(()),
        }
    }

    /// Replays the group at the place at hand, if it is the chain's next.
    fn step(&mut self) -> Result<bool, LogFailure> {
        let Some(reader) = self.segments.get_mut(self.segment) else { return Ok(false) };
        let at = self.at;
        let Some(placed) = reader.group(at)?.filter(|placed| self.chain.continues(&placed.group))
        else {
            return Ok(false);
        };
        let (group, checksum) = (placed.group, placed.checksum);
        let start = self.options.first;
        if group.number == start.group && start.checksum.is_some_and(|known| known != checksum) {
            let file = self.segments[self.segment].name();
            return Err(start.stranger(checksum, file, at));
        }
        if group.more || self.pending.is_some() {
            let pending = self.pending.get_or_insert_with(|| Pending {
                records: Vec::new(),
                segment: self.segment,
                at,
                chain: self.chain,
                transactions: self.transactions,
                passed: self.passed.clone(),
            });
            pending.records.extend_from_slice(placed.records);
        }
        if !group.more {
            let run = self.pending.take();
            let records = run.as_ref().map_or(placed.records, |run| &run.records);
            let is_late = plant::is(Plant::WrongRedoStart) && self.progress.groups < 2;
            if group.number >= start.group && !records.is_empty() && !is_late {
                let replayed = self.replay.replay(group.number, records);
                replayed.map_err(|what| LogFailure::Replay { group: group.number, what })?;
                let before = self.chain.previous.map_or(group.transactions, |_| self.transactions);
                self.progress.transactions += group.transactions - before;
            }
            self.transactions = group.transactions;
        }
        self.progress.groups += 1;
        let behind = self.segments[self.segment].behind(&group);
        let (number, bytes) = (group.number, (behind - at) as usize);
        self.doubtful.push_back(Doubtful { number, segment: self.segment, at, bytes });
        while self.doubtful.front().is_some_and(|first| first.number <= group.watermark) {
            self.doubtful.pop_front();
        }
        self.progress.bytes += behind - at;
        if self.progress.bytes >> 24 != (self.progress.bytes - (behind - at)) >> 24 {
            (self.report)(self.progress);
        }
        self.at = behind;
        self.chain =
            Chain { number: group.number + 1, previous: Some(checksum), epoch: group.epoch };
        let passed = Passed { segment: self.segment, last: group.number, runs_on: group.more };
        match self.passed.last_mut() {
            Some(last) if last.segment == self.segment => *last = passed,
            _ => self.passed.push(passed),
        }
        Ok(true)
    }

    /// Goes to the next segment that begins with the chain's next group; those between were made
    /// ready by an earlier process and never used.
    fn enter_next_segment(&mut self) -> Result<bool, LogFailure> {
        for position in self.segment + 1..self.segments.len() {
            let first = self.segments[position].first_group()?;
            if first.is_some_and(|placed| self.chain.continues(&placed.group)) {
                self.segments[self.segment].forget();
                (self.segment, self.at) = (position, FIRST_GROUP_OFFSET);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where the chain's next group should be: where a later segment begins with what is left of
    /// it, else behind the last one.
    fn find_broken(&mut self) -> Result<Broken, LogFailure> {
        let number = self.chain.number;
        for position in self.segment + 1..self.segments.len() {
            if self.segments[position].begins_with()? == Some(number) {
                return Ok(Broken { number, segment: position, at: FIRST_GROUP_OFFSET });
            }
        }
        Ok(Broken { number, segment: self.segment, at: self.at })
    }

    /// Lets the replay come to its end.
    pub(super) fn complete(&mut self) -> Result<(), LogFailure> {
        self.replay.complete().map_err(|(group, what)| LogFailure::Replay { group, what })
    }

    /// Says why the chain ends where it does: `None` if there is nothing behind it. `damage` is what
    /// was accepted before.
    pub(super) fn judge(&mut self, damage: Option<LogFailure>) -> Result<Option<Cut>, LogFailure> {
        let missing = self.chain.number;
        let behind = self.look_behind()?;
        let start = self.options.first;
        let is_late = start.needed() >= missing;
        let Some(reader) = self.segments.get_mut(self.segment) else {
            let file = file_name(1);
            let what = format!("no segment is left, but {}", start.need());
            let late =
                is_late.then_some(LogFailure::Damaged { file, offset: 0, group: missing, what });
            return damage.or(late).map_or(Ok(None), Err);
        };
        let (file, offset) = (reader.name().to_owned(), self.at);
        let torn_bytes = behind.bytes.max(reader.torn_bytes(offset, self.chain.epoch)?);
        let what = match &behind.vouching {
            _ if plant::is(Plant::DamageTakenForTail) => None,
            Some((file, group)) => Some(format!(
                "it is missing or damaged, but group {} in {file} at offset {} says that it was \
                 durable",
                group.number, group.offset
            )),
            None if is_late => Some(format!("the log ends here, but {}", start.need())),
            None => None,
        };
        let Broken { number, segment, at } = self.broken;
        let here = what.map(|what| {
            let file = self.segments[segment].name().to_owned();
            LogFailure::Damaged { file, offset: at, group: number, what }
        });
        if let Some(here) = &here
            && (!self.options.accept_loss || is_late)
        {
            return Err(here.clone());
        }
        let damage = here.or(damage);
        if torn_bytes == 0 && damage.is_none() {
            return Ok(None);
        }
        let (lost_groups, lost_transactions) = match &damage {
            Some(_) => (
                (behind.newest + 1).saturating_sub(missing),
                behind.transactions.saturating_sub(self.transactions),
            ),
            None => (0, 0),
        };
        let group = missing;
        Ok(Some(Cut { file, offset, group, torn_bytes, damage, lost_groups, lost_transactions }))
    }

    /// Looks for groups in place behind the end of the chain that are not older than it.
    fn look_behind(&mut self) -> Result<Behind, LogFailure> {
        let (missing, epoch) = (self.chain.number, self.chain.epoch);
        self.newest_epoch = epoch;
        let mut behind = Behind::default();
        for (position, reader) in self.segments.iter_mut().enumerate() {
            let from = if position == self.segment {
                self.at
            } else if self.passed.iter().any(|passed| passed.segment == position) {
                continue;
            } else {
                FIRST_GROUP_OFFSET
            };
            let mut groups = Vec::new();
            reader.scan(from, |group| {
                self.newest_epoch = self.newest_epoch.max(group.epoch);
                if group.epoch >= epoch && group.number >= missing {
                    groups.push(*group);
                }
            })?;
            for group in groups {
                behind.bytes += reader.behind(&group) - group.offset;
                behind.newest = behind.newest.max(group.number).max(group.watermark);
                behind.transactions = behind.transactions.max(group.transactions);
                if group.watermark >= missing && behind.vouching.is_none() {
                    behind.vouching = Some((reader.name().to_owned(), group));
                }
            }
        }
        Ok(behind)
    }

    fn end(self) -> End {
        let Self { segments, segment, at, chain, transactions, passed, newest_epoch, .. } = self;
        let doubtful = self.doubtful;
        End { segments, segment, at, chain, transactions, passed, newest_epoch, doubtful }
    }
}

/// The segments of a log as a writer needs them.
struct Opened {
    pool: Pool,
    closed: Vec<Closed>,
    current: Option<Segment>,
}

/// Opens the segments for writing and makes durable what was replayed: after the end of a process
/// alone, it may be in the system's memory only. What no group says is durable is written again,
/// because a sync may have failed before. Segments that are not the log's lose the group they begin
/// with, if a later start could be looked for there.
fn open_segments(
    disk: &dyn Disk,
    settings: &LogSettings,
    end: &mut End,
    damaged: &[u64],
) -> Result<Opened, LogFailure> {
    let numbers = end.segments.iter().map(|segment| segment.number);
    let mut pool = Pool {
        next_number: numbers.chain(damaged.iter().copied()).max().unwrap_or(0) + 1,
        next_sequence: end.segments.last().map_or(0, |last| last.header.sequence) + 1,
        log_bytes: end.segments.iter().map(|segment| segment.header.segment_bytes).sum(),
        ..Pool::default()
    };
    let (mut closed, mut current) = (Vec::new(), None);
    // The chain may have passed by what an earlier recovery cut off: a medium that lies brings it back.
    let start = end.passed.first().map_or(end.segment, |passed| passed.segment);
    let mut buffer = AlignedBuffer::default();
    for (position, reader) in end.segments.iter_mut().enumerate() {
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
        let is_current = position == end.segment;
        match passed {
            _ if is_current && !reader.ends_at(end.at) => current = Some(segment.whole()?),
            Some(&Passed { last, runs_on, .. }) => {
                closed.push(Closed { segment, last, runs_on, is_synced: true });
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
    // The same holds of the directory: a file may have been made just before.
    if !plant::is(Plant::DroppedDirectoryFsync) {
        disk.sync_dir()?;
    }
    Ok(Opened { pool, closed, current })
}

/// Takes files away that hold nothing.
fn remove(disk: &dyn Disk, numbers: &[u64]) -> Result<(), LogFailure> {
    for &number in numbers {
        disk.remove(&file_name(number))?;
    }
    if !numbers.is_empty() {
        disk.sync_dir()?;
    }
    Ok(())
}
