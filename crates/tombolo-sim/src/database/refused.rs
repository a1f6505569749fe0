//! Why a database was not opened: the message, and the place that it names.
//!
//! Not here: whether a refusal is just (`world/mod.rs`).

use tombolo_storage::disk::Disk;
use tombolo_storage::memory::image::ImageFailure;
use tombolo_storage::value_log::LogFailure;
use tombolo_storage::value_log::archive::ArchiveFailure;

/// Why an engine did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The message.
    pub message: String,
    /// Whether it says that a call to the disk failed.
    pub is_failed_call: bool,
    /// The file it names, if any, and where in it.
    pub place: Option<(String, u64)>,
}

impl Refused {
    /// A refusal without a place and without a failed call.
    pub(crate) fn unsound(message: String) -> Self {
        Self { message, is_failed_call: false, place: None }
    }

    /// A refusal by a log.
    pub(crate) fn by_log(failure: &LogFailure) -> Self {
        let place = match failure {
            LogFailure::Damaged { file, offset, .. }
            | LogFailure::Irreparable { file, offset, .. }
            | LogFailure::Replay { file, offset, .. } => Some((file.clone(), *offset)),
            // There is an image, which needs the log.
            LogFailure::NoLog => Some((".".to_owned(), 0)),
            _ => None,
        };
        let is_failed_call = matches!(failure, LogFailure::Disk(_));
        Self { message: failure.to_string(), is_failed_call, place }
    }

    /// A refusal by an image.
    pub(crate) fn by_image(failure: &ImageFailure) -> Self {
        let place = match failure {
            ImageFailure::Damaged { file, offset, .. } => Some((file.clone(), *offset)),
            ImageFailure::OtherVersion { file, .. }
            | ImageFailure::Stranger { file }
            | ImageFailure::InUse { file }
            | ImageFailure::Misplaced { file, .. } => Some((file.clone(), 0)),
            _ => None,
        };
        let is_failed_call = matches!(failure, ImageFailure::Disk(_));
        Self { message: failure.to_string(), is_failed_call, place }
    }

    /// A refusal by the archive in `directory`.
    pub(crate) fn by_archive(failure: &ArchiveFailure, directory: &impl Disk) -> Self {
        let place = match failure {
            ArchiveFailure::Log(failure) => Self::by_log(failure).place,
            ArchiveFailure::Damaged { file, .. } | ArchiveFailure::OtherVersion { file, .. } => {
                Some((file.clone(), 0))
            }
            // The archive's end is compared with the log: either may be damaged.
            ArchiveFailure::OtherCourse { .. } => {
                let names = directory.list().unwrap_or_default();
                names.into_iter().next_back().map(|name| (name, 0))
            }
            _ => None,
        };
        let is_failed_call =
            matches!(failure, ArchiveFailure::Disk(_) | ArchiveFailure::Log(LogFailure::Disk(_)));
        Self { message: failure.to_string(), is_failed_call, place }
    }
}
