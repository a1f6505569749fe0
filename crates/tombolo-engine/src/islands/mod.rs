//! Islands: cores that are close to each other (ISL-1).
//!
//! | file | holds |
//! |---|---|
//! | `commit/` | atomic commit between islands, as a state machine |
//! | `decided.rs` | what islands of paged stores decided, as rows |
//! | `island.rs` | what the state machine wants, done on a memory store |
//! | `membership.rs` | which island a directory holds, and how often it was opened |
//! | `topology.rs` | which cores share what, as the system says |
//! | `placement.rs` | on which cores threads run |
//! | `prepared.rs` | parts that are prepared, and decisions, as rows of an island |
//!
//! Not here: the engines on islands, and who calls them (crate `tombolo`, `islands/`).

pub mod commit;
pub mod decided;
pub mod island;
pub mod membership;
pub mod ordered;
pub mod placement;
pub mod prepared;
pub mod topology;
