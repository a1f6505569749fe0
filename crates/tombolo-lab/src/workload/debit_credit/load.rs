//! The initial database: every row a function of the seed, its table and its id.
//!
//! All accounts begin with the same balance; what the accounts of a branch hold is its own balance,
//! and that of its tellers together, so that the three sums are equal from the beginning.
//!
//! Parts are generated on several threads and stored by the calling one, in a fixed order
//! (`workload/loading.rs`).

use std::ops::RangeInclusive;

use tombolo_storage::error::Error;
use tombolo_storage::row::RowMut;
use tombolo_storage::store::{Index, Store, Table};

use super::schema::{Account, Branch, Holder, Teller};
use super::{Scale, code};
use crate::workload::error::WorkloadError;
use crate::workload::loading::{self, Fill, store_keyed};
use crate::workload::resolve::Resolve;

/// What an account begins with, in cents.
pub const INITIAL_BALANCE: i64 = 1_000_000;
/// Rows of a part, at most.
const PART_ROWS: u32 = 20_000;

/// A row of any of the three tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: i32,
    code: i64,
    pub(super) balance: i64,
}

impl<R: Holder> Fill<R> for Row {
    fn fill(&self, row: &mut RowMut<'_, R>) {
        row.set(R::ID, self.id);
        row.set(R::CODE, self.code);
        row.set(R::BALANCE, self.balance);
    }
}

/// A part of the database: some ids of a table.
#[derive(Clone, Debug)]
enum Part {
    Branches(RangeInclusive<u32>),
    Tellers(RangeInclusive<u32>),
    Accounts(RangeInclusive<u32>),
}

/// The rows of a part.
enum PartRows {
    Branches(Vec<Row>),
    Tellers(Vec<Row>),
    Accounts(Vec<Row>),
}

/// The ids up to `count`, in parts.
fn ranges(count: u32) -> impl Iterator<Item = RangeInclusive<u32>> {
    let first = (1..=count).step_by(PART_ROWS as usize);
    first.map(move |first| first..=first.saturating_add(PART_ROWS - 1).min(count))
}

impl Part {
    /// The parts of the whole database, in the order they are stored.
    fn all(scale: Scale) -> Vec<Self> {
        let branches = ranges(scale.branches).map(Self::Branches);
        let tellers = ranges(scale.tellers()).map(Self::Tellers);
        let accounts = ranges(scale.accounts()).map(Self::Accounts);
        branches.chain(tellers).chain(accounts).collect()
    }

    fn generate(&self, scale: Scale) -> PartRows {
        let rows = |ids: &RangeInclusive<u32>, balance: &dyn Fn(u32) -> i64| {
            let row = |id: u32| Row {
                id: id as i32,
                code: code(scale.seed, id as i32),
                balance: balance(id),
            };
            ids.clone().map(row).collect()
        };
        let of_branch = INITIAL_BALANCE * i64::from(scale.accounts_per_branch);
        match self {
            Self::Branches(ids) => PartRows::Branches(rows(ids, &|_| of_branch)),
            Self::Tellers(ids) => PartRows::Tellers(rows(ids, &|id| share(of_branch, id, scale))),
            Self::Accounts(ids) => PartRows::Accounts(rows(ids, &|_| INITIAL_BALANCE)),
        }
    }
}

/// What the teller `id` has of its branch's money: the same as the others, the first ones a cent more
/// where it does not divide.
fn share(of_branch: i64, id: u32, scale: Scale) -> i64 {
    let tellers = i64::from(scale.tellers_per_branch);
    let place = i64::from(id - 1) % tellers;
    of_branch / tellers + i64::from(place < of_branch % tellers)
}

handles! {
    /// A table with its key.
    pub(super) struct Held<R: Holder> {
        pub(super) table: Table<R>,
        pub(super) key: Index<R::Key>,
    }
}

impl<R: Holder> Held<R> {
    fn store<S: Store>(&self, store: &mut S, rows: &[Row]) -> Result<(), Error> {
        store_keyed(store, (&self.table, &self.key), rows, |row| row.id)
    }
}

handles! {
    /// The three tables.
    pub(super) struct Handles {
        pub(super) branch: Held<Branch>,
        pub(super) teller: Held<Teller>,
        pub(super) account: Held<Account>,
    }
}

/// Creates the tables in `store` and loads the initial database, generating on `threads` threads;
/// `after_part` gets the store after each part that was stored, with how many of how many are.
///
/// # Errors
/// When the store refuses a table, a row or an index entry, or what `after_part` failed with.
pub fn load_parts<S: Store>(
    scale: Scale,
    store: &mut S,
    threads: usize,
    after_part: impl FnMut(&mut S, usize, usize) -> Result<(), WorkloadError>,
) -> Result<(), WorkloadError> {
    for table in super::schema::tables() {
        store.create_table(table)?;
    }
    let handles = Handles::resolve(store.schema())?;
    let store_part = |store: &mut S, rows: &PartRows| match rows {
        PartRows::Branches(rows) => handles.branch.store(store, rows),
        PartRows::Tellers(rows) => handles.teller.store(store, rows),
        PartRows::Accounts(rows) => handles.account.store(store, rows),
    };
    let parts = Part::all(scale);
    loading::load_parts(store, &parts, threads, |part| part.generate(scale), store_part, after_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_ids_once_and_the_sums_are_equal() {
        let scale =
            Scale { seed: 1, branches: 7, tellers_per_branch: 3, accounts_per_branch: 10_000 };
        let (mut ids, mut sums) = ([0; 3], [0; 3]);
        for part in Part::all(scale) {
            let (table, rows) = match part.generate(scale) {
                PartRows::Branches(rows) => (0, rows),
                PartRows::Tellers(rows) => (1, rows),
                PartRows::Accounts(rows) => (2, rows),
            };
            for row in rows {
                ids[table] += 1;
                assert_eq!(row.id, ids[table], "in their order");
                sums[table] += row.balance;
            }
        }
        assert_eq!(ids, [7, 21, 70_000]);
        assert_eq!(sums, [70_000 * INITIAL_BALANCE; 3]);
    }
}
