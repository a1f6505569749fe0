//! `ByPage`: something for each of many pages, found without a search, because a restart asks for each record.
//!
//! Pages that follow each other in the file share a block. Not here: what is kept (`analysis.rs`, `redo.rs`).

use crate::paged::page::PageId;

/// Pages of a block: 8 MB of the file, where pages have 8 KB.
const BLOCK_PAGES: usize = 1024;

/// See the file's head.
#[derive(Debug)]
pub(super) struct ByPage<T> {
    blocks: Vec<Option<Box<[Option<T>]>>>,
}

impl<T> Default for ByPage<T> {
    fn default() -> Self {
        Self { blocks: Vec::new() }
    }
}

const fn place(page: PageId) -> (usize, usize) {
    (page.0 as usize / BLOCK_PAGES, page.0 as usize % BLOCK_PAGES)
}

impl<T> ByPage<T> {
    /// What a page has.
    pub(super) fn get(&self, page: PageId) -> Option<&T> {
        let (block, at) = place(page);
        self.blocks.get(block)?.as_ref()?[at].as_ref()
    }

    /// Where what a page has is kept.
    pub(super) fn slot(&mut self, page: PageId) -> &mut Option<T> {
        let (block, at) = place(page);
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, || None);
        }
        let none = || (0..BLOCK_PAGES).map(|_| None).collect();
        &mut self.blocks[block].get_or_insert_with(none)[at]
    }

    /// All pages that have something, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PageId, &T)> {
        let blocks = self.blocks.iter().enumerate();
        let blocks = blocks.filter_map(|(block, slots)| Some((block, slots.as_ref()?)));
        blocks.flat_map(|(block, slots)| {
            let page = move |at| PageId((block * BLOCK_PAGES + at) as u32);
            let slots = slots.iter().enumerate();
            slots.filter_map(move |(at, slot)| Some((page(at), slot.as_ref()?)))
        })
    }

    /// Forgets what does not stay.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(PageId, &mut T) -> bool) {
        for (block, slots) in self.blocks.iter_mut().enumerate() {
            for (at, slot) in slots.iter_mut().flatten().enumerate() {
                let page = PageId((block * BLOCK_PAGES + at) as u32);
                slot.take_if(|kept| !stays(page, kept));
            }
        }
    }
}
