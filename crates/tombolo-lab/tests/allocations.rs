//! No transaction allocates: a counting allocator watches both mixes on both profiles.
//!
//! Rows and index entries live in regions taken from the system directly; they are reserved
//! beforehand here, so that even the slabs' bookkeeping has no reason to grow. What is left must
//! be exactly nothing. One test only: the counter is the process's.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod counting_allocator;

use tombolo_engine::transaction::Stop;
use tombolo_lab::workload::tpcc::input::{Generator, Input, Mix};
use tombolo_lab::workload::tpcc::loader::{self, Scale};
use tombolo_lab::workload::tpcc::nurand::Constants;
use tombolo_lab::workload::tpcc::transactions::Transactions;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::{Bare, Memory, MemoryProfile};
use tombolo_storage::store::Store;

use counting_allocator::allocations_so_far;

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
    let before = allocations_so_far();
    inputs[WARM_UP..].iter().for_each(&mut call);
    (allocations_so_far() - before, committed)
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
    let before = allocations_so_far();
    drop(std::hint::black_box(Box::new(7)));
    assert_eq!(allocations_so_far() - before, 1);
}
