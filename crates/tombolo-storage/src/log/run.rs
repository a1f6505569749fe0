//! Several changes of one page, logged at once: one claim of space, one exchange of the tail, one copy.
//!
//! Each change has a record of its own, as if it were logged alone, and is redone and undone by itself; the page gets
//! the LSN of the last record. Not here: changes that leave ghosts, or that undo others.

use super::Change;
use super::buffer::Claim;
use super::record::{Content, Record};
use super::session::{Destination, Log};
use super::transaction::LogTransaction;
use crate::error::Error;
use crate::latch::Latching;
use crate::paged::step::Stamp;
use crate::probe::{self, Counter};

impl<D: Destination, L: Latching> Log<D, L> {
    /// See [`super::Logging::changes`].
    #[inline(always)]
    pub(super) fn publish_run<'a>(
        &self,
        transaction: &mut LogTransaction,
        changes: impl Iterator<Item = (Change, &'a [u8])>,
    ) -> Result<Stamp, Error> {
        assert!(!transaction.is_undoing && !transaction.is_clearing, "only changes that are new");
        let (start, first) = (transaction.records.len(), transaction.undoable.len());
        for (change, after) in changes {
            debug_assert!(change.kind.is_undoable() && !change.kind.is_cleared());
            let content = Content::Change { change, before: &[], after };
            let (id, previous) = (transaction.id, 0);
            let record = Record { is_redo_only: false, transaction: id, previous, content };
            let at = record.encode(&mut transaction.records);
            // Its LSN, counted from the first one's.
            transaction.undoable.push((at, (at - start) as u64));
        }
        let Some(more) = (transaction.undoable.len() - first).checked_sub(1) else {
            return Ok(None);
        };
        let bytes = (transaction.records.len() - start) as u64;
        let claim = Claim { more: more as u64, ..transaction.claim(false, bytes) };
        let publisher = transaction.publisher.get_or_insert_with(|| self.core.ring.publisher());
        let published = self.core.publish(publisher, &transaction.records[start..], &[], claim);
        let Ok(lsn) = published else {
            transaction.records.truncate(start);
            transaction.undoable.truncate(first);
            return published.map(Some);
        };
        transaction.undoable[first..].iter_mut().for_each(|(_, change_lsn)| *change_lsn += lsn);
        transaction.published(lsn, claim.reserved_after);
        transaction.last = transaction.newest_undoable();
        probe::count(Counter::LsnWrites, 1); // the page's
        Ok(Some(transaction.last))
    }
}
