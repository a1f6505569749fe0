//! A batch: blocks of one ring on their way to the disk, apart from DB′ they were copied from.
//!
//! The caller runs [`Batch::write`] on a thread of its choice, while DB′ changes and the next
//! batch is prepared. Blocks whose places lie behind each other are one write.
//!
//! Not here: which blocks, and what is in them (`part.rs`). Invariant: what [`Written`] calls done is
//! synced.

use std::ops::Range;

use super::settings::ImageFailure;
use crate::disk::{DiskError, DiskFile};
use crate::plant::{self, Plant};
use crate::sync::Arc;
use crate::value_log::AlignedBuffer;

/// Blocks that are to be written and synced.
#[derive(Debug)]
pub struct Batch {
    file: Arc<Box<dyn DiskFile>>,
    buffer: AlignedBuffer,
    pieces: Vec<Piece>,
    pub(super) blocks: u32,
    pub(super) bytes: u64,
    /// Its ring, as the part counts them.
    pub(super) ring: usize,
}

/// One write.
#[derive(Debug)]
struct Piece {
    /// Where its bytes lie in the buffer.
    from: Range<usize>,
    /// Where they go in the file.
    offset: u64,
}

/// What became of a batch.
#[derive(Debug)]
pub struct Written {
    pub(super) batch: Batch,
    pub(super) done: Result<(), Unwritten>,
}

/// Why a batch was not written.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) error: Box<ImageFailure>,
    /// A sync failed: what of it is on the device is unknown.
    pub(super) is_sync: bool,
}

/// What is read or written, and not synced.
impl From<DiskError> for Unwritten {
    fn from(error: DiskError) -> Self {
        ImageFailure::from(error).into()
    }
}

impl Unwritten {
    /// That a sync failed.
    pub(super) fn sync(error: DiskError) -> Self {
        Self { error: Box::new(error.into()), is_sync: true }
    }
}

impl From<ImageFailure> for Unwritten {
    fn from(error: ImageFailure) -> Self {
        Self { error: Box::new(error), is_sync: false }
    }
}

impl Batch {
    pub(super) fn new(ring: usize, file: Arc<Box<dyn DiskFile>>, buffer: AlignedBuffer) -> Self {
        Self { file, buffer, pieces: Vec::new(), blocks: 0, bytes: 0, ring }
    }

    /// A part of the buffer, to put a block into.
    pub(super) fn room(&mut self, bytes: Range<usize>) -> &mut [u8] {
        &mut self.buffer.first(bytes.end)[bytes.start..]
    }

    /// Adds a block: these bytes of the buffer.
    pub(super) fn add(&mut self, bytes: Range<usize>, offset: u64) {
        self.blocks += 1;
        self.bytes += bytes.len() as u64;
        match self.pieces.last_mut() {
            Some(Piece { from, offset: at })
                if from.end == bytes.start && *at + from.len() as u64 == offset =>
            {
                from.end = bytes.end;
            }
            _ => self.pieces.push(Piece { from: bytes, offset }),
        }
    }

    /// The memory, for another batch.
    pub(super) fn into_buffer(self) -> AlignedBuffer {
        self.buffer
    }

    /// Writes and syncs it.
    pub fn write(mut self) -> Written {
        let done = self.try_write();
        Written { batch: self, done }
    }

    fn try_write(&mut self) -> Result<(), Unwritten> {
        let end = self.pieces.iter().map(|piece| piece.from.end).max().unwrap_or(0);
        let bytes = self.buffer.first(end);
        for Piece { from, offset } in &self.pieces {
            self.file.write_at(&bytes[from.clone()], *offset)?;
        }
        if plant::is(Plant::ImageSyncSkipped) {
            return Ok(());
        }
        self.file.sync().map_err(Unwritten::sync)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::disk::{Disk, MemDisk, Open};

    #[test]
    fn neighbours_are_one_write_and_others_are_not() {
        let file = Arc::new(MemDisk::new().open("image", Open::New).unwrap());
        let mut buffer = AlignedBuffer::default();
        for (at, byte) in buffer.first(40).iter_mut().enumerate() {
            *byte = at as u8;
        }
        let mut batch = Batch::new(3, Arc::clone(&file), buffer);
        batch.add(0..10, 100); // at the end of the file
        batch.add(10..20, 0); // round the corner
        batch.add(20..25, 10); // shorter than its place
        batch.add(30..40, 20);
        assert_eq!(batch.pieces.len(), 3);
        assert_eq!((batch.blocks, batch.bytes), (4, 35));
        let written = batch.write();
        assert!(written.done.is_ok());
        let mut found = [0; 110];
        file.read_at(&mut found, 0).unwrap();
        assert_eq!((found[0], found[14], found[15], found[20], found[29]), (10, 24, 0, 30, 39));
        assert_eq!((found[99], found[100], found[109]), (0, 0, 9));
    }
}
