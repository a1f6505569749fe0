//! SQLite's connections, for every comparison with it (docs/compare.md).
//!
//! # Durability
//! `group`: a file with a write-ahead log, `synchronous = FULL`: a sync per transaction. The log is moved
//! into the file every 64 MB. `none`: in memory, without a journal.

use std::path::Path;

use rusqlite::{Connection, Error, OpenFlags};

use crate::failure::Failure;

/// The settings with a file.
const DURABLE: &str = "PRAGMA journal_mode = WAL;
     PRAGMA synchronous = FULL;
     PRAGMA wal_autocheckpoint = 16384;";
/// The settings in memory.
const IN_MEMORY: &str = "PRAGMA journal_mode = OFF;
     PRAGMA synchronous = OFF;
     PRAGMA locking_mode = EXCLUSIVE;";

pub(super) fn failed(error: Error) -> Failure {
    Failure::check(format!("sqlite failed: {error}"))
}

/// A connection to the database in `file`, or to one in memory. Its `own` settings come first: a page size is
/// accepted before the first page only.
///
/// # Errors
/// SQLite's.
pub(super) fn open(file: Option<&Path>, own: &str) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match file {
        Some(file) => Connection::open_with_flags(file, flags)?,
        None => Connection::open_in_memory_with_flags(flags)?,
    };
    connection.execute_batch(own)?;
    connection.execute_batch(if file.is_some() { DURABLE } else { IN_MEMORY })?;
    Ok(connection)
}

/// Leaves nothing of what was loaded in the log.
///
/// # Errors
/// SQLite's.
pub(super) fn empty_log(connection: &Connection) -> Result<(), Error> {
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
}

/// What a file of SQL has under each name: a section begins with `-- # name`.
pub(super) fn sections(sql: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    sql.split("-- # ").skip(1).filter_map(|section| section.split_once('\n'))
}
