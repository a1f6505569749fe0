//! The node of the byte tree: layout, search, insertion, and rebuilding from a sequence of entries.
//!
//! | offset | |
//! |---|---|
//! | 0 | header, 16 bytes (`Header`) |
//! | 16 | heads: the first 4 bytes of each suffix, big-endian, zero-padded |
//! | 16 + 4n | entries: value or child, offset and length of the suffix (`Entry`) |
//! | … | free space |
//! | 16 + heap | the suffixes beyond their heads, in no order, and the prefix |
//!
//! The keys of a node share a prefix that is stored once; what follows it is the *suffix*. A search
//! compares the prefix, then finds the head among the heads (a few cache lines), and looks at the
//! heap only where heads are equal. The prefix is that of the keys that are there, not of the
//! range: a key that does not share it lies before or behind all others, and makes the node be
//! encoded again with a shorter one if that fits.
//!
//! In an inner node entry `i` holds a separator and the child to its right, the header the child
//! left of all. A separator is a lower bound of what is to its right: `separator[i-1] <= key <
//! separator[i]` in child `i`. It is the shortest string that divides its neighbours.
//!
//! Invariants: those of `check` in `byte_check.rs`; heads and entries never reach into the heap.

use std::cmp::Ordering;
use std::ops::Range;

/// The longest key a byte tree can be made for.
pub const KEY_BYTES_MAX: usize = 1024;

/// Room for any key.
pub(super) type KeyBuffer = [u8; KEY_BYTES_MAX];

const HEADER_BYTES: usize = size_of::<Header>();
/// What an entry takes in addition to the bytes beyond its head.
const ENTRY_BYTES: usize = HEAD_BYTES + size_of::<Entry>();
const HEAD_BYTES: usize = size_of::<Head>();
/// The first bytes of a suffix, big-endian and zero-padded, so that they order as numbers. Four,
/// not eight: where keys are dense little is left behind the prefix, and eight took 40 % more
/// memory for 10 % fewer instructions.
type Head = u32;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Header {
    count: u16,
    /// Where the heap begins in the body.
    heap: u16,
    /// Bytes of the heap that nothing refers to any more.
    garbage: u16,
    prefix_offset: u16,
    prefix_len: u16,
    /// One more than the position of the last insertion.
    last: u16,
    /// The child left of all separators.
    first_child: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Entry {
    value: u32,
    offset: u16,
    suffix_len: u16,
}

const _: () = assert!(size_of::<Header>() == 16 && size_of::<Entry>() == 8);

/// A node over the bytes of its slot. See the module's head.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ByteNode {
    header: Header,
    body: [u8],
}

/// The node size for keys of up to `key_bytes_max`: three of the longest entries fit, and some room
/// besides, so that a full node can always be split into two that hold what they must.
pub(super) fn node_bytes(key_bytes_max: usize) -> usize {
    ((key_bytes_max + ENTRY_BYTES) * 7 / 2 + HEADER_BYTES).next_power_of_two().max(1024)
}

impl ByteNode {
    /// The node in a slot, which may hold anything but must have been written by
    /// [`ByteNode::start`] before it is used as a node.
    #[inline(always)]
    pub(super) fn of(slot: &[u8]) -> &ByteNode {
        assert!(slot.len() > HEADER_BYTES && slot.as_ptr().cast::<u64>().is_aligned());
        let node = std::ptr::slice_from_raw_parts(slot.as_ptr(), slot.len() - HEADER_BYTES);
        // SAFETY: header and body together are as long as the slot, whose alignment was asserted;
        // both consist of integers.
        unsafe { &*(node as *const ByteNode) }
    }

    /// As [`ByteNode::of`], to be changed.
    #[inline(always)]
    pub(super) fn of_mut(slot: &mut [u8]) -> &mut ByteNode {
        assert!(slot.len() > HEADER_BYTES && slot.as_ptr().cast::<u64>().is_aligned());
        let node = std::ptr::slice_from_raw_parts_mut(slot.as_mut_ptr(), slot.len() - HEADER_BYTES);
        // SAFETY: as in `of`.
        unsafe { &mut *(node as *mut ByteNode) }
    }

    /// Makes the node empty.
    pub(super) fn start(&mut self, first_child: u32) {
        let heap = self.body.len() as u16;
        self.header = Header {
            count: 0,
            heap,
            garbage: 0,
            prefix_offset: heap,
            prefix_len: 0,
            last: 0,
            first_child,
        };
    }

    /// Makes this node a copy of another one of the same size.
    pub(super) fn copy_from(&mut self, node: &ByteNode) {
        self.header = node.header;
        self.body.copy_from_slice(&node.body);
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.header.count as usize
    }

    #[inline(always)]
    pub(super) fn last(&self) -> usize {
        self.header.last as usize
    }

    #[inline(always)]
    pub(super) fn value(&self, at: usize) -> u32 {
        self.entries()[at].value
    }

    /// Child `at`, counted from the one left of all separators.
    #[inline(always)]
    pub(super) fn child(&self, at: usize) -> u32 {
        if at == 0 { self.header.first_child } else { self.value(at - 1) }
    }

    #[inline(always)]
    pub(super) fn prefix(&self) -> &[u8] {
        &self.body[self.header.prefix_offset as usize..][..self.header.prefix_len as usize]
    }

    #[inline(always)]
    fn heads(&self) -> &[Head] {
        let count = self.len();
        assert!(count * ENTRY_BYTES <= self.body.len());
        // SAFETY: the heads are the first `4 * count` bytes of the body, which is longer (asserted)
        // and 8-aligned.
        unsafe { std::slice::from_raw_parts(self.body.as_ptr().cast(), count) }
    }

    #[inline(always)]
    fn entries(&self) -> &[Entry] {
        let count = self.len();
        assert!(count * ENTRY_BYTES <= self.body.len());
        // SAFETY: the entries follow the heads, so they are aligned; the body holds them
        // (asserted); they are integers.
        unsafe {
            let start = self.body.as_ptr().add(count * HEAD_BYTES);
            std::slice::from_raw_parts(start.cast(), count)
        }
    }

    /// What follows the head in the suffix of an entry.
    #[inline(always)]
    fn rest(&self, entry: &Entry) -> &[u8] {
        &self.body[entry.offset as usize..][..rest_len(entry.suffix_len as usize)]
    }

    /// The position of the first key not smaller than `key`, and whether it is equal.
    #[inline]
    pub(super) fn search(&self, key: &[u8]) -> (usize, bool) {
        let prefix = self.prefix();
        match key.get(..prefix.len()) {
            Some(start) => match start.cmp(prefix) {
                Ordering::Equal => self.search_suffix(&key[prefix.len()..]),
                Ordering::Less => (0, false),
                Ordering::Greater => (self.len(), false),
            },
            None if key < prefix => (0, false),
            None => (self.len(), false),
        }
    }

    #[inline]
    fn search_suffix(&self, suffix: &[u8]) -> (usize, bool) {
        let (heads, head) = (self.heads(), head_of(suffix));
        let mut low = heads.partition_point(|&h| h < head);
        let equal = |at: usize| heads.get(at) == Some(&head);
        if !equal(low) {
            return (low, false);
        }
        let mut high = low + 1;
        if equal(high) {
            high += heads[high..].partition_point(|&h| h == head);
        }
        let (entries, rest) = (self.entries(), suffix.get(HEAD_BYTES..).unwrap_or(&[]));
        while low < high {
            let middle = (low + high) / 2;
            let entry = &entries[middle];
            // Equal heads and equal rests of different length: both are shorter than a head, and
            // the padding hid it.
            match self.rest(entry).cmp(rest).then((entry.suffix_len as usize).cmp(&suffix.len())) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return (middle, true),
                Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }

    /// The position of the child that holds `key`.
    #[inline]
    pub(super) fn child_rank(&self, key: &[u8]) -> usize {
        let (at, equal) = self.search(key);
        at + usize::from(equal)
    }

    #[inline]
    pub(super) fn key_len(&self, at: usize) -> usize {
        self.header.prefix_len as usize + self.entries()[at].suffix_len as usize
    }

    /// Writes the suffix of entry `at` behind the prefix that `buffer` begins with; returns the
    /// length of the whole key.
    #[inline]
    pub(super) fn read_suffix(&self, at: usize, buffer: &mut KeyBuffer) -> usize {
        let (entry, head) = (&self.entries()[at], self.heads()[at].to_be_bytes());
        let (start, len) = (self.header.prefix_len as usize, entry.suffix_len as usize);
        let head_len = len.min(HEAD_BYTES);
        buffer[start..start + head_len].copy_from_slice(&head[..head_len]);
        buffer[start + head_len..start + len].copy_from_slice(self.rest(entry));
        start + len
    }

    /// The whole key of entry `at`.
    pub(super) fn key<'b>(&self, at: usize, buffer: &'b mut KeyBuffer) -> &'b [u8] {
        let prefix = self.prefix();
        buffer[..prefix.len()].copy_from_slice(prefix);
        let len = self.read_suffix(at, buffer);
        &buffer[..len]
    }

    /// Bytes between the entries and the heap.
    fn gap(&self) -> usize {
        self.header.heap as usize - self.len() * ENTRY_BYTES
    }

    /// Bytes in use, the header included.
    pub(super) fn used_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len() - self.gap() - self.header.garbage as usize
    }

    /// The size of the node.
    pub(super) fn node_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }

    /// Inserts at position `at` if the key shares the prefix and there is room without tidying up.
    #[inline]
    pub(super) fn insert(&mut self, at: usize, key: &[u8], value: u32) -> bool {
        let Some(suffix) = key.strip_prefix(self.prefix()) else { return false };
        if self.len() == 0 || self.gap() < ENTRY_BYTES + rest_len(suffix.len()) {
            return false;
        }
        self.insert_suffix(at, suffix, value);
        true
    }

    fn insert_suffix(&mut self, at: usize, suffix: &[u8], value: u32) {
        let n = self.len();
        let (heads, entries) = (n * HEAD_BYTES, n * size_of::<Entry>());
        let before = at * size_of::<Entry>();
        self.body.copy_within(heads + before..heads + entries, heads + before + ENTRY_BYTES);
        self.body.copy_within(heads..heads + before, heads + HEAD_BYTES);
        self.body.copy_within(at * HEAD_BYTES..heads, (at + 1) * HEAD_BYTES);
        let rest = suffix.get(HEAD_BYTES..).unwrap_or(&[]);
        let offset = self.push(rest);
        let head = head_of(suffix).to_ne_bytes();
        self.body[at * HEAD_BYTES..][..HEAD_BYTES].copy_from_slice(&head);
        let entry = &mut self.body[heads + HEAD_BYTES + before..][..size_of::<Entry>()];
        entry[..4].copy_from_slice(&value.to_ne_bytes());
        entry[4..6].copy_from_slice(&offset.to_ne_bytes());
        entry[6..].copy_from_slice(&(suffix.len() as u16).to_ne_bytes());
        self.header.count += 1;
        self.header.last = at as u16 + 1;
    }

    /// Puts bytes into the heap; there is room.
    fn push(&mut self, bytes: &[u8]) -> u16 {
        let offset = self.header.heap as usize - bytes.len();
        self.body[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.header.heap = offset as u16;
        offset as u16
    }

    /// Takes out an entry and returns its value or child.
    pub(super) fn remove(&mut self, at: usize) -> u32 {
        let n = self.len();
        let entry = self.entries()[at];
        self.header.garbage += rest_len(entry.suffix_len as usize) as u16;
        let (heads, entries) = (n * HEAD_BYTES, n * size_of::<Entry>());
        let before = at * size_of::<Entry>();
        self.body.copy_within((at + 1) * HEAD_BYTES..heads, at * HEAD_BYTES);
        self.body.copy_within(heads..heads + before, heads - HEAD_BYTES);
        let tail = heads + before + size_of::<Entry>()..heads + entries;
        self.body.copy_within(tail, heads - HEAD_BYTES + before);
        self.header.count -= 1;
        self.header.last -= u16::from(self.last() > at);
        entry.value
    }

    /// Takes out child `at` and the separator next to it. There must be a separator.
    pub(super) fn remove_child(&mut self, at: usize) {
        if at == 0 {
            self.header.first_child = self.remove(0);
        } else {
            self.remove(at - 1);
        }
    }

    /// Whether the accounting of the heap agrees with the entries.
    pub(super) fn check_space(&self) -> Result<(), String> {
        let (header, body) = (&self.header, self.body.len());
        if self.len() * ENTRY_BYTES > header.heap as usize || header.heap as usize > body {
            return Err("entries reach into the heap".to_owned());
        }
        let mut used = self.prefix().len();
        for entry in self.entries() {
            let rest = rest_len(entry.suffix_len as usize);
            if rest > 0 && entry.offset < header.heap || entry.offset as usize + rest > body {
                return Err("a suffix lies outside of the heap".to_owned());
            }
            used += rest;
        }
        if used + header.garbage as usize != body - header.heap as usize {
            return Err(format!("heap of {} bytes, {used} used", body - header.heap as usize));
        }
        Ok(())
    }
}

/// A sequence of entries in ascending order, from which nodes are built: the first `front_len`
/// entries of `front`, one that is in neither node, and those of `back` from `back_from` on.
#[derive(Clone, Copy)]
pub(super) struct Sequence<'a> {
    pub(super) front: &'a ByteNode,
    pub(super) front_len: usize,
    pub(super) middle: Option<(&'a [u8], u32)>,
    pub(super) back: &'a ByteNode,
    pub(super) back_from: usize,
}

enum Source<'a> {
    Node(&'a ByteNode, usize),
    Single(&'a [u8], u32),
}

impl<'a> Sequence<'a> {
    /// The entries of `node` and a new one at position `at`.
    pub(super) fn inserted(node: &'a ByteNode, at: usize, key: &'a [u8], value: u32) -> Self {
        let middle = Some((key, value));
        Sequence { front: node, front_len: at, middle, back: node, back_from: at }
    }

    /// The entries of two neighbours, and what divides them if they are inner nodes.
    pub(super) fn merged(
        left: &'a ByteNode,
        divider: Option<(&'a [u8], u32)>,
        right: &'a ByteNode,
    ) -> Self {
        let front_len = left.len();
        Sequence { front: left, front_len, middle: divider, back: right, back_from: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.front_len + usize::from(self.middle.is_some()) + self.back.len() - self.back_from
    }

    fn source(&self, at: usize) -> Source<'a> {
        match (at.checked_sub(self.front_len), self.middle) {
            (None, _) => Source::Node(self.front, at),
            (Some(0), Some((key, value))) => Source::Single(key, value),
            (Some(behind), middle) => {
                let skipped = usize::from(middle.is_some());
                Source::Node(self.back, self.back_from + behind - skipped)
            }
        }
    }

    fn key_len(&self, at: usize) -> usize {
        match self.source(at) {
            Source::Node(node, at) => node.key_len(at),
            Source::Single(key, _) => key.len(),
        }
    }

    pub(super) fn value(&self, at: usize) -> u32 {
        match self.source(at) {
            Source::Node(node, at) => node.value(at),
            Source::Single(_, value) => value,
        }
    }

    pub(super) fn key<'b>(&self, at: usize, buffer: &'b mut KeyBuffer) -> &'b [u8] {
        match self.source(at) {
            Source::Node(node, at) => node.key(at, buffer),
            Source::Single(key, _) => {
                buffer[..key.len()].copy_from_slice(key);
                &buffer[..key.len()]
            }
        }
    }

    /// The length of the prefix that the keys of the range share: that of the first and the last.
    fn prefix_len(&self, range: &Range<usize>) -> usize {
        if range.is_empty() {
            return 0;
        }
        let (mut first, mut last) = ([0; KEY_BYTES_MAX], [0; KEY_BYTES_MAX]);
        common_len(self.key(range.start, &mut first), self.key(range.end - 1, &mut last))
    }

    /// How many bytes a node with the range needs.
    pub(super) fn bytes(&self, range: Range<usize>) -> usize {
        let prefix_len = self.prefix_len(&range);
        let entries: usize =
            range.map(|at| ENTRY_BYTES + rest_len(self.key_len(at) - prefix_len)).sum();
        HEADER_BYTES + prefix_len + entries
    }

    /// How many of the entries make up half of the bytes.
    pub(super) fn middle_by_bytes(&self) -> usize {
        let prefix_len = self.prefix_len(&(0..self.len()));
        let size = |at: usize| ENTRY_BYTES + rest_len(self.key_len(at) - prefix_len);
        let total: usize = (0..self.len()).map(size).sum();
        let mut left = 0;
        (0..self.len()).find(|&at| (left += size(at), left * 2 >= total).1).unwrap_or(0)
    }

    /// Writes the range into a node that is part of no sequence; it fits. The node counts
    /// insertions from position `last`.
    pub(super) fn build(
        &self,
        range: Range<usize>,
        first_child: u32,
        last: usize,
        node: &mut ByteNode,
    ) {
        let prefix_len = self.prefix_len(&range);
        let mut buffer = [0; KEY_BYTES_MAX];
        node.start(first_child);
        for at in range {
            let key = self.key(at, &mut buffer);
            if node.len() == 0 {
                node.header.prefix_len = prefix_len as u16;
                node.header.prefix_offset = node.push(&key[..prefix_len]);
            }
            node.insert_suffix(node.len(), &key[prefix_len..], self.value(at));
        }
        node.header.last = last as u16;
    }
}

/// The first four bytes as a number that orders as they do.
#[inline(always)]
fn head_of(suffix: &[u8]) -> Head {
    match suffix.first_chunk::<HEAD_BYTES>() {
        Some(&head) => Head::from_be_bytes(head),
        None => suffix
            .iter()
            .fold(0, |head, &byte| head << 8 | Head::from(byte))
            .unbounded_shl(8 * (HEAD_BYTES - suffix.len()) as u32),
    }
}

#[inline(always)]
fn rest_len(suffix_len: usize) -> usize {
    suffix_len.saturating_sub(HEAD_BYTES)
}

/// The length of the common prefix.
pub(super) fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
