//! A discrete-event model of a machine whose cores run one database instance or several (ISL-2, ISL-4): for the
//! figures of *OLTP on Hardware Islands* for which this machine is too small.
//!
//! Callers in a closed loop give transactions to islands; a transaction's parts take their islands' cores for as long
//! as the constants say, wait for rows that others hold, and exchange the messages of an atomic commit. Throughput, and
//! where the time goes, follow from that: no result of the paper is among the constants ([`costs`] lists each with its
//! source). Deterministic: a seed and a [`Scenario`] have one outcome.
//!
//! | file | holds |
//! |---|---|
//! | `costs.rs` | what each piece of work takes, and where that is from |
//! | `machine.rs` | sockets and cores; the paper's machines; deployments on them |
//! | `load.rs` | transactions: how many rows, of which islands |
//! | `locks.rs` | rows held and waited for, circles of waiting transactions |
//! | `scenario.rs` | what is asked, what comes out |
//! | `simulation.rs` | events: what happens when |
//!
//! Not here: queues at single cache lines (a line costs what its distance costs, however many ask for it), caches'
//! sizes, the operating system's placement. The model cannot show their effects.

pub mod costs;
pub mod load;
mod locks;
pub mod machine;
mod scenario;
mod simulation;

pub use costs::{Constant, Costs};
pub use load::{Kind, Load};
pub use machine::{Islands, Machine};
pub use scenario::{Disks, Outcome, Parts, Scenario};

#[cfg(test)]
mod tests;
