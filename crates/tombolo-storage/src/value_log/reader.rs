//! Reads groups back: one segment at a time, through a window of a few megabytes.
//!
//! A group that is intact and says it lies where it does is *in place*. Which groups in place are the
//! log is a matter of the chain: numbers that ascend by one, each naming its predecessor's checksum,
//! epochs that never fall and rise only where an epoch begins.
//!
//! Not here: what to do where the chain ends (`recover.rs`).

use super::aligned::AlignedBuffer;
use super::group::{Group, HEADER_BYTES, is_intact};
use super::segment::{FIRST_GROUP_OFFSET, Header, Segment};
use super::settings::{BLOCK_BYTES_MAX, GroupNumber};
use crate::disk::{Disk, DiskError, DiskFile, Operation};
use crate::header_copies::{COPY_BYTES, VERSION, short};
use crate::plant::{self, Plant};

const WINDOW_BYTES: u64 = 4 << 20;

/// Bytes that are asked for before they are read.
const AHEAD_BYTES: u64 = 2 * WINDOW_BYTES;

/// A segment that is read.
#[derive(Debug)]
pub(super) struct SegmentReader {
    file: Box<dyn DiskFile>,
    pub(super) number: u64,
    pub(super) header: Header,
    /// Which copy of the header that is.
    copy: usize,
    /// Bytes `start..end` of the file.
    window: AlignedBuffer,
    start: u64,
    end: u64,
}

/// A group in place, with its records.
#[derive(Debug)]
pub(super) struct Placed<'a> {
    pub(super) group: Group,
    pub(super) checksum: u32,
    pub(super) records: &'a [u8],
}

/// Whether a block holds nothing but zeros. Compared with zeros as a whole: byte by byte, a segment
/// takes longer than replaying it.
fn is_blank(block: &[u8]) -> bool {
    const ZEROS: [u8; BLOCK_BYTES_MAX as usize] = [0; BLOCK_BYTES_MAX as usize];
    block == &ZEROS[..block.len()]
}

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

    /// What follows `group`, which has this checksum.
    pub(super) fn behind(group: &Group, checksum: u32) -> Self {
        Self { number: group.number + 1, previous: Some(checksum), epoch: group.epoch }
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

/// Where the run lies that ends with the group of this number and checksum, whatever lies before it: the
/// segment's place among these, the newest of which come last, and the run's first and last group.
///
/// # Errors
/// When the disk fails.
pub(super) fn find_run(
    segments: &mut [SegmentReader],
    number: GroupNumber,
    checksum: u32,
) -> Result<Option<(usize, Group, Group)>, DiskError> {
    for (position, reader) in segments.iter_mut().enumerate().rev() {
        let first = reader.first_group()?.map(|placed| placed.group.number);
        if first.is_none_or(|first| first <= number)
            && let Some((run, group)) = reader.run_up_to(number, checksum)?
        {
            return Ok(Some((position, run, group)));
        }
        reader.forget();
    }
    Ok(None)
}

impl SegmentReader {
    /// Reads `file`, which has this number and header, found in `copy`.
    pub(super) fn new(file: Box<dyn DiskFile>, number: u64, header: Header, copy: usize) -> Self {
        Self { file, number, header, copy, window: AlignedBuffer::default(), start: 0, end: 0 }
    }

    /// The segment, to be written to.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn open_for_writing(
        &self,
        disk: &dyn Disk,
        direct: bool,
    ) -> Result<Segment, DiskError> {
        Segment::open(disk, self.number, self.header, self.copy, direct)
    }

    /// The file's name, for messages.
    pub(super) fn name(&self) -> &str {
        self.file.name()
    }

    /// The version of the format that its header says.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn version(&mut self) -> Result<u32, DiskError> {
        Ok(short(self.bytes((self.copy * COPY_BYTES) as u64, COPY_BYTES)?, VERSION))
    }

    /// Whether no group can begin at `offset`.
    pub(super) fn ends_at(&self, offset: u64) -> bool {
        offset + HEADER_BYTES as u64 > self.header.segment_bytes
    }

    /// The `length` bytes at `offset`, which lie within the segment.
    fn bytes(&mut self, offset: u64, length: usize) -> Result<&[u8], DiskError> {
        if offset < self.start || offset + length as u64 > self.end {
            // What the file demands of a read divides the block size, and so every group's offset.
            let start = offset / self.header.block_bytes * self.header.block_bytes;
            let needed = (offset - start + length as u64).next_multiple_of(self.header.block_bytes);
            let bytes = needed.max(WINDOW_BYTES).min(self.header.segment_bytes - start);
            (self.start, self.end) = (0, 0);
            let window = self.window.try_first(bytes as usize, Operation::Read, &*self.file)?;
            self.file.read_at(window, start)?;
            (self.start, self.end) = (start, start + bytes);
            let behind = self.header.segment_bytes - self.end;
            if behind > 0 {
                self.file.read_ahead(self.end, behind.min(AHEAD_BYTES));
            }
        }
        let from = (offset - self.start) as usize;
        Ok(&self.window.first(from + length)[from..])
    }

    /// Gives the window's memory back, when nothing more is to be read soon.
    pub(super) fn forget(&mut self) {
        self.window = AlignedBuffer::default();
        (self.start, self.end) = (0, 0);
    }

    /// Fills `out` with the bytes at `offset`, which lie within the segment.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
        let length = out.len();
        out.copy_from_slice(self.bytes(offset, length)?);
        Ok(())
    }

    /// The group in place at `offset`, if there is one.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn group(&mut self, offset: u64) -> Result<Option<Placed<'_>>, DiskError> {
        if self.ends_at(offset) {
            return Ok(None);
        }
        let Some(group) = Group::decode(self.bytes(offset, HEADER_BYTES)?) else {
            return Ok(None);
        };
        let is_here = group.sequence == self.header.sequence && group.offset == offset;
        if !is_here || offset + group.bytes() as u64 > self.header.segment_bytes {
            return Ok(None);
        }
        let salt = self.header.salt;
        let bytes = self.bytes(offset, group.bytes())?;
        let Some(checksum) = is_intact(salt, bytes) else { return Ok(None) };
        Ok(Some(Placed { group, checksum, records: &bytes[HEADER_BYTES..] }))
    }

    /// The records of a group that was found in place.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn records(&mut self, group: &Group) -> Result<&[u8], DiskError> {
        self.bytes(group.offset + HEADER_BYTES as u64, group.length as usize)
    }

    /// Where the group behind `group` would begin.
    pub(super) fn behind(&self, group: &Group) -> u64 {
        (group.offset + group.bytes() as u64).next_multiple_of(self.header.block_bytes)
    }

    /// The first group.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn first_group(&mut self) -> Result<Option<Placed<'_>>, DiskError> {
        self.group(FIRST_GROUP_OFFSET)
    }

    /// The number of the group of its present use that the segment begins with, intact or not.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn begins_with(&mut self) -> Result<Option<GroupNumber>, DiskError> {
        let group = Group::decode(self.bytes(FIRST_GROUP_OFFSET, HEADER_BYTES)?);
        let is_here = |group: &Group| group.sequence == self.header.sequence;
        Ok(group.filter(is_here).map(|group| group.number))
    }

    /// Visits all groups in place from `offset` on, whatever lies between them.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn scan(
        &mut self,
        mut offset: u64,
        mut visit: impl FnMut(&Group),
    ) -> Result<(), DiskError> {
        while !self.ends_at(offset) {
            let placed = self.group(offset)?.map(|placed| placed.group);
            offset = match placed {
                Some(group) => {
                    visit(&group);
                    self.behind(&group)
                }
                None => offset + self.header.block_bytes,
            };
        }
        Ok(())
    }

    /// The first group of the run that ends here with the group of this number and checksum, and that
    /// group itself; they are one unless its records began before it. What lies before the run is
    /// skipped, intact or not.
    ///
    /// # Errors
    /// When the disk fails.
    fn run_up_to(
        &mut self,
        number: GroupNumber,
        checksum: u32,
    ) -> Result<Option<(Group, Group)>, DiskError> {
        let (mut offset, mut run) = (FIRST_GROUP_OFFSET, None);
        while !self.ends_at(offset) {
            let placed = self.group(offset)?.map(|placed| (placed.group, placed.checksum));
            let Some((group, found)) = placed else {
                offset += self.header.block_bytes;
                continue;
            };
            run = if group.continues { run } else { Some(group) };
            if (group.number, found) == (number, checksum) {
                return Ok(run.map(|run| (run, group)));
            }
            offset = self.behind(&group);
        }
        Ok(None)
    }

    /// How many bytes at `offset`, where no group continues the chain, are what is left of one of
    /// `epoch` or a later one. In a segment that was used before, bytes without a header cannot be
    /// distinguished from what that use left, and count as nothing.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn torn_bytes(&mut self, offset: u64, epoch: u32) -> Result<u64, DiskError> {
        if self.ends_at(offset) {
            return Ok(0);
        }
        let Header { sequence, segment_bytes, block_bytes, uses, .. } = self.header;
        let block = self.bytes(offset, block_bytes as usize)?;
        let is_blank = is_blank(block);
        let group = Group::decode(block)
            .filter(|group| (group.sequence, group.offset) == (sequence, offset));
        match group {
            _ if is_blank => Ok(0),
            Some(group) if group.epoch >= epoch => {
                Ok((self.behind(&group) - offset).min(segment_bytes - offset))
            }
            _ if uses > 1 => Ok(0),
            _ => Ok(block_bytes),
        }
    }

    /// Where the blocks end that are not blank, `offset` if they are from there on.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn blank_from(&mut self, offset: u64) -> Result<u64, DiskError> {
        let block = self.header.block_bytes;
        let (mut end, mut at) = (offset, offset);
        while !self.ends_at(at) {
            if !is_blank(self.bytes(at, block as usize)?) {
                end = at + block;
            }
            at += block;
        }
        Ok(end)
    }
}
