//! The directory of stores (S7): which table or index a call means.
//!
//! On, every call names what it means, and the name is looked up in a latched table, as in an engine
//! whose catalogue may change between two calls. Off, a handle was resolved once and is a position.
//! Not here: what the directory remembers on disk (`catalogue.rs`).
//!
//! Names of tables and of indexes share one space. Invariant: at least half of the places are empty,
//! so a search ends.

use std::cell::RefCell;

use crate::latch::{Latch, Latching};
use crate::schema::Schema;

/// S7: finds a table or an index for a call.
pub trait Directory<L: Latching>: Default + Send + 'static {
    /// Enters the tables and indexes of `schema` that are new.
    fn enter(&self, schema: &Schema);

    /// The position of the table at `position` of the handle's schema.
    fn table(&self, schema: &Schema, position: usize) -> usize;

    /// The position of the index at `position`, called `name`.
    fn index(&self, name: &str, position: usize) -> usize;
}

/// Resolved once: a handle is a position.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resolved;

impl<L: Latching> Directory<L> for Resolved {
    fn enter(&self, _: &Schema) {}

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
pub struct ByName<L: Latching> {
    /// A power of two of places; a name is in the first free one from its hash on.
    places: Latch<RefCell<Vec<Option<Entry>>>, L>,
}

const PLACES_MIN: usize = 64;

impl<L: Latching> Default for ByName<L> {
    fn default() -> Self {
        Self { places: Latch::new(RefCell::new(vec![None; PLACES_MIN])) }
    }
}

/// A multiplicative hash, eight bytes at a time, the last eight perhaps again: names are short and
/// come from the schema, not from an adversary.
#[inline(always)]
fn hash_name(name: &str) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    let mut hash = name.len() as u64;
    let mut rest = name.as_bytes();
    while let Some((&word, behind)) = rest.split_first_chunk::<8>() {
        hash = mix(hash, u64::from_le_bytes(word));
        rest = behind;
    }
    let last = match name.as_bytes().last_chunk::<8>() {
        Some(&word) => u64::from_le_bytes(word),
        None => rest.iter().fold(0, |last, &byte| last << 8 | u64::from(byte)),
    };
    let hash = mix(hash, last);
    hash ^ hash >> 32
}

/// Where `name` is, or would be entered.
#[inline]
fn place_of(places: &[Option<Entry>], hash: u64, name: &str) -> usize {
    let mask = places.len() - 1;
    let mut at = hash as usize & mask;
    while let Some(entry) = &places[at] {
        if entry.hash == hash && *entry.name == *name {
            break;
        }
        at = (at + 1) & mask;
    }
    at
}

impl<L: Latching> ByName<L> {
    #[inline]
    fn find(&self, name: &str, is_index: bool) -> Option<usize> {
        let hash = hash_name(name);
        let places = self.places.hold();
        let places = places.borrow();
        let entry = places[place_of(&places, hash, name)].as_ref()?;
        (entry.is_index == is_index).then_some(entry.position as usize)
    }

    fn insert(places: &mut Vec<Option<Entry>>, entry: Entry) {
        let entries = places.iter().flatten().count();
        if (entries + 1) * 2 > places.len() {
            let larger = vec![None; places.len() * 2];
            for old in std::mem::replace(places, larger).into_iter().flatten() {
                let at = place_of(places, old.hash, &old.name);
                places[at] = Some(old);
            }
        }
        let at = place_of(places, entry.hash, &entry.name);
        places[at] = Some(entry);
    }
}

impl<L: Latching> Directory<L> for ByName<L> {
    fn enter(&self, schema: &Schema) {
        let places = self.places.hold();
        let mut places = places.borrow_mut();
        let mut indexes = 0;
        for (position, table) in schema.tables.iter().enumerate() {
            let mut enter = |name: &str, position: usize, is_index| {
                let (hash, position) = (hash_name(name), position as u32);
                Self::insert(&mut places, Entry { hash, name: name.into(), position, is_index });
            };
            enter(&table.name, position, false);
            for index in &table.indexes {
                enter(&index.name, indexes, true);
                indexes += 1;
            }
        }
    }

    /// # Panics
    /// When the handle is of another schema: handles are resolved against this one.
    #[inline]
    fn table(&self, schema: &Schema, position: usize) -> usize {
        let found = self.find(&schema.tables[position].name, false);
        found.expect("a handle names a table of the schema it was resolved against")
    }

    /// # Panics
    /// As [`Directory::table`].
    #[inline]
    fn index(&self, name: &str, _: usize) -> usize {
        self.find(name, true)
            .expect("a handle names an index of the schema it was resolved against")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latch::{Latched, Unlatched};
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

    fn finds_all<L: Latching>() {
        let directory = ByName::<L>::default();
        let mut schema = Schema::default();
        for number in 0..200 {
            schema.add(table(number)).unwrap();
            directory.enter(&schema);
        }
        for number in 0..200 {
            assert_eq!(directory.table(&schema, number), number);
            assert_eq!(directory.index(&format!("index_of_table_{number}"), 0), number);
        }
        assert_eq!(directory.find("table_200", false), None);
        assert_eq!(directory.find("table_1", true), None, "a table is no index");
    }

    #[test]
    fn every_name_is_found_after_growth() {
        finds_all::<Latched>();
        finds_all::<Unlatched>();
    }
}
