//! The log's archive of a simulated database: a directory of the same machine, taken before the database is
//! opened and continued afterwards, as the library does it.
//!
//! Not here: the archive (storage `value_log/archive/`), the stage that writes it (engine), what is restored
//! from it (`world/restores.rs`).

use std::sync::Arc;

use tombolo_storage::disk::Disk;
use tombolo_storage::value_log::archive::{Archiver, LogArchive};
use tombolo_storage::value_log::{LOCK_FILE, LogWriter};

use super::refused::Refused;
use crate::faults::FaultyDisk;
use crate::swarm::Swarm;

/// The archive's directory: behind those of any image.
pub(crate) const DIRECTORY: usize = 9;

/// Whether the log is archived: where a stage does it, and a backup can be made.
pub(crate) fn is_on(swarm: &Swarm) -> bool {
    swarm.has_archive && swarm.has_values && swarm.has_pipeline
}

/// Takes the archive in `directory`, if there is to be one. Where a loss is accepted a new one begins, since the old
/// one may hold what is lost.
///
/// # Errors
/// See [`crate::world::Engine::start`].
pub(crate) fn take(
    directory: &FaultyDisk,
    swarm: &Swarm,
    accept_loss: bool,
) -> Result<Option<LogArchive>, Refused> {
    if !is_on(swarm) {
        return Ok(None);
    }
    let taken = || {
        if accept_loss {
            for name in directory.list()?.iter().filter(|name| *name != LOCK_FILE) {
                directory.remove(name)?;
            }
        }
        LogArchive::open(Arc::new(directory.clone()))
    };
    taken().map(Some).map_err(|failure| Refused::by_archive(&failure, directory))
}

/// Continues the archive in `directory` behind the log's end.
///
/// # Errors
/// See [`crate::world::Engine::start`].
pub(crate) fn attach(
    directory: &FaultyDisk,
    archive: LogArchive,
    writer: &LogWriter,
) -> Result<Archiver, Refused> {
    let attached = archive.attach(writer.reader(), writer.position());
    attached.map_err(|failure| Refused::by_archive(&failure, directory))
}
