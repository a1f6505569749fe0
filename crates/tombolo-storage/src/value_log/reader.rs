//! Reads groups back: one segment at a time, through a window of a few megabytes.
//!
//! An intact group whose header names its actual place is *in place*. Not here: the decision which groups in place
//! are the log, and their order (`groups.rs`).

use std::ops::Range;

use super::aligned::AlignedBuffer;
use super::group::{Group, HEADER_BYTES, is_intact};
use super::groups::Chain;
use super::segment::{FIRST_GROUP_OFFSET, Header, Segment};
use super::settings::{BLOCK_BYTES_MAX, GroupNumber};
use crate::disk::{Disk, DiskError, DiskFile, Operation};
use crate::header_copies::{COPY_BYTES, VERSION, short};

const WINDOW_BYTES: u64 = 4 << 20;

/// Bytes that are read ahead.
const AHEAD_BYTES: u64 = 2 * WINDOW_BYTES;

/// A segment that is being read.
#[derive(Debug)]
pub(super) struct SegmentReader {
    file: Box<dyn DiskFile>,
    pub(super) number: u64,
    pub(super) header: Header,
    /// The copy of the header that was read.
    copy: usize,
    /// The end of the groups.
    limit: u64,
    /// The distance by which a group's offset in the file is less than its offset in the segment.
    moved: u64,
    /// Bytes `start..end` of the file.
    window: AlignedBuffer,
    start: u64,
    end: u64,
}

/// A group in place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) group: Group,
    pub(super) checksum: u32,
}

/// Whether a block contains only zeros. Compares whole blocks: byte by byte, checking a segment
/// would take longer than replaying it.
fn is_blank(block: &[u8]) -> bool {
    const ZEROS: [u8; BLOCK_BYTES_MAX as usize] = [0; BLOCK_BYTES_MAX as usize];
    block == &ZEROS[..block.len()]
}

impl SegmentReader {
    /// Reads `file`, which has this number and header, found in `copy`.
    pub(super) fn new(file: Box<dyn DiskFile>, number: u64, header: Header, copy: usize) -> Self {
        let (window, limit) = (AlignedBuffer::default(), header.segment_bytes);
        Self { file, number, header, copy, limit, moved: 0, window, start: 0, end: 0 }
    }

    /// Reads a part of a segment with this header: the groups between these offsets, in a file with
    /// `before` bytes before them.
    pub(super) fn of_part(
        file: Box<dyn DiskFile>,
        header: Header,
        groups: Range<u64>,
        before: u64,
    ) -> Self {
        let (limit, moved) = (groups.end, groups.start - before);
        Self { limit, moved, ..Self::new(file, 0, header, 0) }
    }

    /// The segment, opened for writing.
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

    /// The format version in its header.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn version(&mut self) -> Result<u32, DiskError> {
        Ok(short(self.bytes((self.copy * COPY_BYTES) as u64, COPY_BYTES)?, VERSION))
    }

    /// Whether no group can begin at `offset`.
    pub(super) fn ends_at(&self, offset: u64) -> bool {
        offset + HEADER_BYTES as u64 > self.limit
    }

    /// The `length` bytes at `offset`, which are within the segment.
    fn bytes(&mut self, offset: u64, length: usize) -> Result<&[u8], DiskError> {
        if offset < self.start || offset + length as u64 > self.end {
            // The file's alignment for reads divides the block size, and therefore every group's offset.
            let start = offset / self.header.block_bytes * self.header.block_bytes;
            let needed = (offset - start + length as u64).next_multiple_of(self.header.block_bytes);
            let bytes = needed.max(WINDOW_BYTES).min(self.limit - start);
            (self.start, self.end) = (0, 0);
            let window = self.window.try_first(bytes as usize, Operation::Read, &*self.file)?;
            self.file.read_at(window, start - self.moved)?;
            (self.start, self.end) = (start, start + bytes);
            let behind = self.limit - self.end;
            if behind > 0 {
                self.file.read_ahead(self.end - self.moved, behind.min(AHEAD_BYTES));
            }
        }
        let from = (offset - self.start) as usize;
        Ok(&self.window.first(from + length)[from..])
    }

    /// Frees the window's memory, when nothing more will be read soon.
    pub(super) fn forget(&mut self) {
        self.window = AlignedBuffer::default();
        (self.start, self.end) = (0, 0);
    }

    /// All bytes before the first group.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn before_groups(&mut self) -> Result<&[u8], DiskError> {
        self.bytes(0, FIRST_GROUP_OFFSET as usize)
    }

    /// Fills `out` with the bytes at `offset`, which are within the segment.
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
    pub(super) fn group(&mut self, offset: u64) -> Result<Option<Placed>, DiskError> {
        if self.ends_at(offset) {
            return Ok(None);
        }
        let Some(group) = Group::decode(self.bytes(offset, HEADER_BYTES)?) else {
            return Ok(None);
        };
        let is_here = group.sequence == self.header.sequence && group.offset == offset;
        if !is_here || offset + group.bytes() as u64 > self.limit {
            return Ok(None);
        }
        let salt = self.header.salt;
        let checksum = is_intact(salt, self.bytes(offset, group.bytes())?);
        Ok(checksum.map(|checksum| Placed { group, checksum }))
    }

    /// The bytes of a group in place, up to the beginning of the next one.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn whole(&mut self, group: &Group) -> Result<&[u8], DiskError> {
        let length = self.behind(group) - group.offset;
        self.bytes(group.offset, length as usize)
    }

    /// The records of such a group.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn records(&mut self, group: &Group) -> Result<&[u8], DiskError> {
        self.bytes(group.offset + HEADER_BYTES as u64, group.length as usize)
    }

    /// The offset at which the group after `group` would begin.
    pub(super) fn behind(&self, group: &Group) -> u64 {
        (group.offset + group.bytes() as u64).next_multiple_of(self.header.block_bytes)
    }

    /// The first group.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn first_group(&mut self) -> Result<Option<Placed>, DiskError> {
        self.group(FIRST_GROUP_OFFSET)
    }

    /// The first group that continues no earlier records, from `group` on; `None` if there is none in its chain.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn run_from(&mut self, group: Placed) -> Result<Option<Placed>, DiskError> {
        let mut first = Some(group);
        while let Some(placed) = first.filter(|placed| placed.group.continues) {
            let next = self.group(self.behind(&placed.group))?;
            first = next.filter(|next| Chain::behind(&placed).continues(&next.group));
        }
        Ok(first)
    }

    /// The number of the first group of the segment's current use, intact or not.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn begins_with(&mut self) -> Result<Option<GroupNumber>, DiskError> {
        let group = Group::decode(self.bytes(FIRST_GROUP_OFFSET, HEADER_BYTES)?);
        let is_here = |group: &Group| group.sequence == self.header.sequence;
        Ok(group.filter(is_here).map(|group| group.number))
    }

    /// The number of bytes at `offset`, where no group continues the chain, that are remains of a group of
    /// `epoch` or a later one. In a reused segment, bytes without a header cannot be
    /// distinguished from those of the former use, and count as nothing.
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

    /// The end of the last block that is not blank, or `offset` if all blocks from there on are blank.
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
