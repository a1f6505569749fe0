//! The paper's figures and Table 1 as rows: the paper's figure, ours, their ratio, and what makes
//! them differ.
//!
//! Ours are read off one result of `dissect`; the paper's come from [`paper`]. Every row that the
//! paper has is here, with or without ours; a bar that it draws without a number has no number here
//! either (LG-E8). Not here: running anything.

use super::ladder::{CONVENTIONAL, PRODUCT_LADDER};
use super::paper::{self, Transaction};
use super::result::{Component, Dissection, Measured, Reproduction, Row, Rung};
use crate::experiment::Reproducible;

/// A figure or table of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Shares of New Order's instructions.
    Fig1,
    /// Payment, component by component and call by call.
    Fig5,
    /// New Order, component by component and call by call.
    Fig6,
    /// New Order, switch by switch.
    Fig7,
    /// New Order's instructions against its cycles.
    Fig8,
    /// Transactions per second.
    Throughput,
    /// What a property lets one remove.
    Table1,
}

impl Figure {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 7] = [
        Self::Fig1,
        Self::Table1,
        Self::Throughput,
        Self::Fig5,
        Self::Fig6,
        Self::Fig7,
        Self::Fig8,
    ];

    /// Its name and what it shows.
    pub const fn item(self) -> Reproducible {
        let (id, title) = match self {
            Self::Fig1 => ("lg/fig1", "Figure 1: where New Order's instructions go"),
            Self::Fig5 => ("lg/fig5", "Figure 5: Payment, component by component"),
            Self::Fig6 => ("lg/fig6", "Figure 6: New Order, component by component"),
            Self::Fig7 => ("lg/fig7", "Figure 7: New Order, switch by switch"),
            Self::Fig8 => ("lg/fig8", "Figure 8: instructions against cycles, New Order"),
            Self::Throughput => ("lg/throughput", "Throughput, from out of the box to optimal"),
            Self::Table1 => ("lg/table1", "Table 1: what a property lets one remove"),
        };
        Reproducible { id, title }
    }

    /// Its name on the command line.
    pub const fn id(self) -> &'static str {
        self.item().id
    }

    /// What it shows.
    pub const fn title(self) -> &'static str {
        self.item().title
    }

    /// The figure of this name.
    pub fn find(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.id() == id)
    }

    /// What `paper` prints of it, with ours from `dissection`.
    pub fn reproduce(self, dissection: &Dissection) -> Reproduction {
        let mut rows = self.rows(dissection);
        rows.extend(self.call_rows(dissection));
        Reproduction { id: self.id().to_owned(), rows, notes: dissection.notes.clone() }
    }

    /// Its rows, without those by call.
    pub fn rows(self, dissection: &Dissection) -> Vec<Row> {
        match self {
            Self::Fig1 => fig1(dissection),
            Self::Fig5 => fig5(dissection),
            Self::Fig6 => fig6(dissection),
            Self::Fig7 => fig7(dissection),
            Self::Fig8 => fig8(dissection),
            Self::Throughput => throughput(dissection),
            Self::Table1 => table1(dissection),
        }
    }

    /// The bars' parts by call on the right of Figures 5 and 6, which have no numbers in the paper.
    pub fn call_rows(self, dissection: &Dissection) -> Vec<Row> {
        match self {
            Self::Fig5 => call_rows(dissection, &paper::PAYMENT),
            Self::Fig6 => call_rows(dissection, &paper::NEW_ORDER),
            _ => Vec::new(),
        }
    }
}

const INSTRUCTIONS: &str = "instructions";
const PERCENT: &str = "% of instructions";
const PERCENT_CYCLES: &str = "% of cycles";
const ANOTHER_ENGINE: &str = "another engine, compiler and machine: Shore, gcc 3.4, Pentium 4";

/// A bar of Figures 5 and 6: the engine with this component, and all before it, removed.
pub struct Bar<'a> {
    /// Its name under the bar.
    pub name: String,
    /// The component removed last; `None` for the whole engine and for the optimum.
    pub component: Option<Component>,
    /// What was measured.
    pub measured: &'a Measured,
}

/// The bars of Figures 5 and 6, from the whole engine to the optimum; none on a ladder that goes
/// up.
pub fn bars(dissection: &Dissection) -> Vec<Bar<'_>> {
    let Some(first) = find_rung(dissection, None) else { return Vec::new() };
    let whole = Bar { name: "whole".to_owned(), component: None, measured: &first.measured };
    let mut bars = vec![whole];
    for (i, rung) in dissection.rungs.iter().enumerate().skip(1) {
        let Some(component) = rung.component else { continue };
        let continues =
            dissection.rungs.get(i + 1).is_some_and(|next| next.component == rung.component);
        match component {
            Component::Remaining if rung.switch.as_deref() == Some("S11") => bars.push(Bar {
                name: "optimal".to_owned(),
                component: None,
                measured: &rung.measured,
            }),
            Component::Remaining => {}
            _ if continues => {}
            _ => bars.push(Bar {
                name: format!("−{component}"),
                component: Some(component),
                measured: &rung.measured,
            }),
        }
    }
    bars
}

/// The engine with the first `removed` of [`Component::MAIN`] off and the others on, whatever the
/// order they were removed in.
fn without(dissection: &Dissection, removed: usize) -> Option<&Measured> {
    let bars = bars(dissection);
    let mut off: Vec<Component> =
        bars.get(1..=removed)?.iter().filter_map(|b| b.component).collect();
    off.sort_unstable();
    (off == Component::MAIN[..removed]).then(|| bars[removed].measured)
}

/// Whether the ladder begins with the whole engine and continues from there: all do but the product's,
/// and the two rungs of a single switch.
pub fn goes_down(dissection: &Dissection) -> bool {
    let first = dissection.rungs.first().map(|rung| rung.measured.profile.as_str());
    dissection.ladder != PRODUCT_LADDER && first == Some(CONVENTIONAL) && dissection.rungs.len() > 2
}

/// The rung that turns a switch on a ladder that goes down; without one, the first.
pub fn find_rung<'a>(dissection: &'a Dissection, switch: Option<&str>) -> Option<&'a Rung> {
    if !goes_down(dissection) {
        return None;
    }
    match switch {
        None => dissection.rungs.first(),
        Some(_) => dissection.rungs.iter().find(|rung| rung.switch.as_deref() == switch),
    }
}

fn instructions(dissection: &Dissection, switch: Option<&str>, transaction: &str) -> Option<f64> {
    find_rung(dissection, switch)?.measured.instructions(transaction)
}

fn whole_row(dissection: &Dissection, of: &Transaction) -> Row {
    let ours = instructions(dissection, None, of.key);
    let caveat = format!("{}; {ANOTHER_ENGINE}", of.instructions_caveat);
    Row::measured(format!("{} · whole", of.name), INSTRUCTIONS, Some(of.instructions), ours)
        .with(caveat, of.reference)
}

fn share(dissection: &Dissection, component: Component, transaction: &str) -> Option<f64> {
    dissection.components.get(&component)?.get(transaction)?.percent_instructions
}

fn share_caveat(component: Component) -> &'static str {
    match component {
        Component::Remaining => "what is left with the five others off, useful work in it",
        Component::Logging => "no disk in it: writing the log costs time, hardly instructions",
        _ => "",
    }
}

fn share_rows(dissection: &Dissection, of: &Transaction, percents: &[f64; 6]) -> Vec<Row> {
    let row = |(component, &percent): (Component, &f64)| {
        let ours = share(dissection, component, of.key);
        Row::measured(format!("{} · {component}", of.name), PERCENT, Some(percent), ours)
            .with(share_caveat(component), of.reference)
    };
    Component::ALL.into_iter().zip(percents).map(row).collect()
}

/// The optimum's instructions as a part of the whole engine's.
fn useful_part(dissection: &Dissection, transaction: &str) -> Option<f64> {
    let whole = instructions(dissection, None, transaction)?;
    Some(instructions(dissection, Some("S11"), transaction)? / whole)
}

fn remaining_to_useful(dissection: &Dissection, of: &Transaction, paper: f64) -> Row {
    let remaining = share(dissection, Component::Remaining, of.key);
    let useful = useful_part(dissection, of.key).filter(|&useful| useful > 0.0);
    let ours = remaining.zip(useful).map(|(remaining, useful)| remaining / 100.0 / useful);
    Row::measured(format!("{} · remaining / useful work", of.name), "times", Some(paper), ours)
        .with("about, in the text", of.reference)
}

fn useful_row(dissection: &Dissection) -> Row {
    let of = &paper::NEW_ORDER;
    let paper = 100.0 * paper::NEW_ORDER_USEFUL_PART;
    let ours = useful_part(dissection, of.key).map(|part| 100.0 * part);
    Row::measured(format!("{} · useful work", of.name), PERCENT, Some(paper), ours)
        .with("the text says about 1/60", of.reference)
}

fn fig1(dissection: &Dissection) -> Vec<Row> {
    let of = &paper::NEW_ORDER;
    let mut rows = vec![whole_row(dissection, of)];
    rows.extend(share_rows(dissection, of, &paper::NEW_ORDER_INSTRUCTIONS));
    rows.push(useful_row(dissection));
    rows.push(remaining_to_useful(dissection, of, paper::NEW_ORDER_REMAINING_TO_USEFUL));
    rows
}

/// Heights of the bars between the first and the last, which follow from the shares.
fn height_rows(dissection: &Dissection, of: &Transaction, percents: &[f64; 6]) -> Vec<Row> {
    let whole = instructions(dissection, None, of.key);
    let mut left = 100.0;
    let mut rows = Vec::new();
    for (i, (component, percent)) in Component::MAIN[..4].iter().zip(percents).enumerate() {
        left -= percent;
        let ours = without(dissection, i + 1).and_then(|engine| engine.instructions(of.key));
        let ours = ours.zip(whole).map(|(ours, whole)| 100.0 * ours / whole);
        rows.push(
            Row::measured(
                format!("{} · left after −{component}", of.name),
                PERCENT,
                Some(left),
                ours,
            )
            .with("derived from the paper's shares (LG-E10)", "LG-E10"),
        );
    }
    rows
}

fn fig5(dissection: &Dissection) -> Vec<Row> {
    let of = &paper::PAYMENT;
    let mut rows = vec![whole_row(dissection, of)];
    rows.extend(share_rows(dissection, of, &paper::PAYMENT_INSTRUCTIONS));
    rows.extend(height_rows(dissection, of, &paper::PAYMENT_INSTRUCTIONS));
    rows.push(remaining_to_useful(dissection, of, paper::PAYMENT_REMAINING_TO_USEFUL));
    let before = without(dissection, 4).and_then(|engine| engine.instructions(of.key));
    let whole = instructions(dissection, None, of.key);
    let ours = whole.zip(before).map(|(whole, before)| whole / before);
    let name = format!("{} · gain before −buffer manager", of.name);
    rows.push(
        Row::measured(name, "times", Some(paper::PAYMENT_BEFORE_BUFFER_MANAGER), ours)
            .with("about, in the text", of.reference),
    );
    rows
}

fn fig6(dissection: &Dissection) -> Vec<Row> {
    let of = &paper::NEW_ORDER;
    let mut rows = vec![whole_row(dissection, of)];
    rows.extend(share_rows(dissection, of, &paper::NEW_ORDER_INSTRUCTIONS));
    rows.push(useful_row(dissection));
    rows.extend(height_rows(dissection, of, &paper::NEW_ORDER_INSTRUCTIONS));
    rows.push(remaining_to_useful(dissection, of, paper::NEW_ORDER_REMAINING_TO_USEFUL));
    let whole = |of: &Transaction| instructions(dissection, None, of.key);
    let ours = whole(of).zip(whole(&paper::PAYMENT)).map(|(more, less)| more / less);
    rows.push(
        Row::measured("New Order / Payment", "times", Some(paper::NEW_ORDER_TO_PAYMENT), ours)
            .with("the text says about 10; 1.73 M / 180 K = 9.6", "LG-49"),
    );
    rows
}

fn call_rows(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let mut rows = Vec::new();
    for bar in bars(dissection) {
        let Some(cost) = bar.measured.by_transaction.get(of.key) else { continue };
        for category in crate::counters::Category::ALL {
            let Some(&ours) = cost.calls.get(category.name()) else { continue };
            let name =
                format!("{} · {} · {category}", of.name, bar.name, category = category.name());
            let reference = if of.key == paper::PAYMENT.key { "LG-44" } else { "LG-45" };
            rows.push(
                Row::measured(name, INSTRUCTIONS, None, Some(ours))
                    .with("the figure draws it without a number", reference),
            );
        }
    }
    rows
}

/// What a switch saves, in percent of the first rung.
fn switch_percent(dissection: &Dissection, switch: &str, transaction: &str) -> Option<f64> {
    let first = find_rung(dissection, None)?;
    let rungs = &dissection.rungs;
    let at = rungs.iter().position(|rung| rung.switch.as_deref() == Some(switch))?;
    let figure = |rung: &Rung| rung.measured.instructions(transaction);
    let (before, after) = (figure(rungs.get(at.checked_sub(1)?)?)?, figure(&rungs[at])?);
    Some(100.0 * (before - after) / figure(first)?)
}

fn fig7(dissection: &Dissection) -> Vec<Row> {
    let of = &paper::NEW_ORDER;
    let mut rows = Vec::new();
    for switch in &paper::SWITCHES {
        let ours = switch_percent(dissection, switch.key, of.key);
        let name = format!("{} · {} {}", of.name, switch.key, switch.label);
        let caveat = match switch.key {
            "S2" => format!("{}; its price is time: see the throughput", switch.caveat),
            "S9" => {
                format!("{}; ours are pointers, Shore kept its pages' interface", switch.caveat)
            }
            "S11" => format!("{}; what the bypass saves, not what is left", switch.caveat),
            _ => switch.caveat.to_owned(),
        };
        rows.push(
            Row::measured(name, PERCENT, switch.percent, ours).with(caveat, switch.reference),
        );
    }
    rows.extend(share_rows(dissection, of, &paper::NEW_ORDER_INSTRUCTIONS));
    rows.push(useful_row(dissection));
    rows
}

fn fig8(dissection: &Dissection) -> Vec<Row> {
    let of = &paper::NEW_ORDER;
    let first = find_rung(dissection, None).map(|rung| &rung.measured);
    let cycles = first.and_then(|first| first.cycles(of.key));
    let total = Some(paper::NEW_ORDER_CYCLES_TOTAL);
    let mut rows = vec![
        whole_row(dissection, of),
        Row::measured("New Order · whole", "cycles", total, cycles).with(
            "off the figure's axis, the text has none; ours are ticks of the time-stamp counter",
            paper::CYCLES_REFERENCE,
        ),
    ];
    rows.extend(share_rows(dissection, of, &paper::NEW_ORDER_INSTRUCTIONS));
    for (component, percent) in Component::ALL.into_iter().zip(paper::NEW_ORDER_CYCLES) {
        let by_transaction = dissection.components.get(&component);
        let ours = by_transaction.and_then(|shares| shares.get(of.key)?.percent_cycles);
        rows.push(
            Row::measured(format!("New Order · {component}"), PERCENT_CYCLES, Some(percent), ours)
                .with("indicative: cycles depend on caches and on the machine", "LG-47"),
        );
    }
    let instructions = instructions(dissection, None, of.key).filter(|&count| count > 0.0);
    let ours = cycles.zip(instructions).map(|(cycles, instructions)| cycles / instructions);
    let paper = paper::NEW_ORDER_CYCLES_TOTAL / of.instructions;
    rows.push(
        Row::measured("New Order · cycles per instruction", "cycles", Some(paper), ours)
            .with("derived from the paper's figures", paper::CYCLES_REFERENCE),
    );
    rows
}

fn throughput(dissection: &Dissection) -> Vec<Row> {
    let tps = |rung| find_rung(dissection, rung).map(|rung| rung.measured.tps).filter(|&t| t > 0.0);
    let join = |a: &str, b: &str| {
        [a, b].iter().filter(|s| !s.is_empty()).copied().collect::<Vec<_>>().join("; ")
    };
    let mut rows = Vec::new();
    for point in paper::THROUGHPUT {
        rows.push(
            Row::measured(point.name, "tps", Some(point.tps), tps(point.rung))
                .with(join(point.caveat, point.ours), "LG-41"),
        );
    }
    for point in paper::THROUGHPUT {
        let ours = tps(point.rung).map(|tps| 1e6 / tps);
        rows.push(
            Row::measured(point.name, "µs per transaction", Some(point.us), ours)
                .with(point.caveat, "LG-41"),
        );
    }
    for gain in paper::GAINS {
        let at = |point: usize| tps(paper::THROUGHPUT[point].rung);
        let ours = at(gain.to).zip(at(gain.from)).map(|(to, from)| to / from);
        rows.push(
            Row::measured(gain.name, "times", Some(gain.times), ours).with(gain.caveat, "LG-41"),
        );
    }
    rows
}

/// The lattice's point with only these components off.
fn lattice_point<'a>(dissection: &'a Dissection, off: &[Component]) -> Option<&'a Measured> {
    let bit = |component: &Component| if off.contains(component) { '0' } else { '1' };
    let bits: String = Component::MAIN.iter().map(bit).collect();
    let name = format!("lattice-{bits}");
    dissection.lattice.iter().find(|point| point.profile == name)
}

/// What removing only these components saves of New Order, in percent; and how that is known.
fn saved(dissection: &Dissection, off: &[Component]) -> (Option<f64>, &'static str) {
    let transaction = paper::NEW_ORDER.key;
    if let [component] = off {
        let alone = dissection.alone.get(component);
        let saved = alone.and_then(|alone| alone.saved.get(transaction)?.percent_instructions);
        if saved.is_some() {
            return (saved, "removed alone");
        }
    }
    let whole = instructions(dissection, None, transaction).filter(|&whole| whole > 0.0);
    let point = lattice_point(dissection, off).and_then(|point| point.instructions(transaction));
    if let (Some(whole), Some(point)) = (whole, point) {
        return (Some(100.0 * (whole - point) / whole), "only these removed");
    }
    let shares: Option<f64> = off.iter().map(|&c| share(dissection, c, transaction)).sum();
    (shares, "their shares of the ladder: what was removed before them is not in it")
}

fn table1(dissection: &Dissection) -> Vec<Row> {
    let row = |property: &paper::Property| {
        let (ours, how) = if property.components.is_empty() {
            let sessions = switch_percent(dissection, "S10", paper::NEW_ORDER.key);
            (sessions, "the switch S10, at its place in the ladder")
        } else {
            saved(dissection, property.components)
        };
        let name = format!("{} → {}", property.property, property.modification);
        let caveat = format!("the table has no numbers; {how}");
        Row::measured(name, "% of New Order's instructions", None, ours).with(caveat, "LG-24")
    };
    paper::TABLE_1.iter().map(row).collect()
}

/// What the text says of B-tree calls and of single removals, which no figure shows (LG-50, LG-51).
pub fn text_rows(dissection: &Dissection) -> Vec<Row> {
    let mut rows = Vec::new();
    for of in &paper::TRANSACTIONS {
        let btree = |switch: Option<&str>| -> Option<f64> {
            let calls = &find_rung(dissection, switch)?.measured.by_transaction.get(of.key)?.calls;
            Some(calls.get("lookup")? + calls.get("insert").copied().unwrap_or(0.0))
        };
        let saved = |from, to| Some((btree(from)?, btree(to)?)).filter(|(from, _)| *from > 0.0);
        let percent = |pair: Option<(f64, f64)>| pair.map(|(from, to)| 100.0 * (from - to) / from);
        let (least, most) = paper::BTREE_PERCENT;
        let name = format!("{} · B-tree calls: saved before the bypass", of.name);
        rows.push(Row::measured(name, PERCENT, None, percent(saved(None, Some("S10")))).with(
            format!("the text says {least:.0} to {most:.0} % of their time, all together"),
            "LG-50",
        ));
        let name = format!("{} · B-tree calls: saved of the rest by the bypass", of.name);
        let ours = percent(saved(Some("S10"), Some("S11")));
        rows.push(
            Row::measured(name, PERCENT, Some(paper::BTREE_REST_PERCENT), ours)
                .with("the text says three quarters of the remaining time", "LG-50"),
        );
        let savings = dissection.alone.values().filter_map(|alone| alone.saved.get(of.key));
        let most = savings.filter_map(|share| share.percent_instructions).reduce(f64::max);
        let name = format!("{} · most that one removal alone saves", of.name);
        rows.push(
            Row::measured(name, PERCENT, Some(paper::ALONE_PERCENT), most)
                .with("the text says about 30 %, of performance and not of instructions", "LG-51"),
        );
    }
    rows
}
