//! The log's tests: record formats, the model, faults, group commit.

mod crash;
mod faults;
mod group;
mod model;
mod records;

use super::record::Content;
use super::{
    Change, ChangeKind, Durability, InMemory, Log, LogError, LogSettings, LogTransaction, Logging,
    NoLog, Numbers, ToDisk, UndoRecord, read_log,
};
use crate::disk::{Disk, MemDisk, share};
use crate::latch::{Latched, Unlatched};
use crate::memory::test_random::Random;
use crate::paged::heap::Place;
use crate::paged::page::{
    LargePages, PageId, PageKind, PageSize, SlotKind, SmallPages, StoreId, append_runs,
};
use crate::paged::pool::{DirectFrames, ExclusivePage, PageAccess, ReadPage, WriteAhead};
use crate::paged::step::{FreedPage, MadePage, MapEntry, SpaceImage, Step};
use crate::probe::{self, Counter};
use crate::row::RowId;
use crate::sync::Arc;

type DiskLog = Log<ToDisk, Latched>;

fn settings() -> LogSettings {
    LogSettings { segment_bytes: 64 << 10, ..LogSettings::default() }
}

/// The log is on `disk`.
fn on<D: Disk + Clone + 'static>(disk: &D) -> Option<Arc<dyn Disk>> {
    Some(share(disk.clone()))
}

fn update(row: u64) -> Change {
    let row = RowId::new(row);
    let (kind, store) = (ChangeKind::RowUpdated, StoreId(3));
    Change { kind, store, place: Place::of_row(row), row, within: 5 }
}

/// Commits a transaction of one change and waits as the settings demand.
fn commit_one(log: &impl Logging, id: u64) -> Result<u64, crate::error::Error> {
    let mut transaction = Default::default();
    commit_with(log, &mut transaction, id)
}

fn commit_all(log: &impl Logging, ids: impl IntoIterator<Item = u64>) {
    for id in ids {
        commit_one(log, id).unwrap();
    }
}

fn commit_with<G: Logging>(
    log: &G,
    transaction: &mut G::Transaction,
    id: u64,
) -> Result<u64, crate::error::Error> {
    log.begin(transaction, id);
    log.change(transaction, update(id), &id.to_le_bytes(), &[0; 20])?;
    let lsn = log.commit(transaction)?;
    log.harden(lsn)?;
    Ok(lsn)
}

/// The committed transactions a reader finds, in order.
fn committed(disk: &dyn Disk) -> Result<Vec<u64>, LogError> {
    let mut found = Vec::new();
    read_log(disk, 0, |_, record| {
        if matches!(record.content, Content::Committed { .. }) {
            found.push(record.transaction);
        }
    })?;
    Ok(found)
}

fn bytes(random: &mut Random, max: u64) -> Vec<u8> {
    (0..random.below(max + 1)).map(|_| random.next() as u8).collect()
}

#[test]
fn without_a_log_there_is_nothing() {
    let log = NoLog::create(settings(), None).unwrap();
    let mut undo = UndoRecord::new();
    assert_eq!(log.change(&mut (), update(1), b"a", b"b"), Ok(None));
    assert_eq!((log.commit(&mut ()), log.harden(9), log.newest_commit()), (Ok(0), Ok(()), 0));
    assert!(!log.next_undo(&mut (), &mut undo));
    assert_eq!(log.usage(), super::LogUsage::default());
}

/// The numbers are those that the log would have given.
#[test]
fn numbers_advance_as_the_log_would() {
    fn stamps(log: &impl Logging) -> Vec<u64> {
        let mut transaction = Default::default();
        let mut stamps = Vec::new();
        let mut random = Random::new(1);
        for id in 1..50 {
            log.begin(&mut transaction, id);
            for _ in 0..random.below(4) {
                let (before, after) = (bytes(&mut random, 70), bytes(&mut random, 70));
                let stamp = log.change(&mut transaction, update(id), &before, &after).unwrap();
                stamps.push(stamp.unwrap());
            }
            stamps.push(log.commit(&mut transaction).unwrap());
        }
        stamps
    }
    let settings = LogSettings { first_lsn: 1_000, ..settings() };
    let numbers = stamps(&Numbers::<Unlatched>::create(settings, None).unwrap());
    assert_eq!(numbers[0], 1_000);
    assert_eq!(numbers, stamps(&Numbers::<Latched>::create(settings, None).unwrap()));
    assert_eq!(numbers, stamps(&Log::<InMemory, Unlatched>::create(settings, None).unwrap()));
    assert_eq!(numbers, stamps(&DiskLog::create(settings, on(&MemDisk::new())).unwrap()));
}

/// The ring is overwritten many times over and nothing waits; abort does not depend on it.
#[test]
fn a_ring_without_a_file_is_recycled() {
    let none = LogSettings { buffer_bytes: 0, durability: Durability::None, ..settings() };
    recycle(&Log::<InMemory, Latched>::create(settings_small(), None).unwrap());
    recycle(&Log::<InMemory, Unlatched>::create(settings_small(), None).unwrap());
    let disk = MemDisk::new();
    recycle(&DiskLog::create(none, on(&disk)).unwrap());
    assert_eq!(disk.list(), Ok(Vec::new()), "nothing is ever written");
}

fn settings_small() -> LogSettings {
    LogSettings { buffer_bytes: 0, ..settings() }
}

fn recycle<D: super::Destination, L: crate::latch::Latching>(log: &Log<D, L>) {
    let mut patient = LogTransaction::default();
    log.begin(&mut patient, 1);
    log.change(&mut patient, update(1), b"before", b"after").unwrap();
    let mut transaction = LogTransaction::default();
    while log.usage().bytes < 5 * LogSettings::BUFFER_BYTES_MIN as u64 {
        log.begin(&mut transaction, 2);
        log.change(&mut transaction, update(2), &[1; 3_000], &[2; 4_000]).unwrap();
        let lsn = log.commit(&mut transaction).unwrap();
        log.harden(lsn).unwrap();
    }
    let mut undo = UndoRecord::new();
    assert!(log.next_undo(&mut patient, &mut undo));
    assert_eq!((&undo.before[..], &undo.after[..]), (&b"before"[..], &b"after"[..]));
    assert_eq!(undo.change, update(1));
    log.compensate(&mut patient, undo.change, &undo.after, &undo.before).unwrap();
    assert!(!log.next_undo(&mut patient, &mut undo));
    log.end_abort(&mut patient).unwrap();
    assert_eq!((log.usage().flushes, log.usage().aborts), (0, 1));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let refused = DiskLog::create(settings(), None).unwrap_err();
    assert_eq!(refused.to_string(), "setting durability: only `none` goes without a directory");
    let huge = LogSettings { buffer_bytes: 2 << 30, ..settings() };
    assert!(DiskLog::create(huge, on(&MemDisk::new())).is_err());
}

/// A log is emptied when it is closed and its numbers continue.
#[test]
fn numbers_go_on_after_a_close() {
    let disk = MemDisk::new();
    let log = DiskLog::create(settings(), on(&disk)).unwrap();
    let mut last = 0;
    for id in 1..=3 {
        last = commit_one(&log, id).unwrap();
    }
    assert!(matches!(
        DiskLog::open(settings(), on(&disk)).unwrap_err().failure(),
        super::LogFailure::InUse { .. }
    ));
    assert_eq!(committed(&disk).unwrap(), [1, 2, 3]);
    assert_eq!(log.check(), []);
    log.close().unwrap();
    drop(log);
    assert_eq!(committed(&disk).unwrap(), []);
    for generation in 0..4 {
        let log = DiskLog::open(settings(), on(&disk)).unwrap();
        let lsn = commit_one(&log, 10 + generation).unwrap();
        assert!(lsn > last, "{lsn} after {last}");
        last = lsn;
        assert_eq!(committed(&disk).unwrap(), [10 + generation]);
        log.close().unwrap();
    }
    let later = LogSettings { first_lsn: last + 1_000_001, ..settings() };
    let log = DiskLog::open(later, on(&disk)).unwrap();
    let lsn = commit_one(&log, 20).unwrap();
    assert!(lsn >= later.first_lsn);
    drop(log);
    // What was not closed is there to be redone, and numbers go on behind it.
    let log = DiskLog::open(settings(), on(&disk)).unwrap();
    let (needed, end) = log.unread().unwrap();
    assert!(needed < lsn && end == lsn + 40, "{needed} {lsn} {end}");
    assert_eq!(committed(&disk).unwrap(), [20]);
    assert_eq!(commit_one(&log, 21).unwrap(), end + 56);
    assert_eq!(committed(&disk).unwrap(), [20, 21]);
}

/// What was read may not be durable yet: the newest record says how far to wait.
#[test]
fn a_reader_can_wait_for_what_it_read() {
    let asynchronous = LogSettings { durability: Durability::Async, ..settings() };
    let disk = MemDisk::new();
    let log = DiskLog::create(asynchronous, on(&disk)).unwrap();
    let mut reader = LogTransaction::default();
    log.begin(&mut reader, 1);
    assert_eq!((log.commit(&mut reader), log.newest_commit()), (Ok(0), 0));
    let lsn = commit_one(&log, 2).unwrap();
    assert_eq!((log.newest_commit(), log.usage().flushes), (lsn, 0));
    assert_eq!(committed(&disk).unwrap(), []);
    log.flush().unwrap();
    assert_eq!((committed(&disk).unwrap(), log.usage().flushes), (vec![2], 1));
}

/// What the log keeps of a page is the page; those of one step are chained.
#[test]
fn a_page_image_is_the_page() {
    fn image<S: PageSize>() {
        let disk = MemDisk::new();
        let log = Log::<ToDisk, Unlatched>::create(settings(), on(&disk)).unwrap();
        let frames = DirectFrames::<S, Unlatched>::create(&MemDisk::new(), 1 << 20).unwrap();
        let mut page = frames.new_page(StoreId(9), PageKind::Leaf).unwrap();
        page.page_mut().set_extra(77);
        page.page_mut().body_mut()[S::BYTES - 100..][..3].copy_from_slice(b"end");
        let pages = [page.page(), page.page()];
        let freed = FreedPage { page: PageId(4_711), next: Some(PageId(5)) };
        let others = DirectFrames::<S, Unlatched>::create(&MemDisk::new(), 1 << 20).unwrap();
        let before = others.new_page(StoreId(9), PageKind::Leaf).unwrap();
        assert_eq!(before.page().id(), page.page().id());
        let changed = [before.page(), page.page()];
        let step = Step { freed: &[freed], changed: &[changed], ..Step::of(&pages) };
        let (mut whole, mut runs) = (Vec::new(), Vec::new());
        append_runs(None, page.page().bytes(), &mut whole);
        append_runs(Some(before.page().bytes()), page.page().bytes(), &mut runs);
        assert!(whole.len() < 200 && runs.len() == 24, "{} {}", whole.len(), runs.len());
        let lsn = log.step(&step).unwrap().unwrap();
        log.ahead().flush_to(lsn).unwrap();
        let mut images = Vec::new();
        read_log(&disk, 0, |at, record| {
            let (store, page) = (StoreId(9), page.page().id());
            let following = 3 - images.len() as u16;
            assert_eq!((record.transaction, record.is_redo_only), (0, true));
            let expected = match following {
                0 => Content::PageFreed { freed, following },
                1 => Content::PageImage { store, page, following, is_whole: false, bytes: &runs },
                _ => Content::PageImage { store, page, following, is_whole: true, bytes: &whole },
            };
            assert_eq!(record.content, expected);
            assert_eq!(record.previous, images.last().copied().unwrap_or_default());
            images.push(at);
        })
        .unwrap();
        assert_eq!((images.len(), images.last()), (4, Some(&lsn)));
        let bytes = 2 * whole.len() + runs.len();
        assert_eq!(log.usage().bytes, 4 * 40 + bytes as u64);
    }
    image::<SmallPages>();
    image::<LargePages>();
}

/// Each component counts what it did, and one that is not there nothing.
#[test]
fn the_work_is_counted() {
    fn work(log: &impl Logging) -> [u64; 3] {
        probe::take();
        commit_one(log, 1).unwrap();
        let work = probe::take();
        [Counter::LogRecords, Counter::LogBytes, Counter::LsnWrites].map(|at| work.get(at))
    }
    let log = Log::<InMemory, Unlatched>::create(settings(), None).unwrap();
    let numbers = Numbers::<Unlatched>::create(settings(), None).unwrap();
    let none = NoLog::create(settings(), None).unwrap();
    let counted = [work(&log), work(&numbers), work(&none)];
    // A change of 28 bytes on a page, and the commit.
    let expected = [[2, 56 + 40, 3], [0, 0, 3], [0; 3]];
    assert_eq!(counted, if probe::enabled() { expected } else { [[0; 3]; 3] });
}
