//! Which pages a heap file has, and which of them have room.
//!
//! *Map pages*, a chain that begins at the file's root, list its pages; each entry is a page number
//! and, while the file is closed, how many eighths of the page were free. *Lanes* keep threads
//! apart: each lane fills a page of its own. When it is full, the lane takes one that is *open* (it
//! has an eighth of room or more and is no lane's), found by how much room it has, or a new one.
//! So a creation looks at one page, rarely at two.
//!
//! Invariants: a heap page's `extra` is its position among the entries; its OPEN flag is set exactly
//! if a lane fills it or it is among the open ones. Held in this order: a heap page, the state
//! below, a map page.
//!
//! Not logged: the map is a list of pages whose headers name their store, and free space is a hint;
//! restart can rebuild both.

use std::cell::{Cell, RefCell};

use crate::latch::{Latch, Latching};
use crate::paged::page::{Page, PageId, PageKind, PageSize, StoreId};
use crate::paged::pool::{ExclusivePage, PageAccess, PageError, PageFailure, ReadPage, Result};
use crate::sync::{AtomicU32, Ordering};

/// Lanes: enough for the threads of one store, each a cache line.
pub(super) const LANES: usize = 16;

/// Flag of a heap page: a lane fills it, or it is among the open ones.
const OPEN: u8 = 1;

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

    /// Of a new file.
    pub(super) fn create<P: PageAccess>(access: &P, store: StoreId) -> Result<Self> {
        let root = access.new_page(store, PageKind::HeapMap)?.page().id();
        let space = Self::new(store, root);
        space.state.hold().maps.borrow_mut().push(root);
        Ok(space)
    }

    /// Of the file whose map begins at `root`. What the map says of free space is taken out of it.
    pub(super) fn open<P: PageAccess>(access: &P, root: PageId) -> Result<Self> {
        let mut next = Some(root);
        let mut space = Self::new(StoreId::default(), root);
        let state = space.state.get_mut();
        while let Some(id) = next {
            let mut map = access.fix_exclusive(id)?;
            let page = map.page();
            let maps = state.maps.get_mut();
            if page.kind() != PageKind::HeapMap || maps.contains(&id) {
                let what = format!("page {} is no page of the map of a heap file", id.0);
                return Err(PageError::damaged_page::<P::Size>(id, &what));
            }
            space.store = page.store();
            maps.push(id);
            state.pages.set(state.pages.get() + page.extra());
            next = page.next();
            let all: Vec<u32> = entries(page).collect();
            for (position, entry) in all.iter().enumerate().filter(|(_, entry)| **entry > PAGE_MASK)
            {
                state.open.get_mut()[(entry >> PAGE_BITS) as usize].push(entry & PAGE_MASK);
                write_entry(&mut map, position, entry & PAGE_MASK);
            }
        }
        Ok(space)
    }

    /// Writes into the map which pages have room. No thread uses the file any more.
    pub(super) fn close<P: PageAccess>(&self, access: &P) -> Result<()> {
        for lane in 0..LANES {
            self.leave(access, lane)?;
        }
        let state = self.state.hold();
        for (class, pages) in state.open.borrow().iter().enumerate() {
            for &id in pages {
                let position = access.fix_shared(PageId(id))?.page().extra();
                let per_map = entries_per_map::<P::Size>();
                let map = state.maps.borrow()[(position / per_map) as usize];
                let entry = (class as u32) << PAGE_BITS | id;
                let mut map = access.fix_exclusive(map)?;
                write_entry(&mut map, (position % per_map) as usize, entry);
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
    ) -> Result<()> {
        let id = match self.take_open::<P::Size>(bytes) {
            Some(id) => id,
            None => self.append(access)?.0,
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

    /// A new page, entered in the map.
    fn append<P: PageAccess>(&self, access: &P) -> Result<PageId> {
        let mut page = access.new_page(self.store, PageKind::Heap)?;
        let id = page.page().id();
        page.page_mut().set_flags(OPEN);
        let state = self.state.hold();
        let position = state.pages.get();
        match self.enter(access, &state, id, position) {
            Ok(()) => page.page_mut().set_extra(position),
            Err(error) => {
                drop(state);
                access.free_page(page);
                return Err(error);
            }
        }
        state.pages.set(position + 1);
        Ok(id)
    }

    fn enter<P: PageAccess>(
        &self,
        access: &P,
        state: &State,
        id: PageId,
        position: u32,
    ) -> Result<()> {
        if id.0 > PAGE_MASK {
            return Err(PageFailure::TooManyPages.into());
        }
        let per_map = entries_per_map::<P::Size>();
        let mut maps = state.maps.borrow_mut();
        if position / per_map == maps.len() as u32 {
            let map = access.new_page(self.store, PageKind::HeapMap)?.page().id();
            if let Some(&last) = maps.last() {
                access.fix_exclusive(last)?.page_mut().set_next(Some(map));
            }
            maps.push(map);
        }
        let mut map = access.fix_exclusive(maps[(position / per_map) as usize])?;
        write_entry(&mut map, (position % per_map) as usize, id.0);
        map.page_mut().set_extra(position % per_map + 1);
        Ok(())
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

    fn shut<E: ExclusivePage>(&self, mut page: E) {
        let flags = page.page().flags() & !OPEN;
        page.page_mut().set_flags(flags);
    }

    /// Says that a row left `page`.
    #[inline]
    pub(super) fn note_more_room<E: ExclusivePage>(&self, page: &mut E) {
        let class = room_class(page.page());
        let flags = page.page().flags();
        if flags & OPEN == 0 && class > 0 {
            page.page_mut().set_flags(flags | OPEN);
            let id = page.page().id().0;
            self.state.hold().open.borrow_mut()[class].push(id);
        }
    }

    /// The open pages and the lanes', for the checker.
    pub(super) fn open_pages(&self) -> Vec<PageId> {
        let state = self.state.hold();
        let open = state.open.borrow();
        let lanes = (0..LANES).filter_map(|lane| self.current(lane));
        open.iter().flatten().map(|&id| PageId(id)).chain(lanes).collect()
    }
}

/// Whether a page counts as open.
pub(super) fn is_open<S: PageSize>(page: Page<'_, S>) -> bool {
    page.flags() & OPEN != 0
}

fn write_entry<E: ExclusivePage>(map: &mut E, position: usize, entry: u32) {
    let at = position * ENTRY_BYTES;
    map.page_mut().body_mut()[at..at + ENTRY_BYTES].copy_from_slice(&entry.to_le_bytes());
}
