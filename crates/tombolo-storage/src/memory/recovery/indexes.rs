//! An index built from the rows, in the order of their slots.
//!
//! Rows mostly lie in the order in which they were made, and that is the order of their keys, or of
//! many runs of them: the lines of an order, the orders of a district. A thousand rows at a time,
//! such runs go into the tree as they are, each at one place. Keys without order are collected,
//! sorted at the end by the bits in which they differ, and inserted in ascending order.
//!
//! Not here: entries of single rows (`check.rs`, `calls.rs`).

use super::super::btree::InsertError;
use super::super::check::key_values;
use super::super::index::{Entries, RowIndex};
use super::super::packer::{KeyPacker, ROWS};
use super::super::region::RegionError;
use super::super::rows::Rows;
use super::super::store::MemoryRow;
use super::NotBuilt;
use crate::key::{Dynamic, Fit, IndexType};
use crate::schema::TableDef;

/// How long runs must be on average to be inserted as they are: a place is found for each.
const RUN_KEYS_MIN: usize = 4;

/// How many entries ahead a place in a hash table is asked for.
const HASH_AHEAD: usize = 8;

/// Bits that are sorted by at a time: so many that the places where entries go stay in the caches.
const DIGIT_BITS: u32 = 8;

/// `index`, which is empty, with an entry for every row.
pub(super) fn build(
    mut index: RowIndex,
    table: &TableDef,
    rows: &Rows,
) -> Result<RowIndex, NotBuilt> {
    match &mut index.entries {
        Entries::Packed(_) | Entries::PackedHash(_) => build_packed(&mut index, table, rows)?,
        Entries::Bytes(_) | Entries::BytesHash(_) => build_bytes(&mut index, table, rows)?,
    }
    Ok(index)
}

fn refused(error: InsertError) -> NotBuilt {
    match error {
        InsertError::Duplicate(row) => {
            NotBuilt::Unfit(format!("another row has the key of the row in slot {row}"))
        }
        InsertError::NoSpace(error) => no_memory(error),
        InsertError::KeyTooLong { .. } => NotBuilt::Unfit("a row's key is too long".to_owned()),
    }
}

fn no_memory(error: RegionError) -> NotBuilt {
    NotBuilt::NoMemory(super::no_memory(error))
}

/// The key of the row in a slot is none of this index.
fn out_of_range(slot: u32) -> NotBuilt {
    NotBuilt::Unfit(format!("the row in slot {slot} has a key outside its columns' ranges"))
}

fn build_packed(index: &mut RowIndex, table: &TableDef, rows: &Rows) -> Result<(), NotBuilt> {
    let packer = KeyPacker::new(index, table);
    let mut live = rows.slab.live();
    let (mut slots, mut keys, mut unordered) = (Vec::with_capacity(ROWS), Vec::new(), Vec::new());
    loop {
        slots.clear();
        slots.extend(live.by_ref().take(ROWS));
        if slots.is_empty() {
            break;
        }
        packer.pack(&rows.slab, &slots, &mut keys).map_err(out_of_range)?;
        let runs = 1 + keys.windows(2).filter(|pair| pair[0] > pair[1]).count();
        match &mut index.entries {
            Entries::Packed(tree) if runs * RUN_KEYS_MIN <= keys.len() || runs == 1 => {
                tree.insert_run(&keys, &slots).map_err(|error| refused(error.error))?;
            }
            _ => unordered.extend(keys.iter().copied().zip(slots.iter().copied())),
        }
    }
    insert_unordered(index, unordered)
}

/// Inserts what lay in no order.
fn insert_unordered(index: &mut RowIndex, mut entries: Vec<(u64, u32)>) -> Result<(), NotBuilt> {
    match &mut index.entries {
        Entries::Packed(tree) => {
            sort(&mut entries);
            let (mut keys, mut slots) = (Vec::with_capacity(ROWS), Vec::with_capacity(ROWS));
            for run in entries.chunks(ROWS) {
                keys.clear();
                slots.clear();
                keys.extend(run.iter().map(|(key, _)| key));
                slots.extend(run.iter().map(|(_, slot)| slot));
                tree.insert_run(&keys, &slots).map_err(|error| refused(error.error))?;
            }
        }
        Entries::PackedHash(hash) => {
            hash.grow_to(entries.len()).map_err(no_memory)?;
            for (at, &(key, slot)) in entries.iter().enumerate() {
                if let Some(&(later, _)) = entries.get(at + HASH_AHEAD) {
                    hash.prefetch(later);
                }
                hash.insert(key, slot).map_err(refused)?;
            }
        }
        _ => unreachable!("an index keeps its form"),
    }
    Ok(())
}

/// Sorts by key: digit by digit from the lowest, and only where keys differ.
fn sort(entries: &mut Vec<(u64, u32)>) {
    let Some(&(first, _)) = entries.first() else { return };
    let mut differ = entries.iter().fold(0, |differ, &(key, _)| differ | (key ^ first));
    let mut sorted = vec![(0, 0); if differ == 0 { 0 } else { entries.len() }];
    while differ != 0 {
        let shift = differ.trailing_zeros();
        let digit = |key: u64| (key >> shift) as usize & ((1 << DIGIT_BITS) - 1);
        let mut places = [0_usize; 1 << DIGIT_BITS];
        entries.iter().for_each(|&(key, _)| places[digit(key)] += 1);
        let mut next = 0;
        for place in &mut places {
            (next, *place) = (next + *place, next);
        }
        for &entry in &*entries {
            let place = &mut places[digit(entry.0)];
            sorted[*place] = entry;
            *place += 1;
        }
        std::mem::swap(entries, &mut sorted);
        differ &= (!0_u64).unbounded_shl(shift + DIGIT_BITS);
    }
}

fn build_bytes(index: &mut RowIndex, table: &TableDef, rows: &Rows) -> Result<(), NotBuilt> {
    // Keys lie one behind the other; an entry is where its key ends, with the row's slot.
    let (mut keys, mut ends, mut key) = (Vec::new(), Vec::new(), Vec::new());
    for slot in rows.slab.live() {
        let row = MemoryRow { fixed: rows.slab.slot(slot), values: &rows.values };
        key.clear();
        let columns = key_values(&row, &table.columns, index);
        if Dynamic::encode(&index.shape, &columns, usize::MAX, &mut key) != Fit::Within {
            return Err(out_of_range(slot));
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
            hash.grow_to(entries.len()).map_err(no_memory)?;
            for (at, &(key, slot)) in entries.iter().enumerate() {
                if let Some(&(later, _)) = entries.get(at + HASH_AHEAD) {
                    hash.prefetch(hash.hash_bytes(later));
                }
                let hashed = hash.hash_bytes(key);
                // Keys are not in the table, and the entries lie in the order of their slots.
                let is_same = |other: &u32| {
                    let found = entries.binary_search_by_key(other, |&(_, slot)| slot);
                    found.is_ok_and(|at| entries[at].0 == key)
                };
                if let Some(other) = hash.candidates(hashed).find(is_same) {
                    return Err(refused(InsertError::Duplicate(other)));
                }
                hash.insert_pair(hashed, slot).map_err(refused)?;
            }
        }
        _ => unreachable!("an index keeps its form"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::test_random::Random;
    use super::*;

    #[test]
    fn entries_are_sorted_by_the_bits_in_which_they_differ() {
        let mut random = Random::new(1);
        for bits in [0, 1, 8, 9, 30, 57, 64] {
            for len in [0, 1, 2, 1_000] {
                // The bits lie in two places, the rest is the same in all.
                let mut key = || {
                    let random = random.below(u64::MAX) & 1_u64.unbounded_shl(bits).wrapping_sub(1);
                    random << 3 ^ random.rotate_left(40) ^ 0x5A00_0000_0000_0001
                };
                let mut entries: Vec<(u64, u32)> = (0..len).map(|slot| (key(), slot)).collect();
                let mut expected = entries.clone();
                expected.sort();
                sort(&mut entries);
                assert!(entries == expected, "{bits} bits, {len} entries");
            }
        }
    }
}
