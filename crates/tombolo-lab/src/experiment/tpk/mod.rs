//! *Multiprocessor Main Memory Transaction Processing* (CS-TR-159-88): Table 1 and where the time
//! goes, at the paper's sizes and scaled up (TPK-28 … TPK-42).
//!
//! | file | holds |
//! |---|---|
//! | `configuration.rs` | the paper's configurations A, B and C as settings |
//! | `paper.rs` | what it found of them |
//! | `terminals.rs` | a run as the paper made it: terminals that take their time, checkpoints, switches |
//! | `table.rs` | which runs a table needs; its rows, and what explains them |
//!
//! Not here: the transaction and its tables (`workload/debit_credit/`), stages and threads (the
//! engine's pipeline), showing (`report/`).

pub mod configuration;
mod paper;
pub mod table;
mod terminals;

pub use table::PAPER;

#[cfg(test)]
mod tests;
