//! The simulator's workload: what clients ask, what a store does about it, and what a trivial model
//! says it should have done.
//!
//! | module | holds |
//! |---|---|
//! | `request` | requests as data, drawn from a seed |
//! | `step` | what an execution consists of |
//! | `command` | steps as bytes |
//! | `tables` | tables and indexes, as they are made |
//! | `added_columns`, `added_indexes`, `additions` | what is added while transactions run |
//! | `identified` | requests with an id, in a store: run once |
//! | `model` | the rows as maps; every request in a few lines |
//! | `store` | the same requests as transactions on a memory store |
//!
//! Every transaction that commits a change also notes its number in its client's row, so no two
//! prefixes of an execution leave the same rows. Not here: when requests run, crashes.

pub(crate) mod added_columns;
pub(crate) mod added_indexes;
pub(crate) mod additions;
pub(crate) mod command;
pub(crate) mod identified;
pub mod model;
pub mod request;
pub mod step;
pub mod store;
pub(crate) mod tables;

#[cfg(test)]
mod tests;
