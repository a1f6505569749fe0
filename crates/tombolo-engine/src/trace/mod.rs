//! Traces: what the calls of a database did, in a file.
//!
//! ```text
//!   file:    8 magic │ 4 version │ 4 checksum of these │ blocks
//!   block:   4 length of the content │ 4 checksum of number, kind and content │ 1 kind │ content
//!   kind 1:  tables; the first block, and no other        kind 2:  calls        kind 3:  the end, with counts
//! ```
//!
//! `docs/format.md` has the content of each. Numbers of the heads are little-endian, those of contents have seven bits
//! a byte, the lowest first. A damaged block and all blocks after it are not read.
//!
//! A trace has no values of rows. It has a hash of the key by which a row would be spread over islands, with a
//! secret that is forgotten when the trace ends: so it shows only which keys are equal.
//!
//! Not here: files, and observing calls (the library's `trace/`); evaluating a trace (the laboratory).

mod read;
mod write;

pub use read::{Damage, read};
pub use tombolo_storage::memory::held::Access;
pub use write::Encoder;

const MAGIC: &[u8; 8] = b"TmbTrace";

/// The version of the format.
pub const VERSION: u32 = 1;

const HEADER_BYTES: usize = 16;
/// Length, checksum and kind.
const BLOCK_HEAD_BYTES: usize = 9;

const TABLES: u8 = 1;
const CALLS: u8 = 2;
const END: u8 = 3;

/// Entries of a block of calls.
const NAME: u8 = 0;
const CALL: u8 = 1;

/// A block of calls is handed over when it has so many bytes.
pub const BLOCK_BYTES: usize = 64 << 10;

/// A table of the traced database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedTable {
    /// Its name.
    pub name: String,
    /// The fixed part of a row, in bytes.
    pub row_bytes: u32,
    /// The column whose values are the keys, if it has one.
    pub key: Option<String>,
}

/// Rows of one table with one key that were accessed one after another, in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The most that was done with each.
    pub access: Access,
    /// The table, by its place among the traced ones.
    pub table: u32,
    /// The hash of their key, if they have one.
    pub key: Option<u64>,
    /// How many rows.
    pub rows: u64,
}

/// A call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The name of its procedure or closure, by its place among the traced ones.
    pub procedure: u32,
    /// When it began to run, since the trace began, in microseconds.
    pub began_us: u64,
    /// How long it ran, in nanoseconds.
    pub ran_ns: u64,
    /// Whether it did not commit.
    pub is_aborted: bool,
    /// Rows in the order in which they were first accessed. Each row is there once.
    pub touched: Vec<Touched>,
    /// Rows that were accessed after so many others that they are only counted.
    pub more_rows: u64,
}

/// The last block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Calls in the file.
    pub calls: u64,
    /// Calls that ran while the trace was recorded and are not in the file.
    pub lost: u64,
    /// How long was recorded, in microseconds.
    pub recorded_us: u64,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The tables.
    pub tables: Vec<TracedTable>,
    /// Names of procedures and closures.
    pub procedures: Vec<String>,
    /// The calls, in the order in which they ran.
    pub calls: Vec<Call>,
    /// The end, if the file has it.
    pub end: Option<End>,
    /// Why the rest of the file is not read, if so.
    pub torn: Option<String>,
}

#[cfg(test)]
mod tests;
