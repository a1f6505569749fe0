//! A result of `dissect` on the page: what follows from it first, then the ladder, the paper's
//! figures in its order, the matrix of calls, the attribution.
//!
//! The charts of figures are in `figures.rs`; here is what stands around them and what the paper
//! has no figure of.

use super::chart::{self, Bar, Palette, Segment, Slim};
use super::figures;
use super::markup::Markup;
use super::others::rows_table;
use super::read::Found;
use super::{Cell, MISSING, Stored, table};
use crate::counters::Category;
use crate::experiment::looking_glass::figures::{Figure, find_rung, goes_down, text_rows};
use crate::experiment::looking_glass::paper::{self, in_order};
use crate::experiment::looking_glass::result::{Component, Dissection, Measured, Rung, Shares};
use crate::report::dissection::{parts as parts_of_rung, signed, times, title, whole};
use crate::report::{quantity, separated};

/// Useful work's place in the components' palette.
pub(super) const USEFUL: usize = 6;

fn dissection(stored: &Stored) -> Option<&Dissection> {
    match &stored.found {
        Found::Dissection(found) => Some(&found.found),
        _ => None,
    }
}

/// The section's heading.
pub(super) fn heading(stored: &Stored) -> String {
    let Some(dissection) = dissection(stored) else { return String::new() };
    let way = match dissection.ladder.as_str() {
        "paper" => "an engine taken apart",
        "reverse-locks" => "an engine taken apart, latching before locking",
        _ => "an engine put together",
    };
    let workload = match dissection.workload.as_str() {
        "tpcc" => "TPC-C",
        other => other,
    };
    format!("{workload}: {way}")
}

/// The types of transaction, in the paper's order.
pub(super) fn transactions(dissection: &Dissection) -> Vec<&str> {
    let first = dissection.rungs.first();
    first.map(|rung| in_order(&rung.measured.by_transaction)).unwrap_or_default()
}

/// The headings within the section, with their ids.
pub(super) fn parts(stored: &Stored) -> Vec<(String, String)> {
    let Some(dissection) = dissection(stored) else { return Vec::new() };
    let mut parts = vec![("ladder", "The ladder, rung by rung")];
    if goes_down(dissection) {
        let id = |figure: Figure| figure.id().trim_start_matches("lg/");
        parts.extend(Figure::ALL.map(|figure| (id(figure), figure.title())));
        parts.extend((!dissection.matrix.is_empty()).then_some(MATRIX));
        parts.push(ORDER);
    }
    if has_work(dissection) {
        parts.push(WORK);
    }
    parts.into_iter().map(|(id, title)| (id.to_owned(), title.to_owned())).collect()
}

const MATRIX: (&str, &str) = ("matrix", "Which calls each removal hits");
const ORDER: (&str, &str) = ("order", "What each component takes, whatever the order");
const WORK: (&str, &str) = ("work", "How often the components are used");

/// A part of the section under a heading that can be linked to.
fn part(
    page: &mut Markup,
    section: &str,
    (id, title): (&str, &str),
    inner: impl FnOnce(&mut Markup),
) {
    page.leaf("h3", &[("id", &format!("{section}-{id}"))], title);
    inner(page);
}

/// The section.
pub(super) fn write(page: &mut Markup, stored: &Stored, id: &str) {
    let Some(dissection) = dissection(stored) else { return };
    page.leaf("p", &[("class", "note")], &title(dissection));
    for note in &dissection.notes {
        page.leaf("p", &[("class", "note")], note);
    }
    facts(page, dissection);
    part(page, id, ("ladder", "The ladder, rung by rung"), |page| ladder(page, dissection));
    if goes_down(dissection) {
        for figure in Figure::ALL {
            let short = figure.id().trim_start_matches("lg/");
            part(page, id, (short, figure.title()), |page| {
                figures::write(page, figure, dissection);
            });
        }
        if !dissection.matrix.is_empty() {
            part(page, id, MATRIX, |page| matrix(page, dissection));
        }
        part(page, id, ORDER, |page| order(page, dissection));
    }
    if has_work(dissection) {
        part(page, id, WORK, |page| work(page, dissection));
    }
}

/// A figure in large letters and what it is.
fn fact(page: &mut Markup, figure: &str, meaning: &str) {
    page.node("li", &[], |page| {
        page.leaf("b", &[], figure);
        page.leaf("span", &[], meaning);
    });
}

/// What a reader is to remember.
fn facts(page: &mut Markup, dissection: &Dissection) {
    let (Some(first), Some(last)) = (dissection.rungs.first(), dissection.rungs.last()) else {
        return;
    };
    page.node("ul", &[("class", "facts")], |page| {
        for transaction in transactions(dissection) {
            let of = |rung: &Rung| rung.measured.instructions(transaction);
            let (Some(from), Some(to)) = (of(first), of(last)) else { continue };
            let meaning = format!(
                "instructions of a {}: {} → {}",
                paper::name(transaction),
                first.measured.profile,
                last.measured.profile
            );
            fact(page, &format!("{} → {}", whole(from), whole(to)), &meaning);
        }
        let (from, to) = (&first.measured, &last.measured);
        let meaning = format!(
            "committed per second: {} ({}) → {} ({})",
            from.profile,
            durability(from),
            to.profile,
            durability(to)
        );
        fact(page, &format!("{} → {}", quantity(from.tps), quantity(to.tps)), &meaning);
        if let Some(error) = dissection.sum_error_percent {
            let meaning = "is the most that the calls' sum is from the whole";
            fact(page, &format!("{error:.3} %"), meaning);
        }
        let rungs = dissection.rungs.iter().map(|rung| &rung.measured);
        let all: Vec<&Measured> = rungs
            .chain(dissection.alone.values().map(|alone| &alone.measured))
            .chain(&dissection.lattice)
            .collect();
        let same = all.iter().all(|one| one.state_hash == first.measured.state_hash);
        let consistent = all.iter().all(|one| one.consistent);
        let (figure, meaning) = match (same, consistent) {
            (true, true) => ("✓ one state", "every check holds and the rows are the same, on"),
            (true, false) => ("✗ inconsistent", "a check failed on one of"),
            (false, _) => ("✗ states differ", "the rows are not the same on all of"),
        };
        fact(page, figure, &format!("{meaning} {} engines", all.len()));
    });
}

fn durability(measured: &Measured) -> &str {
    match measured.durability.as_str() {
        "" => "durability not said",
        "none" => "nothing on disk",
        other => other,
    }
}

fn rung_name(rung: &Rung) -> String {
    match (&rung.switch, &rung.label) {
        (Some(switch), Some(label)) => format!("{switch} {label}"),
        (Some(switch), None) => switch.clone(),
        (None, _) => rung.measured.profile.clone(),
    }
}

fn ladder(page: &mut Markup, dissection: &Dissection) {
    let rungs = &dissection.rungs;
    for transaction in transactions(dissection) {
        let bars: Option<Vec<Bar>> =
            (0..rungs.len()).map(|at| rung_bar(rungs, at, transaction)).collect();
        let Some(bars) = bars else { continue };
        let most = rungs.iter().filter_map(|rung| rung.measured.instructions(transaction));
        let most = most.fold(0.0, f64::max);
        page.node("figure", &[], |page| {
            let name = paper::name(transaction);
            let way = if goes_down(dissection) {
                " Every switch is off from its rung on; what a rung saves is missing at its \
                 bar's right end."
            } else {
                ""
            };
            let caption = format!("{name}: instructions at each rung.{way}");
            page.leaf("figcaption", &[], &caption);
            let said: Vec<String> =
                bars.iter().map(|bar| format!("{} {}", bar.name, bar.figure)).collect();
            let label = format!("Ladder of {name}: {}", said.join("; "));
            chart::stacked(page, &label, Palette::Component, most, &bars);
            if goes_down(dissection) {
                chart::legend(page, Palette::Component, &component_names());
            }
        });
    }
    page.node("figure", &[], |page| {
        page.leaf("figcaption", &[], "Committed transactions per second, from timed runs.");
        let most = rungs.iter().map(|rung| rung.measured.tps).fold(0.0, f64::max);
        let bar = |rung: &Rung| Slim::Bar {
            at: rung.component.map_or(5, place),
            value: rung.measured.tps,
            text: format!("{} · {}", quantity(rung.measured.tps), rung.measured.profile),
            spread: None,
        };
        let lines: Vec<Slim> = rungs.iter().map(bar).collect();
        let said: Vec<String> = rungs
            .iter()
            .map(|rung| format!("{} {}", rung.measured.profile, quantity(rung.measured.tps)))
            .collect();
        chart::slim(page, &format!("Transactions per second: {}", said.join("; ")), most, &lines);
    });
    ladder_table(page, dissection);
}

fn rung_bar(rungs: &[Rung], at: usize, transaction: &str) -> Option<Bar> {
    let rung = &rungs[at];
    let whole_cost = rung.measured.instructions(transaction)?;
    let first = rungs.first()?.measured.instructions(transaction)?;
    let segment = |(at, value): (usize, f64)| Segment {
        at,
        value,
        name: Component::ALL[at].label().to_owned(),
        figure: whole(value),
    };
    let segments = match parts_of_rung(rungs, at, transaction) {
        Some(parts) => parts.into_iter().map(segment).collect(),
        // On a ladder that goes up, parts are of no component.
        None => {
            let (at, name) = (place(Component::BtreeKeys), rung_name(rung));
            vec![Segment { at, value: whole_cost, name, figure: whole(whole_cost) }]
        }
    };
    Some(Bar {
        name: rung_name(rung),
        figure: format!("{} · {:.0} %", whole(whole_cost), 100.0 * whole_cost / first),
        segments,
        mark: None,
    })
}

/// The components with their places, from what goes last.
pub(super) fn component_names() -> Vec<(usize, &'static str)> {
    Component::ALL.iter().enumerate().rev().map(|(at, c)| (at, c.label())).collect()
}

/// A component's place in the palette.
pub(super) fn place(component: Component) -> usize {
    Component::ALL.iter().position(|&other| other == component).unwrap_or_default()
}

fn ladder_table(page: &mut Markup, dissection: &Dissection) {
    let transactions = transactions(dissection);
    let mut heads = vec!["rung".to_owned(), "profile".to_owned()];
    for transaction in &transactions {
        heads.push(format!("{}, instructions", paper::name(transaction)));
        heads.push(format!("{}, cycles", paper::name(transaction)));
    }
    heads.extend(["per second", "µs of processor", "durability", "consistent"].map(str::to_owned));
    let row = |rung: &Rung| {
        let measured = &rung.measured;
        let mut row = vec![Cell::Head(rung_name(rung)), Cell::Left(measured.profile.clone())];
        for transaction in &transactions {
            for figure in [measured.instructions(transaction), measured.cycles(transaction)] {
                row.push(Cell::Figure(figure.map_or_else(|| MISSING.to_owned(), whole)));
            }
        }
        row.push(Cell::Figure(quantity(measured.tps)));
        row.push(Cell::Figure(quantity(measured.ns_per_transaction / 1e3)));
        row.push(Cell::Left(measured.durability.clone()));
        row.push(Cell::Holds(measured.consistent));
        row
    };
    let rows: Vec<Vec<Cell>> = dissection.rungs.iter().map(row).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    table(page, "Every rung, per transaction", &heads, &rows);
    let hash = dissection.rungs.first().map(|rung| rung.measured.state_hash.as_str());
    page.node("p", &[("class", "note")], |page| {
        let transactions = separated(dissection.transactions);
        page.text(&format!("The state that {transactions} transactions leave on the first rung: "));
        page.leaf("code", &[], hash.unwrap_or(MISSING));
    });
}

fn matrix(page: &mut Markup, dissection: &Dissection) {
    for transaction in in_order(&dissection.matrix) {
        let by_component = &dissection.matrix[transaction];
        let all = by_component.values().flat_map(|calls| calls.values());
        let most = all.map(|removed| removed.instructions.abs()).fold(0.0, f64::max);
        let mut heads = vec!["call"];
        heads.extend(by_component.keys().map(|component| component.label()));
        let row = |call: &'static str| {
            let mut row = vec![Cell::Head(call.to_owned())];
            for (component, calls) in by_component {
                let mark = if paper::calls_hit(*component).contains(&call) { "• " } else { "" };
                row.push(match calls.get(call) {
                    None => Cell::Heat(format!("{mark}{MISSING}"), 0.0),
                    Some(removed) => {
                        let saved = signed(removed.instructions);
                        let percent = removed.percent_of_call.filter(|_| saved != "0");
                        let percent = percent.map_or_else(String::new, |percent| {
                            let sign = if percent < 0.0 { "−" } else { "" };
                            format!(" ({sign}{:.0} %)", percent.abs())
                        });
                        let strength = if most > 0.0 { removed.instructions / most } else { 0.0 };
                        Cell::Heat(format!("{mark}{saved}{percent}"), strength)
                    }
                });
            }
            row
        };
        let rows: Vec<_> = Category::ALL.map(Category::name).into_iter().map(row).collect();
        let name = paper::name(transaction);
        let caption =
            format!("{name}: instructions that a removal saves, by call, and of that call");
        table(page, &caption, &heads, &rows);
    }
    page.leaf(
        "p",
        &[("class", "note")],
        "• the calls that the paper's text says this removal hits most (LG-48); it prints no \
         numbers for them. The stronger the colour, the more is saved.",
    );
    rows_table(
        page,
        "What the text says of B-tree calls and of single removals",
        &text_rows(dissection),
    );
}

fn order(page: &mut Markup, dissection: &Dissection) {
    page.leaf(
        "p",
        &[],
        "What a removal saves depends on what has been removed before it. Beside the ladder's \
         order stand each component removed alone, and its mean saving over all orders of removal \
         (Shapley values over the 32 combinations).",
    );
    for transaction in transactions(dissection) {
        let (lines, rows) = order_of(dissection, transaction);
        let values = lines.iter().filter_map(|line| match line {
            Slim::Bar { value, .. } => Some(*value),
            _ => None,
        });
        let most = values.fold(0.0, f64::max);
        let name = paper::name(transaction);
        if most > 0.0 {
            page.node("figure", &[], |page| {
                let caption = format!("{name}: % of the whole engine's instructions.");
                page.leaf("figcaption", &[], &caption);
                let label = format!("Shares of {name} in different orders; the table has them");
                chart::slim(page, &label, most, &lines);
            });
        }
        let caption = format!("{name}, % of instructions");
        table(page, &caption, &["component", "paper", "ladder", "alone", "any order"], &rows);
    }
}

fn order_of(dissection: &Dissection, transaction: &str) -> (Vec<Slim>, Vec<Vec<Cell>>) {
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    for component in Component::ALL {
        let of = |shares: &Shares| shares.get(&component)?.get(transaction)?.percent_instructions;
        let alone = dissection.alone.get(&component);
        let alone = alone.and_then(|alone| alone.saved.get(transaction)?.percent_instructions);
        let figures = [
            ("paper's ladder", of(&dissection.paper), 7),
            ("ladder", of(&dissection.components), place(component)),
            ("alone", alone, place(component)),
            ("any order", of(&dissection.attribution), place(component)),
        ];
        lines.push(Slim::Heading(component.label().to_owned()));
        let mut row = vec![Cell::Head(component.label().to_owned())];
        for (name, figure, at) in figures {
            row.push(Cell::Figure(
                figure.map_or_else(|| MISSING.to_owned(), |f| format!("{f:.1}")),
            ));
            let Some(value) = figure else { continue };
            let text = format!("{value:.1} {name}");
            lines.push(Slim::Bar { at, value, text, spread: None });
        }
        rows.push(row);
    }
    (lines, rows)
}

fn has_work(dissection: &Dissection) -> bool {
    let costs = dissection.rungs.iter().flat_map(|rung| rung.measured.by_transaction.values());
    dissection.if_variant.is_some() || costs.into_iter().any(|cost| !cost.work.is_empty())
}

fn work(page: &mut Markup, dissection: &Dissection) {
    for transaction in transactions(dissection) {
        let cost = |rung: &Rung| rung.measured.by_transaction.get(transaction).cloned();
        let first = dissection.rungs.first().and_then(cost).unwrap_or_default();
        if first.work.is_empty() {
            continue;
        }
        let keys: Vec<&str> = first.work.keys().map(String::as_str).collect();
        let mut heads = vec!["rung".to_owned()];
        heads.extend(keys.iter().map(|key| key.replace('_', " ")));
        let rows: Vec<Vec<Cell>> = dissection
            .rungs
            .iter()
            .map(|rung| {
                let work = cost(rung).unwrap_or_default().work;
                let mut row = vec![Cell::Head(rung_name(rung))];
                row.extend(keys.iter().map(|key| {
                    let figure = work.get(*key).copied();
                    Cell::Figure(figure.map_or_else(|| MISSING.to_owned(), amount))
                }));
                row
            })
            .collect();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let caption = format!("{}, per transaction", paper::name(transaction));
        table(page, &caption, &heads, &rows);
    }
    if let Some(variant) = &dissection.if_variant {
        let typed = |transaction: &str| {
            let rung =
                dissection.rungs.iter().find(|r| r.measured.profile == variant.typed_profile);
            rung.and_then(|rung| rung.measured.instructions(transaction))
        };
        let rows: Vec<Vec<Cell>> = variant
            .extra_instructions
            .iter()
            .map(|(transaction, extra)| {
                let typed = typed(transaction);
                let share = typed.map(|typed| format!("{:.2} %", 100.0 * extra / typed));
                vec![
                    Cell::Head(paper::name(transaction).to_owned()),
                    Cell::Figure(typed.map_or_else(|| MISSING.to_owned(), whole)),
                    Cell::Figure(signed(*extra)),
                    Cell::Figure(share.unwrap_or_else(|| MISSING.to_owned())),
                ]
            })
            .collect();
        let caption = format!(
            "{} removed by an if at run time ({}) instead of by type ({}), instructions (LG-26)",
            variant.switch, variant.measured.profile, variant.typed_profile
        );
        table(page, &caption, &["transaction", "by type", "the ifs cost", "more"], &rows);
    }
}

/// A count per transaction, which may be a fraction.
fn amount(value: f64) -> String {
    if value.fract().abs() < 0.005 { whole(value) } else { quantity(value) }
}

/// How many times ours is less than at first, as text; for captions.
pub(super) fn gain(dissection: &Dissection, transaction: &str) -> Option<String> {
    let whole = find_rung(dissection, None)?.measured.instructions(transaction)?;
    let last = find_rung(dissection, Some("S11"))?.measured.instructions(transaction)?;
    (last > 0.0).then(|| times(whole / last))
}
