//! Replacement and write-back: which page leaves when another needs its frame.
//!
//! A clock with usage counts: the hand takes one use of each frame it passes and evicts the first
//! that has none left, is clean and is not pinned. After a few frames without one, those of them
//! with fewest uses are made *ready*: their dirty pages are written, after one flush of the log, and
//! this miss and the next ones take their frames, unless they were used again. So a miss looks at a
//! few frames whatever the pool's size and however much of it is dirty, and writes one page, both on
//! average. A page is written only after the log is durable up to its LSN (LG-18), under a shared
//! latch, so readers continue meanwhile; in a poisoned database none is written at all.
//!
//! No latch of a page is waited for here: the thread that needs a frame may hold latches of other
//! pages. It waits while every frame is pinned: sessions are admitted only as there are frames for
//! all they may pin at a time ([`PINS_MAX`](super::PINS_MAX)), so one is let go of.

use std::ptr::NonNull;
use std::time::Duration;

use super::buffer::BufferPool;
use super::error::PageFailure;
use super::frame::{Frame, FramePin, NO_PAGE};
use super::{Result, WriteAhead};
use crate::error::Error;
use crate::latch::{Counter, Latching, RawLatch};
use crate::paged::page::{Page, PageId, PageSize};
use crate::sync::{Parker, Spin};

/// Most frames the hand passes before it settles for those it has passed.
const SWEEP_FRAMES: usize = 64;
/// Most frames that are made ready at a time.
const READY_FRAMES: usize = 32;
/// How long a thread that finds every frame pinned waits before it looks again, and how often before
/// it gives up: some tenths of a second. Loom gets no such wait, as of [`Spin`].
const WAIT: Duration = Duration::from_micros(100);
const WAITS_MAX: u32 = if cfg!(loom) { 0 } else { 2_000 };

/// A frame that no page table leads to, pinned once.
pub(super) struct OwnedFrame<'a, L: Latching> {
    pub(super) index: u32,
    pub(super) pin: FramePin<'a, L>,
}

/// A frame the hand has passed.
struct Passed {
    /// How often it had been used.
    uses: u32,
    index: u32,
}

/// What became of a sweep.
enum Swept<'a, L: Latching> {
    Found(OwnedFrame<'a, L>),
    /// Frames are ready.
    Ready,
    /// Every frame passed was pinned.
    InUse,
}

impl<S: PageSize, L: Latching, W: WriteAhead + 'static> BufferPool<S, L, W> {
    /// A frame for a page, whose content is unspecified.
    #[cold]
    pub(super) fn claim(&self) -> Result<OwnedFrame<'_, L>> {
        let mut patience = Spin::new();
        let (mut waits, mut swept) = (0, 0);
        loop {
            if let Some(owned) = self.take_ready() {
                return Ok(owned);
            }
            match self.sweep()? {
                Swept::Found(owned) => return Ok(owned),
                Swept::Ready => swept = 0,
                Swept::InUse => swept += SWEEP_FRAMES,
            }
            if swept < self.frames.len() {
                continue;
            }
            let in_use = self.frames.iter().filter(|frame| frame.pins() > 0).count();
            if in_use < self.frames.len() || L::WAITS && patience.again() {
                continue;
            }
            if !L::WAITS || waits == WAITS_MAX {
                return Err(PageFailure::PoolFull { frames: in_use }.into());
            }
            waits += 1;
            Parker::<()>::new().park_for(WAIT);
        }
    }

    /// A frame that was made ready and not used since.
    fn take_ready(&self) -> Option<OwnedFrame<'_, L>> {
        loop {
            let index = self.ready.hold().borrow_mut().pop()?;
            if self.frames[index as usize].uses() == 0
                && let Some(pin) = self.evict(index)
            {
                return Some(OwnedFrame { index, pin });
            }
        }
    }

    /// Passes some frames: takes the first that may go, or makes some of them ready.
    fn sweep(&self) -> Result<Swept<'_, L>> {
        let mut passed: Vec<Passed> = Vec::new();
        for _ in 0..self.frames.len().min(SWEEP_FRAMES) {
            let index = (self.hand.advance(1) % self.frames.len() as u64) as u32;
            let frame = &self.frames[index as usize];
            if let Some(pin) = frame.claim_empty() {
                return Ok(Swept::Found(OwnedFrame { index, pin }));
            }
            if frame.pins() > 0 {
                continue;
            }
            let uses = frame.spend_use();
            if uses > 0 || frame.is_dirty() {
                passed.push(Passed { uses, index });
            } else if let Some(pin) = self.evict(index) {
                return Ok(Swept::Found(OwnedFrame { index, pin }));
            }
        }
        if passed.is_empty() {
            return Ok(Swept::InUse);
        }
        passed.sort_by_key(|passed| passed.uses);
        let unused = passed.iter().filter(|passed| passed.uses == 0).count();
        let chosen = if unused > 0 { unused } else { passed.len().div_ceil(2) };
        self.make_ready(&passed[..chosen.min(READY_FRAMES)])?;
        Ok(Swept::Ready)
    }

    /// Writes the dirty pages of frames, after one flush of the log, and lists the frames as ready,
    /// the first to be taken first.
    fn make_ready(&self, chosen: &[Passed]) -> Result<()> {
        let mut newest = 0;
        for Passed { index, .. } in chosen {
            self.with_shared(*index, |page, _| newest = newest.max(page.lsn()));
        }
        self.log.flush_to(newest).map_err(PageFailure::Log)?;
        for Passed { index, .. } in chosen.iter().rev() {
            // A page that was changed since is not worth another flush.
            let written = self.with_shared(*index, |page, frame| match page.lsn() <= newest {
                true => self.write_back(page, frame),
                false => Ok(()),
            });
            if let Some(written) = written {
                written?;
                self.frames[*index as usize].forget_uses();
                self.ready.hold().borrow_mut().push(*index);
            }
        }
        Ok(())
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

    /// Shows the page in a frame, if there is one and no thread holds it alone.
    fn with_shared<T>(
        &self,
        index: u32,
        show: impl FnOnce(Page<'_, S>, &Frame<L>) -> T,
    ) -> Option<T> {
        let pin = self.pin_resident(index)?;
        let _latch = pin.frame().latch.try_shared()?;
        // It may be one that could not be read.
        (pin.frame().page.get() != NO_PAGE).then(|| show(self.page(index), pin.frame()))
    }

    /// Writes every dirty page. No thread may wait for this one meanwhile: it waits for latches.
    pub(super) fn clean_all(&self) -> Result<()> {
        for index in 0..self.frames.len() as u32 {
            let Some(pin) = self.pin_resident(index) else { continue };
            let _latch = pin.frame().latch.shared();
            if pin.frame().page.get() != NO_PAGE {
                self.write_back(self.page(index), pin.frame())?;
            }
        }
        Ok(())
    }

    /// The page in a frame that is pinned, latched, and holds one.
    fn page(&self, index: u32) -> Page<'_, S> {
        let base: NonNull<u8> = self.base(index);
        // SAFETY: (1) the frame is pinned and holds a page that was formatted or verified. (2) The
        // caller's latch keeps writers out.
        unsafe { Page::new(base) }
    }

    /// Writes the page in a pinned frame that is latched, if it is dirty.
    fn write_back(&self, page: Page<'_, S>, frame: &Frame<L>) -> Result<()> {
        if !frame.is_dirty() {
            return Ok(());
        }
        if let Some(reason) = self.stopped.get() {
            return Err(PageFailure::Log(Error::Poisoned { reason }).into());
        }
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
        pool.clean_all().unwrap();
        assert!(pool.evict(index).is_some());
    }
}
