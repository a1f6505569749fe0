//! Write-back: pages go to the data file, and what a checkpoint has to know of those that did not.
//!
//! A page is copied under a shared latch, after the log is durable up to its LSN (LG-18); the copy is written
//! while others change the page again. A frame counts as clean from the copy on, but stays pinned until it is
//! written, so that no thread reads the older page from the file. Pages on their way are in no frame's
//! recovery LSN: a checkpoint waits for the writer before it looks. In a poisoned database nothing is written.
//!
//! No latch of a page is waited for while the writer is held, because a thread that waits for the writer may
//! hold one. Not here: which page leaves (`clock.rs`), the records of a checkpoint (`store/checkpoint.rs`).

use std::time::Duration;

use super::buffer::BufferPool;
use super::copies::batch_pages;
use super::error::PageFailure;
use super::frame::{CLEAN, Frame, FramePin, NO_PAGE};
use super::{Result, WriteAhead};
use crate::error::Error;
use crate::header_copies::{long, short};
use crate::latch::{Latching, RawLatch};
use crate::paged::page::{Page, PageId, PageSize};
use crate::plant::{self, Plant};
use crate::sync::Parker;

/// How long a checkpoint waits for pages that were held alone whenever it came by.
const WAIT: Duration = Duration::from_micros(100);

/// A page of which changes may be missing in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyPage {
    /// Which.
    pub page: PageId,
    /// At most the LSN of the first change that may be missing.
    pub recovery_lsn: u64,
}

impl DirtyPage {
    /// Bytes of one in a log record.
    pub const BYTES: usize = 12;

    /// As it is logged.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.page.0.to_le_bytes());
        bytes[4..].copy_from_slice(&self.recovery_lsn.to_le_bytes());
        bytes
    }

    /// What [`DirtyPage::to_bytes`] made.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let page = PageId(short(bytes, 0));
        Self { page, recovery_lsn: long(bytes, 4) }
    }
}

impl<S: PageSize, L: Latching, W: WriteAhead + 'static> BufferPool<S, L, W> {
    /// Writes those pages of these frames that are dirty and that no thread holds alone, after one flush of the
    /// log. Neighbours in the file that follow each other here are written together.
    pub(super) fn write_back(&self, indexes: &[u32]) -> Result<()> {
        let dirty_lsn = |index: &u32| {
            let lsn = |page: Page<'_, S>, frame: &Frame<L>| frame.is_dirty().then(|| page.lsn());
            self.with_shared(*index, lsn).flatten()
        };
        let Some(newest) = indexes.iter().filter_map(dirty_lsn).max() else { return Ok(()) };
        self.refuse_stopped()?;
        if !plant::is(Plant::PageBeforeItsLog) {
            self.log.flush_to(newest).map_err(PageFailure::Log)?;
        }
        let mut writer = self.file.writer();
        let mut sent: Vec<(FramePin<'_, L>, u64)> = Vec::with_capacity(indexes.len());
        let mut send = || {
            for index in indexes {
                if writer.batch.is_full() {
                    self.file.write(&mut writer)?;
                }
                let pushed = self.with_shared(*index, |page, frame| {
                    // A page that was changed since is not worth another flush.
                    let goes = frame.is_dirty() && page.lsn() <= newest;
                    let recovery_lsn = frame.recovery_lsn();
                    if goes {
                        writer.batch.push(page);
                        frame.set_clean();
                    }
                    goes.then(|| (frame.pin(), recovery_lsn))
                });
                sent.extend(pushed.flatten());
            }
            self.file.write(&mut writer)
        };
        send().inspect_err(|_| {
            for (pin, recovery_lsn) in &sent {
                pin.frame().note_recovery(*recovery_lsn);
                pin.frame().set_dirty(true);
            }
        })
    }

    /// Puts frames in the order that their pages have in the file.
    pub(super) fn sort_as_in_file(&self, indexes: &mut [u32]) {
        // Each is asked once: frames get other pages meanwhile, and no order holds of keys that change.
        indexes.sort_by_cached_key(|index| self.frames[*index as usize].page.get());
    }

    fn refuse_stopped(&self) -> Result<()> {
        let reason = self.stopped.get();
        reason.map_or(Ok(()), |reason| Err(PageFailure::Log(Error::Poisoned { reason }).into()))
    }

    /// Writes every page that may have changes in memory alone which were logged before `lsn`; waits until no
    /// thread holds one alone.
    pub(super) fn write_older(&self, lsn: u64) -> Result<()> {
        loop {
            let older = |index: &u32| self.frames[*index as usize].is_older(lsn);
            let mut left: Vec<u32> = (0..self.frames.len() as u32).filter(older).collect();
            if left.is_empty() {
                return Ok(());
            }
            self.sort_as_in_file(&mut left);
            for batch in left.chunks(batch_pages::<S>()) {
                self.write_back(batch)?;
            }
            left.retain(older);
            // What is clean but was held alone is let off the list here.
            for index in &left {
                self.with_shared(*index, |_, frame| {
                    if !frame.is_dirty() {
                        frame.set_clean();
                    }
                });
            }
            if L::WAITS && left.iter().any(older) {
                Parker::<()>::new().park_for(WAIT);
            }
        }
    }

    /// The pages of which changes may be missing in the file once it is synced after this call.
    pub(super) fn dirty_pages(&self) -> Vec<DirtyPage> {
        if plant::is(Plant::DirtyPagesNotListed) {
            return Vec::new();
        }
        let _writer = self.file.writer();
        let dirty = |frame: &Frame<L>| {
            let (page, recovery_lsn) = (PageId(frame.page.get()), frame.recovery_lsn());
            (recovery_lsn != CLEAN && page.0 != NO_PAGE).then_some(DirtyPage { page, recovery_lsn })
        };
        self.frames.iter().filter_map(dirty).collect()
    }

    /// Shows the page in a frame, if there is one and no thread holds it alone.
    fn with_shared<'a, T>(
        &'a self,
        index: u32,
        show: impl FnOnce(Page<'_, S>, &'a Frame<L>) -> T,
    ) -> Option<T> {
        let pin = self.frames[index as usize].try_pin()?;
        let _latch = pin.frame().latch.try_shared()?;
        // It may be one that could not be read.
        if pin.frame().page.get() == NO_PAGE {
            return None;
        }
        // SAFETY: (1) the frame is pinned and holds a page that was formatted or verified. (2) The
        // latch keeps writers out.
        Some(show(unsafe { Page::new(self.base(index)) }, pin.frame()))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::disk::MemDisk;
    use crate::latch::Latched;
    use crate::paged::page::SmallPages;
    use crate::paged::pool::NoWriteAhead;

    #[test]
    fn frames_that_get_other_pages_meanwhile_are_sorted_all_the_same() {
        let disk = MemDisk::new();
        let pool = BufferPool::<SmallPages, Latched, _>::create(&disk, 256, NoWriteAhead).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut page = 1u32;
                while !is_over.load(Ordering::Relaxed) {
                    page = page.wrapping_mul(0x9E37_79B9).wrapping_add(1);
                    pool.frames[page as usize >> 8 & 255].page.set(page);
                }
            });
            let sort = || {
                for _ in 0..2_000 {
                    let mut indexes: Vec<u32> = (0..256).collect();
                    pool.sort_as_in_file(&mut indexes);
                    indexes.sort_unstable();
                    assert!(indexes.into_iter().eq(0..256));
                }
            };
            let sorted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(sort));
            is_over.store(true, Ordering::Relaxed);
            assert!(sorted.is_ok());
        });
    }
}
