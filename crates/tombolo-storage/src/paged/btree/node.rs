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
//!   10      1      unit     slotted: heads are in units of 2^unit
//!   11      5               0
//!   16             packed: entries
//!   16      16     base     slotted: what heads are counted from
//!   32             slotted: slots, free space and entries
//! ```
//!
//! An entry is its row and deleted mark (8 bytes: bits 0–61 the row, bit 63 the mark), in an inner
//! node the child (4 bytes), and the key. *Packed*: the key is 8 bytes, and the entries are one
//! array in the order of their keys. *Slotted*: a slot of 10 bytes (offset in the body, length, head
//! of the key) per entry, in the order of the keys; the entries grow downwards from the end. A
//! slotted inner entry is child and key; its row stands behind them if it is not 0, which bit 15 of
//! the length says.
//!
//! A *head* is an integer: of two keys the smaller one has a smaller head, or an equal one. So a search compares
//! heads, which are adjacent, and looks at keys only where heads are equal. A head is the number that
//! the first sixteen bytes of the key's normalised form make, less the node's base, divided by the node's
//! unit; 0 below the base, 48 ones above what fits. So what the keys of a node have in common
//! takes none of its bits. When a key comes that does not fit, base and unit are chosen anew, and all heads with
//! them, so that the keys for which the node has room will fit. Where a key consists of a few whole numbers and
//! the unit drops none of its bits, keys with equal heads are equal.
//!
//! An inner entry is a separator: its child holds the entries from it on, up to the next one. The
//! first separator of a node counts as before everything, whatever it says.
//!
//! Not here: searching (`search.rs`) and changing a node (`change.rs`), latches, other pages, logging.

use std::cmp::Ordering;

use super::keys::{KeyFormat, PACKED_BYTES, Probe, StoredKeys};
use crate::paged::page::PageId;
use crate::probe::{self, Counter};
use crate::row::RowId;

pub(super) const COUNT: usize = 0;
pub(super) const LEVEL: usize = 2;
pub(super) const FORM: usize = 3;
pub(super) const HEAP: usize = 4;
pub(super) const USED: usize = 6;
pub(super) const NEWEST: usize = 8;
pub(super) const UNIT: usize = 10;
/// Where packed entries begin.
pub(super) const ENTRIES: usize = 16;
pub(super) const BASE: usize = 16;
/// Where slots begin.
pub(super) const SLOTS: usize = BASE + size_of::<u128>();

pub(super) const SLOT_BYTES: usize = 10;
/// Where a slot has its key's head, behind offset and length.
pub(super) const SLOT_HEAD: usize = 4;
/// In a slot's length: the entry ends with a row.
pub(super) const HAS_ROW: usize = 1 << 15;
pub(super) const HEAD_BITS: u32 = 48;
/// The head of a key that lies above all that fit.
const HEAD_MAX: u64 = (1 << HEAD_BITS) - 1;
/// Bytes of a row and its mark: what stands before a leaf's key, and before a packed child.
pub(super) const ROW_BYTES: usize = 8;
/// Bytes of a child: what stands before the key of a slotted inner entry.
pub(super) const CHILD_BYTES: usize = 4;
pub(super) const LEAF_PACKED: usize = ROW_BYTES + PACKED_BYTES;
pub(super) const INNER_PACKED: usize = ROW_BYTES + CHILD_BYTES + PACKED_BYTES;

/// The deleted mark.
pub(super) const DELETED: u64 = 1 << 63;

#[inline(always)]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> usize {
    let mut word = [0; 2];
    word.copy_from_slice(&bytes[at..at + 2]);
    u16::from_le_bytes(word) as usize
}

#[inline(always)]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

#[inline(always)]
fn u128_at(bytes: &[u8], at: usize) -> u128 {
    let mut word = [0; 16];
    word.copy_from_slice(&bytes[at..at + 16]);
    u128::from_le_bytes(word)
}

#[inline(always)]
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

pub(super) type Slot = [u8; SLOT_BYTES];

/// The head in a slot, above 16 other bits.
#[inline(always)]
pub(super) fn head_word(slot: &Slot) -> u64 {
    u64_at(slot, SLOT_BYTES - size_of::<u64>())
}

/// The head in a slot.
#[inline(always)]
pub(super) fn head_in(slot: &Slot) -> u64 {
    head_word(slot) >> (u64::BITS - HEAD_BITS)
}

/// Where the entry of a slot begins, and how long it is.
#[inline(always)]
pub(super) fn place_in(slot: &Slot) -> (usize, usize) {
    (u16_at(slot, 0), u16_at(slot, 2) & !HAS_ROW)
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
pub(super) struct Node<'a, K: KeyFormat> {
    pub(super) body: &'a [u8],
    pub(super) keys: &'a StoredKeys<K>,
}

impl<'a, K: KeyFormat> Node<'a, K> {
    #[inline(always)]
    pub(super) fn new(body: &'a [u8], keys: &'a StoredKeys<K>) -> Self {
        Self { body, keys }
    }

    #[inline(always)]
    pub(super) fn is_packed(self) -> bool {
        self.keys.packed
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

    /// Bytes of an entry before its key.
    #[inline(always)]
    pub(super) fn prefix(self) -> usize {
        match (self.is_leaf(), self.is_packed()) {
            (true, _) => ROW_BYTES,
            (false, true) => ROW_BYTES + CHILD_BYTES,
            (false, false) => CHILD_BYTES,
        }
    }

    #[inline(always)]
    pub(super) fn packed_bytes(self) -> usize {
        self.prefix() + PACKED_BYTES
    }

    /// Bytes of a slotted entry behind its key.
    #[inline(always)]
    fn suffix(self, at: usize) -> usize {
        let has_row = !self.is_packed() && u16_at(&self.slots()[at], 2) & HAS_ROW != 0;
        if has_row { ROW_BYTES } else { 0 }
    }

    /// All bytes of an entry.
    #[inline(always)]
    pub(super) fn entry_bytes(self, at: usize) -> &'a [u8] {
        if self.is_packed() {
            // Two known strides: one check each, and no multiplication.
            let entries = &self.body[ENTRIES..];
            return match self.is_leaf() {
                true => &entries.as_chunks::<LEAF_PACKED>().0[at],
                false => &entries.as_chunks::<INNER_PACKED>().0[at],
            };
        }
        let (offset, bytes) = place_in(&self.slots()[at]);
        &self.body[offset..offset + bytes]
    }

    /// The slots of all entries.
    #[inline(always)]
    pub(super) fn slots(self) -> &'a [Slot] {
        &self.body[SLOTS..].as_chunks::<SLOT_BYTES>().0[..self.count()]
    }

    /// An entry.
    pub(super) fn entry(self, at: usize) -> Entry<'a> {
        let child = if self.is_leaf() { PageId(0) } else { self.child(at) };
        Entry { word: self.word(at), child, key: self.key(at) }
    }

    /// The key of an entry.
    #[inline(always)]
    pub(super) fn key(self, at: usize) -> &'a [u8] {
        let entry = self.entry_bytes(at);
        match self.is_leaf() {
            true => &entry[ROW_BYTES..],
            false => &entry[self.prefix()..entry.len() - self.suffix(at)],
        }
    }

    /// The row of an entry and its mark.
    #[inline(always)]
    fn word(self, at: usize) -> u64 {
        let entry = self.entry_bytes(at);
        match (self.is_leaf() || self.is_packed(), self.suffix(at)) {
            (true, _) => u64_at(entry, 0),
            (false, 0) => 0,
            (false, suffix) => u64_at(entry, entry.len() - suffix),
        }
    }

    /// The row of an entry.
    #[inline(always)]
    pub(super) fn row(self, at: usize) -> u64 {
        self.word(at) & !DELETED
    }

    /// Whether an entry is marked deleted.
    #[inline(always)]
    pub(super) fn is_deleted(self, at: usize) -> bool {
        self.word(at) & DELETED != 0
    }

    /// Where an inner entry leads.
    #[inline(always)]
    pub(super) fn child(self, at: usize) -> PageId {
        let child = match self.is_packed() {
            true => u32_at(&self.body[ENTRIES..].as_chunks::<INNER_PACKED>().0[at], ROW_BYTES),
            false => u32_at(self.entry_bytes(at), 0),
        };
        PageId(child)
    }

    /// Bytes entries and slots may take.
    #[inline(always)]
    pub(super) fn capacity(self) -> usize {
        self.body.len() - if self.is_packed() { ENTRIES } else { SLOTS }
    }

    /// Bytes entries and slots take.
    #[inline(always)]
    pub(super) fn used(self) -> usize {
        if self.is_packed() {
            self.count() * self.packed_bytes()
        } else {
            self.count() * SLOT_BYTES + u16_at(self.body, USED)
        }
    }

    /// Bytes an entry with a key of `bytes` bytes takes at most.
    #[inline(always)]
    pub(super) fn space(self, bytes: usize) -> usize {
        bytes
            + match (self.is_leaf(), self.is_packed()) {
                (_, true) => self.prefix(),
                (true, false) => ROW_BYTES + SLOT_BYTES,
                (false, false) => ROW_BYTES + CHILD_BYTES + SLOT_BYTES,
            }
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

    /// At most what the key of an inner entry begins with; 0 where its head does not say.
    #[inline(always)]
    pub(super) fn leading_floor(self, at: usize) -> u128 {
        if self.is_packed() {
            return u64_at(self.key(at), 0).into();
        }
        match head_in(&self.slots()[at]) {
            0 => 0,
            head => {
                let distance = u128::from(head).wrapping_shl(self.body[UNIT].into());
                u128_at(self.body, BASE).wrapping_add(distance)
            }
        }
    }

    /// What the key of an entry begins with, as of a probe.
    pub(super) fn leading(self, at: usize) -> u128 {
        match self.is_packed() {
            true => u64_at(self.key(at), 0).into(),
            false => self.keys.leading(self.key(at)),
        }
    }

    /// Where a key that begins with `leading` lies, counted from the base in units; `None` outside.
    #[inline(always)]
    pub(super) fn distance(self, leading: u128) -> Option<u64> {
        let distance = leading.checked_sub(u128_at(self.body, BASE))?;
        let distance = distance.wrapping_shr(self.body[UNIT].into());
        (distance >> HEAD_BITS == 0).then_some(distance as u64)
    }

    /// The head of a key that begins with `leading`.
    #[inline(always)]
    pub(super) fn head_of(self, leading: u128) -> u64 {
        match self.distance(leading) {
            Some(distance) => distance,
            None if leading < u128_at(self.body, BASE) => 0,
            None => HEAD_MAX,
        }
    }

    /// Compares the key of an entry with a probe's, by heads if that is enough.
    #[inline(always)]
    pub(super) fn compare(self, at: usize, probe: &Probe<'_>) -> Ordering {
        if self.is_packed() {
            probe::count(Counter::Compares, 1);
            return u128::from(u64_at(self.key(at), 0)).cmp(&probe.leading);
        }
        self.compare_slot(&self.slots()[at], self.prefix(), self.head_of(probe.leading), probe)
    }

    /// Compares the key in a slot with the probe's, whose head is `head`.
    #[inline(always)]
    pub(super) fn compare_slot(
        self,
        slot: &Slot,
        prefix: usize,
        head: u64,
        probe: &Probe<'_>,
    ) -> Ordering {
        probe::count(Counter::Compares, 1);
        let order = head_in(slot).cmp(&head);
        if order != Ordering::Equal || self.decides(head, probe) {
            return order;
        }
        self.keys.compare(&self.body[place_in(slot).0 + prefix..], probe.key)
    }

    /// Whether only the probe's key can have `head`, which is its head. The least and the greatest head do not
    /// decide: keys below and above what fits have them, too.
    #[inline(always)]
    pub(super) fn decides(self, head: u64, probe: &Probe<'_>) -> bool {
        self.body[UNIT] < probe.decided_below && head != 0 && head != HEAD_MAX
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
        if self.body[FORM] != u8::from(self.is_packed()) {
            return Err("its keys have another form than the index".to_owned());
        }
        let count = self.count();
        if self.used() > self.capacity() {
            return Err(format!("{count} entries do not fit"));
        }
        if self.is_packed() {
            return Ok(());
        }
        let (heap, mut bytes) = (u16_at(self.body, HEAP), 0);
        if heap < SLOTS + count * SLOT_BYTES || heap > self.body.len() {
            return Err(format!("entries begin at {heap}, among its slots or outside"));
        }
        for (at, slot) in self.slots().iter().enumerate() {
            let (offset, length) = place_in(slot);
            let least = self.prefix() + self.suffix(at);
            if offset < heap || offset + length > self.body.len() || length < least {
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

    /// Whether an entry's head is that of its key, which is whole.
    pub(super) fn verify_head(self, at: usize) -> Result<(), String> {
        let expected = || self.head_of(self.keys.leading(self.key(at)));
        match self.is_packed() || head_in(&self.slots()[at]) == expected() {
            true => Ok(()),
            false => Err("its head is that of another key".to_owned()),
        }
    }

    /// The first entry that has a head.
    #[inline(always)]
    pub(super) fn first_head(self) -> usize {
        usize::from(!self.is_leaf())
    }

    /// The unit for heads of these keys and, `room` being the logarithm of how many more the node
    /// has room for, of as many more as far apart.
    pub(super) fn unit_for(self, [low, high]: [u128; 2], room: u32) -> u32 {
        let bits = u128::BITS - (high - low).leading_zeros() + room;
        bits.saturating_sub(HEAD_BITS).min(u128::BITS - HEAD_BITS)
    }

    /// What the first and the last key with a head begin with.
    pub(super) fn ends(self) -> Option<[u128; 2]> {
        let (first, last) = (self.first_head(), self.count().checked_sub(1)?);
        let of = |at| self.keys.leading(self.key(at));
        (first <= last).then(|| [of(first), of(last)])
    }
}
