//! Analysis of logs that no single crash leaves so easily: steps that end in the middle.

use super::analysis::{Analysis, DirtyPage, Reading};
use crate::log::record::{Content, Record};
use crate::paged::page::{PageId, PageKind, StoreId};
use crate::paged::step::{MadePage, MapEntry, SpaceImage};
use crate::paged::store::error::OpenError;

/// Analyses a log of these records, 64 bytes each, from an LSN on.
fn analyse(records: &[Record<'_>], from: u64) -> Result<Analysis, OpenError> {
    let mut reading = Reading::default();
    for (lsn, record) in (64..).step_by(64).zip(records).filter(|(lsn, _)| *lsn >= from) {
        reading.note(from, lsn, record);
    }
    reading.end(from)
}

const fn part(previous: u64, content: Content<'static>) -> Record<'static> {
    Record { is_redo_only: true, transaction: 0, previous, content }
}

const fn made(page: u32, following: u16) -> Content<'static> {
    let (page, store, kind, extra) = (PageId(page), StoreId(1), PageKind::Heap, 0);
    Content::PageMade { made: MadePage { page, store, kind, extra }, following }
}

const fn entered(page: u32, following: u16) -> Content<'static> {
    let (store, map, slot, page) = (StoreId(1), PageId(2), 0, PageId(page));
    Content::MapEntry { entry: MapEntry { store, map, slot, page }, following }
}

/// Pages in use or free: three.
const SPACE: [u8; SpaceImage::BYTES] = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

const fn space() -> Content<'static> {
    Content::Space { bytes: &SPACE, following: 0 }
}

/// Two steps side by side, one of which does not end; and a record behind them.
static TWO_STEPS: [Record<'static>; 5] = [
    part(0, made(7, 2)),
    part(0, made(8, 2)),
    part(64, entered(7, 1)),
    part(128, entered(8, 1)),
    part(192, space()),
];

#[test]
fn a_step_without_its_end_did_not_happen() {
    let analysis = analyse(&TWO_STEPS, 8).unwrap();
    let dirty = |recovery_lsn, is_whole| DirtyPage { recovery_lsn, is_whole, newest: recovery_lsn };
    let expected = [(PageId(2), dirty(192, false)), (PageId(7), dirty(64, true))];
    assert!(analysis.known.dirty.iter().map(|(page, dirty)| (page, *dirty)).eq(expected));
    assert_eq!(analysis.void.into_iter().collect::<Vec<_>>(), [128, 256]);
    let (lsn, image) = analysis.space.unwrap();
    assert_eq!((lsn, image.pages), (320, 3));
    // Nor does its beginning count if the log ends there.
    let analysis = analyse(&TWO_STEPS[..4], 8).unwrap();
    assert!(analysis.known.dirty.iter().next().is_none() && analysis.space.is_none());
    assert_eq!(analysis.void.len(), 4);
}

#[test]
fn a_step_that_began_before_what_is_needed_counts() {
    let analysis = analyse(&TWO_STEPS, 192).unwrap();
    assert_eq!(analysis.known.dirty.iter().map(|(page, _)| page).collect::<Vec<_>>(), [PageId(2)]);
    assert_eq!(analysis.void.into_iter().collect::<Vec<_>>(), [256]);
    // Where it should be known, it is damage that it is not.
    assert!(analyse(&TWO_STEPS[2..], 8).is_err());
}

const fn checkpoint(
    previous: u64,
    began: u64,
    following: u16,
    bytes: &'static [u8],
) -> Record<'static> {
    part(previous, Content::Checkpoint { began, following, bytes })
}

/// Pages 7 and 2, from LSN 100 and 192 on.
const LISTED: [[u8; 12]; 2] =
    [[7, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 192, 0, 0, 0, 0, 0, 0, 0]];

#[test]
fn what_a_checkpoint_found_in_the_file_is_not_redone() {
    let of = |lists: Vec<Record<'static>>| {
        let records = [&TWO_STEPS[..3], &[TWO_STEPS[4]], &lists].concat();
        let analysis = analyse(&records, 8).unwrap();
        let dirty = analysis.known.dirty.iter();
        let dirty = dirty.map(|(page, dirty)| (page.0, dirty.recovery_lsn, dirty.is_whole));
        (analysis.checkpoint, dirty.collect::<Vec<_>>())
    };
    let all = vec![(2, 192, false), (7, 64, true)];
    assert_eq!(of(vec![]), (0, all.clone()));
    // Page 7 lacks what comes behind its only change: nothing. Page 2 may lack its own.
    let parts = [checkpoint(0, 300, 1, &LISTED[0]), checkpoint(320, 300, 0, &LISTED[1])];
    assert_eq!(of(parts.to_vec()), (300, vec![(2, 192, false)]));
    // Changes behind its beginning count in any case.
    assert_eq!(of(vec![checkpoint(0, 100, 0, &[])]), (100, vec![(2, 192, false)]));
    // Half of a checkpoint says nothing.
    assert_eq!(of(parts[..1].to_vec()), (0, all.clone()));
    assert_eq!(of(parts[1..].to_vec()), (0, all));
}
