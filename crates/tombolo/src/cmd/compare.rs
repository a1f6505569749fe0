//! `tombolo compare`: the same transactions on other engines, side by side in one run.

use tombolo_engine::clock::SystemClock;
use tombolo_engine::settings::{MIX, ROUNDS, SEED, Setting, TRANSACTIONS, WAREHOUSES};
use tombolo_lab::compare::{
    self, Engine, EngineResult, PEERS, Plan, RatioResult, restart_with_huge_pages,
};
use tombolo_lab::estimate;
use tombolo_lab::failure::Failure;
use tombolo_lab::host::Host;
use tombolo_lab::report::{Header, terminal};
use tombolo_lab::run::{self, verify_memory};

use super::{BUILD, verify_tpcc};
use crate::bar::Bar;
use crate::flags::{Flags, Scope};
use crate::output::Output;

/// What a comparison depends on.
#[derive(Clone, Debug)]
pub(super) struct CompareSettings;

impl Scope for CompareSettings {
    const SETTINGS: &'static [&'static Setting] =
        &[&WAREHOUSES, &MIX, &TRANSACTIONS, &ROUNDS, &SEED];
    const DEFAULTS: &'static [(&'static Setting, &'static str)] =
        &[(&TRANSACTIONS, "20k"), (&ROUNDS, "5")];
}

const EXAMPLES: &str = "\
Examples:
  cargo run --release --features compare-sqlite -- compare tpcc --with sqlite
  tombolo compare tpcc --with sqlite --mix paper --rounds 5 --json

Transactions are counted per round and engine.";

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
    #[arg(
        long,
        value_name = "PROFILE,…",
        value_delimiter = ',',
        default_value = "conventional,memory,bare"
    )]
    profiles: Vec<String>,
    #[command(flatten)]
    flags: Flags<CompareSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    verify_tpcc(&arguments.workload)?;
    let settings = arguments.flags.settings()?;
    let names = names(arguments)?;
    let base = run::Plan::new(&settings)?;
    let plan = Plan {
        scale: base.scale(),
        transactions: settings.count(&TRANSACTIONS) as usize,
        rounds: settings.count(&ROUNDS) as usize,
    };
    let transactions = plan.transactions.saturating_mul(plan.rounds) as u64;
    let transactions = transactions + run::WARM_UP as u64;
    let pages = estimate::page_bytes(&plan.scale, transactions);
    let needed = estimate::bytes(&plan.scale, transactions, plan.transactions as u64);
    verify_memory(needed.max(pages).saturating_mul(names.len() as u64), base.memory_limit)?;
    // Opening an engine that is not in this build says how to build it, before anything restarts.
    open(&names, pages)?;
    restart_with_huge_pages();
    let mut engines = open(&names, pages)?;
    let clock = SystemClock::new();
    let measured = compare::compare(&plan, &mut engines, &clock, &mut Bar::default())?;
    let header = Header::new("compare", BUILD, &settings, &Host::read());
    let result = |engine| EngineResult::new(header.clone(), engine);
    let results: Vec<EngineResult> = measured.iter().map(result).collect();
    let ratios = RatioResult::new(header.clone(), &measured);
    let output = Output::new(arguments.flags.json);
    results.iter().try_for_each(|result| output.result(result, |_, _| String::new()))?;
    output.result(&ratios, |ratios, style| terminal::compare(&results, ratios, style))?;
    compare::failure(&measured).map_or(Ok(()), Err)
}

fn open(names: &[String], pages: u64) -> Result<Vec<Box<dyn Engine>>, Failure> {
    names.iter().map(|name| compare::open(name, pages)).collect()
}

/// All engines' names, ours first.
fn names(arguments: &Arguments) -> Result<Vec<String>, Failure> {
    let peers = arguments.engines.iter().map(|peer| peer.trim().to_owned());
    let ours = arguments.profiles.iter().map(|profile| format!("tombolo/{}", profile.trim()));
    let mut names: Vec<String> = Vec::new();
    for name in ours.chain(peers) {
        if names.contains(&name) {
            return Err(Failure::usage(format!("{name} is named twice: name every engine once")));
        }
        if name.contains('/') == PEERS.contains(&name.as_str()) {
            return Err(Failure::usage(format!(
                "there is no engine {name}: use {}",
                PEERS.join(", ")
            )));
        }
        names.push(name);
    }
    Ok(names)
}
