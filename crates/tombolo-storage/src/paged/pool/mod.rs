//! How pages are reached (S9, with S6 and S8): what heap files and B+trees are written against.
//!
//! [`PageAccess`] is the switch, and these are its positions:
//!
//! | | [`BufferPool`] | [`DirectFrames`] | [`Pointers`] |
//! |---|---|---|---|
//! | page number to frame | hash table, latched by partition | base + number × size | the same |
//! | larger than memory | yes: clock replacement, write-back | no | no |
//! | pin counts, usage counts, dirty flags | yes | none | none |
//! | latch per frame | if `L` latches | if `L` latches | none, never shared |
//! | rows | slotted pages | slotted pages | slabs, found by pointer (`heap/slabs.rs`) |
//! | instructions, fix and unfix | see `buffer.rs` | see `direct.rs` | see `direct.rs` |
//!
//! Every access goes through a guard: a page is *fixed* (it stays in its frame) and latched for as
//! long as the guard lives; [`SharedPage::pin`] gives the latch back and keeps one row of the page
//! in place. A thread takes several guards in one fixed order, or tries: latches know no deadlock
//! detection (LG-21). Free space (`space.rs`) is latched after pages that are in use and
//! before pages that are free. Without latches (S6 off) there is one thread, and it must not do
//! what would make it wait for itself with latches: no page is fixed twice unless to read it.
//!
//! A page's number may reach another thread only in an order of memory: under a latch, or by a
//! Release and an Acquire. The page and its frame were made before it.
//!
//! Not here: what pages mean, row locks, log records (LG-20; the write-ahead rule is [`WriteAhead`]).

mod buffer;
mod clock;
mod copies;
mod direct;
mod error;
mod fetch;
mod file;
mod frame;
mod pointers;
mod space;
mod table;
mod write_back;

#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::ops::Deref;
use std::ptr::NonNull;

pub use buffer::{BufferPool, PoolUsage};
pub use direct::{DirectExclusive, DirectFrames, DirectPin, DirectShared};
pub use error::{PageError, PageFailure};
pub(in crate::paged) use fetch::FETCH_MAX;
pub use file::PAGES_FILE;
pub use frame::{ExclusiveFrame, PinnedRecord, SharedFrame};
pub use pointers::Pointers;
pub use space::{Space, SpaceStep, set_free};
pub use write_back::DirtyPage;

use super::page::{Page, PageId, PageKind, PageMut, PageSize, StoreId};
use crate::error::Error;
use crate::latch::Latching;
use crate::memory::slab::prefetch;
use crate::store::Damage;

/// A result of reaching pages.
pub type Result<T, E = PageError> = std::result::Result<T, E>;

/// Reaches the pages of one file (S9).
pub trait PageAccess: 'static {
    /// How large they are (S8).
    type Size: PageSize;
    /// Whether they are latched (S6).
    type Latching: Latching;
    /// A page held together with other readers.
    type Shared<'a>: SharedPage<Size = Self::Size>
    where
        Self: 'a;
    /// A page held alone.
    type Exclusive<'a>: ExclusivePage<Size = Self::Size>
    where
        Self: 'a;

    /// Waits until no thread holds the page alone, and holds it for reading.
    ///
    /// # Errors
    /// When there is no such page, it is damaged, the disk fails, or every frame is fixed.
    fn fix_shared(&self, id: PageId) -> Result<Self::Shared<'_>>;

    /// The page held for reading if it is in memory; it is not read from the file. The number may
    /// be out of date: the caller looks at what the page is now.
    fn fix_resident(&self, id: PageId) -> Option<Self::Shared<'_>>;

    /// The page held alone if it is in memory and no thread holds it; nothing is waited for. The number may be
    /// out of date, as for [`PageAccess::fix_resident`].
    fn fix_resident_alone(&self, id: PageId) -> Option<Self::Exclusive<'_>>;

    /// Says that the page will be reached soon, and in it its header, what is at `offset`, and part of a record:
    /// where it begins, and how many bytes it has. Nothing happens if it is not in memory.
    fn prefetch(&self, id: PageId, offset: usize, record: (usize, usize));

    /// Says that these pages will be needed soon: those that are not in memory are read at the same time, where the
    /// disk can do that. A page that cannot be read, or has no frame at once, is left to the call that needs it.
    #[inline(always)]
    fn fetch(&self, ids: impl Iterator<Item = PageId>) {
        _ = ids;
    }

    /// Waits until no thread holds the page, and holds it alone.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    fn fix_exclusive(&self, id: PageId) -> Result<Self::Exclusive<'_>>;

    /// `None` where [`PageAccess::fix_shared`] would wait for another holder.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    fn try_fix_shared(&self, id: PageId) -> Result<Option<Self::Shared<'_>>>;

    /// `None` where [`PageAccess::fix_exclusive`] would wait for another holder.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    fn try_fix_exclusive(&self, id: PageId) -> Result<Option<Self::Exclusive<'_>>>;

    /// Turns the only reader's guard into one that holds the page alone, or gives it back.
    ///
    /// # Errors
    /// The guard, when there are other readers.
    fn try_upgrade<'a>(
        &'a self,
        shared: Self::Shared<'a>,
    ) -> Result<Self::Exclusive<'a>, Self::Shared<'a>>;

    /// Makes an empty page, a freed one if there is any, as a step that is not logged. Its LSN is at least
    /// that of the page it was before. Must not be called while holding a page that was freed.
    ///
    /// # Errors
    /// When the disk is full (`is_full`) or fails, or every frame is fixed; nothing changes then.
    fn new_page(&self, store: StoreId, kind: PageKind) -> Result<Self::Exclusive<'_>>
    where
        Self: Sized,
    {
        let mut step = SpaceStep::new(self);
        let page = step.take(store, kind)?;
        step.finish(None);
        Ok(page)
    }

    /// Gives a page back, as a step that is not logged. Nothing may lead to it any more.
    fn free_page(&self, mut page: Self::Exclusive<'_>)
    where
        Self: Sized,
    {
        let mut step = SpaceStep::new(self);
        step.give(&page);
        set_free(&mut page, step.freed()[0].next, None);
        step.finish(None);
    }

    /// Which pages are in use.
    fn space(&self) -> &Space<Self::Latching>;

    /// Takes space for at least `pages` pages of the file, of which `reserved` have some; says how many have.
    ///
    /// # Errors
    /// When the disk is full or fails.
    fn reserve(&self, pages: u32, reserved: u32) -> Result<u32>;

    /// Puts an empty page in place of one whose content does not matter: it is not read.
    ///
    /// # Errors
    /// When every frame is fixed, or there is no memory.
    fn install(&self, id: PageId, store: StoreId, kind: PageKind) -> Result<Self::Exclusive<'_>>;

    /// Forgets a page that was installed and is not counted.
    fn discard(&self, page: Self::Exclusive<'_>);

    /// Writes no page from now on: what is in memory may not agree with the log. The first reason
    /// stays. Nothing happens where no page is written before the end.
    fn stop_writing(&self, _: &'static str) {}

    /// How many sessions may be open, so that each finds frames for what it fixes at a time.
    fn sessions_max(&self) -> usize {
        usize::MAX
    }

    /// Pages of the file, free ones and the header among them.
    #[inline(always)]
    fn page_count(&self) -> u32 {
        self.space().pages()
    }

    /// The page where the directory of stores begins, once it is set.
    fn root(&self) -> Option<PageId> {
        let root = self.space().state().root;
        (root != 0).then_some(PageId(root))
    }

    /// The list of free pages, as far as it can be followed.
    fn free_pages(&self) -> Vec<PageId>
    where
        Self: Sized,
    {
        self.space().free_pages(self)
    }

    /// Verifies every page and the list of free pages. No thread may hold a page.
    fn check(&self) -> Vec<Damage>
    where
        Self: Sized,
    {
        self.space().check(self)
    }
}

/// Most pages that a session keeps fixed at a time: those of one step of a tree's structure (parent,
/// node, both neighbours, and ancestors that go with it), or of a heap file that grows.
pub(super) const PINS_MAX: usize = 8;

/// Bytes of a cache line.
pub(super) const LINE_BYTES: usize = 64;

/// Asks for the lines that hold the header, what is at `offset`, and a record of the page at `base`; what of that is
/// beyond the page is left out.
#[inline(always)]
fn prefetch_lines<S: PageSize>(
    base: NonNull<u8>,
    offset: usize,
    (record, record_bytes): (usize, usize),
) {
    let base = base.as_ptr();
    prefetch(base);
    prefetch(base.wrapping_add(offset));
    if record_bytes > 0 {
        let end = S::BYTES.min(record + record_bytes);
        let mut at = record / LINE_BYTES * LINE_BYTES;
        while at < end {
            prefetch(base.wrapping_add(at));
            at += LINE_BYTES;
        }
    }
}

/// Holds a page so that it can be read.
pub trait ReadPage {
    /// How large it is.
    type Size: PageSize;

    /// The page.
    fn page(&self) -> Page<'_, Self::Size>;
}

/// Holds a page together with other readers.
pub trait SharedPage: ReadPage {
    /// Keeps a record in place without the latch.
    type Pin: Deref<Target = [u8]>;

    /// Gives the latch back and keeps the record in `slot`, which is locked by its transaction, in
    /// place; `None` if there is no record.
    fn pin(self, slot: u16) -> Option<Self::Pin>;
}

/// Holds a page alone.
pub trait ExclusivePage: ReadPage {
    /// The page, to be changed.
    fn page_mut(&mut self) -> PageMut<'_, Self::Size>;

    /// Whether no row of the page is pinned: only then may rows move ([`PageMut::compact`]). May
    /// say no although none is.
    fn is_alone(&self) -> bool;

    /// Says that the file lacks changes which were logged from `lsn` on: a restart makes them in the page. Nothing
    /// happens where no page is written before the end.
    fn lacks_since(&mut self, lsn: u64) {
        _ = lsn;
    }
}

/// What pages say of the log that goes with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagesMark {
    /// The log's number, which is its database's.
    pub number: u64,
    /// Up to where the log was durable when they were written; no later checkpoint is known to them. 0 if they
    /// were written without a log.
    pub position: u64,
    /// Whether they were closed: then the log ends there.
    pub is_closed: bool,
}

/// The write-ahead rule (LG-18): a page goes to disk only after the log has, up to the page's LSN.
pub trait WriteAhead {
    /// Whether a log may be kept at all.
    const LOGS: bool = false;

    /// Whether the log outlives the process, so that a restart brings pages up to it.
    fn is_kept(&self) -> bool {
        false
    }

    /// The number of the database whose log it is; 0 if it is not kept.
    fn number(&self) -> u64 {
        0
    }

    /// The log before this LSN is durable: at most the LSN of what is logged from now on.
    fn durable(&self) -> u64 {
        0
    }

    /// Returns when the log is durable up to and including `lsn`.
    ///
    /// # Errors
    /// When it cannot be made so: the page must not be written.
    fn flush_to(&self, lsn: u64) -> Result<(), Error>;
}

/// For stores without a log (S2–S4 off): nothing has to be ahead.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWriteAhead;

impl WriteAhead for NoWriteAhead {
    #[inline(always)]
    fn flush_to(&self, _: u64) -> Result<(), Error> {
        Ok(())
    }
}

impl<W: WriteAhead> WriteAhead for crate::sync::Arc<W> {
    const LOGS: bool = W::LOGS;

    fn is_kept(&self) -> bool {
        (**self).is_kept()
    }

    fn number(&self) -> u64 {
        (**self).number()
    }

    fn durable(&self) -> u64 {
        (**self).durable()
    }

    fn flush_to(&self, lsn: u64) -> Result<(), Error> {
        (**self).flush_to(lsn)
    }
}
