//! Where insertion into a node has been going, and so where the node is best split when it is full.
//!
//! A node keeps one more than the position of its last insertion. An insertion right behind that
//! one continues an ascending run, one right before it a descending run. Random insertion
//! matches by chance once in a while, which costs a lopsided split and nothing else.

/// The direction of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trend {
    Ascending,
    Descending,
    Random,
}

impl Trend {
    /// The direction of an insertion at `at` after one just before position `last`.
    #[inline(always)]
    pub(super) fn of(at: usize, last: usize) -> Trend {
        if at == last {
            Trend::Ascending
        } else if at + 1 == last {
            Trend::Descending
        } else {
            Trend::Random
        }
    }

    /// How many of `total` entries stay in the left node when the new one is the `at`-th of them;
    /// `most` fit in a node, which keeps at least `least`.
    ///
    /// A run continues right after (before) the new entry: what is left of it stays there for good
    /// and should be full, and the room should be where the run continues.
    pub(super) fn left_count(self, at: usize, total: usize, least: usize, most: usize) -> usize {
        let wanted = match self {
            Trend::Ascending => at + 1,
            Trend::Descending => at,
            Trend::Random => total / 2,
        };
        wanted.clamp(least.max(total - most), most.min(total - least))
    }

    /// An upper bound for the left of two neighbours between which a leaf is split. Where runs are
    /// interleaved the keys between the two belong to the run that continues to the right of
    /// `left`, so an ascending one keeps them on its side; else `left` itself would do for a bound,
    /// and the next key of that run would go to the leaf of the run behind it.
    pub(super) fn separator(self, left: i64, right: i64) -> i64 {
        match self {
            Trend::Ascending => right - 1,
            Trend::Descending | Trend::Random => left,
        }
    }
}
