//! The results of `compare calls`: one object per engine and point, and one of ratios.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Called, OWN, durability_name};
use crate::compare::{Batch, over_rounds};
use crate::report::rounded;
use crate::sweep::Spread;

/// The result of one engine at one point, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The engine's name.
    pub engine: String,
    /// Its version.
    pub engine_version: String,
    /// The kind of call.
    pub what: String,
    /// Whether its answer means that it is on disk (`group`) or nothing (`none`).
    pub durability: String,
    /// Threads that called.
    pub callers: usize,
    /// Calls of all of them that `wall_us` and `cpu_us` are of, over all rounds.
    pub calls: u64,
    /// Wall-clock time over all callers' calls: the middle round's.
    pub wall_us: f64,
    /// Processor time of all threads of the process for a call: the middle round's.
    pub cpu_us: f64,
    /// The middle, least and most of the rounds.
    pub wall_us_rounds: Spread,
    /// The same of processor time.
    pub cpu_us_rounds: Spread,
    /// How long a call took its caller: a closed loop.
    pub p50_us: f64,
    /// Longer than this took one call in a hundred.
    pub p99_us: f64,
    /// And one in a thousand.
    pub p999_us: f64,
    /// User instructions of a call on its caller's thread, one caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
    /// On all threads, with what those execute that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions_all_threads: Option<f64>,
    /// Bytes that a call of the raw device writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Whether no money was made or lost; null where there are no accounts.
    pub consistent: Option<bool>,
    /// A note on the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Wall-clock microseconds of a call, over all callers' calls.
fn wall_us(batch: &Batch) -> f64 {
    batch.wall.as_secs_f64() * 1e6 / batch.committed.max(1) as f64
}

impl CallResult {
    /// The result of what was `called`.
    pub fn new(called: &Called) -> Self {
        let rounds = &called.rounds;
        let wall = Spread::of(rounds.iter().map(wall_us).collect());
        let cpu = Spread::of(rounds.iter().map(Batch::us_per_transaction).collect());
        let latency = called.latencies.summary();
        let at = |of: fn(&crate::histogram::Summary) -> f64| latency.as_ref().map_or(0.0, of);
        let counted = called.counted;
        Self {
            engine: called.engine.clone(),
            engine_version: called.version.clone(),
            what: called.what.name().to_owned(),
            durability: durability_name(called.is_durable).to_owned(),
            callers: called.callers,
            calls: rounds.iter().map(|round| round.committed).sum(),
            wall_us: wall.median,
            cpu_us: cpu.median,
            wall_us_rounds: wall,
            cpu_us_rounds: cpu,
            p50_us: at(|latency| latency.p50),
            p99_us: at(|latency| latency.p99),
            p999_us: at(|latency| latency.p999),
            instructions: counted.map(|it| rounded(it.instructions, 1)),
            instructions_all_threads: counted.map(|it| rounded(it.instructions_all_threads, 1)),
            bytes: called.bytes,
            consistent: called.consistent,
            note: called.note.clone(),
        }
    }

    /// Where it was found, for people and as part of the name of a ratio.
    pub fn place(&self) -> String {
        place(&self.what, &self.durability, self.callers)
    }
}

fn place(what: &str, durability: &str, callers: usize) -> String {
    format!("{what} {durability} {callers}")
}

/// The last result of a comparison of calls: theirs divided by ours, over the rounds, as
/// `"sqlite:tombolo/memory transfer none 1"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioResult {
    /// Of processor time.
    pub ratios: BTreeMap<String, Spread>,
    /// Of wall-clock time.
    pub wall_ratios: BTreeMap<String, Spread>,
}

impl RatioResult {
    /// The ratios of what was `called`.
    pub fn new(called: &[Called]) -> Self {
        let (mut ratios, mut wall_ratios) = (BTreeMap::new(), BTreeMap::new());
        let at = |it: &Called| (it.is_durable, it.what, it.callers);
        for their in called.iter().filter(|it| it.engine != OWN) {
            let ours = |our: &&Called| our.engine == OWN && at(our) == at(their);
            let Some(our) = called.iter().find(ours) else { continue };
            let place = place(their.what.name(), durability_name(their.is_durable), their.callers);
            let name = format!("{}:{OWN} {place}", their.engine);
            let spread =
                |figure: fn(&Batch) -> f64| over_rounds(&their.rounds, &our.rounds, figure);
            ratios.insert(name.clone(), spread(Batch::us_per_transaction));
            wall_ratios.insert(name, spread(wall_us));
        }
        Self { ratios, wall_ratios }
    }
}
