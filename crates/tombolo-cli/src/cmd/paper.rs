//! `tombolo paper`: a paper's figures and tables, its numbers next to ours.

use std::fmt::Write as _;
use std::time::Duration;

use tombolo_lab::experiment::looking_glass::figures::Figure;
use tombolo_lab::experiment::looking_glass::reproduce;
use tombolo_lab::experiment::looking_glass::result::Headed;
use tombolo_lab::experiment::tpk::table::{self, Table, TablePlan};
use tombolo_lab::failure::Failure;
use tombolo_lab::host::Host;
use tombolo_lab::report::listed::Listed;
use tombolo_lab::report::{Header, dissection};

use super::BUILD;
use super::dissect::{DissectSettings, header};
use crate::bar::Bar;
use crate::flags::Flags;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  tombolo paper                                list what can be reproduced
  tombolo paper lg/fig5                        Payment, component by component
  tombolo paper lg/fig1 lg/throughput --json   several from one run, for scripts
  tombolo paper lg/fig7 --warehouses 1         on a smaller database, sooner
  tombolo paper tpk/table1 tpk/breakdown       debit-credit on one processor and on several";

/// How long a terminal takes, in microseconds, where nothing else is said: the least of the paper's.
const TERMINAL_US: u64 = 500;

/// List a paper's figures and tables, or reproduce them: paper, ours, ratio, caveat
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The figures; without any, those there are
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// For tpk/…: how long a terminal takes for a transaction, and for its answer, in microseconds;
    /// 500 if it is not said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=10_000))]
    terminal_us: Option<u64>,
    /// Let files lie on a file system that keeps nothing
    #[arg(long)]
    volatile_ok: bool,
    #[command(flatten)]
    flags: Flags<DissectSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let output = Output::new(arguments.flags.json);
    if arguments.ids.is_empty() {
        return list(output);
    }
    let tables: Vec<Table> = arguments.ids.iter().filter_map(|id| Table::find(id)).collect();
    let figures = arguments.ids.iter().filter(|id| Table::find(id).is_none());
    let figures: Vec<Figure> = figures.map(|id| reproduce::find(id)).collect::<Result<_, _>>()?;
    if arguments.terminal_us.is_some() && tables.is_empty() {
        return Err(Failure::usage(
            "--terminal-us is of tpk/table1 and tpk/breakdown: leave it out",
        ));
    }
    if !figures.is_empty() {
        show_figures(arguments, &figures, output)?;
    }
    if tables.is_empty() { Ok(()) } else { show_tables(arguments, &tables, output) }
}

fn show_figures(arguments: &Arguments, figures: &[Figure], output: Output) -> Result<(), Failure> {
    let mut plan = reproduce::plan(&arguments.flags.settings()?, figures)?;
    plan.volatile_ok = arguments.volatile_ok;
    let (_, reproductions) = reproduce::reproduce(&plan, figures, &mut Bar::default())?;
    for found in reproductions {
        let result = Headed { header: header("paper", &plan.settings, plan.scope), found };
        output.result(&result, |result, _| {
            dissection::reproduction(&result.found, output.canvas())
        })?;
    }
    Ok(())
}

fn show_tables(arguments: &Arguments, tables: &[Table], output: Output) -> Result<(), Failure> {
    let terminal_us = arguments.terminal_us.unwrap_or(TERMINAL_US);
    let settings = arguments.flags.settings()?;
    let mut plan = TablePlan::new(&settings, Duration::from_micros(terminal_us))?;
    plan.volatile_ok = arguments.volatile_ok;
    for found in table::reproduce(&plan, tables, &mut Bar::default())? {
        let header = Header::new("paper", BUILD, &plan.settings, &Host::read());
        let header = header.and(&[("terminal_us", terminal_us.into())]);
        output.result(&Headed { header, found }, |result, _| {
            dissection::reproduction(&result.found, output.canvas())
        })?;
    }
    Ok(())
}

/// Everything that can be reproduced: name and title.
fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let figures = Figure::ALL.into_iter().map(|figure| (figure.id(), figure.title()));
    figures.chain(Table::ALL.into_iter().map(|table| (table.id(), table.title())))
}

fn list(output: Output) -> Result<(), Failure> {
    output.people(|style| {
        let mut text = String::new();
        for (id, title) in all() {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "  {id:<15} {}", style.faint(title));
        }
        text
    })?;
    for (id, title) in all() {
        let [command, version, commit, id, title] =
            ["paper", BUILD.version, BUILD.commit, id, title].map(str::to_owned);
        let listed = Listed { command, version, commit, id, title };
        output.result(&listed, |_, _| String::new())?;
    }
    Ok(())
}
