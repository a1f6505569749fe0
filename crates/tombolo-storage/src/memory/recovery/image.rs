//! What a checkpoint image needs of rows: their slabs, to be read and, in a replay, to be filled,
//! and a second copy of them all (DB′, TPK-14).
//!
//! Not here: blocks, files, rings (`memory/image/`). Why a row that did not change since the position
//! an image is complete as of reads its own value is argued in `memory/image/mod.rs`.

use super::super::budget::Allowance;
use super::super::region::RegionError;
use super::super::rows::Rows;
use super::super::slab::Slab;
use super::super::variable::{CLASSES, HANDLE_BYTES, Handle, SizeClasses, slot_bytes};
use super::{Fuzzy, ReplayPart, is_own, no_memory};
use crate::schema::Schema;
use crate::value_log::{GroupNumber, definition};

/// Which slots of a table: its rows, or a piece of them (`columns.rs`), or its values of one size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::memory) struct SlabName {
    pub(in crate::memory) table: u32,
    /// 0 for the rows, or what of them was there first; 1 + the size class for values; behind those,
    /// further pieces of rows.
    pub(in crate::memory) kind: u32,
}

impl SlabName {
    /// The size class, of values.
    pub(in crate::memory) fn class(self) -> Option<usize> {
        (self.kind as usize).checked_sub(1).filter(|&class| class < CLASSES)
    }

    /// Which piece, of rows.
    pub(in crate::memory) fn piece(self) -> Option<usize> {
        match self.kind as usize {
            0 => Some(0),
            kind => kind.checked_sub(CLASSES),
        }
    }
}

/// The kind of piece `piece` of a table's rows.
pub(in crate::memory) const fn piece_kind(piece: usize) -> u32 {
    if piece == 0 { 0 } else { (CLASSES + piece) as u32 }
}

/// Slots of a slab, or one piece of each.
#[derive(Clone, Copy, Debug)]
pub(in crate::memory) struct Slots<'a> {
    slab: &'a Slab,
    /// Where it begins in a slot, and how long it is.
    piece: (usize, usize),
}

impl<'a> Slots<'a> {
    /// All of each.
    pub(in crate::memory) fn whole(slab: &'a Slab) -> Self {
        Self { slab, piece: (0, slab.slot_bytes()) }
    }

    /// One more than the highest id ever handed out.
    pub(in crate::memory) fn used(self) -> u32 {
        self.slab.used()
    }

    /// How long each is.
    pub(in crate::memory) fn bytes(self) -> usize {
        self.piece.1
    }

    /// The live bits of 64 slots from `first` on.
    pub(in crate::memory) fn live_bits(self, first: u32) -> u64 {
        self.slab.live_bits(first)
    }

    /// `count` of them from `first` on, one behind the other.
    ///
    /// # Panics
    /// When not all of them were handed out, or `out` is not as long.
    pub(in crate::memory) fn copy(self, first: u32, count: u32, out: &mut [u8]) {
        self.slab.copy_piece((first, count), self.piece, out);
    }
}

impl ReplayPart {
    /// All tables so far, those of other parts too.
    pub(in crate::memory) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Whether the rows of a table are this part's. Of one that was dropped it has none, and writes the
    /// blocks of the checkpoint that was begun before.
    pub(in crate::memory) fn keeps(&self, table: u32) -> bool {
        let table = table as usize;
        table < self.tables.len() && is_own(table, self.part, self.parts)
    }

    /// Makes the tables that an image holds, after so many changes of its schema.
    ///
    /// # Errors
    /// What is wrong with a definition, in words.
    pub(in crate::memory) fn load_schema(
        &mut self,
        definitions: &[Vec<u8>],
        changes: u32,
    ) -> Result<(), String> {
        let tables = definitions.iter().map(|bytes| definition::decode(bytes));
        let tables = tables.collect::<Option<_>>();
        let tables = tables
            .ok_or("a table's definition cannot be read: it is damaged, or of another build")?;
        let schema = Schema::of_image(tables, changes).map_err(|error| error.to_string())?;
        self.schema = schema;
        let tables = (0..self.schema.tables.len()).map(|position| self.empty_table(position));
        self.tables = tables.collect::<Result<_, _>>().map_err(no_memory)?;
        Ok(())
    }

    /// The slots of all slabs that hold anything, piece by piece.
    pub(in crate::memory) fn slots(&self) -> impl Iterator<Item = (SlabName, Slots<'_>)> {
        let tables = self.tables.iter().enumerate();
        let tables =
            tables.filter_map(|(position, table)| Some((position as u32, table.as_ref()?)));
        tables.flat_map(|(position, table)| table.slots(position))
    }

    /// The slots of this name, if they are this part's and the slab holds anything.
    pub(in crate::memory) fn slots_of(&self, name: SlabName) -> Option<Slots<'_>> {
        self.tables.get(name.table as usize)?.as_ref()?.slots_of(name)
    }

    /// How long slots of this name are, whether there are any or not; `None` when they are of another
    /// part, of no table, of no size class, or of no piece.
    pub(in crate::memory) fn slot_bytes(&self, name: SlabName) -> Option<usize> {
        let table = self.tables.get(name.table as usize)?.as_ref()?;
        match name.class() {
            Some(class) => Some(slot_bytes(class)),
            None => table.shape.piece(name.piece()?).map(|(_, width)| width),
        }
    }

    /// Stores slots of this name that were written out before; of the `bits.len() * 64` slots from
    /// `first` on, at most `slots`, which are live.
    ///
    /// # Errors
    /// No memory, in words.
    ///
    /// # Panics
    /// When there are none of this name.
    pub(in crate::memory) fn load_slots(
        &mut self,
        name: SlabName,
        (first, slots): (u32, u32),
        bits: impl Iterator<Item = u64>,
        bytes: &[u8],
    ) -> Result<(), String> {
        let table = self.tables[name.table as usize].as_mut().expect("a table of this part");
        let (slab, piece) = match name.class() {
            Some(class) => {
                let slab = table.values.slab_mut(class).map_err(no_memory)?;
                let width = slab.slot_bytes();
                (slab, (0, width))
            }
            None => {
                let piece = name.piece().and_then(|piece| table.shape.piece(piece));
                (&mut table.slab, piece.expect("a piece of the rows"))
            }
        };
        let no_memory = |error| format!("no memory for what the image holds: {error}");
        slab.load_piece(first, piece, bytes).map_err(no_memory)?;
        if piece.0 == 0 {
            // The first piece says which rows live; the others are of the same.
            slab.load_live(first, slots, bits);
        }
        Ok(())
    }

    /// All blocks are loaded, which hold changes of groups up to `known`. Finds the row that each
    /// value belongs to, and which values the log must bring: those whose handle leads nowhere, or
    /// where another row's handle led before. Says how many.
    pub(in crate::memory) fn claim_values(&mut self, known: GroupNumber) -> usize {
        let mut dangling = Vec::new();
        for (position, table) in self.tables.iter_mut().enumerate() {
            let Some(table) = table else { continue };
            table.claim_values(|row, offset| dangling.push((position as u32, row, offset)));
        }
        let open = dangling.len();
        self.fuzzy = Fuzzy { until: known, dangling };
        open
    }

    /// The same rows and values in the same slots, in memory of their own.
    ///
    /// # Errors
    /// As [`ReplayPart::settle`], or that there is no memory, in words.
    pub fn mirror(&mut self) -> Result<ReplayPart, String> {
        self.settle()?;
        // Nothing is refused here, so nothing is counted on the way.
        let allowance = Allowance { budget: None, ..self.allowance.clone() };
        let of =
            |table: &Option<Rows>| table.as_ref().map(|table| table.mirror(&allowance)).transpose();
        let tables = self.tables.iter().map(of).collect::<Result<_, _>>().map_err(no_memory)?;
        let schema = self.schema.clone();
        Ok(Self { allowance, schema, tables, ..Self::new(self.part, self.parts, self.limits) })
    }

    /// All parts of one replay whose rows are of one moment, divided into `count`.
    ///
    /// # Panics
    /// When a part is missing, or `count` is 0.
    pub(in crate::memory) fn divide(parts: Vec<ReplayPart>, count: usize) -> Vec<ReplayPart> {
        let first = parts.first().expect("a replay has at least one part");
        assert!(count > 0 && first.parts == parts.len(), "a part of the replay is missing");
        let (allowance, limits) = (first.allowance.clone(), first.limits);
        let schema = first.schema.clone();
        let mut tables: Vec<_> = schema.tables.iter().map(|_| None).collect();
        for part in parts {
            assert!(part.fuzzy.until == 0 && part.schema == schema);
            for (place, table) in tables.iter_mut().zip(part.tables) {
                *place = place.take().or(table);
            }
        }
        let divided = (0..count).map(|part| {
            let own = tables
                .iter_mut()
                .enumerate()
                .map(|(position, table)| table.take_if(|_| is_own(position, part, count)));
            let (tables, empty) = (own.collect(), Self::new(part, count, limits));
            Self { allowance: allowance.clone(), schema: schema.clone(), tables, ..empty }
        });
        divided.collect()
    }

    /// Memory its rows and values take, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let first = self.slots().filter(|(_, slots)| slots.piece.0 == 0);
        first.map(|(_, slots)| slots.slab.committed_bytes() as u64).sum()
    }
}

impl Rows {
    /// The slots of all slabs of the table at this position, piece by piece.
    pub(in crate::memory) fn slots(
        &self,
        table: u32,
    ) -> impl Iterator<Item = (SlabName, Slots<'_>)> {
        let pieces = (0..self.shape.widths.len()).filter_map(|piece| {
            let slots = Slots { slab: &self.slab, piece: self.shape.piece(piece)? };
            Some((piece_kind(piece), slots))
        });
        let values = (0..CLASSES).filter_map(|class| {
            self.values.slab(class).map(|slab| (1 + class as u32, Slots::whole(slab)))
        });
        let slots = pieces.chain(values);
        slots.map(move |(kind, slots)| (SlabName { table, kind }, slots))
    }

    /// The slots of this name, which is of this table, if the slab holds anything.
    pub(in crate::memory) fn slots_of(&self, name: SlabName) -> Option<Slots<'_>> {
        match name.class() {
            Some(class) => self.values.slab(class).map(Slots::whole),
            None => {
                let piece = self.shape.piece(name.piece()?)?;
                Some(Slots { slab: &self.slab, piece })
            }
        }
    }

    fn mirror(&self, allowance: &Allowance) -> Result<Rows, RegionError> {
        Ok(Rows {
            slab: self.slab.mirror(allowance.clone())?,
            values: self.values.mirror(allowance.clone())?,
            shape: self.shape.clone(),
            raw_row_bytes: self.raw_row_bytes,
        })
    }

    /// Lets every live row claim the slots its handles lead to, and those slots alone live.
    fn claim_values(&mut self, mut dangling: impl FnMut(u32, usize)) {
        self.clear_dropped(); // the definitions may be newer than blocks
        let Self { slab, values, shape, .. } = self;
        let mut claimed = Claims::new(values);
        // The ids are gathered word by word: the rows change under the walk.
        for first in (0..slab.used()).step_by(64) {
            if shape.variable_offsets.is_empty() {
                break;
            }
            let mut live = slab.live_bits(first);
            while live != 0 {
                let row = first + live.trailing_zeros();
                live &= live - 1;
                for &offset in &shape.variable_offsets {
                    let slot = &mut slab.slot_mut(row)[offset..offset + HANDLE_BYTES];
                    let handle = Handle::read(slot, 0);
                    if handle == Handle::EMPTY
                        || values.leads_somewhere(handle) && claimed.claim(handle)
                    {
                        continue;
                    }
                    slot.copy_from_slice(&Handle::DANGLING.to_bits().to_le_bytes());
                    dangling(row, offset);
                }
            }
        }
        for (class, claimed) in claimed.0.iter().enumerate() {
            if values.slab(class).is_some()
                && let Ok(slab) = values.slab_mut(class)
            {
                slab.keep_live(claimed);
                slab.rebuild_free_list();
            }
        }
    }
}

/// Which slots of each size class a row's handle led to: a bit each.
struct Claims([Vec<u64>; CLASSES]);

impl Claims {
    fn new(values: &SizeClasses) -> Self {
        let used = |class| values.slab(class).map_or(0, |slab| slab.used());
        Self(std::array::from_fn(|class| vec![0; used(class).div_ceil(64) as usize]))
    }

    /// Whether no handle claimed it before.
    fn claim(&mut self, handle: Handle) -> bool {
        let word = &mut self.0[handle.class()][handle.slot() as usize / 64];
        let bit = 1 << (handle.slot() % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

#[cfg(test)]
#[cfg(not(loom))]
impl ReplayPart {
    /// The rows of a table.
    pub(in crate::memory) fn rows_for_test(&mut self, table: usize) -> &mut Slab {
        &mut self.tables[table].as_mut().expect("a table of this part").slab
    }
}
