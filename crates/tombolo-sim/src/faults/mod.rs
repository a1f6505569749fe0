//! The faults of a simulated world: their kinds, how often each strikes, and the disk that has them.
//!
//! Not here: the link to another process (engine `link/`), the choice of a seed's faults (`swarm.rs`).

mod disk;
mod kinds;

pub use disk::FaultyDisk;
pub use kinds::{FaultCounts, FaultKind, Faults, Survival, one_in};
