//! `HeapFile`: rows in slotted pages.
//!
//! The common case of every call looks at one page and one slot; rows that moved and pages that are
//! full are cold. Instructions of one call on a row of 80 bytes, `examples/pool_probe.rs`:
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
use std::ops::{ControlFlow, Deref};

use super::space::HeapSpace;
use super::{Place, RowFile, Stamp};
use crate::paged::page::{
    HEADER_BYTES, PageId, PageKind, PageMut, PageSize, RECORD_ALIGNMENT_BYTES, SLOT_BYTES, Slot,
    SlotKind, StoreId, record_bytes_max,
};
use crate::paged::pool::{
    ExclusivePage, PageAccess, PageError, PageFailure, ReadPage, Result, SharedPage,
};
use crate::row::RowId;
use crate::store::Damage;

/// Bytes of a row's address: in the home of a row that moved, and in front of it where it is.
pub(super) const ADDRESS_BYTES: usize = 8;

/// How often a moved row is looked for before its address counts as wrong: a reader without a lock
/// may meet it on its way.
const MOVES_MAX: usize = 100;

/// The rows of a table, in pages.
pub struct HeapFile<P: PageAccess> {
    pub(super) space: HeapSpace<P::Latching>,
    marker: PhantomData<fn() -> P>,
}

/// A page and where in it a row lies.
pub(super) struct LocatedRow<G> {
    pub(super) page: G,
    pub(super) place: Place,
}

/// A row's place, as its home slot says.
pub(super) enum Step<G> {
    Here(LocatedRow<G>),
    Elsewhere(Place),
    Nowhere,
}

pub(super) fn read_address(record: &[u8]) -> u64 {
    let mut address = [0; ADDRESS_BYTES];
    address.copy_from_slice(&record[..ADDRESS_BYTES]);
    u64::from_le_bytes(address)
}

/// The place an address in a page names.
pub(super) fn place_at(address: u64) -> Place {
    Place { page: PageId((address >> 16) as u32), slot: address as u16, offset: 0 }
}

pub(super) fn address_of(place: Place) -> u64 {
    u64::from(place.page.0) << 16 | u64::from(place.slot)
}

/// Looks at the home of a row.
pub(super) fn at_home<G: ReadPage>(page: G, place: Place) -> Step<G> {
    let Some(slot) = page.page().slot(place.slot) else { return Step::Nowhere };
    match slot.kind() {
        SlotKind::Record => Step::Here(LocatedRow { page, place }),
        SlotKind::Forward => match page.page().record(place.slot) {
            Some(record) => Step::Elsewhere(place_at(read_address(record))),
            None => Step::Nowhere,
        },
        SlotKind::Moved | SlotKind::Free => Step::Nowhere,
    }
}

/// Looks for a moved row where its home says it is.
pub(super) fn away<G: ReadPage>(page: G, mut place: Place, home: Place) -> Option<LocatedRow<G>> {
    let slot = page.page().slot(place.slot)?;
    let record = page.page().record(place.slot)?;
    if slot.kind() != SlotKind::Moved || read_address(record) != address_of(home) {
        return None;
    }
    place.offset = ADDRESS_BYTES as u16;
    Some(LocatedRow { page, place })
}

impl<P: PageAccess> HeapFile<P> {
    /// Opens the file whose map begins at `root`.
    ///
    /// # Errors
    /// As [`PageAccess::fix_exclusive`], or when there is no heap file.
    pub fn open(access: &P, root: PageId) -> Result<Self> {
        Ok(Self { space: HeapSpace::open(access, root)?, marker: PhantomData })
    }

    /// Writes down which pages have room. To be called before the pool is closed, when no thread
    /// uses the file any more.
    ///
    /// # Errors
    /// As [`PageAccess::fix_exclusive`].
    pub fn close(&self, access: &P) -> Result<()> {
        self.space.close(access)
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

    /// The page a row is in, held together with other readers; its home is `page`.
    #[cold]
    fn find_shared<'a>(
        &self,
        access: &'a P,
        page: P::Shared<'a>,
        home: Place,
    ) -> Result<Option<LocatedRow<P::Shared<'a>>>> {
        match at_home(page, home) {
            Step::Here(found) => Ok(Some(found)),
            Step::Nowhere => Ok(None),
            Step::Elsewhere(place) => {
                self.find_moved(access, home, place, |id| access.fix_shared(id))
            }
        }
    }

    /// The page a row is in, held alone, not if the row is deleted; its home is `page`.
    #[cold]
    pub(super) fn find_exclusive<'a>(
        &self,
        access: &'a P,
        page: P::Exclusive<'a>,
        home: Place,
    ) -> Result<Option<LocatedRow<P::Exclusive<'a>>>> {
        if page.page().slot(home.slot).is_some_and(Slot::is_ghost) {
            return Ok(None);
        }
        match at_home(page, home) {
            Step::Here(found) => Ok(Some(found)),
            Step::Nowhere => Ok(None),
            Step::Elsewhere(place) => {
                self.find_moved(access, home, place, |id| access.fix_exclusive(id))
            }
        }
    }

    /// Follows the address in a home. The home is not held meanwhile, so that two pages are never
    /// held together; a transaction that has locked the row finds it at the first attempt.
    #[cold]
    pub(super) fn find_moved<G: ReadPage>(
        &self,
        access: &P,
        home: Place,
        mut place: Place,
        fix: impl Fn(PageId) -> Result<G>,
    ) -> Result<Option<LocatedRow<G>>> {
        for _ in 0..MOVES_MAX {
            if let Some(found) = away(fix(place.page)?, place, home) {
                return Ok(Some(found));
            }
            // A statement of its own: the home is let go of before it is fixed again.
            let next = match at_home(access.fix_shared(home.page)?, home) {
                Step::Here(_) => home,
                Step::Elsewhere(next) => next,
                Step::Nowhere => return Ok(None),
            };
            if next != home {
                place = next;
                continue;
            }
            match at_home(fix(home.page)?, home) {
                Step::Here(found) => return Ok(Some(found)),
                Step::Elsewhere(next) => place = next,
                Step::Nowhere => return Ok(None),
            }
        }
        let what = format!("slot {} leads to a row that is not there ({place:?})", home.slot);
        Err(PageError::damaged_page::<P::Size>(home.page, &what))
    }

    /// Makes a record of `bytes` unspecified bytes in a page with room, and hands the page out.
    #[inline(always)]
    pub(super) fn place<'a>(
        &self,
        access: &'a P,
        lane: usize,
        bytes: usize,
        kind: SlotKind,
    ) -> Result<(P::Exclusive<'a>, Place)> {
        loop {
            if let Some(id) = self.space.current(lane) {
                let mut page = access.fix_exclusive(id)?;
                if let Some(slot) = insert(&mut page, bytes, kind) {
                    return Ok((page, Place { page: id, slot, offset: 0 }));
                }
                self.space.give_up(lane, page, bytes);
            }
            let bytes_max = record_bytes_max::<P::Size>();
            if bytes > bytes_max {
                return Err(PageFailure::RecordTooLong { bytes, bytes_max }.into());
            }
            self.space.advance(access, lane, bytes)?;
        }
    }

    /// Removes a record and stamps its page.
    pub(super) fn remove<E: From<PageError>>(
        &self,
        mut page: P::Exclusive<'_>,
        place: Place,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<(), E> {
        let stamp = match page.page().record(place.slot) {
            Some(record) => log(place, &record[usize::from(place.offset)..])?,
            None => return Ok(()),
        };
        let mut change = page.page_mut();
        change.remove(place.slot);
        if let Some(lsn) = stamp {
            change.set_lsn(lsn);
        }
        self.space.note_more_room(&mut page);
        Ok(())
    }

    /// Makes a row a ghost, or a row again, if it is the other.
    fn set_ghost<E: From<PageError>>(
        &self,
        access: &P,
        row: RowId,
        ghost: bool,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        let home = Place::home(row);
        let mut page = access.fix_exclusive(home.page)?;
        let Some(slot) = page.page().slot(home.slot) else { return Ok(false) };
        if slot.is_ghost() == ghost || slot.kind() == SlotKind::Moved {
            return Ok(false);
        }
        let Some(record) = page.page().record(home.slot) else { return Ok(false) };
        let stamp = log(home, record)?;
        let mut change = page.page_mut();
        change.set_ghost(home.slot, ghost);
        if let Some(lsn) = stamp {
            change.set_lsn(lsn);
        }
        Ok(true)
    }
}

/// Makes a record, moving the page's records together if that helps and is allowed.
#[inline(always)]
fn insert(page: &mut impl ExclusivePage, bytes: usize, kind: SlotKind) -> Option<u16> {
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

/// A row held in place: its record, behind the address of its home if it moved.
pub struct HeapPin<R> {
    record: R,
    offset: usize,
}

impl<R: Deref<Target = [u8]>> Deref for HeapPin<R> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.record[self.offset..]
    }
}

impl<P: PageAccess> RowFile<P> for HeapFile<P> {
    type Pin<'a>
        = HeapPin<<P::Shared<'a> as SharedPage>::Pin>
    where
        P: 'a;

    fn create_file(access: &P, store: StoreId, row_bytes: usize) -> Result<Self> {
        let bytes_max = record_bytes_max::<P::Size>();
        if row_bytes > bytes_max {
            return Err(PageFailure::RecordTooLong { bytes: row_bytes, bytes_max }.into());
        }
        Ok(Self { space: HeapSpace::create(access, store)?, marker: PhantomData })
    }

    #[inline]
    fn create<E: From<PageError>>(
        &self,
        access: &P,
        lane: usize,
        bytes: usize,
        fill: impl FnOnce(Place, &mut [u8]) -> Result<Stamp, E>,
    ) -> Result<RowId, E> {
        let (mut page, place) = self.place(access, lane, bytes, SlotKind::Record)?;
        let mut made = Made { page: page.page_mut(), slot: place.slot, is_kept: false };
        let stamp = match made.page.record_mut(place.slot) {
            Some(record) => fill(place, record)?,
            None => None,
        };
        if let Some(lsn) = stamp {
            made.page.set_lsn(lsn);
        }
        made.is_kept = true;
        Ok(place.row())
    }

    #[inline]
    fn read<T>(&self, access: &P, row: RowId, read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let home = Place::home(row);
        let page = access.fix_shared(home.page)?;
        if let Some(record) = page.page().plain_record(home.slot) {
            return Ok(Some(read(record)));
        }
        let Some(found) = self.find_shared(access, page, home)? else { return Ok(None) };
        let Some(record) = found.page.page().record(found.place.slot) else { return Ok(None) };
        Ok(Some(read(&record[usize::from(found.place.offset)..])))
    }

    #[inline]
    fn pin<'a>(&'a self, access: &'a P, row: RowId) -> Result<Option<Self::Pin<'a>>> {
        let home = Place::home(row);
        let page = access.fix_shared(home.page)?;
        if page.page().slot(home.slot).is_some_and(Slot::is_plain) {
            return Ok(page.pin(home.slot).map(|record| HeapPin { record, offset: 0 }));
        }
        let Some(found) = self.find_shared(access, page, home)? else { return Ok(None) };
        let offset = usize::from(found.place.offset);
        Ok(found.page.pin(found.place.slot).map(|record| HeapPin { record, offset }))
    }

    #[inline(always)]
    fn prefetch(&self, access: &P, row: RowId, bytes: usize) {
        let home = Place::home(row);
        let slot = usize::from(home.slot);
        let slot_offset = P::Size::BYTES.saturating_sub((slot + 1) * SLOT_BYTES);
        // Rows of one length that were made one after the other lie in the order of their slots.
        let bytes = bytes.next_multiple_of(RECORD_ALIGNMENT_BYTES);
        let record = (HEADER_BYTES + slot * bytes, bytes);
        access.prefetch(home.page, [(slot_offset, SLOT_BYTES), record]);
    }

    fn exists(&self, access: &P, row: RowId) -> Result<bool> {
        let home = Place::home(row);
        let is_page = row.location() >> 48 == 0 && home.page.0 > 0;
        if !is_page || home.page.0 >= access.page_count() {
            return Ok(false);
        }
        let page = access.fix_shared(home.page)?;
        let is_ours = page.page().kind() == PageKind::Heap && page.page().store() == self.store();
        if !is_ours {
            return Ok(false);
        }
        let slot = page.page().slot(home.slot);
        Ok(slot.is_some_and(|slot| !slot.is_ghost() && slot.kind() != SlotKind::Moved))
    }

    #[inline]
    fn update<E: From<PageError>>(
        &self,
        access: &P,
        row: RowId,
        change: impl FnOnce(Place, &mut [u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        let home = Place::home(row);
        let mut page = access.fix_exclusive(home.page)?;
        let mut view = page.page_mut();
        if let Some(record) = view.plain_record_mut(home.slot) {
            if let Some(lsn) = change(home, record)? {
                view.set_lsn(lsn);
            }
            return Ok(true);
        }
        let Some(LocatedRow { mut page, place }) = self.find_exclusive(access, page, home)? else {
            return Ok(false);
        };
        let mut view = page.page_mut();
        let Some(record) = view.record_mut(place.slot) else { return Ok(false) };
        if let Some(lsn) = change(place, &mut record[usize::from(place.offset)..])? {
            view.set_lsn(lsn);
        }
        Ok(true)
    }

    fn delete<E: From<PageError>>(
        &self,
        access: &P,
        row: RowId,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        self.set_ghost(access, row, true, log)
    }

    fn revive<E: From<PageError>>(
        &self,
        access: &P,
        row: RowId,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        self.set_ghost(access, row, false, log)
    }

    fn purge<E: From<PageError>>(
        &self,
        access: &P,
        row: RowId,
        mut log: impl FnMut(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        let home = Place::home(row);
        let (page, moved) = match at_home(access.fix_exclusive(home.page)?, home) {
            Step::Nowhere => return Ok(false),
            Step::Here(found) => (found.page, None),
            Step::Elsewhere(place) => {
                let moved = self.find_moved(access, home, place, |id| access.fix_exclusive(id))?;
                let place = moved.map(|found| found.place);
                (access.fix_exclusive(home.page)?, place)
            }
        };
        // The home goes first: what a scan meets then leads nowhere, and is skipped.
        self.remove(page, home, &mut log)?;
        if let Some(place) = moved {
            self.remove(access.fix_exclusive(place.page)?, place, &mut log)?;
        }
        Ok(true)
    }

    fn scan(&self, access: &P, visit: impl FnMut(RowId, bool) -> ControlFlow<()>) -> Result<()> {
        self.scan_pages(access, visit)
    }

    fn check(&self, access: &P) -> Vec<Damage> {
        self.check_pages(access)
    }

    fn owned_pages(&self, access: &P) -> Result<Vec<PageId>> {
        let mut pages = self.pages(access)?;
        pages.extend(self.space.maps());
        Ok(pages)
    }
}
