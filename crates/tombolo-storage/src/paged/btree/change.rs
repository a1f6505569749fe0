//! Changing one node: entries in and out, their marks, the heads of their keys.

use super::keys::{KeyFormat, PACKED_BYTES, StoredKeys};
use super::node::{
    BASE, CHILD_BYTES, COUNT, DELETED, ENTRIES, Entry, FORM, HAS_ROW, HEAD_BITS, HEAP, LEAF_PACKED,
    LEVEL, NEWEST, Node, ROW_BYTES, SLOT_BYTES, SLOT_HEAD, SLOTS, UNIT, USED, place_in, u16_at,
};
use super::run::Extent;

/// A node to be changed.
#[derive(Debug)]
pub(super) struct NodeMut<'a, K: KeyFormat> {
    body: &'a mut [u8],
    keys: &'a StoredKeys<K>,
}

impl<'a, K: KeyFormat> NodeMut<'a, K> {
    #[inline(always)]
    pub(super) fn new(body: &'a mut [u8], keys: &'a StoredKeys<K>) -> Self {
        Self { body, keys }
    }

    #[inline(always)]
    pub(super) fn read(&self) -> Node<'_, K> {
        Node::new(self.body, self.keys)
    }

    #[inline(always)]
    fn set_u16(&mut self, at: usize, value: usize) {
        debug_assert!(value <= u16::MAX as usize);
        self.body[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }

    /// Makes an empty node of it.
    pub(super) fn clear(&mut self, level: u8) {
        self.body[..SLOTS].fill(0);
        self.body[LEVEL] = level;
        self.body[FORM] = u8::from(self.keys.packed);
        self.set_u16(HEAP, self.body.len());
    }

    /// Inserts an entry at `at`, for which there is room; its key begins with `leading`.
    #[inline]
    pub(super) fn insert(&mut self, at: usize, entry: &Entry<'_>, leading: u128) {
        self.put(at, entry);
        if !self.keys.packed && at >= self.read().first_head() {
            match self.read().distance(leading) {
                Some(head) => self.set_head(at, head),
                None => self.count_heads_anew(at),
            }
        }
    }

    /// Inserts entries of a leaf one behind the other, from `at` on, for which there is room, with what their keys
    /// begin with, which ascends. Leaves the bytes that are left by one insertion for each, as a restart makes them.
    #[inline(always)]
    pub(super) fn insert_run<'k>(
        &mut self,
        at: usize,
        Extent { entries, key_bytes, leading }: Extent,
        run: impl Iterator<Item = (Entry<'k>, u128)>,
    ) {
        let (node, bytes) = (self.read(), key_bytes + entries * ROW_BYTES);
        let (count, heap) = (node.count(), u16_at(self.body, HEAP));
        let (slots_at, slots_end) = (SLOTS + at * SLOT_BYTES, SLOTS + count * SLOT_BYTES);
        if self.keys.packed
            || heap < slots_end + entries * SLOT_BYTES + bytes
            || leading.iter().any(|leading| node.distance(*leading).is_none())
        {
            // Entries move together or heads are counted anew at one of them.
            return run.enumerate().for_each(|(i, (entry, leading))| {
                self.insert(at + i, &entry, leading);
            });
        }
        self.body.copy_within(slots_at..slots_end, slots_at + entries * SLOT_BYTES);
        let mut start = heap;
        for (i, (entry, leading)) in run.enumerate() {
            let length = ROW_BYTES + entry.key.len();
            start -= length;
            self.set_word(start, entry.word);
            self.body[start + ROW_BYTES..start + length].copy_from_slice(entry.key);
            self.set_place(at + i, start, length);
            self.set_head(at + i, self.read().distance(leading).unwrap_or_default());
        }
        self.set_u16(HEAP, start);
        self.set_u16(USED, u16_at(self.body, USED) + bytes);
        self.set_u16(COUNT, count + entries);
        self.set_u16(NEWEST, at + entries);
    }

    /// Inserts an entry without a head.
    #[inline(always)]
    fn put(&mut self, at: usize, entry: &Entry<'_>) {
        let (count, prefix) = (self.read().count(), self.read().prefix());
        let is_inner = !self.read().is_leaf();
        let bytes = prefix + entry.key.len();
        let start = if self.keys.packed {
            debug_assert!(self.read().has_room(entry.key.len()));
            debug_assert_eq!(entry.key.len(), PACKED_BYTES);
            let start = ENTRIES + at * bytes;
            self.body.copy_within(start..ENTRIES + count * bytes, start + bytes);
            start
        } else if is_inner && entry.word != 0 {
            let start = self.take_slot(at, count, bytes + ROW_BYTES, HAS_ROW);
            self.set_word(start + bytes, entry.word);
            start
        } else {
            self.take_slot(at, count, bytes, 0)
        };
        if !is_inner || self.keys.packed {
            self.set_word(start, entry.word);
        }
        let target = &mut self.body[start..start + bytes];
        if is_inner {
            target[prefix - CHILD_BYTES..prefix].copy_from_slice(&entry.child.0.to_le_bytes());
        }
        target[prefix..].copy_from_slice(entry.key);
        self.set_u16(COUNT, count + 1);
        self.set_u16(NEWEST, at + 1);
    }

    /// Writes a row and its mark.
    #[inline(always)]
    fn set_word(&mut self, start: usize, word: u64) {
        self.body[start..start + ROW_BYTES].copy_from_slice(&word.to_le_bytes());
    }

    /// Makes a slot at `at` that leads to `bytes` bytes; returns where those begin. `mark` is what
    /// it says besides their length.
    #[inline]
    fn take_slot(&mut self, at: usize, count: usize, bytes: usize, mark: usize) -> usize {
        let slots_end = SLOTS + count * SLOT_BYTES;
        debug_assert!(self.read().used() + SLOT_BYTES + bytes <= self.read().capacity());
        if u16_at(self.body, HEAP) < slots_end + SLOT_BYTES + bytes {
            self.compact();
        }
        let start = u16_at(self.body, HEAP) - bytes;
        let slot_at = SLOTS + at * SLOT_BYTES;
        self.body.copy_within(slot_at..slots_end, slot_at + SLOT_BYTES);
        self.body[slot_at..slot_at + SLOT_BYTES].fill(0);
        self.set_place(at, start, bytes | mark);
        self.set_u16(HEAP, start);
        self.set_u16(USED, u16_at(self.body, USED) + bytes);
        start
    }

    /// Makes a slot lead to an entry; `length` has the mark in it.
    #[inline(always)]
    fn set_place(&mut self, at: usize, offset: usize, length: usize) {
        let place = offset as u32 | (length as u32) << 16;
        let slot_at = SLOTS + at * SLOT_BYTES;
        self.body[slot_at..slot_at + SLOT_HEAD].copy_from_slice(&place.to_le_bytes());
    }

    #[inline(always)]
    fn set_head(&mut self, at: usize, head: u64) {
        let slot_at = SLOTS + at * SLOT_BYTES;
        let head = head << (u64::BITS - HEAD_BITS);
        self.body[slot_at + SLOT_HEAD..slot_at + SLOT_BYTES]
            .copy_from_slice(&head.to_le_bytes()[size_of::<u64>() + SLOT_HEAD - SLOT_BYTES..]);
    }

    /// Chooses base and unit for the keys that are there, and counts all heads from it. The room
    /// beyond is on the side of the entry at `newest`: more are likely there.
    #[cold]
    #[inline(never)]
    fn count_heads_anew(&mut self, newest: usize) {
        let node = self.read();
        let Some([low, high]) = node.ends() else { return };
        let room = (node.capacity() / node.used()).ilog2() + 1;
        let unit = node.unit_for([low, high], room);
        let is_first = newest <= node.first_head() && low < high;
        let base = match is_first {
            true => high.saturating_sub(u128::MAX >> (u128::BITS - HEAD_BITS - unit)),
            false => low,
        };
        self.body[UNIT] = unit as u8;
        self.body[BASE..SLOTS].copy_from_slice(&base.to_le_bytes());
        for at in self.read().first_head()..self.read().count() {
            let node = self.read();
            let head = node.head_of(self.keys.leading(node.key(at)));
            self.set_head(at, head);
        }
    }

    /// Moves the entries together, in the order of their keys.
    #[cold]
    fn compact(&mut self) {
        let heap = u16_at(self.body, HEAP);
        let old = self.body[heap..].to_vec();
        let mut end = self.body.len();
        for at in 0..self.read().count() {
            let slot = &self.read().slots()[at];
            let ((offset, bytes), mark) = (place_in(slot), u16_at(slot, 2) & HAS_ROW);
            end -= bytes;
            self.body[end..end + bytes].copy_from_slice(&old[offset - heap..][..bytes]);
            self.set_place(at, end, bytes | mark);
        }
        self.set_u16(HEAP, end);
    }

    /// Removes the entry at `at`.
    #[inline]
    pub(super) fn remove(&mut self, at: usize) {
        let count = self.read().count();
        let bytes = self.read().entry_bytes(at).len();
        let (first, stride) = match self.keys.packed {
            true => (ENTRIES, bytes),
            false => (SLOTS, SLOT_BYTES),
        };
        let start = first + at * stride;
        self.body.copy_within(start + stride..first + count * stride, start);
        self.set_u16(COUNT, count - 1);
        self.set_u16(NEWEST, 0);
        if !self.keys.packed {
            self.set_u16(USED, u16_at(self.body, USED) - bytes);
        }
    }

    /// Puts the deleted mark on an entry, or takes it off.
    #[inline]
    pub(super) fn set_deleted(&mut self, at: usize, deleted: bool) {
        let word = self.read().row(at) | if deleted { DELETED } else { 0 };
        let start = match self.keys.packed {
            true => ENTRIES + at * LEAF_PACKED,
            false => place_in(&self.read().slots()[at]).0,
        };
        self.set_word(start, word);
    }

    /// Appends entries of a node of the same level, for which there is room.
    pub(super) fn append(&mut self, from: Node<'_, K>, entries: std::ops::Range<usize>) {
        if self.keys.packed {
            let (count, bytes) = (self.read().count(), from.packed_bytes());
            let place = |at| ENTRIES + at * bytes;
            self.body[place(count)..place(count + entries.len())]
                .copy_from_slice(&from.body[place(entries.start)..place(entries.end)]);
            self.set_u16(COUNT, count + entries.len());
        } else {
            for at in entries {
                self.put(self.read().count(), &from.entry(at));
            }
            self.count_heads_anew(self.read().count());
        }
        self.set_u16(NEWEST, 0);
    }

    /// Removes all entries from `from` on.
    pub(super) fn truncate(&mut self, from: usize) {
        let gone: usize = match self.keys.packed {
            true => 0,
            false => (from..self.read().count()).map(|at| self.read().entry_bytes(at).len()).sum(),
        };
        self.set_u16(USED, u16_at(self.body, USED) - gone);
        self.set_u16(COUNT, from);
        let newest = u16_at(self.body, NEWEST);
        self.set_u16(NEWEST, if newest <= from { newest } else { 0 });
        self.count_heads_if_finer();
    }

    /// Counts the heads anew where keys have gone, if more of their bits enter then.
    fn count_heads_if_finer(&mut self) {
        let node = self.read();
        if !self.keys.packed
            && let Some(ends) = node.ends()
            && node.unit_for(ends, 2) < self.body[UNIT].into()
        {
            self.count_heads_anew(node.count());
        }
    }
}
