//! `CheckpointPart`: DB′ of some tables, and the blocks of their rings (TPK-14 … TPK-19, TPK-25).
//!
//! A part installs durable groups and prepares blocks, in turns: a block holds what was installed when
//! it was prepared, and says so. Without a second copy there is nothing to install: blocks are copied from
//! the store's rows in place, which the part asks for ([`CheckpointPart::request`]).
//! [`CheckpointPart::prepare`] makes a batch of one ring, at most s
//! blocks; the caller writes and syncs it on a thread of its choice ([`Batch::write`]), and reports that
//! to [`CheckpointPart::wrote`]. Meanwhile groups are installed and the next batch is prepared.
//! [`CheckpointPart::step`] does all of it in one call. Nothing is locked, parts share nothing and may
//! each have a thread.
//!
//! Not here: the order of places and why it is safe (`ring.rs`), writing (`batch.rs`), the catalogue
//! (`checkpoints.rs`). Invariants: what is installed is durable in the log; a ring is in the durable
//! catalogue before a block of it is written; one batch is being written at a time, in the order they
//! were prepared.

use super::super::recovery::{SlabName, Slots};
use super::super::rows::RowsInPlace;
use super::batch::{Batch, Unwritten, Written};
use super::block::encode;
use super::checkpoints::{Begun, Checkpoints};
use super::load::{Copied, LoadedRing, MirroredPart};
use super::request::{Draft, Request, Survey, What};
use super::ring::Ring;
use super::settings::ImageFailure;
use super::stamp::Stamp;
use crate::disk::{Disk, DiskError, DiskFile, Open, Operation};
use crate::plant::{self, Plant};
use crate::schema::Schema;
use crate::sync::Arc;
use crate::value_log::AlignedBuffer;
use crate::value_log::{GroupNumber, LogPosition};

/// What a part needs of the checkpoint that is to begin.
#[derive(Clone, Debug)]
pub struct Needs {
    pub(super) position: LogPosition,
    pub(super) schema: Schema,
    pub(super) slabs: Vec<SlabNeed>,
}

/// How many slots of a slab are handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlabNeed {
    pub(super) slab: SlabName,
    pub(super) slot_bytes: u32,
    pub(super) used: u32,
}

impl SlabNeed {
    pub(super) fn of((slab, slots): (SlabName, Slots<'_>)) -> Self {
        Self { slab, slot_bytes: slots.bytes() as u32, used: slots.used() }
    }
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
        /// How many.
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
    copy: Copied,
    position: LogPosition,
    rings: Vec<RingWriter>,
    /// What blocks are written with, while a checkpoint is.
    writing: Option<Stamp>,
    /// The ring whose blocks are being prepared.
    current: usize,
    disks: Vec<Arc<dyn Disk>>,
    direct: bool,
    salt: u64,
    /// Prepared, and not being written.
    ready: Option<Batch>,
    /// What the store's rows are asked for next, until it is handed out.
    wanted: Option<Request>,
    /// Whether blocks are asked for or being copied, and whether they are of no use any more.
    is_copying: bool,
    is_void: bool,
    /// Whether a survey is asked for or being made.
    is_surveying: bool,
    /// What the checkpoint that is to begin needs.
    surveyed: Option<Needs>,
    /// Whether a batch is being written.
    is_under_way: bool,
    /// What batches were in.
    buffers: Vec<AlignedBuffer>,
    /// Bytes of those and of all that are in use.
    buffer_bytes: u64,
    written_bytes: u64,
    syncs: u64,
    failure: Option<ImageFailure>,
}

#[derive(Debug)]
struct RingWriter {
    ring: Ring,
    file: Option<Arc<Box<dyn DiskFile>>>,
    /// Blocks of the checkpoint at hand that are prepared; as many or fewer of them are written.
    prepared: u32,
    written: u32,
    /// Whether the newest of these may be in the system's memory only, from before a restart.
    in_doubt: bool,
}

impl RingWriter {
    /// When it is written: rows before values, in the order of their slots.
    fn turn(&self) -> (bool, SlabName, u32) {
        let slab = self.ring.slab;
        (slab.class().is_some(), slab, self.ring.first_slot)
    }
}

impl CheckpointPart {
    /// A part with the rows of `mirrored`, replayed up to `position`
    /// ([`crate::value_log::LogWriter::position`] of the log that was opened). If a
    /// checkpoint was under way when the last process ended, the part continues it.
    pub fn new(mirrored: MirroredPart, checkpoints: &Checkpoints, position: LogPosition) -> Self {
        let MirroredPart { copy, rings, .. } = mirrored;
        let writing = checkpoints.stamp();
        let rings = rings.into_iter().map(|LoadedRing { ring, written }| {
            let prepared = if writing.is_some() { written } else { 0 };
            RingWriter { ring, file: None, prepared, written: prepared, in_doubt: written > 0 }
        });
        let mut rings: Vec<_> = rings.collect();
        rings.sort_by_key(RingWriter::turn);
        Self {
            rings,
            copy,
            position,
            writing,
            current: 0,
            disks: checkpoints.disks().to_vec(),
            direct: checkpoints.settings().direct,
            salt: checkpoints.salt(),
            buffers: Vec::new(),
            buffer_bytes: 0,
            ready: None,
            wanted: None,
            is_copying: false,
            is_void: false,
            is_surveying: false,
            surveyed: None,
            is_under_way: false,
            written_bytes: 0,
            syncs: 0,
            failure: None,
        }
    }

    /// Installs the records of durable groups, the newest of which ends at `position`; records of
    /// other parts' tables are skipped, and all without a second copy.
    ///
    /// # Errors
    /// `Rows`, which is final: DB′ is not what the log says any more.
    pub fn install(&mut self, position: LogPosition, records: &[u8]) -> Result<(), ImageFailure> {
        self.refuse_if_failed()?;
        if let Copied::Memory(replay) = &mut self.copy
            && let Err(what) = replay.apply(records)
        {
            let what = format!("group {} cannot be installed: {what}", position.group);
            return Err(self.failure.insert(ImageFailure::Rows(what)).clone());
        }
        assert!(position.group >= self.position.group, "groups are installed in order");
        self.position = position;
        Ok(())
    }

    /// Whether there is a second copy, into which records are installed.
    pub fn installs(&self) -> bool {
        matches!(self.copy, Copied::Memory(_))
    }

    /// What was installed so far.
    pub fn position(&self) -> LogPosition {
        self.position
    }

    /// Whether the next checkpoint may be handed in: none is being written.
    pub fn may_begin(&self) -> bool {
        self.is_at_rest()
    }

    /// What [`Checkpoints::begin`] is to know of this part: the next checkpoint holds what is
    /// installed now. `None` without a second copy until the request was served that is due then: the
    /// checkpoint holds what was durable when that was made.
    ///
    /// # Errors
    /// As before.
    ///
    /// # Panics
    /// When it may not begin.
    pub fn needs(&mut self) -> Result<Option<Needs>, ImageFailure> {
        self.refuse_if_failed()?;
        assert!(self.may_begin(), "a checkpoint is handed in too early");
        let position = self.position;
        match self.copy {
            Copied::Memory(ref replay) => {
                let slabs = replay.slots().map(SlabNeed::of).collect();
                Ok(Some(Needs { position, schema: replay.schema().clone(), slabs }))
            }
            Copied::None { part, parts } => {
                let mut surveyed = self.surveyed.take();
                if surveyed.is_none() && !self.is_surveying {
                    let survey = Survey::new(position, part, parts);
                    self.wanted = Some(Request(What::Survey(survey)));
                    self.is_surveying = true;
                }
                if let Some(needs) = surveyed.as_mut().filter(|_| plant::is(Plant::SurveyTooOld)) {
                    needs.position = position;
                }
                Ok(surveyed)
            }
        }
    }

    /// What the store's rows are asked for, if anything is. The caller has it served, and gives it back to
    /// [`CheckpointPart::served`].
    pub fn request(&mut self) -> Option<Request> {
        self.wanted.take()
    }

    /// Whether a request was handed out and has not come back.
    pub fn is_asking(&self) -> bool {
        self.wanted.is_none() && (self.is_copying || self.is_surveying)
    }

    /// A request was served, and the log is durable up to the moment when that was: this group is no older than
    /// any whose changes it may hold.
    ///
    /// # Panics
    /// When none was handed out, or it was not served.
    pub fn served(&mut self, request: Request, newest: GroupNumber) {
        assert!(self.is_asking(), "the store's rows were not asked for anything");
        assert!(request.is_served(), "all was copied");
        match request.0 {
            What::Survey(Survey { position, found, .. }) => {
                self.is_surveying = false;
                self.surveyed = found.map(|(schema, slabs)| Needs { position, schema, slabs });
            }
            What::Blocks(draft) => {
                self.is_copying = false;
                if std::mem::take(&mut self.is_void) {
                    return self.buffers.push(draft.batch.into_buffer());
                }
                let stamp =
                    self.writing.expect("blocks are asked for while a checkpoint is written");
                self.ready = Some(draft.close(stamp, newest, self.salt));
            }
        }
    }

    /// Whether all blocks of the checkpoint at hand are written, if there is one.
    fn is_at_rest(&self) -> bool {
        let is_prepared = self.current == self.rings.len() && !self.is_preparing();
        self.writing.is_none() || is_prepared && !self.is_under_way
    }

    /// Whether a batch is ready or becomes so.
    fn is_preparing(&self) -> bool {
        self.ready.is_some() || self.is_copying
    }

    /// Begins to write a checkpoint: its first blocks are due.
    ///
    /// # Panics
    /// When one is being written.
    pub fn begin(&mut self, begun: &Begun) {
        assert!(self.is_at_rest(), "checkpoint {:?} is being written", self.writing);
        self.writing = Some(begun.stamp);
        self.rings.retain(|ring| !begun.gone.contains(&ring.ring.number));
        let own = begun.rings.iter().filter(|ring| self.copy.keeps(ring.slab.table));
        self.rings.extend(own.map(|&ring| RingWriter {
            ring,
            file: None,
            prepared: 0,
            written: 0,
            in_doubt: false,
        }));
        self.rings.sort_by_key(RingWriter::turn);
        for ring in &mut self.rings {
            (ring.prepared, ring.written, ring.in_doubt) = (0, 0, false);
        }
        self.current = 0;
    }

    /// Prepares, writes and syncs the next blocks. Without a second copy they are copied from `rows`, which the
    /// log is durable up to: `newest` is its newest group.
    ///
    /// # Errors
    /// As [`CheckpointPart::step`].
    ///
    /// # Panics
    /// As there.
    pub fn step_with(
        &mut self,
        rows: RowsInPlace<'_>,
        newest: GroupNumber,
    ) -> Result<Step, ImageFailure> {
        if self.writing.is_some() {
            self.prepare()?;
            if let Some(mut request) = self.request() {
                while !request.is_served() {
                    request.serve(rows, usize::MAX);
                }
                self.served(request, newest);
            }
        }
        self.step()
    }

    /// Prepares, writes and syncs the next blocks.
    ///
    /// # Errors
    /// `Full`: the step may be tried again. `Disk`: final.
    ///
    /// # Panics
    /// When a batch is being written.
    pub fn step(&mut self) -> Result<Step, ImageFailure> {
        if self.writing.is_none() {
            return self.refuse_if_failed().map(|()| Step::Idle);
        }
        self.prepare()?;
        match self.next_batch() {
            Some(batch) => self.wrote(batch.write()),
            None => Ok(Step::Complete(self.completed().expect("no batch is left"))),
        }
    }

    /// Prepares the next batch, if there is one and none is ready; says whether one is ready. Without a second
    /// copy it is asked for first ([`CheckpointPart::request`]).
    ///
    /// # Errors
    /// `Full`: it may be tried again. `Disk`: final.
    pub fn prepare(&mut self) -> Result<bool, ImageFailure> {
        self.refuse_if_failed()?;
        let Some(stamp) = self.writing else { return Ok(false) };
        while !self.is_preparing()
            && let Some(ring) = self.rings.get(self.current)
        {
            // A ring that was written to its end may have its last batch in doubt, too.
            if ring.prepared < ring.ring.blocks || ring.in_doubt {
                self.try_batch(stamp).map_err(|unwritten| self.failed(unwritten))?;
            } else {
                self.current += 1;
            }
        }
        Ok(self.ready.is_some())
    }

    /// The batch that is ready, unless another is being written. The caller reports the result to
    /// [`CheckpointPart::wrote`].
    pub fn next_batch(&mut self) -> Option<Batch> {
        if self.is_under_way {
            return None;
        }
        let next = self.ready.take();
        self.is_under_way = next.is_some();
        next
    }

    /// Notes what became of the batch that was taken.
    ///
    /// # Errors
    /// `Full`: nothing is lost, the same blocks are prepared again. `Disk`: final.
    ///
    /// # Panics
    /// When none was taken.
    pub fn wrote(&mut self, written: Written) -> Result<Step, ImageFailure> {
        assert!(std::mem::take(&mut self.is_under_way), "no batch is being written");
        let Written { batch, done } = written;
        let Batch { ring, blocks, bytes, .. } = batch;
        self.buffers.push(batch.into_buffer());
        if let Err(unwritten) = done {
            // What was prepared behind it is prepared again, so that all stay in order.
            self.buffers.extend(self.ready.take().map(Batch::into_buffer));
            self.is_void = self.is_copying;
            if let Some(wanted) = self.wanted.take_if(|_| self.is_copying) {
                self.buffers.extend(wanted.into_buffer());
                (self.is_copying, self.is_void) = (false, false);
            }
            self.rings.iter_mut().for_each(|ring| ring.prepared = ring.written);
            self.current = 0;
            return Err(self.failed(unwritten));
        }
        self.written_bytes += bytes;
        self.syncs += 1;
        self.rings[ring].written += blocks;
        Ok(Step::Wrote { blocks, bytes })
    }

    /// That all blocks of the checkpoint at hand are written and durable, if they are.
    pub fn completed(&mut self) -> Option<Completed> {
        let is_done = self.is_at_rest() && self.failure.is_none();
        let completed = self.writing.filter(|_| is_done);
        completed.map(|stamp| Completed(stamp.checkpoint))
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

    /// Memory that DB′ takes, in bytes, or, without one, what blocks are copied into.
    pub fn memory_bytes(&self) -> u64 {
        match &self.copy {
            Copied::Memory(replay) => replay.memory_bytes(),
            Copied::None { .. } => self.buffer_bytes,
        }
    }

    /// Why nothing is installed or written any more.
    pub fn failure(&self) -> Option<&ImageFailure> {
        self.failure.as_ref()
    }

    fn refuse_if_failed(&self) -> Result<(), ImageFailure> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// The meaning of a failure: when the device is full, all blocks are as they were, or have a
    /// successor.
    fn failed(&mut self, Unwritten { error, is_sync }: Unwritten) -> ImageFailure {
        let failure = match *error {
            ImageFailure::Full(error) if !is_sync => return ImageFailure::Full(error),
            ImageFailure::Full(error) => ImageFailure::Disk(error),
            error => error,
        };
        self.failure.insert(failure).clone()
    }

    /// Prepares the next batch of the current ring, or asks for it; neither if it was only confirmed that all
    /// are written.
    fn try_batch(&mut self, stamp: Stamp) -> Result<(), Unwritten> {
        let Self { copy, rings, current, disks, buffers, salt, position, syncs, .. } = self;
        let checkpoint = stamp.checkpoint;
        let RingWriter { ring, file, prepared, in_doubt, .. } = &mut rings[*current];
        let file = match file {
            Some(file) => file,
            none => none.insert(open(&*disks[ring.stripe as usize], ring, self.direct)?),
        };
        let mut buffer = buffers.pop().unwrap_or_default();
        self.buffer_bytes -= buffer.memory_bytes();
        if *in_doubt {
            confirm(&***file, ring, checkpoint, *prepared, &mut buffer)?;
            *in_doubt = false;
            *syncs += 1;
            if *prepared == ring.blocks {
                return Ok(());
            }
        }
        let blocks = ring.batch_of(*prepared);
        assert_eq!(blocks.start, *prepared, "batches begin where the one before ended");
        let block_bytes = ring.block_bytes as usize;
        buffer.reserve(blocks.len() * block_bytes, Operation::Write, &***file)?;
        self.buffer_bytes += buffer.memory_bytes();
        let mut batch = Batch::new(*current, Arc::clone(file), buffer);
        *prepared = blocks.end;
        let replay = match copy {
            Copied::Memory(replay) => replay,
            Copied::None { .. } => {
                batch.room(0..blocks.len() * block_bytes); // touched here
                self.wanted = Some(Request(What::Blocks(Draft::new(batch, *ring, blocks))));
                self.is_copying = true;
                return Ok(());
            }
        };
        for (block, start) in blocks.zip((0..).step_by(block_bytes)) {
            let block = match plant::is(Plant::BlocksDescending) {
                true => ring.blocks - 1 - block,
                false => block,
            };
            let out = batch.room(start..start + block_bytes);
            let slots = replay.slots_of(ring.slab);
            let length = encode(ring, (block, stamp, position.group), *salt, slots, out);
            batch.add(start..start + length, ring.offset(ring.place(checkpoint, block)));
        }
        self.ready = Some(batch);
        Ok(())
    }
}

/// Opens a ring's file for writing.
fn open(disk: &dyn Disk, ring: &Ring, direct: bool) -> Result<Arc<Box<dyn DiskFile>>, DiskError> {
    let name = ring.file_name();
    let opened =
        if direct { disk.open_direct(&name, Open::Write) } else { disk.open(&name, Open::Write) };
    opened.map(Arc::new)
}

/// Writes the batch in front of block `written` again, as it is: a process may have ended before its
/// sync, or after one that failed. The same bytes in the same place: a crash leaves them intact.
fn confirm(
    file: &dyn DiskFile,
    ring: &Ring,
    checkpoint: u64,
    written: u32,
    buffer: &mut AlignedBuffer,
) -> Result<(), Unwritten> {
    let Some(last) = written.checked_sub(1) else { return Ok(()) };
    let bytes = buffer.try_first(ring.block_bytes as usize, Operation::Read, file)?;
    for block in ring.batch_of(last) {
        let at = ring.offset(ring.place(checkpoint, block));
        file.read_at(bytes, at)?;
        file.write_at(bytes, at)?;
    }
    file.sync().map_err(Unwritten::sync)
}

#[cfg(test)]
#[cfg(not(loom))]
impl CheckpointPart {
    /// DB′, if it is in memory.
    pub(super) fn replay_for_test(&mut self) -> Option<&mut crate::memory::recovery::ReplayPart> {
        if let Copied::Memory(replay) = &mut self.copy { Some(replay) } else { None }
    }
}
