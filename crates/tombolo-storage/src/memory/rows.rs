//! The rows of one table: their slots, what lies where in a row, and which row a slot holds.
//!
//! A slot is used again when its row is gone. An id that the store's own calls give out is the slot
//! alone, for code that uses an id where it found it. A *named* id carries the slot's generation,
//! too, so that an id of a row that was deleted, of another table or of another database is refused.
//!
//! Not here: how rows get longer (`columns.rs`), transactions (`calls.rs`).

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::ControlFlow;

use super::budget::Allowance;
use super::columns::{RowShape, slot_widths};
use super::region::RegionError;
use super::slab::Slab;
use super::store::{MemoryRow, MemoryStore};
use crate::error::Result;
use crate::key::{IndexType, Range};
use crate::profile::MemoryProfile;
use crate::row::{Fields, Row, RowId, RowMut};
use crate::schema::{DeclaredIndex, DeclaredTable, TableDef};
use crate::store::{Index, Order, Store, Table, TableType};

/// The rows of one table.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) slab: Slab,
    pub(super) row_bytes: usize,
    /// Bytes of a row without the columns that were added.
    pub(super) base_bytes: usize,
    /// How long slots are, and were (`columns.rs`).
    pub(super) widths: Vec<usize>,
    /// Bytes of a row's columns at full width.
    pub(super) raw_row_bytes: usize,
    /// Offsets of the handles of variable-length columns.
    pub(super) variable_offsets: Vec<usize>,
    pub(super) generations: Generations,
}

/// How many rows each slot has lost, counted from a number that is each table's own: so no id of
/// another table, or of an earlier opening, is taken for one of these.
///
/// A row that is deleted is lost at once, and found again where its deletion is undone; no other row
/// takes its slot meanwhile. So an id that was given out here and has its slot's generation names a
/// live row, and whoever reads by it need not look at the live bits. Whoever writes looks: an id of
/// another table has the generation of a slot here once in four thousand million, and a slot that is
/// free holds the list of those.
#[derive(Debug)]
pub(super) struct Generations {
    first: u32,
    /// Whether lost rows are counted.
    are_kept: bool,
    /// Of the slots up to the highest that ever lost a row.
    lost: Vec<u32>,
}

impl Generations {
    pub(super) fn new() -> Self {
        let first = RandomState::new().build_hasher().finish() as u32;
        Self { first, are_kept: false, lost: Vec::new() }
    }

    /// Counts lost rows from here on.
    pub(super) fn keep(&mut self) {
        self.are_kept = true;
    }

    #[inline(always)]
    fn of(&self, slot: u32) -> u32 {
        self.first.wrapping_add(self.lost.get(slot as usize).copied().unwrap_or(0))
    }

    /// The row in this slot is gone: no id names it from now on.
    #[inline]
    pub(super) fn end(&mut self, slot: u32) {
        if !self.are_kept {
            return;
        }
        let slot = slot as usize;
        if slot >= self.lost.len() {
            self.grow(slot + 1);
        }
        self.lost[slot] = self.lost[slot].wrapping_add(1);
    }

    /// Makes room for so many slots. The first deletion from a large table does not wait for it: memory
    /// that was never written to is zero as the system gives it.
    #[cold]
    fn grow(&mut self, slots: usize) {
        let mut lost = vec![0; slots.next_power_of_two()];
        lost[..self.lost.len()].copy_from_slice(&self.lost);
        self.lost = lost;
    }

    /// The row in this slot, which was gone, is there again: its deletion is undone.
    pub(super) fn take_end_back(&mut self, slot: u32) {
        if !self.are_kept {
            return;
        }
        self.lost[slot as usize] = self.lost[slot as usize].wrapping_sub(1);
    }
}

impl Rows {
    /// The empty rows of a table.
    pub(super) fn new(table: &TableDef, allowance: &Allowance) -> Result<Self, RegionError> {
        let width = slot_widths(table).pop().unwrap_or_default();
        let slab = Slab::new(width, allowance.clone())?;
        let (row_bytes, base_bytes, raw_row_bytes) = (0, 0, 0);
        let (widths, variable_offsets) = (Vec::new(), Vec::new());
        let generations = Generations::new();
        let mut rows = Self {
            slab,
            row_bytes,
            base_bytes,
            widths,
            raw_row_bytes,
            variable_offsets,
            generations,
        };
        rows.describe(table);
        Ok(rows)
    }

    /// The rows are this table's from now on.
    pub(super) fn describe(&mut self, table: &TableDef) {
        let RowShape { row_bytes, base_bytes, widths, variable_offsets } = RowShape::of(table);
        (self.row_bytes, self.base_bytes) = (row_bytes, base_bytes);
        (self.widths, self.variable_offsets) = (widths, variable_offsets);
        self.raw_row_bytes = table.raw_row_bytes();
    }

    /// The named id of the row in this slot.
    #[inline(always)]
    pub(super) fn named(&self, slot: u32) -> RowId {
        RowId::new(slot.into()).with_upper_half(self.generations.of(slot))
    }

    /// The slot of the row that a named id names. Where it names none, a number beyond all slots, which
    /// the slab refuses with the compare it makes in any case.
    #[inline(always)]
    fn place(&self, row: RowId) -> u64 {
        let location = row.location();
        location ^ u64::from(self.generations.of(location as u32)) << 32
    }
}

/// A row with its named id.
pub type FoundRow<'s, R> = (RowId, Row<R, MemoryRow<'s>>);

impl<P: MemoryProfile> MemoryStore<P> {
    /// Ids are named from here on: rows that are lost are counted, in four bytes a slot. Without it a named
    /// id of a row that was deleted is not told from one of the row that has its slot.
    pub fn name_rows(&mut self) {
        self.names_rows = true;
        self.tables.iter_mut().for_each(|rows| rows.generations.keep());
    }

    /// The named id of a row, which the store has just given out for its slot.
    #[inline(always)]
    pub fn named<R: TableType>(&self, table: &Table<R>, row: RowId) -> RowId {
        self.tables[table.position()].named(Self::slot(row))
    }

    /// [`Store::lookup`], with a named id.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn lookup_named<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<RowId>> {
        if Self::is_packed(index) {
            let Some(key) = I::pack(index.shape(), key) else { return Ok(None) };
            let entries = &mut self.indexes[index.position()];
            let found = entries.look_up_packed(key);
            return Ok(found.map(|slot| self.tables[entries.table].named(slot)));
        }
        let found = self.lookup(index, key)?;
        let rows = &self.tables[self.indexes[index.position()].table];
        Ok(found.map(|row| rows.named(Self::slot(row))))
    }

    /// The row that [`MemoryStore::lookup_named`] finds, with its id.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn find_named<I: DeclaredIndex + IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<FoundRow<'_, I::Table>>> {
        let Some(row) = self.lookup_named(index, key)? else { return Ok(None) };
        let rows = &self.tables[self.indexes[index.position()].table];
        let fixed = rows.slab.head(rows.place(row), I::Table::SIZE);
        Ok(fixed.map(|fixed| (row, Row::new(MemoryRow { fixed, values: &self.values }))))
    }

    /// [`Store::pin`], of the row that a named id names.
    ///
    /// # Errors
    /// `NoSuchRow`.
    #[inline(always)]
    pub fn pin_named<R: TableType>(
        &self,
        table: &Table<R>,
        row: RowId,
    ) -> Result<Row<R, MemoryRow<'_>>> {
        let rows = &self.tables[table.position()];
        self.pinned(table, rows.slab.head(rows.place(row), table.row_size()))
    }

    /// [`Store::update`], of the row that a named id names.
    ///
    /// # Errors
    /// `NoSuchRow`, and as there.
    #[inline(always)]
    pub fn update_named<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        fields: Fields<R>,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()> {
        let place = self.tables[table.position()].place(row);
        self.update_in(table, place, fields, true, change)
    }

    /// [`Store::scan`], with named ids.
    ///
    /// # Errors
    /// `Unordered` for a hash index.
    pub fn scan_named<I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: Range<I::Key<'_>>,
        order: Order,
        mut visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        self.scan_slots(index, range, order, |rows, slot| visit(rows.named(slot)))
    }

    /// [`Store::rows`], with named ids.
    pub fn rows_named<R: TableType>(
        &self,
        table: &Table<R>,
        mut visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) {
        let rows = &self.tables[table.position()];
        let _ = rows.slab.live().try_for_each(|slot| visit(rows.named(slot)));
    }

    /// The handle of the table that an index is of.
    pub fn table_of<I: DeclaredIndex + IndexType>(&self, index: &Index<I>) -> Table<I::Table> {
        Table::of(self.indexes[index.position()].table, index)
    }

    /// All rows of a table with their named ids, in the order of their slots.
    pub fn live_rows<'s, R: TableType>(
        &'s self,
        table: &Table<R>,
    ) -> impl Iterator<Item = FoundRow<'s, R>> + use<'s, R, P> {
        let (rows, values) = (&self.tables[table.position()], &self.values);
        let bytes = table.row_size();
        rows.slab.live().filter_map(move |slot| {
            let fixed = rows.slab.live_head(slot.into(), bytes)?;
            Some((rows.named(slot), Row::new(MemoryRow { fixed, values })))
        })
    }

    /// The id that the store's own calls know for a named one.
    ///
    /// # Errors
    /// `NoSuchRow`: its row is gone, or was never one of this table.
    #[inline(always)]
    pub fn unnamed<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<RowId> {
        let rows = &self.tables[table.position()];
        match u32::try_from(rows.place(row)) {
            Ok(slot) if rows.slab.is_live(slot) => Ok(Self::row_id(slot)),
            _ => Err(Self::no_such_row(table)),
        }
    }
}
