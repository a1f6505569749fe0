//! Results for people: aligned, with units, in colour only where the reader's terminal shows it.
//!
//! Every function gives a text; nothing is written here.

use std::collections::BTreeMap;

use minijinja::context;
use minijinja::value::{Serde, Value};
use serde_json::Value as Json;

use super::check::CheckResult;
use super::run::{ProfileResult, RunResult};
use super::text::{fields, text};
use crate::compare::calls::CallResult;
use crate::compare::{EngineResult, RatioResult};
use crate::experiment::islands::advice::AdviceResult;
use crate::experiment::islands::deployments::DeploymentResult;
use crate::machine::counters::CountersResult;
use crate::machine::links::LinksResult;
use crate::machine::topology::TopologyResult;
use crate::sweep::Summary;
use crate::workload;

/// How to emphasise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether escape sequences are understood and wanted.
    pub colour: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Text that matters most.
    pub fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Text that explains.
    pub fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// A check that holds.
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// A check that fails.
    pub fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// A bar.
    pub fn bar(self, text: &str) -> String {
        self.paint("36", text)
    }
}

/// Columns of text, the first `left` aligned left, the others right; the first row is the heads.
pub fn table(rows: &[Vec<String>], left: usize, style: Style) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for (i, row) in rows.iter().enumerate() {
        let mut line = String::from(" ");
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            let (cell, padding) = (cell.as_str(), padding.as_str());
            let parts = if column < left { [cell, padding] } else { [padding, cell] };
            line.push_str(if column == 0 { " " } else { "  " });
            line.extend(parts);
        }
        let line = line.trim_end();
        text.push_str(&if i == 0 { style.faint(line) } else { line.to_owned() });
        text.push('\n');
    }
    text
}

/// A bar of at most `width` characters for `part` of `of`, in eighths of a character.
pub fn bar(part: f64, of: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if !(of > 0.0 && part > 0.0) {
        return String::new();
    }
    let eighths = ((part / of).min(1.0) * (width * 8) as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// `✓ c01 … slabs`, or what failed.
pub fn checks(checks: &BTreeMap<String, bool>, style: Style) -> String {
    let failed: Vec<_> =
        checks.iter().filter(|(_, holds)| !**holds).map(|(name, _)| name).collect();
    if failed.is_empty() {
        let names: Vec<_> = checks.keys().map(String::as_str).collect();
        let names =
            names.join(" ").replace("c01 c02 c03 c04 c05 c06 c07 c08 c09 c10 c11 c12", "c01…c12");
        return format!("{} {} hold: {names}", style.good("✓"), checks.len());
    }
    let failed: Vec<_> = failed.into_iter().map(String::as_str).collect();
    style.bad(&format!("✗ {} of {} failed: {}", failed.len(), checks.len(), failed.join(" ")))
}

/// `profile=bare warehouses=5`: a sweep's point.
pub(super) fn at_point(point: &BTreeMap<String, Json>) -> String {
    let at = point.iter().map(|(key, value)| format!("{key}={value}"));
    at.collect::<Vec<_>>().join(" ").replace('"', "")
}

/// The text of `run` when it has its figures, before it verifies them.
pub fn measured(result: &RunResult, style: Style) -> String {
    let (title, size, memory_ratio) = (result.title(), result.size(), result.memory_ratio());
    text("run", fields(result, context! { title, size, memory_ratio }), style)
}

/// The text of `run` after that, when all is verified and counted.
pub fn verified(result: &RunResult, style: Style) -> String {
    let kinds = workload::find(&result.workload).map_or(vec![], |workload| workload.kinds.to_vec());
    let (checked, state) = (checks(&result.checks, style), result.state());
    text("verified", fields(result, context! { kinds, checked, state }), style)
}

/// The last text of a sweep.
pub fn summary(summary: &Summary, style: Style) -> String {
    text("summary", Value::from(Serde(summary)), style)
}

/// The text of `compare`.
pub fn compare(engines: &[EngineResult], ratios: &RatioResult, style: Style) -> String {
    let most = engines.iter().map(|engine| engine.us_per_transaction_cpu).fold(0.0, f64::max);
    text("compare", fields(ratios, context! { engines => Serde(engines), most }), style)
}

/// The text of `compare calls`.
pub fn calls(results: &[CallResult], style: Style) -> String {
    let groups = results.chunk_by(|a, b| (&a.what, &a.durability) == (&b.what, &b.durability));
    text("calls", context! { groups => Serde(groups.collect::<Vec<_>>()) }, style)
}

/// The text of `check`.
pub fn check(result: &CheckResult, style: Style) -> String {
    text("check", fields(result, context! { checked => checks(&result.checks, style) }), style)
}

/// The text of `run --list-profiles`.
pub fn profiles(results: &[ProfileResult], style: Style) -> String {
    text("profiles", context! { profiles => Serde(results) }, style)
}

/// The text of `topology`: sockets, in them islands, in them cores; threads of one core stand together.
pub fn topology(result: &TopologyResult, style: Style) -> String {
    text("topology", Value::from(Serde(result)), style)
}

/// The line of an arrangement of `counters`.
pub fn counters(result: &CountersResult, style: Style) -> String {
    text("counters", Value::from(Serde(result)), style)
}

/// The line of a link of `links`.
pub fn links(result: &LinksResult, style: Style) -> String {
    text("links", Value::from(Serde(result)), style)
}

/// The line of a point of `islands`.
pub fn deployment(result: &DeploymentResult, style: Style) -> String {
    text("deployment", fields(result, context! { share => result.share() }), style)
}

/// The text of `advise`.
pub fn advice(result: &AdviceResult, style: Style) -> String {
    text("advice", Value::from(Serde(result)), style)
}

/// The switches that are on: `S2…S6 S9`.
pub(super) fn switches_on(switches: &BTreeMap<String, bool>) -> String {
    let number = |(name, on): (&String, &bool)| name[1..].parse::<usize>().ok().filter(|_| *on);
    let mut on: Vec<usize> = switches.iter().filter_map(number).collect();
    on.sort_unstable();
    let runs = on.chunk_by(|switch, next| switch + 1 == *next);
    let name = |run: &[usize]| match run {
        [first, .., last] if run.len() > 2 => format!("S{first}…S{last}"),
        _ => run.iter().map(|switch| format!("S{switch}")).collect::<Vec<_>>().join(" "),
    };
    let names: Vec<_> = runs.map(name).collect();
    if names.is_empty() { "none of S1…S11".to_owned() } else { names.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { colour: false };

    #[test]
    fn tables_are_aligned() {
        let rows =
            [vec!["a".to_owned(), "long".to_owned()], vec!["bbb".to_owned(), "µ".to_owned()]];
        assert_eq!(table(&rows, 1, PLAIN), "  a    long\n  bbb     µ\n");
    }

    #[test]
    fn switches_are_reported_in_order() {
        let on = |on: &[usize]| {
            let switch = |i| (format!("S{i}"), on.contains(&i));
            switches_on(&(1..=11).map(switch).collect())
        };
        assert_eq!(on(&[]), "none of S1…S11");
        assert_eq!(on(&(1..=11).collect::<Vec<_>>()), "S1…S11");
        assert_eq!(on(&[2, 3, 6, 8, 9, 10, 11]), "S2 S3 S6 S8…S11");
    }

    #[test]
    fn bars_are_as_long_as_their_part() {
        assert_eq!(bar(1.0, 2.0, 4), "██");
        assert_eq!(bar(5.0, 16.0, 2), "▋");
        assert_eq!(bar(3.0, 2.0, 4), "████", "never longer than the whole");
        assert_eq!(bar(1.0, 0.0, 4), "");
    }

    #[test]
    fn failed_checks_are_named() {
        let mut all: BTreeMap<_, _> = (1..=12).map(|i| (format!("c{i:02}"), true)).collect();
        all.insert("slabs".to_owned(), true);
        assert_eq!(checks(&all, PLAIN), "✓ 13 hold: c01…c12 slabs");
        all.insert("c07".to_owned(), false);
        assert_eq!(checks(&all, PLAIN), "✗ 1 of 13 failed: c07");
        assert!(checks(&all, Style { colour: true }).contains("\x1b["));
    }
}
