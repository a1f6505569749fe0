//! `Slab`: slots of one size in a region, addressed by a 32-bit id.
//!
//! A slot is at `base + id * slot_bytes` for as long as the slab lives. Freed slots form a
//! last-in-first-out list through their own first four bytes; a bitmap next to the memory marks
//! live slots, for iteration, for the checker and to detect a double free. The content of
//! a newly allocated slot is unspecified: zero if the slot is fresh, otherwise that of its last owner,
//! except for the four bytes of the link. The other bytes of a freed slot do not change until it
//! is allocated again (the trees rely on that for their versions).
//!
//! Bounds: the safe accessors compare the id with the number of slots ever handed out (one comparison)
//! and panic beyond it, because a wrong id is a defect in the store. They do not check whether the
//! slot is live; that is asserted only in debug builds and under `cfg(tombolo_verify)`.
//! [`Slab::pointer`] compares nothing and is safe as long as the pointer it returns is not
//! dereferenced.
//!
//! Not here: what the slots mean, latches, several threads.
//!
//! Invariants: `len + free slots == used <= capacity`; a slot is on the free list exactly if it is
//! below `used` and its bit is clear.
//!
//! Implements the fixed-slot heaps of the memory store (LG-S11; TPK mirrors them slot by slot in
//! DB′).

mod generations;
mod pieces;

use super::budget::Allowance;
use super::region::{Region, RegionError};
use generations::Generations;

/// Whether checks that are too expensive for every access are compiled in.
pub(super) const VERIFY: bool = cfg!(any(debug_assertions, tombolo_verify));

/// The end of the free list, and an id that no slot ever has.
pub const NO_SLOT: u32 = u32::MAX;

const SLOT_BYTES_MIN: usize = 16;

/// The distance after the slot being filled at which memory is prefetched. It was last touched when it
/// was committed, so it is in no cache.
const AHEAD_BYTES: usize = 1024;

/// Slots of one size. See the module's head.
#[derive(Debug)]
pub struct Slab {
    region: Region,
    slot_bytes: usize,
    /// Slots below this id have been handed out at least once.
    used: u32,
    /// Slots below this id are committed.
    capacity: u32,
    free_head: u32,
    len: u32,
    /// One bit per slot, set while it is live; covers `capacity` slots.
    live: Vec<u64>,
    generations: Generations,
}

impl Slab {
    /// A slab of slots of `slot_bytes` (a multiple of 8, at least 16), within `allowance`.
    /// Commits no memory yet.
    ///
    /// # Errors
    /// [`RegionError::Reserve`] when the system refuses the address space.
    ///
    /// # Panics
    /// When the slot size is invalid; it comes from a layout computed by the store, not from a
    /// user.
    pub fn new(slot_bytes: usize, allowance: impl Into<Allowance>) -> Result<Slab, RegionError> {
        assert!(
            slot_bytes >= SLOT_BYTES_MIN && slot_bytes.is_multiple_of(8),
            "slot size {slot_bytes}"
        );
        let region = Region::reserve(allowance)?;
        let generations = Generations::none(&region);
        Ok(Slab {
            region,
            generations,
            slot_bytes,
            used: 0,
            capacity: 0,
            free_head: NO_SLOT,
            len: 0,
            live: Vec::new(),
        })
    }

    /// Takes a slot, the most recently freed one if there is any. Its content is unspecified.
    ///
    /// # Errors
    /// The slab has reached its limit or the system has no memory.
    #[inline]
    pub fn allocate(&mut self) -> Result<u32, RegionError> {
        let id = if self.free_head != NO_SLOT {
            let id = self.free_head;
            self.free_head = self.link(id);
            id
        } else {
            if self.used == self.capacity {
                self.grow(self.used as usize + 1)?;
            }
            self.used += 1;
            self.used - 1
        };
        let word = &mut self.live[id as usize / 64];
        // A stale row id may have overwritten the link: two rows must not share a slot.
        assert!(*word & (1 << (id % 64)) == 0, "a slot is live and on the free list");
        *word |= 1 << (id % 64);
        self.len += 1;
        Ok(id)
    }

    /// Takes a slot whose first `bytes` bytes are zero: a fresh slot is zero, a used one is cleared.
    ///
    /// # Errors
    /// As [`Slab::allocate`].
    ///
    /// # Panics
    /// When slots are shorter.
    #[inline(always)]
    pub fn allocate_zeroed(&mut self, bytes: usize) -> Result<(u32, &mut [u8]), RegionError> {
        assert!(bytes <= self.slot_bytes);
        let fresh = self.used;
        let id = self.allocate()?;
        let pointer = self.pointer(id);
        prefetch(pointer.wrapping_add(AHEAD_BYTES));
        // SAFETY: the slot was just handed out, so it is committed, at least `bytes` long and
        // reached by this slab alone; `&mut self` keeps it exclusive.
        let slot = unsafe { std::slice::from_raw_parts_mut(pointer, bytes) };
        if id < fresh {
            slot.fill(0);
        }
        Ok((id, slot))
    }

    /// Frees a slot.
    ///
    /// # Panics
    /// When the slot is not live: a double free would give the slot to two owners.
    #[inline]
    pub fn free(&mut self, id: u32) {
        assert!(self.retire(id), "slot {id} is freed but not live");
        self.push_free(id);
    }

    /// Marks a live slot dead without freeing it: its bytes are kept until [`Slab::release`] or
    /// [`Slab::revive`]. Returns whether it was live.
    #[inline]
    pub fn retire(&mut self, id: u32) -> bool {
        let was_live = self.is_live(id);
        if was_live {
            self.live[id as usize / 64] &= !(1 << (id % 64));
            self.len -= 1;
        }
        was_live
    }

    /// Makes a retired slot live again.
    ///
    /// # Panics
    /// When the slot is live or was never handed out.
    pub fn revive(&mut self, id: u32) {
        assert!(id < self.used && !self.is_live(id), "slot {id} is revived but not retired");
        self.live[id as usize / 64] |= 1 << (id % 64);
        self.len += 1;
    }

    /// Frees a retired slot.
    ///
    /// # Panics
    /// When the slot is live or was never handed out.
    pub fn release(&mut self, id: u32) {
        assert!(id < self.used && !self.is_live(id), "slot {id} is released but not retired");
        self.push_free(id);
    }

    /// Makes slot `id` live, whatever its state, and returns whether it was live before, and its bytes. For
    /// replaying a log, which names slots: nothing may be allocated before [`Slab::rebuild_free_list`].
    ///
    /// # Errors
    /// As [`Slab::allocate`].
    pub fn claim(&mut self, id: u32) -> Result<(bool, &mut [u8]), RegionError> {
        if id >= self.capacity {
            self.grow(id as usize + 1)?;
        }
        self.used = self.used.max(id + 1);
        let was_live = self.is_live(id);
        if !was_live {
            self.live[id as usize / 64] |= 1 << (id % 64);
            self.len += 1;
        }
        Ok((was_live, self.slot_mut(id)))
    }

    /// Puts all slots that are not live on the free list, so that the lowest is taken first.
    pub fn rebuild_free_list(&mut self) {
        self.free_head = NO_SLOT;
        for word in (0..self.used.div_ceil(64)).rev() {
            let mut dead = !self.live_word(word);
            // Usually all of them are live: 64 at a time.
            while dead != 0 {
                let bit = 63 - dead.leading_zeros();
                dead &= !(1 << bit);
                if word * 64 + bit < self.used {
                    self.push_free(word * 64 + bit);
                }
            }
        }
    }

    /// A copy of the slab: bytes, live bits and free list.
    ///
    /// # Errors
    /// As [`Slab::new`] and [`Slab::allocate`].
    pub(super) fn mirror(&self, allowance: impl Into<Allowance>) -> Result<Slab, RegionError> {
        let mut copy = Slab::new(self.slot_bytes, allowance)?;
        if self.used > 0 {
            copy.grow(self.used as usize)?;
            copy.live[..self.used.div_ceil(64) as usize]
                .copy_from_slice(&self.live[..self.used.div_ceil(64) as usize]);
        }
        (copy.used, copy.len, copy.free_head) = (self.used, self.len, self.free_head);
        copy.slots_mut(0, self.used).copy_from_slice(self.slots(0, self.used));
        Ok(copy)
    }

    /// The bytes of `count` slots from `first` on, live or not.
    ///
    /// # Panics
    /// When not all of them were handed out.
    pub(super) fn slots(&self, first: u32, count: u32) -> &[u8] {
        assert!(u64::from(first) + u64::from(count) <= self.used.into());
        // SAFETY: as in `slot`: used slots are contiguous in committed memory.
        unsafe { std::slice::from_raw_parts(self.pointer(first), count as usize * self.slot_bytes) }
    }

    fn slots_mut(&mut self, first: u32, count: u32) -> &mut [u8] {
        assert!(u64::from(first) + u64::from(count) <= self.used.into());
        // SAFETY: as in `slots`; `&mut self` keeps it exclusive.
        unsafe {
            std::slice::from_raw_parts_mut(self.pointer(first), count as usize * self.slot_bytes)
        }
    }

    /// The live bits of 64 slots from `first` on, which need not be a multiple of 64.
    pub(super) fn live_bits(&self, first: u32) -> u64 {
        let (word, shift) = (first / 64, first % 64);
        let low = self.live_word(word) >> shift;
        if shift == 0 { low } else { low | self.live_word(word + 1) << (64 - shift) }
    }

    /// Sets those of the 64 live bits from `first` on that `mask` names.
    fn set_live(&mut self, first: u32, mask: u64, bits: u64) {
        let (word, shift) = (first as usize / 64, first % 64);
        let mut set = |word: usize, mask: u64, bits: u64| {
            // Slots beyond the capacity are dead and have no bit.
            let Some(live) = self.live.get_mut(word) else { return };
            let now = *live & !mask | bits;
            self.len = self.len + now.count_ones() - live.count_ones();
            *live = now;
        };
        set(word, mask << shift, bits << shift);
        if shift > 0 {
            set(word + 1, mask >> (64 - shift), bits >> (64 - shift));
        }
    }

    /// Keeps only the slots live whose bit is set in `live`.
    pub(super) fn keep_live(&mut self, live: &[u64]) {
        let own = self.live.iter_mut().enumerate();
        own.for_each(|(at, word)| *word &= live.get(at).copied().unwrap_or(0));
        self.len = self.live.iter().map(|word| word.count_ones()).sum();
    }

    fn push_free(&mut self, id: u32) {
        let link = self.free_head;
        // SAFETY: a slot below `used` is committed and at least 16 bytes long; slots are 8-aligned.
        unsafe { self.pointer(id).cast::<u32>().write(link) };
        self.free_head = id;
    }

    /// Makes sure that the next `slots` allocations cannot fail, and touches their memory.
    ///
    /// # Errors
    /// As [`Slab::allocate`]; the memory committed so far is kept.
    #[inline]
    pub fn reserve(&mut self, slots: u32) -> Result<(), RegionError> {
        let available = self.capacity - self.len;
        if slots > available { self.grow(self.len as usize + slots as usize) } else { Ok(()) }
    }

    /// The bytes of a slot.
    ///
    /// # Panics
    /// When no slot with this id was ever handed out.
    #[inline]
    pub fn slot(&self, id: u32) -> &[u8] {
        self.assert_used(id);
        // SAFETY: a used slot is committed memory of `slot_bytes` bytes that only this slab
        // reaches; `&self` keeps it shared.
        unsafe { std::slice::from_raw_parts(self.pointer(id), self.slot_bytes) }
    }

    /// The bytes of a slot, for changing them.
    ///
    /// # Panics
    /// When no slot with this id was ever handed out.
    #[inline]
    pub fn slot_mut(&mut self, id: u32) -> &mut [u8] {
        self.assert_used(id);
        // SAFETY: as in `slot`; `&mut self` keeps it exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(id), self.slot_bytes) }
    }

    /// The first `bytes` bytes of a slot, or `None` when no slot with this id was ever handed out.
    /// If `bytes` is a constant, so is the slice's length.
    ///
    /// # Panics
    /// When slots are shorter.
    #[inline(always)]
    pub fn head(&self, id: u64, bytes: usize) -> Option<&[u8]> {
        assert!(bytes <= self.slot_bytes);
        if id >= self.used as u64 {
            return None;
        }
        // SAFETY: the slot was handed out.
        Some(unsafe { self.used_head(id as u32, bytes) })
    }

    /// The first bytes of a slot.
    ///
    /// # Safety
    /// The slot was handed out, and is no shorter.
    #[inline(always)]
    unsafe fn used_head(&self, id: u32, bytes: usize) -> &[u8] {
        let pointer = self.pointer(id);
        // SAFETY: as in `slot`, for the slot's first `bytes` bytes. A used slot is nowhere near
        // null, and a caller that checks for a slice need not compare its pointer again.
        unsafe {
            std::hint::assert_unchecked(!pointer.is_null());
            std::slice::from_raw_parts(pointer, bytes)
        }
    }

    /// The first `bytes` bytes of a slot, for changing them; see [`Slab::head`].
    ///
    /// # Panics
    /// As [`Slab::head`].
    #[inline(always)]
    pub fn head_mut(&mut self, id: u64, bytes: usize) -> Option<&mut [u8]> {
        assert!(bytes <= self.slot_bytes);
        if id >= self.used as u64 {
            return None;
        }
        let pointer = self.pointer(id as u32);
        // SAFETY: as in `slot_mut`, for the slot's first `bytes` bytes; null as in `head`.
        Some(unsafe {
            std::hint::assert_unchecked(!pointer.is_null());
            std::slice::from_raw_parts_mut(pointer, bytes)
        })
    }

    /// The first `bytes` bytes of a live slot; `None` for any other id.
    ///
    /// # Panics
    /// When slots are shorter.
    #[inline(always)]
    pub fn live_head(&self, id: u64, bytes: usize) -> Option<&[u8]> {
        if !self.has_live(id) {
            return None;
        }
        self.head(id, bytes)
    }

    /// The first `bytes` bytes of a live slot, for changing them; see [`Slab::live_head`].
    ///
    /// # Panics
    /// As [`Slab::live_head`].
    #[inline(always)]
    pub fn live_head_mut(&mut self, id: u64, bytes: usize) -> Option<&mut [u8]> {
        if !self.has_live(id) {
            return None;
        }
        self.head_mut(id, bytes)
    }

    /// Whether there is a live slot with this id. Compares the whole id, because that of another
    /// store may have more bits than a slot's.
    #[inline(always)]
    fn has_live(&self, id: u64) -> bool {
        self.live.get((id / 64) as usize).is_some_and(|word| word & (1 << (id % 64)) != 0)
    }

    /// The address of a slot. It may be dereferenced only if the id is below [`Slab::used`].
    #[inline(always)]
    pub fn pointer(&self, id: u32) -> *mut u8 {
        self.region.base().wrapping_add(id as usize * self.slot_bytes)
    }

    /// The address of slot 0.
    #[inline(always)]
    pub(super) fn base(&self) -> *mut u8 {
        self.region.base()
    }

    /// Prefetches the cache line at `offset` in the slot; harmless for any id.
    #[inline(always)]
    pub fn prefetch(&self, id: u32, offset: usize) {
        prefetch(self.pointer(id).wrapping_add(offset));
    }

    /// Whether the slot is handed out and not freed.
    #[inline]
    pub fn is_live(&self, id: u32) -> bool {
        self.has_live(id.into())
    }

    /// The live bits of the 64 slots from `64 * word` on.
    #[inline]
    pub fn live_word(&self, word: u32) -> u64 {
        self.live.get(word as usize).copied().unwrap_or(0)
    }

    /// The ids of all live slots, ascending.
    pub fn live(&self) -> impl Iterator<Item = u32> + '_ {
        self.live_from(0)
    }

    /// The ids of the live slots from `first` on, ascending: where a scan in slices continues.
    pub fn live_from(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let first_word = (first as usize / 64).min(self.live.len());
        let mut mask = !0u64 << (first % 64);
        self.live[first_word..].iter().enumerate().flat_map(move |(index, &word)| {
            let mut rest = word & std::mem::replace(&mut mask, !0);
            let first_of_word = (first_word + index) as u32 * 64;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros();
                    rest &= rest - 1;
                    first_of_word + bit
                })
            })
        })
    }

    /// The number of live slots.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether no slot is live.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One more than the highest id ever handed out.
    #[inline]
    pub fn used(&self) -> u32 {
        self.used
    }

    /// The number of slots that fit into the memory committed and touched so far.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// The size of a slot.
    #[inline]
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Frees memory of a slab whose slots are no longer used: about `bytes_max` bytes, and less
    /// only if no more is left. Returns how many. Only this method may be called afterwards.
    pub(super) fn take_apart(&mut self, bytes_max: usize) -> usize {
        (self.used, self.capacity, self.len, self.free_head) = (0, 0, 0, NO_SLOT);
        let bytes = self.region.cut(bytes_max);
        bytes + shorten(&mut self.live, bytes_max.saturating_sub(bytes))
    }

    /// Memory allocated from the system, including the bitmap.
    pub fn committed_bytes(&self) -> usize {
        let bitmap = self.live.capacity() * 8;
        self.region.committed_bytes() + self.generations.committed_bytes() + bitmap
    }

    /// See [`Region::lift_limit`].
    pub fn lift_limit(&mut self, is_lifted: bool) {
        self.region.lift_limit(is_lifted);
        self.generations.lift_limit(is_lifted);
    }

    /// Verifies that the free list and the bitmap agree.
    ///
    /// # Errors
    /// The first disagreement, as text.
    pub fn check(&self) -> Result<(), String> {
        let live: usize = self.live.iter().map(|word| word.count_ones() as usize).sum();
        if live != self.len() {
            return Err(format!("{live} slots are marked live, {} are counted", self.len));
        }
        if let Some(id) = self.live().find(|&id| id >= self.used) {
            return Err(format!("slot {id} is live but was never handed out"));
        }
        let (mut free, mut id) = (0u32, self.free_head);
        while id != NO_SLOT {
            if id >= self.used || self.is_live(id) {
                return Err(format!("slot {id} on the free list is live or was never handed out"));
            }
            if free == self.used {
                return Err("the free list has a cycle".to_owned());
            }
            free += 1;
            id = self.link(id);
        }
        if free + self.len != self.used {
            return Err(format!("{free} free + {} live != {} used slots", self.len, self.used));
        }
        Ok(())
    }

    /// The free-list link in a freed slot.
    #[inline]
    fn link(&self, id: u32) -> u32 {
        assert!(id < self.used, "free list leads to slot {id}");
        // SAFETY: a used slot is committed and 8-aligned, and every bit pattern is a `u32`.
        unsafe { self.pointer(id).cast::<u32>().read() }
    }

    #[inline(always)]
    fn assert_used(&self, id: u32) {
        if id >= self.used {
            no_such_slot(id, self.used);
        }
        if VERIFY {
            assert!(self.is_live(id), "slot {id} is used after it was freed");
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, slots: usize) -> Result<(), RegionError> {
        let limit = RegionError::Limit { limit_bytes: self.region.limit_bytes() };
        if slots > NO_SLOT as usize {
            return Err(limit);
        }
        self.region.commit(slots * self.slot_bytes)?;
        let capacity = (self.region.committed_bytes() / self.slot_bytes).min(NO_SLOT as usize);
        let words = capacity.div_ceil(64);
        let more = words - self.live.len();
        self.live.try_reserve(more).map_err(|_| limit)?;
        self.live.resize(words, 0);
        self.generations.cover(capacity as u32)?;
        self.capacity = capacity as u32;
        assert!(slots <= capacity);
        Ok(())
    }
}

/// Frees about `bytes_max` bytes from the end of a vector; returns how many.
pub(super) fn shorten<T>(vector: &mut Vec<T>, bytes_max: usize) -> usize {
    let before = vector.capacity();
    vector.truncate(before.saturating_sub(bytes_max.div_ceil(size_of::<T>())));
    if bytes_max > 0 {
        vector.shrink_to_fit();
    }
    (before - vector.capacity()) * size_of::<T>()
}

/// Prefetches the cache line of `address`; harmless for any address.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing the program can see and never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cold]
#[inline(never)]
fn no_such_slot(id: u32, used: u32) -> ! {
    panic!("slot {id} does not exist: {used} slots were handed out");
}

#[cfg(test)]
mod tests;
