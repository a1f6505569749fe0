//! Checking a directory with a value log: every group's checksum and place, then the rows the log
//! describes. Nothing in the directory is changed.
//!
//! Damage in the log is a finding, with its place; what lies before it is verified all the same.
//! Not here: how the log is read (storage `value_log/survey.rs`).

use std::path::Path;

use tombolo_engine::clock::SystemClock;
use tombolo_storage::disk::OsDisk;
use tombolo_storage::value_log::{self, LogFailure};

use super::{Checked, failed};
use crate::dump;
use crate::dump_files::DumpDirectory;
use crate::durable::{self, Logged, Surveyed};
use crate::failure::Failure;
use crate::inspect::refused;
use crate::instance::{DynamicStore, Erased, Finding, Verification, verify_in_memory};
use crate::progress::Progress;
use crate::recover;
use crate::workload::tpcc::error::TpccError;
use crate::workload::tpcc::tamper::tamper as tamper_with;

/// The check of the log itself.
const CHECK: &str = "log";
/// What helps where something is wrong.
const REMEDY: &str = "restore a copy of the directory, or see tombolo recover --accept-loss";

/// Whether `directory` holds a value log.
pub(super) fn is_logged(directory: &Path) -> bool {
    OsDisk::open(directory).is_ok_and(|disk| value_log::holds_log(&disk).unwrap_or(false))
}

/// Verifies the database in `directory`.
///
/// # Errors
/// When it is in use, of another version, or cannot be read; damage is part of what is found.
pub(super) fn check(
    directory: &Path,
    tamper: Option<&str>,
    dump: Option<&DumpDirectory>,
    progress: &mut dyn Progress,
) -> Result<Checked, Failure> {
    let disk = OsDisk::open(directory).map_err(|error| Failure::usage(error.to_string()))?;
    let found = durable::survey(&disk, &recover::options(), &SystemClock::new(), progress);
    let Surveyed { mut store, log } = match found {
        Ok(found) => found,
        Err(failure @ (LogFailure::Damaged { .. } | LogFailure::Replay { .. })) => {
            let verification = Verification {
                checks: vec![(CHECK.to_owned(), false)],
                damage: vec![finding(&failure)],
            };
            return Ok(Checked::new(verification, None, tamper, REMEDY));
        }
        Err(failure) => return Err(refused(directory, &failure)),
    };
    progress.begin("verifying");
    let hash = match dump {
        Some(dump) => dump.write_with(|open| dump::dump(&mut Erased::new(&mut store), open))?,
        None => {
            let hash = dump::state_hash(&mut Erased::new(&mut store));
            hash.map_err(|error| Failure::check(error.to_string()))?
        }
    };
    if let Some(check) = tamper {
        tamper_with(&mut Erased::new(&mut store), check).map_err(failed)?;
    }
    let mut verification = verify(&mut store)?;
    progress.end();
    let damage = log.cut.as_ref().and_then(|cut| cut.damage.as_ref()).map(finding);
    verification.checks.push((CHECK.to_owned(), damage.is_none()));
    verification.damage.splice(0..0, damage);
    let mut checked = Checked::new(verification, Some(hash), tamper, REMEDY);
    checked.notice = log.cut.as_ref().map(|cut| durable::notice(cut, false));
    Ok(checked)
}

/// All checks; where the tables are not those of a workload, only the store's own.
fn verify(store: &mut Logged) -> Result<Verification, Failure> {
    match verify_in_memory(store) {
        Err(TpccError::Schema(_)) => {}
        verified => return verified.map_err(failed),
    }
    let mut verification = Verification {
        checks: ["indexes", "slabs"].map(|check| (check.to_owned(), true)).to_vec(),
        damage: Vec::new(),
    };
    for damage in DynamicStore::check(store) {
        for (check, holds) in &mut verification.checks {
            *holds &= check != damage.check;
        }
        let (check, what) = (damage.check.to_owned(), damage.what);
        verification.damage.push(Finding { check, what, file: None, offset: None });
    }
    Ok(verification)
}

fn finding(failure: &LogFailure) -> Finding {
    let check = CHECK.to_owned();
    match failure {
        LogFailure::Damaged { file, offset, group, what } => Finding {
            check,
            what: format!("group {group}: {what}"),
            file: Some(file.clone()),
            offset: Some(*offset),
        },
        failure => Finding { check, what: failure.to_string(), file: None, offset: None },
    }
}
