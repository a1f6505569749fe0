//! Normalised keys on the memory store, and the checker of its invariants.
//!
//! A row's key can always be made again from its columns; that is how a hash of bytes is verified,
//! and how the checker proves that every index entry names a live row with that key and that every
//! live row is in each of its table's indexes. Not here: packed keys of single calls (`calls.rs`),
//! consistency of what the rows mean.

use super::btree::InsertError;
use super::hash::hash_bytes;
use super::index::{Entries, RowIndex};
use super::store::{MemoryRow, MemoryStore, Rows};
use super::undo::{Change, Undo};
use super::variable::{Handle, SizeClasses};
use crate::error::{Error, Result};
use crate::key::{Dynamic, Fit, IndexType};
use crate::profile::MemoryProfile;
use crate::schema::ColumnDef;
use crate::store::{Damage, Usage};
use crate::value::{ColumnReader, Value, read_value};

/// The key columns' values of the row in `slot`.
pub(super) fn key_values<'a>(
    row: &'a MemoryRow<'a>,
    columns: &[ColumnDef],
    index: &RowIndex,
) -> Vec<Value<'a>> {
    index.columns.iter().map(|&column| read_value(row, columns, column)).collect()
}

fn row<'a>(rows: &'a Rows, values: &'a SizeClasses, slot: u32) -> MemoryRow<'a> {
    let fixed = rows.slab.head(slot.into(), rows.row_bytes);
    MemoryRow { fixed: fixed.expect("an index or the slab itself named the slot"), values }
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// Whether the row in `slot` has the normalised key `key` in `index`.
    fn is_key_of(&self, index: &RowIndex, key: &[u8], slot: u32) -> bool {
        let columns = &self.schema.tables[index.table].columns;
        let row = row(&self.tables[index.table], &self.values, slot);
        let mut own = Vec::new();
        let values = key_values(&row, columns, index);
        let fit = Dynamic::encode(&index.shape, &values, usize::MAX, &mut own);
        fit == Fit::Within && own == key
    }

    /// The row with the normalised key `self.key`.
    pub(super) fn find_normalised(&self, position: usize) -> Option<u32> {
        let index = &self.indexes[position];
        match &index.entries {
            Entries::BytesHash(table) => {
                let same = |&slot: &u32| self.is_key_of(index, &self.key, slot);
                table.candidates(hash_bytes(&self.key)).find(same)
            }
            _ => index.find_bytes(&self.key),
        }
    }

    /// That no row can have a key that is not at hand, in the name of its first column.
    #[cold]
    pub(super) fn unfit(&self, index: usize) -> Error {
        Error::OutOfRange {
            table: self.indexes[index].table as u32,
            column: self.schema.key_columns(index).first().map_or(0, |&c| c as u32),
        }
    }

    /// Inserts an entry with the normalised key `self.key`.
    pub(super) fn insert_normalised(&mut self, position: usize, slot: u32) -> Result<()> {
        self.room_for_notes(1, self.key.len() + size_of::<u32>())?;
        let inserted = match &self.indexes[position].entries {
            Entries::BytesHash(_) => match self.find_normalised(position) {
                Some(other) => Err(InsertError::Duplicate(other)),
                None => match &mut self.indexes[position].entries {
                    Entries::BytesHash(table) => table.insert_pair(hash_bytes(&self.key), slot),
                    _ => unreachable!("an index keeps its form"),
                },
            },
            _ => self.indexes[position].insert_bytes(&mut self.key, slot),
        };
        if let Err(error) = inserted {
            return Err(self.insert_error(position, error));
        }
        let bytes = self.key.len() as u32;
        let change = Change::InsertedBytes { index: position as u32, row: slot, bytes };
        self.undo.note_image_in_room(change, &self.key);
        Ok(())
    }

    /// Removes the entry of the row in `slot` with the normalised key `self.key`; says whether
    /// there was one.
    pub(super) fn remove_normalised(&mut self, position: usize, slot: u32) -> Result<bool> {
        self.room_for_notes(1, self.key.len() + size_of::<u32>())?;
        let removed = match &mut self.indexes[position].entries {
            Entries::BytesHash(table) => table.remove_pair(hash_bytes(&self.key), slot),
            _ => self.indexes[position].remove_bytes(&mut self.key, slot),
        };
        if removed {
            let bytes = self.key.len() as u32;
            let change = Change::RemovedBytes { index: position as u32, row: slot, bytes };
            self.undo.note_image_in_room(change, &self.key);
        }
        Ok(removed)
    }

    /// Verifies slabs, trees and tables, and that indexes and rows agree.
    pub(super) fn verify(&mut self) -> Vec<Damage> {
        let mut damage = Vec::new();
        let mut found = |check, what| damage.push(Damage { check, what });
        for (position, rows) in self.tables.iter().enumerate() {
            let name = &self.schema.tables[position].name;
            if let Err(what) = rows.slab.check() {
                found("slabs", format!("table {name}: {what}"));
            }
        }
        if let Err(what) = self.values.check() {
            found("slabs", format!("variable-length values: {what}"));
        }
        for what in self.snapshots.check() {
            found("slabs", format!("snapshots: {what}"));
        }
        for index in &self.indexes {
            let name = Dynamic::name(&index.shape);
            if let Err(what) = index.check() {
                found("indexes", format!("index {name}: {what}"));
            } else if let Err(what) = self.verify_entries(index) {
                found("indexes", format!("index {name}: {what}"));
            }
        }
        damage
    }

    /// Every live row is found in the index under its own key, and there are as many entries as
    /// rows.
    fn verify_entries(&self, index: &RowIndex) -> Result<(), String> {
        let rows = &self.tables[index.table];
        let columns = &self.schema.tables[index.table].columns;
        if index.len() != rows.slab.len() {
            return Err(format!("{} entries for {} rows", index.len(), rows.slab.len()));
        }
        let reader = |&column: &usize| ColumnReader::new(columns, column);
        let readers: Vec<ColumnReader> = index.columns.iter().map(reader).collect();
        let mut key = Vec::new();
        for slot in rows.slab.live() {
            let row = row(rows, &self.values, slot);
            let values: Vec<Value<'_>> = readers.iter().map(|column| column.read(&row)).collect();
            key.clear();
            let found = match &index.entries {
                Entries::Packed(_) | Entries::PackedHash(_) => {
                    let packed = Dynamic::pack(&index.shape, &values);
                    packed.and_then(|key| index.find_packed(key)) == Some(slot)
                }
                Entries::Bytes(tree) => {
                    let fit = Dynamic::encode(&index.shape, &values, usize::MAX, &mut key);
                    index.stored_form(&mut key, slot);
                    fit == Fit::Within && tree.get(&key) == Some(slot)
                }
                Entries::BytesHash(table) => {
                    let fit = Dynamic::encode(&index.shape, &values, usize::MAX, &mut key);
                    // Its own entry, and no other row's with the same key.
                    let same = |&other: &u32| other == slot || self.is_key_of(index, &key, other);
                    let mut entries = table.candidates(hash_bytes(&key)).filter(same);
                    let own = entries.next() == Some(slot) && entries.next().is_none();
                    fit == Fit::Within && own
                }
            };
            if !found {
                return Err(format!("the row in slot {slot} with key {values:?} is not found"));
            }
        }
        Ok(())
    }

    /// Bytes taken from the system.
    pub(super) fn committed_bytes(&self) -> u64 {
        let rows: usize = self.tables.iter().map(|rows| rows.slab.committed_bytes()).sum();
        let indexes: usize = self.indexes.iter().map(RowIndex::committed_bytes).sum();
        (self.values.committed_bytes() + rows + indexes) as u64
    }

    /// Memory taken and used.
    pub(super) fn measure(&self) -> Usage {
        let mut usage = Usage { memory_bytes: self.committed_bytes(), ..Usage::default() };
        for rows in &self.tables {
            usage.raw_row_bytes += rows.slab.len() as u64 * rows.raw_row_bytes as u64;
            for slot in rows.slab.live() {
                for &offset in &rows.variable_offsets {
                    let handle = Handle::read(rows.slab.slot(slot), offset);
                    usage.raw_row_bytes += self.values.get(handle).len() as u64;
                }
            }
        }
        for index in &self.indexes {
            usage.raw_key_bytes += (index.len() * (index.raw_key_bytes + 8)) as u64;
        }
        usage
    }
}
