//! Several pages are read at the same time, for calls that know which pages they will need (LG-20).
//!
//! A device reads several pages in little more time than one. So a call that has the numbers of its pages says them all
//! before it needs the first. It is a hint: what fails here fails again, with its reason, where the page is needed.
//!
//! While pages are read their frames are latched alone, several at a time. The thread waits for no latch of a page
//! meanwhile, and for no frame: other threads that need frames wait for it only as long as the disk takes.
//! Not here: one page that is needed now (`buffer.rs`), and which pages are asked for (`heap`, `btree`, `store`).

use super::buffer::BufferPool;
use super::clock::OwnedFrame;
use super::frame::NO_PAGE;
use super::{Result, WriteAhead};
use crate::latch::{Counter, Latching, RawLatch};
use crate::paged::page::{PageId, PageMut, PageSize};

/// Most pages read at the same time.
pub(in crate::paged) const FETCH_MAX: usize = 16;
/// A call takes at most this part of all frames: sessions are admitted as there are frames for what they fix.
const FRAMES_PER_FETCHED: usize = if cfg!(test) { 2 } else { 64 };

impl<S: PageSize, L: Latching, W: WriteAhead + 'static> BufferPool<S, L, W> {
    /// Reads those pages that are not in memory, if there are several.
    #[inline(never)]
    pub(super) fn fetch_missing(&self, ids: impl Iterator<Item = PageId>) {
        let most = FETCH_MAX.min(self.frames.len() / FRAMES_PER_FETCHED);
        let is_missing = |id: PageId| self.table.place(id).guess(&self.frames, id).is_none();
        let is_known = |id: PageId| id.0 != NO_PAGE && id.0 < self.space.pages();
        let mut missing: Vec<PageId> = Vec::new();
        for id in ids.filter(|id| is_missing(*id) && is_known(*id)) {
            if missing.contains(&id) {
                continue;
            }
            missing.push(id);
            if missing.len() >= most {
                self.read_together(&missing);
                missing.clear();
            }
        }
        self.read_together(&missing);
    }

    fn read_together(&self, ids: &[PageId]) {
        if ids.len() < 2 {
            return;
        }
        // All frames first: what writes pages to make frames ready takes longer than what comes then.
        let mut frames: Vec<OwnedFrame<'_, L>> = Vec::with_capacity(ids.len());
        while frames.len() < ids.len()
            && let Some(frame) = self.claim_at_once()
        {
            frames.push(frame);
        }
        let mut entered = Vec::with_capacity(frames.len());
        for (&id, owned) in ids.iter().zip(&frames) {
            let latch = owned.pin.frame().latch.exclusive();
            if self.enter(id, owned).is_ok() {
                entered.push((id, owned, latch));
            }
        }
        if self.read_entered(entered.iter().map(|(id, owned, _)| (*id, *owned))).is_err() {
            for (id, owned, _) in &entered {
                self.withdraw(*id, owned);
            }
        }
        // The latches go before the pins do.
        drop(entered);
    }

    /// Reads pages whose frames this thread has entered and holds alone.
    fn read_entered<'a>(
        &self,
        entered: impl Iterator<Item = (PageId, &'a OwnedFrame<'a, L>)>,
    ) -> Result<()>
    where
        L: 'a,
    {
        // SAFETY: each frame is this thread's: no other thread has its latch, and until that is given back none looks
        // at the bytes. Pages that cannot be read are taken out by the caller.
        let page = |owned: &OwnedFrame<'_, L>| unsafe { PageMut::new(self.base(owned.index)) };
        let mut pages: Vec<_> = entered.map(|(id, owned)| (id, page(owned))).collect();
        self.misses.advance(pages.len() as u64);
        self.file.read_pages(&mut pages)
    }
}
