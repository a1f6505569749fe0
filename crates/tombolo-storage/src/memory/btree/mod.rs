//! Cache-conscious B+trees of the memory store: two siblings with one face.
//!
//! - [`IntegerTree`]: 64-bit integer keys in nodes of a few cache lines, searched branch-free.
//! - [`ByteTree`]: normalised byte keys (compared as `memcmp` does) in larger nodes without their
//!   common prefix.
//!
//! Both map unique keys to 32-bit row slots, keep their nodes in slabs and refer to them by 32-bit
//! id. Nodes have no sibling links: a cursor carries the path from the root, so a split or a merge
//! touches no neighbour's cache line. They are two algorithms and not one over a trait: fixed
//! against variable entries differ in when a node is full, in whether borrowing can fail (it can
//! where separators vary in length) and so in what a deletion leaves behind.
//!
//! Not here: rows, undo, latches, several threads; and non-unique keys, which the caller makes
//! unique by appending the row's id.
//!
//! Implements the hand-coded integer-key search of LG-S1 and the tree of the bare kernel, LG-S11;
//! answers LG-59.

mod byte_check;
mod byte_node;
mod byte_scan;
#[cfg(test)]
mod byte_tests;
mod bytes;
mod directory;
mod hints;
mod integer;
mod integer_check;
mod integer_node;
mod integer_scan;
#[cfg(test)]
mod integer_tests;
pub(super) mod nodes;
mod path;
mod search;
mod shift;
mod trend;

pub use byte_node::KEY_BYTES_MAX;
pub use bytes::{ByteTree, Position};
pub use integer::IntegerTree;

use super::region::RegionError;
use std::fmt;

/// What `find_many` stores for a key that is not there. No value may be this one: no slab hands it
/// out.
pub const ABSENT: u32 = u32::MAX;

/// How many look-ups run in lock step: enough to cover a miss, few enough for the processor's
/// line-fill buffers.
pub const LOCK_STEP: usize = 16;

/// Why nothing was inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// The key is there already, with this value.
    Duplicate(u32),
    /// There is no memory for another node.
    NoSpace(RegionError),
    /// The key is longer than the tree was made for.
    KeyTooLong {
        /// The longest key it takes.
        bytes_max: usize,
    },
}

impl From<RegionError> for InsertError {
    fn from(error: RegionError) -> Self {
        InsertError::NoSpace(error)
    }
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InsertError::Duplicate(value) => write!(f, "the key exists, with value {value}"),
            InsertError::KeyTooLong { bytes_max } => {
                write!(f, "the key is longer than {bytes_max} bytes")
            }
            InsertError::NoSpace(error) => write!(f, "no space for an index node: {error}"),
        }
    }
}

impl std::error::Error for InsertError {}

/// Why a run of keys was not inserted: nothing of it is in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunError {
    /// The position in the run of the key that could not be inserted.
    pub index: usize,
    /// Why.
    pub error: InsertError,
}
