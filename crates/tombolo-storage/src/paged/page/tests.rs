//! Pages against models, a golden page that holds the format still, and damage.

use super::*;
use crate::memory::test_random::Random;
use std::collections::BTreeMap;

/// Memory for one page.
struct Memory<S> {
    words: Vec<u64>,
    size: PhantomData<S>,
}

impl<S: PageSize> Memory<S> {
    fn formatted(kind: PageKind) -> Self {
        let mut memory = Self { words: vec![!0; S::BYTES / 8], size: PhantomData };
        memory.page().format(PageId(7), StoreId(3), kind);
        memory
    }

    fn page(&mut self) -> PageMut<'_, S> {
        // SAFETY: the words are a page's bytes, aligned, and borrowed exclusively; `formatted` makes
        // a page of them first.
        unsafe { PageMut::new(NonNull::new(self.words.as_mut_ptr().cast()).unwrap()) }
    }
}

fn fill(page: &mut PageMut<'_, impl PageSize>, slot: u16, byte: u8) {
    page.record_mut(slot).unwrap().fill(byte);
}

/// Random insertions, changes and removals with stable slots.
fn stable<S: PageSize>(seed: u64, longest: u64) {
    let mut memory = Memory::<S>::formatted(PageKind::Heap);
    let mut page = memory.page();
    let mut random = Random::new(seed);
    let mut model: BTreeMap<u16, (Vec<u8>, bool)> = BTreeMap::new();
    for step in 0..20_000u32 {
        let (length, byte) = (random.below(longest) as usize, random.below(256) as u8);
        let nth = random.below(model.len().max(1) as u64) as usize;
        let chosen = model.keys().nth(nth).copied();
        match (random.below(10), chosen) {
            (0..4, _) => match page.insert(length, SlotKind::Record) {
                Some(slot) => {
                    fill(&mut page, slot, byte);
                    assert_eq!(model.insert(slot, (vec![byte; length], false)), None);
                }
                None if page.read().has_room_for(length) => {
                    page.compact();
                    let slot = page.insert(length, SlotKind::Record).expect("room was promised");
                    fill(&mut page, slot, byte);
                    assert_eq!(model.insert(slot, (vec![byte; length], false)), None);
                }
                None => {}
            },
            (4..6, Some(slot)) => {
                let (record, _) = model.get_mut(&slot).unwrap();
                record.fill(byte);
                fill(&mut page, slot, byte);
            }
            (6, Some(slot)) => {
                let (_, ghost) = model.get_mut(&slot).unwrap();
                *ghost = !*ghost;
                page.set_ghost(slot, *ghost);
            }
            (7..10, Some(slot)) => {
                page.remove(slot);
                model.remove(&slot);
            }
            _ => {}
        }
        if step % 100 == 0 {
            page.read().check().unwrap();
            for slot in 0..page.read().slot_count() {
                let expected = model.get(&slot).map(|(record, _)| record.as_slice());
                assert_eq!(page.read().record(slot), expected);
                let ghost = model.get(&slot).is_some_and(|(_, ghost)| *ghost);
                assert_eq!(page.read().slot(slot).is_some_and(Slot::is_ghost), ghost);
            }
            assert!(model.keys().all(|&slot| slot < page.read().slot_count()));
        }
    }
}

#[test]
fn stable_slots_agree_with_a_map() {
    for (seed, longest) in [(1, 60), (2, 12), (3, 900)] {
        stable::<SmallPages>(seed, longest);
        stable::<LargePages>(seed, longest);
    }
}

#[test]
fn equal_records_reuse_holes_without_compaction() {
    let mut memory = Memory::<SmallPages>::formatted(PageKind::Heap);
    let mut page = memory.page();
    let all: Vec<u16> = std::iter::from_fn(|| page.insert(100, SlotKind::Record)).collect();
    assert_eq!(all.len(), (SmallPages::BYTES - HEADER_BYTES) / 104);
    for slot in all.iter().step_by(3) {
        page.remove(*slot);
    }
    for _ in all.iter().step_by(3) {
        page.insert(99, SlotKind::Record).expect("a hole of this size is there");
    }
    assert!(!page.read().has_room_for(100));
    page.read().check().unwrap();
}

#[test]
fn a_page_holds_its_longest_record_and_not_more() {
    let mut memory = Memory::<LargePages>::formatted(PageKind::Heap);
    let mut page = memory.page();
    let longest = record_bytes_max::<LargePages>();
    assert!(!page.read().has_room_for(longest + 1));
    assert_eq!(page.insert(longest + 1, SlotKind::Record), None);
    assert_eq!(page.insert(longest, SlotKind::Record), Some(0));
    assert_eq!(page.read().free_bytes(), 0);
    page.remove(0);
    assert_eq!(page.read().free_bytes(), LargePages::BYTES - HEADER_BYTES);
}

/// The format, byte by byte: what docs/format.md says. If this fails, old files cannot be read.
#[test]
fn golden_page() {
    let mut memory = Memory::<SmallPages>::formatted(PageKind::Heap);
    let mut page = memory.page();
    page.set_lsn(0x0102_0304_0506_0708);
    page.set_flags(0xA5);
    page.set_next(Some(PageId(0x1112_1314)));
    page.set_previous(Some(PageId(0x2122_2324)));
    page.set_extra(0x3132_3334);
    for (byte, length) in [(b'a', 9), (b'b', 3), (b'c', 12)] {
        let kind = if byte == b'c' { SlotKind::Value } else { SlotKind::Record };
        let slot = page.insert(length, kind).unwrap();
        fill(&mut page, slot, byte);
    }
    page.set_ghost(2, true);
    page.remove(1);
    page.stamp_checksum();
    let bytes = page.read().bytes();
    #[rustfmt::skip]
    let header: [u8; 40] = [
        0xF3, 0xF2, 0xCB, 0xB8, 7, 0, 0, 0, // checksum, page id
        8, 7, 6, 5, 4, 3, 2, 1, // LSN
        3, 0, 2, 0xA5, // store, kind (heap), flags
        3, 0, 68, 0, // slot count, free start (40 + 12 + 4 + 12)
        0xB4, 0x1F, 1, 0, // free bytes (8192 - 40 - 3 * 4 - 12 - 12), first free slot
        0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21, // neighbours
        0x34, 0x33, 0x32, 0x31, // extra
    ];
    assert_eq!(bytes[..40], header);
    // The first two bytes of the hole that was "bbb" are the end of the list of free slots.
    assert_eq!(bytes[40..68], *b"aaaaaaaaa\0\0\0\xFF\xFFb\0cccccccccccc");
    let slots = [
        14 | 12 << 13 | 2 << 28 | 1 << 30, // 2: offset 14 * 4, value, ghost
        13 | 4 << 13,                      // 1: free, keeps its hole
        10 | 9 << 13 | 1 << 28,            // 0
    ];
    let stored = bytes[8192 - 12..].chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap()));
    assert!(stored.eq(slots));
    assert!(bytes[68..8192 - 12].iter().all(|&byte| byte == 0));
    page.read().verify_checksum().unwrap();
    page.read().check().unwrap();
}

#[test]
fn one_flipped_bit_is_found() {
    let mut memory = Memory::<SmallPages>::formatted(PageKind::Heap);
    memory.page().insert(100, SlotKind::Record).unwrap();
    memory.page().stamp_checksum();
    let mut random = Random::new(6);
    for _ in 0..2_000 {
        let (byte, bit) = (random.below(8192) as usize, random.below(8));
        memory.page().bytes_mut()[byte] ^= 1 << bit;
        assert!(memory.page().read().verify_checksum().is_err(), "byte {byte} bit {bit}");
        memory.page().bytes_mut()[byte] ^= 1 << bit;
    }
    memory.page().read().verify_checksum().unwrap();
}

/// Damage that a matching checksum hides: a defect of the program, or malice.
#[test]
fn what_cannot_be_a_page_is_refused() {
    let refused = |message: &str, break_it: fn(&mut PageMut<'_, SmallPages>)| {
        let mut memory = Memory::<SmallPages>::formatted(PageKind::Heap);
        let mut page = memory.page();
        for _ in 0..3 {
            page.insert(50, SlotKind::Record).unwrap();
        }
        page.remove(1);
        page.read().check().unwrap();
        break_it(&mut page);
        let found = page.read().verify(PageId(7)).and_then(|()| page.read().check());
        assert!(found.as_ref().is_err_and(|found| found.contains(message)), "{found:?}");
    };
    refused("page 8", |page| page.set_u32(format::ID, 8));
    refused("page kind 99", |page| page.set_u8(format::KIND, 99));
    refused("overlap the records", |page| page.set_u16(format::SLOT_COUNT, u16::MAX));
    refused("overlap the records", |page| page.set_u16(format::FREE_START, 8188));
    refused("free slot 3 does", |page| page.set_u16(format::FREE_SLOT, 3));
    refused("of no kind", |page| page.set_u32(8188, 10 | 50 << 13 | 3 << 28));
    refused("outside the page", |page| page.set_u32(8188, 2040 | 100 << 13 | 1 << 28));
    refused("outside the page", |page| page.set_u32(8188, 2 | 8 << 13 | 1 << 28));
    refused("in free space", |page| page.set_u32(8188, 1000 | 8 << 13 | 1 << 28));
    refused("overlaps another", |page| page.set_u32(8188, 36 | 50 << 13 | 1 << 28));
    refused("are counted", |page| page.set_u16(format::FREE_BYTES, 8));
    refused("is not", |page| page.set_u16(format::FREE_SLOT, 0));
    refused("are listed", |page| page.set_u16(format::FREE_SLOT, format::NO_SLOT));
    refused("cycle", |page| page.set_u16(page.read().raw_slot(1).offset(), 1));
}

#[test]
#[should_panic(expected = "rows are reached by slot")]
fn the_body_of_a_heap_page_is_not_handed_out() {
    Memory::<SmallPages>::formatted(PageKind::Heap).page().body_mut().fill(0);
}
