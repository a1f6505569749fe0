//! Opening a directory that holds a durable database, with progress for people and failures that
//! say whose they are.
//!
//! Not here: how it comes back (engine `recovery`), what is verified of the rows.

use std::path::Path;
use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_engine::recovery::{self, OpenFailure, OpenOptions};
use tombolo_storage::disk::{Disk, OsDisk};
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::image::ImageFailure;
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::value_log::LogFailure;

use crate::failure::Failure;
use crate::inspect::refused;
use crate::progress::Progress;
use crate::report;

/// The store of a database with a log.
pub type Logged = MemoryStore<MemoryLogged>;

/// A durable database that was opened.
pub type Opened = recovery::Opened<MemoryLogged>;

/// Opens the database on `disk`.
///
/// # Errors
/// As [`recovery::open`].
pub fn open(
    disk: Arc<dyn Disk>,
    options: &OpenOptions,
    clock: &dyn Clock,
    progress: &mut dyn Progress,
) -> Result<Opened, OpenFailure> {
    progress.begin("recovering");
    let opened = recovery::open(&[disk], options, clock, &mut |now| tell(now, progress));
    progress.end();
    opened
}

/// Tells a person how far recovery is.
pub(super) fn tell(now: recovery::Progress, progress: &mut dyn Progress) {
    let detail = match now.log.groups {
        0 => format!("{} of the image", report::size(now.image_bytes)),
        _ => format!("{} transactions", report::quantity(now.log.transactions as f64)),
    };
    progress.part(now.part(), &detail);
}

/// Opens the database in `directory`.
///
/// # Errors
/// Usage when no database with a log lies there; environment when it is in use, of another version,
/// damaged, or cannot be read.
pub fn open_directory(
    directory: &Path,
    options: &OpenOptions,
    clock: &dyn Clock,
    progress: &mut dyn Progress,
) -> Result<Opened, Failure> {
    let disk = OsDisk::open(directory).map_err(|error| Failure::usage(error.to_string()))?;
    open(Arc::new(disk), options, clock, progress).map_err(|failure| match failure {
        OpenFailure::Log(LogFailure::Settings(what))
        | OpenFailure::Image(ImageFailure::Settings(what)) => Failure::usage(what),
        failure => refused(directory, &failure),
    })
}
