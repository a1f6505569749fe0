//! `Nodes<T>`: a slab whose slots hold nodes of one type.
//!
//! Ids are trusted here: they come from [`Nodes::allocate`] or from a node of the same tree, and no
//! caller outside `btree` can reach a node's bytes. So an access is an address computation and
//! nothing else; debug builds and `cfg(tombolo_verify)` assert that the node is live.
//!
//! Not here: what a node holds. A node just allocated holds what its slot held before.

use super::super::budget::Allowance;
use super::super::region::RegionError;
use super::super::slab::{Slab, VERIFY, prefetch};
use std::marker::PhantomData;

/// A type that may lie in raw memory.
///
/// # Safety
/// Every bit pattern is a value (so no references, no `bool`, no padding that matters), and its
/// alignment divides its size and 4096.
pub(in crate::memory) unsafe trait Plain: Copy {}

/// Nodes of type `T` in a slab. See the module's head.
#[derive(Debug)]
pub(in crate::memory) struct Nodes<T: Plain> {
    slab: Slab,
    holds: PhantomData<T>,
}

impl<T: Plain> Nodes<T> {
    pub(in crate::memory) fn new(allowance: Allowance) -> Result<Self, RegionError> {
        Ok(Nodes { slab: Slab::new(size_of::<T>(), allowance)?, holds: PhantomData })
    }

    /// Takes a node, and asks for the memory of one that will be taken soon: fresh memory was touched long
    /// ago and is in no cache.
    pub(in crate::memory) fn allocate(&mut self) -> Result<u32, RegionError> {
        let id = self.slab.allocate()?;
        self.prefetch(id.wrapping_add(2));
        Ok(id)
    }

    pub(in crate::memory) fn free(&mut self, id: u32) {
        self.slab.free(id);
    }

    pub(in crate::memory) fn reserve(&mut self, nodes: u32) -> Result<(), RegionError> {
        self.slab.reserve(nodes)
    }

    #[inline(always)]
    pub(in crate::memory) fn get(&self, id: u32) -> &T {
        self.verify(id);
        // SAFETY: the id is of a live slot (module's head), which is committed, as large as `T` and
        // aligned for it (`Plain`: slots lie at multiples of the size from a base aligned to 2 MB),
        // and every bit pattern is a `T`. `&self` keeps it shared.
        unsafe { &*self.pointer(id) }
    }

    /// A node that a hint names: it may have been freed since, but was allocated once.
    #[inline(always)]
    pub(in crate::memory) fn peek(&self, id: u32) -> &T {
        debug_assert!(id < self.slab.used());
        // SAFETY: as in `get`, where liveness serves only the meaning: a freed slot is still
        // committed and has no other owner.
        unsafe { &*self.pointer(id) }
    }

    #[inline(always)]
    pub(in crate::memory) fn get_mut(&mut self, id: u32) -> &mut T {
        self.verify(id);
        // SAFETY: as in `get`; `&mut self` keeps it exclusive.
        unsafe { &mut *self.pointer(id) }
    }

    /// Two different nodes together.
    pub(in crate::memory) fn pair_mut(&mut self, a: u32, b: u32) -> (&mut T, &mut T) {
        assert_ne!(a, b);
        self.verify(a);
        self.verify(b);
        // SAFETY: as in `get_mut`; the slots are different, so the references do not overlap.
        unsafe { (&mut *self.pointer(a), &mut *self.pointer(b)) }
    }

    /// Asks for all cache lines of a node.
    #[inline(always)]
    pub(in crate::memory) fn prefetch(&self, id: u32) {
        let node = self.pointer(id).cast::<u8>();
        let mut offset = 0;
        while offset < size_of::<T>() {
            prefetch(node.wrapping_add(offset));
            offset += 64;
        }
    }

    /// Asks for the cache line that holds the byte at `offset` of a node.
    #[inline(always)]
    pub(in crate::memory) fn prefetch_at(&self, id: u32, offset: usize) {
        prefetch(self.pointer(id).cast::<u8>().wrapping_add(offset));
    }

    pub(in crate::memory) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(in crate::memory) fn lift_limit(&mut self, is_lifted: bool) {
        self.slab.lift_limit(is_lifted);
    }

    pub(in crate::memory) fn committed_bytes(&self) -> usize {
        self.slab.committed_bytes()
    }

    pub(in crate::memory) fn is_live(&self, id: u32) -> bool {
        self.slab.is_live(id)
    }

    pub(in crate::memory) fn check(&self) -> Result<(), String> {
        self.slab.check()
    }

    /// The slab's own address computation with the size known to the compiler.
    #[inline(always)]
    fn pointer(&self, id: u32) -> *mut T {
        self.slab.base().cast::<T>().wrapping_add(id as usize)
    }

    #[inline(always)]
    fn verify(&self, id: u32) {
        if VERIFY {
            assert!(self.slab.is_live(id), "node {id} is not live");
        }
    }
}
