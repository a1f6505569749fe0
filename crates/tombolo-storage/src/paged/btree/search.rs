//! Searching one node: for the entry at a probe, for the child that holds it, for the place behind the last insertion.
//!
//! A search compares heads, and looks at keys only where heads are equal and do not identify the key. Not here:
//! what a node looks like (`node.rs`), the way down a tree (`read.rs`).

use std::cmp::Ordering;

use super::keys::{KeyFormat, PACKED_BYTES, Probe, StoredKeys};
use super::node::{
    CHILD_BYTES, DELETED, ENTRIES, HAS_ROW, HEAD_BITS, INNER_PACKED, LEAF_PACKED, NEWEST, Node,
    ROW_BYTES, Slot, head_in, head_word, place_in, u16_at, u64_at,
};
use crate::memory::slab::prefetch;
use crate::probe::{self, Counter};

/// A leaf with fewer entries lies in so few cache lines that its search asks for none ahead. In a
/// larger one each step of a binary search would wait for a line; the seven entries, or slots, that
/// the first three steps choose from are asked for together.
const ASKED_AHEAD_MIN: usize = 16;

/// Where a search ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// The first entry that is not before the probe.
    pub(super) at: usize,
    /// Whether it has the probe's key, if that is a whole one.
    pub(super) is_equal: bool,
}

/// Where a head above the first and not above the last of so many slots would be if all were equally far apart.
#[inline(always)]
fn expected_at([first, last]: [u64; 2], head: u64, slots: usize) -> usize {
    // Heads have 48 bits and a node fewer than 2^16 slots.
    ((head - first) * (slots - 1) as u64 / (last - first)) as usize
}

/// The first slot whose head is not below `head`: looked for from where it would be if the heads between the first
/// and the last were equally far apart. So keys that are numbers without gaps take two steps, and no keys take more
/// than twice the steps of halving.
#[inline(always)]
fn first_from(slots: &[Slot], head: u64, is_below: impl Fn(&Slot) -> bool) -> usize {
    let ([first, .., last] | [first @ last]) = slots else { return 0 };
    let (first, last) = (head_in(first), head_in(last));
    probe::count(Counter::Compares, 2);
    if head <= first {
        return 0;
    }
    if head > last {
        return slots.len();
    }
    let (below, above) = slots.split_at(expected_at([first, last], head, slots.len()));
    match is_below(&above[0]) {
        true => below.len() + 1 + count_near(&above[1..], is_below),
        false => below.len() - count_near_end(below, is_below),
    }
}

/// How many slots at the beginning are `before`, which the others are not: in few steps where they are few.
#[inline(always)]
pub(super) fn count_near<T>(slots: &[T], before: impl Fn(&T) -> bool) -> usize {
    let (mut low, mut high) = (0, 1);
    while high <= slots.len() && before(&slots[high - 1]) {
        (low, high) = (high, high * 2 + 1);
    }
    let rest = &slots[low..slots.len().min(high - 1)];
    low + rest.partition_point(before)
}

/// How many slots at the end are not `before`, which the others are.
#[inline(always)]
pub(super) fn count_near_end<T>(slots: &[T], before: impl Fn(&T) -> bool) -> usize {
    let (mut low, mut high) = (0, 1);
    while high <= slots.len() && !before(&slots[slots.len() - high]) {
        (low, high) = (high, high * 2 + 1);
    }
    let rest = &slots[slots.len() - slots.len().min(high - 1)..slots.len() - low];
    low + rest.len() - rest.partition_point(before)
}

impl<K: KeyFormat> StoredKeys<K> {
    /// The first entry of a leaf that is not before a probe without a row. The probe comes in parts, so that callers
    /// need not have it in memory.
    #[inline(never)]
    fn search_slowly(&self, body: &[u8], leading: u128, key: &[u8], decided_below: u8) -> Found {
        let probe = Probe { key, leading, row: 0, inner_row: 0, decided_below };
        Node::new(body, self).search_slots::<true>(0, &probe, 0)
    }
}

impl<K: KeyFormat> Node<'_, K> {
    /// The first entry of a leaf that is not before the probe.
    #[inline(always)]
    pub(super) fn search(self, probe: &Probe<'_>) -> Found {
        if self.is_packed() {
            return self.search_packed::<LEAF_PACKED>(0, probe.leading as u64, probe.row);
        }
        match probe.row {
            0 => self.search_first(probe),
            row => self.search_slots::<true>(0, probe, row),
        }
    }

    /// The same for a key without a row. Where heads identify keys, and the keys of a leaf are numbers without gaps,
    /// the entry is the first that is looked at: this takes no other code and few registers.
    #[inline(always)]
    fn search_first(self, probe: &Probe<'_>) -> Found {
        let (slots, head) = (self.slots(), self.head_of(probe.leading));
        if let [first, .., last] = slots
            && self.decides(head, probe)
        {
            let (first, last) = (head_in(first), head_in(last));
            if first < head && head <= last {
                probe::count(Counter::Compares, 4);
                let at = expected_at([first, last], head, slots.len());
                if head_in(&slots[at]) == head && at > 0 && head_in(&slots[at - 1]) < head {
                    return Found { at, is_equal: true };
                }
            }
        }
        self.keys.search_slowly(self.body, probe.leading, probe.key, probe.decided_below)
    }

    /// The entry of an inner node whose child holds what is at the probe.
    #[inline(always)]
    pub(super) fn child_at(self, probe: &Probe<'_>) -> usize {
        let behind = if self.is_packed() {
            self.search_packed::<INNER_PACKED>(1, probe.leading as u64, probe.inner_row)
        } else {
            self.search_slots::<false>(1, probe, probe.inner_row)
        };
        behind.at - 1
    }

    /// The hand-coded search: integers in one array, each step without a branch. Rows are looked at
    /// only where keys are equal.
    #[inline(always)]
    fn search_packed<const BYTES: usize>(self, from: usize, key: u64, row: u64) -> Found {
        let entries = self.body[ENTRIES..].as_chunks::<BYTES>().0;
        let entries = &entries[from.min(self.count())..self.count()];
        if BYTES == LEAF_PACKED && entries.len() >= ASKED_AHEAD_MIN {
            let eighth = entries.len() / 8;
            (1..8).for_each(|i| prefetch(entries[i * eighth].as_ptr()));
        }
        let key_of = |entry: &[u8; BYTES]| u64_at(entry, BYTES - PACKED_BYTES);
        let found = entries.partition_point(|entry| {
            probe::count(Counter::Compares, 1);
            key_of(entry) < key
        });
        let rest = &entries[found..];
        let behind =
            |entry: &[u8; BYTES]| key_of(entry) == key && u64_at(entry, 0) & !DELETED < row;
        let at = match rest.first() {
            Some(entry) if behind(entry) => found + rest.partition_point(behind),
            _ => found,
        };
        let is_equal = entries.get(at).is_some_and(|entry| key_of(entry) == key);
        Found { at: from + at, is_equal }
    }

    /// The general search: heads in one array, keys only where heads are equal. A function of its
    /// own: inlined, it would have too few registers.
    #[inline(never)]
    fn search_slots<const LEAF: bool>(self, from: usize, probe: &Probe<'_>, row: u64) -> Found {
        let slots = self.slots();
        let slots = &slots[from.min(slots.len())..];
        let head = self.head_of(probe.leading);
        let word = head << (u64::BITS - HEAD_BITS);
        let is_below = |slot: &Slot| {
            probe::count(Counter::Compares, 1);
            // What stands below the head is of no consequence.
            head_word(slot) < word
        };
        // Separators of an inner node are not as evenly spread as the keys of a leaf.
        let found =
            if LEAF { first_from(slots, head, is_below) } else { slots.partition_point(is_below) };
        let prefix = if LEAF { ROW_BYTES } else { CHILD_BYTES };
        let compare = |slot: &Slot| self.compare_slot(slot, prefix, head, probe);
        let is_row_before = |slot: &Slot| {
            if row == 0 {
                return false;
            }
            let (offset, bytes) = place_in(slot);
            let word = match (LEAF, u16_at(slot, 2) & HAS_ROW) {
                (true, _) => u64_at(self.body, offset),
                (false, 0) => 0,
                (false, _) => u64_at(self.body, offset + bytes - ROW_BYTES),
            };
            word & !DELETED < row
        };
        let is_before = |slot: &Slot| match compare(slot) {
            Ordering::Less => true,
            Ordering::Equal => is_row_before(slot),
            Ordering::Greater => false,
        };
        let Some((first, rest)) = slots[found..].split_first() else {
            return Found { at: from + found, is_equal: false };
        };
        let order = compare(first);
        if order == Ordering::Greater || order == Ordering::Equal && !is_row_before(first) {
            return Found { at: from + found, is_equal: order == Ordering::Equal };
        }
        // Of several with one head, or of one key.
        let behind = count_near(rest, is_before);
        let is_equal = rest.get(behind).is_some_and(|slot| compare(slot) == Ordering::Equal);
        Found { at: from + found + 1 + behind, is_equal }
    }

    /// Where the probe's entry belongs, if that is right behind the entry inserted last and no entry has its key;
    /// `is_within` says, if need be, that the probe lies before the leaf's end.
    #[inline(always)]
    pub(super) fn place_in_run(
        self,
        probe: &Probe<'_>,
        is_within: impl FnOnce() -> bool,
    ) -> Option<usize> {
        let (at, count) = (u16_at(self.body, NEWEST), self.count());
        let is_between = at > 0
            && at <= count
            && self.compare(at - 1, probe) == Ordering::Less
            && if at < count { self.compare(at, probe) == Ordering::Greater } else { is_within() };
        is_between.then_some(at)
    }

    /// Where the probe's entry belongs, if that is between two entries of which the second has another key.
    #[inline(always)]
    pub(super) fn place_between(self, probe: &Probe<'_>) -> Option<usize> {
        let Found { at, is_equal } = self.search(probe);
        (at > 0 && at < self.count() && !is_equal).then_some(at)
    }
}
