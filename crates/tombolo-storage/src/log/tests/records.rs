//! Records: what goes in comes out, and whatever is changed is found.

use super::*;
use crate::log::record::{IMAGE_BYTES_MAX, Record};

fn random_content<'a>(random: &mut Random, before: &'a [u8], after: &'a [u8]) -> Content<'a> {
    let store = StoreId(random.next() as u16);
    let page = PageId(random.next() as u32);
    let (following, next) = (random.below(5) as u16, PageId(random.next() as u32));
    match random.below(13) {
        0 => Content::Committed { durable: random.next(), clears: random.below(2) == 0 },
        1 => Content::Aborted { durable: random.next() },
        2 => {
            let is_whole = random.below(2) == 0;
            Content::PageImage { store, page, following, is_whole, bytes: after }
        }
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
            let row = match kind.is_of_entry() {
                true => RowId::new(random.next() >> random.below(64) as u32),
                false => place.row(),
            };
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
        let content = random_content(&mut random, &before, &after);
        let is_change = matches!(content, Content::Change { .. });
        let record = Record {
            is_redo_only: random.below(2) == 0,
            transaction: random.next(),
            previous: if is_change { 0 } else { random.below(lsn) },
            content,
        };
        assert!(is_change || record.images().0.is_empty());
        let start = record.encode(&mut out);
        assert_eq!(out.len() - start, record.bytes());
        assert_eq!(Record::decode(&out[start..], lsn), Ok(record));
        let leads_back = record.previous < 8;
        assert_eq!(Record::decode(&out[start..], 8).is_ok(), leads_back, "to a later one");
        let cut = start + random.below(record.bytes() as u64) as usize;
        assert!(Record::decode(&out[start..cut], lsn).is_err(), "cut off");
        if turn % 64 == 0 {
            out.clear();
        }
    }
}

/// Whatever the bytes are, they are read as a record or refused, and what is read is what the bytes say.
#[test]
fn no_bytes_are_misread() {
    let mut random = Random::new(11);
    let (mut out, mut again, mut read) = (Vec::new(), Vec::new(), 0);
    for _ in 0..20_000 {
        let (before, after) = (bytes(&mut random, 40), bytes(&mut random, 40));
        let content = random_content(&mut random, &before, &after);
        let record = Record { is_redo_only: true, transaction: 5, previous: 0, content };
        out.clear();
        record.encode(&mut out);
        for _ in 0..1 + random.below(2) {
            let at = random.below(40.min(out.len() as u64)) as usize;
            out[at] ^= 1 << random.below(8);
        }
        if let Ok(changed) = Record::decode(&out, 8) {
            read += 1;
            again.clear();
            changed.encode(&mut again);
            assert_eq!(changed.bytes(), again.len());
            assert_eq!(Record::decode(&again, 8), Ok(changed));
        }
    }
    assert!((1_000..19_000).contains(&read), "{read} of 20,000 were read");
}

/// The format is what docs/format.md says it is.
#[test]
fn golden_records() {
    let place = Place { page: PageId(0x0403_0201), slot: 0x0605, kind: SlotKind::Value };
    let (kind, store) = (ChangeKind::RowDeleted, StoreId(0x0207));
    let change = Change { kind, store, place, row: place.row(), within: 0x0908 };
    let (before, after) = (&[0xb1, 0xb2, 0xb3][..], &[0xa1][..]);
    let content = Content::Change { change, before, after };
    let mut record = Record { is_redo_only: true, transaction: 0x21, previous: 0, content };
    let mut out = Vec::new();
    record.encode(&mut out);
    let mut golden = vec![0_u8; 32];
    // A value, redone only, four bytes of padding.
    golden[..16].copy_from_slice(&[4, 0, 3, 0x25, 7, 2, 5, 6, 1, 2, 3, 4, 8, 9, 3, 0]);
    golden[16] = 0x21;
    golden[24..28].copy_from_slice(&[0xb1, 0xb2, 0xb3, 0xa1]);
    assert_eq!(out, golden);

    let place = Place { kind: SlotKind::Record, ..place };
    let (kind, row) = (ChangeKind::EntryRemoved, RowId::new(0x11));
    let change = Change { kind, place, row, ..change };
    record.content = Content::Change { change, before, after };
    out.clear();
    record.encode(&mut out);
    golden[..4].copy_from_slice(&[5, 0, 9, 0x21]);
    golden.splice(24..24, [0x11, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(out, golden);

    record.content = Content::Committed { durable: 0x31, clears: true };
    record.previous = 0x41;
    out.clear();
    record.encode(&mut out);
    let mut golden = vec![0_u8; 40];
    golden[..4].copy_from_slice(&[5, 0, 33, 3]);
    (golden[16], golden[24], golden[32]) = (0x21, 0x31, 0x41);
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
