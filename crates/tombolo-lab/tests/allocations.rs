//! No transaction allocates: a counting allocator watches both mixes on both profiles.
//!
//! Rows and index entries live in regions taken from the system directly; they are reserved
//! beforehand here, so that even the slabs' bookkeeping has no reason to grow. What is left must
//! be exactly nothing. One test only: the counter is the process's.
#![expect(unsafe_code, reason = "a global allocator is an unsafe trait")]
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_engine::transaction::Stop;
use tombolo_lab::workload::tpcc::input::{Generator, Input, Mix};
use tombolo_lab::workload::tpcc::loader::{self, Scale};
use tombolo_lab::workload::tpcc::nurand::Constants;
use tombolo_lab::workload::tpcc::transactions::Transactions;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::{Bare, Memory, MemoryProfile};
use tombolo_storage::store::Store;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the caller's promises are the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`; the pointer came from there.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const WARM_UP: usize = 2_000;
const COUNTED: usize = 8_000;

/// Allocations of [`COUNTED`] transactions after [`WARM_UP`] others, and how many committed.
fn allocations<P: MemoryProfile>(mix: Mix) -> (u64, usize) {
    let mut store = MemoryStore::<P>::new(Limits::default());
    loader::load(&mut store, Scale { seed: 1, warehouses: 1, mix }, 1, |_, _| {}).unwrap();
    for table in 0..store.schema().tables.len() {
        store.reserve(table, 2 * 15 * (WARM_UP + COUNTED)).unwrap();
    }
    let transactions = Transactions::bind(store.schema(), mix).unwrap();
    let mut generator = Generator::new(1, mix, 1, Constants::from_seed(1));
    let inputs: Vec<Input> = (0..WARM_UP + COUNTED).map(|_| generator.next_input()).collect();
    let mut committed = 0;
    let mut call = |input| match transactions.call(&mut store, input) {
        Ok(answer) => {
            std::hint::black_box(answer);
            committed += 1;
        }
        Err(Stop::Abort(_)) => {}
        Err(error) => panic!("{error}"),
    };
    inputs[..WARM_UP].iter().for_each(&mut call);
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    inputs[WARM_UP..].iter().for_each(&mut call);
    (ALLOCATIONS.load(Ordering::SeqCst) - before, committed)
}

#[test]
fn transactions_allocate_nothing() {
    for mix in [Mix::Paper, Mix::Standard] {
        for (profile, (allocations, committed)) in
            [(Bare::NAME, allocations::<Bare>(mix)), (Memory::NAME, allocations::<Memory>(mix))]
        {
            assert!(committed > (WARM_UP + COUNTED) * 9 / 10, "{profile}: {committed} committed");
            assert_eq!(allocations, 0, "{profile}, {mix:?} mix");
        }
    }
    // The counter counts: a box is an allocation.
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    drop(std::hint::black_box(Box::new(7)));
    assert_eq!(ALLOCATIONS.load(Ordering::SeqCst) - before, 1);
}
