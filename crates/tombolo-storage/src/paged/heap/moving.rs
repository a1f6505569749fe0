//! Rows that change their length: in their page while they fit, else by moving (their ids stay).
//!
//! ```text
//!   home slot            elsewhere
//!   ┌──────────┐         ┌─────────────┬──────────┐
//!   │ address ─┼────────►│ home's addr.│ row      │
//!   └──────────┘         └─────────────┴──────────┘
//!    kind Forward         kind Moved
//! ```
//!
//! A row is at most one step from home: if it moves again the home is updated. One page is held at a
//! time. The steps of a move are separate changes, each passed to the caller, which logs it and
//! undoes the earlier ones if a later one fails; between them the row's lock keeps others from
//! looking, and a reader without the lock (a scan, `find_moved`) looks again.

use super::file::{ADDRESS_BYTES, HeapFile, address_of};
use super::{Place, Stamp};
use crate::paged::page::SlotKind;
use crate::paged::pool::{ExclusivePage, PageAccess, PageError, ReadPage};
use crate::row::RowId;

/// One change of one page while a row gets other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapChange<'a> {
    /// A row, or the address in its home, gets other bytes where it is.
    Replaced {
        /// Where.
        place: Place,
        /// The whole record from `place.offset` on, as it was.
        before: &'a [u8],
        /// As it will be.
        after: &'a [u8],
    },
    /// A row was put down away from its home.
    Arrived {
        /// Where; the home's address is in front.
        place: Place,
        /// Its home.
        home: Place,
        /// Its bytes.
        row: &'a [u8],
    },
    /// A home holds an address from now on, where it held a row.
    Forwarded {
        /// The home.
        place: Place,
        /// The row's bytes, as they were.
        before: &'a [u8],
        /// The address.
        to: Place,
    },
    /// A row that was away from home is taken out there.
    Left {
        /// Where it was.
        place: Place,
        /// Its bytes.
        row: &'a [u8],
    },
}

impl<P: PageAccess> HeapFile<P> {
    /// Gives a row other bytes, as many as there are; `false` if there is no such row. `log` is
    /// called with each change before it is made, in the order they are made.
    ///
    /// # Errors
    /// What `log` fails with, or as [`PageAccess::new_page`]: changes that `log` accepted before
    /// that are made and stay.
    pub fn replace<E: From<PageError>>(
        &self,
        access: &P,
        lane: usize,
        row: RowId,
        after: &[u8],
        mut log: impl FnMut(HeapChange<'_>) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        let home = Place::home(row);
        let page = access.fix_exclusive(home.page)?;
        let Some(found) = self.find_exclusive(access, page, home)? else { return Ok(false) };
        let (mut page, place) = (found.page, found.place);
        let offset = usize::from(place.offset);
        let bytes = offset + after.len();
        let can_compact = page.page().free_bytes() > bytes + ADDRESS_BYTES && page.is_alone();
        if !page.page().fits_resized(place.slot, bytes) && can_compact {
            page.page_mut().compact();
        }
        if !page.page().fits_resized(place.slot, bytes) {
            let before = page.page().record(place.slot).map(|record| record[offset..].to_vec());
            drop(page);
            self.relocate(access, lane, home, place, &before.unwrap_or_default(), after, log)?;
            return Ok(true);
        }
        let stamp = match page.page().record(place.slot) {
            Some(record) => log(HeapChange::Replaced { place, before: &record[offset..], after })?,
            None => return Ok(false),
        };
        let mut change = page.page_mut();
        let resized = change.resize(place.slot, bytes);
        assert!(resized, "a record that fits does not fit");
        if let Some(record) = change.record_mut(place.slot) {
            record[offset..].copy_from_slice(after);
        }
        if let Some(lsn) = stamp {
            change.set_lsn(lsn);
        }
        self.space.note_more_room(&mut page);
        Ok(true)
    }

    /// Puts a row down elsewhere, updates its home, and takes it out where it was.
    #[cold]
    #[expect(
        clippy::too_many_arguments,
        reason = "one step of `replace`, which has found all of it"
    )]
    fn relocate<E: From<PageError>>(
        &self,
        access: &P,
        lane: usize,
        home: Place,
        from: Place,
        before: &[u8],
        after: &[u8],
        mut log: impl FnMut(HeapChange<'_>) -> Result<Stamp, E>,
    ) -> Result<(), E> {
        let to = self.arrive(access, lane, home, after, &mut log)?;
        let address = address_of(to).to_le_bytes();
        let mut page = access.fix_exclusive(home.page)?;
        let stamp = match page.page().record(home.slot) {
            Some(old) if from.offset > 0 => {
                log(HeapChange::Replaced { place: home, before: old, after: &address })?
            }
            _ => log(HeapChange::Forwarded { place: home, before, to })?,
        };
        let mut change = page.page_mut();
        let resized = change.resize(home.slot, ADDRESS_BYTES);
        assert!(resized, "the shortest record takes as much as an address");
        change.set_slot_kind(home.slot, SlotKind::Forward);
        if let Some(record) = change.record_mut(home.slot) {
            record.copy_from_slice(&address);
        }
        if let Some(lsn) = stamp {
            change.set_lsn(lsn);
        }
        self.space.note_more_room(&mut page);
        drop(page);
        if from.offset > 0 {
            let page = access.fix_exclusive(from.page)?;
            self.remove(page, from, |place, row| log(HeapChange::Left { place, row }))?;
        }
        Ok(())
    }

    /// Puts a row down away from its home.
    fn arrive<E: From<PageError>>(
        &self,
        access: &P,
        lane: usize,
        home: Place,
        row: &[u8],
        log: &mut impl FnMut(HeapChange<'_>) -> Result<Stamp, E>,
    ) -> Result<Place, E> {
        let bytes = ADDRESS_BYTES + row.len();
        let (mut page, mut place) = self.place(access, lane, bytes, SlotKind::Moved)?;
        place.offset = ADDRESS_BYTES as u16;
        let mut change = page.page_mut();
        if let Some(record) = change.record_mut(place.slot) {
            record[..ADDRESS_BYTES].copy_from_slice(&address_of(home).to_le_bytes());
            record[ADDRESS_BYTES..].copy_from_slice(row);
        }
        match log(HeapChange::Arrived { place, home, row }) {
            Ok(Some(lsn)) => change.set_lsn(lsn),
            Ok(None) => {}
            Err(error) => {
                change.remove(place.slot);
                return Err(error);
            }
        }
        Ok(Place { offset: 0, ..place })
    }
}
