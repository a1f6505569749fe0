//! `tombolo compare`: the same transactions on other engines, side by side in one run.

use tombolo_lab::compare::{
    self, EngineResult, Measured, RatioResult, calls, debit_credit, restart_with_huge_pages, tpcc,
};
use tombolo_lab::failure::Failure;
use tombolo_lab::report::terminal;
use tombolo_lab::settings::{
    CLIENTS, COUNTED, COUNTER, DATA, DURABILITY, IN_FLIGHT, ROUNDS, SEED, Setting, Settings,
    Source, TRANSACTIONS, given,
};
use tombolo_lab::workload::Workload;
use tombolo_lab::workload::debit_credit::Scale;
use tombolo_lab::workload::debit_credit::settings::{
    ACCOUNTS_PER_BRANCH, BRANCHES, TELLERS_PER_BRANCH,
};
use tombolo_lab::workload::mixes::MIX;
use tombolo_lab::workload::tpcc::loader;
use tombolo_lab::workload::tpcc::settings::WAREHOUSES;

use super::calls::open_own;
use super::workload;
use crate::bar::Bar;
use crate::flags::{Flags, Scope};
use crate::output::{Output, result_header};

/// The settings of a comparison.
#[derive(Clone, Debug)]
pub(super) struct CompareSettings;

impl Scope for CompareSettings {
    fn settings() -> &'static [&'static Setting] {
        const LIST: &[&Setting] = &[
            &WAREHOUSES,
            &MIX,
            &BRANCHES,
            &TELLERS_PER_BRANCH,
            &ACCOUNTS_PER_BRANCH,
            &DURABILITY,
            &CLIENTS,
            &IN_FLIGHT,
            &DATA,
            &TRANSACTIONS,
            &ROUNDS,
            &SEED,
            &COUNTER,
            &COUNTED,
        ];
        LIST
    }
    const DEFAULTS: &'static [(&'static Setting, &'static str)] =
        &[(&TRANSACTIONS, "20k"), (&ROUNDS, "5"), (&CLIENTS, "50")];
}

const EXAMPLES: &str = "\
Examples:
  cargo run --release --features compare-sqlite -- compare tpcc --with sqlite
  cargo run --release --features compare-redis -- compare debit-credit --with redis
  tombolo compare tpcc --with sqlite --mix paper --rounds 5 --json
  tombolo compare debit-credit --with redis,postgres --durability none --clients 8
  tombolo compare calls --with mutex-hashmap --callers 1,4 --what transfer
  cargo run --release --features compare-sqlite -- compare calls --with sqlite --counter callgrind

--transactions is per round and engine, for calls per round, engine and point; by default as many calls
as take a quarter of a second, at most 1,000,000. Servers are started in a directory of their own, on
UNIX sockets, and removed afterwards.";

/// Run the same transactions on other engines, side by side
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The workload: tpcc (in memory, one thread), debit-credit (durable, many callers), or calls (the
    /// cost of one call to its caller)
    workload: String,
    /// The other engines: sqlite; for debit-credit also lmdb, rocksdb, redb, redis, postgres; for
    /// calls also redb, lmdb, mutex-hashmap
    #[arg(long = "with", value_name = "ENGINE,…", value_delimiter = ',', required = true)]
    engines: Vec<String>,
    /// The profiles to compare with [conventional,memory,bare; debit-credit: memory]
    #[arg(long, value_name = "PROFILE,…", value_delimiter = ',')]
    profiles: Option<Vec<String>>,
    /// Calls: numbers of calling threads, measured in turn [1,2,4,8]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    callers: Option<Vec<usize>>,
    /// Calls: kinds of calls [transfer,read]
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',')]
    what: Option<Vec<String>>,
    #[command(flatten)]
    flags: Flags<CompareSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.flags.settings()?;
    if arguments.workload == calls::NAME {
        return run_calls(arguments, &settings);
    }
    let workload = workload(&arguments.workload)?;
    let for_calls = [
        arguments.callers.as_ref().map(|_| "callers".to_owned()),
        arguments.what.as_ref().map(|_| "what".to_owned()),
        given(&settings, &[&COUNTER, &COUNTED]).map(Setting::flag),
    ];
    if let Some(flag) = for_calls.into_iter().flatten().next() {
        let workload = workload.name;
        return Err(Failure::usage(format!(
            "--{flag} is for calls: leave it out of compare {workload}, or compare calls"
        )));
    }
    let (settings, measured) = match workload.name {
        loader::Scale::NAME => run_tpcc(arguments, settings)?,
        Scale::NAME => run_debit_credit(arguments, settings)?,
        name => {
            return Err(Failure::usage(format!(
                "{name} is not compared so far: use tpcc, debit-credit or calls"
            )));
        }
    };
    let header = result_header("compare", &settings);
    let results: Vec<EngineResult> = measured.iter().map(EngineResult::new).collect();
    let ratios = RatioResult::new(&measured);
    let output = Output::new(arguments.flags.json);
    results.iter().try_for_each(|result| output.result(&header, result, |_, _| String::new()))?;
    output.result(&header, &ratios, |ratios, style| terminal::compare(&results, ratios, style))?;
    compare::failure(&measured).map_or(Ok(()), Err)
}

fn run_calls(arguments: &Arguments, settings: &Settings) -> Result<(), Failure> {
    if arguments.profiles.is_some() {
        return Err(Failure::usage(
            "calls measures the library, which has profile memory: leave --profiles out",
        ));
    }
    let of_workloads = [
        &WAREHOUSES,
        &MIX,
        &BRANCHES,
        &TELLERS_PER_BRANCH,
        &ACCOUNTS_PER_BRANCH,
        &CLIENTS,
        &IN_FLIGHT,
    ];
    if let Some(setting) = given(settings, &of_workloads) {
        return Err(Failure::usage(format!(
            "calls has no --{}: leave it out, and set the number of threads with --callers",
            setting.flag()
        )));
    }
    let callers = arguments.callers.clone().unwrap_or_else(|| vec![1, 2, 4, 8]);
    let both = || calls::What::ALL.map(|what| what.name().to_owned()).to_vec();
    let what = arguments.what.clone().unwrap_or_else(both);
    let plan = calls::Plan::new(settings, &arguments.engines, &callers, &what)?;
    restart_with_huge_pages();
    let called = calls::compare(&plan, &open_own, &mut Bar::default())?;
    let header = result_header("compare", settings)
        .and(&[("callers", callers.into()), ("what", what.into())]);
    let results: Vec<_> = called.iter().map(calls::CallResult::new).collect();
    let output = Output::new(arguments.flags.json);
    results.iter().try_for_each(|result| output.result(&header, result, |_, _| String::new()))?;
    let ratios = calls::RatioResult::new(&called);
    output.result(&header, &ratios, |_, style| terminal::calls(&results, style))?;
    calls::failure(&called).map_or(Ok(()), Err)
}

/// The measurements, with their settings.
type Compared = (Settings, Vec<Measured>);

fn run_tpcc(arguments: &Arguments, mut settings: Settings) -> Result<Compared, Failure> {
    if let Some(setting) = given(&settings, &[&DURABILITY, &CLIENTS, &IN_FLIGHT, &DATA]) {
        return Err(Failure::usage(format!(
            "tpcc is compared in memory, on one thread: leave --{} out, or compare debit-credit",
            setting.flag()
        )));
    }
    settings.set(CLIENTS.name, "1", Source::Default)?;
    let names = names(arguments, "conventional,memory,bare", &tpcc::peers())?;
    let plan = tpcc::Plan::new(&settings)?;
    tpcc::verify(&plan, &names)?;
    restart_with_huge_pages();
    let measured = tpcc::compare(&plan, &names, &mut Bar::default())?;
    Ok((settings, measured))
}

fn run_debit_credit(arguments: &Arguments, settings: Settings) -> Result<Compared, Failure> {
    let names = names(arguments, "memory", &debit_credit::peers())?;
    debit_credit::verify_names(&names)?;
    let plan = debit_credit::Plan::new(&settings)?;
    debit_credit::verify_machine(&plan, &names)?;
    restart_with_huge_pages();
    let measured = debit_credit::compare(&plan, &names, &mut Bar::default())?;
    Ok((settings, measured))
}

/// The names of all engines, Tombolo's first: the `profiles` of the workload unless others are given.
fn names(arguments: &Arguments, profiles: &str, peers: &[&str]) -> Result<Vec<String>, Failure> {
    let usual = || profiles.split(',').map(str::to_owned).collect();
    let profiles = arguments.profiles.clone().unwrap_or_else(usual);
    compare::names(&profiles, &arguments.engines, peers)
}
