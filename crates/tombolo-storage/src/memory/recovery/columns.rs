//! Columns that are added and dropped in a replay: for all rows in one step.
//!
//! Blocks of an image may be of later or earlier moments than the record that is replayed, and definitions
//! newer than both. So bytes of later moments are cleared in a column that is added, and the place of a
//! dropped column's handle is set to zeros. Not here: the same while transactions run
//! (`memory/columns.rs`, `memory/dropping.rs`).

use super::super::budget::Allowance;
use super::super::columns::slot_widths;
use super::super::region::RegionError;
use super::super::rows::Rows;
use super::super::slab::Slab;
use super::super::variable::{HANDLE_BYTES, Handle};
use crate::schema::TableDef;

impl Rows {
    /// Gives all rows the columns of `table` in one step.
    pub(super) fn widen(
        &mut self,
        table: &TableDef,
        allowance: &Allowance,
    ) -> Result<(), RegionError> {
        let width = slot_widths(table).pop().unwrap_or_default();
        let mut wider = None;
        if width > self.slab.slot_bytes() {
            let mut slab = Slab::new(width, allowance.clone())?;
            slab.take_over(&self.slab, 0, self.slab.used())?;
            wider = Some(slab);
        }
        let before = self.shape.row_bytes;
        drop(self.take_columns(table, wider));
        // Blocks of an image that are newer than this record have what came later in there.
        let added = before..self.shape.row_bytes;
        (0..self.slab.used()).for_each(|slot| self.slab.clear(slot, added.clone()));
        Ok(())
    }

    /// Zeros where handles of columns lay that were dropped.
    pub(super) fn clear_dropped(&mut self) {
        let Self { slab, shape, .. } = self;
        for &offset in shape.handle_offsets.iter().filter(|&&offset| shape.is_dropped(offset)) {
            (0..slab.used()).for_each(|slot| slab.clear(slot, offset..offset + HANDLE_BYTES));
        }
    }

    /// Zeros in what was added, of slots that are not live: rows that died left theirs.
    pub(super) fn forget_dead(&mut self) {
        if self.shape.row_bytes > self.shape.base_bytes {
            self.slab.dead().into_iter().for_each(|slot| self.forget_added(slot));
        }
    }

    /// Frees the values of columns that were dropped: the table is `def` from now on.
    pub(super) fn forget_dropped(&mut self, def: &TableDef) {
        let before = std::mem::take(&mut self.shape.variable_offsets);
        self.describe(def);
        let Self { slab, values, shape, .. } = self;
        for offset in before.into_iter().filter(|at| !shape.variable_offsets.contains(at)) {
            for row in slab.live() {
                let handle = Handle::read(slab.slot(row), offset);
                if handle != Handle::DANGLING {
                    values.free(handle);
                }
            }
        }
        self.clear_dropped();
    }
}
