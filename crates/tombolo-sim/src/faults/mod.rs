//! What goes wrong in a simulated world: kinds of faults and how often each strikes, and the disk that has them.
//!
//! Not here: the link to another process (engine `link/`), which faults a seed has (`swarm.rs`).

mod disk;
mod kinds;

pub use disk::FaultyDisk;
pub use kinds::{FaultCounts, FaultKind, Faults, Survival, one_in};
