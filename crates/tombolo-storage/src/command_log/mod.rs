//! The command log: the procedures that were called, with their arguments, in execution order. Running
//! them again in that order, from the same initial state, leads to the same state.
//!
//! It uses groups, segments, writer, log space and recovery of the value log (`value_log/`); a segment's header has
//! the kind of its log. Only the records differ (`record.rs`), and how they are made: the store gets a command
//! *before* its transaction ([`MemoryStore::command`](crate::memory::MemoryStore::command)), and keeps it if the
//! transaction has written and commits (`log.rs`). Tables and rows that existed before the first command precede it
//! as records of the value log.
//!
//! Not here: what a procedure is and which are registered, running them again (the engine's
//! `command_log/`). Invariants: every transaction that wrote and committed has one command, in
//! execution order; no other has one.

mod log;
pub mod record;

pub use log::CommandLog;
pub use record::{
    ARGUMENTS_BYTES_MAX, Entries, Entry, PROCEDURE_NAME_BYTES_MAX, PROCEDURES_MAX, ProcedureNumber,
};

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
