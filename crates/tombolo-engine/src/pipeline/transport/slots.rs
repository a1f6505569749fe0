//! Slots that many threads take and give back without a lock; each has a number.
//!
//! ```text
//!   take():  free list ── empty? ──► the next slot that was never taken
//!   give():  the slot becomes the first of the free list
//! ```
//!
//! Slots are stored in chunks, each as long as all before it; a chunk is allocated when first needed, and
//! neither moves nor is freed before the whole, so a number leads to its slot by two loads. The free
//! list is linked through the slots. Its head is one word with the first slot and a count of all changes (against
//! the ABA problem): a thread that was stopped between reading the head and replacing it cannot install an
//! outdated list. (The count has 32 bits: the list would have to change exactly 2^32 times meanwhile.)
//!
//! Not here: the content of a slot, which protects itself (a mutex, an atomic). Invariants: a number has
//! one taker at a time; everything that a thread did with a slot before giving it back happens before
//! the actions of the next taker.

use std::sync::OnceLock;

use tombolo_storage::sync::{AtomicU32, AtomicU64, Ordering};

/// Slots of the first chunk, as a power of two; few for loom, which tracks each of them.
const FIRST_BITS: u32 = if cfg!(loom) { 1 } else { 6 };

/// Chunks for all numbers of 31 bits.
const CHUNKS: usize = 32 - FIRST_BITS as usize;

/// No slot.
const NONE: u32 = u32::MAX;

/// A slot's content, on a cache line of its own, so that threads that wait for two slots share nothing.
#[repr(align(64))]
struct Slot<T> {
    content: T,
    /// The next slot in the free list.
    next: AtomicU32,
}

/// Slots with a `T` each, which persists from one taker to the next.
pub struct Slots<T> {
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
    /// The first free slot, in the low half, and the number of changes so far.
    free: AtomicU64,
    /// The number of slots that were ever taken.
    used: AtomicU32,
}

impl<T> std::fmt::Debug for Slots<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots").field("used", &self.used).finish_non_exhaustive()
    }
}

/// The chunk of a slot, and its index in it.
#[inline]
const fn place(number: u32) -> (usize, usize) {
    let from_first = number as usize + (1 << FIRST_BITS);
    let bits = from_first.ilog2();
    ((bits - FIRST_BITS) as usize, from_first - (1 << bits))
}

/// A head of the free list: `first`, after one more change than `before`.
#[inline]
const fn head(first: u32, before: u64) -> u64 {
    (before >> 32).wrapping_add(1) << 32 | first as u64
}

impl<T: Default> Default for Slots<T> {
    fn default() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: AtomicU64::new(NONE as u64),
            used: AtomicU32::new(0),
        }
    }
}

impl<T: Default> Slots<T> {
    #[inline]
    fn slot(&self, number: u32) -> &Slot<T> {
        let (chunk, at) = place(number);
        match self.chunks[chunk].get() {
            Some(chunk) => &chunk[at],
            None => self.made(chunk, at),
        }
    }

    #[cold]
    fn made(&self, chunk: usize, at: usize) -> &Slot<T> {
        let slot = |_| Slot { content: T::default(), next: AtomicU32::new(NONE) };
        let length = 1 << (FIRST_BITS as usize + chunk);
        &self.chunks[chunk].get_or_init(|| (0..length).map(slot).collect())[at]
    }

    /// The content of the slot with this number.
    ///
    /// # Panics
    /// When the number is too large.
    #[inline]
    pub fn get(&self, number: u32) -> &T {
        &self.slot(number).content
    }

    /// Takes a free slot and returns its number. The slot belongs to the caller until given back, and has the
    /// content that its previous taker left.
    ///
    /// # Panics
    /// When 2^31 slots are taken.
    #[inline]
    pub fn take(&self) -> u32 {
        // Partner: `give`. The taker sees everything that was done with the slot before.
        let mut before = self.free.load(Ordering::Acquire);
        loop {
            let first = before as u32;
            if first == NONE {
                return self.take_unused();
            }
            // If the slot was taken meanwhile, this may not be its successor; then the head has changed, too.
            let next = self.slot(first).next.load(Ordering::Relaxed);
            match self.exchange(before, head(next, before)) {
                Ok(_) => return first,
                Err(now) => before = now,
            }
        }
    }

    #[cold]
    fn take_unused(&self) -> u32 {
        // Partner: `each`.
        let number = self.used.fetch_add(1, Ordering::AcqRel);
        assert!(number < 1 << 31, "2^31 slots are taken");
        number
    }

    /// Gives a slot back.
    #[inline]
    pub fn give(&self, number: u32) {
        let slot = self.slot(number);
        let mut before = self.free.load(Ordering::Relaxed); // nothing is read through it
        loop {
            slot.next.store(before as u32, Ordering::Relaxed); // published by the head
            match self.exchange(before, head(number, before)) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    #[inline]
    fn exchange(&self, before: u64, after: u64) -> Result<u64, u64> {
        // Release: the next taker's `Acquire` sees the slot as it was left.
        self.free.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Calls `seen` with every slot that was ever taken. A thread that takes an unused slot later sees
    /// everything that this thread did before this call.
    pub fn each(&self, seen: impl FnMut(&T)) {
        // A write, although it adds nothing: a later `take_unused` reads this write, or a later one.
        let used = self.used.fetch_add(0, Ordering::AcqRel);
        (0..used).map(|number| self.get(number)).for_each(seen);
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_number_has_a_slot_of_its_own() {
        let slots = Slots::<AtomicUsize>::default();
        for number in 0..1_000 {
            assert_eq!(slots.take(), number);
            slots.get(number).store(number as usize, Ordering::Relaxed);
        }
        let mut seen = Vec::new();
        slots.each(|slot| seen.push(slot.load(Ordering::Relaxed)));
        assert_eq!(seen, (0..1_000).collect::<Vec<_>>());
        assert_eq!(
            [place(0), place(63), place(64), place(191), place(192)],
            [(0, 0), (0, 63), (1, 0), (1, 127), (2, 0)]
        );
        assert_eq!(place((1 << 31) - 1).0, CHUNKS - 1);
    }

    #[test]
    fn what_was_given_back_is_taken_first_and_no_two_threads_have_one() {
        let slots = Slots::<AtomicUsize>::default();
        let first = [slots.take(), slots.take(), slots.take()];
        slots.give(first[1]);
        slots.give(first[0]);
        assert_eq!([slots.take(), slots.take(), slots.take()], [0, 1, 3]);
        (0..4).for_each(|number| slots.give(number));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..20_000 {
                        let own: Vec<u32> = (0..turn % 4 + 1).map(|_| slots.take()).collect();
                        for &number in &own {
                            let others = slots.get(number).fetch_add(1, Ordering::Relaxed);
                            assert_eq!(others, 0, "another thread has slot {number}");
                        }
                        for &number in &own {
                            slots.get(number).fetch_sub(1, Ordering::Relaxed);
                            slots.give(number);
                        }
                    }
                });
            }
        });
        let mut left: Vec<u32> = (0..16).map(|_| slots.take()).collect();
        left.sort_unstable();
        left.dedup();
        assert_eq!(left.len(), 16);
    }
}
