//! Counting what transactions cost: instructions and cycles, per transaction and per call.
//!
//! # What it is
//! Three sources of counts and one way to announce what runs (LG-38, LG-39, LG-44, LG-45):
//! - [`callgrind`] counts instructions exactly, the same on every machine. The counted process is a
//!   child under valgrind; [`client`] are the requests it makes. What it dumps (`dumps`) is divided
//!   among calls (`attribution`) that are found by [`names`] in the debug information (`symbols`);
//!   [`counts`] is the result.
//! - [`tsc`] reads the processor's time-stamp counter: cycles, measured natively.
//! - [`hardware`] reads the processor's instruction counter, where the machine lets us.
//! - [`meter`] is called where transactions, and natively calls, begin and end and drives one of the three.
//!
//! [`miss`] measures what one dependent cache miss costs, to be printed next to every time.
//!
//! # What it does not do
//! It knows no store, no workload and no profile. The wrapper of a store calls the meter, the code that counts
//! says which functions are calls, and the driver of a workload says which transactions are counted. A store
//! without that wrapper contains none of this code.
//!
//! # Invariants
//! - Times and callgrind counts never come from the same run.
//! - Callgrind counts the code that is shipped, without probes in it.
//! - What a probe costs is measured in the same process as the counts it is subtracted from; for
//!   callgrind it is a whole number of instructions, or the count is refused.

mod attribution;
pub mod callgrind;
#[expect(unsafe_code, reason = "valgrind's client requests are a magic instruction sequence")]
pub mod client;
pub mod counts;
mod dumps;
mod error;
pub mod hardware;
mod label;
#[expect(unsafe_code, reason = "a probe is a fixed instruction sequence that callgrind can count")]
pub mod meter;
#[expect(unsafe_code, reason = "huge pages are asked for with madvise")]
pub mod miss;
pub mod names;
mod symbols;
#[expect(unsafe_code, reason = "the time-stamp counter is read by an intrinsic")]
pub mod tsc;

#[cfg(test)]
mod tests;

pub use error::CounterError;

named! {
    /// What a part of a transaction does, by the calls it makes (the columns of LG-44 and LG-45): calls first.
    ///
    /// Deletions and scans have no column in the papers: they count as `Other`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Category by name {
        /// Opening the transaction.
        Begin = "begin",
        /// Finding rows by key.
        Lookup = "lookup",
        /// Pinning a row, and unpinning it.
        Pin = "pin",
        /// Changing a row.
        Update = "update",
        /// Creating a row.
        Create = "create",
        /// Inserting a key into an index.
        Insert = "insert",
        /// Committing.
        Commit = "commit",
        /// Everything in the transaction outside the calls above.
        Other = "other",
    }
}

impl Category {
    /// How many categories are calls.
    pub const CALLS: usize = Self::Other as usize;
}

/// A kind of transaction, numbered by the caller.
///
/// Callgrind is made to count before a transaction begins, so whether it will abort must be known
/// by then: give transactions known to abort a kind, or a group, of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub u8);

/// How many transactions, and how many calls of each category in them, a meter has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Transactions.
    pub transactions: u64,
    /// Calls, in the order of [`Category::ALL`].
    pub calls: [u64; Category::CALLS],
}

impl Tally {
    /// Calls of all categories.
    #[must_use]
    pub fn all_calls(&self) -> u64 {
        self.calls.iter().sum()
    }
}
