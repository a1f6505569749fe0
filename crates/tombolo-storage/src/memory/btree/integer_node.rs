//! The nodes of the integer tree: layout, search, insertion, split, merge.
//!
//! | leaf, 256 bytes | | inner node, 256 bytes | |
//! |---|---|---|---|
//! | 0 | 20 keys, biased, ascending, padded with `PAD` | 0 | 20 separators, biased, ascending, padded |
//! | 160 | 20 values | 160 | 21 children |
//! | 240 | version | 244 | count of separators |
//! | 244 | count, last, sparse | 246 | sparse |
//!
//! Why four cache lines and not two (10 keys): the search of 20 keys takes 19 instructions a level
//! against 15 but needs 5 levels for 500,000 keys instead of 6 or 7, and the lines of a node come
//! together while levels come one after the other. Nanoseconds per operation by `index_probe`, two
//! lines / four lines, least of six (2,000,000 keys: two) alternating runs on a loaded machine,
//! keys loaded in order (packed) or at random:
//!
//! | operation | 500,000 packed | 500,000 random | 2,000,000 packed | 2,000,000 random |
//! |---|---|---|---|---|
//! | get | 52 / 33 | 92 / 59 | 189 / 151 | 336 / 222 |
//! | get, each after the other | 521 / 402 | 338 / 272 | 1,527 / 1,217 | 1,112 / 955 |
//! | get_many of 12 | 26 / 13 | 33 / 18 | 77 / 76 | 85 / 98 |
//! | get and row | | 178 / 134 | | 406 / 387 |
//! | get_many of 12 and rows | | 66 / 60 | | 142 / 149 |
//!
//! Instructions per get, 500,000 keys: 113 / 118 packed, 128 / 118 random; per get_many 147 / 141
//! packed. Inner nodes of four lines over leaves of two, and the reverse, were not better than
//! either beyond the noise.
//!
//! A separator is an upper bound of what is to its left: `child[i]` holds keys `separator[i-1] <
//! key <= separator[i]`. It need not be a key of the tree.
//!
//! `version` changes whenever the leaf's key range does and when the leaf is freed; it survives in
//! the freed slot. A leaf id with its version is therefore a hint that can be checked. `last` is
//! one more than the position of the last insertion, which distinguishes ascending and descending
//! runs from random insertion when the leaf splits. `sparse` marks a node that a run's split may
//! have left below the minimum; the next redistribution clears it.

use super::nodes::Plain;
use super::search::{PAD, bias, rank};
use super::shift::{shift_down, shift_up};
use super::trend::Trend;

/// Entries of a leaf.
pub(super) const LEAF_KEYS: usize = 20;
/// Separators of an inner node.
pub(super) const INNER_KEYS: usize = 20;
/// A node that is neither the root nor sparse has at least this many entries: a little less than
/// half, so that a node which has just been split does not merge at the next deletion.
pub(super) const LEAF_MIN: usize = LEAF_KEYS / 2 - 1;
/// The same for the separators of inner nodes.
pub(super) const INNER_MIN: usize = INNER_KEYS / 2 - 1;

/// A leaf. See the module's head.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Leaf {
    pub(super) keys: [i64; LEAF_KEYS],
    pub(super) values: [u32; LEAF_KEYS],
    pub(super) version: u32,
    pub(super) count: u8,
    last: u8,
    pub(super) sparse: u8,
}

// SAFETY: integers only; the size is a multiple of 64 (asserted below).
unsafe impl Plain for Leaf {}

/// An inner node. See the module's head.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Inner {
    pub(super) keys: [i64; INNER_KEYS],
    pub(super) children: [u32; INNER_KEYS + 1],
    pub(super) count: u16,
    pub(super) sparse: u16,
}

// SAFETY: integers only; the size is a multiple of 64 (asserted below).
unsafe impl Plain for Inner {}

const _: () = assert!(size_of::<Leaf>() == 256 && size_of::<Inner>() == 256);

impl Leaf {
    /// Makes the leaf empty; its version stays.
    pub(super) fn clear(&mut self) {
        self.keys = [PAD; LEAF_KEYS];
        self.count = 0;
        self.last = 0;
        self.sparse = 0;
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.len() == LEAF_KEYS
    }

    /// The position of the first key not smaller than `key`.
    #[inline(always)]
    pub(super) fn rank(&self, key: i64) -> usize {
        rank(&self.keys, key)
    }

    /// The value of `key`, which belongs at position `at`.
    #[inline(always)]
    pub(super) fn value_at(&self, at: usize, key: i64) -> Option<u32> {
        (at < self.len() && self.keys[at] == key).then(|| self.values[at])
    }

    /// The value of `key`.
    #[inline(always)]
    pub(super) fn find(&self, key: i64) -> Option<u32> {
        self.value_at(self.rank(key), key)
    }

    /// Whether its keys are close together: at most four times as far apart as they need to be.
    #[inline(always)]
    pub(super) fn is_dense(&self) -> bool {
        let len = self.len();
        let last = self.keys[len.clamp(1, LEAF_KEYS) - 1];
        (last.wrapping_sub(self.keys[0]) as u64) < 4 * len as u64
    }

    /// Whether the leaf is full of keys without gaps.
    pub(super) fn is_gapless(&self) -> bool {
        let span = self.keys[LEAF_KEYS - 1].wrapping_sub(self.keys[0]);
        self.is_full() && span == LEAF_KEYS as i64 - 1
    }

    /// The direction of the insertion at `at`, seen from the one before it in this leaf.
    #[inline(always)]
    pub(super) fn trend(&self, at: usize) -> Trend {
        Trend::of(at, self.last as usize)
    }

    /// Inserts where there is room.
    #[inline(always)]
    pub(super) fn insert(&mut self, at: usize, key: i64, value: u32) {
        let len = self.len();
        assert!(at <= len && len < LEAF_KEYS);
        if at < len {
            shift_up(&mut self.keys, at);
            shift_up(&mut self.values, at);
        }
        self.keys[at] = key;
        self.values[at] = value;
        self.count += 1;
        self.last = at as u8 + 1;
    }

    /// Inserts a stretch of ascending unbiased keys that all belong at `at`.
    #[inline]
    pub(super) fn insert_block(&mut self, at: usize, keys: &[u64], values: &[u32]) {
        let (len, more) = (self.len(), keys.len());
        assert!(at <= len && more <= LEAF_KEYS - len && more == values.len());
        if at < len {
            self.keys.copy_within(at..len, at + more);
            self.values.copy_within(at..len, at + more);
        }
        for (place, &key) in self.keys[at..at + more].iter_mut().zip(keys) {
            *place = bias(key);
        }
        for (place, &value) in self.values[at..at + more].iter_mut().zip(values) {
            *place = value;
        }
        self.count += more as u8;
        self.last = (at + more) as u8;
    }

    pub(super) fn remove(&mut self, at: usize) -> u32 {
        let len = self.len();
        let value = self.values[at];
        shift_down(&mut self.keys, at);
        shift_down(&mut self.values, at);
        self.keys[len - 1] = PAD;
        self.count -= 1;
        self.last -= u8::from(self.last as usize > at);
        value
    }

    /// Splits this full leaf into itself and `right` while inserting; returns the separator.
    pub(super) fn split(
        &mut self,
        right: &mut Leaf,
        at: usize,
        key: i64,
        value: u32,
        trend: Trend,
    ) -> i64 {
        const TOTAL: usize = LEAF_KEYS + 1;
        assert!(self.is_full());
        let left_count = trend.left_count(at, TOTAL, 1, LEAF_KEYS);
        self.version = self.version.wrapping_add(1);
        right.clear();
        if left_count == LEAF_KEYS && at == LEAF_KEYS {
            right.insert(0, key, value);
            right.sparse = 1;
            return trend.separator(self.keys[LEAF_KEYS - 1], key);
        }
        let is_left = at < left_count;
        let kept = left_count - usize::from(is_left);
        right.fill(&self.keys[kept..], &self.values[kept..]);
        self.keys[kept..].fill(PAD);
        self.count = kept as u8;
        // No insertion to continue from: no trend matches.
        self.last = u8::MAX;
        if is_left {
            self.insert(at, key, value);
        } else {
            right.insert(at - left_count, key, value);
        }
        self.sparse = u8::from(self.len() < LEAF_MIN);
        right.sparse = u8::from(right.len() < LEAF_MIN);
        trend.separator(self.keys[left_count - 1], right.keys[0])
    }

    /// Replaces the content.
    fn fill(&mut self, keys: &[i64], values: &[u32]) {
        self.keys = [PAD; LEAF_KEYS];
        self.keys[..keys.len()].copy_from_slice(keys);
        self.values[..values.len()].copy_from_slice(values);
        self.count = keys.len() as u8;
        // No insertion to continue from: neither trend matches.
        self.last = u8::MAX;
        self.sparse = u8::from(keys.len() < LEAF_MIN);
    }

    /// Merges `right` into this leaf if both fit (then `None`), else shares the entries evenly and
    /// returns the new separator.
    pub(super) fn balance(&mut self, right: &mut Leaf) -> Option<i64> {
        const TWO: usize = 2 * LEAF_KEYS;
        let (left_len, right_len) = (self.len(), right.len());
        let total = left_len + right_len;
        let (mut keys, mut values) = ([0; TWO], [0; TWO]);
        keys[..left_len].copy_from_slice(&self.keys[..left_len]);
        values[..left_len].copy_from_slice(&self.values[..left_len]);
        keys[left_len..total].copy_from_slice(&right.keys[..right_len]);
        values[left_len..total].copy_from_slice(&right.values[..right_len]);
        self.version = self.version.wrapping_add(1);
        right.version = right.version.wrapping_add(1);
        if total <= LEAF_KEYS {
            self.fill(&keys[..total], &values[..total]);
            return None;
        }
        let left_count = total / 2;
        self.fill(&keys[..left_count], &values[..left_count]);
        right.fill(&keys[left_count..total], &values[left_count..total]);
        Some(keys[left_count - 1])
    }
}

impl Inner {
    /// Makes the node the parent of two children.
    pub(super) fn start(&mut self, left: u32, separator: i64, right: u32) {
        self.keys = [PAD; INNER_KEYS];
        self.keys[0] = separator;
        self.children[0] = left;
        self.children[1] = right;
        self.count = 1;
        self.sparse = 0;
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.len() == INNER_KEYS
    }

    /// Which child holds `key`.
    #[inline(always)]
    pub(super) fn rank(&self, key: i64) -> usize {
        rank(&self.keys, key)
    }

    /// The child at `at`.
    #[inline(always)]
    pub(super) fn child(&self, at: usize) -> u32 {
        debug_assert!(at <= self.len());
        // SAFETY: a rank is at most `INNER_KEYS`, the number of keys compared, and there is one
        // child more.
        unsafe { *self.children.get_unchecked(at) }
    }

    /// Child `at` was split: puts the separator and the new right sibling next to it, where there
    /// is room.
    pub(super) fn insert(&mut self, at: usize, separator: i64, right: u32) {
        let len = self.len();
        assert!(at <= len && len < INNER_KEYS);
        shift_up(&mut self.keys, at);
        shift_up(&mut self.children, at + 1);
        self.keys[at] = separator;
        self.children[at + 1] = right;
        self.count += 1;
    }

    /// Takes out a separator and the child to its right.
    pub(super) fn remove(&mut self, at: usize) {
        let len = self.len();
        shift_down(&mut self.keys, at);
        self.keys[len - 1] = PAD;
        shift_down(&mut self.children, at + 1);
        self.count -= 1;
    }

    /// As [`Inner::insert`] where there is no room: splits into this node and `right`; returns the
    /// separator between them.
    pub(super) fn split(
        &mut self,
        right: &mut Inner,
        at: usize,
        separator: i64,
        child: u32,
        trend: Trend,
    ) -> i64 {
        const KEYS: usize = INNER_KEYS + 1;
        const CHILDREN: usize = INNER_KEYS + 2;
        assert!(self.is_full());
        let (mut keys, mut children) = ([separator; KEYS], [child; CHILDREN]);
        keys[..at].copy_from_slice(&self.keys[..at]);
        keys[at + 1..].copy_from_slice(&self.keys[at..]);
        children[..at + 1].copy_from_slice(&self.children[..at + 1]);
        children[at + 2..].copy_from_slice(&self.children[at + 1..]);
        // A descending run continues in the left half of the child that was split.
        let new = if trend == Trend::Descending { at } else { at + 1 };
        let left = trend.left_count(new, CHILDREN, 2, INNER_KEYS + 1);
        self.fill(&keys[..left - 1], &children[..left]);
        right.fill(&keys[left..], &children[left..]);
        keys[left - 1]
    }

    fn fill(&mut self, keys: &[i64], children: &[u32]) {
        assert!(!keys.is_empty() && children.len() == keys.len() + 1);
        self.keys = [PAD; INNER_KEYS];
        self.keys[..keys.len()].copy_from_slice(keys);
        self.children[..children.len()].copy_from_slice(children);
        self.count = keys.len() as u16;
        self.sparse = u16::from(keys.len() < INNER_MIN);
    }

    /// Merges `right`, which `separator` divides from this node, into it if both fit (then `None`),
    /// else shares the children evenly and returns the new separator.
    pub(super) fn balance(&mut self, right: &mut Inner, separator: i64) -> Option<i64> {
        const TWO: usize = 2 * INNER_KEYS + 2;
        let (left_len, right_len) = (self.len(), right.len());
        let total = left_len + 1 + right_len;
        let (mut keys, mut children) = ([separator; TWO], [0; TWO]);
        keys[..left_len].copy_from_slice(&self.keys[..left_len]);
        keys[left_len + 1..total].copy_from_slice(&right.keys[..right_len]);
        children[..left_len + 1].copy_from_slice(&self.children[..left_len + 1]);
        children[left_len + 1..total + 1].copy_from_slice(&right.children[..right_len + 1]);
        if total <= INNER_KEYS {
            self.fill(&keys[..total], &children[..total + 1]);
            return None;
        }
        let left = total / 2;
        self.fill(&keys[..left], &children[..left + 1]);
        right.fill(&keys[left + 1..total], &children[left + 1..total + 1]);
        Some(keys[left])
    }
}
