//! Opening a directory that holds a durable database, with progress for people and failures that
//! say whose they are.
//!
//! Not here: how it comes back (engine `recovery`), what is verified of the rows.

use std::path::Path;
use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_engine::islands::membership::{island_directory, islands_in};
use tombolo_engine::recovery::{self, OpenFailure, OpenOptions};
use tombolo_storage::disk::{Disk, OsDisk};
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::image::{Image, ImageFailure, ImageSettings};
use tombolo_storage::paged::pool::PAGES_FILE;
use tombolo_storage::paged::store::RestartProgress;
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::value_log::{self, LogFailure, LogKind};

use crate::drive::OnRestart;
use crate::failure::Failure;
use crate::numbers;
use crate::progress::Progress;

/// The store of a database with a log.
pub type Logged = MemoryStore<MemoryLogged>;

/// A durable database that was opened.
pub type Opened = recovery::Opened<MemoryLogged>;

/// Opens the database on `disks`, in the order they were given when it was made.
///
/// # Errors
/// As [`recovery::open`].
pub fn open(
    disks: &[Arc<dyn Disk>],
    options: &OpenOptions,
    clock: &dyn Clock,
    progress: &mut dyn Progress,
) -> Result<Opened, OpenFailure> {
    progress.begin("recovering");
    let opened = recovery::open(disks, options, clock, &mut |now| show(now, progress));
    progress.end();
    opened
}

/// Shows how far recovery is, and how long the rest will take.
pub(super) fn show(now: recovery::Progress, progress: &mut dyn Progress) {
    let detail = match now.log.groups {
        0 => format!("{} of the image", numbers::size(now.image_bytes)),
        _ => format!("{} transactions", numbers::quantity(now.log.transactions as f64)),
    };
    show_part(&now, detail, progress);
}

/// Shows `detail` of what is done, and how long the rest will take.
fn show_part(now: &recovery::Progress, mut detail: String, progress: &mut dyn Progress) {
    if let Some(left_ns) = now.left_ns() {
        detail += &format!(", about {} s left", left_ns.div_ceil(1_000_000_000));
    }
    progress.part(now.part(), &detail);
}

/// Opens a database on pages with `open`, and shows meanwhile how far its restart is, and how long the rest will take.
pub(crate) fn restarting<T>(
    clock: &dyn Clock,
    progress: &mut dyn Progress,
    open: impl FnOnce(OnRestart<'_>) -> T,
) -> T {
    progress.begin("restarting");
    let begun_ns = clock.now_ns();
    let opened = open(&mut |now| show_restart(now, clock.now_ns() - begun_ns, progress));
    progress.end();
    opened
}

fn show_restart(restart: RestartProgress, elapsed_ns: u64, progress: &mut dyn Progress) {
    let now = recovery::Progress::of_restart(restart, elapsed_ns);
    let mut detail = format!("{} of log", numbers::size(restart.bytes));
    if restart.transactions_to_undo > 0 {
        let to_undo = numbers::quantity(restart.transactions_to_undo as f64);
        detail += &format!(", {to_undo} transactions to undo");
    }
    show_part(&now, detail, progress);
}

/// The directories of a database as disks: its own, then the further directories of its image. Only a process
/// that writes checkpoints can add directories; here, more than the image lies in are refused as another
/// database's.
///
/// # Errors
/// Usage, when one is not there, or they are more than the image lies in.
pub(crate) fn disks(directories: &[impl AsRef<Path>]) -> Result<Vec<Arc<dyn Disk>>, Failure> {
    let disks = directories.iter().map(|directory| {
        let disk = OsDisk::open(directory.as_ref()).map_err(|error| {
            Failure::usage(format!("{error}: give the directory that run --data made"))
        })?;
        Ok(Arc::new(disk) as Arc<dyn Disk>)
    });
    let disks = disks.collect::<Result<Vec<_>, Failure>>()?;
    match refuse_strangers(&disks) {
        Ok(()) => Ok(disks),
        Err(failure) => Err(refused(directories[0].as_ref(), &failure)),
    }
}

/// Refuses more directories than the image of a log lies in.
fn refuse_strangers(disks: &[Arc<dyn Disk>]) -> Result<(), OpenFailure> {
    if disks.len() == 1 || !value_log::holds_log(&*disks[0])? {
        return Ok(());
    }
    let image = Image::find(disks.to_vec(), ImageSettings::default())?;
    let (needed, given) = (image.directories().max(1), disks.len() as u32);
    if needed < given {
        return Err(ImageFailure::Directories { needed, given }.into());
    }
    Ok(())
}

/// Opens the database in `directories`: its own, then those its image lies in besides.
///
/// # Errors
/// Usage when no database with a log lies there; check when it is damaged; environment when
/// it is in use, of another version, or cannot be read.
///
/// # Panics
/// When no directory is given.
pub fn open_directories(
    directories: &[impl AsRef<Path>],
    options: &OpenOptions,
    clock: &dyn Clock,
    progress: &mut dyn Progress,
) -> Result<Opened, Failure> {
    let disks = disks(directories)?;
    open(&disks, options, clock, progress).map_err(|failure| match failure {
        OpenFailure::Log(LogFailure::Settings(what))
        | OpenFailure::Image(ImageFailure::Settings(what)) => Failure::usage(what),
        failure => refused(directories[0].as_ref(), &failure),
    })
}

/// Why a directory's image and log cannot be read.
pub(crate) fn refused(directory: &Path, failure: &OpenFailure) -> Failure {
    let path = directory.display();
    match failure {
        OpenFailure::Log(LogFailure::NoLog) if islands_in(directory) > 0 => {
            Failure::usage(format!(
                "directory {path} holds the islands of a database: check and inspect take them all, recover takes one, \
                 as {path}/{}, and a workload runs on no island alone",
                island_directory(0)
            ))
        }
        OpenFailure::Log(LogFailure::NoLog) => Failure::usage(format!(
            "directory {path} holds no database of profile memory: give the one that run --data \
             made"
        )),
        OpenFailure::Log(LogFailure::OtherKind { found: LogKind::Paged, .. })
            if !directory.join(PAGES_FILE).exists() =>
        {
            Failure::check(format!(
                "directory {path} holds the log of a paged database, whose file {PAGES_FILE} is missing: restore a \
                 copy of the directory"
            ))
        }
        OpenFailure::Image(ImageFailure::Directories { .. } | ImageFailure::Misplaced { .. }) => {
            Failure::usage(format!(
                "{failure} (recover, check and inspect: --checkpoint-directory DIR for each but the first)"
            ))
        }
        failure if failure.is_damage() => Failure::check(failure.to_string()),
        failure => Failure::environment(failure.to_string()),
    }
}
