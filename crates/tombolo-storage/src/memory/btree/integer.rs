//! `IntegerTree`: the B+tree from 64-bit keys to 32-bit values; look-up, insertion, deletion.
//!
//! A descent records the path from the root in fixed arrays, so nothing here allocates but new
//! nodes. A node that is full is split and the separator handed up the path; the nodes that may be
//! needed are reserved before anything changes, so an insertion that fails for lack of memory has
//! changed nothing. A deletion that leaves too little merges with a sibling or shares evenly with
//! it.
//!
//! Where a node splits follows the direction of insertion (`Trend`): ascending and descending runs,
//! however many are interleaved, leave full nodes behind; random insertion splits in the middle.
//! Leaves where ascending runs continue are remembered ([`super::hints`]).
//!
//! Scans are in `integer_scan.rs`, the checker in `integer_check.rs`, the nodes in
//! `integer_node.rs`.
//!
//! Invariants: those `check` walks: keys ascend and lie within the separators around their leaf;
//! all leaves are equally deep; no node but the root is empty, and one below the minimum is marked
//! sparse; every node in the slabs is reached once.
//!
//! Implements LG-S1 (hand-coded search on integer keys) and the tree of LG-S11.

use super::super::budget::Allowance;
use super::super::region::RegionError;
use super::directory::Directory;
use super::hints::{LeafHint, LeafHints};
use super::integer_node::{INNER_MIN, Inner, LEAF_KEYS, LEAF_MIN, Leaf};
use super::nodes::Nodes;
use super::path::{HEIGHT_MAX, Path};
use super::search::bias;
use super::trend::Trend;
use super::{ABSENT, InsertError, LOCK_STEP, RunError};

/// A B+tree from unique 64-bit keys to 32-bit values. See the module's head.
#[derive(Debug)]
pub struct IntegerTree {
    pub(super) leaves: Nodes<Leaf>,
    pub(super) inners: Nodes<Inner>,
    /// A leaf if `levels` is 0, else an inner node.
    pub(super) root: u32,
    /// The number of inner nodes above each leaf.
    pub(super) levels: usize,
    pub(super) len: usize,
    hints: LeafHints,
    pub(super) directory: Directory,
}

impl IntegerTree {
    /// An empty tree whose leaves, and whose inner nodes, may each take so much memory.
    ///
    /// # Errors
    /// When there is no memory for the root or no address space.
    pub fn new(allowance: impl Into<Allowance>) -> Result<IntegerTree, RegionError> {
        let allowance = allowance.into();
        let mut leaves: Nodes<Leaf> = Nodes::new(allowance.clone())?;
        let inners = Nodes::new(allowance.clone())?;
        let directory = Directory::new(allowance)?;
        let root = leaves.allocate()?;
        leaves.get_mut(root).clear();
        let hints = LeafHints::default();
        Ok(IntegerTree { leaves, inners, root, levels: 0, len: 0, hints, directory })
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

    /// Memory taken from the system.
    pub fn committed_bytes(&self) -> usize {
        self.leaves.committed_bytes()
            + self.inners.committed_bytes()
            + self.hints.committed_bytes()
            + self.directory.committed_bytes()
    }

    /// Lets the tree take more memory than its limit, or no longer (see `Region::lift_limit`).
    pub fn lift_limit(&mut self, is_lifted: bool) {
        self.leaves.lift_limit(is_lifted);
        self.inners.lift_limit(is_lifted);
    }

    /// How full the leaves are, in parts of 1.
    pub fn leaf_fill(&self) -> f64 {
        self.len as f64 / (self.leaves.len() * LEAF_KEYS) as f64
    }

    /// Makes room for `more` further keys beforehand, as if they arrived in random order.
    ///
    /// # Errors
    /// When the memory is not to be had; the tree is unchanged.
    pub fn reserve(&mut self, more: usize) -> Result<(), RegionError> {
        let leaves = more.div_ceil(LEAF_KEYS * 2 / 3);
        let count = |nodes: usize| u32::try_from(nodes).unwrap_or(u32::MAX);
        self.leaves.reserve(count(leaves))?;
        self.inners.reserve(count(leaves / 6 + HEIGHT_MAX))
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: u64) -> Option<u32> {
        match self.directory.find(key) {
            Some(value) => Some(value),
            None => self.get_from_root(key),
        }
    }

    /// The value of a key, as the tree has it.
    pub(super) fn get_from_root(&self, key: u64) -> Option<u32> {
        self.leaves.get(self.way_down(bias(key))).find(bias(key))
    }

    /// The value of a key, if that is known without a descent.
    #[inline(always)]
    pub fn known(&self, key: u64) -> Option<u32> {
        self.directory.find(key)
    }

    /// The same as `get`; the next look-up of the key, or of one of its neighbours, may be faster.
    #[inline(always)]
    pub fn find(&mut self, key: u64) -> Option<u32> {
        match self.directory.find(key) {
            Some(value) => Some(value),
            None => self.find_from_root(key),
        }
    }

    #[inline(never)]
    fn find_from_root(&mut self, key: u64) -> Option<u32> {
        let leaf = self.leaves.get(self.way_down(bias(key)));
        let value = leaf.find(bias(key))?;
        self.directory.enter(leaf, self.len);
        Some(value)
    }

    /// The leaf for `key`.
    #[inline(always)]
    fn way_down(&self, key: i64) -> u32 {
        let mut id = self.root;
        for _ in 0..self.levels {
            let node = self.inners.get(id);
            id = node.child(node.rank(key));
        }
        id
    }

    /// Asks for what a look-up of `key` will wait for: its place in the directory, or its leaf, which
    /// costs the way there.
    #[inline]
    pub fn prefetch_get(&self, key: u64) {
        if !self.directory.prefetch(key) {
            self.leaves.prefetch(self.way_down(bias(key)));
        }
    }

    /// Asks for the leaf that `key` will be inserted into. Costs the way there, unless it belongs
    /// to a run.
    #[inline]
    pub fn prefetch_insert(&self, key: u64) {
        let key = bias(key);
        let id = match self.hints.find(key) {
            Some(hint) => hint.leaf,
            None => self.way_down(key),
        };
        self.leaves.prefetch(id);
    }

    /// The values of several keys, [`ABSENT`] for those that are not there. They descend in lock
    /// step, [`LOCK_STEP`] at a time: while one waits for its next node, the others' nodes are on
    /// their way too. Else as [`IntegerTree::find`].
    ///
    /// # Panics
    /// When the slices differ in length.
    #[inline]
    pub fn find_many(&mut self, keys: &[u64], found: &mut [u32]) {
        assert_eq!(keys.len(), found.len());
        for (keys, found) in keys.chunks(LOCK_STEP).zip(found.chunks_mut(LOCK_STEP)) {
            self.find_group(keys, found);
        }
    }

    fn find_group(&mut self, keys: &[u64], found: &mut [u32]) {
        // Biased once, so that every level broadcasts straight from memory.
        let mut biased = [0; LOCK_STEP];
        for (biased, &key) in biased.iter_mut().zip(keys) {
            *biased = bias(key);
        }
        // The places for the results serve as the places of the nodes on the way.
        found.fill(self.root);
        for level in 0..self.levels {
            for (&key, id) in biased.iter().zip(found.iter_mut()) {
                let node = self.inners.get(*id);
                *id = node.child(node.rank(key));
                if level + 1 < self.levels {
                    self.inners.prefetch(*id);
                } else {
                    self.leaves.prefetch(*id);
                }
            }
        }
        for (&key, id) in keys.iter().zip(found) {
            let leaf = self.leaves.get(*id);
            let value = leaf.find(bias(key));
            if value.is_some() && self.directory.find(key).is_none() {
                self.directory.enter(leaf, self.len);
            }
            *id = value.unwrap_or(ABSENT);
        }
    }

    /// Inserts a key that is not there yet. `value` must not be [`ABSENT`].
    ///
    /// # Errors
    /// The key is there already, or no memory; the tree is unchanged.
    #[inline]
    pub fn insert(&mut self, key: u64, value: u32) -> Result<(), InsertError> {
        debug_assert_ne!(value, ABSENT);
        let key = bias(key);
        if let Some(hint) = self.hints.find(key) {
            let leaf = self.leaves.peek(hint.leaf);
            if leaf.version == hint.version && !leaf.is_full() {
                let leaf = self.leaves.get_mut(hint.leaf);
                return Self::insert_in(leaf, &mut self.len, key, value);
            }
        }
        self.insert_from_root(key, value)
    }

    fn insert_from_root(&mut self, key: i64, value: u32) -> Result<(), InsertError> {
        let mut path = Path::new();
        let id = self.descend(key, &mut path);
        let leaf = self.leaves.get_mut(id);
        if !leaf.is_full() {
            return Self::insert_in(leaf, &mut self.len, key, value);
        }
        let at = leaf.rank(key);
        if let Some(existing) = leaf.value_at(at, key) {
            return Err(InsertError::Duplicate(existing));
        }
        let trend = leaf.trend(at);
        self.insert_split(&path, id, key, value, trend)?;
        Ok(())
    }

    /// Inserts into a leaf that has room.
    #[inline(always)]
    fn insert_in(
        leaf: &mut Leaf,
        len: &mut usize,
        key: i64,
        value: u32,
    ) -> Result<(), InsertError> {
        let at = leaf.rank(key);
        if let Some(existing) = leaf.value_at(at, key) {
            return Err(InsertError::Duplicate(existing));
        }
        leaf.insert(at, key, value);
        *len += 1;
        Ok(())
    }

    /// The leaf for `key`, and how it was reached.
    #[inline(always)]
    pub(super) fn descend(&self, key: i64, path: &mut Path) -> u32 {
        let mut id = self.root;
        for ((node_id, rank), _) in
            path.nodes.iter_mut().zip(path.ranks.iter_mut()).zip(0..self.levels)
        {
            let node = self.inners.get(id);
            let at = node.rank(key);
            (*node_id, *rank) = (id, at as u16);
            id = node.child(at);
        }
        id
    }

    /// What bounds the keys of the leaf at the end of `path`: `low < key <= high`.
    fn bounds(&self, path: &Path) -> (i64, i64) {
        let (mut low, mut high) = (None, None);
        for level in (0..self.levels).rev() {
            let (node, at) = (self.inners.get(path.nodes[level]), path.rank(level));
            if at > 0 {
                low = low.or(Some(node.keys[at - 1]));
            }
            if at < node.len() {
                high = high.or(Some(node.keys[at]));
            }
            if low.is_some() && high.is_some() {
                break;
            }
        }
        (low.unwrap_or(i64::MIN), high.unwrap_or(i64::MAX))
    }

    /// Inserts a key that is not there into the full leaf at the end of `path`, by splitting it.
    #[inline(never)]
    fn insert_split(
        &mut self,
        path: &Path,
        left: u32,
        key: i64,
        value: u32,
        trend: Trend,
    ) -> Result<(), RegionError> {
        self.leaves.reserve(1)?;
        self.inners.reserve(self.levels as u32 + 1)?;
        let right = self.leaves.allocate()?;
        let (left_leaf, right_leaf) = self.leaves.pair_mut(left, right);
        let at = left_leaf.rank(key);
        if at == LEAF_KEYS && left_leaf.is_gapless() {
            self.directory.enter(left_leaf, self.len);
        }
        let separator = left_leaf.split(right_leaf, at, key, value, trend);
        if trend == Trend::Ascending {
            self.remember(path, left, separator, right, key);
        }
        self.len += 1;
        self.insert_above(path, separator, right, trend)
    }

    /// Remembers the one of the two leaves of an ascending split that holds `key`. The nodes of
    /// `path` have not changed yet.
    fn remember(&mut self, path: &Path, left: u32, separator: i64, right: u32, key: i64) {
        let (low, high) = self.bounds(path);
        let (leaf, low, high) =
            if key <= separator { (left, low, separator) } else { (right, separator, high) };
        let version = self.leaves.get(leaf).version;
        self.hints.remember(key, LeafHint { low, high, leaf, version });
    }

    /// Hands a new node and the separator to its left up the path. The nodes needed are reserved.
    fn insert_above(
        &mut self,
        path: &Path,
        mut separator: i64,
        mut right: u32,
        trend: Trend,
    ) -> Result<(), RegionError> {
        for level in (0..self.levels).rev() {
            let (id, at) = (path.nodes[level], path.rank(level));
            let node = self.inners.get_mut(id);
            if !node.is_full() {
                node.insert(at, separator, right);
                return Ok(());
            }
            let new = self.inners.allocate()?;
            let (node, new_node) = self.inners.pair_mut(id, new);
            separator = node.split(new_node, at, separator, right, trend);
            right = new;
        }
        let root = self.inners.allocate()?;
        self.inners.get_mut(root).start(self.root, separator, right);
        self.root = root;
        self.levels += 1;
        assert!(self.levels < HEIGHT_MAX);
        Ok(())
    }

    /// Inserts a run of ascending keys, such as the lines of an order: descends once and fills leaf
    /// by leaf. Keys out of order are inserted all the same, one descent each.
    ///
    /// # Errors
    /// [`RunError`] names the first key that is there already, or for which there is no memory.
    /// What was inserted before it is removed again (insertion runs ahead, undoing is the rare
    /// case): all or nothing.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn insert_run(&mut self, keys: &[u64], values: &[u32]) -> Result<(), RunError> {
        assert_eq!(keys.len(), values.len());
        let mut done = 0;
        while done < keys.len() {
            match self.insert_stretch(&keys[done..], &values[done..]) {
                Ok(more) => done += more,
                Err(error) => {
                    for &key in &keys[..done] {
                        let removed = self.remove(key);
                        assert!(removed.is_some(), "a key just inserted is gone");
                    }
                    return Err(RunError { index: done, error });
                }
            }
        }
        Ok(())
    }

    /// Inserts the first of `keys` and those after it that go to the same place of the same leaf;
    /// returns how many.
    #[inline]
    fn insert_stretch(&mut self, keys: &[u64], values: &[u32]) -> Result<usize, InsertError> {
        let key = bias(keys[0]);
        let (id, high) = match self.hints.find(key) {
            Some(hint) if self.leaves.peek(hint.leaf).version == hint.version => {
                (hint.leaf, hint.high)
            }
            _ => {
                let mut path = Path::new();
                let id = self.descend(key, &mut path);
                (id, self.bounds(&path).1)
            }
        };
        let leaf = self.leaves.get_mut(id);
        let at = leaf.rank(key);
        if let Some(existing) = leaf.value_at(at, key) {
            return Err(InsertError::Duplicate(existing));
        }
        let room = LEAF_KEYS - leaf.len();
        if room == 0 {
            return self.insert_split_ascending(key, values[0]);
        }
        // Up to the next key of the leaf, or to the end of its range.
        let last = if at < leaf.len() { leaf.keys[at] - 1 } else { high };
        let mut stretch = 1;
        while stretch < keys.len().min(room)
            && keys[stretch] > keys[stretch - 1]
            && bias(keys[stretch]) <= last
        {
            stretch += 1;
        }
        leaf.insert_block(at, &keys[..stretch], &values[..stretch]);
        self.len += stretch;
        Ok(stretch)
    }

    /// Splits the full leaf of `key` where the run continues; the rest of the run follows by the
    /// hint that leaves.
    #[inline(never)]
    fn insert_split_ascending(&mut self, key: i64, value: u32) -> Result<usize, InsertError> {
        let mut path = Path::new();
        let id = self.descend(key, &mut path);
        self.insert_split(&path, id, key, value, Trend::Ascending)?;
        Ok(1)
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: u64) -> Option<u32> {
        self.directory.forget(key);
        let key = bias(key);
        let mut path = Path::new();
        let id = self.descend(key, &mut path);
        let leaf = self.leaves.get_mut(id);
        let at = leaf.rank(key);
        leaf.value_at(at, key)?;
        let value = leaf.remove(at);
        self.len -= 1;
        if leaf.len() < LEAF_MIN && self.levels > 0 {
            self.balance_leaf(&path);
        }
        Some(value)
    }

    /// The leaf at the end of `path` holds too little: merges it with a sibling or shares evenly
    /// with it.
    #[inline(never)]
    fn balance_leaf(&mut self, path: &Path) {
        let level = self.levels - 1;
        let (parent, left_at) = (path.nodes[level], path.rank(level).saturating_sub(1));
        let node = self.inners.get_mut(parent);
        let (left, right) = (node.child(left_at), node.child(left_at + 1));
        let (left_leaf, right_leaf) = self.leaves.pair_mut(left, right);
        if let Some(separator) = left_leaf.balance(right_leaf) {
            node.keys[left_at] = separator;
            return;
        }
        self.leaves.free(right);
        node.remove(left_at);
        self.balance_above(path);
    }

    /// The lowest inner node of `path` has lost a child: balances it if need be, and so on towards
    /// the root, which shrinks.
    fn balance_above(&mut self, path: &Path) {
        for level in (1..self.levels).rev() {
            if self.inners.get(path.nodes[level]).len() >= INNER_MIN {
                return;
            }
            let (parent, left_at) = (path.nodes[level - 1], path.rank(level - 1).saturating_sub(1));
            let node = self.inners.get(parent);
            let (left, right) = (node.child(left_at), node.child(left_at + 1));
            let separator = node.keys[left_at];
            let (left_node, right_node) = self.inners.pair_mut(left, right);
            if let Some(separator) = left_node.balance(right_node, separator) {
                self.inners.get_mut(parent).keys[left_at] = separator;
                return;
            }
            self.inners.free(right);
            self.inners.get_mut(parent).remove(left_at);
        }
        let root = self.inners.get(self.root);
        if root.len() == 0 {
            let child = root.child(0);
            self.inners.free(self.root);
            self.root = child;
            self.levels -= 1;
        }
    }
}
