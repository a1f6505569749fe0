//! A database in which nothing runs, and what is found by looking at it: every check and whether it
//! holds, its hash, its rows.
//!
//! Every command that looks at rows does so here, whatever ran before and on whichever store. Not here:
//! the checks themselves (each workload's `checks.rs`, the stores), files (`files.rs`).

use serde::{Deserialize, Serialize};
use tombolo_engine::threads::{self, ordered_parallel};
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::Error;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::{Damage, Usage};

use super::{DumpDirectory, NextRow, RestoreError, StateHash, dump, restore_tables};
use crate::failure::{Blamed, Failure};
use crate::store::{DynamicStore, Erased};
use crate::workload::error::WorkloadError;
use crate::workload::tpcc::islands::IslandSums;
use crate::workload::{Check, checks, tamper};

/// Something a verification found wrong; a field of results, unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The file it is in, where it is known.
    pub file: Option<String>,
    /// Where in the file, in bytes; in the file of pages if no file is named.
    pub offset: Option<u64>,
    /// The check that found it.
    pub check: String,
    /// Where and what.
    pub what: String,
}

/// The result of verifying a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Every check and whether it holds, conditions first.
    pub checks: Vec<(String, bool)>,
    /// The errors found.
    pub damage: Vec<Finding>,
}

impl Verification {
    /// Whether every check holds.
    pub fn consistent(&self) -> bool {
        self.checks.iter().all(|(_, holds)| *holds)
    }

    /// Notes that `check` was made, and what it found.
    pub(crate) fn note(&mut self, check: &str, damage: Option<String>) {
        self.note_at(check, None, damage);
    }

    /// Notes conditions that were asked.
    pub(crate) fn note_all(&mut self, checks: Vec<Check>) {
        checks.into_iter().for_each(|check| self.note(check.name, check.violation));
    }

    fn note_at(&mut self, check: &str, offset: Option<u64>, damage: Option<String>) {
        match self.checks.iter_mut().find(|(known, _)| known == check) {
            Some((_, holds)) => *holds &= damage.is_none(),
            None => self.checks.push((check.to_owned(), damage.is_none())),
        }
        let finding = |what| Finding { check: check.to_owned(), what, file: None, offset };
        self.damage.extend(damage.map(finding));
    }
}

/// The checks that a store has itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreChecks {
    /// The checks' names.
    pub(crate) names: &'static [&'static str],
    /// Bytes of a page; 0 where there are none.
    pub(crate) page_bytes: u64,
}

impl StoreChecks {
    /// The checks of a memory store.
    pub(crate) const IN_MEMORY: Self = Self { names: &["indexes", "slabs"], page_bytes: 0 };
}

/// A store's name of a check, as results have it.
fn check_name(name: &'static str) -> &'static str {
    match name {
        "heap" => "heaps",
        "free pages" => "pages",
        name => name,
    }
}

/// Where in its file the page lies that `what` names.
fn offset_of(what: &str, page_bytes: u64) -> Option<u64> {
    let (_, from_number) = what.split_once("page ")?;
    let digits = from_number.find(|c: char| !c.is_ascii_digit()).unwrap_or(from_number.len());
    let page: u64 = from_number[..digits].parse().ok()?;
    (page_bytes > 0).then_some(page * page_bytes)
}

/// A database in which nothing runs.
pub struct Quiescent<'s> {
    store: &'s mut dyn DynamicStore,
    own: StoreChecks,
}

impl std::fmt::Debug for Quiescent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quiescent").field("own", &self.own).finish_non_exhaustive()
    }
}

impl<'s> Quiescent<'s> {
    /// The database in a memory store.
    pub fn in_memory(store: &'s mut dyn DynamicStore) -> Self {
        Self { store, own: StoreChecks::IN_MEMORY }
    }

    /// The database in a store that verifies `own` itself.
    pub(crate) fn new(store: &'s mut dyn DynamicStore, own: StoreChecks) -> Self {
        Self { store, own }
    }

    /// Its rows.
    pub fn store(&mut self) -> &mut dyn DynamicStore {
        self.store
    }

    /// Memory taken and used.
    pub fn usage(&mut self) -> Usage {
        self.store.usage()
    }

    /// Runs all checks: the conditions of the workload whose tables there are, then the store's own. A
    /// store may hold the tables of any program; then there are only the store's own.
    ///
    /// # Errors
    /// When the store refuses to be read for another reason than damage.
    pub fn verify(&mut self) -> Result<Verification, WorkloadError> {
        let mut verification = Verification::default();
        match checks(self.store) {
            Ok(checks) => verification.note_all(checks),
            Err(WorkloadError::Schema(_)) => {}
            Err(WorkloadError::Stop(Stop::Error(error @ Error::Damaged { offset }))) => {
                let what = format!("the conditions cannot be asked: {error}");
                verification.note_at("pages", Some(offset), Some(what));
            }
            Err(error) => return Err(error),
        }
        self.verify_structure(&mut verification);
        Ok(verification)
    }

    /// The same of one of several islands with TPC-C's tables, whose conditions hold of all islands together: what
    /// they compare is summed up. None where its tables are others: what holds
    /// of all rows of a workload does not hold of one island's.
    ///
    /// # Errors
    /// As [`Quiescent::verify`].
    pub(crate) fn verify_island(
        &mut self,
    ) -> Result<(Verification, Option<IslandSums>), WorkloadError> {
        let mut verification = Verification::default();
        let sums = match IslandSums::of(self.store) {
            Ok(sums) => Some(sums),
            Err(WorkloadError::Schema(_)) => None,
            Err(error) => return Err(error),
        };
        self.verify_structure(&mut verification);
        Ok((verification, sums))
    }

    /// The store's own checks.
    fn verify_structure(&mut self, verification: &mut Verification) {
        self.own.names.iter().for_each(|name| verification.note(name, None));
        for damage in check_in_parts(self.store) {
            let offset = offset_of(&damage.what, self.own.page_bytes);
            verification.note_at(check_name(damage.check), offset, Some(damage.what));
        }
    }

    /// The hash of all rows, which go to `dump` if there is one.
    ///
    /// # Errors
    /// When the store refuses to be read, or a table cannot be written.
    pub fn hash(&mut self, dump: Option<&DumpDirectory>) -> Result<StateHash, Failure> {
        match dump {
            Some(directory) => directory.write(self.store),
            None => self.state_hash().or_check(),
        }
    }

    /// The hash of all rows.
    ///
    /// # Errors
    /// When the store refuses to be read.
    pub fn state_hash(&mut self) -> Result<StateHash, WorkloadError> {
        Ok(dump::state_hash(self.store)?)
    }

    /// Breaks the condition called `check`, and only it.
    ///
    /// # Errors
    /// When no check has that name, or it cannot be broken here.
    pub fn tamper(&mut self, check: &str) -> Result<(), WorkloadError> {
        tamper(&mut Erased::new(self.store), check)
    }

    /// Creates `tables` and fills them with dumped rows.
    ///
    /// # Errors
    /// A line that is no row, or what the store refused.
    pub fn restore(
        &mut self,
        tables: Vec<TableDef>,
        next_row: NextRow<'_>,
    ) -> Result<(), RestoreError> {
        restore_tables(&mut Erased::new(self.store), tables, next_row)
    }
}

/// What the store finds wrong itself, in parts by several threads where they can read it in parallel.
fn check_in_parts(store: &mut dyn DynamicStore) -> Vec<Damage> {
    let Some(view) = store.shared() else { return store.check() };
    let checker = view.checker();
    let parts: Vec<usize> = checker.parts().collect();
    let mut damage = Vec::new();
    let check = |&part: &usize| checker.check(part);
    ordered_parallel(&parts, threads::available(), check, |found| damage.extend(found));
    damage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_fails_once_any_of_its_findings_does() {
        let mut verification = Verification::default();
        verification.note("slabs", None);
        assert!(verification.consistent());
        verification.note("slabs", Some("slot 7 is lost".to_owned()));
        verification.note("slabs", None);
        assert_eq!(verification.checks, [("slabs".to_owned(), false)]);
        assert_eq!(verification.damage.len(), 1);
        assert!(!verification.consistent());
    }

    #[test]
    fn a_page_that_is_named_has_its_place_in_the_file() {
        let what = "index stock_pk: page 12: its checksum does not match";
        assert_eq!(offset_of(what, 8 << 10), Some(12 * (8 << 10)));
        assert_eq!(offset_of("page 3", 32 << 10), Some(3 * (32 << 10)));
        assert_eq!(offset_of("slot 7 is lost", 8 << 10), None);
        assert_eq!(offset_of("page 12", 0), None);
    }
}
