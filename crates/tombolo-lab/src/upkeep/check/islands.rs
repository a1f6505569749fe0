//! `check` of a database of islands: each is a database, in a directory of its own.
//!
//! Not here: whether the islands belong together, which opening them compares.

use std::path::{Path, PathBuf};

use tombolo_engine::islands::membership::{island_directory, islands_in};

use super::{Checked, check};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::rows::{DumpDirectory, Verification};

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
    for (number, island) in islands.iter().enumerate() {
        let checked = check(&[island], None, None, progress)?;
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
    let mut checked = Checked::new(all, None, None, remedy);
    checked.notice = (!notices.is_empty()).then(|| notices.join("; "));
    Ok(checked)
}
