//! Redoing a change of a row or a value in its page, by slot.

use super::Place;
use crate::log::{Change, ChangeKind};
use crate::paged::page::{PageMut, PageSize};

/// Makes a logged change once more, in a page that is as it was before; `false` if it is not.
pub(in crate::paged) fn redo<S: PageSize>(
    page: &mut PageMut<'_, S>,
    change: &Change,
    before: &[u8],
    after: &[u8],
) -> bool {
    let Place { slot, kind, .. } = change.place;
    if change.kind == ChangeKind::RowCreated {
        let is_made = page.insert_into(slot, after.len(), kind);
        let record = page.record_mut(slot).filter(|_| is_made);
        return record.map(|record| record.copy_from_slice(after)).is_some();
    }
    let Some(found) = page.read().slot_of(slot, kind) else { return false };
    match change.kind {
        ChangeKind::RowUpdated => {
            let within = usize::from(change.within);
            let record = page.record_mut(slot).and_then(|record| record.get_mut(within..));
            let bytes = record.and_then(|record| record.get_mut(..after.len()));
            bytes
                .filter(|bytes| **bytes == *before)
                .map(|bytes| bytes.copy_from_slice(after))
                .is_some()
        }
        ChangeKind::RowDeleted | ChangeKind::RowRevived => {
            let deleted = change.kind == ChangeKind::RowDeleted;
            page.set_ghost(slot, deleted);
            found.is_ghost() != deleted
        }
        ChangeKind::RowPurged => {
            page.remove(slot);
            found.len() == before.len()
        }
        _ => false,
    }
}
