//! Tombolo's engine: *when* something happens, and on which thread.
//!
//! The life of a transaction, as far as it goes today:
//! 1. [`procedure::Procedure::call`] is given a store and an input that was made beforehand.
//! 2. [`transaction::execute`] begins a transaction on the store and opens its reading phase.
//! 3. The procedure looks keys up and pins rows ([`transaction::Reading`]); it may abort, which
//!    undoes nothing.
//! 4. `write()` ends the reading phase ([`transaction::Writing`]): rows are updated, created and
//!    deleted in place, index entries follow.
//! 5. `commit` makes the answer ([`transaction::Committed`]); any other way out is undone, or
//!    poisons a store without undo.
//!
//! Threads, queues, the log and the answers that wait for it join with the pipeline. The doors
//! (`clock`, `threads`, `rng`) are the only ways to time, concurrency and chance.

pub mod clock;
pub mod procedure;
pub mod rng;
pub mod settings;
pub mod threads;
pub mod transaction;
