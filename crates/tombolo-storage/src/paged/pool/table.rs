//! The page table: from page number to frame, chained hashing in latched partitions (LG-20).
//!
//! A partition is one cache line: a latch and the heads of eight chains. The links of a chain lie in the
//! frames, which a look-up touches anyway. A partition's latch protects its chains and the page numbers of the
//! frames in them. A look-up does without it: it walks a chain that may change meanwhile, latches or pins the frame
//! it finds, and only then believes the page's number (`frame.rs`). What it misses is looked for under the latch.

use crate::latch::{GuardedU32, Latching, RawLatch};
use crate::paged::page::PageId;

use super::frame::{Frame, FramePin, NO_FRAME};

/// Chains of a partition.
const CHAINS_LOG2: u32 = 3;
const CHAINS: usize = 1 << CHAINS_LOG2;

/// Steps of a walk without the latch, which may stray into other chains.
const STEPS_MAX: usize = 8;

/// From page number to frame.
pub(super) struct PageTable<L: Latching> {
    partitions: Box<[Partition<L>]>,
    /// Leaves of a hash the bits that number all chains.
    shift: u32,
}

/// Some of the chains. A cache line each.
#[repr(align(64))]
struct Partition<L: Latching> {
    latch: L::Latch,
    heads: [GuardedU32; CHAINS],
}

impl<L: Latching> Partition<L> {
    fn new() -> Self {
        Self {
            latch: L::Latch::default(),
            heads: std::array::from_fn(|_| GuardedU32::new(NO_FRAME)),
        }
    }
}

/// Where a page number is looked for.
pub(super) struct Place<'a, L: Latching> {
    partition: &'a Partition<L>,
    head: &'a GuardedU32,
}

impl<L: Latching> PageTable<L> {
    /// A table for `frames` frames: two chains or more for each.
    pub(super) fn new(frames: usize) -> Self {
        let chains = (2 * frames).next_power_of_two().max(CHAINS);
        Self {
            partitions: (0..chains / CHAINS).map(|_| Partition::new()).collect(),
            shift: u32::BITS - chains.trailing_zeros(),
        }
    }

    #[inline(always)]
    pub(super) fn place(&self, id: PageId) -> Place<'_, L> {
        // Fibonacci hashing: pages of one store are neighbours.
        let chain = id.0.wrapping_mul(0x9E37_79B9) >> self.shift;
        let partition = &self.partitions[(chain >> CHAINS_LOG2) as usize];
        Place { partition, head: &partition.heads[chain as usize % CHAINS] }
    }
}

impl<'a, L: Latching> Place<'a, L> {
    #[inline(always)]
    pub(super) fn shared(&self) -> <L::Latch as RawLatch>::Shared<'a> {
        self.partition.latch.shared()
    }

    pub(super) fn exclusive(&self) -> <L::Latch as RawLatch>::Exclusive<'a> {
        self.partition.latch.exclusive()
    }

    /// The first frame of the chain, or none, as it may have been a moment ago.
    #[inline(always)]
    pub(super) fn first(&self) -> u32 {
        self.head.get()
    }

    /// The frame that holds page `id`, pinned, if it is found without the latch: chains may change meanwhile, so
    /// that the walk may miss it.
    #[inline(always)]
    pub(super) fn pin_if_found<'f>(
        &self,
        frames: &'f [Frame<L>],
        id: PageId,
    ) -> Option<(u32, FramePin<'f, L>)> {
        let (index, frame) = self.guess(frames, id)?;
        // While it is pinned its page stays.
        let pin = frame.try_pin()?;
        (frame.page.get() == id.0).then_some((index, pin))
    }

    /// The frame that held page `id` a moment ago, if it is found without the latch.
    #[inline(always)]
    pub(super) fn guess<'f>(
        &self,
        frames: &'f [Frame<L>],
        id: PageId,
    ) -> Option<(u32, &'f Frame<L>)> {
        let mut index = self.head.get();
        for _ in 0..STEPS_MAX {
            let frame = frames.get(index as usize)?;
            if frame.page.get() == id.0 {
                return Some((index, frame));
            }
            index = frame.next.get();
        }
        None
    }

    /// The frame that holds page `id`. Called under the latch.
    #[inline(always)]
    pub(super) fn find<'f>(
        &self,
        frames: &'f [Frame<L>],
        id: PageId,
    ) -> Option<(u32, &'f Frame<L>)> {
        let mut index = self.head.get();
        // Also the check that the index is one: the end of a chain is above all of them.
        while let Some(frame) = frames.get(index as usize) {
            if frame.page.get() == id.0 {
                return Some((index, frame));
            }
            index = frame.next.get();
        }
        None
    }

    /// Enters frame `index`, whose page number is set, into its chain. Called under the exclusive
    /// latch.
    pub(super) fn link(&self, frames: &[Frame<L>], index: u32) {
        frames[index as usize].next.set(self.head.get());
        self.head.set(index);
    }

    /// Takes frame `index` out of its chain. Called under the exclusive latch.
    ///
    /// # Panics
    /// When it is not in it.
    pub(super) fn unlink(&self, frames: &[Frame<L>], index: u32) {
        let mut link = self.head;
        while link.get() != index {
            link = &frames[link.get() as usize].next;
        }
        link.set(frames[index as usize].next.get());
    }
}
