//! How much a row's change logs, at most: what a transaction may log is known from its input.
//!
//! Not here: what a record looks like (storage `value_log/record.rs`).

use tombolo_storage::row::Fields;
use tombolo_storage::schema::DeclaredTable;

/// The most bytes in front of a record's own.
pub const RECORD: usize = 16;
/// Bytes in front of a transaction's records.
pub const TRANSACTION: usize = 4;

/// The log of a row that is made.
pub const fn inserted<R: DeclaredTable>() -> usize {
    RECORD + R::SIZE
}

/// The log of a row whose `fields` are changed.
pub const fn updated<R>(fields: Fields<R>) -> usize {
    RECORD + fields.end() - fields.start()
}
