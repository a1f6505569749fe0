//! The log's archive as an application sees it: its directory, and archiving on demand.
//!
//! Not here: the schedule of archiving (engine `pipeline/stages/archive.rs`), the format (storage
//! `value_log/archive/`), restoring (`restore.rs`). Invariant: no transaction waits for the archive.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tombolo_engine::pipeline::{ArchiveRefusal, Archiving, Pipeline};
use tombolo_storage::disk::OsDisk;
use tombolo_storage::value_log::archive::{ArchiveFailure, LogArchive};
use tombolo_storage::value_log::{LogWriter, holds_log};

use crate::calls::on_database_thread;
use crate::database::Database;
use crate::error::Error;

/// The default of the longest time until a durable group is archived.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(60);

/// Opens the archive in `archive` for the database in `directories`, before that is opened. The directory is
/// not created: if its disk is not mounted, a new archive would begin with a gap before it.
pub(crate) fn take(archive: &Path, directories: &[impl AsRef<Path>]) -> Result<LogArchive, Error> {
    if directories.iter().any(|directory| directory.as_ref() == archive) {
        return Err(Error::Setting(format!(
            "log_archive: {} is a directory of the database itself: give another one",
            archive.display()
        )));
    }
    let disk = OsDisk::open(archive).map_err(|error| {
        Error::Directory(format!(
            "log_archive: {error}: make the directory, or mount the disk it is on"
        ))
    })?;
    let taken = LogArchive::open(Arc::new(disk))?;
    let is_new = match directories.first().map(|own| OsDisk::open(own.as_ref())) {
        Some(Ok(own)) => !holds_log(&own)?,
        _ => true,
    };
    match taken.held() {
        Some(held) if is_new => {
            Err(ArchiveFailure::OtherCourse { held: held.clone(), newest: 0 }.into())
        }
        _ => Ok(taken),
    }
}

/// Continues the archive, now that the database is open.
pub(crate) fn attach(
    archive: LogArchive,
    writer: &LogWriter,
    time_max: Duration,
) -> Result<Archiving, Error> {
    let archiver = archive.attach(writer.reader(), writer.position())?;
    let time_ns_max = u64::try_from(time_max.as_nanos()).unwrap_or(u64::MAX);
    Ok(Archiving { archiver, time_ns_max })
}

impl Database {
    /// Archives the log now and blocks until everything that was acknowledged before this call is in the archive
    /// ([`Builder::log_archive`](crate::Builder::log_archive)). Returns the number of the last archived group,
    /// for [`Restore::to_group`](crate::Restore::to_group). Transactions continue meanwhile.
    ///
    /// The log is also archived without this call. Call it to be able to return to this moment: before an
    /// upgrade, at the end of a business day.
    ///
    /// # Errors
    /// [`Error::NoArchive`]; [`Error::ArchiveFailed`] when the archive's disk is full or fails: archiving is
    /// retried, and nothing is lost; [`Error::ArchiveEnded`]; [`Error::Closed`], [`Error::Nested`].
    pub fn archive_now(&self) -> Result<u64, Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        let asked = self.core().with_pipeline(Pipeline::archive)?;
        asked.wait().map_err(|refusal| match refusal {
            ArchiveRefusal::Off => Error::NoArchive,
            ArchiveRefusal::Failed(what) => Error::ArchiveFailed(what),
            ArchiveRefusal::Broken(what) => Error::ArchiveEnded(what),
            _ => Error::Closed,
        })
    }
}
