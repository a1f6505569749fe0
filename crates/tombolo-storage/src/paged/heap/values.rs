//! Variable-length values: each in a slot of its own, near its row where there is room.
//!
//! ```text
//!   slot of kind Record                    slots of kind Value, in any page of the file
//!   ┌────────────────────────────┐         ┌───────┐
//!   │ fixed part, with handles ──┼────────►│ bytes │
//!   └────────────────────────────┘         └───────┘
//! ```
//!
//! | bits of a handle | meaning; all of them 0: no bytes, no slot |
//! |---|---|
//! | 0–15 | length |
//! | 16–31 | slot |
//! | 32–63 | page |
//!
//! A value never changes: a new value is stored, the row gets its handle, and the old value is deleted
//! like a row. So rows never move, and abort needs no space. Only its row leads to a value: a transaction that
//! holds the row's lock may read the value, and one that holds the lock exclusively may delete it.
//!
//! A copy of a row has its values behind the fixed part; its handles have their offsets in the copy (bits 32–63) and
//! their lengths. Not here: which columns have handles.

use super::file::{HeapFile, insert};
use super::{Place, RowFile, Stamp};
use crate::latch::Latching;
use crate::memory::variable::HANDLE_BYTES;
use crate::paged::page::{Page, PageId, PageSize, SlotKind};
use crate::paged::pool::{
    DirectFrames, DirectPin, PageAccess, PageError, ReadPage, Result, SharedPage,
};
use crate::paged::structure::Structure;
use crate::row::RowId;

/// The handle at offset `at` of a row.
pub(in crate::paged) fn read_handle(row: &[u8], at: usize) -> u64 {
    let mut bytes = [0; HANDLE_BYTES];
    bytes.copy_from_slice(&row[at..at + HANDLE_BYTES]);
    u64::from_le_bytes(bytes)
}

/// The value that a handle of a copied row names.
pub(in crate::paged) fn value_in_copy(copy: &[u8], handle: u64) -> &[u8] {
    &copy[(handle >> 32) as usize..][..handle as u32 as usize]
}

pub(super) fn handle_of(place: Place, bytes: usize) -> u64 {
    debug_assert!(place.page.0 > 0 && bytes <= usize::from(u16::MAX));
    u64::from(place.page.0) << 32 | u64::from(place.slot) << 16 | bytes as u64
}

/// Where a handle's value lies; `None` if it has no bytes.
pub(in crate::paged) fn place_of_value(handle: u64) -> Option<Place> {
    let (page, slot) = (PageId((handle >> 32) as u32), (handle >> 16) as u16);
    (handle != 0).then_some(Place { page, slot, kind: SlotKind::Value })
}

/// The value of a handle in frames that stay, which outlives no change of it.
///
/// # Errors
/// When it is not there.
pub(in crate::paged) fn value_in_frame<S: PageSize, L: Latching>(
    frames: &DirectFrames<S, L>,
    handle: u64,
) -> Result<&[u8]> {
    let Some(place) = place_of_value(handle) else { return Ok(&[]) };
    let page = frames.fix_shared(place.page)?;
    value_in(page.page(), handle)?;
    Ok(page.pin(place.slot).map(DirectPin::bytes).unwrap_or_default())
}

/// The value of a handle, a deleted one until it is purged, in the page where it should be.
///
/// # Errors
/// When it is not there.
fn value_in<S: PageSize>(page: Page<'_, S>, handle: u64) -> Result<&[u8]> {
    let slot = (handle >> 16) as u16;
    let value = page.record_of(slot, SlotKind::Value);
    value.filter(|value| value.len() == usize::from(handle as u16)).ok_or_else(|| {
        let what = format!("slot {slot} does not hold the value that a row has there");
        PageError::damaged_page::<S>(page.id(), &what)
    })
}

impl<P: PageAccess> HeapFile<P> {
    /// Puts a value down, in the page `near` if there is room, and returns its handle.
    pub(super) fn put_value<E: From<PageError>>(
        &self,
        access: &P,
        lane: usize,
        near: PageId,
        value: &[u8],
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
        structure: &impl Structure,
    ) -> Result<u64, E> {
        if value.is_empty() {
            return Ok(0);
        }
        let kind = SlotKind::Value;
        let mut page = access.fix_exclusive(near)?;
        let (mut page, place) = match insert(&mut page, value.len(), kind) {
            Some(slot) => (page, Place { page: near, slot, kind }),
            None => {
                drop(page);
                self.place(access, lane, value.len(), kind, structure)?
            }
        };
        Self::fill(&mut page, place, |place, record| {
            record.copy_from_slice(value);
            log(place, record)
        })?;
        Ok(handle_of(place, value.len()))
    }

    /// Appends a row, a deleted one until it is purged, and its values to `copy`, which is empty;
    /// `false` if there is no row. One page is held at a time.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`], or when a value is not where it should be.
    pub(in crate::paged) fn copy_with_values(
        &self,
        access: &P,
        row: RowId,
        copy: &mut Vec<u8>,
    ) -> Result<bool> {
        let Place { page: home, slot, kind } = Place::of_row(row);
        let mut page = access.fix_shared(home)?;
        let Some(record) = page.page().record_of(slot, kind) else { return Ok(false) };
        copy.extend_from_slice(record);
        for &at in &self.layout().handles {
            let handle = read_handle(copy, at);
            let Some(place) = place_of_value(handle) else { continue };
            if page.page().id() != place.page {
                drop(page);
                page = access.fix_shared(place.page)?;
            }
            let value = value_in(page.page(), handle)?;
            let in_copy = (copy.len() as u64) << 32 | value.len() as u64;
            copy[at..at + HANDLE_BYTES].copy_from_slice(&in_copy.to_le_bytes());
            copy.extend_from_slice(value);
        }
        Ok(true)
    }
}
