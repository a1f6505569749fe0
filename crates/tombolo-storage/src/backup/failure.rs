//! Why a backup was not made or not restored, with messages that say what to do.

use std::fmt;

use super::copier::NotEmpty;
use super::marks::BACKUP_FILE;
use crate::disk::DiskError;
use crate::memory::image::ImageFailure;
use crate::paged::pool::PageError;
use crate::paged::store::OpenError;
use crate::value_log::LogFailure;
use crate::value_log::archive::ArchiveFailure;

/// Why a backup was not made, or not restored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackupFailure {
    /// The disk of the copy is full. The database is not touched, and nothing is left of the copy.
    Full(DiskError),
    /// A disk failed.
    Disk(DiskError),
    /// The paged store that was to be copied has failed, is damaged or cannot be read.
    Paged(OpenError),
    /// The image that was to be copied is damaged or cannot be read.
    Image(ImageFailure),
    /// The log that was to be copied is damaged or cannot be read.
    Log(LogFailure),
    /// The archive does not reach the target of the restore, or is damaged.
    Archive(ArchiveFailure),
    /// The directory for the copy is not empty.
    NotEmpty {
        /// One of the directory's files.
        file: String,
        /// Whether it belongs to another copy.
        is_copy: bool,
    },
    /// The directory holds no backup.
    NoBackup {
        /// The file that would be there.
        file: String,
    },
    /// The backup was interrupted while it was made.
    Unfinished {
        /// The file that says so.
        file: String,
    },
    /// A backup of another version of the format.
    OtherVersion {
        /// Its file.
        file: String,
        /// The version that the file names.
        found: String,
    },
    /// A file of a backup has changed.
    Damaged {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
}

impl BackupFailure {
    /// Whether the same call may succeed once there is room.
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

impl From<DiskError> for BackupFailure {
    fn from(error: DiskError) -> Self {
        if error.is_full() { Self::Full(error) } else { Self::Disk(error) }
    }
}

impl From<OpenError> for BackupFailure {
    fn from(error: OpenError) -> Self {
        Self::Paged(error)
    }
}

impl From<PageError> for BackupFailure {
    fn from(error: PageError) -> Self {
        Self::Paged(error.into())
    }
}

impl From<ImageFailure> for BackupFailure {
    fn from(failure: ImageFailure) -> Self {
        match failure {
            ImageFailure::Disk(error) | ImageFailure::Full(error) => error.into(),
            failure => Self::Image(failure),
        }
    }
}

impl From<LogFailure> for BackupFailure {
    fn from(failure: LogFailure) -> Self {
        match failure {
            LogFailure::Disk(error) => error.into(),
            failure => Self::Log(failure),
        }
    }
}

impl From<ArchiveFailure> for BackupFailure {
    fn from(failure: ArchiveFailure) -> Self {
        match failure {
            ArchiveFailure::Disk(error) => error.into(),
            failure => Self::Archive(failure),
        }
    }
}

impl From<NotEmpty> for BackupFailure {
    fn from(NotEmpty { file, is_copy }: NotEmpty) -> Self {
        Self::NotEmpty { file, is_copy }
    }
}

impl fmt::Display for BackupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(error) => write!(
                f,
                "the disk of the copy is full, so there is none ({error}): make room or choose \
                 another place, then try again"
            ),
            Self::Disk(error) => write!(f, "not copied: {error}"),
            Self::Paged(error) => write!(f, "not copied: {error}"),
            Self::Image(failure) => write!(f, "not copied: {failure}"),
            Self::Log(failure) => write!(f, "not copied: {failure}"),
            Self::Archive(failure) => write!(f, "not restored: {failure}"),
            Self::NotEmpty { file, is_copy: true } => write!(
                f,
                "the directory for the copy holds another one ({file}): choose a new directory, or \
                 remove what is in it"
            ),
            Self::NotEmpty { file, is_copy: false } => write!(
                f,
                "the directory for the copy holds {file}: choose a new or an empty directory"
            ),
            Self::NoBackup { file } => {
                write!(f, "there is no {file}: the directory holds no backup")
            }
            Self::Unfinished { file } => write!(
                f,
                "there is {file} and no {BACKUP_FILE}: this backup did not come to its end; restore \
                 another one"
            ),
            Self::OtherVersion { file, found } => write!(
                f,
                "{file} begins with {found:?}: another version of the program made this backup; \
                 restore it with that one"
            ),
            Self::Damaged { file, what } => {
                write!(f, "the backup is damaged in {file}: {what}; restore another one")
            }
        }
    }
}

impl std::error::Error for BackupFailure {}
