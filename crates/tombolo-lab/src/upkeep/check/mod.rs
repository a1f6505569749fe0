//! `check`: every condition and structure of a database in a directory is verified.
//!
//! A directory holds a dump, the files of a paged store or a value log. A dump is loaded again: rows
//! come back through the store's dynamic path, so types, ranges and unique keys are verified on the
//! way; then come the workload's conditions, the indexes and the slabs. Files are opened as they are
//! (`check/saved.rs`), a log is replayed (`check/logged.rs`); neither is written. Of a database of islands each is
//! checked (`check/islands.rs`). Tampering breaks
//! one condition in the loaded or opened copy, to prove that its check, and no other, notices.
//!
//! Not here: reading lines (`rows/files.rs`), parsing rows (`rows/restore.rs`).

mod islands;
mod logged;
pub(super) mod saved;

use std::path::{Path, PathBuf};

use tombolo_engine::islands::membership::Membership;
use tombolo_storage::error::Error;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::Memory;
use tombolo_storage::schema::TableDef;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::rows;
use crate::rows::{
    DumpDirectory, DumpReader, Finding, Quiescent, RestoreError, StateHash, Verification,
};
use crate::workload::error::WorkloadError;
use crate::workload::tpcc::input::Mix;
use crate::workload::tpcc::loader::Scale;
use crate::workload::{WORKLOADS, Workload as _, WorkloadInfo};

/// The findings.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The checks.
    pub verification: Verification,
    /// The hash of all rows, as they were before tampering; none where they cannot all be read.
    pub state_hash: Option<StateHash>,
    /// Notes that are no damage.
    pub notice: Option<String>,
    tampered: Option<String>,
    /// The remedy for damage.
    remedy: &'static str,
}

impl Checked {
    fn new(
        verification: Verification,
        state_hash: Option<StateHash>,
        tamper: Option<&str>,
        remedy: &'static str,
    ) -> Self {
        let tampered = tamper.map(str::to_owned);
        Self { verification, state_hash, notice: None, tampered, remedy }
    }

    fn add_notice(&mut self, notice: Option<String>) {
        let notices: Vec<_> = notice.into_iter().chain(self.notice.take()).collect();
        self.notice = (!notices.is_empty()).then(|| notices.join("; "));
    }

    /// Of a database that damage keeps from being opened.
    fn unopened(damage: Finding, tamper: Option<&str>, remedy: &'static str) -> Self {
        let checks = vec![(damage.check.clone(), false)];
        Self::new(Verification { checks, damage: vec![damage] }, None, tamper, remedy)
    }

    /// Why this is a failure, if it is one.
    pub fn failure(&self) -> Option<Failure> {
        let failed: Vec<&str> = self
            .verification
            .checks
            .iter()
            .filter(|(_, holds)| !holds)
            .map(|(name, _)| name.as_str())
            .collect();
        let Some(finding) = self.verification.damage.first() else {
            let check = self.tampered.as_ref()?;
            return Some(Failure::check(format!(
                "check {check} did not notice that it was tampered with: please report it"
            )));
        };
        let place = match (&finding.file, finding.offset) {
            (Some(file), Some(offset)) => format!("{file} at offset {offset}: "),
            _ => String::new(),
        };
        let what = format!("check {} failed: {place}{}", failed.join(", "), finding.what);
        Some(Failure::check(match &self.tampered {
            Some(_) => format!("{what} (it was tampered with)"),
            None => format!("{what}: {}", self.remedy),
        }))
    }
}

/// How many rows are read between two looks at the progress.
const ROWS_PER_STEP: u32 = 10_000;

/// Verifies the database in `directories`, its own and those its image lies in besides, having broken the
/// condition `tamper` in the loaded copy first, if one is named. The rows as they were before go to `dump`.
///
/// # Errors
/// When there is no database, it cannot be read as one, or the condition cannot be broken.
///
/// # Panics
/// When no directory is given.
pub fn check(
    directories: &[impl AsRef<Path>],
    tamper: Option<&str>,
    dump: Option<&DumpDirectory>,
    progress: &mut dyn Progress,
) -> Result<Checked, Failure> {
    let directory = directories[0].as_ref();
    let islands = islands::directories(directory);
    if !islands.is_empty() {
        return islands::check_each(&islands, tamper, dump, progress);
    }
    islands::refuse_incomplete(directory)?;
    if logged::is_logged(directory) {
        return logged::check(directories, tamper, dump, progress);
    }
    if directories.len() > 1 {
        return Err(Failure::usage(format!(
            "directory {} holds no database with a checkpoint image: leave --checkpoint-directory out",
            directory.display()
        )));
    }
    if saved::is_saved(directory) {
        return saved::check(directory, tamper, dump, progress);
    }
    let is_of = |workload: &&WorkloadInfo| directory.join(rows::file_name(workload.table)).exists();
    let workload = WORKLOADS.iter().find(is_of).unwrap_or(&WORKLOADS[0]);
    check_dump(directory, (workload.tables)(), tamper, dump, progress)
}

/// The directories of the islands in `directory`, if it is that of a database of islands.
pub fn island_directories(directory: &Path) -> Vec<PathBuf> {
    islands::directories(directory)
}

/// Whether `directory` holds islands of paged stores.
pub fn has_paged_islands(directory: &Path) -> bool {
    islands::directories(directory).first().is_some_and(|first| saved::is_saved(first))
}

/// Verifies a dump of `tables`, at whatever scale it is.
fn check_dump(
    directory: &Path,
    tables: Vec<TableDef>,
    tamper: Option<&str>,
    dump: Option<&DumpDirectory>,
    progress: &mut dyn Progress,
) -> Result<Checked, Failure> {
    let mut rows = DumpReader::new(directory, tables.iter().map(|table| &*table.name))?;
    let mut store = MemoryStore::<Memory>::new(Limits::default());
    let mut database = Quiescent::in_memory(&mut store);
    progress.begin("loading the dump");
    let mut until_report = 0;
    let restored = database.restore(tables, &mut |table, line| {
        if until_report == 0 {
            progress.part(rows.part(), table);
            until_report = ROWS_PER_STEP;
        }
        until_report -= 1;
        rows.next_row(table, line)
    });
    progress.end();
    restored.map_err(|error| refused(directory, &error))?;
    let remedy = "dump the database again, or report it";
    verify(database, tamper, dump, remedy, progress)
}

/// Verifies what was loaded or opened.
fn verify(
    mut database: Quiescent<'_>,
    tamper: Option<&str>,
    dump: Option<&DumpDirectory>,
    remedy: &'static str,
    progress: &mut dyn Progress,
) -> Result<Checked, Failure> {
    progress.begin("verifying");
    let island = logged::membership_in(database.store());
    if let Some(own) = island.as_ref().filter(|_| tamper.is_some()) {
        let Membership { island, islands, .. } = own;
        return Err(Failure::usage(format!(
            "the directory holds {island} of {islands}, and --tamper is for a whole database: leave it out"
        )));
    }
    let hash = match dump {
        Some(dump) => Ok(dump.write(database.store())?),
        None => database.state_hash(),
    };
    if let Some(check) = tamper {
        database.tamper(check).map_err(failed)?;
    }
    progress.part(0.5, "");
    let verification = match island {
        None => database.verify(),
        Some(_) => database.verify_island().map(|(verification, _)| verification),
    };
    let verification = verification.map_err(failed)?;
    progress.end();
    let state_hash = match hash {
        Ok(hash) => Some(hash),
        // What cannot be read was found by the checks too.
        Err(_) if !verification.consistent() => None,
        Err(error) => return Err(failed(error)),
    };
    let is_tpcc_in_part = tamper.is_none() && matches!(any_tpcc().find(database.store()), Ok(None));
    let mut checked = Checked::new(verification, state_hash, tamper, remedy);
    checked.add_notice(is_tpcc_in_part.then(|| {
        "the database of tpcc is not whole: loading it was broken off; make it again".to_owned()
    }));
    checked.add_notice(island.map(|Membership { island, islands, .. }| {
        format!(
            "this is {island} of {islands}: the conditions of its workload hold of all of them together, and are not \
             asked of one"
        )
    }));
    Ok(checked)
}

/// A scale to find that of a database by.
const fn any_tpcc() -> Scale {
    Scale { seed: 0, warehouses: 1, mix: Mix::Paper }
}

/// Whose fault it is that a check cannot be made.
fn failed(error: WorkloadError) -> Failure {
    match error {
        WorkloadError::NoSuchCheck { .. } | WorkloadError::NothingToTamper(_) => {
            Failure::usage(format!("--tamper: {error}"))
        }
        WorkloadError::Schema(_) => Failure::usage(error.to_string()),
        error => Failure::check(error.to_string()),
    }
}

fn refused(directory: &Path, error: &RestoreError) -> Failure {
    match error {
        RestoreError::Row { .. } => Failure::usage(format!(
            "{}: dump the database again",
            directory.join(error.to_string()).display()
        )),
        RestoreError::Read(what) => Failure::usage(format!("{what}: dump the database again")),
        RestoreError::Store(Error::NoSpace { .. }) => Failure::environment(error.to_string()),
        _ => Failure::check(error.to_string()),
    }
}
