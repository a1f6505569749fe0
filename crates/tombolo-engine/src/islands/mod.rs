//! Islands: cores that are close to each other (ISL-1).
//!
//! | file | holds |
//! |---|---|
//! | `commit/` | atomic commit between islands, as a state machine |
//! | `topology.rs` | which cores share what, as the system says |
//! | `placement.rs` | on which cores threads run |
//! | `prepared.rs` | parts that are prepared, and decisions, as rows of an island |
//!
//! Not here: engines on islands; what runs transactions over several of them.

pub mod commit;
pub mod placement;
pub mod prepared;
pub mod topology;
