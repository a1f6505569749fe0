//! `tombolo advise`: how many islands a workload should have, on this machine or on one that a file describes.
//!
//! Not here: measuring, fitting, choosing (lab `experiment/islands/advice.rs`).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::value_parser;
use tombolo_engine::islands::topology::Topology;
use tombolo_lab::experiment::islands::advice::{self, AdviceResult, Ground, Question};
use tombolo_lab::experiment::islands::deployments::Effort;
use tombolo_lab::failure::Failure;
use tombolo_lab::model::Machine;
use tombolo_lab::report::quantity;

use super::islands;
use crate::bar::Bar;
use crate::flags::{Flags, NoSettings};
use crate::output::{Output, result_header};

const EXAMPLES: &str = "\
Examples:
  tombolo advise rows --update 10 --multisite 20
  tombolo advise rows --read 10 --multisite 5 --verify
  tombolo advise rows --update 2 --machine docs/quad-socket.toml";

/// The most cores whose deployments are run here.
const CORES_MAX: usize = 64;

/// Advise how many islands a workload should have: measures a few deployments, predicts the others
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The workload: rows
    #[arg(value_parser = ["rows"])]
    workload: String,
    /// The share of multisite transactions, in percent: they use one row of their caller's island, and others of all
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = value_parser!(u64).range(0..=100))]
    multisite: u64,
    /// Rows of the database
    #[arg(long, value_name = "R", default_value_t = 240_000, value_parser = value_parser!(i32).range(1_000..))]
    rows: i32,
    #[command(flatten)]
    transactions: islands::TransactionArguments,
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
    flags: Flags<NoSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { multisite, rows, verify, time_ms, rounds, ref flags, .. } = *arguments;
    let machine = arguments.machine.as_deref().map(read_machine).transpose()?;
    let access = arguments.transactions.access(rows);
    let effort = Effort {
        callers: 1,
        is_durable: false,
        is_ordered: false,
        placement: Default::default(),
        time: Duration::from_millis(time_ms),
        rounds,
    };
    let header = result_header("advise", &flags.settings()?).and(&[
        ("rows", rows.into()),
        ("multisite", multisite.into()),
        ("time_ms", time_ms.into()),
        ("rounds", rounds.into()),
    ]);
    let ground = match &machine {
        Some(machine) => Ground::Model(machine),
        None => {
            let cores = Topology::of_machine().cores.len().clamp(1, CORES_MAX);
            Ground::Here(islands::open_rows, cores)
        }
    };
    let question = Question { access, effort, multisite, verify };
    let result = advice::advise(header, &question, ground, &mut Bar::default())?;
    Output::new(flags.json).result(&result, |result, _| text(result))
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

fn text(result: &AdviceResult) -> String {
    let mut text = format!(
        "{} rows, {} % multisite, on {} ({})\n",
        result.kind,
        result.multisite_percent,
        result.machine,
        result.source.name()
    );
    let at_hand =
        result.points.iter().filter(|of| of.multisite_percent == result.multisite_percent);
    // Writing into a string cannot fail.
    for of in at_hand {
        let measured = of
            .measured_tps
            .map_or(String::new(), |tps| format!("  measured {:>10} /s", quantity(tps)));
        let _ = writeln!(
            text,
            "{:>4} islands × {:>3} threads  predicted {:>10} /s{measured}",
            of.islands,
            of.threads,
            quantity(of.predicted_tps)
        );
    }
    let chosen = result.chosen;
    let _ = writeln!(
        text,
        "use {} islands × {} threads: {} /s; at worst, if every transaction is multisite, {} /s",
        chosen.islands,
        chosen.threads,
        quantity(chosen.predicted_tps),
        quantity(chosen.worst_case_tps)
    );
    if let (Some(error), Some(behind)) =
        (result.prediction_error_percent, result.within_best_percent)
    {
        let _ = writeln!(
            text,
            "predictions differ from what was measured by {error} % (median); the choice is {behind} % behind the best"
        );
    }
    text
}
