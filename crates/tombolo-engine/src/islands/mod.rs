//! Islands: cores that are close to each other (ISL-1).
//!
//! | file | contains |
//! |---|---|
//! | `commit/` | atomic commit between islands, as a state machine |
//! | `decided.rs` | decisions of islands of paged stores, as rows |
//! | `island.rs` | the actions of the state machine, carried out on a memory store |
//! | `membership.rs` | the island that a directory belongs to, and the number of its openings |
//! | `topology.rs` | the caches and memory that cores share, as the system reports them |
//! | `placement.rs` | the cores on which threads run |
//! | `prepared.rs` | parts that are prepared, and decisions, as rows of an island |
//!
//! Not here: the engines on islands, and their callers (crate `tombolo`, `islands/`).

pub mod commit;
pub mod decided;
pub mod island;
pub mod membership;
pub mod ordered;
pub mod placement;
pub mod prepared;
pub mod topology;
