//! The log's settings, its statistics, and the errors with which it refuses to open.

use std::fmt;

use crate::disk::DiskError;
use crate::paged::pool::PagesMark;
use crate::value_log::{self, LogKind};

/// When a committed transaction's answer may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Immediately: nothing of the log is ever written to disk, and nothing survives the process.
    None,
    /// Immediately: the log is written when the buffer is full, before a page is, or when asked.
    Async,
    /// When a flush has covered it: what commits during one flush shares the next.
    #[default]
    Group,
    /// When a flush has covered it: each commit causes one, and shares it with no later commit.
    Sync,
}

/// The log's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Bytes of the buffer between sessions and file; rounded up to a power of two and to
    /// [`LogSettings::BUFFER_BYTES_MIN`].
    pub buffer_bytes: usize,
    /// When a commit is answered.
    pub durability: Durability,
    /// Bytes of a segment of a log that has grown, written over with zeros ahead of use.
    pub segment_bytes: u64,
    /// A number drawn at random for each database, part of every checksum of a log that is made with
    /// it: then no bytes that users store can pass for log.
    pub salt: u64,
    /// The least number a record may get: greater than all that pages of the database hold. An
    /// existing log continues from its own number if that is greater.
    pub first_lsn: u64,
}

impl LogSettings {
    /// The smallest buffer: room for several of the longest records.
    pub const BUFFER_BYTES_MIN: usize = 512 << 10;
    /// The largest buffer.
    pub const BUFFER_BYTES_MAX: usize = 1 << 30;
    /// The shortest segment.
    pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;
    /// The longest.
    pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;
    /// Bytes of a segment of a new log.
    const SEGMENT_BYTES_FIRST: u64 = 2 << 20;

    /// What the segments are made with.
    pub(super) fn segments(&self) -> value_log::LogSettings {
        let bytes = self.segment_bytes.clamp(Self::SEGMENT_BYTES_MIN, Self::SEGMENT_BYTES_MAX);
        value_log::LogSettings {
            kind: LogKind::Paged,
            segment_bytes: bytes / value_log::BLOCK_BYTES_MAX * value_log::BLOCK_BYTES_MAX,
            segment_bytes_first: Self::SEGMENT_BYTES_FIRST,
            salt: self.salt,
            ..value_log::LogSettings::default()
        }
    }

    /// `first_lsn` as numbers have to be: not 0, and aligned like records.
    pub(super) fn first_lsn(&self) -> u64 {
        let alignment = super::record::ALIGNMENT_BYTES as u64;
        self.first_lsn.max(1).next_multiple_of(alignment)
    }
}

impl Default for LogSettings {
    /// 8 MiB of buffer, segments of 16 MiB, group commit, a salt that users could guess.
    fn default() -> Self {
        Self {
            buffer_bytes: 8 << 20,
            durability: Durability::Group,
            segment_bytes: 16 << 20,
            salt: 0,
            first_lsn: 0,
        }
    }
}

/// What was written so far; all counts since the log was made or opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogUsage {
    /// Records, those of commits and aborts among them.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Transactions that wrote a commit record.
    pub commits: u64,
    /// Transactions that wrote an abort record.
    pub aborts: u64,
    /// Flushes that succeeded. `commits / flushes` is the mean size of a group.
    pub flushes: u64,
    /// Bytes that flushes wrote.
    pub flushed_bytes: u64,
    /// How often a session flushed because the buffer was full: it should be larger then.
    pub buffer_full: u64,
    /// Memory of the buffer, in bytes.
    pub buffer_bytes: u64,
    /// Length of all segments, in bytes, those taken ahead of use included.
    pub file_bytes: u64,
}

impl PagesMark {
    /// Refuses a log with this number, which a restart needs from `needed` on and which ends at `end`, if it is
    /// not the pages' own.
    ///
    /// # Errors
    /// `NotTogether`.
    pub(crate) fn verify(self, number: u64, needed: u64, end: u64) -> Result<(), LogError> {
        let Self { number: own, position, is_closed } = self;
        let is_logged = position > 0;
        let what = if is_logged && number != own {
            "they are of different databases"
        } else if end < position {
            "the log is older than the pages, or its end is missing"
        } else if is_logged && (needed > position || is_closed && end > position) {
            "the pages are older than the log, which lacks what happened to them"
        } else if is_closed && needed < end {
            "the pages were closed, the log was not"
        } else if !is_closed && !is_logged {
            "the pages were written without this log, and not closed"
        } else {
            return Ok(());
        };
        Err(LogFailure::NotTogether { what }.into())
    }
}

/// Why a log could not be made, opened or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogError(Box<LogFailure>);

/// The reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFailure {
    /// The disk failed or is full.
    Disk(DiskError),
    /// The file does not hold what it should.
    Damaged {
        /// The file.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The database was not closed and is not restarted here.
    NotClosed {
        /// The log's file.
        file: String,
        /// Bytes of intact records in it.
        intact_bytes: u64,
    },
    /// The log is not that of the pages in its directory.
    NotTogether {
        /// Why.
        what: &'static str,
    },
    /// None of its files is there, but the pages were written with a log.
    Missing,
    /// What is to be read was released: no restart needs it.
    Released {
        /// The LSN that was asked for.
        lsn: u64,
        /// The first one that is kept.
        base: u64,
    },
    /// Its segments could not be made, opened or written.
    Segments(value_log::LogFailure),
    /// Another process, or another log of this one, has the file open.
    InUse {
        /// The file.
        file: String,
    },
    /// A setting makes no sense.
    Setting {
        /// Which.
        name: &'static str,
        /// Why.
        what: &'static str,
    },
    /// An earlier failure had poisoned the log.
    Poisoned {
        /// What happened.
        reason: &'static str,
    },
}

impl LogError {
    /// The reason.
    pub fn failure(&self) -> &LogFailure {
        &self.0
    }
}

impl From<LogFailure> for LogError {
    #[cold]
    fn from(failure: LogFailure) -> Self {
        Self(Box::new(failure))
    }
}

impl From<DiskError> for LogError {
    #[cold]
    fn from(error: DiskError) -> Self {
        LogFailure::Disk(error).into()
    }
}

impl From<value_log::LogFailure> for LogError {
    #[cold]
    fn from(failure: value_log::LogFailure) -> Self {
        use value_log::LogFailure as Segments;
        match failure {
            Segments::Disk(error) => error.into(),
            Segments::InUse { file } => LogFailure::InUse { file }.into(),
            Segments::Damaged { file, offset, what, .. }
            | Segments::Irreparable { file, offset, what, .. }
            | Segments::Replay { file, offset, what, .. } => {
                LogFailure::Damaged { file, offset, what }.into()
            }
            other => LogFailure::Segments(other).into(),
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            LogFailure::Disk(error) => error.fmt(f),
            LogFailure::Damaged { file, offset, what } => {
                write!(f, "{file} is damaged at offset {offset}: {what}")
            }
            LogFailure::NotClosed { file, intact_bytes } => write!(
                f,
                "{file} holds {intact_bytes} bytes of a database that was not closed: \
                 its pages may be older than its log"
            ),
            LogFailure::NotTogether { what } => write!(
                f,
                "pages and log do not belong together: {what}; restore both from one copy of the directory"
            ),
            LogFailure::Missing => f.write_str(
                "the log's files are missing (log-000001 and so on), with which the pages were written: put them \
                 back, or restore a copy of the directory",
            ),
            LogFailure::Released { lsn, base } => {
                write!(f, "LSN {lsn} was released: the log is kept from {base} on")
            }
            LogFailure::Segments(failure) => failure.fmt(f),
            LogFailure::InUse { file } => write!(f, "{file} is in use by another process"),
            LogFailure::Setting { name, what } => write!(f, "setting {name}: {what}"),
            LogFailure::Poisoned { reason } => write!(f, "the log is poisoned: {reason}"),
        }
    }
}

impl std::error::Error for LogError {}
