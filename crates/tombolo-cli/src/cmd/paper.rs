//! `tombolo paper`: a paper's figures and tables, with its numbers next to ours.

use std::fmt::Write as _;
use std::time::Duration;

use tombolo_lab::experiment::{self, PAPERS, Reproducible, Wanted};
use tombolo_lab::failure::Failure;
use tombolo_lab::report::listed::Listed;
use tombolo_lab::report::{Header, dissection};

use super::dissect::DissectSettings;
use super::islands;
use crate::bar::Bar;
use crate::flags::Flags;
use crate::output::{Output, result_header};

const EXAMPLES: &str = "\
Examples:
  tombolo paper                                list what can be reproduced
  tombolo paper lg/fig5                        Payment, component by component
  tombolo paper lg/fig1 lg/throughput --json   several from one run, for scripts
  tombolo paper lg/fig7 --warehouses 1         on a smaller database, sooner
  tombolo paper tpk/table1 tpk/breakdown       debit-credit on one processor and on several
  tombolo paper isl/table1 isl/fig6            what this machine's cores and processes share
  tombolo paper isl/fig9 isl/fig10             islands and multisite transactions, modelled and measured";

/// List a paper's figures and tables, or reproduce them: paper, ours, ratio, caveat
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The figures and tables; if omitted, lists them all
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// For tpk/…: the time of a terminal for a transaction, and for its answer, in microseconds
    /// [default: 500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=10_000))]
    terminal_us: Option<u64>,
    /// Allow files on a volatile file system (tmpfs)
    #[arg(long)]
    volatile_ok: bool,
    #[command(flatten)]
    flags: Flags<DissectSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let output = Output::new(arguments.flags.json);
    let ids = &arguments.ids;
    if ids.is_empty() {
        let settings = arguments.flags.settings()?;
        return list(output, &result_header("paper", &settings));
    }
    experiment::verify(ids)?;
    // The requested figures of each paper.
    let asked = PAPERS.each_ref().map(|paper| {
        let is_of_it = |id: &&str| paper.items.iter().any(|item| item.id == *id);
        (paper, ids.iter().map(String::as_str).filter(is_of_it).collect::<Vec<_>>())
    });
    let has_terminals = asked.iter().any(|(paper, ids)| paper.has_terminals && !ids.is_empty());
    if arguments.terminal_us.is_some() && !has_terminals {
        return Err(Failure::usage(
            "--terminal-us is for tpk/table1 and tpk/breakdown: leave it out",
        ));
    }
    let wanted = Wanted {
        settings: arguments.flags.settings()?,
        volatile_ok: arguments.volatile_ok,
        terminal: arguments.terminal_us.map(Duration::from_micros),
        open_islands: (islands::open_rows, islands::open_tpcc),
        open_paged_islands: (islands::open_paged_rows, islands::open_paged_tpcc),
    };
    for (paper, ids) in asked.into_iter().filter(|(_, ids)| !ids.is_empty()) {
        let reproduced = (paper.reproduce)(&ids, &wanted, &mut Bar::default())?;
        let header = result_header("paper", &reproduced.settings);
        let header = header.and(&reproduced.header);
        for found in reproduced.found {
            output.result(&header, &found, |found, _| {
                dissection::reproduction(found, output.canvas())
            })?;
        }
    }
    Ok(())
}

fn list(output: Output, header: &Header) -> Result<(), Failure> {
    output.people(|style| {
        let mut text = String::new();
        for Reproducible { id, title } in experiment::items() {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "  {id:<15} {}", style.faint(title));
        }
        text
    })?;
    for Reproducible { id, title } in experiment::items() {
        let listed = Listed { id: id.to_owned(), title: title.to_owned() };
        output.result(header, &listed, |_, _| String::new())?;
    }
    Ok(())
}
