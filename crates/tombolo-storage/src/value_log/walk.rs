//! The way along a log's chain of groups: from its start to the place where it ends, replaying, and why
//! it ends there.
//!
//! A place is damage if a later group knew what is missing to be durable, else the end or a torn tail
//! (`recover.rs` explains why). Nothing is written here, so a log that is only looked at is read the
//! same way. Not here: what becomes of the end (`recover.rs`).

use std::collections::VecDeque;

use super::group::Group;
use super::reader::{Chain, SegmentReader, find_run};
use super::record::{Record, Transactions};
use super::recover::{Cut, Lost, Progress, Refused, Replay};
use super::segment::{FIRST_GROUP_OFFSET, file_name};
use super::settings::{GroupNumber, LogFailure, LogKind};
use super::start::RecoverOptions;
use crate::plant::{self, Plant};

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
    /// The latest time of any of them; those that are cut off again count, too.
    time_us: u64,
    /// The segments the chain passed through, in that order.
    pub(super) passed: Vec<Passed>,
    /// Records that continue in the next group, and where their first group lies.
    pending: Option<Pending>,
    /// The group that the chain ends before, and where it should be. A cut may be before that.
    broken: Broken,
    /// The newest epoch of any group in place.
    newest_epoch: u32,
    /// Of the groups so far, those that none so far says are durable, in their order.
    doubtful: VecDeque<Doubtful>,
    /// Whether the groups before the first one that is needed were skipped.
    has_jumped: bool,
}

/// Where the chain ends.
#[derive(Clone, Copy, Default)]
struct Broken {
    number: GroupNumber,
    segment: usize,
    at: u64,
}

/// A group that was replayed and may be in the system's memory only: after a failed sync a system
/// may mark pages clean that it could not write, so that another sync would succeed without writing
/// them.
#[derive(Clone, Copy)]
pub(super) struct Doubtful {
    number: GroupNumber,
    pub(super) segment: usize,
    pub(super) at: u64,
    /// Bytes up to where the next group begins.
    pub(super) bytes: usize,
}

/// A segment with groups of the chain.
#[derive(Clone, Copy)]
pub(super) struct Passed {
    pub(super) segment: usize,
    /// The newest group in it.
    pub(super) last: GroupNumber,
    /// Whether that one's records continue in the next segment.
    pub(super) runs_on: bool,
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
    /// In groups that can be read by themselves.
    row_changes: u64,
}

impl Behind {
    /// What is lost if the log ends before group `missing`, with so many transactions.
    fn lost(&self, missing: GroupNumber, transactions: u64) -> Lost {
        Lost {
            groups: (self.newest + 1).saturating_sub(missing),
            transactions: self.transactions.saturating_sub(transactions),
            row_changes: self.row_changes,
        }
    }
}

/// How many records of rows there are in `transactions`; fewer, if not all can be read.
fn row_changes(transactions: &[u8]) -> u64 {
    let records = Transactions::new(transactions).map_while(Result::ok).flatten();
    let of_rows = records.filter(|record| {
        matches!(
            record,
            Ok(Record::Inserted { .. } | Record::Updated { .. } | Record::Deleted { .. })
        )
    });
    of_rows.count() as u64
}

/// Where a walk ended.
pub(super) struct End {
    pub(super) segments: Vec<SegmentReader>,
    /// The segment in which writing continues, if any group or the first one belongs there.
    pub(super) segment: usize,
    pub(super) at: u64,
    pub(super) chain: Chain,
    pub(super) transactions: u64,
    pub(super) time_us: u64,
    pub(super) passed: Vec<Passed>,
    pub(super) newest_epoch: u32,
    pub(super) doubtful: VecDeque<Doubtful>,
}

impl End {
    /// Where the remains of groups behind the end stop, if there are any that are known not to be
    /// of an earlier use.
    pub(super) fn leftovers_end(&mut self) -> Result<Option<u64>, LogFailure> {
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
            time_us: 0,
            passed: Vec::new(),
            pending: None,
            broken: Broken::default(),
            newest_epoch: 0,
            doubtful: VecDeque::new(),
            has_jumped: false,
        }
    }

    /// Replays the chain up to its end.
    pub(super) fn run(&mut self) -> Result<(), LogFailure> {
        self.find_start()?;
        loop {
            while self.step()? {}
            if !self.enter_next_segment()? && !self.jump()? {
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
    /// and does not continue records that began before. That group is the log's: what an earlier
    /// recovery cut off was wiped from the segments' beginnings.
    fn find_start(&mut self) -> Result<(), LogFailure> {
        let start = self.options.first;
        if let Some(salt) = start.salt
            && let Some(other) = self.segments.iter().find(|found| found.header.salt != salt)
        {
            return Err(start.other_database(other.name()));
        }
        if start.group <= 1 {
            return Ok(());
        }
        let (mut oldest, mut remains) = (None, None);
        for (position, segment) in self.segments.iter_mut().enumerate().rev() {
            let first = segment.first_group()?.map(|placed| placed.group);
            let Some(group) = first else {
                // The newest segment that might be the start, if its first group is not intact.
                let left = segment.begins_with()?.filter(|&number| number <= start.group);
                remains = remains.or(left.map(|number| (number, segment.name().to_owned())));
                continue;
            };
            if group.number <= start.group && !group.continues {
                self.segment = position;
                self.chain = Chain { number: group.number, previous: None, epoch: group.epoch };
                return Ok(());
            }
            oldest = Some((group.number, segment.name().to_owned()));
        }
        match (remains, oldest) {
            _ if start.checksum.is_none() => Ok(()),
            _ if self.jump()? => Ok(()),
            (Some((number, file)), _) => Err(start.is_damaged(number, file)),
            (None, Some((number, file))) => Err(start.is_gone(number, file)),
            (None, None) => Ok(()),
        }
    }

    /// Goes to the group an image was made behind, if no way leads there: what lies before it is not
    /// needed, and its checksum says that it is the right one. (Where its records began in another
    /// segment, the way there is needed.)
    fn jump(&mut self) -> Result<bool, LogFailure> {
        let start = self.options.first;
        let Some(checksum) = start.checksum.filter(|_| !self.has_jumped) else { return Ok(false) };
        if self.chain.number > start.group {
            return Ok(false);
        }
        self.has_jumped = true;
        let found = find_run(&mut self.segments, start.group, checksum)?;
        let Some((segment, group, _)) = found else { return Ok(false) };
        (self.segment, self.at, self.chain) = (segment, group.offset, Chain::of(&group));
        (self.transactions, self.progress.groups, self.pending) = (0, 0, None);
        self.passed.clear();
        self.doubtful.clear();
        Ok(true)
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
                if let Err(refused) = self.replay.replay(group.number, records) {
                    return Err(self.unfit(refused));
                }
                let before = self.chain.previous.map_or(group.transactions, |_| self.transactions);
                self.progress.transactions += group.transactions - before;
            }
            self.transactions = group.transactions;
        }
        self.progress.groups += 1;
        self.time_us = if group.time_us > 0 { group.time_us } else { self.time_us };
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
        let completed = self.replay.complete();
        completed.map_err(|refused| self.unfit(refused))
    }

    /// An intact group that cannot be replayed, with its place: it was passed, or is at hand.
    #[cold]
    fn unfit(&mut self, (group, what): Refused) -> LogFailure {
        let passed = self.passed.iter().find(|passed| passed.last >= group);
        let segment = passed.map_or(self.segment, |passed| passed.segment);
        let mut place = (String::new(), self.at);
        if let Some(reader) = self.segments.get_mut(segment) {
            place.0 = reader.name().to_owned();
            let visit = |found: &Group| {
                if found.number == group {
                    place.1 = found.offset;
                }
            };
            // A segment that cannot be read again is named all the same.
            let _ = reader.scan(FIRST_GROUP_OFFSET, visit);
        }
        let (file, offset) = place;
        LogFailure::Replay { file, offset, group, what }
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
            return damage
                .or(late)
                .map_or(Ok(None), |nothing_left| Err(nothing_left.irreparable()));
        };
        let (file, offset) = (reader.name().to_owned(), self.at);
        let torn_bytes = behind.bytes.max(reader.torn_bytes(offset, self.chain.epoch)?);
        let lost = behind.lost(missing, self.transactions);
        let what = match &behind.vouching {
            _ if plant::is(Plant::DamageTakenForTail) => None,
            Some((file, group)) => Some(format!(
                "it is missing or damaged, but group {} in {file} at offset {} says that it was \
                 durable; {lost} would be lost",
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
        match &here {
            // What would be lost with it is needed.
            Some(here) if is_late => return Err(here.clone().irreparable()),
            Some(here) if !self.options.accept_loss => return Err(here.clone()),
            _ => {}
        }
        let damage = here.or(damage);
        if torn_bytes == 0 && damage.is_none() {
            return Ok(None);
        }
        let lost = if damage.is_some() { lost } else { Lost::default() };
        let (group, kept) = (missing, Vec::new());
        Ok(Some(Cut { file, offset, group, torn_bytes, damage, lost, kept }))
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
            let is_of_rows = reader.header.kind == LogKind::Value;
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
                if is_of_rows && !group.more && !group.continues {
                    behind.row_changes += row_changes(reader.records(&group)?);
                }
                if group.watermark >= missing && behind.vouching.is_none() {
                    behind.vouching = Some((reader.name().to_owned(), group));
                }
            }
        }
        Ok(behind)
    }

    pub(super) fn end(self) -> End {
        let Self { segments, segment, at, chain, transactions, time_us, passed, .. } = self;
        let (newest_epoch, doubtful) = (self.newest_epoch, self.doubtful);
        End { segments, segment, at, chain, transactions, time_us, passed, newest_epoch, doubtful }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::super::directory::Directory;
    use super::super::tests::{SETTINGS, create};
    use super::*;
    use crate::disk::MemDisk;

    /// A group is in doubt unless a later one says that it was durable: the newest of those is not, and
    /// the one behind it is.
    #[test]
    fn groups_behind_the_newest_watermark_are_in_doubt() {
        let disk = MemDisk::new();
        let mut writer = create(&disk);
        let mut append = || writer.append_group(&[b"records"], 1, None).unwrap();
        append();
        append();
        append();
        let durable = writer.sync().unwrap();
        let mut append = || writer.append_group(&[b"records"], 1, None).unwrap();
        let later = [append(), append(), append()];
        assert_eq!((durable, later), (4, [5, 6, 7]));
        drop(writer);
        let segments = Directory::read(&disk, false, &SETTINGS).unwrap().segments;
        let (mut replay, mut report) = (|_, _: &[u8]| Ok(()), |_| ());
        let mut walk = Walk::new(segments, RecoverOptions::default(), &mut replay, &mut report);
        walk.run().unwrap();
        let doubtful: Vec<_> = walk.end().doubtful.iter().map(|group| group.number).collect();
        assert_eq!(doubtful, later);
    }
}
