//! Atomic commit between islands, simulated: the production machines (`tombolo_engine::islands::commit`) over small
//! stores with locks, rows and a log, and links that break.
//!
//! | file | contains |
//! |---|---|
//! | `world.rs` | one seed: islands, links and callers in simulated time, crashes and cuts at any step |
//! | `callers.rs` | the callers, their requests and answers |
//! | `swarm.rs`, `requests.rs` | the random choices of a seed |
//! | `node.rs`, `store.rs`, `links.rs` | one island, its store; the link between two |
//! | `oracle.rs` | the rules |
//! | `coverage.rs` | the events that occurred in each state |
//! | `exhaustive.rs` | one transaction, with crashes at every step |
//!
//! Not here: the memory store and the pipeline, with checkpoints, archive and backup (`world/`; of islands `ordered/`).

mod callers;
mod coverage;
pub mod exhaustive;
mod links;
mod node;
mod oracle;
mod requests;
mod store;
mod swarm;
mod world;

pub use coverage::{Coverage, Reached};
use tombolo_engine::rng::Rng;
use world::World;

use crate::trace::{Trace, number_of};
use crate::world::SeedResult;

/// Runs one seed; `with_text` keeps its trace as text.
pub fn run_seed(seed: u64, with_text: bool) -> SeedResult {
    let trace = Trace::new(with_text);
    trace.event(&[seed], || format!("seed {seed}"));
    let mut world = World::drawn(Rng::stream(seed, &[number_of("commit")]), trace);
    let violation = world.run().err();
    SeedResult {
        seed,
        violation,
        transactions: world.transactions,
        lives: world.lives,
        given_up: 0,
        is_enough: true,
        faults: world.faults,
        coverage: Some(Box::new(world.coverage)),
        hash: world.trace.hash(),
        lines: world.trace.take_lines(),
    }
}
