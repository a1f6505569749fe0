//! Pools against a model, under threads, with pools smaller than the data, damage and full disks.

mod copies;
mod damage;
mod model;
mod threads;

use super::*;
use crate::disk::{Disk, DiskFile, Fault, MemDisk, Open, Operation};
use crate::latch::{Latched, Unlatched};
use crate::paged::page::{LargePages, SlotKind, SmallPages};
use crate::sync::{Arc, AtomicU64, Ordering};
use std::io::ErrorKind;
use std::sync::OnceLock;

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

/// Misses among 32 pages that are used once per so many pages of a scan, which finds each of its pages once per row.
fn misses_beside_a_scan(rows: usize, pages_per_turn: usize) -> u64 {
    let pool = Small::create(&MemDisk::new(), 128, NoWriteAhead).unwrap();
    let pages: Vec<PageId> = (0..2_032).map(|n| page_with(&pool, n)).collect();
    let (hot, scanned) = pages.split_at(32);
    let touch = || hot.iter().for_each(|&id| drop(pool.fix_shared(id).unwrap()));
    // As they come to be hot: pages are read into the pool between their uses.
    for &id in &scanned[..500] {
        touch();
        drop(pool.fix_shared(id).unwrap());
    }
    let before = pool.usage().misses;
    for part in scanned.chunks(pages_per_turn) {
        for &id in part {
            (0..rows).for_each(|_| drop(pool.fix_shared(id).unwrap()));
        }
        touch();
    }
    pool.usage().misses - before - scanned.len() as u64
}

/// A page that a scan finds once for each of its rows is used no more than one that is found once.
#[test]
fn a_scan_leaves_the_pages_that_are_in_use() {
    for rows in [1, 2, 8, 100] {
        for pages_per_turn in [8, 32, 64] {
            let misses = misses_beside_a_scan(rows, pages_per_turn);
            println!("{rows} rows, {pages_per_turn} pages: {misses} misses");
            assert_eq!(misses, 0, "{rows} rows, {pages_per_turn} pages");
        }
    }
}

/// Four of five uses are of one page in five, the pool has room for three in ten.
#[test]
fn misses_where_some_pages_are_used_more() {
    let pool = Small::create(&MemDisk::new(), 300, NoWriteAhead).unwrap();
    let pages: Vec<PageId> = (0..1_000).map(|n| page_with(&pool, n)).collect();
    let mut random = crate::memory::test_random::Random::new(1);
    let mut misses = 0;
    for round in 0..60_000 {
        if round == 20_000 {
            misses = pool.usage().misses;
        }
        let at = if random.below(5) > 0 { random.below(200) } else { 200 + random.below(800) };
        for _ in 0..1 + random.below(6) {
            drop(pool.fix_shared(pages[at as usize]).unwrap());
        }
    }
    let misses = pool.usage().misses - misses;
    println!("{misses} misses in 40,000 uses");
    // 7,000 of the best choice; 9,736 where each of a page's uses in a round counts.
    assert!(misses < 9_000, "{misses} misses in 40,000 uses");
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

/// A log that becomes durable when it is asked to, or refuses; it looks at the data file first.
#[derive(Default)]
struct TestLog {
    file: OnceLock<Box<dyn DiskFile>>,
    durable: AtomicU64,
    broken: AtomicU64,
    flushes: AtomicU64,
}

impl TestLog {
    /// Whether no page in the file is ahead of the log.
    fn is_ahead(&self) -> bool {
        let pages = self.file.get().map_or(0, |file| file.len().unwrap() / 8192);
        (1..pages).all(|id| self.lsn_in_file(id) <= self.durable())
    }

    fn lsn_in_file(&self, id: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file.get().unwrap().read_at(&mut bytes, id * 8192 + 8).unwrap();
        u64::from_le_bytes(bytes)
    }
}

impl WriteAhead for TestLog {
    const LOGS: bool = true;

    fn is_kept(&self) -> bool {
        true
    }

    fn durable(&self) -> u64 {
        self.durable.load(Ordering::SeqCst)
    }

    fn flush_to(&self, lsn: u64) -> Result<(), Error> {
        assert!(self.is_ahead(), "a page was written before its log was asked for");
        if self.broken.load(Ordering::SeqCst) != 0 {
            return Err(Error::Poisoned { reason: "the log is broken" });
        }
        let before = self.durable.fetch_max(lsn, Ordering::SeqCst);
        self.flushes.fetch_add(u64::from(before < lsn), Ordering::SeqCst);
        Ok(())
    }
}

type Logged = BufferPool<SmallPages, Latched, Arc<TestLog>>;

/// A pool, its log, and `pages` pages, each with an LSN of its own.
fn logged_pool(frames: usize, pages: usize) -> (Logged, Arc<TestLog>, Vec<PageId>) {
    let disk = MemDisk::new();
    let log = Arc::new(TestLog::default());
    let pool = Logged::create(&disk, frames, Arc::clone(&log)).unwrap();
    log.file.set(disk.open(PAGES_FILE, Open::Read).unwrap()).unwrap();
    let page = |lsn: usize| {
        let mut page = pool.new_page(StoreId(1), PageKind::Heap).unwrap();
        page.page_mut().set_lsn(lsn as u64 + 1);
        page.page().id()
    };
    let ids = (0..pages).map(page).collect();
    (pool, log, ids)
}

#[test]
fn no_page_is_written_before_its_log() {
    let (pool, log, pages) = logged_pool(3, 99);
    assert!(log.is_ahead() && (90..99).contains(&log.durable()), "{}", log.durable());
    pool.fix_exclusive(pages[0]).unwrap().page_mut().set_lsn(1_000);
    let durable = log.durable();
    log.broken.store(1, Ordering::SeqCst);
    let refused = pages[10..14].iter().find_map(|&id| pool.fix_shared(id).err());
    assert!(matches!(refused.unwrap().failure(), PageFailure::Log(_)));
    assert!(log.is_ahead() && log.durable() == durable, "its log was refused");
    log.broken.store(0, Ordering::SeqCst);
    assert_eq!(pool.check(), []);
}

#[test]
fn a_stopped_pool_writes_nothing() {
    let (pool, log, pages) = logged_pool(4, 20);
    pool.flush().unwrap();
    pool.fix_exclusive(pages[19]).unwrap().page_mut().set_lsn(5);
    pool.stop_writing("for a test");
    pool.stop_writing("for another");
    let refused = pages.iter().find_map(|&id| pool.fix_shared(id).err()).unwrap();
    let reason = Error::Poisoned { reason: "for a test" };
    assert_eq!(*refused.failure(), PageFailure::Log(reason));
    assert!(pool.flush().is_err());
    assert_eq!(log.lsn_in_file(pages[19].0.into()), 20, "the page in the file is that of before");
}

/// What a miss costs is counted in frames looked at and flushes of the log: the same in a small
/// pool and a large one, all of whose pages are dirty, and used or not.
#[test]
fn a_miss_costs_the_same_in_every_pool() {
    for frames in [64, 128, 1_024] {
        for uses in [0, 10] {
            let (pool, log, pages) = logged_pool(frames, frames + 700);
            for &id in pages[700..].iter().flat_map(|id| std::iter::repeat_n(id, uses)) {
                drop(pool.fix_shared(id).unwrap());
            }
            let (before, flushes) = (pool.usage(), log.flushes.load(Ordering::SeqCst));
            let mut most = 0;
            for (n, &id) in pages[..500].iter().enumerate() {
                let passed = pool.usage().passed;
                let mut page = pool.fix_exclusive(id).unwrap();
                page.page_mut().set_lsn(10_000 + n as u64);
                most = most.max(pool.usage().passed - passed);
            }
            let usage = pool.usage();
            let misses = usage.misses - before.misses;
            assert!((490..=500).contains(&misses), "{misses}");
            let passed = usage.passed - before.passed;
            assert!(most <= 130 && passed <= 4 * misses, "{frames}: {most}, {passed}");
            let flushes = log.flushes.load(Ordering::SeqCst) - flushes;
            assert!(flushes <= misses / 8, "{frames}: {flushes} flushes");
        }
    }
}

#[test]
fn pages_that_are_asked_for_are_read_before_they_are_needed() {
    let disk = MemDisk::new();
    let pool = Small::create(&disk, 40, NoWriteAhead).unwrap();
    let pages: Vec<PageId> = (0..200).map(|n| page_with(&pool, n)).collect();
    let misses = || pool.usage().misses;
    pool.fetch(pages[..10].iter().copied());
    assert_eq!(misses(), 0, "nothing has ever been missing");
    drop(pool.fix_shared(pages[0]).unwrap());
    pool.flush().unwrap();
    // More than are read at the same time; twice the same, one that is there, and none.
    let wanted = [&pages[..30], &pages[20..25], &[PageId(0), PageId(9_999)]].concat();
    pool.fetch(wanted.iter().copied());
    assert_eq!(misses(), 30);
    for (n, &id) in (0..).zip(&pages[..30]) {
        assert_eq!(value(&pool.fix_shared(id).unwrap()), n);
    }
    assert_eq!(misses(), 30);
    // A page that is damaged in the file is refused where it is needed, and those with it are read.
    let file = disk.open(PAGES_FILE, Open::Write).unwrap();
    file.write_at(&[9; 50], u64::from(pages[101].0) * SmallPages::BYTES as u64 + 100).unwrap();
    pool.fetch(pages[100..103].iter().copied());
    assert_eq!(value(&pool.fix_shared(pages[100]).unwrap()), 100);
    assert!(matches!(failure(pool.fix_shared(pages[101])), PageFailure::Damaged { .. }));
    assert_eq!(value(&pool.fix_shared(pages[102]).unwrap()), 102);
    assert!(pool.frames.iter().all(|frame| frame.pins() == 0));
}

/// As long as there are frames without a page, none is made ready: a page would leave for nothing.
#[test]
fn no_page_leaves_a_pool_that_is_not_full() {
    let (pool, log, pages) = logged_pool(64, 40);
    pool.make_ready_ahead().unwrap();
    assert_eq!((pool.usage().passed, log.flushes.load(Ordering::SeqCst)), (40, 0));
    (0..20).for_each(|n| _ = page_with(&pool, n));
    pages.iter().for_each(|&id| drop(pool.fix_shared(id).unwrap()));
    assert_eq!(pool.usage().misses, 0);
}

/// A thread that is called in time writes the pages: misses flush no log.
#[test]
fn frames_are_made_ready_before_they_are_needed() {
    let (pool, log, pages) = logged_pool(64, 700);
    let (calls, called) = std::sync::mpsc::channel();
    let calls = std::sync::Mutex::new(calls);
    pool.when_few_are_ready(move || calls.lock().unwrap().send(()).unwrap());
    let mut flushed_by_misses = 0;
    for (n, &id) in pages[..500].iter().enumerate() {
        if called.try_recv().is_ok() {
            pool.make_ready_ahead().unwrap();
        }
        let flushes = log.flushes.load(Ordering::SeqCst);
        pool.fix_exclusive(id).unwrap().page_mut().set_lsn(10_000 + n as u64);
        flushed_by_misses += log.flushes.load(Ordering::SeqCst) - flushes;
    }
    assert!(log.flushes.load(Ordering::SeqCst) > 20 && log.is_ahead());
    assert!(flushed_by_misses <= 2, "{flushed_by_misses} misses flushed the log");
}

#[test]
fn a_thread_waits_for_a_frame_while_all_are_pinned() {
    let pool = Small::create(&MemDisk::new(), 3, NoWriteAhead).unwrap();
    let pages: Vec<PageId> = (0..4).map(|n| page_with(&pool, n)).collect();
    let fixed: Vec<_> = pages[..3].iter().map(|&id| pool.fix_shared(id).unwrap()).collect();
    let passed = pool.usage().passed;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| pool.fix_shared(pages[3]).map(|page| value(&page)));
        // It has looked at every frame more often than it spins.
        while pool.usage().passed < passed + 60 {
            assert!(!waiting.is_finished(), "it gave up");
            std::thread::yield_now();
        }
        drop(fixed);
        assert_eq!(waiting.join().unwrap().unwrap(), 3);
    });
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
