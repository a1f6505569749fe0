//! `HeapFile`: rows in slotted pages.
//!
//! Every call looks at one page and one slot; pages that are full are cold. Instructions of one call on a
//! row of 80 bytes, `examples/pool_probe.rs`:
//!
//! | | read | pin | update | create |
//! |---|---|---|---|---|
//! | buffer pool | 105 | 110 | 105 | 255, of which 84 are `format`'s zeros |
//! | without latches | 70 | 70 | 70 | 225 |
//! | direct frames, latched | 50 | 55 | 45 | 195 |
//! | direct frames, not latched | 35 | 40 | 35 | 180 |
//! | slabs, for comparison | 25 | 25 | 35 | 50 |
//!
//! Zeroing a new page is one instruction to the processor (`rep stos`) and 8,192 to callgrind, which
//! a page's rows share.

use std::marker::PhantomData;
use std::ops::ControlFlow;

use super::space::HeapSpace;
use super::values::place_of_value;
use super::{Place, RowFile, RowLayout, Stamp};
use crate::paged::page::{
    HEADER_BYTES, Page, PageId, PageKind, PageMut, PageSize, RECORD_ALIGNMENT_BYTES, SLOT_BYTES,
    Slot, SlotKind, StoreId, record_bytes_max,
};
use crate::paged::pool::{
    ExclusivePage, PageAccess, PageError, PageFailure, ReadPage, Result, SharedPage, SpaceStep,
};
use crate::paged::structure::Structure;
use crate::row::RowId;
use crate::store::Damage;

/// The rows of a table, in pages.
pub struct HeapFile<P: PageAccess> {
    pub(super) space: HeapSpace<P::Latching>,
    layout: RowLayout,
    marker: PhantomData<fn() -> P>,
}

impl<P: PageAccess> HeapFile<P> {
    /// Opens the file whose map begins at `root`, and whose rows look like that.
    ///
    /// # Errors
    /// As [`PageAccess::fix_exclusive`], or when there is no heap file.
    pub fn open(access: &P, root: PageId, layout: RowLayout) -> Result<Self> {
        Ok(Self { space: HeapSpace::open(access, root)?, layout, marker: PhantomData })
    }

    /// Writes down which pages have room. To be called before the pool is closed, when no thread
    /// uses the file any more.
    ///
    /// # Errors
    /// As [`PageAccess::fix_exclusive`].
    pub fn close(&self, access: &P, structure: &impl Structure) -> Result<()> {
        self.space.close(access, structure)
    }

    /// Where the file's map begins: what opens it again.
    pub fn root(&self) -> PageId {
        self.space.root()
    }

    /// The file's number.
    pub fn store(&self) -> StoreId {
        self.space.store()
    }

    /// Pages of the file that hold rows, or did.
    pub fn page_count(&self) -> u32 {
        self.space.page_count()
    }

    /// Makes a record of `bytes` unspecified bytes in a page with room, and hands the page out.
    #[inline(always)]
    pub(super) fn place<'a>(
        &self,
        access: &'a P,
        lane: usize,
        bytes: usize,
        kind: SlotKind,
        structure: &impl Structure,
    ) -> Result<(P::Exclusive<'a>, Place)> {
        match self.place_in_current(access, lane, bytes, kind)? {
            Some(placed) => Ok(placed),
            None => self.place_elsewhere(access, lane, bytes, kind, structure),
        }
    }

    /// The same in the page that a lane has now, if it has room; the lane gives it up if not.
    #[inline(always)]
    fn place_in_current<'a>(
        &self,
        access: &'a P,
        lane: usize,
        bytes: usize,
        kind: SlotKind,
    ) -> Result<Option<(P::Exclusive<'a>, Place)>> {
        let Some(id) = self.space.current(lane) else { return Ok(None) };
        let mut page = access.fix_exclusive(id)?;
        if let Some(slot) = insert(&mut page, bytes, kind) {
            return Ok(Some((page, Place { page: id, slot, kind })));
        }
        self.space.give_up(lane, page, bytes);
        Ok(None)
    }

    /// The same in the pages that a lane has next.
    #[cold]
    #[inline(never)]
    fn place_elsewhere<'a>(
        &self,
        access: &'a P,
        lane: usize,
        bytes: usize,
        kind: SlotKind,
        structure: &impl Structure,
    ) -> Result<(P::Exclusive<'a>, Place)> {
        let bytes_max = record_bytes_max::<P::Size>();
        if bytes > bytes_max {
            return Err(PageFailure::RecordTooLong { bytes, bytes_max }.into());
        }
        loop {
            self.space.advance(access, lane, bytes, structure)?;
            if let Some(placed) = self.place_in_current(access, lane, bytes, kind)? {
                return Ok(placed);
            }
        }
    }

    /// Fills a record that was just placed, and stamps its page.
    #[inline(always)]
    pub(super) fn fill<E: From<PageError>>(
        page: &mut P::Exclusive<'_>,
        place: Place,
        fill: impl FnOnce(Place, &mut [u8]) -> Result<Stamp, E>,
    ) -> Result<(), E> {
        let mut made = Made { page: page.page_mut(), slot: place.slot, is_kept: false };
        let stamp = match made.page.record_mut(place.slot) {
            Some(record) => fill(place, record)?,
            None => None,
        };
        if let Some(lsn) = stamp {
            made.page.set_lsn(lsn);
        }
        made.is_kept = true;
        Ok(())
    }

    /// Makes what lies at a place a ghost, or no ghost again, if it is the other.
    fn set_ghost<E: From<PageError>>(
        &self,
        access: &P,
        place: Place,
        ghost: bool,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        let mut page = access.fix_exclusive(place.page)?;
        let slot = page.page().slot_of(place.slot, place.kind);
        if slot.is_none_or(|slot| slot.is_ghost() == ghost) {
            return Ok(false);
        }
        let Some(record) = page.page().record(place.slot) else { return Ok(false) };
        let stamp = log(place, record)?;
        let mut change = page.page_mut();
        change.set_ghost(place.slot, ghost);
        if let Some(lsn) = stamp {
            change.set_lsn(lsn);
        }
        Ok(true)
    }
}

/// Makes a record, moving the page's records together if that helps and is allowed.
#[inline(always)]
pub(super) fn insert(page: &mut impl ExclusivePage, bytes: usize, kind: SlotKind) -> Option<u16> {
    match page.page_mut().insert(bytes, kind) {
        Some(slot) => Some(slot),
        None => insert_compacted(page, bytes, kind),
    }
}

#[cold]
fn insert_compacted(page: &mut impl ExclusivePage, bytes: usize, kind: SlotKind) -> Option<u16> {
    if !page.page().has_room_for(bytes) || !page.is_alone() {
        return None;
    }
    page.page_mut().compact();
    page.page_mut().insert(bytes, kind)
}

/// A record that is being filled: it is removed again when the log fails or the filling code
/// panics.
struct Made<'a, S: PageSize> {
    page: PageMut<'a, S>,
    slot: u16,
    is_kept: bool,
}

impl<S: PageSize> Drop for Made<'_, S> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.is_kept {
            self.page.remove(self.slot);
        }
    }
}

impl<P: PageAccess> RowFile<P> for HeapFile<P> {
    const ON_PAGES: bool = true;

    type Pin<'a>
        = <P::Shared<'a> as SharedPage>::Pin
    where
        P: 'a;

    fn make_file<'a>(
        step: &mut SpaceStep<'a, P>,
        store: StoreId,
        layout: RowLayout,
    ) -> Result<(Self, Option<P::Exclusive<'a>>)> {
        let bytes_max = record_bytes_max::<P::Size>();
        if layout.fixed_bytes > bytes_max {
            let bytes = layout.fixed_bytes;
            return Err(PageFailure::RecordTooLong { bytes, bytes_max }.into());
        }
        let (space, root) = HeapSpace::make(step, store)?;
        Ok((Self { space, layout, marker: PhantomData }, Some(root)))
    }

    fn open_file(access: &P, root: PageId, layout: RowLayout) -> Result<Option<Self>> {
        Self::open(access, root, layout).map(Some)
    }

    #[inline(always)]
    fn layout(&self) -> &RowLayout {
        &self.layout
    }

    fn saved_root(&self) -> Option<PageId> {
        Some(self.root())
    }

    fn note_room(&self, page: Page<'_, P::Size>) {
        self.space.note_more_room(page);
    }

    fn save(&self, access: &P, structure: &impl Structure) -> Result<()> {
        self.close(access, structure)
    }

    #[inline]
    fn create<E: From<PageError>>(
        &self,
        access: &P,
        lane: usize,
        bytes: usize,
        fill: impl FnOnce(Place, &mut [u8]) -> Result<Stamp, E>,
        structure: &impl Structure,
    ) -> Result<RowId, E> {
        let (mut page, place) = self.place(access, lane, bytes, SlotKind::Record, structure)?;
        Self::fill(&mut page, place, fill)?;
        Ok(place.row())
    }

    #[inline]
    fn read<T>(&self, access: &P, row: RowId, read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let Place { page, slot, kind } = Place::of_row(row);
        Ok(access.fix_shared(page)?.page().record_of(slot, kind).map(read))
    }

    #[inline]
    fn pin<'a>(&'a self, access: &'a P, row: RowId) -> Result<Option<Self::Pin<'a>>> {
        let Place { page, slot, kind } = Place::of_row(row);
        let page = access.fix_shared(page)?;
        if page.page().slot_of(slot, kind).is_none() {
            return Ok(None);
        }
        Ok(page.pin(slot))
    }

    #[inline(always)]
    fn prefetch(&self, access: &P, row: RowId, (start, end): (usize, usize)) {
        let place = Place::of_row(row);
        let slot = usize::from(place.slot);
        let slot_offset = P::Size::BYTES.saturating_sub((slot + 1) * SLOT_BYTES);
        // Rows without values that were made one after the other lie in the order of their slots.
        let RowLayout { fixed_bytes, handles } = &self.layout;
        let wanted = if handles.is_empty() { end - start } else { 0 };
        let bytes = fixed_bytes.next_multiple_of(RECORD_ALIGNMENT_BYTES);
        let fields = (HEADER_BYTES + slot * bytes + start, wanted);
        access.prefetch(place.page, slot_offset, fields);
    }

    #[inline(always)]
    fn fetch(&self, access: &P, rows: impl Iterator<Item = RowId>) {
        access.fetch(rows.map(|row| Place::of_row(row).page));
    }

    fn exists(&self, access: &P, row: RowId) -> Result<bool> {
        let place = Place::of_row(row);
        let is_page = row.location() >> 48 == 0 && place.page.0 > 0;
        if !is_page || place.page.0 >= access.page_count() {
            return Ok(false);
        }
        let page = access.fix_shared(place.page)?;
        let is_ours = page.page().kind() == PageKind::Heap && page.page().store() == self.store();
        Ok(is_ours && page.page().slot(place.slot).is_some_and(Slot::is_plain))
    }

    #[inline]
    fn update<E: From<PageError>>(
        &self,
        access: &P,
        row: RowId,
        change: impl FnOnce(Place, &mut [u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        let place = Place::of_row(row);
        let mut page = access.fix_exclusive(place.page)?;
        let mut view = page.page_mut();
        let Some(record) = view.plain_record_mut(place.slot) else { return Ok(false) };
        if let Some(lsn) = change(place, record)? {
            view.set_lsn(lsn);
        }
        Ok(true)
    }

    fn create_value<E: From<PageError>>(
        &self,
        access: &P,
        lane: usize,
        row: RowId,
        value: &[u8],
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
        structure: &impl Structure,
    ) -> Result<u64, E> {
        self.put_value(access, lane, Place::of_row(row).page, value, log, structure)
    }

    fn give_up_value(&self, handle: u64) -> Option<Place> {
        place_of_value(handle)
    }

    fn delete<E: From<PageError>>(
        &self,
        access: &P,
        place: Place,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        self.set_ghost(access, place, true, log)
    }

    fn revive<E: From<PageError>>(
        &self,
        access: &P,
        place: Place,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        self.set_ghost(access, place, false, log)
    }

    fn purge<E: From<PageError>>(
        &self,
        access: &P,
        place: Place,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        let mut page = access.fix_exclusive(place.page)?;
        let stamp = match page.page().record_of(place.slot, place.kind) {
            Some(record) => log(place, record)?,
            None => return Ok(false),
        };
        let mut change = page.page_mut();
        change.remove(place.slot);
        if let Some(lsn) = stamp {
            change.set_lsn(lsn);
        }
        self.space.note_more_room(page.page());
        Ok(true)
    }

    fn scan(&self, access: &P, visit: impl FnMut(RowId, bool) -> ControlFlow<()>) -> Result<()> {
        self.scan_pages(access, visit)
    }

    fn check_with_deleted(&self, access: &P, deleted: &dyn Fn(Place) -> bool) -> Vec<Damage> {
        self.check_pages(access, deleted)
    }

    fn owned_pages(&self, access: &P) -> Result<Vec<PageId>> {
        let mut pages = self.pages(access)?;
        pages.extend(self.space.maps());
        Ok(pages)
    }
}
