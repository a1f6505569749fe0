//! The directory of stores (S7): finds the table or index of a call.
//!
//! With S7 on, every call looks its table or index up by name, as in an engine whose catalogue
//! may change between two calls; a handle has the name in the form in which it is compared, hash first. With S7 off, a
//! handle was resolved once and is a position. Not here: the directory on disk (`catalogue.rs`).
//!
//! Names are entered while there is one session (`database.rs`), so calls find them without a latch,
//! in memory that no thread writes. Names of tables and of indexes share one space. Invariant: at
//! least half of the places are empty, so a search ends.

use crate::schema::Schema;

/// S7: finds a table or an index for a call.
pub trait Directory: Default + Send + 'static {
    /// Enters the tables and indexes of `schema` that are new.
    fn enter(&mut self, schema: &Schema);

    /// The position of the table whose handle has this one.
    fn table(&self, position: usize) -> usize;

    /// The position of the index whose handle has this one.
    fn index(&self, position: usize) -> usize;
}

/// Resolved once: a handle is a position.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resolved;

impl Directory for Resolved {
    fn enter(&mut self, _: &Schema) {}

    #[inline(always)]
    fn table(&self, position: usize) -> usize {
        position
    }

    #[inline(always)]
    fn index(&self, position: usize) -> usize {
        position
    }
}

/// Bytes at the beginning of a name that are compared in whole words.
const START_BYTES: usize = 32;

/// A name as it is compared: by hash, then byte for byte. Names are mostly too short for a call that compares bytes.
#[derive(Clone, Debug)]
struct Name {
    hash: u64,
    bytes: usize,
    /// Its first bytes, filled up with zeros.
    start: [u64; START_BYTES / 8],
    /// Those that follow.
    rest: Box<[u8]>,
}

impl Name {
    fn of(name: &str) -> Self {
        let bytes = name.as_bytes();
        let (start, rest) = bytes.split_at(bytes.len().min(START_BYTES));
        let mut filled = [0; START_BYTES];
        filled[..start.len()].copy_from_slice(start);
        let words = filled.as_chunks::<8>().0;
        let start = std::array::from_fn(|at| u64::from_le_bytes(words[at]));
        Self { hash: hash_name(name), bytes: bytes.len(), start, rest: rest.into() }
    }

    #[inline(always)]
    fn is(&self, other: &Self) -> bool {
        self.begins_as(other) && self.rest == other.rest
    }

    /// The same of a name that has nothing behind its first bytes.
    #[inline(always)]
    fn begins_as(&self, other: &Self) -> bool {
        self.hash == other.hash && self.bytes == other.bytes && self.start == other.start
    }
}

/// A name and what it means.
#[derive(Clone, Debug)]
struct Entry {
    name: Name,
    position: u32,
    is_index: bool,
}

/// Looked up by name at each call.
#[derive(Debug)]
pub struct ByName {
    /// A power of two of places; a name is in the first free one from its hash on.
    places: Vec<Option<Entry>>,
    /// The name in the handles of each table, and of each index.
    tables: Vec<Name>,
    indexes: Vec<Name>,
}

const PLACES_MIN: usize = 64;

impl Default for ByName {
    fn default() -> Self {
        Self { places: vec![None; PLACES_MIN], tables: Vec::new(), indexes: Vec::new() }
    }
}

/// The last eight bytes of a name as a number, or all of a shorter one; different for different
/// names of one length below eight.
#[inline(always)]
fn last_word(name: &[u8]) -> u64 {
    match (name.last_chunk::<8>(), name.first_chunk::<4>(), name.last_chunk::<4>()) {
        (Some(&word), ..) => u64::from_le_bytes(word),
        (None, Some(&first), Some(&last)) => {
            u64::from(u32::from_le_bytes(first)) << 32 | u64::from(u32::from_le_bytes(last))
        }
        _ => name.iter().fold(0, |last, &byte| last << 8 | u64::from(byte)),
    }
}

/// A multiplicative hash, eight bytes at a time, the last eight perhaps again: names are short and
/// come from the schema, not from an adversary.
#[inline(always)]
fn hash_name(name: &str) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let words = name.as_bytes().as_chunks::<8>().0;
    let hash =
        words.iter().fold(name.len() as u64, |hash, &word| mix(hash, u64::from_le_bytes(word)));
    let hash = mix(hash, last_word(name.as_bytes()));
    hash ^ hash >> 32
}

/// Where the name with this hash is that `is` says, and its entry, or where it would be entered.
#[inline(always)]
fn entry_at(
    places: &[Option<Entry>],
    hash: u64,
    is: impl Fn(&Name) -> bool,
) -> (usize, Option<&Entry>) {
    let mask = places.len() - 1;
    let mut at = hash as usize & mask;
    loop {
        match &places[at] {
            Some(entry) if !is(&entry.name) => at = (at + 1) & mask,
            found => return (at, found.as_ref()),
        }
    }
}

impl ByName {
    #[inline(always)]
    fn find(&self, name: &Name, is_index: bool) -> Option<usize> {
        let entry = match name.bytes <= START_BYTES {
            true => entry_at(&self.places, name.hash, |other| other.begins_as(name)).1,
            false => self.find_long(name),
        }?;
        (entry.is_index == is_index).then_some(entry.position as usize)
    }

    /// The entry of a long name. Apart: a search that calls nothing needs few registers.
    #[cold]
    #[inline(never)]
    fn find_long(&self, name: &Name) -> Option<&Entry> {
        entry_at(&self.places, name.hash, |other| other.is(name)).1
    }

    /// Enters a name; returns it as it is compared.
    fn insert(&mut self, name: &str, position: usize, is_index: bool) -> Name {
        let entries = self.places.iter().flatten().count();
        if (entries + 1) * 2 > self.places.len() {
            let larger = vec![None; self.places.len() * 2];
            for old in std::mem::replace(&mut self.places, larger).into_iter().flatten() {
                self.put(old);
            }
        }
        let (name, position) = (Name::of(name), position as u32);
        self.put(Entry { name: name.clone(), position, is_index });
        name
    }

    fn put(&mut self, entry: Entry) {
        let name = &entry.name;
        let (at, _) = entry_at(&self.places, name.hash, |other| other.is(name));
        self.places[at] = Some(entry);
    }
}

impl Directory for ByName {
    fn enter(&mut self, schema: &Schema) {
        self.places.fill(None);
        (self.tables, self.indexes) = (Vec::new(), Vec::new());
        for (position, table) in schema.tables.iter().enumerate() {
            let name = self.insert(&table.name, position, false);
            self.tables.push(name);
            for index in &table.indexes {
                let name = self.insert(&index.name, self.indexes.len(), true);
                self.indexes.push(name);
            }
        }
    }

    /// # Panics
    /// When the handle is of another schema: handles are resolved against this one.
    #[inline]
    fn table(&self, position: usize) -> usize {
        let found = self.find(&self.tables[position], false);
        found.expect("a handle names a table of the schema it was resolved against")
    }

    /// # Panics
    /// As [`Directory::table`].
    #[inline]
    fn index(&self, position: usize) -> usize {
        self.find(&self.indexes[position], true)
            .expect("a handle names an index of the schema it was resolved against")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ColumnDef, IndexDef, IndexKind, TableDef};
    use crate::types::Integer;

    fn table(number: usize) -> TableDef {
        let index = IndexDef {
            name: format!("index_of_table_{number}").into(),
            columns: vec![0],
            unique: true,
            kind: IndexKind::Tree,
        };
        TableDef {
            name: format!("table_{number}").into(),
            columns: vec![ColumnDef::of::<Integer>("a")],
            indexes: vec![index],
        }
    }

    #[test]
    fn every_name_is_found_after_growth() {
        let mut directory = ByName::default();
        let mut schema = Schema::default();
        for number in 0..200 {
            schema.add(table(number)).unwrap();
            directory.enter(&schema);
        }
        for number in 0..200 {
            assert_eq!((directory.table(number), directory.index(number)), (number, number));
        }
        assert_eq!(directory.find(&Name::of("table_200"), false), None);
        assert_eq!(directory.find(&Name::of("table_1"), true), None, "a table is no index");
    }

    #[test]
    fn names_are_equal_in_every_byte() {
        // As if all hashes were equal.
        let unhashed = |name: &str| Name { hash: 0, ..Name::of(name) };
        for length in 0..80 {
            let name: String = (0..length).map(|at| (b'a' + at % 26) as char).collect();
            assert!(unhashed(&name).is(&unhashed(&name)));
            assert!(!unhashed(&name).is(&unhashed(&format!("{name}a"))));
            assert!(!unhashed(&name).is(&unhashed(&format!("{name}\0"))));
            for at in 0..name.len() {
                let mut other = name.clone();
                other.replace_range(at..=at, "A");
                assert!(!unhashed(&name).is(&unhashed(&other)));
                assert_ne!(hash_name(&name), hash_name(&other));
            }
        }
    }
}
