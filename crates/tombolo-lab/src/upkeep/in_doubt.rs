//! Transactions over several islands that an island has prepared, or decided, and that are not ended (ISL-14): they
//! wait for other islands. Opening the database ends them.
//!
//! Not here: how they end (engine `islands/commit`).

use std::path::Path;

use serde::{Deserialize, Serialize};
use tombolo_engine::islands::commit::{IslandId, TransactionNumber};
use tombolo_engine::islands::prepared::PreparedParts;
use tombolo_storage::memory::held::Locks;
use tombolo_storage::owner::Owner;
use tombolo_storage::store::Store;

use super::check::saved;
use crate::failure::{Blamed, Failure};
use crate::files::Logged;

/// A transaction that is not ended; a field of results, unchanged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InDoubt {
    /// Its number: the island that decides, the opening of it and the transaction in that opening.
    pub transaction: String,
    /// `prepared`: its part here is kept until it is decided. `decided`: this island decided that it commits.
    pub state: String,
    /// The islands from which an answer has to come: the one that decides, or those that have parts of it.
    pub waits_for: Vec<u16>,
}

impl InDoubt {
    fn prepared(number: TransactionNumber) -> Self {
        Self::new(number, "prepared", vec![number.island.0])
    }

    fn new(number: TransactionNumber, state: &str, waits_for: Vec<u16>) -> Self {
        Self { transaction: number.to_string(), state: state.to_owned(), waits_for }
    }
}

/// Those of a memory store, in the order of their numbers.
///
/// # Errors
/// When its rows are not such as an island has.
pub(super) fn in_store(store: &mut Logged) -> Result<Vec<InDoubt>, Failure> {
    let Ok(parts) = PreparedParts::new(store.schema()) else {
        return Ok(Vec::new()); // it is no island
    };
    let mut locks = Locks::new().or_environment()?;
    let mut found = parts.open(store, &mut locks).or_check()?;
    found.prepared.sort_unstable();
    found.decided.sort_unstable();
    let ids = |islands: &[IslandId]| islands.iter().map(|island| island.0).collect();
    let prepared = found.prepared.iter().map(|(number, _)| InDoubt::prepared(*number));
    let decided = found.decided.iter();
    let decided = decided.map(|(number, islands)| InDoubt::new(*number, "decided", ids(islands)));
    Ok(prepared.chain(decided).collect())
}

/// Those that a paged store in `directory` has prepared, in the order of their numbers. Its restart is done in memory;
/// nothing is written.
///
/// # Errors
/// When it is in use, damaged, or cannot be read.
pub(super) fn in_pages(directory: &Path) -> Result<Vec<InDoubt>, Failure> {
    let number = |owner: Owner| {
        let number = TransactionNumber::of(owner);
        number.ok_or_else(|| Failure::check(format!("{owner} is no number of a transaction")))
    };
    let mut numbers = Vec::new();
    for owner in saved::prepared(directory)? {
        numbers.push(number(owner)?);
    }
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(InDoubt::prepared).collect())
}
