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
use std::ops::ControlFlow;

use sha2::{Digest, Sha256};
use tombolo_storage::error::{Error, Result};
use tombolo_storage::row::RowBytes;
use tombolo_storage::schema::ColumnDef;
use tombolo_storage::store::{Store, dynamic_table};
use tombolo_storage::value::read_value;

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
}

impl fmt::Display for StateHash {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Appends the COPY text of a row of a table with these columns, without the line's end.
pub fn copy_row<P: RowBytes>(row: &P, columns: &[ColumnDef], text: &mut String) {
    for position in 0..columns.len() {
        if position > 0 {
            text.push('\t');
        }
        read_value(row, columns, position).copy_text(text);
    }
}

/// Calls `see` with the COPY text of every row of the table at `position` of the schema.
fn for_each_row<S: Store, E: From<Error>>(
    store: &mut S,
    position: usize,
    mut see: impl FnMut(&str) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let table = dynamic_table(store.schema(), position);
    let mut rows = Vec::new();
    store.rows(&table, |row| {
        rows.push(row);
        ControlFlow::Continue(())
    })?;
    let mut text = String::new();
    for row in rows {
        let columns = &store.schema().tables[position].columns;
        text.clear();
        copy_row(store.pin(&table, row)?.pin(), columns, &mut text);
        see(&text)?;
    }
    Ok(())
}

/// Calls `each` with the position of every table, all in one transaction.
fn for_each_table<S: Store, E: From<Error>>(
    store: &mut S,
    mut each: impl FnMut(&mut S, usize) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    store.begin()?;
    let tables = store.schema().tables.len();
    let result = (0..tables).try_for_each(|position| each(store, position));
    // Nothing was written: ending the transaction either way keeps the first error.
    store.commit()?;
    result
}

/// The hash of all rows in `store`.
///
/// # Errors
/// When the store refuses to be read.
pub fn state_hash<S: Store>(store: &mut S) -> Result<StateHash> {
    let mut hash = StateHash::default();
    for_each_table(store, |store, position| {
        let name = store.schema().tables[position].name.clone();
        for_each_row(store, position, |row| {
            hash.add(&name, row);
            Ok::<_, Error>(())
        })
    })?;
    Ok(hash)
}

/// Writes the rows of each table to what `open` gives for its name, one a line, and returns the
/// hash of all of them.
///
/// # Errors
/// When the store refuses to be read, or a table cannot be opened or written.
pub fn dump<S: Store, W: io::Write>(
    store: &mut S,
    mut open: impl FnMut(&str) -> io::Result<W>,
) -> std::result::Result<StateHash, DumpError> {
    let mut hash = StateHash::default();
    for_each_table(store, |store, position| {
        let name = store.schema().tables[position].name.clone();
        let refuse = |error| DumpError::Write { table: name.to_string(), error };
        let mut out = open(&name).map_err(refuse)?;
        for_each_row(store, position, |row| {
            hash.add(&name, row);
            out.write_all(row.as_bytes()).and_then(|()| out.write_all(b"\n")).map_err(refuse)
        })?;
        out.flush().map_err(refuse)
    })?;
    Ok(hash)
}
