//! Converts errors about the files of a database, a backup or an archive.
//!
//! The message is that of the error's source; the variant depends on the root cause. Not here: errors of
//! calls (`mod.rs`).

use tombolo_engine::recovery::OpenFailure;
use tombolo_storage::backup::BackupFailure;
use tombolo_storage::disk::DiskError;
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::log as paged_log;
use tombolo_storage::memory::image::ImageFailure;
use tombolo_storage::paged::pool::PageFailure;
use tombolo_storage::paged::store::OpenError;
use tombolo_storage::value_log::LogFailure;
use tombolo_storage::value_log::archive::ArchiveFailure;

use super::Error;

/// The root cause of a failure.
enum Cause<'f> {
    Disk(&'f DiskError),
    InUse(&'f str),
    Damaged,
    OtherVersion,
    Setting(&'static str),
    Directory,
}

impl Cause<'_> {
    /// The error with the message `what`.
    fn error(self, what: String) -> Error {
        match self {
            Cause::Disk(error) if error.is_full() => Error::DiskFull(what),
            Cause::Disk(error) => Error::Disk { kind: error.kind(), what, source: error.clone() },
            Cause::InUse(file) => Error::InUse { file: file.to_owned() },
            Cause::Damaged => Error::Damaged(what),
            Cause::OtherVersion => Error::OtherVersion(what),
            Cause::Setting(what) => Error::Setting(what.to_owned()),
            Cause::Directory => Error::Directory(what),
        }
    }
}

fn of_image(failure: &ImageFailure) -> Cause<'_> {
    match failure {
        ImageFailure::Disk(error) | ImageFailure::Full(error) => Cause::Disk(error),
        ImageFailure::InUse { file } => Cause::InUse(file),
        ImageFailure::Damaged { .. } | ImageFailure::NoCatalogue { .. } => Cause::Damaged,
        ImageFailure::OtherVersion { .. } => Cause::OtherVersion,
        ImageFailure::Settings(what) => Cause::Setting(what),
        _ => Cause::Directory,
    }
}

fn of_log(failure: &LogFailure) -> Cause<'_> {
    match failure {
        LogFailure::Disk(error) => Cause::Disk(error),
        LogFailure::InUse { file } => Cause::InUse(file),
        LogFailure::Damaged { .. } | LogFailure::Irreparable { .. } => Cause::Damaged,
        LogFailure::OtherVersion { .. } | LogFailure::OtherKind { .. } => Cause::OtherVersion,
        LogFailure::Settings(what) => Cause::Setting(what),
        _ => Cause::Directory,
    }
}

fn of_archive(failure: &ArchiveFailure) -> Cause<'_> {
    match failure {
        ArchiveFailure::Disk(error) => Cause::Disk(error),
        ArchiveFailure::Log(failure) => of_log(failure),
        ArchiveFailure::Damaged { .. } => Cause::Damaged,
        ArchiveFailure::OtherVersion { .. } => Cause::OtherVersion,
        _ => Cause::Directory,
    }
}

impl Error {
    /// The error of a database that could not be created or opened.
    pub(crate) fn opening(failure: &OpenFailure) -> Self {
        match failure {
            OpenFailure::Log(failure) => Self::log(failure),
            // There was no checkpoint yet: the message names only the disk.
            OpenFailure::Image(ImageFailure::Full(error)) => Self::from(error.clone()),
            OpenFailure::Image(failure) => of_image(failure).error(failure.to_string()),
            OpenFailure::Threads(refused) => Self::from(refused.clone()),
        }
    }

    /// The error of a log that could not be created, opened or written before the first call.
    pub(crate) fn log(failure: &LogFailure) -> Self {
        match failure {
            LogFailure::Full(_) => Self::LogFull,
            LogFailure::Disk(error) => Self::from(error.clone()),
            LogFailure::Damaged { .. } => {
                Self::Damaged(format!("{failure} (tombolo recover --accept-loss)"))
            }
            failure => of_log(failure).error(failure.to_string()),
        }
    }
}

impl Error {
    /// The error of a paged database that could not be opened, closed or written besides its calls.
    pub(crate) fn paged(failure: &OpenError) -> Self {
        let what = failure.to_string();
        let cause = match failure {
            OpenError::Pages(error) => match error.failure() {
                PageFailure::Disk(error) => Cause::Disk(error),
                PageFailure::InUse { file } => Cause::InUse(file),
                PageFailure::Damaged { .. } => Cause::Damaged,
                PageFailure::OtherVersion { .. } => Cause::OtherVersion,
                PageFailure::Log(error) => return Self::Refused(*error),
                PageFailure::Memory(_) => return Self::System(what),
                _ => Cause::Directory,
            },
            OpenError::Log(error) => match error.failure() {
                paged_log::LogFailure::Disk(error) => Cause::Disk(error),
                paged_log::LogFailure::InUse { file } => Cause::InUse(file),
                paged_log::LogFailure::Damaged { .. } | paged_log::LogFailure::Missing => {
                    Cause::Damaged
                }
                paged_log::LogFailure::Segments(failure) => of_log(failure),
                _ => Cause::Directory,
            },
            OpenError::Schema(_) => return Self::Schema(what),
            OpenError::Layout { .. } => Cause::OtherVersion,
            OpenError::Store(StoreError::Poisoned { reason }) => {
                return Self::Poisoned((*reason).into());
            }
            OpenError::Store(error) => return Self::Refused(*error),
            OpenError::PoolTooSmall { .. } => return Self::Setting(what),
            _ => Cause::Directory,
        };
        cause.error(what)
    }
}

impl From<BackupFailure> for Error {
    fn from(failure: BackupFailure) -> Self {
        let what = failure.to_string();
        let cause = match &failure {
            BackupFailure::Full(error) | BackupFailure::Disk(error) => Cause::Disk(error),
            BackupFailure::Paged(failure) => return Self::paged(failure),
            BackupFailure::Image(failure) => of_image(failure),
            BackupFailure::Log(failure) => of_log(failure),
            BackupFailure::Archive(failure) => of_archive(failure),
            BackupFailure::Damaged { .. } => Cause::Damaged,
            BackupFailure::OtherVersion { .. } => Cause::OtherVersion,
            _ => Cause::Directory,
        };
        cause.error(what)
    }
}

impl From<ArchiveFailure> for Error {
    fn from(failure: ArchiveFailure) -> Self {
        // `Error::InUse` is about a database; the archive's own message names the archive.
        match &failure {
            ArchiveFailure::InUse { .. } => Self::Directory(failure.to_string()),
            _ => of_archive(&failure).error(failure.to_string()),
        }
    }
}

impl From<DiskError> for Error {
    fn from(error: DiskError) -> Self {
        let what = match error.is_full() {
            true => format!(
                "not done: the disk is full ({error}); nothing is lost: make room, then try again"
            ),
            false => error.to_string(),
        };
        Cause::Disk(&error).error(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_storage::disk::Operation;

    #[test]
    fn a_disk_that_is_full_may_have_room_later_whoever_meets_it() {
        let errors = |kind: std::io::ErrorKind| {
            let error = DiskError::new(Operation::Write, "data/catalogue", Some(0), &kind.into());
            let image = OpenFailure::Image(ImageFailure::from(error.clone()));
            [Error::opening(&image), Error::log(&error.clone().into()), error.into()]
        };
        for full in errors(std::io::ErrorKind::StorageFull) {
            assert!(matches!(full, Error::DiskFull(_)) && full.is_retryable(), "{full:?}");
            assert!(full.to_string().contains("data/catalogue"), "{full}");
        }
        for failed in errors(std::io::ErrorKind::PermissionDenied) {
            let Error::Disk { kind, source, .. } = &failed else { panic!("{failed:?}") };
            assert_eq!((*kind, source.kind()), (std::io::ErrorKind::PermissionDenied, *kind));
            assert!(!failed.is_retryable());
            assert_eq!(std::error::Error::source(&failed).unwrap().to_string(), source.to_string());
        }
    }
}
