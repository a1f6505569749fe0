//! The results of `compare`: one object per engine, and one of ratios.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Batch, Measured};
use crate::report::{Header, rounded};
use crate::sweep::Spread;

/// The result of one engine, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct EngineResult {
    #[serde(flatten)]
    pub header: Header,
    pub engine: String,
    pub engine_version: String,
    pub durability: &'static str,
    pub committed: u64,
    pub aborted: u64,
    pub cpu_s: f64,
    pub wall_s: f64,
    pub us_per_transaction_cpu: f64,
    /// The same of each round, and its best, middle and worst.
    pub us_per_transaction_cpu_rounds: Spread,
    pub tps: f64,
    pub transport: &'static str,
    pub client_cpu_s: f64,
    pub consistent: bool,
    pub checks: BTreeMap<String, bool>,
    pub state_hash: String,
}

impl EngineResult {
    /// The result of what was `measured`.
    pub fn new(header: Header, measured: &Measured) -> Self {
        let total = measured.total();
        let wall_s = total.wall.as_secs_f64();
        let tps = if wall_s == 0.0 { 0.0 } else { total.committed as f64 / wall_s };
        let each = measured.rounds.iter().map(Batch::us_per_transaction);
        Self {
            header,
            engine: measured.engine.clone(),
            engine_version: measured.version.clone(),
            durability: "none",
            committed: total.committed,
            aborted: total.aborted,
            cpu_s: rounded(total.cpu.as_secs_f64(), 6),
            wall_s: rounded(wall_s, 6),
            us_per_transaction_cpu: rounded(total.us_per_transaction(), 4),
            us_per_transaction_cpu_rounds: Spread::of(each.collect()),
            tps: rounded(tps, 1),
            transport: measured.transport,
            client_cpu_s: rounded(total.client_cpu.as_secs_f64(), 6),
            consistent: measured.verification.consistent(),
            checks: measured.verification.checks.iter().cloned().collect(),
            state_hash: measured.state_hash.clone(),
        }
    }
}

/// The last result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RatioResult {
    /// What every result begins with.
    #[serde(flatten)]
    pub header: Header,
    /// Theirs divided by ours, over the rounds: `"sqlite:tombolo/bare"`.
    pub ratios: BTreeMap<String, Spread>,
}

impl RatioResult {
    /// The ratios of what was `measured`.
    pub fn new(header: Header, measured: &[Measured]) -> Self {
        Self { header, ratios: super::ratios(measured).into_iter().collect() }
    }
}
