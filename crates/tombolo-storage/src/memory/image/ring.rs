//! A ring: where the blocks of one stretch of slots lie in a file of their own, and in which order
//! they are written over (TPK-19, TPK-E2).
//!
//! n blocks have n + s places. Checkpoint i writes block k at place (k − i·s) mod (n + s), so that its
//! blocks lie s places in front of where the checkpoint before put them:
//!
//! ```text
//!   n = 4, s = 1          places   0 1 2 3 4
//!   checkpoint 5                   0 1 2 3 ·     · is spare
//!   checkpoint 6, first block      · 1 2 3 0     block 0 lies on the spare place
//!   checkpoint 6, second block     1 · 2 3 0     block 1 lies on the old block 0
//! ```
//!
//! What block k is written over is the spare places for k < s, and the copy of block k − s that
//! checkpoint i − 1 wrote for all others. *Invariant*: blocks are written in ascending order, and
//! what was written is synced after every s of them (a *batch*), before the next one is written.
//! So when block k is written, block k − s of checkpoint i, which belongs to an earlier batch, is
//! durable: what is lost by a write, torn or not, is a copy that has a durable successor, and at
//! every moment every block has an intact copy of checkpoint i or i − 1. Descending, or without the
//! sync, it would not.
//!
//! A checkpoint that a crash ended is continued at the first batch that is not whole; to begin
//! again at its first block would write over copies of its own, and to begin the next one over the
//! only copies of blocks it did not reach. The whole batch in front of that place may be in the
//! system's memory only: it is written again as it is before anything else.
//!
//! Not here: what is in a block (`block.rs`), which rings there are (`catalogue.rs`).

use super::super::recovery::SlabName;

/// What all offsets and lengths are multiples of, so that every file accepts them.
pub(super) const UNIT_BYTES: u32 = crate::disk::ALIGNMENT_MAX as u32;

/// Bytes in front of a block's live bits.
pub(super) const HEADER_BYTES: usize = 48;

/// Slots begin at multiples of this many bytes of a block.
const SLOTS_ALIGNMENT: usize = 64;

/// One ring, as the catalogue has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    /// Its number, which is in its file's name and never given twice.
    pub(super) number: u32,
    /// Which directory its file lies in.
    pub(super) stripe: u32,
    pub(super) slab: SlabName,
    pub(super) slot_bytes: u32,
    /// The first of its slots.
    pub(super) first_slot: u32,
    /// Slots in a block.
    pub(super) block_slots: u32,
    /// n.
    pub(super) blocks: u32,
    /// s.
    pub(super) spare: u32,
    pub(super) block_bytes: u32,
    /// The checkpoint that writes it first.
    pub(super) created_by: u64,
}

/// Where the slots begin in a block of so many.
pub(super) const fn slots_offset(block_slots: u32) -> usize {
    (HEADER_BYTES + 8 * block_slots.div_ceil(64) as usize).next_multiple_of(SLOTS_ALIGNMENT)
}

/// What a block of so many slots needs.
const fn bytes_needed(slot_bytes: u64, slots: u64) -> u64 {
    (HEADER_BYTES as u64 + 8 * slots.div_ceil(64)).next_multiple_of(SLOTS_ALIGNMENT as u64)
        + slots * slot_bytes
}

/// How long blocks are for `slots` slots, at most `block_bytes_max` unless one slot needs more, and
/// how many of them each holds.
pub(super) fn block_layout(slot_bytes: u32, slots: u64, block_bytes_max: u32) -> (u32, u32) {
    let slot = u64::from(slot_bytes);
    let least = bytes_needed(slot, 1).next_multiple_of(UNIT_BYTES.into());
    let all = bytes_needed(slot, slots).next_power_of_two();
    let block = all.clamp(UNIT_BYTES.into(), block_bytes_max.into()).max(least);
    let mut block_slots = (block - HEADER_BYTES as u64) / slot;
    while bytes_needed(slot, block_slots) > block {
        block_slots -= 1;
    }
    (block as u32, block_slots as u32)
}

impl Ring {
    /// n + s.
    pub(super) fn places(&self) -> u64 {
        u64::from(self.blocks) + u64::from(self.spare)
    }

    /// How far in front of its number a block of this checkpoint lies.
    fn shift(&self, checkpoint: u64) -> u64 {
        let places = self.places();
        checkpoint % places * (u64::from(self.spare) % places) % places
    }

    /// Where a checkpoint writes a block.
    pub(super) fn place(&self, checkpoint: u64, block: u32) -> u64 {
        (u64::from(block) + self.places() - self.shift(checkpoint)) % self.places()
    }

    /// Which block a checkpoint writes at a place, if any.
    pub(super) fn block_at(&self, checkpoint: u64, place: u64) -> Option<u32> {
        let block = (place + self.shift(checkpoint)) % self.places();
        (block < self.blocks.into()).then_some(block as u32)
    }

    /// Where a place begins in the file.
    pub(super) fn offset(&self, place: u64) -> u64 {
        place * u64::from(self.block_bytes)
    }

    /// The file's length.
    pub(super) fn file_bytes(&self) -> u64 {
        self.offset(self.places())
    }

    /// The first slot behind it.
    pub(super) fn end_slot(&self) -> u64 {
        u64::from(self.first_slot) + u64::from(self.blocks) * u64::from(self.block_slots)
    }

    /// The first slot of a block.
    pub(super) fn first_slot_of(&self, block: u32) -> u32 {
        self.first_slot + block * self.block_slots
    }

    /// The blocks of the batch that `block` belongs to.
    pub(super) fn batch_of(&self, block: u32) -> std::ops::Range<u32> {
        let first = block / self.spare * self.spare;
        first..first.saturating_add(self.spare).min(self.blocks)
    }

    /// Whether its numbers make a ring.
    pub(super) fn is_possible(&self) -> bool {
        let (block, slot) = (u64::from(self.block_bytes), u64::from(self.slot_bytes));
        self.blocks > 0
            && self.spare > 0
            && self.block_slots > 0
            && slot >= 16
            && slot.is_multiple_of(8)
            && block > 0
            && block.is_multiple_of(UNIT_BYTES.into())
            && block <= 1 << 30
            && bytes_needed(slot, self.block_slots.into()) <= block
            && u64::from(self.first_slot) + u64::from(self.blocks - 1) * u64::from(self.block_slots)
                < u64::from(u32::MAX)
    }

    /// The name of its file.
    pub(super) fn file_name(&self) -> String {
        format!("image-{:06}", self.number)
    }
}

/// Whether a file of this name is a ring's.
pub(super) fn is_ring_file(name: &str) -> bool {
    name.strip_prefix("image-").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn ring(blocks: u32, spare: u32) -> Ring {
        Ring {
            number: 7,
            stripe: 0,
            slab: SlabName { table: 2, kind: 0 },
            slot_bytes: 16,
            first_slot: 100,
            block_slots: 3,
            blocks,
            spare,
            block_bytes: UNIT_BYTES,
            created_by: 1,
        }
    }

    /// What a place holds: checkpoint and block, or torn.
    type Place = Option<(u64, u32)>;

    /// The newest copy of each block, of checkpoint `complete` or the one after it.
    fn newest(ring: &Ring, places: &[Place], complete: u64) -> Option<Vec<u64>> {
        let of = |block| {
            let copies = places.iter().flatten().filter(|copy| copy.1 == block);
            copies.map(|copy| copy.0).filter(|&of| of >= complete).max()
        };
        (0..ring.blocks).map(of).collect()
    }

    /// All n up to 6 and s up to 4, checkpoints enough to come round, a crash at every write, with any
    /// subset of what was not synced lost or torn, continued and crashed again.
    #[test]
    fn every_block_has_a_copy_whatever_a_crash_takes() {
        for (n, s) in (1..=6).flat_map(|n| (1..=4).map(move |s| (n, s))) {
            let depth = if s < 3 { 2 } else { 1 };
            let ring = ring(n, s);
            let mut places: Vec<Place> = vec![None; ring.places() as usize];
            for block in 0..n {
                places[ring.place(1, block) as usize] = Some((1, block));
            }
            for checkpoint in 2..2 * u64::from(n + s) + 3 {
                write(&ring, &mut places, checkpoint, 0, depth);
                let complete = newest(&ring, &places, checkpoint).unwrap();
                assert!(complete.iter().all(|&of| of == checkpoint));
            }
        }
    }

    /// Writes the blocks from `from` on, and tries all crashes on the way, `depth` deep.
    fn write(ring: &Ring, places: &mut [Place], checkpoint: u64, from: u32, depth: u32) {
        let mut block = from;
        while block < ring.blocks {
            let batch = ring.batch_of(block);
            assert_eq!(batch.start, block);
            for end in batch.clone() {
                // Blocks block..=end are under way: each is there, or not, or torn.
                let under_way: Vec<u32> = (block..=end).collect();
                for found in 0..3_u32.pow(under_way.len() as u32) {
                    let mut crashed = places.to_vec();
                    for (at, &block) in under_way.iter().enumerate() {
                        match found / 3_u32.pow(at as u32) % 3 {
                            0 => {}
                            1 => crashed[ring.place(checkpoint, block) as usize] = None,
                            _ => {
                                crashed[ring.place(checkpoint, block) as usize] =
                                    Some((checkpoint, block));
                            }
                        }
                    }
                    let copies = newest(ring, &crashed, checkpoint - 1)
                        .unwrap_or_else(|| panic!("{ring:?} {checkpoint} {block}: {crashed:?}"));
                    if depth > 0 && end + 1 == batch.end {
                        let whole = |batch: &u32| {
                            ring.batch_of(*batch).all(|at| copies[at as usize] == checkpoint)
                        };
                        let starts = (0..ring.blocks).step_by(ring.spare as usize);
                        let next = starts.take_while(whole).last();
                        let next = next.map_or(0, |first| ring.batch_of(first).end);
                        assert!(next >= block);
                        write(ring, &mut crashed, checkpoint, next, depth - 1);
                    }
                }
            }
            for block in batch.clone() {
                places[ring.place(checkpoint, block) as usize] = Some((checkpoint, block));
            }
            block = batch.end;
        }
    }

    #[test]
    fn places_and_blocks_are_inverse_for_any_checkpoint() {
        for (n, s) in [(1, 1), (4, 1), (3, 5), (1000, 7)] {
            let ring = ring(n, s);
            for checkpoint in [0, 1, 2, 1_000_000_007, u64::MAX] {
                for block in 0..n {
                    let place = ring.place(checkpoint, block);
                    assert_eq!(ring.block_at(checkpoint, place), Some(block));
                }
                let used = (0..ring.places()).filter_map(|at| ring.block_at(checkpoint, at));
                assert_eq!(used.count(), n as usize);
            }
        }
        // The paper's: one place in front of the checkpoint before.
        assert_eq!([0, 1, 2, 3, 4].map(|i| ring(4, 1).place(i, 3)), [3, 2, 1, 0, 4]);
    }

    #[test]
    fn blocks_are_as_long_as_slots_need_and_no_longer_than_they_may_be() {
        for (slot, slots, max) in
            [(16, 1, 4096), (16, 100_000, 1 << 20), (1 << 20, 3, 1 << 20), (768, 6, 8192)]
        {
            let (bytes, each) = block_layout(slot, slots, max);
            assert!(bytes.is_multiple_of(UNIT_BYTES) && each > 0);
            assert!(slots_offset(each) as u64 + u64::from(each * slot) <= bytes.into());
            assert!(bytes <= max || each == 1, "{slot} {bytes}");
        }
        assert_eq!(block_layout(1 << 20, 3, 1 << 20), ((1 << 20) + 4096, 1));
        assert_eq!(block_layout(64, 10, 1 << 20).0, 4096);
    }
}
