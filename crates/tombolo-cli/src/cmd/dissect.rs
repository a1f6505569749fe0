//! `tombolo dissect`: the cost of each component of the engine.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use tombolo_lab::experiment::looking_glass::dissect;
use tombolo_lab::experiment::looking_glass::ladder::{self, Ladder};
use tombolo_lab::experiment::looking_glass::paper::Switch;
use tombolo_lab::experiment::looking_glass::plan::{DissectPlan, Scope};
use tombolo_lab::failure::Failure;
use tombolo_lab::report::{Header, dissection, html};
use tombolo_lab::settings::{self, Setting, Settings};

use super::verify_tpcc;
use crate::bar::Bar;
use crate::flags::{self, Flags};
use crate::output::{self, Output, result_header};

/// The settings of a dissection, which chooses profiles and transactions itself.
#[derive(Clone, Debug)]
pub(super) struct DissectSettings;

impl flags::Scope for DissectSettings {
    fn settings() -> &'static [&'static Setting] {
        const LIST: &[&Setting] = &[
            &settings::WAREHOUSES,
            &settings::TRANSACTIONS,
            &settings::ROUNDS,
            &settings::COUNTER,
            &settings::COUNTED,
            &settings::REPEAT,
            &settings::DURABILITY,
            &settings::DATA,
            &settings::POOL_BYTES,
            &settings::LOG_BUFFER_BYTES,
            &settings::LOAD_THREADS,
            &settings::MEMORY_LIMIT,
            &settings::SEED,
        ];
        LIST
    }
    const DEFAULTS: &'static [(&'static Setting, &'static str)] =
        &[(&settings::TRANSACTIONS, "40k"), (&settings::COUNTER, "auto")];
}

const EXAMPLES: &str = "\
Examples:
  tombolo dissect tpcc                                   the paper's ladder, rung by rung
  tombolo dissect tpcc --warehouses 1 --only locking     one switch, quickly
  tombolo dissect tpcc --lattice --html report.html      costs regardless of the order, as a page
  tombolo dissect tpcc --ladder product --counter none   the product's ladder, times only

Every profile runs the same transactions and must produce the same rows. Databases are loaded once
per layout into a directory under --data (here by default), which is removed at the end.";

/// Measure the cost of each component of the engine
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The workload: tpcc
    workload: String,
    /// The order in which components are removed: paper, reverse-locks (latching before locking), or
    /// added: product (from the bare store up to the product)
    #[arg(long, value_name = "NAME", default_value = "paper")]
    ladder: String,
    /// Measure only this switch: S1 to S11, or its name
    #[arg(long, value_name = "SWITCH")]
    only: Option<String>,
    /// Also measure all 32 combinations of the main components, for costs regardless of the order
    #[arg(long)]
    lattice: bool,
    /// Also write the result as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Allow files on a volatile file system (tmpfs)
    #[arg(long)]
    volatile_ok: bool,
    #[command(flatten)]
    flags: Flags<DissectSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    verify_tpcc(&arguments.workload)?;
    let scope = Scope {
        ladder: ladder_named(&arguments.ladder)?,
        only: arguments.only.as_deref().map(switch_named).transpose()?,
        lattice: arguments.lattice,
    };
    let settings = arguments.flags.settings()?;
    let mut plan = DissectPlan::new(&settings, scope)?;
    plan.volatile_ok = arguments.volatile_ok;
    if let Some(path) = &arguments.html {
        verify_writable(path)?;
    }
    let found = dissect::dissect(&plan, &mut Bar::default())?;
    let header = header("dissect", &plan.settings, scope);
    if let Some(path) = &arguments.html {
        write_page(path, &[output::json(&header, &found)?])?;
    }
    let output = Output::new(arguments.flags.json);
    output.result(&header, &found, |found, _| dissection::text(found, output.canvas()))
}

/// The common fields of a result that covers `scope`.
pub(super) fn header(command: &str, settings: &Settings, scope: Scope) -> Header {
    result_header(command, settings).and(&scope.header())
}

fn ladder_named(name: &str) -> Result<Ladder, Failure> {
    Ladder::find(name).ok_or_else(|| {
        let names = Ladder::ALL.map(Ladder::name).join(", ");
        Failure::usage(format!("there is no ladder {name}: use one of {names}"))
    })
}

fn switch_named(name: &str) -> Result<&'static Switch, Failure> {
    ladder::find_switch(name).ok_or_else(|| {
        let names = ladder::switch_names().join(", ");
        Failure::usage(format!("there is no switch {name}: use one of {names}"))
    })
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    let path = path.display();
    Failure::environment(format!("{path} cannot be written: {error}: give another file"))
}

/// Refuses a file that cannot be written, before long work begins.
fn verify_writable(path: &Path) -> Result<(), Failure> {
    let is_new = !path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| unwritable(path, &error))?;
    if is_new {
        fs::remove_file(path).map_err(|error| unwritable(path, &error))?;
    }
    Ok(())
}

/// Writes results (lines of JSON) as a page.
pub(super) fn write_page(path: &Path, results: &[String]) -> Result<(), Failure> {
    let stored = html::read("the result", results.join("\n").as_bytes())?;
    fs::write(path, html::page(&stored)).map_err(|error| unwritable(path, &error))
}
