//! `tombolo demo`: the main job, end to end, for someone who sees it the first time.
//!
//! Loads, runs, verifies, counts and shows; every figure it prints is measured while it runs.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;
use tombolo_engine::settings::{SEED, Setting};
use tombolo_lab::demo::{self, STEPS};
use tombolo_lab::dump_files::DumpDirectory;
use tombolo_lab::failure::Failure;
use tombolo_lab::host::Host;
use tombolo_lab::report::demo as text;
use tombolo_lab::report::run::RunResult;
use tombolo_lab::run::Plan;

use super::run::run_one;
use crate::flags::{Flags, Scope};
use crate::output::{self, Output};

/// A demonstration is the same for everyone but for its seed.
#[derive(Clone, Debug)]
pub(super) struct DemoSettings;

impl Scope for DemoSettings {
    const SETTINGS: &'static [&'static Setting] = &[&SEED];
}

const EXAMPLES: &str = "\
Examples:
  tombolo demo
  tombolo demo --out /tmp/tombolo-demo";

/// Where the results go.
const RESULTS: &str = "results.jsonl";

/// Load, run, verify and count a benchmark, and show what it says
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Write the results into this directory
    #[arg(long, value_name = "DIR", default_value = "tombolo-demo")]
    out: PathBuf,
    #[command(flatten)]
    flags: Flags<DemoSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let base = arguments.flags.settings()?;
    let output = Output::new(arguments.flags.json);
    let directory = DumpDirectory::create(arguments.out.clone(), "--out")?;
    let steps = demo::settings_of_steps(&base)?;
    let plans: Vec<Plan> = steps.iter().map(Plan::new).collect::<Result<_, _>>()?;
    plans.iter().try_for_each(Plan::verify_machine)?;
    output.people(|style| text::opening(&Host::read(), style))?;
    let mut results: Vec<RunResult> = Vec::new();
    for ((step, settings), plan) in STEPS.iter().zip(&steps).zip(&plans) {
        let (result, failure) = run_one(settings, plan, None)?;
        output.result(&result, |result, style| text::step(step, result, style))?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        results.push(result);
    }
    demo::verify_states(&results)?;
    output.people(|style| text::comparison(&results, style))?;
    let program = std::env::args().next().unwrap_or_else(|| "tombolo".to_owned());
    write_results(directory.path().join(RESULTS), &results)?;
    output.people(|style| text::closing(&program, &directory.path().join(RESULTS), style))
}

/// One object a line.
fn write_results<T: Serialize>(path: PathBuf, results: &[T]) -> Result<(), Failure> {
    let mut lines = String::new();
    for result in results {
        lines.push_str(&output::json(result)?);
        lines.push('\n');
    }
    fs::write(&path, lines).map_err(|error| {
        let path = path.display();
        Failure::environment(format!("{path} cannot be written: {error}: give another --out"))
    })
}
