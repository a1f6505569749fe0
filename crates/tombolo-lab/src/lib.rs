//! Tombolo, crate lab.
pub mod workload;
