//! Tables whose rows are spread over several stores by a column: which of them belong to this one.
//!
//! Not here: which values belong to a store (the library's islands), and when a store looks (`memory/homes.rs`,
//! `paged/store/homes.rs`). Invariant: the offset of that column in its table never changes, and its values are never
//! null.

use std::ops::Range;

use crate::row::RowBytes;
use crate::schema::{ColumnDef, column_offset};
use crate::sync::Arc;
use crate::value::{ColumnReader, Value};

/// Whether rows with this value in their column belong to the store.
pub type IsHome = Arc<dyn Fn(Value<'_>) -> bool + Send + Sync>;

/// The column by which a table is spread.
#[derive(Clone)]
pub(crate) struct Home {
    /// Its position.
    pub(crate) column: u32,
    /// Where it lies in the fixed part of a row.
    pub(crate) bytes: Range<u32>,
    reader: ColumnReader,
    is_home: IsHome,
}

impl Home {
    /// # Panics
    /// When there is no such column.
    pub(crate) fn new(columns: &[ColumnDef], column: usize, is_home: IsHome) -> Self {
        let start = column_offset(columns, column);
        let bytes = start as u32..(start + columns[column].sql.width()) as u32;
        let reader = ColumnReader::new(columns, column);
        Self { column: column as u32, bytes, reader, is_home }
    }

    /// Whether a change of the bytes from `start` to before `end` may move a row to another store.
    #[inline(always)]
    pub(crate) fn is_changed_by(&self, start: usize, end: usize) -> bool {
        start < self.bytes.end as usize && (self.bytes.start as usize) < end
    }

    pub(crate) fn has(&self, row: &(impl RowBytes + ?Sized)) -> bool {
        (self.is_home)(self.reader.read(row))
    }
}
