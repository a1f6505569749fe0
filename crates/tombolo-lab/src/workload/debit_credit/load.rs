//! The initial database: every row a function of the seed, its table and its id.
//!
//! All accounts begin with the same balance; what the accounts of a branch hold is its own balance,
//! and that of its tellers together, so that the three sums are equal from the beginning.
//!
//! Parts are generated on several threads and stored by the calling one, in a fixed order
//! (`workload/loading.rs`).

use std::ops::RangeInclusive;

use tombolo_engine::threads;
use tombolo_storage::error::Error;
use tombolo_storage::row::RowMut;
use tombolo_storage::store::{Index, Store, Table};

use super::schema::{Account, Branch, Holder, Teller};
use super::{Scale, code};
use crate::store::DynamicStore;
use crate::workload::error::WorkloadError;
use crate::workload::loading::{self, Fill, store_keyed};
use crate::workload::resolve::Resolve;
use crate::workload::rows::{HasRows, in_transaction};

/// What an account begins with, in cents.
pub const INITIAL_BALANCE: i64 = 1_000_000;
/// Rows of a part, at most.
const PART_ROWS: u32 = 20_000;

/// A row of any of the three tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: i32,
    pub(crate) code: i64,
    pub(crate) balance: i64,
}

impl<R: Holder> Fill<R> for Row {
    fn fill(&self, row: &mut RowMut<'_, R>) {
        row.set(R::ID, self.id);
        row.set(R::CODE, self.code);
        row.set(R::BALANCE, self.balance);
    }
}

/// A table.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Branch,
    Teller,
    Account,
}

/// A part of the database: some ids of a table.
#[derive(Clone, Debug)]
struct Part {
    kind: Kind,
    ids: RangeInclusive<u32>,
}

/// The ids up to `count`, in parts.
fn ranges(count: u32) -> impl Iterator<Item = RangeInclusive<u32>> {
    let first = (1..=count).step_by(PART_ROWS as usize);
    first.map(move |first| first..=first.saturating_add(PART_ROWS - 1).min(count))
}

impl Part {
    /// The parts of the whole database, in the order they are stored.
    fn all(scale: Scale) -> Vec<Self> {
        let tables = [
            (Kind::Branch, scale.branches),
            (Kind::Teller, scale.tellers()),
            (Kind::Account, scale.accounts()),
        ];
        let parts = |(kind, count)| ranges(count).map(move |ids| Self { kind, ids });
        tables.into_iter().flat_map(parts).collect()
    }

    fn rows(&self, scale: Scale) -> Vec<Row> {
        let of_branch = INITIAL_BALANCE * i64::from(scale.accounts_per_branch);
        let row = |id: u32| Row {
            id: id as i32,
            code: code(scale.seed, id as i32),
            balance: match self.kind {
                Kind::Branch => of_branch,
                Kind::Teller => share(of_branch, id, scale),
                Kind::Account => INITIAL_BALANCE,
            },
        };
        self.ids.clone().map(row).collect()
    }
}

/// The rows of the initial database by table, in the order of their ids, generated on `threads` threads.
pub(crate) fn rows(scale: Scale, threads: usize) -> [Vec<Row>; 3] {
    let mut tables = [(); 3].map(|()| Vec::new());
    let generate = |part: &Part| (part.kind, part.rows(scale));
    threads::ordered_parallel(&Part::all(scale), threads, generate, |(kind, rows)| {
        tables[kind as usize].extend(rows);
    });
    tables
}

/// The rows in `store` by table, in the order of their ids.
///
/// # Errors
/// When the store does not hold the tables or refuses to be read.
pub(crate) fn stored_rows(store: &mut dyn DynamicStore) -> Result<[Vec<Row>; 3], WorkloadError> {
    let Handles { branch, teller, account } = Handles::resolve(store.schema())?;
    Ok(in_transaction(store, |store| {
        Ok::<_, Error>([branch.rows(store)?, teller.rows(store)?, account.rows(store)?])
    })?)
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

    /// All rows, in the order of their ids.
    fn rows(&self, mut store: &mut dyn DynamicStore) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        store.for_each_row(&self.table, |row| {
            let (id, code) = (row.get(R::ID), row.get(R::CODE));
            rows.push(Row { id, code, balance: row.get(R::BALANCE) });
        })?;
        rows.sort_unstable_by_key(|row| row.id);
        Ok(rows)
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
    let store_part = |store: &mut S, (kind, rows): &(Kind, Vec<Row>)| match kind {
        Kind::Branch => handles.branch.store(store, rows),
        Kind::Teller => handles.teller.store(store, rows),
        Kind::Account => handles.account.store(store, rows),
    };
    let generate = |part: &Part| (part.kind, part.rows(scale));
    loading::load_parts(store, &Part::all(scale), threads, generate, store_part, after_part)
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
            let table = part.kind as usize;
            for row in part.rows(scale) {
                ids[table] += 1;
                assert_eq!(row.id, ids[table], "in their order");
                sums[table] += row.balance;
            }
        }
        assert_eq!(ids, [7, 21, 70_000]);
        assert_eq!(sums, [70_000 * INITIAL_BALANCE; 3]);
    }
}
