//! What a dissection's charts show: the ladder, and the paper's figures, its bars above ours.

use super::chart::{Bar, Chart, Mark, Part, Scale};
use crate::counters::Category;
use crate::experiment::looking_glass::figures::{
    Figure, bars, find_rung, goes_down, useful_part, whole_instructions,
};
use crate::experiment::looking_glass::paper::{self, Transaction};
use crate::experiment::looking_glass::result::{Component, Dissection, Rung, Share};
use crate::report::dissection::{parts as parts_of_rung, place, times, whole};
use crate::report::quantity;

/// Useful work's place in the components' palette, behind all components.
const USEFUL: usize = 6;
/// The place of a whole that is not broken down.
const UNKNOWN: usize = 7;
const NOT_COUNTED: &str = "not counted";

/// The charts of a figure; the others have a table alone.
pub(super) fn charts(figure: Figure, dissection: &Dissection) -> Vec<Chart> {
    match figure {
        Figure::Fig1 => vec![fig1(dissection)],
        Figure::Fig5 => components_and_calls(dissection, &paper::PAYMENT),
        Figure::Fig6 => components_and_calls(dissection, &paper::NEW_ORDER),
        Figure::Fig7 => vec![fig7(dissection)],
        Figure::Fig8 => vec![fig8(dissection)],
        Figure::Throughput | Figure::Table1 => Vec::new(),
    }
}

/// `S2 disk log`: a rung's switch with its label; the label of a part, which says all of the part's name; the
/// profile where there is neither.
pub(super) fn rung_name(rung: &Rung) -> String {
    match (&rung.switch, &rung.label) {
        (Some(switch), Some(label)) if !switch.starts_with('S') => label.clone(),
        (Some(switch), Some(label)) => format!("{switch} {label}"),
        (Some(switch), None) => switch.clone(),
        (None, _) => rung.measured.profile.clone(),
    }
}

/// One type's instructions, rung by rung; none where they were not counted.
pub(super) fn ladder(dissection: &Dissection, transaction: &str) -> Option<Chart> {
    let rungs = &dissection.rungs;
    let cost = |rung: &Rung| rung.measured.instructions(transaction);
    let costs: Vec<f64> = rungs.iter().map(cost).collect::<Option<_>>()?;
    let is_of_components = rungs.iter().skip(1).all(|rung| rung.component.is_some());
    let bar = |(at, rung): (usize, &Rung)| {
        let part = |(at, value): (usize, f64)| Part {
            at,
            value,
            name: Component::ALL[at].label().to_owned(),
            figure: whole(value),
        };
        let parts = match parts_of_rung(rungs, at, transaction).filter(|_| is_of_components) {
            Some(parts) => parts.into_iter().map(part).collect(),
            // On a ladder that goes up, parts are of no component.
            None => vec![Part { name: rung_name(rung), ..part((0, costs[at])) }],
        };
        let figures = vec![whole(costs[at]), format!("{:.0} %", 100.0 * costs[at] / costs[0])];
        Bar { name: rung_name(rung), figures, parts, mark: None }
    };
    let name = paper::name(transaction);
    let (way, legend) = match goes_down(dissection) {
        true => (
            " Every switch is off from its rung on; what a rung saves is missing at its bar's right end.",
            component_names().into_iter().rev().collect(),
        ),
        false => ("", Vec::new()),
    };
    Some(Chart {
        caption: format!("{name}: instructions at each rung.{way}"),
        palette: 'c',
        scale: Scale::linear(costs.iter().copied().fold(0.0, f64::max)),
        heads: vec!["instructions", "of the first"],
        bars: rungs.iter().enumerate().map(bar).collect(),
        legend,
    })
}

/// The components with their places, in the order they are removed.
fn component_names() -> Vec<(usize, &'static str)> {
    Component::ALL.iter().map(|component| component.label()).enumerate().collect()
}

/// A chart of shares of a whole.
fn shares_chart(caption: String, bars: Vec<Bar>, more: &[(usize, &'static str)]) -> Chart {
    let mut legend = component_names();
    legend.extend(more);
    // Where a removal costs something, the others' shares are more than the whole.
    let long = |bar: &Bar| bar.parts.iter().map(|part| part.value.max(0.0)).sum::<f64>();
    let scale = Scale::linear(bars.iter().map(long).fold(100.0, f64::max));
    Chart { caption, palette: 'c', scale, heads: vec!["100 % are"], bars, legend }
}

fn share(at: usize, name: &str, value: f64) -> Part {
    Part { at, value, name: name.to_owned(), figure: format!("{value:.1} %") }
}

/// A bar of the six components' shares; without parts, and saying so, where one was not counted.
fn shares_bar(name: &str, of: String, percents: [Option<f64>; 6]) -> Bar {
    let parts = Component::ALL
        .into_iter()
        .zip(percents)
        .map(|(component, percent)| Some(share(place(component), component.label(), percent?)));
    let parts: Option<Vec<Part>> = parts.collect();
    let figures = vec![if parts.is_some() { of } else { NOT_COUNTED.to_owned() }];
    Bar { name: name.to_owned(), figures, parts: parts.unwrap_or_default(), mark: None }
}

fn ours(
    dissection: &Dissection,
    of: &Transaction,
    get: fn(&Share) -> Option<f64>,
) -> [Option<f64>; 6] {
    Component::ALL.map(|component| get(dissection.components.get(&component)?.get(of.key)?))
}

fn of_instructions(value: Option<f64>) -> String {
    value.map_or_else(|| NOT_COUNTED.to_owned(), |v| format!("{} instructions", whole(v)))
}

/// The paper's bar and ours.
fn component_bars(dissection: &Dissection, of: &Transaction) -> Vec<Bar> {
    let papers = shares_bar("paper", of_instructions(Some(of.instructions)), of.percents.map(Some));
    let shares = ours(dissection, of, |share| share.percent_instructions);
    vec![papers, shares_bar("ours", of_instructions(whole_instructions(dissection, of)), shares)]
}

fn fig1(dissection: &Dissection) -> Chart {
    let of = &paper::NEW_ORDER;
    let mut bars = component_bars(dissection, of);
    let part = useful_part(dissection, of);
    for (bar, part) in bars.iter_mut().zip([Some(paper::NEW_ORDER_USEFUL_PART), part]) {
        // The last part is overhead and useful work.
        let (Some(last), Some(part)) = (bar.parts.pop(), part) else { continue };
        let useful = 100.0 * part;
        bar.parts.push(share(last.at, &last.name, last.value - useful));
        bar.parts.push(share(USEFUL, "useful work", useful));
    }
    let ends = part.filter(|&part| part > 0.0).map_or_else(String::new, |part| {
        format!(" From end to end ours falls by {}, the paper's by 60 ×.", times(1.0 / part))
    });
    let caption = "New Order: shares of the whole engine's instructions; useful work is what the bare store needs.";
    shares_chart(format!("{caption}{ends}"), bars, &[(USEFUL, "useful work")])
}

fn components_and_calls(dissection: &Dissection, of: &Transaction) -> Vec<Chart> {
    let caption = format!("{}: shares of instructions by component.", of.name);
    let both = shares_chart(caption, component_bars(dissection, of), &[]);
    let calls =
        whole_instructions(dissection, of).map(|whole_cost| calls(dissection, of, whole_cost));
    [both].into_iter().chain(calls).collect()
}

/// A transaction's calls as the parts of a bar.
pub(super) fn call_parts(calls: &std::collections::BTreeMap<String, f64>) -> Vec<Part> {
    let part = |(at, category): (usize, Category)| {
        let (name, value) = (category.name().to_owned(), *calls.get(category.name())?);
        Some(Part { at, value, name, figure: whole(value) })
    };
    Category::ALL.into_iter().enumerate().filter_map(part).collect()
}

/// The calls with their places.
pub(super) fn call_names() -> Vec<(usize, &'static str)> {
    Category::ALL.into_iter().map(Category::name).enumerate().collect()
}

/// The right side of Figures 5 and 6: what is left after each removal, by call.
fn calls(dissection: &Dissection, of: &Transaction, whole_cost: f64) -> Chart {
    let mut drawn = Vec::new();
    let mut left = 100.0;
    for bar in &bars(dissection) {
        left = match bar.component {
            // The paper prints what is left in the end; its rounded shares sum to a little more.
            Some(Component::BufferManager) => of.percents[place(Component::Remaining)],
            Some(component) => left - of.percents[place(component)],
            None => left,
        };
        let Some(cost) = bar.measured.by_transaction.get(of.key) else { continue };
        let Some(height) = cost.instructions else { continue };
        let papers = (bar.name != "optimal").then_some(left);
        let mark = papers.map(|left| Mark {
            value: left / 100.0 * whole_cost,
            name: format!("the paper's bar ends here, at {left:.1} %"),
        });
        let percent = |value: f64| format!("{value:.1} %");
        let figures = vec![
            whole(height),
            percent(100.0 * height / whole_cost),
            papers.map_or_else(String::new, percent),
        ];
        drawn.push(Bar { name: bar.name.clone(), figures, parts: call_parts(&cost.calls), mark });
    }
    let caption = format!(
        "{}: what is left after each removal, by call. The ticks mark the height of the paper's bar, which \
         follows from its shares; its parts by call have no numbers (LG-E8).",
        of.name
    );
    let (scale, heads) = (Scale::linear(whole_cost), vec!["instructions", "ours", "paper"]);
    Chart { caption, palette: 'k', scale, heads, bars: drawn, legend: call_names() }
}

fn fig7(dissection: &Dissection) -> Chart {
    let of = &paper::NEW_ORDER;
    let small_page = paper::find_switch("S8").and_then(|switch| switch.percent);
    let mut parts = Vec::new();
    for (component, percent) in Component::ALL.into_iter().zip(of.percents) {
        if let (Component::BufferManager, Some(small)) = (component, small_page) {
            parts.push(share(place(component), "small page", small));
            let rest = percent - small;
            let figure = format!("rest, {rest:.1} %");
            parts.push(Part { figure, ..share(UNKNOWN, "dir lookup and page access", rest) });
        } else {
            parts.push(share(place(component), component.label(), percent));
        }
    }
    let figures = vec![of_instructions(Some(of.instructions))];
    let papers = Bar { name: "paper".to_owned(), figures, parts, mark: None };
    let parts = switch_parts(dissection, of);
    let counted = parts.is_some().then(|| whole_instructions(dissection, of)).flatten();
    let figures = vec![of_instructions(counted)];
    let ours =
        Bar { name: "ours".to_owned(), figures, parts: parts.unwrap_or_default(), mark: None };
    let caption = "New Order: what each of the eleven switches saves. The paper prints a number for the \
                   components and for small page only; what it draws without one stays in one part: logging, \
                   and the rest of the buffer manager (34.6 less 14).";
    let more = [(USEFUL, "optimal: what is left"), (UNKNOWN, "not broken down")];
    shares_chart(caption.to_owned(), vec![papers, ours], &more)
}

/// Ours, switch by switch, then what is left.
fn switch_parts(dissection: &Dissection, of: &Transaction) -> Option<Vec<Part>> {
    let whole_cost = whole_instructions(dissection, of)?;
    let mut parts = Vec::new();
    let mut before = whole_cost;
    for rung in &dissection.rungs[1..] {
        let after = rung.measured.instructions(of.key)?;
        let saved = 100.0 * (before - after) / whole_cost;
        parts.push(share(place(rung.component?), &rung_name(rung), saved));
        before = after;
    }
    parts.push(share(USEFUL, "left", 100.0 * before / whole_cost));
    Some(parts)
}

fn fig8(dissection: &Dissection) -> Chart {
    let of = &paper::NEW_ORDER;
    let cycles = find_rung(dissection, None).and_then(|rung| rung.measured.cycles(of.key));
    let cycles =
        cycles.map_or_else(|| "not measured".to_owned(), |c| format!("{} cycles", whole(c)));
    let about = format!("about {} cycles", quantity(paper::NEW_ORDER_CYCLES_TOTAL));
    let papers = of.percents.map(Some);
    let ours_of = |get| ours(dissection, of, get);
    let bars = vec![
        shares_bar("paper, instructions", of_instructions(Some(of.instructions)), papers),
        shares_bar("paper, cycles", about, paper::NEW_ORDER_CYCLES.map(Some)),
        shares_bar(
            "ours, instructions",
            of_instructions(whole_instructions(dissection, of)),
            ours_of(|share| share.percent_instructions),
        ),
        shares_bar("ours, cycles", cycles, ours_of(|share| share.percent_cycles)),
    ];
    let caption = "New Order: a component that waits for memory takes more of the cycles than of the instructions.";
    shares_chart(caption.to_owned(), bars, &[])
}
