//! `tombolo islands rows --processes`: the workload `rows` on islands that are processes of their own.
//!
//! Each is this program, started again with the arguments that lead to the same place. Not here: callers, inputs,
//! figures (lab `experiment/islands/rows.rs`), islands of one process (`rows.rs`).

use std::path::Path;
use std::time::Duration;

use tombolo::{Database, IslandProcedure, IslandProcesses};
use tombolo_lab::experiment::islands::deployments::{Called, Deployment};
use tombolo_lab::experiment::islands::rows::{self, Parts, RowsDeployment};
use tombolo_lab::failure::Failure;
use tombolo_lab::workload::microbenchmark::input::Input;
use tombolo_lab::workload::microbenchmark::schema::{Item, ItemKey};
use tombolo_lab::workload::microbenchmark::transaction::Transactions;

use super::{LOADED_AT_ONCE, failed, first_keys};

/// The system's unit of a process's time, in milliseconds.
const TICK_MS: u64 = 10;

/// A database of processes, opened by the library.
struct OfProcesses {
    islands: IslandProcesses,
    /// A key of each island.
    keys: Vec<i32>,
    transaction: IslandProcedure<Input, i64>,
    load: IslandProcedure<Vec<i32>, ()>,
    total: IslandProcedure<(), (i64, i64)>,
}

/// Opens one in memory, or in a directory of its own below `data`.
pub(super) fn open(
    islands: u16,
    rows: i32,
    data: Option<&Path>,
) -> Result<Box<dyn RowsDeployment>, Failure> {
    // Without a directory: an island's process receives its own.
    let own = ["islands", "rows", "--processes", "--islands"];
    let arguments = own.map(str::to_owned).into_iter().chain([islands.to_string()]);
    let builder = Database::builder().table(rows::table()).islands(islands.into());
    let mut builder = builder.processes().arguments(arguments);
    let transaction = builder.procedure::<Transactions>();
    let load = builder.closure(
        "load",
        |island| Ok((island.table::<Item>()?, island.index::<ItemKey>()?)),
        |tx, (items, by_key), keys: &Vec<i32>| {
            for &key in keys {
                if tx.lookup(by_key, key)?.is_none() {
                    tx.insert(items, |row| row.set(Item::KEY, key))?;
                }
            }
            Ok(())
        },
    );
    let total = builder.closure(
        "total",
        |island| island.table::<Item>(),
        |tx, items, (): &()| {
            let (mut updates, mut rows) = (0, 0);
            for (_, item) in tx.iter_table(items)? {
                (updates, rows) = (updates + item.get(Item::UPDATES), rows + 1);
            }
            Ok((updates, rows))
        },
    );
    let opened = match data {
        Some(data) => builder.open(data.join(format!("processes-{islands}"))),
        None => builder.in_memory(),
    };
    let islands = opened.map_err(|error| Failure::environment(error.to_string()))?;
    let keys = first_keys(islands.islands(), rows, |key| islands.island_of(key)).map_err(failed)?;
    Ok(Box::new(OfProcesses { islands, keys, transaction, load, total }))
}

/// The time that a process of the system has used.
fn cpu_of(process: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may have blanks; the times are the twelfth and the thirteenth field behind it.
    let (_, behind) = text.rsplit_once(')')?;
    let ticks = behind.split_ascii_whitespace().skip(11).take(2).map(str::parse::<u64>);
    Some(Duration::from_millis(ticks.sum::<Result<u64, _>>().ok()? * TICK_MS))
}

impl Deployment for OfProcesses {
    type Transaction = Parts;

    fn islands(&self) -> usize {
        self.islands.islands()
    }

    fn is_of_processes(&self) -> bool {
        true
    }

    fn cpu_elsewhere(&self) -> Duration {
        let processes = (0..self.islands()).filter_map(|island| self.islands.process_of(island));
        processes.filter_map(cpu_of).sum()
    }

    fn bind_caller(&self, _: usize) -> Result<(), Failure> {
        Ok(())
    }

    fn call(&self, parts: &Parts) -> Result<Called, Failure> {
        let ran = || {
            if let [(island, input)] = &**parts {
                return self.islands.call(&self.transaction, &self.keys[*island], input).map(drop);
            }
            let mut across = self.islands.across();
            for (island, input) in parts {
                across.part(&self.transaction, &self.keys[*island], input)?;
            }
            across.commit().map(drop)
        };
        ran().map_err(failed)?;
        Ok(Called { has_committed: true, is_distributed: parts.len() > 1 })
    }
}

impl RowsDeployment for OfProcesses {
    fn island_of(&self, key: i32) -> Result<usize, Failure> {
        self.islands.island_of(&key).map_err(failed)
    }

    fn load(&self, keys: std::ops::RangeInclusive<i32>) -> Result<(), Failure> {
        let of = self.by_island(keys)?;
        let mut chunks = of.iter().flat_map(|keys| keys.chunks(LOADED_AT_ONCE));
        let load = |keys: &[i32]| self.islands.call(&self.load, &keys[0], &keys.to_vec());
        chunks.try_for_each(load).map_err(failed)
    }

    fn total(&self) -> Result<(i64, i64), Failure> {
        let of = |key| self.islands.call(&self.total, key, &());
        let all = self.keys.iter().map(of).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        Ok(all.into_iter().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1)))
    }
}
