//! Which pages of the file are in use: growth at the end, and a list of free pages.
//!
//! A free page's right neighbour is the next free page; the head is kept here and goes to page 0
//! when the file is saved. One latch protects it, taken after any page's latch: allocation is rare,
//! once in dozens of rows.
//!
//! Not logged here: a tree logs the pages it takes and gives back with the step that does so. That
//! a heap file grew is not logged yet.

use std::cell::Cell;

use super::error::{PageError, PageFailure};
use super::file::PageFile;
use super::{ExclusivePage, PageAccess, ReadPage, Result};
use crate::latch::{GuardedU32, Latch, LatchGuard, Latching};
use crate::paged::page::{PageId, PageKind, PageSize, StoreId};
use crate::store::Damage;

/// What page 0 says of the file's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpaceState {
    /// Pages in use or free, page 0 among them.
    pub(super) pages: u32,
    /// Pages the file has space for.
    pub(super) reserved_pages: u32,
    /// The first free page, or 0.
    pub(super) free_head: u32,
    /// How many are free.
    pub(super) free_pages: u32,
    /// Where the directory of stores begins, or 0.
    pub(super) root: u32,
}

impl SpaceState {
    /// Of a file that holds page 0 only.
    pub(super) fn empty() -> Self {
        Self { pages: 1, reserved_pages: 1, free_head: 0, free_pages: 0, root: 0 }
    }
}

/// The pages of a file, one allocation at a time.
pub(super) struct Space<L: Latching> {
    state: Latch<Cell<SpaceState>, L>,
    /// A copy of the number of pages, for everyone.
    pages: GuardedU32,
}

impl<L: Latching> Space<L> {
    pub(super) fn new(state: SpaceState) -> Self {
        let pages = GuardedU32::new(state.pages);
        Self { state: Latch::new(Cell::new(state)), pages }
    }

    /// Pages of the file. A thread that was led to a page sees a number above it: the page's number
    /// reached it through a latch, or by a Release and an Acquire, and was counted before.
    #[inline(always)]
    pub(super) fn pages(&self) -> u32 {
        self.pages.get()
    }

    pub(super) fn state(&self) -> SpaceState {
        self.state.hold().get()
    }

    pub(super) fn set_root(&self, root: PageId) {
        let state = self.state.hold();
        state.set(SpaceState { root: root.0, ..state.get() });
    }

    /// Reserves the next page, until the returned value is taken or dropped.
    pub(super) fn hold(&self) -> Allocation<'_, L> {
        let state = self.state.hold();
        let next = state.get();
        Allocation { state, pages: &self.pages, next }
    }

    /// Puts a page, which is held alone, on the list of free ones.
    pub(super) fn free<S: PageSize>(&self, mut page: impl ExclusivePage<Size = S>) {
        let (id, lsn) = (page.page().id(), page.page().lsn());
        assert!(page.page().kind() != PageKind::Free, "page {} is freed twice", id.0);
        let held = self.state.hold();
        let state = held.get();
        let mut freed = page.page_mut();
        freed.format(id, StoreId(0), PageKind::Free);
        freed.set_lsn(lsn);
        freed.set_next((state.free_head != 0).then_some(PageId(state.free_head)));
        held.set(SpaceState { free_head: id.0, free_pages: state.free_pages + 1, ..state });
    }

    /// The free pages as they are listed, up to the first that is none, and one more than there are
    /// should the list be longer.
    pub(super) fn free_pages<P: PageAccess>(&self, access: &P) -> Vec<PageId> {
        let state = self.state();
        let mut listed = Vec::new();
        let mut next = (state.free_head != 0).then_some(PageId(state.free_head));
        while let Some(id) = next
            && listed.len() as u32 <= state.free_pages
            && let Ok(page) = access.fix_shared(id)
            && page.page().kind() == PageKind::Free
        {
            listed.push(id);
            next = page.page().next();
        }
        listed
    }

    /// Verifies every page and walks the list of free ones.
    pub(super) fn check<P: PageAccess>(&self, access: &P) -> Vec<Damage> {
        let state = self.state();
        let mut damages = Vec::new();
        let mut free_pages = 0;
        for id in 1..state.pages {
            let found = access.fix_shared(PageId(id)).map_err(|error| error.to_string());
            let found = found.and_then(|page| {
                free_pages += u32::from(page.page().kind() == PageKind::Free);
                page.page().check()
            });
            if let Err(what) = found {
                damages.push(Damage { check: "pages", what: format!("page {id}: {what}") });
            }
        }
        let listed = self.free_pages(access).len() as u32;
        if listed != free_pages || listed != state.free_pages {
            let what = format!(
                "{free_pages} pages are free, {} are counted, {listed} are listed",
                state.free_pages
            );
            damages.push(Damage { check: "free pages", what });
        }
        damages
    }
}

/// The next page to be handed out; no other thread allocates meanwhile.
pub(super) struct Allocation<'a, L: Latching> {
    state: LatchGuard<'a, Cell<SpaceState>, L>,
    pages: &'a GuardedU32,
    next: SpaceState,
}

impl<L: Latching> Allocation<'_, L> {
    /// The free page to take, if there is one.
    pub(super) fn free_page(&self) -> Option<PageId> {
        (self.next.free_head != 0).then_some(PageId(self.next.free_head))
    }

    /// The page at the end of the file.
    pub(super) fn page_at_end(&self) -> Result<PageId> {
        if self.next.pages == u32::MAX {
            return Err(PageFailure::TooManyPages.into());
        }
        Ok(PageId(self.next.pages))
    }

    /// Makes sure that the file has space for one more page.
    pub(super) fn reserve<S: PageSize>(&mut self, file: &PageFile<S>) -> Result<()> {
        let reserved = file.reserve(self.next.pages + 1, self.next.reserved_pages)?;
        self.next.reserved_pages = reserved;
        // Kept even if the page is not taken in the end: the file has grown.
        let state = self.state.get();
        self.state.set(SpaceState { reserved_pages: reserved, ..state });
        Ok(())
    }

    /// The free page was taken; `following` is the one behind it.
    pub(super) fn take_free_page(mut self, following: Option<PageId>) {
        self.next.free_head = following.map_or(0, |id| id.0);
        self.next.free_pages -= 1;
        self.state.set(self.next);
    }

    /// The page at the end was taken.
    pub(super) fn take_page_at_end(mut self) {
        self.next.pages += 1;
        self.state.set(self.next);
        self.pages.set(self.next.pages);
    }
}

/// What every pool does with a free page it hands out again; returns the free page behind it.
pub(super) fn reuse<S: PageSize>(
    page: &mut impl ExclusivePage<Size = S>,
    store: StoreId,
    kind: PageKind,
) -> Result<Option<PageId>> {
    let (id, lsn, following) = (page.page().id(), page.page().lsn(), page.page().next());
    if page.page().kind() != PageKind::Free {
        let what = format!("page {} is in use and on the list of free pages", id.0);
        return Err(PageError::damaged_page::<S>(id, &what));
    }
    let mut page = page.page_mut();
    page.format(id, store, kind);
    page.set_lsn(lsn);
    Ok(following)
}
