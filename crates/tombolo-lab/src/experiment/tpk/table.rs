//! Table 1 and the time breakdown as rows: the paper's figure, ours, their ratio, and what makes
//! them differ (TPK-39 … TPK-42).
//!
//! At the paper's sizes terminals take their time (TPK-28): there throughput is how much of that the
//! threads overlap. Scaled up, without terminals, it is what stages and log take. What explains B/A is measured
//! with it: processors used, context switches, group size (TPK-41). Not here: running a point (`terminals.rs`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use tombolo_engine::threads;

use super::configuration::Configuration;
use super::paper::{Column, PRINTED};
use super::terminals::{Measured, Point, measure};
use crate::experiment::looking_glass::result::Row;
use crate::experiment::paper::paper;
use crate::experiment::{Reproduced, Wanted};
use crate::failure::Failure;
use crate::files::{Medium, Place};
use crate::histogram::SECOND_NS;
use crate::numbers::rounded;
use crate::progress::Progress;
use crate::settings::{self, Settings, Source};
use crate::workload::debit_credit::Scale;
use Configuration::{A, B, C};

paper! {
    /// A table of the paper.
    pub enum Table {
        /// Throughput and response times by configuration.
        Table1 = "tpk/table1", "Table 1: debit-credit on one processor and on several";
        /// Where the time of a run goes.
        Breakdown = "tpk/breakdown", "Time breakdown: how long each stage is busy";
    }
    has_terminals: true,
    reproduce: reproduce,
}

/// How long a terminal takes by default: the shortest time of the paper.
const TERMINAL: Duration = Duration::from_micros(500);
/// Transactions of a run at the paper's sizes, by default (TPK-38).
pub const TRANSACTIONS: u64 = 50_000;
/// How much larger, and longer, runs are that are scaled up.
const SCALED_BY: u32 = 100;
const LONGER_BY: u64 = 10;
/// Group sizes, as the paper has them by configuration (TPK-39).
const GROUPS: [u64; 3] = [50, 200, 400];
const PAPERS_MACHINE: &str = "another machine: five 1-MIPS processors with a disk for the log";

/// The settings and tools with which the tables are made.
#[derive(Clone, Debug)]
pub struct TablePlan {
    /// The settings of every run.
    pub settings: Settings,
    /// How long a terminal takes for a transaction, and for its answer (TPK-28).
    pub terminal: Duration,
}

impl TablePlan {
    /// Reads the settings.
    ///
    /// # Errors
    /// Usage, when they ask for what a table cannot be made with.
    pub fn new(settings: &Settings, terminal: Duration) -> Result<Self, Failure> {
        let mut settings = settings.clone();
        settings.set(settings::TRANSACTIONS.name, &TRANSACTIONS.to_string(), Source::Default)?;
        if settings.word(&settings::DURABILITY) == "none" {
            return Err(Failure::usage(
                "the paper's transactions are durable: leave --durability none out",
            ));
        }
        Ok(Self { settings, terminal })
    }

    fn point(&self, configuration: Configuration, group: u64, is_scaled: bool) -> Point {
        let transactions = self.settings.number(&settings::TRANSACTIONS).unwrap_or(TRANSACTIONS);
        let seed = self.settings.count(&settings::SEED);
        let (by, longer) = if is_scaled { (SCALED_BY, LONGER_BY) } else { (1, 1) };
        Point {
            configuration,
            group,
            // 15 branches, 150 tellers, 15,000 accounts (TPK-37).
            scale: Scale {
                seed,
                branches: 15 * by,
                tellers_per_branch: 10,
                accounts_per_branch: 1_000,
            },
            transactions: transactions * longer,
            terminal: if is_scaled { Duration::ZERO } else { self.terminal },
        }
    }

    /// The run of a configuration in groups of the paper's size.
    fn own(&self, configuration: Configuration) -> Point {
        self.point(configuration, PRINTED.configurations[&configuration].group, false)
    }

    /// The runs that `table` needs.
    fn points(&self, table: Table) -> Vec<Point> {
        match table {
            Table::Breakdown => vec![self.own(C)],
            Table::Table1 => {
                let own = Configuration::ALL.into_iter().map(|of| self.own(of));
                let compared =
                    PRINTED.speedups.iter().flat_map(|speedup| [speedup.over, speedup.of]);
                let papers = own.chain(compared.map(|(of, group)| self.point(of, group, false)));
                let at = |of| GROUPS.map(|group| self.point(of, group, true));
                papers.chain(Configuration::ALL.into_iter().flat_map(at)).collect()
            }
        }
    }
}

fn reproduce(
    tables: &[Table],
    wanted: &Wanted,
    progress: &mut dyn Progress,
) -> Result<Reproduced, Failure> {
    let plan = TablePlan::new(&wanted.settings, wanted.terminal.unwrap_or(TERMINAL))?;
    let data = Some(plan.settings.word(&settings::DATA)).filter(|data| !data.is_empty());
    let place = Place::create(data.map(Path::new), Medium::lasting_if(!wanted.volatile_ok))?;
    let mut found: Found = Vec::new();
    for point in tables.iter().flat_map(|&table| plan.points(table)) {
        if find(&found, &point).is_none() {
            let directory: PathBuf = place.path.join(format!("run-{}", found.len()));
            let measured = measure(&point, &plan.settings, &directory, progress);
            let files = Place { path: directory, ..place.clone() };
            let removed = if files.path.is_dir() { files.remove() } else { Ok(()) };
            found.push((point, measured?));
            removed?;
        }
    }
    if place.is_fresh {
        place.remove()?;
    }
    let cores = threads::available();
    let found = tables.iter().map(|&table| {
        let notes = notes(table, &plan, &found, cores);
        table.reproduction(rows(table, &plan, &found, cores), notes)
    });
    let found = found.collect();
    let header = vec![("terminal_us", (plan.terminal.as_micros() as u64).into())];
    Ok(Reproduced { settings: plan.settings, header, found })
}

/// Runs with what they found.
pub(super) type Found = Vec<(Point, Measured)>;

fn find<'f>(found: &'f Found, point: &Point) -> Option<&'f Measured> {
    found.iter().find(|(of, _)| of == point).map(|(_, measured)| measured)
}

/// The rows of `table`.
pub(super) fn rows(table: Table, plan: &TablePlan, found: &Found, cores: usize) -> Vec<Row> {
    match table {
        Table::Table1 => {
            let columns = Configuration::ALL.into_iter();
            let columns = columns.flat_map(|of| of_configuration(of, plan, found, cores));
            columns.chain(speedups(plan, found)).chain(scaled(plan, found)).collect()
        }
        Table::Breakdown => breakdown(plan, found),
    }
}

fn row(
    name: impl Into<String>,
    unit: &str,
    paper: impl Into<Option<f64>>,
    ours: Option<f64>,
    reference: &str,
) -> Row {
    let ours = ours.map(|ours| rounded(ours, 3));
    let mut row = Row::measured(name, unit, paper.into(), ours);
    row.ratio = row.ratio.map(|ratio| rounded(ratio, 4));
    row.reference = reference.to_owned();
    row
}

/// A configuration's column of Table 1.
fn of_configuration(of: Configuration, plan: &TablePlan, found: &Found, cores: usize) -> Vec<Row> {
    let Column { tps, mean_ms, max_ms, within_1s_percent, group } = PRINTED.configurations[&of];
    let ours = find(found, &plan.own(of));
    let responses = ours.and_then(|ours| ours.responses.summary());
    let within = ours.map(|ours| ours.responses.within_percent(SECOND_NS));
    let figures = [
        ("throughput", "tps", tps, ours.map(Measured::tps)),
        ("mean response", "ms", mean_ms, responses.map(|found| found.mean / 1e3)),
        ("longest response", "ms", max_ms, responses.map(|found| found.max / 1e3)),
        ("responses below 1 s", "%", within_1s_percent, within),
        ("group size", "transactions", group as f64, ours.map(|ours| ours.per_flush)),
    ];
    let own = of.caveat(cores).map_or_else(String::new, |own| format!("; {own}"));
    let name = |name: &str| format!("{} · {name}", of.name());
    let rows = figures.map(|(what, unit, paper, ours)| Row {
        caveat: format!("{PAPERS_MACHINE}{own}"),
        ..row(name(what), unit, paper, ours, "TPK-39")
    });
    let mut rows = rows.to_vec();
    if let Some(ours) = ours {
        let (used, checkpoints) = (Some(processors(ours)), Some(ours.checkpoints as f64));
        rows.extend([
            row(name("processors used"), "processors", None, used, "TPK-41"),
            row(name("context switches"), "per transaction", None, switches(ours), "TPK-41"),
            row(name("checkpoints"), "", 5.0, checkpoints, "TPK-38"),
        ]);
    }
    rows
}

fn processors(of: &Measured) -> f64 {
    of.cpu.as_secs_f64() / of.wall.as_secs_f64().max(1e-9)
}

fn switches(of: &Measured) -> Option<f64> {
    of.switches.map(|switches| switches.all() as f64 / of.done().max(1) as f64)
}

/// How many times as many transactions one run executes as another.
fn speedup(of: Option<&Measured>, over: Option<&Measured>) -> Option<f64> {
    Some(of?.tps() / over?.tps())
}

fn speedups(plan: &TablePlan, found: &Found) -> impl Iterator<Item = Row> {
    PRINTED.speedups.iter().map(|shown| {
        let at = |(of, group)| find(found, &plan.point(of, group, false));
        let ours = speedup(at(shown.of), at(shown.over));
        let reference = if shown.printed.is_some() { "TPK-40" } else { "TPK-41" };
        let caveat = shown.meaning.unwrap_or(PAPERS_MACHINE).to_owned();
        Row { caveat, ..row(shown.name, "×", shown.printed, ours, reference) }
    })
}

/// The same with more rows and no terminals, for each group size.
fn scaled(plan: &TablePlan, found: &Found) -> Vec<Row> {
    let mut rows = Vec::new();
    for group in GROUPS {
        let at = |of| find(found, &plan.point(of, group, true));
        for of in Configuration::ALL {
            let name = format!("scaled up, groups of {group} · {}", of.name());
            let (tps, each) = (at(of).map(Measured::tps), at(of).and_then(switches));
            rows.extend([
                row(format!("{name} · throughput"), "tps", None, tps, "TPK-37"),
                row(format!("{name} · context switches"), "per transaction", None, each, "TPK-41"),
            ]);
        }
        for (of, over) in [(B, A), (C, B)] {
            let name = format!("scaled up, groups of {group} · {} / {}", of.name(), over.name());
            rows.push(row(name, "×", None, speedup(at(of), at(over)), "TPK-41"));
        }
    }
    rows
}

/// How long the stages of configuration C are busy.
fn breakdown(plan: &TablePlan, found: &Found) -> Vec<Row> {
    let Some(ours) = find(found, &plan.own(C)) else { return Vec::new() };
    let stages = stages(ours).map(|(_, seconds)| seconds);
    let wall = [ours.wall.as_secs_f64()].into_iter();
    let all = wall.chain(stages).chain([ours.busy.checkpoint_ns as f64 / 1e9]);
    let rows = PRINTED.breakdown.iter().zip(all).map(|(printed, ours)| Row {
        caveat: format!("{PAPERS_MACHINE}{}", printed.more),
        ..row(printed.stage, "s", printed.seconds, Some(ours), "TPK-42")
    });
    rows.collect()
}

/// Notes for readers of the result, from the measurements.
pub(super) fn notes(table: Table, plan: &TablePlan, found: &Found, cores: usize) -> Vec<String> {
    let terminal_us = plan.terminal.as_micros();
    let mut notes = vec![format!(
        "A terminal takes {terminal_us} µs for a transaction and as long for its answer; threads are \
         busy meanwhile. A runs on one core, B and C on {cores}. Input is the calling thread; a thread that \
         makes room in the log, and is idle but then, comes to the paper's. A flush takes all that was \
         executed until then, so a group may be larger than the size that was asked for."
    )];
    notes.extend(B.caveat(cores).map(|caveat| format!("Configurations B and C: {caveat}.")));
    notes.push(
        "C's processors are those of both processes, its context switches those of the process that \
         executes."
            .to_owned(),
    );
    if table == Table::Table1 {
        let at = |of| find(found, &plan.own(of));
        notes.extend(directions(at, cores));
        for group in GROUPS {
            let at = |of| find(found, &plan.point(of, group, true));
            let scaled = |direction| format!("Scaled up, groups of {group}: {direction}");
            notes.extend(directions(at, cores).map(scaled));
        }
    }
    notes
}

/// The ratios B/A and C/B, where both were run.
fn directions<'f>(
    at: impl Fn(Configuration) -> Option<&'f Measured>,
    cores: usize,
) -> impl Iterator<Item = String> {
    let directed = move |(over, of)| Some(direction((over, at(over)?), (of, at(of)?), cores));
    [(A, B), (B, C)].into_iter().filter_map(directed)
}

/// Whether the second is faster than the first, and why, or why not.
pub(super) fn direction(
    (over, a): (Configuration, &Measured),
    (of, b): (Configuration, &Measured),
    cores: usize,
) -> String {
    let (ratio, used_a, used_b) = (b.tps() / a.tps(), processors(a), processors(b));
    let (over, of) = (over.name(), of.name());
    let switched = match (switches(a), switches(b)) {
        (Some(a), Some(b)) => {
            format!("context switches went from {a:.3} to {b:.3} a transaction")
        }
        _ => "the system does not count context switches".to_owned(),
    };
    let parts = format!(
        "{over} used {used_a:.2} processors and {of} {used_b:.2} of {cores}, {switched}, and a flush \
         covered {:.0} transactions instead of {:.0}",
        b.per_flush, a.per_flush
    );
    let (slowest, busy) = slowest(b);
    let limit =
        format!("{of}'s slowest thread is {slowest}, busy {:.0} % of the time", 100.0 * busy);
    match () {
        () if ratio > 1.0 => {
            format!("{of} is {ratio:.2} times as fast as {over}: {parts}; {limit}.")
        }
        () if used_b > 0.95 * cores as f64 => format!(
            "This machine does not show the paper's direction ({of} / {over} {ratio:.2}): {of} uses \
             all of its {cores} cores, and its threads take them from each other: {parts}; {limit}."
        ),
        () => format!(
            "This machine does not show the paper's direction ({of} / {over} {ratio:.2}), though {of} \
             used only {used_b:.2} of {cores} cores, the others being idle or other processes': \
             {limit}; {parts}."
        ),
    }
}

/// How many seconds each stage is busy.
fn stages(of: &Measured) -> [(&'static str, f64); 4] {
    let seconds = |ns: u64| ns as f64 / 1e9;
    [
        ("input", of.input.as_secs_f64()),
        ("execution", seconds(of.busy.execution_ns)),
        ("logging", seconds(of.busy.logging_ns)),
        ("output", seconds(of.busy.output_ns)),
    ]
}

/// The stage that is busy longest, and what part of the time.
fn slowest(of: &Measured) -> (&'static str, f64) {
    let slowest = stages(of).into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
    let (name, busy) = slowest.unwrap_or(("none", 0.0));
    (name, busy / of.wall.as_secs_f64().max(1e-9))
}
