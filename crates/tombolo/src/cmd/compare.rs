//! `tombolo compare`: the same transactions on other engines, side by side in one run.

use tombolo_engine::settings::{
    BATCH, LOAD_THREADS, MIX, ROUNDS, SECONDS, SEED, Setting, TRANSACTIONS, WAREHOUSES,
};
use tombolo_lab::failure::Failure;
use tombolo_storage::profile::PROFILES;

use super::verify_workload;
use crate::flags::{Flags, Scope};

/// What a comparison depends on.
#[derive(Clone, Debug)]
pub(super) struct CompareSettings;

impl Scope for CompareSettings {
    const SETTINGS: &'static [&'static Setting] =
        &[&WAREHOUSES, &MIX, &SECONDS, &TRANSACTIONS, &BATCH, &LOAD_THREADS, &SEED, &ROUNDS];
}

/// The other engines that can be built in.
const ENGINES: [&str; 1] = ["sqlite"];

const EXAMPLES: &str = "\
Examples:
  cargo run --release --features compare-sqlite -- compare tpcc --with sqlite
  tombolo compare tpcc --with sqlite --mix paper --rounds 5 --json";

/// Run the same transactions on other engines, side by side
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The workload: tpcc
    workload: String,
    /// The other engines: sqlite
    #[arg(long = "with", value_name = "ENGINE,…", value_delimiter = ',', required = true)]
    engines: Vec<String>,
    /// The profiles they are compared with
    #[arg(long, value_name = "PROFILE,…", value_delimiter = ',', default_value = "memory,bare")]
    profiles: Vec<String>,
    #[command(flatten)]
    flags: Flags<CompareSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    verify_workload(&arguments.workload)?;
    for engine in &arguments.engines {
        if !ENGINES.contains(&engine.as_str()) {
            let known = ENGINES.join(", ");
            return Err(Failure::usage(format!("there is no engine {engine}: use {known}")));
        }
    }
    for profile in &arguments.profiles {
        if !PROFILES.iter().any(|info| info.name == profile) {
            let known: Vec<_> = PROFILES.iter().map(|info| info.name).collect();
            let known = known.join(", ");
            return Err(Failure::usage(format!("there is no profile {profile}: use {known}")));
        }
    }
    let _ = arguments.flags.settings()?;
    Err(Failure::usage(format!(
        "engine {0} is not built in: cargo run --release --features compare-{0} -- compare {1} \
         --with {0}",
        arguments.engines[0], arguments.workload
    )))
}
