//! The numbers that the paper prints (`paper.json`), and the comparisons of runs that explain it.
//!
//! Not here: our results.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::configuration::Configuration;

/// Everything.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(super) struct Printed {
    /// Table 1 (TPK-39).
    pub(super) configurations: BTreeMap<Configuration, Column>,
    /// How many times as many transactions one run executes as another (TPK-40), and what explains it (TPK-41).
    pub(super) speedups: Vec<Speedup>,
    /// Seconds of configuration C's run, in all and by stage (TPK-42).
    pub(super) breakdown: Vec<Busy>,
}

pub(super) static PRINTED: LazyLock<Printed> = LazyLock::new(|| {
    serde_json::from_str(include_str!("paper.json")).expect("tests read what is compiled in")
});

/// The paper's figures of a configuration in Table 1 (TPK-39).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(super) struct Column {
    /// Transactions per second.
    pub(super) tps: f64,
    /// The mean response time in milliseconds.
    pub(super) mean_ms: f64,
    /// The longest one.
    pub(super) max_ms: f64,
    /// How many percent of them were below a second.
    pub(super) within_1s_percent: f64,
    /// Transactions of a group.
    pub(super) group: u64,
}

/// Two runs: each a configuration and the size of its groups.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Speedup {
    pub(super) name: &'static str,
    pub(super) of: (Configuration, u64),
    pub(super) over: (Configuration, u64),
    /// How many times, where the paper says it.
    pub(super) printed: Option<f64>,
    /// Its meaning, if the paper does not have it.
    pub(super) meaning: Option<&'static str>,
}

/// How long a stage is busy.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Busy {
    pub(super) stage: &'static str,
    pub(super) seconds: f64,
    /// A caveat of our figure.
    #[serde(default)]
    pub(super) more: &'static str,
}
