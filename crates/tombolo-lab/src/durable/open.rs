//! Opening a directory that holds a durable database, with progress for people and failures that
//! say whose they are.
//!
//! Not here: how it comes back (engine `recovery`), what is verified of the rows.

use std::path::Path;
use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_engine::recovery::{self, OpenOptions};
use tombolo_storage::disk::{Disk, OsDisk};
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::value_log::{self, LogFailure};

use crate::failure::Failure;
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
) -> Result<Opened, LogFailure> {
    progress.begin("recovering");
    let opened = recovery::open(disk, options, clock, &mut |now| tell(now, progress));
    progress.end();
    opened
}

/// Tells a person how far recovery is.
pub(super) fn tell(now: value_log::Progress, progress: &mut dyn Progress) {
    let part = now.bytes as f64 / now.bytes_max.max(1) as f64;
    let transactions = report::quantity(now.transactions as f64);
    progress.part(part, &format!("{transactions} transactions"));
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
    let path = directory.display();
    let disk = OsDisk::open(directory).map_err(|error| Failure::usage(error.to_string()))?;
    open(Arc::new(disk), options, clock, progress).map_err(|failure| match failure {
        LogFailure::NoLog => Failure::usage(format!(
            "directory {path} holds no database of profile memory: give the one that run --data \
             made"
        )),
        LogFailure::Settings(what) => Failure::usage(what),
        failure => Failure::environment(failure.to_string()),
    })
}
