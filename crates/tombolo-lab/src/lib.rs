//! Tombolo, crate lab.
pub mod counters;
pub mod dump;
pub mod workload;
