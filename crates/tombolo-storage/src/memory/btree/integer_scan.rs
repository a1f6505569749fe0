//! Scans of the integer tree, forward and backward.
//!
//! A scan descends to its first key and then walks leaf by leaf along the path it came by: the
//! parent names the next leaf, which is asked for while the current one is visited. A caller that
//! reads in slices keeps the last key it saw and starts again after it.
//!
//! Not here: scans while the tree changes; the borrow of the tree forbids it.

use super::integer::IntegerTree;
use super::path::Path;
use super::search::{bias, unbias};
use std::ops::{Bound, ControlFlow};

impl IntegerTree {
    /// Calls `visit` with every key between the bounds and its value, ascending, until it breaks.
    pub fn scan(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        mut visit: impl FnMut(u64, u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some((from, to)) = inclusive(from, to) else { return ControlFlow::Continue(()) };
        let mut path = Path::new();
        let mut leaf = self.leaves.get(self.descend(from, &mut path));
        let mut first = leaf.rank(from);
        loop {
            self.prefetch_sibling(&path, 1);
            for (&key, &value) in leaf.keys[..leaf.len()].iter().zip(&leaf.values).skip(first) {
                if key > to {
                    return ControlFlow::Continue(());
                }
                visit(unbias(key), value)?;
            }
            match self.step(&mut path, true) {
                Some(id) => leaf = self.leaves.get(id),
                None => return ControlFlow::Continue(()),
            }
            first = 0;
        }
    }

    /// Calls `visit` with every key between the bounds and its value, descending, until it breaks.
    pub fn scan_backward(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        mut visit: impl FnMut(u64, u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some((from, to)) = inclusive(from, to) else { return ControlFlow::Continue(()) };
        let mut path = Path::new();
        let mut leaf = self.leaves.get(self.descend(to, &mut path));
        let at = leaf.rank(to);
        let mut end = at + usize::from(leaf.value_at(at, to).is_some());
        loop {
            self.prefetch_sibling(&path, -1);
            for (&key, &value) in leaf.keys[..end].iter().zip(&leaf.values[..end]).rev() {
                if key < from {
                    return ControlFlow::Continue(());
                }
                visit(unbias(key), value)?;
            }
            match self.step(&mut path, false) {
                Some(id) => leaf = self.leaves.get(id),
                None => return ControlFlow::Continue(()),
            }
            end = leaf.len();
        }
    }

    /// Moves the path to the next leaf to the right or to the left and returns that leaf, `None` at
    /// the end of the tree.
    fn step(&self, path: &mut Path, forward: bool) -> Option<u32> {
        let turn = (0..self.levels).rev().find(|&level| {
            let at = path.rank(level);
            if forward { at < self.inners.get(path.nodes[level]).len() } else { at > 0 }
        })?;
        path.ranks[turn] = if forward { path.ranks[turn] + 1 } else { path.ranks[turn] - 1 };
        let mut id = self.inners.get(path.nodes[turn]).child(path.rank(turn));
        for level in turn + 1..self.levels {
            let node = self.inners.get(id);
            path.nodes[level] = id;
            path.ranks[level] = if forward { 0 } else { node.len() as u16 };
            id = node.child(path.rank(level));
        }
        Some(id)
    }

    /// Asks for the leaf before or after the one at the end of `path`, where they have the same
    /// parent.
    #[inline]
    fn prefetch_sibling(&self, path: &Path, offset: isize) {
        let Some(level) = self.levels.checked_sub(1) else { return };
        let node = self.inners.get(path.nodes[level]);
        if let Some(at) = path.rank(level).checked_add_signed(offset)
            && at <= node.len()
        {
            self.leaves.prefetch(node.child(at));
        }
    }
}

/// Biased inclusive bounds, `None` where nothing lies between.
fn inclusive(from: Bound<u64>, to: Bound<u64>) -> Option<(i64, i64)> {
    let from = match from {
        Bound::Included(key) => key,
        Bound::Excluded(key) => key.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let to = match to {
        Bound::Included(key) => key,
        Bound::Excluded(key) => key.checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    (from <= to).then(|| (bias(from), bias(to)))
}
