//! `CheckpointPart`: DB′ of some tables, and the blocks of their rings (TPK-14 … TPK-19, TPK-25).
//!
//! A part installs durable groups and writes blocks, in turns: a block holds what was installed when it
//! was written, and says so. Nothing is locked and nothing waits: [`CheckpointPart::step`] writes one
//! batch of one ring, at most s blocks, and syncs it. Parts share nothing and may each have a thread.
//!
//! Not here: the order of places and why it is safe (`ring.rs`), the catalogue (`checkpoints.rs`).
//! Invariants: what is installed is durable in the log; a ring is in the durable catalogue before a
//! block of it is written; a batch is written after the one before it was synced.

use super::super::recovery::{ReplayPart, SlabName, Slots};
use super::block::encode;
use super::checkpoints::{Begun, Checkpoints};
use super::load::{LoadedRing, MirroredPart};
use super::ring::Ring;
use super::settings::ImageFailure;
use crate::disk::{Disk, DiskError, DiskFile, Open, Operation};
use crate::plant::{self, Plant};
use crate::schema::Schema;
use crate::sync::Arc;
use crate::value_log::AlignedBuffer;
use crate::value_log::LogPosition;

/// What a part needs of the checkpoint that is to begin.
#[derive(Clone, Debug)]
pub struct Needs {
    pub(super) position: LogPosition,
    pub(super) schema: Schema,
    pub(super) slabs: Vec<SlabNeed>,
}

/// How many slots of a slab were handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlabNeed {
    pub(super) slab: SlabName,
    pub(super) slot_bytes: u32,
    pub(super) used: u32,
}

/// That a part has written all its blocks of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed(pub(super) u64);

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// No checkpoint is being written.
    Idle,
    /// Blocks of one ring were written and synced.
    Wrote {
        /// How many of them are new; others were in doubt and are as they were.
        blocks: u32,
        /// Their bytes.
        bytes: u64,
    },
    /// All blocks of the checkpoint are written and durable.
    Complete(Completed),
}

/// How far a part's checkpoint is, and what was written by this part so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartProgress {
    /// Blocks of the checkpoint at hand that are written.
    pub blocks: u64,
    /// Blocks it has.
    pub blocks_max: u64,
    /// Bytes written, all checkpoints together.
    pub written_bytes: u64,
    /// Syncs, all checkpoints together.
    pub syncs: u64,
}

/// DB′ of some tables and its rings. See the module's head.
#[derive(Debug)]
pub struct CheckpointPart {
    replay: ReplayPart,
    position: LogPosition,
    rings: Vec<RingWriter>,
    writing: Option<u64>,
    /// The ring whose blocks are being written.
    current: usize,
    disks: Vec<Arc<dyn Disk>>,
    direct: bool,
    salt: u64,
    buffer: AlignedBuffer,
    written_bytes: u64,
    syncs: u64,
    failure: Option<ImageFailure>,
}

#[derive(Debug)]
struct RingWriter {
    ring: Ring,
    file: Option<Box<dyn DiskFile>>,
    /// Blocks of the checkpoint at hand that are written.
    written: u32,
    /// Whether the newest of these may be in the system's memory only, from before a restart.
    in_doubt: bool,
}

impl CheckpointPart {
    /// A part with the rows of `mirrored`, replayed up to `position`
    /// ([`crate::value_log::LogWriter::position`] of the log that was opened). If a checkpoint was
    /// under way when the last process ended, the part goes on with it.
    pub fn new(mirrored: MirroredPart, checkpoints: &Checkpoints, position: LogPosition) -> Self {
        let MirroredPart { replay, rings } = mirrored;
        let writing = checkpoints.writing();
        let rings = rings.into_iter().map(|LoadedRing { ring, written }| RingWriter {
            ring,
            file: None,
            written: if writing.is_some() { written } else { 0 },
            in_doubt: written > 0,
        });
        Self {
            rings: rings.collect(),
            replay,
            position,
            writing,
            current: 0,
            disks: checkpoints.disks().to_vec(),
            direct: checkpoints.settings().direct,
            salt: checkpoints.salt(),
            buffer: AlignedBuffer::default(),
            written_bytes: 0,
            syncs: 0,
            failure: None,
        }
    }

    /// Installs the records of durable groups, the newest of which ends at `position`; records of
    /// other parts' tables are passed over.
    ///
    /// # Errors
    /// `Rows`, which is final: DB′ is not what the log says any more.
    pub fn install(&mut self, position: LogPosition, records: &[u8]) -> Result<(), ImageFailure> {
        self.refuse_if_failed()?;
        if let Err(what) = self.replay.apply(records) {
            let what = format!("group {} cannot be installed: {what}", position.group);
            return Err(self.failure.insert(ImageFailure::Rows(what)).clone());
        }
        assert!(position.group >= self.position.group, "groups are installed in order");
        self.position = position;
        Ok(())
    }

    /// What was installed so far.
    pub fn position(&self) -> LogPosition {
        self.position
    }

    /// What [`Checkpoints::begin`] is to know of this part.
    pub fn needs(&self) -> Needs {
        let need = |(slab, slots): (SlabName, Slots<'_>)| SlabNeed {
            slab,
            slot_bytes: slots.bytes() as u32,
            used: slots.used(),
        };
        let slabs = self.replay.slots().map(need).collect();
        Needs { position: self.position, schema: self.replay.schema().clone(), slabs }
    }

    /// Begins to write a checkpoint: its first blocks are due.
    ///
    /// # Panics
    /// When one is being written.
    pub fn begin(&mut self, begun: &Begun) {
        let last = self.writing.replace(begun.number);
        let is_done = self.current == self.rings.len();
        assert!(last.is_none() || is_done, "checkpoint {last:?} is being written");
        let own = begun.rings.iter().filter(|ring| self.replay.keeps(ring.slab.table));
        self.rings.extend(own.map(|&ring| RingWriter {
            ring,
            file: None,
            written: 0,
            in_doubt: false,
        }));
        for ring in &mut self.rings {
            (ring.written, ring.in_doubt) = (0, false);
        }
        self.current = 0;
    }

    /// Writes and syncs the next blocks.
    ///
    /// # Errors
    /// `Full`: the step may be tried again. `Disk`: final.
    pub fn step(&mut self) -> Result<Step, ImageFailure> {
        self.refuse_if_failed()?;
        let Some(checkpoint) = self.writing else { return Ok(Step::Idle) };
        while let Some(ring) = self.rings.get(self.current) {
            // A ring that was written to its end may have its last batch in doubt, too.
            if ring.written < ring.ring.blocks || ring.in_doubt {
                return self.write_batch(checkpoint);
            }
            self.current += 1;
        }
        Ok(Step::Complete(Completed(checkpoint)))
    }

    /// How far it is.
    pub fn progress(&self) -> PartProgress {
        let Self { written_bytes, syncs, .. } = *self;
        PartProgress {
            blocks: self.rings.iter().map(|ring| u64::from(ring.written)).sum(),
            blocks_max: self.rings.iter().map(|ring| u64::from(ring.ring.blocks)).sum(),
            written_bytes,
            syncs,
        }
    }

    /// Memory that DB′ takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.replay.memory_bytes()
    }

    /// Why nothing is installed or written any more.
    pub fn failure(&self) -> Option<&ImageFailure> {
        self.failure.as_ref()
    }

    fn refuse_if_failed(&self) -> Result<(), ImageFailure> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn write_batch(&mut self, checkpoint: u64) -> Result<Step, ImageFailure> {
        let written = self.try_batch(checkpoint);
        let (blocks, bytes) = written.map_err(|(error, is_sync)| {
            let failure = ImageFailure::from(error.clone());
            if failure.is_full() && !is_sync {
                // The whole batch is written again: what it replaces has a successor all the same.
                return failure;
            }
            self.failure.insert(ImageFailure::Disk(error)).clone()
        })?;
        self.written_bytes += bytes;
        self.syncs += 1;
        self.rings[self.current].written += blocks;
        Ok(Step::Wrote { blocks, bytes })
    }

    /// How many blocks and bytes were written; or what failed, and whether that was a sync.
    fn try_batch(&mut self, checkpoint: u64) -> Result<(u32, u64), (DiskError, bool)> {
        let Self { replay, rings, current, disks, buffer, salt, position, .. } = self;
        let RingWriter { ring, file, written, in_doubt } = &mut rings[*current];
        let file: &dyn DiskFile = match file {
            Some(file) => &**file,
            none => {
                let disk = &*disks[ring.stripe as usize];
                &**none.insert(open(disk, ring, self.direct).map_err(|error| (error, false))?)
            }
        };
        if *in_doubt {
            confirm(file, ring, checkpoint, *written, buffer)?;
            *in_doubt = false;
            if *written == ring.blocks {
                return Ok((0, 0));
            }
        }
        let out = buffer.try_first(ring.block_bytes as usize, Operation::Write, file);
        let out = out.map_err(|error| (error, false))?;
        let batch = ring.batch_of(*written);
        let (first, blocks, mut bytes) = (batch.start, batch.len() as u32, 0);
        for block in batch {
            let block = match plant::is(Plant::BlocksDescending) {
                true => ring.blocks - 1 - block,
                false => block,
            };
            let slots = replay.slots_of(ring.slab);
            let length = encode(ring, (block, checkpoint, position.group), *salt, slots, out);
            let at = ring.offset(ring.place(checkpoint, block));
            file.write_at(&out[..length], at).map_err(|error| (error, false))?;
            bytes += length as u64;
        }
        assert_eq!(first, *written, "batches begin where the one before ended");
        if !plant::is(Plant::ImageSyncSkipped) {
            file.sync().map_err(|error| (error, true))?;
        }
        Ok((blocks, bytes))
    }
}

/// Opens a ring's file for writing.
fn open(disk: &dyn Disk, ring: &Ring, direct: bool) -> Result<Box<dyn DiskFile>, DiskError> {
    let name = ring.file_name();
    if direct { disk.open_direct(&name, Open::Write) } else { disk.open(&name, Open::Write) }
}

/// Writes the batch in front of block `written` again, as it is: a process may have ended before its
/// sync, or after one that failed. The same bytes in the same place: a crash leaves them intact.
fn confirm(
    file: &dyn DiskFile,
    ring: &Ring,
    checkpoint: u64,
    written: u32,
    buffer: &mut AlignedBuffer,
) -> Result<(), (DiskError, bool)> {
    let Some(last) = written.checked_sub(1) else { return Ok(()) };
    let bytes = buffer.try_first(ring.block_bytes as usize, Operation::Read, file);
    let bytes = bytes.map_err(|error| (error, false))?;
    for block in ring.batch_of(last) {
        let at = ring.offset(ring.place(checkpoint, block));
        file.read_at(bytes, at).map_err(|error| (error, false))?;
        file.write_at(bytes, at).map_err(|error| (error, false))?;
    }
    file.sync().map_err(|error| (error, true))
}

#[cfg(test)]
#[cfg(not(loom))]
impl CheckpointPart {
    pub(super) fn replay_for_test(&mut self) -> &mut ReplayPart {
        &mut self.replay
    }
}
