//! Looking after the files of a paged store, of any profile. Where they are checked, what is written stays in memory: a
//! database that was not closed is restarted there, and the directory stays as it was. Where they are recovered, it
//! is restarted in its directory and closed.
//!
//! Which profile made them is not known; how they are laid out is, by the files themselves, and any
//! profile that lays data out so will do. Not here: what a store verifies.

use std::path::Path;
use std::sync::Arc;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_storage::disk::{Disk, OsDisk};
use tombolo_storage::log::{Durability, LogFailure};
use tombolo_storage::owner::Owner;
use tombolo_storage::paged::pool::{PAGES_FILE, PageFailure};
use tombolo_storage::paged::store::{OpenError, Restart};
use tombolo_storage::profile::PROFILES;
use tombolo_storage::value_log;

use super::logged::{Island, membership_in, spreads_in};
use super::{Checked, failed, verify};
use crate::drive::{Instance, NoDatabase, OnRestart};
use crate::failure::{Blamed, Failure};
use crate::files::{self, OverlayDisk};
use crate::plan::{Options, profiles};
use crate::progress::Progress;
use crate::rows::{DumpDirectory, Finding, Quiescent, table_hashes};
use crate::workload::tpcc::loader::Scale;
use crate::{drive, host};

/// The remedy for damage.
const REMEDY: &str = "restore a copy of the directory, or make it again";
/// The remedy where copies of pages are whole.
const REPAIR: &str = "tombolo recover, or opening the database, puts it back from copies of pages";
/// The least the buffer pool gets.
const POOL_BYTES_MIN: u64 = 64 << 20;

/// Whether `directory` holds the files of a paged store.
pub(in crate::upkeep) fn is_saved(directory: &Path) -> bool {
    directory.join(PAGES_FILE).exists()
}

/// Whether `directory` holds a log, this store's or another one's.
pub(super) fn holds_log(directory: &Path) -> bool {
    OsDisk::open(directory).is_ok_and(|disk| value_log::holds_log(&disk).unwrap_or(false))
}

/// Verifies the database in `directory`.
///
/// # Errors
/// When it is in use, cannot be read, or was not closed and has no log to be restarted by; damage is part of what is
/// found.
pub(super) fn check(
    directory: &Path,
    tamper: Option<&str>,
    dump: Option<&DumpDirectory>,
    progress: &mut dyn Progress,
) -> Result<Checked, Failure> {
    check_with(directory, progress, |database, progress| {
        verify(database, tamper, dump, REMEDY, progress)
    })
}

/// Verifies an island in `directory`, but for what holds of all islands together.
///
/// # Errors
/// As [`check`].
pub(super) fn check_island(
    directory: &Path,
    progress: &mut dyn Progress,
) -> Result<(Checked, Island), Failure> {
    let mut island = Island::default();
    let checked = check_with(directory, progress, |mut database, _| {
        island.hashes = table_hashes(database.store()).ok();
        island.spreads = spreads_in(database.store()).unwrap_or_default();
        island.membership = membership_in(database.store());
        let (verification, sums) = database.verify_island().map_err(failed)?;
        island.sums = sums;
        Ok(Checked::new(verification, None, None, REMEDY))
    })?;
    Ok((checked, island))
}

fn check_with(
    directory: &Path,
    progress: &mut dyn Progress,
    verify: impl FnOnce(Quiescent<'_>, &mut dyn Progress) -> Result<Checked, Failure>,
) -> Result<Checked, Failure> {
    match open(directory, Writes::InMemory, &SystemClock::new(), progress)? {
        Ok(mut instance) => {
            let restart = instance.restart();
            let mut checked = verify(instance.rest()?, progress)?;
            checked.add_notice(restart.map(|restart| notice(&restart)));
            let pages = directory.join(PAGES_FILE).display().to_string();
            let in_file = checked.verification.damage.iter_mut().filter(|f| f.offset.is_some());
            in_file.for_each(|finding| finding.file = Some(pages.clone()));
            Ok(checked)
        }
        Err(damage) => {
            let repaired = opened(directory, Writes::InMemory, true, &mut |_| ())?.is_ok();
            Ok(Checked::unopened(damage, None, if repaired { REPAIR } else { REMEDY }))
        }
    }
}

/// Restarts the database in `directory` if it was not closed, and closes it; the work of the restart.
///
/// # Errors
/// When it is in use, damaged, cannot be read or written, or was not closed and has no log to be restarted by.
pub(in crate::upkeep) fn recover(
    directory: &Path,
    clock: &dyn Clock,
    progress: &mut dyn Progress,
) -> Result<Option<Restart>, Failure> {
    match open(directory, Writes::InDirectory, clock, progress)? {
        Ok(instance) => {
            let restart = instance.restart();
            instance.save()?;
            Ok(restart)
        }
        Err(Finding { what, file, offset, .. }) => {
            let file = file.unwrap_or_else(|| directory.display().to_string());
            let offset = offset.map_or(String::new(), |offset| format!(" at offset {offset}"));
            Err(Failure::environment(format!("{file} is damaged{offset}: {what}: {REMEDY}")))
        }
    }
}

/// The transactions that the database in `directory`, restarted in memory, has prepared.
///
/// # Errors
/// When it is in use, damaged, or cannot be read.
pub(in crate::upkeep) fn prepared(directory: &Path) -> Result<Vec<Owner>, Failure> {
    match opened(directory, Writes::InMemory, false, &mut |_| ())? {
        Ok(_) => Ok(Vec::new()),
        Err(OpenError::Undecided { owners }) => Ok(owners),
        Err(error) => {
            let Finding { what, .. } = judge(directory, &error)?;
            Err(Failure::check(format!("{} is damaged: {what}", directory.display())))
        }
    }
}

/// Where a database that is opened here writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    InMemory,
    InDirectory,
}

/// The notice about a restart that had to precede the check.
fn notice(restart: &Restart) -> String {
    format!(
        "the database was not closed: checked is what a restart makes of it, which was done in memory ({} changes \
         redone, {} transactions undone)",
        restart.records_redone, restart.transactions_undone
    )
}

/// Opens the files with the first profile that lays data out as they are; damage that keeps them
/// from being opened is a finding.
fn open(
    directory: &Path,
    writes: Writes,
    clock: &dyn Clock,
    progress: &mut dyn Progress,
) -> Result<Result<Box<dyn Instance<Scale>>, Finding>, Failure> {
    // A restart puts back what is torn: when checking, that is damage.
    let restarts = writes == Writes::InDirectory;
    let opened =
        files::restarting(clock, progress, |report| opened(directory, writes, restarts, report));
    match opened? {
        Ok(instance) => Ok(Ok(instance)),
        Err(error) => judge(directory, &error).map(Err),
    }
}

/// The same, with what the store refused; restarted only if it was not closed, unless it `restarts` at once.
fn opened(
    directory: &Path,
    writes: Writes,
    restarts: bool,
    report: OnRestart<'_>,
) -> Result<Result<Box<dyn Instance<Scale>>, OpenError>, Failure> {
    let has_log = holds_log(directory);
    let fitting = PROFILES
        .iter()
        .filter(|profile| profile.switches[1] == has_log && profiles::can_be_saved(profile.name));
    let mut refused = None;
    for profile in fitting {
        let mut open = |restarts| {
            let options = options(directory, writes, has_log, restarts)?;
            let mut unheard = |_| ();
            let report = if restarts { &mut *report } else { &mut unheard };
            Ok::<_, Failure>(drive::open_saved(profile.name, &options, report))
        };
        let opened = match open(restarts)? {
            Err(NoDatabase::Refused(error)) if has_log && error.is_not_closed() => open(true)?,
            opened => opened,
        };
        match opened {
            Ok(instance) => return Ok(Ok(instance)),
            Err(NoDatabase::Refused(error)) if is_another_layout(&error) => refused = Some(error),
            Err(NoDatabase::Refused(error)) => return Ok(Err(error)),
            Err(error) => {
                return Err(Failure::check(format!("profile {} {error}", profile.name)));
            }
        }
    }
    refused.map(Err).ok_or_else(|| Failure::check("no profile keeps files"))
}

/// Reads from the directory; the pool holds all of the file if it can.
fn options(
    directory: &Path,
    writes: Writes,
    has_log: bool,
    restarts: bool,
) -> Result<Options, Failure> {
    let disk = OsDisk::open(directory).or_environment()?;
    let disk: Arc<dyn Disk> = match writes {
        Writes::InMemory => Arc::new(OverlayDisk::new(disk)),
        Writes::InDirectory => Arc::new(disk),
    };
    let pages = std::fs::metadata(directory.join(PAGES_FILE)).map_or(0, |file| file.len());
    let wanted = (pages + pages / 8).max(POOL_BYTES_MIN);
    let mut options = Options { disk, ..Options::default() };
    options.paged.pool_bytes = wanted.min(host::available_bytes() / 4 * 3) as usize;
    options.paged.restarts = restarts;
    if has_log {
        // With less than this the log's file would not even be looked at.
        options.paged.log.durability = Durability::Async;
    }
    Ok(options)
}

/// Whether another profile may be able to open what this one refused.
fn is_another_layout(error: &OpenError) -> bool {
    match error {
        OpenError::Layout { .. } => true,
        OpenError::Pages(error) => match error.failure() {
            PageFailure::Damaged { what, .. } => what.starts_with("pages of "),
            _ => false,
        },
        _ => false,
    }
}

/// What a refusal means: damage, or a reason not to check at all.
fn judge(directory: &Path, error: &OpenError) -> Result<Finding, Failure> {
    let damage = match error {
        OpenError::Pages(error) => match error.failure() {
            PageFailure::Damaged { file, offset, what } => Some(("pages", file, offset, what)),
            _ => None,
        },
        OpenError::Log(error) => match error.failure() {
            LogFailure::Damaged { file, offset, what } => Some(("log", file, offset, what)),
            _ => None,
        },
        _ => None,
    };
    if let Some((check, file, &offset, what)) = damage {
        let file = directory.join(file.rsplit('/').next().unwrap_or(file)).display().to_string();
        let (check, what) = (check.to_owned(), what.clone());
        return Ok(Finding { check, what, file: Some(file), offset: Some(offset) });
    }
    let path = directory.display();
    if let OpenError::Log(error) = error
        && *error.failure() == LogFailure::Missing
    {
        return Err(Failure::check(format!("{path} cannot be opened: {error}")));
    }
    let text = match error {
        _ if error.is_not_closed() => {
            format!("{path} was not closed, and without a log it cannot be restarted: {error}")
        }
        _ if error.is_in_use() => format!("{path} is in use: end what uses it first: {error}"),
        _ => format!("{path} cannot be opened: {error}"),
    };
    Err(Failure::environment(text))
}
