//! Every other result on the page: the paper's rows, runs, comparisons, and a plain table of
//! whatever has no page of its own.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::chart::{self, Bar, Marks, Palette, Segment, Slim};
use super::markup::Markup;
use super::read::Found;
use super::{Cell, MISSING, Stored, json_text, table};
use crate::compare::EngineResult;
use crate::compare::calls::CallResult;
use crate::counters::Category;
use crate::experiment::looking_glass::figures::Figure;
use crate::experiment::looking_glass::result::{Headed, Row};
use crate::histogram::Summary as Latency;
use crate::report::canvas::{Canvas, wrapped};
use crate::report::dissection::{figure, times, whole};
use crate::report::run::RunResult;
use crate::report::{quantity, separated};
use crate::sweep::{Spread, Summary};

/// `Figure 5: …`, or the identifier of what is not in this paper.
pub(super) fn reproduction_heading(stored: &Stored) -> String {
    let Found::Reproduction(reproduction) = &stored.found else { return String::new() };
    let id = &reproduction.found.id;
    Figure::find(id).map_or_else(|| id.clone(), |figure| figure.title().to_owned())
}

/// Paper, ours, ratio, caveat.
pub(super) fn rows_table(page: &mut Markup, caption: &str, rows: &[Row]) {
    let missing = || MISSING.to_owned();
    let mut cells: Vec<Vec<Cell>> = Vec::new();
    let mut unit = "";
    for row in rows {
        if row.unit != unit {
            unit = &row.unit;
            cells.push(vec![Cell::Unit(unit.to_owned())]);
        }
        cells.push(vec![
            Cell::Head(row.name.clone()),
            Cell::Figure(row.paper.map_or_else(missing, |value| figure(value, unit))),
            Cell::Figure(row.ours.map_or_else(missing, |value| figure(value, unit))),
            Cell::Figure(row.ratio.map_or_else(missing, times)),
            Cell::Long(row.remark()),
            Cell::Left(row.reference.clone()),
        ]);
    }
    let heads = ["", "paper", "ours", "ratio", "caveat", "fact"];
    table(page, caption, &heads, &cells);
}

/// A result of `paper`.
pub(super) fn reproduction(page: &mut Markup, stored: &Stored) {
    let Found::Reproduction(Headed { found: reproduction, .. }) = &stored.found else { return };
    for note in &reproduction.notes {
        page.leaf("p", &[("class", "note")], note);
    }
    let mut units: Vec<&str> = Vec::new();
    for row in &reproduction.rows {
        if row.paper.is_some() && row.ours.is_some() && !units.contains(&row.unit.as_str()) {
            units.push(&row.unit);
        }
    }
    for unit in units {
        let of_unit = reproduction.rows.iter().filter(|row| row.unit == unit);
        let rows: Vec<&Row> = of_unit.filter(|row| row.paper.is_some()).collect();
        let values = rows.iter().flat_map(|row| [row.paper, row.ours]).flatten();
        let most = values.fold(0.0, f64::max);
        let mut lines = Vec::new();
        for row in rows {
            lines.push(Slim::Heading(row.name.clone()));
            for (name, value, at) in [("paper", row.paper, 7), ("ours", row.ours, 0)] {
                lines.push(match value {
                    None => Slim::Missing(format!("{MISSING} {name}")),
                    Some(value) => {
                        let text = format!("{} {name}", figure(value, unit));
                        Slim::Bar { at, value, text, spread: None }
                    }
                });
            }
        }
        page.node("figure", &[], |page| {
            page.leaf("figcaption", &[], &format!("In {unit}."));
            let label = format!("{}, in {unit}; the table has the figures", reproduction.id);
            chart::slim(page, &label, most, &lines);
        });
    }
    rows_table(page, &reproduction_heading(stored), &reproduction.rows);
}

/// What distinguishes a run from those next to it.
fn run_name(run: &RunResult) -> String {
    let mut parts = vec![run.profile.clone()];
    parts.extend(run.scale.mix.iter().map(|mix| format!("{mix} mix")));
    parts.extend(run.scale.warehouses.map(|warehouses| format!("{warehouses} warehouses")));
    parts.extend(run.scale.branches.map(|branches| format!("{branches} branches")));
    parts.push(format!("durability {}", run.durability));
    parts.extend((run.threads > 1).then(|| format!("{} threads", run.threads)));
    if let Some(point) = &run.point {
        parts.extend(point.iter().map(|(key, value)| format!("{key}={}", json_text(value))));
    }
    parts.extend(run.round.map(|round| format!("round {round}")));
    parts.join(" · ")
}

/// The results of one type.
fn those<'r, T>(results: &[&'r Stored], of: impl Fn(&'r Found) -> Option<&'r T>) -> Vec<&'r T> {
    results.iter().filter_map(|&stored| of(&stored.found)).collect()
}

/// Results of `run`, and of a sweep.
pub(super) fn runs(page: &mut Markup, results: &[&Stored]) {
    let runs = those(results, |found| match found {
        Found::Run(run) => Some(&**run),
        _ => None,
    });
    if !runs.is_empty() {
        throughputs(page, &runs);
    }
    // The rounds of a sweep are alike: the first stands for them.
    for run in runs.iter().filter(|run| run.round.is_none_or(|round| round == 1)) {
        let name = run_name(run);
        if run.latency_us.is_some() {
            latencies(page, run, &name);
        }
        instructions(page, run, &name);
    }
    for stored in results {
        if let Found::Summary(summary) = &stored.found {
            sweep(page, summary);
        }
    }
}

fn throughputs(page: &mut Markup, runs: &[&RunResult]) {
    page.node("figure", &[], |page| {
        let caption = "Committed transactions per second of processor time.";
        page.leaf("figcaption", &[], caption);
        let most = runs.iter().map(|run| run.tps_per_cpu_s).fold(0.0, f64::max);
        let mut lines = Vec::new();
        for run in runs {
            lines.push(Slim::Heading(run_name(run)));
            let text = quantity(run.tps_per_cpu_s);
            lines.push(Slim::Bar { at: 0, value: run.tps_per_cpu_s, text, spread: None });
        }
        let said: Vec<String> = runs
            .iter()
            .map(|run| format!("{}: {}", run_name(run), quantity(run.tps_per_cpu_s)))
            .collect();
        chart::slim(page, &format!("{caption} {}", said.join("; ")), most, &lines);
    });
    let heads = [
        "run",
        "workload",
        "committed",
        "per second",
        "per CPU-second",
        "a miss, ns",
        "consistent",
        "state",
    ];
    let row = |run: &&RunResult| {
        vec![
            Cell::Head(run_name(run)),
            Cell::Left(run.workload.clone()),
            Cell::Figure(separated(run.committed)),
            Cell::Figure(quantity(run.tps)),
            Cell::Figure(quantity(run.tps_per_cpu_s)),
            Cell::Figure(run.miss_ns.map_or_else(|| MISSING.to_owned(), quantity)),
            Cell::Holds(run.consistent),
            Cell::Code(run.state_hash.clone().unwrap_or_else(|| MISSING.to_owned())),
        ]
    };
    let rows: Vec<Vec<Cell>> = runs.iter().map(row).collect();
    table(page, "Runs", &heads, &rows);
    let mut notes: Vec<&String> = runs.iter().flat_map(|run| &run.notes).collect();
    notes.dedup();
    for note in notes {
        page.leaf("p", &[("class", "note")], note);
    }
}

/// A point of a latency's distribution: its name and where it stands.
type Percentile = (&'static str, fn(&Latency) -> f64);

const PERCENTILES: [Percentile; 5] = [
    ("p50", |latency| latency.p50),
    ("p95", |latency| latency.p95),
    ("p99", |latency| latency.p99),
    ("p99.9", |latency| latency.p999),
    ("max", |latency| latency.max),
];

fn latencies(page: &mut Markup, run: &RunResult, name: &str) {
    let all = run.latency_us.map(|latency| ("all".to_owned(), latency));
    let kinds = run.by_transaction.iter();
    let kinds = kinds.filter_map(|(name, kind)| Some((name.replace('_', " "), kind.latency_us?)));
    let named: Vec<(String, Latency)> = all.into_iter().chain(kinds).collect();
    let drawn = [0, 2, 3, 4].map(|at| PERCENTILES[at]);
    let lines: Vec<Marks> = named
        .iter()
        .map(|(name, latency)| Marks {
            name: name.clone(),
            figure: format!("{} / {} µs", quantity(latency.p50), quantity(latency.p999)),
            marks: drawn
                .iter()
                .enumerate()
                .map(|(series, (what, of))| {
                    (series, of(latency), format!("{what}: {} µs", quantity(of(latency))))
                })
                .collect(),
        })
        .collect();
    page.node("figure", &[], |page| {
        let caption = format!("Latency of {name} in µs: p50 / p99.9; the axis is logarithmic.");
        page.leaf("figcaption", &[], &caption);
        let said: Vec<String> =
            lines.iter().map(|line| format!("{}: {}", line.name, line.figure)).collect();
        chart::logarithmic(page, &format!("{caption} {}", said.join("; ")), &lines);
        chart::shapes_legend(page, &drawn.map(|(what, _)| what));
    });
    let heads = ["", "committed", "aborted", "p50", "p95", "p99", "p99.9", "max", "instructions"];
    let kind_of = |name: &str| run.by_transaction.get(&name.replace(' ', "_"));
    let rows: Vec<Vec<Cell>> = named
        .iter()
        .map(|(name, latency)| {
            let kind = kind_of(name);
            let committed = kind.map_or(run.committed, |kind| kind.committed);
            let total = || run.by_transaction.values().map(|kind| kind.aborted).sum();
            let aborted = kind.map_or_else(total, |kind| kind.aborted);
            let mut row = vec![
                Cell::Head(name.clone()),
                Cell::Figure(separated(committed)),
                Cell::Figure(separated(aborted)),
            ];
            row.extend(PERCENTILES.map(|(_, of)| Cell::Figure(quantity(of(latency)))));
            let instructions = kind.and_then(|kind| kind.instructions);
            row.push(Cell::Figure(instructions.map_or_else(|| MISSING.to_owned(), whole)));
            row
        })
        .collect();
    table(page, &format!("{name}: latency in µs"), &heads, &rows);
}

/// Where the instructions of a counted run's transactions go, by call.
fn instructions(page: &mut Markup, run: &RunResult, name: &str) {
    let mut bars = Vec::new();
    for (kind, read) in &run.by_transaction {
        let (Some(calls), Some(counted)) = (&read.calls, read.instructions) else { continue };
        let segments = Category::ALL.into_iter().enumerate().filter_map(|(at, category)| {
            let value = *calls.get(category.name())?;
            let name = category.name().to_owned();
            Some(Segment { at, value, name, figure: whole(value) })
        });
        bars.push(Bar {
            name: kind.replace('_', " "),
            figure: whole(counted),
            segments: segments.collect(),
            mark: None,
        });
    }
    let lengths = bars.iter().map(|bar| bar.segments.iter().map(|s| s.value).sum::<f64>());
    let most = lengths.fold(0.0, f64::max);
    if most == 0.0 {
        return;
    }
    page.node("figure", &[], |page| {
        let caption = format!("Instructions of {name}, by call.");
        page.leaf("figcaption", &[], &caption);
        let said: Vec<String> =
            bars.iter().map(|bar| format!("{} {}", bar.name, bar.figure)).collect();
        let label = format!("{caption} {}", said.join("; "));
        chart::stacked(page, &label, Palette::Call, most, &bars);
        let names: Vec<_> = Category::ALL.into_iter().map(Category::name).enumerate().collect();
        chart::legend(page, Palette::Call, &names);
    });
}

fn spread_cells(spread: &Spread) -> [Cell; 3] {
    [spread.median, spread.min, spread.max].map(|value| Cell::Figure(quantity(value)))
}

fn sweep(page: &mut Markup, summary: &Summary) {
    let rows: Vec<Vec<Cell>> = summary
        .summary
        .iter()
        .map(|point| {
            let at = point.point.iter().map(|(key, value)| format!("{key}={}", json_text(value)));
            let at: Vec<String> = at.collect();
            let name = if at.is_empty() { "all rounds".to_owned() } else { at.join(" ") };
            let mut row = vec![Cell::Head(name)];
            row.extend(spread_cells(&point.tps_per_cpu_s));
            row.push(Cell::Figure(times(point.ratio_to_first.median)));
            row
        })
        .collect();
    let heads = ["point", "per CPU-second", "least", "most", "to the first"];
    table(page, "Sweep, over its rounds", &heads, &rows);
}

/// Results of one `compare`.
pub(super) fn comparison(page: &mut Markup, results: &[&Stored]) {
    let engines = those(results, |found| match found {
        Found::Engine(engine) => Some(&**engine),
        _ => None,
    });
    let calls = those(results, |found| match found {
        Found::Call(call) => Some(&**call),
        _ => None,
    });
    let ratios = those(results, |found| match found {
        Found::Ratios(found) => Some(&found.ratios),
        Found::CallRatios(found) => Some(&found.ratios),
        _ => None,
    });
    let ratios: BTreeMap<&String, &Spread> = ratios.into_iter().flatten().collect();
    if !engines.is_empty() {
        engine_bars(page, &engines);
        engine_table(page, &engines);
    }
    if !calls.is_empty() {
        call_table(page, &calls);
    }
    if !ratios.is_empty() {
        let rows: Vec<Vec<Cell>> = ratios
            .iter()
            .map(|(pair, ratio)| {
                let (theirs, ours) = pair.split_once(':').unwrap_or((pair, ""));
                let mut row = vec![Cell::Head(format!("{theirs} / {ours}"))];
                let spread = [ratio.median, ratio.min, ratio.max];
                row.extend(spread.map(|value| Cell::Figure(times(value))));
                row
            })
            .collect();
        let caption = "Processor time, theirs divided by ours, over interleaved rounds";
        table(page, caption, &["", "median", "least", "most"], &rows);
    }
}

fn engine_bars(page: &mut Markup, engines: &[&EngineResult]) {
    page.node("figure", &[], |page| {
        let caption = "Processor time per committed transaction in µs; the line runs from the \
                       best round to the worst.";
        page.leaf("figcaption", &[], caption);
        let ends = engines.iter().map(|engine| engine.us_per_transaction_cpu_rounds.max);
        let most = ends.fold(0.0, f64::max);
        let mut lines = Vec::new();
        for engine in engines {
            let rounds = &engine.us_per_transaction_cpu_rounds;
            lines.push(Slim::Heading(format!("{} · {}", engine.engine, engine.engine_version)));
            lines.push(Slim::Bar {
                at: if engine.engine.starts_with("tombolo/") { 0 } else { 1 },
                value: engine.us_per_transaction_cpu,
                text: format!("{} µs", quantity(engine.us_per_transaction_cpu)),
                spread: Some((rounds.min, rounds.max)),
            });
        }
        let said: Vec<String> = engines
            .iter()
            .map(|e| format!("{} {} µs", e.engine, quantity(e.us_per_transaction_cpu)))
            .collect();
        chart::slim(page, &format!("{caption} {}", said.join("; ")), most, &lines);
    });
}

fn engine_table(page: &mut Markup, engines: &[&EngineResult]) {
    let heads = [
        "engine",
        "version",
        "µs",
        "best",
        "worst",
        "per second",
        "committed",
        "durability",
        "transport",
        "consistent",
    ];
    let row = |engine: &&EngineResult| {
        let rounds = &engine.us_per_transaction_cpu_rounds;
        vec![
            Cell::Head(engine.engine.clone()),
            Cell::Left(engine.engine_version.clone()),
            Cell::Figure(quantity(engine.us_per_transaction_cpu)),
            Cell::Figure(quantity(rounds.min)),
            Cell::Figure(quantity(rounds.max)),
            Cell::Figure(quantity(engine.tps)),
            Cell::Figure(separated(engine.committed)),
            Cell::Left(engine.durability.clone()),
            Cell::Left(engine.transport.clone()),
            Cell::Holds(engine.consistent),
        ]
    };
    let rows: Vec<Vec<Cell>> = engines.iter().map(row).collect();
    table(page, "Engines, processor time of a committed transaction", &heads, &rows);
}

fn call_table(page: &mut Markup, calls: &[&CallResult]) {
    let heads = ["engine", "call", "wall", "CPU", "p50", "p99", "p99.9", "instructions", "version"];
    let row = |call: &&CallResult| {
        let CallResult { wall_us, cpu_us, p50_us, p99_us, p999_us, .. } = call;
        let mut row = vec![Cell::Head(call.engine.clone()), Cell::Left(call.place())];
        row.extend(
            [wall_us, cpu_us, p50_us, p99_us, p999_us].map(|us| Cell::Figure(quantity(*us))),
        );
        row.push(Cell::Figure(call.instructions.map_or_else(|| MISSING.to_owned(), quantity)));
        row.push(Cell::Left(call.engine_version.clone()));
        row
    };
    let rows: Vec<Vec<Cell>> = calls.iter().map(row).collect();
    table(page, "Calls with their durability and callers, in µs", &heads, &rows);
}

/// The fields that stand at the top of the page or below the section.
const COMMON: [&str; 7] =
    ["command", "version", "commit", "settings", "settings_hash", "host", "seed"];

fn own_fields(stored: &Stored) -> impl Iterator<Item = (&String, &Json)> {
    stored.fields.iter().filter(|(name, _)| !COMMON.contains(&name.as_str()))
}

/// A result as a list of its fields.
pub(super) fn text(stored: &Stored, canvas: Canvas) -> String {
    let title = match (&stored.found, stored.head.command.as_str()) {
        (Found::Profile(_), _) => "profile",
        (_, "") => "sweep",
        (_, command) => command,
    };
    let mut text = format!("{}\n", canvas.style.strong(title));
    let widest = own_fields(stored).map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in own_fields(stored) {
        let lines = wrapped(&json_text(value), canvas.width().saturating_sub(widest + 4).max(20));
        let padding = " ".repeat(widest - name.chars().count());
        text.push_str(&format!("  {name}{padding}  {}\n", lines.first().map_or("", |l| l)));
        for line in lines.iter().skip(1) {
            text.push_str(&format!("{}{line}\n", " ".repeat(widest + 4)));
        }
    }
    text
}

/// A result of any other command: its fields, and its lists of objects as tables of their own.
pub(super) fn plain(page: &mut Markup, stored: &Stored) {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut lists: Vec<(&String, Vec<&Map<String, Json>>)> = Vec::new();
    for (name, value) in own_fields(stored) {
        let objects = value.as_array().filter(|list| !list.is_empty()).and_then(|list| {
            list.iter().map(Json::as_object).collect::<Option<Vec<&Map<String, Json>>>>()
        });
        match objects {
            Some(objects) => lists.push((name, objects)),
            None => rows.push(vec![Cell::Head(name.clone()), Cell::Long(json_text(value))]),
        }
    }
    if !rows.is_empty() {
        table(page, &stored.head.command, &["field", "value"], &rows);
    }
    for (name, objects) in lists {
        let mut keys: Vec<&str> = Vec::new();
        for object in &objects {
            keys.extend(
                object
                    .keys()
                    .map(String::as_str)
                    .filter(|key| !keys.contains(key))
                    .collect::<Vec<_>>(),
            );
        }
        let rows: Vec<Vec<Cell>> = objects
            .iter()
            .map(|object| {
                let cell = |key: &&str| match object.get(*key) {
                    Some(Json::Number(number)) => Cell::Figure(number.to_string()),
                    Some(value) => Cell::Left(json_text(value)),
                    None => Cell::Left(MISSING.to_owned()),
                };
                keys.iter().map(cell).collect()
            })
            .collect();
        table(page, name, &keys, &rows);
    }
}
