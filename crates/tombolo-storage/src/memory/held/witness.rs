//! `Witness`: sees what the transactions of a guard do with which rows.
//!
//! A guard that has a witness is not idle, so that every call of the store goes through it, and the store itself needs
//! no code for this. It does not see look-ups, but what they find, when that is read or changed. Not here: what is
//! made of it (the library's traces).

use std::fmt;

use super::Guard;
use crate::memory::MemoryStore;
use crate::memory::store::MemoryRow;
use crate::profile::MemoryProfile;
use crate::row::RowId;
use crate::store::{Table, TableType};

/// What is done with a row, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// A scan of an index came by it.
    Scanned,
    /// It was read by its id.
    Read,
    /// Columns of it were overwritten.
    Updated,
    /// It was made.
    Created,
    /// It is about to be deleted.
    Deleted,
}

/// A table and a slot of it.
pub type RowPlace = (u32, u32);

/// See the module's head.
pub trait Witness: fmt::Debug {
    /// A row is accessed, with its content; a row that was created gets values outside its fixed part later.
    fn see(&self, access: Access, place: RowPlace, row: &MemoryRow<'_>);

    /// A created row is entered into an index: it has all its values.
    fn see_entered(&self, place: RowPlace, row: &MemoryRow<'_>);

    /// A table's rows, so many, are visited in no order.
    fn see_table(&self, table: u32, rows: u64);
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// A row by its place, if there is one.
    fn row_at(&self, (table, slot): RowPlace) -> Option<MemoryRow<'_>> {
        let rows = self.tables.get(table as usize)?;
        let fixed = rows.slab.live_head(slot.into(), rows.shape.row_bytes)?;
        Some(MemoryRow { fixed, values: &rows.values })
    }
}

impl<'g> Guard<'g> {
    /// The same, with a witness.
    #[must_use]
    pub fn seen_by(mut self, witness: Option<&'g dyn Witness>) -> Self {
        self.is_idle &= witness.is_none();
        self.witness = witness;
        self
    }

    /// Shows the witness a row.
    #[inline]
    pub(super) fn see<P: MemoryProfile>(
        &self,
        store: &MemoryStore<P>,
        access: Access,
        table: usize,
        row: RowId,
    ) {
        if let Some(witness) = self.witness
            && let Ok(slot) = u32::try_from(row.location())
            && let Some(row) = store.row_at((table as u32, slot))
        {
            witness.see(access, (table as u32, slot), &row);
        }
    }

    /// Shows it a row that is entered into an index.
    #[inline]
    pub(super) fn see_entered<P: MemoryProfile>(
        &self,
        store: &MemoryStore<P>,
        index: usize,
        row: RowId,
    ) {
        if let Some(witness) = self.witness
            && let Ok(slot) = u32::try_from(row.location())
        {
            let place = (store.indexes[index].table as u32, slot);
            if let Some(row) = store.row_at(place) {
                witness.see_entered(place, &row);
            }
        }
    }

    /// Shows it a table whose rows are visited.
    #[inline]
    pub(super) fn see_table<P: MemoryProfile, R: TableType>(
        &self,
        store: &MemoryStore<P>,
        table: &Table<R>,
    ) {
        if let Some(witness) = self.witness {
            witness.see_table(table.position() as u32, store.rows_number(table));
        }
    }
}
