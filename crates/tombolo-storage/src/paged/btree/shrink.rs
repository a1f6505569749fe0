//! Uniting nodes that entries were removed from, from the leaf upwards.
//!
//! A node that is nearly empty joins its neighbour under the same parent if both fit one page: the
//! left one takes the right one's entries, and the right one's page is given back. An empty leaf
//! always fits. An empty only child is removed together with the ancestors that hold nothing else.
//! A root with one child takes that child's entries, and a root without any is an empty leaf.
//!
//! A step latches the pages that it changes exclusively, from top to bottom and from left to right. It needs no new
//! page.

use super::keys::{KeyFormat, Probe};
use super::node::{Entry, Node, ROW_BYTES};
use super::split::Path;
use super::{BTree, Draft, Structure};
use crate::paged::page::PageId;
use crate::paged::pool::{ExclusivePage, PageAccess, ReadPage, Result, SpaceStep};

impl<P: PageAccess, K: KeyFormat> BTree<P, K> {
    /// Unites nodes on the way to the probe that are nearly empty.
    ///
    /// # Errors
    /// As [`PageAccess::fix_exclusive`], or what `structure` fails with. The tree is whole then.
    #[cold]
    #[inline(never)]
    pub(super) fn shrink(
        &self,
        access: &P,
        probe: &Probe<'_>,
        structure: &impl Structure,
    ) -> Result<()> {
        let _held = self.steps.hold();
        let path = self.path(access, probe)?;
        for level in (1..path.nodes.len()).rev() {
            let emptiness = self.node(access.fix_shared(path.nodes[level])?.page()).emptiness();
            if emptiness == 0 {
                break;
            }
            let siblings = self.node(access.fix_shared(path.nodes[level - 1])?.page()).count();
            if siblings == 1 {
                // An inner node is not empty: what happens happens at the leaf.
                if level + 1 == path.nodes.len() && self.unlink(access, &path, structure)? {
                    break;
                }
                continue;
            }
            let at = path.at[level - 1];
            let joined = (at + 1 < siblings
                && self.unite(access, path.nodes[level - 1], at, structure)?)
                || (at > 0 && self.unite(access, path.nodes[level - 1], at - 1, structure)?);
            if !joined {
                break;
            }
        }
        while self.lower_root(access, structure)? {}
        Ok(())
    }

    /// Whether the entries of two neighbours fit one node.
    fn fit_together(
        &self,
        parent: Node<'_, K>,
        left: Node<'_, K>,
        right: Node<'_, K>,
        at: usize,
    ) -> bool {
        let mut bytes = left.used() + right.used();
        if !right.is_leaf() {
            // The right one's first separator becomes its parent's, which may have a row.
            bytes += parent.key(at + 1).len() + ROW_BYTES;
            bytes -= right.key(0).len();
        }
        // Some room is left, lest the next insertion divide them again.
        bytes <= left.capacity() / 8 * 7 || left.count() == 0 || right.count() == 0
    }

    /// Lets the child at `at` take the entries of the next one, if they fit one page.
    fn unite(
        &self,
        access: &P,
        parent: PageId,
        at: usize,
        structure: &impl Structure,
    ) -> Result<bool> {
        let parent = access.fix_exclusive(parent)?;
        let node = self.node(parent.page());
        let (left_id, right_id) = (node.child(at), node.child(at + 1));
        let left = access.fix_exclusive(left_id)?;
        let mut right = access.fix_exclusive(right_id)?;
        let from = self.node(right.page());
        if !self.fit_together(node, self.node(left.page()), from, at) {
            return Ok(false);
        }
        let next_id = right.page().next();
        let next = next_id.map(|id| access.fix_exclusive(id)).transpose()?;
        let mut next = next.map(|next| Draft::<P>::of(next, structure));
        let (mut parent, mut left) =
            (Draft::<P>::of(parent, structure), Draft::<P>::of(left, structure));
        let node = self.node(parent.held.page());
        let count = from.count();
        self.change(&mut left, |left| match from.is_leaf() {
            true => left.append(from, 0..count),
            false => {
                let first = Entry { child: from.child(0), ..node.entry(at + 1) };
                left.insert(left.read().count(), &first, self.keys.leading(first.key));
                left.append(from, 1..count);
            }
        });
        if from.is_leaf() {
            left.page_mut().set_next(next_id);
            if let Some(next) = &mut next {
                next.page_mut().set_previous(Some(left_id));
            }
        }
        self.change(&mut parent, |parent| parent.remove(at + 1));
        let mut pages = vec![&mut parent, &mut left];
        pages.extend(&mut next);
        self.publish(structure, &mut SpaceStep::new(access), &mut pages, &mut [&mut right])?;
        Ok(true)
    }

    /// Gives back an empty leaf that is an only child, with the ancestors that hold nothing else;
    /// `false` if it is no longer empty, or all there is below the root.
    fn unlink<'a>(&self, access: &'a P, path: &Path, structure: &impl Structure) -> Result<bool> {
        let leaf = path.nodes.len() - 1;
        let mut top = leaf - 1;
        while top > 0 && self.node(access.fix_shared(path.nodes[top])?.page()).count() == 1 {
            top -= 1;
        }
        let branch = access.fix_exclusive(path.nodes[top])?;
        if self.node(branch.page()).count() == 1 {
            return Ok(false);
        }
        let mut gone = Vec::new();
        for &id in &path.nodes[top + 1..leaf] {
            gone.push(access.fix_exclusive(id)?);
        }
        // Links change while steps are held only.
        let left_id = access.fix_shared(path.nodes[leaf])?.page().previous();
        let left = left_id.map(|id| access.fix_exclusive(id)).transpose()?;
        let empty = access.fix_exclusive(path.nodes[leaf])?;
        if self.node(empty.page()).count() > 0 {
            return Ok(false);
        }
        let next_id = empty.page().next();
        let next = next_id.map(|id| access.fix_exclusive(id)).transpose()?;
        let draft = |page: P::Exclusive<'a>| Draft::<P>::of(page, structure);
        let (mut branch, mut left, mut next) = (draft(branch), left.map(draft), next.map(draft));
        gone.push(empty);
        if let Some(left) = &mut left {
            left.page_mut().set_next(next_id);
        }
        if let Some(next) = &mut next {
            next.page_mut().set_previous(left_id);
        }
        self.change(&mut branch, |branch| branch.remove(path.at[top]));
        let mut pages = vec![&mut branch];
        pages.extend(&mut left);
        pages.extend(&mut next);
        let mut gone: Vec<_> = gone.iter_mut().collect();
        self.publish(structure, &mut SpaceStep::new(access), &mut pages, &mut gone)?;
        Ok(true)
    }

    /// Lets a root with one child take that child's entries; `false` if it has several or none.
    fn lower_root(&self, access: &P, structure: &impl Structure) -> Result<bool> {
        {
            let root = access.fix_shared(self.root)?;
            let node = self.node(root.page());
            if node.is_leaf() || node.count() > 1 {
                return Ok(false);
            }
        }
        let root = access.fix_exclusive(self.root)?;
        let child_id = self.node(root.page()).child(0);
        let mut child = access.fix_exclusive(child_id)?;
        let from = self.node(child.page());
        let (level, count) = (from.level(), from.count());
        let mut root = Draft::<P>::of(root, structure);
        self.make_root(&mut root, level);
        self.change(&mut root, |root| root.append(from, 0..count));
        self.publish(structure, &mut SpaceStep::new(access), &mut [&mut root], &mut [&mut child])?;
        Ok(true)
    }
}
