//! The results of many seeds, as text and as JSON.
//!
//! A violation is one line that says how to see it again. A result in JSON says that it is simulated, of which
//! commit, and on which machine it took its processor time.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use tombolo_engine::threads;
use tombolo_storage::plant::Plant;

use super::Subject;
use super::runner::Summary;
use crate::commit::Reached;
use crate::oracle::Violation;

/// The command that runs one seed again.
pub fn replay_command(seed: u64, Subject { simulation, plant }: Subject) -> String {
    let plant = plant.map_or(String::new(), |plant| format!(" --plant {}", plant.name()));
    format!("cargo xtask sim --seed {seed}{}{plant}", simulation.option())
}

/// One line: how to replay it, and what did not hold.
pub fn violation_line(seed: u64, violation: &Violation, subject: Subject) -> String {
    let what = violation.what.replace('\n', " ");
    format!("{}  # {}: {what}", replay_command(seed, subject), violation.rule.name())
}

/// The whole summary for people.
pub fn text(summary: &Summary, subject: Subject) -> String {
    let mut out = String::new();
    let ms = |ns: u64| ns as f64 / 1e6;
    let Summary { seeds, counted, failed, transactions, lives, given_up, .. } = summary;
    for (seed, violation) in &summary.violations {
        _ = writeln!(out, "{}", violation_line(*seed, violation, subject));
    }
    _ = writeln!(out, "{seeds} seeds, {counted} of them count, {failed} failed");
    _ = writeln!(
        out,
        "{transactions} transactions in {lives} lives, {given_up} databases beyond repair"
    );
    _ = writeln!(
        out,
        "{:.2} ms of CPU a seed on average, {:.1} ms at most; traces {:016x}",
        ms(summary.cpu_ns_mean()),
        ms(summary.cpu_ns_max),
        summary.hash
    );
    for kind in subject.simulation.faults() {
        _ = writeln!(out, "  {:<20}{:>12}", kind.name(), summary.faults.of(kind));
    }
    if let Some(coverage) = &summary.coverage {
        _ = write!(out, "{}", coverage.text());
    }
    out
}

/// What every result in JSON says of itself.
#[derive(Debug, Serialize)]
struct Stamped<T> {
    experiment: &'static str,
    simulated: bool,
    commit: &'static str,
    host: Host,
    #[serde(flatten)]
    of: T,
}

/// The machine.
#[derive(Debug, Serialize)]
struct Host {
    cpu: String,
    cores: usize,
}

impl Host {
    fn read() -> Self {
        let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let cpu = model.map_or("unknown", |(_, model)| model.trim()).to_owned();
        Self { cpu, cores: threads::available() }
    }
}

/// `result` of `experiment` as one JSON object.
pub(crate) fn result_json(experiment: &'static str, result: impl Serialize) -> String {
    let commit = env!("BUILT_FROM_COMMIT");
    let result = Stamped { experiment, simulated: true, commit, host: Host::read(), of: result };
    serde_json::to_string(&result).expect("keys of results are texts")
}

/// `value` with so many digits behind the point.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// A [`Summary`].
#[derive(Debug, Serialize)]
struct Seeds<'a> {
    plant: Option<&'a str>,
    seeds: u64,
    seeds_counted: u64,
    seeds_failed: u64,
    transactions: u64,
    lives: u64,
    databases_given_up: u64,
    cpu_ms_mean: f64,
    cpu_ms_max: f64,
    traces: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    states_and_events: Option<Reached>,
    faults: BTreeMap<String, u64>,
    violations: Vec<Broken<'a>>,
}

/// A [`Violation`].
#[derive(Debug, Serialize)]
struct Broken<'a> {
    seed: u64,
    rule: &'a str,
    what: &'a str,
    replay: String,
}

/// The whole summary as one JSON object.
pub fn json(summary: &Summary, subject: Subject) -> String {
    let faults = subject.simulation.faults();
    let faults = faults.map(|kind| (kind.name().replace('-', "_"), summary.faults.of(kind)));
    let broken = summary.violations.iter().map(|(seed, Violation { rule, what })| Broken {
        seed: *seed,
        rule: rule.name(),
        what,
        replay: replay_command(*seed, subject),
    });
    let seeds = Seeds {
        plant: subject.plant.map(Plant::name),
        seeds: summary.seeds,
        seeds_counted: summary.counted,
        seeds_failed: summary.failed,
        transactions: summary.transactions,
        lives: summary.lives,
        databases_given_up: summary.given_up,
        cpu_ms_mean: rounded(summary.cpu_ns_mean() as f64 / 1e6, 3),
        cpu_ms_max: rounded(summary.cpu_ns_max as f64 / 1e6, 3),
        traces: format!("{:016x}", summary.hash),
        states_and_events: summary.coverage.as_ref().map(|coverage| coverage.reached()),
        faults: faults.collect(),
        violations: broken.collect(),
    };
    result_json(subject.simulation.experiment(), seeds)
}

/// The plants that a simulated database can show, one per line.
pub fn plants() -> String {
    let line = |plant: Plant| format!("{:<28}{}\n", plant.name(), plant.breaks());
    Plant::ALL.iter().copied().filter(|plant| plant.is_simulated()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Rule;

    fn summary() -> Summary {
        let violation = Violation::new(Rule::Prefix, "a \"row\"\nis gone");
        Summary { seeds: 2, failed: 1, violations: vec![(5, violation)], ..Summary::default() }
    }

    #[test]
    fn a_violation_is_one_line_that_replays_it() {
        let plant = Some(Plant::SkippedFsync);
        let subject = Subject { plant, ..Subject::default() };
        let text = text(&summary(), subject);
        let line = text.lines().next().unwrap();
        let expected =
            "cargo xtask sim --seed 5 --plant skipped-fsync  # prefix: a \"row\" is gone";
        assert_eq!(line, expected);
        assert!(text.contains("2 seeds, 0 of them count, 1 failed"));
    }

    #[test]
    fn json_quotes_what_it_must() {
        let json = json(&summary(), Subject::default());
        assert!(json.contains(r#""what":"a \"row\"\nis gone""#), "{json}");
        assert!(json.contains(r#""plant":null"#) && json.contains(r#""sync_lied":0"#));
    }

    #[test]
    fn a_result_says_where_it_comes_from() {
        let result: serde_json::Value =
            serde_json::from_str(&json(&summary(), Subject::default())).unwrap();
        assert_eq!((&result["experiment"], &result["simulated"]), (&"sim".into(), &true.into()));
        let commit = result["commit"].as_str().unwrap();
        assert!(commit == "unknown" || commit.len() == 40, "{commit}");
        assert!(!result["host"]["cpu"].as_str().unwrap().is_empty(), "{result}");
        assert!(result["host"]["cores"].as_u64().unwrap() > 0, "{result}");
    }

    #[test]
    fn every_plant_has_a_line() {
        let simulated = Plant::ALL.iter().copied().filter(|plant| plant.is_simulated());
        assert_eq!(plants().lines().count(), simulated.count());
        assert!(plants().lines().count() >= 20);
    }
}
