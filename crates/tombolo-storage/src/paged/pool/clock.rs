//! Replacement: which page leaves when another needs its frame.
//!
//! A clock that counts rounds: where the hand passes a page that was used since the last time, the page has one round
//! more, else one less; it evicts the first that has none left, is clean and is not pinned. However often a page is
//! used in one round, that is one: a scan that finds a page once for each of its rows does not drive out what is used
//! in every round. After a few frames without one, those of them
//! with fewest uses are made *ready*: their dirty pages are written, after one flush of the log, and
//! this miss and the next ones take their frames, unless they were used again. So a miss looks at a
//! few frames whatever the pool's size and however much of it is dirty, and writes one page, both on
//! average (`write_back.rs`). Where a database has a thread for it, that makes frames ready before they are needed, and
//! a miss finds one.
//!
//! No latch of a page is waited for here: the thread that needs a frame may hold latches of other
//! pages. It waits while every frame is pinned: sessions are admitted only as there are frames for
//! all they may pin at a time ([`PINS_MAX`](super::PINS_MAX)), so one is let go of.

use std::time::Duration;

use super::buffer::BufferPool;
use super::error::PageFailure;
use super::frame::{FramePin, NO_PAGE};
use super::{Result, WriteAhead};
use crate::latch::{Counter, Latching, RawLatch};
use crate::paged::page::{PageId, PageSize};
use crate::plant::{self, Plant};
use crate::sync::{Parker, Spin};

/// Most frames the hand passes before it settles for those it has passed.
const SWEEP_FRAMES: usize = 64;
/// Most frames that are made ready at a time.
const READY_FRAMES: usize = 32;
/// Most frames that a thread of the database makes ready ahead, at most this part of all; it is called when half of
/// them are left.
const AHEAD_FRAMES: usize = 128;
const FRAMES_PER_AHEAD: usize = if cfg!(test) { 4 } else { 16 };
/// How long a thread that finds every frame pinned waits before it looks again, and how often before
/// it gives up: some tenths of a second. Loom gets no such wait, as of [`Spin`].
const WAIT: Duration = Duration::from_micros(100);
const WAITS_MAX: u32 = if cfg!(loom) { 0 } else { 2_000 };

/// What is called when few frames are ready.
pub(super) type FewReady = Box<dyn Fn() + Send + Sync>;

/// A frame that no page table leads to, pinned once.
pub(super) struct OwnedFrame<'a, L: Latching> {
    pub(super) index: u32,
    pub(super) pin: FramePin<'a, L>,
}

/// A frame the hand has passed.
struct Passed {
    /// In how many rounds it was used.
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
            match self.sweep(true)? {
                Swept::Found(owned) => return Ok(owned),
                Swept::Ready => swept = 0,
                Swept::InUse => swept += SWEEP_FRAMES,
            }
            if swept < self.frames.len() {
                continue;
            }
            let in_use = self.frames.iter().filter(|frame| frame.is_in_use()).count();
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

    /// A frame for a page, as of [`BufferPool::claim`], if there is one that need not be waited for.
    pub(super) fn claim_at_once(&self) -> Option<OwnedFrame<'_, L>> {
        let swept = match self.take_ready() {
            Some(owned) => return Some(owned),
            None => self.sweep(true).ok()?,
        };
        match swept {
            Swept::Found(owned) => Some(owned),
            Swept::Ready => self.take_ready(),
            Swept::InUse => None,
        }
    }

    /// Has `call` called when few frames are ready: a thread should call [`BufferPool::make_ready_ahead`] soon. The
    /// first one stays.
    pub fn when_few_are_ready(&self, call: impl Fn() + Send + Sync + 'static) {
        let _ = self.few_ready.set(Box::new(call));
    }

    fn ahead_frames(&self) -> usize {
        AHEAD_FRAMES.min(self.frames.len() / FRAMES_PER_AHEAD)
    }

    /// Writes dirty pages that have not been used lately, until some frames are ready for misses to come. Does nothing
    /// as long as frames have never held a page: a miss takes one of these.
    ///
    /// # Errors
    /// When log or disk fail. A miss that has to write a page says so, too.
    pub fn make_ready_ahead(&self) -> Result<()> {
        // They are taken in the order in which the hand comes by.
        if self.hand.get() < self.frames.len() as u64 {
            return Ok(());
        }
        while self.ready.hold().borrow().len() < self.ahead_frames() {
            if !matches!(self.sweep(false)?, Swept::Ready) {
                break;
            }
        }
        Ok(())
    }

    /// A frame that was made ready and not used since.
    fn take_ready(&self) -> Option<OwnedFrame<'_, L>> {
        loop {
            let (index, left) = {
                let ready = self.ready.hold();
                let mut ready = ready.borrow_mut();
                (ready.pop(), ready.len())
            };
            if left == self.ahead_frames() / 2
                && let Some(call) = self.few_ready.get()
            {
                call();
            }
            let index = index?;
            if self.frames[index as usize].uses() == 0
                && let Some(pin) = self.evict(index)
            {
                return Some(OwnedFrame { index, pin });
            }
        }
    }

    /// Passes some frames: takes the first that may go, if it is to take one, or makes some of them ready.
    fn sweep(&self, takes: bool) -> Result<Swept<'_, L>> {
        let mut passed: Vec<Passed> = Vec::new();
        for _ in 0..self.frames.len().min(SWEEP_FRAMES) {
            let index = (self.hand.advance(1) % self.frames.len() as u64) as u32;
            let frame = &self.frames[index as usize];
            if takes && let Some(pin) = frame.claim_empty() {
                return Ok(Swept::Found(OwnedFrame { index, pin }));
            }
            if frame.is_in_use() {
                continue;
            }
            let uses = frame.end_round();
            if uses > 0 || frame.is_dirty() || !takes {
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

    /// Writes the dirty pages of frames and lists the frames as ready, the first to be taken first.
    fn make_ready(&self, chosen: &[Passed]) -> Result<()> {
        let mut indexes: Vec<u32> = chosen.iter().map(|passed| passed.index).collect();
        self.sort_as_in_file(&mut indexes);
        if !plant::is(Plant::DirtyPageDropped) {
            self.write_back(&indexes)?;
        }
        for Passed { index, .. } in chosen.iter().rev() {
            // Where it was changed since, it is dirty again, and not taken.
            self.frames[*index as usize].forget_uses();
            self.ready.hold().borrow_mut().push(*index);
        }
        Ok(())
    }

    /// Takes a clean page that is not in use out of its frame.
    pub(super) fn evict(&self, index: u32) -> Option<FramePin<'_, L>> {
        let frame = &self.frames[index as usize];
        let id = frame.page.get();
        if id == NO_PAGE {
            return None;
        }
        let place = self.table.place(PageId(id));
        let _held = place.exclusive();
        // No guard has it, which might pin a row, and none is made before the page's number is another one.
        let _latched = frame.latch.try_exclusive()?;
        let pin = frame.claim()?;
        // What was read without the latch was a guess.
        let stays = frame.is_dirty() && !plant::is(Plant::DirtyPageDropped);
        if frame.page.get() != id || stays {
            frame.make_usable();
            return None;
        }
        place.unlink(&self.frames, index);
        frame.page.set(NO_PAGE);
        Some(pin)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::disk::MemDisk;
    use crate::latch::Latched;
    use crate::paged::page::{PageKind, SmallPages, StoreId};
    use crate::paged::pool::frame::CLEAN;
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
        pool.write_older(CLEAN).unwrap();
        assert!(pool.evict(index).is_some());
    }
}
