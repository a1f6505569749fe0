//! `SlabRows`: one row to a slot of a slab, found by pointer (S9 off, second form).
//!
//! Creating a row takes a slot from a free list, reading a row is an address computation. Without pages there are no
//! slot arrays, no free-space management, no LSNs and no moving of records. A cell refuses to create a row while
//! another is held; the session's borrow prevents that, too.

use std::cell::{Ref, RefCell};
use std::ops::ControlFlow;

use super::{Place, RowFile, RowLayout, Stamp};
use crate::latch::Unlatched;
use crate::memory::region::{RESERVATION_BYTES, RegionError};
use crate::memory::slab::Slab;
use crate::memory::variable::{Handle, SizeClasses};
use crate::paged::page::{PageId, PageSize, StoreId};
use crate::paged::pool::{DirectExclusive, LINE_BYTES, PageError, Pointers, Result, SpaceStep};
use crate::paged::structure::Structure;
use crate::row::RowId;
use crate::store::Damage;

/// The rows of a table, in slots of a slab.
pub struct SlabRows {
    slab: RefCell<Slab>,
    /// Variable-length values; rows hold their handles.
    values: RefCell<SizeClasses>,
    layout: RowLayout,
}

impl SlabRows {
    /// The variable-length values of the rows.
    pub(in crate::paged) fn values(&self) -> &RefCell<SizeClasses> {
        &self.values
    }
}

/// A slot that is being filled: it is freed again when the log fails or the filling code panics.
struct Made<'a> {
    slab: &'a mut Slab,
    slot: u32,
    is_kept: bool,
}

impl Drop for Made<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.is_kept {
            self.slab.free(self.slot);
        }
    }
}

/// A slot's number is the row's place: page and slot, but there is no page.
fn place(slot: u32) -> Place {
    Place::of_record(PageId(slot >> 16), slot as u16)
}

/// The slot of a row; of a row that cannot be, a slot that never is.
fn slot(row: RowId) -> u32 {
    u32::try_from(row.location()).unwrap_or(u32::MAX)
}

impl<S: PageSize> RowFile<Pointers<S>> for SlabRows {
    const ON_PAGES: bool = false;

    type Pin<'a> = Ref<'a, [u8]>;

    fn make_file<'a>(
        _: &mut SpaceStep<'a, Pointers<S>>,
        _: StoreId,
        layout: RowLayout,
    ) -> Result<(Self, Option<DirectExclusive<'a, S, Unlatched>>)> {
        let slot_bytes = layout.fixed_bytes.next_multiple_of(8).max(16);
        let slab = RefCell::new(Slab::new(slot_bytes, RESERVATION_BYTES)?);
        let values = RefCell::new(SizeClasses::new(RESERVATION_BYTES));
        Ok((Self { slab, values, layout }, None))
    }

    fn open_file(_: &Pointers<S>, _: PageId, _: RowLayout) -> Result<Option<Self>> {
        Ok(None)
    }

    #[inline(always)]
    fn layout(&self) -> &RowLayout {
        &self.layout
    }

    fn saved_root(&self) -> Option<PageId> {
        None
    }

    fn save(&self, _: &Pointers<S>, _: &impl Structure) -> Result<()> {
        Ok(())
    }

    /// # Panics
    /// When the row is not as long as the file was made for.
    #[inline]
    fn create<E: From<PageError>>(
        &self,
        _: &Pointers<S>,
        _: usize,
        bytes: usize,
        fill: impl FnOnce(Place, &mut [u8]) -> Result<Stamp, E>,
        _: &impl Structure,
    ) -> Result<RowId, E> {
        assert_eq!(bytes, self.layout.fixed_bytes, "rows of a slab are of one length");
        let mut slab = self.slab.borrow_mut();
        let slot = slab.allocate().map_err(|error: RegionError| PageError::from(error))?;
        let place = place(slot);
        let mut made = Made { slab: &mut slab, slot, is_kept: false };
        made.slab.head_mut(slot.into(), bytes).map(|row| fill(place, row)).transpose()?;
        made.is_kept = true;
        Ok(place.row())
    }

    #[inline]
    fn read<T>(
        &self,
        _: &Pointers<S>,
        row: RowId,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        Ok(self.slab.borrow().head(row.location(), self.layout.fixed_bytes).map(read))
    }

    #[inline]
    fn pin<'a>(&'a self, _: &'a Pointers<S>, row: RowId) -> Result<Option<Ref<'a, [u8]>>> {
        Ok(Ref::filter_map(self.slab.borrow(), |slab| {
            slab.head(row.location(), self.layout.fixed_bytes)
        })
        .ok())
    }

    #[inline(always)]
    fn prefetch(&self, _: &Pointers<S>, row: RowId, (start, end): (usize, usize)) {
        let slab = self.slab.borrow();
        for offset in (start..end).step_by(LINE_BYTES) {
            slab.prefetch(slot(row), offset);
        }
    }

    fn exists(&self, _: &Pointers<S>, row: RowId) -> Result<bool> {
        Ok(self.slab.borrow().is_live(slot(row)))
    }

    #[inline]
    fn update<E: From<PageError>>(
        &self,
        _: &Pointers<S>,
        row: RowId,
        change: impl FnOnce(Place, &mut [u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        let mut slab = self.slab.borrow_mut();
        let slot = slot(row);
        if !slab.is_live(slot) {
            return Ok(false);
        }
        let row = slab.head_mut(slot.into(), self.layout.fixed_bytes);
        row.map(|row| change(place(slot), row)).transpose()?;
        Ok(true)
    }

    fn create_value<E: From<PageError>>(
        &self,
        _: &Pointers<S>,
        _: usize,
        _: RowId,
        value: &[u8],
        _: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
        _: &impl Structure,
    ) -> Result<u64, E> {
        let put = self.values.borrow_mut().put(value);
        Ok(put.map_err(PageError::from)?.to_bits())
    }

    /// It is gone immediately: nothing takes that back where rows lie outside pages.
    fn give_up_value(&self, handle: u64) -> Option<Place> {
        self.values.borrow_mut().free(Handle::from_bits(handle));
        None
    }

    fn delete<E: From<PageError>>(
        &self,
        _: &Pointers<S>,
        place: Place,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        let mut slab = self.slab.borrow_mut();
        let slot = slot(place.row());
        if !slab.is_live(slot) {
            return Ok(false);
        }
        let row = slab.head(slot.into(), self.layout.fixed_bytes);
        row.map(|row| log(place, row)).transpose()?;
        Ok(slab.retire(slot))
    }

    fn revive<E: From<PageError>>(
        &self,
        _: &Pointers<S>,
        place: Place,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        let mut slab = self.slab.borrow_mut();
        let slot = slot(place.row());
        if slot >= slab.used() || slab.is_live(slot) {
            return Ok(false);
        }
        let row = slab.head(slot.into(), self.layout.fixed_bytes);
        row.map(|row| log(place, row)).transpose()?;
        slab.revive(slot);
        Ok(true)
    }

    fn purge<E: From<PageError>>(
        &self,
        _: &Pointers<S>,
        place: Place,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        let mut slab = self.slab.borrow_mut();
        let slot = slot(place.row());
        if slot >= slab.used() {
            return Ok(false);
        }
        let row = slab.head(slot.into(), self.layout.fixed_bytes);
        row.map(|row| log(place, row)).transpose()?;
        slab.retire(slot);
        slab.release(slot);
        Ok(true)
    }

    /// Deleted rows are not visited: only this one session can have deleted them.
    fn scan(
        &self,
        _: &Pointers<S>,
        mut visit: impl FnMut(RowId, bool) -> ControlFlow<()>,
    ) -> Result<()> {
        let live: Vec<u32> = self.slab.borrow().live().collect();
        for slot in live {
            if visit(place(slot).row(), false).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        (self.slab.borrow().committed_bytes() + self.values.borrow().committed_bytes()) as u64
    }

    /// Rows lie in no page.
    fn owned_pages(&self, _: &Pointers<S>) -> Result<Vec<PageId>> {
        Ok(Vec::new())
    }

    /// Without a log no transaction is prepared.
    fn check_with_deleted(&self, _: &Pointers<S>, _: &dyn Fn(Place) -> bool) -> Vec<Damage> {
        let (slab, values) = (self.slab.borrow(), self.values.borrow());
        let rows = slab.live().filter_map(|slot| slab.head(slot.into(), self.layout.fixed_bytes));
        let handles =
            rows.flat_map(|row| self.layout.handles.iter().map(|&at| Handle::read(row, at)));
        let checked = slab.check().and_then(|()| values.check_handles(handles));
        checked.err().map(|what| Damage { check: "slabs", what }).into_iter().collect()
    }
}
