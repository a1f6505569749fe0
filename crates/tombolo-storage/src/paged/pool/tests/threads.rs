//! Several threads on one pool that is smaller than the data.

use super::*;
use crate::memory::test_random::Random;

const THREADS: u64 = 4;
const PAGES: u64 = 40;
const STEPS: u64 = 5_000;

/// Threads move amounts between pages; the sum stays.
fn transfers<P: PageAccess + Sync>(access: &P) {
    let pages: Vec<PageId> = (0..PAGES).map(|_| page_with(access, 1_000)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let pages = &pages;
            scope.spawn(move || {
                let mut random = Random::new(thread);
                for _ in 0..STEPS {
                    let from = random.below(PAGES - 1) as usize;
                    let to = from + 1 + random.below(PAGES - 1 - from as u64) as usize;
                    // In ascending order: latches know no deadlock detection.
                    let mut from = access.fix_exclusive(pages[from]).unwrap();
                    let mut to = access.fix_exclusive(pages[to]).unwrap();
                    let (a, b) = (value(&from), value(&to));
                    set_value(&mut from, a.wrapping_sub(1));
                    set_value(&mut to, b.wrapping_add(1));
                }
            });
        }
    });
    let values = pages.iter().map(|&id| value(&access.fix_shared(id).unwrap()));
    assert_eq!(values.fold(0, u64::wrapping_add), PAGES * 1_000);
    assert_eq!(access.check(), []);
}

#[test]
fn transfers_through_a_small_pool() {
    let disk = MemDisk::new();
    transfers(&Small::create(&disk, 2 * THREADS as usize + 2, NoWriteAhead).unwrap());
}

#[test]
fn transfers_through_direct_frames() {
    let disk = MemDisk::new();
    transfers(&DirectFrames::<LargePages, Latched>::create(&disk, LIMIT_BYTES).unwrap());
}

/// Threads make, read, pin and free pages of their own, while all share the frames.
fn own_pages<P: PageAccess + Sync>(access: &P) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut random = Random::new(thread + 100);
                let mut own: Vec<(PageId, u64)> = Vec::new();
                for step in 0..2_000 {
                    let value_of_step = thread << 32 | step;
                    if own.len() < 20 && random.below(2) == 0 {
                        own.push((page_with(access, value_of_step), value_of_step));
                        continue;
                    }
                    let Some(nth) = (random.below(own.len() as u64 + 1) as usize).checked_sub(1)
                    else {
                        continue;
                    };
                    if random.below(4) == 0 {
                        access.fetch(own.iter().map(|(id, _)| *id));
                    }
                    let (id, expected) = own[nth];
                    let pin = access.fix_shared(id).unwrap().pin(0).unwrap();
                    assert_eq!(*pin, expected.to_le_bytes());
                    drop(pin);
                    if random.below(3) == 0 {
                        access.free_page(access.fix_exclusive(id).unwrap());
                        own.swap_remove(nth);
                    }
                }
            });
        }
    });
    assert_eq!(access.check(), []);
}

#[test]
fn pages_come_and_go_in_a_small_pool() {
    let disk = MemDisk::new();
    own_pages(&Small::create(&disk, 3 * THREADS as usize, NoWriteAhead).unwrap());
}

#[test]
fn pages_come_and_go_in_direct_frames() {
    let disk = MemDisk::new();
    own_pages(&DirectFrames::<SmallPages, Latched>::create(&disk, LIMIT_BYTES).unwrap());
}

#[test]
fn flushing_meanwhile_loses_nothing() {
    let disk = MemDisk::new();
    let pool = Small::create(&disk, 12, NoWriteAhead).unwrap();
    let pages: Vec<PageId> = (0..PAGES).map(|_| page_with(&pool, 0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (pool, pages) = (&pool, &pages);
            scope.spawn(move || {
                let mut random = Random::new(thread);
                for _ in 0..STEPS {
                    let id = pages[random.below(PAGES) as usize];
                    let mut page = pool.fix_exclusive(id).unwrap();
                    let now = value(&page);
                    set_value(&mut page, now + 1);
                }
            });
        }
        for _ in 0..50 {
            pool.make_ready_ahead().unwrap();
            pool.flush().unwrap();
        }
    });
    pool.close().unwrap();
    drop(pool);
    let pool = Small::open(&disk, 12, NoWriteAhead).unwrap();
    let sum: u64 = pages.iter().map(|&id| value(&pool.fix_shared(id).unwrap())).sum();
    assert_eq!(sum, 2 * STEPS);
}
