//! `Ids`: which rows' ids a transaction takes for its own; `Place`: a place in it to which it may go back.
//!
//! An id carries the number that its transaction had when it was made. A transaction gets another number with each
//! savepoint. Going back to one takes the numbers since then away, if rows are gone whose places may become those of
//! other rows. So an id names the row that it was made for, or none.

use std::ops::Range;

use tombolo_storage::error::Result;
use tombolo_storage::paged::store::Savepoint;
use tombolo_storage::sync::{AtomicU64, Ordering};

use super::sessions::Store;

/// Of a session's numbers, the bits that count its transactions and savepoints.
const NUMBER_BITS: u32 = 40;
/// How many sessions this process has opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// The numbers of a session, and those of its transaction, which no other session of the process has.
pub(super) struct Ids {
    /// The transaction's first.
    first: u64,
    /// The one that it has now.
    newest: u64,
    /// Those that were taken away, in ascending order.
    gone: Vec<Range<u64>>,
    /// Whether it has deleted rows, whose ids it may still have.
    pub(super) has_deleted: bool,
}

impl Ids {
    pub(super) fn new() -> Self {
        // Relaxed: that the numbers differ is all.
        let first = OPENED.fetch_add(1, Ordering::Relaxed) << NUMBER_BITS;
        Self { first, newest: first, gone: Vec::new(), has_deleted: false }
    }

    /// A transaction begins.
    pub(super) fn begin(&mut self) {
        self.newest += 1;
        self.first = self.newest;
        self.gone.clear();
        self.has_deleted = false;
    }

    /// The number of ids that are made now.
    #[inline(always)]
    pub(super) const fn newest(&self) -> u64 {
        self.newest
    }

    /// Whether an id of this number is the transaction's.
    #[inline(always)]
    pub(super) fn knows(&self, number: u64) -> bool {
        number == self.newest || self.knew(number)
    }

    #[cold]
    fn knew(&self, number: u64) -> bool {
        let behind = self.gone.partition_point(|gone| gone.start <= number);
        let is_gone = behind.checked_sub(1).is_some_and(|at| self.gone[at].contains(&number));
        (self.first..self.newest).contains(&number) && !is_gone
    }

    /// Takes the numbers from `first` on away.
    fn take_away(&mut self, first: u64) {
        self.gone.truncate(self.gone.partition_point(|gone| gone.start < first));
        self.newest += 1;
        self.gone.push(first..self.newest);
    }
}

/// A place in a session's transaction.
#[derive(Clone, Copy)]
pub(super) struct Place {
    savepoint: Savepoint,
    /// The first number behind it.
    number: u64,
}

impl Place {
    /// This place in the open transaction of a session.
    pub(super) fn here(store: &Store, ids: &mut Ids) -> Self {
        ids.newest += 1;
        Self { savepoint: store.savepoint(), number: ids.newest }
    }

    /// Where the open transaction began.
    pub(super) const fn beginning(ids: &Ids) -> Self {
        Self { savepoint: Savepoint::BEGINNING, number: ids.first }
    }

    /// Undoes what the transaction changed behind this place.
    ///
    /// # Errors
    /// `Poisoned`.
    pub(super) fn back(self, store: &mut Store, ids: &mut Ids) -> Result<()> {
        if store.back_to(self.savepoint)? {
            ids.take_away(self.number);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_behind_a_place_are_taken_away_and_no_others() {
        let mut ids = Ids::new();
        ids.begin();
        let part = |ids: &mut Ids| {
            ids.newest += 1;
            ids.newest
        };
        let first = ids.newest();
        let outer = part(&mut ids);
        let kept = part(&mut ids);
        let inner = part(&mut ids);
        ids.take_away(inner);
        let behind = ids.newest();
        let known = |ids: &Ids| [first, outer, kept, inner, behind].map(|number| ids.knows(number));
        assert_eq!(known(&ids), [true, true, true, false, true]);
        let again = part(&mut ids);
        ids.take_away(again);
        assert_eq!(ids.gone.len(), 2);
        assert!(!ids.knows(again) && ids.knows(behind));
        ids.take_away(outer);
        assert_eq!(known(&ids), [true, false, false, false, false]);
        assert!(ids.gone.len() == 1 && ids.knows(ids.newest()));
        ids.begin();
        assert_eq!(known(&ids), [false; 5]);
        assert!(!ids.knows(ids.newest() + 1) && ids.knows(ids.newest()));
        assert!(!ids.knows(Ids::new().newest()));
    }
}
