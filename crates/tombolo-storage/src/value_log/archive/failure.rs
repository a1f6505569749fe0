//! Errors of archiving a log and of restoring from an archive, with messages that suggest a remedy.

use std::fmt;

use super::Held;
use crate::disk::DiskError;
use crate::value::Value;
use crate::value_log::settings::{GroupNumber, LogFailure};

/// Why a log was not archived, or not restored from its archive.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArchiveFailure {
    /// The archive's disk failed or is full; a retry is allowed.
    Disk(DiskError),
    /// The log to be archived is damaged or cannot be read.
    Log(LogFailure),
    /// Another database writes to the archive.
    InUse {
        /// The lock's file.
        file: String,
    },
    /// The directory contains files that do not belong to an archive.
    Stranger {
        /// One of its files.
        file: String,
    },
    /// A part is of another version of the format.
    OtherVersion {
        /// Its file.
        file: String,
        /// The version in its header.
        found: u32,
    },
    /// A part was changed since it was written.
    Damaged {
        /// Its file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// The log does not hold the group the archive ends with: it is another database's, was restored or
    /// cut before that group, or was written for some time without its archive.
    OtherCourse {
        /// What the archive holds.
        held: Held,
        /// The log's newest group.
        newest: GroupNumber,
    },
    /// The archive does not lead from the backup to where it was to be restored to.
    Gap {
        /// The first group that is missing.
        missing: GroupNumber,
        /// What the archive holds, if anything.
        held: Option<Held>,
    },
    /// The archive contains two histories of the same database, and both continue after this group.
    Fork {
        /// The group.
        group: GroupNumber,
        /// The parts that continue after it.
        files: [String; 2],
    },
    /// The requested group or time is before the end of the backup or after the end of the archive.
    OutOfReach {
        /// The request, as text.
        asked: String,
        /// The first group that can be restored to, and its time: the last group of the backup.
        first: (GroupNumber, u64),
        /// The last group that can be restored to, and its time.
        last: (GroupNumber, u64),
    },
    /// The groups of the requested time have no times yet.
    NoTimes {
        /// The request, as text.
        asked: String,
        /// The last group without a time.
        group: GroupNumber,
    },
}

impl From<DiskError> for ArchiveFailure {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl From<LogFailure> for ArchiveFailure {
    fn from(failure: LogFailure) -> Self {
        match failure {
            LogFailure::InUse { file } => Self::InUse { file },
            failure => Self::Log(failure),
        }
    }
}

/// A time as text.
pub(super) fn time_text(us: u64) -> String {
    /// Microseconds from 1970 to 2000.
    const SINCE_1970: i64 = 946_684_800_000_000;
    if us == 0 {
        return "no time".to_owned();
    }
    let mut out = String::new();
    Value::Timestamp(us as i64 - SINCE_1970).copy_text(&mut out);
    out + " UTC"
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first_us, last_us) = (time_text(self.first_us), time_text(self.last_us));
        write!(f, "groups {} ({first_us}) to {} ({last_us})", self.first, self.last.group)
    }
}

impl fmt::Display for ArchiveFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(error) if error.is_full() => {
                write!(f, "the archive's disk is full ({error}): make room")
            }
            Self::Disk(error) => write!(f, "the archive: {error}"),
            Self::Log(failure) => write!(f, "not archived: {failure}"),
            Self::InUse { file } => write!(
                f,
                "the archive is in use: another database writes to it and holds {file}; give each \
                 database an archive of its own"
            ),
            Self::Stranger { file } => write!(
                f,
                "the directory for the archive contains {file} and is not an archive: give an empty \
                 directory, or the archive of this database"
            ),
            Self::OtherVersion { file, found } => write!(
                f,
                "{file} has archive version {found}, which this program cannot read: use the program \
                 that wrote it"
            ),
            Self::Damaged { file, what } => {
                write!(f, "the archive is damaged in {file}: {what}; use another copy of it")
            }
            Self::OtherCourse { held, newest } => write!(
                f,
                "the archive holds {held}, but the log, whose newest group is {newest}, does not \
                 continue after them: it was restored, cut, or written without its archive; give a \
                 new directory for the archive, then make a backup"
            ),
            Self::Gap { missing, held: Some(held) } => write!(
                f,
                "the archive holds {held}, and group {missing} is missing: restore to an earlier \
                 group, or from a newer backup"
            ),
            Self::Gap { missing, held: None } => {
                write!(f, "the archive holds nothing, and group {missing} is missing")
            }
            Self::Fork { group, files: [one, other] } => write!(
                f,
                "both {one} and {other} continue after group {group}: two databases were archived \
                 into one directory; remove the parts of one of them"
            ),
            Self::OutOfReach { asked, first, last } => write!(
                f,
                "cannot restore to {asked}: with this backup and archive, the first possible group is \
                 {} ({}), the last {} ({})",
                first.0,
                time_text(first.1),
                last.0,
                time_text(last.1)
            ),
            Self::NoTimes { asked, group } => write!(
                f,
                "cannot restore to {asked}: groups up to {group} have no time, because an older \
                 program wrote them; name a group instead"
            ),
        }
    }
}

impl std::error::Error for ArchiveFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_reported_in_utc() {
        assert_eq!(time_text(1_795_305_600_250_000), "2026-11-22 00:00:00.25 UTC");
        assert_eq!(time_text(0), "no time");
    }
}
