//! The iterator over a log's groups, for every reader of the log: recovery and inspection (`walk.rs`), readers of
//! a log that is being written (`follow.rs`), backups (`copy.rs`), the archive and its parts (`archive/`); and the
//! search for the place to begin at.
//!
//! Which groups in place (`reader.rs`) are the log is a matter of the *chain*: numbers that ascend by one, each
//! naming its predecessor's checksum, epochs that never fall and rise only where an epoch begins. What a place
//! without the chain's next group means depends on the reader ([`AtGap`]).
//!
//! Not here: why a chain ends, and what is done with the records. Invariants: nothing is written; unless
//! gaps are skipped, what [`Groups::next`] returns continues the chain.

use super::group::Group;
use super::reader::{Placed, SegmentReader};
use super::segment::FIRST_GROUP_OFFSET;
use super::settings::{GroupNumber, LogFailure};
use super::start::{LogPosition, LogStart};
use crate::disk::DiskError;
use crate::plant::{self, Plant};

/// What the next group of the log has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// Its number.
    pub(super) number: GroupNumber,
    /// Its predecessor's checksum; `None` if that is not known.
    pub(super) previous: Option<u32>,
    /// Its predecessor's epoch.
    pub(super) epoch: u32,
}

impl Chain {
    /// Whatever came before `group`.
    pub(super) fn of(group: &Group) -> Self {
        Self { number: group.number, previous: None, epoch: group.epoch }
    }

    /// What follows a group.
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

/// What is done where the chain's next group is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtGap {
    /// The log ends, for all this reader knows.
    Stop,
    /// The caller knows that the group is durable: its lack is damage.
    Refuse,
    /// The next group in place behind it in the segment is returned, whatever the chain.
    Skip,
}

/// Where a group is looked for, and which.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The segment's position among those of the log.
    pub(super) segment: usize,
    pub(super) at: u64,
    pub(super) chain: Chain,
}

impl Place {
    /// Where `group` lies, whatever came before it.
    pub(super) fn of(segment: usize, group: &Group) -> Self {
        Self { segment, at: group.offset, chain: Chain::of(group) }
    }
}

/// Segments that a search for a beginning passed over.
#[derive(Debug, Default)]
pub(super) struct PassedOver {
    /// The number that the newest one begins with which might be the beginning, if its first group is not
    /// intact; and its file.
    remains: Option<(GroupNumber, String)>,
    /// The oldest one's first group, which is newer than the one that is needed, and its file.
    oldest: Option<(GroupNumber, String)>,
}

impl PassedOver {
    /// Why the log does not hold `start`, as far as the segments show.
    pub(super) fn failure(self, start: &LogStart) -> Option<LogFailure> {
        match (self.remains, self.oldest) {
            (Some((number, file)), _) => Some(start.is_damaged(number, file)),
            (None, Some((number, file))) => Some(start.is_gone(number, file)),
            (None, None) => None,
        }
    }
}

/// A group that was found without the chain.
#[derive(Debug)]
pub(super) struct InPlace {
    pub(super) segment: usize,
    /// The first group of the run that it ends, if that lies in the same segment.
    pub(super) run: Option<Group>,
    pub(super) placed: Placed,
}

/// The groups of a log, from a place on.
#[derive(Debug)]
pub(super) struct Groups {
    /// In the order of their sequence numbers.
    pub(super) segments: Vec<SegmentReader>,
    /// Where the next group is looked for; the segment is the last returned group's.
    pub(super) place: Place,
}

impl Groups {
    /// From the log's first group on.
    pub(super) fn new(segments: Vec<SegmentReader>) -> Self {
        let chain = Chain { number: 1, previous: Some(0), epoch: 0 };
        Self { segments, place: Place { segment: 0, at: FIRST_GROUP_OFFSET, chain } }
    }

    /// The next group; the place is behind it then. The first group of a later segment continues the chain
    /// where the segment at hand does not: those between were made ready by an earlier process and never
    /// used.
    ///
    /// # Errors
    /// `Disk`; `Damaged` where a gap is refused.
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

    /// The segment of the group that was returned last.
    pub(super) fn reader(&mut self) -> &mut SegmentReader {
        &mut self.segments[self.place.segment]
    }

    /// Gives the memory back in which segments were read. What is in memory of a segment in use will be
    /// written over in part when more is asked for.
    pub(super) fn forget(&mut self) {
        self.segments.iter_mut().for_each(SegmentReader::forget);
    }

    /// Goes to the beginning of the newest segment whose first group is not newer than `newest`, nor, where
    /// runs are needed `whole`, continues records that began before. That group is the log's: what an earlier
    /// recovery cut off was wiped from the segments' beginnings. The inner error is that there is none.
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
                Some(Placed { group, .. }) if group.number > newest || whole && group.continues => {
                    over.oldest = Some((group.number, reader.name().to_owned()));
                }
                Some(Placed { group, .. }) => {
                    self.place = Place::of(segment, &group);
                    return Ok(Ok(()));
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

    /// Goes along the chain behind the group of this number; that group, and the place of the run that it
    /// ends, if the chain leads there and has all of the run.
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

    /// Goes to where the run begins that ends with the group of this number and checksum, wherever it lies;
    /// or behind that group. Nothing that lies before is needed, and the checksum says that it is the right
    /// one. Otherwise the place stays.
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

    /// The group of this number and checksum in the newest segment that holds it, whatever the chain. The
    /// place stays.
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

    /// That the chain's next group, which is durable, is not there.
    pub(super) fn is_missing(&self) -> LogFailure {
        let Place { segment, at: offset, chain } = self.place;
        let file = self.segments.get(segment).map_or(".", |reader| reader.name()).to_owned();
        let what = "a group that is durable is not there".to_owned();
        LogFailure::Damaged { file, offset, group: chain.number, what }
    }
}
