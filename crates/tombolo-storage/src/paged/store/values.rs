//! Which columns of a table have values outside the row's fixed part. Where those lie: `heap/values.rs`.

use crate::row::column_offset;
use crate::schema::TableDef;

/// What a store has to know of a table's rows.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Bytes of the fixed part.
    pub(super) fixed_bytes: usize,
    /// Offsets of the handles in it.
    pub(super) handles: Vec<usize>,
}

impl Layout {
    pub(super) fn of(table: &TableDef) -> Self {
        let is_variable = |&i: &usize| table.columns[i].sql.is_variable();
        let offset = |i| column_offset(&table.columns, i);
        let handles = (0..table.columns.len()).filter(is_variable).map(offset).collect();
        Self { fixed_bytes: table.row_size(), handles }
    }
}
