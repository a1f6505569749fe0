//! The inputs and the results of the model.
//!
//! Not here: the simulation (`simulation.rs`).

use super::{Islands, Load, Machine};

/// A scenario to simulate.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// On what.
    pub machine: Machine,
    /// Divided how.
    pub islands: Islands,
    /// Under which load.
    pub load: Load,
    /// Rows that are not in memory, if some are not.
    pub disks: Option<Disks>,
    /// Transactions that count; a fifth as many go before them.
    pub transactions: u64,
    /// Of all choices.
    pub seed: u64,
}

/// Disks with the rows that do not fit into memory (ISL-28).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disks {
    /// How many.
    pub count: usize,
    /// The time that a read takes.
    pub read_us: f64,
    /// How many of a thousand accesses to rows need one.
    pub misses_per_mille: u64,
}

/// Where a transaction's time on cores went, in microseconds (ISL-24).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the paper's words")]
pub struct Parts {
    pub execution: f64,
    pub management: f64,
    pub communication: f64,
    pub locking: f64,
    pub logging: f64,
}

impl Parts {
    /// All together.
    pub const fn sum(&self) -> f64 {
        self.execution + self.management + self.communication + self.locking + self.logging
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.execution += other.execution;
        self.management += other.management;
        self.communication += other.communication;
        self.locking += other.locking;
        self.logging += other.logging;
    }

    pub(super) fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self {
            execution: change(self.execution),
            management: change(self.management),
            communication: change(self.communication),
            locking: change(self.locking),
            logging: change(self.logging),
        }
    }
}

/// The result of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Transactions a second.
    pub tps: f64,
    /// Each one's time on cores, on average.
    pub parts: Parts,
    /// The share that had parts on several islands.
    pub distributed: f64,
    /// How much of the cores' time was used.
    pub busy: f64,
    /// How often a transaction began again.
    pub restarts: u64,
    /// Messages of a transaction, on average.
    pub messages: f64,
}

impl Scenario {
    /// A scenario without disks.
    pub fn new(
        machine: &Machine,
        islands: Islands,
        load: Load,
        transactions: u64,
        seed: u64,
    ) -> Self {
        Self { machine: machine.clone(), islands, load, disks: None, transactions, seed }
    }

    /// The part of the cores' time that is used if transactions end at this rate.
    pub(super) fn busy(&self, tps: f64, parts: &Parts) -> f64 {
        tps * parts.sum() / 1e6 / self.machine.cores() as f64
    }
}
