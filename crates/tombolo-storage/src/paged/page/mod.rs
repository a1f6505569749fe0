//! One page: a header, records that grow upwards, slots that grow downwards from its end.
//!
//! A page is [`PageSize::BYTES`] raw bytes in a frame of the pool. [`Page`] reads it, [`PageMut`]
//! changes it; both are views from a latch guard, valid as long as the guard's borrow.
//! `format.rs` has the offsets, `slots.rs` the operations on records, `check.rs` the checks for damage. LG-19 (slotted
//! pages), LG-20 (pin, update in place), LG-S8 (the page's size).
//!
//! Soundness. A row that is *pinned* is read without the latch, so no reference ever covers a whole
//! page: views go through a raw pointer and make slices of single records only, or of the body of
//! pages that hold no rows. A pinned record's bytes do not change because (1) the row lock excludes changes of the row,
//! and (2) [`PageMut::compact`] is called only while no other thread has
//! the page fixed. The callers, heap and session, ensure both.
//!
//! Invariants: what `check` and `verify` verify; a frame only ever holds a page that was formatted
//! here or verified when it was read.
//!
//! Not here: latches, frames, files, what a record means.

mod check;
mod format;
mod runs;
mod slots;

use std::marker::PhantomData;
use std::ptr::NonNull;

pub use format::{
    FORMAT_VERSION, HEADER_BYTES, MAGIC, PageKind, RECORD_ALIGNMENT_BYTES, RECORD_BYTES_MIN,
    SLOT_BYTES,
};
pub(crate) use runs::{append_runs, runs_bytes_max};
pub use slots::{Slot, SlotKind};

use runs::put_runs;

use crate::disk::ALIGNMENT_MAX;

/// S8: how large pages are.
pub trait PageSize: Copy + Default + std::fmt::Debug + Send + Sync + 'static {
    /// Bytes of a page.
    const BYTES: usize;
}

/// S8 on: pages of 8 KB.
#[derive(Clone, Copy, Debug, Default)]
pub struct SmallPages;

impl PageSize for SmallPages {
    const BYTES: usize = 8 << 10;
}

/// S8 off: pages of 32 KB.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargePages;

impl PageSize for LargePages {
    const BYTES: usize = PAGE_BYTES_MAX;
}

/// The largest page the format has room for.
pub const PAGE_BYTES_MAX: usize = 32 << 10;

/// The longest record a page of this size can hold.
pub const fn record_bytes_max<S: PageSize>() -> usize {
    (S::BYTES - HEADER_BYTES - SLOT_BYTES) / RECORD_ALIGNMENT_BYTES * RECORD_ALIGNMENT_BYTES
}

/// The number of a page in its file: it lies at `number * BYTES`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

/// A heap file or an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u16);

/// A page that others may read at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a, S> {
    base: NonNull<u8>,
    marker: PhantomData<(&'a [u8], S)>,
}

impl<'a, S: PageSize> Page<'a, S> {
    /// Views the page at `base`.
    ///
    /// # Safety
    /// (1) `S::BYTES` bytes from `base`, which is aligned to four, are valid for `'a` and hold a
    /// page that was formatted or verified. (2) For `'a` no thread writes them.
    #[inline(always)]
    pub(super) unsafe fn new(base: NonNull<u8>) -> Self {
        Self { base, marker: PhantomData }
    }

    #[inline(always)]
    fn at(self, offset: usize, bytes: usize) -> *mut u8 {
        debug_assert!(offset + bytes <= S::BYTES, "{offset}+{bytes} is outside the page");
        // SAFETY: inside the page: offsets are the format's, or those of slots and records, which
        // `verify` bounded when the page came in and every change keeps bounded.
        unsafe { self.base.as_ptr().add(offset) }
    }

    #[inline(always)]
    fn u8_at(self, offset: usize) -> u8 {
        // SAFETY: `at` stays inside the page; condition (1) of `new`.
        unsafe { self.at(offset, 1).read() }
    }

    #[inline(always)]
    fn u16_at(self, offset: usize) -> u16 {
        // SAFETY: as in `u8_at`.
        u16::from_le(unsafe { self.at(offset, 2).cast::<u16>().read_unaligned() })
    }

    #[inline(always)]
    fn u32_at(self, offset: usize) -> u32 {
        // SAFETY: as in `u8_at`.
        u32::from_le(unsafe { self.at(offset, 4).cast::<u32>().read_unaligned() })
    }

    #[inline(always)]
    fn u64_at(self, offset: usize) -> u64 {
        // SAFETY: as in `u8_at`.
        u64::from_le(unsafe { self.at(offset, 8).cast::<u64>().read_unaligned() })
    }

    #[inline(always)]
    fn slice(self, offset: usize, bytes: usize) -> &'a [u8] {
        // SAFETY: as in `u8_at`; no thread writes the bytes for `'a`, condition (2) of `new`.
        unsafe { std::slice::from_raw_parts(self.at(offset, bytes), bytes) }
    }

    /// The page's number.
    #[inline]
    pub fn id(self) -> PageId {
        PageId(self.u32_at(format::ID))
    }

    /// The log sequence number of the last change (S4); 0 where none is kept.
    #[inline]
    pub fn lsn(self) -> u64 {
        self.u64_at(format::LSN)
    }

    /// The heap file or index the page belongs to.
    #[inline]
    pub fn store(self) -> StoreId {
        StoreId(self.u16_at(format::STORE))
    }

    /// What the page holds.
    #[inline]
    pub fn kind(self) -> PageKind {
        PageKind::from_byte(self.u8_at(format::KIND)).unwrap_or(PageKind::Free)
    }

    /// Flags of the page's owner.
    #[inline]
    pub fn flags(self) -> u8 {
        self.u8_at(format::FLAGS)
    }

    /// The page's right neighbour, as its owner set it.
    #[inline]
    pub fn next(self) -> Option<PageId> {
        neighbour(self.u32_at(format::NEXT))
    }

    /// The page's left neighbour, as its owner set it.
    #[inline]
    pub fn previous(self) -> Option<PageId> {
        neighbour(self.u32_at(format::PREVIOUS))
    }

    /// A number of the page's owner.
    #[inline]
    pub fn extra(self) -> u32 {
        self.u32_at(format::EXTRA)
    }

    /// All that follows the header, for pages that are not slotted.
    #[inline(always)]
    pub fn body(self) -> &'a [u8] {
        self.slice(HEADER_BYTES, S::BYTES - HEADER_BYTES)
    }

    /// The whole page, for the pool, which writes it, and the log.
    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.slice(0, S::BYTES)
    }
}

fn neighbour(id: u32) -> Option<PageId> {
    (id != 0).then_some(PageId(id))
}

/// A page that its holder alone changes. Rows of it may be pinned by others.
#[derive(Debug)]
pub struct PageMut<'a, S> {
    page: Page<'a, S>,
}

impl<'a, S: PageSize> PageMut<'a, S> {
    /// Views the page at `base`.
    ///
    /// # Safety
    /// (1) As of [`Page::new`], or the page is formatted before anything else is asked of it. (2)
    /// For `'a` no other thread reads or writes the page through a view; pinned records are the
    /// callers' part as the module's head has it.
    #[inline(always)]
    pub(super) unsafe fn new(base: NonNull<u8>) -> Self {
        // SAFETY: the conditions are the same or weaker, since this view alone writes.
        Self { page: unsafe { Page::new(base) } }
    }

    /// The page to be read.
    #[inline(always)]
    pub fn read(&self) -> Page<'_, S> {
        self.page
    }

    #[inline(always)]
    fn set_u8(&mut self, offset: usize, value: u8) {
        // SAFETY: `at` stays inside the page and condition (2) of `new` makes it ours to write.
        unsafe { self.page.at(offset, 1).write(value) }
    }

    #[inline(always)]
    fn set_u16(&mut self, offset: usize, value: u16) {
        // SAFETY: as in `set_u8`.
        unsafe { self.page.at(offset, 2).cast::<u16>().write_unaligned(value.to_le()) }
    }

    #[inline(always)]
    fn set_u32(&mut self, offset: usize, value: u32) {
        // SAFETY: as in `set_u8`.
        unsafe { self.page.at(offset, 4).cast::<u32>().write_unaligned(value.to_le()) }
    }

    #[inline(always)]
    fn set_u64(&mut self, offset: usize, value: u64) {
        // SAFETY: as in `set_u8`.
        unsafe { self.page.at(offset, 8).cast::<u64>().write_unaligned(value.to_le()) }
    }

    #[inline(always)]
    fn slice_mut(&mut self, offset: usize, bytes: usize) -> &mut [u8] {
        // SAFETY: as in `set_u8`; the slice borrows this view, so no other of it exists, and other
        // threads' pins cover other records (the module's head).
        unsafe { std::slice::from_raw_parts_mut(self.page.at(offset, bytes), bytes) }
    }

    /// Makes an empty page of it: no record, no neighbours, no LSN, a body of zeros.
    pub fn format(&mut self, id: PageId, store: StoreId, kind: PageKind) {
        // SAFETY: the page is ours to write; no thread can have a pin in a page without rows.
        unsafe { self.page.at(0, S::BYTES).write_bytes(0, S::BYTES) };
        self.set_u32(format::ID, id.0);
        self.set_u16(format::STORE, store.0);
        self.set_u8(format::KIND, kind as u8);
        self.set_u16(format::FREE_START, HEADER_BYTES as u16);
        self.set_u16(format::FREE_BYTES, (S::BYTES - HEADER_BYTES) as u16);
        self.set_u16(format::FREE_SLOT, format::NO_SLOT);
        debug_assert_eq!(self.read().verify(id), Ok(()));
    }

    /// Stamps the log sequence number of a change (S4).
    #[inline]
    pub fn set_lsn(&mut self, lsn: u64) {
        self.set_u64(format::LSN, lsn);
    }

    /// Sets the owner's flags.
    #[inline]
    pub fn set_flags(&mut self, flags: u8) {
        self.set_u8(format::FLAGS, flags);
    }

    /// Sets the right neighbour.
    #[inline]
    pub fn set_next(&mut self, next: Option<PageId>) {
        self.set_u32(format::NEXT, next.map_or(0, |id| id.0));
    }

    /// Sets the left neighbour.
    #[inline]
    pub fn set_previous(&mut self, previous: Option<PageId>) {
        self.set_u32(format::PREVIOUS, previous.map_or(0, |id| id.0));
    }

    /// Sets the owner's number.
    #[inline]
    pub fn set_extra(&mut self, extra: u32) {
        self.set_u32(format::EXTRA, extra);
    }

    /// All that follows the header, for pages that are not slotted.
    ///
    /// # Panics
    /// On a heap page: rows of it may be pinned.
    #[inline(always)]
    pub fn body_mut(&mut self) -> &mut [u8] {
        assert!(self.read().kind() != PageKind::Heap, "rows are reached by slot");
        self.slice_mut(HEADER_BYTES, S::BYTES - HEADER_BYTES)
    }

    /// Becomes a copy of another page. No row of it may be pinned.
    pub(super) fn copy_from(&mut self, page: Page<'_, S>) {
        self.bytes_mut().copy_from_slice(page.bytes());
    }

    /// Becomes the page of which these runs were logged, all of it if it `is_whole`; `false` if they are none,
    /// or not the page's.
    pub(super) fn restore(&mut self, id: PageId, runs: &[u8], is_whole: bool) -> bool {
        if is_whole {
            self.bytes_mut().fill(0);
        }
        put_runs(self.bytes_mut(), runs) && self.read().verify(id).is_ok()
    }

    /// The whole page, for the pool, which reads it in.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.slice_mut(0, S::BYTES)
    }
}

/// Pages outside the pool, one behind the other, at an address that every file accepts for direct reads and
/// writes, with the size known to the compiler.
#[derive(Debug)]
pub(super) struct PageBuffer<S> {
    /// The pages, behind as many bytes as bring them to that address.
    memory: Vec<u8>,
    start: usize,
    size: PhantomData<S>,
}

impl<S: PageSize> PageBuffer<S> {
    /// A page to be formatted, copied or read into.
    pub(super) fn new() -> Self {
        Self::of(1)
    }

    /// Several of them.
    pub(super) fn of(pages: usize) -> Self {
        const { assert!(S::BYTES.is_multiple_of(ALIGNMENT_MAX)) };
        let mut memory = vec![0; pages * S::BYTES + ALIGNMENT_MAX];
        let start = memory.as_ptr().align_offset(ALIGNMENT_MAX);
        memory.truncate(start + pages * S::BYTES);
        Self { memory, start, size: PhantomData }
    }

    /// A copy of a page, which no file is read into: aligned for its words only.
    pub(super) fn copy_of(page: Page<'_, S>) -> Self {
        let mut memory: Vec<u8> = Vec::with_capacity(S::BYTES + align_of::<u64>());
        let start = memory.as_ptr().align_offset(align_of::<u64>());
        memory.resize(start, 0);
        memory.extend_from_slice(page.bytes());
        Self { memory, start, size: PhantomData }
    }

    /// How many pages it has.
    pub(super) fn len(&self) -> usize {
        (self.memory.len() - self.start) / S::BYTES
    }

    /// The page, to be read.
    pub(super) fn page(&self) -> Page<'_, S> {
        self.page_at(0)
    }

    /// The page, to be changed.
    pub(super) fn page_mut(&mut self) -> PageMut<'_, S> {
        self.page_mut_at(0)
    }

    /// The page at a position, to be read.
    pub(super) fn page_at(&self, position: usize) -> Page<'_, S> {
        let base = NonNull::from(self.bytes(position, 1)).cast();
        // SAFETY: as in `page_mut_at`; the bytes are borrowed, so nothing writes them.
        unsafe { Page::new(base) }
    }

    /// The page at a position, to be changed.
    pub(super) fn page_mut_at(&mut self, position: usize) -> PageMut<'_, S> {
        let base = NonNull::from(self.bytes_mut(position, 1)).cast();
        // SAFETY: a page's bytes, aligned and borrowed exclusively. All zeros have no slots, so nothing
        // leads outside before a page is put there either.
        unsafe { PageMut::new(base) }
    }

    /// The bytes of `count` pages from a position on.
    pub(super) fn bytes(&self, position: usize, count: usize) -> &[u8] {
        &self.memory[self.start + position * S::BYTES..][..count * S::BYTES]
    }

    /// The same, to be read into.
    pub(super) fn bytes_mut(&mut self, position: usize, count: usize) -> &mut [u8] {
        &mut self.memory[self.start + position * S::BYTES..][..count * S::BYTES]
    }
}

#[cfg(test)]
mod tests;
