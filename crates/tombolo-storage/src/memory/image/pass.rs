//! `Pass`: what one checkpoint does to the blocks of the one before it, where DB′ lies on disk only.
//!
//! ```text
//!   Pass::new     changes, by row ─► which values they put down ─► a slot for each of these
//!   Pass::fill    a block of rows: its rows' records, then the handles of their new values; every
//!                 live row's handles claim their slots ─► a block of values: new ones; the claimed live
//! ```
//!
//! A pass begins with blocks that hold everything up to the group g as of which the last checkpoint is
//! complete, and of later groups nothing behind the pass's own position p. It has all records from g
//! to p, so a row's last state is known: gone, inserted, or as its block has it but for these bytes. An
//! *unchanged* handle is one of a column that none of these records set, of a row that none of them made
//! or deleted. It names a slot with its value in whichever copy of that slot's block (`mod.rs`), and no
//! other unchanged handle names it. *So new values take slots that no handle of the image names, nor
//! named when it was loaded*: whatever mixture of this checkpoint's blocks and the last one's a crash
//! leaves, an unchanged handle still leads to its value. What a changed handle leads to in the mixture
//! means nothing, as ever: the log from g on brings it again.
//!
//! Not here: files, where records come from (`on_disk.rs`). Invariants: a table's blocks of rows come
//! before those of its values, the first piece of rows before the others; a block may be filled again
//! after a failed write, with the same result.

use super::super::bits::Bits;
use super::super::columns::RowShape;
use super::super::recovery::{Outline, SlabName, piece_kind};
use super::super::variable::{CLASSES, HANDLE_BYTES, Handle, class_of, slot_bytes};
use super::block::OpenBlock;
use super::changes::{Change, Changes};
use super::part::SlabNeed;
use crate::plant::{self, Plant};
use crate::schema::Schema;
use crate::value_log::{LogPosition, Record};

/// What a pass does. See the module's head.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) position: LogPosition,
    changes: Changes,
    tables: Vec<Option<TablePass>>,
}

/// What becomes of a row, if anything but its bytes changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fate {
    #[default]
    Stays,
    Comes,
    Goes,
}

/// A value that was put down: its row, where in that the handle lies, and the handle.
#[derive(Clone, Copy, Debug)]
struct NewHandle {
    row: u32,
    offset: u32,
    handle: Handle,
}

/// The pass through one table.
#[derive(Debug)]
struct TablePass {
    table: usize,
    shape: RowShape,
    /// As the table is when all its blocks were filled; which slots of values are claimed gathers on
    /// the way.
    after: Outline,
    /// By size class, slots that a row may claim: those that were, and those of new values.
    open: Vec<Bits>,
    /// By row and offset.
    handles: Vec<NewHandle>,
    /// By size class, slots of new values and the places of their records.
    puts: Vec<Vec<(u32, u32)>>,
    /// Which rows live, as far as the first piece's blocks were filled.
    live: Bits,
    /// Scratch: the values of the row at hand, by offset, with the places of their records.
    values: Vec<(usize, u32)>,
}

impl Pass {
    /// The pass that brings tables that are as `before` says up to `position`, with everything that
    /// changed since.
    ///
    /// # Errors
    /// Records of rows that cannot be, in words.
    pub(super) fn new(
        position: LogPosition,
        schema: &Schema,
        before: &[Option<Outline>],
        changes: Changes,
    ) -> Result<Self, String> {
        let mut tables = Vec::new();
        for (table, (def, before)) in schema.tables.iter().zip(before).enumerate() {
            let Some(before) = before else {
                // Of another part, or dropped.
                tables.push(None);
                continue;
            };
            let mut pass = TablePass::new(table, RowShape::of(def), before);
            pass.place_values(before, &changes).map_err(|what| format!("table {table}, {what}"))?;
            tables.push(Some(pass));
        }
        Ok(Self { position, changes, tables })
    }

    /// The slots that are handed out when it is over.
    pub(super) fn slabs(&self) -> Vec<SlabNeed> {
        let mut needs = Vec::new();
        for table in self.tables.iter().flatten() {
            let name = |kind| SlabName { table: table.table as u32, kind };
            for piece in 0..table.shape.widths.len() {
                let width = table.shape.piece(piece).map_or(0, |(_, width)| width);
                let (slab, used) = (name(piece_kind(piece)), table.after.rows);
                needs.push(SlabNeed { slab, slot_bytes: width as u32, used });
            }
            for (class, slots) in table.after.values.iter().enumerate() {
                let (slab, slot_bytes) = (name(1 + class as u32), slot_bytes(class) as u32);
                if slots.used > 0 {
                    needs.push(SlabNeed { slab, slot_bytes, used: slots.used });
                }
            }
        }
        needs
    }

    /// Makes a block of the last checkpoint one of this; `is_first` unless it was filled before.
    ///
    /// # Errors
    /// What does not fit together, in words.
    pub(super) fn fill(
        &mut self,
        slab: SlabName,
        block: &mut OpenBlock<'_>,
        is_first: bool,
    ) -> Result<(), String> {
        let table = self.tables.get_mut(slab.table as usize).and_then(Option::as_mut);
        // A ring of a table that this position does not know has nothing yet.
        let Some(table) = table else { return Ok(()) };
        match (slab.class(), slab.piece()) {
            (Some(class), _) => table.fill_values(class, &self.changes, block),
            (None, Some(piece)) => table
                .fill_rows(piece, &self.changes, block, is_first)
                .map_err(|what| format!("table {}, {what}", slab.table))?,
            (None, None) => unreachable!("the ring's shape was checked"),
        }
        Ok(())
    }

    /// What the tables are when all blocks were filled, and what changed.
    pub(super) fn end(self) -> (Vec<Option<Outline>>, Changes) {
        let after = self.tables.into_iter().map(|table| table.map(|table| table.after));
        (after.collect(), self.changes)
    }

    /// What changed, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.changes.bytes()
    }

    /// Memory it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let tables = self.tables.iter().flatten().map(TablePass::memory_bytes);
        self.changes.memory_bytes() + tables.sum::<u64>()
    }
}

impl TablePass {
    fn new(table: usize, mut shape: RowShape, before: &Outline) -> Self {
        shape.handle_offsets.sort_unstable();
        let after = Outline { rows: before.rows, ..Outline::default() };
        let open = before.values.iter().map(|class| class.claimed.clone()).collect();
        let (handles, puts) = (Vec::new(), vec![Vec::new(); CLASSES]);
        let (live, values) = (Bits::default(), Vec::new());
        Self { table, shape, after, open, handles, puts, live, values }
    }

    /// Finds the values that rows have at the end and did not have before, and a slot for each.
    fn place_values(&mut self, before: &Outline, changes: &Changes) -> Result<(), String> {
        let mut next = [0; CLASSES];
        let mut all = changes.of(self.table, 0..u64::from(u32::MAX)).peekable();
        while let Some(&Change { row, .. }) = all.peek() {
            let mut fate = Fate::Stays;
            self.values.clear();
            while let Some(change) = all.next_if(|next| next.row == row) {
                fate = fate.after(change.record);
                match change.record {
                    // It may have been gathered before its column was dropped.
                    Record::ValueSet { offset, .. } if self.shape.is_dropped(offset) => {}
                    Record::ValueSet { offset, .. } => {
                        self.values.retain(|value| value.0 != offset);
                        self.values.push((offset, change.place));
                    }
                    Record::Inserted { .. } | Record::Deleted { .. } => {
                        // A deleted row was inserted before, perhaps by a record that was let go.
                        self.after.rows = self.after.rows.max(row + 1);
                        self.values.clear();
                    }
                    _ => {}
                }
            }
            if fate == Fate::Stays && row >= before.rows {
                return Err(never_inserted(row));
            }
            self.values.sort_unstable();
            for &(offset, place) in if fate == Fate::Goes { &[][..] } else { &self.values } {
                let Record::ValueSet { value, .. } = changes.at(self.table, place) else {
                    continue;
                };
                let mut handle = Handle::EMPTY;
                if !value.is_empty() {
                    let class = class_of(value.len());
                    let slot = before.free_slot(class, &mut next[class]);
                    handle = Handle::new(value.len(), slot);
                    self.puts[class].push((slot, place));
                }
                self.handles.push(NewHandle { row, offset: offset as u32, handle });
            }
        }
        self.after.values = before.values.clone();
        for (class, slots) in self.after.values.iter_mut().enumerate() {
            slots.used = slots.used.max(next[class]);
            slots.claimed = Bits::below(slots.used);
            self.open[class].grow(slots.used);
            for &(slot, _) in &self.puts[class] {
                self.open[class].put(slot as usize, true);
            }
        }
        Ok(())
    }

    fn fill_rows(
        &mut self,
        piece: usize,
        changes: &Changes,
        block: &mut OpenBlock<'_>,
        is_first: bool,
    ) -> Result<(), String> {
        block.grow(self.after.rows);
        let first = block.first();
        let end = first + block.slots();
        self.replay(piece, changes, block, first..end)?;
        self.clear_dropped(piece, block);
        if piece > 0 {
            // A row that dies takes the handles in its further pieces with it. Where the slot is used
            // again and only the first piece is written before a crash, such a handle would claim a
            // value that has another owner by then.
            for row in first..end {
                let is_live = self.live.contains(row as usize);
                block.set_live(row - first, is_live);
                if !is_live {
                    block.slot(row - first).fill(0);
                }
            }
        } else if self.shape.widths.len() > 1 {
            self.live.grow(end);
            for row in first..end {
                self.live.put(row as usize, block.is_live(row - first));
            }
        }
        if is_first && !self.shape.variable_offsets.is_empty() {
            self.claim(piece, block, first..end)?;
        }
        Ok(())
    }

    /// Zeros where handles of columns lay that were dropped.
    fn clear_dropped(&self, piece: usize, block: &mut OpenBlock<'_>) {
        let (start, _) = self.shape.piece(piece).expect("a piece of the rows");
        let handles = self.shape.handle_offsets.iter();
        for &offset in handles.filter(|&&offset| self.shape.is_dropped(offset)) {
            let zeros = [0; HANDLE_BYTES];
            (0..block.slots()).for_each(|at| overlay(block.slot(at), start, offset, &zeros));
        }
    }

    /// Does to a piece of some rows what the log says, and gives them their new handles.
    fn replay(
        &self,
        piece: usize,
        changes: &Changes,
        block: &mut OpenBlock<'_>,
        rows: std::ops::Range<u32>,
    ) -> Result<(), String> {
        let (start, _) = self.shape.piece(piece).expect("a piece of the rows");
        let range = u64::from(rows.start)..u64::from(rows.end);
        let mut changes = changes.of(self.table, range).peekable();
        while let Some(&Change { row, .. }) = changes.peek() {
            let at = row - rows.start;
            let mut fate = Fate::Stays;
            while let Some(Change { record, .. }) = changes.next_if(|next| next.row == row) {
                fate = fate.after(record);
                match record {
                    Record::Inserted { fixed, .. } => {
                        block.slot(at).fill(0);
                        self.put(block.slot(at), start, 0, fixed);
                    }
                    Record::Updated { offset, bytes, .. } => {
                        self.put(block.slot(at), start, offset, bytes);
                    }
                    _ => {}
                }
            }
            match fate {
                _ if piece > 0 => {}
                Fate::Stays if !block.is_live(at) => return Err(never_inserted(row)),
                Fate::Stays => {}
                Fate::Comes => block.set_live(at, true),
                Fate::Goes => block.set_live(at, false),
            }
        }
        let handles = self.handles.partition_point(|new| new.row < rows.start);
        let own = self.handles[handles..].iter().take_while(|new| new.row < rows.end);
        for &NewHandle { row, offset, handle } in own {
            let bits = handle.to_bits().to_le_bytes();
            overlay(block.slot(row - rows.start), start, offset as usize, &bits);
        }
        Ok(())
    }

    /// Puts bytes that lie at `offset` of a row into its piece that begins at `start`, but for handles:
    /// a record does not know them.
    fn put(&self, slot: &mut [u8], start: usize, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        let mut from = offset;
        for &handle in &self.shape.handle_offsets {
            if handle >= offset && handle + HANDLE_BYTES <= end {
                overlay(slot, start, from, &bytes[from - offset..handle - offset]);
                from = handle + HANDLE_BYTES;
            }
        }
        overlay(slot, start, from, &bytes[from - offset..]);
    }

    /// Lets the live rows of a block claim the slots of those values whose handles lie in this piece; none
    /// is divided between two (`row.rs`).
    fn claim(
        &mut self,
        piece: usize,
        block: &mut OpenBlock<'_>,
        rows: std::ops::Range<u32>,
    ) -> Result<(), String> {
        let (start, width) = self.shape.piece(piece).expect("a piece of the rows");
        for at in 0..self.shape.variable_offsets.len() {
            let offset = self.shape.variable_offsets[at];
            let own = offset.checked_sub(start).filter(|from| from + HANDLE_BYTES <= width);
            let Some(from) = own else { continue };
            for row in rows.clone() {
                if block.is_live(row - rows.start) {
                    let bits = block.slot(row - rows.start)[from..].first_chunk();
                    let bits = u64::from_le_bytes(*bits.expect("a handle is whole"));
                    self.claim_one(row, offset, Handle::from_bits(bits))?;
                }
            }
        }
        Ok(())
    }

    fn claim_one(&mut self, row: u32, offset: usize, handle: Handle) -> Result<(), String> {
        if handle == Handle::EMPTY {
            return Ok(());
        }
        let (class, slot) = (handle.class(), handle.slot() as usize);
        let mut open = self.open.get_mut(class).filter(|_| handle.len() <= slot_bytes(class));
        if !open.as_mut().is_some_and(|open| open.remove(slot)) {
            return Err(format!(
                "slot {row}: the image does not hold the value at byte {offset}, and the log did not \
                 bring it: image and log do not belong together"
            ));
        }
        self.after.values[class].claimed.put(slot, true);
        Ok(())
    }

    fn fill_values(&self, class: usize, changes: &Changes, block: &mut OpenBlock<'_>) {
        let slots = &self.after.values[class];
        block.grow(slots.used);
        let first = block.first();
        for at in 0..block.slots() {
            let slot = first + at;
            block.set_live(at, slots.claimed.contains(slot as usize));
        }
        let puts = &self.puts[class];
        let own = &puts[puts.partition_point(|put| put.0 < first)..];
        let end = first + block.slots();
        for &(slot, place) in own.iter().take_while(|put| put.0 < end) {
            if let Record::ValueSet { value, .. } = changes.at(self.table, place) {
                block.slot(slot - first)[..value.len()].copy_from_slice(value);
            }
        }
    }

    fn memory_bytes(&self) -> u64 {
        let open: usize = self.open.iter().map(Bits::memory_bytes).sum();
        let bits = open + self.live.memory_bytes();
        let puts: usize = self.puts.iter().map(Vec::capacity).sum();
        let handles = self.handles.capacity() * size_of::<NewHandle>();
        (bits + puts * size_of::<(u32, u32)>() + handles) as u64 + self.after.memory_bytes()
    }
}

impl Fate {
    /// What it is behind one more record.
    fn after(self, record: Record<'_>) -> Self {
        match record {
            Record::Inserted { .. } => Self::Comes,
            Record::Deleted { .. } => Self::Goes,
            _ => self,
        }
    }
}

impl Outline {
    /// The lowest slot of a class from `next` on that no row owns; `next` is the one behind it then.
    fn free_slot(&self, class: usize, next: &mut u32) -> u32 {
        let slots = &self.values[class];
        if !plant::is(Plant::OwnedSlotTaken) {
            *next = slots.claimed.first_out(*next, slots.used);
        }
        *next += 1;
        *next - 1
    }
}

/// Puts those of the bytes at `offset` of a row that are in its piece that begins at `start` there.
fn overlay(piece: &mut [u8], start: usize, offset: usize, bytes: &[u8]) {
    let from = offset.max(start);
    let to = (offset + bytes.len()).min(start + piece.len());
    if from < to {
        piece[from - start..to - start].copy_from_slice(&bytes[from - offset..to - offset]);
    }
}

#[cold]
fn never_inserted(row: u32) -> String {
    format!("slot {row}: the row was never inserted")
}
