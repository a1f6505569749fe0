//! What a store refuses, and whether trying again helps.
//!
//! One small, copyable enum: it travels through every call of the hot path, so it holds numbers and
//! static names, never an allocated string. What to print for the user is decided here too.

use std::fmt;
use std::io::ErrorKind;

use crate::owner::Owner;

/// Why a store refused an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A unique index already holds the key.
    Duplicate {
        /// The index, by its position in the schema.
        index: u32,
    },
    /// The row id names no live row of the table.
    NoSuchRow {
        /// The table, by its position in the schema.
        table: u32,
    },
    /// A handle of another database was used.
    OtherDatabase,
    /// A handle was used of a table, an index or a column that was dropped since it was asked for.
    Dropped,
    /// A column's value lies outside its declared range, or is too long for it.
    OutOfRange {
        /// The table, by its position in the schema.
        table: u32,
        /// The column's position in its table.
        column: u32,
    },
    /// A column that must not be null was given null, or a value of another type.
    WrongType {
        /// The table, by its position in the schema.
        table: u32,
        /// The column's position in its table.
        column: u32,
    },
    /// The rows of a table are spread over several stores, and this one belongs to another.
    Elsewhere {
        /// The table, by its position in the schema.
        table: u32,
        /// The column by which it is spread, by its position in the table.
        column: u32,
    },
    /// Memory for a row or an index entry is exhausted.
    NoSpace {
        /// The bytes the exhausted structure already holds.
        held_bytes: u64,
    },
    /// A scan of a hash index, which has no order.
    Unordered {
        /// The index, by its position in the schema.
        index: u32,
    },
    /// A range compares no column of an index, or more than it has.
    KeyColumns {
        /// The index, by its position in the schema.
        index: u32,
        /// How many columns it has.
        columns: u32,
    },
    /// A deadlock: the transaction waited in a circle with others and was chosen to abort.
    Deadlock,
    /// A lock was not granted within the longest wait allowed, or, where nothing waits,
    /// immediately.
    LockTimeout,
    /// The lock table has no room for what the transaction wants to lock.
    LockTableFull,
    /// The transaction met what a transaction over several islands holds until it is decided; it can only be
    /// aborted.
    Held {
        /// The transaction that holds it.
        owner: Owner,
    },
    /// The changes of a prepared transaction are not of these rows.
    UnfitChanges,
    /// A profile without locks or without a log on disk cannot prepare a transaction.
    CannotPrepare,
    /// As many transactions are prepared as may be at a time.
    TooManyPrepared {
        /// How many that is.
        max: u64,
    },
    /// A transaction with this number is prepared already, or is being decided.
    PreparedAlready {
        /// The number.
        owner: Owner,
    },
    /// No transaction with this number is prepared.
    NotPrepared {
        /// The number.
        owner: Owner,
    },
    /// Every frame of the buffer pool is in use at the same time.
    PoolFull {
        /// How many frames there are.
        frames: u64,
    },
    /// The disk failed.
    Disk {
        /// Where in its file.
        offset: u64,
        /// How.
        kind: ErrorKind,
    },
    /// The disk has no room for more of the log.
    LogFull {
        /// Whether the same transaction may find room once it has been aborted: then the store seeks some.
        again: bool,
    },
    /// A page, or what it leads to, is damaged.
    Damaged {
        /// Where in the data file, in bytes.
        offset: u64,
    },
    /// A row is longer than a page holds.
    RowTooLong {
        /// The longest row, in bytes.
        bytes_max: u64,
    },
    /// The transaction logged more than its limit; it can only be aborted.
    LogTooLong {
        /// The limit, in bytes.
        bytes_max: u64,
    },
    /// The log holds commands, and a transaction wrote that is not a registered procedure; it can only be aborted.
    NoCommand,
    /// The deadline of the transaction's call passed while it ran; it can only be aborted.
    DeadlinePassed,
    /// The caller of the transaction's call cancelled it while it ran; it can only be aborted.
    Cancelled,
    /// A snapshot was asked of a store that keeps no undo information.
    NoSnapshots,
    /// The snapshot was ended: what transactions changed since it was opened took more memory than
    /// snapshots may.
    SnapshotEnded {
        /// How much that is, in bytes.
        bytes_max: u64,
    },
    /// An abort after the first write was asked of a store that keeps no undo information.
    NoUndo,
    /// An earlier failure left the store in an unknown state; every later call is refused.
    Poisoned {
        /// What happened.
        reason: &'static str,
    },
}

// Every call returns it: one that is longer would cost instructions on every path.
const _: () = assert!(size_of::<Error>() == 24);

impl Error {
    /// Whether the same transaction may succeed when it is simply tried again.
    pub const fn retry(self) -> bool {
        matches!(
            self,
            Self::Deadlock | Self::LockTimeout | Self::Held { .. } | Self::LogFull { again: true }
        )
    }

    /// Whether the disk has no room; nothing is lost.
    pub const fn is_full(self) -> bool {
        matches!(self, Self::Disk { kind: ErrorKind::StorageFull, .. } | Self::LogFull { .. })
    }

    /// What ended a transaction that ran.
    const fn ended_by(self) -> &'static str {
        match self {
            Self::Cancelled => "its caller cancelled it while it ran",
            _ => "the deadline passed while it ran",
        }
    }

    /// What is refused on account of transactions that others decide.
    fn fmt_of_prepared(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Held { owner } => write!(f, "transaction {owner} {HOLDS}"),
            Self::UnfitChanges => f.write_str(UNFIT_CHANGES),
            Self::CannotPrepare => f.write_str(CANNOT_PREPARE),
            Self::TooManyPrepared { max } => write!(
                f,
                "{max} transactions are prepared and not decided: decide some, or raise prepared_max"
            ),
            Self::PreparedAlready { owner } => write!(
                f,
                "transaction {owner} is prepared already: decide it, or give this one another number"
            ),
            Self::NotPrepared { owner } => write!(
                f,
                "no transaction {owner} is prepared: it was decided, or its prepare was not answered"
            ),
            _ => Ok(()),
        }
    }

    /// What the disk failed at.
    fn fmt_of_disk(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Disk { offset, kind: ErrorKind::StorageFull } => write!(
                f,
                "the disk is full at offset {offset} of a file: make room on it; what was \
                 committed is kept"
            ),
            Self::Disk { offset, kind } => {
                write!(f, "the disk failed at offset {offset} of a file: {kind}")
            }
            Self::LogFull { again: true } => f.write_str(LOG_FULL),
            Self::LogFull { again: false } => f.write_str(LOG_NEEDED),
            Self::Damaged { offset } => write!(
                f,
                "the data file is damaged at offset {offset}: check the directory, restore a copy"
            ),
            _ => Ok(()),
        }
    }

    /// Whether every further call fails.
    pub const fn poisons(self) -> bool {
        matches!(self, Self::Poisoned { .. })
    }
}

const OTHER_DATABASE: &str = "the handle of a table or an index belongs to another database: ask the one that \
     runs the transaction for its own";

const DROPPED: &str = "a table, an index or a column was dropped that the handle, or the procedure, is of: ask the \
     database for the handle again, or register the procedure again";

const LOCK_TABLE_FULL: &str =
    "the lock table is full: give it more room or lock fewer rows in a transaction";

const HOLDS: &str = "holds what this one needs, and is not decided yet: wait for its decision, then run \
     this one again";

const NO_SNAPSHOTS: &str =
    "this profile keeps no undo information, hence no snapshots: use profile memory";

const LOG_FULL: &str = "the disk is full: the log (the files log-… in the database's directory) has no room; what \
     it no longer needs is freed once this transaction is aborted: run it again, or make room on it; what was \
     committed is kept";

const LOG_NEEDED: &str = "the disk is full: the log (the files log-… in the database's directory) has no room, and \
     a restart needs all that it has: make room on it, or end the transactions that write and those that are \
     prepared; once the database is not in use, tombolo recover DIR frees what it can; what was committed is kept";

const UNFIT_CHANGES: &str = "the changes of a prepared transaction are not of these rows: check the directory, \
     restore a copy";

const CANNOT_PREPARE: &str = "this profile keeps no locks, or no log on disk: open the database with both to prepare \
     transactions";

const NO_COMMAND: &str = "the database's log holds commands, but no registered procedure was named for this \
     transaction: call it as one, or use log = value";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Duplicate { index } => write!(f, "unique index {index} already holds this key"),
            Self::NoSuchRow { table } => write!(f, "table {table} has no row with this id"),
            Self::OtherDatabase => f.write_str(OTHER_DATABASE),
            Self::Dropped => f.write_str(DROPPED),
            Self::OutOfRange { table, column } => write!(
                f,
                "the value of column {column} of table {table} does not fit: it is outside \
                 the declared range, too long, or has too many digits"
            ),
            Self::WrongType { table, column } => write!(
                f,
                "the value of column {column} of table {table} is null or has another type than \
                 the column"
            ),
            Self::Elsewhere { table, column } => write!(
                f,
                "a row of table {table} belongs to another store, as its column {column} says: \
                 write it there"
            ),
            Self::NoSpace { held_bytes } => write!(
                f,
                "no memory for another row or index entry ({held_bytes} bytes held): \
                 raise the memory limit or delete rows"
            ),
            Self::Unordered { index } => {
                write!(f, "index {index} is a hash index and has no order: scan a tree index")
            }
            Self::KeyColumns { index, columns } => {
                write!(f, "a range of index {index} compares 1 to {columns} columns")
            }
            Self::Deadlock => f.write_str("deadlock: this transaction was the victim; retry it"),
            Self::LockTimeout => f.write_str("a lock was not granted in time; retry"),
            Self::LockTableFull => f.write_str(LOCK_TABLE_FULL),
            Self::Held { .. }
            | Self::UnfitChanges
            | Self::CannotPrepare
            | Self::TooManyPrepared { .. }
            | Self::PreparedAlready { .. }
            | Self::NotPrepared { .. } => self.fmt_of_prepared(f),
            Self::PoolFull { frames } => write!(
                f,
                "all {frames} frames of the buffer pool are in use at once: give it more frames"
            ),
            Self::Disk { .. } | Self::LogFull { .. } | Self::Damaged { .. } => self.fmt_of_disk(f),
            Self::RowTooLong { bytes_max } => {
                write!(f, "the row is longer than a page holds ({bytes_max} bytes): shorten it")
            }
            Self::LogTooLong { bytes_max } => {
                write!(f, "the transaction logs more than {bytes_max} bytes: split it")
            }
            Self::NoCommand => f.write_str(NO_COMMAND),
            Self::DeadlinePassed | Self::Cancelled => f.write_str(self.ended_by()),
            Self::NoSnapshots => f.write_str(NO_SNAPSHOTS),
            Self::SnapshotEnded { bytes_max } => write!(
                f,
                "the snapshot was ended: changes since it was opened need more than the \
                 {bytes_max} bytes for snapshots, or than the memory budget has left; raise the \
                 bound, or read at a quieter time"
            ),
            Self::NoUndo => write!(
                f,
                "this profile keeps no undo information: decide to abort before the first write, or use profile memory"
            ),
            Self::Poisoned { reason } => {
                write!(f, "the database is poisoned and answers no more: {reason}")
            }
        }
    }
}

impl std::error::Error for Error {}

/// A store's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a definition of tables and indexes was refused; one sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError(String);

impl SchemaError {
    /// The refusal of `name` because of `what`.
    pub fn new(name: &str, what: &str) -> Self {
        Self(format!("{name}: {what}"))
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SchemaError {}
