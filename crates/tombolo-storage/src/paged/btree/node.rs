//! One node: sorted entries in the body of a page.
//!
//! ```text
//!   offset  bytes  field
//!   0       2      count    entries
//!   2       1      level    0 in a leaf; a child's is one less than its parent's
//!   3       1      form     0 slotted, 1 packed
//!   4       2      heap     slotted: where the lowest entry begins
//!   6       2      used     slotted: bytes of the entries, those of removed ones not counted
//!   8       2      newest   1 + the position of the entry inserted last, 0 for none: a hint
//!   10      6               0
//!   16             entries (packed), or slots, free space and entries (slotted)
//! ```
//!
//! An entry is its row and deleted mark (8 bytes: bits 0–61 the row, bit 63 the mark), in an inner
//! node the child (4 bytes), and the key. *Packed*: the key is 8 bytes, and the entries are one
//! array in the order of their keys. *Slotted*: a slot of 4 bytes (offset in the body, length) per
//! entry, in the order of the keys; the entries grow downwards from the end.
//!
//! An inner entry is a separator: its child holds the entries from it on, up to the next one. The
//! first separator of a node counts as before everything, whatever it says.
//!
//! Not here: latches, other pages, logging.

use std::cmp::Ordering;

use super::keys::{KeyFormat, PACKED_BYTES, Probe};
use crate::memory::slab::prefetch;
use crate::paged::page::PageId;
use crate::probe::{self, Counter};
use crate::row::RowId;

const COUNT: usize = 0;
const LEVEL: usize = 2;
const FORM: usize = 3;
const HEAP: usize = 4;
const USED: usize = 6;
const NEWEST: usize = 8;
/// Where entries or slots begin.
pub(super) const NODE_BYTES: usize = 16;

const SLOT_BYTES: usize = 4;
/// Bytes of a leaf's entry before its key.
const LEAF_HEAD: usize = 8;
/// Bytes of an inner entry before its key.
const INNER_HEAD: usize = LEAF_HEAD + 4;
const LEAF_PACKED: usize = LEAF_HEAD + PACKED_BYTES;
const INNER_PACKED: usize = INNER_HEAD + PACKED_BYTES;

/// A leaf with fewer entries lies in so few cache lines that its search asks for none ahead. In a
/// larger one each step of a binary search would wait for a line; the seven entries that the first
/// three steps choose from are asked for together.
const ASKED_AHEAD_MIN: usize = 16;

/// The deleted mark.
const DELETED: u64 = 1 << 63;

#[inline(always)]
fn u16_at(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes([bytes[at], bytes[at + 1]]) as usize
}

#[inline(always)]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

#[inline(always)]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// What is new about an entry: its row, where it leads, its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    /// The row, and the deleted mark.
    pub(super) word: u64,
    /// The child, in an inner node.
    pub(super) child: PageId,
    /// The key.
    pub(super) key: &'a [u8],
}

impl<'a> Entry<'a> {
    /// A leaf's entry.
    #[inline(always)]
    pub(super) fn leaf(key: &'a [u8], row: RowId) -> Self {
        Self { word: row.location(), child: PageId(0), key }
    }
}

/// A node to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    body: &'a [u8],
    packed: bool,
}

impl<'a> Node<'a> {
    #[inline(always)]
    pub(super) fn new(body: &'a [u8], packed: bool) -> Self {
        Self { body, packed }
    }

    /// How many entries there are.
    #[inline(always)]
    pub(super) fn count(self) -> usize {
        u16_at(self.body, COUNT)
    }

    /// How far it is to the leaves.
    #[inline(always)]
    pub(super) fn level(self) -> u8 {
        self.body[LEVEL]
    }

    #[inline(always)]
    pub(super) fn is_leaf(self) -> bool {
        self.level() == 0
    }

    #[inline(always)]
    fn head(self) -> usize {
        if self.is_leaf() { LEAF_HEAD } else { INNER_HEAD }
    }

    #[inline(always)]
    fn packed_bytes(self) -> usize {
        self.head() + PACKED_BYTES
    }

    /// All bytes of an entry.
    #[inline(always)]
    fn entry_bytes(self, at: usize) -> &'a [u8] {
        if self.packed {
            // Two known strides: one check each, and no multiplication.
            let entries = &self.body[NODE_BYTES..];
            return match self.is_leaf() {
                true => &entries.as_chunks::<LEAF_PACKED>().0[at],
                false => &entries.as_chunks::<INNER_PACKED>().0[at],
            };
        }
        slot_entry(self.body, u32_at(self.body, NODE_BYTES + at * SLOT_BYTES))
    }

    /// An entry.
    pub(super) fn entry(self, at: usize) -> Entry<'a> {
        let bytes = self.entry_bytes(at);
        let child = if self.is_leaf() { 0 } else { u32_at(bytes, LEAF_HEAD) };
        Entry { word: u64_at(bytes, 0), child: PageId(child), key: &bytes[self.head()..] }
    }

    /// The key of an entry.
    #[inline(always)]
    pub(super) fn key(self, at: usize) -> &'a [u8] {
        &self.entry_bytes(at)[self.head()..]
    }

    /// The row of an entry.
    #[inline(always)]
    pub(super) fn row(self, at: usize) -> u64 {
        u64_at(self.entry_bytes(at), 0) & !DELETED
    }

    /// Whether an entry is marked deleted.
    #[inline(always)]
    pub(super) fn is_deleted(self, at: usize) -> bool {
        u64_at(self.entry_bytes(at), 0) & DELETED != 0
    }

    /// Where an inner entry leads.
    #[inline(always)]
    pub(super) fn child(self, at: usize) -> PageId {
        let entry = match self.packed {
            true => &self.body[NODE_BYTES..].as_chunks::<INNER_PACKED>().0[at],
            false => self.entry_bytes(at),
        };
        PageId(u32_at(entry, LEAF_HEAD))
    }

    /// Bytes entries and slots may take.
    #[inline(always)]
    pub(super) fn capacity(self) -> usize {
        self.body.len() - NODE_BYTES
    }

    /// Bytes entries and slots take.
    #[inline(always)]
    pub(super) fn used(self) -> usize {
        if self.packed {
            self.count() * self.packed_bytes()
        } else {
            self.count() * SLOT_BYTES + u16_at(self.body, USED)
        }
    }

    /// Bytes an entry with a key of `bytes` bytes takes.
    #[inline(always)]
    pub(super) fn space(self, bytes: usize) -> usize {
        self.head() + bytes + if self.packed { 0 } else { SLOT_BYTES }
    }

    /// Whether there is room for another entry with a key of `bytes` bytes.
    #[inline(always)]
    pub(super) fn has_room(self, bytes: usize) -> bool {
        self.used() + self.space(bytes) <= self.capacity()
    }

    /// How empty it is: 0 to 3. A node is looked at for uniting when the number grows, so that one
    /// whose neighbours are full is not looked at each time.
    #[inline(always)]
    pub(super) fn emptiness(self) -> u8 {
        let (used, capacity) = (self.used(), self.capacity());
        match self.count() {
            0 => 3,
            _ if used < capacity / 8 => 2,
            _ if used < capacity / 4 => 1,
            _ => 0,
        }
    }

    /// Whether `at` is next to the entry inserted last: keys come in order there.
    pub(super) fn is_run(self, at: usize) -> bool {
        let newest = u16_at(self.body, NEWEST);
        newest != 0 && (newest == at || newest == at + 1)
    }

    /// Compares the key of an entry with a probe's.
    #[inline(always)]
    pub(super) fn compare<K: KeyFormat>(
        self,
        order: &K::Order,
        at: usize,
        probe: &Probe<'_>,
    ) -> Ordering {
        probe::count(Counter::Compares, 1);
        if self.packed {
            return u64_at(self.key(at), 0).cmp(&probe.packed);
        }
        K::compare(order, self.key(at), probe.key)
    }

    /// The first entry of a leaf that is not before the probe.
    #[inline(always)]
    pub(super) fn search<K: KeyFormat>(self, order: &K::Order, probe: &Probe<'_>) -> usize {
        if self.packed {
            return self.search_packed::<LEAF_PACKED>(0, probe.packed, probe.row);
        }
        self.search_slots::<K, LEAF_HEAD>(0, order, probe.key, probe.row)
    }

    /// The entry of an inner node whose child holds what is at the probe.
    #[inline(always)]
    pub(super) fn child_at<K: KeyFormat>(self, order: &K::Order, probe: &Probe<'_>) -> usize {
        let behind = if self.packed {
            self.search_packed::<INNER_PACKED>(1, probe.packed, probe.inner_row)
        } else {
            self.search_slots::<K, INNER_HEAD>(1, order, probe.key, probe.inner_row)
        };
        behind - 1
    }

    /// The hand-coded search: integers in one array, each step without a branch. Rows are looked at
    /// only where keys are equal.
    #[inline(always)]
    fn search_packed<const BYTES: usize>(self, from: usize, key: u64, row: u64) -> usize {
        let entries = self.body[NODE_BYTES..].as_chunks::<BYTES>().0;
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
        match rest.first() {
            Some(entry) if behind(entry) => from + found + rest.partition_point(behind),
            _ => from + found,
        }
    }

    /// The general search. A function of its own: inlined, it would have too few registers.
    #[inline(never)]
    fn search_slots<K: KeyFormat, const HEAD: usize>(
        self,
        from: usize,
        order: &K::Order,
        key: &[u8],
        row: u64,
    ) -> usize {
        let slots = self.body[NODE_BYTES..].as_chunks::<SLOT_BYTES>().0;
        let slots = &slots[..self.count()];
        // The standard library's search compares in two places, which is too much to inline.
        let (mut low, mut high) = (from, slots.len());
        if HEAD == LEAF_HEAD && slots.len() >= ASKED_AHEAD_MIN {
            let eighth = slots.len() / 8;
            for slot in (1..8).filter_map(|i| slots.get(i * eighth)) {
                prefetch(self.body.as_ptr().wrapping_add(u16_at(slot, 0)));
            }
        }
        while low < high {
            probe::count(Counter::Compares, 1);
            let middle = (low + high) / 2;
            let offset = u16_at(&slots[middle], 0);
            let is_before = match K::compare(order, &self.body[offset + HEAD..], key) {
                Ordering::Less => true,
                Ordering::Equal => u64_at(self.body, offset) & !DELETED < row,
                Ordering::Greater => false,
            };
            if is_before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Where to divide a full node into which an entry is to come at `at`: the first entry of the
    /// right half. Where keys come in order, there, so that what is left behind stays full.
    pub(super) fn division(self, at: usize) -> usize {
        let count = self.count();
        debug_assert!(count >= 2, "a node of {count} entries is not full");
        if self.is_run(at) {
            return at.clamp(1, count - 1);
        }
        let (half, mut bytes) = (self.used() / 2, 0);
        for entry in 0..count - 1 {
            bytes += self.space(self.key(entry).len());
            if bytes >= half {
                return entry + 1;
            }
        }
        count - 1
    }

    /// Whether the header and every entry lie inside the page, in the form the keys have.
    pub(super) fn verify(self) -> Result<(), String> {
        if self.body[FORM] != u8::from(self.packed) {
            return Err("its keys have another form than the index".to_owned());
        }
        let count = self.count();
        if self.used() > self.capacity() {
            return Err(format!("{count} entries do not fit"));
        }
        if self.packed {
            return Ok(());
        }
        let (heap, mut bytes) = (u16_at(self.body, HEAP), 0);
        if heap < NODE_BYTES + count * SLOT_BYTES || heap > self.body.len() {
            return Err(format!("entries begin at {heap}, among its slots or outside"));
        }
        for at in 0..count {
            let (offset, length) = parts_of_slot(u32_at(self.body, NODE_BYTES + at * SLOT_BYTES));
            if offset < heap || offset + length > self.body.len() || length < self.head() {
                return Err(format!("slot {at} leads outside its entries ({offset}, {length})"));
            }
            bytes += length;
        }
        if bytes != u16_at(self.body, USED) {
            let used = u16_at(self.body, USED);
            return Err(format!("its entries take {bytes} bytes, {used} are counted"));
        }
        Ok(())
    }
}

#[inline(always)]
fn parts_of_slot(slot: u32) -> (usize, usize) {
    ((slot & 0xffff) as usize, (slot >> 16) as usize)
}

#[inline(always)]
fn slot_entry(body: &[u8], slot: u32) -> &[u8] {
    let (offset, length) = parts_of_slot(slot);
    &body[offset..offset + length]
}

/// A node to be changed.
#[derive(Debug)]
pub(super) struct NodeMut<'a> {
    body: &'a mut [u8],
    packed: bool,
}

impl<'a> NodeMut<'a> {
    #[inline(always)]
    pub(super) fn new(body: &'a mut [u8], packed: bool) -> Self {
        Self { body, packed }
    }

    #[inline(always)]
    pub(super) fn read(&self) -> Node<'_> {
        Node { body: self.body, packed: self.packed }
    }

    #[inline(always)]
    fn set_u16(&mut self, at: usize, value: usize) {
        debug_assert!(value <= u16::MAX as usize);
        self.body[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }

    /// Makes an empty node of it.
    pub(super) fn clear(&mut self, level: u8) {
        self.body[..NODE_BYTES].fill(0);
        self.body[LEVEL] = level;
        self.body[FORM] = u8::from(self.packed);
        self.set_u16(HEAP, self.body.len());
    }

    /// Inserts an entry at `at`, for which there is room.
    #[inline]
    pub(super) fn insert(&mut self, at: usize, entry: &Entry<'_>) {
        debug_assert!(self.read().has_room(entry.key.len()));
        let (count, head) = (self.read().count(), self.read().head());
        let bytes = head + entry.key.len();
        let start = if self.packed {
            debug_assert_eq!(entry.key.len(), PACKED_BYTES);
            let start = NODE_BYTES + at * bytes;
            self.body.copy_within(start..NODE_BYTES + count * bytes, start + bytes);
            start
        } else {
            self.take_slot(at, count, bytes)
        };
        let target = &mut self.body[start..start + bytes];
        target[..LEAF_HEAD].copy_from_slice(&entry.word.to_le_bytes());
        if head == INNER_HEAD {
            target[LEAF_HEAD..INNER_HEAD].copy_from_slice(&entry.child.0.to_le_bytes());
        }
        target[head..].copy_from_slice(entry.key);
        self.set_u16(COUNT, count + 1);
        self.set_u16(NEWEST, at + 1);
    }

    /// Makes a slot at `at` that leads to `bytes` bytes; returns where those begin.
    #[inline]
    fn take_slot(&mut self, at: usize, count: usize, bytes: usize) -> usize {
        let slots_end = NODE_BYTES + count * SLOT_BYTES;
        if u16_at(self.body, HEAP) < slots_end + SLOT_BYTES + bytes {
            self.compact();
        }
        let start = u16_at(self.body, HEAP) - bytes;
        let slot_at = NODE_BYTES + at * SLOT_BYTES;
        self.body.copy_within(slot_at..slots_end, slot_at + SLOT_BYTES);
        self.set_slot(at, start, bytes);
        self.set_u16(HEAP, start);
        self.set_u16(USED, u16_at(self.body, USED) + bytes);
        start
    }

    #[inline(always)]
    fn set_slot(&mut self, at: usize, offset: usize, bytes: usize) {
        let slot = offset as u32 | (bytes as u32) << 16;
        let slot_at = NODE_BYTES + at * SLOT_BYTES;
        self.body[slot_at..slot_at + SLOT_BYTES].copy_from_slice(&slot.to_le_bytes());
    }

    /// Moves the entries together, in the order of their keys.
    #[cold]
    fn compact(&mut self) {
        let heap = u16_at(self.body, HEAP);
        let old = self.body[heap..].to_vec();
        let mut end = self.body.len();
        for at in 0..self.read().count() {
            let slot = u32_at(self.body, NODE_BYTES + at * SLOT_BYTES);
            let (offset, bytes) = parts_of_slot(slot);
            end -= bytes;
            self.body[end..end + bytes].copy_from_slice(&old[offset - heap..][..bytes]);
            self.set_slot(at, end, bytes);
        }
        self.set_u16(HEAP, end);
    }

    /// Removes the entry at `at`.
    #[inline]
    pub(super) fn remove(&mut self, at: usize) {
        let count = self.read().count();
        let bytes = self.read().entry_bytes(at).len();
        let stride = if self.packed { bytes } else { SLOT_BYTES };
        let start = NODE_BYTES + at * stride;
        self.body.copy_within(start + stride..NODE_BYTES + count * stride, start);
        self.set_u16(COUNT, count - 1);
        self.set_u16(NEWEST, 0);
        if !self.packed {
            self.set_u16(USED, u16_at(self.body, USED) - bytes);
        }
    }

    /// Puts the deleted mark on an entry, or takes it off.
    #[inline]
    pub(super) fn set_deleted(&mut self, at: usize, deleted: bool) {
        let word = self.read().row(at) | if deleted { DELETED } else { 0 };
        let start = if self.packed {
            NODE_BYTES + at * LEAF_PACKED
        } else {
            parts_of_slot(u32_at(self.body, NODE_BYTES + at * SLOT_BYTES)).0
        };
        self.body[start..start + LEAF_HEAD].copy_from_slice(&word.to_le_bytes());
    }

    /// Appends entries of a node of the same level, for which there is room.
    pub(super) fn append(&mut self, from: Node<'_>, entries: std::ops::Range<usize>) {
        if self.packed {
            let (count, bytes) = (self.read().count(), from.packed_bytes());
            let place = |at| NODE_BYTES + at * bytes;
            self.body[place(count)..place(count + entries.len())]
                .copy_from_slice(&from.body[place(entries.start)..place(entries.end)]);
            self.set_u16(COUNT, count + entries.len());
        } else {
            for at in entries {
                self.insert(self.read().count(), &from.entry(at));
            }
        }
        self.set_u16(NEWEST, 0);
    }

    /// Removes all entries from `from` on.
    pub(super) fn truncate(&mut self, from: usize) {
        let gone: usize = match self.packed {
            true => 0,
            false => (from..self.read().count()).map(|at| self.read().entry_bytes(at).len()).sum(),
        };
        self.set_u16(USED, u16_at(self.body, USED) - gone);
        self.set_u16(COUNT, from);
        let newest = u16_at(self.body, NEWEST);
        self.set_u16(NEWEST, if newest <= from { newest } else { 0 });
    }
}
