//! Going down a tree, looking up keys, scanning in both directions.
//!
//! Going down and to the right, a reader has the next page before it lets go of the last. To the
//! left it tries; where that fails it lets go, waits for the neighbour with nothing in its hands,
//! and looks for its place again from the root.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::BTree;
use super::keys::{KeyFormat, Position, Probe};
use super::node::{Found, Node};
use crate::paged::page::{PageId, PageKind};
use crate::paged::pool::{PageAccess, PageError, ReadPage, Result};
use crate::row::RowId;
use crate::store::Order;

/// Where a key was a moment ago, for [`BTree::find_in`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LeafHint {
    /// The leaf.
    pub leaf: PageId,
    /// What the key begins with.
    pub(super) leading: u128,
}

/// A leaf held alone, and whether entries of the key that was looked for may be to its right.
pub(super) struct Target<G> {
    pub(super) leaf: G,
    pub(super) continues: bool,
}

impl<P: PageAccess, K: KeyFormat> BTree<P, K> {
    /// The child of an inner node that holds what is at the probe.
    #[inline(always)]
    pub(super) fn child(&self, node: Node<'_, K>, probe: &Probe<'_>) -> PageId {
        node.child(node.child_at(probe))
    }

    /// Whether a child is the node its parent says: guards against endless descents in a damaged
    /// tree.
    #[inline(always)]
    pub(super) fn verify_level(&self, node: Node<'_, K>, id: PageId, level: u8) -> Result<()> {
        if node.level() == level { Ok(()) } else { Err(self.wrong_level(id, level)) }
    }

    #[cold]
    fn wrong_level(&self, id: PageId, level: u8) -> PageError {
        let what = format!("it is no node of level {level} of index {}", self.store.0);
        PageError::damaged_page::<P::Size>(id, &what)
    }

    /// The leaf that holds what is at the probe, held together with other readers.
    #[inline(always)]
    pub(super) fn leaf<'a>(&self, access: &'a P, probe: &Probe<'_>) -> Result<P::Shared<'a>> {
        let mut page = access.fix_shared(self.root)?;
        let mut level = self.node(page.page()).level();
        while level > 0 {
            let id = self.child(self.node(page.page()), probe);
            let next = access.fix_shared(id)?;
            page = next;
            level -= 1;
            self.verify_level(self.node(page.page()), id, level)?;
        }
        Ok(page)
    }

    /// The leaf that holds what is at the probe, held alone; with `run`, whether the entries of the
    /// probe's key may continue in the next one.
    #[inline(always)]
    pub(super) fn leaf_alone<'a>(
        &self,
        access: &'a P,
        probe: &Probe<'_>,
        run: bool,
    ) -> Result<Target<P::Exclusive<'a>>> {
        'restart: loop {
            let mut page = access.fix_shared(self.root)?;
            let mut level = self.node(page.page()).level();
            if level == 0 {
                match self.root_alone(access, page)? {
                    Some(leaf) => return Ok(Target { leaf, continues: false }),
                    None => continue 'restart,
                }
            }
            let mut continues = false;
            loop {
                let node = self.node(page.page());
                let at = node.child_at(probe);
                let id = node.child(at);
                if run && at + 1 < node.count() {
                    // The separator on the right is the nearest so far.
                    let order = node.compare(at + 1, probe);
                    continues = order == Ordering::Equal;
                }
                level -= 1;
                if level == 0 {
                    let leaf = access.fix_exclusive(id)?;
                    self.verify_level(self.node(leaf.page()), id, 0)?;
                    return Ok(Target { leaf, continues });
                }
                let next = access.fix_shared(id)?;
                page = next;
                self.verify_level(self.node(page.page()), id, level)?;
            }
        }
    }

    /// The root held alone, if it still is a leaf then.
    fn root_alone<'a>(
        &self,
        access: &'a P,
        root: P::Shared<'a>,
    ) -> Result<Option<P::Exclusive<'a>>> {
        let root = match access.try_upgrade(root) {
            Ok(root) => root,
            Err(shared) => {
                drop(shared);
                access.fix_exclusive(self.root)?
            }
        };
        let is_leaf = self.node(root.page()).is_leaf();
        Ok(is_leaf.then_some(root))
    }

    /// Visits the entries of a whole key in the order of their rows: the row, and whether it is
    /// marked deleted. The leaf is latched meanwhile: the visitor may try locks, it must not wait
    /// for one, nor reach pages.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    #[inline]
    pub fn find(
        &self,
        access: &P,
        key: &[u8],
        mut visit: impl FnMut(RowId, bool) -> ControlFlow<()>,
    ) -> Result<()> {
        let probe = Probe::first_of(&self.keys, key);
        let page = self.leaf(access, &probe)?;
        let found = self.node(page.page()).search(&probe);
        self.visit_key(access, page, found, &probe, &mut visit)
    }

    /// The leaf that entries of `key` were in a moment ago: for [`BTree::find_in`]. Leaves are not
    /// reached, so several can be asked for before the first one is waited for.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    #[inline]
    pub fn leaf_of(&self, access: &P, key: &[u8]) -> Result<LeafHint> {
        let probe = Probe::first_of(&self.keys, key);
        let mut page = access.fix_shared(self.root)?;
        let mut id = self.root;
        let mut level = self.node(page.page()).level();
        while level > 0 {
            id = self.child(self.node(page.page()), &probe);
            level -= 1;
            if level > 0 {
                let next = access.fix_shared(id)?;
                page = next;
                self.verify_level(self.node(page.page()), id, level)?;
            }
        }
        Ok(LeafHint { leaf: id, leading: probe.leading })
    }

    /// The same as [`BTree::find`], if the leaf of `hint` still is the leaf of `key` without a descent.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    #[inline]
    pub fn find_in(
        &self,
        access: &P,
        hint: LeafHint,
        key: &[u8],
        mut visit: impl FnMut(RowId, bool) -> ControlFlow<()>,
    ) -> Result<()> {
        let probe = Probe::first_with(hint.leading, key);
        if let Some(page) = access.fix_resident(hint.leaf)
            && page.page().kind() == PageKind::Leaf
            && page.page().store() == self.store
        {
            let node = self.node(page.page());
            let found = node.search(&probe);
            // Leaves divide the keys: what lies between two entries of one is nowhere else.
            if found.at > 0 && found.at < node.count() {
                return self.visit_key(access, page, found, &probe, &mut visit);
            }
        }
        self.find(access, key, visit)
    }

    /// Visits the entries of the probe's key from the one on that was found in a leaf.
    #[inline(always)]
    fn visit_key<'a>(
        &self,
        access: &'a P,
        mut page: P::Shared<'a>,
        found: Found,
        probe: &Probe<'_>,
        visit: &mut impl FnMut(RowId, bool) -> ControlFlow<()>,
    ) -> Result<()> {
        let (mut at, mut is_equal) = (found.at, Some(found.is_equal));
        loop {
            let node = self.node(page.page());
            let count = node.count();
            while at < count {
                let compare = || node.compare(at, probe) == Ordering::Equal;
                if !is_equal.take().unwrap_or_else(compare)
                    || visit(RowId::new(node.row(at)), node.is_deleted(at)).is_break()
                {
                    return Ok(());
                }
                at += 1;
            }
            // The key's entries may continue in the next leaf.
            let Some(next) = page.page().next() else { return Ok(()) };
            page = self.next_leaf(access, page, next)?;
            (at, is_equal) = (0, None);
        }
    }

    /// The leaf to the right.
    #[cold]
    fn next_leaf<'a>(
        &self,
        access: &'a P,
        page: P::Shared<'a>,
        next: PageId,
    ) -> Result<P::Shared<'a>> {
        let right = access.fix_shared(next)?;
        drop(page);
        self.verify_level(self.node(right.page()), next, 0)?;
        Ok(right)
    }

    /// Visits the entries between two positions: key, row, and whether it is marked deleted. The
    /// leaf is latched meanwhile: the visitor may try locks, it must not wait for one, nor reach
    /// pages; it breaks off, and the scan continues [`Position::At`] that entry later.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    pub fn scan(
        &self,
        access: &P,
        lower: Position<'_>,
        upper: Position<'_>,
        order: Order,
        visit: impl FnMut(&[u8], RowId, bool) -> ControlFlow<()>,
    ) -> Result<()> {
        let (lower, upper) = (Probe::lower(&self.keys, lower), Probe::upper(&self.keys, upper));
        match order {
            Order::Forward => self.scan_forward(access, &lower, &upper, visit),
            Order::Backward => self.scan_backward(access, &lower, &upper, visit),
        }
    }

    fn scan_forward(
        &self,
        access: &P,
        lower: &Probe<'_>,
        upper: &Probe<'_>,
        mut visit: impl FnMut(&[u8], RowId, bool) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut page = self.leaf(access, lower)?;
        let mut at = self.node(page.page()).search(lower).at;
        loop {
            let node = self.node(page.page());
            let end = self.end_in(node, upper);
            while at < end {
                if visit(node.key(at), RowId::new(node.row(at)), node.is_deleted(at)).is_break() {
                    return Ok(());
                }
                at += 1;
            }
            let next = page.page().next();
            match next {
                Some(next) if end == node.count() => page = self.next_leaf(access, page, next)?,
                _ => return Ok(()),
            }
            at = 0;
        }
    }

    /// How many entries of a leaf lie before the probe.
    #[inline]
    fn end_in(&self, node: Node<'_, K>, upper: &Probe<'_>) -> usize {
        let count = node.count();
        let Some(last) = count.checked_sub(1) else { return 0 };
        match node.compare(last, upper) {
            Ordering::Less => count,
            Ordering::Equal if node.row(last) < upper.row => count,
            _ => node.search(upper).at,
        }
    }

    fn scan_backward(
        &self,
        access: &P,
        lower: &Probe<'_>,
        upper: &Probe<'_>,
        mut visit: impl FnMut(&[u8], RowId, bool) -> ControlFlow<()>,
    ) -> Result<()> {
        // The first entry that was visited, should the place be looked for again.
        let (mut key, mut row) = (Vec::new(), None);
        let mut page = self.leaf(access, upper)?;
        let mut end = self.node(page.page()).search(upper).at;
        loop {
            let node = self.node(page.page());
            let start = node.search(lower).at;
            for at in (start..end).rev() {
                if visit(node.key(at), RowId::new(node.row(at)), node.is_deleted(at)).is_break() {
                    return Ok(());
                }
            }
            if start > 0 {
                return Ok(());
            }
            let Some(previous) = page.page().previous() else { return Ok(()) };
            if let Some(left) = access.try_fix_shared(previous)? {
                self.verify_level(self.node(left.page()), previous, 0)?;
                end = self.node(left.page()).count();
                page = left;
                continue;
            }
            if end > 0 {
                key.clear();
                key.extend_from_slice(node.key(0));
                row = Some(node.row(0));
            }
            drop(page);
            // The thread that holds it may take long; afterwards the place is looked up again from
            // the root.
            drop(access.fix_shared(previous)?);
            let again = row.map(|row| Probe::behind(&self.keys, &key, row));
            let upper = again.as_ref().unwrap_or(upper);
            page = self.leaf(access, upper)?;
            end = self.node(page.page()).search(upper).at;
        }
    }
}
