//! The layout of a row: where each column lies.
//!
//! A row is a run of bytes: presence bits of the nullable columns, then the *hot* columns (those
//! transactions touch, kept together so that they share a cache line), then the others, each
//! without padding. The layout is a function of the column list alone, so a schema declared in Rust and the
//! same schema described at run time agree byte for byte. Columns that were added to a
//! table with rows lie behind all these, each nullable one with a byte for its presence bit, each handle
//! at a multiple of eight: so the others stay where they are, and a row that was made without them is one
//! with zeros behind it. Not here: what the bytes mean (`row.rs`).

use super::ColumnDef;
use crate::row::Column;
use crate::types::ColumnType;

/// Bytes of presence bits in front of a row.
const fn presence_bytes(columns: &[ColumnDef]) -> usize {
    let (mut nullable, mut i) = (0, 0);
    while i < columns.len() {
        nullable += (columns[i].nullable && !columns[i].added) as usize;
        i += 1;
    }
    nullable.div_ceil(8)
}

/// The alignment of added columns' handles: their length, which divides every slot length.
const HANDLE_ALIGNMENT: usize = 8;

/// Offset of a column that was added if a row ends at `end` without it: behind the byte of its presence
/// bit. A handle is aligned, so that no end of a slot, as it was before rows got longer, goes through it
/// (`memory/columns.rs`).
const fn added_offset(column: &ColumnDef, end: usize) -> usize {
    let offset = end + column.nullable as usize;
    if column.sql.is_variable() { offset.next_multiple_of(HANDLE_ALIGNMENT) } else { offset }
}

/// Where a row ends without those columns from the position `added_end` on that were added.
const fn end_before(columns: &[ColumnDef], added_end: usize) -> usize {
    let (mut end, mut i) = (presence_bytes(columns), 0);
    while i < columns.len() {
        if !columns[i].added {
            end += columns[i].sql.width();
        }
        i += 1;
    }
    i = 0;
    while i < added_end {
        if columns[i].added {
            end = added_offset(&columns[i], end) + columns[i].sql.width();
        }
        i += 1;
    }
    end
}

/// Bytes of the fixed part of a row with these columns.
pub const fn row_size(columns: &[ColumnDef]) -> usize {
    end_before(columns, columns.len())
}

/// Offset of the column at `position`: hot columns first, then the others, then those that were
/// added, each group in schema order. So a column that is added moves no other.
pub const fn column_offset(columns: &[ColumnDef], position: usize) -> usize {
    let own = &columns[position];
    if own.added {
        return added_offset(own, end_before(columns, position));
    }
    let (mut offset, mut i) = (presence_bytes(columns), 0);
    while i < columns.len() {
        let column = &columns[i];
        let before = match (column.hot, own.hot) {
            (true, false) => true,
            (false, true) => false,
            _ => i < position,
        };
        if before && !column.added {
            offset += column.sql.width();
        }
        i += 1;
    }
    offset
}

/// Number of the presence bit of the (nullable) column at `position`.
pub const fn presence_bit(columns: &[ColumnDef], position: usize) -> usize {
    if columns[position].added {
        return (column_offset(columns, position) - 1) * 8;
    }
    let (mut bit, mut i) = (0, 0);
    while i < position {
        bit += (columns[i].nullable && !columns[i].added) as usize;
        i += 1;
    }
    bit
}

impl<R, T: ColumnType> Column<R, T> {
    /// The column at `position` of a table with these columns; checked at compile time where used
    /// in a constant.
    pub const fn new(columns: &[ColumnDef], position: usize) -> Self {
        assert!(position < columns.len(), "no such column");
        let column = &columns[position];
        assert!(column.nullable == T::NULLABLE, "nullable where the type is not");
        let (offset, presence) =
            (column_offset(columns, position), presence_bit(columns, position));
        Self::placed(
            position as u16,
            offset as u32,
            presence as u32,
            column.marks_null(),
            column.default_bits(),
        )
    }
}
