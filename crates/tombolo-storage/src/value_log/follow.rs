//! `LogReader`: reads groups back while the log is written, for callers that could not take them when
//! they were written.
//!
//! A checkpoint that falls behind does not keep what it has not installed: it knows up to which group
//! the log is durable, and reads it here (TPK-17). Recovery's walk (`recover.rs`) asks why a log ends;
//! here the end is known beforehand, and what does not lead to it is damage.
//!
//! Not here: what records mean, waiting. Invariants: a group is given only if the caller said that
//! it is durable; groups are given once, in order, runs of them whole; nothing is written.

use super::directory::Directory;
use super::group::Group;
use super::reader::{Chain, SegmentReader, find_run};
use super::segment::FIRST_GROUP_OFFSET;
use super::settings::{GroupNumber, LogFailure, LogSettings};
use super::start::LogPosition;
use crate::disk::Disk;
use crate::sync::Arc;

/// What is done with the records of a run of groups that ends at a position.
pub type Visit<'a, E> = dyn FnMut(LogPosition, &[u8]) -> Result<(), E> + 'a;

/// Reads a log while it is written. See the module's head.
#[derive(Debug)]
pub struct LogReader {
    disk: Arc<dyn Disk>,
    settings: LogSettings,
    way: Option<Way>,
    /// A position whose group is given once more.
    again: Option<LogPosition>,
}

/// Where the next group is looked for.
#[derive(Debug)]
pub(super) struct Way {
    /// In the order of their sequence numbers, as they were when the directory was read.
    segments: Vec<SegmentReader>,
    segment: usize,
    at: u64,
    /// What the next group has to say.
    pub(super) chain: Chain,
    /// Where what was given ends.
    position: LogPosition,
    /// Whether its group is still to be given once more.
    is_again: bool,
}

impl LogReader {
    /// Of the log that is written on `disk` with these settings, by this process or another one.
    pub fn new(disk: Arc<dyn Disk>, settings: LogSettings) -> Self {
        Self { disk, settings, way: None, again: None }
    }

    /// What the log is written with.
    pub fn settings(&self) -> LogSettings {
        self.settings
    }

    /// The next read from `position` gives that group once more, as a recovery from there does: for
    /// a caller that continues an image that is complete as of it.
    pub fn again(&mut self, position: LogPosition) {
        (self.way, self.again) = (None, (position.group > 0).then_some(position));
    }

    /// Gives the records of all groups behind `from` up to `to`, or fewer: it stops when it has given
    /// `bytes_max` bytes or more. Both are ends of what was written together; `to` is durable, and no
    /// group behind `from` was released. Says how far it is.
    ///
    /// # Errors
    /// `Disk`; `Damaged` when the log does not lead from one to the other; what `visit` says.
    pub fn read<E: From<LogFailure>>(
        &mut self,
        from: LogPosition,
        to: GroupNumber,
        bytes_max: usize,
        visit: &mut Visit<'_, E>,
    ) -> Result<LogPosition, E> {
        let mut way = match self.way.take() {
            Some(way) if way.position == from => way,
            _ => {
                let is_again = self.again.take() == Some(from);
                self.find_from(from, is_again)?
            }
        };
        let (mut run, mut given, mut looked_again) = (Vec::new(), 0, false);
        while way.position.group < to && given < bytes_max {
            let Some(next) = way.next_group()? else {
                if looked_again {
                    return Err(way.is_missing().into());
                }
                // It continues in a segment that was not there yet, or not in use.
                (way, looked_again) = (self.find_from(way.position, way.is_again)?, true);
                run.clear();
                continue;
            };
            let before = (way.position, way.is_again);
            given += way.give(next, &mut run, visit)?;
            looked_again &= (way.position, way.is_again) == before;
        }
        way.rest();
        let position = way.position;
        self.way = Some(way);
        Ok(position)
    }

    /// The way behind the group at `position`.
    ///
    /// # Errors
    /// `Disk`; `Damaged` when that group is not in the log, nor the beginning of a segment behind it.
    pub(super) fn find(&self, position: LogPosition) -> Result<Way, LogFailure> {
        self.find_from(position, false)
    }

    /// The same, or where the run begins that ends there, if it is to be given again. Damage on the way
    /// there does no harm: number and checksum say which group it is.
    fn find_from(&self, position: LogPosition, is_again: bool) -> Result<Way, LogFailure> {
        let mut lost = None;
        if let Some(mut way) = self.begin(position, is_again)? {
            if way.go_to(position, is_again)? {
                return Ok(way);
            }
            lost = Some(way.is_missing());
        }
        if let Some(way) = self.in_place(position, is_again)? {
            return Ok(way);
        }
        Err(lost.unwrap_or_else(|| {
            let group = position.group + u64::from(!is_again);
            let what = "no segment begins before it".to_owned();
            LogFailure::Damaged { file: ".".to_owned(), offset: 0, group, what }
        }))
    }

    /// The beginning of the newest segment whose first group is not newer than the one behind
    /// `position`; or, if the group at `position` is to be given again, not newer than that one and
    /// without records that began in an older group.
    pub(super) fn begin(
        &self,
        position: LogPosition,
        is_again: bool,
    ) -> Result<Option<Way>, LogFailure> {
        let mut segments = self.segments()?;
        let newest = position.group + u64::from(!is_again);
        for (segment, reader) in segments.iter_mut().enumerate().rev() {
            let Some(group) = reader.first_group()?.map(|placed| placed.group) else {
                reader.forget();
                continue;
            };
            if group.number <= newest && !(is_again && group.continues) {
                let is_next = group.number == position.group + 1;
                let previous = is_next.then_some(position.checksum);
                let chain = Chain { number: group.number, previous, epoch: group.epoch };
                let at = FIRST_GROUP_OFFSET;
                return Ok(Some(Way { segments, segment, at, chain, position, is_again }));
            }
        }
        Ok(None)
    }

    /// The way from the group at `position`, which is looked for in every segment, whatever lies before.
    fn in_place(&self, position: LogPosition, is_again: bool) -> Result<Option<Way>, LogFailure> {
        let LogPosition { group: number, checksum, .. } = position;
        let mut segments = self.segments()?;
        let Some((segment, run, group)) = find_run(&mut segments, number, checksum)? else {
            return Ok(None);
        };
        let (at, chain) = match is_again {
            true => (run.offset, Chain::of(&run)),
            false => (segments[segment].behind(&group), Chain::behind(&group, checksum)),
        };
        Ok(Some(Way { segments, segment, at, chain, position, is_again }))
    }

    fn segments(&self) -> Result<Vec<SegmentReader>, LogFailure> {
        // A segment that cannot be read is being made in this moment, or its lack is noticed later.
        Ok(Directory::read(&*self.disk, true, &self.settings)?.segments)
    }
}

impl Way {
    /// Goes behind the group at `position`, or to where the run begins that ends there, if it is to be
    /// given again; says whether the chain leads there.
    fn go_to(&mut self, position: LogPosition, is_again: bool) -> Result<bool, LogFailure> {
        let mut run = None;
        while self.chain.number <= position.group {
            let chain = self.chain;
            let Some((group, checksum)) = self.next_group()? else { return Ok(false) };
            if !group.continues {
                run = Some((self.segment, self.at, chain));
            }
            if group.number == position.group {
                if checksum != position.checksum {
                    return Ok(false);
                }
                if is_again {
                    let Some(run) = run else { return Ok(false) };
                    (self.segment, self.at, self.chain) = run;
                    return Ok(true);
                }
            }
            self.pass(&group, checksum);
        }
        Ok(true)
    }

    /// The chain's next group and its checksum, if it is in the segments that are known.
    pub(super) fn next_group(&mut self) -> Result<Option<(Group, u32)>, LogFailure> {
        let here = self.segments[self.segment].group(self.at)?;
        let here = here.map(|placed| (placed.group, placed.checksum));
        if let Some(next) = here.filter(|(group, _)| self.chain.continues(group)) {
            return Ok(Some(next));
        }
        self.segments[self.segment].forget();
        for segment in self.segment + 1..self.segments.len() {
            let first = self.segments[segment].first_group()?;
            let first = first.map(|placed| (placed.group, placed.checksum));
            if let Some(next) = first.filter(|(group, _)| self.chain.continues(group)) {
                (self.segment, self.at) = (segment, FIRST_GROUP_OFFSET);
                return Ok(Some(next));
            }
            self.segments[segment].forget();
        }
        Ok(None)
    }

    /// Goes behind `group`, the one at the place at hand, and gives the records of its run if it is the
    /// last of that. Says how many bytes were given.
    fn give<E: From<LogFailure>>(
        &mut self,
        (group, checksum): (Group, u32),
        run: &mut Vec<u8>,
        visit: &mut Visit<'_, E>,
    ) -> Result<usize, E> {
        let records = self.segments[self.segment].records(&group).map_err(LogFailure::from)?;
        let mut given = 0;
        if group.more || !run.is_empty() {
            run.extend_from_slice(records);
        }
        if !group.more {
            let Group { number, transactions, .. } = group;
            let position = LogPosition { group: number, checksum, transactions };
            let records: &[u8] = if run.is_empty() { records } else { &*run };
            visit(position, records)?;
            given = records.len();
            run.clear();
            (self.position, self.is_again) = (position, false);
        }
        self.pass(&group, checksum);
        Ok(given)
    }

    /// Goes behind `group`, which is the next one.
    pub(super) fn pass(&mut self, group: &Group, checksum: u32) {
        self.at = self.segments[self.segment].behind(group);
        self.chain = Chain::behind(group, checksum);
    }

    /// The segment of the group that was found last.
    pub(super) fn reader(&mut self) -> &mut SegmentReader {
        &mut self.segments[self.segment]
    }

    /// Nothing more is read for a while: what is in memory of segments in use will be written over in part
    /// when more is asked for.
    pub(super) fn rest(&mut self) {
        self.segments.iter_mut().for_each(SegmentReader::forget);
    }

    /// That the log does not lead where it was said to.
    pub(super) fn is_missing(&self) -> LogFailure {
        let what = "a group that was written is not there".to_owned();
        let (file, group) = (self.segments[self.segment].name().to_owned(), self.chain.number);
        LogFailure::Damaged { file, offset: self.at, group, what }
    }
}
