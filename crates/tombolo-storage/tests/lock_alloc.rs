//! A lock table that is warm allocates nothing: not for locks, conversions, escalation or release.
//!
//! Alone in its test program, because the allocator counts for the whole program.

#![expect(unsafe_code, reason = "a counting allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_storage::latch::Latched;
use tombolo_storage::lock::{Hierarchical, LockSettings, Locking, Mode};
use tombolo_storage::row::RowId;

/// The system's allocator, counting.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_warm_lock_table_allocates_nothing() {
    let settings = LockSettings { rows_per_page_max: 16, ..LockSettings::default() };
    let locks = Hierarchical::<Latched>::new(settings);
    let mut held = locks.open_session().unwrap();
    let mut transaction = |number: u64| {
        locks.begin(&mut held, number);
        for i in 0..300 {
            // Pages of one to three rows, and one page that escalates.
            let page = if i % 10 == 0 { 7 } else { 100 + i / 2 };
            let row = RowId::new(page << 16 | i);
            locks.lock_row(&mut held, 1, row, Mode::Shared).unwrap();
            locks.lock_row(&mut held, 1, row, Mode::Exclusive).unwrap();
        }
        locks.release_all(&mut held);
    };
    (0..3).for_each(&mut transaction);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (3..50).for_each(&mut transaction);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
    locks.close_session(held);
}
