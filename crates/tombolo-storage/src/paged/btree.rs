//! B+trees on pages: where a table's indexes lie (LG-15, LG-19, S1).
//!
//! [`BTree`] works behind any [`PageAccess`]; how keys are stored and compared is its [`KeyFormat`]
//! (`keys.rs`). Leaves hold keys and row ids, linked both ways; inner nodes lead to them
//! (`node.rs`). Entries are ordered by key and row, in unique indexes too, so that a deleted entry
//! and its successor stand side by side. The root's page never changes.
//!
//! Latches (LG-21) are taken from parents to children and from left to right. A reader holds a
//! node until it has the next; a writer does the same and takes the leaf alone (`read.rs`,
//! `write.rs`). Nodes are divided and united (`split.rs`, `shrink.rs`) one step at a time, by one
//! thread at a time, which takes the pages of a step alone: each step leaves a whole tree, is
//! reported to [`Structure`], and changes nothing if it fails. A latch taken from right to left is
//! only tried.
//!
//! Instructions of one call on a tree of 300,000 entries, three levels of 8 KB pages, making the
//! key not counted (`examples/btree_probe.rs`):
//!
//! | | find | insert |
//! |---|---|---|
//! | integer keys, direct frames without latches | 395 | 900 |
//! | integer keys, latched buffer pool | 670 | 1,145 |
//! | typed keys of three columns, direct frames without latches | 1,290 | 1,710 |
//! | typed keys of three columns, latched buffer pool | 1,550 | 1,935 |
//!
//! A look-up waits for memory, not for instructions: a leaf's search asks for the entries that its
//! first steps choose from (some 40 instructions), and a caller that looks several keys up finds the
//! leaves of all and asks for them (`leaf_of`) before any is searched (`find_in`).
//!
//! Not here: locks, transactions, log records, which index belongs to which table.

mod check;
mod keys;
mod node;
mod read;
mod shrink;
mod split;
mod write;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::marker::PhantomData;

pub use check::TreeUsage;
pub use keys::{IntegerKeys, KeyFormat, KeyShape, Position, TypedColumns};
pub use write::{Inserted, Meet};

use self::node::{Node, NodeMut};
use super::heap::Stamp;
use super::page::{Page, PageId, PageKind, PageSize, StoreId};
use super::pool::{ExclusivePage, PageAccess, PageError, PageFailure, ReadPage, Result};
use crate::error::Error;
use crate::latch::Latch;

/// Receives the structure modifications of trees, to log them.
pub trait Structure {
    /// Pages that one step changed, all still held alone; they are redone all or none. `freed` are
    /// pages the step gave back. The number returned is stamped on all of them.
    ///
    /// # Errors
    /// When they cannot be logged. The step stays done: the tree is whole with it as without.
    fn changed<S: PageSize>(&self, pages: &[Page<'_, S>], freed: &[PageId])
    -> Result<Stamp, Error>;
}

/// For stores that log no pages.
impl Structure for () {
    fn changed<S: PageSize>(&self, _: &[Page<'_, S>], _: &[PageId]) -> Result<Stamp, Error> {
        Ok(None)
    }
}

/// An index on pages.
pub struct BTree<P: PageAccess, K: KeyFormat> {
    root: PageId,
    store: StoreId,
    shape: KeyShape,
    order: K::Order,
    packed: bool,
    /// Held by the thread that divides or unites nodes: inner nodes and the leaves' links stay as
    /// they are meanwhile. Taken before any page.
    steps: Latch<(), P::Latching>,
    marker: PhantomData<fn() -> P>,
}

impl<P: PageAccess, K: KeyFormat> BTree<P, K> {
    /// An empty index.
    ///
    /// # Errors
    /// As [`PageAccess::new_page`], or what `structure` fails with.
    pub fn create(
        access: &P,
        store: StoreId,
        shape: KeyShape,
        structure: &impl Structure,
    ) -> Result<Self> {
        let mut root = access.new_page(store, PageKind::Leaf)?;
        let tree = Self::with(store, root.page().id(), shape);
        tree.change(&mut root, |node| node.clear(0));
        match publish(structure, &mut [&mut root], &mut []) {
            Ok(()) => Ok(tree),
            Err(error) => {
                access.free_page(root);
                Err(error)
            }
        }
    }

    /// The index of `store` whose root is `root`.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`], or when there is no such index.
    pub fn open(access: &P, store: StoreId, root: PageId, shape: KeyShape) -> Result<Self> {
        let tree = Self::with(store, root, shape);
        let page = access.fix_shared(root)?;
        let is_node = matches!(page.page().kind(), PageKind::Leaf | PageKind::Inner);
        if !is_node || page.page().store() != store {
            return Err(PageError::damaged_page::<P::Size>(root, "it is no root of the index"));
        }
        match tree.node(page.page()).verify() {
            Ok(()) => Ok(tree),
            Err(what) => Err(PageError::damaged_page::<P::Size>(root, &what)),
        }
    }

    fn with(store: StoreId, root: PageId, shape: KeyShape) -> Self {
        let packed = K::is_packed(shape.parts());
        let (order, steps) = (K::order(shape.parts()), Latch::default());
        Self { root, store, shape, order, packed, steps, marker: PhantomData }
    }

    /// Where the index begins, for good.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// The index's number.
    pub fn store(&self) -> StoreId {
        self.store
    }

    /// Its keys.
    pub fn shape(&self) -> &KeyShape {
        &self.shape
    }

    #[inline(always)]
    fn node<'a>(&self, page: Page<'a, P::Size>) -> Node<'a> {
        Node::new(page.body(), self.packed)
    }

    /// Changes a node that is held alone.
    #[inline(always)]
    fn change<T>(
        &self,
        page: &mut P::Exclusive<'_>,
        change: impl FnOnce(&mut NodeMut<'_>) -> T,
    ) -> T {
        let mut page = page.page_mut();
        change(&mut NodeMut::new(page.body_mut(), self.packed))
    }
}

/// Reports to `structure` a step that changed `pages` and will give `gone` back; stamps them all.
fn publish<X: ExclusivePage>(
    structure: &impl Structure,
    pages: &mut [&mut X],
    gone: &mut [&mut X],
) -> Result<()> {
    let views: Vec<_> = pages.iter().map(|page| page.page()).collect();
    let freed: Vec<_> = gone.iter().map(|page| page.page().id()).collect();
    let stamp = structure.changed(&views, &freed).map_err(PageFailure::Log)?;
    if let Some(lsn) = stamp {
        pages.iter_mut().for_each(|page| page.page_mut().set_lsn(lsn));
        gone.iter_mut().for_each(|page| page.page_mut().set_lsn(lsn));
    }
    Ok(())
}
