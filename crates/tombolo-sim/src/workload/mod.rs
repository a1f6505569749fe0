//! The simulator's workload: what clients ask, what a store does about it, and what a trivial model
//! says it should have done.
//!
//! | module | holds |
//! |---|---|
//! | `request` | requests as data, drawn from a seed |
//! | `command` | requests as bytes |
//! | `added_columns` | the columns that are added to items, in a store |
//! | `identified` | requests with an id, in a store: run once |
//! | `model` | the rows as maps; every request in a few lines |
//! | `store` | the same requests as transactions on a memory store |
//!
//! Every transaction that commits a change also notes its number in its client's row, so no two
//! prefixes of an execution leave the same rows. Not here: when requests run, crashes.

pub mod added_columns;
pub mod command;
pub mod identified;
pub mod model;
pub mod request;
pub mod store;

#[cfg(test)]
mod tests;
