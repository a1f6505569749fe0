//! A checker of histories: which isolation level did recorded transactions have?
//!
//! # What it proves
//! A *history* is a list of [`Transaction`]s, each as its session saw it. [`History::judge`] finds an order of all
//! transactions that explains the results of each, or an anomaly: a cycle of transactions each of which must precede
//! the next, explained line by line. Both are proofs; if the evidence allows too many orders to try them all, the
//! result is *undecided*.
//!
//! # How
//! 1. [`History::push`] numbers tables, keys and values.
//! 2. `facts.rs` finds the transactions that count, and the version that each read saw. An observation that no order
//!    can explain (a value that no transaction committed) ends the analysis there.
//! 3. `order.rs` puts each key's versions into a likely order and builds the resulting graph (Adya, *Weak
//!    Consistency: A Generalized Theory and Optimistic Implementations for Distributed Transactions*, 1999).
//! 4. `search.rs` changes the order while it leads to a cycle (the choice is in `choice.rs`), until there is none, or
//!    no other order.
//! 5. `explain.rs` names the worst cycle and explains it.
//!
//! ```
//! use tombolo_verify::{History, Level, Operation, Transaction};
//!
//! let history = History::of(&[
//!     Transaction::committed("a", 0, 1, vec![Operation::write("account", 7, 100)]),
//!     Transaction::committed("b", 2, 3, vec![Operation::read("account", 7, None)]),
//! ])?;
//! let verdict = history.judge(Level::StrictSerializable);
//! assert_eq!(verdict.anomalies[0].name(), "G-single-real-time"); // a stale read
//! assert_eq!(verdict.strongest(), [Level::Serializable]);
//! # Ok::<(), tombolo_verify::Refused>(())
//! ```
//!
//! Not here: recording histories, files' names, threads, clocks.

mod choice;
mod explain;
mod facts;
mod graph;
mod history;
mod judge;
mod order;
mod read;
mod search;
mod transaction;
mod verdict;

pub use history::{History, Refused};
pub use judge::EFFORT;
pub use read::ReadError;
pub use transaction::{Datum, Operation, Outcome, Transaction};
pub use verdict::{Anomaly, Beyond, Holds, Kind, Level, Levels, Open, Step, Verdict};
