//! `tombolo paper`: a paper's figures and tables, its numbers beside ours.

use std::fmt::Write as _;

use serde::Serialize;
use tombolo_lab::experiment::looking_glass::figures::Figure;
use tombolo_lab::experiment::looking_glass::reproduce;
use tombolo_lab::experiment::looking_glass::result::Headed;
use tombolo_lab::failure::Failure;
use tombolo_lab::report::dissection;

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
  tombolo paper lg/fig7 --warehouses 1         on a smaller database, sooner";

/// List a paper's figures and tables, or reproduce them: paper, ours, ratio, caveat
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The figures; without any, those there are
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Let files lie on a file system that keeps nothing
    #[arg(long)]
    volatile_ok: bool,
    #[command(flatten)]
    flags: Flags<DissectSettings>,
}

/// A figure that can be reproduced.
#[derive(Serialize)]
struct Listed {
    command: &'static str,
    version: &'static str,
    commit: &'static str,
    id: &'static str,
    title: &'static str,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let output = Output::new(arguments.flags.json);
    if arguments.ids.is_empty() {
        return list(output);
    }
    let figures: Vec<Figure> =
        arguments.ids.iter().map(|id| reproduce::find(id)).collect::<Result<_, _>>()?;
    let mut plan = reproduce::plan(&arguments.flags.settings()?, &figures)?;
    plan.volatile_ok = arguments.volatile_ok;
    let (_, reproductions) = reproduce::reproduce(&plan, &figures, &mut Bar::default())?;
    for found in reproductions {
        let result = Headed { header: header("paper", &plan.settings, plan.scope), found };
        output.result(&result, |result, _| {
            dissection::reproduction(&result.found, output.canvas())
        })?;
    }
    Ok(())
}

fn list(output: Output) -> Result<(), Failure> {
    output.people(|style| {
        let mut text = String::new();
        for figure in Figure::ALL {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "  {:<15} {}", figure.id(), style.faint(figure.title()));
        }
        text
    })?;
    for figure in Figure::ALL {
        let (id, title) = (figure.id(), figure.title());
        let listed =
            Listed { command: "paper", version: BUILD.version, commit: BUILD.commit, id, title };
        output.result(&listed, |_, _| String::new())?;
    }
    Ok(())
}
