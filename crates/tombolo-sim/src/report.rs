//! The results of many seeds, as text and as JSON.
//!
//! A violation is one line that says how to see it again. Not here: numbers of the host, which the user who
//! keeps a result adds.

use std::fmt::Write;

use tombolo_storage::plant::Plant;

use crate::fault::FaultKind;
use crate::history::Violation;
use crate::runner::Summary;

/// The command that runs one seed again.
pub fn replay_command(seed: u64, plant: Option<Plant>) -> String {
    let plant = plant.map_or(String::new(), |plant| format!(" --plant {}", plant.name()));
    format!("cargo xtask sim --seed {seed}{plant}")
}

/// One line: how to replay it, and what did not hold.
pub fn violation_line(seed: u64, violation: &Violation, plant: Option<Plant>) -> String {
    let what = violation.what.replace('\n', " ");
    format!("{}  # {}: {what}", replay_command(seed, plant), violation.rule.name())
}

/// The whole summary for people.
pub fn text(summary: &Summary, plant: Option<Plant>) -> String {
    let mut out = String::new();
    let ms = |ns: u64| ns as f64 / 1e6;
    let Summary { seeds, counted, failed, transactions, lives, given_up, .. } = summary;
    for (seed, violation) in &summary.violations {
        _ = writeln!(out, "{}", violation_line(*seed, violation, plant));
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
    for kind in FaultKind::ALL {
        _ = writeln!(out, "  {:<20}{:>12}", kind.name(), summary.faults.of(kind));
    }
    out
}

/// The whole summary as one JSON object.
pub fn json(summary: &Summary, plant: Option<Plant>) -> String {
    let Summary { seeds, counted, failed, transactions, lives, given_up, .. } = summary;
    let faults: Vec<String> = FaultKind::ALL
        .into_iter()
        .map(|kind| {
            format!("{}: {}", quoted(&kind.name().replace('-', "_")), summary.faults.of(kind))
        })
        .collect();
    let violations: Vec<String> = summary
        .violations
        .iter()
        .map(|(seed, Violation { rule, what })| {
            let (rule, what) = (quoted(rule.name()), quoted(what));
            let replay = quoted(&replay_command(*seed, plant));
            format!(
                "{{\"seed\": {seed}, \"rule\": {rule}, \"what\": {what}, \"replay\": {replay}}}"
            )
        })
        .collect();
    let plant = plant.map_or("null".to_string(), |plant| quoted(plant.name()));
    format!(
        "{{\"experiment\": \"sim\", \"plant\": {plant}, \"seeds\": {seeds}, \
         \"seeds_counted\": {counted}, \"seeds_failed\": {failed}, \
         \"transactions\": {transactions}, \"lives\": {lives}, \
         \"databases_given_up\": {given_up}, \"cpu_ms_mean\": {:.3}, \"cpu_ms_max\": {:.3}, \
         \"traces\": \"{:016x}\", \"faults\": {{{}}}, \"violations\": [{}]}}",
        summary.cpu_ns_mean() as f64 / 1e6,
        summary.cpu_ns_max as f64 / 1e6,
        summary.hash,
        faults.join(", "),
        violations.join(", ")
    )
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if u32::from(c) < 0x20 => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}

/// The plants that a simulated database can show, one per line.
pub fn plants() -> String {
    let line = |plant: Plant| format!("{:<28}{}\n", plant.name(), plant.breaks());
    Plant::ALL.iter().copied().filter(|plant| plant.is_simulated()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Rule;

    fn summary() -> Summary {
        let violation = Violation::new(Rule::Prefix, "a \"row\"\nis gone");
        Summary { seeds: 2, failed: 1, violations: vec![(5, violation)], ..Summary::default() }
    }

    #[test]
    fn a_violation_is_one_line_that_replays_it() {
        let text = text(&summary(), Some(Plant::SkippedFsync));
        let line = text.lines().next().unwrap();
        let expected =
            "cargo xtask sim --seed 5 --plant skipped-fsync  # prefix: a \"row\" is gone";
        assert_eq!(line, expected);
        assert!(text.contains("2 seeds, 0 of them count, 1 failed"));
    }

    #[test]
    fn json_quotes_what_it_must() {
        let json = json(&summary(), None);
        assert!(json.contains(r#""what": "a \"row\"\u000ais gone""#), "{json}");
        assert!(json.contains(r#""plant": null"#) && json.contains(r#""sync_lied": 0"#));
    }

    #[test]
    fn every_plant_has_a_line() {
        let simulated = Plant::ALL.iter().copied().filter(|plant| plant.is_simulated());
        assert_eq!(plants().lines().count(), simulated.count());
        assert!(plants().lines().count() >= 20);
    }
}
