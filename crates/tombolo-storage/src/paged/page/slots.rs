//! Records by slot: making, changing, removing them, and compacting the page's scattered space.
//!
//! A record keeps its slot number for life; the slot of a removed record keeps the hole, and a later record of its
//! size takes both. A *ghost* is a record whose removal is not committed: its space and slot stay taken, so taking
//! the removal back cannot fail.
//!
//! Not here: which value belongs to which row (heap), index pages (`paged/btree/node.rs`), locks, log.

use super::format::{
    FREE_BYTES, FREE_SLOT, FREE_START, GHOST, HEADER_BYTES, KIND_MASK, KIND_SHIFT, LENGTH_MASK,
    LENGTH_SHIFT, NO_SLOT, OFFSET_MASK, RECORD_ALIGNMENT_BYTES, RECORD_BYTES_MIN, SLOT_BYTES,
    SLOT_COUNT,
};
use super::{PAGE_BYTES_MAX, Page, PageMut, PageSize};

/// What a slot says of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SlotKind {
    /// There is none.
    Free = 0,
    /// A record: a row's fixed part.
    Record = 1,
    /// A variable-length value of a row.
    Value = 2,
}

impl SlotKind {
    /// The kind a number means.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            0 => Some(Self::Free),
            1 => Some(Self::Record),
            2 => Some(Self::Value),
            _ => None,
        }
    }

    /// Where it stands in a slot.
    #[inline(always)]
    const fn in_slot(self) -> u32 {
        (self as u32) << KIND_SHIFT
    }
}

/// A slot that is in use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    fn new(offset: usize, length: usize, kind: SlotKind) -> Self {
        debug_assert!(offset.is_multiple_of(RECORD_ALIGNMENT_BYTES));
        let place = (offset / RECORD_ALIGNMENT_BYTES) as u32;
        Self(place | (length as u32) << LENGTH_SHIFT | kind.in_slot())
    }

    /// What the slot says of its record.
    #[inline(always)]
    pub fn kind(self) -> SlotKind {
        // `verify` refuses slots of no kind.
        self.kind_if_any().unwrap_or(SlotKind::Value)
    }

    #[inline(always)]
    pub(super) fn kind_if_any(self) -> Option<SlotKind> {
        SlotKind::from_bits((self.0 & KIND_MASK) >> KIND_SHIFT)
    }

    #[inline(always)]
    fn is_of(self, kind: SlotKind) -> bool {
        self.0 & KIND_MASK == kind.in_slot()
    }

    /// Whether its removal is not committed.
    #[inline(always)]
    pub fn is_ghost(self) -> bool {
        self.0 & GHOST != 0
    }

    /// Whether it holds a record that is no ghost: one compare.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        self.0 >> KIND_SHIFT == SlotKind::Record as u32
    }

    /// Where the record begins in its page.
    #[inline(always)]
    pub fn offset(self) -> usize {
        (self.0 & OFFSET_MASK) as usize * RECORD_ALIGNMENT_BYTES
    }

    /// The record's length.
    #[inline(always)]
    #[expect(clippy::len_without_is_empty, reason = "a slot is no container")]
    pub fn len(self) -> usize {
        (self.0 >> LENGTH_SHIFT & LENGTH_MASK) as usize
    }

    fn end(self) -> usize {
        self.offset() + space(self.len())
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ghost = if self.is_ghost() { " ghost" } else { "" };
        write!(f, "{:?}{ghost} {}+{}", self.kind(), self.offset(), self.len())
    }
}

/// Space a record of `length` bytes takes.
#[inline(always)]
const fn space(length: usize) -> usize {
    let length = if length < RECORD_BYTES_MIN { RECORD_BYTES_MIN } else { length };
    length.next_multiple_of(RECORD_ALIGNMENT_BYTES)
}

/// Where the slots begin if there are `count`.
#[inline(always)]
const fn slots_start<S: PageSize>(count: u16) -> usize {
    S::BYTES - count as usize * SLOT_BYTES
}

#[inline(always)]
const fn slot_offset<S: PageSize>(slot: u16) -> usize {
    S::BYTES - (slot as usize + 1) * SLOT_BYTES
}

/// The four numbers of the header that every insertion changes: they lie together, and are read and
/// written as one.
#[derive(Clone, Copy)]
struct Room {
    slot_count: u16,
    free_start: u16,
    free_bytes: u16,
    free_slot: u16,
}

const _: () = assert!(
    FREE_START == SLOT_COUNT + 2 && FREE_BYTES == SLOT_COUNT + 4 && FREE_SLOT == SLOT_COUNT + 6
);

impl Room {
    #[inline(always)]
    fn of<S: PageSize>(page: Page<'_, S>) -> Self {
        let all = page.u64_at(SLOT_COUNT);
        Self {
            slot_count: all as u16,
            free_start: (all >> 16) as u16,
            free_bytes: (all >> 32) as u16,
            free_slot: (all >> 48) as u16,
        }
    }

    #[inline(always)]
    fn put<S: PageSize>(self, page: &mut PageMut<'_, S>) {
        let (low, high) = (u64::from(self.slot_count), u64::from(self.free_slot));
        let middle = u64::from(self.free_bytes) << 16 | u64::from(self.free_start);
        page.set_u64(SLOT_COUNT, high << 48 | middle << 16 | low);
    }
}

impl<'a, S: PageSize> Page<'a, S> {
    /// How many slots there are, free ones among them.
    #[inline(always)]
    pub fn slot_count(self) -> u16 {
        self.u16_at(SLOT_COUNT)
    }

    /// Space in all: what would be free after compaction.
    #[inline(always)]
    pub fn free_bytes(self) -> usize {
        self.u16_at(FREE_BYTES) as usize
    }

    #[inline(always)]
    pub(super) fn free_start(self) -> usize {
        self.u16_at(FREE_START) as usize
    }

    #[inline(always)]
    pub(super) fn free_slot(self) -> u16 {
        self.u16_at(FREE_SLOT)
    }

    /// Space between records and slots.
    #[inline(always)]
    pub fn contiguous_bytes(self) -> usize {
        S::BYTES - self.slot_count() as usize * SLOT_BYTES - self.free_start()
    }

    /// Whether a record of `length` bytes fits once the page is compacted.
    #[inline]
    pub fn has_room_for(self, length: usize) -> bool {
        let slot_bytes = if self.free_slot() == NO_SLOT { SLOT_BYTES } else { 0 };
        self.free_bytes() >= space(length) + slot_bytes
    }

    #[inline(always)]
    pub(super) fn raw_slot(self, slot: u16) -> Slot {
        Slot(self.u32_at(slot_offset::<S>(slot)))
    }

    /// The slot, if it is in use.
    #[inline(always)]
    pub fn slot(self, slot: u16) -> Option<Slot> {
        if slot >= self.slot_count() {
            return None;
        }
        let found = self.raw_slot(slot);
        (!found.is_of(SlotKind::Free)).then_some(found)
    }

    /// The slot, if it holds something of this kind, which is not free.
    #[inline(always)]
    pub fn slot_of(self, slot: u16, kind: SlotKind) -> Option<Slot> {
        debug_assert!(kind != SlotKind::Free);
        if slot >= self.slot_count() {
            return None;
        }
        Some(self.raw_slot(slot)).filter(|found| found.is_of(kind))
    }

    /// The bytes in `slot`, if they are of this kind.
    #[inline(always)]
    pub fn record_of(self, slot: u16, kind: SlotKind) -> Option<&'a [u8]> {
        let slot = self.slot_of(slot, kind)?;
        Some(self.slice(slot.offset(), slot.len()))
    }

    /// The bytes of the record in `slot`, whatever its kind.
    #[inline(always)]
    pub fn record(self, slot: u16) -> Option<&'a [u8]> {
        let slot = self.slot(slot)?;
        Some(self.slice(slot.offset(), slot.len()))
    }

    /// Where the next free slot is.
    pub(super) fn free_link(self, slot: u16) -> u16 {
        let free = self.raw_slot(slot);
        debug_assert_eq!(free.kind(), SlotKind::Free);
        // A slot without a hole keeps the link where the length would be.
        if free.offset() != 0 { self.u16_at(free.offset()) } else { unpack_link(free.len()) }
    }
}

/// Links of free slots without a hole have 15 bits; all ones mean the end.
fn unpack_link(length: usize) -> u16 {
    if length == LENGTH_MASK as usize { NO_SLOT } else { length as u16 }
}

impl<S: PageSize> PageMut<'_, S> {
    #[inline(always)]
    fn set_slot(&mut self, slot: u16, value: Slot) {
        self.set_u32(slot_offset::<S>(slot), value.0);
    }

    #[inline(always)]
    fn add_free_bytes(&mut self, bytes: usize) {
        let free = self.read().free_bytes() + bytes;
        self.set_u16(FREE_BYTES, free as u16);
    }

    #[inline(always)]
    fn take_free_bytes(&mut self, bytes: usize) {
        let free = self.read().free_bytes();
        debug_assert!(free >= bytes);
        self.set_u16(FREE_BYTES, (free - bytes) as u16);
    }

    /// Takes `bytes` bytes from the contiguous space.
    #[inline(always)]
    fn take_contiguous(&mut self, bytes: usize) -> usize {
        let offset = self.read().free_start();
        self.set_u16(FREE_START, (offset + bytes) as u16);
        self.take_free_bytes(bytes);
        offset
    }

    /// Makes a record of `length` bytes, which are unspecified, in a slot of its own; `None` where
    /// compaction would be needed, or more room than there is.
    #[inline]
    pub fn insert(&mut self, length: usize, kind: SlotKind) -> Option<u16> {
        debug_assert!(kind != SlotKind::Free);
        let (space, mut room) = (space(length), Room::of(self.read()));
        if room.free_slot != NO_SLOT {
            return self.insert_into_free_slot(length, kind);
        }
        let (slot, offset) = (room.slot_count, usize::from(room.free_start));
        if offset + space + SLOT_BYTES > slots_start::<S>(slot) {
            return None;
        }
        room.slot_count += 1;
        room.free_start += space as u16;
        room.free_bytes -= (space + SLOT_BYTES) as u16;
        room.put(self);
        self.set_slot(slot, Slot::new(offset, length, kind));
        Some(slot)
    }

    /// `insert` into a slot that was free, and its hole if that is large enough.
    fn insert_into_free_slot(&mut self, length: usize, kind: SlotKind) -> Option<u16> {
        let (page, space) = (self.read(), space(length));
        let free = page.free_slot();
        let (hole, link) = (page.raw_slot(free), page.free_link(free));
        let offset = if hole.offset() != 0 && hole.len() >= space {
            self.take_free_bytes(space);
            hole.offset()
        } else if page.contiguous_bytes() >= space {
            self.take_contiguous(space)
        } else {
            return None;
        };
        self.set_u16(FREE_SLOT, link);
        self.set_slot(free, Slot::new(offset, length, kind));
        Some(free)
    }

    /// Makes a record of `length` bytes, which are unspecified, in this slot: how an insertion is redone. `false`
    /// where the slot is in use or there is no room. No other thread may have the page fixed.
    pub fn insert_into(&mut self, slot: u16, length: usize, kind: SlotKind) -> bool {
        let page = self.read();
        if page.slot(slot).is_some() {
            return false;
        }
        let first = if page.free_slot() == NO_SLOT { page.slot_count() } else { page.free_slot() };
        if first == slot && self.insert(length, kind).is_some() {
            return true;
        }
        // The page was arranged in another way when the record was made: with the same records, so it fits.
        self.arrange(Some(slot)) && self.insert(length, kind) == Some(slot)
    }

    /// Removes the record in `slot`; a later one may take slot and space.
    ///
    /// # Panics
    /// When there is none.
    pub fn remove(&mut self, slot: u16) {
        let Some(found) = self.read().slot(slot) else { no_such_slot(slot) };
        let space = space(found.len());
        if slot + 1 == self.read().slot_count() && found.end() == self.read().free_start() {
            // The last one in both respects: as if it had never been.
            self.set_u16(SLOT_COUNT, slot);
            self.set_u16(FREE_START, found.offset() as u16);
            self.add_free_bytes(space + SLOT_BYTES);
            return;
        }
        let link = self.read().free_slot();
        self.set_u16(found.offset(), link);
        self.set_slot(slot, Slot::new(found.offset(), space, SlotKind::Free));
        self.set_u16(FREE_SLOT, slot);
        self.add_free_bytes(space);
    }

    /// Makes the record in `slot` a ghost, or a record again.
    ///
    /// # Panics
    /// When there is none.
    pub fn set_ghost(&mut self, slot: u16, ghost: bool) {
        let Some(found) = self.read().slot(slot) else { no_such_slot(slot) };
        self.set_slot(slot, Slot(if ghost { found.0 | GHOST } else { found.0 & !GHOST }));
    }

    /// The bytes of the record in `slot`, to be changed, if it is a record and no ghost.
    #[inline(always)]
    pub fn plain_record_mut(&mut self, slot: u16) -> Option<&mut [u8]> {
        if slot >= self.read().slot_count() {
            return None;
        }
        let found = self.read().raw_slot(slot);
        if !found.is_plain() {
            return None;
        }
        Some(self.slice_mut(found.offset(), found.len()))
    }

    /// The bytes of the record in `slot`, to be changed.
    #[inline(always)]
    pub fn record_mut(&mut self, slot: u16) -> Option<&mut [u8]> {
        let slot = self.read().slot(slot)?;
        Some(self.slice_mut(slot.offset(), slot.len()))
    }

    /// Moves all records together, so that all free space is contiguous, and forgets free slots at
    /// the end. Slot numbers stay. No other thread may have the page fixed: records move.
    pub fn compact(&mut self) {
        self.arrange(None);
    }

    /// [`PageMut::compact`]; `free`, which holds no record, is the first free slot then, even if it did not
    /// exist. `false` if there is no room for that.
    fn arrange(&mut self, free: Option<u16>) -> bool {
        let mut before = [0; PAGE_BYTES_MAX];
        let before = &mut before[..S::BYTES];
        before.copy_from_slice(self.read().bytes());
        let old = self.read().slot_count();
        let is_free = |page: Page<'_, S>, slot| slot >= old || page.slot(slot).is_none();
        let mut count = old;
        while count > 0 && is_free(self.read(), count - 1) {
            count -= 1;
        }
        let used = (0..count).filter_map(|slot| self.read().slot(slot));
        let bytes: usize = used.map(|found| space(found.len())).sum();
        count = count.max(free.map_or(0, |slot| slot.saturating_add(1)));
        if HEADER_BYTES + bytes + usize::from(count) * SLOT_BYTES > S::BYTES {
            return false;
        }
        let (mut start, mut free_slot) = (HEADER_BYTES, NO_SLOT);
        // Downwards, so that the list of free slots begins with the lowest.
        for slot in (0..count).rev() {
            if is_free(self.read(), slot) {
                if free != Some(slot) {
                    self.set_free_slot(slot, free_slot);
                    free_slot = slot;
                }
                continue;
            }
            let found = self.read().raw_slot(slot);
            let record = &before[found.offset()..found.offset() + found.len()];
            self.slice_mut(start, found.len()).copy_from_slice(record);
            let place = (start / RECORD_ALIGNMENT_BYTES) as u32;
            self.set_slot(slot, Slot(found.0 & !OFFSET_MASK | place));
            start += space(found.len());
        }
        if let Some(slot) = free {
            self.set_free_slot(slot, free_slot);
            free_slot = slot;
        }
        self.set_u16(SLOT_COUNT, count);
        self.set_u16(FREE_START, start as u16);
        self.set_u16(FREE_SLOT, free_slot);
        let free = self.read().contiguous_bytes();
        self.set_u16(FREE_BYTES, free as u16);
        debug_assert_eq!(self.read().check(), Ok(()));
        true
    }

    /// Makes a free slot without a hole that leads to another one.
    fn set_free_slot(&mut self, slot: u16, next: u16) {
        let link = usize::from(next) & LENGTH_MASK as usize;
        self.set_slot(slot, Slot::new(0, link, SlotKind::Free));
    }
}

/// Space a record of `length` bytes takes, its slot not counted.
pub(super) const fn record_space(length: usize) -> usize {
    space(length)
}

#[cold]
#[inline(never)]
fn no_such_slot(slot: u16) -> ! {
    panic!("slot {slot} holds no record");
}

const _: () = assert!(HEADER_BYTES > 0, "offset 0 can mean that there is no hole");
