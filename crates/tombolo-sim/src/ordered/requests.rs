//! Transactions of simulated islands, and the table that they change.
//!
//! What a transaction writes depends on all that it has read before, on whichever island, so an island that has the
//! wrong rows is noticed on every other. Not here: the order in which they run (`calls.rs`), what they should leave
//! (`oracle.rs`).

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tombolo_engine::rng::Rng;
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::SchemaError;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::row::Fields;
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::{Index, Store, Table, resolve_index, resolve_table};

use super::settings::Settings;
use crate::faults::one_in;
use crate::workload::model::fold;

/// The key of the row that says which transaction wrote last.
pub(super) const LAST: i64 = 0;
/// Keys of an island, without that one.
const KEYS: u64 = 6;
/// The longest note.
const NOTE_BYTES_MAX: u64 = 600;

tombolo_storage::table! {
    /// What transactions change.
    pub struct Cell = "cell" {
        KEY: BigInt;
        AMOUNT: BigInt;
        BY: BigInt;
        NOTE: Text;
    }
}
tombolo_storage::index! {
    /// By key.
    pub struct CellKey = "cell_pk" on Cell (KEY: BigInt) unique Tree;
}

/// The definition of the table.
pub(super) fn cell_table() -> TableDef {
    TableDef::of::<Cell>().with::<CellKey>()
}

/// What a row has: an amount, the transaction that wrote it, and a note.
pub(super) type Row = (i64, u64, Vec<u8>);

/// The rows of an island.
pub(super) type Rows = BTreeMap<i64, Row>;

/// What a transaction does to a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Read(i64),
    /// Writes what was read so far, with a note of so many bytes.
    Put(i64, u64),
    Remove(i64),
}

/// A transaction: what it does on each of its islands, in their order.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) number: u64,
    pub(super) parts: Vec<(usize, Vec<Operation>)>,
    pub(super) aborts: bool,
}

impl Request {
    pub(super) fn draw(rng: &mut Rng, settings: &Settings, number: u64) -> Self {
        let is_over = rng.below(16) < settings.over;
        let mut islands: Vec<usize> = (0..settings.islands).collect();
        rng.shuffle(&mut islands);
        let more = if one_in(rng, 4) { settings.islands } else { 2 };
        islands.truncate(if is_over { more } else { 1 });
        if one_in(rng, 2) {
            islands.sort_unstable();
        }
        let only_reads = one_in(rng, 5);
        let parts = islands.into_iter().map(|island| {
            let reads = only_reads || one_in(rng, 6);
            let operations = (0..=rng.below(3)).map(|_| {
                let key = 1 + rng.below(KEYS) as i64;
                match rng.below(8) {
                    0..=2 => Operation::Read(key),
                    _ if reads => Operation::Read(key),
                    3 => Operation::Remove(key),
                    _ => Operation::Put(key, rng.below(NOTE_BYTES_MAX)),
                }
            });
            (island, operations.collect())
        });
        let parts = parts.collect();
        Self { number, parts, aborts: one_in(rng, 12) }
    }
}

/// Whether some of these write.
pub(super) fn writes(operations: &[Operation]) -> bool {
    operations.iter().any(|operation| !matches!(operation, Operation::Read(_)))
}

/// What a transaction has read, after it has met this row.
fn read(so_far: u64, row: Option<&Row>) -> u64 {
    row.map_or(fold(so_far, 0), |(amount, by, note)| {
        fold(fold(fold(so_far, amount.cast_unsigned()), *by), note.len() as u64)
    })
}

fn note(so_far: u64, bytes: u64) -> Vec<u8> {
    vec![so_far as u8; bytes as usize]
}

/// Does the same to the rows of the model. Returns what was read.
pub(super) fn model(
    rows: &mut Rows,
    number: u64,
    operations: &[Operation],
    mut so_far: u64,
) -> u64 {
    for operation in operations {
        match *operation {
            Operation::Read(key) => so_far = read(so_far, rows.get(&key)),
            Operation::Remove(key) => so_far = read(so_far, rows.remove(&key).as_ref()),
            Operation::Put(key, bytes) => {
                let row = (so_far.cast_signed(), number, note(so_far, bytes));
                rows.insert(key, row);
            }
        }
    }
    if writes(operations) {
        rows.insert(LAST, (0, number, Vec::new()));
    }
    so_far
}

/// The table in a store.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    table: Table<Cell>,
    by_key: Index<CellKey>,
}

type Memory = MemoryStore<MemoryLogged>;

impl Cells {
    pub(super) fn of(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self { table: resolve_table(schema)?, by_key: resolve_index(schema)? })
    }

    /// Does a part of a transaction, which is open. Returns what was read.
    pub(super) fn run(
        &self,
        store: &mut Memory,
        number: u64,
        operations: &[Operation],
        mut so_far: u64,
    ) -> Result<u64, Stop> {
        for operation in operations {
            match *operation {
                Operation::Read(key) => so_far = read(so_far, self.find(store, key)?.as_ref()),
                Operation::Put(key, bytes) => {
                    let row = (so_far.cast_signed(), number, note(so_far, bytes));
                    self.put(store, key, &row)?;
                }
                Operation::Remove(key) => {
                    so_far = read(so_far, self.find(store, key)?.as_ref());
                    if let Some(id) = store.lookup(&self.by_key, key)? {
                        store.remove(&self.by_key, key, id)?;
                        store.delete(&self.table, id)?;
                    }
                }
            }
        }
        if writes(operations) {
            self.put(store, LAST, &(0, number, Vec::new()))?;
        }
        Ok(so_far)
    }

    fn find(&self, store: &mut Memory, key: i64) -> Result<Option<Row>, Stop> {
        let Some(id) = store.lookup(&self.by_key, key)? else { return Ok(None) };
        let row = store.pin(&self.table, id)?;
        let note = row.get(Cell::NOTE).to_vec();
        Ok(Some((row.get(Cell::AMOUNT), row.get(Cell::BY).cast_unsigned(), note)))
    }

    fn put(&self, store: &mut Memory, key: i64, row: &Row) -> Result<(), Stop> {
        let (amount, by, note) = (row.0, row.1.cast_signed(), &row.2);
        let id = match store.lookup(&self.by_key, key)? {
            Some(id) => {
                let fields = Fields::none().with(Cell::AMOUNT).with(Cell::BY);
                store.update(&self.table, id, fields, |row| {
                    row.set(Cell::AMOUNT, amount);
                    row.set(Cell::BY, by);
                })?;
                id
            }
            None => {
                let id = store.create(&self.table, |row| {
                    row.set(Cell::KEY, key);
                    row.set(Cell::AMOUNT, amount);
                    row.set(Cell::BY, by);
                })?;
                store.insert(&self.by_key, key, id)?;
                id
            }
        };
        Ok(store.set_variable(&self.table, id, Cell::NOTE.offset(), note)?)
    }

    /// All rows.
    pub(super) fn contents(&self, store: &mut Memory) -> Result<Rows, String> {
        let mut ids = Vec::new();
        let push = |id| {
            ids.push(id);
            ControlFlow::Continue(())
        };
        store.rows(&self.table, push).map_err(|error| error.to_string())?;
        let mut rows = Rows::new();
        for id in ids {
            let row = store.pin(&self.table, id).map_err(|error| error.to_string())?;
            let by = row.get(Cell::BY).cast_unsigned();
            let found = (row.get(Cell::AMOUNT), by, row.get(Cell::NOTE).to_vec());
            if rows.insert(row.get(Cell::KEY), found).is_some() {
                return Err(format!("the key {} is there twice", row.get(Cell::KEY)));
            }
        }
        Ok(rows)
    }
}
