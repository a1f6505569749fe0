//! What looking ahead finds for a transaction that runs later (TPK-44).
//!
//! Not here: how many transactions are looked ahead at (`look_ahead.rs`), what a procedure looks for
//! (`procedure.rs`). Invariant: hints are used by the transaction they were found for, and only while no
//! entry has left the indexes they were found in.

use tombolo_storage::row::RowId;

/// The rows that looking ahead found for one transaction, in an order of the procedure's own.
///
/// A row never moves, so what was found in an index is right until an entry is removed from that index.
#[derive(Clone, Debug)]
pub struct Hints {
    rows: [RowId; Self::ROWS_MAX],
    found: usize,
    /// [`Procedure::removals`](crate::procedure::Procedure::removals) when they were found.
    removals: Option<u64>,
}

impl Hints {
    /// The most rows that are kept.
    pub const ROWS_MAX: usize = 32;

    /// Nothing was found.
    pub const fn none() -> Self {
        Self { rows: [RowId::new(0); Self::ROWS_MAX], found: 0, removals: None }
    }

    /// Begins anew, while the indexes have lost so many entries.
    #[inline(always)]
    pub(crate) const fn begin(&mut self, removals: Option<u64>) {
        (self.found, self.removals) = (0, removals);
    }

    /// Notes a row. Where there are more than `ROWS_MAX`, none is used.
    #[inline(always)]
    pub const fn push(&mut self, row: RowId) {
        if self.found < Self::ROWS_MAX {
            self.rows[self.found] = row;
        }
        self.found += 1;
    }

    /// The rows noted so far; none where there are more than `ROWS_MAX`.
    #[inline(always)]
    pub fn noted(&self) -> &[RowId] {
        self.rows.get(..self.found).unwrap_or_default()
    }

    /// Whether nothing was found.
    #[inline(always)]
    pub(crate) const fn is_none(&self) -> bool {
        self.found == 0
    }

    /// The rows that were found, if the indexes have lost no entries since; else none.
    #[inline(always)]
    pub(crate) fn rows(&self, removals: Option<u64>) -> &[RowId] {
        let is_right = removals.is_some() && self.removals == removals;
        if is_right { self.noted() } else { &[] }
    }
}

/// Hints of the calls of a batch, in the order in which they run.
#[derive(Debug, Default)]
pub struct Upcoming {
    hints: Vec<Hints>,
    /// How many calls were looked ahead at.
    count: usize,
    /// How many of those have begun.
    begun: usize,
}

impl Upcoming {
    /// Where the hints go of the next `count` calls that run.
    pub fn begin(&mut self, count: usize) -> &mut [Hints] {
        if self.hints.len() < count {
            self.hints.resize(count, Hints::none());
        }
        (self.count, self.begun) = (count, 0);
        let hints = &mut self.hints[..count];
        // What looking ahead does not get to, because it panics, has none.
        hints.iter_mut().for_each(|hints| hints.begin(None));
        hints
    }

    /// The next call begins: what was found for it, nothing if it was not looked ahead at.
    #[inline]
    pub fn advance(&mut self) -> &Hints {
        self.begun = self.count.min(self.begun) + 1;
        self.current()
    }

    /// What was found for the call that began last.
    #[inline]
    pub fn current(&self) -> &Hints {
        const NONE: &Hints = &Hints::none();
        match self.begun {
            begun if begun == 0 || begun > self.count => NONE,
            begun => &self.hints[begun - 1],
        }
    }

    /// The batch has run: what comes next was not looked ahead at.
    #[inline]
    pub const fn ran(&mut self) {
        // A call that its caller's thread runs was not looked ahead at: it need not write this cache line.
        if self.count > 0 {
            (self.count, self.begun) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_used_only_whole_and_while_they_are_right() {
        let mut hints = Hints::none();
        assert_eq!((hints.rows(None), hints.rows(Some(0))), (&[][..], &[][..]));
        hints.begin(Some(7));
        hints.push(RowId::new(4));
        hints.push(RowId::new(2));
        assert_eq!(hints.rows(Some(7)), [RowId::new(4), RowId::new(2)]);
        assert_eq!(hints.noted(), hints.rows(Some(7)));
        assert!(hints.rows(Some(8)).is_empty() && hints.rows(None).is_empty());
        hints.begin(Some(8));
        assert!(hints.rows(Some(8)).is_empty(), "those of another transaction are gone");
        (0..33).for_each(|row| hints.push(RowId::new(row)));
        assert!(hints.rows(Some(8)).is_empty(), "more than there is room for");
        hints.begin(None);
        hints.push(RowId::new(1));
        assert!(hints.rows(None).is_empty(), "of a store that cannot look ahead");
    }

    #[test]
    fn each_call_gets_its_own_hints_and_others_none() {
        let rows = |hints: &Hints| hints.rows(Some(1)).to_vec();
        let mut upcoming = Upcoming::default();
        assert!(rows(upcoming.advance()).is_empty(), "nothing was looked ahead at");
        upcoming.ran();
        for count in [3, 2] {
            for (row, hints) in upcoming.begin(count).iter_mut().enumerate() {
                hints.begin(Some(1));
                hints.push(RowId::new(row as u64));
            }
            for row in 0..count as u64 {
                assert_eq!(rows(upcoming.advance()), [RowId::new(row)]);
            }
            for _ in 0..2 {
                assert!(rows(upcoming.advance()).is_empty(), "not looked ahead at");
            }
        }
        upcoming.begin(2)[0].begin(Some(1));
        assert!(rows(upcoming.current()).is_empty(), "none has begun");
        upcoming.advance();
        upcoming.ran();
        assert!(rows(upcoming.current()).is_empty());
        assert!(rows(upcoming.advance()).is_empty(), "the batch has ended");
    }
}
