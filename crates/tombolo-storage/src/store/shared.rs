//! What several threads can read of a store concurrently while nothing changes: whole tables in parts, and its checks.
//!
//! Not here: transactions, which read through [`Store`](super::Store).

use std::ops::Range;

use super::Damage;
use crate::row::RowBytes;

/// The rows of a store whose rows are all in memory. Tables are their positions in the schema.
pub trait SharedRows: Sync {
    /// The slots that the rows of a table lie in, not each of them with a row.
    fn slots(&self, table: usize) -> Range<u32>;

    /// Shows the rows of a table in these of its slots, in their order.
    fn each_row(&self, table: usize, slots: Range<u32>, see: &mut dyn FnMut(&dyn RowBytes));

    /// The store's check of itself, in parts.
    fn checker(&self) -> Box<dyn Checker + '_>;
}

/// A check in parts, which threads may share; [`Store::check`](super::Store::check) is all of them, in order.
pub trait Checker: Sync {
    /// The parts.
    fn parts(&self) -> Range<usize>;

    /// Verifies one of them; one line per damage found.
    fn check(&self, part: usize) -> Vec<Damage>;
}
