//! `tombolo-sim`: runs seeds; `cargo xtask sim` builds and calls it.
//!
//! Exit status: 0 if every rule held (with a plant: the plant was noticed), 1 if a rule was broken (the plant was
//! missed), 2 for bad usage.

use std::io::Write;
use std::process::ExitCode;

use tombolo_sim::seeds::runner::{Plan, guarded, run};
use tombolo_sim::seeds::{Simulation, Subject, report};
use tombolo_sim::{commit, group_policies};
use tombolo_storage::plant::{self, Plant};

const USAGE: &str = "\
Runs the engine in simulated worlds that crash and lie.

Usage: tombolo-sim [OPTIONS]

  --seeds N       how many seeds (10000)
  --first N       the first of them (0)
  --seed N        this one alone, with its trace
  --threads N     on how many threads (2)
  --commit        of islands that commit transactions together, not of one database; first one transaction
                  with crashes at every step
  --ordered       of islands whose logs become durable together
  --thorough      as --commit, and two crashes one after the other wherever three islands can have them
  --plant NAME    with this bug planted: until a rule breaks
  --list-plants   the bugs that can be planted
  --group-policies  no faults: when to flush, `auto` against timers and counts
  --json          one JSON object instead of text

Example: tombolo-sim --seeds 1000 --threads 2
";

/// The fewest seeds between two reports of progress: they take a few seconds.
const SEEDS_PER_REPORT: u64 = 2_000;

/// The number of seeds that suffices for every event to occur in every state of the protocol between islands.
const SEEDS_COVERING: u64 = 5_000;

/// The options of the command line.
struct Options {
    plan: Plan,
    seed: Option<u64>,
    subject: Subject,
    thorough: bool,
    group_policies: bool,
    json: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("--help" | "-h") => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Some("--list-plants") => {
            print!("{}", report::plants());
            ExitCode::SUCCESS
        }
        _ => match parse(&words) {
            Ok(options) => simulate(&options),
            Err(what) => {
                eprintln!("tombolo-sim: {what}\n\n{USAGE}");
                ExitCode::from(2)
            }
        },
    }
}

fn parse(words: &[String]) -> Result<Options, String> {
    let plan = Plan { first: 0, seeds: 10_000, threads: 2, until_violation: false };
    let subject = Subject::default();
    let mut options =
        Options { plan, seed: None, subject, thorough: false, group_policies: false, json: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: &String| {
            text.parse::<u64>().map_err(|_| format!("{word}: {text} is no whole number"))
        };
        match word.as_str() {
            "--seeds" => options.plan.seeds = number(value()?)?,
            "--first" => options.plan.first = number(value()?)?,
            "--seed" => options.seed = Some(number(value()?)?),
            "--threads" => options.plan.threads = number(value()?)?.clamp(1, 256) as usize,
            "--group-policies" => options.group_policies = true,
            "--json" => options.json = true,
            "--thorough" => options.thorough = true,
            "--ordered" => options.subject.simulation = Simulation::Ordered,
            "--commit" => options.subject.simulation = Simulation::Commit,
            "--plant" => {
                let name = value()?;
                let plant = Plant::named(name).ok_or(format!("there is no plant {name}"))?;
                options.subject.plant = Some(plant);
                options.subject.simulation = match plant {
                    plant if plant.is_of_commit() => Simulation::Commit,
                    plant if plant.is_of_ordered() => Simulation::Ordered,
                    _ => options.subject.simulation,
                };
            }
            _ => return Err(format!("unknown option {word}")),
        }
    }
    if options.subject.plant.is_some() && !plant::POSSIBLE {
        return Err("this build plants nothing: cargo xtask sim makes one that does".to_string());
    }
    Ok(options)
}

fn simulate(options: &Options) -> ExitCode {
    if let Some(plant) = options.subject.plant {
        plant::choose(plant);
    }
    match options.seed {
        _ if options.group_policies => compare_policies(options),
        Some(seed) => replay(seed, options.subject),
        None => many(options),
    }
}

/// Compares flush policies; fails if `auto` is slower than it should be.
fn compare_policies(options: &Options) -> ExitCode {
    let compared = group_policies::compare(options.plan.threads);
    match options.json {
        true => println!("{}", group_policies::json(&compared)),
        false => print!("{}", group_policies::text(&compared)),
    }
    if group_policies::holds(&compared) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one seed and shows what happened.
fn replay(seed: u64, subject: Subject) -> ExitCode {
    let result = guarded(seed, true, subject.simulation.run_seed());
    let end = match &result.violation {
        Some(violation) => report::violation_line(seed, violation, subject),
        None => result.to_string(),
    };
    let mut out = std::io::stdout().lock();
    for line in result.lines.iter().chain([&end]) {
        if writeln!(out, "{line}").is_err() {
            break; // the reader has seen enough
        }
    }
    if result.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs one transaction between islands with a crash at every step; returns whether every rule held.
fn exhaust(options: &Options) -> bool {
    match commit::exhaustive::run(options.plan.threads, options.thorough) {
        Ok(trials) => {
            eprintln!(
                "tombolo-sim: {} trials of one transaction, crashed at every step, {} failed",
                trials.count, trials.failed
            );
            trials.first.iter().for_each(|first| eprintln!("  {first}"));
            trials.failed == 0
        }
        Err(violation) => {
            eprintln!("tombolo-sim: without a crash: {violation}");
            false
        }
    }
}

fn many(options: &Options) -> ExitCode {
    let subject = options.subject;
    let until_violation = subject.plant.is_some();
    let run_seed = subject.simulation.run_seed();
    let exhausted = subject.simulation != Simulation::Commit || until_violation || exhaust(options);
    let Plan { seeds, .. } = options.plan;
    let stride = (seeds / 20).max(SEEDS_PER_REPORT);
    let summary = run(Plan { until_violation, ..options.plan }, run_seed, &|begun, violation| {
        if let Some((seed, violation)) = violation.filter(|_| !until_violation) {
            eprintln!("{}", report::violation_line(seed, violation, subject));
        }
        if begun.is_multiple_of(stride) && begun < seeds {
            eprintln!("tombolo-sim: {begun} of {seeds} seeds");
        }
    });
    match options.json {
        true => println!("{}", report::json(&summary, subject)),
        false => print!("{}", report::text(&summary, subject)),
    }
    let reached = summary.coverage.as_ref().map(|coverage| coverage.reached());
    // A few seeds do not reach everything.
    let covered = seeds < SEEDS_COVERING || reached.is_none_or(|reached| reached.is_complete());
    let worthless = summary.counted < summary.seeds && summary.failed == 0;
    if worthless && !until_violation {
        println!("{} seeds ran too little to count", summary.seeds - summary.counted);
    }
    if until_violation && summary.failed == 0 && !plant::reached() {
        println!("no seed reached the plant's code");
    }
    let well = match until_violation {
        true => summary.failed > 0,
        false => summary.failed == 0 && !worthless && exhausted && covered,
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
