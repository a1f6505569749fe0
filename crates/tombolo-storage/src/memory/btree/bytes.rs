//! `ByteTree`: the B+tree from byte keys to 32-bit values; look-up, insertion, deletion.
//!
//! Keys are *normalised*: encoded so that comparing their bytes orders them. The node size follows
//! from the longest key the tree is made for, 1 KB for keys up to 280 bytes. Splits follow the
//! direction of insertion as in the integer tree. A separator is the shortest string that divides
//! two leaves.
//!
//! Deletion frees a leaf that becomes empty and merges one that is less than a third full with a
//! neighbour where both fit. It never borrows: a new separator might not fit into the parent. So of
//! two neighbours one may stay sparse while the other is too full to take it; every further
//! deletion in it tries again.
//!
//! Scans are in `byte_scan.rs`, the checker in `byte_check.rs`, the nodes in `byte_node.rs`.
//!
//! Invariants: keys ascend and lie within the separators around their leaf; all leaves are equally
//! deep; no leaf but the root is empty; every node in the slab is reached once.

use super::super::budget::Allowance;
use super::super::region::RegionError;
use super::super::slab::Slab;
use super::byte_node::{ByteNode, KEY_BYTES_MAX, Sequence, common_len, node_bytes};
use super::path::{HEIGHT_MAX, Path};
use super::trend::Trend;
use super::{ABSENT, InsertError, LOCK_STEP, RunError};

/// How many bytes of the next node a lock-step look-up asks for: header, heads and the first
/// entries.
const PREFETCH_BYTES: usize = 256;

/// A place between the keys of a byte tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position<'a> {
    /// Before the first key that is not smaller than these bytes. `Before(&[])` is the start.
    Before(&'a [u8]),
    /// After the last key that starts with these bytes, or where it would be. `After(&[])` is the
    /// end.
    After(&'a [u8]),
}

/// A B+tree from unique byte strings to 32-bit values. See the module's head.
#[derive(Debug)]
pub struct ByteTree {
    pub(super) slab: Slab,
    pub(super) root: u32,
    /// The number of inner nodes above each leaf.
    pub(super) levels: usize,
    pub(super) len: usize,
    key_bytes_max: usize,
    scratch: Scratch,
}

/// Copies of the nodes that are being rebuilt.
#[derive(Debug, Default)]
struct Scratch {
    front: Box<[u64]>,
    back: Box<[u64]>,
}

impl Scratch {
    fn new(bytes: usize) -> Scratch {
        Scratch { front: vec![0; bytes / 8].into(), back: vec![0; bytes / 8].into() }
    }
}

/// Copies a node into a scratch buffer.
fn copy<'a>(node: &ByteNode, buffer: &'a mut [u64]) -> &'a ByteNode {
    let bytes = size_of_val(buffer);
    // SAFETY: the buffer's own bytes, which are valid as integers of either size, borrowed for as
    // long as the buffer.
    let slot = unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast::<u8>(), bytes) };
    let copied = ByteNode::of_mut(slot);
    copied.copy_from(node);
    copied
}

impl ByteTree {
    /// An empty tree for keys of up to `key_bytes_max` (at most [`KEY_BYTES_MAX`]) that may take
    /// so much memory.
    ///
    /// # Errors
    /// When there is no memory for the root or no address space.
    ///
    /// # Panics
    /// When `key_bytes_max` is above [`KEY_BYTES_MAX`].
    pub fn new(
        key_bytes_max: usize,
        allowance: impl Into<Allowance>,
    ) -> Result<ByteTree, RegionError> {
        assert!(key_bytes_max <= KEY_BYTES_MAX, "keys of {key_bytes_max} bytes");
        let bytes = node_bytes(key_bytes_max);
        let mut slab = Slab::new(bytes, allowance)?;
        let root = slab.allocate()?;
        ByteNode::of_mut(slab.slot_mut(root)).start(0);
        Ok(ByteTree { slab, root, levels: 0, len: 0, key_bytes_max, scratch: Scratch::new(bytes) })
    }

    /// How many keys there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many nodes a look-up visits.
    pub fn height(&self) -> usize {
        self.levels + 1
    }

    /// The longest key the tree takes.
    pub fn key_bytes_max(&self) -> usize {
        self.key_bytes_max
    }

    /// Memory taken from the system.
    pub fn committed_bytes(&self) -> usize {
        self.slab.committed_bytes() + 2 * self.slab.slot_bytes()
    }

    /// Lets the tree take more memory than its limit, or no longer (see `Region::lift_limit`).
    pub fn lift_limit(&mut self, is_lifted: bool) {
        self.slab.lift_limit(is_lifted);
    }

    /// How full the nodes are, in parts of 1.
    pub fn node_fill(&self) -> f64 {
        let used: usize = self.slab.live().map(|id| self.node(id).used_bytes()).sum();
        used as f64 / (self.slab.len() * self.slab.slot_bytes()) as f64
    }

    #[inline(always)]
    pub(super) fn node(&self, id: u32) -> &ByteNode {
        ByteNode::of(self.slab.slot(id))
    }

    #[inline(always)]
    fn node_mut(&mut self, id: u32) -> &mut ByteNode {
        ByteNode::of_mut(self.slab.slot_mut(id))
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<u32> {
        let mut id = self.root;
        for _ in 0..self.levels {
            let node = self.node(id);
            id = node.child(node.child_rank(key));
        }
        let leaf = self.node(id);
        let (at, found) = leaf.search(key);
        found.then(|| leaf.value(at))
    }

    /// The values of several keys, [`ABSENT`] for those that are not there, descending in lock
    /// step, [`LOCK_STEP`] at a time.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn get_many(&self, keys: &[&[u8]], found: &mut [u32]) {
        assert_eq!(keys.len(), found.len());
        for (keys, found) in keys.chunks(LOCK_STEP).zip(found.chunks_mut(LOCK_STEP)) {
            // The places for the results serve as the places of the nodes on the way.
            found.fill(self.root);
            for _ in 0..self.levels {
                for (key, id) in keys.iter().zip(found.iter_mut()) {
                    let node = self.node(*id);
                    *id = node.child(node.child_rank(key));
                    for offset in (0..PREFETCH_BYTES).step_by(64) {
                        self.slab.prefetch(*id, offset);
                    }
                }
            }
            for (key, id) in keys.iter().zip(found.iter_mut()) {
                let leaf = self.node(*id);
                let (at, equal) = leaf.search(key);
                *id = if equal { leaf.value(at) } else { ABSENT };
            }
        }
    }

    /// The leaf for `key`, and how it was reached.
    pub(super) fn descend(&self, key: &[u8], path: &mut Path) -> u32 {
        let mut id = self.root;
        for level in 0..self.levels {
            let node = self.node(id);
            let at = node.child_rank(key);
            (path.nodes[level], path.ranks[level]) = (id, at as u16);
            id = node.child(at);
        }
        id
    }

    /// Inserts a key that is not there yet. `value` must not be [`ABSENT`].
    ///
    /// # Errors
    /// The key is there already or too long, or there is no memory; the tree is unchanged.
    pub fn insert(&mut self, key: &[u8], value: u32) -> Result<(), InsertError> {
        debug_assert_ne!(value, ABSENT);
        if key.len() > self.key_bytes_max {
            return Err(InsertError::KeyTooLong { bytes_max: self.key_bytes_max });
        }
        let mut path = Path::new();
        let id = self.descend(key, &mut path);
        let leaf = self.node_mut(id);
        let (at, found) = leaf.search(key);
        if found {
            return Err(InsertError::Duplicate(leaf.value(at)));
        }
        if !leaf.insert(at, key, value) {
            self.insert_rebuilding(&path, id, at, key, value)?;
        }
        self.len += 1;
        Ok(())
    }

    /// Inserts the keys one after the other.
    ///
    /// # Errors
    /// [`RunError`] names the first key that could not be inserted; those before it are removed
    /// again: all or nothing.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn insert_run(&mut self, keys: &[&[u8]], values: &[u32]) -> Result<(), RunError> {
        assert_eq!(keys.len(), values.len());
        for (index, (key, &value)) in keys.iter().zip(values).enumerate() {
            if let Err(error) = self.insert(key, value) {
                for key in &keys[..index] {
                    let removed = self.remove(key);
                    assert!(removed.is_some(), "a key just inserted is gone");
                }
                return Err(RunError { index, error });
            }
        }
        Ok(())
    }

    /// Inserts where a node has to be tidied up, encoded again with a shorter prefix, or split;
    /// then hands the separator up the path.
    #[inline(never)]
    fn insert_rebuilding(
        &mut self,
        path: &Path,
        leaf: u32,
        at: usize,
        key: &[u8],
        value: u32,
    ) -> Result<(), RegionError> {
        self.slab.reserve(self.levels as u32 + 2)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.insert_up(&mut scratch, path, leaf, at, key, value);
        self.scratch = scratch;
        result
    }

    fn insert_up(
        &mut self,
        scratch: &mut Scratch,
        path: &Path,
        leaf: u32,
        at: usize,
        key: &[u8],
        value: u32,
    ) -> Result<(), RegionError> {
        let mut separator = [0; KEY_BYTES_MAX];
        let trend = Trend::of(at, self.node(leaf).last());
        let Some((mut len, mut right)) =
            self.rebuild(scratch, leaf, (at, key, value), trend, true, &mut separator)?
        else {
            return Ok(());
        };
        for level in (0..self.levels).rev() {
            let (id, at) = (path.nodes[level], path.rank(level));
            if self.node_mut(id).insert(at, &separator[..len], right) {
                return Ok(());
            }
            let key = separator;
            let new = (at, &key[..len], right);
            match self.rebuild(scratch, id, new, trend, false, &mut separator)? {
                Some(up) => (len, right) = up,
                None => return Ok(()),
            }
        }
        let old_root = self.root;
        self.root = self.slab.allocate()?;
        let root = self.node(old_root);
        let empty = copy(root, &mut scratch.front);
        let new = Sequence {
            front: empty,
            front_len: 0,
            middle: Some((&separator[..len], right)),
            back: empty,
            back_from: empty.len(),
        };
        new.build(0..1, old_root, 1, ByteNode::of_mut(self.slab.slot_mut(self.root)));
        self.levels += 1;
        assert!(self.levels < HEIGHT_MAX);
        Ok(())
    }

    /// Writes a node again with one more entry: into one node if that fits, else into two. Then
    /// returns the length of the separator it has written and the new right node.
    fn rebuild(
        &mut self,
        scratch: &mut Scratch,
        id: u32,
        (at, key, value): (usize, &[u8], u32),
        trend: Trend,
        is_leaf: bool,
        separator: &mut [u8; KEY_BYTES_MAX],
    ) -> Result<Option<(usize, u32)>, RegionError> {
        let old = copy(self.node(id), &mut scratch.front);
        let all = Sequence::inserted(old, at, key, value);
        let (total, first_child) = (all.len(), old.child(0));
        if all.bytes(0..total) <= old.node_bytes() {
            all.build(0..total, first_child, at + 1, self.node_mut(id));
            return Ok(None);
        }
        // In an inner node the separator at `left` goes up, and its child becomes the first one of
        // the right node.
        let up = usize::from(!is_leaf);
        let left = split_at(&all, at, trend, up, old.node_bytes());
        let right_from = left + up;
        let right = self.slab.allocate()?;
        // No insertion to continue from (`last` beyond all positions) but in the node that has the
        // new entry.
        let last = |from: usize, to: usize| {
            if (from..to).contains(&at) { at - from + 1 } else { usize::from(u16::MAX) }
        };
        let right_child = if is_leaf { 0 } else { all.value(left) };
        let node = ByteNode::of_mut(self.slab.slot_mut(right));
        all.build(right_from..total, right_child, last(right_from, total), node);
        if left < old.len() || at < old.len() {
            all.build(0..left, first_child, last(0, left), self.node_mut(id));
        }
        let len = if is_leaf {
            let mut before = [0; KEY_BYTES_MAX];
            common_len(all.key(left - 1, &mut before), all.key(left, separator)) + 1
        } else {
            all.key(left, separator).len()
        };
        Ok(Some((len, right)))
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &[u8]) -> Option<u32> {
        let mut path = Path::new();
        let id = self.descend(key, &mut path);
        let leaf = self.node_mut(id);
        let (at, found) = leaf.search(key);
        if !found {
            return None;
        }
        let value = leaf.remove(at);
        let sparse = leaf.len() == 0 || leaf.used_bytes() < leaf.node_bytes() / 3;
        self.len -= 1;
        if sparse {
            let mut scratch = std::mem::take(&mut self.scratch);
            self.shrink(&mut scratch, &path, id);
            self.scratch = scratch;
        }
        Some(value)
    }

    /// The node at the end of `path` is sparse: frees it if it is empty, else merges it with a
    /// neighbour if both fit, and so on towards the root, which shrinks.
    #[inline(never)]
    fn shrink(&mut self, scratch: &mut Scratch, path: &Path, leaf: u32) {
        let mut id = leaf;
        let mut is_empty = self.node(leaf).len() == 0;
        for level in (0..self.levels).rev() {
            let (parent, at) = (path.nodes[level], path.rank(level));
            let is_leaf = level + 1 == self.levels;
            if is_empty {
                self.slab.free(id);
                let node = self.node_mut(parent);
                is_empty = node.len() == 0;
                if !is_empty {
                    node.remove_child(at);
                }
            } else {
                let merged = at > 0 && self.merge(scratch, parent, at - 1, is_leaf)
                    || at < self.node(parent).len() && self.merge(scratch, parent, at, is_leaf);
                if !merged {
                    break;
                }
            }
            id = parent;
            let node = self.node(id);
            if !is_empty && node.used_bytes() >= node.node_bytes() / 3 {
                break;
            }
        }
        while self.levels > 0 && self.node(self.root).len() == 0 {
            let child = self.node(self.root).child(0);
            self.slab.free(self.root);
            self.root = child;
            self.levels -= 1;
        }
    }

    /// Merges child `at` of `parent` and the one to its right into one node if they fit.
    fn merge(&mut self, scratch: &mut Scratch, parent: u32, at: usize, is_leaf: bool) -> bool {
        let node = self.node(parent);
        let (left, right) = (node.child(at), node.child(at + 1));
        let mut buffer = [0; KEY_BYTES_MAX];
        let divider = node.key(at, &mut buffer);
        let front = copy(self.node(left), &mut scratch.front);
        let back = copy(self.node(right), &mut scratch.back);
        let divider = (!is_leaf).then(|| (divider, back.child(0)));
        let all = Sequence::merged(front, divider, back);
        if all.bytes(0..all.len()) > front.node_bytes() {
            return false;
        }
        let last = usize::from(u16::MAX);
        all.build(0..all.len(), front.child(0), last, self.node_mut(left));
        self.slab.free(right);
        self.node_mut(parent).remove(at);
        true
    }
}

/// How many entries of a sequence that does not fit into one node stay in the left one, the new
/// entry being at `at`; `up` entries (0 or 1) go to neither node.
///
/// The place that the trend asks for if both parts fit there, else the middle by bytes. If that
/// does not fit either the new key does not share the prefix of the others, so that it lies before
/// or behind all of them: then it goes alone, and they stay as they are.
fn split_at(all: &Sequence<'_>, at: usize, trend: Trend, up: usize, node_bytes: usize) -> usize {
    let total = all.len();
    let fits =
        |left: usize| all.bytes(0..left) <= node_bytes && all.bytes(left + up..total) <= node_bytes;
    let middle = all.middle_by_bytes().clamp(1, total - 1 - up);
    let wanted = match trend {
        Trend::Random => middle,
        _ => trend.left_count(at, total - up, 1, total - 1 - up),
    };
    if fits(wanted) {
        return wanted;
    }
    if fits(middle) {
        return middle;
    }
    let alone = if at == 0 { 1 - up } else { total - 1 };
    assert!((at == 0 || at == total - 1) && fits(alone), "a full node cannot be split");
    alone
}
