//! Visiting all rows of a heap file, page by page in the order of its map.
//!
//! A page's rows are listed under its latch and visited without it. Rows made meanwhile may be
//! visited or not.

use std::ops::ControlFlow;

use super::Place;
use super::file::HeapFile;
use super::space::{entries, entry_page};
use crate::paged::page::{Page, PageId, PageSize};
use crate::paged::pool::{FETCH_MAX, PageAccess, ReadPage, Result};
use crate::row::RowId;

/// The rows of a page, and whether each is deleted.
fn rows<S: PageSize>(page: Page<'_, S>) -> impl Iterator<Item = (RowId, bool)> + '_ {
    let id = page.id();
    (0..page.slot_count()).filter_map(move |number| {
        let place = Place::of_record(id, number);
        let slot = page.slot_of(number, place.kind)?;
        Some((place.row(), slot.is_ghost()))
    })
}

impl<P: PageAccess> HeapFile<P> {
    /// The pages that hold rows, in the order of the map.
    pub(super) fn pages(&self, access: &P) -> Result<Vec<PageId>> {
        let mut pages = Vec::new();
        for map in self.space.maps() {
            pages.extend(entries(access.fix_shared(map)?.page()).map(entry_page));
        }
        Ok(pages)
    }

    pub(super) fn scan_pages(
        &self,
        access: &P,
        mut visit: impl FnMut(RowId, bool) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut listed = Vec::new();
        for ids in self.pages(access)?.chunks(FETCH_MAX) {
            access.fetch(ids.iter().copied());
            for id in ids {
                listed.extend(rows(access.fix_shared(*id)?.page()));
                for (row, deleted) in listed.drain(..) {
                    if visit(row, deleted).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}
