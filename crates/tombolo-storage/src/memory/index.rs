//! One index of the memory store: a tree or a hash table, over packed or normalised keys, unique or
//! not.
//!
//! Which of the forms an index has is decided once, by its definition: keys that pack into 64 bits
//! and are unique live in an integer tree or an integer hash table; all others are normalised bytes
//! in a byte tree, where an index that is not unique appends the row's slot to make its entries
//! distinct; a hash table over bytes holds their 64-bit hash, and its candidates are verified
//! against the rows.
//!
//! Not here: where keys come from (`key/`), undo, counting of rows.

use std::ops::{Bound, ControlFlow};

use super::btree::{ByteTree, InsertError, IntegerTree, Position};
use super::budget::Allowance;
use super::hash::HashTable;
use super::region::RegionError;
use crate::key::{Fit, IndexShape, IndexType, KEY_BYTES_MAX, packed_bits};
use crate::schema::{IndexDef, IndexKind, TableDef};
use crate::store::{Index, Order};

/// Whether the index stores packed keys; a constant for a declared index.
#[inline(always)]
pub(super) fn is_packed<I: IndexType>(index: &Index<I>) -> bool {
    packed_bits(I::parts(index.shape())).is_some() && I::unique(index.shape())
}

/// Puts the normalised form of `key` into `out`; returns whether a row can have that key.
#[inline]
pub(super) fn normalise<I: IndexType>(
    index: &Index<I>,
    key: I::Key<'_>,
    out: &mut Vec<u8>,
) -> bool {
    out.clear();
    let columns = I::parts(index.shape()).len();
    let fit = I::encode(index.shape(), key, columns, out);
    fit == Fit::Within && out.len() <= KEY_BYTES_MAX
}

/// A normalised key with its row's slot behind it.
const STORED_KEY_BYTES_MAX: usize = KEY_BYTES_MAX + size_of::<u32>();

/// The structure that holds an index's entries. The tag is a byte of its own: every look-up reads it,
/// and taking it out of a field's unused values costs more than the byte.
#[derive(Debug)]
#[repr(u8)]
pub(super) enum Entries {
    /// Unique packed keys in order.
    Packed(IntegerTree),
    /// Normalised keys in order.
    Bytes(ByteTree),
    /// Unique packed keys by hash.
    PackedHash(HashTable),
    /// Hashes of unique normalised keys.
    BytesHash(HashTable),
}

/// One index.
#[derive(Debug)]
pub(super) struct RowIndex {
    pub(super) entries: Entries,
    /// Position of its table in the schema.
    pub(super) table: usize,
    /// Positions of its columns in the table.
    pub(super) columns: Vec<usize>,
    pub(super) shape: IndexShape,
    pub(super) unique: bool,
    /// How many packed keys were removed so far: a row found ahead is right as long as this stays.
    pub(super) removals: u64,
    /// Bytes of the key columns at full width.
    pub(super) raw_key_bytes: usize,
}

impl RowIndex {
    /// An empty index for `def`, the definition of an index of the table at position `table`. Where a hash
    /// index has its keys follows from `seed`.
    pub(super) fn new(
        table: usize,
        table_def: &TableDef,
        def: &IndexDef,
        allowance: &Allowance,
        seed: u64,
    ) -> Result<Self, RegionError> {
        let shape = IndexShape::of(table_def, def);
        let allowance = allowance.clone();
        // A key that is not unique carries its row's slot, and then no longer packs.
        let packs = packed_bits(&shape.parts).is_some() && def.unique;
        let entries = match (def.kind, packs) {
            (IndexKind::Tree, true) => Entries::Packed(IntegerTree::new(allowance)?),
            (IndexKind::Tree, false) => {
                Entries::Bytes(ByteTree::new(STORED_KEY_BYTES_MAX, allowance)?)
            }
            (IndexKind::Hash, true) => Entries::PackedHash(HashTable::new(allowance, seed)?),
            (IndexKind::Hash, false) => Entries::BytesHash(HashTable::new(allowance, seed)?),
        };
        Ok(Self {
            entries,
            table,
            columns: def.columns.clone(),
            shape,
            unique: def.unique,
            removals: 0,
            raw_key_bytes: table_def.raw_key_bytes(def),
        })
    }

    /// The slot an index of packed keys holds for `key`.
    #[inline(always)]
    pub(super) fn find_packed(&self, key: u64) -> Option<u32> {
        match &self.entries {
            Entries::Packed(tree) => tree.get(key),
            Entries::PackedHash(table) => table.get(key),
            _ => wrong_form(),
        }
    }

    /// The same for a transaction: a tree learns from what it is asked.
    #[inline(always)]
    pub(super) fn look_up_packed(&mut self, key: u64) -> Option<u32> {
        match &mut self.entries {
            Entries::Packed(tree) => tree.find(key),
            Entries::PackedHash(table) => table.get(key),
            _ => wrong_form(),
        }
    }

    /// The slots an index of packed keys holds for `keys`, `ABSENT` for those it does not hold.
    #[inline(always)]
    pub(super) fn look_up_many_packed(&mut self, keys: &[u64], found: &mut [u32]) {
        match &mut self.entries {
            Entries::Packed(tree) => tree.find_many(keys, found),
            Entries::PackedHash(table) => table.get_many(keys, found),
            _ => wrong_form(),
        }
    }

    /// Asks for what the look-up of a packed key will wait for.
    #[inline(always)]
    pub(super) fn prefetch_find_packed(&self, key: u64) {
        match &self.entries {
            Entries::Packed(tree) => tree.prefetch_get(key),
            Entries::PackedHash(table) => table.prefetch(key),
            _ => wrong_form(),
        }
    }

    /// Asks for what the insertion of a packed key will wait for.
    #[inline(always)]
    pub(super) fn prefetch_insert_packed(&self, key: u64) {
        match &self.entries {
            Entries::Packed(tree) => tree.prefetch_insert(key),
            Entries::PackedHash(table) => table.prefetch(key),
            _ => wrong_form(),
        }
    }

    /// Inserts an entry with a packed key.
    #[inline(always)]
    pub(super) fn insert_packed(&mut self, key: u64, row: u32) -> Result<(), InsertError> {
        match &mut self.entries {
            Entries::Packed(tree) => tree.insert(key, row),
            Entries::PackedHash(table) => table.insert(key, row),
            _ => wrong_form(),
        }
    }

    /// Removes the entry of a packed key and returns its slot.
    #[inline]
    pub(super) fn remove_packed(&mut self, key: u64) -> Option<u32> {
        self.removals += 1;
        match &mut self.entries {
            Entries::Packed(tree) => tree.remove(key),
            Entries::PackedHash(table) => table.remove(key),
            _ => wrong_form(),
        }
    }

    /// The first slot the byte tree holds for the normalised `key`.
    pub(super) fn find_bytes(&self, key: &[u8]) -> Option<u32> {
        let Entries::Bytes(tree) = &self.entries else { wrong_form() };
        if self.unique {
            return tree.get(key);
        }
        let mut first = None;
        let _ = tree.scan(Position::Before(key), Position::After(key), |_, row| {
            first = Some(row);
            ControlFlow::Break(())
        });
        first
    }

    /// Inserts an entry with a normalised key, which is changed into the stored form.
    pub(super) fn insert_bytes(&mut self, key: &mut Vec<u8>, row: u32) -> Result<(), InsertError> {
        self.stored_form(key, row);
        let Entries::Bytes(tree) = &mut self.entries else { wrong_form() };
        tree.insert(key, row)
    }

    /// Removes the entry of `row` with a normalised key, which is changed into the stored form;
    /// says whether there was one.
    pub(super) fn remove_bytes(&mut self, key: &mut Vec<u8>, row: u32) -> bool {
        self.stored_form(key, row);
        let Entries::Bytes(tree) = &mut self.entries else { wrong_form() };
        if tree.get(key) != Some(row) {
            return false;
        }
        tree.remove(key).is_some()
    }

    /// Appends the row's slot where the index is not unique.
    pub(super) fn stored_form(&self, key: &mut Vec<u8>, row: u32) {
        if !self.unique {
            key.extend_from_slice(&row.to_be_bytes());
        }
    }

    /// Visits an integer tree's keys in `lower..upper` and their slots.
    pub(super) fn scan_packed(
        &self,
        lower: u128,
        upper: u128,
        order: Order,
        visit: impl FnMut(u64, u32) -> ControlFlow<()>,
    ) {
        let Entries::Packed(tree) = &self.entries else { wrong_form() };
        if lower >= upper {
            return;
        }
        let (first, last) = (Bound::Included(lower as u64), Bound::Included((upper - 1) as u64));
        // Whether the visitor broke off is the visitor's own business.
        let _ = match order {
            Order::Forward => tree.scan(first, last, visit),
            Order::Backward => tree.scan_backward(first, last, visit),
        };
    }

    /// Visits a byte tree's keys between two positions and their slots.
    pub(super) fn scan_bytes(
        &self,
        lower: Position<'_>,
        upper: Position<'_>,
        order: Order,
        visit: impl FnMut(&[u8], u32) -> ControlFlow<()>,
    ) {
        let Entries::Bytes(tree) = &self.entries else { wrong_form() };
        let _ = match order {
            Order::Forward => tree.scan(lower, upper, visit),
            Order::Backward => tree.scan_backward(lower, upper, visit),
        };
    }

    /// Takes the memory for `more` entries, where they need any before they arrive.
    pub(super) fn reserve(&mut self, more: usize) -> Result<(), RegionError> {
        match &mut self.entries {
            Entries::Packed(tree) => tree.reserve(more),
            // How many nodes keys of unknown length take cannot be said beforehand.
            Entries::Bytes(_) => Ok(()),
            Entries::PackedHash(table) | Entries::BytesHash(table) => table.reserve(more),
        }
    }

    /// Whether its entries have an order.
    pub(super) fn is_ordered(&self) -> bool {
        matches!(self.entries, Entries::Packed(_) | Entries::Bytes(_))
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        match &self.entries {
            Entries::Packed(tree) => tree.len(),
            Entries::Bytes(tree) => tree.len(),
            Entries::PackedHash(table) | Entries::BytesHash(table) => table.len(),
        }
    }

    /// Bytes taken from the system.
    pub(super) fn committed_bytes(&self) -> usize {
        match &self.entries {
            Entries::Packed(tree) => tree.committed_bytes(),
            Entries::Bytes(tree) => tree.committed_bytes(),
            Entries::PackedHash(table) | Entries::BytesHash(table) => table.committed_bytes(),
        }
    }

    /// Puts an entry back that a transaction to be undone removed; beyond the memory limit if need
    /// be, because other entries may have taken its room since.
    pub(super) fn put_back(
        &mut self,
        insert: impl Fn(&mut Self) -> Result<(), InsertError>,
    ) -> Result<(), InsertError> {
        match insert(self) {
            Err(InsertError::NoSpace(_)) => {
                self.lift_limit(true);
                let inserted = insert(self);
                self.lift_limit(false);
                inserted
            }
            result => result,
        }
    }

    fn lift_limit(&mut self, is_lifted: bool) {
        match &mut self.entries {
            Entries::Packed(tree) => tree.lift_limit(is_lifted),
            Entries::Bytes(tree) => tree.lift_limit(is_lifted),
            Entries::PackedHash(table) | Entries::BytesHash(table) => table.lift_limit(is_lifted),
        }
    }

    /// Verifies the structure, not what it refers to.
    pub(super) fn check(&self) -> Result<(), String> {
        match &self.entries {
            Entries::Packed(tree) => tree.check(),
            Entries::Bytes(tree) => tree.check(),
            Entries::PackedHash(table) | Entries::BytesHash(table) => table.check(),
        }
    }
}

/// The calls choose by the same definition the structure was made from, so they never meet another
/// form.
#[cold]
#[inline(never)]
fn wrong_form() -> ! {
    unreachable!("an index was used with a key of the wrong form")
}
