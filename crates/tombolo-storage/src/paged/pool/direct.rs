//! `DirectFrames`: every page has its frame for good (S9 off, first form).
//!
//! A page's frame is found by arithmetic, `base + number × size`. Gone are the hash table and its
//! latches, pin counts, usage counts, dirty flags, replacement and write-back: the file is read
//! when it is opened and written when it is closed. What stays: pages and their format, guards, a
//! latch per frame if `L` latches (without, a guard is an address).
//!
//! Because pins are not counted, rows of a page are never known to be unpinned where other threads
//! exist, and are not moved together then; holes are reused by rows of their size (`slots.rs`).
//!
//! A fix and unfix takes about 8 instructions, with latches about 20 to 25
//! (`examples/pool_probe.rs`).
//!
//! Not here: data larger than memory. The write-ahead rule has nothing to hold back: no page is
//! written before the store is closed.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use super::file::PageFile;
use super::space::{Space, SpaceState};
use super::{
    ExclusivePage, PageAccess, PageError, PagesMark, ReadPage, Result, SharedPage, prefetch_lines,
};
use crate::disk::Disk;
use crate::latch::{Latch, Latching, RawLatch};
use crate::memory::region::Region;
use crate::memory::slab::prefetch;
use crate::paged::page::{Page, PageBuffer, PageId, PageKind, PageMut, PageSize, StoreId};

/// Latches of neighbouring pages share no cache line.
const LATCH_STRIDE_BYTES: usize = 64;

/// Pages of one file, all in memory.
///
/// Without latches it cannot be shared:
///
/// ```compile_fail
/// use tombolo_storage::latch::Unlatched;
/// use tombolo_storage::paged::{page::LargePages, pool::DirectFrames};
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<DirectFrames<LargePages, Unlatched>>();
/// ```
pub struct DirectFrames<S: PageSize, L: Latching> {
    pages: Addresses,
    latches: Addresses,
    memory: Latch<RefCell<Memory>, L>,
    space: Space<L>,
    file: PageFile<S>,
    marker: PhantomData<L::Latch>,
}

/// Where a region begins.
#[derive(Clone, Copy, Debug)]
struct Addresses(NonNull<u8>);

// SAFETY: an address that never changes. What lies there is reached under frames' latches; without
// latches `DirectFrames` is not `Sync`, because of its marker.
unsafe impl Sync for Addresses {}
// SAFETY: as above; the memory belongs to the store, not to a thread.
unsafe impl Send for Addresses {}

#[derive(Debug)]
struct Memory {
    pages: Region,
    /// None where latches have no size.
    latches: Option<Region>,
    /// Pages there is memory for, each with a latch that was made.
    committed_pages: u32,
}

impl<S: PageSize, L: Latching> DirectFrames<S, L> {
    /// Makes the data file, and memory for up to `limit_bytes` of pages.
    ///
    /// # Errors
    /// When the file exists, the disk fails, or there is no memory.
    pub fn create(disk: &dyn Disk, limit_bytes: usize) -> Result<Self> {
        Self::create_with(disk, limit_bytes, [0; 2])
    }

    /// The same, for a log with this number that is durable up to this LSN.
    ///
    /// # Errors
    /// As [`DirectFrames::create`].
    pub fn create_with(disk: &dyn Disk, limit_bytes: usize, log: [u64; 2]) -> Result<Self> {
        let (file, state) = PageFile::create(disk, true, log)?;
        Self::with(file, state, limit_bytes)
    }

    /// Opens the data file and reads every page, into memory for up to `limit_bytes` of pages.
    ///
    /// # Errors
    /// When the file was not closed, is damaged, in use or of another version, the disk fails, or
    /// there is not memory enough.
    pub fn open(disk: &dyn Disk, limit_bytes: usize) -> Result<Self> {
        let frames = Self::open_unmarked(disk, limit_bytes, false)?;
        frames.mark_open()?;
        Ok(frames)
    }

    /// The same of a file that may not have been closed, if `restarts`: pages that cannot be read are to be
    /// redone. Nothing is written before [`DirectFrames::mark_open`].
    ///
    /// # Errors
    /// As [`DirectFrames::open`].
    pub fn open_unmarked(disk: &dyn Disk, limit_bytes: usize, restarts: bool) -> Result<Self> {
        let (file, state) = PageFile::open(disk, true, restarts)?;
        let frames = Self::with(file, state, limit_bytes)?;
        for id in (1..state.pages).map(PageId) {
            let mut page = frames.fix_exclusive(id)?;
            let mut page = page.page_mut();
            match frames.file.read_page(id, &mut page) {
                Err(_) if !state.is_closed => page.bytes_mut().fill(0),
                read => read?,
            }
        }
        Ok(frames)
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
    /// When the disk fails, or a page is missing that could not be read.
    pub fn mark_open(&self) -> Result<()> {
        for id in (1..self.space.pages()).map(PageId) {
            if self.fix_shared(id)?.page().id() != id {
                let mut page = PageBuffer::<S>::new();
                self.file.read_page(id, &mut page.page_mut())?;
                return Err(PageError::damaged_page::<S>(id, "the log should hold it"));
            }
        }
        self.space.mark_open(&self.file)
    }

    fn with(file: PageFile<S>, state: SpaceState, limit_bytes: usize) -> Result<Self> {
        let pages = Region::reserve(limit_bytes)?;
        let pages_max = pages.limit_bytes() / S::BYTES;
        let latches = match size_of::<L::Latch>() {
            0 => None,
            _ => Some(Region::reserve(pages_max * LATCH_STRIDE_BYTES)?),
        };
        // Never looked at where latches have no size.
        let latch_base = latches.as_ref().map_or(pages.base(), Region::base);
        let address = |base| Addresses(NonNull::new(base).unwrap_or(NonNull::dangling()));
        let frames = Self {
            pages: address(pages.base()),
            latches: address(latch_base),
            memory: Latch::new(RefCell::new(Memory { pages, latches, committed_pages: 0 })),
            space: Space::new(state),
            file,
            marker: PhantomData,
        };
        frames.commit(state.pages)?;
        Ok(frames)
    }

    /// Makes sure there is memory, and a latch each, for the first `pages` pages.
    fn commit(&self, pages: u32) -> Result<()> {
        const { assert!(size_of::<L::Latch>() <= LATCH_STRIDE_BYTES) };
        const { assert!(align_of::<L::Latch>() <= LATCH_STRIDE_BYTES) };
        let memory = self.memory.hold();
        let mut memory = memory.borrow_mut();
        if pages <= memory.committed_pages {
            return Ok(());
        }
        memory.pages.commit(pages as usize * S::BYTES)?;
        let mut ready = (memory.pages.committed_bytes() / S::BYTES) as u32;
        if let Some(latches) = &mut memory.latches {
            latches.commit(pages as usize * LATCH_STRIDE_BYTES)?;
            ready = ready.min((latches.committed_bytes() / LATCH_STRIDE_BYTES) as u32);
            for id in memory.committed_pages..ready {
                // SAFETY: committed memory, aligned for a latch, that no thread uses before the
                // number of pages says so.
                unsafe { self.latch_address(PageId(id)).write(L::Latch::default()) };
            }
        }
        memory.committed_pages = ready;
        Ok(())
    }

    #[inline(always)]
    fn latch_address(&self, id: PageId) -> NonNull<L::Latch> {
        let offset =
            if size_of::<L::Latch>() == 0 { 0 } else { id.0 as usize * LATCH_STRIDE_BYTES };
        // SAFETY: inside the region of latches, or the region's base, for an object of no size.
        unsafe { self.latches.0.add(offset) }.cast()
    }

    /// The latch and the address of a page.
    #[inline(always)]
    fn frame(&self, id: PageId) -> Result<(&L::Latch, NonNull<u8>)> {
        if id.0.wrapping_sub(1) >= self.space.pages() - 1 {
            return Err(self.file.no_such_page(id, self.space.pages()));
        }
        // SAFETY: there is memory for the page, and a latch, since before it was counted; neither
        // moves or goes while `self` lives.
        unsafe { Ok((self.latch_address(id).as_ref(), self.pages.0.add(id.0 as usize * S::BYTES))) }
    }

    /// Writes every page and makes the file durable; it still counts as not closed.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn flush(&self) -> Result<()> {
        let mut writer = self.file.writer();
        for id in (1..self.space.pages()).map(PageId) {
            if writer.batch.is_full() {
                self.file.write(&mut writer)?;
            }
            writer.batch.push(self.fix_shared(id)?.page());
        }
        self.file.write(&mut writer)?;
        drop(writer);
        self.file.write_header(self.space.state(), false)?;
        self.file.sync()
    }

    /// Writes every page and closes the file, so that it can be opened again. Nothing may be changed
    /// after that.
    ///
    /// # Errors
    /// When the disk fails: the file counts as not closed then.
    pub fn close(&self) -> Result<()> {
        self.flush()?;
        self.mark_closed()
    }

    /// Says in the file that it is closed, once everything was written.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn mark_closed(&self) -> Result<()> {
        self.file.write_header(self.space.state(), true)?;
        self.file.sync()
    }
}

impl<S: PageSize, L: Latching> Drop for DirectFrames<S, L> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<L::Latch>() {
            let committed = self.memory.get_mut().get_mut().committed_pages;
            for id in (0..committed).map(PageId) {
                // SAFETY: made by `commit`, dropped once; no guard outlives the store.
                unsafe { self.latch_address(id).drop_in_place() };
            }
        }
    }
}

/// A page that always is where it is, held together with other readers.
pub struct DirectShared<'a, S: PageSize, L: Latching> {
    latch: <L::Latch as RawLatch>::Shared<'a>,
    of: &'a L::Latch,
    base: NonNull<u8>,
    size: PhantomData<S>,
}

impl<S: PageSize, L: Latching> ReadPage for DirectShared<'_, S, L> {
    type Size = S;

    #[inline(always)]
    fn page(&self) -> Page<'_, S> {
        // SAFETY: (1) `frame` found memory that holds a formatted or verified page for as long as
        // the store lives. (2) The latch keeps writers out.
        unsafe { Page::new(self.base) }
    }
}

impl<'a, S: PageSize, L: Latching> SharedPage for DirectShared<'a, S, L> {
    type Pin = DirectPin<'a>;

    #[inline(always)]
    fn pin(self, slot: u16) -> Option<DirectPin<'a>> {
        let bytes = NonNull::from(self.page().record(slot)?);
        Some(DirectPin { bytes, marker: PhantomData })
    }
}

/// A page that always is where it is, held alone.
pub struct DirectExclusive<'a, S: PageSize, L: Latching> {
    _latch: <L::Latch as RawLatch>::Exclusive<'a>,
    base: NonNull<u8>,
    size: PhantomData<(S, L)>,
}

impl<S: PageSize, L: Latching> ReadPage for DirectExclusive<'_, S, L> {
    type Size = S;

    #[inline(always)]
    fn page(&self) -> Page<'_, S> {
        // SAFETY: as in `DirectShared`; `&self` keeps this guard's own writes out.
        unsafe { Page::new(self.base) }
    }
}

impl<S: PageSize, L: Latching> ExclusivePage for DirectExclusive<'_, S, L> {
    #[inline(always)]
    fn page_mut(&mut self) -> PageMut<'_, S> {
        // SAFETY: as in `DirectShared`, and the latch is held alone; without latches there is one
        // thread, which fixes no page twice unless to read it (the head of pool.rs).
        unsafe { PageMut::new(self.base) }
    }

    #[inline(always)]
    fn is_alone(&self) -> bool {
        // One thread that changes a page holds no row of it: its session is borrowed mutably.
        !L::WAITS
    }
}

/// A record that stays where it is; other records of its page may change meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct DirectPin<'a> {
    bytes: NonNull<[u8]>,
    marker: PhantomData<&'a [u8]>,
}

impl<'a> DirectPin<'a> {
    /// The record.
    #[inline(always)]
    pub fn bytes(self) -> &'a [u8] {
        // SAFETY: the memory stays; where there are other threads no record moves (`is_alone`), and
        // this one does not change because its reader has locked the row (the head of page.rs). Where
        // there are none, what changes pages borrows the session mutably, which `'a` excludes.
        unsafe { self.bytes.as_ref() }
    }
}

impl Deref for DirectPin<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl<S: PageSize, L: Latching> PageAccess for DirectFrames<S, L> {
    type Size = S;
    type Latching = L;
    type Shared<'a> = DirectShared<'a, S, L>;
    type Exclusive<'a> = DirectExclusive<'a, S, L>;

    #[inline(always)]
    fn fix_shared(&self, id: PageId) -> Result<DirectShared<'_, S, L>> {
        let (of, base) = self.frame(id)?;
        Ok(DirectShared { latch: of.shared(), of, base, size: PhantomData })
    }

    #[inline(always)]
    fn fix_resident(&self, id: PageId) -> Option<DirectShared<'_, S, L>> {
        self.fix_shared(id).ok()
    }

    #[inline(always)]
    fn fix_resident_alone(&self, id: PageId) -> Option<DirectExclusive<'_, S, L>> {
        let (of, base) = self.frame(id).ok()?;
        Some(DirectExclusive { _latch: of.try_exclusive()?, base, size: PhantomData })
    }

    #[inline(always)]
    fn prefetch(&self, id: PageId, offset: usize, record: (usize, usize)) {
        if let Ok((latch, base)) = self.frame(id) {
            if size_of::<L::Latch>() > 0 {
                prefetch(std::ptr::from_ref(latch).cast());
            }
            prefetch_lines::<S>(base, offset, record);
        }
    }

    #[inline(always)]
    fn fix_exclusive(&self, id: PageId) -> Result<DirectExclusive<'_, S, L>> {
        let (of, base) = self.frame(id)?;
        Ok(DirectExclusive { _latch: of.exclusive(), base, size: PhantomData })
    }

    #[inline]
    fn try_fix_shared(&self, id: PageId) -> Result<Option<DirectShared<'_, S, L>>> {
        let (of, base) = self.frame(id)?;
        Ok(of.try_shared().map(|latch| DirectShared { latch, of, base, size: PhantomData }))
    }

    #[inline]
    fn try_fix_exclusive(&self, id: PageId) -> Result<Option<DirectExclusive<'_, S, L>>> {
        let (of, base) = self.frame(id)?;
        Ok(of.try_exclusive().map(|_latch| DirectExclusive { _latch, base, size: PhantomData }))
    }

    #[inline]
    fn try_upgrade<'a>(
        &'a self,
        shared: DirectShared<'a, S, L>,
    ) -> Result<DirectExclusive<'a, S, L>, DirectShared<'a, S, L>> {
        let DirectShared { latch, of, base, size } = shared;
        match of.try_upgrade(latch) {
            Ok(_latch) => Ok(DirectExclusive { _latch, base, size: PhantomData }),
            Err(latch) => Err(DirectShared { latch, of, base, size }),
        }
    }

    #[inline(always)]
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
    ) -> Result<DirectExclusive<'_, S, L>> {
        self.commit(id.0 + 1)?;
        // SAFETY: there is memory for the page and a latch; neither moves or goes while `self` lives. It may
        // not be counted yet, so no other thread is led to it.
        let (of, base) = unsafe {
            (self.latch_address(id).as_ref(), self.pages.0.add(id.0 as usize * S::BYTES))
        };
        let mut page = DirectExclusive { _latch: of.exclusive(), base, size: PhantomData };
        page.page_mut().format(id, store, kind);
        Ok(page)
    }

    fn discard(&self, _: DirectExclusive<'_, S, L>) {}
}
