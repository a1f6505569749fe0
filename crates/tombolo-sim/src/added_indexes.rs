//! Indexes that are added while transactions run that do not know them.
//!
//! The log has their definitions, and so has the image; after a restart the store keeps them, as it
//! does for a program that does not name them. That their entries are right, before and after any
//! crash, is the store's own check. Not here: when one is begun, a slice built, one finished (the
//! engines); logs of commands, which hold no definitions.

use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::schema::{IndexDef, IndexKind, Schema};
use tombolo_storage::store::Store;

use crate::workload::store::definition;

/// How many there are in the end.
pub(crate) const ADDED_MAX: usize = 2;

/// The table and the definition of the index that is added as number `number`, from 0.
pub(crate) fn added(number: usize) -> (&'static str, IndexDef) {
    let (table, name, columns, unique) = match number {
        0 => ("item", "item_by_number", vec![1, 0], true),
        _ => ("account", "account_by_balance", vec![3, 0], false),
    };
    (table, IndexDef { name: name.into(), columns, unique, kind: IndexKind::Tree })
}

/// How many of a schema's indexes were added.
pub(crate) fn count(schema: &Schema) -> usize {
    let defined = (0..schema.tables.len()).map(|table| definition(table).indexes.len());
    schema.indexes() - defined.sum::<usize>()
}

/// Lets a store that was opened keep those it has.
pub(crate) fn follow<P: MemoryProfile>(store: &mut MemoryStore<P>) {
    let schema = store.schema();
    // Behind those that the table is defined with; among all indexes they may be anywhere.
    let added = (0..schema.tables.len()).flat_map(|table| {
        let numbers = definition(table).indexes.len()..schema.tables[table].indexes.len();
        numbers.map(move |number| schema.index_position(table, number))
    });
    let added: Vec<usize> = added.collect();
    added.into_iter().for_each(|position| store.follow_index(position));
}
