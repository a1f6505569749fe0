//! What locks cost without conflicts, for callgrind:
//! `cargo build --release --example lock_probe`, then
//! `valgrind --tool=callgrind --dump-instr=no target/release/examples/lock_probe`, then
//! `callgrind_annotate --inclusive=yes` and divide each function by the number printed.

use tombolo_storage::latch::{Latched, Unlatched};
use tombolo_storage::lock::{
    HeldLocks, Hierarchical, IfLocks, LockSettings, Locking, Mode, NoLocks,
};
use tombolo_storage::row::RowId;

/// Transactions per function.
const TRANSACTIONS: u64 = 1_000;
/// Rows a transaction locks.
const ROWS: u64 = 16;
/// Other sessions that hold the intention on the store.
const HOLDERS: u64 = 250;

fn main() {
    println!("{} rows per function", TRANSACTIONS * ROWS);
    let latched = Hierarchical::<Latched>::new(LockSettings::default());
    let mut held = latched.open_session().unwrap_or_else(|error| panic!("{error}"));
    transactions(&latched, &mut held, 1);
    empty_latched(&latched, &mut held);
    rows_of_one_page_latched(&latched, &mut held);
    rows_of_many_pages_latched(&latched, &mut held);
    rows_locked_again_latched(&latched, &mut held);
    rows_read_then_changed_latched(&latched, &mut held);
    one_row(&latched, &mut held);
    one_row_in_turns(&latched, &mut held);
    let mut others: Vec<_> = (0..HOLDERS).map(|other| holder(&latched, other)).collect();
    one_row(&latched, &mut held);
    one_row_in_turns(&latched, &mut held);
    others.iter_mut().for_each(|other| latched.release_all(other));
    others.into_iter().for_each(|other| latched.close_session(other));
    latched.close_session(held);

    let unlatched = Hierarchical::<Unlatched>::new(LockSettings::default());
    let mut held = unlatched.open_session().unwrap_or_else(|error| panic!("{error}"));
    transactions(&unlatched, &mut held, 1);
    rows_of_one_page_unlatched(&unlatched, &mut held);
    unlatched.close_session(held);

    let conditional = IfLocks::<Latched>::new(LockSettings::default());
    conditional.switch(false);
    let mut held = conditional.open_session().unwrap_or_else(|error| panic!("{error}"));
    rows_of_one_page_switched_off(&conditional, &mut held);
    conditional.close_session(held);

    let none = NoLocks::new(LockSettings::default());
    let mut held = none.open_session().unwrap_or_else(|error| panic!("{error}"));
    rows_of_one_page_removed(&none, &mut held);
}

/// Locks `ROWS` rows, `1 << page_shift` locations apart (16: one to a page), exclusively.
#[inline(always)]
fn lock_rows<K: Locking>(locks: &K, held: &mut K::Held, transaction: u64, page_shift: u32) {
    for row in 0..ROWS {
        lock_row(locks, held, (transaction * 37 + 5) << 24 | row << page_shift, Mode::Exclusive);
    }
}

#[inline(always)]
fn lock_row<K: Locking>(locks: &K, held: &mut K::Held, location: u64, mode: Mode) {
    let granted = locks.lock_row(held, 3, RowId::new(location), mode);
    granted.unwrap_or_else(|error| panic!("{error}"));
}

#[inline(always)]
fn transactions<K: Locking>(locks: &K, held: &mut K::Held, times: u32) {
    for transaction in 0..TRANSACTIONS {
        locks.begin(held, transaction);
        for _ in 0..times {
            lock_rows(locks, held, transaction, 0);
        }
        locks.release_all(held);
    }
}

/// One lock on a page and its store, and nothing else: what the others contain once per
/// transaction.
#[inline(never)]
fn empty_latched(locks: &Hierarchical<Latched>, held: &mut HeldLocks) {
    for transaction in 0..TRANSACTIONS {
        locks.begin(held, transaction);
        let granted = locks.lock_page(held, 3, 7, Mode::IntentionExclusive);
        granted.unwrap_or_else(|error| panic!("{error}"));
        locks.release_all(held);
    }
}

#[inline(never)]
fn rows_of_one_page_latched(locks: &Hierarchical<Latched>, held: &mut HeldLocks) {
    transactions(locks, held, 1);
}

/// Row and page for each.
#[inline(never)]
fn rows_of_many_pages_latched(locks: &Hierarchical<Latched>, held: &mut HeldLocks) {
    for transaction in 0..TRANSACTIONS {
        locks.begin(held, transaction);
        lock_rows(locks, held, transaction, 16);
        locks.release_all(held);
    }
}

/// Each row once more, which is held already: subtract `rows_of_one_page_latched`.
#[inline(never)]
fn rows_locked_again_latched(locks: &Hierarchical<Latched>, held: &mut HeldLocks) {
    transactions(locks, held, 2);
}

/// Each row on a page of its own, shared and then exclusively: store, page and row are converted.
#[inline(never)]
fn rows_read_then_changed_latched(locks: &Hierarchical<Latched>, held: &mut HeldLocks) {
    for transaction in 0..TRANSACTIONS {
        locks.begin(held, transaction);
        for row in 0..ROWS {
            let location = (transaction * 37 + 5) << 24 | row << 16;
            lock_row(locks, held, location, Mode::Shared);
            lock_row(locks, held, location, Mode::Exclusive);
        }
        locks.release_all(held);
    }
}

/// A session that holds a row of the store, and so the intention.
fn holder(locks: &Hierarchical<Latched>, other: u64) -> HeldLocks {
    let mut held = locks.open_session().unwrap_or_else(|error| panic!("{error}"));
    locks.begin(&mut held, other);
    lock_row(locks, &mut held, (other + 1) << 32, Mode::Exclusive);
    held
}

/// Transactions of one row each, locked in `modes` in turn. Divide by their number, not by that of rows; which
/// call is meant says its line.
#[inline(always)]
fn one_row_each(locks: &Hierarchical<Latched>, held: &mut HeldLocks, modes: [Mode; 2]) {
    for transaction in 0..TRANSACTIONS {
        locks.begin(held, transaction);
        lock_row(locks, held, 5 << 24 | transaction, modes[transaction as usize % 2]);
        locks.release_all(held);
    }
}

/// The intention on the store is inherited.
#[inline(never)]
fn one_row(locks: &Hierarchical<Latched>, held: &mut HeldLocks) {
    one_row_each(locks, held, [Mode::Exclusive; 2]);
}

/// What the last transaction left is another intention: the store is locked anew.
#[inline(never)]
fn one_row_in_turns(locks: &Hierarchical<Latched>, held: &mut HeldLocks) {
    one_row_each(locks, held, [Mode::Exclusive, Mode::Shared]);
}

#[inline(never)]
fn rows_of_one_page_unlatched(locks: &Hierarchical<Unlatched>, held: &mut HeldLocks) {
    transactions(locks, held, 1);
}

#[inline(never)]
fn rows_of_one_page_switched_off(locks: &IfLocks<Latched>, held: &mut HeldLocks) {
    transactions(locks, held, 1);
}

#[inline(never)]
fn rows_of_one_page_removed<K: Locking>(locks: &K, held: &mut K::Held) {
    transactions(locks, held, 1);
}
