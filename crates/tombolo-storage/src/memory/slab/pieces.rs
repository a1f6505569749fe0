//! Slots read and written in pieces: for an image, whose rings keep their slot length for ever, and
//! for slabs whose slots get longer (`columns.rs`).
//!
//! Not here: which pieces there are. Invariant: nothing is allocated from slots that were written here
//! before their slab's free list is rebuilt.

use super::super::region::RegionError;
use super::Slab;

impl Slab {
    /// Zeros in some bytes of a slot, live or not.
    ///
    /// # Panics
    /// When it was never handed out, or is shorter.
    pub(in crate::memory) fn clear(&mut self, id: u32, bytes: std::ops::Range<usize>) {
        self.slots_mut(id, 1)[bytes].fill(0);
    }

    /// The ids of the slots that were handed out and are not live.
    pub(in crate::memory) fn dead(&self) -> Vec<u32> {
        (0..self.used).filter(|&id| !self.is_live(id)).collect()
    }

    /// Stores `count` slots of a slab of shorter ones, from `first` on, in the slots of their
    /// numbers: bytes, and whether they are live. Nothing may be allocated before
    /// [`Slab::rebuild_free_list`].
    ///
    /// # Errors
    /// As [`Slab::allocate`].
    pub(in crate::memory) fn take_over(
        &mut self,
        from: &Slab,
        first: u32,
        count: u32,
    ) -> Result<(), RegionError> {
        if count == 0 {
            return Ok(());
        }
        let end = first + count;
        if end > self.capacity {
            self.grow(end as usize)?;
        }
        self.used = self.used.max(end);
        for id in first..end {
            let is_live = u64::from(from.is_live(id));
            self.set_live(id / 64 * 64, 1 << (id % 64), is_live << (id % 64));
            if is_live == 1 {
                self.slot_mut(id)[..from.slot_bytes].copy_from_slice(from.slot(id));
            }
        }
        Ok(())
    }

    /// Bytes `at..at + width` of `count` slots from `first` on, live or not, one behind the other.
    ///
    /// # Panics
    /// When not all of them were handed out, or `out` is not as long.
    pub(in crate::memory) fn copy_piece(
        &self,
        (first, count): (u32, u32),
        (at, width): (usize, usize),
        out: &mut [u8],
    ) {
        if width == self.slot_bytes {
            return out.copy_from_slice(self.slots(first, count));
        }
        assert_eq!(out.len(), count as usize * width);
        let slots = self.slots(first, count).chunks_exact(self.slot_bytes);
        for (slot, out) in slots.zip(out.chunks_exact_mut(width)) {
            out.copy_from_slice(&slot[at..at + width]);
        }
    }

    /// Stores pieces of slots that were written out before, from `first` on: bytes
    /// `at..at + width` of each. Nothing may be allocated before [`Slab::rebuild_free_list`].
    ///
    /// # Errors
    /// As [`Slab::allocate`].
    ///
    /// # Panics
    /// When `bytes` are not whole pieces.
    pub(in crate::memory) fn load_piece(
        &mut self,
        first: u32,
        (at, width): (usize, usize),
        bytes: &[u8],
    ) -> Result<(), RegionError> {
        assert!(bytes.len().is_multiple_of(width) && at + width <= self.slot_bytes);
        let count = (bytes.len() / width) as u32;
        if count == 0 {
            return Ok(());
        }
        let end = first.saturating_add(count);
        if end > self.capacity {
            self.grow(end as usize)?;
        }
        self.used = self.used.max(end);
        let slot_bytes = self.slot_bytes;
        let slots = self.slots_mut(first, count);
        if width == slot_bytes {
            slots.copy_from_slice(bytes);
            return Ok(());
        }
        for (slot, bytes) in slots.chunks_exact_mut(slot_bytes).zip(bytes.chunks_exact(width)) {
            slot[at..at + width].copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Says of the `bits.len() * 64` slots from `first` on, at most `slots`, which are live.
    pub(in crate::memory) fn load_live(
        &mut self,
        first: u32,
        slots: u32,
        bits: impl Iterator<Item = u64>,
    ) {
        let mut at = first;
        for bits in bits {
            let left = slots - (at - first);
            let mask = if left < 64 { (1 << left) - 1 } else { !0 };
            self.set_live(at, mask, bits & mask);
            at += left.min(64);
        }
    }
}
