//! Variable-length values in a row's record: behind the fixed part, in any order, without gaps.
//!
//! ```text
//!   ┌────────────────────────────┬─────────┬───────┐
//!   │ fixed part, with handles ──┼─►value  │ value │
//!   └────────────────────────────┴─────────┴───────┘
//! ```
//!
//! A handle is where the value begins in the record and how long it is; zeros are the empty value.
//! Behind the values a record may keep room that its transaction gives back when it commits.
//! Not here: how a record that grows finds room (`heap/moving.rs`).

use crate::row::column_offset;
use crate::schema::TableDef;

/// Bytes of a handle in the fixed part.
pub(super) const HANDLE_BYTES: usize = 8;

/// The handle of `bytes` bytes at `offset` of the record.
fn handle(offset: usize, bytes: usize) -> u64 {
    if bytes == 0 { 0 } else { (offset as u64) << 32 | bytes as u64 }
}

pub(super) fn read_handle(record: &[u8], at: usize) -> u64 {
    let mut bytes = [0; HANDLE_BYTES];
    bytes.copy_from_slice(&record[at..at + HANDLE_BYTES]);
    u64::from_le_bytes(bytes)
}

/// The value of a handle, in its record.
pub(super) fn value(record: &[u8], handle: u64) -> &[u8] {
    &record[(handle >> 32) as usize..][..handle as u32 as usize]
}

/// What a store has to know of a table's records.
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

    /// Bytes of a record that are in use; what is behind them is room it keeps.
    pub(super) fn used_bytes(&self, record: &[u8]) -> usize {
        let end = |&offset: &usize| {
            let handle = read_handle(record, offset);
            (handle >> 32) as usize + handle as u32 as usize
        };
        self.handles.iter().map(end).max().unwrap_or(0).max(self.fixed_bytes)
    }

    /// The record with another value behind the handle at offset `at`, as long as it was or longer:
    /// what a value that became shorter leaves is kept, so that abort never has to find room.
    pub(super) fn with_value(&self, record: &[u8], at: usize, new: &[u8]) -> Vec<u8> {
        let mut after = record[..self.fixed_bytes].to_vec();
        for &offset in &self.handles {
            let bytes = if offset == at { new } else { value(record, read_handle(record, offset)) };
            let handle = handle(after.len(), bytes.len());
            after[offset..offset + HANDLE_BYTES].copy_from_slice(&handle.to_le_bytes());
            after.extend_from_slice(bytes);
        }
        after.resize(after.len().max(record.len()), 0);
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_handles() {
        let layout = Layout { fixed_bytes: 20, handles: vec![2, 12] };
        let mut record = vec![7; 20];
        record[2..10].fill(0);
        record[12..20].fill(0);
        let record = layout.with_value(&record, 12, b"second");
        let record = layout.with_value(&record, 2, b"the first");
        let at = |record: &[u8], at| value(record, read_handle(record, at)).to_vec();
        assert_eq!((at(&record, 2), at(&record, 12)), (b"the first".to_vec(), b"second".to_vec()));
        let record = layout.with_value(&record, 12, b"");
        assert_eq!((at(&record, 2), at(&record, 12)), (b"the first".to_vec(), Vec::new()));
        assert_eq!(record.len(), 20 + "the first".len() + "second".len(), "room is kept");
        assert_eq!(layout.used_bytes(&record), 20 + "the first".len());
        let record = layout.with_value(&record, 2, b"");
        assert_eq!((layout.used_bytes(&record), record.len()), (20, 35));
        assert_eq!((record[0], record[11]), (7, 7));
    }
}
