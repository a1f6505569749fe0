//! Tombolo's simulator: *what if*. The production engine, unchanged, in worlds that crash and lie.
//!
//! One seed makes one world: a disk with faults (`faults`), a clock that the world sets (`clock`),
//! settings of any size (`swarm`), clients (`workload`). In a world a database (`database`) runs, crashes,
//! recovers and continues (`world`), driven by the whole pipeline (`pipeline_engine`) or by one loop around
//! its log (`log_engine`). Indexes and columns are added while transactions run, and requests with an id
//! are sent again. After every recovery an oracle (`oracle`) compares the recovered rows with the acknowledged
//! transactions. The same seed at the same commit makes the same world to the last event (`trace`).
//!
//! `cargo xtask sim` runs thousands of seeds (`seeds`); for a seed that breaks a rule it prints the
//! command that runs the seed again. Bugs planted in production code prove that the oracle notices them
//! (`tombolo_storage::plant`).
//!
//! Islands that commit transactions together by messages have a simulation of their own, over small stores (`commit`);
//! islands whose logs become durable together run the whole engine (`ordered`).
//!
//! Without faults, the same clock shows the effect of a pipeline's settings (`group_policies`).
//!
//! Not here: sockets, real files, real time. This crate is not published.

pub mod clock;
pub mod commit;
pub mod database;
pub mod faults;
pub mod group_policies;
pub mod log_engine;
pub mod oracle;
pub mod ordered;
pub mod pipeline_engine;
pub mod seeds;
pub mod swarm;
pub mod trace;
pub mod workload;
pub mod world;

/// Runs one seed; `with_text` keeps its trace as text.
pub fn run_seed(seed: u64, with_text: bool) -> world::SeedResult {
    use database::{Commands, Values};
    use log_engine::{Groups, LogEngine};
    use pipeline_engine::PipelineEngine;
    let world = world::World::new(seed, with_text);
    match (world.swarm.has_pipeline, world.swarm.has_values) {
        (true, true) => world.run::<PipelineEngine<Values>>(seed),
        (true, false) => world.run::<PipelineEngine<Commands>>(seed),
        (false, true) => world.run::<LogEngine<Groups<Values>>>(seed),
        (false, false) => world.run::<LogEngine<Groups<Commands>>>(seed),
    }
}
