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
use super::store::MemoryStore;
use crate::error::Result;
use crate::key::{IndexType, Range};
use crate::profile::MemoryProfile;
use crate::row::RowId;
use crate::schema::TableDef;
use crate::store::{Index, Order, Table, TableType};

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

/// How often each slot was given back, counted from a number that is each table's own: so no id of
/// another table, or of an earlier opening, is taken for one of these.
#[derive(Debug)]
pub(super) struct Generations {
    first: u32,
    /// Of the slots up to the highest that was ever given back.
    later: Vec<u32>,
}

impl Generations {
    pub(super) fn new() -> Self {
        Self { first: RandomState::new().build_hasher().finish() as u32, later: Vec::new() }
    }

    #[inline(always)]
    fn of(&self, slot: u32) -> u32 {
        self.later.get(slot as usize).copied().unwrap_or(self.first)
    }

    /// The row in this slot is gone: no id names it from now on.
    pub(super) fn end(&mut self, slot: u32) {
        let slot = slot as usize;
        if slot >= self.later.len() {
            self.later.resize(slot + 1, self.first);
        }
        self.later[slot] = self.later[slot].wrapping_add(1);
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
    fn named(&self, slot: u32) -> RowId {
        RowId::new(u64::from(self.generations.of(slot)) << 32 | u64::from(slot))
    }
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// The named id of a row, which the store has just given out for its slot.
    #[inline(always)]
    pub fn named<R: TableType>(&self, table: &Table<R>, row: RowId) -> RowId {
        self.tables[table.position()].named(Self::slot(row))
    }

    /// The same for a row that `index` was asked for.
    #[inline(always)]
    pub fn named_by<I: IndexType>(&self, index: &Index<I>, row: RowId) -> RowId {
        self.tables[self.indexes[index.position()].table].named(Self::slot(row))
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

    /// The id that the store's own calls know for a named one.
    ///
    /// # Errors
    /// `NoSuchRow`: its row is gone, or was never one of this table.
    #[inline(always)]
    pub fn unnamed<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<RowId> {
        let (slot, generation) = (Self::slot(row), (row.location() >> 32) as u32);
        if self.tables[table.position()].generations.of(slot) != generation {
            return Err(Self::no_such_row(table));
        }
        Ok(Self::row_id(slot))
    }
}
