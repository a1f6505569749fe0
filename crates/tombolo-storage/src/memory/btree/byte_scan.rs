//! Scans of the byte tree, forward and backward, between two positions.
//!
//! Both ends are turned into bounds of the form "before these bytes"; a scan finds each bound once
//! a leaf, not once a key, and puts together the keys it visits from the leaf's prefix and their
//! suffixes.

use super::byte_node::{ByteNode, KEY_BYTES_MAX};
use super::bytes::{ByteTree, Position};
use super::path::Path;
use std::ops::{ControlFlow, Range};

/// The bytes that a position lies before; no bytes at all for the end of the tree.
struct Before {
    buffer: [u8; KEY_BYTES_MAX],
    len: usize,
    is_end: bool,
}

impl Before {
    /// Where the bytes are longer than any key, "before them" is after the one key that equals
    /// their start.
    fn new(position: Position<'_>) -> Before {
        let mut before = Before { buffer: [0; KEY_BYTES_MAX], len: 0, is_end: false };
        let (bytes, mut carry) = match position {
            Position::Before(bytes) => (bytes, bytes.len() > KEY_BYTES_MAX),
            Position::After(bytes) => (bytes, true),
        };
        before.len = bytes.len().min(KEY_BYTES_MAX);
        before.buffer[..before.len].copy_from_slice(&bytes[..before.len]);
        // The first string after all that start with these bytes: the last byte that can be counted
        // up, counted up.
        while carry {
            match before.len.checked_sub(1) {
                None => {
                    before.is_end = true;
                    carry = false;
                }
                Some(last) if before.buffer[last] == u8::MAX => before.len = last,
                Some(last) => {
                    before.buffer[last] += 1;
                    carry = false;
                }
            }
        }
        before
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// How many keys of a node lie before the position.
    fn rank(&self, node: &ByteNode) -> usize {
        if self.is_end { node.len() } else { node.search(self.bytes()).0 }
    }

    /// The same for the children: which one the position lies in.
    fn child_rank(&self, node: &ByteNode) -> usize {
        if self.is_end { node.len() } else { node.child_rank(self.bytes()) }
    }
}

impl ByteTree {
    /// Calls `visit` with every key between the positions and its value, ascending, until it
    /// breaks.
    pub fn scan(
        &self,
        from: Position<'_>,
        to: Position<'_>,
        visit: impl FnMut(&[u8], u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.walk(&Before::new(from), &Before::new(to), true, visit)
    }

    /// Calls `visit` with every key between the positions and its value, descending, until it
    /// breaks.
    pub fn scan_backward(
        &self,
        from: Position<'_>,
        to: Position<'_>,
        visit: impl FnMut(&[u8], u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.walk(&Before::new(from), &Before::new(to), false, visit)
    }

    fn walk(
        &self,
        from: &Before,
        to: &Before,
        forward: bool,
        mut visit: impl FnMut(&[u8], u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut path = Path::new();
        let mut id = self.descend_to(if forward { from } else { to }, &mut path);
        loop {
            let leaf = self.node(id);
            let range = from.rank(leaf)..to.rank(leaf);
            // The far end lies in this leaf, so no other one holds anything between the positions.
            let is_last = if forward { range.end < leaf.len() } else { range.start > 0 };
            visit_leaf(leaf, range, forward, &mut visit)?;
            match self.step(&mut path, forward) {
                Some(next) if !is_last => id = next,
                _ => return ControlFlow::Continue(()),
            }
        }
    }

    fn descend_to(&self, position: &Before, path: &mut Path) -> u32 {
        let mut id = self.root;
        for level in 0..self.levels {
            let node = self.node(id);
            let at = position.child_rank(node);
            (path.nodes[level], path.ranks[level]) = (id, at as u16);
            id = node.child(at);
        }
        id
    }

    /// Moves the path to the next leaf to the right or to the left and returns that leaf, `None` at
    /// the end of the tree.
    fn step(&self, path: &mut Path, forward: bool) -> Option<u32> {
        let turn = (0..self.levels).rev().find(|&level| {
            let at = path.rank(level);
            if forward { at < self.node(path.nodes[level]).len() } else { at > 0 }
        })?;
        path.ranks[turn] = if forward { path.ranks[turn] + 1 } else { path.ranks[turn] - 1 };
        let mut id = self.node(path.nodes[turn]).child(path.rank(turn));
        for level in turn + 1..self.levels {
            let node = self.node(id);
            path.nodes[level] = id;
            path.ranks[level] = if forward { 0 } else { node.len() as u16 };
            id = node.child(path.rank(level));
        }
        Some(id)
    }
}

fn visit_leaf(
    leaf: &ByteNode,
    range: Range<usize>,
    forward: bool,
    mut visit: impl FnMut(&[u8], u32) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut buffer = [0; KEY_BYTES_MAX];
    let prefix = leaf.prefix();
    buffer[..prefix.len()].copy_from_slice(prefix);
    let count = range.end.saturating_sub(range.start);
    for i in 0..count {
        let at = if forward { range.start + i } else { range.end - 1 - i };
        let len = leaf.read_suffix(at, &mut buffer);
        visit(&buffer[..len], leaf.value(at))?;
    }
    ControlFlow::Continue(())
}
