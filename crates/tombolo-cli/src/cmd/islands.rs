//! `tombolo islands`: the library's side of the deployments that the laboratory measures.
//!
//! Not here: callers, inputs, figures (lab `experiment/islands/deployments.rs`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::value_parser;
use tombolo::{Database, Error, Islands, OnIslands, Placement};
use tombolo_engine::clock::SystemClock;
use tombolo_lab::experiment::islands::deployments::{self, Deployment, DeploymentResult, Effort};
use tombolo_lab::failure::Failure;
use tombolo_lab::report::quantity;
use tombolo_lab::workload::microbenchmark::ROWS_MAX;
use tombolo_lab::workload::microbenchmark::input::Input;
use tombolo_lab::workload::microbenchmark::schema::{Item, ItemKey};
use tombolo_lab::workload::microbenchmark::transaction::Transactions;

use super::check::NoSettings;
use super::result_header;
use crate::flags::Flags;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  tombolo islands rows --update 10 --multisite 0,20,100
  tombolo islands rows --update 2 --islands 1,2 --durability group --data DIR";

/// Measure databases of one island or several, by the share of transactions that use rows of several
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The workload: rows
    #[arg(value_parser = ["rows"])]
    workload: String,
    /// Numbers of islands
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2")]
    #[arg(value_parser = value_parser!(u16).range(1..=64))]
    islands: Vec<u16>,
    /// Callers of each island, each a thread
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_024))]
    threads: u32,
    /// Shares of multisite transactions, in percent: they use one row of their caller's island, and others of all
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', default_value = "0,20,100")]
    #[arg(value_parser = value_parser!(u64).range(0..=100))]
    multisite: Vec<u64>,
    /// Rows of the database
    #[arg(long, value_name = "R", default_value_t = 240_000, value_parser = value_parser!(i32).range(1..))]
    rows: i32,
    #[command(flatten)]
    transactions: TransactionArguments,
    /// When answers leave: none (in memory), or group (on disk)
    #[arg(long, default_value = "none", value_parser = ["none", "group"])]
    durability: String,
    /// A directory that does not exist yet, for the databases of --durability group
    #[arg(long, value_name = "DIR", required_if_eq("durability", "group"))]
    data: Option<PathBuf>,
    /// On which cores the threads and callers of an island run: os, spread, grouped, mix or islands
    #[arg(long, value_name = "HOW", default_value = "os", value_parser = placement)]
    placement: Placement,
    /// How long each point is measured in a round, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = value_parser!(u64).range(1..=600_000))]
    time_ms: u64,
    /// Rounds, in each of which every point is measured
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    #[command(flatten)]
    flags: Flags<NoSettings>,
}

/// What transactions do.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct TransactionArguments {
    /// Rows that a transaction reads
    #[arg(long, value_name = "N", conflicts_with = "update", value_parser = rows_of_a_transaction())]
    read: Option<u32>,
    /// Rows that a transaction updates (10 if it neither reads nor updates any)
    #[arg(long, value_name = "N", value_parser = rows_of_a_transaction())]
    update: Option<u32>,
}

impl TransactionArguments {
    /// How many rows a transaction uses, and whether it updates them.
    pub(super) fn touched(self) -> (usize, bool) {
        (self.read.or(self.update).unwrap_or(10) as usize, self.read.is_none())
    }
}

fn placement(name: &str) -> Result<Placement, String> {
    Placement::named(name)
        .ok_or_else(|| format!("give one of {}", Placement::ALL.map(Placement::name).join(", ")))
}

fn rows_of_a_transaction() -> clap::builder::RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=ROWS_MAX as i64)
}

fn failed(error: Error) -> Failure {
    Failure::check(format!("the library failed: {error}"))
}

/// A database of islands, opened by the library.
struct Own {
    islands: Islands,
    /// A key of each island.
    keys: Vec<i32>,
    transaction: OnIslands<Input, i64>,
    load: OnIslands<Vec<i32>, ()>,
    total: OnIslands<(), (i64, i64)>,
}

impl Own {
    /// Opens one in memory, or in a directory of its own below `data`.
    fn open(
        islands: u16,
        rows: i32,
        placement: Placement,
        data: Option<&Path>,
    ) -> Result<Self, Failure> {
        let builder = Database::builder().table(deployments::table()).islands(islands.into());
        let builder = builder.placement(placement);
        let opened = match data {
            Some(data) => builder.open(data.join(format!("islands-{islands}"))),
            None => builder.in_memory(),
        };
        let islands = opened.map_err(|error| Failure::environment(error.to_string()))?;
        Self::register(islands, rows).map_err(failed)
    }

    fn register(islands: Islands, rows: i32) -> Result<Self, Error> {
        let (items, by_key) = (islands.table::<Item>()?, islands.index::<ItemKey>()?);
        let transaction = islands.register::<Transactions>()?;
        let load = islands.register_closure("load", move |tx, keys: &Vec<i32>| {
            for &key in keys {
                if tx.lookup(&by_key, key)?.is_none() {
                    tx.insert(&items, |row| row.set(Item::KEY, key))?;
                }
            }
            Ok(())
        });
        let total = islands.register_closure("total", move |tx, (): &()| {
            let (mut updates, mut rows) = (0, 0);
            for (_, item) in tx.iter_table(&items)? {
                (updates, rows) = (updates + item.get(Item::UPDATES), rows + 1);
            }
            Ok((updates, rows))
        });
        let mut keys = vec![None; islands.islands()];
        for key in 1..=rows {
            keys[islands.island_of(&key)?].get_or_insert(key);
        }
        let keys = keys.into_iter().map(Option::unwrap_or_default).collect();
        Ok(Self { islands, keys, transaction, load, total })
    }

    /// Runs the parts of one transaction.
    fn run(&self, parts: &[(usize, Input)]) -> Result<(), Error> {
        if let [(island, input)] = parts {
            return self.transaction.at(&self.keys[*island])?.call(*input).map(drop);
        }
        let mut across = self.islands.across();
        for (island, input) in parts {
            across.part(&self.transaction, &self.keys[*island], *input)?;
        }
        across.commit().map(drop)
    }
}

/// Rows that one call loads: their log fits into that of a call.
const LOADED_AT_ONCE: usize = 100;

impl Deployment for Own {
    fn islands(&self) -> usize {
        self.islands.islands()
    }

    fn island_of(&self, key: i32) -> Result<usize, Failure> {
        self.islands.island_of(&key).map_err(failed)
    }

    fn bind_caller(&self, island: usize) -> Result<(), Failure> {
        self.islands.bind_thread(island).map_err(failed)
    }

    fn load(&self, keys: std::ops::RangeInclusive<i32>) -> Result<(), Failure> {
        let mut of = vec![Vec::new(); self.islands()];
        for key in keys {
            of[self.island_of(key)?].push(key);
        }
        for keys in of {
            let mut pending = Vec::new();
            for keys in keys.chunks(LOADED_AT_ONCE) {
                let on = self.load.at(&keys[0]).map_err(failed)?;
                pending.push(on.submit(keys.to_vec()).map_err(failed)?);
            }
            pending.into_iter().try_for_each(|call| call.wait()).map_err(failed)?;
        }
        Ok(())
    }

    fn call(&self, parts: &[(usize, Input)]) -> Result<(), Failure> {
        self.run(parts).map_err(failed)
    }

    fn total(&self) -> Result<(i64, i64), Failure> {
        let of = self.keys.iter().map(|key| self.total.at(key)?.call(()));
        let of = of.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        Ok(of.into_iter().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1)))
    }
}

/// A database of islands in memory, for the keys from 1 to `rows`.
pub(super) fn open_in_memory(islands: u16, rows: i32) -> Result<Box<dyn Deployment>, Failure> {
    Ok(Box::new(Own::open(islands, rows, Placement::Os, None)?))
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { threads, rows, time_ms, rounds, ref flags, .. } = *arguments;
    if let Some(data) = arguments.data.as_ref().filter(|data| data.exists()) {
        return Err(Failure::usage(format!(
            "directory {} exists: give one that does not",
            data.display()
        )));
    }
    let (touched, is_update) = arguments.transactions.touched();
    let effort = Effort {
        rows,
        touched,
        is_update,
        callers: threads as usize,
        is_durable: arguments.durability == "group",
        placement: arguments.placement,
        time: Duration::from_millis(time_ms),
        rounds,
    };
    let header = result_header("islands", &flags.settings()?).and(&[
        ("rows", rows.into()),
        ("time_ms", time_ms.into()),
        ("rounds", rounds.into()),
        ("placement", arguments.placement.name().into()),
    ]);
    let output = Output::new(flags.json);
    let data = arguments.data.as_deref().filter(|_| effort.is_durable);
    let deployments = arguments.islands.iter().map(|islands| {
        Own::open(*islands, rows, effort.placement, data)
            .map(|own| Box::new(own) as Box<dyn Deployment>)
    });
    let deployments = deployments.collect::<Result<Vec<_>, _>>()?;
    output.people(|style| {
        let verb = if effort.is_update { "update" } else { "read" };
        style.strong(&format!("transactions {verb} {touched} of {rows} rows\n"))
    })?;
    let points = (deployments.as_slice(), arguments.multisite.as_slice());
    deployments::measure(&header, points, &effort, &SystemClock::new(), |result| {
        output.result(&result, |result, _| line(result))
    })
}

fn line(result: &DeploymentResult) -> String {
    let p99 = result.latency_us.map_or(f64::NAN, |us| us.p99);
    format!(
        "{:>3} islands × {} callers  {:>3} % multisite  {:>10} k/s  CPU {:>8} µs  99 % within {:>8} µs\n",
        result.islands,
        result.threads,
        result.multisite_percent,
        quantity(result.tps / 1e3),
        quantity(result.us_per_transaction_cpu),
        quantity(p99),
    )
}
