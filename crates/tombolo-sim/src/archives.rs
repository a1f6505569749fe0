//! The log's archive of a simulated database: a directory of the same machine, taken before the database is
//! opened and continued afterwards, as the library does it.
//!
//! Not here: the archive (storage `value_log/archive/`), the stage that writes it (engine), what is restored
//! from it (`world/restores.rs`).

use std::sync::Arc;

use tombolo_storage::disk::Disk;
use tombolo_storage::value_log::archive::{ArchiveFailure, Archiver, LogArchive};
use tombolo_storage::value_log::{LOCK_FILE, LogFailure, LogWriter};

use crate::faulty_disk::FaultyDisk;
use crate::recording::log_refused;
use crate::swarm::Swarm;
use crate::world::Refused;

/// The archive's directory: behind those of any image.
pub(crate) const DIRECTORY: usize = 9;

/// Whether the log is archived: where a stage does it, and a backup can be made.
pub(crate) fn is_on(swarm: &Swarm) -> bool {
    swarm.has_archive && swarm.has_values && swarm.has_pipeline
}

/// Takes the archive, if there is to be one. Where a loss is accepted a new one begins, since the old one may
/// hold what is lost.
///
/// # Errors
/// See [`crate::world::Engine::start`].
pub(crate) fn take(
    disk: &FaultyDisk,
    swarm: &Swarm,
    accept_loss: bool,
) -> Result<Option<LogArchive>, Refused> {
    if !is_on(swarm) {
        return Ok(None);
    }
    let directory = disk.directory(DIRECTORY);
    let taken = || {
        if accept_loss {
            for name in directory.list()?.iter().filter(|name| *name != LOCK_FILE) {
                directory.remove(name)?;
            }
        }
        LogArchive::open(Arc::new(directory.clone()))
    };
    taken().map(Some).map_err(|failure| refused(disk, &failure))
}

/// Continues the archive behind the log's end.
///
/// # Errors
/// See [`crate::world::Engine::start`].
pub(crate) fn attach(
    disk: &FaultyDisk,
    archive: LogArchive,
    writer: &LogWriter,
) -> Result<Archiver, Refused> {
    let attached = archive.attach(writer.reader(), writer.position());
    attached.map_err(|failure| refused(disk, &failure))
}

/// What a refusal says, and where the damage is if it says that.
fn refused(disk: &FaultyDisk, failure: &ArchiveFailure) -> Refused {
    let place = match failure {
        ArchiveFailure::Log(failure) => log_refused(failure).place,
        ArchiveFailure::Damaged { file, .. } | ArchiveFailure::OtherVersion { file, .. } => {
            Some((file.clone(), 0))
        }
        // The archive's end and the log are compared: either may be what is wrong.
        ArchiveFailure::OtherCourse { .. } => {
            let names = disk.directory(DIRECTORY).list().unwrap_or_default();
            names.into_iter().next_back().map(|name| (name, 0))
        }
        _ => None,
    };
    let is_failed_call =
        matches!(failure, ArchiveFailure::Disk(_) | ArchiveFailure::Log(LogFailure::Disk(_)));
    Refused { message: failure.to_string(), is_failed_call, place }
}
