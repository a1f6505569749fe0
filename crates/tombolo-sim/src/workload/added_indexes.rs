//! Indexes that are added while transactions that do not know them run.
//!
//! The log has their definitions, and so has the image; after a restart the store keeps them, as it
//! does for a program that does not name them. That their entries are right, before and after any
//! crash, is the store's own check. Not here: when one is begun, a slice built, one finished (the
//! engines); logs of commands, which hold no definitions.

use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::schema::{IndexDef, IndexKind, Schema};
use tombolo_storage::store::Store;

use super::tables::definition;

/// How many there are at most.
pub(crate) const ADDED_MAX: usize = 2;

/// The table and the definition of the index that is added next: the first that a schema lacks.
///
/// That need not be the last: of two, the log may hold the second's definition and the image alone the
/// first's, and then the medium loses the image's.
pub(crate) fn next(schema: &Schema) -> (&'static str, IndexDef) {
    let (table, name, columns, unique) = match schema.index("item_by_number") {
        None => ("item", "item_by_number", vec![1, 0], true),
        Some(_) => ("account", "account_by_balance", vec![3, 0], false),
    };
    (table, IndexDef { name: name.into(), columns, unique, kind: IndexKind::Tree })
}

/// The name of the index that was added last.
pub(crate) fn newest(schema: &Schema) -> Option<String> {
    let last = added(schema).max()?;
    let (table, number) = schema.index_at(last)?;
    Some(schema.tables[table].indexes[number].name.to_string())
}

/// How many of a schema's indexes were added.
pub(crate) fn count(schema: &Schema) -> usize {
    added(schema).count()
}

/// Their positions: behind those that a table is defined with; among all indexes they may be anywhere.
fn added(schema: &Schema) -> impl Iterator<Item = usize> + '_ {
    (0..schema.tables.len()).flat_map(move |table| {
        let numbers = definition(table).indexes.len()..schema.tables[table].indexes.len();
        numbers.map(move |number| schema.index_position(table, number))
    })
}

/// Lets a store that was opened keep those it has.
pub(crate) fn follow<P: MemoryProfile>(store: &mut MemoryStore<P>) {
    let added: Vec<usize> = added(store.schema()).collect();
    added.into_iter().for_each(|position| store.follow_index(position));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::model::TABLES;

    /// Found by seed 345867: where the medium had lost the first one, the second was begun again.
    #[test]
    fn the_index_that_is_missing_comes_next() {
        let mut schema = Schema::default();
        for table in 0..TABLES {
            schema.add(definition(table)).unwrap();
        }
        for first_is_lost in [false, true] {
            let mut names = Vec::new();
            let mut schema = schema.clone();
            if first_is_lost {
                let (table, index) = ("account", "account_by_balance");
                let index = IndexDef {
                    name: index.into(),
                    columns: vec![3, 0],
                    unique: false,
                    kind: IndexKind::Tree,
                };
                schema.add_index(schema.table(table).unwrap(), index).unwrap();
            }
            while count(&schema) < ADDED_MAX {
                let (table, index) = next(&schema);
                names.push(index.name.to_string());
                schema.add_index(schema.table(table).unwrap(), index).unwrap();
            }
            let expected = ["item_by_number", "account_by_balance"];
            assert_eq!(names, expected[..if first_is_lost { 1 } else { 2 }]);
        }
    }
}
