//! `BufferPool`: fix and unfix through a hash table, with replacement (LG-20; S9 on).
//!
//! A fix finds the frame in the page table and latches it; an unfix gives the latch back. Where the latch is
//! not free the frame is pinned before it is waited for. A page that is not in memory is read into a frame that the
//! clock chose; its number enters the table before it is read, so that two threads that need it
//! read it once: the second waits for the first one's latch.
//!
//! A fix and unfix of a page in memory takes about 75 instructions (two latches, a chain, a pin, the
//! statistics), without latches about 40: `examples/pool_probe.rs`, which says how it counts.
//!
//! Not here: which page leaves (`clock.rs`), several reads at the same time (`fetch.rs`), free pages (`space.rs`), the
//! file (`file.rs`).

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::clock::{FewReady, OwnedFrame};
use super::error::{PageError, PageFailure};
use super::file::PageFile;
use super::frame::{CLEAN, ExclusiveFrame, FixedFrame, Frame, FramePin, NO_PAGE, SharedFrame};
use super::space::{Space, SpaceState};
use super::table::{PageTable, Place};
use super::write_back::DirtyPage;
use super::{
    ExclusivePage, PINS_MAX, PageAccess, PagesMark, ReadPage, Result, WriteAhead, prefetch_lines,
};
use crate::disk::Disk;
use crate::latch::{Counter, Latch, Latching, RawLatch};
use crate::memory::region::Region;
use crate::memory::slab::prefetch;
use crate::paged::page::{PageId, PageKind, PageMut, PageSize, StoreId};
use crate::plant::{self, Plant};

/// How a pool was used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Frames of the pool.
    pub frames: u64,
    /// Bytes of a frame.
    pub page_bytes: u64,
    /// Fixes that found their page in memory; threads that fix one page at once may be counted as one.
    pub hits: u64,
    /// Pages that were read.
    pub misses: u64,
    /// Frames that were looked at for a page to leave.
    pub passed: u64,
}

/// Memory that holds all frames.
#[derive(Debug)]
struct FrameMemory(Region);

// SAFETY: what is shared is the region's address, which never changes. Its bytes are reached under
// frames' latches and pins; a pool without latches is `!Sync` because its frames are.
unsafe impl Sync for FrameMemory {}

/// Pages of one file in frames of memory, larger than memory if need be.
///
/// Without latches it cannot be shared:
///
/// ```compile_fail
/// use tombolo_storage::latch::Unlatched;
/// use tombolo_storage::paged::page::SmallPages;
/// use tombolo_storage::paged::pool::{BufferPool, NoWriteAhead};
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<BufferPool<SmallPages, Unlatched, NoWriteAhead>>();
/// ```
pub struct BufferPool<S: PageSize, L: Latching, W> {
    pub(super) frames: Box<[Frame<L>]>,
    pub(super) table: PageTable<L>,
    pub(super) hand: L::Counter,
    /// Pages that were read.
    pub(super) misses: L::Counter,
    /// Frames whose pages were written lately and may go, the next one last. A hint.
    pub(super) ready: Latch<RefCell<Vec<u32>>, L>,
    /// Called when few frames are ready: see [`BufferPool::when_few_are_ready`].
    pub(super) few_ready: OnceLock<FewReady>,
    /// Why no page is written any more.
    pub(super) stopped: OnceLock<&'static str>,
    pub(super) log: W,
    pub(super) file: PageFile<S>,
    memory: FrameMemory,
    pub(super) space: Space<L>,
}

impl<S: PageSize, L: Latching, W: WriteAhead + 'static> BufferPool<S, L, W> {
    /// Makes the data file, and a pool of `frames` frames for it.
    ///
    /// # Errors
    /// When the file exists, the disk fails, or there is no memory.
    ///
    /// # Panics
    /// When `frames` is 0 or more than 2^31: it comes from a setting with limits.
    pub fn create(disk: &dyn Disk, frames: usize, log: W) -> Result<Self> {
        let memory = FrameMemory::new::<S>(frames)?;
        let mark = [log.number(), log.durable()];
        let (file, state) = PageFile::create(disk, log.is_kept(), mark)?;
        Ok(Self::with(memory, frames, file, state, log))
    }

    /// Opens the data file, and a pool of `frames` frames for it.
    ///
    /// # Errors
    /// When the file was not closed, is damaged, in use or of another version, the disk fails, or
    /// there is no memory.
    ///
    /// # Panics
    /// As [`BufferPool::create`].
    pub fn open(disk: &dyn Disk, frames: usize, log: W) -> Result<Self> {
        let pool = Self::open_unmarked(disk, frames, log, false)?;
        pool.mark_open()?;
        Ok(pool)
    }

    /// The same of a file that may not have been closed, if `restarts`; nothing is written before
    /// [`BufferPool::mark_open`].
    ///
    /// # Errors
    /// As [`BufferPool::open`].
    pub fn open_unmarked(disk: &dyn Disk, frames: usize, log: W, restarts: bool) -> Result<Self> {
        let memory = FrameMemory::new::<S>(frames)?;
        let (file, state) = PageFile::open(disk, log.is_kept(), restarts)?;
        Ok(Self::with(memory, frames, file, state, log))
    }

    /// What a file says of its log, or will say once it is repaired, if it may be (`repairs`).
    ///
    /// # Errors
    /// When there is no file, it is in use, of another version, or damaged and not to be repaired, or the disk fails.
    pub fn survey(disk: &dyn Disk, repairs: bool) -> Result<PagesMark> {
        PageFile::<S>::survey(disk, repairs)
    }

    /// Says in the file that it is not closed.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn mark_open(&self) -> Result<()> {
        self.space.mark_open(&self.file)
    }

    fn with(
        memory: FrameMemory,
        frames: usize,
        file: PageFile<S>,
        state: SpaceState,
        log: W,
    ) -> Self {
        Self {
            frames: (0..frames).map(|_| Frame::empty()).collect(),
            table: PageTable::new(frames),
            hand: L::Counter::default(),
            misses: L::Counter::default(),
            ready: Latch::default(),
            few_ready: OnceLock::new(),
            stopped: OnceLock::new(),
            log,
            file,
            memory,
            space: Space::new(state),
        }
    }

    /// Writes pages with changes that the file may lack and that were logged before `older`, and makes the file
    /// durable; it still counts as not closed. Waits until no thread holds such a page alone. Returns the pages
    /// that the file still may lack changes of. Where a log is kept, page 0 says that it was durable up to
    /// `position`, and it is.
    ///
    /// # Errors
    /// When log or disk fail.
    pub fn checkpoint(&self, older: u64, position: u64) -> Result<Vec<DirtyPage>> {
        self.write_older(older)?;
        let dirty = self.dirty_pages();
        if self.log.is_kept() {
            self.space.set_log(self.log.number(), position);
        }
        let state = self.space.state();
        let newest = state.lsn.max(position.saturating_sub(1));
        self.log.flush_to(newest).map_err(PageFailure::Log)?;
        self.file.write_header(state, false)?;
        if !plant::is(Plant::PagesNotSynced) {
            self.file.sync()?;
        }
        Ok(dirty)
    }

    /// Shows the pages of the file, as they are there; see [`RowAccess::show_file`].
    ///
    /// [`RowAccess::show_file`]: crate::paged::store::RowAccess::show_file
    ///
    /// # Errors
    /// When one is damaged or the disk fails; what `show` says.
    pub fn show_file<E: From<PageError>>(
        &self,
        show: impl FnMut(u64, u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.file.show_all(show)
    }

    /// Writes every dirty page and makes the file durable; no thread changes any.
    ///
    /// # Errors
    /// When log or disk fail.
    pub fn flush(&self) -> Result<()> {
        self.checkpoint(CLEAN, self.log.durable()).map(drop)
    }

    /// Writes every dirty page and closes the file, so that it can be opened again. Nothing may be
    /// changed after that.
    ///
    /// # Errors
    /// When log or disk fail: the file counts as not closed then.
    pub fn close(&self) -> Result<()> {
        // The log may be closed already: then every page was flushed.
        self.write_older(CLEAN)?;
        self.file.sync()?;
        self.file.write_header(self.space.state(), true)?;
        self.file.sync()
    }

    /// How the pool was used so far.
    pub fn usage(&self) -> PoolUsage {
        let hits = self.frames.iter().map(Frame::hits).sum();
        let (frames, misses) = (self.frames.len() as u64, self.misses.get());
        PoolUsage { frames, page_bytes: S::BYTES as u64, hits, misses, passed: self.hand.get() }
    }

    /// Where the page in a frame lies.
    #[inline(always)]
    pub(super) fn base(&self, index: u32) -> NonNull<u8> {
        debug_assert!((index as usize) < self.frames.len());
        let base = self.memory.0.base().wrapping_add(index as usize * S::BYTES);
        // SAFETY: an address inside a mapping.
        unsafe { NonNull::new_unchecked(base) }
    }

    /// Says that the page in a frame, which is held alone, may be changed from now on.
    #[inline(always)]
    fn note_change(&self, frame: &Frame<L>) {
        if W::LOGS && !frame.is_dirty() {
            frame.note_recovery(self.log.durable());
        }
    }

    /// A guard of the page in a frame that is latched.
    #[inline(always)]
    fn shared<'a>(
        &self,
        index: u32,
        latch: <L::Latch as RawLatch>::Shared<'a>,
        fixed: FixedFrame<'a, L>,
    ) -> SharedFrame<'a, S, L> {
        SharedFrame { latch, fixed, base: self.base(index), size: PhantomData }
    }

    /// The same of one that is latched alone.
    #[inline(always)]
    fn exclusive<'a>(
        &self,
        index: u32,
        latch: <L::Latch as RawLatch>::Exclusive<'a>,
        fixed: FixedFrame<'a, L>,
    ) -> ExclusiveFrame<'a, S, L> {
        self.note_change(fixed.frame());
        ExclusiveFrame { _latch: latch, fixed, base: self.base(index), size: PhantomData }
    }

    /// Page `id`, held for reading, if it is found and its latch is free.
    #[inline(always)]
    fn shared_if_free(&self, id: PageId) -> Option<SharedFrame<'_, S, L>> {
        let (index, frame) = self.guess(id)?;
        let latch = frame.latch.try_shared()?;
        frame.is_of(id).then(|| self.shared(index, latch, FixedFrame::by_latch(frame)))
    }

    /// The same, held alone.
    #[inline(always)]
    fn exclusive_if_free(&self, id: PageId) -> Option<ExclusiveFrame<'_, S, L>> {
        let (index, frame) = self.guess(id)?;
        let latch = frame.latch.try_exclusive()?;
        frame.is_of(id).then(|| self.exclusive(index, latch, FixedFrame::by_latch(frame)))
    }

    /// The frame that held page `id` a moment ago, where frames are latched.
    #[inline(always)]
    fn guess(&self, id: PageId) -> Option<(u32, &Frame<L>)> {
        if L::WAITS { self.table.place(id).guess(&self.frames, id) } else { None }
    }

    #[cold]
    fn wait_shared(&self, id: PageId) -> Result<SharedFrame<'_, S, L>> {
        self.pin_shared(id)
    }

    #[cold]
    fn wait_exclusive(&self, id: PageId) -> Result<ExclusiveFrame<'_, S, L>> {
        self.pin_exclusive(id)
    }

    /// Page `id`, held for reading by way of a pin.
    #[inline(always)]
    fn pin_shared(&self, id: PageId) -> Result<SharedFrame<'_, S, L>> {
        loop {
            let (index, pin) = self.pin(id)?;
            let latch = pin.frame().latch.shared();
            // If it could not be read, the thread that tried has taken it out again: the next pass
            // reads it and returns the error.
            if pin.frame().page.get() == id.0 {
                return Ok(self.shared(index, latch, pin.latched()));
            }
        }
    }

    /// The same, held alone.
    #[inline(always)]
    fn pin_exclusive(&self, id: PageId) -> Result<ExclusiveFrame<'_, S, L>> {
        loop {
            let (index, pin) = self.pin(id)?;
            let latch = pin.frame().latch.exclusive();
            if pin.frame().page.get() == id.0 {
                return Ok(self.exclusive(index, latch, pin.latched()));
            }
        }
    }

    /// Keeps page `id` in its frame, reading it if need be.
    #[inline(always)]
    fn pin(&self, id: PageId) -> Result<(u32, FramePin<'_, L>)> {
        match self.pin_if_resident(id) {
            Some(pinned) => Ok(pinned),
            None => self.load(id),
        }
    }

    /// Keeps page `id` in its frame, if it has one.
    #[inline(always)]
    fn pin_if_resident(&self, id: PageId) -> Option<(u32, FramePin<'_, L>)> {
        let place = self.table.place(id);
        let found = place.pin_if_found(&self.frames, id);
        let (index, pin) = found.or_else(|| self.pin_latched(&place, id))?;
        pin.frame().count_hit();
        Some((index, pin))
    }

    /// The same while no page enters or leaves the page's chain.
    #[cold]
    fn pin_latched(&self, place: &Place<'_, L>, id: PageId) -> Option<(u32, FramePin<'_, L>)> {
        let _held = place.shared();
        let (index, frame) = place.find(&self.frames, id)?;
        Some((index, frame.pin()))
    }

    /// Brings page `id` into memory.
    #[cold]
    #[inline(never)]
    fn load(&self, id: PageId) -> Result<(u32, FramePin<'_, L>)> {
        if id.0 == NO_PAGE || id.0 >= self.space.pages() {
            return Err(self.file.no_such_page(id, self.space.pages()));
        }
        let owned = self.claim()?;
        let frame = owned.pin.frame();
        let latch = frame.latch.exclusive();
        if let Err(other) = self.enter(id, &owned) {
            // The latch goes before the pin does.
            drop(latch);
            return Ok(other);
        }
        self.misses.advance(1);
        // SAFETY: the frame is this thread's: no other thread has the latch, and until it is given
        // back none looks at the bytes. A page that cannot be read is taken out below.
        let mut page = unsafe { PageMut::new(self.base(owned.index)) };
        if let Err(error) = self.file.read_page(id, &mut page) {
            self.withdraw(id, &owned);
            drop(latch);
            return Err(error);
        }
        drop(latch);
        Ok((owned.index, owned.pin))
    }

    /// Enters an owned frame, latched exclusively, as that of page `id`; if the page got a frame
    /// meanwhile, pins that instead.
    pub(super) fn enter<'a>(
        &'a self,
        id: PageId,
        owned: &OwnedFrame<'a, L>,
    ) -> Result<(), (u32, FramePin<'a, L>)> {
        let place = self.table.place(id);
        let _held = place.exclusive();
        if let Some((index, frame)) = place.find(&self.frames, id) {
            return Err((index, frame.pin()));
        }
        let frame = owned.pin.frame();
        frame.set_clean();
        frame.page.set(id.0);
        frame.begin_rounds();
        place.link(&self.frames, owned.index);
        frame.make_usable();
        Ok(())
    }

    /// Takes a frame out that was entered but not filled. Others may have it pinned by now.
    pub(super) fn withdraw(&self, id: PageId, owned: &OwnedFrame<'_, L>) {
        let place = self.table.place(id);
        let _held = place.exclusive();
        place.unlink(&self.frames, owned.index);
        owned.pin.frame().make_empty();
    }
}

impl FrameMemory {
    fn new<S: PageSize>(frames: usize) -> Result<Self> {
        assert!(frames > 0 && frames <= 1 << 31, "{frames} frames");
        let mut region = Region::reserve(frames * S::BYTES)?;
        // A small database in a large pool takes the memory of its own pages.
        region.commit_untouched(frames * S::BYTES)?;
        Ok(Self(region))
    }
}

impl<S: PageSize, L: Latching, W: WriteAhead + 'static> PageAccess for BufferPool<S, L, W> {
    type Size = S;
    type Latching = L;
    type Shared<'a> = SharedFrame<'a, S, L>;
    type Exclusive<'a> = ExclusiveFrame<'a, S, L>;

    #[inline(always)]
    fn fix_shared(&self, id: PageId) -> Result<SharedFrame<'_, S, L>> {
        match self.shared_if_free(id) {
            Some(page) => Ok(page),
            None if L::WAITS => self.wait_shared(id),
            None => self.pin_shared(id),
        }
    }

    #[inline(always)]
    fn fix_resident(&self, id: PageId) -> Option<SharedFrame<'_, S, L>> {
        if let Some(page) = self.shared_if_free(id) {
            return Some(page);
        }
        let (index, pin) = self.pin_if_resident(id)?;
        let latch = pin.frame().latch.shared();
        let is_there = pin.frame().page.get() == id.0;
        is_there.then(|| self.shared(index, latch, pin.latched()))
    }

    #[inline(always)]
    fn fix_resident_alone(&self, id: PageId) -> Option<ExclusiveFrame<'_, S, L>> {
        if L::WAITS {
            return self.exclusive_if_free(id);
        }
        let (index, pin) = self.pin_if_resident(id)?;
        let latch = pin.frame().latch.exclusive();
        Some(self.exclusive(index, latch, pin.latched()))
    }

    #[inline(always)]
    fn prefetch(&self, id: PageId, offset: usize, record: (usize, usize)) {
        // Without the latch: a wrong frame is of no consequence. The first of the chain is right
        // nearly always, and looking further would wait for it.
        let index = self.table.place(id).first();
        if let Some(frame) = self.frames.get(index as usize) {
            prefetch(std::ptr::from_ref(frame).cast());
            prefetch_lines::<S>(self.base(index), offset, record);
        }
    }

    #[inline(always)]
    fn fetch(&self, ids: impl Iterator<Item = PageId>) {
        // As long as no page was read all of them fit.
        if self.misses.get() > 0 {
            self.fetch_missing(ids);
        }
    }

    #[inline(always)]
    fn fix_exclusive(&self, id: PageId) -> Result<ExclusiveFrame<'_, S, L>> {
        match self.exclusive_if_free(id) {
            Some(page) => Ok(page),
            None if L::WAITS => self.wait_exclusive(id),
            None => self.pin_exclusive(id),
        }
    }

    fn try_fix_shared(&self, id: PageId) -> Result<Option<SharedFrame<'_, S, L>>> {
        let (index, pin) = self.pin(id)?;
        let Some(latch) = pin.frame().latch.try_shared() else { return Ok(None) };
        let found = pin.frame().page.get() == id.0;
        Ok(found.then(|| self.shared(index, latch, pin.latched())))
    }

    fn try_fix_exclusive(&self, id: PageId) -> Result<Option<ExclusiveFrame<'_, S, L>>> {
        let (index, pin) = self.pin(id)?;
        let Some(latch) = pin.frame().latch.try_exclusive() else { return Ok(None) };
        let found = pin.frame().page.get() == id.0;
        Ok(found.then(|| self.exclusive(index, latch, pin.latched())))
    }

    fn try_upgrade<'a>(
        &'a self,
        shared: SharedFrame<'a, S, L>,
    ) -> Result<ExclusiveFrame<'a, S, L>, SharedFrame<'a, S, L>> {
        let SharedFrame { latch, fixed, base, size } = shared;
        match fixed.frame().latch.try_upgrade(latch) {
            Ok(latch) => {
                self.note_change(fixed.frame());
                Ok(ExclusiveFrame { _latch: latch, fixed, base, size })
            }
            Err(latch) => Err(SharedFrame { latch, fixed, base, size }),
        }
    }

    fn space(&self) -> &Space<L> {
        &self.space
    }

    fn reserve(&self, pages: u32, reserved: u32) -> Result<u32> {
        self.file.reserve(pages, reserved)
    }

    fn install(
        &self,
        id: PageId,
        store: StoreId,
        kind: PageKind,
    ) -> Result<ExclusiveFrame<'_, S, L>> {
        let owned = self.claim()?;
        let latch = owned.pin.frame().latch.exclusive();
        if self.enter(id, &owned).is_err() {
            // Only where a page is redone: it is in memory already.
            drop(latch);
            drop(owned);
            let mut page = self.fix_exclusive(id)?;
            page.page_mut().format(id, store, kind);
            return Ok(page);
        }
        self.note_change(owned.pin.frame());
        owned.pin.frame().set_dirty(true);
        // SAFETY: the latch is held alone, and the page is formatted immediately.
        unsafe { PageMut::<S>::new(self.base(owned.index)) }.format(id, store, kind);
        Ok(self.exclusive(owned.index, latch, owned.pin.latched()))
    }

    fn discard(&self, page: ExclusiveFrame<'_, S, L>) {
        let id = page.page().id();
        let place = self.table.place(id);
        let _held = place.exclusive();
        let frame = page.fixed.frame();
        if let Some((index, _)) = place.find(&self.frames, id) {
            place.unlink(&self.frames, index);
        }
        frame.set_clean();
        frame.make_empty();
    }

    fn stop_writing(&self, reason: &'static str) {
        let _ = self.stopped.set(reason);
    }

    fn sessions_max(&self) -> usize {
        self.frames.len() / PINS_MAX
    }
}
