//! `LeafHints`: the leaves where ascending runs continue, so that the next key of a run finds its
//! leaf without a descent.
//!
//! A table with one place per group of neighbouring keys (those that agree above their low 16
//! bits): the fifty districts of a small TPC-C, each appending at its own position in the middle of
//! the key space, keep a place each. A leaf enters when an ascending run has split it off. Every
//! use is checked against the bounds kept here and the leaf's version, so a stale or lost hint
//! costs a descent and never an error.
//!
//! Not here: hints that a caller keeps. The table is allocated by the first run; trees without runs
//! have none.

/// A leaf and the range of keys that belong in it: `low < key <= high`, biased.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafHint {
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) leaf: u32,
    pub(super) version: u32,
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct LeafHints {
    places: Vec<LeafHint>,
}

const PLACES_LOG2: u32 = 9;
const GROUP_BITS: u32 = 16;

/// Matches no key.
const NOTHING: LeafHint = LeafHint { low: i64::MAX, high: i64::MIN, leaf: 0, version: 0 };

impl LeafHints {
    /// The hint whose bounds include `key`. Its version has to be compared with the leaf's before
    /// use.
    #[inline(always)]
    pub(super) fn find(&self, key: i64) -> Option<LeafHint> {
        let hint = self.places.get(place(key))?;
        (hint.low < key && key <= hint.high).then_some(*hint)
    }

    /// Remembers a leaf for the keys near `key`.
    pub(super) fn remember(&mut self, key: i64, hint: LeafHint) {
        if key <= hint.low || hint.high < key {
            return; // Only the smallest key of all, whose leaf is bounded by nothing below it.
        }
        if self.places.is_empty() {
            // Without memory for it the tree still works, only slower.
            if self.places.try_reserve_exact(1 << PLACES_LOG2).is_err() {
                return;
            }
            self.places.resize(1 << PLACES_LOG2, NOTHING);
        }
        self.places[place(key)] = hint;
    }

    pub(super) fn committed_bytes(&self) -> usize {
        self.places.capacity() * size_of::<LeafHint>()
    }
}

/// Multiplicative hashing of the group of `key`.
#[inline(always)]
fn place(key: i64) -> usize {
    let group = key as u64 >> GROUP_BITS;
    (group.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - PLACES_LOG2)) as usize
}
