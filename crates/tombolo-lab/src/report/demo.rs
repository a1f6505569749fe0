//! What `demo` tells: few figures, each with its meaning.
//!
//! Nothing is claimed that was not measured in the same run.

use std::path::Path;

use super::run::RunResult;
use super::terminal::{self, Style, bar, table};
use super::{quantity, separated, size};
use crate::demo::Step;
use crate::host::Host;

/// The widest bar.
const BAR: usize = 36;

/// Before anything runs.
pub fn opening(host: &Host, style: Style) -> String {
    let machine = format!("{}, {} cores, {}", host.cpu, host.cores, size(host.memory_bytes));
    format!(
        "{}\n  A database in memory, measured on this machine: {machine}.\n  \
         The benchmark is TPC-C, a wholesale supplier: orders, payments, deliveries.\n",
        style.strong("tombolo demo")
    )
}

fn fact(name: &str, figure: &str, meaning: &str, style: Style) -> String {
    format!("  {name:<9} {figure} {}\n", style.faint(&format!("· {meaning}")))
}

/// After a run.
pub fn step(step: &Step, result: &RunResult, style: Style) -> String {
    let mut text = format!("\n{}\n", style.strong(step.title));
    if let Some(counter) = result.counter {
        text.push_str(&terminal::instructions(result, counter, style));
        text.push_str(&style.faint(
            "  instructions in user space from begin until commit has returned, 1 warehouse\n",
        ));
        return text;
    }
    if !result.notes.is_empty() {
        result.notes.iter().for_each(|note| text.push_str(&format!("  {note}\n")));
        return text;
    }
    let loaded = format!("{} of rows in {:.1} s", size(result.raw_row_bytes), result.load_wall_s);
    let meaning = format!(
        "{} warehouses; the store takes {:.2} bytes per byte of rows and keys",
        result.warehouses,
        result.memory_ratio()
    );
    text.push_str(&fact("loaded", &loaded, &meaning, style));
    let ran = format!("{} transactions in {:.1} s", separated(result.committed), result.wall_s);
    let rate = style.strong(&quantity(result.tps_per_cpu_s));
    let meaning = style.faint("per second of its one thread's processor time");
    text.push_str(&format!("  {:<9} {ran} · {rate} {meaning}\n", "ran"));
    if let Some(latency) = &result.latency_us {
        let answered = format!("half within {} µs", quantity(latency.p50));
        let meaning = format!(
            "99 % within {} µs, the slowest took {} µs",
            quantity(latency.p99),
            quantity(latency.max)
        );
        text.push_str(&fact("answered", &answered, &meaning, style));
    }
    text.push_str(&format!("  {:<9} {}\n", "verified", terminal::checks(&result.checks, style)));
    text
}

/// After all runs.
pub fn comparison(results: &[RunResult], style: Style) -> String {
    let mut text = format!(
        "\n{}\n",
        style.strong("Committed transactions per second of processor time, one thread")
    );
    let shown: Vec<_> = results.iter().filter(|result| result.warehouses > 1).collect();
    let most = shown.iter().map(|result| result.tps_per_cpu_s).fold(0.0, f64::max);
    for result in &shown {
        let name = format!("{} · {}", result.profile, result.mix);
        let drawn = bar(result.tps_per_cpu_s, most, BAR);
        let padding = " ".repeat(BAR.saturating_sub(drawn.chars().count()));
        let figure = quantity(result.tps_per_cpu_s);
        text.push_str(&format!("  {name:<18} {}{padding} {figure:>9}\n", style.bar(&drawn)));
    }
    if let Some(ns) = results.iter().find_map(|result| result.miss_ns) {
        let meaning = "is what one read takes here when no cache holds what it reads";
        text.push_str(&format!("\n  {ns:.0} ns {}\n", style.faint(meaning)));
    }
    let states: Vec<_> = shown
        .iter()
        .map(|result| {
            vec![format!("{} · {}", result.profile, result.mix), result.state().to_owned()]
        })
        .collect();
    let heads = ["rows left behind", "hash (equal rows, equal hash, on every machine)"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(states);
    text.push('\n');
    text.push_str(&table(&rows, 2, style));
    text
}

/// Where to go from here; `program` is how the command was called.
pub fn closing(program: &str, results: &Path, style: Style) -> String {
    let next = [
        ("run tpcc --warehouses 20 --seconds 10", "a larger database"),
        ("run tpcc --mix paper --profile bare --counter auto", "instructions, call by call"),
        ("run tpcc --sweep warehouses=1,5,20 --rounds 3", "how cost grows with size"),
        ("run tpcc --warehouses 1 --transactions 10k --dump rows", "keep the rows as text"),
        ("check rows --tamper c05", "break a rule in them and see it noticed"),
    ];
    let mut text = format!("\n{}\n", style.strong("Next"));
    for (arguments, meaning) in next {
        let meaning = style.faint(&format!("# {meaning}"));
        text.push_str(&format!("  {program} {arguments:<54} {meaning}\n"));
    }
    text.push_str(&format!("\n  Every figure is in {}.\n", results.display()));
    text
}
