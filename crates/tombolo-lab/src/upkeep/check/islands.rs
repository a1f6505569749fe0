//! `check` of a database of islands: each is a database, in a directory of its own.
//!
//! The conditions of TPC-C hold of all islands together, as does that a table on each of them has the same rows on
//! each, and only once all their transactions have ended. The hash of all their rows is that of one database with the
//! same: such a table counts once, and tables of the database's own do not.
//!
//! Islands that do not belong together, as one is missing or has the directory of another, have no such conditions.
//!
//! Not here: what opening them compares besides.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tombolo_engine::islands::membership::{Membership, island_directory, islands_in};
use tombolo_engine::islands::ordered::ahead;
use tombolo_engine::requests::OWN_PREFIX;

use super::logged::Island;
use super::{Checked, logged, saved};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::rows::{DumpDirectory, StateHash, Verification};
use crate::workload::tpcc::islands::conditions;

/// The check of tables that are on each island.
const COPIES: &str = "copies";

/// The check that the islands are those of one database, each in its place.
const ISLANDS: &str = "islands";
/// The remedy where they are not.
const REMEDY: &str =
    "give each directory its own name again, or restore a copy of the whole database";

/// The directories of the islands in `directory`, if it is that of a database of islands.
pub(super) fn directories(directory: &Path) -> Vec<PathBuf> {
    (0..islands_in(directory)).map(|island| directory.join(island_directory(island))).collect()
}

/// Refuses a directory in which islands lie, and not the first.
///
/// # Errors
/// Usage.
pub(super) fn refuse_incomplete(directory: &Path) -> Result<(), Failure> {
    let prefix = island_directory(0).replace('0', "");
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let is_island =
        |name: &String| name.strip_prefix(&prefix).is_some_and(|n| n.parse::<u16>().is_ok());
    match names.filter(is_island).min() {
        None => Ok(()),
        Some(other) => Err(Failure::usage(format!(
            "{} holds {other}, and {} is missing: restore it, or a backup of the database",
            directory.display(),
            island_directory(0)
        ))),
    }
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
            "the directory holds {} islands, and --tamper and dumping are for one: give {}",
            islands.len(),
            islands[0].display()
        )));
    }
    let (mut all, mut notices, mut remedy) = (Verification::default(), Vec::new(), "");
    let (mut sums, mut found) = (Vec::new(), Vec::new());
    for (number, island) in islands.iter().enumerate() {
        let (checked, mut of_island) = match saved::is_saved(island) {
            true => saved::check_island(island, progress)?,
            false => logged::check_island(island, progress)?,
        };
        sums.extend(of_island.sums.take());
        found.push(of_island);
        let within = |name: &str| format!("{}/{name}", island_directory(number));
        let checks = checked.verification.checks.into_iter();
        all.checks.extend(checks.map(|(name, holds)| (within(&name), holds)));
        all.damage.extend(checked.verification.damage.into_iter().map(|mut finding| {
            finding.file = finding.file.as_deref().map(within);
            finding.check = within(&finding.check);
            finding
        }));
        notices
            .extend(checked.notice.map(|notice| format!("{}: {notice}", island_directory(number))));
        remedy = checked.remedy;
    }
    let misplaced = misplaced(&found);
    let belong_together = misplaced.is_empty();
    if !belong_together {
        remedy = REMEDY;
    }
    all.note(ISLANDS, None);
    misplaced.into_iter().for_each(|what| all.note(ISLANDS, Some(what)));
    let not_ended = not_ended(&found);
    let mut hash = None;
    if belong_together && not_ended.is_none() {
        // An island that could not be read has no sums and no hashes, and that was found.
        if sums.len() == islands.len() {
            all.note_all(conditions(sums));
        }
        let hashes: Option<Vec<_>> = found.iter().map(|island| island.hashes.as_ref()).collect();
        hash = hashes.and_then(|hashes| compare_copies(&found, &hashes, &mut all));
    }
    notices.extend(not_ended);
    let mut checked = Checked::new(all, hash, None, remedy);
    checked.notice = (!notices.is_empty()).then(|| notices.join("; "));
    Ok(checked)
}

/// What is wrong with the places of islands. One that does not know its place was not made to its end, or is damaged.
fn misplaced(islands: &[Island]) -> Vec<String> {
    let known = islands.iter().enumerate();
    let known = known.filter_map(|(at, island)| Some((at, island.membership.as_ref()?)));
    let first = known.clone().next();
    let wrong = |(at, own): (usize, &Membership)| {
        let place = island_directory(at);
        if own.island.index() != at {
            Some(format!("{place} holds {} of a database of {}", own.island, own.islands))
        } else if first.is_some_and(|(_, first)| first.database != own.database) {
            Some(format!("{place} belongs to another database than the islands next to it"))
        } else if usize::from(own.islands) > islands.len() {
            let missing = island_directory(islands.len());
            Some(format!("{place} is one of {} islands, and {missing} is missing", own.islands))
        } else {
            (usize::from(own.islands) < islands.len())
                .then(|| format!("{place} is one of {} islands, and there are more", own.islands))
        }
    };
    known.filter_map(wrong).collect()
}

/// Why what holds of all islands together cannot be asked yet, if so.
fn not_ended(islands: &[Island]) -> Option<String> {
    let undecided: u64 = islands.iter().map(|island| island.undecided).sum();
    let ordered: Vec<_> = islands.iter().map(|island| island.ordered.clone()).collect();
    let (what, then) = if undecided > 0 {
        (
            format!("{undecided} parts of transactions over several islands are not decided"),
            "decides them",
        )
    } else if !ahead(&ordered).is_empty() {
        ("an ordered transaction is not on all its islands".to_owned(), "cuts it off")
    } else {
        return None;
    };
    Some(format!(
        "{what}: opening the database {then}, and until then the conditions of its workload are not asked, nor whether \
         tables on each island have the same rows there"
    ))
}

/// Notes whether each table that is on all islands has the same rows on each. Returns the hash of all rows, if so.
fn compare_copies(
    islands: &[Island],
    hashes: &[&BTreeMap<String, StateHash>],
    all: &mut Verification,
) -> Option<StateHash> {
    let is_on_each = |table: &str| {
        let mut spreads = islands.iter().flat_map(|island| &island.spreads);
        spreads.any(|spread| spread.table == table && spread.column.is_none())
    };
    let (mut hash, mut are_equal) = (StateHash::default(), true);
    let tables: BTreeSet<_> = hashes.iter().flat_map(|island| island.keys()).collect();
    for table in tables.into_iter().filter(|table| !table.starts_with(OWN_PREFIX)) {
        let of_islands: Vec<_> =
            hashes.iter().map(|island| island.get(table).copied().unwrap_or_default()).collect();
        if !is_on_each(table) {
            of_islands.into_iter().for_each(|of_island| hash.add_all(of_island));
            continue;
        }
        hash.add_all(of_islands[0]);
        let other = of_islands.iter().position(|of_island| *of_island != of_islands[0]);
        are_equal &= other.is_none();
        let difference = other.map(|other| {
            let [other, first] = [other, 0].map(island_directory);
            format!(
                "table {table}, which is on each island, has other rows on {other} than on {first}: it was not \
                 changed on all of them in one transaction"
            )
        });
        all.note(COPIES, difference);
    }
    are_equal.then_some(hash)
}
