//! An engine taken apart, for people: the ladder as aligned stacked bars, the paper's figures next to ours, the
//! matrix call × removed component.
//!
//! Pure functions from results to text. A figure that was not measured is a dash, never a zero.

use std::collections::BTreeMap;

use minijinja::context;
use minijinja::value::Serde;

use super::canvas::{Canvas, wrapped};
use super::terminal::{bar, table};
use super::text::drawn;
use super::{MISSING, quantity, separated};
use crate::experiment;
use crate::experiment::looking_glass::figures::{self, Figure};
use crate::experiment::looking_glass::paper::{self, in_order};
use crate::experiment::looking_glass::result::{
    Component, Dissection, MatrixOfOne, Reproduction, Row, Rung,
};

/// The text of `dissect`.
pub fn text(dissection: &Dissection, canvas: Canvas) -> String {
    let title = wrapped(&title(dissection), canvas.width());
    let mut text: String =
        title.iter().map(|line| format!("{}\n", canvas.style.strong(line))).collect();
    let transactions = dissection.rungs.first().map(|rung| &rung.measured.by_transaction);
    for transaction in transactions.map(in_order).unwrap_or_default() {
        text.push('\n');
        text.push_str(&ladder(dissection, transaction, canvas));
    }
    text.push('\n');
    text.push_str(&speeds(&dissection.rungs, canvas));
    for transaction in transactions.map(in_order).unwrap_or_default() {
        text.push_str(&work(&dissection.rungs, transaction, canvas));
    }
    if figures::goes_down(dissection) || !dissection.components.is_empty() {
        for transaction in transactions.map(in_order).unwrap_or_default() {
            text.push('\n');
            text.push_str(&components(dissection, transaction, canvas));
        }
        for transaction in in_order(&dissection.matrix) {
            text.push('\n');
            text.push_str(&matrix(transaction, &dissection.matrix[transaction], canvas));
        }
    }
    if figures::goes_down(dissection) {
        text.push_str(&format!("\n{}\n", canvas.style.strong(Figure::Throughput.item().title)));
        text.push_str(&rows(&Figure::Throughput.rows(dissection), canvas));
    }
    text.push_str(&closing(dissection, canvas));
    canvas.finish(text)
}

/// The text of `paper`.
pub fn reproduction(reproduction: &Reproduction, canvas: Canvas) -> String {
    let mut text = format!("{}\n", canvas.style.strong(title_of(&reproduction.id)));
    text.push_str(&rows(&reproduction.rows, canvas));
    for note in &reproduction.notes {
        text.push_str(&paragraph(note, canvas));
    }
    canvas.finish(text)
}

/// The title of the figure or table called `id`.
pub fn title_of(id: &str) -> &str {
    experiment::items().find(|item| item.id == id).map_or(id, |item| item.title)
}

/// `tpcc · paper mix · 5 warehouses · …`
pub fn title(dissection: &Dissection) -> String {
    let scale = dissection.warehouses.map_or_else(String::new, |warehouses| match warehouses {
        1 => " · 1 warehouse".to_owned(),
        many => format!(" · {many} warehouses"),
    });
    let counted = match dissection.counter.as_str() {
        "none" => "not counted".to_owned(),
        counter => format!("{} counted by {counter}", separated(dissection.counted)),
    };
    format!(
        "{} · {} mix{scale} · {} transactions a rung, {counted}",
        dissection.workload,
        dissection.mix,
        separated(dissection.transactions)
    )
}

/// Parts of a transaction's instructions at one rung, from what goes last to what goes first, as
/// places in [`Component::ALL`] with instructions: what later rungs save, and what is left at the
/// end.
pub fn parts(rungs: &[Rung], at: usize, transaction: &str) -> Option<Vec<(usize, f64)>> {
    let cost = |rung: &Rung| rung.measured.instructions(transaction);
    let mut parts = [0.0; Component::ALL.len()];
    for pair in rungs.get(at..)?.windows(2) {
        parts[place(pair[1].component?)] += cost(&pair[0])? - cost(&pair[1])?;
    }
    parts[place(Component::Remaining)] += cost(rungs.last()?)?;
    Some(parts.into_iter().enumerate().rev().collect())
}

/// A component's place in [`Component::ALL`].
pub fn place(component: Component) -> usize {
    Component::ALL.iter().position(|&other| other == component).unwrap_or_default()
}

/// One type's instructions, rung by rung, as stacked bars that lose their right ends.
pub fn ladder(dissection: &Dissection, transaction: &str, canvas: Canvas) -> String {
    let name = paper::name(transaction);
    let rungs = &dissection.rungs;
    let cost = |rung: &Rung| rung.measured.instructions(transaction);
    let Some(most) = rungs.iter().filter_map(cost).reduce(f64::max).filter(|&most| most > 0.0)
    else {
        return format!("  {name}: its instructions were not counted\n");
    };
    let heads = format!("{name}, instructions");
    let mut text = format!("{}\n", canvas.style.strong(&heads));
    text.push_str(&rung_lines(rungs, canvas, 9 + 6 + 4, |at, rung, bar_width| {
        let (figure, percent) = match cost(rung) {
            Some(cost) => (whole(cost), format!("{:.0} %", 100.0 * cost / most)),
            None => (MISSING.to_owned(), String::new()),
        };
        let all = place(Component::Remaining);
        let stacked = parts(rungs, at, transaction);
        let stacked = stacked.unwrap_or_else(|| vec![(all, cost(rung).unwrap_or(0.0))]);
        let bar = canvas.stack(&stacked, most, bar_width);
        format!("{figure:>9} {percent:>5} {bar}")
    }));
    if parts(rungs, 0, transaction).is_some() {
        let legend: Vec<_> =
            Component::ALL.iter().enumerate().rev().map(|(at, c)| (at, c.label())).collect();
        text.push_str(&canvas.legend(&legend));
    }
    text
}

/// `no-disk-log` with its switch before it.
fn rung_label(rung: &Rung) -> String {
    match &rung.switch {
        Some(switch) => format!("{switch:<3} {}", rung.measured.profile),
        None => format!("    {}", rung.measured.profile),
    }
}

/// A line for each rung behind its label: what `line` makes of its place, itself and the width of a bar, where
/// all but the bar takes `taken` characters.
fn rung_lines(
    rungs: &[Rung],
    canvas: Canvas,
    taken: usize,
    line: impl Fn(usize, &Rung, usize) -> String,
) -> String {
    let labels = || rungs.iter().map(rung_label);
    let widest = labels().map(|label| label.chars().count()).max().unwrap_or(0);
    let bar_width = canvas.width().saturating_sub(widest + 2 + taken).max(10);
    let lines = labels().zip(rungs).enumerate().map(|(at, (label, rung))| {
        let line = format!("  {label:<widest$} {}", line(at, rung, bar_width));
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

/// Every rung's speed, and where it was measured in rounds, the least and the most.
pub fn speeds(rungs: &[Rung], canvas: Canvas) -> String {
    let range = |rung: &Rung| {
        let (least, most) = rung.measured.speed.tps_range()?;
        Some(format!("{} to {}", quantity(least), quantity(most)))
    };
    let widest = rungs.iter().filter_map(range).map(|range| range.len()).max();
    let title = match widest {
        None => "committed transactions per second, and processor time of one",
        Some(_) => "committed per second, least to most of the rounds, and processor time of one",
    };
    let taken = widest.map_or(0, |width| width + 2);
    let most = rungs.iter().map(|rung| rung.measured.speed.tps).fold(0.0, f64::max);
    let lines = rung_lines(rungs, canvas, 10 + taken + 12 + 4, |_, rung, bar_width| {
        let speed = rung.measured.speed;
        let bar = canvas.style.bar(&bar(speed.tps, most, bar_width));
        let range = format!("{:>taken$}", range(rung).unwrap_or_default());
        let us = format!("{} µs", quantity(speed.ns_per_transaction / 1e3));
        let mark = if rung.measured.consistent { "" } else { " ✗ inconsistent" };
        format!("{:>9}{range} {us:>11}  {bar}{mark}", quantity(speed.tps))
    });
    format!("{}\n{lines}", canvas.style.strong(title))
}

/// How often components were used at the first rung, and where that changes; nothing in a build that
/// does not count it.
fn work(rungs: &[Rung], transaction: &str, canvas: Canvas) -> String {
    let of = |rung: &Rung, name: &str| {
        let per = *rung.measured.by_transaction.get(transaction)?.work.get(name)?;
        Some(if per == 0.0 { "0".to_owned() } else { quantity(per) })
    };
    let first = rungs.first().and_then(|rung| rung.measured.by_transaction.get(transaction));
    let names: Vec<&String> = first.iter().flat_map(|cost| cost.work.keys()).collect();
    let Some(widest) = names.iter().map(|name| name.len()).max() else { return String::new() };
    let title = format!("{}: how often components are used", paper::name(transaction));
    let mut text = format!("\n{}\n", canvas.style.strong(&title));
    for name in names {
        let mut last = of(&rungs[0], name).unwrap_or_else(missing);
        let mut said = last.clone();
        for rung in &rungs[1..] {
            let (now, switch) = (of(rung, name).unwrap_or_else(missing), rung.switch.as_deref());
            if now != last {
                said.push_str(&format!(", {now} from {}", switch.unwrap_or_default()));
                last = now;
            }
        }
        let lines = wrapped(&said, canvas.width().saturating_sub(widest + 6));
        for (i, line) in lines.iter().enumerate() {
            let name = if i == 0 { name.as_str() } else { "" };
            text.push_str(&format!("  {name:<widest$}  {line}\n"));
        }
    }
    text
}

/// Rows of paper, ours and their ratio, under their units; what is to be known of them below.
pub fn rows(rows: &[Row], canvas: Canvas) -> String {
    let mut cells = vec![["", "paper", "ours", "ratio", ""].map(str::to_owned).to_vec()];
    let mut notes: Vec<String> = Vec::new();
    let mut unit = "";
    for row in rows {
        if row.unit != unit {
            unit = &row.unit;
            cells.push(vec![format!("in {unit}")]);
        }
        let remark = row.remark();
        let number = match notes.iter().position(|note| *note == remark) {
            _ if remark.is_empty() => String::new(),
            Some(at) => (at + 1).to_string(),
            None => {
                notes.push(remark);
                notes.len().to_string()
            }
        };
        cells.push(vec![
            format!("  {}", row.name),
            row.paper.map_or_else(missing, |value| figure(value, unit)),
            row.ours.map_or_else(missing, |value| figure(value, unit)),
            row.ratio.map_or_else(missing, times),
            number,
        ]);
    }
    let mut text = table(&cells, 1, canvas.style);
    for (i, note) in notes.iter().enumerate() {
        for (j, line) in wrapped(note, canvas.width() - 6).iter().enumerate() {
            let number = if j == 0 { (i + 1).to_string() } else { String::new() };
            text.push_str(&canvas.style.faint(&format!("  {number:>2}  {line}")));
            text.push('\n');
        }
    }
    text
}

/// The savings of each removal in each call of a type; `•` marks the call that it hits most, by the paper.
pub fn matrix(transaction: &str, by_component: &MatrixOfOne, canvas: Canvas) -> String {
    let hit = calls_hit();
    drawn("matrix", context! { transaction, matrix => Serde(by_component), hit }, canvas)
}

/// The calls that the paper says a removal hits most, by component.
pub(super) fn calls_hit() -> BTreeMap<&'static str, Vec<&'static str>> {
    Component::ALL.map(|component| (component.key(), paper::calls_hit(component).to_vec())).into()
}

/// Each component's share of one type: the paper's, ours on the ladder, removed alone, whatever the
/// order, and of cycles.
pub fn components(dissection: &Dissection, transaction: &str, canvas: Canvas) -> String {
    drawn("components", context! { transaction, found => Serde(dissection) }, canvas)
}

/// The rest: the `if`, how exact it all is, the state.
fn closing(dissection: &Dissection, canvas: Canvas) -> String {
    let mut states: Vec<_> =
        dissection.rungs.iter().map(|rung| rung.measured.state_hash.as_str()).collect();
    states.dedup();
    drawn(
        "dissect_closing",
        context! { states => Serde(&states), found => Serde(dissection) },
        canvas,
    )
}

fn paragraph(text: &str, canvas: Canvas) -> String {
    let lines = wrapped(text, canvas.width() - 2);
    lines.iter().map(|line| format!("  {}\n", canvas.style.faint(line))).collect()
}

fn missing() -> String {
    MISSING.to_owned()
}

/// A figure with the digits that mean something in its unit.
pub fn figure(value: f64, unit: &str) -> String {
    match unit {
        "instructions" => whole(value),
        _ if unit.starts_with('%') => format!("{value:.1}"),
        _ => quantity(value),
    }
}

/// A ratio.
pub fn times(ratio: f64) -> String {
    match ratio.abs() {
        r if r >= 0.095 || r == 0.0 => format!("{} ×", quantity(ratio)),
        r if r >= 0.0095 => format!("{ratio:.3} ×"),
        _ => format!("{ratio:.4} ×"),
    }
}

/// Instructions are exact to one: all digits mean something.
pub fn whole(value: f64) -> String {
    separated(value.round().max(0.0) as u64)
}

/// A saving, or a loss, in whole instructions.
pub fn signed(value: f64) -> String {
    let sign = if value <= -0.5 { "−" } else { "" };
    format!("{sign}{}", whole(value.abs()))
}

#[cfg(test)]
mod tests;
