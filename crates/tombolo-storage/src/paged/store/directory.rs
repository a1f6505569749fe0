//! The directory of stores (S7): which table or index a call means.
//!
//! On, every call names what it means, and the name is looked up, as in an engine whose catalogue
//! may change between two calls; a handle has its name's hash. Off, a handle was resolved once and is a
//! position. Not here: what the directory remembers on disk (`catalogue.rs`).
//!
//! Names are entered while there is one session (`database.rs`), so calls find them without a latch,
//! in memory that no thread writes. Names of tables and of indexes share one space. Invariant: at
//! least half of the places are empty, so a search ends.

use crate::schema::Schema;

/// S7: finds a table or an index for a call.
pub trait Directory: Default + Send + 'static {
    /// Enters the tables and indexes of `schema` that are new.
    fn enter(&mut self, schema: &Schema);

    /// The position of the table at `position` of the handle's schema.
    fn table(&self, schema: &Schema, position: usize) -> usize;

    /// The position of the index at `position`, called `name`.
    fn index(&self, name: &str, position: usize) -> usize;
}

/// Resolved once: a handle is a position.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resolved;

impl Directory for Resolved {
    fn enter(&mut self, _: &Schema) {}

    #[inline(always)]
    fn table(&self, _: &Schema, position: usize) -> usize {
        position
    }

    #[inline(always)]
    fn index(&self, _: &str, position: usize) -> usize {
        position
    }
}

/// A name and what it means.
#[derive(Clone, Debug)]
struct Entry {
    hash: u64,
    name: Box<str>,
    position: u32,
    is_index: bool,
}

/// Looked up by name at each call.
#[derive(Debug)]
pub struct ByName {
    /// A power of two of places; a name is in the first free one from its hash on.
    places: Vec<Option<Entry>>,
    /// The hash of the name of each table, and of each index.
    tables: Vec<u64>,
    indexes: Vec<u64>,
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

/// Whether two names are equal, eight bytes at a time: they are too short for a call.
#[inline(always)]
fn is_same(name: &str, other: &str) -> bool {
    let (name, other) = (name.as_bytes(), other.as_bytes());
    let mut words = name.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0);
    name.len() == other.len()
        && words.all(|(word, other)| word == other)
        && last_word(name) == last_word(other)
}

/// Where `name` is, or would be entered.
#[inline]
fn place_of(places: &[Option<Entry>], hash: u64, name: &str) -> usize {
    let mask = places.len() - 1;
    let mut at = hash as usize & mask;
    while let Some(entry) = &places[at] {
        if entry.hash == hash && is_same(&entry.name, name) {
            break;
        }
        at = (at + 1) & mask;
    }
    at
}

impl ByName {
    #[inline]
    fn find(&self, hash: u64, name: &str, is_index: bool) -> Option<usize> {
        let entry = self.places[place_of(&self.places, hash, name)].as_ref()?;
        (entry.is_index == is_index).then_some(entry.position as usize)
    }

    /// Enters a name; returns its hash.
    fn insert(&mut self, name: &str, position: usize, is_index: bool) -> u64 {
        let entries = self.places.iter().flatten().count();
        if (entries + 1) * 2 > self.places.len() {
            let larger = vec![None; self.places.len() * 2];
            for old in std::mem::replace(&mut self.places, larger).into_iter().flatten() {
                self.put(old);
            }
        }
        let (hash, position) = (hash_name(name), position as u32);
        self.put(Entry { hash, name: name.into(), position, is_index });
        hash
    }

    fn put(&mut self, entry: Entry) {
        let at = place_of(&self.places, entry.hash, &entry.name);
        self.places[at] = Some(entry);
    }
}

impl Directory for ByName {
    fn enter(&mut self, schema: &Schema) {
        self.places.fill(None);
        (self.tables, self.indexes) = (Vec::new(), Vec::new());
        for (position, table) in schema.tables.iter().enumerate() {
            let hash = self.insert(&table.name, position, false);
            self.tables.push(hash);
            for index in &table.indexes {
                let hash = self.insert(&index.name, self.indexes.len(), true);
                self.indexes.push(hash);
            }
        }
    }

    /// # Panics
    /// When the handle is of another schema: handles are resolved against this one.
    #[inline]
    fn table(&self, schema: &Schema, position: usize) -> usize {
        let found = self.find(self.tables[position], &schema.tables[position].name, false);
        found.expect("a handle names a table of the schema it was resolved against")
    }

    /// # Panics
    /// As [`Directory::table`].
    #[inline]
    fn index(&self, name: &str, position: usize) -> usize {
        self.find(self.indexes[position], name, true)
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
            assert_eq!(directory.table(&schema, number), number);
            assert_eq!(directory.index(&format!("index_of_table_{number}"), number), number);
        }
        assert_eq!(directory.find(hash_name("table_200"), "table_200", false), None);
        assert_eq!(
            directory.find(hash_name("table_1"), "table_1", true),
            None,
            "a table is no index"
        );
    }

    #[test]
    fn names_are_equal_in_every_byte() {
        for length in 0..40 {
            let name: String = (0..length).map(|at| (b'a' + at % 26) as char).collect();
            assert!(is_same(&name, &name.clone()));
            assert!(!is_same(&name, &format!("{name}a")));
            for at in 0..name.len() {
                let mut other = name.clone();
                other.replace_range(at..=at, "A");
                assert!(!is_same(&name, &other) && hash_name(&name) != hash_name(&other));
            }
        }
    }
}
