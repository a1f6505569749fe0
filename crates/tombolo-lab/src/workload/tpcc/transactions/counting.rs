//! A store that counts its calls, for tests: every look-up, pin and index entry on its own.

use std::cell::Cell;
use std::ops::ControlFlow;

use tombolo_storage::error::Result;
use tombolo_storage::key::{IndexType, Range};
use tombolo_storage::row::{Fields, Row, RowId, RowMut};
use tombolo_storage::store::{Index, Order, Store, Table, TableType};

use crate::pass_through::pass_through;

/// How often each call was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Calls {
    pub(super) lookups: usize,
    pub(super) pins: usize,
    pub(super) updates: usize,
    pub(super) creates: usize,
    pub(super) inserts: usize,
    pub(super) scans: usize,
    pub(super) deletes: usize,
    pub(super) removes: usize,
}

/// `store`, its calls counted.
#[derive(Debug)]
pub(super) struct Counting<S> {
    pub(super) store: S,
    pub(super) calls: Cell<Calls>,
}

impl<S> Counting<S> {
    pub(super) fn new(store: S) -> Self {
        Self { store, calls: Cell::default() }
    }

    fn count(&self, add: impl FnOnce(&mut Calls)) {
        let mut calls = self.calls.get();
        add(&mut calls);
        self.calls.set(calls);
    }
}

impl<S: Store> Store for Counting<S> {
    pass_through! {
        schema create_table begin phase begin_writes commit abort rows set_variable poison
        removals check shared usage
    }

    fn lookup<I: IndexType>(&mut self, index: &Index<I>, key: I::Key<'_>) -> Result<Option<RowId>> {
        self.count(|calls| calls.lookups += 1);
        self.store.lookup(index, key)
    }

    fn lookup_many<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        self.count(|calls| calls.lookups += keys.len());
        self.store.lookup_many(index, keys, found)
    }

    fn lookup_for_update<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<RowId>> {
        self.count(|calls| calls.lookups += 1);
        self.store.lookup_for_update(index, key)
    }

    fn lookup_many_for_update<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        self.count(|calls| calls.lookups += keys.len());
        self.store.lookup_many_for_update(index, keys, found)
    }

    fn scan<I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: Range<I::Key<'_>>,
        order: Order,
        visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        self.count(|calls| calls.scans += 1);
        self.store.scan(index, range, order, visit)
    }

    fn pin<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<Row<R, S::Pin<'_>>> {
        self.count(|calls| calls.pins += 1);
        self.store.pin(table, row)
    }

    fn update<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        fields: Fields<R>,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()> {
        self.count(|calls| calls.updates += 1);
        self.store.update(table, row, fields, change)
    }

    fn create<R: TableType>(
        &mut self,
        table: &Table<R>,
        fill: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<RowId> {
        self.count(|calls| calls.creates += 1);
        self.store.create(table, fill)
    }

    fn delete<R: TableType>(&mut self, table: &Table<R>, row: RowId) -> Result<()> {
        self.count(|calls| calls.deletes += 1);
        self.store.delete(table, row)
    }

    fn insert<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<()> {
        self.count(|calls| calls.inserts += 1);
        self.store.insert(index, key, row)
    }

    fn insert_run<'k, I: IndexType>(
        &mut self,
        index: &Index<I>,
        rows: &[RowId],
        key: impl Fn(usize) -> I::Key<'k>,
    ) -> Result<()> {
        self.count(|calls| calls.inserts += rows.len());
        self.store.insert_run(index, rows, key)
    }

    fn remove<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<bool> {
        self.count(|calls| calls.removes += 1);
        self.store.remove(index, key, row)
    }
}
