//! Index entries of single rows, made from the rows themselves: they build an index and keep it current.
//!
//! An entry is inserted unless it exists, and removed if it is the row's own, so that it does not
//! matter whether the walk or a commit came first. Nothing is noted for undo here. Not here: which
//! rows, and when (`online.rs`).

use super::check::key_values;
use super::index::{Entries, RowIndex};
use super::rows::Rows;
use super::store::MemoryRow;
use crate::key::{Dynamic, Fit, IndexType, KEY_BYTES_MAX};
use crate::schema::ColumnDef;

/// A row's key in one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key<'k> {
    Packed(u64),
    /// Normalised, without the row's slot.
    Bytes(&'k [u8]),
    /// None: a column is outside its range, or the key too long.
    Unfit,
}

/// Why an entry cannot be made.
pub(super) enum NotEntered {
    Duplicate,
    Unfit,
    NoSpace,
}

/// The key of a row in `index`; `out` holds it if it is bytes.
pub(super) fn key_of<'k>(
    index: &RowIndex,
    columns: &[ColumnDef],
    row: &MemoryRow<'_>,
    out: &'k mut Vec<u8>,
) -> Key<'k> {
    let values = key_values(row, columns, index);
    if matches!(index.entries, Entries::Packed(_) | Entries::PackedHash(_)) {
        return Dynamic::pack(&index.shape, &values).map_or(Key::Unfit, Key::Packed);
    }
    out.clear();
    let fit = Dynamic::encode(&index.shape, &values, usize::MAX, out);
    match fit == Fit::Within && out.len() <= KEY_BYTES_MAX {
        true => Key::Bytes(out),
        false => Key::Unfit,
    }
}

/// The rows of an index's table, to look keys up in.
#[derive(Clone, Copy)]
pub(super) struct Within<'a> {
    pub(super) rows: &'a Rows,
    pub(super) columns: &'a [ColumnDef],
}

impl<'a> Within<'a> {
    pub(super) fn row(&self, slot: u32) -> MemoryRow<'a> {
        let fixed = self.rows.slab.head(slot.into(), self.rows.shape.row_bytes);
        MemoryRow { fixed: fixed.unwrap_or_default(), values: &self.rows.values }
    }

    /// The slot that `index` holds for a key; of an index that is not unique, the given one if its
    /// row is there.
    pub(super) fn find(&self, index: &RowIndex, key: Key<'_>, slot: u32) -> Option<u32> {
        match (&index.entries, key) {
            (Entries::Packed(_) | Entries::PackedHash(_), Key::Packed(key)) => {
                index.find_packed(key)
            }
            (Entries::Bytes(tree), Key::Bytes(key)) if index.unique => tree.get(key),
            (Entries::Bytes(tree), Key::Bytes(key)) => {
                let mut stored = key.to_vec();
                index.stored_form(&mut stored, slot);
                tree.get(&stored)
            }
            (Entries::BytesHash(table), Key::Bytes(key)) => {
                let mut own = Vec::new();
                let mut same = |&other: &u32| {
                    key_of(index, self.columns, &self.row(other), &mut own) == Key::Bytes(key)
                };
                table.candidates(table.hash_bytes(key)).find(|slot| same(slot))
            }
            _ => None,
        }
    }

    /// Makes an entry, unless it is there; nothing is noted.
    pub(super) fn enter(
        &self,
        index: &mut RowIndex,
        key: Key<'_>,
        slot: u32,
    ) -> Result<(), NotEntered> {
        match self.find(index, key, slot) {
            Some(own) if own == slot => return Ok(()),
            Some(_) => return Err(NotEntered::Duplicate),
            None => {}
        }
        let entered = match key {
            Key::Packed(key) => index.insert_packed(key, slot),
            Key::Bytes(key) => match &mut index.entries {
                Entries::BytesHash(table) => table.insert_pair(table.hash_bytes(key), slot),
                _ => index.insert_bytes(&mut key.to_vec(), slot),
            },
            Key::Unfit => return Err(NotEntered::Unfit),
        };
        entered.map_err(|_| NotEntered::NoSpace)
    }
}

/// Takes an entry out, if it is there; nothing is noted.
pub(super) fn leave(index: &mut RowIndex, key: Key<'_>, slot: u32) {
    match key {
        Key::Packed(key) => {
            if index.find_packed(key) == Some(slot) {
                index.remove_packed(key);
            }
        }
        Key::Bytes(key) => match &mut index.entries {
            Entries::BytesHash(table) => drop(table.remove_pair(table.hash_bytes(key), slot)),
            _ => {
                let _ = index.remove_bytes(&mut key.to_vec(), slot); // it was there, or not
            }
        },
        Key::Unfit => {}
    }
}
