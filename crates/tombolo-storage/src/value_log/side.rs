//! The side file of a log whose records have positions: it has the log's end while the disk is full.
//!
//! A group takes whole blocks of a segment and is never written again, so a flush of a few bytes costs a
//! block. When no more segment can be made, the space promised to transactions that end must not be
//! wasted on that. So each flush writes all records after the newest group here, into one of two slots
//! by turns, until they fill a slot and are written into the segment as one group.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 65,536 | slot 0: a group as in a segment, whose segment is 0 and whose offset is the slot's |
//! | 65,536 | 65,536 | slot 1 |
//!
//! A slot counts if its group continues the log's newest group; of two the longer one does. Invariant: the
//! slot written last is not written again before the other one is durable.

use super::aligned::AlignedBuffer;
use super::group::{Group, HEADER_BYTES, is_intact};
use super::groups::Chain;
use crate::disk::{Disk, DiskError, DiskFile, Open, Operation};

pub(super) const SIDE_FILE: &str = "log-tail";

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: u64 = 64 << 10;

const FILE_BYTES: u64 = 2 * SLOT_BYTES;

/// The file, to be written.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) file: Box<dyn DiskFile>,
    /// Where the next group goes.
    pub(super) offset: u64,
    /// The position behind what was set aside last.
    pub(super) end: u64,
}

impl Side {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// When the disk fails or is full.
    pub(super) fn open(disk: &dyn Disk, direct: bool) -> Result<Self, DiskError> {
        let how = if disk.exists(SIDE_FILE)? { Open::Write } else { Open::New };
        let file = match direct {
            true => disk.open_direct(SIDE_FILE, how)?,
            false => disk.open(SIDE_FILE, how)?,
        };
        if file.len()? < FILE_BYTES {
            let mut zeros = AlignedBuffer::default();
            file.set_len(FILE_BYTES)?;
            file.write_at(zeros.zeroed(FILE_BYTES as usize), 0)?;
            file.sync()?;
            disk.sync_dir()?;
        }
        Ok(Self { file, offset: 0, end: 0 })
    }

    /// All of the file.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn content(&self) -> Result<Vec<u8>, DiskError> {
        let mut buffer = AlignedBuffer::default();
        let bytes = buffer.try_first(FILE_BYTES as usize, Operation::Read, &*self.file)?;
        self.file.read_at(bytes, 0)?;
        Ok(bytes.to_vec())
    }

    /// Notes that the group at `offset` is durable.
    pub(super) fn turn(&mut self) {
        self.offset = SLOT_BYTES - self.offset;
    }
}

/// The records that continue `chain`, and the position behind them.
///
/// # Errors
/// When the disk fails.
pub(super) fn read(
    disk: &dyn Disk,
    chain: Chain,
    salt: u64,
) -> Result<Option<(u64, Vec<u8>)>, DiskError> {
    if !disk.exists(SIDE_FILE)? {
        return Ok(None);
    }
    let file = disk.open(SIDE_FILE, Open::Read)?;
    if file.len()? < FILE_BYTES {
        return Ok(None); // it was never finished
    }
    let bytes = Side { file, offset: 0, end: 0 }.content()?;
    let slot = |offset: u64| {
        let slot = &bytes[offset as usize..][..SLOT_BYTES as usize];
        let group = Group::decode(slot)?;
        let is_here = (group.sequence, group.offset) == (0, offset);
        let is_next = group.epoch == chain.epoch && chain.continues(&group);
        let whole = slot.get(..group.bytes()).filter(|_| is_here && is_next)?;
        is_intact(salt, whole)?;
        Some((group.transactions, whole[HEADER_BYTES..].to_vec()))
    };
    Ok([0, SLOT_BYTES].into_iter().filter_map(slot).max_by_key(|(end, _)| *end))
}
