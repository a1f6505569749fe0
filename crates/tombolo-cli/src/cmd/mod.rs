//! The commands: their arguments and their functions, one file per command.
//!
//! A command or flag that is only planned is an error like any other unknown one.

mod advise;
mod calls;
mod check;
mod checkpoint_process;
mod compare;
mod count;
mod demo;
mod dissect;
mod dump;
mod inspect;
mod islands;
mod machine;
mod paper;
mod recover;
mod repartition;
mod report;
mod run;
mod settings;
mod verify;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use tombolo_lab::failure::Failure;
use tombolo_lab::workload::{self, WORKLOADS, Workload, WorkloadInfo, tpcc};

const EXAMPLES: &str = "\
Examples:
  tombolo demo                                          see what it can do, in three minutes
  tombolo dissect tpcc --warehouses 1                   what each part of an engine costs
  tombolo run tpcc --warehouses 5 --seconds 5           run a benchmark, verified
  tombolo run tpcc --sweep profile=bare,memory --json   compare settings, for scripts";

/// A main-memory OLTP database that shows what each of its parts costs.
#[derive(Debug, Parser)]
#[command(name = "tombolo", version, after_help = EXAMPLES, disable_help_subcommand = true)]
#[command(subcommand_required = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    Check(check::Arguments),
    Dump(dump::Arguments),
    Inspect(inspect::Arguments),
    Verify(verify::Arguments),
    Recover(recover::Arguments),
    Repartition(repartition::Arguments),
    Settings(settings::Arguments),
    Compare(compare::Arguments),
    Demo(demo::Arguments),
    Dissect(dissect::Arguments),
    Paper(paper::Arguments),
    Report(report::Arguments),
    Topology(machine::TopologyArguments),
    Counters(machine::CountersArguments),
    Links(machine::LinksArguments),
    Islands(islands::Arguments),
    Advise(advise::Arguments),
    #[command(name = tombolo_lab::run::counting::CHILD_COMMAND, hide = true)]
    Count(count::Arguments),
    #[command(name = tombolo_lab::compare::calls::CHILD_COMMAND, hide = true)]
    CountCalls(calls::Arguments),
    #[command(name = tombolo_lab::machine::links::CHILD_COMMAND, hide = true)]
    LinkEnd(machine::EndArguments),
    #[command(name = tombolo_lab::drive::checkpoint_process::CHILD_COMMAND, hide = true)]
    CheckpointProcess(checkpoint_process::Arguments),
}

/// Runs the requested command.
pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Recover(arguments) => recover::run(&arguments),
        Command::Repartition(arguments) => repartition::run(&arguments),
        Command::Settings(arguments) => settings::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Dissect(arguments) => dissect::run(&arguments),
        Command::Paper(arguments) => paper::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Topology(arguments) => machine::topology(&arguments),
        Command::Counters(arguments) => machine::counters(&arguments),
        Command::Links(arguments) => machine::links(&arguments),
        Command::Islands(arguments) => islands::run(&arguments),
        Command::Advise(arguments) => advise::run(&arguments),
        Command::LinkEnd(arguments) => machine::end(&arguments),
        Command::Count(arguments) => count::run(&arguments),
        Command::CountCalls(arguments) => calls::run(&arguments),
        Command::CheckpointProcess(arguments) => checkpoint_process::run(&arguments),
    }
}

/// The directories of an image besides its database's own directory.
#[derive(Debug, clap::Args)]
struct ImageDirectories {
    /// Another directory of the checkpoint image; repeat it, in the order with which the database was
    /// created (the library's checkpoint_directories)
    #[arg(long = "checkpoint-directory", value_name = "DIR")]
    directories: Vec<PathBuf>,
}

impl ImageDirectories {
    /// The database's `own` directory, followed by these.
    fn all_with<'d>(&'d self, own: &'d Path) -> Vec<&'d Path> {
        let further = self.directories.iter().map(PathBuf::as_path);
        [own].into_iter().chain(further).collect()
    }

    fn is_given(&self) -> bool {
        !self.directories.is_empty()
    }
}

/// The workload called `name`.
fn workload(name: &str) -> Result<&'static WorkloadInfo, Failure> {
    workload::find(name).ok_or_else(|| {
        let known: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
        Failure::usage(format!("there is no workload {name}: use {}", known.join(", ")))
    })
}

/// Refuses a workload that a command does not support.
fn verify_tpcc(name: &str) -> Result<(), Failure> {
    match workload(name)?.name {
        tpcc::loader::Scale::NAME => Ok(()),
        _ => Err(Failure::usage(format!("{name} is not taken apart so far: use tpcc"))),
    }
}
