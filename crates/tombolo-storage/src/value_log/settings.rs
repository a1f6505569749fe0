//! A log's settings, its statistics, and why it fails.
//!
//! Not here: how the engine names these settings to a user.

use std::fmt;

use super::group::HEADER_BYTES;
use super::segment::FIRST_GROUP_OFFSET;
use crate::backup::marks::is_no_database;
use crate::disk::DiskError;
use crate::error::Error;
use crate::header_copies::{COPY_BYTES, other_version};

/// The version of the format of segments, groups and records.
pub const FORMAT_VERSION: u32 = 4;

/// The oldest version that is read; such a log continues as the newest: its groups have no time. Those of
/// version 3 number no changes of the schema, and none of them drops anything.
pub const FORMAT_VERSION_OLDEST: u32 = 2;

/// Whether this program reads logs of a version.
pub(super) const fn is_readable(version: u32) -> bool {
    FORMAT_VERSION_OLDEST <= version && version <= FORMAT_VERSION
}

/// The longest block.
pub(crate) const BLOCK_BYTES_MAX: u64 = 8192;

/// What a log's records are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogKind {
    /// What transactions changed.
    #[default]
    Value,
    /// Which procedures were called with which arguments (`command_log/`).
    Command,
    /// What happened to the pages of a paged store (`log/`): each record has a position.
    Paged,
}

impl LogKind {
    /// As it is named to users.
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

/// Numbers a log is made and opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// What the records are. A log of another kind is refused.
    pub kind: LogKind,
    /// Bytes of a segment in a log that has grown: a multiple of the block size, at most 1 GiB. Segments
    /// made before keep the size they have.
    pub segment_bytes: u64,
    /// Bytes of a segment in a log that is empty: a multiple of the block size. Where it is more than
    /// `segment_bytes`, or `log_bytes_max` is less than four times those, all segments have those.
    pub segment_bytes_first: u64,
    /// Groups begin at multiples of this many bytes: a power of two from 512 to 8,192. Raised to
    /// what the file demands. A device block that holds a durable group is never written again if
    /// this is a multiple of the device's own block size.
    pub block_bytes: u64,
    /// How many segments are kept ready beyond the one in use.
    pub segments_ahead: usize,
    /// The most bytes all segments may take together.
    pub log_bytes_max: u64,
    /// Whether writes go directly to the device, where the file system has that.
    pub direct: bool,
    /// Part of every group's checksum in a log that is made with it; a log that exists keeps its
    /// own. Any number, drawn at random for each database: then no bytes a user stores can pass for
    /// a group. Zero, or one that users can guess, leaves that open.
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
    /// Bytes of a segment that a group with so many bytes of records takes; none without.
    pub fn group_bytes(&self, record_bytes: u64) -> u64 {
        match record_bytes {
            0 => 0,
            bytes => (HEADER_BYTES as u64 + bytes).next_multiple_of(self.block_bytes),
        }
    }

    /// Bytes of the shortest segment. Where the log may not be longer than a few segments, short ones could
    /// leave no room for a long one.
    pub(super) fn first_bytes(&self) -> u64 {
        match self.log_bytes_max < 4 * self.segment_bytes {
            true => self.segment_bytes,
            false => self.segment_bytes_first.min(self.segment_bytes),
        }
    }

    /// Refuses numbers that make no log.
    pub(super) fn check(&self) -> Result<(), LogFailure> {
        let block = self.block_bytes;
        if !block.is_power_of_two() || !(512..=BLOCK_BYTES_MAX).contains(&block) {
            return Err(LogFailure::Settings("block_bytes is a power of two from 512 to 8,192"));
        }
        let (segment, first) = (self.segment_bytes, self.first_bytes());
        let smallest = FIRST_GROUP_OFFSET + 2 * block.max(COPY_BYTES as u64);
        let is_whole = segment.is_multiple_of(block) && first.is_multiple_of(block);
        if first < smallest || segment > 1 << 30 || !is_whole {
            return Err(LogFailure::Settings(
                "segment_bytes is a multiple of block_bytes, room for two blocks and the headers, \
                 and at most 1 GiB",
            ));
        }
        if self.log_bytes_max < 2 * segment {
            return Err(LogFailure::Settings("log_bytes_max has room for two segments"));
        }
        Ok(())
    }
}

/// Why there is no room for a group.
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
                 write a checkpoint so that old segments are used again"
            ),
            Self::Device(cause) => write!(
                f,
                "the log's disk is full, so writes are refused until there is room ({cause})"
            ),
        }
    }
}

/// Why a log was not made, opened or written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFailure {
    /// The disk failed. A writer that failed with this once fails with it for ever: what is on the
    /// disk is unknown then.
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
    /// The directory holds a backup, or a copy that did not come to its end, and no database.
    Copy {
        /// The file that says so.
        file: String,
    },
    /// The log is of another version of the format.
    OtherVersion {
        /// The file.
        file: String,
        /// The version it says it has.
        found: u32,
    },
    /// The log's records are of another kind.
    OtherKind {
        /// The file.
        file: String,
        /// What it holds.
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
    /// Its files are not of one log, or it lacks what an image needs of it, or nothing of it can be
    /// read: accepting a loss does not repair that.
    Irreparable {
        /// The file.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// The group that is needed or missing; 0 where it is not about one.
        group: GroupNumber,
        /// What is wrong.
        what: String,
    },
    /// Intact groups hold what cannot be replayed.
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
    /// The settings make no sense.
    Settings(&'static str),
}

impl LogFailure {
    /// This damage where accepting its loss does not repair it.
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

    /// The error that transactions get from then on.
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
                write!(f, "there is a log here already ({file}): open it, or choose another place")
            }
            Self::NoLog => f.write_str("there is no log in the directory"),
            Self::InUse { file } => write!(
                f,
                "the database is in use: another process holds {file}; stop it, then try again"
            ),
            Self::Copy { file } => is_no_database(file, f),
            Self::OtherVersion { file, found } => {
                other_version(f, file, *found, FORMAT_VERSION_OLDEST..=FORMAT_VERSION)
            }
            Self::OtherKind { file, found: LogKind::Command } => write!(
                f,
                "{file} is of a command log, which holds calls and no rows: only a program that has \
                 their procedures can open it, with tombolo_engine::command_log"
            ),
            Self::OtherKind { file, found: LogKind::Value } => {
                write!(f, "{file} is of a value log: open the database without procedures")
            }
            Self::OtherKind { file, found: LogKind::Paged } => {
                write!(
                    f,
                    "{file} is of a paged store's log: open the database with a paged profile"
                )
            }
            Self::Damaged { file, offset, group, what } => write!(
                f,
                "the log is damaged in {file} at offset {offset}, group {group}: {what}; restore a \
                 copy, or accept the loss of this group and all later ones"
            ),
            Self::Irreparable { file, offset, group, what } => write!(
                f,
                "the log cannot be brought to order: {file} at offset {offset}, group {group}: {what}; \
                 restore a copy of the whole directory (to accept a loss would not help)"
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

/// What a writer did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogUsage {
    /// Groups written.
    pub groups: u64,
    /// Bytes of records in them.
    pub record_bytes: u64,
    /// Bytes written, with headers and what fills blocks up.
    pub written_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Whether writes go directly to the device.
    pub is_direct: bool,
}
