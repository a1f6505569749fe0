//! `tombolo advise`: how many islands a workload should have, on this machine or on one that a file describes.
//!
//! Not here: measuring, fitting, choosing (lab `experiment/islands/advice/`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::value_parser;
use tombolo::IslandKey as _;
use tombolo_engine::islands::topology::Topology;
use tombolo_engine::{threads, trace};
use tombolo_lab::experiment::islands::advice::{self, Ground, Question, Subject};
use tombolo_lab::experiment::islands::deployments::{Callers, Effort, How};
use tombolo_lab::experiment::islands::traced::Workload;
use tombolo_lab::failure::Failure;
use tombolo_lab::model::Machine;
use tombolo_lab::report::{content_hash, terminal};
use tombolo_lab::settings::Setting;
use tombolo_lab::workload::microbenchmark::settings::SKEW;

use super::islands;
use crate::bar::Bar;
use crate::flags::{Flags, Scope};
use crate::output::{Output, result_header};

const EXAMPLES: &str = "\
Examples:
  tombolo advise rows --update 10 --multisite 20
  tombolo advise rows --read 10 --multisite 5 --verify
  tombolo advise rows --update 2 --machine docs/quad-socket.toml
  tombolo advise trace orders.trace --verify";

/// Callers for each core where they wait for the disk.
const CALLERS_ON_DISK: usize = 8;
/// Rows by default where loading waits for the disk.
const ROWS_ON_DISK: i32 = 20_000;
/// The most cores whose deployments are run here.
const CORES_MAX: usize = 64;

/// How popular rows are.
#[derive(Clone, Debug)]
struct OfRows;

impl Scope for OfRows {
    fn settings() -> &'static [&'static Setting] {
        const LIST: &[&Setting] = &[&SKEW];
        LIST
    }
}

/// Advise how many islands a workload should have: measures a few deployments, predicts the others
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The workload: rows, or trace, that of an application
    #[arg(value_parser = ["rows", "trace"])]
    workload: String,
    /// trace: the file that `Database::record_trace` wrote
    #[arg(required_if_eq("workload", "trace"))]
    file: Option<PathBuf>,
    /// rows: the share of multisite transactions, in percent: they use one row of their caller's island, and others of
    /// all [default: 20]
    #[arg(long, value_name = "PERCENT", value_parser = value_parser!(u64).range(0..=100))]
    multisite: Option<u64>,
    /// rows: rows of the database [default: 240000]
    #[arg(long, value_name = "R", value_parser = value_parser!(i32).range(1_000..))]
    rows: Option<i32>,
    #[command(flatten)]
    transactions: islands::TransactionArguments,
    /// rows: when answers leave: none (in memory), or group (on disk)
    #[arg(long, default_value = "none", value_parser = ["none", "group"])]
    durability: String,
    /// rows: where the databases of --durability group are made, and removed at the end [default: here]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// rows: callers of all islands together, each a thread [default: one for each core, 8 on disk]
    #[arg(long, value_name = "M", value_parser = value_parser!(u32).range(1..=1_024))]
    threads: Option<u32>,
    /// A TOML file that describes a machine and its costs; the model predicts for it instead of measuring here
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Measure all deployments, at several shares, and say how good prediction and choice were
    #[arg(long)]
    verify: bool,
    /// How long each point is measured in a round, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = value_parser!(u64).range(1..=600_000))]
    time_ms: u64,
    /// Rounds, of which the median counts
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    #[command(flatten)]
    flags: Flags<OfRows>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { verify, time_ms, rounds, ref flags, .. } = *arguments;
    arguments.refuse_others()?;
    let machine = arguments.machine.as_deref().map(read_machine).transpose()?;
    let traced = arguments.file.as_deref().map(read_trace).transpose()?;
    let is_durable = arguments.durability == "group";
    let rows = arguments.rows.unwrap_or(if is_durable { ROWS_ON_DISK } else { 240_000 });
    let (subject, multisite) = match &traced {
        Some((traced, _)) => {
            (Subject::Trace(traced, islands::open_replay), traced.multisite_percent())
        }
        None => {
            let access = arguments.transactions.access(rows, &flags.settings()?);
            (
                Subject::Rows(access, islands::open_rows_for_a_while),
                arguments.multisite.unwrap_or(20),
            )
        }
    };
    let effort = Effort {
        callers: Callers::Each(1),
        is_durable,
        how: How::default(),
        per_call: 1,
        time: Duration::from_millis(time_ms),
        rounds,
    };
    let of_workload = match &traced {
        Some((_, content)) => ("trace", content.as_str().into()),
        None => ("rows", rows.into()),
    };
    let header = result_header("advise", &flags.settings()?);
    let header = header.and(&[of_workload]).and(&[
        ("multisite", multisite.into()),
        ("time_ms", time_ms.into()),
        ("rounds", rounds.into()),
    ]);
    let callers = arguments.threads.map(|threads| threads as usize);
    let callers = callers.or(is_durable.then(|| CALLERS_ON_DISK * threads::available()));
    let header = match is_durable {
        true => header.and(&[("durability", "group".into()), ("callers", callers.into())]),
        false => header,
    };
    let ground = match &machine {
        Some(machine) => Ground::Model(machine),
        None => Ground::Here(Topology::of_machine().cores.len().clamp(1, CORES_MAX)),
    };
    let data = is_durable.then(|| arguments.data.as_deref().unwrap_or(Path::new(".")));
    let question = Question { subject, effort, callers, data, multisite, verify };
    let mut result = advice::advise(&question, ground, &mut Bar::default())?;
    if let Some(((traced, _), file)) = traced.as_ref().zip(arguments.file.as_deref()) {
        result.trace = Some(traced.summary(&file.display().to_string()));
    }
    Output::new(flags.json).result(&header.and(&result.about()), &result, terminal::advice)
}

impl Arguments {
    /// Refuses arguments of another workload.
    fn refuse_others(&self) -> Result<(), Failure> {
        let is_durable = self.durability == "group";
        if is_durable && self.machine.is_some() {
            let what = "--machine: the model knows no log on disk: leave --durability out";
            return Err(Failure::usage(what));
        }
        if !is_durable && self.data.is_some() {
            let what = "--data is for --durability group: give that, or leave it out";
            return Err(Failure::usage(what));
        }
        let of_rows = [
            ("--multisite", self.multisite.is_some()),
            ("--rows", self.rows.is_some()),
            ("--durability", is_durable),
            ("--threads", self.threads.is_some()),
        ];
        let of_rows = of_rows.into_iter().find_map(|(name, is_given)| is_given.then_some(name));
        let other = match &self.file {
            Some(file) if self.workload == "rows" => Some(file.display().to_string()),
            None => None,
            Some(_) => {
                let skew = || self.flags.is_given(&SKEW).then_some("--skew");
                of_rows.or_else(|| self.transactions.given()).or_else(skew).map(str::to_owned)
            }
        };
        let workload = &self.workload;
        other.map_or(Ok(()), |other| {
            Err(Failure::usage(format!("{other} is not for {workload}: leave it out")))
        })
    }
}

/// The trace in a file, and what identifies it.
fn read_trace(path: &Path) -> Result<(Workload, String), Failure> {
    let refuse = |what: &str| Failure::usage(format!("{}: {what}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| refuse(&error.to_string()))?;
    let trace = trace::read(&bytes).map_err(|damage| refuse(&damage.to_string()))?;
    let workload = Workload::new(trace, |key| key.spread());
    let workload = workload.map_err(|failure| refuse(&failure.to_string()))?;
    Ok((workload, content_hash(&bytes)))
}

fn read_machine(path: &Path) -> Result<Machine, Failure> {
    let usage = |what: &str| {
        Failure::usage(format!(
            "--machine {}: {what}: docs/quad-socket.toml is an example",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(path).map_err(|error| usage(&error.to_string()))?;
    let machine: Machine = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
        usage(&format!("line {line}: {}", error.message()))
    })?;
    machine.verify()?;
    Ok(machine)
}
