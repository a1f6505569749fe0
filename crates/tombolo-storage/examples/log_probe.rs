//! What a log record costs, for callgrind:
//! `cargo build --release --example log_probe`, then
//! `valgrind --tool=callgrind --dump-instr=no target/release/examples/log_probe`, then
//! `callgrind_annotate --inclusive=yes` and divide each function by the number printed.

use tombolo_storage::latch::{Latched, Latching, Unlatched};
use tombolo_storage::log::{
    Change, ChangeKind, Destination, InMemory, Log, LogSettings, Logging, Numbers,
};
use tombolo_storage::paged::heap::Place;
use tombolo_storage::paged::page::StoreId;
use tombolo_storage::row::RowId;

/// Transactions per function.
const TRANSACTIONS: u64 = 1_000;
/// Changes of a transaction.
const CHANGES: u64 = 16;
/// Bytes of each image.
const IMAGE_BYTES: usize = 60;

fn main() {
    println!("{} changes and {TRANSACTIONS} transactions", TRANSACTIONS * CHANGES);
    latched(&log());
    unlatched(&log());
    numbers(&Numbers::create(LogSettings::default(), None).unwrap_or_else(|e| panic!("{e}")));
    empty_latched(&log());
}

fn log<D: Destination, L: Latching>() -> Log<D, L> {
    Log::create(LogSettings::default(), None).unwrap_or_else(|error| panic!("{error}"))
}

#[inline(always)]
fn transactions<G: Logging>(log: &G, changes: u64) {
    let mut transaction = G::Transaction::default();
    let (before, after) = ([1; IMAGE_BYTES], [2; IMAGE_BYTES]);
    for id in 1..=TRANSACTIONS {
        log.begin(&mut transaction, id);
        for row in 0..changes {
            let row = RowId::new(id << 16 | row);
            let (kind, store) = (ChangeKind::RowUpdated, StoreId(3));
            let change = Change { kind, store, place: Place::of_row(row), row, within: 8 };
            change_one(log, &mut transaction, change, &before, &after);
        }
        log.commit(&mut transaction).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[inline(always)]
fn change_one<G: Logging>(
    log: &G,
    transaction: &mut G::Transaction,
    change: Change,
    before: &[u8],
    after: &[u8],
) {
    let before = std::hint::black_box(before);
    let after = std::hint::black_box(after);
    let stamp = log.change(transaction, change, before, after);
    std::hint::black_box(stamp.unwrap_or_else(|error| panic!("{error}")));
}

#[inline(never)]
fn latched(log: &Log<InMemory, Latched>) {
    transactions(log, CHANGES);
}

#[inline(never)]
fn unlatched(log: &Log<InMemory, Unlatched>) {
    transactions(log, CHANGES);
}

#[inline(never)]
fn numbers(log: &Numbers<Latched>) {
    transactions(log, CHANGES);
}

/// One change and the commit: subtract a change.
#[inline(never)]
fn empty_latched(log: &Log<InMemory, Latched>) {
    transactions(log, 1);
}
