//! Runs: entries that come right behind the entry that their caller inserted before them.
//!
//! The first entry of a run needs no descent if its leaf is among those into which the caller inserted last
//! ([`LastInsertions`]). Consecutive entries for one leaf are one change: the leaf is latched once, gaps are looked at
//! once, and the change is logged at once.
//!
//! Not here: insertions that descend to their leaf (`write.rs`).

use std::cmp::Ordering;

use super::BTree;
use super::gaps::Gaps;
use super::keys::{KeyFormat, Probe};
use super::node::{Entry, Node};
use super::read::LeafHint;
use super::set_stamp;
use super::write::place_in;
use crate::paged::heap::{Place, Stamp};
use crate::paged::page::{PageId, PageKind};
use crate::paged::pool::{PageAccess, PageError, ReadPage, Result};
use crate::row::RowId;

/// Most places of an index at which a caller goes on.
const PLACES: usize = 64;

/// Where a caller inserted an entry that it looked for the leaf of.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastInsertion {
    pub(super) leaf: PageId,
    /// How many steps had changed the tree by then.
    pub(super) changes: u64,
    /// What the entry's key begins with.
    pub(super) newest: u128,
    /// At most what the keys behind the leaf began with.
    pub(super) fence: u128,
}

/// A caller's last insertions into an index, in leaves apart: where each of the runs goes on that it inserts by turns.
#[derive(Clone, Debug, Default)]
pub struct LastInsertions {
    /// In the order of their fences.
    places: Vec<LastInsertion>,
    /// The one that the last insertion was at.
    current: usize,
    /// How many there were in all.
    noted: usize,
}

impl LastInsertions {
    /// The one that a key which begins with `leading` may go on from.
    #[inline(always)]
    fn before(&mut self, leading: u128) -> Option<LastInsertion> {
        let at = self.places.partition_point(|place| place.fence <= leading);
        let place = self.places.get(at).filter(|place| place.newest <= leading)?;
        self.current = at;
        Some(*place)
    }

    /// Notes one, in place of those whose leaves are said to end in its own: they do so no longer.
    #[inline(never)]
    pub(super) fn note(&mut self, last: LastInsertion) {
        let mut at = self.places.partition_point(|place| place.fence <= last.newest);
        let end = self.places.partition_point(|place| place.fence <= last.fence);
        if at < end {
            self.places[at] = last;
            self.places.drain(at + 1..end);
        } else {
            if self.places.len() == PLACES {
                let given_up = self.noted % PLACES;
                self.places.remove(given_up);
                at -= usize::from(given_up < at);
            }
            self.places.insert(at, last);
            self.noted += 1;
        }
        self.current = at;
    }
}

/// What of a run comes into a leaf at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    pub(super) entries: usize,
    /// Bytes of their keys.
    pub(super) key_bytes: usize,
    /// What the first and the last of these begin with; they ascend.
    pub(super) leading: [u128; 2],
}

/// An entry of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunEntry<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its row.
    pub row: RowId,
    /// What the key begins with: [`BTree::hint_of`].
    pub hint: LeafHint,
}

impl<P: PageAccess, K: KeyFormat> BTree<P, K> {
    /// What [`BTree::insert_behind`] has to know of a key besides its bytes.
    #[inline(always)]
    pub fn hint_of(&self, key: &[u8]) -> LeafHint {
        LeafHint { leading: Probe::first_of(&self.keys, key).leading, ..LeafHint::default() }
    }

    /// Inserts the first entries of `run`, as many as belong one behind the other right behind the caller's last
    /// insertion and have room there; returns how many. None where a gap may be locked. `log` is called once, with
    /// the place where the first one will be and how many there are, while the leaf is held alone; the number it
    /// returns is stamped on the leaf.
    ///
    /// # Errors
    /// What `log` fails with: none of them is there then.
    #[inline(always)]
    pub fn insert_behind<'k, G: Gaps, E: From<PageError>>(
        &self,
        access: &P,
        run: impl Iterator<Item = RunEntry<'k>> + Clone,
        last: &mut LastInsertions,
        gaps: &G,
        log: impl FnOnce(Place, usize) -> Result<Stamp, E>,
    ) -> Result<usize, E> {
        let Some(first) = run.clone().next() else { return Ok(0) };
        let Some((mut leaf, at)) = self.leaf_of_run(access, last, &self.probe_of(first)) else {
            return Ok(0);
        };
        // Asked while the leaf is held, as in an insertion.
        if G::LOCKED && gaps.in_use() {
            return Ok(0);
        }
        let fence = last.places[last.current].fence;
        let extent = self.extent_of(self.node(leaf.page()), (at, fence), run.clone());
        let stamp = log(place_in(&leaf, at), extent.entries)?;
        let entries = run.map(|entry| (Entry::leaf(entry.key, entry.row), entry.hint.leading));
        self.change(&mut leaf, |node| node.insert_run(at, extent, entries.take(extent.entries)));
        set_stamp(&mut leaf, stamp);
        Ok(extent.entries)
    }

    /// The leaf of a last insertion, held alone, and the place of the probe's entry, if it has room for that and
    /// the place is right behind the entry inserted last, or between two others. What lies between two entries of a
    /// leaf is nowhere else, whatever became of the page meanwhile; what lies behind its last one is there as long as
    /// no step changed the tree.
    #[inline(always)]
    pub(super) fn leaf_of_run<'a>(
        &self,
        access: &'a P,
        last: &mut LastInsertions,
        probe: &Probe<'_>,
    ) -> Option<(P::Exclusive<'a>, usize)> {
        let last = last.before(probe.leading)?;
        let leaf = access.fix_resident_alone(last.leaf)?;
        let (page, node) = (leaf.page(), self.node(leaf.page()));
        if page.kind() != PageKind::Leaf
            || page.store() != self.store
            || !node.has_room(probe.key.len())
        {
            return None;
        }
        let is_within = || probe.leading < last.fence && self.is_unchanged(last.changes);
        let at = node.place_in_run(probe, is_within).or_else(|| node.place_between(probe))?;
        Some((leaf, at))
    }

    #[inline(always)]
    fn probe_of<'k>(&self, entry: RunEntry<'k>) -> Probe<'k> {
        Probe::first_with(&self.keys, entry.hint.leading, entry.key)
    }

    /// What of a run, whose first entry belongs at `at` of a leaf and has room there, belongs there one behind the
    /// other and has room.
    #[inline(always)]
    fn extent_of<'k>(
        &self,
        node: Node<'_, K>,
        (at, fence): (usize, u128),
        run: impl Iterator<Item = RunEntry<'k>>,
    ) -> Extent {
        let mut extent = Extent::default();
        let mut used = node.used();
        for entry in run {
            let leading = entry.hint.leading;
            used += node.space(entry.key.len());
            // Where keys begin alike they come one by one.
            let is_behind = leading > extent.leading[1]
                && used <= node.capacity()
                && self.is_before_next(node, (at, fence), entry);
            let first = match extent.entries {
                0 => leading,
                _ if is_behind => extent.leading[0],
                _ => break,
            };
            extent.entries += 1;
            extent.key_bytes += entry.key.len();
            extent.leading = [first, leading];
        }
        extent
    }

    /// Whether an entry of a run lies before the next entry of the leaf, or else before the leaf's end.
    #[inline(always)]
    fn is_before_next(
        &self,
        node: Node<'_, K>,
        (at, fence): (usize, u128),
        entry: RunEntry<'_>,
    ) -> bool {
        match at < node.count() {
            true => node.compare(at, &self.probe_of(entry)) == Ordering::Greater,
            // The first one lies before it, so no step changed the tree; while the leaf is held none moves its end.
            false => entry.hint.leading < fence,
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_place_gives_way_to_one_that_it_would_hide() {
        let mut last = LastInsertions::default();
        let at = |leaf, newest, fence| {
            let leaf = PageId(leaf);
            LastInsertion { leaf, changes: 0, newest, fence }
        };
        let leaf_before = |last: &mut LastInsertions, leading| {
            last.before(leading).map_or(0, |place| place.leaf.0)
        };
        assert_eq!(leaf_before(&mut last, 5), 0);
        last.note(at(1, 10, 30));
        assert_eq!([5, 15, 29, 30].map(|leading| leaf_before(&mut last, leading)), [0, 1, 1, 0]);
        // The leaf ends elsewhere now, or its end is known better.
        last.note(at(2, 12, 33));
        assert_eq!([15, 31].map(|leading| leaf_before(&mut last, leading)), [2, 2]);
        last.note(at(3, 40, 50));
        assert_eq!([20, 35, 45].map(|leading| leaf_before(&mut last, leading)), [2, 0, 3]);
        last.note(at(4, 13, 20));
        assert_eq!([15, 25, 45].map(|leading| leaf_before(&mut last, leading)), [4, 2, 3]);
        last.note(at(5, 1, u128::MAX));
        assert_eq!([15, 25, 60].map(|leading| leaf_before(&mut last, leading)), [5, 5, 5]);
        assert_eq!(last.places.len(), 1);
        for leaf in 10..200 {
            let start = u128::from(leaf * 7 % 190) * 100;
            last.note(at(leaf, start, start + 100));
            assert_eq!(leaf_before(&mut last, start + 1), leaf);
            assert!(last.places.is_sorted_by_key(|place| place.fence));
        }
        assert_eq!(last.places.len(), PLACES);
    }
}
