//! Results of one command that follow each other, as one table: what they have in common once, then a row for each.
//!
//! Not here: runs and comparisons, which have templates of their own.

use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::chart::{Bar, Chart, Part, Scale};
use super::read::{Found, Stored};
use super::template::{COMMON, field};
use crate::report::{MISSING, quantity};

/// The fields that name a result among others of its command.
const NAMES: [&str; 4] = ["profile", "id", "link", "sharing"];

/// Some results of one command.
#[derive(Debug, Serialize)]
pub(super) struct Series {
    /// Their picture, if there is a figure that they are about.
    chart: Option<Chart>,
    /// Names and values of the fields that are equal in all of them.
    common: Vec<[String; 2]>,
    /// The other fields: a name, and whether its values are text.
    heads: Vec<(String, bool)>,
    /// Their values, a row for each result.
    rows: Vec<Vec<String>>,
}

/// Whether a result fits into a row: it has no table of its own.
pub(super) fn is_row(stored: &Stored) -> bool {
    let is_table =
        |value: &Json| value.as_array().is_some_and(|list| list.iter().any(Json::is_object));
    !stored.fields.iter().any(|(name, value)| is_own(name) && is_table(value))
}

fn is_own(name: &str) -> bool {
    !COMMON.contains(&name)
}

/// The results as a table, with their picture.
pub(super) fn series(results: &[&Stored]) -> Series {
    let rows: Vec<Vec<Cell>> = results.iter().map(|stored| cells(&stored.fields)).collect();
    let mut names: Vec<&str> = rows.iter().flatten().map(|cell| cell.name.as_str()).collect();
    names.sort_unstable_by_key(|name| in_order(name));
    names.dedup();
    let value = |row: &[Cell], name: &str| {
        let found = row.iter().find(|cell| cell.name == name);
        found.map_or_else(|| MISSING.to_owned(), |cell| cell.value.clone())
    };
    let first = |name: &str| rows.first().map_or_else(String::new, |row| value(row, name));
    let (common, mut differing): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| rows.iter().all(|row| value(row, name) == first(name)));
    let is_text =
        |name: &str| !rows.iter().flatten().any(|cell| cell.name == name && cell.is_number);
    // The name of a result, then its other texts, then its numbers.
    differing.sort_by_key(|name| (!NAMES.contains(name), !is_text(name)));
    let shown = |name: &str| name.replace('_', " ");
    let values = |row: &Vec<Cell>| differing.iter().map(|name| value(row, name)).collect();
    Series {
        chart: chart(results),
        common: common.into_iter().map(|name| [shown(name), first(name)]).collect(),
        heads: differing.iter().map(|name| (shown(name), is_text(name))).collect(),
        rows: rows.iter().map(values).collect(),
    }
}

/// A key that sorts `S2` before `S10`.
fn in_order(name: &str) -> (&str, u64) {
    let stem = name.trim_end_matches(|character: char| character.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or(0))
}

/// A value of a result, as people read it.
struct Cell {
    name: String,
    value: String,
    is_number: bool,
}

/// The values of a result's fields, those of an object in it one by one.
fn cells(fields: &Map<String, Json>) -> Vec<Cell> {
    let cell = |name: String, value: &Json, unit_of: &str| {
        let is_number = value.is_number();
        Cell { name, value: field(value, unit_of), is_number }
    };
    let mut cells = Vec::new();
    for (name, value) in fields.iter().filter(|(name, _)| is_own(name)) {
        match value {
            // The unit is at the end of the outer name. What is on or off has none, and many columns.
            Json::Object(inner) => cells.extend(inner.iter().map(|(own, value)| {
                let name_of_cell =
                    if value.is_boolean() { own.clone() } else { format!("{name} {own}") };
                cell(name_of_cell, value, name)
            })),
            value => cells.push(cell(name.clone(), value, name)),
        }
    }
    cells
}

/// One bar for each result, if all have a figure that the series is about.
fn chart(results: &[&Stored]) -> Option<Chart> {
    let points: Vec<Point> =
        results.iter().map(|stored| point(&stored.found)).collect::<Option<_>>()?;
    let caption = points.first()?.caption.to_owned();
    let scale = Scale::linear(points.iter().map(|point| point.value).fold(0.0, f64::max));
    let bar = |Point { name, value, .. }| {
        let figure = quantity(value);
        let part = Part { at: 0, value, name: name.clone(), figure: figure.clone() };
        Bar { name, figures: vec![figure], parts: vec![part], mark: None }
    };
    let bars = points.into_iter().map(bar).collect();
    Some(Chart {
        caption,
        palette: 'c',
        scale,
        heads: vec!["per second"],
        bars,
        legend: Vec::new(),
    })
}

/// A bar of the picture.
struct Point {
    name: String,
    value: f64,
    caption: &'static str,
}

fn point(found: &Found) -> Option<Point> {
    let (name, value, caption) = match found {
        Found::Deployment(found) => {
            let round =
                if found.round > 0 { format!(" · round {}", found.round) } else { String::new() };
            let islands = counted(found.islands, "island");
            let store = found.store.as_ref().map_or(String::new(), |store| format!(" · {store}"));
            (
                format!("{islands}{store} · {}{round}", found.share().trim_start()),
                found.tps,
                "Committed transactions per second.",
            )
        }
        Found::Links(found) => (
            format!("{} · {}", found.link, found.distance).replace('_', " "),
            found.messages_per_s,
            "Messages per second, in a stream.",
        ),
        Found::Counters(found) => (
            format!("{} · {}", found.sharing, found.placement).replace('_', " "),
            found.additions_per_s,
            "Additions per second, by all threads.",
        ),
        _ => return None,
    };
    Some(Point { name, value, caption })
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
