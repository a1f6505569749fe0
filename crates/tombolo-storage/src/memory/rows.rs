//! The rows of one table: their slots, the layout of a row, and the generation of each slot.
//!
//! A slot is reused when its row is deleted. An id that the store's own calls return is only the slot number,
//! for code that uses the id in the same transaction. A *named* id also has the slot's generation
//! (`slab/generations.rs`), so that an id of a deleted row, of another table or of another
//! database is refused.
//!
//! When a row is deleted, its id becomes invalid immediately, and valid again if the deletion is undone; no other
//! row takes its slot meanwhile. So an id that was issued here and has its slot's generation names a
//! live row, and a reader need not look at the live bits. A writer does look, because with a probability of one in four
//! thousand million an id of another table has the slot's generation, and a free slot contains a
//! link of the free list.
//!
//! Not here: how rows get longer (`columns.rs`), transactions (`calls.rs`).

use std::ops::ControlFlow;

use super::budget::Allowance;
use super::columns::RowShape;
use super::index::is_packed;
use super::region::RegionError;
use super::slab::Slab;
use super::store::{MemoryRow, MemoryStore};
use super::variable::SizeClasses;
use crate::error::Result;
use crate::key::{IndexType, Range};
use crate::profile::MemoryProfile;
use crate::row::{Fields, Row, RowId, RowMut};
use crate::schema::{DeclaredIndex, DeclaredTable, Schema, TableDef};
use crate::store::{Index, Order, Table, TableType};

/// The rows of one table.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) slab: Slab,
    /// Their variable-length values.
    pub(super) values: SizeClasses,
    /// Where their columns lie; handles of a dropped column are among the others until its values are free.
    pub(super) shape: RowShape,
    /// Bytes of a row's columns at full width.
    pub(super) raw_row_bytes: usize,
}

/// All rows of a store where they are, between two transactions.
#[derive(Clone, Copy, Debug)]
pub struct RowsInPlace<'a> {
    pub(super) schema: &'a Schema,
    pub(super) tables: &'a [Rows],
}

impl Rows {
    /// The empty rows of a table.
    pub(super) fn new(table: &TableDef, allowance: &Allowance) -> Result<Self, RegionError> {
        let shape = RowShape::of(table);
        let slab = Slab::new(shape.widths.last().copied().unwrap_or_default(), allowance.clone())?;
        let values = SizeClasses::new(allowance.clone());
        Ok(Self { slab, values, shape, raw_row_bytes: table.raw_row_bytes() })
    }

    /// The rows are this table's from now on.
    pub(super) fn describe(&mut self, table: &TableDef) {
        self.shape = RowShape::of(table);
        self.raw_row_bytes = table.raw_row_bytes();
    }

    /// Memory taken from the system.
    pub(super) fn committed_bytes(&self) -> usize {
        self.slab.committed_bytes() + self.values.committed_bytes()
    }

    /// The named id of the row in this slot.
    #[inline(always)]
    pub(super) fn named(&self, slot: u32) -> RowId {
        RowId::new(slot.into()).with_upper_half(self.slab.generation(slot).unwrap_or_default())
    }

    /// The slot of the row that a named id names.
    #[inline(always)]
    fn slot_of(&self, row: RowId) -> Option<u32> {
        self.slab.named_slot(row.location())
    }
}

/// A row with its named id.
pub type FoundRow<'s, R> = (RowId, Row<R, MemoryRow<'s>>);

impl<P: MemoryProfile> MemoryStore<P> {
    /// Ids are named from here on: rows that are lost are counted, in four bytes a slot. Without it named ids
    /// are of no use: one may be refused, or taken for that of another row.
    ///
    /// # Errors
    /// `NoSpace`: the system has no memory.
    pub fn name_rows(&mut self) -> Result<()> {
        self.names_rows = true;
        let allowance = self.allowance();
        let mut slabs = self.tables.iter_mut().map(|rows| &mut rows.slab);
        let kept = slabs.try_for_each(|slab| slab.keep_generations(allowance.clone()));
        kept.map_err(|_| self.no_space())
    }

    /// The number of rows of the table at this position.
    ///
    /// # Panics
    /// When there is no such table.
    pub fn rows_at(&self, table: usize) -> usize {
        self.tables[table].slab.len()
    }

    /// The named id of a row, which the store has just given out for its slot.
    #[inline(always)]
    pub fn named<R: TableType>(&self, table: &Table<R>, row: RowId) -> RowId {
        self.tables[table.position()].named(Self::slot(row))
    }

    /// [`Store::lookup`](crate::store::Store::lookup), with a named id.
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn lookup_named<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<RowId>> {
        Ok(self.find_slot(index, key).map(|(table, slot)| self.tables[table].named(slot)))
    }

    /// The position of an index's table, and the slot that the index holds for a key.
    #[inline(always)]
    fn find_slot<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Option<(usize, u32)> {
        let position = index.position();
        let slot = if is_packed(index) {
            self.indexes[position].look_up_packed(I::pack(index.shape(), key)?)?
        } else if self.normalise(index, key) {
            self.find_normalised(position)?
        } else {
            return None;
        };
        Some((self.indexes[position].table, slot))
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
        let Some((table, slot)) = self.find_slot(index, key) else { return Ok(None) };
        let rows = &self.tables[table];
        let fixed = rows.slab.head(slot.into(), I::Table::SIZE);
        let values = &rows.values;
        Ok(fixed.map(|fixed| (rows.named(slot), Row::new(MemoryRow { fixed, values }))))
    }

    /// [`Store::pin`](crate::store::Store::pin), of the row that a named id names.
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
        self.pinned(table, rows.slab.named_head(row.location(), table.row_size()))
    }

    /// [`Store::update`](crate::store::Store::update), of the row that a named id names.
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
        let Some(slot) = self.tables[table.position()].slot_of(row) else {
            return Err(Self::no_such_row(table));
        };
        self.update_in(table, slot.into(), fields, true, change)
    }

    /// [`Store::scan`](crate::store::Store::scan), with named ids.
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

    /// [`Store::rows`](crate::store::Store::rows), with named ids.
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
        let rows = &self.tables[table.position()];
        let bytes = table.row_size();
        rows.slab.live().filter_map(move |slot| {
            let fixed = rows.slab.live_head(slot.into(), bytes)?;
            Some((rows.named(slot), Row::new(MemoryRow { fixed, values: &rows.values })))
        })
    }

    /// The id that the store's own calls know for a named one.
    ///
    /// # Errors
    /// `NoSuchRow`: its row is gone, or was never one of this table.
    #[inline(always)]
    pub fn unnamed<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<RowId> {
        let rows = &self.tables[table.position()];
        match rows.slot_of(row) {
            Some(slot) if rows.slab.is_live(slot) => Ok(Self::row_id(slot)),
            _ => Err(Self::no_such_row(table)),
        }
    }
}
