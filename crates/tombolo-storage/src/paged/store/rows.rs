//! How a session reaches rows (S9): copied out of a fixed page and in again, or in place.
//!
//! [`RowAccess`] is the session's side of [`PageAccess`](crate::paged::pool::PageAccess). Through
//! the buffer pool a row is copied out under the page's latch into the session's memory, where it
//! stays until the transaction ends, and a change is made on a copy and copied in. With direct
//! frames, where all pages stay in memory, and with pointers, where rows are not in pages, rows are read and changed
//! in place.
//!
//! Not here: locks (the caller holds the row's), log records, finding the table.

use std::cell::{Cell, Ref, RefCell};

use super::error::OpenError;
use super::settings::PagedSettings;
use crate::disk::Disk;
use crate::latch::Latching;
use crate::memory::variable::{Handle, SizeClasses};
use crate::paged::heap::{HeapFile, RowFile, SlabRows, value_in_copy, value_in_frame};
use crate::paged::page::PageSize;
use crate::paged::pool::{
    BufferPool, DirectFrames, DirectPin, DirtyPage, PageAccess, PageError, PagesMark, Pointers,
    PoolUsage, Result, WriteAhead,
};
use crate::probe::{self, Counter};
use crate::row::{RowBytes, RowId};

/// How a session reaches rows; `W` is what has to be ahead of pages.
pub trait RowAccess<W>: PageAccess + Sized + Send {
    /// Whether rows are copied out and in (S9 on).
    const COPIES: bool;
    /// Where the rows of a table lie.
    type Rows: RowFile<Self>;
    /// A row held for reading.
    type Pin<'a>: RowBytes
    where
        Self: 'a;

    /// Makes the pages of a new database.
    ///
    /// # Errors
    /// When there are some, the disk fails, or there is no memory.
    fn create(disk: &dyn Disk, settings: &PagedSettings, ahead: W) -> Result<Self>;

    /// What the pages on `disk` say of their log, or will say once torn ones are repaired, if they are (`repairs`);
    /// `None` where rows do not lie in pages. Nothing is written.
    ///
    /// # Errors
    /// When there are none, they are in use, or the disk fails; `Damaged` if they are of another version, or damaged so
    /// that they cannot be opened.
    fn survey(disk: &dyn Disk, repairs: bool) -> Result<Option<PagesMark>> {
        _ = (disk, repairs);
        Ok(None)
    }

    /// Opens the pages of a database that was closed, or, if `restarts`, that the log brings into order. Nothing
    /// is written to the file before [`RowAccess::mark_open`].
    ///
    /// # Errors
    /// As [`BufferPool::open`]; `CannotSave` where rows do not lie in pages.
    fn open(
        disk: &dyn Disk,
        settings: &PagedSettings,
        ahead: W,
        restarts: bool,
    ) -> Result<Self, OpenError>;

    /// Says in the file that it is not closed.
    ///
    /// # Errors
    /// When the disk fails, or a page is missing.
    fn mark_open(&self) -> Result<()>;

    /// Makes every page durable. The log is.
    ///
    /// # Errors
    /// When the disk fails.
    fn flush(&self) -> Result<(), OpenError>;

    /// Writes pages with changes logged before `older` that the file may lack, and makes the file durable.
    /// Returns the pages it still may lack changes of; `None` where pages are written only at the end. The file
    /// says that the log was durable up to `position`.
    ///
    /// # Errors
    /// When log or disk fail.
    fn checkpoint(&self, older: u64, position: u64) -> Result<Option<Vec<DirtyPage>>, OpenError> {
        _ = (older, position);
        Ok(None)
    }

    /// Shows the pages of the file in order, each as it was written at some time, and whole, while sessions work: how
    /// many bytes there are, where those shown lie, and these. Pages that were never written are zeros. Shows nothing
    /// where pages are written only at the end.
    ///
    /// # Errors
    /// When one is damaged or the disk fails; what `show` says.
    fn show_file<E: From<PageError>>(
        &self,
        show: impl FnMut(u64, u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        _ = show;
        Ok(())
    }

    /// Marks the file as closed, all pages of which were flushed. Nothing is changed after that.
    ///
    /// # Errors
    /// When log or disk fail; `CannotSave` where rows do not lie in pages.
    fn close(&self) -> Result<(), OpenError>;

    /// Holds a row and its values for reading, a deleted one until it is purged; `None` if there is none.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    fn pin_row<'a>(
        &'a self,
        rows: &'a Self::Rows,
        copies: &'a RowCopies,
        row: RowId,
    ) -> Result<Option<Self::Pin<'a>>>;

    /// Bytes of memory for pages.
    fn memory_bytes(&self) -> u64;

    /// How a buffer pool was used, where there is one.
    fn pool_usage(&self) -> Option<PoolUsage> {
        None
    }

    /// Has `call` called when few frames are ready for pages that are not in memory; see
    /// [`BufferPool::when_few_are_ready`]. It never is where all pages are.
    fn when_few_are_ready(&self, call: impl Fn() + Send + Sync + 'static) {
        _ = call;
    }

    /// Makes frames ready; see [`BufferPool::make_ready_ahead`].
    ///
    /// # Errors
    /// When log or disk fail.
    fn make_ready_ahead(&self) -> Result<()> {
        Ok(())
    }
}

/// Buffers for rows that are copied out: as many as were ever in use at the same time.
#[derive(Default)]
pub struct RowCopies {
    /// The one that is taken first and given back first; none while it is in use. Mostly one row is held at a time.
    first: Cell<Vec<u8>>,
    others: RefCell<Vec<Vec<u8>>>,
}

impl RowCopies {
    /// An empty buffer.
    #[inline(always)]
    fn take(&self) -> RowCopy<'_> {
        probe::count(Counter::PageCopies, 1);
        let mut bytes = self.first.take();
        if bytes.capacity() == 0 {
            bytes = self.take_other();
        }
        bytes.clear();
        RowCopy { bytes, copies: self }
    }

    #[cold]
    #[inline(never)]
    fn take_other(&self) -> Vec<u8> {
        self.others.borrow_mut().pop().unwrap_or_default()
    }

    #[inline(always)]
    fn give_back(&self, bytes: Vec<u8>) {
        let other = self.first.replace(bytes);
        if other.capacity() > 0 {
            self.give_back_other(other);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_back_other(&self, bytes: Vec<u8>) {
        self.others.borrow_mut().push(bytes);
    }

    /// A copy of `record`.
    #[inline(always)]
    fn copy(&self, record: &[u8]) -> RowCopy<'_> {
        let mut copy = self.take();
        copy.bytes.extend_from_slice(record);
        copy
    }
}

/// A row that was copied out, with its variable-length values behind the fixed part; gives its buffer
/// back when it goes.
pub struct RowCopy<'a> {
    bytes: Vec<u8>,
    copies: &'a RowCopies,
}

impl Drop for RowCopy<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.copies.give_back(std::mem::take(&mut self.bytes));
    }
}

impl RowBytes for RowCopy<'_> {
    #[inline(always)]
    fn fixed(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    fn variable(&self, handle: u64) -> &[u8] {
        value_in_copy(&self.bytes, handle)
    }
}

/// A row in its page, which stays where it is, as do those of its variable-length values.
pub struct RowInFrame<'a, S: PageSize, L: Latching> {
    fixed: DirectPin<'a>,
    frames: &'a DirectFrames<S, L>,
}

impl<S: PageSize, L: Latching> RowBytes for RowInFrame<'_, S, L> {
    #[inline(always)]
    fn fixed(&self) -> &[u8] {
        &self.fixed
    }

    /// # Panics
    /// When the handle is not one of the row's.
    fn variable(&self, handle: u64) -> &[u8] {
        value_in_frame(self.frames, handle).expect("a row's handle leads to its value")
    }
}

/// A row in a slab, with its variable-length values in slabs of their own.
#[derive(Debug)]
pub struct RowInSlab<'a> {
    fixed: Ref<'a, [u8]>,
    values: Ref<'a, SizeClasses>,
}

impl RowBytes for RowInSlab<'_> {
    #[inline(always)]
    fn fixed(&self) -> &[u8] {
        &self.fixed
    }

    #[inline]
    fn variable(&self, handle: u64) -> &[u8] {
        self.values.get(Handle::from_bits(handle))
    }
}

impl<S: PageSize, L: Latching, W: WriteAhead + Send + 'static> RowAccess<W>
    for BufferPool<S, L, W>
{
    const COPIES: bool = true;
    type Rows = HeapFile<Self>;
    type Pin<'a> = RowCopy<'a>;

    fn create(disk: &dyn Disk, settings: &PagedSettings, ahead: W) -> Result<Self> {
        Self::create(disk, frames::<S>(settings), ahead)
    }

    fn survey(disk: &dyn Disk, repairs: bool) -> Result<Option<PagesMark>> {
        Self::survey(disk, repairs).map(Some)
    }

    fn open(
        disk: &dyn Disk,
        settings: &PagedSettings,
        ahead: W,
        restarts: bool,
    ) -> Result<Self, OpenError> {
        Ok(Self::open_unmarked(disk, frames::<S>(settings), ahead, restarts)?)
    }

    fn mark_open(&self) -> Result<()> {
        Self::mark_open(self)
    }

    #[inline(always)]
    fn pin_row<'a>(
        &'a self,
        rows: &'a Self::Rows,
        copies: &'a RowCopies,
        row: RowId,
    ) -> Result<Option<RowCopy<'a>>> {
        if rows.layout().handles.is_empty() {
            return rows.read(self, row, |record| copies.copy(record));
        }
        let mut copy = copies.take();
        Ok(rows.copy_with_values(self, row, &mut copy.bytes)?.then_some(copy))
    }

    fn flush(&self) -> Result<(), OpenError> {
        Ok(Self::flush(self)?)
    }

    fn checkpoint(&self, older: u64, position: u64) -> Result<Option<Vec<DirtyPage>>, OpenError> {
        Ok(Some(Self::checkpoint(self, older, position)?))
    }

    fn show_file<E: From<PageError>>(
        &self,
        show: impl FnMut(u64, u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        Self::show_file(self, show)
    }

    fn close(&self) -> Result<(), OpenError> {
        Ok(Self::close(self)?)
    }

    fn memory_bytes(&self) -> u64 {
        self.usage().frames * S::BYTES as u64
    }

    fn pool_usage(&self) -> Option<PoolUsage> {
        Some(self.usage())
    }

    fn when_few_are_ready(&self, call: impl Fn() + Send + Sync + 'static) {
        Self::when_few_are_ready(self, call);
    }

    fn make_ready_ahead(&self) -> Result<()> {
        Self::make_ready_ahead(self)
    }
}

/// Frames of a pool; a transaction needs a few at a time.
fn frames<S: PageSize>(settings: &PagedSettings) -> usize {
    (settings.pool_bytes / S::BYTES).clamp(16, 1 << 31)
}

impl<S: PageSize, L: Latching, W: WriteAhead> RowAccess<W> for DirectFrames<S, L> {
    const COPIES: bool = false;
    type Rows = HeapFile<Self>;
    type Pin<'a> = RowInFrame<'a, S, L>;

    fn create(disk: &dyn Disk, settings: &PagedSettings, ahead: W) -> Result<Self> {
        let log = [ahead.number(), ahead.durable()];
        Self::create_with(disk, settings.structure_bytes_max, log)
    }

    fn survey(disk: &dyn Disk, repairs: bool) -> Result<Option<PagesMark>> {
        Self::survey(disk, repairs).map(Some)
    }

    fn open(
        disk: &dyn Disk,
        settings: &PagedSettings,
        _: W,
        restarts: bool,
    ) -> Result<Self, OpenError> {
        Ok(Self::open_unmarked(disk, settings.structure_bytes_max, restarts)?)
    }

    fn mark_open(&self) -> Result<()> {
        Self::mark_open(self)
    }

    #[inline(always)]
    fn pin_row<'a>(
        &'a self,
        rows: &'a Self::Rows,
        _: &'a RowCopies,
        row: RowId,
    ) -> Result<Option<Self::Pin<'a>>> {
        Ok(rows.pin(self, row)?.map(|fixed| RowInFrame { fixed, frames: self }))
    }

    /// No page is written before.
    fn flush(&self) -> Result<(), OpenError> {
        Ok(Self::flush(self)?)
    }

    fn close(&self) -> Result<(), OpenError> {
        Ok(self.mark_closed()?)
    }

    fn memory_bytes(&self) -> u64 {
        u64::from(self.page_count()) * S::BYTES as u64
    }
}

impl<S: PageSize, W> RowAccess<W> for Pointers<S> {
    const COPIES: bool = false;
    type Rows = SlabRows;
    type Pin<'a> = RowInSlab<'a>;

    fn create(_: &dyn Disk, settings: &PagedSettings, _: W) -> Result<Self> {
        Self::new(settings.structure_bytes_max)
    }

    fn open(_: &dyn Disk, _: &PagedSettings, _: W, _: bool) -> Result<Self, OpenError> {
        Err(OpenError::CannotSave)
    }

    fn mark_open(&self) -> Result<()> {
        Ok(())
    }

    fn flush(&self) -> Result<(), OpenError> {
        Ok(())
    }

    fn close(&self) -> Result<(), OpenError> {
        Err(OpenError::CannotSave)
    }

    #[inline(always)]
    fn pin_row<'a>(
        &'a self,
        rows: &'a SlabRows,
        _: &'a RowCopies,
        row: RowId,
    ) -> Result<Option<RowInSlab<'a>>> {
        let fixed = rows.pin(self, row)?;
        Ok(fixed.map(|fixed| RowInSlab { fixed, values: rows.values().borrow() }))
    }

    fn memory_bytes(&self) -> u64 {
        u64::from(self.page_count()) * S::BYTES as u64
    }
}
