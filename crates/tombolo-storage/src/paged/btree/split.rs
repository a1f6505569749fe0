//! Dividing full nodes: one node at a time, the parent first where it has no room.
//!
//! A step latches the parent, the node and a leaf's right neighbour exclusively, from top to bottom and from left to
//! right; makes the new page; prepares the new content of all these pages in drafts; and changes the pages only when
//! that is logged. The root's content moves to two new pages. A new leaf holds one entry at
//! least.

use super::keys::{KeyFormat, PACKED_BYTES, Probe};
use super::node::{Entry, Node};
use super::{BTree, Draft, Structure};
use crate::paged::page::{PageId, PageKind};
use crate::paged::pool::{ExclusivePage, PageAccess, ReadPage, Result, SpaceStep};
use crate::plant::{self, Plant};

/// The way from the root to a leaf. Inner nodes stay as they are while steps are held.
pub(super) struct Path {
    /// The nodes, the root first.
    pub(super) nodes: Vec<PageId>,
    /// At which entry of a node the way continues; in the leaf, where the probe is.
    pub(super) at: Vec<usize>,
}

impl Path {
    /// Where the node of a level gets its new entry: a leaf the probe's, others what separates the
    /// halves of the child.
    fn place(&self, level: usize) -> usize {
        self.at[level] + usize::from(level + 1 < self.nodes.len())
    }
}

/// What separates the halves of a node divided at an entry.
struct Separator {
    key: Vec<u8>,
    row: u64,
}

impl Separator {
    fn entry(&self, child: PageId) -> Entry<'_> {
        Entry { word: self.row, child, key: &self.key }
    }
}

/// The kind of page for a node of a level.
pub(super) fn kind_of(level: u8) -> PageKind {
    if level == 0 { PageKind::Leaf } else { PageKind::Inner }
}

impl<P: PageAccess, K: KeyFormat> BTree<P, K> {
    /// Makes room for the probe's entry.
    ///
    /// # Errors
    /// As [`PageAccess::fix_exclusive`] and [`PageAccess::new_page`], or what `structure` fails
    /// with. The tree is whole then.
    #[cold]
    #[inline(never)]
    pub(super) fn split(
        &self,
        access: &P,
        probe: &Probe<'_>,
        structure: &impl Structure,
    ) -> Result<()> {
        let _held = self.steps.hold();
        self.split_while_held(access, probe, structure)
    }

    /// As [`BTree::split`], for a caller that holds `steps`.
    pub(super) fn split_while_held(
        &self,
        access: &P,
        probe: &Probe<'_>,
        structure: &impl Structure,
    ) -> Result<()> {
        loop {
            let path = self.path(access, probe)?;
            let leaf = path.nodes.len() - 1;
            if self.node(access.fix_shared(path.nodes[leaf])?.page()).has_room(probe.key.len()) {
                return Ok(());
            }
            // The lowest node whose parent has room.
            let mut level = leaf;
            while level > 0 {
                let page = access.fix_shared(path.nodes[level])?;
                let node = self.node(page.page());
                let bytes = self.separator(node, node.division(path.place(level))).key.len();
                drop(page);
                let parent = access.fix_shared(path.nodes[level - 1])?;
                if self.node(parent.page()).has_room(bytes) {
                    break;
                }
                level -= 1;
            }
            if level == 0 {
                self.divide_root(access, path.place(0), probe.key.len(), structure)?;
            } else {
                self.divide(access, &path, level, probe.key.len(), structure)?;
            }
        }
    }

    /// The way to the probe.
    pub(super) fn path(&self, access: &P, probe: &Probe<'_>) -> Result<Path> {
        let (mut nodes, mut at) = (vec![self.root], Vec::new());
        let mut page = access.fix_shared(self.root)?;
        let mut level = self.node(page.page()).level();
        while level > 0 {
            let node = self.node(page.page());
            let index = node.child_at(probe);
            let id = node.child(index);
            at.push(index);
            nodes.push(id);
            let next = access.fix_shared(id)?;
            page = next;
            level -= 1;
            self.verify_level(self.node(page.page()), id, level)?;
        }
        at.push(self.node(page.page()).search(probe).at);
        Ok(Path { nodes, at })
    }

    /// What separates what is before entry `at` from the rest.
    fn separator(&self, node: Node<'_, K>, at: usize) -> Separator {
        let at = if at > 1 && plant::is(Plant::SeparatorTooLow) { at - 1 } else { at };
        let key = node.key(at);
        // Of equal keys the row decides; elsewhere none, so that the first of a key is found
        // directly.
        let row = if node.key(at - 1) == key { node.row(at) } else { 0 };
        Separator { key: key.to_vec(), row: if node.is_leaf() { row } else { node.row(at) } }
    }

    /// Whether a node that was found full still is; a leaf's entries come and go meanwhile.
    fn is_full(&self, node: Node<'_, K>, bytes: usize) -> bool {
        node.count() >= 2 && (!node.is_leaf() || !node.has_room(bytes))
    }

    /// Divides a node that is not the root, if it is still full and its parent still has room.
    fn divide(
        &self,
        access: &P,
        path: &Path,
        level: usize,
        bytes: usize,
        structure: &impl Structure,
    ) -> Result<()> {
        let parent = access.fix_exclusive(path.nodes[level - 1])?;
        let left = access.fix_exclusive(path.nodes[level])?;
        let node = self.node(left.page());
        if !self.is_full(node, bytes) {
            return Ok(());
        }
        let (node_level, division) = (node.level(), node.division(path.place(level)));
        let separator = self.separator(node, division);
        if !self.node(parent.page()).has_room(separator.key.len()) {
            return Ok(());
        }
        let next_id = left.page().next();
        let next = next_id.map(|id| access.fix_exclusive(id)).transpose()?;
        let mut step = SpaceStep::new(access);
        let mut right = Draft::<P>::made(step.take(self.store, kind_of(node_level))?);
        let mut next = next.map(|next| Draft::<P>::of(next, structure));
        let (mut parent, mut left) =
            (Draft::<P>::of(parent, structure), Draft::<P>::of(left, structure));
        let (left_id, right_id) = (left.page().id(), right.page().id());
        self.move_tail(&mut left, &mut right, node_level, division);
        if node_level == 0 {
            right.page_mut().set_previous(Some(left_id));
            right.page_mut().set_next(next_id);
            left.page_mut().set_next(Some(right_id));
            if let Some(next) = &mut next
                && !plant::is(Plant::NeighbourNotLinked)
            {
                next.page_mut().set_previous(Some(right_id));
            }
        }
        let at = path.place(level - 1);
        let leading = self.keys.leading(&separator.key);
        self.change(&mut parent, |node| node.insert(at, &separator.entry(right_id), leading));
        let mut pages = vec![&mut parent, &mut left, &mut right];
        pages.extend(&mut next);
        self.publish(structure, &mut step, &mut pages, &mut [])
            .inspect_err(|_| step.put_back(right.held))
    }

    /// Moves the entries of `left` from `division` on to the new node `right`.
    fn move_tail(
        &self,
        left: &mut Draft<'_, P>,
        right: &mut Draft<'_, P>,
        level: u8,
        division: usize,
    ) {
        let from = self.node(left.page());
        let count = from.count();
        self.change(right, |node| {
            node.clear(level);
            node.append(from, division..count);
        });
        self.change(left, |node| node.truncate(division));
    }

    /// Moves the root's entries into two new nodes below it, if it is still full.
    fn divide_root(
        &self,
        access: &P,
        at: usize,
        bytes: usize,
        structure: &impl Structure,
    ) -> Result<()> {
        let root = access.fix_exclusive(self.root)?;
        let node = self.node(root.page());
        if !self.is_full(node, bytes) {
            return Ok(());
        }
        let (level, count, division) = (node.level(), node.count(), node.division(at));
        let separator = self.separator(node, division);
        let mut step = SpaceStep::new(access);
        let left = step.take(self.store, kind_of(level))?;
        let right = match step.take(self.store, kind_of(level)) {
            Ok(right) => right,
            Err(error) => {
                step.put_back(left);
                return Err(error);
            }
        };
        let mut root = Draft::<P>::of(root, structure);
        let (mut left, mut right) = (Draft::<P>::made(left), Draft::<P>::made(right));
        let (left_id, right_id) = (left.page().id(), right.page().id());
        for (half, entries) in [(&mut left, 0..division), (&mut right, division..count)] {
            self.change(half, |node| {
                node.clear(level);
                node.append(self.node(root.page()), entries);
            });
        }
        if level == 0 {
            left.page_mut().set_next(Some(right_id));
            right.page_mut().set_previous(Some(left_id));
        }
        self.make_root(&mut root, level + 1);
        let lowest = if self.keys.packed { &[0; PACKED_BYTES][..] } else { &[] };
        let leading = self.keys.leading(&separator.key);
        self.change(&mut root, |node| {
            node.insert(0, &Entry { word: 0, child: left_id, key: lowest }, 0);
            node.insert(1, &separator.entry(right_id), leading);
        });
        self.publish(structure, &mut step, &mut [&mut root, &mut left, &mut right], &mut [])
            .inspect_err(|_| {
                step.put_back(left.held);
                step.put_back(right.held);
            })
    }

    /// Makes the root an empty node of another level.
    pub(super) fn make_root(&self, root: &mut Draft<'_, P>, level: u8) {
        let lsn = root.page().lsn();
        root.page_mut().format(self.root, self.store, kind_of(level));
        root.page_mut().set_lsn(lsn);
        self.change(root, |node| node.clear(level));
    }
}
