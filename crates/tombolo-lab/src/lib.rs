//! Tombolo, crate lab.
pub mod dump;
pub mod workload;
