//! `recover`: a directory is opened, brought to order and closed again; how that went.
//!
//! The log may be archived when the database runs, which nothing in the directory says: what an
//! archive may lack is kept. Not here: how (`files/open.rs`, storage), what is printed.

use std::path::Path;

use tombolo_engine::clock::Clock;
use tombolo_engine::threads;

use crate::failure::{Blamed, Failure};
use crate::files;
use crate::files::{OpenOptions, Recovery};
use crate::progress::Progress;
use crate::report::run::RestartResult;
use crate::upkeep::check::saved;

/// The log's first group.
const FIRST_GROUP: u64 = 1;

/// Recovers the database in `directories`: its own, then those its image lies in besides.
///
/// # Errors
/// Usage when no database with a log lies there; environment when it is in use, of another version,
/// full, damaged and the loss is not accepted, or cannot be read. Nothing was changed then.
///
/// # Panics
/// When no directory is given.
pub fn recover(
    directories: &[impl AsRef<Path>],
    accept_loss: bool,
    clock: &dyn Clock,
    progress: &mut dyn Progress,
) -> Result<Recovery, Failure> {
    // A last segment without room for the new epoch's group would be followed by one used again.
    let options = OpenOptions { accept_loss, keep: Some(FIRST_GROUP), ..options() };
    let mut opened = files::open_directories(directories, &options, clock, progress)?;
    opened.writer.seal().or_environment()?;
    Ok(opened.recovery)
}

/// Whether `directory` holds a paged store, which [`recover_pages`] recovers.
pub fn has_pages(directory: &Path) -> bool {
    saved::is_saved(directory)
}

/// Restarts the paged store in `directory` and closes it; the work of the restart, if it was not closed.
///
/// # Errors
/// Environment when it is in use, of another version, full, damaged, or cannot be read.
pub fn recover_pages(
    directory: &Path,
    clock: &dyn Clock,
    progress: &mut dyn Progress,
) -> Result<Option<RestartResult>, Failure> {
    let begun_ns = clock.now_ns();
    let restart = saved::recover(directory, clock, progress)?;
    let wall_s = (clock.now_ns() - begun_ns) as f64 / 1e9;
    Ok(restart.map(|restart| RestartResult::new(restart, wall_s)))
}

/// The options with which commands open a directory that they only look after.
pub(crate) fn options() -> OpenOptions {
    OpenOptions { threads: threads::available(), ..OpenOptions::default() }
}
