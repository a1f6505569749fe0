//! `tombolo islands rows`: the library's side of the workload `rows` on databases of islands.
//!
//! Not here: callers, inputs, figures (lab `experiment/islands/rows.rs`), arguments.

use std::path::Path;

use tombolo::{Database, Error, Index, Islands, OnIslands, Stop, Table, Tx};
use tombolo_lab::experiment::islands::deployments::{Called, Deployment, How};
use tombolo_lab::experiment::islands::rows::{self, Parts, RowsDeployment};
use tombolo_lab::failure::Failure;
use tombolo_lab::files::{Medium, WorkDirectory};
use tombolo_lab::workload::WorkloadInput as _;
use tombolo_lab::workload::microbenchmark::UPDATE;
use tombolo_lab::workload::microbenchmark::input::Input;
use tombolo_lab::workload::microbenchmark::schema::{Item, ItemKey};
use tombolo_lab::workload::microbenchmark::transaction::{NO_SUCH_KEY, Transactions};

use super::opening::opened_so;
use super::{LOADED_AT_ONCE, first_keys, put_together, run_parts, sum_of_all};
use crate::library::failed;

/// A database of islands, opened by the library.
pub(super) struct Own {
    islands: Islands,
    /// A key of each island.
    keys: Vec<i32>,
    items: Table<Item>,
    by_key: Index<ItemKey>,
    transaction: OnIslands<Input, i64>,
    /// Whether transactions over several islands are closures.
    is_undeclared: bool,
    load: OnIslands<Vec<i32>, ()>,
    total: OnIslands<(), (i64, i64)>,
    /// Where its files are, if they go with it.
    _files: Option<WorkDirectory>,
}

impl Own {
    /// Opens one in memory, or in a directory of its own below `data`.
    pub(super) fn open(
        islands: u16,
        rows: i32,
        how: How,
        data: Option<&Path>,
    ) -> Result<Self, Failure> {
        let builder = Database::builder().table(rows::table()).islands(islands.into());
        let builder = opened_so(builder, how);
        let opened = match data {
            Some(data) => builder.open(data.join(format!("islands-{islands}"))),
            None => builder.in_memory(),
        };
        let islands = opened.map_err(|error| Failure::environment(error.to_string()))?;
        Self::register(islands, rows, how.is_undeclared).map_err(failed)
    }

    fn register(islands: Islands, rows: i32, is_undeclared: bool) -> Result<Self, Error> {
        let (items, by_key) = (islands.table::<Item>()?, islands.index::<ItemKey>()?);
        let transaction = islands.register::<Transactions>()?;
        let load = islands.register_closure("load", move |tx, keys: &Vec<i32>| {
            load_some(tx, (&items, &by_key), keys)
        });
        let total = islands.register_closure("total", move |tx, (): &()| total_of(tx, &items));
        let keys = first_keys(islands.islands(), rows, |key| islands.island_of(key))?;
        Ok(Self {
            islands,
            keys,
            items,
            by_key,
            transaction,
            is_undeclared,
            load,
            total,
            _files: None,
        })
    }
}

/// One part of a closure; the sum of the counters that were found.
fn run_part(
    tx: &mut Tx<'_>,
    (items, by_key): (&Table<Item>, &Index<ItemKey>),
    input: &Input,
) -> Result<i64, Stop> {
    input.keys().iter().try_fold(0, |sum, &key| {
        let row = tx.lookup(by_key, key)?.ok_or(Stop::Abort(NO_SUCH_KEY))?;
        let updates = tx.get(items, row)?.get(Item::UPDATES);
        if input.kind() == UPDATE {
            tx.set(items, row, Item::UPDATES, updates + 1)?;
        }
        Ok(sum + updates)
    })
}

/// Makes the rows of some keys that have none.
pub(super) fn load_some(
    tx: &mut Tx<'_>,
    (items, by_key): (&Table<Item>, &Index<ItemKey>),
    keys: &[i32],
) -> Result<(), Stop> {
    for &key in keys {
        if tx.lookup(by_key, key)?.is_none() {
            tx.insert(items, |row| row.set(Item::KEY, key))?;
        }
    }
    Ok(())
}

/// The sum of all counters of an island, and its rows.
pub(super) fn total_of(tx: &mut Tx<'_>, items: &Table<Item>) -> Result<(i64, i64), Stop> {
    let (mut updates, mut rows) = (0, 0);
    for (_, item) in tx.iter_table(items)? {
        (updates, rows) = (updates + item.get(Item::UPDATES), rows + 1);
    }
    Ok((updates, rows))
}

impl Deployment for Own {
    type Transaction = Parts;

    fn islands(&self) -> usize {
        self.islands.islands()
    }

    fn bind_caller(&self, island: usize) -> Result<(), Failure> {
        self.islands.bind_thread(island).map_err(failed)
    }

    fn call(&self, parts: &Parts) -> Result<Called, Failure> {
        if self.is_undeclared && parts.len() > 1 {
            let handles = (&self.items, &self.by_key);
            let summed = self.islands.transaction(|tx| {
                parts.iter().try_fold(0, |sum, (island, input)| {
                    Ok(sum + tx.at(&self.keys[*island], |tx| run_part(tx, handles, input))?)
                })
            });
            summed.map_err(failed)?;
        } else {
            run_parts(&self.islands, (&self.transaction, &self.keys), parts)?;
        }
        Ok(Called { has_committed: true, is_distributed: parts.len() > 1 })
    }

    fn shares_calls(&self, parts: &Parts) -> bool {
        parts.len() > 1
    }

    fn call_all(&self, transactions: &[&Parts]) -> Result<Vec<Called>, Failure> {
        let across =
            |parts: &&Parts| put_together(&self.islands, (&self.transaction, &self.keys), parts);
        let transactions = transactions.iter().map(across).collect::<Result<Vec<_>, _>>();
        let ended = self.islands.commit_all(transactions.map_err(failed)?).into_iter();
        let called = |_| Called { has_committed: true, is_distributed: true };
        ended.map(|ended| ended.map(called).map_err(failed)).collect()
    }
}

impl RowsDeployment for Own {
    fn island_of(&self, key: i32) -> Result<usize, Failure> {
        self.islands.island_of(&key).map_err(failed)
    }

    fn load(&self, keys: std::ops::RangeInclusive<i32>) -> Result<(), Failure> {
        for keys in self.by_island(keys)? {
            let mut pending = Vec::new();
            for keys in keys.chunks(LOADED_AT_ONCE) {
                let on = self.load.at(&keys[0]).map_err(failed)?;
                pending.push(on.submit(keys.to_vec()).map_err(failed)?);
            }
            pending.into_iter().try_for_each(|call| call.wait()).map_err(failed)?;
        }
        Ok(())
    }

    fn total(&self) -> Result<(i64, i64), Failure> {
        sum_of_all(&self.total, &self.keys)
    }
}

/// A database of islands in memory, or with files below `data` that go with it, for the keys from 1 to `rows`.
pub(in crate::cmd) fn open_for_a_while(
    islands: u16,
    rows: i32,
    how: How,
    data: Option<&Path>,
) -> Result<Box<dyn RowsDeployment>, Failure> {
    let files = data.map(|data| WorkDirectory::create(data, Medium::Lasting)).transpose()?;
    let opened = Own::open(islands, rows, how, files.as_ref().map(WorkDirectory::path))?;
    Ok(Box::new(Own { _files: files, ..opened }))
}

/// A database of islands in memory, for the keys from 1 to `rows`.
pub(in crate::cmd) fn open_in_memory(
    islands: u16,
    rows: i32,
) -> Result<Box<dyn RowsDeployment>, Failure> {
    Ok(Box::new(Own::open(islands, rows, How::default(), None)?))
}
