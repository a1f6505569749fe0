//! The results of `compare`: one object per engine, and one of ratios.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Batch, Measured};
use crate::histogram::Summary;
use crate::report::rounded;
use crate::sweep::Spread;

/// The result of one engine, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct EngineResult {
    pub engine: String,
    pub engine_version: String,
    pub durability: String,
    pub committed: u64,
    pub aborted: u64,
    pub cpu_s: f64,
    pub wall_s: f64,
    pub us_per_transaction_cpu: f64,
    /// The same of each round, and its best, middle and worst.
    pub us_per_transaction_cpu_rounds: Spread,
    pub tps: f64,
    pub transport: String,
    pub client_cpu_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tps_rounds: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Summary>,
    pub consistent: bool,
    pub checks: BTreeMap<String, bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_hash: Option<String>,
}

impl EngineResult {
    /// The result of what was `measured`.
    pub fn new(measured: &Measured) -> Self {
        let total = measured.total();
        let each = measured.rounds.iter().map(Batch::us_per_transaction);
        let each_tps = measured.rounds.iter().map(|round| rounded(round.per_second(), 1));
        Self {
            engine: measured.engine.clone(),
            engine_version: measured.version.clone(),
            durability: measured.durability.to_owned(),
            committed: total.committed,
            aborted: total.aborted,
            cpu_s: rounded(total.cpu.as_secs_f64(), 6),
            wall_s: rounded(total.wall.as_secs_f64(), 6),
            us_per_transaction_cpu: rounded(total.us_per_transaction(), 4),
            us_per_transaction_cpu_rounds: Spread::of(each.collect()),
            tps: rounded(total.per_second(), 1),
            transport: measured.transport.to_owned(),
            client_cpu_s: rounded(total.client_cpu.as_secs_f64(), 6),
            clients: measured.calls.map(|calls| calls.clients),
            in_flight: measured.calls.map(|calls| calls.in_flight),
            tps_rounds: measured.calls.map(|_| Spread::of(each_tps.collect())),
            latency_us: measured.latency,
            consistent: measured.verification.consistent(),
            checks: measured.verification.checks.iter().cloned().collect(),
            state_hash: measured.state_hash.clone(),
        }
    }
}

/// The last result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioResult {
    /// Processor time per transaction, theirs divided by ours, over the rounds: `"sqlite:tombolo/bare"`.
    pub ratios: BTreeMap<String, Spread>,
    /// Transactions per second, ours divided by theirs, where callers wait for answers:
    /// `"tombolo/memory:redis"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tps_ratios: BTreeMap<String, Spread>,
}

impl RatioResult {
    /// The ratios of what was `measured`.
    pub fn new(measured: &[Measured]) -> Self {
        let tps_ratios = super::tps_ratios(measured);
        let has_callers = measured.iter().any(|engine| engine.calls.is_some());
        Self {
            ratios: super::ratios(measured).collect(),
            tps_ratios: tps_ratios.filter(|_| has_callers).collect(),
        }
    }
}
