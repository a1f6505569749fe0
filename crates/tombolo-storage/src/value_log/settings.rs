//! A log's settings, statistics and errors.
//!
//! Not here: the names of these settings for users (the engine's).

use std::fmt;

use super::group::HEADER_BYTES;
use super::segment::FIRST_GROUP_OFFSET;
use crate::backup::marks::is_no_database;
use crate::disk::DiskError;
use crate::error::Error;
use crate::header_copies::{COPY_BYTES, other_version};

/// The version of the format of segments, groups and records.
pub const FORMAT_VERSION: u32 = 4;

/// The oldest version that is read; such a log continues with the newest version. Its groups have no time. Groups
/// of version 3 do not number schema changes, and contain no drops.
pub const FORMAT_VERSION_OLDEST: u32 = 2;

/// Whether this program reads logs of a version.
pub(super) const fn is_readable(version: u32) -> bool {
    FORMAT_VERSION_OLDEST <= version && version <= FORMAT_VERSION
}

/// The longest block.
pub(crate) const BLOCK_BYTES_MAX: u64 = 8192;

/// The kind of a log's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogKind {
    /// The changes of transactions.
    #[default]
    Value,
    /// The calls of procedures with their arguments (`command_log/`).
    Command,
    /// What happened to the pages of a paged store (`log/`): each record has a position.
    Paged,
}

impl LogKind {
    /// Its name for users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Command => "command",
            Self::Paged => "paged",
        }
    }
}

/// The number of a group; the first of a log is 1, and 0 is none.
pub type GroupNumber = u64;

/// The settings with which a log is created and opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The kind of its records. A log of another kind is refused.
    pub kind: LogKind,
    /// Bytes of a segment in a log that has grown: a multiple of the block size, at most 1 GiB. Existing
    /// segments keep their size.
    pub segment_bytes: u64,
    /// Bytes of a segment in an empty log: a multiple of the block size. If this exceeds
    /// `segment_bytes`, or `log_bytes_max` is less than four times `segment_bytes`, all segments have `segment_bytes`.
    pub segment_bytes_first: u64,
    /// Groups begin at multiples of this many bytes: a power of two from 512 to 8,192. Raised to the file's
    /// alignment. A device block with a durable group is never written again if
    /// this is a multiple of the device's own block size.
    pub block_bytes: u64,
    /// The number of segments kept ready in addition to the one in use.
    pub segments_ahead: usize,
    /// The most bytes of all segments together.
    pub log_bytes_max: u64,
    /// Whether writes go directly to the device, if the file system supports it.
    pub direct: bool,
    /// Part of every group's checksum in a new log; an existing log keeps its
    /// own. A random number for each database ensures that no bytes stored by a user can pass for
    /// a group; zero, or a number that users can guess, does not.
    pub salt: u64,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            kind: LogKind::Value,
            segment_bytes: 64 << 20,
            segment_bytes_first: 1 << 20,
            block_bytes: 4096,
            segments_ahead: 1,
            log_bytes_max: u64::MAX,
            direct: true,
            salt: 0,
        }
    }
}

impl LogSettings {
    /// Bytes of a segment for a group with `record_bytes` bytes of records; 0 without records.
    pub fn group_bytes(&self, record_bytes: u64) -> u64 {
        match record_bytes {
            0 => 0,
            bytes => (HEADER_BYTES as u64 + bytes).next_multiple_of(self.block_bytes),
        }
    }

    /// Bytes of the shortest segment. If the log is limited to a few segments, short ones could
    /// leave no room for a long one.
    pub(super) fn first_bytes(&self) -> u64 {
        match self.log_bytes_max < 4 * self.segment_bytes {
            true => self.segment_bytes,
            false => self.segment_bytes_first.min(self.segment_bytes),
        }
    }

    /// Refuses invalid settings.
    pub(super) fn check(&self) -> Result<(), LogFailure> {
        let block = self.block_bytes;
        if !block.is_power_of_two() || !(512..=BLOCK_BYTES_MAX).contains(&block) {
            return Err(LogFailure::Settings(
                "block_bytes must be a power of two from 512 to 8,192",
            ));
        }
        let (segment, first) = (self.segment_bytes, self.first_bytes());
        let smallest = FIRST_GROUP_OFFSET + 2 * block.max(COPY_BYTES as u64);
        let is_whole = segment.is_multiple_of(block) && first.is_multiple_of(block);
        if first < smallest || segment > 1 << 30 || !is_whole {
            return Err(LogFailure::Settings(
                "segment_bytes must be a multiple of block_bytes, at least two blocks and the headers, \
                 and at most 1 GiB",
            ));
        }
        if self.log_bytes_max < 2 * segment {
            return Err(LogFailure::Settings("log_bytes_max must have room for two segments"));
        }
        Ok(())
    }
}

/// The reason that there is no room for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The next segment is not ready yet: try again once it is.
    NotReady,
    /// All segments the settings allow are in use.
    Limit {
        /// `log_bytes_max`.
        log_bytes_max: u64,
    },
    /// The device is full.
    Device(DiskError),
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("the next log segment is not ready yet: try again"),
            Self::Limit { log_bytes_max } => write!(
                f,
                "the log has reached its limit of {log_bytes_max} bytes: raise log_bytes_max, or \
                 write a checkpoint so that old segments can be reused"
            ),
            Self::Device(cause) => write!(
                f,
                "the log's disk is full, so writes are refused until there is room ({cause})"
            ),
        }
    }
}

/// The reason that a log was not created, opened or written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFailure {
    /// The disk failed. From then on the writer always fails with this, because the content of the
    /// disk is unknown.
    Disk(DiskError),
    /// No room. Nothing was written, and the writer continues when there is room.
    Full(NoRoom),
    /// The directory holds a log already.
    Exists {
        /// One of its files.
        file: String,
    },
    /// The directory holds no log.
    NoLog,
    /// Another process, or another handle of this one, has the database open.
    InUse {
        /// The lock file.
        file: String,
    },
    /// The directory contains a backup, or an unfinished copy, rather than a database.
    Copy {
        /// The file that marks it.
        file: String,
    },
    /// The log is of another version of the format.
    OtherVersion {
        /// The file.
        file: String,
        /// The version in its header.
        found: u32,
    },
    /// The log's records are of another kind.
    OtherKind {
        /// The file.
        file: String,
        /// Its kind.
        found: LogKind,
    },
    /// The log is damaged where it was known to be durable.
    Damaged {
        /// The file.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// The group that is damaged or missing, or its segment's first.
        group: GroupNumber,
        /// What is wrong.
        what: String,
    },
    /// Its files belong to different logs, or it lacks groups that an image needs, or none of it can be
    /// read: accepting a loss does not repair that.
    Irreparable {
        /// The file.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// The group that is needed or missing; 0 if the error concerns none.
        group: GroupNumber,
        /// What is wrong.
        what: String,
    },
    /// Intact groups contain records that cannot be replayed.
    Replay {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// The group.
        group: GroupNumber,
        /// What is wrong.
        what: String,
    },
    /// The settings are invalid.
    Settings(&'static str),
}

impl LogFailure {
    /// The same damage, as one that accepting the loss does not repair.
    pub(super) fn irreparable(self) -> Self {
        match self {
            Self::Damaged { file, offset, group, what } => {
                Self::Irreparable { file, offset, group, what }
            }
            other => other,
        }
    }

    /// Whether the writer continues once the cause is gone.
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// The error of all later transactions.
    pub const fn poison(&self) -> Error {
        let reason = match self {
            Self::Full(_) => "the log was full after transactions had executed",
            _ => "the log's disk failed: what of the newest transactions is durable is unknown",
        };
        Error::Poisoned { reason }
    }
}

impl From<DiskError> for LogFailure {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl fmt::Display for LogFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(error) => error.fmt(f),
            Self::Full(why) => why.fmt(f),
            Self::Exists { file } => {
                write!(
                    f,
                    "a log already exists here ({file}): open it, or choose another directory"
                )
            }
            Self::NoLog => f.write_str("there is no log in the directory"),
            Self::InUse { file } => write!(
                f,
                "the database is in use: another process holds {file}; stop that process, then try again"
            ),
            Self::Copy { file } => is_no_database(file, f),
            Self::OtherVersion { file, found } => {
                other_version(f, file, *found, FORMAT_VERSION_OLDEST..=FORMAT_VERSION)
            }
            Self::OtherKind { file, found: LogKind::Command } => write!(
                f,
                "{file} is of a command log, which contains calls instead of rows: only a program with \
                 their procedures can open it, with tombolo_engine::command_log"
            ),
            Self::OtherKind { file, found: LogKind::Value } => {
                write!(f, "{file} is of a value log: open the database without procedures")
            }
            Self::OtherKind { file, found: LogKind::Paged } => {
                write!(
                    f,
                    "{file} is of a paged store's log: open a paged database (with `Builder::paged`, or with \
                     --profile conventional)"
                )
            }
            Self::Damaged { file, offset, group, what } => write!(
                f,
                "the log is damaged in {file} at offset {offset}, group {group}: {what}; restore a \
                 copy, or accept the loss of this group and all later ones"
            ),
            Self::Irreparable { file, offset, group, what } => write!(
                f,
                "the log cannot be repaired: {file} at offset {offset}, group {group}: {what}; \
                 restore a copy of the whole directory (accepting a loss would not help)"
            ),
            Self::Replay { file, offset, group, what } => write!(
                f,
                "group {group} in {file} at offset {offset} is intact but cannot be replayed: {what}"
            ),
            Self::Settings(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for LogFailure {}

/// Counters of a writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogUsage {
    /// Groups written.
    pub groups: u64,
    /// Bytes of records in them.
    pub record_bytes: u64,
    /// Bytes written, including headers and padding.
    pub written_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Whether writes go directly to the device.
    pub is_direct: bool,
}
