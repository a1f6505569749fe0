//! The iterator over a log's groups, for every reader of the log: recovery and inspection (`walk.rs`), readers of
//! a log that is being written (`follow.rs`), backups (`copy.rs`), the archive and its parts (`archive/`); and the
//! search for the first group.
//!
//! The *chain* determines which groups in place (`reader.rs`) are the log: numbers ascend by one, each group
//! contains its predecessor's checksum, and epochs never fall and rise only where an epoch begins. The meaning of a
//! place without the chain's next group depends on the reader ([`AtGap`]).
//!
//! Not here: the reason why a chain ends, the use of the records. Invariants: nothing is written; unless
//! gaps are skipped, every group that [`Groups::next`] returns continues the chain.

use super::group::Group;
use super::reader::{Placed, SegmentReader};
use super::segment::FIRST_GROUP_OFFSET;
use super::settings::{GroupNumber, LogFailure};
use super::start::{LogPosition, LogStart};
use crate::disk::DiskError;
use crate::plant::{self, Plant};

/// The required properties of the next group of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// Its number.
    pub(super) number: GroupNumber,
    /// Its predecessor's checksum; `None` if unknown.
    pub(super) previous: Option<u32>,
    /// Its predecessor's epoch.
    pub(super) epoch: u32,
}

impl Chain {
    /// The chain that continues with `group`, regardless of its predecessor.
    pub(super) fn of(group: &Group) -> Self {
        Self { number: group.number, previous: None, epoch: group.epoch }
    }

    /// The chain after a group.
    pub(super) fn behind(Placed { group, checksum }: &Placed) -> Self {
        Self { number: group.number + 1, previous: Some(*checksum), epoch: group.epoch }
    }

    /// Whether `group` is the next of the log.
    pub(super) fn continues(&self, group: &Group) -> bool {
        if group.number != self.number {
            return false;
        }
        if plant::is(Plant::StaleEpochAccepted) && group.epoch < self.epoch {
            return true;
        }
        let is_chained = self.previous.is_none_or(|previous| previous == group.previous);
        let rises = group.starts_epoch && group.epoch > self.epoch;
        is_chained && (group.epoch == self.epoch || rises || self.previous.is_none())
    }
}

/// The behaviour at a place without the chain's next group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtGap {
    /// The log ends, as far as this reader knows.
    Stop,
    /// The caller knows that the group is durable: its absence is damage.
    Refuse,
    /// The next group in place after it in the segment is returned, regardless of the chain.
    Skip,
}

/// The place where the next group is expected, and its properties.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The index of the segment.
    pub(super) segment: usize,
    pub(super) at: u64,
    pub(super) chain: Chain,
}

impl Place {
    /// The place of `group`, regardless of its predecessor.
    pub(super) fn of(segment: usize, group: &Group) -> Self {
        Self { segment, at: group.offset, chain: Chain::of(group) }
    }
}

/// Segments that a search for the first group skipped.
#[derive(Debug, Default)]
pub(super) struct PassedOver {
    /// The first group's number of the newest segment that might be the beginning, if that group is not
    /// intact; and its file.
    remains: Option<(GroupNumber, String)>,
    /// The first group of the oldest segment, if it is newer than the needed one, and its file.
    oldest: Option<(GroupNumber, String)>,
}

impl PassedOver {
    /// The reason why the log does not contain `start`, as far as the segments show.
    pub(super) fn failure(self, start: &LogStart) -> Option<LogFailure> {
        match (self.remains, self.oldest) {
            (Some((number, file)), _) => Some(start.is_damaged(number, file)),
            (None, Some((number, file))) => Some(start.is_gone(number, file)),
            (None, None) => None,
        }
    }
}

/// A group that was found without following the chain.
#[derive(Debug)]
pub(super) struct InPlace {
    pub(super) segment: usize,
    /// The first group of the run that it ends, if that is in the same segment.
    pub(super) run: Option<Group>,
    pub(super) placed: Placed,
}

/// An iterator over the groups of a log, from a place on.
#[derive(Debug)]
pub(super) struct Groups {
    /// In the order of their sequence numbers.
    pub(super) segments: Vec<SegmentReader>,
    /// The place where the next group is expected; the segment is that of the last returned group.
    pub(super) place: Place,
}

impl Groups {
    /// From the log's first group on.
    pub(super) fn new(segments: Vec<SegmentReader>) -> Self {
        let chain = Chain { number: 1, previous: Some(0), epoch: 0 };
        Self { segments, place: Place { segment: 0, at: FIRST_GROUP_OFFSET, chain } }
    }

    /// Returns the next group and moves the place after it. If the current segment does not continue the chain,
    /// the first group of a later segment may: segments in between were prepared by an earlier process and never
    /// used.
    ///
    /// # Errors
    /// `Disk`; `Damaged` if a gap is refused.
    pub(super) fn next(&mut self, at_gap: AtGap) -> Result<Option<Placed>, LogFailure> {
        let found = match at_gap {
            AtGap::Skip => self.next_in_place()?,
            AtGap::Stop | AtGap::Refuse => self.next_of_chain()?,
        };
        if let Some(placed) = &found {
            self.place.at = self.reader().behind(&placed.group);
            self.place.chain = Chain::behind(placed);
        } else if at_gap == AtGap::Refuse {
            return Err(self.is_missing());
        }
        Ok(found)
    }

    fn next_of_chain(&mut self) -> Result<Option<Placed>, DiskError> {
        let Place { segment: here, at, chain } = self.place;
        let is_next = |placed: &Placed| chain.continues(&placed.group);
        let Some(reader) = self.segments.get_mut(here) else { return Ok(None) };
        if let Some(placed) = reader.group(at)?.filter(is_next) {
            return Ok(Some(placed));
        }
        for segment in here + 1..self.segments.len() {
            if let Some(placed) = self.segments[segment].first_group()?.filter(is_next) {
                self.segments[here..segment].iter_mut().for_each(SegmentReader::forget);
                self.place.segment = segment;
                return Ok(Some(placed));
            }
        }
        Ok(None)
    }

    fn next_in_place(&mut self) -> Result<Option<Placed>, DiskError> {
        let Some(reader) = self.segments.get_mut(self.place.segment) else { return Ok(None) };
        while !reader.ends_at(self.place.at) {
            if let Some(placed) = reader.group(self.place.at)? {
                return Ok(Some(placed));
            }
            self.place.at += reader.header.block_bytes;
        }
        Ok(None)
    }

    /// The segment of the last returned group.
    pub(super) fn reader(&mut self) -> &mut SegmentReader {
        &mut self.segments[self.place.segment]
    }

    /// Frees the memory with the content of segments, because a segment in use may be partly overwritten before
    /// more of it is read.
    pub(super) fn forget(&mut self) {
        self.segments.iter_mut().for_each(SegmentReader::forget);
    }

    /// Goes to the first group of the newest segment in which a group begins that is not newer than `newest` and, with
    /// `whole`, does not continue earlier records. The first group belongs to the log, because groups that an earlier
    /// recovery cut off were wiped from the segments' beginnings. The inner error: there is no such segment.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn go_to_segment(
        &mut self,
        newest: GroupNumber,
        whole: bool,
    ) -> Result<Result<(), PassedOver>, DiskError> {
        let mut over = PassedOver::default();
        for (segment, reader) in self.segments.iter_mut().enumerate().rev() {
            match reader.first_group()? {
                Some(first) => {
                    let begins = if whole { reader.run_from(first)? } else { Some(first) };
                    if begins.is_some_and(|begins| begins.group.number <= newest) {
                        self.place = Place::of(segment, &first.group);
                        return Ok(Ok(()));
                    }
                    over.oldest = Some((first.group.number, reader.name().to_owned()));
                }
                None => {
                    let left = reader.begins_with()?.filter(|&number| number <= newest);
                    let remains = left.map(|number| (number, reader.name().to_owned()));
                    over.remains = over.remains.or(remains);
                }
            }
        }
        Ok(Err(over))
    }

    /// Follows the chain to the place after the group with this number; returns that group and the place of the
    /// run that it ends, if the chain leads there and contains the whole run.
    ///
    /// # Errors
    /// `Disk`.
    pub(super) fn go_behind(
        &mut self,
        number: GroupNumber,
    ) -> Result<Option<(Option<Place>, Placed)>, LogFailure> {
        let mut run = None;
        loop {
            let chain = self.place.chain;
            let Some(placed) = self.next(AtGap::Stop)? else { return Ok(None) };
            if !placed.group.continues {
                run = Some(Place { chain, ..Place::of(self.place.segment, &placed.group) });
            }
            if placed.group.number >= number {
                return Ok(Some((run, placed)));
            }
        }
    }

    /// Goes directly to the beginning of the run that ends with the group of this number and checksum, or to the
    /// place after that group. No earlier group is needed, and the checksum identifies it. If there is no such
    /// group, the place does not change.
    ///
    /// # Errors
    /// `Disk`.
    pub(super) fn jump(
        &mut self,
        LogPosition { group, checksum, .. }: LogPosition,
        behind: bool,
    ) -> Result<bool, LogFailure> {
        let Some(InPlace { segment, run, placed }) = self.find_in_place(group, checksum)? else {
            return Ok(false);
        };
        self.place = match run {
            _ if behind => {
                let at = self.segments[segment].behind(&placed.group);
                Place { segment, at, chain: Chain::behind(&placed) }
            }
            Some(run) => Place::of(segment, &run),
            None => return Ok(false),
        };
        Ok(true)
    }

    /// The group of this number and checksum in the newest segment that contains it, regardless of the chain. The
    /// place does not change.
    ///
    /// # Errors
    /// `Disk`.
    pub(super) fn find_in_place(
        &mut self,
        number: GroupNumber,
        checksum: u32,
    ) -> Result<Option<InPlace>, LogFailure> {
        let place = self.place;
        for segment in (0..self.segments.len()).rev() {
            let first = self.segments[segment].first_group()?;
            if first.is_none_or(|first| first.group.number <= number) {
                self.place = Place { segment, at: FIRST_GROUP_OFFSET, ..place };
                let mut run = None;
                while let Some(placed) = self.next(AtGap::Skip)? {
                    run = if placed.group.continues { run } else { Some(placed.group) };
                    if (placed.group.number, placed.checksum) == (number, checksum) {
                        self.place = place;
                        return Ok(Some(InPlace { segment, run, placed }));
                    }
                }
            }
            self.segments[segment].forget();
        }
        self.place = place;
        Ok(None)
    }

    /// The failure that the chain's next group, which is durable, is missing.
    pub(super) fn is_missing(&self) -> LogFailure {
        let Place { segment, at: offset, chain } = self.place;
        let file = self.segments.get(segment).map_or(".", |reader| reader.name()).to_owned();
        let what = "a durable group is missing".to_owned();
        LogFailure::Damaged { file, offset, group: chain.number, what }
    }
}
