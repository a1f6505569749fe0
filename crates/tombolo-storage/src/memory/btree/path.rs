//! `Path`: how a descent came to a leaf. In fixed arrays, so that recording it costs two stores a
//! level.

/// More levels than a tree of 2^32 nodes can have where inner nodes have at least two children.
/// Byte trees may have a few inner nodes of one child, which come from a split and so have a
/// sibling next to them; they assert the limit when they grow.
pub(super) const HEIGHT_MAX: usize = 33;

/// The inner nodes from the root to a leaf, with the position of the child taken in each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) nodes: [u32; HEIGHT_MAX],
    pub(super) ranks: [u16; HEIGHT_MAX],
}

impl Path {
    #[inline(always)]
    pub(super) fn new() -> Path {
        Path { nodes: [0; HEIGHT_MAX], ranks: [0; HEIGHT_MAX] }
    }

    #[inline(always)]
    pub(super) fn rank(&self, level: usize) -> usize {
        self.ranks[level] as usize
    }
}
