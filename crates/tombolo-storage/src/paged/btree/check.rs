//! The checker of trees: every node's form, the order of its entries, their parents' bounds, the
//! levels, the leaves' links, that no page is reached twice, and that unique keys are unique.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::BTree;
use super::keys::{KeyFormat, Probe};
use super::node::Node;
use super::split::kind_of;
use crate::paged::page::{Page, PageId};
use crate::paged::pool::{PageAccess, PageError, ReadPage, Result};
use crate::store::Damage;

/// A separator: all entries of a node lie at or behind the one, and before the other.
#[derive(Clone, Debug)]
struct Bound {
    key: Vec<u8>,
    row: u64,
}

/// What is known of the tree so far.
#[derive(Default)]
struct Walk {
    reached: BTreeSet<PageId>,
    /// The leaves in the order of the tree, with their links.
    leaves: Vec<(PageId, Option<PageId>, Option<PageId>)>,
    found: Vec<String>,
    /// The key of the last entry that is not marked deleted.
    last: Option<Vec<u8>>,
}

/// A node to be visited.
struct Expected {
    id: PageId,
    /// None of the root, which has any.
    level: Option<u8>,
    lower: Option<Bound>,
    upper: Option<Bound>,
}

impl<P: PageAccess, K: KeyFormat> BTree<P, K> {
    /// Verifies the tree. No thread may change it meanwhile.
    pub fn check(&self, access: &P) -> Vec<Damage> {
        let mut walk = Walk::default();
        let root = Expected { id: self.root, level: None, lower: None, upper: None };
        if let Err(error) = self.check_node(access, root, &mut walk) {
            walk.found.push(error.to_string());
        }
        self.check_links(&mut walk);
        let store = self.store.0;
        let damage = |what| Damage { check: "btree", what: format!("store {store}: {what}") };
        walk.found.into_iter().map(damage).collect()
    }

    /// Verifies a node and everything below it.
    fn check_node(&self, access: &P, expected: Expected, walk: &mut Walk) -> Result<()> {
        let id = expected.id;
        if !walk.reached.insert(id) {
            walk.found.push(format!("page {} is reached twice", id.0));
            return Ok(());
        }
        let children = {
            let page = access.fix_shared(id)?;
            if let Err(what) = self.check_page(page.page(), &expected) {
                walk.found.push(format!("page {}: {what}", id.0));
                return Ok(());
            }
            let node = self.node(page.page());
            if node.is_leaf() {
                walk.leaves.push((id, page.page().previous(), page.page().next()));
                if self.shape.unique() {
                    self.check_unique(id, node, walk);
                }
                return Ok(());
            }
            self.children(node, &expected)
        };
        children.into_iter().try_for_each(|child| self.check_node(access, child, walk))
    }

    /// Verifies that no key of a leaf, visited in order, occurs twice; marked entries do not count.
    fn check_unique(&self, id: PageId, leaf: Node<'_, K>, walk: &mut Walk) {
        for at in (0..leaf.count()).filter(|&at| !leaf.is_deleted(at)) {
            let is_equal = |key: &Vec<u8>| {
                leaf.compare(at, &Probe::first_of(&self.keys, key)) == Ordering::Equal
            };
            if walk.last.as_ref().is_some_and(is_equal) {
                walk.found.push(format!("page {}: entry {at} has the key of the one before", id.0));
            }
            walk.last = Some(leaf.key(at).to_vec());
        }
    }

    /// What an inner node says of its children.
    fn children(&self, node: Node<'_, K>, expected: &Expected) -> Vec<Expected> {
        let bound = |at: usize| Bound { key: node.key(at).to_vec(), row: node.row(at) };
        let last = node.count() - 1;
        let child = |at| Expected {
            id: node.child(at),
            level: Some(node.level() - 1),
            lower: if at == 0 { expected.lower.clone() } else { Some(bound(at)) },
            upper: if at == last { expected.upper.clone() } else { Some(bound(at + 1)) },
        };
        (0..=last).map(child).collect()
    }

    /// Verifies one node on its own and against its parent.
    fn check_page(&self, page: Page<'_, P::Size>, expected: &Expected) -> Result<(), String> {
        let node = self.node(page);
        if page.store() != self.store {
            return Err(format!("it belongs to store {}", page.store().0));
        }
        if expected.level.is_some_and(|level| level != node.level()) {
            return Err(format!("a node of level {}, not {:?}", node.level(), expected.level));
        }
        if page.kind() != kind_of(node.level()) {
            return Err(format!("a node of level {} in a {:?} page", node.level(), page.kind()));
        }
        node.verify()?;
        if expected.level.is_none() && (page.next().is_some() || page.previous().is_some()) {
            return Err("the root has neighbours".to_owned());
        }
        if !node.is_leaf() && node.count() == 0 {
            return Err("an inner node without children".to_owned());
        }
        // The first separator of a node counts as before everything.
        let first = usize::from(!node.is_leaf());
        for at in first..node.count() {
            K::verify(self.shape.parts(), node.key(at))
                .and_then(|()| node.verify_head(at))
                .map_err(|what| format!("entry {at}: {what}"))?;
            if !node.is_leaf() && node.is_deleted(at) {
                return Err(format!("separator {at} is marked deleted"));
            }
        }
        self.check_order(node, first, expected)
    }

    /// Verifies that entries ascend within their bounds.
    fn check_order(
        &self,
        node: Node<'_, K>,
        first: usize,
        expected: &Expected,
    ) -> Result<(), String> {
        let before = |at: usize, key: &[u8], row: u64| {
            let order = node.compare(at, &Probe::behind(&self.keys, key, row));
            order.then(node.row(at).cmp(&row)) == Ordering::Less
        };
        for at in first + 1..node.count() {
            if !before(at - 1, node.key(at), node.row(at)) {
                return Err(format!("entries {} and {at} are out of order", at - 1));
            }
        }
        if first < node.count() {
            if let Some(lower) = &expected.lower
                && before(first, &lower.key, lower.row)
            {
                return Err("its first entry lies before its separator".to_owned());
            }
            if let Some(upper) = &expected.upper
                && !before(node.count() - 1, &upper.key, upper.row)
            {
                return Err("its last entry lies behind the next separator".to_owned());
            }
        }
        Ok(())
    }

    /// Verifies that the leaves are linked in their order.
    fn check_links(&self, walk: &mut Walk) {
        let ids: Vec<_> = walk.leaves.iter().map(|leaf| leaf.0).collect();
        for (at, &(id, previous, next)) in walk.leaves.iter().enumerate() {
            let left = at.checked_sub(1).map(|left| ids[left]);
            if previous != left || next != ids.get(at + 1).copied() {
                walk.found.push(format!(
                    "leaf {} lies between {left:?} and {:?}, its links say {previous:?} and {next:?}",
                    id.0,
                    ids.get(at + 1)
                ));
            }
        }
    }

    /// What the tree takes.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    pub fn measure(&self, access: &P) -> Result<TreeUsage, PageError> {
        let mut usage = TreeUsage::default();
        self.visit(access, |_, node| {
            usage.levels = usage.levels.max(u32::from(node.level()) + 1);
            if node.is_leaf() {
                usage.leaves += 1;
                usage.entries += node.count() as u64;
                usage.entry_bytes += node.used() as u64;
            } else {
                usage.inner_nodes += 1;
            }
        })?;
        Ok(usage)
    }

    /// All pages of the tree.
    ///
    /// # Errors
    /// As [`PageAccess::fix_shared`].
    pub fn owned_pages(&self, access: &P) -> Result<Vec<PageId>> {
        let mut pages = Vec::new();
        self.visit(access, |id, _| pages.push(id))?;
        Ok(pages)
    }

    /// Shows every node.
    fn visit(&self, access: &P, mut show: impl FnMut(PageId, Node<'_, K>)) -> Result<()> {
        let mut waiting = vec![self.root];
        while let Some(id) = waiting.pop() {
            let page = access.fix_shared(id)?;
            let node = self.node(page.page());
            if !node.is_leaf() {
                waiting.extend((0..node.count()).map(|at| node.child(at)));
            }
            show(id, node);
        }
        Ok(())
    }
}

/// What a tree takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeUsage {
    /// Nodes from the root to a leaf.
    pub levels: u32,
    /// Pages of inner nodes.
    pub inner_nodes: u64,
    /// Pages of leaves.
    pub leaves: u64,
    /// Entries, deleted ones among them.
    pub entries: u64,
    /// Bytes entries and their slots take in the leaves.
    pub entry_bytes: u64,
}
