//! A session's copies of inner nodes: their separators and children. With them a descent writes no cache line that
//! other sessions read, and searches one array of integers.
//!
//! A node is copied after [`VISITS`] visits without a change: mostly roots of indexes that are read, and the nodes
//! below them. A session has at most [`COPIES`] copies, with some 12 bytes for each child.
//!
//! Why a copy leads to the right leaf. Each step of a tree increments the versions of the nodes that it changes, and
//! then the tree's number of steps, while it holds all these nodes exclusively (`count_step`). A descent reads that
//! number, follows copies whose versions are current, latches the leaf and reads the number again. If it is the
//! same, all steps that the leaf's latch makes visible came before the first reading, and so before the copies were
//! found current; and a step that moves keys into a leaf or out of it holds the leaf (`loom_tests.rs`). Otherwise the
//! session descends from the root with latches.
//!
//! Not here: nodes in pages (`node.rs`), the way down by latches (`read.rs`).

use super::BTree;
use super::keys::{KeyFormat, Probe};
use super::node::Node;
use super::search::{count_near, count_near_end};
use crate::paged::page::{PageId, PageKind, StoreId};
use crate::paged::pool::{PageAccess, ReadPage};
use crate::sync::Ordering;

/// Most nodes of which a session has copies.
const COPIES: usize = 64;

/// How often a node is visited without a change before it is copied. Copying takes as long as some fifty visits save.
const VISITS: u32 = if cfg!(test) { 2 } else { 64 };

/// Numbers that the nodes of a tree share as versions: those that share one are copied anew needlessly.
pub(super) const VERSIONS: usize = 64;

/// Of no node.
const NO_VERSION: u64 = u64::MAX;

/// What a session has of one inner node.
#[derive(Debug)]
struct NodeCopy {
    store: StoreId,
    page: PageId,
    /// The node's version when it was visited first, or copied.
    version: u64,
    visits: u32,
    /// Whether another node wanted the place since this one was used.
    is_wanted: bool,
    /// Heads are counted from here, in units of 2^`unit`.
    base: u128,
    unit: u8,
    /// Whether equal keys are divided here, by their rows.
    has_rows: bool,
    /// How far it is to the leaves.
    level: u8,
    /// What each separator but the first begins with, as a head.
    heads: Vec<u64>,
    /// How many heads there are for each unit, times 2^64.
    density: u64,
    /// The children; none if there is no copy.
    children: Vec<PageId>,
}

/// Copies of inner nodes.
#[derive(Debug)]
pub struct Routes(Vec<NodeCopy>);

impl Default for Routes {
    fn default() -> Self {
        let none = || NodeCopy {
            store: StoreId(0),
            page: PageId(0),
            version: NO_VERSION,
            visits: 0,
            is_wanted: false,
            base: 0,
            unit: 0,
            has_rows: false,
            level: 0,
            heads: Vec::new(),
            density: 0,
            children: Vec::new(),
        };
        Self((0..COPIES).map(|_| none()).collect())
    }
}

/// A leaf that copies lead to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Routed {
    pub(super) leaf: PageId,
    /// How many steps had changed the tree.
    changes: u64,
}

impl Routes {
    #[inline(always)]
    fn place(page: PageId) -> usize {
        page.0.wrapping_mul(0x9E37_79B9) as usize >> (u32::BITS - COPIES.trailing_zeros())
    }

    /// Notes a visit of an inner node that is latched; copies it if it is worth that.
    #[inline(never)]
    fn visit<K: KeyFormat>(
        &mut self,
        (store, page, version): (StoreId, PageId, u64),
        node: Node<'_, K>,
    ) {
        let copy = &mut self.0[Self::place(page)];
        let is_same = (copy.store, copy.page) == (store, page);
        if is_same && copy.version == version {
            copy.visits += 1;
        } else if !is_same && !copy.children.is_empty() && !copy.is_wanted {
            copy.is_wanted = true;
            return;
        } else {
            (copy.store, copy.page, copy.version) = (store, page, version);
            copy.visits = 1;
            copy.children.clear();
        }
        if copy.visits >= VISITS && copy.children.is_empty() {
            copy.fill(node);
        }
    }
}

impl NodeCopy {
    fn fill<K: KeyFormat>(&mut self, node: Node<'_, K>) {
        let separators = node.first_head()..node.count();
        let [low, high] = match node.is_packed() {
            true => [0, u64::MAX.into()],
            false => node.ends().unwrap_or_default(),
        };
        let bits = u128::BITS - (high - low).leading_zeros();
        (self.base, self.unit) = (low, bits.saturating_sub(u64::BITS) as u8);
        self.has_rows = separators.clone().any(|at| node.row(at) != 0);
        self.level = node.level();
        self.heads.clear();
        let head = |at| ((node.leading(at) - low) >> self.unit) as u64;
        self.heads.extend(separators.map(head));
        let span = self.heads.last().map_or(0, |last| u128::from(*last)) + 1;
        let count = self.heads.len().saturating_sub(1) as u128;
        self.density = u64::try_from((count << u64::BITS) / span).unwrap_or(u64::MAX);
        self.children.extend((0..node.count()).map(|at| node.child(at)));
        self.is_wanted = false;
    }

    /// The first separator whose head is not below `head`, looked for from where it would be if they were equally far
    /// apart.
    #[inline(always)]
    fn first_from(&self, head: u64) -> usize {
        let expected = (u128::from(head) * u128::from(self.density)) >> u64::BITS;
        let expected = self.heads.len().min(expected as usize);
        let (below, above) = self.heads.split_at(expected);
        match above.first() {
            Some(first) if *first < head => {
                expected + 1 + count_near(&above[1..], |separator| *separator < head)
            }
            _ => expected - count_near_end(below, |separator| *separator < head),
        }
    }

    /// The child that holds what is at the probe; `None` if only keys decide.
    #[inline(always)]
    fn child(&mut self, probe: &Probe<'_>) -> Option<PageId> {
        self.is_wanted = false;
        let Some(distance) = probe.leading.checked_sub(self.base) else {
            return self.children.first().copied();
        };
        let Ok(head) = u64::try_from(distance >> (self.unit & 127)) else {
            return self.children.last().copied();
        };
        let behind = self.first_from(head);
        let is_equal = self.heads.get(behind) == Some(&head);
        // A separator without a row lies before the entries of its key.
        let is_decided = self.unit < probe.decided_below && !self.has_rows && probe.inner_row > 0;
        match (is_equal, is_decided) {
            (false, _) => self.children.get(behind).copied(),
            (true, true) => self.children.get(behind + 1).copied(),
            (true, false) => None,
        }
    }
}

impl<P: PageAccess, K: KeyFormat> BTree<P, K> {
    /// Counts a step that changes these pages, all of which it holds alone; there is one at a time.
    pub(super) fn count_step(&self, pages: impl Iterator<Item = PageId>) {
        for page in pages {
            let version = self.version(page);
            version.set(version.get() + 1);
        }
        // Release: partner of the Acquire in `changes_seen`.
        self.changes.store(self.changes.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// How many steps changed the tree, for [`BTree::is_unchanged`].
    #[inline(always)]
    pub(super) fn changes_seen(&self) -> u64 {
        // Acquire: partner of the Release in `count_step`: a step that is counted here has counted up its versions.
        self.changes.load(Ordering::Acquire)
    }

    /// Whether no step is known that was not counted then. Asked under the latch of a leaf, which makes those known
    /// that changed it.
    #[inline(always)]
    pub(super) fn is_unchanged(&self, changes: u64) -> bool {
        // Relaxed: the partner is the latch's.
        self.changes.load(Ordering::Relaxed) == changes
    }

    /// The leaf that copies of inner nodes lead to.
    #[inline(always)]
    pub(super) fn route(&self, routes: &mut Routes, probe: &Probe<'_>) -> Option<Routed> {
        let changes = self.changes_seen();
        let mut id = self.root;
        loop {
            let copy = &mut routes.0[Routes::place(id)];
            let is_current = copy.page == id
                && copy.store == self.store
                && copy.version == self.version(id).get()
                && !copy.children.is_empty();
            if !is_current {
                return None;
            }
            id = copy.child(probe)?;
            if copy.level == 1 {
                return Some(Routed { leaf: id, changes });
            }
        }
    }

    /// Whether a page that is held is still the leaf that a route led to.
    #[inline(always)]
    pub(super) fn is_at_end(&self, page: &impl ReadPage<Size = P::Size>, routed: &Routed) -> bool {
        self.is_unchanged(routed.changes)
            && page.page().kind() == PageKind::Leaf
            && page.page().store() == self.store
    }

    /// Notes a visit of an inner node that is latched.
    #[inline(always)]
    pub(super) fn note_visit(&self, routes: &mut Routes, page: &impl ReadPage<Size = P::Size>) {
        let id = page.page().id();
        // Under the latch of the node, which the step had that counted it up.
        let version = self.version(id).get();
        routes.visit((self.store, id, version), self.node(page.page()));
    }
}
