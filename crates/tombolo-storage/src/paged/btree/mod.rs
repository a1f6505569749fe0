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
//! An insertion that comes right behind one of the caller's last ones finds its leaf without a descent, if that has not
//! been divided or united since ([`LastInsertions`]); several of them are one change of the leaf (`run.rs`). A look-up
//! goes by its session's copies of inner nodes ([`Routes`]).
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
mod redo;
mod route;
mod run;
mod search;
mod shrink;
mod split;
mod write;

#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::marker::PhantomData;

pub use super::structure::Structure;
pub use check::TreeUsage;
pub use gaps::{GapEnd, Gaps};
pub use keys::{IntegerKeys, KeyFormat, KeyShape, Position, TypedColumns};
pub use read::LeafHint;
pub(super) use redo::EntryRedo;
pub use route::Routes;
pub use run::{LastInsertions, RunEntry};
pub use write::{Inserted, Meet, Newcomer};

use self::change::NodeMut;
use self::keys::StoredKeys;
use self::node::Node;
use self::route::VERSIONS;
use super::page::{Page, PageBuffer, PageId, PageKind, PageMut, StoreId};
use super::pool::{
    ExclusivePage, PageAccess, PageError, PageFailure, ReadPage, Result, SpaceStep, set_free,
};
use super::step::Step;
use super::structure::set_stamp;
use crate::latch::{GuardedU64, Latch};
use crate::sync::AtomicU64;

/// An index on pages.
pub struct BTree<P: PageAccess, K: KeyFormat> {
    root: PageId,
    store: StoreId,
    shape: KeyShape,
    keys: StoredKeys<K>,
    /// Held by the thread that divides or unites nodes: inner nodes and the leaves' links stay as
    /// they are meanwhile. Taken before any page.
    steps: Latch<(), P::Latching>,
    /// How many steps changed its nodes since it was opened.
    changes: AtomicU64,
    /// How many steps changed each of its nodes, by page; some share a number.
    versions: Box<[GuardedU64]>,
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
        let mut step = SpaceStep::new(access);
        let (tree, root) = Self::make(&mut step, store, shape)?;
        let mut root = Draft::<P>::made(root);
        match tree.publish(structure, &mut step, &mut [&mut root], &mut []) {
            Ok(()) => Ok(tree),
            Err(error) => {
                step.put_back(root.held);
                Err(error)
            }
        }
    }

    /// An empty index that a step makes, and its root's page, to be logged by the caller.
    ///
    /// # Errors
    /// As [`PageAccess::new_page`].
    pub(super) fn make<'a>(
        step: &mut SpaceStep<'a, P>,
        store: StoreId,
        shape: KeyShape,
    ) -> Result<(Self, P::Exclusive<'a>)> {
        let mut root = step.take(store, PageKind::Leaf)?;
        let tree = Self::with(store, root.page().id(), shape);
        tree.change(&mut root, |node| node.clear(0));
        Ok((tree, root))
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
        let versions = (0..VERSIONS).map(|_| GuardedU64::new(0)).collect();
        let (changes, marker) = (AtomicU64::new(0), PhantomData);
        Self { root, store, shape, keys, steps, changes, versions, marker }
    }

    /// The counter of a node's changes.
    #[inline(always)]
    fn version(&self, page: PageId) -> &GuardedU64 {
        &self.versions[page.0 as usize % VERSIONS]
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

impl<P: PageAccess, K: KeyFormat> BTree<P, K> {
    /// Reports to `structure` a step that changes `pages` and gives `gone` back; then does it. If that fails,
    /// pages that the step took are to be put back.
    fn publish(
        &self,
        structure: &impl Structure,
        step: &mut SpaceStep<'_, P>,
        pages: &mut [&mut Draft<'_, P>],
        gone: &mut [&mut P::Exclusive<'_>],
    ) -> Result<()> {
        gone.iter().for_each(|page| step.give(page));
        let (changed, images): (Vec<_>, Vec<_>) =
            pages.iter().partition(|page| page.image.is_some());
        let images: Vec<_> = images.iter().map(|page| page.page()).collect();
        let changed: Vec<_> = changed.iter().map(|page| [page.held.page(), page.page()]).collect();
        let (freed, space) = (step.freed(), step.image());
        let changes = Step { freed, space, changed: &changed, ..Step::of(&images) };
        let stamp = structure.changes(&changes).map_err(PageFailure::Log)?;
        for page in &mut *pages {
            if let Some(image) = &page.image {
                page.held.page_mut().copy_from(image.page());
            }
            set_stamp(&mut page.held, stamp);
        }
        for (page, freed) in gone.iter_mut().zip(step.freed()) {
            set_free(*page, freed.next, stamp);
        }
        step.finish(stamp);
        let changed = pages.iter().map(|page| page.held.page().id());
        self.count_step(changed.chain(gone.iter().map(|page| page.page().id())));
        Ok(())
    }
}
