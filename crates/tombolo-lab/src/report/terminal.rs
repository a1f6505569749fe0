//! Results for people: aligned, with units, in colour only where the reader's terminal shows it.
//!
//! Every function gives a text; nothing is written here.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::check::CheckResult;
use super::run::{ByTransaction, CheckpointResult, ProfileResult, RecoveryResult, RunResult};
use super::{quantity, separated, size};
use crate::compare::calls::CallResult;
use crate::compare::{EngineResult, RatioResult};
use crate::histogram::Summary as Latency;
use crate::sweep::{Spread, Summary};
use crate::workload::WORKLOADS;

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

    /// What matters most.
    pub fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// What explains.
    pub fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// What holds.
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// What does not.
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

/// The same with heads of their own.
fn table_of<const N: usize>(
    heads: [&str; N],
    rows: impl IntoIterator<Item = Vec<String>>,
    left: usize,
    style: Style,
) -> String {
    let heads = heads.map(str::to_owned).to_vec();
    table(&[heads].into_iter().chain(rows).collect::<Vec<_>>(), left, style)
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

/// A fact behind its name: `  log        …`.
pub fn named(name: &str, what: &str) -> String {
    format!("  {name:<11}{what}\n")
}

fn latency(summary: &Latency) -> String {
    format!(
        "p50 {} µs · p99 {} · p99.9 {} · max {} · mean {}",
        quantity(summary.p50),
        quantity(summary.p99),
        quantity(summary.p999),
        quantity(summary.max),
        quantity(summary.mean)
    )
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
fn at_point(point: &BTreeMap<String, Json>) -> String {
    let at = point.iter().map(|(key, value)| format!("{key}={value}"));
    at.collect::<Vec<_>>().join(" ").replace('"', "")
}

/// What was run.
fn title(result: &RunResult) -> String {
    let mut point = String::new();
    if let (Some(at), Some(round)) = (&result.point, result.round) {
        point = format!(" · {} round {round}", at_point(at));
    }
    format!(
        "{} · {} · {} · {} · durability {}{point}",
        result.title(),
        result.profile,
        result.size(),
        threads(result.threads),
        result.durability
    )
}

/// What `run` prints when it has its figures, before it verifies them.
pub fn measured(result: &RunResult, style: Style) -> String {
    let mut text = String::new();
    text.push_str(&format!("{}\n", style.strong(&title(result))));
    let mut say = |name: &str, what: &str| text.push_str(&named(name, what));
    let rate = style.strong(&quantity(result.tps_per_cpu_s));
    say(
        "throughput",
        &format!(
            "{rate} committed per CPU-second · {} per second · {} in {:.2} s",
            quantity(result.tps),
            separated(result.committed),
            result.wall_s
        ),
    );
    if result.aborted > 0 {
        let reasons = result.aborts_by_reason.iter();
        let reasons: Vec<_> = reasons.map(|(why, n)| format!("{why} {}", separated(*n))).collect();
        say("aborted", &format!("{} ({})", separated(result.aborted), reasons.join(", ")));
    }
    if let Some(summary) = &result.latency_us {
        let loop_of = match result.calls.rate {
            Some(rate) => format!(", open loop, {} calls a second", separated(rate)),
            None => match result.clients.saturating_mul(result.in_flight) {
                1 => ", closed loop".to_owned(),
                callers => format!(", closed loop, {callers} calls under way"),
            },
        };
        say("latency", &format!("{}{}", latency(summary), style.faint(&loop_of)));
    }
    if let (Some(late), Some(not_begun)) = (result.calls.behind_us_max, result.calls.not_begun) {
        let not_begun = separated(not_begun);
        let late = quantity(late);
        say("behind", &format!("calls began up to {late} µs late, {not_begun} not at all"));
    }
    durable(result, style).iter().for_each(|(name, what)| say(name, what));
    say(
        "memory",
        &format!(
            "{} for {} of rows and keys ({:.2} ×) · loaded in {:.1} s, {:.1} CPU-s",
            size(result.memory_bytes),
            size(result.raw_row_bytes + result.raw_key_bytes),
            result.memory_ratio(),
            result.load_wall_s,
            result.load_cpu_s
        ),
    );
    if let Some(ns) = result.miss_ns {
        say(
            "a miss",
            &format!(
                "{ns:.0} ns {}",
                style.faint("for a dependent load from memory, here and now")
            ),
        );
    }
    text
}

/// What `run` prints behind that, when all is verified and counted.
pub fn verified(result: &RunResult, style: Style) -> String {
    let mut text = String::new();
    let mut say = |name: &str, what: &str| text.push_str(&named(name, what));
    say("checks", &checks(&result.checks, style));
    say("state", result.state());
    text.push('\n');
    text.push_str(&by_transaction(&result.by_transaction, style));
    if let Some(counter) = &result.counter {
        text.push('\n');
        text.push_str(&instructions(result, counter, style));
    }
    for note in &result.notes {
        text.push_str(&format!("  {}\n", style.faint(note)));
    }
    text
}

/// `1 thread`, `2 threads`.
fn threads(threads: u64) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// What went through the log.
fn log(result: &RunResult) -> String {
    let per = result.log_bytes as f64 / result.committed.max(1) as f64;
    let mut text = format!("{} · {} bytes per transaction", size(result.log_bytes), quantity(per));
    if let Some(per_flush) = result.transactions_per_flush {
        let flushes = separated(result.flushes);
        text.push_str(&format!(" · {flushes} flushes of {} transactions", quantity(per_flush)));
    }
    if let Some(flush) = &result.flush_us {
        let (p50, p99) = (quantity(flush.p50), quantity(flush.p99));
        text.push_str(&format!(" in p50 {p50} µs · p99 {p99}"));
    }
    text
}

/// Log, device, stages and files, where there are any.
fn durable(result: &RunResult, style: Style) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if result.log_bytes > 0 {
        facts.push(("log", log(result)));
    }
    if let (Some(raw), Some(bytes)) = (&result.raw_flush_us, result.raw_flush_bytes) {
        let (p50, mean, bytes) = (quantity(raw.p50), quantity(raw.mean), size(bytes));
        let meaning = match result.of_raw_percent {
            Some(percent) => {
                let share = quantity(percent);
                format!("alone; the run is {share} % of one such flush per call")
            }
            None => "alone".to_owned(),
        };
        let meaning = style.faint(&meaning);
        facts.push((
            "device",
            format!("p50 {p50} µs · mean {mean} to write and sync {bytes} {meaning}"),
        ));
    }
    if let Some(checkpoint) = &result.checkpoint {
        facts.push(("checkpoint", checkpoints(checkpoint, result, style)));
    }
    if !result.by_stage.is_empty() {
        facts.push(("stages", stages(result)));
    }
    if let Some(recovery) = &result.recovery {
        facts.push(("opened", opened(recovery)));
    }
    if let (Some(directory), Some(file_system)) = (&result.data_dir, &result.data_fs) {
        facts.push(("files", format!("{directory} on {file_system}")));
    }
    facts
}

/// How many checkpoints were written, and what callers felt of them.
fn checkpoints(found: &CheckpointResult, result: &RunResult, style: Style) -> String {
    let (count, bytes) = (separated(found.count), size(found.bytes));
    let mut text = format!("{count} completed in {:.2} s · {bytes} written", found.wall_s);
    if let Some(answers) = &result.latency_in_checkpoint_us {
        let (p50, p99) = (quantity(answers.p50), quantity(answers.p99));
        let meaning = style.faint("for answers meanwhile");
        text.push_str(&format!(" · p50 {p50} µs · p99 {p99} {meaning}"));
    }
    if found.put_off > 0 {
        text.push_str(&format!(" · put off {} times: the disk was full", separated(found.put_off)));
    }
    text
}

/// How much of the time each stage worked.
fn stages(result: &RunResult) -> String {
    let part = |seconds: f64| 100.0 * seconds / result.wall_s.max(1e-9);
    let stages = result.by_stage.iter().map(|(name, stage)| {
        let cpu = stage
            .cpu_s
            .map_or_else(String::new, |cpu_s| format!(" ({:.0} % on a processor)", part(cpu_s)));
        format!("{name} {:.0} %{cpu}", part(stage.busy_s))
    });
    stages.collect::<Vec<_>>().join(" · ")
}

/// How a database came back.
fn opened(recovery: &RecoveryResult) -> String {
    let torn = match recovery.clean {
        true => String::new(),
        false => format!(" · a torn tail of {} was cut off", size(recovery.torn_bytes)),
    };
    format!(
        "{} transactions from {} of log in {:.2} s{torn}",
        separated(recovery.transactions),
        size(recovery.log_bytes),
        recovery.wall_s
    )
}

/// The kinds of transaction of all workloads, in the order they are printed.
fn kind_names() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().flat_map(|workload| workload.kinds).copied()
}

fn by_transaction(by_name: &BTreeMap<String, ByTransaction>, style: Style) -> String {
    let rows = kind_names().filter_map(|name| {
        let kind = by_name.get(name)?;
        let at = |get: fn(&Latency) -> f64| {
            kind.latency_us.as_ref().map_or_else(String::new, |summary| quantity(get(summary)))
        };
        Some(vec![
            name.to_owned(),
            separated(kind.committed),
            separated(kind.aborted),
            at(|summary| summary.p50),
            at(|summary| summary.p99),
            at(|summary| summary.p999),
        ])
    });
    let heads = ["transaction", "committed", "aborted", "p50 µs", "p99 µs", "p99.9 µs"];
    table_of(heads, rows, 1, style)
}

/// Instructions by transaction and call, with bars.
pub fn instructions(result: &RunResult, counter: &str, style: Style) -> String {
    const BAR: usize = 30;
    let mut text = format!(
        "  {}\n",
        style.strong(&format!("instructions per transaction, counted by {counter}"))
    );
    let counted = kind_names().filter_map(|name| {
        let kind = result.by_transaction.get(name)?;
        Some((name, kind, kind.instructions?))
    });
    for (name, kind, whole) in counted {
        let aborted = kind.aborted_instructions.map_or_else(String::new, |aborted| {
            format!(", {} when it aborts", whole_number(aborted))
        });
        let of = kind.counted.unwrap_or(0);
        let note = style.faint(&format!("mean of {}{aborted}", separated(of)));
        text.push_str(&format!("  {name:<13} {:>7}  {note}\n", style.strong(&whole_number(whole))));
        let Some(calls) = &kind.calls else { continue };
        for category in crate::counters::Category::ALL {
            let cost = calls.get(category.name()).copied().unwrap_or(0.0);
            if cost < 0.5 {
                continue;
            }
            let drawn = style.bar(&bar(cost, whole, BAR));
            let percent = 100.0 * cost / whole;
            text.push_str(&format!(
                "    {:<11} {:>7} {percent:>3.0} % {drawn}\n",
                category.name(),
                whole_number(cost)
            ));
        }
    }
    text
}

/// Instructions are exact: all their digits mean something.
fn whole_number(value: f64) -> String {
    separated(value.round().max(0.0) as u64)
}

/// What a sweep prints last.
pub fn summary(summary: &Summary, style: Style) -> String {
    let rows = summary.summary.iter().map(|point| {
        let at = at_point(&point.point);
        let rate = &point.tps_per_cpu_s;
        vec![
            if at.is_empty() { "all rounds".to_owned() } else { at },
            quantity(rate.median),
            quantity(rate.min),
            quantity(rate.max),
            format!("{:.2} ×", point.ratio_to_first.median),
        ]
    });
    let heads = ["point", "per CPU-second", "least", "most", "to the first"];
    format!("\n{}", table_of(heads, rows, 1, style))
}

/// What `compare` prints.
pub fn compare(engines: &[EngineResult], ratios: &RatioResult, style: Style) -> String {
    const BAR: usize = 40;
    let title = "processor time per committed transaction, best to worst round";
    let mut text = format!("{}\n", style.strong(title));
    let most = engines.iter().map(|engine| engine.us_per_transaction_cpu).fold(0.0, f64::max);
    for engine in engines {
        let spread = &engine.us_per_transaction_cpu_rounds;
        let drawn = style.bar(&bar(engine.us_per_transaction_cpu, most, BAR));
        let us = style.strong(&quantity(engine.us_per_transaction_cpu));
        let (least, most) = (quantity(spread.min), quantity(spread.max));
        let range = style.faint(&format!("{least} to {most}"));
        let mark = if engine.consistent { style.good("✓") } else { style.bad("✗") };
        text.push_str(&format!("  {mark} {:<16} {us:>6} µs  {range:<16} {drawn}\n", engine.engine));
        let (version, answers) = (&engine.engine_version, answers(engine));
        text.push_str(&format!("    {}\n", style.faint(&format!("{version}{answers}"))));
    }
    text.push('\n');
    for (pair, ratio) in &ratios.tps_ratios {
        text.push_str(&ratio_line(pair, "does", "the transactions per second of", ratio, style));
    }
    for (pair, ratio) in &ratios.ratios {
        text.push_str(&ratio_line(pair, "takes", "the processor time of", ratio, style));
    }
    text
}

/// How two engines compare, named as `"the one:the other"`.
fn ratio_line(pair: &str, does: &str, what: &str, ratio: &Spread, style: Style) -> String {
    let (one, other) = pair.split_once(':').unwrap_or((pair, ""));
    let times = style.strong(&format!("{} ×", quantity(ratio.median)));
    let range = style.faint(&format!("{} to {}", quantity(ratio.min), quantity(ratio.max)));
    format!("  {one} {does} {times} {what} {other} {range}\n")
}

/// What `compare calls` prints.
pub fn calls(results: &[CallResult], style: Style) -> String {
    let mut text = String::new();
    let title = "what a call costs its caller, in µs: the middle round, latencies of a closed loop";
    text.push_str(&format!("{}\n", style.strong(title)));
    let head = ["", "callers", "wall", "CPU", "p50", "p99", "p99.9", "instructions", ""];
    for group in results.chunk_by(|a, b| (&a.what, &a.durability) == (&b.what, &b.durability)) {
        let what = format!("{}, durability {}", group[0].what, group[0].durability);
        text.push_str(&format!("\n{}\n", style.strong(&what)));
        let rows = group.iter().map(|result| {
            let CallResult { wall_us, cpu_us, p50_us, p99_us, p999_us, .. } = result;
            let mark = match result.consistent {
                Some(true) => "✓",
                Some(false) => "✗ money is not what it was",
                None => "",
            };
            let mut row = vec![result.engine.clone(), result.callers.to_string()];
            row.extend([wall_us, cpu_us, p50_us, p99_us, p999_us].map(|us| quantity(*us)));
            row.push(result.instructions.map_or_else(String::new, quantity));
            row.push(mark.to_owned());
            row
        });
        text.push_str(&table_of(head, rows, 1, style));
    }
    text
}

/// How fast an engine answered its callers, if it had any.
fn answers(engine: &EngineResult) -> String {
    let (Some(clients), Some(in_flight), Some(latency)) =
        (engine.clients, engine.in_flight, &engine.latency_us)
    else {
        return String::new();
    };
    let (transport, durability) = (&engine.transport, &engine.durability);
    format!(
        " · {transport} · durability {durability} · {clients} × {in_flight} calls · {} per second · p50 \
         {} µs, p99 {} µs",
        quantity(engine.tps),
        quantity(latency.p50),
        quantity(latency.p99)
    )
}

/// What `check` prints.
pub fn check(result: &CheckResult, style: Style) -> String {
    let mut text = String::new();
    let tampered = result.tampered.as_ref();
    let tampered = tampered.map_or_else(String::new, |check| format!(" · tampered with: {check}"));
    let title = format!("{}{tampered}", result.directory);
    text.push_str(&format!("{}\n", style.strong(&title)));
    text.push_str(&named("checks", &checks(&result.checks, style)));
    for damage in &result.damage {
        text.push_str(&named(&damage.check, &damage.what));
    }
    let state = result.state_hash.as_deref().unwrap_or("not all rows can be read");
    text.push_str(&named("state", state));
    if let Some(dump) = &result.dump {
        text.push_str(&named("rows", &format!("{dump}/TABLE.copy")));
    }
    text
}

/// What `run --list-profiles` prints.
pub fn profiles(results: &[ProfileResult], style: Style) -> String {
    let row = |result: &ProfileResult| {
        vec![
            result.profile.to_owned(),
            result.store.to_owned(),
            if result.undo { "yes" } else { "no" }.to_owned(),
            format!("1 to {}", result.threads_max).replace("1 to 1", "1"),
            result.durability.join(" "),
            switches_on(&result.switches),
        ]
    };
    let heads = ["profile", "store", "undo", "threads", "durability", "components on"];
    table_of(heads, results.iter().map(row), heads.len(), style)
}

/// The switches that are on: `S2…S6 S9`.
fn switches_on(switches: &BTreeMap<String, bool>) -> String {
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
