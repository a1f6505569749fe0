//! Checks of a page: `verify` when it is read from a file, `check` for the checker.
//!
//! `verify` (checksum, number, kind, every slot inside the page) is what the rest of the module
//! relies on to stay inside the page; `check` also proves that records do not overlap, that free
//! space and free slots are all accounted for.

use super::format::{self, HEADER_BYTES, NO_SLOT, RECORD_ALIGNMENT_BYTES, SLOT_BYTES};
use super::slots::{SlotKind, record_space};
use super::{PAGE_BYTES_MAX, Page, PageId, PageKind, PageMut, PageSize};
use crate::checksum;

impl<S: PageSize> Page<'_, S> {
    fn computed_checksum(self) -> u32 {
        checksum::append(0, &self.bytes()[format::ID..])
    }

    /// Whether the stored checksum is that of the bytes.
    ///
    /// # Errors
    /// Both checksums, in words.
    pub fn verify_checksum(self) -> Result<(), String> {
        let (stored, computed) = (self.u32_at(format::CHECKSUM), self.computed_checksum());
        if stored == computed {
            return Ok(());
        }
        Err(format!("the checksum is {stored:08x} and should be {computed:08x}"))
    }

    /// Whether the bytes can be read as page `id`: every other method relies on it.
    ///
    /// # Errors
    /// What cannot be, in words.
    pub fn verify(self, id: PageId) -> Result<(), String> {
        if self.id() != id {
            return Err(format!("it says it is page {}", self.id().0));
        }
        let kind = self.u8_at(format::KIND);
        if PageKind::from_byte(kind).is_none() {
            return Err(format!("there is no page kind {kind}"));
        }
        let slots_start = S::BYTES.checked_sub(usize::from(self.slot_count()) * SLOT_BYTES);
        let free_start = self.free_start();
        if free_start < HEADER_BYTES || slots_start.is_none_or(|start| start < free_start) {
            return Err(format!("{} slots overlap the records", self.slot_count()));
        }
        let free_slot = self.free_slot();
        if free_slot != NO_SLOT && free_slot >= self.slot_count() {
            return Err(format!("free slot {free_slot} does not exist"));
        }
        for number in 0..self.slot_count() {
            let slot = self.raw_slot(number);
            if slot.kind_if_any().is_none() {
                return Err(format!("slot {number} is of no kind there is"));
            }
            let has_place = slot.kind() != SlotKind::Free || slot.offset() != 0;
            let outside =
                slot.offset() < HEADER_BYTES || slot.offset() + record_space(slot.len()) > S::BYTES;
            if has_place && outside {
                return Err(format!("slot {number} leads outside the page ({slot:?})"));
            }
        }
        Ok(())
    }

    /// Whether records, free space and free slots fit together.
    ///
    /// # Errors
    /// The first thing that does not, in words.
    pub fn check(self) -> Result<(), String> {
        self.verify(self.id())?;
        let mut taken = [false; PAGE_BYTES_MAX / RECORD_ALIGNMENT_BYTES];
        let (mut record_bytes, mut free_slots) = (0, 0);
        for number in 0..self.slot_count() {
            let slot = self.raw_slot(number);
            if slot.kind() == SlotKind::Free {
                free_slots += 1;
                continue;
            }
            let (start, end) = (slot.offset(), slot.offset() + record_space(slot.len()));
            record_bytes += end - start;
            if end > self.free_start() {
                return Err(format!("the record of slot {number} lies in free space ({slot:?})"));
            }
            let units = start / RECORD_ALIGNMENT_BYTES..end / RECORD_ALIGNMENT_BYTES;
            if taken[units.clone()].contains(&true) {
                return Err(format!("the record of slot {number} overlaps another ({slot:?})"));
            }
            taken[units].fill(true);
        }
        let slot_bytes = usize::from(self.slot_count()) * SLOT_BYTES;
        let free = S::BYTES - HEADER_BYTES - slot_bytes - record_bytes;
        if self.free_bytes() != free {
            return Err(format!("{free} bytes are free, {} are counted", self.free_bytes()));
        }
        self.check_free_slots(free_slots)
    }

    fn check_free_slots(self, free_slots: usize) -> Result<(), String> {
        let (mut listed, mut slot) = (0, self.free_slot());
        while slot != NO_SLOT {
            if slot >= self.slot_count() || self.raw_slot(slot).kind() != SlotKind::Free {
                return Err(format!("slot {slot} is listed as free and is not"));
            }
            listed += 1;
            if listed > free_slots {
                return Err("the list of free slots has a cycle".to_owned());
            }
            slot = self.free_link(slot);
        }
        if listed != free_slots {
            return Err(format!("{free_slots} slots are free, {listed} are listed"));
        }
        Ok(())
    }
}

impl<S: PageSize> PageMut<'_, S> {
    /// Stamps the checksum of everything else: the last thing before the page is written.
    pub fn stamp_checksum(&mut self) {
        let checksum = self.read().computed_checksum();
        self.set_u32(format::CHECKSUM, checksum);
        debug_assert_eq!(self.read().verify_checksum(), Ok(()));
    }
}
