//! TPC-C on other engines: in memory, not durable, on one thread.
//!
//! Every engine loads the same rows and runs the same inputs in the same order; that all hold the
//! same rows afterwards is proven by the state hash, that they are right by each engine's own
//! conditions. Measured is the processor time of the process.
//!
//! Not here: debit-credit, durability, servers (`debit_credit/`).

mod engine;
#[cfg(feature = "compare-sqlite")]
mod sqlite;
mod tombolo;

use tombolo_engine::clock::Clock;

use super::peer::{Peer, built, names_of, opener};
use super::{Batch, Measured, OURS, Watch, place_of};
use crate::failure::Failure;
use crate::plan::WARM_UP;
use crate::progress::Progress;
use crate::workload::tpcc::input::{Generator, Input};
use crate::workload::tpcc::loader::Scale;
use crate::workload::tpcc::nurand::Constants;
pub use engine::Engine;
use tombolo::Tombolo;

/// What opens another engine.
type Open = fn() -> Result<Box<dyn Engine>, Failure>;

/// The other engines.
const PEERS: [Peer<Open>; 1] =
    [Peer::new("sqlite", built!("compare-sqlite", || Ok(Box::new(sqlite::Sqlite::open()?))))];

/// The names of the other engines, whether built in or not.
pub fn peers() -> Vec<&'static str> {
    names_of(&PEERS)
}

/// An empty database on the engine called `name`, with memory for `page_bytes` of pages.
///
/// # Errors
/// When there is no such engine, or it is not in this build; the message says how to build it.
pub fn open(name: &str, page_bytes: u64) -> Result<Box<dyn Engine>, Failure> {
    if let Some(profile) = name.strip_prefix(OURS) {
        return Ok(Box::new(Tombolo::open(profile, page_bytes)?));
    }
    opener(&PEERS, name, "tpcc")?()
}

/// What to compare on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The database and the mix.
    pub scale: Scale,
    /// Transactions of a round on each engine.
    pub transactions: usize,
    /// Rounds.
    pub rounds: usize,
}

/// Runs the same transactions on all `engines`, which are empty.
///
/// # Errors
/// When an engine fails. Failed checks and different states are for [`failure`](super::failure) to find.
pub fn compare(
    plan: &Plan,
    engines: &mut [Box<dyn Engine>],
    clock: &dyn Clock,
    progress: &mut dyn Progress,
) -> Result<Vec<Measured>, Failure> {
    let constants = Constants::from_seed(plan.scale.seed);
    let mut inputs =
        Generator::new(plan.scale.seed, plan.scale.mix, plan.scale.warehouses, constants);
    let mut make = |count: usize| -> Vec<Input> { (&mut inputs).take(count).collect() };
    let warm_up = make(WARM_UP);
    for engine in &mut *engines {
        progress.begin(&format!(
            "loading {} warehouses on {}",
            plan.scale.warehouses,
            engine.name()
        ));
        engine.load(plan.scale, &mut |part| progress.part(part, ""))?;
        engine.run(&warm_up, clock)?;
        progress.end();
    }
    let mut rounds = vec![Vec::new(); engines.len()];
    progress.begin("running");
    for round in 0..plan.rounds {
        let batch = make(plan.transactions);
        for turn in 0..engines.len() {
            let place = place_of(round, turn, engines.len());
            rounds[place].push(engines[place].run(&batch, clock)?);
        }
        progress.part((round + 1) as f64 / plan.rounds as f64, "");
    }
    progress.end();
    progress.begin("verifying");
    let measured = engines.iter_mut().zip(rounds).map(|(engine, rounds)| {
        Ok(Measured {
            engine: engine.name().to_owned(),
            version: engine.version().to_owned(),
            transport: engine.transport(),
            durability: "none",
            calls: None,
            rounds,
            latency: None,
            verification: engine.verify()?,
            state_hash: Some(engine.state_hash()?.to_string()),
        })
    });
    let measured = measured.collect();
    progress.end();
    measured
}

#[cfg(test)]
mod tests;
