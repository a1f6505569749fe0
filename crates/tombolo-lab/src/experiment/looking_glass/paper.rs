//! The numbers that *OLTP Through the Looking Glass* prints, with their place in the list of facts
//! (LG-…), units, and what has to be known about them.
//!
//! Nothing is added: where the paper draws a bar without a number, there is no number here (LG-E8), and what is
//! computed from its numbers says so. Not here: our results.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::result::{Component, Share, Shares};

/// A type of transaction that the paper measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transaction {
    /// Its key in results.
    pub key: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Instructions of one in unmodified Shore, kept in memory.
    pub instructions: f64,
    /// How exact that number is, and what else the paper says of it.
    pub instructions_caveat: &'static str,
    /// Shares of instructions, in the order of [`Component::ALL`].
    pub percents: [f64; 6],
    /// How many times the useful work the remaining overhead is.
    pub remaining_to_useful: f64,
    /// Where the shares of instructions are printed.
    pub reference: &'static str,
    /// Where the calls' parts of the bars are drawn.
    pub calls_reference: &'static str,
}

/// New Order (Figures 1, 6, 7, 8).
pub const NEW_ORDER: Transaction = Transaction {
    key: "new_order",
    name: "New Order",
    instructions: 1_730_000.0,
    instructions_caveat: "the text prints 1.73 million, Figure 1's axis ends at 1.8 (LG-E10)",
    percents: [16.2, 11.9, 16.3, 14.2, 34.6, 6.8],
    remaining_to_useful: 4.0,
    reference: "LG-42",
    calls_reference: "LG-45",
};

/// Payment (Figure 5).
pub const PAYMENT: Transaction = Transaction {
    key: "payment",
    name: "Payment",
    instructions: 180_000.0,
    instructions_caveat: "about: the text says 180 thousand",
    percents: [10.1, 17.7, 25.2, 12.6, 29.8, 4.7],
    remaining_to_useful: 6.0,
    reference: "LG-43",
    calls_reference: "LG-44",
};

/// Both.
pub const TRANSACTIONS: [Transaction; 2] = [PAYMENT, NEW_ORDER];

/// The types of transaction in the paper's order, then any others, of those that are `present`.
pub fn in_order<'a, V>(present: &'a BTreeMap<String, V>) -> Vec<&'a str> {
    let known = TRANSACTIONS.iter().filter_map(|known| present.get_key_value(known.key));
    let known: Vec<&str> = known.map(|(key, _)| key.as_str()).collect();
    let others: Vec<&'a str> =
        present.keys().map(String::as_str).filter(|key| !known.contains(key)).collect();
    known.into_iter().chain(others).collect()
}

/// A transaction's name for people; its key where the paper has none of that name.
pub fn name(transaction: &str) -> &str {
    let known = TRANSACTIONS.iter().find(|known| known.key == transaction);
    known.map_or(transaction, |known| known.name)
}

/// New Order's shares of cycles (LG-47; Figure 8).
pub const NEW_ORDER_CYCLES: [f64; 6] = [8.1, 21.0, 18.7, 10.2, 29.6, 12.3];
/// Where they are printed.
pub const CYCLES_REFERENCE: &str = "LG-47";
/// Cycles of one New Order, off Figure 8's axis (LG-47).
pub const NEW_ORDER_CYCLES_TOTAL: f64 = 3_500_000.0;

/// New Order's useful work: 1/60 of all instructions (LG-42).
pub const NEW_ORDER_USEFUL_PART: f64 = 1.0 / 60.0;
/// Payment before the buffer manager goes: three times fewer instructions than at first (LG-43).
pub const PAYMENT_BEFORE_BUFFER_MANAGER: f64 = 3.0;
/// New Order takes ten times the instructions of Payment (LG-49).
pub const NEW_ORDER_TO_PAYMENT: f64 = 10.0;

/// The paper's lists (`paper.json`).
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub struct Printed {
    /// The eleven switches, in the order they are applied (LG-D).
    pub switches: Vec<Switch>,
    /// The four points of the throughput ladder (LG-41), on a mix of half New Order, half Payment.
    pub throughput: Vec<Throughput>,
    /// Gains that the paper states or that follow from its throughput ladder (LG-41, LG-E3).
    pub gains: Vec<Gain>,
    /// Table 1 (LG-24).
    pub table_1: Vec<Property>,
}

/// The paper's lists.
pub static PRINTED: LazyLock<Printed> = LazyLock::new(|| {
    serde_json::from_str(include_str!("paper.json")).expect("tests read what is compiled in")
});

/// One of the eleven switches.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Switch {
    /// `S1` to `S11`.
    pub key: &'static str,
    /// Its label in Figure 7; the last has none there and is the text's "optimal".
    pub label: &'static str,
    /// Its component.
    pub component: Component,
    /// The feature that it removes.
    pub removes: &'static str,
    /// Its share of New Order's instructions, in percent, where the paper prints one.
    pub percent: Option<f64>,
    /// How exact it is, or why the paper has no number.
    #[serde(default = "not_printed")]
    pub caveat: &'static str,
}

const fn not_printed() -> &'static str {
    "Figure 7 draws it without a number (LG-E8)"
}

/// The switch of a rung.
pub fn find_switch(key: &str) -> Option<&'static Switch> {
    PRINTED.switches.iter().find(|switch| switch.key == key)
}

/// A point of the throughput ladder.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Throughput {
    /// The engine's name.
    pub name: &'static str,
    /// Transactions per second.
    pub tps: f64,
    /// Microseconds per transaction, as printed.
    pub us: f64,
    /// A caveat of the numbers.
    pub caveat: &'static str,
    /// Our rung next to it: the key of its switch; `None` is the first.
    pub rung: Option<&'static str>,
    /// Differences between our rung and the paper's engine.
    #[serde(default)]
    pub ours: &'static str,
}

/// A gain: from and to are positions in [`Printed::throughput`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Gain {
    /// What is gained by.
    pub name: &'static str,
    /// From this point.
    pub from: usize,
    /// To this one.
    pub to: usize,
    /// How many times, where the paper prints it.
    times: Option<f64>,
    /// Whether the paper prints it.
    pub caveat: &'static str,
}

impl Gain {
    /// How many times.
    pub fn times(&self) -> f64 {
        let at = |point: usize| PRINTED.throughput[point].tps;
        self.times.unwrap_or_else(|| at(self.to) / at(self.from))
    }
}

/// A row of Table 1: what an application or a platform has, and what it lets one remove.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Property {
    /// The property.
    pub property: &'static str,
    /// The modification.
    pub modification: &'static str,
    /// The components that go; empty for the bookkeeping of transactions, which is S10.
    pub components: Vec<Component>,
}

/// The calls that the text says a removal hits most (LG-48).
pub const fn calls_hit(component: Component) -> &'static [&'static str] {
    match component {
        Component::Logging => &["commit", "update"],
        Component::Locking => &["pin", "lookup", "commit"],
        Component::Latching => &["create", "lookup"],
        Component::BufferManager => &["create", "lookup", "update"],
        Component::BtreeKeys | Component::Remaining => &[],
    }
}

/// What the optimisations take off B-tree operations, least and most, in percent of their time
/// (LG-50).
pub const BTREE_PERCENT: (f64, f64) = (80.0, 88.0);
/// What the bypass takes off the rest of them (LG-50).
pub const BTREE_REST_PERCENT: f64 = 75.0;
/// About what a single component's removal saves (LG-51).
pub const ALONE_PERCENT: f64 = 30.0;

/// The paper's shares, as a result of `dissect` has them next to its own.
pub fn shares() -> Shares {
    let mut shares = Shares::new();
    for (i, component) in Component::ALL.into_iter().enumerate() {
        let by_transaction: &mut BTreeMap<_, _> = shares.entry(component).or_default();
        for (of, cycles) in [(NEW_ORDER, Some(NEW_ORDER_CYCLES[i])), (PAYMENT, None)] {
            let share =
                Share { percent_instructions: Some(of.percents[i]), percent_cycles: cycles };
            by_transaction.insert(of.key.to_owned(), share);
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_shares_are_wholes() {
        for percents in [NEW_ORDER.percents, PAYMENT.percents, NEW_ORDER_CYCLES] {
            let sum: f64 = percents.iter().sum();
            assert!((99.8..=100.2).contains(&sum), "{sum}: rounded shares of a whole");
        }
    }

    #[test]
    fn only_four_switches_have_a_number() {
        let printed: Vec<_> =
            PRINTED.switches.iter().filter(|s| s.percent.is_some()).map(|s| s.key).collect();
        assert_eq!(printed, ["S1", "S5", "S6", "S8"]);
        for (i, switch) in PRINTED.switches.iter().enumerate() {
            assert_eq!(switch.key, format!("S{}", i + 1));
        }
        for percent in [NEW_ORDER.percents[0], NEW_ORDER.percents[2]] {
            assert!(PRINTED.switches.iter().any(|switch| switch.percent == Some(percent)));
        }
    }

    #[test]
    fn gains_are_quotients_of_the_throughputs() {
        for gain in &PRINTED.gains {
            let quotient = PRINTED.throughput[gain.to].tps / PRINTED.throughput[gain.from].tps;
            assert!((gain.times() / quotient - 1.0).abs() < 0.01, "{}: {quotient}", gain.name);
        }
        for point in &PRINTED.throughput {
            assert!((point.us * point.tps / 1e6 - 1.0).abs() < 0.03, "{}", point.name);
        }
    }

    #[test]
    fn transactions_come_in_the_papers_order() {
        let present = ["delivery", "new_order", "payment"].map(|key| (key.to_owned(), ()));
        let present = BTreeMap::from(present);
        assert_eq!(in_order(&present), ["payment", "new_order", "delivery"]);
        assert_eq!((name("new_order"), name("delivery")), ("New Order", "delivery"));
    }
}
