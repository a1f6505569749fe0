//! Many seeds: running them, and showing what became of them.

pub mod report;
pub mod runner;
