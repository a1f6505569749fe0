//! Buckets of the lock table and their chains, and which chain a name's queue is in.

use super::super::name::{CHAINS, GAP_CHAIN, LockName};
use super::super::session::NONE;
use crate::latch::{GuardedU32, Latching, ShortLatch};

/// The queues of a page and its rows, and of what hashes alike, in chains. A cache line.
#[repr(align(64))]
pub(super) struct Bucket<L: Latching> {
    pub(super) latch: ShortLatch<L>,
    pub(super) chains: [GuardedU32; CHAINS],
}

impl<L: Latching> Bucket<L> {
    pub(super) fn new() -> Self {
        let chains = std::array::from_fn(|_| GuardedU32::new(NONE));
        Self { latch: ShortLatch::default(), chains }
    }
}

/// Which chain has a name's queue: its bucket, and the number in the bucket in [`CHAIN_BITS`] bits.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct ChainNumber(u32);

const CHAIN_BITS: u32 = 4;
pub(super) const BUCKETS_MAX: u32 = 1 << (u32::BITS - CHAIN_BITS);
const _: () = assert!(CHAINS <= 1 << CHAIN_BITS);

impl ChainNumber {
    /// That of `name` in a table whose buckets' numbers are what is left of a hash after `shift` bits.
    #[inline(always)]
    pub(super) fn of(name: LockName, shift: u32) -> Self {
        Self(name.neighbours_hash() >> shift << CHAIN_BITS | name.chain() as u32)
    }

    #[inline(always)]
    pub(super) fn bucket(self) -> usize {
        (self.0 >> CHAIN_BITS) as usize
    }

    #[inline(always)]
    pub(super) fn in_bucket(self) -> usize {
        (self.0 & ((1 << CHAIN_BITS) - 1)) as usize
    }

    #[inline(always)]
    pub(super) fn is_of_gaps(self) -> bool {
        self.in_bucket() == GAP_CHAIN
    }
}

/// The chain that has a name's queue, if there is one.
pub(super) struct Place<'a, L: Latching> {
    pub(super) bucket: &'a Bucket<L>,
    /// The first request of the first queue.
    pub(super) first: &'a GuardedU32,
}

impl<'a, L: Latching> Place<'a, L> {
    /// The chain with this number of its bucket.
    #[inline(always)]
    pub(super) fn of(bucket: &'a Bucket<L>, chain: ChainNumber) -> Self {
        Self { bucket, first: &bucket.chains[chain.in_bucket()] }
    }

    /// The chain with this number in the same bucket.
    #[inline(always)]
    pub(super) fn with_chain(self, chain: ChainNumber) -> Self {
        Self::of(self.bucket, chain)
    }
}

impl<L: Latching> Clone for Place<'_, L> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<L: Latching> Copy for Place<'_, L> {}
