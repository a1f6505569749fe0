//! A lock table that is warm allocates nothing: not for locks, conversions, escalation or release.
//!
//! Only the test's own thread is counted: the test harness may allocate on its own at any time.

#![expect(unsafe_code, reason = "a counting allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tombolo_storage::latch::Latched;
use tombolo_storage::lock::{Hierarchical, LockSettings, Locking, Mode};
use tombolo_storage::row::RowId;

/// The system's allocator, which counts the allocations of each thread.
struct Counting;

thread_local! {
    /// Constant at first and without a destructor, so that using it allocates nothing.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
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
    let before = ALLOCATIONS.get();
    (3..50).for_each(&mut transaction);
    assert_eq!(ALLOCATIONS.get() - before, 0);
    // The counter counts: a box is an allocation.
    drop(std::hint::black_box(Box::new(7)));
    assert_eq!(ALLOCATIONS.get() - before, 1);
    locks.close_session(held);
}
