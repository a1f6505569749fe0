//! The library as an application uses it: directories, calls, transactions, failures.
//!
//! Not here: crashes of the machine and lying disks (the simulator's), the command.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

mod ahead;
mod archives;
mod backups;
mod bounds;
mod calls;
mod cancelling;
mod carrying;
mod checkpoints;
mod conformance;
mod derived;
mod directories;
mod drops;
mod evolve;
mod failures;
mod handles;
mod histories;
mod islands;
mod islands_backups;
mod islands_histories;
mod islands_loads;
mod islands_ordered;
mod islands_processes;
mod islands_processes_upkeep;
mod islands_repartition;
mod islands_savepoints;
mod islands_spread;
mod islands_waits;
mod kills;
mod loads;
mod long_reads;
mod own_errors;
mod paged;
mod paged_backups;
mod paged_islands;
mod paged_islands_processes;
mod paged_islands_repartition;
mod paged_islands_spread;
mod paged_loads;
mod paged_savepoints;
mod panics;
mod promises;
mod requests;
mod savepoints;
mod scans;
mod sequences;
mod tasks;
mod together;
mod types;

use std::path::Path;

use tombolo::{Builder, Database, Error, Index, Registered, RowId, Stop, Table, TableDef, Tx};

tombolo::table! {
    /// Counters by number, with a name that may be missing.
    pub(crate) struct Counter = "counter" {
        ID: Integer [0..=999_999];
        VALUE: BigInt => hot;
        NAME: Nullable<Text>;
    }
}
tombolo::index! {
    /// By number.
    pub(crate) struct ById = "counter_by_id" on Counter (ID: Integer) unique Tree;
}
tombolo::index! {
    /// By what they stand at.
    pub(crate) struct ByValue = "counter_by_value" on Counter (VALUE: BigInt, ID: Integer) multiple Tree;
}

/// What tests do with counters.
#[derive(Clone)]
pub(crate) struct Counters {
    pub(crate) table: Table<Counter>,
    pub(crate) by_id: Index<ById>,
}

impl Counters {
    pub(crate) fn of(db: &Database) -> Self {
        Self { table: db.table().unwrap(), by_id: db.index().unwrap() }
    }

    /// The counter's row, which is made where there is none.
    pub(crate) fn row(&self, tx: &mut Tx<'_>, id: i32) -> Result<RowId, Stop> {
        match tx.lookup(&self.by_id, id)? {
            Some(row) => Ok(row),
            None => tx.insert(&self.table, |row| row.set(Counter::ID, id)),
        }
    }

    /// Adds 1 to a counter; its value.
    pub(crate) fn add(&self, tx: &mut Tx<'_>, id: i32) -> Result<i64, Stop> {
        let row = self.row(tx, id)?;
        let value = tx.get(&self.table, row)?.get(Counter::VALUE) + 1;
        tx.set(&self.table, row, Counter::VALUE, value)?;
        Ok(value)
    }
}

pub(crate) fn definition() -> TableDef {
    TableDef::of::<Counter>().with::<ById>().with::<ByValue>()
}

/// Counters, with a log that is made quickly.
pub(crate) fn builder() -> Builder {
    Database::builder().table(definition()).set("log_segment_bytes", "1 MB")
}

pub(crate) fn open(directory: &Path) -> Result<Database, Error> {
    builder().open(directory)
}

/// Tests a database in memory, and one in a directory: what holds of one holds of the other.
pub(crate) fn both(test: impl Fn(&Database)) {
    test(&builder().in_memory().unwrap());
    let directory = tempfile::tempdir().unwrap();
    test(&open(directory.path()).unwrap());
}

/// Adds 1 to the counter of a number.
pub(crate) fn adding(db: &Database) -> Registered<i32, i64> {
    let counters = Counters::of(db);
    db.register_closure("add", move |tx, &id| counters.add(tx, id))
}

/// What a counter stands at; 0 where there is none.
pub(crate) fn value(db: &Database, id: i32) -> i64 {
    let counters = Counters::of(db);
    let value = db.transaction(move |tx| match tx.lookup(&counters.by_id, id)? {
        Some(row) => Ok(tx.get(&counters.table, row)?.get(Counter::VALUE)),
        None => Ok(0),
    });
    value.unwrap()
}
