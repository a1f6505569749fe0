//! What the machine does, measured apart from any engine (ISL-1, ISL-8, ISL-9, ISL-11).
//!
//! Not here: the machine's name and memory (`host.rs`), which cores share what (the engine's `islands/`).

pub mod counters;
pub mod links;
pub mod topology;
