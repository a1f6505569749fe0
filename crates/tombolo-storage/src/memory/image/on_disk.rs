//! `DiskCopy`: DB′ where it lies on disk only, for databases too large to be in memory twice.
//!
//! ```text
//!   install ──► gathered ──hand_in──► handed in ──begin──► [pass] ──fill──► blocks ──► finish
//!                  ▲                      │                  ▲                            │
//!                  └── what comes later   │ begun again:     │ the last checkpoint's      │
//!                                         └ with what came   └ copy of each block         ▼
//!                                           meanwhile          which slots of values are taken
//! ```
//!
//! The image on disk *is* DB′. What is in memory: the records of what was installed since the last
//! checkpoint's position (`gathered.rs`), a bit for each slot of a value, and the blocks at hand. A
//! checkpoint reads each block's last copy, does to it what the records say (`pass.rs`) and writes it to
//! the ring's next place: rings, headers, order, syncs and catalogue are those of a DB′ in memory, so
//! that recovery does not know the difference, and a directory may be opened with either.
//!
//! *An interrupted checkpoint is copied to its end.* A crash leaves some blocks of checkpoint i + 1 and
//! the others of i, all of them with everything up to the group g that i is complete as of. The next
//! process writes the rest of i + 1 as i has it and calls it complete as of g, which it is; the records
//! from g on are read from the log and are the next checkpoint's. Nothing is done twice, and which
//! slots of values are taken is known from loading, since copying changes no content.
//!
//! *What it begins with.* Blocks of a DB′ in memory, and of an interrupted checkpoint, hold changes of
//! groups behind g, up to some group k. The first checkpoint's records are those from g itself on (a
//! recovery replays it once more, too), at least up to k: then all that blocks may hold of later groups
//! is done to them again, and the pass begins as if they were of one moment.
//!
//! *Bound.* Half of it is for a pass and half for what is gathered meanwhile. [`DiskCopy::room`] says how
//! much more may be installed; when nothing, the next checkpoint is due, and what follows is read from
//! the log when it has begun. Records that later ones write over are let go whenever what is gathered
//! has doubled (`gathered.rs`), so a row that changes often is there once.
//!
//! Not here: order and safety of writes (`ring.rs`), when to write. Invariant: the copy of checkpoint i
//! that a block is read from is written over by a later batch of i + 1 only (`ring.rs`).

use super::super::recovery::definitions::{self, Effect};
use super::super::recovery::{Outline, is_own};
use super::block::OpenBlock;
use super::gathered::Gathered;
use super::part::Needs;
use super::pass::Pass;
use super::ring::Ring;
use super::settings::ImageFailure;
use super::stamp::Stamp;
use crate::disk::DiskFile;
use crate::memory::columns::RowShape;
use crate::memory::slab::NO_SLOT;
use crate::plant::{self, Plant};
use crate::schema::Schema;
use crate::value_log::{GroupNumber, LogPosition, Record, Transactions};

/// Overwritten records are first dropped when one part in so many of the bound is gathered.
const SQUEEZES: u64 = 4;

/// See the module's head.
#[derive(Debug)]
pub(super) struct DiskCopy {
    part: usize,
    parts: usize,
    /// What changes of all parts may take.
    bytes_max: u64,
    /// The newest group whose changes any block holds: k.
    known: GroupNumber,
    /// With what was installed, and the shapes of its tables' rows.
    schema: Schema,
    shapes: Vec<RowShape>,
    /// What the image holds, by table; `None` for other parts'.
    outlines: Vec<Option<Outline>>,
    gathered: Gathered,
    /// Bytes of them at which what was written over is let go.
    squeeze_at: u64,
    /// What is to be the next checkpoint.
    handed_in: Option<Pass>,
    /// What is being written; without it, blocks are copied.
    pass: Option<Pass>,
    /// The next block, by position of its ring, that was not filled yet.
    next: (usize, u32),
}

impl DiskCopy {
    /// Of an image with these tables, of which a part is in use as `outlines` says.
    pub(super) fn new(
        (part, parts): (usize, usize),
        bytes_max: u64,
        known: GroupNumber,
        schema: Schema,
        outlines: Vec<Option<Outline>>,
    ) -> Self {
        let shapes = schema.tables.iter().map(RowShape::of).collect();
        let mut copy = Self {
            part,
            parts,
            bytes_max,
            known,
            schema,
            shapes,
            outlines,
            gathered: Gathered::default(),
            squeeze_at: 0,
            handed_in: None,
            pass: None,
            next: (0, 0),
        };
        copy.squeeze_at = copy.gathered_max() / SQUEEZES;
        copy
    }

    /// Bytes that may be gathered before the next checkpoint is due: some, however small the bound.
    fn gathered_max(&self) -> u64 {
        (self.bytes_max / self.parts as u64 / 2).max(1)
    }

    /// All parts of one image, divided into `count`.
    ///
    /// # Panics
    /// When there is none, or something was installed.
    pub(super) fn divide(copies: Vec<Self>, count: usize) -> Vec<Self> {
        let first = copies.first().expect("an image has at least one part");
        let (bytes_max, schema) = (first.bytes_max, first.schema.clone());
        let known = copies.iter().map(|copy| copy.known).max().unwrap_or(0);
        let mut outlines: Vec<_> = schema.tables.iter().map(|_| None).collect();
        for copy in copies {
            assert!(copy.schema == schema && copy.gathered.bytes() == 0);
            for (place, outline) in outlines.iter_mut().zip(copy.outlines) {
                *place = place.take().or(outline);
            }
        }
        let divided = (0..count).map(|part| {
            let own = outlines.iter_mut().enumerate();
            let own = own.map(|(table, outline)| outline.take_if(|_| is_own(table, part, count)));
            Self::new((part, count), bytes_max, known, schema.clone(), own.collect())
        });
        divided.collect()
    }

    /// Whether the rows of a table are this part's.
    pub(super) fn keeps(&self, table: u32) -> bool {
        (table as usize) < self.schema.tables.len() && is_own(table as usize, self.part, self.parts)
    }

    /// Keeps the records of whole transactions until a checkpoint writes them.
    ///
    /// # Errors
    /// What is wrong with a record, in words.
    pub(super) fn install(&mut self, transactions: &[u8]) -> Result<(), String> {
        for records in Transactions::new(transactions) {
            let mut records = records.map_err(|error| error.to_string())?;
            loop {
                let from = records.rest();
                let Some(record) = records.next() else { break };
                let record = record.map_err(|error| error.to_string())?;
                self.gather(record, &from[..from.len() - records.rest().len()])?;
            }
        }
        if self.gathered.bytes() >= self.squeeze_at {
            self.gathered.squeeze();
            self.squeeze_at = self.squeeze_at.max(2 * self.gathered.bytes());
        }
        Ok(())
    }

    fn gather(&mut self, record: Record<'_>, bytes: &[u8]) -> Result<(), String> {
        let (table, row) = match record {
            Record::Schema(change) => {
                let effect = definitions::apply(&mut self.schema, &change)?;
                if let Effect::TableDropped(table) = effect {
                    self.gathered.forget(table);
                }
                if effect != Effect::None {
                    self.describe();
                }
                return Ok(());
            }
            Record::Updated { table, row, .. }
            | Record::Inserted { table, row, .. }
            | Record::Deleted { table, row }
            | Record::ValueSet { table, row, .. } => (table as usize, row),
        };
        let Some(shape) = self.shapes.get(table) else {
            return Err(format!("a record of table {table}, which was not created yet"));
        };
        if self.outlines[table].is_none() {
            return Ok(());
        }
        let refused = match record {
            Record::ValueSet { offset, .. } if shape.is_dropped(offset) => return Ok(()),
            _ if row == NO_SLOT => Some("no row has this slot".to_owned()),
            Record::Inserted { fixed, .. }
                if !(shape.base_bytes..=shape.row_bytes).contains(&fixed.len()) =>
            {
                let (bytes, row_bytes) = (fixed.len(), shape.row_bytes);
                Some(format!("a row of {bytes} bytes where they have {row_bytes}"))
            }
            Record::Updated { offset, bytes, .. } if offset + bytes.len() > shape.row_bytes => {
                let end = offset + bytes.len();
                Some(format!("bytes {offset} to {end} are not all in the row"))
            }
            Record::ValueSet { offset, .. } if !shape.variable_offsets.contains(&offset) => {
                Some(format!("no variable-length column lies at byte {offset} of the row"))
            }
            _ => None,
        };
        match refused {
            Some(what) => Err(format!("table {table}, slot {row}: {what}")),
            None => self.gathered.push(table, row, bytes),
        }
    }

    /// The tables are others now.
    fn describe(&mut self) {
        self.shapes = self.schema.tables.iter().map(RowShape::of).collect();
        let own = |table| is_own(table, self.part, self.parts).then(Outline::default);
        for table in self.outlines.len()..self.shapes.len() {
            self.outlines.push(own(table));
        }
        self.forget_dropped();
    }

    /// Nothing is known of tables that were dropped.
    fn forget_dropped(&mut self) {
        for (outline, table) in self.outlines.iter_mut().zip(&self.schema.tables) {
            outline.take_if(|_| table.is_dropped());
        }
    }

    /// Bytes of records that may be installed, when all up to `installed` is, before the next
    /// checkpoint is handed in. A record takes at most twice its bytes.
    pub(super) fn room(&self, installed: GroupNumber) -> u64 {
        if self.is_even(installed) {
            // A checkpoint that cannot begin because its disk is full is handed in again and again.
            let waiting = self.handed_in.as_ref().map_or(0, Pass::bytes);
            self.gathered_max().saturating_sub(self.gathered.bytes() + waiting).div_ceil(2)
        } else {
            u64::MAX
        }
    }

    /// Whether what is installed reaches as far as what any block holds.
    pub(super) fn is_even(&self, installed: GroupNumber) -> bool {
        installed >= self.known
    }

    /// What was installed, up to `position`, is the next checkpoint's.
    ///
    /// # Errors
    /// Records of rows that cannot be, in words.
    pub(super) fn hand_in(&mut self, position: LogPosition) -> Result<Needs, String> {
        self.finish();
        self.squeeze_at = self.gathered_max() / SQUEEZES;
        // What was handed in before was not begun.
        let before = self.handed_in.take().map(|pass| pass.end().1);
        let changes = std::mem::take(&mut self.gathered).into_changes(before)?;
        let pass = Pass::new(position, &self.schema, &self.outlines, changes)?;
        let needs = Needs { position, schema: self.schema.clone(), slabs: pass.slabs() };
        self.handed_in = Some(pass);
        Ok(needs)
    }

    /// What was handed in is being written.
    ///
    /// # Panics
    /// When nothing was.
    pub(super) fn begin(&mut self) {
        assert!(self.handed_in.is_some(), "a checkpoint was handed in");
        (self.pass, self.next) = (self.handed_in.take(), (0, 0));
        if plant::is(Plant::GatheredLost) {
            self.gathered = Gathered::default();
        }
    }

    /// All blocks of the checkpoint are written.
    pub(super) fn finish(&mut self) {
        let Some(pass) = self.pass.take() else { return };
        let (after, _) = pass.end();
        for (outline, after) in self.outlines.iter_mut().zip(after) {
            *outline = after.or(outline.take());
        }
        self.forget_dropped();
    }

    /// Makes `block` of a checkpoint from its copy of the course before, `last`, in `out`, which is as
    /// long as blocks are; returns how many bytes are to be written. `number` is the ring's position
    /// among all.
    ///
    /// # Errors
    /// `Damaged`, `Rows`, `Disk`: final.
    pub(super) fn fill(
        &mut self,
        file: &dyn DiskFile,
        (number, ring): (usize, &Ring),
        (block, stamp, last): (u32, Stamp, Stamp),
        salt: u64,
        out: &mut [u8],
    ) -> Result<usize, ImageFailure> {
        let checkpoint = stamp.checkpoint;
        assert_eq!(checkpoint, last.checkpoint + 1);
        let mut open = if ring.created_by > last.checkpoint {
            OpenBlock::empty(ring, block, out)
        } else {
            let offset = ring.offset(ring.place(last.checkpoint, block));
            file.read_at(out, offset)?;
            let copy = OpenBlock::read(ring, (block, last), salt, out);
            copy.ok_or_else(|| {
                let what = format!("block {block} of checkpoint {} is damaged", last.checkpoint);
                ImageFailure::Damaged { file: file.name().to_owned(), offset, what }
            })?
        };
        let Some(pass) = &mut self.pass else { return Ok(open.close(stamp, 0, salt)) };
        let is_first = (number, block) >= self.next;
        if is_first {
            self.next = (number, block + 1);
        }
        let group = pass.position.group;
        let filled = pass.fill(ring.slab, &mut open, is_first);
        filled.map_err(|what| {
            ImageFailure::Rows(format!("checkpoint {checkpoint}, group {group}: {what}"))
        })?;
        Ok(open.close(stamp, group, salt))
    }

    /// Memory it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let passes = self.handed_in.iter().chain(&self.pass);
        let outlines = self.outlines.iter().flatten().map(Outline::memory_bytes);
        let passes = passes.map(Pass::memory_bytes).sum::<u64>();
        self.gathered.memory_bytes() + passes + outlines.sum::<u64>()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::dynamic::DynamicTable;
    use crate::memory::recovery::tests::tables;
    use crate::memory::{Limits, MemoryStore};
    use crate::profile::MemoryLogged;
    use crate::store::Store;
    use crate::value::Value;
    use crate::value_log::LogBuffer;

    /// The logs of three transactions: that which makes the tables, and two that make a row each.
    fn logs() -> [LogBuffer; 3] {
        let mut store = MemoryStore::<MemoryLogged>::new(Limits::default());
        tables().into_iter().for_each(|table| store.create_table(table).unwrap());
        let plain = DynamicTable::new(store.schema(), 1);
        [0, 1, 2].map(|n| {
            if n > 0 {
                store.begin().unwrap();
                store.begin_writes();
                plain.insert(&mut store, &[Value::Integer(n)]).unwrap();
                store.commit().unwrap();
            }
            let mut log = LogBuffer::default();
            store.take_log(&mut log);
            log
        })
    }

    /// What was handed in and never begun is part of what is handed in next.
    #[test]
    fn a_checkpoint_that_did_not_begin_is_in_the_next_one() {
        let logs = logs();
        let position = |group| LogPosition { group, ..LogPosition::default() };
        let handed_in = |often: bool| {
            let mut copy = DiskCopy::new((0, 1), 1 << 20, 0, Schema::default(), Vec::new());
            for (group, log) in (1..).zip(&logs) {
                copy.install(log.as_slice()).unwrap();
                if often || group == 3 {
                    copy.hand_in(position(group)).unwrap();
                }
            }
            copy.begin();
            copy.pass.map(|pass| (pass.position.group, pass.bytes()))
        };
        assert_eq!(handed_in(true), handed_in(false));
    }
}
