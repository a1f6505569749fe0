//! Which pages a heap file has, and which of them have room.
//!
//! *Map pages*, a chain that begins at the file's root, list its pages; each entry has a page number
//! and, as a hint, how many eighths of the page were free when the file was last closed. *Lanes* let threads use
//! different pages: each lane fills a page of its own. When that page is full, the lane takes an *open* page (one that
//! is at least an eighth free and belongs to no lane), chosen by its free space, or a new one.
//! So creating a row looks at one page, rarely at two.
//!
//! Invariants: a heap page's `extra` is its position among the entries; it is marked as open in memory exactly
//! if a lane fills it or it is among the open ones. Held in this order: a heap page in use, the state
//! below, a map page, the pages of a step.
//!
//! Making a page and entering it in the map is one logged step. Free space is not logged: after a crash, a page that
//! redo did not change becomes open again only when something is deleted from it.

use std::cell::{Cell, RefCell};

use super::Stamp;
use crate::latch::{Latch, Latching};
use crate::paged::page::{Page, PageBuffer, PageId, PageKind, PageMut, PageSize, StoreId};
use crate::paged::pool::{
    ExclusivePage, PageAccess, PageError, PageFailure, ReadPage, Result, SpaceStep,
};
use crate::paged::step::{MadePage, MapEntry, Step};
use crate::paged::structure::{Structure, set_stamp};
use crate::sync::{AtomicU32, Ordering};

/// Lanes: enough for the threads of one store, each a cache line.
pub(super) const LANES: usize = 16;

/// Free space is classified in eighths of a page.
const ROOM_CLASSES: usize = 8;

/// An entry of a map page: the room class above, the page number below.
const ENTRY_BYTES: usize = 4;
const PAGE_BITS: u32 = 29;
const PAGE_MASK: u32 = (1 << PAGE_BITS) - 1;
const _: () = assert!(ROOM_CLASSES <= 1 << (u32::BITS - PAGE_BITS));

/// No page: page 0 is no heap page.
const NONE: u32 = 0;

/// The page a lane fills.
#[derive(Debug)]
#[repr(align(64))]
struct Lane(AtomicU32);

/// The pages of one heap file.
pub(super) struct HeapSpace<L: Latching> {
    store: StoreId,
    root: PageId,
    lanes: [Lane; LANES],
    state: Latch<State, L>,
}

#[derive(Default)]
struct State {
    /// Entries in all map pages.
    pages: Cell<u32>,
    /// The map pages, in order.
    maps: RefCell<Vec<PageId>>,
    /// Open pages by room class.
    open: RefCell<[Vec<u32>; ROOM_CLASSES]>,
    /// By position, whether a page is open or a lane's.
    is_open: RefCell<Vec<bool>>,
}

impl State {
    /// Marks the page at a position, or takes the mark off; says whether it had one.
    fn mark(&self, position: u32, open: bool) -> bool {
        let (position, mut marks) = (position as usize, self.is_open.borrow_mut());
        if marks.len() <= position {
            marks.resize(position + 1, false);
        }
        std::mem::replace(&mut marks[position], open)
    }
}

const fn entries_per_map<S: PageSize>() -> u32 {
    ((S::BYTES - crate::paged::page::HEADER_BYTES) / ENTRY_BYTES) as u32
}

/// Whole eighths of the page that are free.
fn room_class<S: PageSize>(page: Page<'_, S>) -> usize {
    (page.free_bytes() * ROOM_CLASSES / S::BYTES).min(ROOM_CLASSES - 1)
}

/// The entries of a map page.
pub(super) fn entries<S: PageSize>(map: Page<'_, S>) -> impl Iterator<Item = u32> + '_ {
    let count = map.extra().min(entries_per_map::<S>()) as usize;
    let entries = map.body().chunks_exact(ENTRY_BYTES).take(count);
    entries.map(|entry| u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]))
}

/// The page an entry names.
pub(super) fn entry_page(entry: u32) -> PageId {
    PageId(entry & PAGE_MASK)
}

impl<L: Latching> HeapSpace<L> {
    fn new(store: StoreId, root: PageId) -> Self {
        let lanes = std::array::from_fn(|_| Lane(AtomicU32::new(NONE)));
        Self { store, root, lanes, state: Latch::default() }
    }

    /// Of a new file that a step makes, and its map's page, to be logged by the caller.
    pub(super) fn make<'a, P: PageAccess>(
        step: &mut SpaceStep<'a, P>,
        store: StoreId,
    ) -> Result<(Self, P::Exclusive<'a>)> {
        let root = step.take(store, PageKind::HeapMap)?;
        let space = Self::new(store, root.page().id());
        space.state.hold().maps.borrow_mut().push(space.root);
        Ok((space, root))
    }

    /// Of the file whose map begins at `root`.
    pub(super) fn open<P: PageAccess>(access: &P, root: PageId) -> Result<Self> {
        let mut next = Some(root);
        let mut space = Self::new(StoreId::default(), root);
        let state = space.state.get_mut();
        while let Some(id) = next {
            let map = access.fix_shared(id)?;
            let page = map.page();
            let maps = state.maps.get_mut();
            if page.kind() != PageKind::HeapMap || maps.contains(&id) {
                let what = format!("page {} is no page of the map of a heap file", id.0);
                return Err(PageError::damaged_page::<P::Size>(id, &what));
            }
            space.store = page.store();
            maps.push(id);
            next = page.next();
            let first = state.pages.get();
            state.pages.set(first + page.extra());
            for (position, entry) in (first..).zip(entries(page)).filter(|at| at.1 > PAGE_MASK) {
                state.mark(position, true);
                state.open.get_mut()[(entry >> PAGE_BITS) as usize].push(entry & PAGE_MASK);
            }
        }
        Ok(space)
    }

    /// Writes into the map which pages have room, if there is room for that in the log. No thread uses the
    /// file any more.
    pub(super) fn close<P: PageAccess>(
        &self,
        access: &P,
        structure: &impl Structure,
    ) -> Result<()> {
        for lane in 0..LANES {
            self.leave(access, lane)?;
        }
        let state = self.state.hold();
        let mut classes = vec![0; state.pages.get() as usize];
        for (class, pages) in state.open.borrow().iter().enumerate() {
            for &id in pages {
                classes[access.fix_shared(PageId(id))?.page().extra() as usize] = class as u32;
            }
        }
        let maps = state.maps.borrow();
        for (&map, classes) in
            maps.iter().zip(classes.chunks(entries_per_map::<P::Size>() as usize))
        {
            let mut map = access.fix_exclusive(map)?;
            let hints: Vec<u32> = entries(map.page())
                .zip(classes)
                .map(|(entry, class)| class << PAGE_BITS | entry & PAGE_MASK)
                .collect();
            if entries(map.page()).eq(hints.iter().copied()) {
                continue;
            }
            let mut image = PageBuffer::copy_of(map.page());
            for (position, hint) in hints.into_iter().enumerate() {
                write_entry(&mut image.page_mut(), position, hint);
            }
            match structure.changes(&Step::of(&[image.page()])) {
                Ok(stamp) => {
                    map.page_mut().copy_from(image.page());
                    set_stamp(&mut map, stamp);
                }
                Err(error) if error.is_full() => {}
                Err(error) => return Err(PageFailure::Log(error).into()),
            }
        }
        Ok(())
    }

    /// Where the map begins: what the directory of stores keeps.
    pub(super) fn root(&self) -> PageId {
        self.root
    }

    pub(super) fn store(&self) -> StoreId {
        self.store
    }

    /// The map pages, in order.
    pub(super) fn maps(&self) -> Vec<PageId> {
        self.state.hold().maps.borrow().clone()
    }

    /// Pages of the file, map pages not counted.
    pub(super) fn page_count(&self) -> u32 {
        self.state.hold().pages.get()
    }

    /// The page `lane` fills: a hint, other threads may share the lane.
    #[inline(always)]
    pub(super) fn current(&self, lane: usize) -> Option<PageId> {
        // Acquire: partner of the Release in `advance`: the page was made before its number is seen.
        // What happened to it since is ordered by its latch.
        let id = self.lanes[lane % LANES].0.load(Ordering::Acquire);
        (id != NONE).then_some(PageId(id))
    }

    /// Gives `lane` another page, with room for `bytes` bytes if it can.
    #[cold]
    pub(super) fn advance<P: PageAccess>(
        &self,
        access: &P,
        lane: usize,
        bytes: usize,
        structure: &impl Structure,
    ) -> Result<()> {
        let id = match self.take_open::<P::Size>(bytes) {
            Some(id) => id,
            None => self.append(access, structure)?.0,
        };
        // Release: partner of the Acquire in `current`; Acquire: of another thread's Release here.
        let before = self.lanes[lane % LANES].0.swap(id, Ordering::AcqRel);
        if before != NONE && before != id {
            // Another thread of this lane was here too: its page is open again.
            let page = access.fix_exclusive(PageId(before))?;
            self.release(page);
        }
        Ok(())
    }

    /// An open page that has at least `bytes` bytes of room, those with least room first.
    fn take_open<S: PageSize>(&self, bytes: usize) -> Option<u32> {
        let class = (bytes * ROOM_CLASSES).div_ceil(S::BYTES).max(1);
        let state = self.state.hold();
        let mut open = state.open.borrow_mut();
        open.get_mut(class..)?.iter_mut().find_map(Vec::pop)
    }

    /// A new page, entered in the map, which gets another page where its last one is full: one step.
    fn append<P: PageAccess>(&self, access: &P, structure: &impl Structure) -> Result<PageId> {
        let state = self.state.hold();
        let (position, per_map) = (state.pages.get(), entries_per_map::<P::Size>());
        let mut maps = state.maps.borrow_mut();
        let is_full = position / per_map == maps.len() as u32;
        let last = maps[maps.len() - 1];
        let mut last = access.fix_exclusive(last)?;
        let mut step = SpaceStep::new(access);
        let page = step.take(self.store, PageKind::Heap)?;
        let map = is_full.then(|| step.take(self.store, PageKind::HeapMap)).transpose();
        let mut map = match map {
            Ok(map) => map,
            Err(error) => {
                step.put_back(page);
                return Err(error);
            }
        };
        let (id, slot) = (page.page().id(), (position % per_map) as u16);
        let map_id = map.as_ref().map(|map| map.page().id());
        let logged = match id.0 > PAGE_MASK {
            true => Err(PageFailure::TooManyPages),
            false => {
                let (store, map) = (self.store, map_id.unwrap_or(last.page().id()));
                let entry = MapEntry { store, map, slot, page: id };
                log_append(structure, &step, entry, position, last.page())
            }
        };
        let stamp = match logged {
            Ok(stamp) => stamp,
            Err(failure) => {
                step.put_back(page);
                map.into_iter().for_each(|map| step.put_back(map));
                return Err(failure.into());
            }
        };
        let mut page = page;
        page.page_mut().set_extra(position);
        set_stamp(&mut page, stamp);
        if let Some(map_id) = map_id {
            last.page_mut().set_next(map_id.into());
            set_stamp(&mut last, stamp);
            maps.push(map_id);
        }
        let map = map.as_mut().unwrap_or(&mut last);
        enter(map, slot, id);
        set_stamp(map, stamp);
        step.finish(stamp);
        state.pages.set(position + 1);
        state.mark(position, true);
        Ok(id)
    }

    /// Says that `page` has no room for what `lane` wanted to put there.
    #[cold]
    pub(super) fn give_up<E: ExclusivePage>(&self, lane: usize, page: E, bytes: usize) {
        let id = page.page().id().0;
        // Relaxed: under the page's latch, so of two threads that give it up one does; no page number
        // is read.
        let held = &self.lanes[lane % LANES].0;
        if held.compare_exchange(id, NONE, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        if page.page().has_room_for(bytes) {
            // Its room is scattered, and rows are pinned. Open, it would be chosen again
            // immediately; the next row that leaves it opens it.
            self.shut(page);
        } else {
            self.release(page);
        }
    }

    /// The lane lets go of its page.
    fn leave<P: PageAccess>(&self, access: &P, lane: usize) -> Result<()> {
        // Acquire: as in `current`.
        let id = self.lanes[lane].0.swap(NONE, Ordering::Acquire);
        if id != NONE {
            self.release(access.fix_exclusive(PageId(id))?);
        }
        Ok(())
    }

    /// Puts a page that was a lane's among the open ones, if it has room.
    fn release<E: ExclusivePage>(&self, page: E) {
        match room_class(page.page()) {
            0 => self.shut(page),
            class => self.state.hold().open.borrow_mut()[class].push(page.page().id().0),
        }
    }

    fn shut<E: ExclusivePage>(&self, page: E) {
        self.state.hold().mark(page.page().extra(), false);
    }

    /// Says that a row left `page`, or that it was met after a crash.
    #[inline]
    pub(super) fn note_more_room<S: PageSize>(&self, page: Page<'_, S>) {
        let class = room_class(page);
        if class > 0 {
            let state = self.state.hold();
            if !state.mark(page.extra(), true) {
                state.open.borrow_mut()[class].push(page.id().0);
            }
        }
    }

    /// Whether a page counts as open.
    pub(super) fn is_open<S: PageSize>(&self, page: Page<'_, S>) -> bool {
        let state = self.state.hold();
        state.is_open.borrow().get(page.extra() as usize).is_some_and(|open| *open)
    }

    /// The open pages and the lanes', for the checker.
    pub(super) fn open_pages(&self) -> Vec<PageId> {
        let state = self.state.hold();
        let open = state.open.borrow();
        let lanes = (0..LANES).filter_map(|lane| self.current(lane));
        open.iter().flatten().map(|&id| PageId(id)).chain(lanes).collect()
    }
}

/// Logs that a heap page is made and entered in a map, where `last` is the last page so far.
fn log_append<P: PageAccess>(
    structure: &impl Structure,
    step: &SpaceStep<'_, P>,
    entry: MapEntry,
    position: u32,
    last: Page<'_, P::Size>,
) -> Result<Stamp, PageFailure> {
    let made = |page, kind, extra| MadePage { page, store: entry.store, kind, extra };
    let mut pages = vec![made(entry.page, PageKind::Heap, position)];
    let mut images = Vec::new();
    if entry.map != last.id() {
        pages.push(made(entry.map, PageKind::HeapMap, 0));
        let mut image = PageBuffer::copy_of(last);
        image.page_mut().set_next(Some(entry.map));
        images.push(image);
    }
    let images: Vec<_> = images.iter().map(PageBuffer::page).collect();
    let what = Step { made: &pages, entry: Some(entry), space: step.image(), ..Step::of(&images) };
    structure.changes(&what).map_err(PageFailure::Log)
}

/// Enters a heap page in a page of its file's map.
pub(in crate::paged) fn enter<E: ExclusivePage>(map: &mut E, slot: u16, id: PageId) {
    write_entry(&mut map.page_mut(), slot.into(), id.0);
    let count = map.page().extra().max(u32::from(slot) + 1);
    map.page_mut().set_extra(count);
}

fn write_entry<S: PageSize>(map: &mut PageMut<'_, S>, position: usize, entry: u32) {
    let at = position * ENTRY_BYTES;
    map.body_mut()[at..at + ENTRY_BYTES].copy_from_slice(&entry.to_le_bytes());
}
