//! A view of a memory store that several threads can read while no thread changes it.
//!
//! The store itself belongs to one thread. A view borrows its rows and indexes, so nothing
//! changes while a view exists, and leaves out the parts that belong to one thread. It is for reading whole
//! tables in parts and for the checks (`check.rs`), not for transactions.

use std::ops::Range;

use super::before_images::Snapshots;
use super::check::CheckInParts;
use super::index::RowIndex;
use super::rows::Rows;
use super::store::{MemoryRow, MemoryStore};
use crate::profile::MemoryProfile;
use crate::row::RowBytes;
use crate::schema::Schema;
use crate::store::{Checker, SharedRows};

/// The rows and indexes of a memory store, for any thread. See the module's head.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedView<'a> {
    pub(super) schema: &'a Schema,
    pub(super) tables: &'a [Rows],
    pub(super) indexes: &'a [RowIndex],
    pub(super) snapshots: &'a Snapshots,
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// What other threads can read meanwhile.
    pub(super) fn view(&self) -> SharedView<'_> {
        SharedView {
            schema: &self.schema,
            tables: &self.tables,
            indexes: &self.indexes,
            snapshots: &self.snapshots,
        }
    }
}

impl SharedRows for SharedView<'_> {
    fn slots(&self, table: usize) -> Range<u32> {
        0..self.tables[table].slab.used()
    }

    fn each_row(&self, table: usize, slots: Range<u32>, see: &mut dyn FnMut(&dyn RowBytes)) {
        let Rows { slab, shape, values, .. } = &self.tables[table];
        let live = slab.live_from(slots.start).take_while(|slot| *slot < slots.end);
        for fixed in live.filter_map(|slot| slab.head(slot.into(), shape.row_bytes)) {
            see(&MemoryRow { fixed, values });
        }
    }

    fn checker(&self) -> Box<dyn Checker + '_> {
        Box::new(CheckInParts::new(*self))
    }
}
