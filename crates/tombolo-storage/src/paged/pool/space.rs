//! Which pages of the file are in use: growth at the end, and a list of free pages.
//!
//! A free page's right neighbour is the next free page; the head is kept here and goes to page 0
//! when the file is saved. One latch protects it, taken after any page's latch: allocation is rare,
//! once in dozens of rows.
//!
//! Pages are taken and given back by steps ([`SpaceStep`]), each by one thread at a time, which holds the latch
//! from the first page on until the step is logged with all it does: what the log says of page 0 is true
//! at each of its records.
//!
//! Not here: log records, which steps there are.

use std::cell::Cell;

use super::error::{PageError, PageFailure};
use super::file::PageFile;
use super::{ExclusivePage, PageAccess, PagesMark, ReadPage, Result};
use crate::latch::{GuardedU32, Latch, LatchGuard, Latching};
use crate::paged::page::{PageId, PageKind, PageSize, StoreId};
use crate::paged::step::{FreedPage, SpaceImage, Stamp};
use crate::store::Damage;

/// What page 0 says of the file's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpaceState {
    /// Whether the file says that it was closed.
    pub(super) is_closed: bool,
    /// The log that goes with the pages: its number, and up to where it was durable when page 0 was written.
    pub(super) log: u64,
    pub(super) position: u64,
    /// The LSN of the last change.
    pub(super) lsn: u64,
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
        let (log, position) = (0, 0);
        let ([pages, reserved_pages], [free_head, free_pages, root]) = ([1; 2], [0; 3]);
        let (is_closed, lsn) = (false, 0);
        Self { is_closed, log, position, lsn, pages, reserved_pages, free_head, free_pages, root }
    }

    /// What the file says of its log.
    pub(super) fn mark(self) -> PagesMark {
        let Self { log: number, position, is_closed, .. } = self;
        PagesMark { number, position, is_closed }
    }
}

/// The pages of a file, one allocation at a time.
pub struct Space<L: Latching> {
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

    /// The LSN of page 0.
    pub fn lsn(&self) -> u64 {
        self.state().lsn
    }

    /// What the file says of its log.
    pub fn mark(&self) -> PagesMark {
        self.state().mark()
    }

    /// Says that the pages go with the log of this number, which is durable up to `position`; with none if that is
    /// 0. Page 0 says so when it is written next.
    pub fn set_log(&self, number: u64, position: u64) {
        let held = self.state.hold();
        held.set(SpaceState { log: number, position, ..held.get() });
    }

    /// Sets what page 0 says, by the log; the file is as long as it should be.
    ///
    /// # Errors
    /// As [`PageAccess::reserve`].
    pub fn redo<P: PageAccess>(&self, access: &P, image: SpaceImage, lsn: u64) -> Result<()> {
        let SpaceImage { pages, free_head, free_pages, root } = image;
        let held = self.state.hold();
        let before = held.get();
        let reserved_pages = access.reserve(pages, before.reserved_pages)?;
        held.set(SpaceState { lsn, pages, reserved_pages, free_head, free_pages, root, ..before });
        self.pages.set(pages);
        Ok(())
    }

    /// Marks the file as not closed before anything is written.
    pub(super) fn mark_open<S: PageSize>(&self, file: &PageFile<S>) -> Result<()> {
        let held = self.state.hold();
        let mut state = held.get();
        file.mark_open(&mut state)?;
        held.set(state);
        Ok(())
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

/// The pages that one step takes and gives back. No other thread takes or gives back any from the first one on
/// until the step is finished or dropped; dropped without, it did not happen.
pub struct SpaceStep<'a, P: PageAccess> {
    access: &'a P,
    held: Option<LatchGuard<'a, Cell<SpaceState>, P::Latching>>,
    next: SpaceState,
    /// Free pages that were taken, and the one behind each.
    taken: Vec<FreedPage>,
    freed: Vec<FreedPage>,
}

impl<'a, P: PageAccess> SpaceStep<'a, P> {
    /// A step of no pages so far.
    pub fn new(access: &'a P) -> Self {
        let (taken, freed) = (Vec::new(), Vec::new());
        Self { access, held: None, next: SpaceState::empty(), taken, freed }
    }

    /// What reaches the pages.
    pub fn access(&self) -> &'a P {
        self.access
    }

    /// What page 0 says as of this step, to be changed.
    fn hold(&mut self) -> &mut SpaceState {
        if self.held.is_none() {
            let held = self.access.space().state.hold();
            self.next = held.get();
            self.held = Some(held);
        }
        &mut self.next
    }

    /// Makes an empty page, a freed one if there is any. Its LSN is at least that of the page it
    /// was before. If the step is not done, it is to be put back.
    ///
    /// # Errors
    /// As [`PageAccess::new_page`]; the step is as it was.
    pub fn take(&mut self, store: StoreId, kind: PageKind) -> Result<P::Exclusive<'a>> {
        let access = self.access;
        let SpaceState { pages, reserved_pages, free_head, .. } = *self.hold();
        if free_head != 0 {
            let id = PageId(free_head);
            let mut page = access.fix_exclusive(id)?;
            let next = reuse(&mut page, store, kind)?;
            self.taken.push(FreedPage { page: id, next });
            self.next.free_head = next.map_or(0, |id| id.0);
            self.next.free_pages -= 1;
            return Ok(page);
        }
        if pages == u32::MAX {
            return Err(PageFailure::TooManyPages.into());
        }
        let reserved_pages = access.reserve(pages + 1, reserved_pages)?;
        self.next.reserved_pages = reserved_pages;
        // Kept even if the page is not taken in the end: the file has grown.
        if let Some(held) = &self.held {
            held.set(SpaceState { reserved_pages, ..held.get() });
        }
        let page = access.install(PageId(pages), store, kind)?;
        self.next.pages += 1;
        Ok(page)
    }

    /// Takes back that a page was taken, because the step is not done.
    pub fn put_back(&mut self, mut page: P::Exclusive<'a>) {
        let id = page.page().id();
        match self.taken.iter().find(|taken| taken.page == id) {
            Some(taken) => set_free(&mut page, taken.next, None),
            None => self.access.discard(page),
        }
    }

    /// Gives a page back, which nothing leads to once the step is done; then it is to be passed to
    /// [`set_free`].
    ///
    /// # Panics
    /// When it is free.
    pub fn give(&mut self, page: &P::Exclusive<'_>) {
        let (page, kind) = (page.page().id(), page.page().kind());
        assert!(kind != PageKind::Free, "page {} is freed twice", page.0);
        let state = self.hold();
        let next = (state.free_head != 0).then_some(PageId(state.free_head));
        state.free_head = page.0;
        state.free_pages += 1;
        self.freed.push(FreedPage { page, next });
    }

    /// Where the catalogue begins, once that is set.
    pub fn root(&mut self) -> Option<PageId> {
        let root = self.hold().root;
        (root != 0).then_some(PageId(root))
    }

    /// Says where the catalogue begins.
    pub fn set_root(&mut self, root: PageId) {
        self.hold().root = root.0;
    }

    /// The pages given back, in order.
    pub fn freed(&self) -> &[FreedPage] {
        &self.freed
    }

    /// What page 0 will say, if the step changes that.
    pub fn image(&self) -> Option<SpaceImage> {
        self.held.as_ref()?;
        let SpaceState { pages, free_head, free_pages, root, .. } = self.next;
        Some(SpaceImage { pages, free_head, free_pages, root })
    }

    /// Says that the step is logged, with its number.
    pub fn finish(&mut self, stamp: Stamp) {
        let Some(held) = self.held.take() else { return };
        self.next.lsn = stamp.unwrap_or(self.next.lsn);
        held.set(self.next);
        // It counts before the latch goes, and before its number is known to any other thread.
        self.access.space().pages.set(self.next.pages);
    }
}

/// Makes a free page of one that was given back, or put back.
pub fn set_free<E: ExclusivePage>(page: &mut E, next: Option<PageId>, stamp: Stamp) {
    let (id, lsn) = (page.page().id(), page.page().lsn());
    let mut page = page.page_mut();
    page.format(id, StoreId(0), PageKind::Free);
    page.set_lsn(stamp.unwrap_or(lsn));
    page.set_next(next);
}

/// Makes an empty page of a free one; returns the free page behind it.
fn reuse<S: PageSize>(
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
