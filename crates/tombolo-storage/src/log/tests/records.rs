//! Records: what goes in comes out, and whatever is changed is found.

use super::*;
use crate::log::record::{HEADER_BYTES, IMAGE_BYTES_MAX, Record, stamp};

fn random_content<'a>(random: &mut Random, before: &'a [u8], after: &'a [u8]) -> Content<'a> {
    let store = StoreId(random.next() as u16);
    let page = PageId(random.next() as u32);
    let (following, next) = (random.below(5) as u16, PageId(random.next() as u32));
    match random.below(13) {
        0 => Content::Committed { durable: random.next(), clears: random.below(2) == 0 },
        1 => Content::Aborted { durable: random.next() },
        2 => Content::PageImage { store, page, following, bytes: after },
        3 => {
            let next = Some(next).filter(|next| next.0 > 0 && random.below(2) == 0);
            Content::PageFreed { freed: FreedPage { page, next }, following }
        }
        4 => {
            let (kind, extra) = (PageKind::HeapMap, random.next() as u32);
            Content::PageMade { made: MadePage { page, store, kind, extra }, following }
        }
        5 => Content::Space { bytes: after, following },
        6 => {
            let entry = MapEntry { store, map: page, slot: random.next() as u16, page: next };
            Content::MapEntry { entry, following }
        }
        7 => Content::Ended,
        8 => Content::Prepared { since: random.next(), following, bytes: after },
        9 => Content::Checkpoint { began: random.next(), following, bytes: after },
        _ => {
            let kind = ChangeKind::ALL[random.below(9) as usize];
            let slot_kind = [SlotKind::Record, SlotKind::Value][random.below(2) as usize];
            let place = Place { page, slot: random.next() as u16, kind: slot_kind };
            let row = RowId::new(random.next() >> random.below(64) as u32 & (u64::MAX - 1));
            let within = random.next() as u16;
            Content::Change { change: Change { kind, store, place, row, within }, before, after }
        }
    }
}

#[test]
fn kinds_keep_their_numbers() {
    for (at, kind) in ChangeKind::ALL.into_iter().enumerate() {
        assert_eq!((kind as usize, ChangeKind::from_byte(kind as u8)), (at + 1, Some(kind)));
    }
    assert_eq!([0, 10, 32, 255].map(ChangeKind::from_byte), [None; 4]);
}

#[test]
fn round_trips() {
    let mut random = Random::new(7);
    let mut out = Vec::new();
    for turn in 0..3_000 {
        let max = if turn % 100 == 0 { IMAGE_BYTES_MAX as u64 } else { 200 };
        let (before, after) = (bytes(&mut random, max), bytes(&mut random, max));
        let lsn = (random.next() >> 8).next_multiple_of(8) + 8;
        let record = Record {
            is_redo_only: random.below(2) == 0,
            transaction: random.next(),
            previous: random.below(lsn),
            undo_next: random.below(lsn),
            content: random_content(&mut random, &before, &after),
        };
        let takes_images = matches!(record.content, Content::Change { .. });
        assert!(takes_images || record.images().0.is_empty());
        let start = record.encode(&mut out);
        assert_eq!(out.len() - start, record.bytes());
        stamp(&mut out[start..], lsn);
        assert_eq!(Record::decode(&out[start..], lsn), Ok(record));
        assert!(Record::decode(&out[start..], lsn + 8).is_err(), "in another place");
        let cut = start + random.below(record.bytes() as u64) as usize;
        assert!(Record::decode(&out[start..cut], lsn).is_err(), "cut off");
        if turn % 64 == 0 {
            out.clear();
        }
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let record = Record {
        is_redo_only: false,
        transaction: 5,
        previous: 8,
        undo_next: 0,
        content: Content::Change { change: update(9), before: b"old", after: b"newer" },
    };
    let mut out = Vec::new();
    record.encode(&mut out);
    stamp(&mut out, 72);
    assert_eq!(out.len(), 72);
    for bit in 0..out.len() * 8 {
        out[bit / 8] ^= 1 << (bit % 8);
        assert!(Record::decode(&out, 72).is_err(), "bit {bit}");
        out[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(Record::decode(&out, 72), Ok(record));
}

/// The format is what docs/format.md says it is.
#[test]
fn a_golden_record() {
    let place = Place { page: PageId(0x0403_0201), slot: 0x0605, kind: SlotKind::Value };
    let change = Change {
        kind: ChangeKind::RowDeleted,
        store: StoreId(0x0207),
        place,
        row: RowId::new(0x11),
        within: 0x0908,
    };
    let record = Record {
        is_redo_only: true,
        transaction: 0x21,
        previous: 0x31,
        undo_next: 0x41,
        content: Content::Change { change, before: &[0xb1, 0xb2, 0xb3], after: &[0xa1] },
    };
    let mut out = Vec::new();
    record.encode(&mut out);
    stamp(&mut out, 0x1000);
    let mut golden = vec![0_u8; 72];
    golden[0] = 72;
    golden[8..26].copy_from_slice(&[3, 1, 7, 2, 1, 2, 3, 4, 5, 6, 2, 0, 8, 9, 3, 0, 1, 0]);
    (golden[32], golden[40], golden[48], golden[56]) = (0x12, 0x21, 0x31, 0x41);
    golden[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&[0xb1, 0xb2, 0xb3, 0xa1]);
    let checksum = crc32c::crc32c_append(72, &golden[8..]) ^ 0x1000;
    golden[4..8].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(out, golden);
}

/// What page 0 says of the file's pages, as the log has it.
#[test]
fn a_golden_image_of_space() {
    let image = SpaceImage { pages: 0x0403_0201, free_head: 5, free_pages: 6, root: 0x0807 };
    let bytes = image.to_bytes();
    assert_eq!(bytes, [1, 2, 3, 4, 5, 0, 0, 0, 6, 0, 0, 0, 7, 8, 0, 0]);
    assert_eq!(SpaceImage::from_bytes(&bytes), Some(image));
    assert_eq!(SpaceImage::from_bytes(&bytes[1..]), None);
}
