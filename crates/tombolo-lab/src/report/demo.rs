//! What `demo` reports: few figures, each with its meaning.
//!
//! Nothing is claimed that was not measured in the same run.

use std::path::Path;

use super::canvas::Canvas;
use super::run::RunResult;
use super::terminal::{self, Style};
use super::{dissection, quantity, separated, size};
use crate::demo::{DATABASE, MEMORY_DATABASE, PAGE, RESULTS, Step};
use crate::experiment::looking_glass::paper::in_order;
use crate::experiment::looking_glass::result::Dissection;
use crate::host::Host;

/// Before anything runs.
pub fn opening(host: &Host, directory: &Path, style: Style) -> String {
    let machine = format!("{}, {} cores, {}", host.cpu, host.cores, size(host.memory_bytes));
    format!(
        "{}\n  A main-memory database, measured on this machine: {machine}.\n  \
         The benchmark is TPC-C, a wholesale supplier: orders, payments, deliveries.\n  \
         It runs in memory, then durably; then the engine is taken apart. All files go to {}.\n",
        style.strong("tombolo demo"),
        directory.display()
    )
}

fn fact(name: &str, figure: &str, meaning: &str, style: Style) -> String {
    format!("  {name:<9} {figure} {}\n", style.faint(&format!("· {meaning}")))
}

/// After a run.
pub fn step(step: &Step, result: &RunResult, style: Style) -> String {
    let mut text = format!("\n{}\n", style.strong(step.title));
    let loaded = format!("{} of rows in {:.1} s", size(result.raw_row_bytes), result.load_wall_s);
    let warehouses = result.size();
    text.push_str(&fact("loaded", &loaded, &warehouses, style));
    let ran = format!("{} transactions in {:.1} s", separated(result.committed), result.wall_s);
    let rates = format!(
        "{} a second; {} per second of the engine's processor time",
        quantity(result.tps),
        quantity(result.tps_per_cpu_s)
    );
    text.push_str(&fact("ran", &ran, &rates, style));
    if let (Some(flush), Some(per_flush)) = (&result.flush_us, result.transactions_per_flush) {
        let waited =
            format!("{} flushes of the log to {}", separated(result.flushes), disk(result));
        let meaning = format!(
            "{per_flush:.1} transactions each; half within {} µs, 99 % within {} µs",
            quantity(flush.p50),
            quantity(flush.p99)
        );
        text.push_str(&fact("durable", &waited, &meaning, style));
    }
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

fn disk(result: &RunResult) -> String {
    match result.data_fs.as_deref() {
        Some(kept @ ("tmpfs" | "ramfs")) => {
            format!("{kept}, which keeps nothing: give --out a disk")
        }
        Some(kept) => kept.to_owned(),
        None => "a disk".to_owned(),
    }
}

/// After the engine was taken apart.
pub fn dissection(found: &Dissection, canvas: Canvas) -> String {
    let style = canvas.style;
    let profiles = found.rungs.len();
    let mut text = format!(
        "\n{}\n  Each line takes one part out, and all above it: what is left, by type of transaction.\n  \
         {profiles} engines ran the same {} transactions and left the same rows ({}).\n",
        style.strong("What each part of a conventional engine costs"),
        separated(found.transactions),
        found.rungs.first().map_or("", |rung| &rung.measured.state_hash)
    );
    let transactions = found.rungs.first().map(|rung| &rung.measured.by_transaction);
    let counted = found.counter != "none";
    for transaction in
        transactions.map(in_order).unwrap_or_default().into_iter().filter(|_| counted)
    {
        text.push('\n');
        text.push_str(&dissection::ladder(found, transaction, canvas));
    }
    text.push('\n');
    text.push_str(&dissection::speeds(&found.rungs, canvas));
    if !counted {
        text.push_str("  Instructions were not counted: apt-get install valgrind.\n");
    }
    text
}

/// Where to go from here; `program` is how the command was called.
pub fn closing(program: &str, directory: &Path, style: Style) -> String {
    let database = |name| directory.join(name).display().to_string();
    let next = [
        (
            format!("check {}", database(MEMORY_DATABASE)),
            "read the log it left, and verify the rows",
        ),
        (format!("check {}", database(DATABASE)), "verify the pages it left"),
        ("dissect tpcc --lattice --html costs.html".to_owned(), "all of it, at 5 warehouses"),
        ("paper lg/fig5".to_owned(), "the paper's figures next to ours"),
        ("run tpcc --warehouses 20 --seconds 10".to_owned(), "a larger database"),
        ("run tpcc --list-profiles".to_owned(), "every combination of parts"),
    ];
    let mut text = format!("\n{}\n", style.strong("Next"));
    for (arguments, meaning) in next {
        let meaning = style.faint(&format!("# {meaning}"));
        text.push_str(&format!("  {program} {arguments:<44} {meaning}\n"));
    }
    text.push_str(&format!(
        "\n  Every figure is in {}, drawn in {}.\n",
        directory.join(RESULTS).display(),
        directory.join(PAGE).display()
    ));
    text
}
