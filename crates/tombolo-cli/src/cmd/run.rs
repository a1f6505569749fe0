//! `tombolo run`: runs one workload, with one combination of settings or many.

use std::path::PathBuf;

use tombolo_engine::threads;
use tombolo_lab::experiment::tpk::configuration::Configuration;
use tombolo_lab::failure::Failure;
use tombolo_lab::plan::Plan;
use tombolo_lab::report::run::{ProfileResult, RunResult};
use tombolo_lab::report::{Header, terminal};
use tombolo_lab::run;
use tombolo_lab::settings::{self, MIX, Setting, Settings, Source};
use tombolo_lab::sweep::{self, Point, Summary};
use tombolo_lab::workload::{WORKLOADS, Workload, WorkloadInfo, debit_credit};
use tombolo_storage::profile::PROFILES;

use super::workload;
use crate::bar::Bar;
use crate::flags::{Flags, Scope};
use crate::output::{Output, result_header};

/// The settings of a run.
#[derive(Clone, Debug)]
pub(super) struct RunSettings;

impl Scope for RunSettings {
    fn settings() -> &'static [&'static Setting] {
        settings::all()
    }
}

const EXAMPLES: &str = "\
tombolo run debit-credit --config B --clients 800     threads as in the paper (./B is a file)
  tombolo run tpcc --profile conventional --threads 2 --data data/ && tombolo check data/";

/// The examples of each workload, followed by what several commands and files are needed for.
fn examples() -> String {
    let own = WORKLOADS.iter().flat_map(|workload| workload.examples);
    let lines = own.chain([&EXAMPLES]).map(|line| format!("\n  {line}"));
    format!("Examples:{}", lines.collect::<String>())
}

fn workload_help() -> String {
    let names: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
    let (last, first) = names.split_last().expect("there are workloads");
    format!("The workload: {} or {last}", first.join(", "))
}

/// Run a workload, measure it and verify the resulting database
#[derive(Debug, clap::Args)]
#[command(after_help = examples())]
pub(super) struct Arguments {
    #[arg(required_unless_present = "list_profiles", help = workload_help())]
    workload: Option<String>,
    /// Print the profiles and their components
    #[arg(long)]
    list_profiles: bool,
    /// Run at several values of a setting, in turn; repeat it for all combinations
    #[arg(long, value_name = "KEY=V1,V2,…")]
    sweep: Vec<String>,
    /// Write all rows into this directory afterwards, as TABLE.copy
    #[arg(long, value_name = "DIR")]
    dump: Option<PathBuf>,
    /// Open the database in --data instead of loading one, and continue
    #[arg(long)]
    resume: bool,
    /// Append `client seq` to this file for each call that committed, before its caller sees the
    /// answer, and keep the table client_seq(client, seq) in the database
    #[arg(long, value_name = "FILE")]
    acks: Option<PathBuf>,
    /// Allow durable files on a volatile file system (tmpfs)
    #[arg(long)]
    volatile_ok: bool,
    #[command(flatten)]
    flags: Flags<RunSettings>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let output = Output::new(arguments.flags.json);
    if arguments.list_profiles {
        return list_profiles(output, &arguments.flags);
    }
    let workload = workload(arguments.workload.as_deref().unwrap_or_default())?;
    let (configuration, base) = settings_of(workload, &arguments.flags)?;
    verify_own(workload, &base)?;
    let points = sweep::points(&base, &arguments.sweep)?;
    let rounds = base.count(&settings::ROUNDS);
    // Errors of any point are found before the first one runs.
    let plan = |settings| {
        let mut plan = Plan::of(workload, settings)?;
        plan.volatile_ok = arguments.volatile_ok;
        plan.resume = arguments.resume;
        plan.acks.clone_from(&arguments.acks);
        Ok(plan)
    };
    let plans: Vec<Plan> =
        points.iter().map(|(_, settings)| plan(settings)).collect::<Result<_, Failure>>()?;
    if let Some(plan) = plans.iter().find(|plan| configuration.is_some() && !plan.is_piped()) {
        return Err(Failure::usage(format!(
            "--config assigns stages to threads, and profile {} has no stages: use --profile memory",
            plan.profile
        )));
    }
    plans.iter().try_for_each(Plan::verify_machine)?;
    let many = points.len() > 1 || rounds > 1;
    if many {
        verify_keeps_nothing(arguments, &plans[0])?;
    }
    let mut results = Vec::new();
    for round in 1..=rounds {
        for ((point, settings), plan) in points.iter().zip(&plans) {
            let mut plan = Plan { keep_fresh: !many, ..plan.clone() };
            if round > 1 {
                plan.counter = "none".to_owned(); // counts do not change from round to round
            }
            let at = many.then(|| (point.clone(), round));
            let dump = arguments.dump.clone();
            let (result, failure) = run_at(at, &plan, dump, configuration, output)?;
            output.result(&header(settings, &plan), &result, terminal::verified)?;
            failure.map_or(Ok(()), Err)?;
            results.push(result);
        }
    }
    if many {
        let summary = Summary::new(&results, points.len());
        output.object(&summary)?;
        output.people(|style| terminal::summary(&summary, style))?;
    }
    Ok(())
}

/// Runs `plan` at a point of a sweep in a round of it, if it is of one. People see the figures as soon as they are
/// known.
fn run_at(
    at: Option<(Point, u64)>,
    plan: &Plan,
    dump: Option<PathBuf>,
    configuration: Option<Configuration>,
    output: Output,
) -> Result<run::Ran, Failure> {
    let mut shown = Ok(());
    let mut show = |result: &RunResult| {
        let mut result = result.clone();
        (result.point, result.round) = at.clone().unzip();
        shown = output.people(|style| terminal::measured(&result, style));
    };
    let (mut result, failure) = run::run(plan, dump, &mut Bar::default(), &mut show)?;
    shown?;
    if let Some(configuration) = configuration {
        result.config = Some(configuration.name().to_owned());
        result.notes.extend(configuration.caveat(threads::available()));
    }
    (result.point, result.round) = at.unzip();
    Ok((result, failure))
}

/// Refuses the scale of another workload, which would change nothing.
fn verify_own(workload: &WorkloadInfo, settings: &Settings) -> Result<(), Failure> {
    let is_own = |scale: &Setting| (workload.settings)().iter().any(|own| own.name == scale.name);
    let is_strange = |scale: &&Setting| {
        scale.name != MIX.name && settings.source(scale) == Source::Flag && !is_own(scale)
    };
    match settings::of_workloads().find(is_strange) {
        Some(scale) => Err(Failure::usage(format!(
            "{} has no --{}: leave it out, or run another workload",
            workload.name,
            scale.flag()
        ))),
        None => Ok(()),
    }
}

/// Refuses several runs that would all keep their rows in the same place.
fn verify_keeps_nothing(arguments: &Arguments, plan: &Plan) -> Result<(), Failure> {
    let keeps = [
        ("--dump", arguments.dump.is_some()),
        ("--data", plan.data.is_some()),
        ("--acks", arguments.acks.is_some()),
    ];
    if let Some((flag, _)) = keeps.iter().find(|(_, given)| *given) {
        return Err(Failure::usage(format!(
            "{flag} keeps the rows of one run: leave --sweep and --rounds out"
        )));
    }
    Ok(())
}

/// The settings of a run, and the paper's configuration if one is named: on debit-credit `A`, `B` and
/// `C` are not files (`docs/decisions/0019-configurations.md`).
fn settings_of(
    workload: &WorkloadInfo,
    flags: &Flags<RunSettings>,
) -> Result<(Option<Configuration>, Settings), Failure> {
    let configuration = match workload.name {
        debit_credit::Scale::NAME => flags.configuration(Configuration::find),
        _ => None,
    };
    let Some(configuration) = configuration else { return Ok((None, flags.settings()?)) };
    let mut settings = flags.settings_without_file()?;
    configuration.apply(&mut settings, threads::available())?;
    Ok((Some(configuration), settings))
}

/// The header of a run's result, with the effective mix: each workload has a default of its own.
pub(super) fn header(settings: &Settings, plan: &Plan) -> Header {
    let mut header = result_header("run", settings);
    header.settings.insert(MIX.name.to_owned(), plan.workload.mix().into());
    header
}

/// One run: its result, and its failure, if any.
pub(super) fn run_one(plan: &Plan) -> Result<run::Ran, Failure> {
    run::run(plan, None, &mut Bar::default(), &mut |_| ())
}

fn list_profiles(output: Output, flags: &Flags<RunSettings>) -> Result<(), Failure> {
    let results: Vec<_> = PROFILES.iter().map(ProfileResult::from).collect();
    if !flags.json {
        return output.people(|style| terminal::profiles(&results, style));
    }
    let header = result_header("run", &flags.settings()?);
    results
        .into_iter()
        .try_for_each(|profile| output.result(&header, &profile, |_, _| String::new()))
}
