//! What a part of an image without a second copy asks of the store's rows: a survey, or blocks.
//!
//! ```text
//!   CheckpointPart::request ──► serve, serve, … between transactions ──► log durable ──► CheckpointPart::served
//! ```
//!
//! The thread that executes transactions serves a request, a bounded number of bytes at a time, when no
//! transaction is open. Which moment that was is known to the caller as a position of the log; until the log is
//! durable up to that of the last call, the request is not given back to its part, so nothing of it reaches a
//! disk.
//!
//! Not here: why blocks of different moments make one image (`mod.rs`), checksums and writing, which need no rows
//! (`part.rs`). Invariant: a slot's bytes and its live bit are of one moment.

use super::super::recovery::{SlabName, Slots, is_own};
use super::super::rows::RowsInPlace;
use super::batch::Batch;
use super::block::{Header, copy_slots, put_header};
use super::part::SlabNeed;
use super::ring::{HEADER_BYTES, Ring, slots_offset};
use super::stamp::Stamp;
use crate::plant::{self, Plant};
use crate::schema::Schema;
use crate::value_log::{AlignedBuffer, GroupNumber, LogPosition};

impl<'a> RowsInPlace<'a> {
    /// The slots of a slab that holds anything; none of a table that was dropped, or was not created yet.
    fn slots_of(self, name: SlabName) -> Option<Slots<'a>> {
        let table = name.table as usize;
        let is_there = self.schema.tables.get(table).is_some_and(|def| !def.is_dropped());
        self.tables.get(table).filter(|_| is_there)?.slots_of(name)
    }
}

/// See the module's head.
#[derive(Debug)]
pub struct Request(pub(super) What);

#[derive(Debug)]
pub(super) enum What {
    Survey(Survey),
    Blocks(Draft),
}

impl Request {
    /// Copies about so many bytes, at least a slot; returns how many.
    pub fn serve(&mut self, rows: RowsInPlace<'_>, bytes_max: usize) -> usize {
        match &mut self.0 {
            What::Survey(survey) => survey.take(rows),
            What::Blocks(draft) => draft.copy(rows, bytes_max),
        }
    }

    /// The memory that blocks were to be copied into.
    pub(super) fn into_buffer(self) -> Option<AlignedBuffer> {
        match self.0 {
            What::Survey(_) => None,
            What::Blocks(draft) => Some(draft.batch.into_buffer()),
        }
    }

    /// Whether nothing is left to be copied.
    pub fn is_served(&self) -> bool {
        match &self.0 {
            What::Survey(survey) => survey.found.is_some(),
            What::Blocks(draft) => draft.is_full(),
        }
    }
}

/// Which tables there are, and how many slots a part's have.
#[derive(Debug)]
pub(super) struct Survey {
    /// What was durable when it was asked for.
    pub(super) position: LogPosition,
    part: usize,
    parts: usize,
    pub(super) found: Option<(Schema, Vec<SlabNeed>)>,
}

impl Survey {
    pub(super) fn new(position: LogPosition, part: usize, parts: usize) -> Self {
        Self { position, part, parts, found: None }
    }

    fn take(&mut self, rows: RowsInPlace<'_>) -> usize {
        let mut slabs = Vec::new();
        for (table, own) in rows.tables.iter().enumerate() {
            if is_own(table, self.part, self.parts) && !rows.schema.tables[table].is_dropped() {
                slabs.extend(own.slots(table as u32).map(SlabNeed::of));
            }
        }
        self.found = Some((rows.schema.clone(), slabs));
        size_of::<SlabNeed>()
    }
}

/// Blocks of one ring that are being copied.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) batch: Batch,
    pub(super) ring: Ring,
    pub(super) blocks: std::ops::Range<u32>,
    /// Slots of each block that is whole.
    pub(super) slots: Vec<u32>,
    /// Slots of the next one that are copied.
    copied: u32,
}

impl Draft {
    /// Of these blocks, into a batch that has room for them.
    pub(super) fn new(batch: Batch, ring: Ring, blocks: std::ops::Range<u32>) -> Self {
        Self { batch, ring, blocks, slots: Vec::new(), copied: 0 }
    }

    fn is_full(&self) -> bool {
        self.slots.len() == self.blocks.len()
    }

    /// Where a block lies in the batch, counted from the first.
    pub(super) fn place(&self, number: usize) -> std::ops::Range<usize> {
        let block_bytes = self.ring.block_bytes as usize;
        number * block_bytes..(number + 1) * block_bytes
    }

    fn copy(&mut self, rows: RowsInPlace<'_>, bytes_max: usize) -> usize {
        let slots = rows.slots_of(self.ring.slab);
        let (used, slot_bytes) = (slots.map_or(0, Slots::used), self.ring.slot_bytes as usize);
        let mut bytes = 0;
        while !self.is_full() && (bytes == 0 || bytes < bytes_max) {
            let (place, first) = (self.place(self.slots.len()), self.first_slot());
            let out = self.batch.room(place);
            if self.copied == 0 {
                out[HEADER_BYTES..slots_offset(self.ring.block_slots)].fill(0);
            }
            let end = used.saturating_sub(first).min(self.ring.block_slots);
            let left = end.saturating_sub(self.copied);
            let fitting =
                (bytes_max.saturating_sub(bytes) / slot_bytes).clamp(1, left.max(1) as usize);
            let count = left.min(fitting as u32);
            if let Some(slots) = slots.filter(|_| count > 0) {
                copy_slots(&self.ring, first, self.copied..self.copied + count, slots, out);
            }
            bytes += count as usize * slot_bytes;
            self.copied += count;
            if count == left || plant::is(Plant::BlockHalfCopied) {
                self.slots.push(std::mem::take(&mut self.copied));
            }
        }
        bytes
    }

    /// The batch, which is to be written as these blocks of a course.
    pub(super) fn close(self, stamp: Stamp, newest: GroupNumber, salt: u64) -> Batch {
        let places: Vec<_> = (0..self.slots.len()).map(|number| self.place(number)).collect();
        let Self { mut batch, ring, blocks, slots, .. } = self;
        for ((block, slots), place) in blocks.zip(slots).zip(places) {
            let start = place.start;
            let header = Header { block, stamp, newest, slots };
            let length = put_header(&ring, header, salt, batch.room(place));
            batch.add(start..start + length, ring.offset(ring.place(stamp.checkpoint, block)));
        }
        batch
    }

    /// The first slot of the block at hand.
    fn first_slot(&self) -> u32 {
        self.ring.first_slot_of(self.blocks.start + self.slots.len() as u32)
    }
}
