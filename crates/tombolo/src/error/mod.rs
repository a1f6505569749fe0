//! `Error`: errors of opening and of calls, with messages that suggest a remedy.
//!
//! One enum for both, because an application usually handles them in the same place. Three predicates
//! ([`Error::is_retryable`], [`Error::is_final`], [`Error::may_have_committed`]) support a caller's decisions,
//! so that it need not list variants. Not here: the internal errors of stages and store.

use std::sync::Arc;
use std::{fmt, io};

use tombolo_engine::pipeline::{Failure, GROUP_BYTES_MAX, Refusal};
use tombolo_engine::settings::SettingError;
use tombolo_engine::threads::NoThread;
use tombolo_storage::disk::DiskError;
use tombolo_storage::error::{Error as StoreError, SchemaError};
use tombolo_storage::schema::Schema;

use crate::calls::Outcome;
use crate::definition::Difference;
use crate::product::TRANSACTION_BYTES;

mod files;
mod stop;

pub(crate) use stop::Result;
pub use stop::{OwnError, Stop};

/// The reason that a database was not opened, or that a call has no answer.
///
/// ```
/// use tombolo::{Database, Error, Stop};
///
/// let db = Database::in_memory()?;
/// let refused = db.transaction(|_| Err::<(), _>(Stop::Abort("not today"))).unwrap_err();
/// assert_eq!(refused, Error::Aborted("not today"));
/// assert!(!refused.is_retryable() && !refused.may_have_committed());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The procedure or closure aborted, for this reason; nothing was changed.
    Aborted(&'static str),
    /// The closure aborted with this error of the application ([`Error::own`]); nothing was changed.
    Own(OwnError),
    /// A unique index holds the key already; nothing was changed.
    Duplicate {
        /// The index's name.
        index: String,
    },
    /// The store refused the operation for another reason; nothing was changed.
    Refused(StoreError),
    /// The store refused a value, a row or an index; nothing was changed.
    RefusedAt {
        /// Its name: `account.owner` for a value, otherwise that of the table or index.
        place: String,
        /// What is wrong with it.
        error: StoreError,
    },
    /// The procedure or closure panicked with this message; nothing was changed.
    Panicked(Box<str>),
    /// The transaction would have written more to the log than its call may; nothing was changed.
    LogTooLong {
        /// The limit, in bytes: see [`CallOptions::log_bytes_max`](crate::CallOptions::log_bytes_max).
        log_bytes_max: u64,
    },
    /// Not run: the island of this number, on which a part of the transaction would run, has stopped after a
    /// failure; nothing was changed. The other islands go on.
    IslandStopped(usize),
    /// Not run: the process of the island of this number has ended, or does not reach another one, and is being started
    /// again; nothing was changed. The other islands go on, and the call may be retried.
    IslandRestarts {
        /// The island.
        island: usize,
        /// Why its process ended, or does not start.
        why: Arc<str>,
    },
    /// The process of the island of this number ended, or hung and was killed, while the call was under way: it may
    /// have committed. The island goes on when its process has been started again.
    AnswerLost {
        /// The island.
        island: usize,
        /// Why its process ended.
        why: Arc<str>,
    },
    /// The process of an island reports an error that has no variant of its own here, or its answer cannot be read; the
    /// text says which.
    InIsland {
        /// The island.
        island: usize,
        /// The error.
        what: String,
        /// Whether the same call may succeed a little later.
        is_retryable: bool,
    },
    /// An island could not keep its part of a transaction over several, for this reason; nothing was changed.
    NotPrepared(String),
    /// Not run: the queue of waiting calls is full, and the caller did not want to wait.
    QueueFull,
    /// The call's deadline passed before its turn came, or while its closure ran, which was then ended at its
    /// next call of [`Tx`](crate::Tx); nothing was changed.
    Expired,
    /// The call was cancelled ([`Pending::cancel`](crate::Pending::cancel)) before its turn came, or while
    /// its closure ran, which was then ended at one of its next calls of [`Tx`](crate::Tx); nothing was changed.
    Cancelled,
    /// Not run: a call with the same request id ran before, with this outcome. Its answer was not kept; read
    /// the rows that it changed instead.
    Repeated(Outcome),
    /// The call's deadline passed while it was under way, or the waiting thread belongs to a database: the
    /// call may have committed, or may still commit.
    TimedOut,
    /// Not run: the log has no room for the call's records. Calls with
    /// [`CallOptions::read_only`](crate::CallOptions::read_only) still run.
    LogFull,
    /// Not run: the call's log limit exceeds what a single call may write to this log.
    TooLarge {
        /// The call's limit, in bytes.
        log_bytes: u64,
        /// The most that this log allows for one call, in bytes.
        log_bytes_max: u64,
    },
    /// Not done: the disk has no room for a checkpoint, for a copy, or for the files that opening a database
    /// writes; the text names it. Nothing is lost.
    DiskFull(String),
    /// Not done: the database writes no checkpoints.
    NoCheckpoints,
    /// Not done: this failure has ended checkpoints until the database is opened again. Transactions continue.
    CheckpointsFailed(Arc<str>),
    /// Not done: the database has no archive.
    NoArchive,
    /// Not done yet: the log cannot be archived, for this reason. Transactions continue, the log is kept, and
    /// archiving is retried.
    ArchiveFailed(Arc<str>),
    /// Not done: this failure has ended archiving until the database is opened again. Transactions continue,
    /// and the log is kept.
    ArchiveEnded(Arc<str>),
    /// Not run: a thread of a database must not wait for a database. So a transaction can call neither its own
    /// database nor another. A database that it closes is closed a little later.
    Nested,
    /// Not run: the database is closed.
    Closed,
    /// Not run: this earlier failure stopped the database.
    Poisoned(Arc<str>),
    /// The call ran, but because of this failure its answer did not become durable or was not delivered: after
    /// the database is opened again, its changes may be there or not.
    Unknown(Arc<str>),
    /// Another process, or another `Database` of this one, has the directory open.
    InUse {
        /// The lock file.
        file: String,
    },
    /// A table is defined differently in the directory and in the program.
    Definition(Box<Difference>),
    /// An invalid definition, or an invalid handle of a table or index; the text says why.
    Schema(String),
    /// An invalid setting; the text says why.
    Setting(String),
    /// Files of a database, a backup or an archive are damaged; the text names the file.
    Damaged(String),
    /// Files have another format version, or are of another kind; the text says which.
    OtherVersion(String),
    /// A disk failed, or denies reading or writing. [`source`](std::error::Error::source) is the system's
    /// error.
    Disk {
        /// The kind of the system's error: `PermissionDenied`, `NotFound` and the like.
        kind: io::ErrorKind,
        /// The failure, and a remedy.
        what: String,
        /// The operation and its file.
        source: DiskError,
    },
    /// The directory contains other files, or does not suit its purpose; the text says why.
    Directory(String),
    /// The operating system refuses what a database needs; the text says what.
    System(String),
}

impl From<NoThread> for Error {
    fn from(refused: NoThread) -> Self {
        Self::System(refused.to_string())
    }
}

impl Error {
    /// Whether the same call may succeed if it is simply retried a little later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::QueueFull | Self::Expired | Self::Cancelled | Self::LogFull => true,
            Self::DiskFull(_) | Self::ArchiveFailed(_) | Self::InUse { .. } => true,
            Self::IslandRestarts { .. } => true,
            Self::InIsland { is_retryable, .. } => *is_retryable,
            Self::Refused(error) => {
                error.retry() || error.is_full() || matches!(error, StoreError::NoSpace { .. })
            }
            _ => false,
        }
    }

    /// Whether no further call to this [`Database`](crate::Database) will be answered: open the
    /// directory again.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Closed | Self::Poisoned(_) | Self::Unknown(_) => true,
            Self::Refused(error) => error.poisons(),
            _ => false,
        }
    }

    /// Whether the transaction committed, or may have, in spite of the error. With any other error nothing
    /// was changed.
    pub fn may_have_committed(&self) -> bool {
        matches!(
            self,
            Self::TimedOut
                | Self::Unknown(_)
                | Self::AnswerLost { .. }
                | Self::Repeated(Outcome::Committed)
        )
    }

    /// The application's error that a closure returned, if it is of this type.
    pub fn own<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Own(own) => own.get(),
            _ => None,
        }
    }

    /// Converts the error of a transaction, with the table and index names of its database.
    pub(crate) fn stopped(stop: Stop, schema: &Schema) -> Self {
        match stop {
            Stop::Abort(reason) => Self::Aborted(reason),
            Stop::Own(own) => Self::Own(own),
            Stop::Error(StoreError::Duplicate { index }) => {
                let place = schema.index_at(index as usize);
                let name = place.map(|(table, at)| &schema.tables[table].indexes[at].name);
                Self::Duplicate { index: name.map_or(index.to_string(), ToString::to_string) }
            }
            Stop::Error(StoreError::DeadlinePassed) => Self::Expired,
            Stop::Error(StoreError::Cancelled) => Self::Cancelled,
            Stop::Error(StoreError::LogTooLong { bytes_max }) => {
                // The limit as the caller set it; 0 is that of a call declared read-only.
                let set = if bytes_max == 0 { 0 } else { bytes_max + TRANSACTION_BYTES };
                Self::LogTooLong { log_bytes_max: set }
            }
            Stop::Error(error) => Self::refused(error, schema),
        }
    }

    /// Converts a refusal of the store, with the names of its database where it names an object.
    fn refused(error: StoreError, schema: &Schema) -> Self {
        let table = |at: u32| schema.tables.get(at as usize);
        let place = match error {
            StoreError::OutOfRange { table: of, column }
            | StoreError::WrongType { table: of, column }
            | StoreError::Elsewhere { table: of, column } => {
                table(of).map(|table| match table.columns.get(column as usize) {
                    Some(column) => format!("{}.{}", table.name, column.name),
                    None => format!("column number {} of {}", column + 1, table.name),
                })
            }
            StoreError::NoSuchRow { table: of } => table(of).map(|table| table.name.to_string()),
            StoreError::Unordered { index } | StoreError::KeyColumns { index, .. } => {
                let place = schema.index_at(index as usize);
                place.map(|(table, at)| schema.tables[table].indexes[at].name.to_string())
            }
            _ => None,
        };
        match place {
            Some(place) => Self::RefusedAt { place, error },
            None => Self::Refused(error),
        }
    }

    /// Converts the failure of a transaction, with the names of its database.
    pub(crate) fn failed(failure: Failure, schema: &Schema) -> Self {
        match failure {
            Failure::Stopped(stop) => Self::stopped(Stop::of(stop), schema),
            Failure::Panicked(message) => Self::Panicked(message),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::LogFull => Self::LogFull,
            Refusal::TooLarge { log_bytes, log_bytes_max } => {
                Self::TooLarge { log_bytes, log_bytes_max }
            }
            Refusal::Invalid(what) => unreachable!("nothing is made ready here: {what}"),
            Refusal::Closed => Self::Closed,
            Refusal::Poisoned(reason) => Self::Poisoned(reason),
            Refusal::Unknown(reason) => Self::Unknown(reason),
        }
    }
}

impl From<SchemaError> for Error {
    fn from(error: SchemaError) -> Self {
        Self::Schema(error.to_string())
    }
}

impl From<SettingError> for Error {
    fn from(error: SettingError) -> Self {
        Self::Setting(error.to_string())
    }
}

impl Error {
    /// The messages that concern the database as a whole rather than one call.
    fn fmt_of_database(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCheckpoints => f.write_str(
                "not done: checkpoints are off: open the database in a directory, with the setting \
                 checkpoints on",
            ),
            Self::CheckpointsFailed(reason) => write!(
                f,
                "not done: checkpoints have stopped ({reason}); transactions continue and the log \
                 grows: fix the cause and reopen the database"
            ),
            Self::NoArchive => f.write_str(
                "not done: the database has no archive: open it in a directory, with log_archive",
            ),
            Self::ArchiveFailed(reason) => write!(
                f,
                "not archived yet: {reason}; transactions continue, the log grows, and archiving is retried"
            ),
            Self::ArchiveEnded(reason) => write!(
                f,
                "not archived: archiving has stopped ({reason}); transactions continue and the log \
                 grows: fix the cause and reopen the database"
            ),
            Self::Nested => f.write_str(
                "not run: a transaction must not wait for a database; make the call afterwards, or \
                 from another thread",
            ),
            Self::Closed => f.write_str("not run: the database is closed"),
            Self::Poisoned(reason) => write!(
                f,
                "not run: the database stopped after a failure ({reason}): fix the cause and reopen \
                 the database"
            ),
            Self::Unknown(reason) => write!(
                f,
                "outcome unknown: the transaction may or may not survive ({reason}): fix the cause, \
                 reopen the database and check"
            ),
            Self::InUse { file } => write!(
                f,
                "the database is in use: another process or handle holds {file}; close that one and \
                 retry"
            ),
            Self::IslandStopped(island) => write!(
                f,
                "not run: island {island} has stopped after a failure, which its own calls report: \
                 reopen the database"
            ),
            Self::IslandRestarts { island, why } => write!(
                f,
                "not run: the process of island {island} is being started again ({why}); retry"
            ),
            Self::AnswerLost { island, why } => write!(
                f,
                "outcome unknown: the process of island {island} ended during the call ({why}), which may have \
                 committed: check before retrying, or call with a request id"
            ),
            Self::InIsland { island, what, .. } => write!(f, "island {island}: {what}"),
            Self::NotPrepared(why) => {
                write!(f, "aborted: an island could not keep its part: {why}")
            }
            call => unreachable!("{call:?} is of a call"),
        }
    }
}

/// The message of a store's error about a value, a row or an index, with its name.
fn fmt_refused(place: &str, error: StoreError, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match error {
        StoreError::OutOfRange { .. } => {
            write!(
                f,
                "the value of {place} does not fit: it is outside the declared range, too long, or has too many digits"
            )
        }
        StoreError::WrongType { .. } => {
            write!(f, "the value of {place} is null or has another type than the column")
        }
        StoreError::Elsewhere { .. } => write!(
            f,
            "not done: {place} of a row is a key of another island: write the row there \
             (Islands::at, Across::part); to move it, delete it on one island and insert it on the \
             other in one transaction"
        ),
        StoreError::NoSuchRow { .. } => write!(f, "table {place} has no row with this id"),
        StoreError::Unordered { .. } => {
            write!(f, "index {place} is a hash index and has no order: scan a tree index")
        }
        StoreError::KeyColumns { columns, .. } => {
            write!(f, "a range of index {place} compares 1 to {columns} columns")
        }
        other => write!(f, "{place}: {other}"),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aborted(reason) => write!(f, "aborted: {reason}"),
            Self::Own(own) => write!(f, "aborted: {own}"),
            Self::Duplicate { index } => write!(f, "unique index {index} already holds this key"),
            Self::Refused(error) => error.fmt(f),
            Self::RefusedAt { place, error } => fmt_refused(place, *error, f),
            Self::Panicked(message) => {
                write!(f, "aborted: the transaction panicked: {message}")
            }
            Self::LogTooLong { log_bytes_max: 0 } => {
                f.write_str("aborted: a call declared read-only tried to write")
            }
            Self::LogTooLong { log_bytes_max } => write!(
                f,
                "aborted: the transaction writes more than the {log_bytes_max} bytes of log that its \
                 call allows: raise log_bytes_max in the call's options, or split the transaction"
            ),
            Self::QueueFull => f.write_str("not run: the queue is full; retry, or wait for room"),
            Self::Expired => f.write_str(
                "not done: the call's deadline passed before it finished, and nothing was changed; \
                 retry later, or allow more time",
            ),
            Self::Cancelled => f.write_str(
                "not done: the call was cancelled before it finished, and nothing was changed; it \
                 may be retried",
            ),
            Self::Repeated(outcome) => write!(
                f,
                "not run again: a call with this request id already {}; use a new id for a new \
                 request",
                match outcome {
                    Outcome::Committed => "committed",
                    _ => "aborted",
                }
            ),
            Self::TimedOut => f.write_str(
                "timed out: the call may still commit, or already has; check its outcome before \
                 retrying",
            ),
            Self::LogFull => f.write_str(
                "the log is full, so nothing was written: make room on its disk or raise \
                 log_bytes_max, then retry (read-only calls continue)",
            ),
            Self::TooLarge { log_bytes, log_bytes_max } => {
                // Longer segments raise the limit only up to this one.
                let may_grow = *log_bytes_max < GROUP_BYTES_MAX;
                let or = if may_grow { ", or raise log_segment_bytes" } else { "" };
                write!(f, "not run: the call may write {log_bytes} bytes, more than the ")?;
                write!(f, "{log_bytes_max} this log accepts at once: split the call{or}")
            }
            Self::Nested | Self::Closed | Self::Poisoned(_) | Self::Unknown(_) => {
                self.fmt_of_database(f)
            }
            Self::NoCheckpoints | Self::CheckpointsFailed(_) => self.fmt_of_database(f),
            Self::InUse { .. } | Self::IslandRestarts { .. } => self.fmt_of_database(f),
            Self::IslandStopped(_) | Self::NotPrepared(_) => self.fmt_of_database(f),
            Self::AnswerLost { .. } | Self::InIsland { .. } => self.fmt_of_database(f),
            Self::NoArchive | Self::ArchiveFailed(_) => self.fmt_of_database(f),
            Self::ArchiveEnded(_) => self.fmt_of_database(f),
            Self::Definition(difference) => difference.fmt(f),
            Self::Schema(what)
            | Self::Setting(what)
            | Self::Damaged(what)
            | Self::OtherVersion(what)
            | Self::Disk { what, .. }
            | Self::Directory(what)
            | Self::DiskFull(what)
            | Self::System(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Own(own) => Some(own.as_dyn()),
            Self::Disk { source, .. } => Some(source),
            Self::Refused(error) | Self::RefusedAt { error, .. } => Some(error),
            _ => None,
        }
    }
}
