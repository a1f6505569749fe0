//! Dumps and state hashes of any database, in PostgreSQL's COPY text (cli.md, `state_hash`).
//!
//! # What it is
//! A row's text is its columns in schema order, tabs between. A dump writes each table's rows, one
//! a line; the state hash is the sum modulo 2^128, over all rows of all tables, of the first 16
//! bytes (big-endian) of SHA-256 of the table's name, a tab, and the row's text without its line
//! end. A sum does not depend on the order of rows, nor does it name where they lie: two stores
//! with the same rows have the same hash, and it can be recomputed from a dump.
//!
//! # What it does not do
//! It opens no file: [`dump`] is given something to write each table to.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use sha2::{Digest, Sha256};
use tombolo_engine::threads::{self, ordered_parallel};
use tombolo_storage::error::{Error, Result};
use tombolo_storage::key::Dynamic;
use tombolo_storage::row::RowBytes;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::{SharedRows, Table, dynamic_table};
use tombolo_storage::value::ColumnReader;

use crate::store::DynamicStore;
use crate::workload::rows::in_transaction;

/// Slots whose rows one thread hashes at a time: some milliseconds of work.
const SLOTS_AT_ONCE: u32 = 1 << 14;

/// Why a dump failed.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The store refused to be read.
    #[error("the database cannot be read: {0}")]
    Store(#[from] Error),
    /// A table's rows could not be written.
    #[error("table {table} cannot be written: {error}")]
    Write {
        /// The table.
        table: String,
        /// The writer's error.
        error: io::Error,
    },
}

/// The state of a database: equal for databases with the same rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateHash(u128);

impl StateHash {
    /// Adds a row of `table`, given as COPY text.
    pub fn add(&mut self, table: &str, row: &[u8]) {
        self.add_text(&[table.as_bytes(), b"\t", row].concat());
    }

    /// Adds a row, given as its table's name, a tab, and COPY text.
    pub(crate) fn add_text(&mut self, text: &[u8]) {
        let digest: [u8; 32] = Sha256::digest(text).into();
        let (first, _) = digest.split_at(16);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(first);
        self.0 = self.0.wrapping_add(u128::from_be_bytes(bytes));
    }

    /// Adds the rows that `other` is the hash of.
    pub fn add_all(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

impl fmt::Display for StateHash {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The text of a table's rows, one at a time.
#[derive(Debug)]
pub(crate) struct RowText {
    columns: Vec<ColumnReader>,
    /// The table's name and a tab, then the row.
    text: Vec<u8>,
    name_bytes: usize,
}

impl RowText {
    pub(crate) fn of(table: &TableDef) -> Self {
        let columns = &table.columns;
        let text = format!("{}\t", table.name).into_bytes();
        Self {
            columns: (0..columns.len()).map(|at| ColumnReader::new(columns, at)).collect(),
            name_bytes: text.len(),
            text,
        }
    }

    /// The table's name, a tab, and the row's COPY text without the line's end.
    pub(crate) fn named(&mut self, row: &(impl RowBytes + ?Sized)) -> &[u8] {
        self.text.truncate(self.name_bytes);
        for (position, column) in self.columns.iter().enumerate() {
            if position > 0 {
                self.text.push(b'\t');
            }
            column.read(row).copy_bytes(&mut self.text);
        }
        &self.text
    }

    /// The row that was read last, as a line.
    fn line(&mut self) -> &[u8] {
        self.text.push(b'\n');
        &self.text[self.name_bytes..]
    }
}

/// Calls `each` with every table, all in one transaction.
fn for_each_table<E: From<Error>>(
    store: &mut dyn DynamicStore,
    mut each: impl FnMut(
        &mut dyn DynamicStore,
        &Table<Dynamic>,
        &TableDef,
    ) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    in_transaction(store, |store| {
        let schema = store.schema().clone();
        schema.live_tables().try_for_each(|(position, table)| {
            let handle = dynamic_table(&schema, position);
            each(store, &handle, table)
        })
    })
}

/// The hash of all rows in `store`.
///
/// # Errors
/// When the store refuses to be read.
pub fn state_hash(store: &mut dyn DynamicStore) -> Result<StateHash> {
    let mut hash = StateHash::default();
    table_hashes(store)?.into_values().for_each(|table| hash.add_all(table));
    Ok(hash)
}

/// The hash of the rows of each table, by its name; in parts by as many threads as there are cores where they can
/// read the store in parallel.
///
/// # Errors
/// When the store refuses to be read.
pub(crate) fn table_hashes(store: &mut dyn DynamicStore) -> Result<BTreeMap<String, StateHash>> {
    let mut hashes = BTreeMap::new();
    for_each_table(store, |store, handle, table| {
        let in_parts = store.shared().map(|view| hash_in_parts(&*view, handle, table));
        let hash = match in_parts {
            Some(hash) => hash,
            None => {
                let (mut hash, mut text) = (StateHash::default(), RowText::of(table));
                store.each_row(handle, &mut |row| hash.add_text(text.named(row)))?;
                hash
            }
        };
        hashes.insert(table.name.to_string(), hash);
        Ok::<_, Error>(())
    })?;
    Ok(hashes)
}

/// The hash of the rows of one table.
fn hash_in_parts(view: &dyn SharedRows, handle: &Table<Dynamic>, table: &TableDef) -> StateHash {
    let parts: Vec<u32> = view.slots(handle.position()).step_by(SLOTS_AT_ONCE as usize).collect();
    let hash_part = |&first: &u32| {
        let (mut hash, mut text) = (StateHash::default(), RowText::of(table));
        let slots = first..first.saturating_add(SLOTS_AT_ONCE);
        view.each_row(handle.position(), slots, &mut |row| hash.add_text(text.named(row)));
        hash
    };
    let mut hash = StateHash::default();
    let threads = threads::available().min(parts.len()).max(1);
    ordered_parallel(&parts, threads, hash_part, |part| hash.add_all(part));
    hash
}

/// Writes the rows of each table to what `open` gives for its name, one a line, and returns the
/// hash of all of them.
///
/// # Errors
/// When the store refuses to be read, or a table cannot be opened or written.
pub fn dump<W: io::Write>(
    store: &mut dyn DynamicStore,
    mut open: impl FnMut(&str) -> io::Result<W>,
) -> std::result::Result<StateHash, DumpError> {
    let mut hash = StateHash::default();
    for_each_table(store, |store, handle, table| {
        let refuse = |error| DumpError::Write { table: table.name.to_string(), error };
        let mut out = open(&table.name).map_err(refuse)?;
        let (mut text, mut written) = (RowText::of(table), Ok(()));
        store.each_row(handle, &mut |row| {
            if written.is_ok() {
                hash.add_text(text.named(row));
                written = out.write_all(text.line());
            }
        })?;
        written.and_then(|()| out.flush()).map_err(refuse)
    })?;
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tombolo_storage::memory::{Limits, MemoryStore};
    use tombolo_storage::profile::Memory;
    use tombolo_storage::store::Store;
    use tombolo_storage::value::Value;

    use super::*;
    use tombolo_storage::schema::ColumnDef;
    use tombolo_storage::types;

    /// A store that one thread reads, row by row.
    struct Unshared<'s, S> {
        store: &'s mut S,
    }

    macro_rules! unshared {
        ($store:ident shared $arguments:tt $call:expr) => {
            None
        };
        ($store:ident $name:ident $arguments:tt $call:expr) => {
            $call
        };
    }

    impl<S: Store> Store for Unshared<'_, S> {
        pass_through! { unshared }
    }

    struct Sink<'t>(&'t RefCell<Vec<u8>>);

    impl io::Write for Sink<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Rows with values of variable length, some of them null, some equal; a seventh is deleted
    /// again.
    fn store(rows: i64) -> MemoryStore<Memory> {
        let mut store = MemoryStore::<Memory>::new(Limits::default());
        let mut columns = vec![
            ColumnDef::of::<types::Nullable<types::Text>>("a"),
            ColumnDef::of::<types::BigInt>("id"),
            ColumnDef::of::<types::Bytes>("b"),
        ];
        columns[0].nullable = true;
        let table = TableDef { name: "mixed".into(), columns, indexes: Vec::new() };
        Store::create_table(&mut store, table).unwrap();
        let rows_of = tombolo_storage::dynamic::DynamicTable::new(Store::schema(&store), 0);
        Store::begin(&mut store).unwrap();
        Store::begin_writes(&mut store);
        for id in 0..rows {
            let text = format!("number {}", id / 2);
            let a = if id % 3 == 0 { Value::Null } else { Value::Text(&text) };
            let b = vec![id as u8; (id % 5) as usize];
            let row =
                rows_of.insert(&mut store, &[a, Value::Integer(id), Value::Bytes(&b)]).unwrap();
            if id % 7 == 6 {
                rows_of.delete(&mut store, row).unwrap();
            }
        }
        Store::commit(&mut store).unwrap();
        store
    }

    /// What threads hash, in parts or whole, is the sum over the text that a dump has.
    #[test]
    fn a_hash_is_that_of_the_rows_text() {
        let part = i64::from(SLOTS_AT_ONCE);
        for rows in [0, 1, part, 3 * part + 6] {
            let mut store = store(rows);
            let text = RefCell::new(Vec::new());
            let dumped = dump(&mut store, |_| Ok(Sink(&text))).unwrap();
            let text = String::from_utf8(text.into_inner()).unwrap();
            let mut expected = StateHash::default();
            text.lines().for_each(|line| expected.add("mixed", line.as_bytes()));
            assert_eq!((text.lines().count() as i64, dumped), (rows - rows / 7, expected));
            assert_eq!(state_hash(&mut store).unwrap(), expected);
            assert_eq!(state_hash(&mut Unshared { store: &mut store }).unwrap(), expected);
        }
    }
}
