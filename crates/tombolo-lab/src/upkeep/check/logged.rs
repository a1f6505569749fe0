//! Checking a directory with a value log: the checksum and place of every block of the image that counts
//! and of every group, then the rows they describe. Nothing in the directory is changed.
//!
//! Damage is a finding, with its place; what lies before it in the log is verified all the same. Not
//! here: how image and log are read (storage `memory/image/load.rs`, `value_log/survey.rs`).

use std::collections::BTreeMap;
use std::path::Path;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::islands::membership::{
    Membership, Spread, SpreadTable, read_membership, read_spreads,
};
use tombolo_engine::islands::ordered::last_ordered;
use tombolo_engine::islands::prepared::Prepared;
use tombolo_engine::recovery::OpenFailure;
use tombolo_storage::memory::image::ImageFailure;
use tombolo_storage::schema::DeclaredTable;
use tombolo_storage::store::dynamic_table;
use tombolo_storage::value_log::LogFailure;

use super::saved::{holds_log, is_saved};
use super::{Checked, failed, verify};
use crate::failure::Failure;
use crate::files::{self, Logged, OpenOptions, Surveyed, refused};
use crate::progress::Progress;
use crate::rows::{DumpDirectory, Finding, Quiescent, StateHash, table_hashes};
use crate::store::{DynamicStore, Erased};
use crate::upkeep::recover;
use crate::workload::error::WorkloadError;
use crate::workload::rows::in_transaction;
use crate::workload::tpcc::islands::IslandSums;

/// The check of the log itself.
const LOG: &str = "log";
/// The check of the image, where there is one.
const IMAGE: &str = "image";
/// The store's own check of its indexes.
const INDEXES: &str = "indexes";
/// The remedy for damage.
const REMEDY: &str = "restore a copy of the directory, or see tombolo recover --accept-loss";
/// The remedy where no accepted loss can help.
const COPY: &str = "restore a copy of the whole directory";

/// Whether `directory` holds a memory store's log: a paged store has one, too, and pages.
pub(super) fn is_logged(directory: &Path) -> bool {
    holds_log(directory) && !is_saved(directory)
}

/// Verifies the database in `directories`.
///
/// # Errors
/// When it is in use, of another version, or cannot be read; damage is part of what is found.
pub(super) fn check(
    directories: &[impl AsRef<Path>],
    tamper: Option<&str>,
    dump: Option<&DumpDirectory>,
    progress: &mut dyn Progress,
) -> Result<Checked, Failure> {
    survey(directories, tamper, progress, |store, progress| {
        verify(Quiescent::in_memory(store), tamper, dump, REMEDY, progress)
    })
}

/// Verifies one of several islands, of which the conditions may be asked together, or not yet.
///
/// # Errors
/// As [`check`].
pub(super) fn check_island(
    directory: &Path,
    progress: &mut dyn Progress,
) -> Result<(Checked, Island), Failure> {
    let mut island = Island::default();
    let checked = survey(&[directory], None, progress, |store, progress| {
        progress.begin("verifying");
        let (checked, of_store) = island_in(store).map_err(failed)?;
        island = of_store;
        progress.end();
        Ok(checked)
    })?;
    Ok((checked, island))
}

/// What is known of an island besides.
#[derive(Default)]
pub(super) struct Island {
    /// Which island of which database it is; `None`: it was not made to its end, or that cannot be read.
    pub(super) membership: Option<Membership>,
    /// Parts of transactions over several islands that are not decided.
    pub(super) undecided: u64,
    /// The last ordered transaction with each other island.
    pub(super) ordered: Vec<(IslandId, u64)>,
    /// How its tables are spread, as it was recorded.
    pub(super) spreads: Vec<Spread>,
    /// The hash of each table; none where not all rows can be read.
    pub(super) hashes: Option<BTreeMap<String, StateHash>>,
    /// What the conditions of TPC-C compare, if it has these tables.
    pub(super) sums: Option<IslandSums>,
}

fn island_in(store: &mut Logged) -> Result<(Checked, Island), WorkloadError> {
    let membership = membership_in(store);
    let undecided = count_rows(store, Prepared::NAME)?;
    let ordered = last_ordered(store)?;
    let spreads = spreads_in(store)?;
    let hashes = Some(table_hashes(store)?);
    let (verification, sums) = Quiescent::in_memory(store).verify_island()?;
    let checked = Checked::new(verification, None, None, REMEDY);
    Ok((checked, Island { membership, undecided, ordered, spreads, hashes, sums }))
}

/// Which island of which database a store is, if it is one and that can be read.
pub(super) fn membership_in(store: &mut dyn DynamicStore) -> Option<Membership> {
    let read = in_transaction(store, |store| read_membership(&mut Erased::new(store)));
    read.ok().flatten().map(|(membership, _)| membership)
}

/// How the tables of an island are spread, as it was recorded; an island of an earlier version has no table of that.
pub(super) fn spreads_in(store: &mut dyn DynamicStore) -> Result<Vec<Spread>, WorkloadError> {
    match store.schema().table(SpreadTable::NAME) {
        Some(_) => in_transaction(store, |store| Ok(read_spreads(&mut Erased::new(store))?)),
        None => Ok(Vec::new()),
    }
}

/// The rows of the table of this name, if there is one.
fn count_rows(store: &mut dyn DynamicStore, table: &str) -> Result<u64, WorkloadError> {
    let Some(position) = store.schema().table(table) else { return Ok(0) };
    let (handle, mut count) = (dynamic_table(store.schema(), position), 0);
    in_transaction(store, |store| store.each_row(&handle, &mut |_| count += 1))?;
    Ok(count)
}

/// Reads the database in `directories`, and lets `verify` look at its rows.
fn survey(
    directories: &[impl AsRef<Path>],
    tamper: Option<&str>,
    progress: &mut dyn Progress,
    verify: impl FnOnce(&mut Logged, &mut dyn Progress) -> Result<Checked, Failure>,
) -> Result<Checked, Failure> {
    let disks = files::disks(directories)?;
    // An index that the rows do not fit is a finding, and the rows can be dumped.
    let options = OpenOptions { without_unfit_indexes: true, ..recover::options() };
    let found = files::survey(&disks, &options, &SystemClock::new(), progress);
    let Surveyed { mut store, log, image_bytes } = match found {
        Ok(found) => found,
        Err(failure) => match finding(&failure) {
            Some(damage) => {
                let may_be_cut_off =
                    matches!(failure, OpenFailure::Log(LogFailure::Damaged { .. }));
                let remedy = if may_be_cut_off { REMEDY } else { COPY };
                return Ok(Checked::unopened(damage, tamper, remedy));
            }
            None => return Err(refused(directories[0].as_ref(), &failure)),
        },
    };
    let left_out: Vec<_> =
        store.left_out().iter().map(|(index, what)| format!("{index}: {what}")).collect();
    let mut checked = verify(&mut store, progress)?;
    let verification = &mut checked.verification;
    left_out.into_iter().for_each(|what| verification.note(INDEXES, Some(what)));
    if image_bytes > 0 {
        verification.checks.push((IMAGE.to_owned(), true));
    }
    let damage = log.cut.as_ref().and_then(|cut| cut.damage.clone());
    let damage = damage.and_then(|damage| finding(&damage.into()));
    verification.checks.push((LOG.to_owned(), damage.is_none()));
    verification.damage.splice(0..0, damage);
    checked.add_notice(log.cut.as_ref().map(|cut| files::notice(cut, false)));
    Ok(checked)
}

/// The damage that a failure is, if it is any.
fn finding(failure: &OpenFailure) -> Option<Finding> {
    let (check, what, place) = match failure {
        OpenFailure::Log(
            LogFailure::Damaged { file, offset, group, what }
            | LogFailure::Irreparable { file, offset, group, what },
        ) => (LOG, format!("group {group}: {what}"), Some((file, offset))),
        OpenFailure::Log(LogFailure::Replay { file, offset, group, what }) => {
            (LOG, format!("group {group} cannot be replayed: {what}"), Some((file, offset)))
        }
        OpenFailure::Image(ImageFailure::Damaged { file, offset, what }) => {
            (IMAGE, what.clone(), Some((file, offset)))
        }
        _ => return None,
    };
    let (file, offset) = place.map(|(file, offset)| (file.clone(), *offset)).unzip();
    Some(Finding { check: check.to_owned(), what, file, offset })
}
