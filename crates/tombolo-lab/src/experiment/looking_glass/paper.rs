//! The numbers that *OLTP Through the Looking Glass* prints, with their place in the list of facts
//! (LG-…), units, and what has to be known about them.
//!
//! Nothing is added: where the paper draws a bar without a number there is none here (LG-E8), and
//! what is computed from its numbers says so. Not here: ours.

use std::collections::BTreeMap;

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
    /// Where the shares of instructions are printed.
    pub reference: &'static str,
}

/// New Order (Figures 1, 6, 7, 8).
pub const NEW_ORDER: Transaction = Transaction {
    key: "new_order",
    name: "New Order",
    instructions: 1_730_000.0,
    instructions_caveat: "the text prints 1.73 million, Figure 1's axis ends at 1.8 (LG-E10)",
    reference: "LG-42",
};

/// Payment (Figure 5).
pub const PAYMENT: Transaction = Transaction {
    key: "payment",
    name: "Payment",
    instructions: 180_000.0,
    instructions_caveat: "about: the text says 180 thousand",
    reference: "LG-43",
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

/// New Order's shares of instructions, in the order of [`Component::ALL`] (LG-42; Figures 1, 6, 7,
/// 8).
pub const NEW_ORDER_INSTRUCTIONS: [f64; 6] = [16.2, 11.9, 16.3, 14.2, 34.6, 6.8];
/// Payment's shares of instructions (LG-43; Figure 5).
pub const PAYMENT_INSTRUCTIONS: [f64; 6] = [10.1, 17.7, 25.2, 12.6, 29.8, 4.7];
/// New Order's shares of cycles (LG-47; Figure 8).
pub const NEW_ORDER_CYCLES: [f64; 6] = [8.1, 21.0, 18.7, 10.2, 29.6, 12.3];
/// Where they are printed.
pub const CYCLES_REFERENCE: &str = "LG-47";
/// Cycles of one New Order, off Figure 8's axis (LG-47).
pub const NEW_ORDER_CYCLES_TOTAL: f64 = 3_500_000.0;

/// New Order's useful work: 1/60 of all instructions (LG-42).
pub const NEW_ORDER_USEFUL_PART: f64 = 1.0 / 60.0;
/// New Order's remaining overhead is four times the useful work (LG-42).
pub const NEW_ORDER_REMAINING_TO_USEFUL: f64 = 4.0;
/// Payment's remaining overhead is six times the optimum (LG-43).
pub const PAYMENT_REMAINING_TO_USEFUL: f64 = 6.0;
/// Payment before the buffer manager goes: three times fewer instructions than at first (LG-43).
pub const PAYMENT_BEFORE_BUFFER_MANAGER: f64 = 3.0;
/// New Order takes ten times the instructions of Payment (LG-49).
pub const NEW_ORDER_TO_PAYMENT: f64 = 10.0;

/// One of the eleven switches, in the order they are applied (LG-D).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Switch {
    /// `S1` to `S11`.
    pub key: &'static str,
    /// Its label in Figure 7; the last has none there and is the text's "optimal".
    pub label: &'static str,
    /// Its component.
    pub component: Component,
    /// What it takes away.
    pub removes: &'static str,
    /// Its share of New Order's instructions, in percent, where the paper prints one.
    pub percent: Option<f64>,
    /// Why there is none, or how exact it is.
    pub caveat: &'static str,
    /// Where it is printed.
    pub reference: &'static str,
}

const NOT_PRINTED: &str = "Figure 7 draws it without a number (LG-E8)";

const fn switch(
    key: &'static str,
    label: &'static str,
    component: Component,
    removes: &'static str,
) -> Switch {
    Switch {
        key,
        label,
        component,
        removes,
        percent: None,
        caveat: NOT_PRINTED,
        reference: "LG-46",
    }
}

impl Switch {
    const fn printed(self, percent: f64, caveat: &'static str) -> Self {
        Self { percent: Some(percent), caveat, ..self }
    }
}

/// The eleven.
pub const SWITCHES: [Switch; 11] = {
    use Component::{BtreeKeys, BufferManager, Latching, Locking, Logging, Remaining};
    const ONLY: &str = "the component's share: it is its only switch";
    [
        switch("S1", "Btree keys", BtreeKeys, "generic comparison of keys").printed(16.2, ONLY),
        switch("S2", "disk log", Logging, "writing the log to disk"),
        switch("S3", "main log", Logging, "log records"),
        switch("S4", "LSN", Logging, "log sequence numbers"),
        switch("S5", "locking", Locking, "the lock manager").printed(16.3, ONLY),
        switch("S6", "latching", Latching, "latches").printed(14.2, ONLY),
        switch("S7", "dir lookup", BufferManager, "looking tables up by name"),
        switch("S8", "small page", BufferManager, "pages of 8 KB, for 32 KB")
            .printed(14.0, "about: the text says almost 14 %"),
        switch("S9", "page access", BufferManager, "pages between a row and its user"),
        switch("S10", "Xactions", Remaining, "a session per transaction"),
        switch("S11", "optimal", Remaining, "the engine: a bare memory store is left"),
    ]
};

/// The switch of a rung.
pub fn find_switch(key: &str) -> Option<&'static Switch> {
    SWITCHES.iter().find(|switch| switch.key == key)
}

/// A point of the throughput ladder (LG-41), on a mix of half New Order, half Payment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// What the engine is.
    pub name: &'static str,
    /// Transactions per second.
    pub tps: f64,
    /// Microseconds per transaction, as printed.
    pub us: f64,
    /// What the numbers do not say.
    pub caveat: &'static str,
    /// Our rung next to it: the key of its switch; `None` is the first.
    pub rung: Option<&'static str>,
    /// What makes our rung differ from the paper's engine.
    pub ours: &'static str,
}

/// The four points.
pub const THROUGHPUT: [Throughput; 4] = [
    Throughput {
        name: "out of the box, log on disk",
        tps: 640.0,
        us: 1_600.0,
        caveat: "some log writes wait for the disk",
        rung: None,
        ours: "ours flushes the log at commit, on the disk of this machine",
    },
    Throughput {
        name: "in memory, log not flushed",
        tps: 1_700.0,
        us: 588.0,
        caveat: "the slides pair 588 µs with 640 per second (LG-E1)",
        rung: Some("S2"),
        ours: "ours has B-tree keys hand-coded already (S1 comes before S2)",
    },
    Throughput {
        name: "stripped",
        tps: 12_700.0,
        us: 80.0,
        caveat: "80 µs are 12,500 per second; the paper rounds (LG-E5)",
        rung: Some("S10"),
        ours: "",
    },
    Throughput {
        name: "optimal",
        tps: 46_500.0,
        us: 22.0,
        caveat: "22 µs are 45,455 per second; the paper rounds (LG-E5)",
        rung: Some("S11"),
        ours: "",
    },
];

/// A gain that the paper states or that follows from its throughput ladder: from and to are
/// positions in [`THROUGHPUT`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// What is gained by.
    pub name: &'static str,
    /// From this point.
    pub from: usize,
    /// To this one.
    pub to: usize,
    /// How many times.
    pub times: f64,
    /// Whether the paper prints it.
    pub caveat: &'static str,
}

/// Those gains (LG-41, LG-E3).
pub const GAINS: [Gain; 4] = [
    Gain {
        name: "everything stripped, log on disk at first",
        from: 0,
        to: 2,
        times: 20.0,
        caveat: "12,700 / 640 = 19.84; 2.7 of it is the disk (LG-E3)",
    },
    Gain {
        name: "log no longer on disk",
        from: 0,
        to: 1,
        times: 1_700.0 / 640.0,
        caveat: "derived from the paper's figures",
    },
    Gain {
        name: "everything stripped, processor only",
        from: 1,
        to: 2,
        times: 12_700.0 / 1_700.0,
        caveat: "derived from the paper's figures (LG-E3)",
    },
    Gain {
        name: "from end to end",
        from: 0,
        to: 3,
        times: 46_500.0 / 640.0,
        caveat: "derived from the paper's figures",
    },
];

/// A row of Table 1 (LG-24): what an application or a platform has, and what it lets one remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Property {
    /// The property.
    pub property: &'static str,
    /// The modification.
    pub modification: &'static str,
    /// The components that go; empty for the bookkeeping of transactions, which is S10.
    pub components: &'static [Component],
}

/// Table 1.
pub const TABLE_1: [Property; 5] = [
    Property {
        property: "logless architectures",
        modification: "remove logging",
        components: &[Component::Logging],
    },
    Property {
        property: "partitioning, commutativity",
        modification: "remove locking (when applicable)",
        components: &[Component::Locking],
    },
    Property {
        property: "one transaction at a time",
        modification: "single thread, remove locking, remove latching",
        components: &[Component::Locking, Component::Latching],
    },
    Property {
        property: "main memory resident",
        modification: "remove buffer manager, directory",
        components: &[Component::BufferManager],
    },
    Property {
        property: "transaction-less databases",
        modification: "avoid transaction bookkeeping",
        components: &[],
    },
];

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
        let new_order = Share {
            percent_instructions: Some(NEW_ORDER_INSTRUCTIONS[i]),
            percent_cycles: Some(NEW_ORDER_CYCLES[i]),
        };
        let payment =
            Share { percent_instructions: Some(PAYMENT_INSTRUCTIONS[i]), percent_cycles: None };
        let by_transaction = shares.entry(component).or_default();
        by_transaction.insert(NEW_ORDER.key.to_owned(), new_order);
        by_transaction.insert(PAYMENT.key.to_owned(), payment);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_shares_are_wholes() {
        for percents in [NEW_ORDER_INSTRUCTIONS, PAYMENT_INSTRUCTIONS, NEW_ORDER_CYCLES] {
            let sum: f64 = percents.iter().sum();
            assert!((99.8..=100.2).contains(&sum), "{sum}: rounded shares of a whole");
        }
    }

    #[test]
    fn only_four_switches_have_a_number() {
        let printed: Vec<_> =
            SWITCHES.iter().filter(|s| s.percent.is_some()).map(|s| s.key).collect();
        assert_eq!(printed, ["S1", "S5", "S6", "S8"]);
        for (i, switch) in SWITCHES.iter().enumerate() {
            assert_eq!(switch.key, format!("S{}", i + 1));
            assert_eq!(Component::of_switch(i as u8 + 1), Some(switch.component));
        }
        for percent in [NEW_ORDER_INSTRUCTIONS[0], NEW_ORDER_INSTRUCTIONS[2]] {
            assert!(SWITCHES.iter().any(|switch| switch.percent == Some(percent)));
        }
    }

    #[test]
    fn gains_are_quotients_of_the_throughputs() {
        for gain in GAINS {
            let quotient = THROUGHPUT[gain.to].tps / THROUGHPUT[gain.from].tps;
            assert!((gain.times / quotient - 1.0).abs() < 0.01, "{}: {quotient}", gain.name);
        }
        for point in THROUGHPUT {
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
