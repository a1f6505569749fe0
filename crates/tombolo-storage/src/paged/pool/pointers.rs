//! `Pointers`: records and nodes leave the pages (S9 off, second form).
//!
//! Meaningful only once logging, locking and latching are gone: it is never latched, so never
//! shared. Index nodes keep the layout of a page body, but have no frame: a node's number is its
//! address relative to the base. Rows do not lie in pages at all: they lie in slabs, one row to a
//! slot, and a row id is an address relative to the base (`heap/slabs.rs`, which `RowAccess` names
//! for this type). Gone with the pages of rows: slot arrays, free-space management, LSNs and
//! checksums of rows, the second step from page to record.
//!
//! Not here: a file for the rows. What is loaded in this form is loaded again.

use super::direct::{DirectExclusive, DirectFrames, DirectShared};
use super::{PageAccess, Result, Space};
use crate::disk::MemDisk;
use crate::latch::Unlatched;
use crate::paged::page::{PageId, PageKind, PageSize, StoreId};

/// Nodes by number, rows by pointer.
pub struct Pointers<S: PageSize> {
    nodes: DirectFrames<S, Unlatched>,
}

impl<S: PageSize> Pointers<S> {
    /// Without nodes; they may take `limit_bytes`.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(limit_bytes: usize) -> Result<Self> {
        // The disk stays empty: nothing is ever written to it.
        Ok(Self { nodes: DirectFrames::create(&MemDisk::new(), limit_bytes)? })
    }
}

impl<S: PageSize> PageAccess for Pointers<S> {
    type Size = S;
    type Latching = Unlatched;
    type Shared<'a> = DirectShared<'a, S, Unlatched>;
    type Exclusive<'a> = DirectExclusive<'a, S, Unlatched>;

    #[inline(always)]
    fn fix_shared(&self, id: PageId) -> Result<Self::Shared<'_>> {
        self.nodes.fix_shared(id)
    }

    #[inline(always)]
    fn fix_resident(&self, id: PageId) -> Option<Self::Shared<'_>> {
        self.nodes.fix_resident(id)
    }

    #[inline(always)]
    fn fix_resident_alone(&self, id: PageId) -> Option<Self::Exclusive<'_>> {
        self.nodes.fix_resident_alone(id)
    }

    #[inline(always)]
    fn prefetch(&self, id: PageId, offset: usize, record: (usize, usize)) {
        self.nodes.prefetch(id, offset, record);
    }

    #[inline(always)]
    fn fix_exclusive(&self, id: PageId) -> Result<Self::Exclusive<'_>> {
        self.nodes.fix_exclusive(id)
    }

    #[inline(always)]
    fn try_fix_shared(&self, id: PageId) -> Result<Option<Self::Shared<'_>>> {
        self.nodes.try_fix_shared(id)
    }

    #[inline(always)]
    fn try_fix_exclusive(&self, id: PageId) -> Result<Option<Self::Exclusive<'_>>> {
        self.nodes.try_fix_exclusive(id)
    }

    #[inline(always)]
    fn try_upgrade<'a>(
        &'a self,
        shared: Self::Shared<'a>,
    ) -> Result<Self::Exclusive<'a>, Self::Shared<'a>> {
        self.nodes.try_upgrade(shared)
    }

    #[inline(always)]
    fn space(&self) -> &Space<Unlatched> {
        self.nodes.space()
    }

    fn reserve(&self, pages: u32, reserved: u32) -> Result<u32> {
        self.nodes.reserve(pages, reserved)
    }

    fn install(&self, id: PageId, store: StoreId, kind: PageKind) -> Result<Self::Exclusive<'_>> {
        self.nodes.install(id, store, kind)
    }

    fn discard(&self, page: Self::Exclusive<'_>) {
        self.nodes.discard(page);
    }
}
