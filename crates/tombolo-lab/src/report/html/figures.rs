//! The paper's figures as charts with their tables, the paper's bars above ours.

use super::chart::{self, Bar, Marks, Palette, Segment};
use super::dissection::{USEFUL, component_names, gain, place};
use super::markup::Markup;
use super::others::rows_table;
use super::{Cell, MISSING, table};
use crate::counters::Category;
use crate::experiment::looking_glass::figures::{Figure, bars, find_rung};
use crate::experiment::looking_glass::paper::{self, Transaction};
use crate::experiment::looking_glass::result::{Component, Dissection, Share};
use crate::report::dissection::{times, whole};
use crate::report::quantity;

/// What is not broken down: its place in the components' palette.
const UNKNOWN: usize = 7;

/// A figure's chart, if it has one, and its table.
pub(super) fn write(page: &mut Markup, figure: Figure, dissection: &Dissection) {
    match figure {
        Figure::Fig1 => fig1(page, dissection),
        Figure::Fig5 => components_and_calls(page, dissection, &paper::PAYMENT),
        Figure::Fig6 => components_and_calls(page, dissection, &paper::NEW_ORDER),
        Figure::Fig7 => fig7(page, dissection),
        Figure::Fig8 => fig8(page, dissection),
        Figure::Throughput => throughput(page, dissection),
        Figure::Table1 => {}
    }
    rows_table(page, "Paper, ours, and ours divided by the paper's", &figure.rows(dissection));
}

/// A chart with a caption above and its legend below.
fn figure(
    page: &mut Markup,
    caption: &str,
    bars: &[Bar],
    of: f64,
    (palette, legend): (Palette, &[(usize, &str)]),
) {
    page.node("figure", &[], |page| {
        page.leaf("figcaption", &[], caption);
        let said: Vec<String> = bars.iter().map(bar_in_words).collect();
        chart::stacked(page, &format!("{caption} {}", said.join("; ")), palette, of, bars);
        chart::legend(page, palette, legend);
    });
}

fn bar_in_words(bar: &Bar) -> String {
    let parts: Vec<String> =
        bar.segments.iter().map(|part| format!("{} {}", part.name, part.figure)).collect();
    format!("{} ({}): {}", bar.name, bar.figure, parts.join(", "))
}

fn segment(at: usize, name: &str, value: f64) -> Segment {
    Segment { at, value, name: name.to_owned(), figure: format!("{value:.1} %") }
}

/// A bar of the six components' shares; `None` where one is missing.
fn shares_bar(name: &str, figure: &str, percents: [Option<f64>; 6]) -> Option<Bar> {
    let mut segments = Vec::new();
    for (component, percent) in Component::ALL.into_iter().zip(percents) {
        segments.push(segment(place(component), component.label(), percent?));
    }
    Some(Bar { name: name.to_owned(), figure: figure.to_owned(), segments, mark: None })
}

fn ours(
    dissection: &Dissection,
    transaction: &str,
    of: fn(&Share) -> Option<f64>,
) -> [Option<f64>; 6] {
    Component::ALL.map(|component| of(dissection.components.get(&component)?.get(transaction)?))
}

fn instructions(dissection: &Dissection, transaction: &str) -> Option<f64> {
    find_rung(dissection, None)?.measured.instructions(transaction)
}

fn of_instructions(value: Option<f64>) -> String {
    value.map_or_else(|| "not counted".to_owned(), |v| format!("{} instructions", whole(v)))
}

/// Ours, or where it was not counted a bar without parts that says so.
fn or_empty(bar: Option<Bar>, name: &str) -> Bar {
    let figure = "not counted".to_owned();
    bar.unwrap_or_else(|| Bar { name: name.to_owned(), figure, segments: Vec::new(), mark: None })
}

/// The paper's bar and ours.
fn component_bars(dissection: &Dissection, of: &Transaction, percents: [f64; 6]) -> Vec<Bar> {
    let whole_cost = of_instructions(instructions(dissection, of.key));
    let paper = shares_bar("paper", &of_instructions(Some(of.instructions)), percents.map(Some));
    let shares = ours(dissection, of.key, |share| share.percent_instructions);
    let ours = or_empty(shares_bar("ours", &whole_cost, shares), "ours");
    paper.into_iter().chain([ours]).collect()
}

fn ladder_names() -> Vec<(usize, &'static str)> {
    component_names().into_iter().rev().collect()
}

/// Splits the last part of a bar into overhead and useful work.
fn split_useful(bar: &mut Bar, useful: Option<f64>) {
    let (Some(last), Some(useful)) = (bar.segments.pop(), useful) else { return };
    bar.segments.push(segment(last.at, last.name.as_str(), last.value - useful));
    bar.segments.push(segment(USEFUL, "useful work", useful));
}

fn fig1(page: &mut Markup, dissection: &Dissection) {
    let of = &paper::NEW_ORDER;
    let mut bars = component_bars(dissection, of, paper::NEW_ORDER_INSTRUCTIONS);
    let optimal = find_rung(dissection, Some("S11"));
    let optimal = optimal.and_then(|rung| rung.measured.instructions(of.key));
    let useful = optimal.zip(instructions(dissection, of.key)).map(|(o, w)| 100.0 * o / w);
    let papers = Some(100.0 * paper::NEW_ORDER_USEFUL_PART);
    for (bar, useful) in bars.iter_mut().zip([papers, useful]) {
        split_useful(bar, useful);
    }
    let mut caption = "New Order: shares of the whole engine's instructions; useful work is what \
                       the bare store needs."
        .to_owned();
    if let Some(gain) = gain(dissection, of.key) {
        caption.push_str(&format!(" From end to end ours falls by {gain}, the paper's by 60 ×."));
    }
    let mut legend = ladder_names();
    legend.push((USEFUL, "useful work"));
    figure(page, &caption, &bars, 100.0, (Palette::Component, &legend));
}

fn components_and_calls(page: &mut Markup, dissection: &Dissection, of: &Transaction) {
    let percents = if of.key == paper::PAYMENT.key {
        paper::PAYMENT_INSTRUCTIONS
    } else {
        paper::NEW_ORDER_INSTRUCTIONS
    };
    let both = component_bars(dissection, of, percents);
    let caption = format!("{}: shares of instructions by component.", of.name);
    figure(page, &caption, &both, 100.0, (Palette::Component, &ladder_names()));
    calls(page, dissection, of, percents);
}

/// The right side of Figures 5 and 6: what is left after each removal, by call.
fn calls(page: &mut Markup, dissection: &Dissection, of: &Transaction, percents: [f64; 6]) {
    let bars_of = bars(dissection);
    let Some(whole_cost) = instructions(dissection, of.key) else { return };
    let (mut drawn, mut rows) = (Vec::new(), Vec::new());
    let mut left = 100.0;
    for bar in &bars_of {
        left = match bar.component {
            // The paper prints what is left in the end; its rounded shares sum to a little more.
            Some(Component::BufferManager) => percents[place(Component::Remaining)],
            Some(component) => left - percents[place(component)],
            None => left,
        };
        let Some(cost) = bar.measured.by_transaction.get(of.key) else { continue };
        let Some(height) = cost.instructions else { continue };
        let papers = (bar.name != "optimal").then_some(left);
        let mark = papers.map(|left| {
            (left / 100.0 * whole_cost, format!("the paper's bar ends here, at {left:.1} %"))
        });
        let mut segments = Vec::new();
        let mut row = vec![Cell::Head(bar.name.clone())];
        for (at, category) in Category::ALL.into_iter().enumerate() {
            let value = cost.calls.get(category.name()).copied();
            row.push(Cell::Figure(value.map_or_else(|| MISSING.to_owned(), whole)));
            let Some(value) = value else { continue };
            let name = category.name().to_owned();
            segments.push(Segment { at, value, name, figure: whole(value) });
        }
        row.push(Cell::Figure(whole(height)));
        rows.push(row);
        let percent = 100.0 * height / whole_cost;
        let beside = papers.map_or_else(String::new, |left| format!(", paper {left:.1} %"));
        let figure = format!("{} · {percent:.1} %{beside}", whole(height));
        drawn.push(Bar { name: bar.name.clone(), figure, segments, mark });
    }
    let caption = format!(
        "{}: what is left after each removal, by call. The ticks mark the height of the \
         paper's bar, which follows from its shares; its parts by call have no numbers (LG-E8).",
        of.name
    );
    let legend: Vec<_> = Category::ALL.iter().enumerate().map(|(at, c)| (at, c.name())).collect();
    figure(page, &caption, &drawn, whole_cost, (Palette::Call, &legend));
    let mut heads = vec!["instructions"];
    heads.extend(Category::ALL.map(Category::name));
    heads.push("all");
    table(page, &format!("{}: instructions by call", of.name), &heads, &rows);
}

fn fig7(page: &mut Markup, dissection: &Dissection) {
    let of = &paper::NEW_ORDER;
    let small_page = paper::SWITCHES.iter().find_map(|s| s.percent.filter(|_| s.key == "S8"));
    let mut segments = Vec::new();
    for (component, percent) in Component::ALL.into_iter().zip(paper::NEW_ORDER_INSTRUCTIONS) {
        let mut rest = percent;
        if let (Component::BufferManager, Some(small)) = (component, small_page) {
            segments.push(segment(place(component), "small page", small));
            rest -= small;
            let mut unknown = segment(UNKNOWN, "dir lookup and page access", rest);
            unknown.figure = format!("rest, {rest:.1} %");
            segments.push(unknown);
        } else {
            segments.push(segment(place(component), component.label(), rest));
        }
    }
    let name = "paper".to_owned();
    let papers = Bar { name, figure: of_instructions(Some(of.instructions)), segments, mark: None };
    let ours = or_empty(switch_bar(dissection, of), "ours");
    let caption = "New Order: what each of the eleven switches saves. The paper prints a number \
                   for the components and for small page only; what it draws without one stays \
                   in one part: logging, and the rest of the buffer manager (34.6 less 14).";
    let mut legend = ladder_names();
    legend.push((USEFUL, "optimal: what is left"));
    legend.push((UNKNOWN, "not broken down"));
    figure(page, caption, &[papers, ours], 100.0, (Palette::Component, &legend));
}

/// Ours, switch by switch, then what is left.
fn switch_bar(dissection: &Dissection, of: &Transaction) -> Option<Bar> {
    let whole_cost = instructions(dissection, of.key)?;
    let mut segments = Vec::new();
    let mut before = whole_cost;
    for rung in &dissection.rungs[1..] {
        let after = rung.measured.instructions(of.key)?;
        let name = format!(
            "{} {}",
            rung.switch.as_deref().unwrap_or_default(),
            rung.label.as_deref().unwrap_or_default()
        );
        let saved = 100.0 * (before - after) / whole_cost;
        segments.push(segment(place(rung.component?), name.trim(), saved));
        before = after;
    }
    segments.push(segment(USEFUL, "left", 100.0 * before / whole_cost));
    let figure = of_instructions(Some(whole_cost));
    Some(Bar { name: "ours".to_owned(), figure, segments, mark: None })
}

fn fig8(page: &mut Markup, dissection: &Dissection) {
    let of = &paper::NEW_ORDER;
    let mut bars = Vec::new();
    let counted = of_instructions(Some(of.instructions));
    let about = format!("about {} cycles", quantity(paper::NEW_ORDER_CYCLES_TOTAL));
    let papers = [
        ("paper, instructions", counted, paper::NEW_ORDER_INSTRUCTIONS),
        ("paper, cycles", about, paper::NEW_ORDER_CYCLES),
    ];
    for (name, total, percents) in papers {
        bars.extend(shares_bar(name, &total, percents.map(Some)));
    }
    let counted = of_instructions(instructions(dissection, of.key));
    let shares = ours(dissection, of.key, |share| share.percent_instructions);
    bars.push(or_empty(shares_bar("ours, instructions", &counted, shares), "ours, instructions"));
    let cycles = find_rung(dissection, None).and_then(|rung| rung.measured.cycles(of.key));
    let total = cycles.map_or_else(|| MISSING.to_owned(), |c| format!("{} cycles", whole(c)));
    let shares = ours(dissection, of.key, |share| share.percent_cycles);
    bars.push(or_empty(shares_bar("ours, cycles", &total, shares), "ours, cycles"));
    let caption = "New Order: a component that waits for memory takes more of the cycles than of \
                   the instructions.";
    figure(page, caption, &bars, 100.0, (Palette::Component, &ladder_names()));
}

fn throughput(page: &mut Markup, dissection: &Dissection) {
    let mut lines = Vec::new();
    for point in paper::THROUGHPUT {
        let rung = find_rung(dissection, point.rung);
        let mut marks = vec![(0, point.tps, format!("paper: {}", quantity(point.tps)))];
        let mut figure = format!("paper {}", quantity(point.tps));
        if let Some(rung) = rung {
            let (tps, profile) = (rung.measured.tps, &rung.measured.profile);
            marks.push((1, tps, format!("ours, {profile}: {}", quantity(tps))));
            figure.push_str(&format!(" · ours {} · {}", quantity(tps), times(tps / point.tps)));
        }
        lines.push(Marks { name: point.name.to_owned(), figure, marks });
    }
    page.node("figure", &[], |page| {
        let caption = "Transactions per second, half New Order and half Payment, one thread; the \
                       axis is logarithmic.";
        page.leaf("figcaption", &[], caption);
        let said: Vec<String> =
            lines.iter().map(|line| format!("{}: {}", line.name, line.figure)).collect();
        let label = format!("{caption} {}", said.join("; "));
        chart::logarithmic(page, &label, &lines);
        chart::shapes_legend(page, &["paper", "ours"]);
    });
}
