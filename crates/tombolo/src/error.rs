//! What can go wrong, in words that say what to do, and whether trying again helps.
//!
//! One enum for opening and for calling: an application usually hands both to the same place. Three questions
//! ([`Error::is_retryable`], [`Error::is_final`], [`Error::may_have_committed`]) answer what a caller has to
//! decide, so that it need not list variants. Not here: how stages and store name the same things among
//! themselves.

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
use crate::stop::{OwnError, Stop};

mod files;

/// Why a database was not opened, or a call has no answer.
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
    /// The closure aborted with this error of the application's own ([`Error::own`]); nothing was changed.
    Own(OwnError),
    /// A unique index holds the key already; nothing was changed.
    Duplicate {
        /// The index's name.
        index: String,
    },
    /// The store refused something else; nothing was changed.
    Refused(StoreError),
    /// The store refused a value, a row or an index; nothing was changed.
    RefusedAt {
        /// Which, by name: `account.owner` for a value, else the table or the index.
        place: String,
        /// What is wrong with it.
        error: StoreError,
    },
    /// The procedure or closure panicked with this message; nothing was changed.
    Panicked(Box<str>),
    /// The transaction would have written more to the log than its call may; nothing was changed.
    LogTooLong {
        /// What it may, in bytes: see [`CallOptions::log_bytes_max`](crate::CallOptions::log_bytes_max).
        log_bytes_max: u64,
    },
    /// Not run: as many calls wait as are allowed, and the caller did not want to wait.
    QueueFull,
    /// The call's deadline passed before its turn came, or while its closure ran, which ended with its next
    /// call of [`Tx`](crate::Tx); nothing was changed.
    Expired,
    /// The call was cancelled ([`Pending::cancel`](crate::Pending::cancel)) before its turn came, or while
    /// its closure ran, which ended with one of its next calls of [`Tx`](crate::Tx); nothing was changed.
    Cancelled,
    /// Not run: a call with the same request id ran before, with this outcome. Its answer is not kept: read
    /// what it changed.
    Repeated(Outcome),
    /// The call's deadline passed while it was under way, or the thread that waited is a database's:
    /// it may have committed, or may commit yet.
    TimedOut,
    /// Not run: the log has no room for what it may write. Calls with
    /// [`CallOptions::read_only`](crate::CallOptions::read_only) still run.
    LogFull,
    /// Not run: a single call may not write as much as it asks for to this log.
    TooLarge {
        /// What it asks for, in bytes.
        log_bytes: u64,
        /// The most there is for one call, in bytes.
        log_bytes_max: u64,
    },
    /// Not done: the disk has no room for a checkpoint, for a copy, or for what opening a database
    /// writes; the text says which. Nothing is lost.
    DiskFull(String),
    /// Not done: the database writes no checkpoints.
    NoCheckpoints,
    /// Not done: this failure has ended checkpoints until the database is opened again. Transactions continue.
    CheckpointsFailed(Arc<str>),
    /// Not done: the database has no archive.
    NoArchive,
    /// Not done yet: the log cannot be archived, for this reason. Transactions continue, the log is kept, and
    /// archiving is tried again.
    ArchiveFailed(Arc<str>),
    /// Not done: this failure has ended archiving until the database is opened again. Transactions continue,
    /// and the log is kept.
    ArchiveEnded(Arc<str>),
    /// Not run: a thread of a database may not wait for a database. So a transaction cannot call its own
    /// database, nor another. If it closes a database, that is closed a little later.
    Nested,
    /// Not run: the database is closed.
    Closed,
    /// Not run: this earlier failure ended all work on the database.
    Poisoned(Arc<str>),
    /// It ran, but this failure kept its answer from becoming durable or from being delivered: after the
    /// database is opened again its changes may be there or not.
    Unknown(Arc<str>),
    /// Another process, or another `Database` of this one, has the directory open.
    InUse {
        /// The file that says so.
        file: String,
    },
    /// A table is defined differently in the directory and in the program.
    Definition(Box<Difference>),
    /// A definition, or a handle of a table or index, that makes no sense; the text says why.
    Schema(String),
    /// A setting that makes no sense; the text says why.
    Setting(String),
    /// Files of a database, a backup or an archive are damaged; the text names the file.
    Damaged(String),
    /// Files are another version's, or of another kind; the text says which.
    OtherVersion(String),
    /// A disk failed, or may not be written or read. [`source`](std::error::Error::source) is the system's
    /// error.
    Disk {
        /// What the system says is wrong: `PermissionDenied`, `NotFound` and the like.
        kind: io::ErrorKind,
        /// What failed, and what to do.
        what: String,
        /// What was tried, on which file.
        source: DiskError,
    },
    /// The directory holds something else, or does not fit what it was given for; the text says why.
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
    /// Whether the same call may succeed when it is simply tried again, a little later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::QueueFull | Self::Expired | Self::Cancelled | Self::LogFull => true,
            Self::DiskFull(_) | Self::ArchiveFailed(_) | Self::InUse { .. } => true,
            Self::Refused(error) => error.retry() || matches!(error, StoreError::NoSpace { .. }),
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

    /// Whether the transaction is, or may be, there in spite of the error. With any other error nothing
    /// was changed.
    pub fn may_have_committed(&self) -> bool {
        matches!(self, Self::TimedOut | Self::Unknown(_) | Self::Repeated(Outcome::Committed))
    }

    /// The error of the application's own that a closure returned, if it is of this type.
    pub fn own<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Own(own) => own.get(),
            _ => None,
        }
    }

    /// What a transaction stopped with, in the names of its database.
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
                // As its caller said it; a call that may log nothing was said to read only.
                let said = if bytes_max == 0 { 0 } else { bytes_max + TRANSACTION_BYTES };
                Self::LogTooLong { log_bytes_max: said }
            }
            Stop::Error(error) => Self::refused(error, schema),
        }
    }

    /// What a store refused, in the names of its database where it says of what.
    fn refused(error: StoreError, schema: &Schema) -> Self {
        let table = |at: u32| schema.tables.get(at as usize);
        let place = match error {
            StoreError::OutOfRange { table: of, column }
            | StoreError::WrongType { table: of, column } => {
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

    /// What a transaction failed with, in the names of its database.
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
    /// What is wrong with the database as a whole, and not with a call.
    fn fmt_of_database(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCheckpoints => f.write_str(
                "not done: the database writes no checkpoints: open it in a directory, with the \
                 setting checkpoints on",
            ),
            Self::CheckpointsFailed(reason) => write!(
                f,
                "not done: checkpoints have ended ({reason}); transactions continue and the log grows: \
                 mend the cause and open the database again"
            ),
            Self::NoArchive => f.write_str(
                "not done: the database has no archive: open it in a directory, with log_archive",
            ),
            Self::ArchiveFailed(reason) => write!(
                f,
                "not archived yet: {reason}; transactions continue, the log grows, and it is tried again"
            ),
            Self::ArchiveEnded(reason) => write!(
                f,
                "not archived: archiving has ended ({reason}); transactions continue and the log grows: \
                 mend the cause and open the database again"
            ),
            Self::Nested => f.write_str(
                "not run: a transaction may not wait for a database; call it afterwards, or from \
                 another thread",
            ),
            Self::Closed => f.write_str("not run: the database is closed"),
            Self::Poisoned(reason) => write!(
                f,
                "not run: the database answers no more since a failure ({reason}): mend the cause \
                 and open it again"
            ),
            Self::Unknown(reason) => write!(
                f,
                "it is unknown whether the transaction survives ({reason}): mend the cause, open \
                 the database again and look"
            ),
            Self::InUse { file } => write!(
                f,
                "the database is in use: another process or handle holds {file}; close it, then \
                 try again"
            ),
            call => unreachable!("{call:?} is of a call"),
        }
    }
}

/// What the store says of a value, a row or an index, with its name.
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
                f.write_str("aborted: a call that was said to read only has written")
            }
            Self::LogTooLong { log_bytes_max } => write!(
                f,
                "aborted: the transaction writes more than the {log_bytes_max} bytes of log its \
                 call may: raise log_bytes_max in its options, or split it"
            ),
            Self::QueueFull => {
                f.write_str("not run: the queue is full; try again, or wait for room")
            }
            Self::Expired => f.write_str(
                "not done: its deadline passed before it ran to its end, and nothing was changed; \
                 try again later, or give it more time",
            ),
            Self::Cancelled => f.write_str(
                "not done: its caller cancelled it before it ran to its end, and nothing was \
                 changed; it may be called again",
            ),
            Self::Repeated(outcome) => write!(
                f,
                "not run again: a call with this request id ran before and {}; give another \
                 request another id",
                match outcome {
                    Outcome::Committed => "committed",
                    _ => "aborted",
                }
            ),
            Self::TimedOut => f.write_str(
                "not waited for any longer: the call is or was under way and may commit; look before \
                 trying it again",
            ),
            Self::LogFull => f.write_str(
                "the log is full, so nothing was written: make room on its disk or raise \
                 log_bytes_max, then try again (read-only calls continue)",
            ),
            Self::TooLarge { log_bytes, log_bytes_max } => {
                // From some length on segments bound it no more.
                let may_grow = *log_bytes_max < GROUP_BYTES_MAX;
                let or = if may_grow { ", or raise log_segment_bytes" } else { "" };
                write!(f, "not run: the call may write {log_bytes} bytes, more than the ")?;
                write!(f, "{log_bytes_max} this log takes at once: split it{or}")
            }
            Self::Nested | Self::Closed | Self::Poisoned(_) | Self::Unknown(_) => {
                self.fmt_of_database(f)
            }
            Self::NoCheckpoints | Self::CheckpointsFailed(_) | Self::InUse { .. } => {
                self.fmt_of_database(f)
            }
            Self::NoArchive | Self::ArchiveFailed(_) | Self::ArchiveEnded(_) => {
                self.fmt_of_database(f)
            }
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
