//! An index built from the rows: all keys, sorted, then inserted in ascending order, so that each
//! leaf is filled once and no place is looked for.
//!
//! A packed key is made straight from the row's bytes, with the columns' places worked out once.
//! Rows that were inserted in key order need no sorting.
//!
//! Not here: entries of single rows (`check.rs`, `calls.rs`).

use super::super::btree::InsertError;
use super::super::check::key_values;
use super::super::hash::hash_bytes;
use super::super::index::{Entries, RowIndex};
use super::super::store::{MemoryRow, Rows};
use super::super::variable::SizeClasses;
use crate::key::{Dynamic, Fit, IndexType};
use crate::row::{column_offset, presence_bit};
use crate::schema::TableDef;

/// How many entries are inserted at a time.
const RUN: usize = 4096;

/// `index`, which is empty, with an entry for every row.
pub(super) fn build(
    mut index: RowIndex,
    table: &TableDef,
    rows: &Rows,
    values: &SizeClasses,
) -> Result<RowIndex, String> {
    match &mut index.entries {
        Entries::Packed(_) | Entries::PackedHash(_) => build_packed(&mut index, table, rows)?,
        Entries::Bytes(_) | Entries::BytesHash(_) => build_bytes(&mut index, table, rows, values)?,
    }
    Ok(index)
}

fn refused(error: InsertError) -> String {
    match error {
        InsertError::Duplicate(row) => format!("another row has the key of the row in slot {row}"),
        InsertError::NoSpace(error) => super::no_memory(error),
        InsertError::KeyTooLong { .. } => "a row's key is too long".to_owned(),
    }
}

/// Where a column of a packed key lies in a row.
struct PackedColumn {
    offset: usize,
    width: usize,
    /// The bit that says whether it is not null, if it may be.
    presence: Option<usize>,
}

impl PackedColumn {
    fn new(table: &TableDef, position: usize) -> Self {
        let column = &table.columns[position];
        Self {
            offset: column_offset(&table.columns, position),
            width: column.sql.width(),
            presence: column.nullable.then(|| presence_bit(&table.columns, position)),
        }
    }

    fn units(&self, row: &[u8]) -> Option<i64> {
        if let Some(bit) = self.presence
            && row[bit / 8] & (1 << (bit % 8)) == 0
        {
            return None;
        }
        let bytes = &row[self.offset..self.offset + self.width];
        Some(match *bytes {
            [a] => i64::from(a as i8),
            [a, b] => i64::from(i16::from_le_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => unreachable!("a column of a packed key has at most 64 bits"),
        })
    }
}

fn build_packed(index: &mut RowIndex, table: &TableDef, rows: &Rows) -> Result<(), String> {
    let columns: Vec<_> =
        index.columns.iter().map(|&position| PackedColumn::new(table, position)).collect();
    let mut entries = Vec::with_capacity(rows.slab.len());
    for slot in rows.slab.live() {
        let row = rows.slab.slot(slot);
        let key = index.shape.pack_units(columns.iter().map(|column| column.units(row)));
        let key = key.ok_or_else(|| {
            format!("the row in slot {slot} has a key outside its columns' ranges")
        })?;
        entries.push((key, slot));
    }
    match &mut index.entries {
        Entries::Packed(tree) => {
            // By the key alone, which is half the work: two equal ones are an error either way.
            if !entries.is_sorted_by_key(|&(key, _)| key) {
                entries.sort_unstable_by_key(|&(key, _)| key);
            }
            let (mut keys, mut slots) = (Vec::with_capacity(RUN), Vec::with_capacity(RUN));
            for run in entries.chunks(RUN) {
                keys.clear();
                slots.clear();
                keys.extend(run.iter().map(|(key, _)| key));
                slots.extend(run.iter().map(|(_, slot)| slot));
                tree.insert_run(&keys, &slots).map_err(|error| refused(error.error))?;
            }
        }
        Entries::PackedHash(hash) => {
            hash.reserve(entries.len()).map_err(super::no_memory)?;
            for (key, slot) in entries {
                hash.insert(key, slot).map_err(refused)?;
            }
        }
        _ => unreachable!("an index keeps its form"),
    }
    Ok(())
}

fn build_bytes(
    index: &mut RowIndex,
    table: &TableDef,
    rows: &Rows,
    values: &SizeClasses,
) -> Result<(), String> {
    // Keys lie one behind the other; an entry is where its key ends, with the row's slot.
    let (mut keys, mut ends, mut key) = (Vec::new(), Vec::new(), Vec::new());
    for slot in rows.slab.live() {
        let row = MemoryRow { fixed: rows.slab.slot(slot), values };
        key.clear();
        let columns = key_values(&row, &table.columns, index);
        if Dynamic::encode(&index.shape, &columns, usize::MAX, &mut key) != Fit::Within {
            return Err(format!("the row in slot {slot} has a key outside its columns' ranges"));
        }
        if matches!(index.entries, Entries::Bytes(_)) {
            index.stored_form(&mut key, slot);
        }
        keys.extend_from_slice(&key);
        ends.push((keys.len(), slot));
    }
    let starts = std::iter::once(0).chain(ends.iter().map(|&(end, _)| end));
    let mut entries: Vec<(&[u8], u32)> =
        starts.zip(&ends).map(|(start, &(end, slot))| (&keys[start..end], slot)).collect();
    match &mut index.entries {
        Entries::Bytes(tree) => {
            entries.sort_unstable();
            for (key, slot) in entries {
                tree.insert(key, slot).map_err(refused)?;
            }
        }
        Entries::BytesHash(hash) => {
            hash.reserve(entries.len()).map_err(super::no_memory)?;
            for (key, slot) in entries {
                hash.insert_pair(hash_bytes(key), slot).map_err(refused)?;
            }
        }
        _ => unreachable!("an index keeps its form"),
    }
    Ok(())
}
