//! What `dissect` and `paper` print, as data: field names are those of the results.
//!
//! The objects are written by their commands behind the common fields
//! ([`Headed`](crate::report::Headed)) and read again by `report`. A reader ignores fields it does
//! not know; fields that a run may leave out (no counter, no lattice) may be null or missing. What
//! follows from the rungs (`derive.rs`) is stored all the same: a result is complete for a reader
//! that has nothing but JSON.
//!
//! Not here: measuring, the paper's own numbers, showing.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sweep::Spread;

/// A transaction's key in results: `new_order`, `payment`, ….
pub type Transaction = String;
/// A call's key in results: `begin`, `lookup`, `pin`, `update`, `create`, `insert`, `commit`,
/// `other` (the names of [`Category`](crate::counters::Category)).
pub type Call = String;

named! {
    /// The six components of the paper's bars, in the order they are removed (LG-D).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Component by key {
        /// S1: generic comparison of keys.
        BtreeKeys = "btree_keys",
        /// S2 to S4: the log on disk, its records, LSNs.
        Logging = "logging",
        /// S5: the lock manager.
        Locking = "locking",
        /// S6: latches.
        Latching = "latching",
        /// S7 to S9: the directory, small pages, page access.
        BufferManager = "buffer_manager",
        /// Everything that is left when the five are off, with S10 (sessions) and S11 (the useful
        /// work and what is around it) in it.
        Remaining = "remaining",
    }
}

impl Component {
    /// The five that can be removed one by one: bits of the lattice, from its left.
    pub const MAIN: [Self; 5] =
        [Self::BtreeKeys, Self::Logging, Self::Locking, Self::Latching, Self::BufferManager];

    /// Its name for people, as the paper's figures label it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::BtreeKeys => "B-tree keys",
            Self::Logging => "logging",
            Self::Locking => "locking",
            Self::Latching => "latching",
            Self::BufferManager => "buffer manager",
            Self::Remaining => "remaining",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

/// The cost of a transaction: means over committed ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Instructions in user space, from just before begin until commit has returned, of the store
    /// without probes; null without a counter.
    pub instructions: Option<f64>,
    /// Ticks of the time-stamp counter, from a native run of the same binary; null where there is
    /// none. The median, where there were rounds.
    pub cycles: Option<f64>,
    /// The least of the rounds; missing where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_min: Option<f64>,
    /// The most of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_max: Option<f64>,
    /// Instructions by call; their sum is the whole, but for `sum_error_percent`. Empty without a
    /// counter.
    #[serde(default)]
    pub calls: BTreeMap<Call, f64>,
    /// Instructions of one that aborted by its own decision; null where none did, or without a
    /// counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted_instructions: Option<f64>,
    /// How often a component was used, per transaction, from the build with probes: `locks`,
    /// `latches`, `pins`, `log_records`, `log_bytes`, `lsn_writes`, `compares`, `page_copies`. A
    /// removed component's are 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub work: BTreeMap<String, f64>,
    /// What each stage of a pipeline does of it: `execution`, `logging`, `output`. Empty without a
    /// pipeline.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_stage: BTreeMap<String, StageCost>,
}

impl Cost {
    /// Takes the cycles of all rounds in.
    pub(super) fn set_cycles(&mut self, rounds: Vec<f64>) {
        let has_ends = rounds.len() > 1;
        let Spread { median, min, max } = Spread::of(rounds);
        self.cycles = Some(median);
        (self.cycles_min, self.cycles_max) = (has_ends.then_some(min), has_ends.then_some(max));
    }
}

/// The cost of a stage for one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageCost {
    /// Instructions, a group's shared by its transactions.
    pub instructions: f64,
}

/// How fast a profile is, from native runs: medians of the rounds, then the least and the most, which
/// are missing where there was one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Committed transactions per second of wall clock.
    pub tps: f64,
    /// The least of the rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tps_min: Option<f64>,
    /// The most of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tps_max: Option<f64>,
    /// Processor time per committed transaction, in nanoseconds; all types of the mix together.
    pub ns_per_transaction: f64,
    /// The least of the rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns_per_transaction_min: Option<f64>,
    /// The most of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns_per_transaction_max: Option<f64>,
}

impl Speed {
    /// Over the speeds of all rounds; zeros where there are none.
    pub fn over(rounds: &[Self]) -> Self {
        let tps = Spread::of(rounds.iter().map(|round| round.tps).collect());
        let ns = Spread::of(rounds.iter().map(|round| round.ns_per_transaction).collect());
        let end = |end: f64| (rounds.len() > 1).then_some(end);
        Self {
            tps: tps.median,
            tps_min: end(tps.min),
            tps_max: end(tps.max),
            ns_per_transaction: ns.median,
            ns_per_transaction_min: end(ns.min),
            ns_per_transaction_max: end(ns.max),
        }
    }

    /// The least and the most transactions per second; `None` where there was one round.
    pub fn tps_range(&self) -> Option<(f64, f64)> {
        self.tps_min.zip(self.tps_max)
    }
}

/// One profile, measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The profile's name.
    pub profile: String,
    /// The state that the timed transactions left; the same for all profiles of a result.
    pub state_hash: String,
    /// Whether every check of that state held.
    pub consistent: bool,
    /// `none` or `group`: whether commits waited for a disk.
    #[serde(default)]
    pub durability: String,
    /// Its speed.
    #[serde(flatten)]
    pub speed: Speed,
    /// The same with the log kept in memory, where `durability` is not `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_in_memory: Option<Speed>,
    /// By type of transaction.
    pub by_transaction: BTreeMap<Transaction, Cost>,
}

impl Measured {
    /// Instructions of one transaction of this type.
    pub fn instructions(&self, transaction: &str) -> Option<f64> {
        self.by_transaction.get(transaction)?.instructions
    }

    /// Cycles of one transaction of this type.
    pub fn cycles(&self, transaction: &str) -> Option<f64> {
        self.by_transaction.get(transaction)?.cycles
    }
}

/// A rung of a ladder: a switch turned, and all before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// The switch that this rung turns, `S1` to `S11`; a part's name on the product's ladder; null
    /// on the first rung, which has turned none.
    pub switch: Option<String>,
    /// The switch's name in the paper's Figure 7 (`Btree keys`, `disk log`, …); null on the first
    /// rung.
    pub label: Option<String>,
    /// The component that the switch belongs to; null on the first rung and where a part belongs
    /// to none of the six.
    pub component: Option<Component>,
    /// The measurement with it turned.
    #[serde(flatten)]
    pub measured: Measured,
}

/// A part of a transaction's cost, in percent of the cost of the first rung (`conventional`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Of its instructions; null without a counter, or where the paper prints none.
    pub percent_instructions: Option<f64>,
    /// Of its cycles; null where there are none.
    pub percent_cycles: Option<f64>,
}

/// Shares by component and type of transaction.
pub type Shares = BTreeMap<Component, BTreeMap<Transaction, Share>>;

/// `conventional` with one component removed alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alone {
    /// The profile `alone-…`, measured.
    #[serde(flatten)]
    pub measured: Measured,
    /// The savings of the removal, by type of transaction, in percent of `conventional`.
    pub saved: BTreeMap<Transaction, Share>,
}

/// The saving in one call when a component is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Removed {
    /// Instructions saved per transaction, all calls of this category together; negative where the
    /// call became longer.
    pub instructions: f64,
    /// The same in percent of what these calls cost on the first rung; null where they cost
    /// nothing there.
    pub percent_of_call: Option<f64>,
    /// The same in percent of what these calls cost on the rung before the component was removed
    /// (LG-50 speaks of B-tree time that way); null where they cost nothing there.
    pub percent_of_rest: Option<f64>,
}

/// Call × removed component, by type of transaction (LG-48, LG-50):
/// `matrix{TRANSACTION:{COMPONENT:{CALL:{instructions, percent_of_call, percent_of_rest}}}}`.
///
/// `remaining` is what S10 and S11 save.
pub type Matrix = BTreeMap<Transaction, MatrixOfOne>;
/// One type's matrix.
pub type MatrixOfOne = BTreeMap<Component, BTreeMap<Call, Removed>>;

/// One switch as an `if` at run time instead of a type (LG-26).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IfVariant {
    /// The switch, `S5`.
    pub switch: String,
    /// The profile that has the same switch off by type.
    pub typed_profile: String,
    /// The profile with the `if`, its switch off, measured.
    #[serde(flatten)]
    pub measured: Measured,
    /// Instructions that the `if`s cost per transaction: this profile's less the typed one's.
    pub extra_instructions: BTreeMap<Transaction, f64>,
}

/// The same counts once more, to show that they repeat: instructions by profile and type of
/// transaction.
pub type Count = BTreeMap<String, BTreeMap<Transaction, f64>>;

/// What `dissect` found, behind the common fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dissection {
    /// The workload: `tpcc`.
    pub workload: String,
    /// Its mix.
    pub mix: String,
    /// Its scale.
    pub warehouses: Option<u64>,
    /// `paper`, `reverse-locks` or `product`.
    pub ladder: String,
    /// What counted: `callgrind`, `perf`, or `none`.
    pub counter: String,
    /// Transactions timed and hashed per rung.
    pub transactions: u64,
    /// Transactions counted per rung.
    #[serde(default)]
    pub counted: u64,
    /// The ladder, from the first profile to the last.
    pub rungs: Vec<Rung>,
    /// What each component takes on this ladder: what its rungs save, and for `remaining` what is
    /// left after all others. Sums to 100 for each type of transaction.
    #[serde(default)]
    pub components: Shares,
    /// Call × removed component.
    #[serde(default)]
    pub matrix: Matrix,
    /// Each main component removed alone.
    #[serde(default)]
    pub alone: BTreeMap<Component, Alone>,
    /// What each component takes whatever the order: the mean over all orders of removal (Shapley
    /// values over the lattice), and for `remaining` what the lattice's last corner costs. Sums to
    /// 100 for each type of transaction. Empty without `--lattice`.
    #[serde(default)]
    pub attribution: Shares,
    /// The 32 points of the lattice that the attribution is computed from; empty without
    /// `--lattice`.
    #[serde(default)]
    pub lattice: Vec<Measured>,
    /// One per repeat.
    #[serde(default)]
    pub counts: Vec<Count>,
    /// One switch as an `if`; null where it was not measured.
    pub if_variant: Option<IfVariant>,
    /// The most that the per-call categories' sum is from the whole, over all rungs and types, in
    /// percent; null without a counter.
    pub sum_error_percent: Option<f64>,
    /// The paper's figures for the rows of `components`; a row is missing where it prints none.
    #[serde(default)]
    pub paper: Shares,
    /// What one load that misses every cache cost here meanwhile, in nanoseconds.
    pub miss_ns: Option<f64>,
    /// What a reader has to know, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}

named! {
    /// Where one of our figures comes from.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Source by name {
        /// Measured on this machine, in this run.
        #[default]
        Measured = "measured",
        /// Computed by a model; always labelled so.
        Modelled = "modelled",
    }
}

/// A figure of the paper, and ours next to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What it is: `New Order · locking`.
    pub name: String,
    /// Its unit: `instructions`, `% of instructions`, `tps`, ….
    pub unit: String,
    /// The paper's figure; null where it prints none (LG-E8).
    pub paper: Option<f64>,
    /// Ours; null where there is none.
    pub ours: Option<f64>,
    /// Ours divided by the paper's; null where one is missing or the paper's is 0.
    pub ratio: Option<f64>,
    /// Where ours comes from.
    pub source: Source,
    /// What makes the two differ; empty where nothing does.
    pub caveat: String,
    /// The row of the list of facts that the paper's figure is from: `LG-42`.
    #[serde(default)]
    pub reference: String,
}

impl Row {
    /// A measured row; the ratio follows.
    pub fn measured(
        name: impl Into<String>,
        unit: impl Into<String>,
        paper: Option<f64>,
        ours: Option<f64>,
    ) -> Self {
        let ratio = match (paper, ours) {
            (Some(paper), Some(ours)) if paper != 0.0 => Some(ours / paper),
            _ => None,
        };
        Self {
            name: name.into(),
            unit: unit.into(),
            paper,
            ours,
            ratio,
            source: Source::Measured,
            caveat: String::new(),
            reference: String::new(),
        }
    }

    /// The caveat with what else a reader has to know of the figures.
    pub fn remark(&self) -> String {
        let modelled = if self.source == Source::Modelled { "modelled, not measured" } else { "" };
        let parts = [modelled, self.caveat.as_str()];
        let said: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        said.join("; ")
    }

    /// The same with a caveat and the reference of the paper's figure.
    #[must_use]
    pub fn with(mut self, caveat: impl Into<String>, reference: impl Into<String>) -> Self {
        (self.caveat, self.reference) = (caveat.into(), reference.into());
        self
    }
}

/// What `paper` found, behind the common fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// The figure or table: `lg/fig1`.
    pub id: String,
    /// Its rows, in the paper's order.
    pub rows: Vec<Row>,
    /// What a reader has to know, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
}
