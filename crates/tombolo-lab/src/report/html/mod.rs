//! Results as one self-contained page: charts, the paper's figures next to ours, tables of all of it.
//!
//! [`read`] takes results out of files, [`page`] makes the page, [`text`] says the same on a terminal. The page loads
//! nothing, from anywhere, needs no script, and holds no time of day: the same results give the same bytes. The
//! templates next to this file say how a result is shown; `template.rs` has the functions that they call, `chart.rs`
//! the one kind of chart, `figures.rs` the charts of a dissection, `series.rs` the table of several results of one
//! command.
//!
//! Not here: files.

mod chart;
mod figures;
mod read;
mod series;
mod template;

#[cfg(test)]
mod tests;

use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;
use serde_json::Value as Json;

pub use read::{Stored, read};

use chart::{Bar, Chart, Scale};
use figures::{call_names, call_parts};
use read::Found;
use series::{is_row, series};

use super::canvas::{Canvas, wrapped};
use super::dissection::{title_of, whole};
use super::run::RunResult;
use super::{Header, MISSING, dissection};
use crate::experiment::looking_glass::figures::{Figure, goes_down, text_rows};
use crate::experiment::looking_glass::paper::in_order;
use crate::experiment::looking_glass::result::{Dissection, Row};

/// Results that are shown together: the name of their template, a heading, and what the template shows.
struct Section<'a> {
    template: &'static str,
    title: String,
    results: Vec<&'a Stored>,
}

/// Runs that follow each other are one section, and so are the engines of one comparison, and other results of one
/// command that need no tables of their own.
fn sections(results: &[Stored]) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut is_compared = false;
    for stored in results {
        let (template, title) = match &stored.found {
            Found::Dissection(found) => ("dissect.html", dissection_title(found)),
            Found::Reproduction(found) => ("paper.html", title_of(&found.id).to_owned()),
            Found::Run(_) | Found::Summary(_) => ("runs.html", "Runs".to_owned()),
            found if found.is_compared() => ("comparison.html", "Next to other engines".to_owned()),
            Found::Profile(_) => ("plain.html", "Profiles".to_owned()),
            Found::Listed(_) => ("plain.html", "What can be reproduced".to_owned()),
            _ => ("plain.html", format!("Result of {}", stored.head.command)),
        };
        let continues = |last: &Section<'_>| match template {
            "runs.html" => last.template == template,
            "comparison.html" => is_compared && last.template == template,
            "plain.html" => {
                last.title == title && is_row(stored) && last.results.iter().all(|it| is_row(it))
            }
            _ => false,
        };
        match sections.last_mut().filter(|last| continues(last)) {
            Some(last) => {
                if template == "plain.html" {
                    last.template = "series.html";
                }
                last.results.push(stored);
            }
            None => sections.push(Section { template, title, results: vec![stored] }),
        }
        // Ratios end a comparison.
        is_compared = !matches!(stored.found, Found::Ratios(_) | Found::CallRatios(_));
    }
    sections
}

impl Section<'_> {
    /// The values for its template.
    fn shown(&self, id: usize) -> Value {
        let results: Vec<&Found> = self.results.iter().map(|stored| &stored.found).collect();
        let view = match results[..] {
            [Found::Dissection(found)] => dissection_view(found),
            _ if self.template == "series.html" => Value::from(Serde(series(&self.results))),
            _ => Value::UNDEFINED,
        };
        let fields: Vec<_> = self.results.iter().map(|stored| &stored.fields).collect();
        let runs: Vec<Value> = results.iter().filter_map(|found| run_view(found)).collect();
        let units = results.iter().find_map(|found| match found {
            Found::Reproduction(found) => Some(by_unit(&found.rows)),
            _ => None,
        });
        context! {
            id => format!("s{id}"), title => self.title.as_str(), template => self.template,
            view, runs, units, fields => Serde(fields),
        }
    }
}

fn dissection_title(dissection: &Dissection) -> String {
    let way = match dissection.ladder.as_str() {
        "paper" => "an engine taken apart",
        "reverse-locks" => "an engine taken apart, latching before locking",
        _ => "an engine put together",
    };
    let workload = if dissection.workload == "tpcc" { "TPC-C" } else { &dissection.workload };
    format!("{workload}: {way}")
}

/// Rows of one unit, with the scale of the points that show them.
#[derive(Serialize)]
struct UnitRows<'a> {
    unit: &'a str,
    scale: Scale,
    rows: Vec<&'a Row>,
}

/// Rows by unit, in the order in which units come first.
fn by_unit(rows: &[Row]) -> Value {
    let mut units: Vec<&str> = Vec::new();
    for row in rows {
        if !units.contains(&row.unit.as_str()) {
            units.push(&row.unit);
        }
    }
    let of_unit = |unit: &str| {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.unit == unit).collect();
        let values: Vec<f64> =
            rows.iter().flat_map(|row| [row.paper, row.ours]).flatten().collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        let scale = if unit.starts_with('%') { Scale::linear(most) } else { Scale::of(&values) };
        Value::from(Serde(UnitRows { unit, scale, rows }))
    };
    units.into_iter().map(of_unit).collect()
}

/// A dissection with what follows from it.
fn dissection_view(found: &Dissection) -> Value {
    let first = found.rungs.first().map(|rung| in_order(&rung.measured.by_transaction));
    // The longest bars open the page.
    let transactions: Vec<&str> = first.unwrap_or_default().into_iter().rev().collect();
    let ladders: Vec<Chart> =
        transactions.iter().filter_map(|transaction| figures::ladder(found, transaction)).collect();
    let shown = if goes_down(found) { Figure::ALL.to_vec() } else { Vec::new() };
    let shown: Vec<Value> = shown
        .into_iter()
        .map(|figure| {
            let charts = figures::charts(figure, found);
            let id = figure.item().id.trim_start_matches("lg/");
            let units = by_unit(&figure.rows(found));
            context! { id, title => figure.item().title, charts => Serde(charts), units }
        })
        .collect();
    context! {
        subtitle => dissection::title(found), found => Serde(found),
        transactions => Serde(transactions), ladders => Serde(ladders),
        names => found.rungs.iter().map(figures::rung_name).collect::<Vec<_>>(),
        figures => shown, text_units => by_unit(&text_rows(found)), goes_down => goes_down(found),
        hit => dissection::calls_hit(),
    }
}

/// A run with the chart of its calls; none of other results.
fn run_view(found: &Found) -> Option<Value> {
    let Found::Run(run) = found else { return None };
    let calls = Serde(calls_chart(run));
    Some(context! { calls, scale => run.label(), ..Value::from(Serde(run)) })
}

/// Where the instructions of a counted run's transactions go, by call.
fn calls_chart(run: &RunResult) -> Option<Chart> {
    let counted = run.by_transaction.iter().filter_map(|(name, kind)| {
        let (parts, figures) = (call_parts(kind.calls.as_ref()?), vec![whole(kind.instructions?)]);
        Some(Bar { name: name.replace('_', " "), figures, parts, mark: None })
    });
    let bars: Vec<Bar> = counted.collect();
    let lengths = bars.iter().map(|bar| bar.parts.iter().map(|part| part.value).sum::<f64>());
    let most = lengths.fold(0.0, f64::max);
    let (caption, heads) = ("Instructions by call.".to_owned(), vec!["instructions"]);
    let scale = Scale::linear(most);
    (most > 0.0).then(|| Chart { caption, palette: 'k', scale, heads, bars, legend: call_names() })
}

/// The page that shows `results`.
pub fn page(results: &[Stored]) -> String {
    let sections = sections(results);
    let shown: Vec<Value> =
        sections.iter().enumerate().map(|(i, section)| section.shown(i + 1)).collect();
    template::render(
        context! { sections => shown, sources => sources(results), settings => settings(results) },
    )
}

/// Which builds, machines and settings the results are of, with the commands.
fn sources(results: &[Stored]) -> Vec<Value> {
    let mut seen: Vec<(&Header, Vec<&str>)> = Vec::new();
    for head in results.iter().map(|stored| &stored.head).filter(|head| !head.command.is_empty()) {
        let key =
            |of: &Header| (of.commit.clone(), of.host.clone(), of.settings_hash.clone(), of.seed);
        match seen.iter_mut().find(|(other, _)| key(other) == key(head)) {
            Some((_, commands)) if commands.contains(&head.command.as_str()) => {}
            Some((_, commands)) => commands.push(&head.command),
            None => seen.push((head, vec![&head.command])),
        }
    }
    let shown = |(head, commands): (&Header, Vec<&str>)| {
        context! { commands => Serde(commands), ..Value::from(Serde(head)) }
    };
    seen.into_iter().map(shown).collect()
}

/// All effective settings of results, once for each that differ.
fn settings(results: &[Stored]) -> Vec<Value> {
    let mut seen: Vec<&Header> = Vec::new();
    for head in results.iter().map(|stored| &stored.head).filter(|head| !head.settings.is_empty()) {
        if !seen.iter().any(|other| other.settings == head.settings) {
            seen.push(head);
        }
    }
    seen.into_iter().map(|head| Value::from(Serde(head))).collect()
}

/// What `results` say, for a terminal: what was dissected or reproduced is drawn, the others are lists of
/// their fields.
pub fn text(results: &[Stored], canvas: Canvas) -> String {
    let texts: Vec<String> = results
        .iter()
        .map(|stored| match &stored.found {
            Found::Dissection(found) => dissection::text(found, canvas),
            Found::Reproduction(found) => dissection::reproduction(found, canvas),
            _ => canvas.finish(fields_text(stored, canvas)),
        })
        .collect();
    texts.join("\n")
}

/// A result as a list of its fields.
fn fields_text(stored: &Stored, canvas: Canvas) -> String {
    let title = match (&stored.found, stored.head.command.as_str()) {
        (Found::Profile(_), _) => "profile",
        (_, "") => "sweep",
        (_, command) => command,
    };
    let mut text = format!("{}\n", canvas.style.strong(title));
    let own =
        || stored.fields.iter().filter(|(name, _)| !template::COMMON.contains(&name.as_str()));
    let widest = own().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in own() {
        let lines = wrapped(&json_text(value), canvas.width().saturating_sub(widest + 4).max(20));
        for (i, line) in
            lines.iter().map(String::as_str).chain(lines.is_empty().then_some("")).enumerate()
        {
            let name = if i == 0 { name.as_str() } else { "" };
            text.push_str(&format!("  {name:<widest$}  {line}\n"));
        }
    }
    text
}

/// A JSON value as people read it.
fn json_text(value: &Json) -> String {
    match value {
        Json::Null => MISSING.to_owned(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}
