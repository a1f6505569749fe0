//! What the logging stage asks of a log: groups of records, made durable together.
//!
//! The pipeline decides what goes into a group and when it is flushed; the log knows bytes, files
//! and checksums. Not here: what records mean (storage).
//!
//! A failure is final: the pipeline calls nothing after one. The only exception is a log without
//! room, which says so before it has written anything and may be asked again.

use std::fmt;

/// Why a log did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupLogError {
    /// There is no room for the group; nothing of it was written.
    Full,
    /// Something failed, as said here for the user; what is on disk behind the last sync is
    /// unknown.
    Failed(String),
}

impl fmt::Display for GroupLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the log has no room"),
            Self::Failed(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for GroupLogError {}

/// A log that takes groups.
pub trait GroupLog: Send {
    /// Writes one group: the records of several batches, in this order, each batch whole
    /// transactions. Together they are no longer than [`GroupLog::group_bytes_max`].
    ///
    /// # Errors
    /// See [`GroupLogError`].
    fn append(&mut self, records: &[Vec<u8>]) -> Result<(), GroupLogError>;

    /// Makes every group written so far durable.
    ///
    /// # Errors
    /// See [`GroupLogError`].
    fn sync(&mut self) -> Result<(), GroupLogError>;

    /// Writes, durably, that every group so far is durable, so that damage to the last one is not
    /// taken for a torn tail.
    ///
    /// # Errors
    /// See [`GroupLogError`].
    fn seal(&mut self) -> Result<(), GroupLogError> {
        self.append(&[])?;
        self.sync()
    }

    /// How many bytes still fit, in any grouping, when every batch is counted with
    /// [`GroupLog::group_overhead_bytes`] on top of its records.
    fn room_bytes(&mut self) -> u64;

    /// The most bytes of records a group holds.
    fn group_bytes_max(&self) -> u64;

    /// The most bytes a group takes beside its records: headers, padding, what is left of a
    /// segment.
    fn group_overhead_bytes(&self) -> u64;
}
