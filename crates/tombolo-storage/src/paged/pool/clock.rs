//! Replacement and write-back: which page leaves when another needs its frame.
//!
//! A clock with usage counts: the hand takes one use of each frame it passes and evicts the first
//! that has none left and is not pinned. Clean pages go first; a dirty one is written, by the
//! thread that needs the frame, when a turn found no clean one. A page is written only after the
//! log is durable up to its LSN (LG-18), under a shared latch, so readers continue meanwhile.
//!
//! No latch is waited for here: the thread that needs a frame may hold latches of other pages.

use std::ptr::NonNull;

use super::buffer::BufferPool;
use super::error::PageFailure;
use super::frame::{Frame, FramePin, NO_PAGE};
use super::{Result, WriteAhead};
use crate::latch::{Counter, Latching, RawLatch};
use crate::paged::page::{Page, PageId, PageSize};
use crate::sync::Spin;

/// A frame that no page table leads to, pinned once.
pub(super) struct OwnedFrame<'a, L: Latching> {
    pub(super) index: u32,
    pub(super) pin: FramePin<'a, L>,
}

impl<S: PageSize, L: Latching, W: WriteAhead + 'static> BufferPool<S, L, W> {
    /// A frame for a page, whose content is unspecified.
    #[cold]
    pub(super) fn claim(&self) -> Result<OwnedFrame<'_, L>> {
        let mut patience = Spin::new();
        loop {
            // Two turns take all uses of a page used once; the third may write.
            for turn in 0..3 {
                if let Some(owned) = self.turn(turn == 2)? {
                    return Ok(owned);
                }
            }
            // Frames used more often need more turns; pinned ones may be let go of.
            let in_use = self.frames.iter().filter(|frame| frame.pins() > 0).count();
            if in_use == self.frames.len() && !(L::WAITS && patience.again()) {
                return Err(PageFailure::PoolFull { frames: in_use }.into());
            }
        }
    }

    /// Passes every frame once.
    fn turn(&self, may_write: bool) -> Result<Option<OwnedFrame<'_, L>>> {
        for _ in 0..self.frames.len() {
            let index = (self.hand.advance(1) % self.frames.len() as u64) as u32;
            let frame = &self.frames[index as usize];
            if let Some(pin) = frame.claim_empty() {
                return Ok(Some(OwnedFrame { index, pin }));
            }
            if frame.pins() > 0 || frame.spend_use() {
                continue;
            }
            if frame.is_dirty() {
                if !may_write {
                    continue;
                }
                self.clean(index)?;
            }
            if let Some(pin) = self.evict(index) {
                return Ok(Some(OwnedFrame { index, pin }));
            }
        }
        Ok(None)
    }

    /// Takes a clean page that is not pinned out of its frame.
    fn evict(&self, index: u32) -> Option<FramePin<'_, L>> {
        let frame = &self.frames[index as usize];
        let id = frame.page.get();
        if id == NO_PAGE {
            return None;
        }
        let place = self.table.place(PageId(id));
        let _held = place.exclusive();
        // What was read without the latch was a guess. Pinned before it counts as empty: of the
        // threads that find it empty, this one included, one gets it.
        let pin = frame.claim()?;
        if frame.page.get() != id || frame.is_dirty() {
            return None;
        }
        place.unlink(&self.frames, index);
        frame.page.set(NO_PAGE);
        Some(pin)
    }

    /// Pins the page in a frame, if there is one.
    fn pin_resident(&self, index: u32) -> Option<FramePin<'_, L>> {
        let frame = &self.frames[index as usize];
        let id = frame.page.get();
        if id == NO_PAGE {
            return None;
        }
        let _held = self.table.place(PageId(id)).shared();
        (frame.page.get() == id).then(|| frame.pin())
    }

    /// Writes the page in a frame if it is dirty and no thread holds it alone.
    fn clean(&self, index: u32) -> Result<()> {
        let Some(pin) = self.pin_resident(index) else { return Ok(()) };
        let Some(_latch) = pin.frame().latch.try_shared() else { return Ok(()) };
        self.write_back(index, pin.frame())
    }

    /// Writes every dirty page. No thread may wait for this one meanwhile: it waits for latches.
    pub(super) fn clean_all(&self) -> Result<()> {
        for index in 0..self.frames.len() as u32 {
            let Some(pin) = self.pin_resident(index) else { continue };
            let _latch = pin.frame().latch.shared();
            self.write_back(index, pin.frame())?;
        }
        Ok(())
    }

    /// Writes the page in a pinned frame that is latched, if it is dirty.
    fn write_back(&self, index: u32, frame: &Frame<L>) -> Result<()> {
        // A page that could not be read never was dirty.
        if !frame.is_dirty() {
            return Ok(());
        }
        let base: NonNull<u8> = self.base(index);
        // SAFETY: (1) the frame is pinned, and holds a page that is dirty, hence formatted or
        // verified. (2) The caller's latch keeps writers out.
        let page = unsafe { Page::<S>::new(base) };
        self.log.flush_to(page.lsn()).map_err(PageFailure::Log)?;
        self.file.write_page(page)?;
        frame.set_dirty(false);
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::disk::MemDisk;
    use crate::latch::Latched;
    use crate::paged::page::{PageKind, SmallPages, StoreId};
    use crate::paged::pool::{NoWriteAhead, PageAccess, ReadPage};

    /// A page may have become dirty since it was found clean.
    #[test]
    fn a_dirty_page_stays_in_its_frame() {
        let disk = MemDisk::new();
        let pool = BufferPool::<SmallPages, Latched, _>::create(&disk, 2, NoWriteAhead).unwrap();
        let id = pool.new_page(StoreId(1), PageKind::Heap).unwrap().page().id();
        let index = (0..2).find(|&at| pool.frames[at as usize].page.get() == id.0).unwrap();
        assert!(pool.frames[index as usize].is_dirty());
        assert!(pool.evict(index).is_none());
        pool.clean(index).unwrap();
        assert!(pool.evict(index).is_some());
    }
}
