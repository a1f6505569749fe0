//! TPC-C on other engines: in memory, not durable, on one thread.
//!
//! Every engine loads the same rows and runs the same inputs in the same order; that all hold the
//! same rows afterwards is proven by the state hash, that they are right by each engine's own
//! conditions. Measured is the processor time of the process.
//!
//! Not here: debit-credit, durability, servers (`debit_credit/`).

#[cfg(feature = "compare-sqlite")]
mod sqlite;

use tombolo_engine::threads;

use super::peer::{Peer, built, names_of, opener};
use super::rounds::{Opened, Rounds};
use super::{Measured, OURS, tombolo};
use crate::drive::{self, Instance};
use crate::failure::{Blamed, Failure};
use crate::plan::{self, Options, estimate};
use crate::progress::Progress;
use crate::rows::{Quiescent, StateHash, Verification};
use crate::settings::{self, Settings};
use crate::workload::tpcc::input::Input;
use crate::workload::tpcc::loader::Scale;
use crate::workload::{AnyWorkload, Workload};

/// What is found on an engine at the end: the consistency conditions and what it says of itself, and the hash of all
/// rows.
type Found = (Verification, StateHash);

/// A function that opens another engine and loads it.
type Open = fn(Scale, &mut dyn FnMut(f64)) -> Opened<'static, Input, Found>;

/// The other engines.
const PEERS: [Peer<Open>; 1] = [Peer::new(
    "sqlite",
    built!("compare-sqlite", |scale, progress| Ok(Box::new(sqlite::Sqlite::open(
        scale, progress
    )?))),
)];

/// The names of the other engines, whether built in or not.
pub fn peers() -> Vec<&'static str> {
    names_of(&PEERS)
}

/// The extent of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The database and the mix.
    scale: Scale,
    rounds: Rounds,
    memory_limit: Option<u64>,
}

impl Plan {
    /// Reads the settings of a comparison.
    ///
    /// # Errors
    /// When they do not fit each other.
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        let plan::Plan { workload, memory_limit, .. } = plan::Plan::new(settings)?;
        let AnyWorkload::Tpcc(scale) = workload else { unreachable!("{workload:?}") };
        Ok(Self { scale, rounds: Rounds::of(settings), memory_limit })
    }

    /// Bytes of pages that hold everything.
    fn page_bytes(&self) -> u64 {
        estimate::page_bytes(&self.scale, self.rounds.all())
    }

    /// An empty database of ours.
    fn own(&self, profile: &str) -> Result<Box<dyn Instance>, Failure> {
        let mut options = Options::default();
        options.paged.pool_bytes = self.page_bytes() as usize;
        drive::create(profile, &options)
    }
}

/// Refuses engines that are not there, and a machine that lacks memory, before anything is loaded.
///
/// # Errors
/// With how to build what is not in this build.
pub fn verify(plan: &Plan, names: &[String]) -> Result<(), Failure> {
    let inputs = plan.rounds.transactions as u64;
    let needed = estimate::bytes(&plan.scale, plan.rounds.all(), inputs).max(plan.page_bytes());
    let needed = needed.saturating_mul(names.len() as u64);
    plan::verify_memory(needed, plan.memory_limit, &settings::WAREHOUSES)?;
    names.iter().try_for_each(|name| match name.strip_prefix(OURS) {
        Some(profile) => plan.own(profile).map(drop),
        None => opener(&PEERS, name, Scale::NAME).map(drop),
    })
}

/// Runs the same transactions on the engines called `names`.
///
/// # Errors
/// When an engine fails. Failed checks and different states are for [`failure`](super::failure) to find.
pub fn compare(
    plan: &Plan,
    names: &[String],
    progress: &mut dyn Progress,
) -> Result<Vec<Measured>, Failure> {
    let open = |name: &str, progress: &mut dyn FnMut(f64)| match name.strip_prefix(OURS) {
        Some(profile) => {
            let find = |mut database: Quiescent<'_>| {
                Ok((database.verify().or_check()?, database.state_hash().or_check()?))
            };
            tombolo::load(plan.own(profile)?, plan.scale, threads::available(), find, progress)
        }
        None => opener(&PEERS, name, Scale::NAME)?(plan.scale, progress),
    };
    let mut inputs = plan.scale.inputs();
    let take = |count| inputs.by_ref().take(count).collect();
    let contenders = plan.rounds.run(names, &plan.scale.describe(), open, take, progress)?;
    progress.begin("verifying");
    let judge = |(verification, hash): Found, _: &_| (verification, Some(hash.to_string()));
    let measured = contenders.into_iter().map(|of| of.measured("none", None, judge)).collect();
    progress.end();
    measured
}

#[cfg(test)]
mod tests;
