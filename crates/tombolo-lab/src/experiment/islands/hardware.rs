//! The hardware's figures: Figures 2 and 6 and Table 1 (ISL-8, ISL-9, ISL-11).
//!
//! What the paper draws without numbers has no numbers here; a machine with fewer sockets than the figure needs gets
//! a note.
//! Not here: measuring the machine (`machine/`).

use std::time::Duration;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::islands::topology::Topology;
use tombolo_engine::link::LinkKind;

use crate::experiment::looking_glass::result::Row;
use crate::failure::Failure;
use crate::machine::counters::{self, CountersResult};
use crate::machine::links::{self, LinksResult};
use crate::numbers::rounded;
use crate::progress::Progress;

/// How the paper's counters are shared (ISL-9): millions of additions a second, their deviation in percent, and how
/// many times as many as with a single counter.
const COUNTERS: [(&str, f64, f64, Option<f64>); 3] = [
    ("single", 18.4, 9.33, None),
    ("per_socket", 341.7, 0.86, Some(18.5)),
    ("per_core", 9_527.8, 0.03, Some(516.8)),
];

pub(super) fn notes(machine: &Topology) -> Vec<String> {
    let (cores, islands) = (machine.cores.len(), machine.islands().len());
    let sockets = machine.sockets().len();
    let mut notes = vec![format!(
        "here {cores} cores, {islands} last-level caches, {sockets} sockets; the paper's machine has 80 cores on 8"
    )];
    if sockets == 1 {
        notes
            .push("one socket: what crosses sockets cannot be measured on this machine".to_owned());
    }
    notes
}

pub(super) fn measured_counters(
    machine: &Topology,
    progress: &mut dyn Progress,
) -> Result<Vec<CountersResult>, Failure> {
    let effort = counters::Effort { time: Duration::from_millis(50), repeat: 10 };
    let mut results = Vec::new();
    progress.begin("counters");
    counters::measure(&SystemClock::new(), machine, effort, |result| {
        results.push(result);
        Ok(())
    })?;
    progress.end();
    Ok(results)
}

pub(super) fn measured_links(
    machine: &Topology,
    progress: &mut dyn Progress,
) -> Result<Vec<LinksResult>, Failure> {
    let effort = links::Effort { message_bytes: 64, time: Duration::from_millis(300) };
    let all = (LinkKind::ALL.len() * machine.pairs().len()) as f64;
    let mut results = Vec::new();
    progress.begin("links");
    links::measure(machine, effort, |result| {
        progress.part((results.len() + 1) as f64 / all, &result.link);
        results.push(result);
        Ok(())
    })?;
    progress.end();
    Ok(results)
}

/// Figure 2: one counter for each socket, or the most for which that makes a difference here.
pub(super) fn placements(results: &[CountersResult]) -> Vec<Row> {
    let several = |result: &&CountersResult| result.sharing == "per_socket" && result.counters > 1;
    let shown: Vec<_> = match results.iter().any(|result| several(&result)) {
        true => results.iter().filter(several).collect(),
        false => results.iter().collect(),
    };
    let row = |result: &&CountersResult| {
        let name = format!("{} counters, {}", result.counters, result.placement);
        let ours = rounded(result.additions_per_s / 1e6, 1);
        Row::measured(name, "million additions/s", None, Some(ours)).with(
            format!("± {:.2} %; the paper draws this without numbers", result.deviation_percent),
            "ISL-8",
        )
    };
    shown.iter().map(row).collect()
}

/// Table 1, grouped; where the machine has one socket a counter for each is a single one.
pub(super) fn shared_counters(results: &[CountersResult], machine: &Topology) -> Vec<Row> {
    let ours_of = |sharing: &str| {
        let sharing = match sharing {
            "per_socket" if machine.sockets().len() == 1 => "single",
            sharing => sharing,
        };
        let is_it =
            |result: &&CountersResult| result.sharing == sharing && result.placement == "grouped";
        results.iter().find(is_it)
    };
    let mut rows = Vec::new();
    for (sharing, millions, deviation, times) in COUNTERS {
        let ours = ours_of(sharing);
        let mut put = |name: &str, unit: &str, paper: Option<f64>, ours: Option<f64>| {
            let name = format!("{} · {name}", sharing.replace('_', " "));
            rows.push(Row::measured(name, unit, paper, ours).with("", "ISL-9"));
        };
        put(
            "additions",
            "million/s",
            Some(millions),
            ours.map(|ours| rounded(ours.additions_per_s / 1e6, 1)),
        );
        put("deviation", "%", Some(deviation), ours.map(|ours| rounded(ours.deviation_percent, 2)));
        put("times a single one", "×", times, ours.map(|ours| rounded(ours.times_single, 2)));
    }
    rows
}

/// Figure 6.
pub(super) fn messages(results: &[LinksResult]) -> Vec<Row> {
    let row = |result: &LinksResult| {
        let name =
            format!("{} · {}", result.link.replace('_', " "), result.distance.replace('_', " "));
        let caveat = match result.link.as_str() {
            "ring" => "not in the paper",
            _ => "the paper draws this without numbers, and says that UNIX sockets are fastest",
        };
        Row::measured(
            name,
            "thousand messages/s",
            None,
            Some(rounded(result.messages_per_s / 1e3, 1)),
        )
        .with(caveat, "ISL-11")
    };
    results.iter().map(row).collect()
}
