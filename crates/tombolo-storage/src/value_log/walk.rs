//! Walks along a log's chain of groups, replaying it, and determines why the chain ends.
//!
//! The end is damage if a later group records that the missing group was durable; otherwise it is the end of the log
//! or a torn tail (`recover.rs` explains why). Nothing is written here, so inspection reads a log in the
//! same way. Not here: cutting the log (`recover.rs`).

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

/// A walk along the chain.
pub(super) struct Walk<'a> {
    options: RecoverOptions,
    replay: &'a mut dyn Replay,
    report: &'a mut dyn FnMut(Progress),
    pub(super) end: End,
    /// Records that continue in the next group, and the place of their first group.
    pending: Option<Pending>,
    /// The expected place of the missing group. A cut may be before that.
    broken: Place,
    /// Whether the groups before the first needed one were skipped.
    has_jumped: bool,
}

/// The current position of a walk, or its end.
pub(super) struct End {
    /// The groups; their place is the one where writing continues.
    pub(super) groups: Groups,
    pub(super) progress: Progress,
    /// Transactions in all groups so far.
    pub(super) transactions: u64,
    /// The latest time of any of them, including those cut off again.
    pub(super) time_us: u64,
    /// The segments through which the chain passed, in order.
    pub(super) passed: Vec<Passed>,
    /// The newest epoch of any group in place.
    pub(super) newest_epoch: u32,
    /// The groups so far for which none so far vouches, in order.
    pub(super) doubtful: VecDeque<Doubtful>,
    /// The groups behind the last one that is to be replayed.
    pub(super) behind: Vec<Surplus>,
}

/// An intact group that is to be cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Surplus {
    pub(super) number: GroupNumber,
    pub(super) segment: usize,
    pub(super) at: u64,
}

/// A replayed group that may be only in the system's memory: after a failed sync a system
/// may mark pages clean that it could not write, so that another sync would succeed without writing
/// them.
#[derive(Clone, Copy)]
pub(super) struct Doubtful {
    number: GroupNumber,
    pub(super) segment: usize,
    pub(super) at: u64,
    /// Bytes up to the beginning of the next group.
    pub(super) bytes: usize,
}

/// A segment with groups of the chain.
#[derive(Clone, Copy)]
pub(super) struct Passed {
    pub(super) segment: usize,
    /// The newest group in it.
    pub(super) last: GroupNumber,
    /// The group that ends that group's records: in a later segment if they continue there.
    pub(super) run_ends: GroupNumber,
    /// Transactions up to the end of these records.
    pub(super) transactions: u64,
}

/// The first groups of a run, and the state to return to if the rest is missing.
struct Pending {
    records: Vec<u8>,
    place: Place,
    transactions: u64,
    passed: Vec<Passed>,
}

/// The groups in place after the end of the chain.
#[derive(Default)]
struct Behind {
    /// The first group that records the missing one as durable, with its file.
    vouching: Option<(String, Group)>,
    /// Bytes of all groups there.
    bytes: u64,
    /// The newest group that is present or recorded as durable.
    newest: GroupNumber,
    /// Transactions of the log up to the newest.
    transactions: u64,
    /// Row changes in groups that can be read separately.
    row_changes: u64,
}

impl Behind {
    /// Adds a group after the `missing` one.
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

    /// The loss if the log ends before group `missing`, with `transactions` transactions.
    fn lost(&self, missing: GroupNumber, transactions: u64) -> Lost {
        Lost {
            groups: (self.newest + 1).saturating_sub(missing),
            transactions: self.transactions.saturating_sub(transactions),
            row_changes: self.row_changes,
        }
    }
}

/// The number of row records in `transactions`; fewer, if not all can be read.
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
    /// Counts a replayed group, the chain's newest, which takes `bytes` bytes, and whose records began in this segment.
    fn pass(&mut self, group: &Group, bytes: u64, begun_in: usize) {
        self.progress.groups += 1;
        self.progress.bytes += bytes;
        self.time_us = if group.time_us > 0 { group.time_us } else { self.time_us };
        let segment = self.groups.place.segment;
        let (number, at, bytes) = (group.number, group.offset, bytes as usize);
        self.doubtful.push_back(Doubtful { number, segment, at, bytes });
        while self.doubtful.front().is_some_and(|first| first.number <= group.watermark) {
            self.doubtful.pop_front();
        }
        let Group { number: last, transactions, .. } = *group;
        let passed = Passed { segment, last, run_ends: last, transactions };
        match self.passed.last_mut() {
            Some(last) if last.segment == segment => *last = passed,
            _ => self.passed.push(passed),
        }
        // The records may have begun in an earlier segment.
        let of_run = self.passed.iter_mut().rev().take_while(|passed| passed.segment >= begun_in);
        for passed in of_run {
            (passed.run_ends, passed.transactions) = (last, transactions);
        }
    }

    /// The end of the remains of groups after the end, if there are any that are known not to be
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
            behind: Vec::new(),
        };
        Self { options, replay, report, end, pending: None, broken, has_jumped: false }
    }

    /// Replays the chain up to its end.
    pub(super) fn run(&mut self) -> Result<(), LogFailure> {
        self.find_start()?;
        while self.step()? || self.jump()? {}
        self.broken = self.find_broken()?;
        if let Some(pending) = self.pending.take() {
            // A run counts as a whole or not at all.
            self.end.groups.place = pending.place;
            self.end.transactions = pending.transactions;
            self.end.passed = pending.passed;
            self.end.doubtful.retain(|group| group.number < pending.place.chain.number);
        }
        (self.report)(self.end.progress);
        Ok(())
    }

    /// Starts with the newest segment from which replaying may begin.
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

    /// Goes directly to the group as of which an image is complete, if the chain does not lead there. (If its
    /// records began in another segment, the chain is needed.)
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

    /// Whether the chain was followed as far as it is to be.
    fn is_at_last(&self) -> bool {
        self.options.last.is_some_and(|last| self.end.groups.place.chain.number > last)
    }

    /// Replays the chain's next group, if it is present.
    fn step(&mut self) -> Result<bool, LogFailure> {
        let (start, chain) = (self.options.first, self.end.groups.place.chain);
        if self.is_at_last() {
            return Ok(false);
        }
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
        let begun_in = self.pending.as_ref().map_or(segment, |pending| pending.place.segment);
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
        self.end.pass(&group, bytes, begun_in);
        let progress = self.end.progress;
        if progress.bytes >> 24 != (progress.bytes - bytes) >> 24 {
            (self.report)(progress);
        }
        Ok(true)
    }

    /// The expected place of the chain's next group: the beginning of a later segment with remains of
    /// it, otherwise after the last group.
    fn find_broken(&mut self) -> Result<Place, LogFailure> {
        let Groups { segments, place } = &mut self.end.groups;
        for (segment, reader) in segments.iter_mut().enumerate().skip(place.segment + 1) {
            if reader.begins_with()? == Some(place.chain.number) {
                return Ok(Place { segment, at: FIRST_GROUP_OFFSET, ..*place });
            }
        }
        Ok(*place)
    }

    /// Completes the replay.
    pub(super) fn complete(&mut self) -> Result<(), LogFailure> {
        let completed = self.replay.complete();
        completed.map_err(|refused| self.unfit(refused))
    }

    /// The failure of an intact group that cannot be replayed, with its place: an earlier one or the current one.
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

    /// Determines why the chain ends: `None` if there is nothing after it. `damage` was accepted before.
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
            // What follows is to be cut off, whatever it says.
            _ if self.is_at_last() && !is_late => None,
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
            // The loss would include needed groups.
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

    /// Looks for groups in place after the end of the chain that are not older than it.
    fn look_behind(&mut self) -> Result<Behind, LogFailure> {
        let is_at_last = self.is_at_last();
        let End { groups, passed, newest_epoch, behind: surplus, .. } = &mut self.end;
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
                    if is_at_last {
                        let (number, at) = (group.number, group.offset);
                        surplus.push(Surplus { number, segment, at });
                    }
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
