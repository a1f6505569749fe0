//! Generations of slots: how many rows each has lost, for ids that name one row and no other.
//!
//! An entry of four bytes for each slot, in a region next to the slots'. Entries are made where the
//! slab grows, and counted by its budget there: so losing a row, and taking that back, needs no
//! memory. They begin at a number that is each slab's own, so that no id of another table, or of an
//! earlier opening, is taken for one of these but once in four thousand million.
//!
//! As long as no row was lost, all entries are equal and the first one stands for all: look-ups of rows
//! that lie apart do not wait for entries that lie apart, too.
//!
//! A slab whose rows are not named has none. Its entries are never used, and a read of one returns any
//! number: the first bytes of its slots stand for entries then, so that a look-up need not ask whether
//! there are any.
//!
//! Not here: giving ids out, losing rows (`rows.rs`). Invariants: where entries are kept, every
//! slot below `capacity` has one.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ptr::NonNull;

use super::super::budget::Allowance;
use super::super::region::{Region, RegionError};
use super::{NO_SLOT, Slab};

const ENTRY_BYTES: usize = size_of::<u32>();

/// Where the entries of a slab's slots are. See the module's head.
#[derive(Debug)]
pub(super) struct Generations {
    /// That of slot 0; where none is kept, the beginning of the slots.
    entries: NonNull<u32>,
    /// Which bits of a slot's number lead to its entry: none before the first row was lost, then all.
    mask: u32,
    /// What holds them, if they are kept.
    kept: Option<Box<Kept>>,
}

#[derive(Debug)]
struct Kept {
    region: Region,
    first: u32,
    /// Slots below it have an entry.
    slots: u32,
}

// SAFETY: the entries lie in the region of this slab, or in the one next to it, which may be sent.
unsafe impl Send for Generations {}

// SAFETY: as for `Send`; what writes entries takes `&mut Slab`.
unsafe impl Sync for Generations {}

impl Generations {
    /// None is kept of slots in `region`.
    pub(super) fn none(region: &Region) -> Self {
        Self { entries: region.start().cast(), mask: 0, kept: None }
    }

    /// Makes entries for all slots below `slots`.
    pub(super) fn cover(&mut self, slots: u32) -> Result<(), RegionError> {
        let Some(kept) = self.kept.as_mut().filter(|kept| slots > kept.slots) else {
            return Ok(());
        };
        kept.region.commit(slots as usize * ENTRY_BYTES)?;
        let end = (kept.region.committed_bytes() / ENTRY_BYTES).min(NO_SLOT as usize) as u32;
        let (new, first) = (kept.slots..end, kept.first);
        kept.slots = end;
        for slot in new {
            // SAFETY: entries below `end` are committed, aligned as the region is, and this slab's alone.
            unsafe { self.entry(slot).write(first) };
        }
        Ok(())
    }

    pub(super) fn lift_limit(&mut self, is_lifted: bool) {
        self.kept.iter_mut().for_each(|kept| kept.region.lift_limit(is_lifted));
    }

    pub(super) fn committed_bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.region.committed_bytes())
    }

    #[inline(always)]
    fn entry(&self, slot: u32) -> *mut u32 {
        self.entries.as_ptr().wrapping_add(slot as usize)
    }
}

impl Slab {
    /// Counts from here on how many rows each slot loses; entries for the slots there are take memory
    /// even where the budget has none left.
    ///
    /// # Errors
    /// The system has no memory or no address space.
    pub(in crate::memory) fn keep_generations(
        &mut self,
        allowance: Allowance,
    ) -> Result<(), RegionError> {
        let slots = allowance.limit_bytes.div_ceil(self.slot_bytes);
        let region = Region::reserve(Allowance { limit_bytes: slots * ENTRY_BYTES, ..allowance })?;
        let first = RandomState::new().build_hasher().finish() as u32;
        let entries = region.start().cast();
        let kept = Some(Box::new(Kept { region, first, slots: 0 }));
        let mut generations = Generations { entries, mask: 0, kept };
        generations.lift_limit(true);
        generations.cover(self.capacity)?;
        generations.lift_limit(false);
        self.generations = generations;
        Ok(())
    }

    /// The rows are those of `from`, in slots of the same numbers, and so are their generations.
    pub(in crate::memory) fn take_generations(&mut self, from: &mut Slab) {
        if let Some(kept) = &from.generations.kept {
            // Where more slots are committed than have entries, these are made with the next growth.
            self.capacity = self.capacity.min(kept.slots);
            let none = Generations::none(&from.region);
            self.generations = std::mem::replace(&mut from.generations, none);
            assert!(self.used <= self.capacity, "every slot has a generation");
        }
    }

    /// The generation of a slot that was handed out; any number where none is kept.
    #[inline(always)]
    pub(in crate::memory) fn generation(&self, slot: u32) -> Option<u32> {
        if slot >= self.used {
            return None;
        }
        let slot = slot & self.generations.mask;
        // SAFETY: the slot was handed out, or is the first, so it lies below `capacity`. Where generations
        // are kept it has an entry (module's head), which was written when it was made; else the four
        // bytes lie within the slots up to this one, which are committed, longer than that and aligned.
        // `&self` keeps both shared.
        Some(unsafe { self.generations.entry(slot).read() })
    }

    /// The slot that a named id leads to: the number in its lower half, if its generation is in the upper.
    #[inline(always)]
    pub(in crate::memory) fn named_slot(&self, id: u64) -> Option<u32> {
        (self.generation(id as u32) == Some((id >> 32) as u32)).then_some(id as u32)
    }

    /// The first `bytes` bytes of the slot that a named id leads to, if it leads to one; see
    /// [`Slab::head`].
    ///
    /// # Panics
    /// As [`Slab::head`].
    #[inline(always)]
    pub(in crate::memory) fn named_head(&self, id: u64, bytes: usize) -> Option<&[u8]> {
        assert!(bytes <= self.slot_bytes);
        let slot = self.named_slot(id)?;
        // SAFETY: a named id leads to slots that were handed out.
        Some(unsafe { self.used_head(slot, bytes) })
    }

    /// The row in this slot is gone: no id names it from now on.
    #[inline]
    pub(in crate::memory) fn end_generation(&mut self, slot: u32) {
        self.set_generation(slot, 1);
    }

    /// The row in this slot, which was gone, is there again: its deletion is undone.
    pub(in crate::memory) fn take_end_back(&mut self, slot: u32) {
        self.set_generation(slot, 1u32.wrapping_neg());
    }

    #[inline(always)]
    fn set_generation(&mut self, slot: u32, more: u32) {
        if self.generations.kept.is_some()
            && let Some(generation) = self.generation(slot)
        {
            self.generations.mask = u32::MAX;
            // SAFETY: as in `generation`, of an entry that is kept; `&mut self` keeps it exclusive.
            unsafe { self.generations.entry(slot).write(generation.wrapping_add(more)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::budget::Budget;
    use super::*;

    /// Losing a row takes no memory, and what does take it is refused before anything has changed.
    #[test]
    fn entries_are_made_and_counted_where_the_slab_grows() {
        let budget = Budget::new(1 << 20);
        let allowance = Allowance::new(1 << 30, &budget);
        let mut slab = Slab::new(64, allowance.clone()).unwrap();
        slab.allocate().unwrap();
        slab.keep_generations(allowance).unwrap();
        let refused = loop {
            if let Err(refused) = slab.allocate() {
                break refused;
            }
        };
        assert_eq!(refused, RegionError::OverBudget { bytes_max: 1 << 20 });
        slab.check().unwrap();
        let bitmap = slab.live.capacity() * 8;
        assert_eq!(slab.committed_bytes() - bitmap, budget.held_bytes() as usize);
        assert!(slab.generations.committed_bytes() >= slab.used() as usize * ENTRY_BYTES);
        let held = budget.held_bytes();
        for slot in 0..slab.used() {
            let generation = slab.generation(slot).unwrap();
            assert_eq!(generation, slab.generations.kept.as_ref().unwrap().first);
            slab.end_generation(slot);
            let named = u64::from(generation) << 32 | u64::from(slot);
            assert_eq!(slab.named_slot(named), None);
            slab.take_end_back(slot);
            assert_eq!(slab.named_slot(named), Some(slot));
        }
        assert_eq!((slab.generation(slab.used()), budget.held_bytes()), (None, held));
    }

    #[test]
    fn longer_slots_go_on_with_the_generations() {
        let mut short = Slab::new(16, 1 << 30).unwrap();
        short.keep_generations((1 << 30).into()).unwrap();
        let ids: Vec<u32> = (0..5_000).map(|_| short.allocate().unwrap()).collect();
        ids.iter().for_each(|&id| (0..id % 3).for_each(|_| short.end_generation(id)));
        let then: Vec<_> = ids.iter().map(|&id| short.generation(id)).collect();
        let mut long = Slab::new(24, 1 << 30).unwrap();
        long.take_over(&short, 0, short.used()).unwrap();
        long.take_generations(&mut short);
        assert!(ids.iter().map(|&id| long.generation(id)).eq(then));
        (0..200_000).for_each(|_| assert!(long.allocate().is_ok()));
        assert_eq!(
            long.generation(long.used() - 1),
            Some(long.generations.kept.as_ref().unwrap().first)
        );
        long.check().unwrap();
    }
}
