//! Normalised keys on the memory store, and the checker of its invariants.
//!
//! A row's key can always be made again from its columns; that is how a hash of bytes is verified,
//! and how the checker proves that every index entry names a live row with that key and that every
//! live row is in each of its table's indexes. Not here: packed keys of single calls (`calls.rs`),
//! consistency of what the rows mean.

use std::ops::Range;
use std::sync::OnceLock;

use super::btree::InsertError;
use super::index::{Entries, RowIndex};
use super::packer::{KeyPacker, ROWS};
use super::rows::Rows;
use super::shared::SharedView;
use super::store::{MemoryRow, MemoryStore};
use super::undo::{Change, Undo};
use super::variable::Handle;
use crate::error::{Error, Result};
use crate::key::{Dynamic, Fit, IndexType};
use crate::profile::MemoryProfile;
use crate::schema::ColumnDef;
use crate::store::{Checker, Damage, Usage};
use crate::value::{ColumnReader, Value, read_value};

/// The key columns' values of the row in `slot`.
pub(super) fn key_values<'a>(
    row: &'a MemoryRow<'a>,
    columns: &[ColumnDef],
    index: &RowIndex,
) -> Vec<Value<'a>> {
    index.columns.iter().map(|&column| read_value(row, columns, column)).collect()
}

fn row(rows: &Rows, slot: u32) -> MemoryRow<'_> {
    let fixed = rows.slab.head(slot.into(), rows.shape.row_bytes);
    MemoryRow {
        fixed: fixed.expect("an index or the slab itself named the slot"),
        values: &rows.values,
    }
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// The row with the normalised key `self.key`.
    pub(super) fn find_normalised(&self, position: usize) -> Option<u32> {
        let index = &self.indexes[position];
        match &index.entries {
            Entries::BytesHash(table) => {
                let view = self.view();
                let same = |&slot: &u32| view.is_key_of(index, &self.key, slot);
                table.candidates(table.hash_bytes(&self.key)).find(same)
            }
            _ => index.find_bytes(&self.key),
        }
    }

    /// The error that no row can have a key. The key is not at hand here, so its first column is
    /// named.
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
                    Entries::BytesHash(table) => {
                        table.insert_pair(table.hash_bytes(&self.key), slot)
                    }
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
            Entries::BytesHash(table) => table.remove_pair(table.hash_bytes(&self.key), slot),
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
        let checker = CheckInParts::new(self.view());
        checker.parts().flat_map(|part| checker.check(part)).collect()
    }

    /// Bytes taken from the system.
    pub(super) fn committed_bytes(&self) -> u64 {
        let rows: usize = self.tables.iter().map(Rows::committed_bytes).sum();
        let indexes: usize = self.indexes.iter().map(RowIndex::committed_bytes).sum();
        (rows + indexes) as u64
    }

    /// Memory taken and used.
    pub(super) fn measure(&self) -> Usage {
        let mut usage = Usage { memory_bytes: self.committed_bytes(), ..Usage::default() };
        for rows in &self.tables {
            usage.raw_row_bytes += rows.slab.len() as u64 * rows.raw_row_bytes as u64;
            for slot in rows.slab.live() {
                for &offset in &rows.shape.variable_offsets {
                    let handle = Handle::read(rows.slab.slot(slot), offset);
                    usage.raw_row_bytes += rows.values.get(handle).len() as u64;
                }
            }
        }
        for index in &self.indexes {
            usage.raw_key_bytes += (index.len() * (index.raw_key_bytes + 8)) as u64;
        }
        usage
    }
}

/// Slots whose rows are looked up in an index at a time.
const SLOTS_AT_ONCE: u32 = 1 << 18;

/// A part of the check.
#[derive(Debug)]
enum Part {
    Slab(usize),
    Values,
    Snapshots,
    /// That the rows in these slots are in the index.
    Entries(usize, Range<u32>),
}

/// The check of a store in parts, which threads may share; [`Store::check`] is all of them, in order.
///
/// [`Store::check`]: crate::store::Store::check
#[derive(Debug)]
pub(super) struct CheckInParts<'a> {
    view: SharedView<'a>,
    parts: Vec<Part>,
    /// What is wrong with an index itself, found by the first check that needs it. Rows are looked up
    /// only in an index that holds together.
    found: Vec<OnceLock<Result<(), String>>>,
}

impl<'a> CheckInParts<'a> {
    /// What verifies slabs, trees and tables, and that indexes and rows agree.
    pub(super) fn new(view: SharedView<'a>) -> Self {
        let slabs = (0..view.tables.len()).map(Part::Slab);
        let mut parts: Vec<Part> = slabs.chain([Part::Values, Part::Snapshots]).collect();
        for (position, index) in view.indexes.iter().enumerate() {
            if view.schema.index_at(position).is_none() {
                continue; // it was dropped
            }
            let slots = view.tables[index.table].slab.used();
            // One part at least: the index itself is checked with the first.
            for first in (0..slots.max(1)).step_by(SLOTS_AT_ONCE as usize) {
                let end = first.saturating_add(SLOTS_AT_ONCE).min(slots);
                parts.push(Part::Entries(position, first..end));
            }
        }
        let found = view.indexes.iter().map(|_| OnceLock::new()).collect();
        Self { view, parts, found }
    }
}

impl SharedView<'_> {
    /// Whether the row in `slot` has the normalised key `key` in `index`.
    fn is_key_of(&self, index: &RowIndex, key: &[u8], slot: u32) -> bool {
        let columns = &self.schema.tables[index.table].columns;
        let row = row(&self.tables[index.table], slot);
        let mut own = Vec::new();
        let values = key_values(&row, columns, index);
        let fit = Dynamic::encode(&index.shape, &values, usize::MAX, &mut own);
        fit == Fit::Within && own == key
    }

    /// Every variable-length value is of one row, and every row's is there.
    fn verify_values(&self) -> Result<(), String> {
        self.tables.iter().try_for_each(|rows| {
            let has_values = !rows.shape.variable_offsets.is_empty();
            let slots = has_values.then(|| rows.slab.live()).into_iter().flatten();
            rows.values.check()?;
            rows.values.check_handles(slots.flat_map(|slot| {
                let bytes = rows.slab.slot(slot);
                rows.shape.variable_offsets.iter().map(|&offset| Handle::read(bytes, offset))
            }))
        })
    }

    /// Every row in these slots is found in the index under its own key.
    fn verify_entries(&self, index: &RowIndex, slots: Range<u32>) -> Result<(), String> {
        let rows = &self.tables[index.table];
        let mut live = rows.slab.live_from(slots.start).take_while(|slot| *slot < slots.end);
        let lost = match &index.entries {
            Entries::Packed(_) | Entries::PackedHash(_) => self.lost_packed(index, live),
            Entries::Bytes(_) | Entries::BytesHash(_) => {
                let columns = &self.schema.tables[index.table].columns;
                let reader = |&column: &usize| ColumnReader::new(columns, column);
                let readers: Vec<ColumnReader> = index.columns.iter().map(reader).collect();
                let mut key = Vec::new();
                live.find(|&slot| !self.has_entry(index, &readers, slot, &mut key))
            }
        };
        let Some(slot) = lost else { return Ok(()) };
        let row = row(rows, slot);
        let values = key_values(&row, &self.schema.tables[index.table].columns, index);
        Err(format!("the row in slot {slot} with key {values:?} is not found"))
    }

    /// One of these rows that is not found in an index of packed keys, if there is one.
    fn lost_packed(&self, index: &RowIndex, mut live: impl Iterator<Item = u32>) -> Option<u32> {
        let packer = KeyPacker::new(index, &self.schema.tables[index.table]);
        let (mut slots, mut keys) = (Vec::with_capacity(ROWS), Vec::with_capacity(ROWS));
        loop {
            slots.clear();
            slots.extend(live.by_ref().take(ROWS));
            if slots.is_empty() {
                return None;
            }
            if let Err(lost) = packer.pack(&self.tables[index.table].slab, &slots, &mut keys) {
                return Some(lost);
            }
            let mut entries = slots.iter().zip(&keys);
            let lost = entries.find(|(slot, key)| index.find_packed(**key) != Some(**slot));
            if let Some((&slot, _)) = lost {
                return Some(slot);
            }
        }
    }

    /// Whether the row in `slot` is found under its normalised key, which is put into `key`; its
    /// columns are read by `readers`.
    fn has_entry(
        &self,
        index: &RowIndex,
        readers: &[ColumnReader],
        slot: u32,
        key: &mut Vec<u8>,
    ) -> bool {
        let row = row(&self.tables[index.table], slot);
        let values: Vec<Value<'_>> = readers.iter().map(|column| column.read(&row)).collect();
        key.clear();
        let fit = Dynamic::encode(&index.shape, &values, usize::MAX, key);
        let is_found = match &index.entries {
            Entries::BytesHash(table) => {
                // Its own entry, and no other row's with the same key.
                let same = |&other: &u32| other == slot || self.is_key_of(index, key, other);
                let mut entries = table.candidates(table.hash_bytes(key)).filter(same);
                entries.next() == Some(slot) && entries.next().is_none()
            }
            Entries::Bytes(tree) => {
                index.stored_form(key, slot);
                tree.get(key) == Some(slot)
            }
            Entries::Packed(_) | Entries::PackedHash(_) => unreachable!("its keys are packed"),
        };
        fit == Fit::Within && is_found
    }

    /// The index holds together, and has as many entries as its table has rows.
    fn verify_index(&self, index: &RowIndex) -> Result<(), String> {
        index.check()?;
        match (index.len(), self.tables[index.table].slab.len()) {
            (entries, rows) if entries != rows => Err(format!("{entries} entries for {rows} rows")),
            _ => Ok(()),
        }
    }
}

impl Checker for CheckInParts<'_> {
    fn parts(&self) -> Range<usize> {
        0..self.parts.len()
    }

    fn check(&self, part: usize) -> Vec<Damage> {
        let view = &self.view;
        let in_slabs = |what| Damage { check: "slabs", what };
        let damage = |found: Result<(), String>, place: &dyn Fn() -> String| {
            found.err().map(|what| in_slabs(format!("{}: {what}", place()))).into_iter().collect()
        };
        match &self.parts[part] {
            Part::Slab(table) => damage(view.tables[*table].slab.check(), &|| {
                format!("table {}", view.schema.tables[*table].name)
            }),
            Part::Values => damage(view.verify_values(), &|| "variable-length values".to_owned()),
            Part::Snapshots => {
                let found = view.snapshots.check().into_iter();
                found.map(|what| in_slabs(format!("snapshots: {what}"))).collect()
            }
            Part::Entries(position, slots) => {
                let index = &view.indexes[*position];
                let found = match self.found[*position].get_or_init(|| view.verify_index(index)) {
                    Ok(()) => view.verify_entries(index, slots.clone()),
                    Err(what) if slots.start == 0 => Err(what.clone()),
                    Err(_) => Ok(()), // said with the first part
                };
                let name = Dynamic::name(&index.shape);
                let at = |what| Damage { check: "indexes", what: format!("index {name}: {what}") };
                found.err().map(at).into_iter().collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::dynamic::DynamicTable;
    use crate::memory::Limits;
    use crate::profile::Memory;
    use crate::row::RowId;
    use crate::schema::{IndexDef, IndexKind, TableDef};
    use crate::store::{Store, dynamic_indexes};
    use crate::types::{BigInt, Varchar};

    const FORMS: [(&str, usize, IndexKind); 4] = [
        ("packed", 0, IndexKind::Tree),
        ("packed_hash", 0, IndexKind::Hash),
        ("bytes", 1, IndexKind::Tree),
        ("bytes_hash", 1, IndexKind::Hash),
    ];

    /// Slots of two ranges, each row with its own number and name.
    fn store() -> (MemoryStore<Memory>, Vec<RowId>) {
        let mut store = MemoryStore::<Memory>::new(Limits::default());
        let columns = vec![ColumnDef::of::<BigInt>("n"), ColumnDef::of::<Varchar<8>>("name")];
        let index = |(name, column, kind): (&'static str, usize, IndexKind)| IndexDef {
            name: name.into(),
            columns: vec![column],
            unique: true,
            kind,
        };
        let indexes = FORMS.into_iter().map(index).collect();
        Store::create_table(&mut store, TableDef { name: "t".into(), columns, indexes }).unwrap();
        let table = DynamicTable::new(Store::schema(&store), 0);
        Store::begin(&mut store).unwrap();
        Store::begin_writes(&mut store);
        let rows = (0..SLOTS_AT_ONCE as i64 + 100).map(|n| {
            let name = format!("{n}");
            table.insert(&mut store, &[Value::Integer(n), Value::Text(&name)]).unwrap()
        });
        let rows = rows.collect();
        Store::commit(&mut store).unwrap();
        (store, rows)
    }

    /// What all parts find, half of them on another thread.
    fn found_in_parts(store: &MemoryStore<Memory>) -> Vec<Damage> {
        let checker = CheckInParts::new(store.view());
        let check = |first: usize| {
            let parts = checker.parts().skip(first).step_by(2);
            parts.flat_map(|part| checker.check(part)).collect::<Vec<_>>()
        };
        let [mut all, other] = thread::scope(|scope| {
            let other = scope.spawn(|| check(1));
            [check(0), other.join().unwrap()]
        });
        all.extend(other);
        all
    }

    /// A row whose entry is another key's is found, wherever it lies, by the whole check and by the
    /// parts.
    #[test]
    fn a_row_that_is_not_under_its_key_is_found_in_any_part() {
        let (mut store, rows) = store();
        assert_eq!((store.check(), found_in_parts(&store)), (vec![], vec![]));
        for (position, (name, column, _)) in FORMS.into_iter().enumerate() {
            let index = dynamic_indexes(Store::schema(&store), 0).swap_remove(position);
            for at in [7, SLOTS_AT_ONCE as usize + 50] {
                let text = format!("{at}");
                let (own, other) = match column {
                    0 => ([Value::Integer(at as i64)], [Value::Integer(-1)]),
                    _ => ([Value::Text(&text)], [Value::Text("nobody")]),
                };
                let mut replace = |from: &[Value<'_>], to: &[Value<'_>]| {
                    Store::begin(&mut store).unwrap();
                    Store::begin_writes(&mut store);
                    assert!(Store::remove(&mut store, &index, from, rows[at]).unwrap());
                    Store::insert(&mut store, &index, to, rows[at]).unwrap();
                    Store::commit(&mut store).unwrap();
                    (store.check(), found_in_parts(&store))
                };
                let (whole, in_parts) = replace(&own, &other);
                assert_eq!(whole, in_parts);
                let [damage] = &whole[..] else { panic!("{whole:?}") };
                let (check, what) = (damage.check, &damage.what);
                assert_eq!(check, "indexes");
                let place = format!("index {name}: the row in slot {at} ");
                assert!(what.starts_with(&place), "{what}");
                assert_eq!(replace(&other, &own), (vec![], vec![]));
            }
        }
    }
}
