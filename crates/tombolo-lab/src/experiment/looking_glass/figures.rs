//! The paper's figures and Table 1 as rows: the paper's figure, ours, their ratio, and what makes
//! them differ.
//!
//! Ours are read off one result of `dissect`; the paper's come from [`paper`]. Every row that the
//! paper has is here, with or without ours; a bar that it draws without a number has no number here
//! either (LG-E8). What several figures need is run once. Not here: running (`dissect.rs`).

use std::fmt::Display;

use super::dissect::dissect;
use super::ladder::{CONVENTIONAL, Ladder, PRODUCT_LADDER, lattice_without};
use super::paper::{self, PRINTED, Transaction};
use super::plan::{DissectPlan, Scope};
use super::result::{Component, Dissection, Measured, Reproduction, Row, Rung, Share};
use crate::experiment::paper::paper;
use crate::experiment::{Reproduced, Wanted};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::settings::{self, Settings, Source};

paper! {
    /// A figure or table of the paper.
    pub enum Figure {
        /// Shares of New Order's instructions.
        Fig1 = "lg/fig1", "Figure 1: where New Order's instructions go";
        /// Table 1: the components that a property makes superfluous.
        Table1 = "lg/table1", "Table 1: what a property lets one remove";
        /// Transactions per second.
        Throughput = "lg/throughput", "Throughput, from out of the box to optimal";
        /// Payment, component by component and call by call.
        Fig5 = "lg/fig5", "Figure 5: Payment, component by component";
        /// New Order, component by component and call by call.
        Fig6 = "lg/fig6", "Figure 6: New Order, component by component";
        /// New Order, switch by switch.
        Fig7 = "lg/fig7", "Figure 7: New Order, switch by switch";
        /// New Order's instructions against its cycles.
        Fig8 = "lg/fig8", "Figure 8: instructions against cycles, New Order";
    }
    has_terminals: false,
    reproduce: reproduce,
}

/// The rows of a result for a type of transaction.
type Rows = fn(&Dissection, &Transaction) -> Vec<Row>;

impl Figure {
    /// The type of transaction that it shows, and its rows.
    const fn shown(self) -> (&'static Transaction, &'static [Rows]) {
        use paper::{NEW_ORDER, PAYMENT};
        match self {
            Self::Fig1 => (&NEW_ORDER, &[whole, shares, useful, remaining_to_useful]),
            Self::Table1 => (&NEW_ORDER, &[table1]),
            Self::Throughput => (&NEW_ORDER, &[throughput]),
            Self::Fig5 => {
                (&PAYMENT, &[whole, shares, heights, remaining_to_useful, before_buffer_manager])
            }
            Self::Fig6 => {
                (&NEW_ORDER, &[whole, shares, useful, heights, remaining_to_useful, to_payment])
            }
            Self::Fig7 => (&NEW_ORDER, &[switches, shares, useful]),
            Self::Fig8 => (
                &NEW_ORDER,
                &[whole, whole_cycles, shares, shares_of_cycles, cycles_per_instruction],
            ),
        }
    }

    /// The result of `paper` for it, with ours from `dissection`.
    pub fn reproduce(self, dissection: &Dissection) -> Reproduction {
        let mut rows = self.rows(dissection);
        rows.extend(self.call_rows(dissection));
        self.reproduction(rows, dissection.notes.clone())
    }

    /// Its rows, without those by call.
    pub fn rows(self, dissection: &Dissection) -> Vec<Row> {
        let (of, rows) = self.shown();
        rows.iter().flat_map(|rows| rows(dissection, of)).collect()
    }

    /// The bars' parts by call on the right of Figures 5 and 6, which have no numbers in the paper.
    pub fn call_rows(self, dissection: &Dissection) -> Vec<Row> {
        match self {
            Self::Fig5 | Self::Fig6 => call_rows(dissection, self.shown().0),
            _ => Vec::new(),
        }
    }
}

/// The results of `figures`, out of one dissection.
fn reproduce(
    figures: &[Figure],
    wanted: &Wanted,
    progress: &mut dyn Progress,
) -> Result<Reproduced, Failure> {
    let mut plan = plan(&wanted.settings, figures)?;
    plan.volatile_ok = wanted.volatile_ok;
    let dissection = dissect(&plan, progress)?;
    let found = figures.iter().map(|figure| figure.reproduce(&dissection)).collect();
    Ok(Reproduced { header: plan.scope.header(), settings: plan.settings, found })
}

/// The runs that `figures` need together.
///
/// # Errors
/// As [`DissectPlan::new`].
fn plan(settings: &Settings, figures: &[Figure]) -> Result<DissectPlan, Failure> {
    let mut settings = settings.clone();
    if figures.iter().all(|figure| *figure == Figure::Throughput) {
        // It has no instructions in it.
        settings.set(settings::COUNTER.name, "none", Source::Flag)?;
    }
    let scope = Scope { ladder: Ladder::Paper, only: None, lattice: false };
    let mut plan = DissectPlan::new(&settings, scope)?;
    if figures.contains(&Figure::Table1) {
        // One of its rows removes two components.
        plan.points.push(lattice_without(&[Component::Locking, Component::Latching]));
    }
    Ok(plan)
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
    /// The measurement.
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

/// Instructions of a transaction on the rung that turns a switch; without one, on the first.
fn instructions(dissection: &Dissection, switch: Option<&str>, transaction: &str) -> Option<f64> {
    find_rung(dissection, switch)?.measured.instructions(transaction)
}

/// Instructions of a transaction of the whole engine.
pub fn whole_instructions(dissection: &Dissection, of: &Transaction) -> Option<f64> {
    instructions(dissection, None, of.key)
}

/// A row about a type of transaction.
fn row(
    of: &Transaction,
    what: impl Display,
    unit: &str,
    paper: impl Into<Option<f64>>,
    ours: Option<f64>,
) -> Row {
    Row::measured(format!("{} · {what}", of.name), unit, paper.into(), ours)
}

/// How many times the second figure the first one is.
fn times(of: Option<f64>, as_much_as: Option<f64>) -> Option<f64> {
    Some(of? / as_much_as?)
}

fn whole(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let ours = whole_instructions(dissection, of);
    let caveat = format!("{}; {ANOTHER_ENGINE}", of.instructions_caveat);
    vec![row(of, "whole", INSTRUCTIONS, of.instructions, ours).with(caveat, of.reference)]
}

fn share(dissection: &Dissection, component: Component, of: &Transaction) -> Option<Share> {
    dissection.components.get(&component)?.get(of.key).copied()
}

fn share_of_instructions(
    dissection: &Dissection,
    component: Component,
    of: &Transaction,
) -> Option<f64> {
    share(dissection, component, of)?.percent_instructions
}

fn shares(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let shown = |(component, percent): (Component, f64)| {
        let ours = share_of_instructions(dissection, component, of);
        let caveat = match component {
            Component::Remaining => "what is left with the five others off, useful work in it",
            Component::Logging => "no disk in it: writing the log costs time, hardly instructions",
            _ => "",
        };
        row(of, component, PERCENT, percent, ours).with(caveat, of.reference)
    };
    Component::ALL.into_iter().zip(of.percents).map(shown).collect()
}

/// The optimum's instructions as a part of the whole engine's.
pub fn useful_part(dissection: &Dissection, of: &Transaction) -> Option<f64> {
    times(instructions(dissection, Some("S11"), of.key), whole_instructions(dissection, of))
}

fn remaining_to_useful(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let remaining = share_of_instructions(dissection, Component::Remaining, of);
    let useful = useful_part(dissection, of).filter(|&useful| useful > 0.0);
    let ours = times(remaining.map(|remaining| remaining / 100.0), useful);
    let ours = row(of, "remaining / useful work", "times", of.remaining_to_useful, ours);
    vec![ours.with("about, in the text", of.reference)]
}

fn useful(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let paper = 100.0 * paper::NEW_ORDER_USEFUL_PART;
    let ours = useful_part(dissection, of).map(|part| 100.0 * part);
    let ours = row(of, "useful work", PERCENT, paper, ours);
    vec![ours.with("the text says about 1/60", of.reference)]
}

/// Heights of the bars between the first and the last, which follow from the shares.
fn heights(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let whole = whole_instructions(dissection, of);
    let mut left = 100.0;
    let height = |(i, (component, percent)): (usize, (&Component, f64))| {
        left -= percent;
        let ours = without(dissection, i + 1).and_then(|engine| engine.instructions(of.key));
        let ours = times(ours.map(|ours| 100.0 * ours), whole);
        row(of, format!("left after −{component}"), PERCENT, left, ours)
            .with("derived from the paper's shares (LG-E10)", "LG-E10")
    };
    Component::MAIN[..4].iter().zip(of.percents).enumerate().map(height).collect()
}

fn before_buffer_manager(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let before = without(dissection, 4).and_then(|engine| engine.instructions(of.key));
    let ours = times(whole_instructions(dissection, of), before);
    let paper = paper::PAYMENT_BEFORE_BUFFER_MANAGER;
    let ours = row(of, "gain before −buffer manager", "times", paper, ours);
    vec![ours.with("about, in the text", of.reference)]
}

fn to_payment(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let whole = |of: &Transaction| whole_instructions(dissection, of);
    let (ours, paper) = (times(whole(of), whole(&paper::PAYMENT)), paper::NEW_ORDER_TO_PAYMENT);
    let ours = Row::measured("New Order / Payment", "times", Some(paper), ours);
    vec![ours.with("the text says about 10; 1.73 M / 180 K = 9.6", "LG-49")]
}

fn call_rows(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let mut rows = Vec::new();
    for bar in bars(dissection) {
        let Some(cost) = bar.measured.by_transaction.get(of.key) else { continue };
        for category in crate::counters::Category::ALL.map(crate::counters::Category::name) {
            let Some(&ours) = cost.calls.get(category) else { continue };
            rows.push(
                row(of, format!("{} · {category}", bar.name), INSTRUCTIONS, None, Some(ours))
                    .with("the figure draws it without a number", of.calls_reference),
            );
        }
    }
    rows
}

/// The saving of a switch, in percent of the first rung.
fn switch_percent(dissection: &Dissection, switch: &str, transaction: &str) -> Option<f64> {
    let first = find_rung(dissection, None)?;
    let rungs = &dissection.rungs;
    let at = rungs.iter().position(|rung| rung.switch.as_deref() == Some(switch))?;
    let figure = |rung: &Rung| rung.measured.instructions(transaction);
    let (before, after) = (figure(rungs.get(at.checked_sub(1)?)?)?, figure(&rungs[at])?);
    Some(100.0 * (before - after) / figure(first)?)
}

fn switches(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let shown = |switch: &paper::Switch| {
        let ours = switch_percent(dissection, switch.key, of.key);
        let more = match switch.key {
            "S2" => "; its price is time: see the throughput",
            "S9" => "; ours are pointers, Shore kept its pages' interface",
            "S11" => "; what the bypass saves, not what is left",
            _ => "",
        };
        row(of, format!("{} {}", switch.key, switch.label), PERCENT, switch.percent, ours)
            .with(format!("{}{more}", switch.caveat), "LG-46")
    };
    PRINTED.switches.iter().map(shown).collect()
}

/// Cycles of one transaction on the first rung.
fn cycles(dissection: &Dissection, of: &Transaction) -> Option<f64> {
    find_rung(dissection, None)?.measured.cycles(of.key)
}

fn whole_cycles(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let caveat =
        "off the figure's axis, the text has none; ours are ticks of the time-stamp counter";
    let ours = cycles(dissection, of);
    let ours = row(of, "whole", "cycles", paper::NEW_ORDER_CYCLES_TOTAL, ours);
    vec![ours.with(caveat, paper::CYCLES_REFERENCE)]
}

fn shares_of_cycles(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let shown = |(component, percent): (Component, f64)| {
        let ours = share(dissection, component, of).and_then(|share| share.percent_cycles);
        row(of, component, PERCENT_CYCLES, percent, ours)
            .with("indicative: cycles depend on caches and on the machine", paper::CYCLES_REFERENCE)
    };
    Component::ALL.into_iter().zip(paper::NEW_ORDER_CYCLES).map(shown).collect()
}

fn cycles_per_instruction(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let instructions = whole_instructions(dissection, of).filter(|&count| count > 0.0);
    let ours = times(cycles(dissection, of), instructions);
    let paper = paper::NEW_ORDER_CYCLES_TOTAL / of.instructions;
    let ours = row(of, "cycles per instruction", "cycles", paper, ours);
    vec![ours.with("derived from the paper's figures", paper::CYCLES_REFERENCE)]
}

fn throughput(dissection: &Dissection, _: &Transaction) -> Vec<Row> {
    let ours = |rung| find_rung(dissection, rung).map(|rung| rung.measured.speed.tps);
    let ours = |rung| ours(rung).filter(|&tps| tps > 0.0);
    let points = &PRINTED.throughput;
    let tps = points.iter().map(|point| {
        let caveat = match point.ours {
            "" => point.caveat.to_owned(),
            ours => format!("{}; {ours}", point.caveat),
        };
        Row::measured(point.name, "tps", Some(point.tps), ours(point.rung)).with(caveat, "LG-41")
    });
    let us = points.iter().map(|point| {
        let ours = ours(point.rung).map(|tps| 1e6 / tps);
        Row::measured(point.name, "µs per transaction", Some(point.us), ours)
            .with(point.caveat, "LG-41")
    });
    let gains = PRINTED.gains.iter().map(|gain| {
        let at = |point: usize| ours(points[point].rung);
        let ours = times(at(gain.to), at(gain.from));
        Row::measured(gain.name, "times", Some(gain.times()), ours).with(gain.caveat, "LG-41")
    });
    tps.chain(us).chain(gains).collect()
}

/// The lattice's point with only these components off.
fn lattice_point<'a>(dissection: &'a Dissection, off: &[Component]) -> Option<&'a Measured> {
    let name = lattice_without(off);
    dissection.lattice.iter().find(|point| point.profile == name)
}

/// The saving of New Order when only these components are removed, in percent; and its source.
fn saved(
    dissection: &Dissection,
    off: &[Component],
    of: &Transaction,
) -> (Option<f64>, &'static str) {
    let transaction = of.key;
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
    let shares: Option<f64> = off.iter().map(|&c| share_of_instructions(dissection, c, of)).sum();
    (shares, "their shares of the ladder: what was removed before them is not in it")
}

fn table1(dissection: &Dissection, of: &Transaction) -> Vec<Row> {
    let shown = |property: &paper::Property| {
        let (ours, how) = match &property.components[..] {
            [] => (
                switch_percent(dissection, "S10", of.key),
                "the switch S10, at its place in the ladder",
            ),
            components => saved(dissection, components, of),
        };
        let name = format!("{} → {}", property.property, property.modification);
        let caveat = format!("the table has no numbers; {how}");
        Row::measured(name, "% of New Order's instructions", None, ours).with(caveat, "LG-24")
    };
    PRINTED.table_1.iter().map(shown).collect()
}

/// The text's numbers for B-tree calls and single removals, which no figure shows (LG-50, LG-51).
pub fn text_rows(dissection: &Dissection) -> Vec<Row> {
    let mut rows = Vec::new();
    for of in &paper::TRANSACTIONS {
        let btree = |switch: Option<&str>| -> Option<f64> {
            let calls = &find_rung(dissection, switch)?.measured.by_transaction.get(of.key)?.calls;
            Some(calls.get("lookup")? + calls.get("insert").copied().unwrap_or(0.0))
        };
        let saved = |from, to| -> Option<f64> {
            let (from, to) = (btree(from)?, btree(to)?);
            (from > 0.0).then(|| 100.0 * (from - to) / from)
        };
        let savings = dissection.alone.values().filter_map(|alone| alone.saved.get(of.key));
        let most = savings.filter_map(|share| share.percent_instructions).reduce(f64::max);
        let (least_of_btree, most_of_btree) = paper::BTREE_PERCENT;
        rows.extend([
            row(
                of,
                "B-tree calls: saved before the bypass",
                PERCENT,
                None,
                saved(None, Some("S10")),
            )
            .with(
                format!(
                    "the text says {least_of_btree:.0} to {most_of_btree:.0} % of their time, all \
                     together"
                ),
                "LG-50",
            ),
            row(
                of,
                "B-tree calls: saved of the rest by the bypass",
                PERCENT,
                paper::BTREE_REST_PERCENT,
                saved(Some("S10"), Some("S11")),
            )
            .with("the text says three quarters of the remaining time", "LG-50"),
            row(of, "most that one removal alone saves", PERCENT, paper::ALONE_PERCENT, most)
                .with("the text says about 30 %, of performance and not of instructions", "LG-51"),
        ]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let mut settings = settings::defaults();
        for (name, value) in [("warehouses", "1"), ("transactions", "300")] {
            settings.set(name, value, Source::Flag).unwrap();
        }
        settings
    }

    #[test]
    fn a_table_with_two_components_off_measures_that_point() {
        let plan = plan(&settings(), &[Figure::Table1]).unwrap();
        assert_eq!(plan.points, ["lattice-11001"]);
        assert!(plan.profiles().contains(&"lattice-11001"));
    }

    #[test]
    fn throughput_counts_nothing() {
        let mut settings = settings();
        settings.set("counter", "auto", Source::Flag).unwrap();
        let counter = |figures: &[Figure]| {
            plan(&settings, figures).unwrap().settings.word(&settings::COUNTER).to_owned()
        };
        assert_eq!(counter(&[Figure::Throughput]), "none");
        assert_eq!(counter(&[Figure::Throughput, Figure::Fig1]), "auto");
    }
}
