//! A memory store while no thread changes it: what several threads can read of it concurrently.
//!
//! The store itself belongs to one thread. A view borrows its rows and indexes, so that nothing
//! changes as long as there is one, and leaves out what belongs to a thread. For reading whole
//! tables in parts and for the checks (`check.rs`); transactions do not come through here.

use std::collections::VecDeque;
use std::ops::Range;

use super::before_images::Snapshots;
use super::dropping::Remains;
use super::index::RowIndex;
use super::rows::Rows;
use super::store::{MemoryRow, MemoryStore};
use super::variable::SizeClasses;
use crate::profile::MemoryProfile;
use crate::row::Row;
use crate::schema::Schema;
use crate::store::{Table, TableType};

/// The rows and indexes of a memory store, for any thread. See the module's head.
#[derive(Clone, Copy, Debug)]
pub struct SharedView<'a> {
    pub(super) schema: &'a Schema,
    pub(super) tables: &'a [Rows],
    pub(super) values: &'a SizeClasses,
    pub(super) indexes: &'a [RowIndex],
    pub(super) snapshots: &'a Snapshots,
    pub(super) remains: &'a VecDeque<Remains>,
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// What other threads can read meanwhile.
    pub(super) fn view(&self) -> SharedView<'_> {
        SharedView {
            schema: &self.schema,
            tables: &self.tables,
            values: &self.values,
            indexes: &self.indexes,
            snapshots: &self.snapshots,
            remains: &self.remains,
        }
    }
}

impl<'a> SharedView<'a> {
    /// The slots that the rows of `table` lie in, not each of them with a row.
    pub fn slots<R: TableType>(&self, table: &Table<R>) -> Range<u32> {
        0..self.tables[table.position()].slab.used()
    }

    /// Shows the rows of `table` in these of its slots, in their order.
    pub fn each_row<R: TableType>(
        &self,
        table: &Table<R>,
        slots: Range<u32>,
        mut see: impl FnMut(&Row<R, MemoryRow<'a>>),
    ) {
        let (slab, values) = (&self.tables[table.position()].slab, self.values);
        let live = slab.live_from(slots.start).take_while(|slot| *slot < slots.end);
        for fixed in live.filter_map(|slot| slab.head(slot.into(), table.row_size())) {
            see(&Row::new(MemoryRow { fixed, values }));
        }
    }
}
