//! A block: a stretch of slots of one slab, each as it was at one moment between two installs, or two
//! transactions.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic: `tblk` |
//! | 4 | 4 | checksum: CRC-32C of the image's salt and of all bytes from offset 8 to the end of the slots |
//! | 8 | 4 | ring |
//! | 12 | 4 | block |
//! | 16 | 8 | checkpoint |
//! | 24 | 8 | newest group whose changes it holds |
//! | 32 | 4 | slots that are here |
//! | 36 | 4 | bytes of a slot |
//! | 40 | 4 | the first slot |
//! | 44 | 4 | epoch it was written in (`stamp.rs`); 0 in blocks of version 1 |
//! | 48 | | live bits of all slots the block has room for, in words of eight bytes |
//! | | | the slots, from the next multiple of 64 on; zeros up to the next multiple of 4,096 |
//!
//! A block contains its own place, so that a block that a disk wrote elsewhere is not valid there. Users do not know
//! the salt, so the bytes that they store cannot pass for a block.
//!
//! Not here: which copy of a block counts (`load.rs`), where it lies (`ring.rs`).

use std::ops::Range;

use super::super::recovery::Slots;
use super::ring::{HEADER_BYTES, Ring, UNIT_BYTES, slots_offset};
use super::stamp::Stamp;
use crate::checksum;
use crate::header_copies::{long, short};
use crate::value_log::GroupNumber;

const MAGIC: [u8; 4] = *b"tblk";
const CHECKSUM: usize = MAGIC.len();
const RING: usize = CHECKSUM + 4;
const BLOCK: usize = RING + 4;
const CHECKPOINT: usize = BLOCK + 4;
const NEWEST: usize = CHECKPOINT + 8;
const SLOTS: usize = NEWEST + 8;
const SLOT_BYTES: usize = SLOTS + 4;
const FIRST_SLOT: usize = SLOT_BYTES + 4;
const EPOCH: usize = FIRST_SLOT + 4;
const _: () = assert!(EPOCH + 4 == HEADER_BYTES);

/// Which block it is, and of when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) block: u32,
    pub(super) stamp: Stamp,
    pub(super) newest: GroupNumber,
    pub(super) slots: u32,
}

/// An intact block.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) header: Header,
    bits: &'a [u8],
    pub(super) slots: &'a [u8],
    /// All of it, as it lies in the file.
    pub(super) stored: &'a [u8],
}

impl Block<'_> {
    /// Which slots are live, 64 at a time.
    pub(super) fn live_bits(&self) -> impl Iterator<Item = u64> {
        self.bits.chunks_exact(8).map(|word| long(word, 0))
    }
}

fn checksum(salt: u64, bytes: &[u8]) -> u32 {
    checksum::of(&[&salt.to_le_bytes(), &bytes[RING..]])
}

/// Puts a block of a ring into `out`, which is as long as blocks are; returns how many bytes of it
/// are to be written. The slots are copied as they lie, in one piece if they are whole.
pub(super) fn encode(
    ring: &Ring,
    (block, stamp, newest): (u32, Stamp, GroupNumber),
    salt: u64,
    of: Option<Slots<'_>>,
    out: &mut [u8],
) -> usize {
    let first = ring.first_slot_of(block);
    let used = of.map_or(0, Slots::used);
    let slots = used.saturating_sub(first).min(ring.block_slots);
    out[HEADER_BYTES..slots_offset(ring.block_slots)].fill(0);
    if let Some(of) = of.filter(|_| slots > 0) {
        copy_slots(ring, first, 0..slots, of, out);
    }
    put_header(ring, Header { block, stamp, newest, slots }, salt, out)
}

/// Copies some slots of a block whose first one is `first`, and their live bits, which are zeros in `out`.
pub(super) fn copy_slots(
    ring: &Ring,
    first: u32,
    slots: Range<u32>,
    of: Slots<'_>,
    out: &mut [u8],
) {
    copy_bits(ring, first, slots.clone(), of, out);
    let at = |slot: u32| slots_offset(ring.block_slots) + slot as usize * ring.slot_bytes as usize;
    of.copy(first + slots.start, slots.end - slots.start, &mut out[at(slots.start)..at(slots.end)]);
}

/// Copies the live bits alone.
fn copy_bits(ring: &Ring, first: u32, slots: Range<u32>, of: Slots<'_>, out: &mut [u8]) {
    let words = &mut out[HEADER_BYTES..bits_end(ring)];
    for at in slots.start / 64..slots.end.div_ceil(64) {
        let (start, end) = (slots.start.max(at * 64) % 64, slots.end.min(at * 64 + 64) - at * 64);
        let mask = !0 << start & !0 >> (64 - end);
        let word = &mut words[8 * at as usize..][..8];
        let bits = long(word, 0) | of.live_bits(first.saturating_add(at * 64)) & mask;
        word.copy_from_slice(&bits.to_le_bytes());
    }
}

/// Where the live bits end.
fn bits_end(ring: &Ring) -> usize {
    HEADER_BYTES + 8 * ring.block_slots.div_ceil(64) as usize
}

/// Puts the header in front of live bits and slots, zeros behind them, and the checksum over all;
/// returns how many bytes are to be written.
pub(super) fn put_header(ring: &Ring, header: Header, salt: u64, out: &mut [u8]) -> usize {
    let end = slots_offset(ring.block_slots) + header.slots as usize * ring.slot_bytes as usize;
    let written = end.next_multiple_of(UNIT_BYTES as usize);
    out[..CHECKSUM].copy_from_slice(&MAGIC);
    for (at, value) in [
        (RING, ring.number),
        (BLOCK, header.block),
        (SLOTS, header.slots),
        (SLOT_BYTES, ring.slot_bytes),
        (FIRST_SLOT, ring.first_slot_of(header.block)),
        (EPOCH, header.stamp.epoch),
    ] {
        out[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    out[CHECKPOINT..NEWEST].copy_from_slice(&header.stamp.checkpoint.to_le_bytes());
    out[NEWEST..SLOTS].copy_from_slice(&header.newest.to_le_bytes());
    out[end..written].fill(0);
    let checksum = checksum(salt, &out[..end]);
    out[CHECKSUM..RING].copy_from_slice(&checksum.to_le_bytes());
    written
}

/// What a header says, if it is of a block of this ring.
pub(super) fn header(ring: &Ring, bytes: &[u8]) -> Option<Header> {
    let header = Header {
        block: short(bytes, BLOCK),
        stamp: Stamp { checkpoint: long(bytes, CHECKPOINT), epoch: short(bytes, EPOCH) },
        newest: long(bytes, NEWEST),
        slots: short(bytes, SLOTS),
    };
    let is_here = bytes[..CHECKSUM] == MAGIC
        && short(bytes, RING) == ring.number
        && short(bytes, SLOT_BYTES) == ring.slot_bytes
        && header.block < ring.blocks
        && header.slots <= ring.block_slots
        && short(bytes, FIRST_SLOT) == ring.first_slot_of(header.block);
    is_here.then_some(header)
}

/// The block in `bytes`, which are as long as blocks are, if it is intact and of this ring.
pub(super) fn decode<'a>(ring: &Ring, salt: u64, bytes: &'a [u8]) -> Option<Block<'a>> {
    let header = header(ring, bytes)?;
    let (bits_end, slots_at) = (bits_end(ring), slots_offset(ring.block_slots));
    let end = slots_at + header.slots as usize * ring.slot_bytes as usize;
    let is_intact = checksum(salt, &bytes[..end]) == short(bytes, CHECKSUM);
    let (bits, slots) = (&bytes[HEADER_BYTES..bits_end], &bytes[slots_at..end]);
    let stored = &bytes[..end.next_multiple_of(UNIT_BYTES as usize)];
    is_intact.then_some(Block { header, bits, slots, stored })
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::super::super::region::RESERVATION_BYTES;
    use super::super::super::slab::Slab;
    use super::super::ring::tests::ring;
    use super::*;

    const SALT: u64 = 0x0123_4567_89ab_cdef;

    const STAMP: Stamp = Stamp { checkpoint: 9, epoch: 0x0304 };

    fn slab() -> Slab {
        let mut slab = Slab::new(16, RESERVATION_BYTES).unwrap();
        for id in 0..105 {
            slab.allocate().unwrap();
            slab.slot_mut(id).fill(id as u8);
        }
        slab.retire(104);
        slab
    }

    fn encoded(block: u32) -> (Vec<u8>, usize) {
        let mut out = vec![0xff; UNIT_BYTES as usize];
        let slab = slab();
        let slots = Some(Slots::whole(&slab));
        let written = encode(&ring(4, 1), (block, STAMP, 0x0102), SALT, slots, &mut out);
        (out, written)
    }

    #[test]
    fn the_bytes_are_those_the_format_states() {
        let (out, written) = encoded(1);
        let mut expected = b"tblk\0\0\0\0".to_vec();
        expected.extend([7_u32, 1].iter().flat_map(|field| field.to_le_bytes()));
        expected.extend([9_u64, 0x0102].iter().flat_map(|field| field.to_le_bytes()));
        expected.extend([2_u32, 16, 103, 0x0304].iter().flat_map(|field| field.to_le_bytes()));
        expected.extend(1_u64.to_le_bytes());
        expected.resize(64, 0);
        expected.extend([103; 16]);
        expected.extend([104; 16]);
        let checksum = crc32c::crc32c(&[&SALT.to_le_bytes(), &expected[8..]].concat());
        expected[4..8].copy_from_slice(&checksum.to_le_bytes());
        expected.resize(4096, 0);
        assert_eq!((out, written), (expected, 4096));
    }

    #[test]
    fn a_block_comes_back() {
        for (number, slots) in [(0, 3), (1, 2), (2, 0)] {
            let (out, _) = encoded(number);
            let block = decode(&ring(4, 1), SALT, &out).unwrap();
            assert_eq!((block.header.slots, block.header.newest), (slots, 0x0102));
            assert_eq!(block.header.stamp, STAMP);
            assert!(decode(&ring(4, 1), SALT + 1, &out).is_none());
            let mut again = Slab::new(16, RESERVATION_BYTES).unwrap();
            let first = ring(4, 1).first_slot_of(number);
            again.load_piece(first, (0, 16), block.slots).unwrap();
            again.load_live(first, 3, block.live_bits());
            assert!(again.live().eq(slab().live().filter(|id| (first..first + 3).contains(id))));
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let (out, _) = encoded(1);
        for bit in 0..(64 + 32) * 8 {
            let mut changed = out.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // What fills the live bits up to the slots is covered too.
            assert!(decode(&ring(4, 1), SALT, &changed).is_none(), "bit {bit}");
        }
    }
}
