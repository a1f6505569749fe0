//! Dumps and state hashes of any database, in PostgreSQL's COPY text (cli.md, `state_hash`).
//!
//! # What it is
//! A row's text is its columns in schema order, tabs between. A dump writes each table's rows, one
//! a line; the state hash is the sum modulo 2^128, over all rows of all tables, of the first 16
//! bytes (big-endian) of SHA-256 of the table's name, a tab, and the row's text without its line
//! end. A sum does not depend on the order of rows, nor does it name where they lie: two stores
//! with the same rows have the same hash, and anyone can recompute it from a dump.
//!
//! # What it does not do
//! It opens no file: [`dump`] is given something to write each table to.

use std::fmt;
use std::io;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tombolo_engine::threads::{self, fold_parallel};
use tombolo_storage::error::{Error, Result};
use tombolo_storage::key::Dynamic;
use tombolo_storage::row::RowBytes;
use tombolo_storage::schema::{ColumnDef, TableDef};
use tombolo_storage::store::{Table, dynamic_table};
use tombolo_storage::value::ColumnReader;

use crate::instance::DynamicStore;

/// Rows that one thread hands to another at a time.
const ROWS_AT_ONCE: usize = 2_048;

/// Why a dump failed.
#[derive(Debug)]
pub enum DumpError {
    /// The store refused to be read.
    Store(Error),
    /// A table's rows could not be written.
    Write {
        /// The table.
        table: String,
        /// What the writer said.
        error: io::Error,
    },
}

impl From<Error> for DumpError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the database cannot be read: {error}"),
            Self::Write { table, error } => write!(f, "table {table} cannot be written: {error}"),
        }
    }
}

impl std::error::Error for DumpError {}

/// The state of a database: equal for databases with the same rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateHash(u128);

impl StateHash {
    /// Adds a row of `table`, given as COPY text.
    pub fn add(&mut self, table: &str, row: &str) {
        let digest = Sha256::new().chain_update(table).chain_update(b"\t").chain_update(row);
        let digest: [u8; 32] = digest.finalize().into();
        let (first, _) = digest.split_at(16);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(first);
        self.0 = self.0.wrapping_add(u128::from_be_bytes(bytes));
    }

    /// Adds the rows that `other` is the hash of.
    fn add_all(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

impl fmt::Display for StateHash {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The columns of a table.
fn readers(columns: &[ColumnDef]) -> Vec<ColumnReader> {
    (0..columns.len()).map(|position| ColumnReader::new(columns, position)).collect()
}

/// Appends the COPY text of a row whose columns these read, without the line's end.
fn copy_columns(row: &dyn RowBytes, columns: &[ColumnReader], text: &mut String) {
    for (position, column) in columns.iter().enumerate() {
        if position > 0 {
            text.push('\t');
        }
        column.read(row).copy_text(text);
    }
}

/// Calls `each` with every table's position, name and columns, all in one transaction.
fn for_each_table<E: From<Error>>(
    store: &mut dyn DynamicStore,
    mut each: impl FnMut(
        &mut dyn DynamicStore,
        &Table<Dynamic>,
        &TableColumns,
    ) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    store.begin()?;
    let tables = 0..store.schema().tables.len();
    let result = tables.into_iter().try_for_each(|position| {
        let handle = dynamic_table(store.schema(), position);
        let table = TableColumns::of(&store.schema().tables[position]);
        each(store, &handle, &table)
    });
    // Nothing was written: ending the transaction either way keeps the first error.
    store.commit()?;
    result
}

/// A table's name and columns.
struct TableColumns {
    name: String,
    columns: Arc<[ColumnReader]>,
}

impl TableColumns {
    fn of(table: &TableDef) -> Self {
        Self { name: table.name.to_string(), columns: readers(&table.columns).into() }
    }
}

/// Rows of one table, taken out of their store so that any thread can read them.
struct Copies {
    table: Arc<str>,
    columns: Arc<[ColumnReader]>,
    rows: usize,
    /// The rows' fixed parts, one behind the other.
    fixed: Vec<u8>,
    /// Values of variable length.
    values: Vec<u8>,
    /// For each row and column of variable length: the handle, and where the value ends.
    handles: Vec<(u64, usize)>,
}

impl Copies {
    fn new(table: &Arc<str>, columns: &Arc<[ColumnReader]>) -> Self {
        Self {
            table: table.clone(),
            columns: columns.clone(),
            rows: 0,
            fixed: Vec::new(),
            values: Vec::new(),
            handles: Vec::new(),
        }
    }

    fn add(&mut self, row: &dyn RowBytes, variable: &[ColumnReader]) {
        let fixed = row.fixed();
        self.fixed.extend_from_slice(fixed);
        for column in variable {
            let handle = column.handle(fixed);
            if let Some(handle) = handle {
                self.values.extend_from_slice(row.variable(handle));
            }
            self.handles.push((handle.unwrap_or_default(), self.values.len()));
        }
        self.rows += 1;
    }

    fn hash(&self) -> StateHash {
        let (mut hash, mut text) = (StateHash::default(), String::new());
        let (bytes, handles) = (self.fixed.len() / self.rows.max(1), self.handles.len());
        let handles = handles / self.rows.max(1);
        let mut from = 0;
        for row in 0..self.rows {
            let handles = &self.handles[row * handles..(row + 1) * handles];
            let copy = Copy {
                fixed: &self.fixed[row * bytes..(row + 1) * bytes],
                handles,
                values: &self.values,
                from,
            };
            text.clear();
            copy_columns(&copy, &self.columns, &mut text);
            hash.add(&self.table, &text);
            from = handles.last().map_or(from, |&(_, end)| end);
        }
        hash
    }
}

/// One of the rows.
struct Copy<'c> {
    fixed: &'c [u8],
    handles: &'c [(u64, usize)],
    values: &'c [u8],
    /// Where its first value begins.
    from: usize,
}

impl RowBytes for Copy<'_> {
    fn fixed(&self) -> &[u8] {
        self.fixed
    }

    fn variable(&self, handle: u64) -> &[u8] {
        let mut from = self.from;
        for &(of, end) in self.handles {
            if of == handle {
                return &self.values[from..end];
            }
            from = end;
        }
        unreachable!("every handle of the row was copied with its value")
    }
}

/// The hash of all rows in `store`.
///
/// The calling thread takes rows out of the store; as many threads as there are cores make their
/// text and hash it.
///
/// # Errors
/// When the store refuses to be read.
pub fn state_hash(store: &mut dyn DynamicStore) -> Result<StateHash> {
    let add = |hash: &mut StateHash, copies: Copies| hash.add_all(copies.hash());
    let (read, hashes) = fold_parallel(threads::available(), add, |give| {
        for_each_table(store, |store, handle, table| {
            let name: Arc<str> = table.name.as_str().into();
            let variable: Vec<ColumnReader> =
                table.columns.iter().copied().filter(ColumnReader::is_variable).collect();
            let mut copies = Copies::new(&name, &table.columns);
            store.each_row(handle, &mut |row| {
                copies.add(row, &variable);
                if copies.rows == ROWS_AT_ONCE {
                    give(std::mem::replace(&mut copies, Copies::new(&name, &table.columns)));
                }
            })?;
            give(copies);
            Ok::<_, Error>(())
        })
    });
    read?;
    let mut hash = StateHash::default();
    hashes.into_iter().for_each(|part| hash.add_all(part));
    Ok(hash)
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
    for_each_table(store, |store, handle, TableColumns { name, columns }| {
        let refuse = |error| DumpError::Write { table: name.clone(), error };
        let mut out = open(name).map_err(refuse)?;
        let (mut text, mut written) = (String::new(), Ok(()));
        store.each_row(handle, &mut |row| {
            if written.is_err() {
                return;
            }
            text.clear();
            copy_columns(row, columns, &mut text);
            hash.add(name, &text);
            text.push('\n');
            written = out.write_all(text.as_bytes());
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
    use tombolo_storage::types;

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

    /// Rows with values of variable length, some of them null, some equal, more than are copied at
    /// once.
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
            rows_of.insert(&mut store, &[a, Value::Integer(id), Value::Bytes(&b)]).unwrap();
        }
        Store::commit(&mut store).unwrap();
        store
    }

    /// What threads hash of copies is the sum over the text that a dump has.
    #[test]
    fn a_hash_is_that_of_the_rows_text() {
        for rows in [0, 1, ROWS_AT_ONCE as i64, 3 * ROWS_AT_ONCE as i64 + 7] {
            let mut store = store(rows);
            let text = RefCell::new(Vec::new());
            let dumped = dump(&mut store, |_| Ok(Sink(&text))).unwrap();
            let text = String::from_utf8(text.into_inner()).unwrap();
            let mut expected = StateHash::default();
            text.lines().for_each(|line| expected.add("mixed", line));
            assert_eq!((text.lines().count() as i64, dumped), (rows, expected));
            assert_eq!(state_hash(&mut store).unwrap(), expected);
        }
    }
}
