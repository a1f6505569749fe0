//! How a session reaches rows (S9): copied out of a fixed page and in again, or in place.
//!
//! [`RowAccess`] is the session's side of [`PageAccess`](crate::paged::pool::PageAccess). Through
//! the buffer pool a row is copied out under the page's latch into the session's memory, where it
//! stays until the transaction ends, and a change is made on a copy and copied in. Where pages all
//! stay (direct frames) and where rows have left the pages (pointers), rows are read and changed
//! where they are.
//!
//! Not here: locks (the caller holds the row's), log records, which table is meant.

use std::cell::{Ref, RefCell};
use std::ops::Deref;

use super::PagedSettings;
use super::error::OpenError;
use super::values::{self, Layout};
use crate::disk::Disk;
use crate::latch::Latching;
use crate::memory::variable::{Handle, SizeClasses};
use crate::paged::heap::{HeapChange, HeapFile, RowFile, RowStorage, SlabRows, Stamp};
use crate::paged::page::{PageId, PageSize};
use crate::paged::pool::{
    BufferPool, DirectFrames, PageAccess, PageError, Pointers, PoolUsage, Result, WriteAhead,
};
use crate::probe::{self, Counter};
use crate::row::{RowBytes, RowId};

/// A change of a row that may change its length.
pub enum RowChange<'a> {
    /// The change as a whole: the record before and after. Reported first; undo uses it.
    Whole {
        /// The record as it was.
        before: &'a [u8],
        /// As it will be.
        after: &'a [u8],
    },
    /// One page's part of it.
    Step(HeapChange<'a>),
}

/// How a session reaches rows; `W` is what has to be ahead of pages.
pub trait RowAccess<W>: RowStorage + Send {
    /// Whether rows are copied out and in (S9 on).
    const COPIES: bool;
    /// Whether rows lie in pages.
    const ON_PAGES: bool;
    /// A row held for reading.
    type Pin<'a>: RowBytes
    where
        Self: 'a;

    /// Makes the pages of a new database.
    ///
    /// # Errors
    /// When there are some, the disk fails, or there is no memory.
    fn create(disk: &dyn Disk, settings: &PagedSettings, ahead: W) -> Result<Self>;

    /// Opens the pages of a database that was closed.
    ///
    /// # Errors
    /// As [`BufferPool::open`]; `CannotSave` where rows do not lie in pages.
    fn open(disk: &dyn Disk, settings: &PagedSettings, ahead: W) -> Result<Self, OpenError>;

    /// Makes every page durable, where pages are written before the end.
    ///
    /// # Errors
    /// When log or disk fail.
    fn flush(&self) -> Result<(), OpenError>;

    /// Writes everything and marks the file as closed. Nothing is changed after that.
    ///
    /// # Errors
    /// When log or disk fail; `CannotSave` where rows do not lie in pages.
    fn close(&self) -> Result<(), OpenError>;

    /// Opens the rows of one table.
    ///
    /// # Errors
    /// As [`HeapFile::open`]; `CannotSave` where rows do not lie in pages.
    fn open_rows(&self, root: PageId) -> Result<Self::Rows, OpenError>;

    /// Writes down what the rows of one table need to be opened again, and returns where that is.
    ///
    /// # Errors
    /// As [`HeapFile::close`]; `CannotSave` where rows do not lie in pages.
    fn save_rows(&self, rows: &Self::Rows) -> Result<PageId, OpenError>;

    /// Holds a row for reading, a deleted one until it is purged; `None` if there is none.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    fn pin_row<'a>(
        &'a self,
        rows: &'a Self::Rows,
        copies: &'a RowCopies,
        row: RowId,
    ) -> Result<Option<Self::Pin<'a>>>;

    /// Sets the value behind the handle at offset `at` of a row; `false` if there is no such row.
    ///
    /// # Errors
    /// What `log` fails with, or as [`HeapFile::replace`].
    #[expect(private_interfaces, reason = "only stores, which are here, call this")]
    #[expect(
        clippy::too_many_arguments,
        reason = "a place, a value and what is called with the change"
    )]
    fn set_value<E: From<PageError>>(
        &self,
        rows: &Self::Rows,
        layout: &Layout,
        lane: usize,
        row: RowId,
        at: usize,
        value: &[u8],
        log: impl FnMut(RowChange<'_>) -> Result<Stamp, E>,
    ) -> Result<bool, E>;

    /// Gives a row the record it had; how a change of length is undone.
    ///
    /// # Errors
    /// What `log` fails with, or as [`HeapFile::replace`].
    fn restore_row<E: From<PageError>>(
        &self,
        rows: &Self::Rows,
        lane: usize,
        row: RowId,
        record: &[u8],
        log: impl FnMut(HeapChange<'_>) -> Result<Stamp, E>,
    ) -> Result<bool, E>;

    /// Gives back what a row that is about to be purged keeps outside its record.
    #[expect(private_interfaces, reason = "only stores, which are here, call this")]
    fn forget_values(&self, rows: &Self::Rows, layout: &Layout, row: RowId);

    /// Bytes of memory for pages, and for rows outside pages.
    fn memory_bytes<'a>(&'a self, rows: impl Iterator<Item = &'a Self::Rows>) -> u64;

    /// How a buffer pool was used, where there is one.
    fn pool_usage(&self) -> Option<PoolUsage> {
        None
    }
}

/// Buffers for rows that are copied out: as many as were ever in use at the same time.
#[derive(Debug, Default)]
pub struct RowCopies(RefCell<Vec<Vec<u8>>>);

impl RowCopies {
    /// A copy of `record`.
    #[inline]
    fn take(&self, record: &[u8]) -> RowCopy<'_> {
        probe::count(Counter::PageCopies, 1);
        let mut bytes = self.0.borrow_mut().pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(record);
        RowCopy { bytes, copies: self }
    }
}

/// A row that was copied out; gives its buffer back when it goes.
#[derive(Debug)]
pub struct RowCopy<'a> {
    bytes: Vec<u8>,
    copies: &'a RowCopies,
}

impl Deref for RowCopy<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for RowCopy<'_> {
    #[inline]
    fn drop(&mut self) {
        self.copies.0.borrow_mut().push(std::mem::take(&mut self.bytes));
    }
}

/// A row in its record, with its variable-length values behind the fixed part.
#[derive(Debug)]
pub struct RowInPage<B>(B);

impl<B: Deref<Target = [u8]>> RowBytes for RowInPage<B> {
    #[inline(always)]
    fn fixed(&self) -> &[u8] {
        &self.0
    }

    #[inline]
    fn variable(&self, handle: u64) -> &[u8] {
        values::value(&self.0, handle)
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

/// What both ways of keeping rows in pages have in common.
macro_rules! rows_in_pages {
    () => {
        const ON_PAGES: bool = true;

        fn close(&self) -> Result<(), OpenError> {
            Ok(Self::close(self)?)
        }

        fn open_rows(&self, root: PageId) -> Result<Self::Rows, OpenError> {
            Ok(HeapFile::open(self, root)?)
        }

        fn save_rows(&self, rows: &Self::Rows) -> Result<PageId, OpenError> {
            rows.close(self)?;
            Ok(rows.root())
        }

        #[expect(private_interfaces, reason = "only stores, which are here, call this")]
        fn set_value<E: From<PageError>>(
            &self,
            rows: &Self::Rows,
            layout: &Layout,
            lane: usize,
            row: RowId,
            at: usize,
            value: &[u8],
            mut log: impl FnMut(RowChange<'_>) -> Result<Stamp, E>,
        ) -> Result<bool, E> {
            let Some(before) = rows.read(self, row, <[u8]>::to_vec)? else { return Ok(false) };
            let after = layout.with_value(&before, at, value);
            log(RowChange::Whole { before: &before, after: &after })?;
            rows.replace(self, lane, row, &after, |step| log(RowChange::Step(step)))
        }

        fn restore_row<E: From<PageError>>(
            &self,
            rows: &Self::Rows,
            lane: usize,
            row: RowId,
            record: &[u8],
            log: impl FnMut(HeapChange<'_>) -> Result<Stamp, E>,
        ) -> Result<bool, E> {
            rows.replace(self, lane, row, record, log)
        }

        #[expect(private_interfaces, reason = "only stores, which are here, call this")]
        #[inline(always)]
        fn forget_values(&self, _: &Self::Rows, _: &Layout, _: RowId) {}
    };
}

impl<S: PageSize, L: Latching, W: WriteAhead + Send + 'static> RowAccess<W>
    for BufferPool<S, L, W>
{
    const COPIES: bool = true;
    type Pin<'a> = RowInPage<RowCopy<'a>>;

    fn create(disk: &dyn Disk, settings: &PagedSettings, ahead: W) -> Result<Self> {
        Self::create(disk, frames::<S>(settings), ahead)
    }

    fn open(disk: &dyn Disk, settings: &PagedSettings, ahead: W) -> Result<Self, OpenError> {
        Ok(Self::open(disk, frames::<S>(settings), ahead)?)
    }

    #[inline]
    fn pin_row<'a>(
        &'a self,
        rows: &'a Self::Rows,
        copies: &'a RowCopies,
        row: RowId,
    ) -> Result<Option<RowInPage<RowCopy<'a>>>> {
        Ok(rows.read(self, row, |record| copies.take(record))?.map(RowInPage))
    }

    fn flush(&self) -> Result<(), OpenError> {
        Ok(Self::flush(self)?)
    }

    fn memory_bytes<'a>(&'a self, _: impl Iterator<Item = &'a Self::Rows>) -> u64 {
        self.usage().frames * S::BYTES as u64
    }

    fn pool_usage(&self) -> Option<PoolUsage> {
        Some(self.usage())
    }

    rows_in_pages!();
}

/// Frames of a pool; a transaction needs a few at a time.
fn frames<S: PageSize>(settings: &PagedSettings) -> usize {
    (settings.pool_bytes / S::BYTES).clamp(16, 1 << 31)
}

impl<S: PageSize, L: Latching, W> RowAccess<W> for DirectFrames<S, L> {
    const COPIES: bool = false;
    type Pin<'a> = RowInPage<<HeapFile<Self> as RowFile<Self>>::Pin<'a>>;

    fn create(disk: &dyn Disk, settings: &PagedSettings, _: W) -> Result<Self> {
        Self::create(disk, settings.structure_bytes_max)
    }

    fn open(disk: &dyn Disk, settings: &PagedSettings, _: W) -> Result<Self, OpenError> {
        Ok(Self::open(disk, settings.structure_bytes_max)?)
    }

    #[inline(always)]
    fn pin_row<'a>(
        &'a self,
        rows: &'a Self::Rows,
        _: &'a RowCopies,
        row: RowId,
    ) -> Result<Option<Self::Pin<'a>>> {
        Ok(rows.pin(self, row)?.map(RowInPage))
    }

    /// No page is written before the end.
    fn flush(&self) -> Result<(), OpenError> {
        Ok(())
    }

    fn memory_bytes<'a>(&'a self, _: impl Iterator<Item = &'a Self::Rows>) -> u64 {
        u64::from(self.page_count()) * S::BYTES as u64
    }

    rows_in_pages!();
}

impl<S: PageSize, W> RowAccess<W> for Pointers<S> {
    const COPIES: bool = false;
    const ON_PAGES: bool = false;
    type Pin<'a> = RowInSlab<'a>;

    fn create(_: &dyn Disk, settings: &PagedSettings, _: W) -> Result<Self> {
        Self::new(settings.structure_bytes_max)
    }

    fn open(_: &dyn Disk, _: &PagedSettings, _: W) -> Result<Self, OpenError> {
        Err(OpenError::CannotSave)
    }

    fn flush(&self) -> Result<(), OpenError> {
        Ok(())
    }

    fn close(&self) -> Result<(), OpenError> {
        Err(OpenError::CannotSave)
    }

    fn open_rows(&self, _: PageId) -> Result<SlabRows, OpenError> {
        Err(OpenError::CannotSave)
    }

    fn save_rows(&self, _: &SlabRows) -> Result<PageId, OpenError> {
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

    #[expect(private_interfaces, reason = "only stores, which are here, call this")]
    fn set_value<E: From<PageError>>(
        &self,
        rows: &SlabRows,
        _: &Layout,
        _: usize,
        row: RowId,
        at: usize,
        value: &[u8],
        _: impl FnMut(RowChange<'_>) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        let put = rows.values().borrow_mut().put(value);
        let new = put.map_err(|error| E::from(error.into()))?;
        rows.update(self, row, |_, record| {
            let handle = &mut record[at..at + values::HANDLE_BYTES];
            rows.values().borrow_mut().free(Handle::read(handle, 0));
            handle.copy_from_slice(&new.to_bits().to_le_bytes());
            Ok(None)
        })
    }

    /// Never asked: where rows lie outside pages nothing is undone.
    fn restore_row<E: From<PageError>>(
        &self,
        _: &SlabRows,
        _: usize,
        _: RowId,
        _: &[u8],
        _: impl FnMut(HeapChange<'_>) -> Result<Stamp, E>,
    ) -> Result<bool, E> {
        Ok(false)
    }

    #[expect(private_interfaces, reason = "only stores, which are here, call this")]
    fn forget_values(&self, rows: &SlabRows, layout: &Layout, row: RowId) {
        if layout.handles.is_empty() {
            return;
        }
        let _ = rows.read(self, row, |record| {
            let mut values = rows.values().borrow_mut();
            layout.handles.iter().for_each(|&at| values.free(Handle::read(record, at)));
        });
    }

    fn memory_bytes<'a>(&'a self, rows: impl Iterator<Item = &'a SlabRows>) -> u64 {
        let nodes = u64::from(self.page_count()) * S::BYTES as u64;
        nodes + rows.map(SlabRows::memory_bytes).sum::<u64>()
    }
}
