//! `tombolo islands rows --store paged`: the workload `rows` on islands of paged stores.
//!
//! A transaction of one island is one of its paged database, another one a closure over all its islands; both lock
//! rows for the change that they announce. Not here: callers, inputs, figures (lab `experiment/islands/rows.rs`),
//! arguments, islands of memory stores (`rows.rs`).

use std::path::Path;

use tombolo::{Database, Error, Index, PagedIslands, PagedTx, Stop, Table};
use tombolo_lab::experiment::islands::deployments::{Called, Deployment};
use tombolo_lab::experiment::islands::rows::{self, Parts, RowsDeployment};
use tombolo_lab::failure::Failure;
use tombolo_lab::files::WorkDirectory;
use tombolo_lab::workload::WorkloadInput as _;
use tombolo_lab::workload::microbenchmark::UPDATE;
use tombolo_lab::workload::microbenchmark::input::Input;
use tombolo_lab::workload::microbenchmark::schema::{Item, ItemKey};
use tombolo_lab::workload::microbenchmark::transaction::NO_SUCH_KEY;

use super::opening::files_in_memory;
use super::{LOADED_AT_ONCE, first_keys};
use crate::library::failed;

/// A database of islands on pages, opened by the library.
pub(super) struct OnPages {
    islands: PagedIslands,
    /// A key of each island.
    keys: Vec<i32>,
    items: Table<Item>,
    by_key: Index<ItemKey>,
    /// Where its files are, if they go with it.
    _files: Option<WorkDirectory>,
}

/// Bytes of memory for pages, unless others are given: all rows stay there.
pub(super) const POOL_BYTES: usize = 512 << 20;

impl OnPages {
    /// Opens one in a directory of its own below `data`, with so much memory for pages of all islands.
    pub(super) fn open(
        islands: u16,
        rows: i32,
        (data, pool_bytes): (&Path, Option<u64>),
    ) -> Result<Self, Failure> {
        let pool_bytes = pool_bytes.map_or(POOL_BYTES, |bytes| bytes as usize);
        let builder = Database::builder().table(rows::table()).paged().pool_bytes(pool_bytes);
        let opened =
            builder.islands(islands.into()).open(data.join(format!("paged-islands-{islands}")));
        let islands = opened.map_err(|error| Failure::environment(error.to_string()))?;
        Self::with(islands, rows).map_err(failed)
    }

    /// Of an open database.
    fn with(islands: PagedIslands, rows: i32) -> Result<Self, Error> {
        let keys = first_keys(islands.islands(), rows, |key| islands.island_of(key))?;
        let (items, by_key) = (islands.table()?, islands.index()?);
        Ok(Self { islands, keys, items, by_key, _files: None })
    }
}

/// One part of a transaction; the sum of the counters that were found.
pub(super) fn run_part(
    tx: &mut PagedTx<'_>,
    (items, by_key): (&Table<Item>, &Index<ItemKey>),
    input: &Input,
) -> Result<i64, Stop> {
    let is_update = input.kind() == UPDATE;
    input.keys().iter().try_fold(0, |sum, &key| {
        let found = match is_update {
            true => tx.lookup_for_update(by_key, key)?,
            false => tx.lookup(by_key, key)?,
        };
        let row = found.ok_or(Stop::Abort(NO_SUCH_KEY))?;
        let updates = tx.get(items, row)?.get(Item::UPDATES);
        if is_update {
            tx.set(items, row, Item::UPDATES, updates + 1)?;
        }
        Ok(sum + updates)
    })
}

/// Makes the rows of some keys that have none.
pub(super) fn load_some(
    tx: &mut PagedTx<'_>,
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
pub(super) fn total_of(tx: &mut PagedTx<'_>, items: &Table<Item>) -> Result<(i64, i64), Stop> {
    tx.rows(items)?.into_iter().try_fold((0, 0), |(updates, rows), row| {
        Ok((updates + tx.get(items, row)?.get(Item::UPDATES), rows + 1))
    })
}

impl Deployment for OnPages {
    type Transaction = Parts;

    fn islands(&self) -> usize {
        self.islands.islands()
    }

    fn is_paged(&self) -> bool {
        true
    }

    fn bind_caller(&self, _: usize) -> Result<(), Failure> {
        Ok(())
    }

    fn call(&self, parts: &Parts) -> Result<Called, Failure> {
        let handles = (&self.items, &self.by_key);
        let ran = match &parts[..] {
            [(island, input)] => self
                .islands
                .at(&self.keys[*island])
                .and_then(|island| island.transaction(|tx| run_part(tx, handles, input))),
            parts => self.islands.transaction(|tx| {
                parts.iter().try_fold(0, |sum, (island, input)| {
                    Ok(sum + tx.at(&self.keys[*island], |tx| run_part(tx, handles, input))?)
                })
            }),
        };
        ran.map_err(failed)?;
        Ok(Called { has_committed: true, is_distributed: parts.len() > 1 })
    }
}

impl RowsDeployment for OnPages {
    fn island_of(&self, key: i32) -> Result<usize, Failure> {
        self.islands.island_of(&key).map_err(failed)
    }

    fn load(&self, keys: std::ops::RangeInclusive<i32>) -> Result<(), Failure> {
        for keys in self.by_island(keys)? {
            for some in keys.chunks(LOADED_AT_ONCE) {
                let island = self.islands.at(&some[0]).map_err(failed)?;
                let load = |tx: &mut PagedTx<'_>| load_some(tx, (&self.items, &self.by_key), some);
                island.transaction(load).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn total(&self) -> Result<(i64, i64), Failure> {
        let summed = self.islands.read(|tx| {
            self.keys.iter().try_fold((0, 0), |sum, key| {
                let of = tx.at(key, |tx| total_of(tx, &self.items))?;
                Ok((sum.0 + of.0, sum.1 + of.1))
            })
        });
        summed.map_err(failed)
    }
}

/// A database of islands whose files are in memory, for the keys from 1 to `rows`.
pub(in crate::cmd) fn open_in_memory_files(
    islands: u16,
    rows: i32,
) -> Result<Box<dyn RowsDeployment>, Failure> {
    let files = files_in_memory()?;
    let opened = OnPages::open(islands, rows, (files.path(), None))?;
    Ok(Box::new(OnPages { _files: Some(files), ..opened }))
}
