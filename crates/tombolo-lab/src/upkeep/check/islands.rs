//! `check` of a database of islands: each is a database, in a directory of its own.
//!
//! The conditions of TPC-C hold of all islands together, and only once all their transactions are decided.
//!
//! Not here: whether the islands belong together, which opening them compares.

use std::path::{Path, PathBuf};

use tombolo_engine::islands::membership::{island_directory, islands_in};

use super::{Checked, logged, saved};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::rows::{DumpDirectory, Verification};
use crate::workload::tpcc::islands::conditions;

/// The directories of the islands in `directory`, if it is that of a database of islands.
pub(super) fn directories(directory: &Path) -> Vec<PathBuf> {
    (0..islands_in(directory)).map(|island| directory.join(island_directory(island))).collect()
}

/// Verifies each island; checks and files have its directory's name in front.
///
/// # Errors
/// As the check of a database, of the first island that has one; what concerns one island only is refused.
pub(super) fn check_each(
    islands: &[PathBuf],
    tamper: Option<&str>,
    dump: Option<&DumpDirectory>,
    progress: &mut dyn Progress,
) -> Result<Checked, Failure> {
    if tamper.is_some() || dump.is_some() {
        return Err(Failure::usage(format!(
            "the directory holds {} islands, and --tamper and --dump are for one: give {}",
            islands.len(),
            islands[0].display()
        )));
    }
    let (mut all, mut notices, mut remedy) = (Verification::default(), Vec::new(), "");
    let (mut sums, mut undecided) = (Vec::new(), 0);
    for (number, island) in islands.iter().enumerate() {
        let (checked, of_island) = match saved::is_saved(island) {
            true => saved::check_island(island)?,
            false => logged::check_island(island, progress)?,
        };
        sums.extend(of_island.sums);
        undecided += of_island.undecided;
        let within = |name: &str| format!("{}/{name}", island_directory(number));
        let checks = checked.verification.checks.into_iter();
        all.checks.extend(checks.map(|(name, holds)| (within(&name), holds)));
        all.damage.extend(checked.verification.damage.into_iter().map(|mut finding| {
            finding.file = finding.file.as_deref().map(within);
            finding.check = within(&finding.check);
            finding
        }));
        notices.extend(checked.notice.map(|notice| within(&notice)));
        remedy = checked.remedy;
    }
    // An island that could not be read has no sums, and that was found.
    let is_whole = sums.len() == islands.len();
    if is_whole && undecided == 0 {
        all.note_all(conditions(sums));
    } else if is_whole {
        notices.push(format!(
            "{undecided} parts of transactions over several islands are not decided: opening the database decides \
             them, and until then the conditions of its workload are not asked"
        ));
    }
    let mut checked = Checked::new(all, None, None, remedy);
    checked.notice = (!notices.is_empty()).then(|| notices.join("; "));
    Ok(checked)
}
