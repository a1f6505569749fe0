//! A checker of histories: given what transactions did and saw, which isolation level did they have?
//!
//! # What it proves
//! A *history* is a list of [`Transaction`]s, each as its session saw it. [`History::judge`] finds an order of all
//! transactions that explains what each saw, or an anomaly: a circle of transactions each of which has to come before
//! the next, told line by line. Both are proofs; where the evidence leaves too many orders to try them all, it says
//! that it is undecided.
//!
//! # How
//! 1. [`History::push`] numbers tables, keys and values.
//! 2. `facts.rs` finds the transactions that count, and of each read the version that it saw. What no order can
//!    explain (a value that nobody committed) ends the judgement there.
//! 3. `order.rs` puts each key's versions into a likely order and draws the graph that follows from it (Adya, *Weak
//!    Consistency: A Generalized Theory and Optimistic Implementations for Distributed Transactions*, 1999).
//! 4. `search.rs` changes the order where it leads to a circle (`choice.rs` says how), until there is none, or no other
//!    order.
//! 5. `explain.rs` names the worst circle and tells it.
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
