//! The oracle: what ran and must survive, the rules, and how one is broken.
//!
//! Not here: what a single request must answer (`workload/model.rs`), crashes and recovery (`world/`).

mod history;
mod violation;

pub use history::History;
pub(crate) use violation::sound;
pub use violation::{Rule, Violation};
