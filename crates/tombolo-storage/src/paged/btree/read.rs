//! Going down a tree, looking up keys, scanning in both directions.
//!
//! On the way down and to the right, a reader latches the next page before it releases the last one. To the
//! left it only tries to latch; if that fails, it releases its page, waits for the neighbour without holding any latch,
//! and searches for its place again from the root.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::BTree;
use super::gaps::{Beyond, GapEnd, Gaps};
use super::keys::{KeyFormat, Position, Probe};
use super::node::Node;
use super::route::Routes;
use super::search::Found;
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

/// A leaf held alone, and what is known of what lies to its right.
pub(super) struct Target<G> {
    pub(super) leaf: G,
    /// Whether entries of the key that was looked for may be there.
    pub(super) continues: bool,
    /// At most what the keys there begin with.
    pub(super) fence: u128,
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
        self.leaf_visiting(access, probe, |_| ())
    }

    /// The same, which visits the nodes on the way.
    #[inline(always)]
    fn leaf_visiting<'a>(
        &self,
        access: &'a P,
        probe: &Probe<'_>,
        mut visit: impl FnMut(&P::Shared<'a>),
    ) -> Result<P::Shared<'a>> {
        let mut page = access.fix_shared(self.root)?;
        let mut level = self.node(page.page()).level();
        while level > 0 {
            visit(&page);
            let id = self.child(self.node(page.page()), probe);
            let next = access.fix_shared(id)?;
            page = next;
            level -= 1;
            self.verify_level(self.node(page.page()), id, level)?;
        }
        Ok(page)
    }

    /// The leaf that holds what is at the probe, held alone, and with `run` whether the entries of the
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
                    Some(leaf) => {
                        return Ok(Target { leaf, continues: false, fence: u128::MAX });
                    }
                    None => continue 'restart,
                }
            }
            let (mut continues, mut fence) = (false, u128::MAX);
            loop {
                let node = self.node(page.page());
                let at = node.child_at(probe);
                let id = node.child(at);
                if at + 1 < node.count() {
                    // The separator on the right is the nearest so far.
                    fence = node.leading_floor(at + 1);
                    continues = run
                        && probe.leading >= fence
                        && node.compare(at + 1, probe) == Ordering::Equal;
                }
                level -= 1;
                if level == 0 {
                    let leaf = access.fix_exclusive(id)?;
                    self.verify_level(self.node(leaf.page()), id, 0)?;
                    return Ok(Target { leaf, continues, fence });
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
    /// for one, nor reach pages. Unless the visitor breaks off, `gaps` reads the gap behind the last one; an
    /// entry may be visited more than once then. `routes` are the caller's.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    #[inline]
    pub fn find(
        &self,
        access: &P,
        routes: &mut Routes,
        key: &[u8],
        mut visit: impl FnMut(RowId, bool) -> ControlFlow<()>,
        gaps: &impl Gaps,
    ) -> Result<()> {
        let probe = Probe::first_of(&self.keys, key);
        let page = self.leaf_by(access, routes, &probe)?;
        let found = self.node(page.page()).search(&probe);
        self.visit_key(access, page, found, &probe, &mut visit, gaps)
    }

    /// The leaf that entries of `key` were in a moment ago: for [`BTree::find_in`]. Leaves are not
    /// reached, so several can be asked for before the first one is waited for; the root is held for all, in `root`,
    /// if `routes` do not lead there.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    #[inline]
    pub fn leaf_of<'a>(
        &self,
        access: &'a P,
        routes: &mut Routes,
        root: &mut Option<P::Shared<'a>>,
        key: &[u8],
    ) -> Result<LeafHint> {
        let probe = Probe::first_of(&self.keys, key);
        let leaf = match self.route(routes, &probe) {
            Some(routed) => routed.leaf,
            None => self.leaf_below(access, routes, root, key)?,
        };
        Ok(LeafHint { leaf, leading: probe.leading })
    }

    /// The same by latches.
    #[inline(never)]
    fn leaf_below<'a>(
        &self,
        access: &'a P,
        routes: &mut Routes,
        root: &mut Option<P::Shared<'a>>,
        key: &[u8],
    ) -> Result<PageId> {
        // Made again: the caller's would have to be in memory.
        let probe = &Probe::first_of(&self.keys, key);
        let root = match root {
            Some(root) => root,
            None => root.insert(access.fix_shared(self.root)?),
        };
        let (mut id, mut level) = (self.root, self.node(root.page()).level());
        let mut below: Option<P::Shared<'_>> = None;
        while level > 0 {
            let page = below.as_ref().unwrap_or(root);
            self.note_visit(routes, page);
            id = self.child(self.node(page.page()), probe);
            level -= 1;
            if level > 0 {
                let next = access.fix_shared(id)?;
                self.verify_level(self.node(next.page()), id, level)?;
                below = Some(next);
            }
        }
        Ok(id)
    }

    /// The leaf that holds what is at the probe, held together with other readers: by the caller's routes, if they
    /// lead there.
    #[inline(always)]
    fn leaf_by<'a>(
        &self,
        access: &'a P,
        routes: &mut Routes,
        probe: &Probe<'_>,
    ) -> Result<P::Shared<'a>> {
        if let Some(routed) = self.route(routes, probe)
            && let Some(leaf) = access.fix_resident(routed.leaf)
            && self.is_at_end(&leaf, &routed)
        {
            return Ok(leaf);
        }
        self.leaf_noted(access, routes, probe)
    }

    /// The same by latches, which notes the nodes on the way.
    #[inline(never)]
    fn leaf_noted<'a>(
        &self,
        access: &'a P,
        routes: &mut Routes,
        probe: &Probe<'_>,
    ) -> Result<P::Shared<'a>> {
        self.leaf_visiting(access, probe, |page| self.note_visit(routes, page))
    }

    /// The same as [`BTree::find`], if the leaf of `hint` still is the leaf of `key`; `false` if it takes a
    /// descent to know.
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
        gaps: &impl Gaps,
    ) -> Result<bool> {
        let probe = Probe::first_with(&self.keys, hint.leading, key);
        let Some(page) = access.fix_resident(hint.leaf) else { return Ok(false) };
        if page.page().kind() != PageKind::Leaf || page.page().store() != self.store {
            return Ok(false);
        }
        let node = self.node(page.page());
        let found = node.search(&probe);
        // Leaves divide the keys: what lies between two entries of one is nowhere else.
        if found.at == 0 || found.at >= node.count() {
            return Ok(false);
        }
        self.visit_key(access, page, found, &probe, &mut visit, gaps)?;
        Ok(true)
    }

    /// Visits the entries of the probe's key from the one on that was found in a leaf.
    #[inline(always)]
    fn visit_key<'a>(
        &self,
        access: &'a P,
        page: P::Shared<'a>,
        found: Found,
        probe: &Probe<'_>,
        visit: &mut impl FnMut(RowId, bool) -> ControlFlow<()>,
        gaps: &impl Gaps,
    ) -> Result<()> {
        let node = self.node(page.page());
        let (mut at, mut is_equal) = (found.at, found.is_equal);
        while at < node.count() {
            let (row, is_deleted) = (RowId::new(node.row(at)), node.is_deleted(at));
            if !is_equal {
                read_gap(gaps, || node.gap_below(at));
                return Ok(());
            }
            if visit(row, is_deleted).is_break() {
                return Ok(());
            }
            at += 1;
            is_equal = at < node.count() && node.compare(at, probe) == Ordering::Equal;
        }
        // The key's entries may continue in the next leaf.
        if page.page().next().is_none() {
            read_gap(gaps, || GapEnd::INDEX_END);
            return Ok(());
        }
        self.visit_run(access, page, (probe.leading, probe.key), visit, gaps)
    }

    /// The same for entries that may continue in the next leaves.
    #[cold]
    fn visit_run<'a, G: Gaps>(
        &self,
        access: &'a P,
        mut page: P::Shared<'a>,
        (leading, key): (u128, &[u8]),
        visit: &mut impl FnMut(RowId, bool) -> ControlFlow<()>,
        gaps: &G,
    ) -> Result<()> {
        let probe = &Probe::first_with(&self.keys, leading, key);
        let (mut steps, mut at) = (None, usize::MAX);
        loop {
            let node = self.node(page.page());
            while at < node.count() {
                let row = RowId::new(node.row(at));
                if node.compare(at, probe) != Ordering::Equal {
                    read_gap(gaps, || node.gap_below(at));
                    return Ok(());
                }
                if visit(row, node.is_deleted(at)).is_break() {
                    return Ok(());
                }
                at += 1;
            }
            match self.beyond(access, page.page().next(), !G::LOCKED || steps.is_some())? {
                Beyond::Leaf(right) => {
                    let node = self.node(right.page());
                    // What decides on the gap holds both leaves.
                    if node.compare(0, probe) != Ordering::Equal {
                        read_gap(gaps, || node.gap_below(0));
                        return Ok(());
                    }
                    if visit(RowId::new(node.row(0)), node.is_deleted(0)).is_break() {
                        return Ok(());
                    }
                    (page, at) = (right, 1);
                }
                Beyond::End => {
                    read_gap(gaps, || GapEnd::INDEX_END);
                    return Ok(());
                }
                Beyond::Unsure => {
                    drop(page);
                    steps = Some(self.steps.hold());
                    gaps.announce();
                    page = self.leaf(access, probe)?;
                    at = self.node(page.page()).search(probe).at;
                }
            }
        }
    }

    /// Visits the entries between two positions: key, row, and whether it is marked deleted. The
    /// leaf is latched meanwhile: the visitor may try locks, it must not wait for one, nor reach
    /// pages; it breaks off, and the scan continues [`Position::At`] that entry later. Forward, the visitor
    /// locks the gap below an entry, if need be, and `gaps` reads the one behind the range; backward, the visitor
    /// has the expected gap read and expects the one below its entry.
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
        gaps: &impl Gaps,
    ) -> Result<()> {
        let (lower, upper) = (Probe::lower(&self.keys, lower), Probe::upper(&self.keys, upper));
        match order {
            Order::Forward => self.scan_forward(access, &lower, &upper, visit, gaps),
            Order::Backward => self.scan_backward(access, &lower, &upper, visit, gaps),
        }
    }

    fn scan_forward<G: Gaps>(
        &self,
        access: &P,
        lower: &Probe<'_>,
        upper: &Probe<'_>,
        mut visit: impl FnMut(&[u8], RowId, bool) -> ControlFlow<()>,
        gaps: &G,
    ) -> Result<()> {
        let (mut steps, mut key) = (None, Vec::new());
        let mut page = self.leaf(access, lower)?;
        let mut at = self.node(page.page()).search(lower).at;
        // The leaf before, until the gap is locked that reaches from it to here.
        let mut left: Option<P::Shared<'_>> = None;
        loop {
            let node = self.node(page.page());
            let (start, end) = (at, self.end_in(node, upper));
            while at < end {
                if visit(node.key(at), RowId::new(node.row(at)), node.is_deleted(at)).is_break() {
                    return Ok(());
                }
                if G::LOCKED {
                    drop(left.take());
                }
                at += 1;
            }
            if end < node.count() {
                read_gap(gaps, || node.gap_below(end));
                return Ok(());
            }
            match self.beyond(access, page.page().next(), !G::LOCKED || steps.is_some())? {
                Beyond::Leaf(right) => {
                    let passed = std::mem::replace(&mut page, right);
                    left = G::LOCKED.then_some(passed);
                    at = 0;
                }
                Beyond::End => {
                    read_gap(gaps, || GapEnd::INDEX_END);
                    return Ok(());
                }
                Beyond::Unsure => {
                    let last = end.checked_sub(1).filter(|_| start < end).map(|last| {
                        key.clear();
                        key.extend_from_slice(node.key(last));
                        RowId::new(node.row(last) + 1)
                    });
                    drop((page, left.take()));
                    steps = Some(self.steps.hold());
                    gaps.announce();
                    let again = last.map(|row| Probe::lower(&self.keys, Position::At(&key, row)));
                    let lower = again.as_ref().unwrap_or(lower);
                    page = self.leaf(access, lower)?;
                    at = self.node(page.page()).search(lower).at;
                }
            }
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

    /// A leaf, where in it the entries before the probe end, and the leaf of the next one, whose gap `gaps`
    /// expects to read.
    fn end_of_range<'a, G: Gaps>(
        &self,
        access: &'a P,
        upper: &Probe<'_>,
        gaps: &G,
    ) -> Result<(P::Shared<'a>, usize, Option<P::Shared<'a>>)> {
        let mut steps = None;
        loop {
            let page = self.leaf(access, upper)?;
            let end = self.node(page.page()).search(upper).at;
            if !G::LOCKED {
                return Ok((page, end, None));
            }
            if let Some(gap) = self.gap_at(access, &page, end, steps.is_some())? {
                gaps.expect(|| gap.end);
                return Ok((page, end, gap.right));
            }
            drop(page);
            steps = Some(self.steps.hold());
            gaps.announce();
        }
    }

    fn scan_backward<G: Gaps>(
        &self,
        access: &P,
        lower: &Probe<'_>,
        upper: &Probe<'_>,
        mut visit: impl FnMut(&[u8], RowId, bool) -> ControlFlow<()>,
        gaps: &G,
    ) -> Result<()> {
        // The first entry that was visited, should the place be looked for again.
        let (mut key, mut row) = (Vec::new(), None);
        // The leaf on the right is held until the gap is read that reaches from it to here.
        let (mut page, mut end, mut right) = self.end_of_range(access, upper, gaps)?;
        loop {
            let node = self.node(page.page());
            let start = node.search(lower).at;
            for at in (start..end).rev() {
                if visit(node.key(at), RowId::new(node.row(at)), node.is_deleted(at)).is_break() {
                    return Ok(());
                }
                if G::LOCKED {
                    drop(right.take());
                }
            }
            let previous = page.page().previous().filter(|_| start == 0);
            let Some(previous) = previous else {
                if G::LOCKED {
                    gaps.read_expected();
                }
                return Ok(());
            };
            if let Some(left) = access.try_fix_shared(previous)? {
                self.verify_level(self.node(left.page()), previous, 0)?;
                if G::LOCKED && end == 0 {
                    // Two leaves are not held on the right: what may come into this one is locked now.
                    gaps.read_expected();
                }
                end = self.node(left.page()).count();
                let passed = std::mem::replace(&mut page, left);
                right = G::LOCKED.then_some(passed);
                continue;
            }
            if end > 0 {
                key.clear();
                key.extend_from_slice(node.key(0));
                row = Some(node.row(0));
            }
            drop((page, right.take()));
            // The thread that holds it may take long; afterwards the place is looked up again from
            // the root.
            drop(access.fix_shared(previous)?);
            let again = row.map(|row| Probe::behind(&self.keys, &key, row));
            let upper = again.as_ref().unwrap_or(upper);
            (page, end, right) = self.end_of_range(access, upper, gaps)?;
        }
    }
}

#[inline(always)]
fn read_gap<G: Gaps>(gaps: &G, gap: impl FnOnce() -> GapEnd) {
    if G::LOCKED {
        gaps.read(gap);
    }
}
