//! Errors of the parts of the paged store, as errors of a store.
//!
//! Calls return [`Error`], which is copied through the hot path and names no file; opening and
//! closing return [`OpenError`], which names file, place and reason.

use std::fmt;

use crate::error::{Error, SchemaError};
use crate::lock::LockError;
use crate::log::{LogError, LogFailure};
use crate::owner::Owner;
use crate::paged::pool::{PageError, PageFailure};

impl From<LockError> for Error {
    #[cold]
    fn from(error: LockError) -> Self {
        match error {
            LockError::Deadlock => Self::Deadlock,
            LockError::TimedOut | LockError::Unavailable => Self::LockTimeout,
            LockError::TableFull | LockError::TooManySessions => Self::LockTableFull,
            LockError::Shut => Self::Poisoned { reason: super::transaction::NOT_GIVEN_BACK },
        }
    }
}

impl From<PageError> for Error {
    #[cold]
    fn from(error: PageError) -> Self {
        match error.failure() {
            PageFailure::Disk(disk) => {
                Self::Disk { offset: disk.offset().unwrap_or_default(), kind: disk.kind() }
            }
            PageFailure::Damaged { offset, .. } => Self::Damaged { offset: *offset },
            PageFailure::PoolFull { frames } => Self::PoolFull { frames: *frames as u64 },
            PageFailure::Memory(_) | PageFailure::TooManyPages => Self::NoSpace { held_bytes: 0 },
            PageFailure::Log(error) => *error,
            PageFailure::RecordTooLong { bytes_max, .. } => {
                Self::RowTooLong { bytes_max: *bytes_max as u64 }
            }
            PageFailure::OtherVersion { .. }
            | PageFailure::NotClosed { .. }
            | PageFailure::InUse { .. } => Self::Poisoned { reason: "its files cannot be used" },
        }
    }
}

/// Why a database could not be made, opened or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// Its pages.
    Pages(PageError),
    /// Its log.
    Log(LogError),
    /// What it remembers of its tables.
    Schema(SchemaError),
    /// It was made by a profile that lays data out differently.
    Layout {
        /// How it is laid out.
        stored: String,
        /// How this profile lays data out.
        expected: String,
    },
    /// A call failed.
    Store(Error),
    /// Other sessions are still open.
    SessionsOpen,
    /// Transactions are prepared and not decided: the directory keeps them, and is restarted when it is opened.
    Undecided {
        /// Their numbers.
        owners: Vec<Owner>,
    },
    /// The buffer pool has no frames for another session.
    PoolTooSmall {
        /// How many sessions it has frames for.
        sessions_max: usize,
    },
    /// The profile keeps rows outside pages and cannot save them.
    CannotSave,
}

impl OpenError {
    /// Whether the directory was not closed.
    pub fn is_not_closed(&self) -> bool {
        match self {
            Self::Pages(error) => matches!(error.failure(), PageFailure::NotClosed { .. }),
            Self::Log(error) => matches!(error.failure(), LogFailure::NotClosed { .. }),
            _ => false,
        }
    }

    /// Whether another process, or another database of this one, has the directory open.
    pub fn is_in_use(&self) -> bool {
        match self {
            Self::Pages(error) => matches!(error.failure(), PageFailure::InUse { .. }),
            Self::Log(error) => matches!(error.failure(), LogFailure::InUse { .. }),
            _ => false,
        }
    }

    /// Whether the disk is full: nothing is lost, and the call succeeds once there is room.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Pages(error) => match error.failure() {
                PageFailure::Log(error) => error.is_full(),
                _ => error.is_full(),
            },
            Self::Log(error) => match error.failure() {
                LogFailure::Disk(error) => error.is_full(),
                LogFailure::Segments(failure) => failure.is_full(),
                _ => false,
            },
            Self::Store(error) => error.is_full(),
            _ => false,
        }
    }

    /// Whether a file does not hold what it should, and where: file, offset, what.
    pub fn damage(&self) -> Option<(&str, u64, &str)> {
        match self {
            Self::Pages(error) => match error.failure() {
                PageFailure::Damaged { file, offset, what } => Some((file, *offset, what)),
                _ => None,
            },
            Self::Log(error) => match error.failure() {
                LogFailure::Damaged { file, offset, what } => Some((file, *offset, what)),
                _ => None,
            },
            _ => None,
        }
    }
}

impl From<PageError> for OpenError {
    fn from(error: PageError) -> Self {
        Self::Pages(error)
    }
}

impl From<LogError> for OpenError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl From<SchemaError> for OpenError {
    fn from(error: SchemaError) -> Self {
        Self::Schema(error)
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<LockError> for OpenError {
    fn from(error: LockError) -> Self {
        Self::Store(error.into())
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pages(error) if error.is_full() => {
                write!(f, "{error}: make room on the disk; nothing is lost")
            }
            Self::Pages(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
            Self::Schema(error) => error.fmt(f),
            Self::Layout { stored, expected } => write!(
                f,
                "the directory is laid out as {stored}, this profile uses {expected}: open it \
                 with the profile that made it"
            ),
            Self::Store(error) => error.fmt(f),
            Self::SessionsOpen => {
                f.write_str("the database has other sessions: end them before closing it")
            }
            Self::Undecided { owners } => {
                let named: Vec<String> = owners.iter().take(3).map(Owner::to_string).collect();
                let named = named.join(", ");
                let more = if owners.len() > 3 { ", …" } else { "" };
                write!(
                    f,
                    "{} prepared transactions hold rows until the database of their islands is opened, which decides \
                     them ({named}{more})",
                    owners.len()
                )
            }
            Self::PoolTooSmall { sessions_max } => write!(
                f,
                "the buffer pool has page frames for {sessions_max} sessions at a time: give it more, \
                 or open fewer sessions"
            ),
            Self::CannotSave => f.write_str(
                "this profile keeps rows outside pages and cannot save them: use a profile with \
                 page access",
            ),
        }
    }
}

impl std::error::Error for OpenError {}
