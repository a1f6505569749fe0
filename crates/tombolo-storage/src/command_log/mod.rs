//! The command log: which procedures were called with which arguments, in execution order. Run
//! again in that order, on the state they first ran on, they lead to the same state.
//!
//! Groups, segments, the writer, room and recovery's search for the end are the value log's
//! (`value_log/`); a segment's header says which kind of log it belongs to. Only the records differ
//! (`record.rs`), and how they are made: the store is given a command *before* its transaction
//! ([`MemoryStore::command`](crate::memory::MemoryStore::command)) and keeps it when that commits and
//! has written (`log.rs`). What was there before the first command — tables, loaded rows — lies in
//! front of it as records of the value log.
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
