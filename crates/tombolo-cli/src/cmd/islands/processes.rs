//! `tombolo islands rows --processes`: the workload `rows` on islands that are processes of their own, of either store.
//!
//! Each is this program, started again with the arguments that lead to the same place. Not here: callers, inputs,
//! figures (lab `experiment/islands/rows.rs`), islands of one process (`rows.rs`, `paged_rows.rs`).

use std::path::Path;
use std::time::Duration;

use tombolo::procedure::Arguments;
use tombolo::{
    Database, Error, IslandProcedure, IslandProcesses, PagedIslandProcesses, PagedProcessesBuilder,
    ProcessesBuilder,
};
use tombolo_lab::experiment::islands::deployments::{Called, Deployment};
use tombolo_lab::experiment::islands::rows::{self, Parts, RowsDeployment};
use tombolo_lab::failure::Failure;
use tombolo_lab::workload::microbenchmark::input::Input;
use tombolo_lab::workload::microbenchmark::schema::{Item, ItemKey};
use tombolo_lab::workload::microbenchmark::transaction::Transactions;

use super::{LOADED_AT_ONCE, failed, first_keys, paged_rows as on_pages, rows as in_memory};

/// The system's unit of a process's time, in milliseconds.
const TICK_MS: u64 = 10;

/// Where the rows of islands are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Store {
    Memory,
    /// In pages, with so much memory for those of all islands.
    Pages {
        pool_bytes: usize,
    },
}

impl Store {
    /// In the process of an island, is that island and does not return.
    pub(super) fn become_island(self, islands: u16) {
        match self {
            Self::Memory => drop(in_memory_stores(islands).0.become_island()),
            Self::Pages { pool_bytes } => drop(paged_stores(islands, pool_bytes).0.become_island()),
        }
    }

    /// Opens a database in memory, or in a directory of its own below `data`.
    pub(super) fn open(
        self,
        islands: u16,
        rows: i32,
        data: Option<&Path>,
    ) -> Result<Box<dyn RowsDeployment>, Failure> {
        match (self, data) {
            (Self::Memory, data) => {
                let (builder, procedures) = in_memory_stores(islands);
                let opened = match data {
                    Some(data) => builder.open(data.join(format!("processes-{islands}"))),
                    None => builder.in_memory(),
                };
                of_processes(opened.map(Islands::InMemory), rows, procedures)
            }
            (Self::Pages { .. }, None) => Err(Failure::usage("paged stores are on disk")),
            (Self::Pages { pool_bytes }, Some(data)) => {
                let (builder, procedures) = paged_stores(islands, pool_bytes);
                let opened = builder.open(data.join(format!("paged-processes-{islands}")));
                of_processes(opened.map(Islands::OnPages), rows, procedures)
            }
        }
    }
}

/// What runs on islands.
struct Procedures {
    transaction: IslandProcedure<Input, i64>,
    load: IslandProcedure<Vec<i32>, ()>,
    total: IslandProcedure<(), (i64, i64)>,
}

/// The arguments of an island's process. Without a directory: it receives its own.
fn arguments(islands: u16) -> Vec<String> {
    let own = ["islands", "rows", "--processes", "--islands", &islands.to_string()];
    own.map(str::to_owned).to_vec()
}

fn in_memory_stores(islands: u16) -> (ProcessesBuilder, Procedures) {
    let builder = Database::builder().table(rows::table()).islands(islands.into());
    let mut builder = builder.processes().arguments(arguments(islands));
    let transaction = builder.procedure::<Transactions>();
    let load = builder.closure(
        "load",
        |island| Ok((island.table::<Item>()?, island.index::<ItemKey>()?)),
        |tx, (items, by_key), keys: &Vec<i32>| in_memory::load_some(tx, (items, by_key), keys),
    );
    let total = builder.closure(
        "total",
        |island| island.table::<Item>(),
        |tx, items, (): &()| in_memory::total_of(tx, items),
    );
    (builder, Procedures { transaction, load, total })
}

fn paged_stores(islands: u16, pool_bytes: usize) -> (PagedProcessesBuilder, Procedures) {
    let builder = Database::builder().table(rows::table()).paged().pool_bytes(pool_bytes);
    let of_pages = ["--store", "paged", "--pool-bytes", &pool_bytes.to_string()];
    let arguments = arguments(islands).into_iter().chain(of_pages.map(str::to_owned));
    let mut builder = builder.islands(islands.into()).processes().arguments(arguments);
    let transaction = builder.closure(
        "transaction",
        |island| Ok((island.table::<Item>()?, island.index::<ItemKey>()?)),
        |tx, (items, by_key), input: &Input| on_pages::run_part(tx, (items, by_key), input),
    );
    let load = builder.closure(
        "load",
        |island| Ok((island.table::<Item>()?, island.index::<ItemKey>()?)),
        |tx, (items, by_key), keys: &Vec<i32>| on_pages::load_some(tx, (items, by_key), keys),
    );
    let total = builder.closure(
        "total",
        |island| island.table::<Item>(),
        |tx, items, (): &()| on_pages::total_of(tx, items),
    );
    (builder, Procedures { transaction, load, total })
}

/// A database of processes, opened by the library.
enum Islands {
    InMemory(IslandProcesses),
    OnPages(PagedIslandProcesses),
}

impl Islands {
    fn islands(&self) -> usize {
        match self {
            Self::InMemory(islands) => islands.islands(),
            Self::OnPages(islands) => islands.islands(),
        }
    }

    fn island_of(&self, key: i32) -> Result<usize, Error> {
        match self {
            Self::InMemory(islands) => islands.island_of(&key),
            Self::OnPages(islands) => islands.island_of(&key),
        }
    }

    fn process_of(&self, island: usize) -> Option<u32> {
        match self {
            Self::InMemory(islands) => islands.process_of(island),
            Self::OnPages(islands) => islands.process_of(island),
        }
    }

    fn call<I: Arguments, A: Arguments>(
        &self,
        procedure: &IslandProcedure<I, A>,
        key: i32,
        input: &I,
    ) -> Result<A, Error> {
        match self {
            Self::InMemory(islands) => islands.call(procedure, &key, input),
            Self::OnPages(islands) => islands.call(procedure, &key, input),
        }
    }
}

/// Such a database and what runs on it.
struct OfProcesses {
    islands: Islands,
    /// A key of each island.
    keys: Vec<i32>,
    procedures: Procedures,
}

fn of_processes(
    opened: Result<Islands, Error>,
    rows: i32,
    procedures: Procedures,
) -> Result<Box<dyn RowsDeployment>, Failure> {
    let islands = opened.map_err(|error| Failure::environment(error.to_string()))?;
    let keys = first_keys(islands.islands(), rows, |key| islands.island_of(*key));
    Ok(Box::new(OfProcesses { islands, keys: keys.map_err(failed)?, procedures }))
}

impl OfProcesses {
    /// Runs the parts of one transaction.
    fn run(&self, parts: &Parts) -> Result<(), Error> {
        let transaction = &self.procedures.transaction;
        if let [(island, input)] = &**parts {
            return self.islands.call(transaction, self.keys[*island], input).map(drop);
        }
        match &self.islands {
            Islands::InMemory(islands) => {
                let mut across = islands.across();
                for (island, input) in parts {
                    across.part(transaction, &self.keys[*island], input)?;
                }
                across.commit().map(drop)
            }
            Islands::OnPages(islands) => islands.transaction(|tx| {
                parts.iter().try_for_each(|(island, input)| {
                    tx.run(transaction, &self.keys[*island], input).map(drop)
                })
            }),
        }
    }
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

    fn is_paged(&self) -> bool {
        matches!(self.islands, Islands::OnPages(_))
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
        self.run(parts).map_err(failed)?;
        Ok(Called { has_committed: true, is_distributed: parts.len() > 1 })
    }
}

impl RowsDeployment for OfProcesses {
    fn island_of(&self, key: i32) -> Result<usize, Failure> {
        self.islands.island_of(key).map_err(failed)
    }

    fn load(&self, keys: std::ops::RangeInclusive<i32>) -> Result<(), Failure> {
        let of = self.by_island(keys)?;
        let mut chunks = of.iter().flat_map(|keys| keys.chunks(LOADED_AT_ONCE));
        let load = |keys: &[i32]| self.islands.call(&self.procedures.load, keys[0], &keys.to_vec());
        chunks.try_for_each(load).map_err(failed)
    }

    fn total(&self) -> Result<(i64, i64), Failure> {
        let of = |key: &i32| self.islands.call(&self.procedures.total, *key, &());
        let all = self.keys.iter().map(of).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        Ok(all.into_iter().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1)))
    }
}
