//! Where the rows of a table lie: heap files on pages, or slabs where pages are gone (LG-15, LG-20).
//!
//! [`RowFile`] is the interface for sessions; [`HeapFile`] stores rows in slotted pages, with any
//! [`PageAccess`] that has pages for them, [`SlabRows`] in slabs, for
//! [`Pointers`](super::pool::Pointers).
//!
//! A row's id is its page and slot, as long as the row exists: the length of its fixed part never changes. Its
//! variable-length values have slots of their own, which the row's handles name (`values.rs`). `space.rs` decides
//! where a new row or value goes.
//!
//! Every change passes the row's bytes and its place to the caller while the page is held exclusively: the
//! caller logs the change, and the number that it returns is stamped on the page as its LSN (S4).
//!
//! With several threads, soundness and isolation rest on the row lock: only a transaction that holds the lock
//! exclusively changes, deletes or purges the row, and only one that holds it in any mode pins the row. The same holds
//! for its values, because only the row leads to them. Not here: those locks, log records,
//! indexes.

mod check;
mod file;
mod redo;
mod scan;
mod slabs;
mod space;
mod values;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::ops::{ControlFlow, Deref};

pub use super::step::Stamp;
pub use file::HeapFile;
pub(super) use redo::redo;
pub use slabs::SlabRows;
pub(super) use space::enter;
pub(super) use values::{read_handle, value_in_copy, value_in_frame};

use super::page::{Page, PageId, SlotKind, StoreId};
use super::pool::{PageAccess, PageError, Result, SpaceStep};
use super::structure::Structure;
use crate::row::RowId;
use crate::schema::{TableDef, column_offset};
use crate::store::Damage;

/// A slot in a page and what it holds: what a log record names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The page.
    pub page: PageId,
    /// The slot in it.
    pub slot: u16,
    /// What lies there: the record of a row or an index entry, or a value.
    pub kind: SlotKind,
}

impl Place {
    /// A record's.
    #[inline(always)]
    pub const fn of_record(page: PageId, slot: u16) -> Self {
        Self { page, slot, kind: SlotKind::Record }
    }

    /// Where the row lies.
    #[inline(always)]
    pub const fn of_row(row: RowId) -> Self {
        let location = row.location();
        Self::of_record(PageId((location >> 16) as u32), location as u16)
    }

    /// The id of the row that lies here; of a value, what would be the id of one.
    #[inline(always)]
    pub const fn row(self) -> RowId {
        RowId::new((self.page.0 as u64) << 16 | self.slot as u64)
    }
}

/// What the rows of a table look like.
#[derive(Clone, Debug)]
pub struct RowLayout {
    /// Bytes of the fixed part.
    pub fixed_bytes: usize,
    /// Where in it the handles of variable-length values lie.
    pub handles: Vec<usize>,
}

impl RowLayout {
    /// Of rows without values.
    pub const fn fixed(bytes: usize) -> Self {
        Self { fixed_bytes: bytes, handles: Vec::new() }
    }

    /// Of the rows of a table.
    pub fn of(table: &TableDef) -> Self {
        let is_variable = |&i: &usize| table.columns[i].sql.is_variable();
        let offset = |i| column_offset(&table.columns, i);
        let handles = (0..table.columns.len()).filter(is_variable).map(offset).collect();
        Self { fixed_bytes: table.row_size(), handles }
    }
}

/// The rows of one table.
///
/// Closures run while the row's page is latched: they must not wait for a lock, nor reach pages.
/// Where a closure may fail it must not have changed the bytes then.
pub trait RowFile<P: PageAccess>: Sized {
    /// Whether rows lie in pages.
    const ON_PAGES: bool;

    /// Holds a row in place for reading.
    type Pin<'a>: Deref<Target = [u8]>
    where
        Self: 'a,
        P: 'a;

    /// A file without rows that a step makes, and the page where it begins, to be logged by the caller; no page
    /// where rows lie outside pages.
    ///
    /// # Errors
    /// As [`PageAccess::new_page`], or when such rows do not fit a page.
    fn make_file<'a>(
        step: &mut SpaceStep<'a, P>,
        store: StoreId,
        layout: RowLayout,
    ) -> Result<(Self, Option<P::Exclusive<'a>>)>;

    /// The same as a step that is not logged.
    ///
    /// # Errors
    /// As [`RowFile::make_file`].
    fn create_file(access: &P, store: StoreId, layout: RowLayout) -> Result<Self> {
        let mut step = SpaceStep::new(access);
        let (file, _root) = Self::make_file(&mut step, store, layout)?;
        step.finish(None);
        Ok(file)
    }

    /// The file that begins at `root`, whose rows look like that; `None` where rows lie outside pages,
    /// which are not saved.
    ///
    /// # Errors
    /// As [`PageAccess::fix_exclusive`], or when no file begins there.
    fn open_file(access: &P, root: PageId, layout: RowLayout) -> Result<Option<Self>>;

    /// What rows look like.
    fn layout(&self) -> &RowLayout;

    /// Where the file begins; `None` where rows lie outside pages, which are not saved.
    fn saved_root(&self) -> Option<PageId>;

    /// Writes down which pages have room. No thread uses the file any more.
    ///
    /// # Errors
    /// As [`PageAccess::fix_exclusive`], or what `structure` fails with, unless the disk is full.
    fn save(&self, access: &P, structure: &impl Structure) -> Result<()>;

    /// Says that a page of the file was met after a crash, which may have room.
    fn note_room(&self, _: Page<'_, P::Size>) {}

    /// Makes a row of `bytes` bytes, which are unspecified: `fill` writes them all. Sessions with
    /// different `lane`s use different pages where they can. `structure` receives the step if the file grows.
    ///
    /// # Errors
    /// What `fill` fails with, or as [`PageAccess::new_page`]; there is no row then.
    fn create<E: From<PageError>>(
        &self,
        access: &P,
        lane: usize,
        bytes: usize,
        fill: impl FnOnce(Place, &mut [u8]) -> Result<Stamp, E>,
        structure: &impl Structure,
    ) -> Result<RowId, E>;

    /// Shows a row, a deleted one until it is purged; `None` if there is none.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    fn read<T>(&self, access: &P, row: RowId, read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>>;

    /// Holds a row in place, a deleted one until it is purged; `None` if there is none.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    fn pin<'a>(&'a self, access: &'a P, row: RowId) -> Result<Option<Self::Pin<'a>>>;

    /// Says that these bytes of the row's fixed part, from one to before another, will be reached soon.
    fn prefetch(&self, access: &P, row: RowId, bytes: (usize, usize));

    /// Says that these rows will be needed soon, so that their pages are read at the same time; see
    /// [`PageAccess::fetch`].
    #[inline(always)]
    fn fetch(&self, access: &P, rows: impl Iterator<Item = RowId>) {
        _ = (access, rows);
    }

    /// Whether the id, which may be anything, is that of a row of this file that is not deleted.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    fn exists(&self, access: &P, row: RowId) -> Result<bool>;

    /// Changes a row in place; `false` if there is none.
    ///
    /// # Errors
    /// What `change` fails with, or as [`PageAccess::fix_exclusive`].
    fn update<E: From<PageError>>(
        &self,
        access: &P,
        row: RowId,
        change: impl FnOnce(Place, &mut [u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E>;

    /// Puts a value of a row down, near the row if there is room, and returns its handle, which is 0
    /// for no bytes. The row gets the handle from the caller.
    ///
    /// # Errors
    /// What `log` fails with, or as [`PageAccess::new_page`]; there is no value then.
    fn create_value<E: From<PageError>>(
        &self,
        access: &P,
        lane: usize,
        row: RowId,
        value: &[u8],
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
        structure: &impl Structure,
    ) -> Result<u64, E>;

    /// Where the value of a handle lies that its row gave up, to be deleted as a row is; `None` if
    /// nothing of it is left.
    fn give_up_value(&self, handle: u64) -> Option<Place>;

    /// Deletes a row or a value, but keeps its place and bytes until it is purged or revived;
    /// `false` if there is none.
    ///
    /// # Errors
    /// What `log` fails with, or as [`PageAccess::fix_exclusive`].
    fn delete<E: From<PageError>>(
        &self,
        access: &P,
        place: Place,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E>;

    /// Takes a deletion back: how it is undone. `false` if there is nothing deleted.
    ///
    /// # Errors
    /// What `log` fails with, or as [`PageAccess::fix_exclusive`].
    fn revive<E: From<PageError>>(
        &self,
        access: &P,
        place: Place,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E>;

    /// Gives the place of a row or a value back: after the deletion is committed, and how a creation
    /// is undone. `false` if there is none.
    ///
    /// # Errors
    /// What `log` fails with, or as [`PageAccess::fix_exclusive`].
    fn purge<E: From<PageError>>(
        &self,
        access: &P,
        place: Place,
        log: impl FnOnce(Place, &[u8]) -> Result<Stamp, E>,
    ) -> Result<bool, E>;

    /// Visits all rows and says of each whether it is deleted, until the visitor breaks off. No
    /// page is held meanwhile: the visitor may wait for locks.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    fn scan(&self, access: &P, visit: impl FnMut(RowId, bool) -> ControlFlow<()>) -> Result<()>;

    /// Verifies the file's structure, and that each value belongs to one row. There must be no
    /// transaction.
    fn check(&self, access: &P) -> Vec<Damage> {
        self.check_with_deleted(access, &|_| false)
    }

    /// The same while transactions are prepared: what one of them has `deleted` may still be there.
    fn check_with_deleted(&self, access: &P, deleted: &dyn Fn(Place) -> bool) -> Vec<Damage>;

    /// Bytes of memory for rows outside pages.
    fn memory_bytes(&self) -> u64 {
        0
    }

    /// All pages of the file, those that hold no rows among them.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    fn owned_pages(&self, access: &P) -> Result<Vec<PageId>>;
}
