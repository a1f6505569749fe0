//! The way along a log's chain of groups: from its start to the place where it ends, replaying, and why
//! it ends there.
//!
//! A place is damage if a later group knew what is missing to be durable, else the end or a torn tail
//! (`recover.rs` explains why). Nothing is written here, so a log that is only looked at is read the
//! same way. Not here: what becomes of the end (`recover.rs`).

use std::collections::VecDeque;

use super::group::Group;
use super::groups::{AtGap, Groups, Place};
use super::reader::{Placed, SegmentReader};
use super::record::{Record, Transactions};
use super::recover::{Cut, Lost, Progress, Refused, Replay};
use super::segment::{FIRST_GROUP_OFFSET, file_name};
use super::settings::{GroupNumber, LogFailure, LogKind};
use super::start::RecoverOptions;
use crate::plant::{self, Plant};

/// The way along the chain.
pub(super) struct Walk<'a> {
    options: RecoverOptions,
    replay: &'a mut dyn Replay,
    report: &'a mut dyn FnMut(Progress),
    pub(super) end: End,
    /// Records that continue in the next group, and where their first group lies.
    pending: Option<Pending>,
    /// Where the group should be that the chain ends before. A cut may be before that.
    broken: Place,
    /// Whether the groups before the first one that is needed were skipped.
    has_jumped: bool,
}

/// How far a walk is, or where it ended.
pub(super) struct End {
    /// The place is where writing continues, if any group or the first one belongs there.
    pub(super) groups: Groups,
    pub(super) progress: Progress,
    /// Transactions in all groups so far.
    pub(super) transactions: u64,
    /// The latest time of any of them; those that are cut off again count, too.
    pub(super) time_us: u64,
    /// The segments the chain passed through, in that order.
    pub(super) passed: Vec<Passed>,
    /// The newest epoch of any group in place.
    pub(super) newest_epoch: u32,
    /// Of the groups so far, those that none so far says are durable, in their order.
    pub(super) doubtful: VecDeque<Doubtful>,
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
    /// Transactions up to it.
    pub(super) transactions: u64,
}

/// The first groups of a run, and the state to go back to if the rest is not there.
struct Pending {
    records: Vec<u8>,
    place: Place,
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
    /// Adds a group that is there, behind the `missing` one.
    fn add(
        &mut self,
        group: &Group,
        missing: GroupNumber,
        reader: &mut SegmentReader,
    ) -> Result<(), LogFailure> {
        self.bytes += reader.behind(group) - group.offset;
        self.newest = self.newest.max(group.number).max(group.watermark);
        if reader.header.kind != LogKind::Paged {
            self.transactions = self.transactions.max(group.transactions);
        }
        if reader.header.kind == LogKind::Value && !group.more && !group.continues {
            self.row_changes += row_changes(reader.records(group)?);
        }
        if group.watermark >= missing && self.vouching.is_none() {
            self.vouching = Some((reader.name().to_owned(), *group));
        }
        Ok(())
    }

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

impl End {
    /// Counts a group that was replayed, the chain's newest, whose place has so many bytes.
    fn pass(&mut self, group: &Group, bytes: u64) {
        self.progress.groups += 1;
        self.progress.bytes += bytes;
        self.time_us = if group.time_us > 0 { group.time_us } else { self.time_us };
        let segment = self.groups.place.segment;
        let (number, at, bytes) = (group.number, group.offset, bytes as usize);
        self.doubtful.push_back(Doubtful { number, segment, at, bytes });
        while self.doubtful.front().is_some_and(|first| first.number <= group.watermark) {
            self.doubtful.pop_front();
        }
        let Group { number: last, more: runs_on, transactions, .. } = *group;
        let passed = Passed { segment, last, runs_on, transactions };
        match self.passed.last_mut() {
            Some(last) if last.segment == segment => *last = passed,
            _ => self.passed.push(passed),
        }
    }

    /// Where the remains of groups behind the end stop, if there are any that are known not to be
    /// of an earlier use.
    pub(super) fn leftovers_end(&mut self) -> Result<Option<u64>, LogFailure> {
        let Place { segment, at, .. } = self.groups.place;
        match self.groups.segments.get_mut(segment) {
            Some(reader) if reader.header.uses == 1 && !reader.ends_at(at) => {
                let end = reader.blank_from(at)?;
                Ok((end > at).then_some(end))
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
        let groups = Groups::new(segments);
        let broken = groups.place;
        let end = End {
            groups,
            progress: Progress { bytes_max, ..Progress::default() },
            transactions: 0,
            time_us: 0,
            passed: Vec::new(),
            newest_epoch: 0,
            doubtful: VecDeque::new(),
        };
        Self { options, replay, report, end, pending: None, broken, has_jumped: false }
    }

    /// Replays the chain up to its end.
    pub(super) fn run(&mut self) -> Result<(), LogFailure> {
        self.find_start()?;
        while self.step()? || self.jump()? {}
        self.broken = self.find_broken()?;
        if let Some(pending) = self.pending.take() {
            // A run is there as a whole or not at all.
            self.end.groups.place = pending.place;
            self.end.transactions = pending.transactions;
            self.end.passed = pending.passed;
            self.end.doubtful.retain(|group| group.number < pending.place.chain.number);
        }
        (self.report)(self.end.progress);
        Ok(())
    }

    /// Begins with the newest segment from which replaying may begin.
    fn find_start(&mut self) -> Result<(), LogFailure> {
        let (start, groups) = (self.options.first, &mut self.end.groups);
        start.expect_salt(&groups.segments)?;
        if start.group <= 1 {
            return Ok(());
        }
        match groups.go_to_segment(start.group, true)? {
            Err(over) if start.checksum.is_some() && !self.jump()? => {
                over.failure(&start).map_or(Ok(()), Err)
            }
            _ => Ok(()),
        }
    }

    /// Goes to the group an image was made behind, if no way leads there. (Where its records began in another
    /// segment, the way there is needed.)
    fn jump(&mut self) -> Result<bool, LogFailure> {
        let start = self.options.first;
        let Some(position) = start.position().filter(|_| !self.has_jumped) else {
            return Ok(false);
        };
        if self.end.groups.place.chain.number > start.group {
            return Ok(false);
        }
        self.has_jumped = true;
        if !self.end.groups.jump(position, false)? {
            return Ok(false);
        }
        (self.end.transactions, self.end.progress.groups, self.pending) = (0, 0, None);
        self.end.passed.clear();
        self.end.doubtful.clear();
        Ok(true)
    }

    /// Replays the chain's next group, if it is there.
    fn step(&mut self) -> Result<bool, LogFailure> {
        let (start, chain) = (self.options.first, self.end.groups.place.chain);
        let Some(Placed { group, checksum }) = self.end.groups.next(AtGap::Stop)? else {
            return Ok(false);
        };
        let segment = self.end.groups.place.segment;
        let reader = self.end.groups.reader();
        start.expect(&group, checksum, reader.name())?;
        let bytes = reader.behind(&group) - group.offset;
        let records = reader.records(&group)?;
        if group.more || self.pending.is_some() {
            let pending = self.pending.get_or_insert_with(|| Pending {
                records: Vec::new(),
                place: Place { segment, at: group.offset, chain },
                transactions: self.end.transactions,
                passed: self.end.passed.clone(),
            });
            pending.records.extend_from_slice(records);
        }
        if !group.more {
            let run = self.pending.take();
            let records = run.as_ref().map_or(records, |run| &run.records);
            let is_late = plant::is(Plant::WrongRedoStart) && self.end.progress.groups < 2;
            if group.number >= start.group && !records.is_empty() && !is_late {
                self.replay.ends_at(group.transactions);
                if let Err(refused) = self.replay.replay(group.number, records) {
                    return Err(self.unfit(refused));
                }
                let before = chain.previous.map_or(group.transactions, |_| self.end.transactions);
                self.end.progress.transactions += group.transactions - before;
            }
            self.end.transactions = group.transactions;
        }
        self.end.pass(&group, bytes);
        let progress = self.end.progress;
        if progress.bytes >> 24 != (progress.bytes - bytes) >> 24 {
            (self.report)(progress);
        }
        Ok(true)
    }

    /// Where the chain's next group should be: where a later segment begins with what is left of
    /// it, else behind the last one.
    fn find_broken(&mut self) -> Result<Place, LogFailure> {
        let Groups { segments, place } = &mut self.end.groups;
        for (segment, reader) in segments.iter_mut().enumerate().skip(place.segment + 1) {
            if reader.begins_with()? == Some(place.chain.number) {
                return Ok(Place { segment, at: FIRST_GROUP_OFFSET, ..*place });
            }
        }
        Ok(*place)
    }

    /// Lets the replay come to its end.
    pub(super) fn complete(&mut self) -> Result<(), LogFailure> {
        let completed = self.replay.complete();
        completed.map_err(|refused| self.unfit(refused))
    }

    /// An intact group that cannot be replayed, with its place: it was passed, or is at hand.
    #[cold]
    fn unfit(&mut self, (group, what): Refused) -> LogFailure {
        let groups = &mut self.end.groups;
        let mut offset = groups.place.at;
        if let Some(passed) = self.end.passed.iter().find(|passed| passed.last >= group) {
            groups.place.segment = passed.segment;
        }
        let name = groups.segments.get(groups.place.segment).map(SegmentReader::name);
        let file = name.unwrap_or_default().to_owned();
        groups.place.at = FIRST_GROUP_OFFSET;
        // A segment that cannot be read again is named all the same.
        while let Ok(Some(placed)) = groups.next(AtGap::Skip) {
            offset = if placed.group.number == group { placed.group.offset } else { offset };
        }
        LogFailure::Replay { file, offset, group, what }
    }

    /// Says why the chain ends where it does: `None` if there is nothing behind it. `damage` is what
    /// was accepted before.
    pub(super) fn judge(&mut self, damage: Option<LogFailure>) -> Result<Option<Cut>, LogFailure> {
        let Place { segment, at: offset, chain } = self.end.groups.place;
        let missing = chain.number;
        let behind = self.look_behind()?;
        let start = self.options.first;
        let is_late = start.needed() >= missing;
        let Some(reader) = self.end.groups.segments.get_mut(segment) else {
            let file = file_name(1);
            let what = format!("no segment is left, but {}", start.need());
            let late =
                is_late.then_some(LogFailure::Damaged { file, offset: 0, group: missing, what });
            return damage
                .or(late)
                .map_or(Ok(None), |nothing_left| Err(nothing_left.irreparable()));
        };
        let file = reader.name().to_owned();
        let torn_bytes = behind.bytes.max(reader.torn_bytes(offset, chain.epoch)?);
        let lost = behind.lost(missing, self.end.transactions);
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
        let Place { segment, at, chain } = self.broken;
        let here = what.map(|what| {
            let file = self.end.groups.segments[segment].name().to_owned();
            LogFailure::Damaged { file, offset: at, group: chain.number, what }
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
        let End { groups, passed, newest_epoch, .. } = &mut self.end;
        let end = groups.place;
        let (missing, epoch) = (end.chain.number, end.chain.epoch);
        *newest_epoch = epoch;
        let mut behind = Behind::default();
        for segment in 0..groups.segments.len() {
            groups.place = if segment == end.segment {
                end
            } else if passed.iter().any(|passed| passed.segment == segment) {
                continue;
            } else {
                Place { segment, at: FIRST_GROUP_OFFSET, ..end }
            };
            while let Some(Placed { group, .. }) = groups.next(AtGap::Skip)? {
                *newest_epoch = group.epoch.max(*newest_epoch);
                if group.epoch >= epoch && group.number >= missing {
                    behind.add(&group, missing, groups.reader())?;
                }
            }
        }
        groups.place = end;
        Ok(behind)
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
        let doubtful: Vec<_> = walk.end.doubtful.iter().map(|group| group.number).collect();
        assert_eq!(doubtful, later);
    }
}
