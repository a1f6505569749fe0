//! Transactions next to others that abort or are waited for: what was committed stays visible.

use super::*;
use crate::lock::Reads;
use crate::log::{Logging, UndoRecord};
use crate::paged::btree::{KeyFormat, Routes, TypedColumns};
use std::sync::mpsc;

impl<P: PagedProfile> Bank<P> {
    fn range(&mut self, from: i32, to: i32, order: Order) -> Vec<RowId> {
        let mut rows = Vec::new();
        let visit = |row| {
            rows.push(row);
            ControlFlow::Continue(())
        };
        self.store.scan(&self.by_id, Range::between(from, to), order, visit).unwrap();
        rows
    }

    /// Begins a transaction that writes.
    pub(super) fn begin_writes(&mut self) {
        self.store.begin().unwrap();
        self.store.begin_writes();
    }

    /// A row without entries.
    fn bare_row(&mut self, id: i32) -> RowId {
        self.store.create(&self.table, |row| row.set(Account::ID, id)).unwrap()
    }

    pub(super) fn remove_row(&mut self, id: i32) -> RowId {
        let row = self.store.lookup_for_update(&self.by_id, id).unwrap().unwrap();
        let name = format!("account number {}", id % 10);
        assert!(self.store.remove(&self.by_id, id, row).unwrap());
        assert!(self.store.remove(&self.by_name, name.as_bytes(), row).unwrap());
        self.store.delete(&self.table, row).unwrap();
        row
    }

    /// Gives a row another id; until its transaction has ended, it has an entry under both.
    pub(super) fn move_row(&mut self, from: i32, to: i32) {
        let row = self.store.lookup_for_update(&self.by_id, from).unwrap().unwrap();
        let id = Fields::none().with(Account::ID);
        self.store.update(&self.table, row, id, |row| row.set(Account::ID, to)).unwrap();
        assert!(self.store.remove(&self.by_id, from, row).unwrap());
        self.store.insert(&self.by_id, to, row).unwrap();
    }
}

/// The transaction of one thread is undone step by step; between two steps another one looks.
#[test]
fn an_abort_never_hides_a_committed_key() {
    let mut bank = Bank::<Conventional>::create(&MemDisk::new(), 10);
    bank.begin_writes();
    let row = bank.find(1).unwrap();
    assert!(bank.store.remove(&bank.by_id, 1, row).unwrap());
    bank.store.insert(&bank.by_id, 1, row).unwrap();
    let (database, session) = (&*bank.store.database, &mut bank.store.session);
    let tree = &database.indexes[0].tree;
    let mut key = Vec::new();
    <TypedColumns as KeyFormat>::encode::<ById>(bank.by_id.shape(), 1, &mut key);
    let mut undo = UndoRecord::new();
    let mut steps = 0;
    while database.log.next_undo(&mut session.log, &mut undo) {
        assert!(session.undo_entry(database, 0, &undo, Reads::OfOthers).unwrap());
        let mut entries = 0;
        let count = |_, _| {
            entries += 1;
            ControlFlow::Continue(())
        };
        tree.find(&database.pages, &mut Routes::default(), &key, count, &()).unwrap();
        assert_eq!(entries, 1, "after step {steps} of the undo, others find nothing to wait for");
        steps += 1;
    }
    assert_eq!(steps, 2);
    bank.store.abort().unwrap();
    assert_eq!(bank.store.check(), []);
}

/// A key that was given to another row cannot be taken back by reviving the first row's entry.
#[test]
fn a_revived_entry_is_unique_too() {
    let mut bank = Bank::<Conventional>::create(&MemDisk::new(), 10);
    bank.begin_writes();
    let row = bank.find(1).unwrap();
    let other = bank.bare_row(1);
    assert!(bank.store.remove(&bank.by_id, 1, row).unwrap());
    bank.store.insert(&bank.by_id, 1, other).unwrap();
    let refused = bank.store.insert(&bank.by_id, 1, row);
    assert!(matches!(refused, Err(Error::Duplicate { .. })), "{refused:?}");
    assert!(bank.store.remove(&bank.by_id, 1, other).unwrap());
    for _ in 0..3 {
        bank.store.insert(&bank.by_id, 1, row).unwrap();
        assert!(bank.store.remove(&bank.by_id, 1, row).unwrap());
    }
    bank.store.insert(&bank.by_id, 1, row).unwrap();
    assert_eq!(bank.range(1, 1, Order::Forward), [row]);
    bank.store.delete(&bank.table, other).unwrap();
    bank.store.commit().unwrap();
    assert_eq!(bank.store.check(), []);
}

/// What a scan finds that had to wait for `change`, made by another transaction that holds
/// everything it touched when the scan begins.
fn scan_that_waits(order: Order, first: i32, change: fn(&mut Bank<Conventional>)) -> usize {
    let mut bank = Bank::<Conventional>::create(&MemDisk::new(), 0);
    [200, 10, 30].into_iter().for_each(|id| bank.add(id).unwrap());
    // A place in front of the others becomes free.
    bank.begin_writes();
    bank.remove_row(200);
    bank.store.commit().unwrap();
    let mut other = bank.session();
    bank.begin_writes();
    bank.remove_row(first);
    let (begun, begins) = mpsc::channel();
    std::thread::scope(|scope| {
        let scan = scope.spawn(move || {
            other.store.begin().unwrap();
            let mut rows = Vec::new();
            let visit = |row| {
                rows.push(row);
                ControlFlow::Continue(())
            };
            begun.send(()).unwrap();
            other.store.scan(&other.by_id, Range::between(0, 100), order, visit).unwrap();
            other.store.commit().unwrap();
            rows.len()
        });
        begins.recv().unwrap();
        bank.store.database.locks.until_one_waits();
        change(&mut bank);
        bank.store.commit().unwrap();
        scan.join().unwrap()
    })
}

#[test]
fn a_scan_that_waited_continues_behind_the_last_row_it_returned() {
    // The same key in a row that lies before the one that was waited for.
    for order in [Order::Forward, Order::Backward] {
        assert_eq!(scan_that_waits(order, 10, |bank| bank.add_row(10).unwrap()), 2, "{order:?}");
        assert_eq!(scan_that_waits(order, 30, |bank| bank.add_row(30).unwrap()), 2, "{order:?}");
        // Another key between the last row returned and the one that was waited for.
        assert_eq!(scan_that_waits(order, 10, |bank| bank.add_row(20).unwrap()), 2, "{order:?}");
        assert_eq!(scan_that_waits(order, 30, |bank| bank.add_row(20).unwrap()), 2, "{order:?}");
    }
}

/// Whether another session's insertion waits for the transaction of `read`; both commit.
fn waits_for_reader(isolation: Isolation, read: impl Fn(&mut Bank<Conventional>), id: i32) -> bool {
    let mut bank = Bank::<Conventional>::create(&MemDisk::new(), 0);
    [10, 20, 30, 41].into_iter().for_each(|id| bank.add(id).unwrap());
    let mut other = bank.session();
    bank.store.set_isolation(isolation);
    bank.store.begin().unwrap();
    read(&mut bank);
    let (ended, ends) = mpsc::channel();
    std::thread::scope(|scope| {
        let locks = &bank.store.database.locks;
        scope.spawn(move || {
            other.add(id).unwrap();
            ended.send(()).unwrap();
        });
        let waits = loop {
            if ends.try_recv().is_ok() {
                break false;
            }
            if locks.one_waits() {
                break true;
            }
            std::thread::yield_now();
        };
        bank.store.commit().unwrap();
        waits
    })
}

#[test]
fn an_insertion_waits_for_those_who_read_the_gap_it_divides() {
    let absent = |bank: &mut Bank<_>, id| {
        assert_eq!(bank.store.lookup(&bank.by_id, id).unwrap(), None);
    };
    let waits = |read: &dyn Fn(&mut Bank<Conventional>), id| {
        let committed = waits_for_reader(Isolation::ReadCommitted, read, id);
        assert!(!committed, "{id} has to wait for no reader of what is committed");
        waits_for_reader(Isolation::Serializable, read, id)
    };
    assert!(waits(&|bank| absent(bank, 15), 15) && waits(&|bank| absent(bank, 15), 17));
    assert!(!waits(&|bank| absent(bank, 15), 25));
    assert!(waits(&|bank| absent(bank, 99), 98), "the end of the index is a gap");
    // A unique key that is there needs none; the range up to the entry behind it does.
    assert!(!waits(&|bank| assert!(bank.find(20).is_ok()), 19));
    for order in [Order::Forward, Order::Backward] {
        let range = |bank: &mut Bank<_>| assert_eq!(bank.range(12, 25, order).len(), 1);
        assert!([13, 24, 26].map(|id| waits(&range, id)).into_iter().all(|waits| waits));
        assert!(!waits(&range, 9) && !waits(&range, 35));
    }
    // Rows of the name of 10, 20 and 30: another one may come before the first, or behind the last.
    let named = |bank: &mut Bank<Conventional>| {
        let first = bank.store.lookup(&bank.by_name, b"account number 0").unwrap();
        assert!(first.is_some());
    };
    assert!(!waits(&named, 40), "it comes behind the one that was found");
}

/// A place before all others becomes free, so that a row that takes it is the first of its name.
#[test]
fn the_first_row_of_a_name_stays_the_first() {
    let mut bank = Bank::<Conventional>::create(&MemDisk::new(), 0);
    [11, 10, 20].into_iter().for_each(|id| bank.add(id).unwrap());
    bank.begin_writes();
    bank.remove_row(11);
    bank.store.commit().unwrap();
    let mut other = bank.session();
    let first = |bank: &mut Bank<Conventional>| {
        bank.store.begin().unwrap();
        bank.store.lookup(&bank.by_name, b"account number 0").unwrap().unwrap()
    };
    let row = first(&mut other);
    std::thread::scope(|scope| {
        let adds = scope.spawn(move || bank.add(30).unwrap());
        other.store.database.locks.until_one_waits();
        other.store.commit().unwrap();
        adds.join().unwrap();
    });
    assert!(first(&mut other).location() < row.location(), "the new one is where 11 was");
    other.store.commit().unwrap();
}

/// A row that moves has two entries. What is locked below the new one stays locked when the old one is purged.
#[test]
fn a_purge_takes_no_lock_from_the_gap_below_the_rows_other_entry() {
    for [from, to] in [[20, 45], [60, 45]] {
        let mut bank = Bank::<Conventional>::create_with(&MemDisk::new(), &impatient(), 0);
        [10, 20, 30, 50, 60, 70].into_iter().for_each(|id| bank.add(id).unwrap());
        let (mut reader, mut other) = (bank.session(), bank.session());
        bank.begin_writes();
        bank.move_row(from, to);
        reader.store.begin().unwrap();
        assert_eq!(reader.store.lookup(&reader.by_id, 43).unwrap(), None);
        bank.store.commit().unwrap();
        assert_eq!(other.add(42), Err(Error::LockTimeout), "{from} to {to}: the reader saw no 42");
        other.add(from - 1).unwrap();
        reader.store.commit().unwrap();
        other.add(42).unwrap();
        assert_eq!(bank.store.check(), []);
    }
}

/// The same where the new entry goes: its gap is handed on, and what is locked below the old one stays.
#[test]
fn an_abort_takes_no_lock_from_the_gap_below_the_rows_other_entry() {
    let mut bank = Bank::<Conventional>::create_with(&MemDisk::new(), &impatient(), 0);
    [10, 20, 30, 50].into_iter().for_each(|id| bank.add(id).unwrap());
    let (mut reader, mut other) = (bank.session(), bank.session());
    bank.begin_writes();
    bank.move_row(20, 45);
    reader.store.begin().unwrap();
    assert_eq!(reader.store.lookup(&reader.by_id, 15).unwrap(), None);
    assert_eq!(reader.store.lookup(&reader.by_id, 43).unwrap(), None);
    bank.store.abort().unwrap();
    for id in [14, 42] {
        assert_eq!(other.add(id), Err(Error::LockTimeout), "the reader saw no {id}");
    }
    other.add(25).unwrap();
    reader.store.commit().unwrap();
    [14, 42].into_iter().for_each(|id| other.add(id).unwrap());
    assert_eq!(bank.store.check(), []);
}
