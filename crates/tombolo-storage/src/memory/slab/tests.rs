//! Slots given, taken back and found again; mirrors and longer slots; limits and misuse.

use super::super::region::RESERVATION_BYTES;
use super::super::test_random::Random;
use super::*;
use std::collections::BTreeMap;

#[test]
fn claimed_slots_are_live_and_the_others_are_free() {
    let mut slab = Slab::new(16, RESERVATION_BYTES).unwrap();
    for id in [5, 2, 5, 70_000, 9] {
        let (was_live, bytes) = slab.claim(id).unwrap();
        assert_eq!((was_live, bytes[8]), (bytes[8] == 1, bytes[8]));
        bytes[8] = 1;
    }
    assert!(slab.retire(9) && !slab.retire(9));
    slab.rebuild_free_list();
    slab.check().unwrap();
    assert_eq!(slab.live().collect::<Vec<_>>(), [2, 5, 70_000]);
    assert_eq!([0, 1, 3, 4, 6].map(|_| slab.allocate().unwrap()), [0, 1, 3, 4, 6]);
    assert!(slab.claim(NO_SLOT).is_err());
}

#[test]
fn a_mirror_has_the_same_slots_and_goes_on_alone() {
    let mut slab = Slab::new(24, RESERVATION_BYTES).unwrap();
    for id in 0..300 {
        assert_eq!(slab.allocate(), Ok(id));
        slab.slot_mut(id).fill(id as u8);
    }
    (0..300).step_by(7).for_each(|id| slab.free(id));
    let mut copy = slab.mirror(RESERVATION_BYTES).unwrap();
    copy.check().unwrap();
    assert!(copy.live().eq(slab.live()));
    assert!(copy.live().all(|id| copy.slot(id) == slab.slot(id)));
    assert_eq!(copy.allocate(), slab.allocate());
    copy.slot_mut(1).fill(0);
    assert_eq!(slab.slot(1), [1; 24]);
    Slab::new(16, RESERVATION_BYTES).unwrap().mirror(RESERVATION_BYTES).unwrap();
}

fn load(
    slab: &mut Slab,
    first: u32,
    slots: u32,
    bits: &mut dyn Iterator<Item = u64>,
    bytes: &[u8],
) {
    slab.load_piece(first, (0, 16), bytes).unwrap();
    slab.load_live(first, slots, bits);
}

#[test]
fn longer_slots_take_over_shorter_ones_and_are_written_in_pieces() {
    let mut random = Random::new(5);
    let mut short = Slab::new(16, RESERVATION_BYTES).unwrap();
    for id in 0..500 {
        short.allocate().unwrap();
        short.slot_mut(id).fill(id as u8 | 1);
    }
    (0..500).for_each(|id| _ = random.below(3) == 0 && short.retire(id));
    let mut long = Slab::new(40, RESERVATION_BYTES).unwrap();
    for first in (0..500).step_by(70) {
        long.take_over(&short, first, 70.min(500 - first)).unwrap();
    }
    // One dies, another is there again.
    let (dies, comes) = (short.live().next().unwrap(), short.dead()[0]);
    short.retire(dies);
    short.revive(comes);
    long.take_over(&short, dies, 1).unwrap();
    long.take_over(&short, comes, 1).unwrap();
    long.rebuild_free_list();
    long.check().unwrap();
    assert!(long.live().eq(short.live()) && long.used() == 500);
    for id in short.live() {
        assert_eq!(long.slot(id), [short.slot(id), &[0; 24]].concat());
        long.slot_mut(id)[16..].fill(id as u8);
    }
    let mut again = Slab::new(40, RESERVATION_BYTES).unwrap();
    for piece in [(16, 24), (0, 16)] {
        let mut out = vec![0; 500 * piece.1];
        long.copy_piece((0, 500), piece, &mut out);
        again.load_piece(0, piece, &out).unwrap();
    }
    assert_eq!(again.slots(0, 500), long.slots(0, 500));
}

#[test]
fn written_slots_are_loaded_wherever_they_begin() {
    let mut random = Random::new(9);
    for _ in 0..300 {
        let mut slab = Slab::new(16, RESERVATION_BYTES).unwrap();
        let used = 1 + random.below(400) as u32;
        for id in 0..used {
            slab.allocate().unwrap();
            slab.slot_mut(id).fill(id as u8);
        }
        (0..used).for_each(|id| _ = random.below(3) == 0 && slab.retire(id));
        let mut again = Slab::new(16, RESERVATION_BYTES).unwrap();
        let per = 1 + random.below(150) as u32;
        // In any order, and some of it twice: first as it never was.
        let mut firsts: Vec<u32> = (0..used).step_by(per as usize).collect();
        let middle = random.below(firsts.len() as u64) as usize;
        firsts.rotate_left(middle);
        for first in firsts {
            let count = per.min(used - first);
            let bits = (0..per.div_ceil(64)).map(|word| slab.live_bits(first + word * 64));
            if random.below(2) == 0 {
                let wrong = bits.clone().map(|bits| !bits);
                load(&mut again, first, per, &mut wrong.into_iter(), &vec![9; count as usize * 16]);
            }
            load(&mut again, first, per, &mut bits.into_iter(), slab.slots(first, count));
        }
        assert!(again.live().eq(slab.live()));
        assert_eq!((again.len(), again.used()), (slab.len(), slab.used()));
        assert!(again.live().all(|id| again.slot(id) == slab.slot(id)));
        // A block behind all slots brings none.
        load(&mut again, used + 1000, per, &mut [0, 0, 0].into_iter(), &[]);
        assert_eq!(again.used(), used);
        let keep: Vec<u64> = (0..used.div_ceil(64)).map(|_| random.next()).collect();
        again.keep_live(&keep);
        again.rebuild_free_list();
        again.check().unwrap();
        let kept = slab.live().filter(|id| keep[*id as usize / 64] >> (id % 64) & 1 == 1);
        assert!(again.live().eq(kept));
    }
}

#[test]
fn model() {
    for (seed, slot_bytes) in [(1, 16), (2, 24), (3, 64), (4, 200), (5, 4096)] {
        let mut random = Random::new(seed);
        let mut slab = Slab::new(slot_bytes, RESERVATION_BYTES).unwrap();
        let mut model: BTreeMap<u32, u8> = BTreeMap::new();
        for step in 0..20_000u32 {
            let grow = step % 4_000 < 2_500;
            if random.below(100) < if grow { 70 } else { 30 } {
                let id = slab.allocate().unwrap();
                let byte = random.below(256) as u8;
                slab.slot_mut(id).fill(byte);
                assert_eq!(model.insert(id, byte), None);
            } else if let Some((&id, &byte)) =
                model.range(random.below(slab.used() as u64 + 1) as u32..).next()
            {
                assert!(slab.slot(id).iter().all(|&b| b == byte));
                slab.free(id);
                model.remove(&id);
            }
            if step % 1_000 == 0 {
                slab.check().unwrap();
                assert!(slab.live().eq(model.keys().copied()));
                let first = random.below(2_000) as u32;
                assert!(slab.live_from(first).eq(model.range(first..).map(|(&id, _)| id)));
            }
        }
        for (&id, &byte) in &model {
            assert!(slab.slot(id).iter().all(|&b| b == byte));
        }
        assert_eq!(slab.len(), model.len());
    }
}

#[test]
fn last_freed_is_first_taken() {
    let mut slab = Slab::new(16, RESERVATION_BYTES).unwrap();
    let ids: Vec<u32> = (0..5).map(|_| slab.allocate().unwrap()).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4]);
    slab.free(1);
    slab.free(3);
    assert_eq!(slab.allocate().unwrap(), 3);
    assert_eq!(slab.allocate().unwrap(), 1);
    assert_eq!(slab.allocate().unwrap(), 5);
    slab.check().unwrap();
}

#[test]
fn limit_is_an_error_and_reserve_keeps_its_word() {
    let mut slab = Slab::new(1024, 64 << 10).unwrap();
    slab.reserve(64).unwrap();
    assert!(slab.reserve(65).is_err());
    for _ in 0..64 {
        slab.allocate().unwrap();
    }
    assert_eq!(slab.allocate(), Err(RegionError::Limit { limit_bytes: 64 << 10 }));
    slab.free(7);
    assert_eq!(slab.allocate(), Ok(7));
    slab.check().unwrap();
}

#[test]
fn line_sized_slots_are_aligned() {
    let mut slab = Slab::new(192, RESERVATION_BYTES).unwrap();
    for _ in 0..100 {
        let id = slab.allocate().unwrap();
        assert_eq!(slab.slot(id).as_ptr().align_offset(64), 0);
    }
}

#[test]
fn misuse_is_refused() {
    let refused = |misuse: fn(&mut Slab)| {
        let mut slab = Slab::new(16, RESERVATION_BYTES).unwrap();
        slab.allocate().unwrap();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| misuse(&mut slab)));
        assert!(result.is_err());
        slab.check().unwrap();
    };
    refused(|slab| {
        slab.free(0);
        slab.free(0);
    });
    refused(|slab| slab.free(1));
    refused(|slab| _ = slab.slot(1));
    refused(|slab| slab.slot_mut(u32::MAX).fill(0));
}

#[test]
fn checker_finds_a_broken_free_list() {
    let mut slab = Slab::new(16, RESERVATION_BYTES).unwrap();
    for _ in 0..4 {
        slab.allocate().unwrap();
    }
    slab.free(1);
    slab.free(2);
    slab.check().unwrap();
    let last = slab.pointer(1).cast::<u32>();
    for wrong in [2, 3, 9] {
        // SAFETY: slot 1 is committed.
        unsafe { last.write(wrong) };
        assert!(slab.check().is_err());
    }
}

/// The link to the next free slot lies in the slot: code that still has its id can write over it.
#[test]
#[should_panic = "live and on the free list"]
fn a_live_slot_is_never_given_again() {
    let mut slab = Slab::new(16, RESERVATION_BYTES).unwrap();
    let ids = [0, 1, 2].map(|_| slab.allocate().unwrap());
    slab.free(ids[0]);
    slab.free(ids[2]);
    slab.head_mut(ids[2].into(), 4).unwrap().copy_from_slice(&ids[1].to_le_bytes());
    let _ = (slab.allocate(), slab.allocate());
}
