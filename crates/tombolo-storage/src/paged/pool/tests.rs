//! Pools against a model, under threads, with pools smaller than the data, damage and full disks.

mod damage;
mod model;
mod threads;

use super::*;
use crate::disk::{Disk, Fault, MemDisk, Operation};
use crate::latch::{Latched, Unlatched};
use crate::paged::page::{LargePages, SlotKind, SmallPages};
use crate::sync::{Arc, AtomicU64, Ordering};
use std::io::ErrorKind;

type Small = BufferPool<SmallPages, Latched, NoWriteAhead>;

/// Room for every page of a test.
const LIMIT_BYTES: usize = 64 << 20;

/// A new page with one record of eight bytes.
fn page_with(access: &impl PageAccess, value: u64) -> PageId {
    let mut page = access.new_page(StoreId(1), PageKind::Heap).unwrap();
    page.page_mut().insert(8, SlotKind::Record).unwrap();
    page.page_mut().record_mut(0).unwrap().copy_from_slice(&value.to_le_bytes());
    page.page().id()
}

fn value(page: &impl ReadPage) -> u64 {
    u64::from_le_bytes(page.page().record(0).unwrap().try_into().unwrap())
}

fn set_value(page: &mut impl ExclusivePage, value: u64) {
    page.page_mut().record_mut(0).unwrap().copy_from_slice(&value.to_le_bytes());
}

fn failure<T>(result: Result<T>) -> PageFailure {
    match result {
        Ok(_) => panic!("succeeded"),
        Err(error) => error.failure().clone(),
    }
}

#[test]
fn a_pool_of_four_frames_holds_two_hundred_pages() {
    let pool = Small::create(&MemDisk::new(), 4, NoWriteAhead).unwrap();
    let pages: Vec<PageId> = (0..200).map(|n| page_with(&pool, n)).collect();
    for (n, &id) in (0..).zip(&pages) {
        assert_eq!(value(&pool.fix_shared(id).unwrap()), n);
    }
    let usage = pool.usage();
    assert!(usage.misses >= 196 && usage.frames == 4, "{usage:?}");
    assert_eq!(pool.check(), []);
}

#[test]
fn a_page_that_is_used_outlasts_those_that_are_not() {
    let pool = Small::create(&MemDisk::new(), 8, NoWriteAhead).unwrap();
    let pages: Vec<PageId> = (0..64).map(|n| page_with(&pool, n)).collect();
    for &id in &pages[1..] {
        drop(pool.fix_shared(pages[0]).unwrap());
        drop(pool.fix_shared(pages[0]).unwrap());
        drop(pool.fix_shared(id).unwrap());
    }
    let before = pool.usage().misses;
    drop(pool.fix_shared(pages[0]).unwrap());
    assert_eq!(pool.usage().misses, before);
}

#[test]
fn a_pool_that_is_fixed_whole_says_so() {
    let pool = Small::create(&MemDisk::new(), 3, NoWriteAhead).unwrap();
    let pages: Vec<PageId> = (0..4).map(|n| page_with(&pool, n)).collect();
    let fixed: Vec<_> = pages[..3].iter().map(|&id| pool.fix_shared(id).unwrap()).collect();
    let full = PageFailure::PoolFull { frames: 3 };
    assert_eq!(failure(pool.fix_shared(pages[3])), full);
    assert_eq!(failure(pool.new_page(StoreId(1), PageKind::Heap)), full);
    assert_eq!(pool.page_count(), 5, "no page was made");
    drop(fixed);
    assert_eq!(value(&pool.fix_shared(pages[3]).unwrap()), 3);
    assert_eq!(pool.check(), []);
}

#[test]
fn a_pinned_row_stays_while_others_change() {
    let pool = Small::create(&MemDisk::new(), 2, NoWriteAhead).unwrap();
    let id = page_with(&pool, 7);
    let pin = pool.fix_shared(id).unwrap().pin(0).unwrap();
    {
        let mut page = pool.fix_exclusive(id).unwrap();
        assert!(!page.is_alone(), "a row is pinned: rows must not move");
        page.page_mut().insert(100, SlotKind::Record).unwrap();
    }
    for n in 0..10 {
        page_with(&pool, n);
    }
    assert_eq!(*pin, 7_u64.to_le_bytes());
    assert!(pool.fix_shared(id).unwrap().pin(9).is_none());
    drop(pin);
    assert!(pool.fix_exclusive(id).unwrap().is_alone());
}

fn latches_of<P: PageAccess>(access: &P) {
    let id = page_with(access, 1);
    {
        let shared = access.fix_shared(id).unwrap();
        assert!(access.try_fix_shared(id).unwrap().is_some());
        assert!(access.try_fix_exclusive(id).unwrap().is_none());
        let second = access.fix_shared(id).unwrap();
        let Err(shared) = access.try_upgrade(shared) else { panic!("there are two readers") };
        drop(second);
        let Ok(mut alone) = access.try_upgrade(shared) else { panic!("there is one reader") };
        set_value(&mut alone, 2);
        assert!(access.try_fix_shared(id).unwrap().is_none());
    }
    assert_eq!(value(&access.try_fix_exclusive(id).unwrap().unwrap()), 2);
}

#[test]
fn latches_exclude() {
    latches_of(&Small::create(&MemDisk::new(), 2, NoWriteAhead).unwrap());
    let disk = MemDisk::new();
    latches_of(&DirectFrames::<LargePages, Latched>::create(&disk, LIMIT_BYTES).unwrap());
}

/// A log that becomes durable when it is asked to, or refuses.
#[derive(Default)]
struct TestLog {
    durable: AtomicU64,
    broken: AtomicU64,
}

impl WriteAhead for TestLog {
    fn flush_to(&self, lsn: u64) -> Result<(), Error> {
        if self.broken.load(Ordering::SeqCst) != 0 {
            return Err(Error::Poisoned { reason: "the log is broken" });
        }
        self.durable.fetch_max(lsn, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn no_page_is_written_before_its_log() {
    let (disk, log) = (MemDisk::new(), Arc::new(TestLog::default()));
    let pool = BufferPool::<SmallPages, Latched, _>::create(&disk, 3, Arc::clone(&log)).unwrap();
    let file = disk.open(PAGES_FILE, crate::disk::Open::Read).unwrap();
    let durable = || log.durable.load(Ordering::SeqCst);
    let newest_written = |pages: u32| {
        let lsn = |id: u32| {
            let mut bytes = [0; 8];
            file.read_at(&mut bytes, u64::from(id) * 8192 + 8).ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        (1..pages - 1).filter_map(lsn).max().unwrap_or(0)
    };
    for lsn in 1..100 {
        let mut page = pool.new_page(StoreId(1), PageKind::Heap).unwrap();
        page.page_mut().set_lsn(lsn);
        assert!(newest_written(pool.page_count()) <= durable() && durable() < lsn);
    }
    log.broken.store(1, Ordering::SeqCst);
    let refused = (0..4).find_map(|_| pool.new_page(StoreId(1), PageKind::Heap).err());
    assert!(matches!(refused.unwrap().failure(), PageFailure::Log(_)));
    assert!(newest_written(pool.page_count()) <= durable(), "its log was refused");
    log.broken.store(0, Ordering::SeqCst);
    assert_eq!(pool.check(), []);
}

#[test]
fn freed_pages_are_taken_again_and_keep_their_lsn() {
    let pool = Small::create(&MemDisk::new(), 4, NoWriteAhead).unwrap();
    let pages: Vec<PageId> = (0..20).map(|n| page_with(&pool, n)).collect();
    for &id in &pages[5..15] {
        let mut page = pool.fix_exclusive(id).unwrap();
        page.page_mut().set_lsn(1_000 + u64::from(id.0));
        pool.free_page(page);
    }
    assert_eq!(pool.check(), []);
    let mut again: Vec<PageId> = Vec::new();
    for _ in 5..15 {
        let page = pool.new_page(StoreId(2), PageKind::Leaf).unwrap();
        assert_eq!(page.page().lsn(), 1_000 + u64::from(page.page().id().0));
        again.push(page.page().id());
    }
    again.sort_unstable();
    assert_eq!(again, pages[5..15]);
    assert_eq!(pool.new_page(StoreId(2), PageKind::Leaf).unwrap().page().id(), PageId(21));
    assert_eq!(pool.check(), []);
}

#[test]
#[should_panic(expected = "freed twice")]
fn a_page_is_freed_once() {
    let pool = Small::create(&MemDisk::new(), 4, NoWriteAhead).unwrap();
    let id = page_with(&pool, 1);
    pool.free_page(pool.fix_exclusive(id).unwrap());
    pool.free_page(pool.fix_exclusive(id).unwrap());
}

#[test]
fn pages_that_do_not_exist_are_refused() {
    let pool = Small::create(&MemDisk::new(), 4, NoWriteAhead).unwrap();
    let direct =
        DirectFrames::<SmallPages, Unlatched>::create(&MemDisk::new(), LIMIT_BYTES).unwrap();
    for id in [0, 1, u32::MAX] {
        let offset = u64::from(id) * 8192;
        for error in [pool.fix_shared(PageId(id)).err(), direct.fix_shared(PageId(id)).err()] {
            let error = error.unwrap();
            let PageFailure::Damaged { file, offset: at, .. } = error.failure() else {
                panic!("{error}")
            };
            assert_eq!((file.as_str(), *at), (PAGES_FILE, offset));
        }
    }
}
