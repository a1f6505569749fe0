//! *OLTP on Hardware Islands*: the hardware, Figures 2 and 6 and Table 1 (ISL-8, ISL-9, ISL-11).
//!
//! What the paper draws without numbers has none here; a machine with fewer sockets than the figure needs says so.
//! `deployments.rs` measures islands of a database. Not here: measuring the machine (`machine/`).

pub mod deployments;

use std::time::Duration;

use serde_json::json;
use tombolo_engine::clock::SystemClock;
use tombolo_engine::islands::topology::Topology;
use tombolo_engine::link::LinkKind;

use crate::experiment::looking_glass::result::{Reproduction, Row};
use crate::experiment::paper::reproducible;
use crate::experiment::{Paper, Reproduced, Reproducible, Wanted};
use crate::failure::Failure;
use crate::machine::counters::{self, CountersResult};
use crate::machine::links::{self, LinksResult};
use crate::numbers::rounded;
use crate::progress::Progress;
use crate::report::Header;

reproducible! {
    /// A figure or table of the paper.
    enum Figure {
        Fig2 = "isl/fig2", "Figure 2: threads that share a counter, by placement";
        Table1 = "isl/table1", "Table 1: a counter for all, for each socket, for each core";
        Fig6 = "isl/fig6", "Figure 6: messages between processes, by kind of link";
    }
}

/// How the paper's counters are shared (ISL-9): millions of additions a second, their deviation in percent, and how
/// many times as many as with a single counter.
const COUNTERS: [(&str, f64, f64, Option<f64>); 3] = [
    ("single", 18.4, 9.33, None),
    ("per_socket", 341.7, 0.86, Some(18.5)),
    ("per_core", 9_527.8, 0.03, Some(516.8)),
];

/// The paper.
#[derive(Clone, Copy, Debug)]
pub struct Islands;

impl Paper for Islands {
    fn items(&self) -> Vec<Reproducible> {
        Figure::ALL.map(Figure::item).to_vec()
    }

    fn reproduce(
        &self,
        ids: &[&str],
        wanted: &Wanted,
        progress: &mut dyn Progress,
    ) -> Result<Reproduced, Failure> {
        let figures: Vec<Figure> = ids.iter().filter_map(|id| Figure::find(id)).collect();
        let machine = Topology::of_machine();
        let counted = figures.iter().any(|figure| *figure != Figure::Fig6);
        let counters = if counted { measured_counters(&machine, progress)? } else { Vec::new() };
        let mut found = Vec::new();
        for figure in figures {
            let rows = match figure {
                Figure::Fig2 => placements(&counters),
                Figure::Table1 => shared_counters(&counters, &machine),
                Figure::Fig6 => messages(&measured_links(&machine, progress)?),
            };
            found.push(Reproduction {
                id: figure.item().id.to_owned(),
                rows,
                notes: notes(&machine),
            });
        }
        let header = vec![
            ("cores", json!(machine.cores.len())),
            ("sockets", json!(machine.sockets().len())),
        ];
        Ok(Reproduced { settings: wanted.settings.clone(), header, found })
    }
}

fn notes(machine: &Topology) -> Vec<String> {
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

fn measured_counters(
    machine: &Topology,
    progress: &mut dyn Progress,
) -> Result<Vec<CountersResult>, Failure> {
    let effort = counters::Effort { time: Duration::from_millis(50), repeat: 10 };
    let mut results = Vec::new();
    progress.begin("counters");
    counters::measure(&Header::default(), &SystemClock::new(), machine, effort, |result| {
        results.push(result);
        Ok(())
    })?;
    progress.end();
    Ok(results)
}

fn measured_links(
    machine: &Topology,
    progress: &mut dyn Progress,
) -> Result<Vec<LinksResult>, Failure> {
    let effort = links::Effort { message_bytes: 64, time: Duration::from_millis(300) };
    let all = (LinkKind::ALL.len() * machine.pairs().len()) as f64;
    let mut results = Vec::new();
    progress.begin("links");
    links::measure(&Header::default(), machine, effort, |result| {
        progress.part((results.len() + 1) as f64 / all, &result.link);
        results.push(result);
        Ok(())
    })?;
    progress.end();
    Ok(results)
}

/// Figure 2: one counter for each socket, or the most for which that makes a difference here.
fn placements(results: &[CountersResult]) -> Vec<Row> {
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
fn shared_counters(results: &[CountersResult], machine: &Topology) -> Vec<Row> {
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
fn messages(results: &[LinksResult]) -> Vec<Row> {
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
