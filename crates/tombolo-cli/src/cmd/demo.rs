//! `tombolo demo`: a tour for new users, end to end.
//!
//! Loads, runs in memory and durably, verifies, counts the cost of each component and presents the results;
//! every figure it prints is measured while it runs.

use std::fs;
use std::path::{Path, PathBuf};

use tombolo_lab::demo::{self, Demonstration};
use tombolo_lab::experiment::looking_glass::dissect;
use tombolo_lab::failure::Failure;
use tombolo_lab::host::Host;
use tombolo_lab::report::demo as text;
use tombolo_lab::settings::{SEED, Setting};

use super::dissect::{header, write_page};
use super::run::{self, run_one};
use crate::bar::Bar;
use crate::flags::{Flags, Scope};
use crate::output::{self, Output};

/// A demonstration has no settings but its seed.
#[derive(Clone, Debug)]
pub(super) struct DemoSettings;

impl Scope for DemoSettings {
    fn settings() -> &'static [&'static Setting] {
        const LIST: &[&Setting] = &[&SEED];
        LIST
    }
}

const EXAMPLES: &str = "\
Examples:
  tombolo demo
  tombolo demo --out /tmp/tombolo-demo

It takes at most three minutes on two cores and leaves a database, the results and report.html in a
directory that must be new or empty.";

/// Load, run, verify and dissect a benchmark, and present the results
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Write everything into this directory, which must be new or empty
    #[arg(long, value_name = "DIR", default_value = "tombolo-demo")]
    out: PathBuf,
    #[command(flatten)]
    flags: Flags<DemoSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let base = arguments.flags.settings()?;
    let output = Output::new(arguments.flags.json);
    let directory = arguments.out.as_path();
    demo::make_directory(directory)?;
    let demonstration = Demonstration::new(&base, directory)?;
    output.people(|style| text::opening(&Host::read(), directory, style))?;
    let mut results = Vec::new();
    for (step, settings, plan) in &demonstration.runs {
        let (result, failure) = run_one(plan)?;
        let header = run::header(settings, plan);
        output.result(&header, &result, |result, style| text::step(step, result, style))?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        results.push(output::json(&header, &result)?);
    }
    let plan = &demonstration.dissection;
    let found = dissect::dissect(plan, &mut Bar::default())?;
    let header = header("dissect", &plan.settings, plan.scope);
    output.result(&header, &found, |found, _| text::dissection(found, output.canvas()))?;
    results.push(output::json(&header, &found)?);
    write(&directory.join(demo::RESULTS), &results)?;
    write_page(&directory.join(demo::PAGE), &results)?;
    let program = std::env::args().next().unwrap_or_else(|| "tombolo".to_owned());
    output.people(|style| text::closing(&program, directory, style))
}

/// One object a line.
fn write(path: &Path, results: &[String]) -> Result<(), Failure> {
    fs::write(path, results.join("\n") + "\n").map_err(|error| {
        let path = path.display();
        Failure::environment(format!("{path} cannot be written: {error}: give another --out"))
    })
}
