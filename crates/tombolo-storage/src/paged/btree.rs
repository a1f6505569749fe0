//! B+trees on pages: where a table's indexes lie (LG-15, LG-19, S1).
//!
//! [`BTree`] works behind any [`PageAccess`]; how keys are stored and compared is its [`KeyFormat`]
//! (`keys.rs`). Leaves hold keys and row ids, linked both ways; inner nodes lead to them
//! (`node.rs`, `change.rs`). Entries are ordered by key and row, in unique indexes too, so that a deleted entry
//! and its successor stand side by side. The root's page never changes.
//!
//! Latches (LG-21) are taken from parents to children and from left to right. A reader holds a
//! node until it has the next; a writer does the same and takes the leaf alone (`read.rs`,
//! `write.rs`). Nodes are divided and united (`split.rs`, `shrink.rs`) one step at a time, by one
//! thread at a time, which takes the pages of a step alone: each step leaves a whole tree, is
//! reported to [`Structure`] before it changes any page, and changes nothing if it fails. A latch
//! taken from right to left is only tried.
//!
//! Instructions of one call on a tree of 300,000 entries, three levels of 8 KB pages, making the
//! key not counted (`examples/btree_probe.rs`, release build of c02e672):
//!
//! | | find | insert |
//! |---|---|---|
//! | integer keys, direct frames without latches | 409 | 932 |
//! | integer keys, latched buffer pool | 622 | 1,097 |
//! | typed keys of three columns, direct frames without latches | 1,506 | 1,961 |
//! | typed keys of three columns, latched buffer pool | 1,712 | 2,142 |
//!
//! A look-up waits for memory, not for instructions: a leaf's search asks for the entries that its
//! first steps choose from (some 40 instructions), and a caller that looks several keys up finds the
//! leaves of all and asks for them (`leaf_of`) before any is searched (`find_in`).
//!
//! Gaps between entries are what a session locks against insertions (`gaps.rs`): a tree says which gap a search
//! ended in, which one an insertion divides, and which one grows when an entry goes.
//!
//! Not here: locks, transactions, log records, which index belongs to which table.

mod change;
mod check;
mod gaps;
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
pub use gaps::Gaps;
pub use keys::{IntegerKeys, KeyFormat, KeyShape, Position, TypedColumns};
pub use read::LeafHint;
pub use write::{Inserted, Meet, Newcomer};

use self::change::NodeMut;
use self::keys::StoredKeys;
use self::node::Node;
use super::heap::Stamp;
use super::page::{Page, PageBuffer, PageId, PageKind, PageMut, PageSize, StoreId};
use super::pool::{ExclusivePage, PageAccess, PageError, PageFailure, ReadPage, Result};
use crate::error::Error;
use crate::latch::Latch;

/// Receives the structure modifications of trees, to log them.
pub trait Structure {
    /// Whether steps may fail to be logged: what pages become is prepared beside them then.
    const LOGS: bool;

    /// What pages will be after one step, all held alone; they are redone all or none. `freed` are
    /// pages the step gives back. The number returned is stamped on all of them.
    ///
    /// # Errors
    /// When they cannot be logged. The step is not done then.
    fn changes<S: PageSize>(&self, pages: &[Page<'_, S>], freed: &[PageId])
    -> Result<Stamp, Error>;

    /// A step that would have saved space failed; the tree is whole without it.
    fn is_left(&self, _: &PageError) {}
}

/// For stores that log no pages.
impl Structure for () {
    const LOGS: bool = false;

    fn changes<S: PageSize>(&self, _: &[Page<'_, S>], _: &[PageId]) -> Result<Stamp, Error> {
        Ok(None)
    }
}

/// An index on pages.
pub struct BTree<P: PageAccess, K: KeyFormat> {
    root: PageId,
    store: StoreId,
    shape: KeyShape,
    keys: StoredKeys<K>,
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
        let mut root = Draft::<P>::made(access.new_page(store, PageKind::Leaf)?);
        let tree = Self::with(store, root.page().id(), shape);
        tree.change(&mut root, |node| node.clear(0));
        match publish(structure, &mut [&mut root], &mut []) {
            Ok(()) => Ok(tree),
            Err(error) => {
                access.free_page(root.held);
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
        let (keys, steps) = (StoredKeys::of(shape.parts()), Latch::default());
        Self { root, store, shape, keys, steps, marker: PhantomData }
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
    fn node<'a>(&'a self, page: Page<'a, P::Size>) -> Node<'a, K> {
        Node::new(page.body(), &self.keys)
    }

    /// Changes a node that is held alone.
    #[inline(always)]
    fn change<T>(
        &self,
        page: &mut impl ExclusivePage<Size = P::Size>,
        change: impl FnOnce(&mut NodeMut<'_, K>) -> T,
    ) -> T {
        let mut page = page.page_mut();
        change(&mut NodeMut::new(page.body_mut(), &self.keys))
    }
}

/// A page of a step, held alone, and what it will be once the step is logged: another image, or its
/// own where the page is new or steps are not logged.
struct Draft<'a, P: PageAccess + 'a> {
    held: P::Exclusive<'a>,
    image: Option<PageBuffer<P::Size>>,
}

impl<'a, P: PageAccess> Draft<'a, P> {
    /// Of a page that others know.
    fn of<X: Structure>(held: P::Exclusive<'a>, _: &X) -> Self {
        let image = X::LOGS.then(|| PageBuffer::copy_of(held.page()));
        Self { held, image }
    }

    /// Of a page that is new.
    fn made(held: P::Exclusive<'a>) -> Self {
        Self { held, image: None }
    }
}

impl<P: PageAccess> ReadPage for Draft<'_, P> {
    type Size = P::Size;

    fn page(&self) -> Page<'_, P::Size> {
        self.image.as_ref().map_or_else(|| self.held.page(), PageBuffer::page)
    }
}

impl<P: PageAccess> ExclusivePage for Draft<'_, P> {
    fn page_mut(&mut self) -> PageMut<'_, P::Size> {
        match &mut self.image {
            Some(image) => image.page_mut(),
            None => self.held.page_mut(),
        }
    }

    fn is_alone(&self) -> bool {
        self.held.is_alone()
    }
}

/// Reports to `structure` a step that changes `pages` and will give `gone` back; then changes and
/// stamps them all.
fn publish<P: PageAccess>(
    structure: &impl Structure,
    pages: &mut [&mut Draft<'_, P>],
    gone: &mut [&mut P::Exclusive<'_>],
) -> Result<()> {
    let views: Vec<_> = pages.iter().map(|page| page.page()).collect();
    let freed: Vec<_> = gone.iter().map(|page| page.page().id()).collect();
    let stamp = structure.changes(&views, &freed).map_err(PageFailure::Log)?;
    for page in pages {
        if let Some(image) = &page.image {
            page.held.page_mut().copy_from(image.page());
        }
        set_stamp(&mut page.held, stamp);
    }
    gone.iter_mut().for_each(|page| set_stamp(*page, stamp));
    Ok(())
}

/// Stamps a page with the number of its last change, where such numbers are kept.
#[inline(always)]
fn set_stamp(page: &mut impl ExclusivePage, stamp: Stamp) {
    if let Some(lsn) = stamp {
        page.page_mut().set_lsn(lsn);
    }
}
