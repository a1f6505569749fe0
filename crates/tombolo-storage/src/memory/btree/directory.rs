//! `Directory`: the values of keys that lie close together, found by the key alone: two loads, and no
//! node of the tree.
//!
//! Keys that agree above their low ten bits are a *group*. A group may have a *page*, which has a place
//! for each of its keys; `top` names the page of each group from the first on that has one. Numbers
//! given in order fill whole pages: in TPC-C, all items, stocks, customers and districts.
//!
//! The directory lies next to the tree and knows a part of it. A leaf without large gaps is entered
//! when an ascending insertion splits the next one off it, and when a look-up that the directory could
//! not answer ends in it. So a tree that is only inserted into, or whose keys are far apart, has none,
//! and an insertion pays nothing. What is not known here is looked for in the tree.
//!
//! Pages take at most about twice the memory of the values they could hold if all were neighbours; a
//! group too far from the others gets none. Without memory for a page the tree still works, only
//! slower.
//!
//! Invariants: what is known of a key is its value in the tree ([`Directory::forget`] is called when it
//! is removed; a value never changes). Page 0 is empty and stands for no page, so that a look-up need
//! not ask. A page that has lost its last key is given back.

use super::super::budget::Allowance;
use super::super::region::RegionError;
use super::integer_node::Leaf;
use super::nodes::{Nodes, Plain};
use super::search::unbias;
use std::collections::TryReserveError;
use std::mem::offset_of;

const GROUP_BITS: u32 = 10;
const PLACES: usize = 1 << GROUP_BITS;
/// Pages that a tree may have however few keys it holds, and groups that they may be apart.
const PAGES_MIN: usize = 4;
const GROUPS_MIN: usize = 64;
/// Groups for which there is room from the start: a million neighbouring keys.
const ROOM: usize = 1024;
/// Stands for no page.
const EMPTY: u32 = 0;

/// The values of a group's keys, each one more than it is; 0 where nothing is known.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Page {
    values: [u32; PLACES],
}

// SAFETY: integers only; the size is 4096 (asserted below).
unsafe impl Plain for Page {}

const _: () = assert!(size_of::<Page>() == 4096);

/// See the module's head.
#[derive(Debug)]
pub(super) struct Directory {
    pages: Nodes<Page>,
    /// How many keys each page knows.
    counts: Vec<u16>,
    /// The page of each group from `first` on.
    top: Vec<u32>,
    first: u64,
}

impl Directory {
    pub(super) fn new(allowance: Allowance) -> Result<Self, RegionError> {
        let pages = Nodes::new(allowance)?;
        Ok(Self { pages, counts: Vec::new(), top: Vec::new(), first: 0 })
    }

    /// The value of `key`, if it is known.
    #[inline(always)]
    pub(super) fn find(&self, key: u64) -> Option<u32> {
        let page = self.page(key)?;
        self.pages.get(page).values[place(key)].checked_sub(1)
    }

    /// Asks for what [`Directory::find`] will read; says whether `key` may be known.
    #[inline(always)]
    pub(super) fn prefetch(&self, key: u64) -> bool {
        let Some(page) = self.page(key) else { return false };
        self.pages.prefetch_at(page, offset_of!(Page, values) + place(key) * size_of::<u32>());
        page != EMPTY
    }

    #[inline(always)]
    fn page(&self, key: u64) -> Option<u32> {
        self.top.get(self.group_at(key)).copied()
    }

    #[inline(always)]
    fn group_at(&self, key: u64) -> usize {
        (key >> GROUP_BITS).wrapping_sub(self.first) as usize
    }

    /// Enters the keys of a leaf of a tree with `keys` keys, if they are close together.
    #[inline]
    pub(super) fn enter(&mut self, leaf: &Leaf, keys: usize) {
        if leaf.is_dense() {
            self.enter_all(leaf, keys);
        }
    }

    #[inline(never)]
    fn enter_all(&mut self, leaf: &Leaf, keys: usize) {
        let entries = leaf.keys.iter().zip(&leaf.values).take(leaf.len());
        for (&key, &value) in entries {
            let key = unbias(key);
            let page = match self.page(key) {
                Some(page) if page != EMPTY => page,
                _ => match self.make_page(key, keys) {
                    Some(page) => page,
                    None => return,
                },
            };
            let known = &mut self.pages.get_mut(page).values[place(key)];
            self.counts[page as usize] += u16::from(*known == 0);
            *known = value + 1;
        }
    }

    /// What is known of `key` is true no longer.
    #[inline]
    pub(super) fn forget(&mut self, key: u64) {
        if let Some(page) = self.page(key)
            && page != EMPTY
        {
            let known = &mut self.pages.get_mut(page).values[place(key)];
            self.counts[page as usize] -= u16::from(*known != 0);
            *known = 0;
            if self.counts[page as usize] == 0 {
                self.pages.free(page);
                let at = self.group_at(key);
                self.top[at] = EMPTY;
            }
        }
    }

    /// A page for the group of `key`, unless there are enough, or the group is too far from the others.
    #[inline(never)]
    fn make_page(&mut self, key: u64, keys: usize) -> Option<u32> {
        // First: `top` names page 0 only once that is there.
        if self.counts.is_empty() {
            self.allocate()?;
        }
        if self.pages.len() > PAGES_MIN + keys / (PLACES / 2)
            || !self.reach(key >> GROUP_BITS, GROUPS_MIN + keys / 16)
        {
            return None;
        }
        let page = self.allocate()?;
        let at = self.group_at(key);
        self.top[at] = page;
        Some(page)
    }

    /// An empty page.
    fn allocate(&mut self) -> Option<u32> {
        make_room(&mut self.counts, 1).ok()?;
        let page = self.pages.allocate().ok()?;
        self.pages.get_mut(page).values.fill(0);
        self.counts.resize(self.counts.len().max(page as usize + 1), 0);
        Some(page)
    }

    /// Makes `top` reach to `group`, if it is no longer than `groups_max` then.
    fn reach(&mut self, group: u64, groups_max: usize) -> bool {
        // Keys that go at the front while others come at the back leave groups without pages behind.
        let gone = self.top.iter().take_while(|&&page| page == EMPTY).count();
        self.top.drain(..gone);
        self.first = if self.top.is_empty() { group } else { self.first + gone as u64 };
        let below = self.first.saturating_sub(group);
        let above = group.saturating_sub(self.first).saturating_add(1);
        let len = (self.top.len() as u64).max(above).saturating_add(below);
        let more = len as usize - self.top.len();
        if len > groups_max as u64 || make_room(&mut self.top, more).is_err() {
            return false;
        }
        self.top.resize(above.max(self.top.len() as u64) as usize, EMPTY);
        self.top.splice(..0, std::iter::repeat_n(EMPTY, below as usize));
        self.first -= below;
        true
    }

    pub(super) fn committed_bytes(&self) -> usize {
        self.pages.committed_bytes() + self.top.capacity() * 4 + self.counts.capacity() * 2
    }

    /// Verifies the directory, and by `value_of` that what it knows is true.
    pub(super) fn check(&self, value_of: impl Fn(u64) -> Option<u32>) -> Result<(), String> {
        let mut pages = usize::from(!self.counts.is_empty());
        for (group, &page) in self.top.iter().enumerate().filter(|(_, page)| **page != EMPTY) {
            if !self.pages.is_live(page) {
                return Err(format!("page {page} of the directory is not live"));
            }
            pages += 1;
            let first = (self.first + group as u64) << GROUP_BITS;
            let values = &self.pages.get(page).values;
            let known = values.iter().enumerate().filter(|(_, known)| **known != 0);
            if known.clone().count() != usize::from(self.counts[page as usize]) {
                return Err(format!("page {page} of the directory counts its keys wrong"));
            }
            for (at, &known) in known {
                let key = first + at as u64;
                if value_of(key) != Some(known - 1) {
                    return Err(format!("the directory knows a wrong value of key {key}"));
                }
            }
        }
        if pages != self.pages.len() {
            return Err(format!(
                "{} pages of the directory are live, {pages} used",
                self.pages.len()
            ));
        }
        self.pages.check()
    }
}

/// Makes room for `more`, and for so many beyond that transactions hardly ever wait for memory.
fn make_room<T>(into: &mut Vec<T>, more: usize) -> Result<(), TryReserveError> {
    match into.capacity() - into.len() < more {
        true => into.try_reserve(more.max(ROOM)),
        false => Ok(()),
    }
}

#[inline(always)]
fn place(key: u64) -> usize {
    key as usize % PLACES
}
