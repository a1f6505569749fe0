//! `tombolo islands`: arguments, and the text form of results.
//!
//! Not here: the library's side (`rows.rs`, `paged_rows.rs`, `tpcc/`), callers, inputs, figures (lab
//! `experiment/islands/`).

mod opening;
mod paged_rows;
mod processes;
mod replay;
mod rows;
mod tpcc;

#[cfg(test)]
mod tests;

use std::ops::Add;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::value_parser;
use tombolo::{Across, Error, IslandKey, Islands, OnIslands, Placement};
use tombolo_engine::clock::SystemClock;
use tombolo_engine::threads;
use tombolo_lab::experiment::islands::deployments::{Callers, Effort, How};
use tombolo_lab::experiment::islands::rows::{Access, Multisite, RowsDeployment};
use tombolo_lab::experiment::islands::tpcc::{Mix, TpccDeployment};
use tombolo_lab::experiment::islands::{rows as rows_lab, tpcc as tpcc_lab};
use tombolo_lab::failure::Failure;
use tombolo_lab::progress::Progress;
use tombolo_lab::report::{Header, terminal};
use tombolo_lab::settings::{POOL_BYTES, SEED, Setting, Settings};
use tombolo_lab::workload::microbenchmark::ROWS_MAX;
use tombolo_lab::workload::microbenchmark::settings::SKEW;
use tombolo_lab::workload::tpcc::loader::Scale;
use tombolo_lab::workload::tpcc::schema::WAREHOUSES_MAX;

use crate::bar::Bar;
use crate::flags::{Flags, Scope};
use crate::output::{self, Output, result_header};

use crate::library::failed;
use paged_rows::OnPages;
pub(super) use paged_rows::open_in_memory_files as open_paged_rows;
pub(super) use replay::open_in_memory as open_replay;
pub(super) use rows::{open_for_a_while as open_rows_for_a_while, open_in_memory as open_rows};
use tpcc::Tpcc;
pub(super) use tpcc::{open_in_memory as open_tpcc, open_in_memory_files as open_paged_tpcc};

const EXAMPLES: &str = "\
Examples:
  tombolo islands rows --update 10 --multisite 0,20,100
  tombolo islands rows --update 2 --islands 1,2 --durability group --data DIR
  tombolo islands rows --store paged --islands 1,2 --durability group --data DIR
  tombolo islands rows --update 2 --islands 2 --processes
  tombolo islands rows --store paged --processes --durability group --data DIR
  tombolo islands tpcc --mix payment --remote 0 --islands 1,2
  tombolo islands tpcc --store paged --durability group --data DIR
  tombolo islands tpcc --warehouses 8 --remote 0,default,50";

/// How popular rows are, and how much memory their pages have.
#[derive(Clone, Debug)]
struct OfIslands;

impl Scope for OfIslands {
    fn settings() -> &'static [&'static Setting] {
        const LIST: &[&Setting] = &[&SKEW, &POOL_BYTES];
        LIST
    }
}

/// Measure databases of one island or several, by the share of transactions that use rows of several
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The workload
    #[arg(value_parser = ["rows", "tpcc"])]
    workload: String,
    /// Numbers of islands
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2")]
    #[arg(value_parser = value_parser!(u16).range(1..=64))]
    islands: Vec<u16>,
    /// Callers of each island, each a thread
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_024))]
    threads: u32,
    #[command(flatten)]
    of_rows: RowsArguments,
    #[command(flatten)]
    of_tpcc: TpccArguments,
    /// Where rows are: memory, or paged: in pages on disk, with locks and latches
    #[arg(long, value_name = "STORE", default_value = "memory", value_parser = ["memory", "paged"])]
    store: String,
    /// When answers leave: none (in memory), or group (on disk)
    #[arg(long, default_value = "none", value_parser = ["none", "group"])]
    durability: String,
    /// A directory that does not exist yet, for the databases of --durability group
    #[arg(long, value_name = "DIR", required_if_eq("durability", "group"))]
    data: Option<PathBuf>,
    /// On which cores the threads and callers of an island run: os, spread, grouped, mix or islands
    #[arg(long, value_name = "HOW", default_value = "os", value_parser = placement)]
    placement: Placement,
    /// How transactions over several islands commit on disk: two-phase or ordered
    #[arg(long, value_name = "HOW", default_value = "two-phase", value_parser = ["two-phase", "ordered"])]
    commit: String,
    /// How long each point is measured in a round, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = value_parser!(u64).range(1..=600_000))]
    time_ms: u64,
    /// Rounds, in each of which every point is measured
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    #[command(flatten)]
    flags: Flags<OfIslands>,
}

/// What only `rows` has.
#[derive(Debug, clap::Args)]
struct RowsArguments {
    /// rows: shares of multisite transactions, in percent: they use one row of their caller's island, and others of all
    /// [default: 0,20,100]
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',')]
    #[arg(value_parser = value_parser!(u64).range(0..=100))]
    multisite: Option<Vec<u64>>,
    /// rows: instead of shares, further callers of each island whose transactions are all multisite; those of --threads
    /// are local (0: none)
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with = "multisite")]
    #[arg(value_parser = value_parser!(u64).range(0..=1_024))]
    multisite_callers: Option<Vec<u64>>,
    /// rows: rows of the database [default: 240000]
    #[arg(long, value_name = "R", value_parser = value_parser!(i32).range(1..))]
    rows: Option<i32>,
    /// rows: transactions over several islands that a caller commits in one call [default: 1]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1_024))]
    per_call: Option<u32>,
    /// rows: transactions over several islands are closures that reach islands as they go, instead of declared parts
    #[arg(long, conflicts_with_all = ["per_call", "processes"])]
    undeclared: bool,
    /// rows: each island in a process of its own, compared with the same islands in one process
    #[arg(long, conflicts_with_all = ["commit", "placement", "per_call"])]
    processes: bool,
    #[command(flatten)]
    transactions: TransactionArguments,
}

/// What only `tpcc` has.
#[derive(Debug, clap::Args)]
struct TpccArguments {
    /// tpcc: warehouses, 100 MB each [default: 4]
    #[arg(long, value_name = "W", value_parser = value_parser!(i32).range(1..=i64::from(WAREHOUSES_MAX)))]
    warehouses: Option<i32>,
    /// tpcc: transactions: standard (the specification's five), paper (New Order and Payment of one warehouse), or
    /// payment (the specification's Payments) [default: standard]
    #[arg(long, value_name = "MIX", value_parser = mix)]
    mix: Option<Mix>,
    /// tpcc: shares, in percent, of Payments of another warehouse's customer and of lines that another warehouse
    /// supplies; default is what the mix has [default: default]
    #[arg(long, value_name = "PERCENT|default,…", value_delimiter = ',', value_parser = share)]
    remote: Option<Vec<Share>>,
}

/// A share of remote customers and lines, in percent; none is the mix's own.
#[derive(Clone, Copy, Debug)]
struct Share(Option<u64>);

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
    /// An argument that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let read = self.read.map(|_| "--read");
        read.or(self.update.map(|_| "--update"))
    }

    /// What they do, in a database of so many rows.
    pub(super) fn access(self, rows: i32, settings: &Settings) -> Access {
        let touched = self.read.or(self.update).unwrap_or(10) as usize;
        let skew = settings.count(&SKEW) as u32;
        Access { rows, touched, is_update: self.read.is_none(), skew }
    }
}

impl RowsArguments {
    /// Which transactions are multisite, at each point.
    fn points(&self) -> Vec<Multisite> {
        match &self.multisite_callers {
            Some(callers) => callers.iter().map(|of| Multisite::Callers(*of as usize)).collect(),
            None => {
                let shares = self.multisite.as_deref().unwrap_or(&[0, 20, 100]);
                shares.iter().copied().map(Multisite::Percent).collect()
            }
        }
    }

    /// An argument that was given.
    fn given(&self) -> Option<&'static str> {
        let Self {
            multisite,
            multisite_callers,
            rows,
            per_call,
            undeclared,
            processes,
            transactions,
        } = self;
        [
            ("--multisite", multisite.is_some()),
            ("--multisite-callers", multisite_callers.is_some()),
            ("--rows", rows.is_some()),
            ("--per-call", per_call.is_some()),
            ("--undeclared", *undeclared),
            ("--processes", *processes),
            ("--read", transactions.read.is_some()),
            ("--update", transactions.update.is_some()),
        ]
        .into_iter()
        .find_map(|(name, is_given)| is_given.then_some(name))
    }
}

impl TpccArguments {
    /// An argument that was given.
    fn given(&self) -> Option<&'static str> {
        let Self { warehouses, mix, remote } = self;
        [
            ("--warehouses", warehouses.is_some()),
            ("--mix", mix.is_some()),
            ("--remote", remote.is_some()),
        ]
        .into_iter()
        .find_map(|(name, is_given)| is_given.then_some(name))
    }
}

fn placement(name: &str) -> Result<Placement, String> {
    Placement::named(name)
        .ok_or_else(|| format!("give one of {}", Placement::ALL.map(Placement::name).join(", ")))
}

fn mix(name: &str) -> Result<Mix, String> {
    Mix::find(name).ok_or_else(|| format!("give one of {}", Mix::NAMES.join(", ")))
}

fn share(text: &str) -> Result<Share, String> {
    let percent = || text.parse().ok().filter(|percent| *percent <= 100);
    match text {
        "default" => Ok(Share(None)),
        _ => percent()
            .map(|percent| Share(Some(percent)))
            .ok_or_else(|| "give a share from 0 to 100, or default".to_owned()),
    }
}

fn rows_of_a_transaction() -> clap::builder::RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=ROWS_MAX as i64)
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.of_rows.processes {
        // Before anything else: this process may be an island, which has other arguments.
        let store = arguments.store_of_processes()?;
        arguments.islands.iter().for_each(|islands| store.become_island(*islands));
    }
    if let Some(data) = arguments.data.as_ref().filter(|data| data.exists()) {
        return Err(Failure::usage(format!(
            "directory {} exists: give one that does not",
            data.display()
        )));
    }
    let is_rows = arguments.workload == "rows";
    let skew = || arguments.flags.is_given(&SKEW).then_some("--skew");
    let other = match is_rows {
        true => arguments.of_tpcc.given(),
        false => arguments.of_rows.given().or_else(skew),
    };
    if let Some(other) = other {
        let workload = &arguments.workload;
        return Err(Failure::usage(format!("{other} is not for {workload}: leave it out")));
    }
    if arguments.durability != "group" && arguments.data.is_some() {
        return Err(Failure::usage(
            "--data is for databases on disk: give --durability group, or leave it out",
        ));
    }
    arguments.refuse_for_pages()?;
    let (most, cores) = (arguments.islands.iter().max().copied(), threads::available());
    if let Some(islands) = most.filter(|islands| usize::from(*islands) > cores) {
        output::complain(&format!(
            "notice: {islands} islands share {cores} cores and wait for each other: as many islands as cores are \
             enough"
        ));
    }
    let effort = Effort {
        callers: Callers::Each(arguments.threads as usize),
        is_durable: arguments.durability == "group",
        how: arguments.how(),
        per_call: arguments.of_rows.per_call.unwrap_or(1) as usize,
        time: Duration::from_millis(arguments.time_ms),
        rounds: arguments.rounds,
    };
    if is_rows { arguments.run_rows(&effort) } else { arguments.run_tpcc(&effort) }
}

/// Runs the parts of one transaction, each with the island on which a key of `keys` is.
fn run_parts<I: Clone + Send + 'static, A: Send + 'static>(
    islands: &Islands,
    (procedure, keys): (&OnIslands<I, A>, &[impl IslandKey]),
    parts: &[(usize, I)],
) -> Result<(), Failure> {
    let ran = || {
        if let [(island, input)] = parts {
            return procedure.at(&keys[*island])?.call(input.clone()).map(drop);
        }
        put_together(islands, (procedure, keys), parts)?.commit().map(drop)
    };
    ran().map_err(failed)
}

/// The same as a transaction that has not run.
fn put_together<'d, I: Clone + Send + 'static, A: Send + 'static>(
    islands: &'d Islands,
    (procedure, keys): (&'d OnIslands<I, A>, &[impl IslandKey]),
    parts: &[(usize, I)],
) -> Result<Across<'d>, Error> {
    let mut across = islands.across();
    for (island, input) in parts {
        across.part(procedure, &keys[*island], input.clone())?;
    }
    Ok(across)
}

/// Rows of `rows` that one call loads: their log fits into that of a call.
const LOADED_AT_ONCE: usize = 100;

/// The first key of each island, of the keys up to `rows`.
fn first_keys(
    islands: usize,
    rows: i32,
    island_of: impl Fn(&i32) -> Result<usize, Error>,
) -> Result<Vec<i32>, Error> {
    let mut keys = vec![None; islands];
    for key in 1..=rows {
        keys[island_of(&key)?].get_or_insert(key);
    }
    Ok(keys.into_iter().map(Option::unwrap_or_default).collect())
}

/// What a procedure answers on each island, summed up.
fn sum_of_all<T: Add<Output = T> + Default + Send + 'static>(
    procedure: &OnIslands<(), (T, T)>,
    keys: &[impl IslandKey],
) -> Result<(T, T), Failure> {
    keys.iter().try_fold(Default::default(), |sum: (T, T), key| {
        let of = procedure.at(key).and_then(|procedure| procedure.call(())).map_err(failed)?;
        Ok((sum.0 + of.0, sum.1 + of.1))
    })
}

impl Arguments {
    /// Refuses what islands of paged stores have not, and what only they have.
    fn refuse_for_pages(&self) -> Result<(), Failure> {
        if self.store != "paged" && self.flags.is_given(&POOL_BYTES) {
            let what = "--pool-bytes is for rows in pages: give --store paged, or leave it out";
            return Err(Failure::usage(what));
        }
        let what = match self.store == "paged" {
            true if self.durability != "group" => {
                "paged stores are on disk: give --durability group and --data DIR"
            }
            true if self.commit == "ordered" => {
                "islands of paged stores commit by two-phase commit"
            }
            true if self.of_rows.per_call.is_some() => {
                "islands of paged stores commit one transaction at a time: leave --per-call out"
            }
            true if self.of_rows.undeclared => {
                "transactions over several islands of paged stores are closures: leave --undeclared out"
            }
            true if self.placement != Placement::Os => {
                "where islands of paged stores run, the system decides: leave --placement out"
            }
            _ => return Ok(()),
        };
        Err(Failure::usage(format!("--store paged: {what}")))
    }

    fn header(&self, of_workload: &[(&str, serde_json::Value)]) -> Result<Header, Failure> {
        let header = result_header("islands", &self.flags.settings()?);
        Ok(header.and(of_workload).and(&[
            ("time_ms", self.time_ms.into()),
            ("rounds", self.rounds.into()),
            ("placement", self.placement.name().into()),
            ("commit", self.commit.clone().into()),
            ("per_call", self.of_rows.per_call.into()),
        ]))
    }

    fn how(&self) -> How {
        let is_ordered = self.commit == "ordered";
        How { placement: self.placement, is_ordered, is_undeclared: self.of_rows.undeclared }
    }

    /// Where the rows of islands in processes are.
    fn store_of_processes(&self) -> Result<processes::Store, Failure> {
        let pool_bytes = self.flags.settings()?.number(&POOL_BYTES);
        let pool_bytes = pool_bytes.map_or(paged_rows::POOL_BYTES, |bytes| bytes as usize);
        Ok(match self.store == "paged" {
            true => processes::Store::Pages { pool_bytes },
            false => processes::Store::Memory,
        })
    }

    /// Where databases are, if they are not in memory.
    fn data(&self, effort: &Effort) -> Option<&Path> {
        self.data.as_deref().filter(|_| effort.is_durable)
    }

    /// Makes a database of each number of islands, and shows how far that is.
    fn load<D>(&self, open: impl Fn(&u16) -> Result<D, Failure>) -> Result<Vec<D>, Failure> {
        let mut bar = Bar::default();
        bar.begin("loading");
        let opened = self.islands.iter().enumerate().map(|(at, islands)| {
            let what =
                if *islands == 1 { "one island".into() } else { format!("{islands} islands") };
            bar.part(at as f64 / self.islands.len() as f64, &what);
            open(islands)
        });
        let opened = opened.collect();
        bar.end();
        opened
    }

    fn run_rows(&self, effort: &Effort) -> Result<(), Failure> {
        let rows = self.of_rows.rows.unwrap_or(240_000);
        let settings = self.flags.settings()?;
        let access = self.of_rows.transactions.access(rows, &settings);
        let pool_bytes = settings.number(&POOL_BYTES);
        let header = self.header(&[("rows", rows.into())])?;
        let (output, data) = (Output::new(self.flags.json), self.data(effort));
        let open = |islands: &u16| -> Result<Box<dyn RowsDeployment>, Failure> {
            match data.filter(|_| self.store == "paged") {
                Some(data) => Ok(Box::new(OnPages::open(*islands, rows, (data, pool_bytes))?)),
                None => Ok(Box::new(rows::Own::open(*islands, rows, self.how(), data)?)),
            }
        };
        let mut deployments = self.load(open)?;
        if self.of_rows.processes {
            let store = self.store_of_processes()?;
            deployments.extend(self.load(|islands| store.open(*islands, rows, data))?);
        }
        output.people(|style| {
            let verb = if access.is_update { "update" } else { "read" };
            let skew = match access.skew {
                0 => String::new(),
                skew => format!(", popular by Zipf's law with {}", f64::from(skew) / 100.0),
            };
            style.strong(&format!("transactions {verb} {} of {rows} rows{skew}\n", access.touched))
        })?;
        let points = (deployments.as_slice(), &*self.of_rows.points());
        rows_lab::measure(points, (&access, effort), &SystemClock::new(), |_, result| {
            output.result(&header, &result, terminal::deployment)
        })
    }

    fn run_tpcc(&self, effort: &Effort) -> Result<(), Failure> {
        let mix = self.of_tpcc.mix.unwrap_or(Mix::Standard);
        let warehouses = self.of_tpcc.warehouses.unwrap_or(4);
        let settings = self.flags.settings()?;
        let (seed, pool_bytes) = (settings.count(&SEED), settings.number(&POOL_BYTES));
        let scale = Scale { seed, warehouses, mix: mix.whole() };
        let header = self.header(&[])?;
        let (output, data) = (Output::new(self.flags.json), self.data(effort));
        let open = |islands: &u16| -> Result<Box<dyn TpccDeployment>, Failure> {
            match self.store == "paged" {
                true => Ok(Box::new(Tpcc::on_pages(*islands, scale, (data, pool_bytes))?)),
                false => Ok(Box::new(Tpcc::in_memory(*islands, scale, self.how(), data)?)),
            }
        };
        let deployments = self.load(open)?;
        output.people(|style| {
            style.strong(&format!("TPC-C, mix {}, {warehouses} warehouses\n", mix.name()))
        })?;
        let remote = self.of_tpcc.remote.as_deref().unwrap_or(&[Share(None)]);
        let remote: Vec<_> = remote.iter().map(|share| share.0).collect();
        let points = (deployments.as_slice(), remote.as_slice());
        let what = (scale, mix, effort);
        tpcc_lab::measure(points, what, &SystemClock::new(), |result| {
            output.result(&header, &result, terminal::deployment)
        })
    }
}
