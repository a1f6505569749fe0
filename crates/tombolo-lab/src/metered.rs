//! A store with probes: every call that has a category is announced to a meter (LG-44, LG-45).
//!
//! For counters that are read natively; callgrind tells calls apart without probes, by the same
//! categories (`CALLS` in `counting.rs`). A separate type, so that the store that is timed contains
//! no probe. Deletions, scans and the phase change pass through unannounced: they count as *other*.
//! A look-up of many keys in lock step is one call.
//!
//! Not here: what is counted and where it goes (`counters`). Invariants: the meter is the first
//! field, which every probe relies on; nothing else happens between a probe and the call it
//! announces.

use tombolo_storage::error::Result;
use tombolo_storage::key::IndexType;
use tombolo_storage::row::{Fields, Row, RowId, RowMut};
use tombolo_storage::store::{Index, Store, Table, TableType};

use crate::counters::meter::{Meter, call};
use crate::pass_through::pass_through;

/// A store with probes around its calls.
#[repr(C)]
#[derive(Debug)]
pub struct Metered<S> {
    /// What the probes announce to.
    pub meter: Meter,
    /// The store without them.
    pub store: S,
}

impl<S: Store> Metered<S> {
    /// `store` with probes; the meter counts nothing yet.
    pub fn new(store: S) -> Self {
        Self { meter: Meter::new(), store }
    }
}

impl<S: Store> Store for Metered<S> {
    pass_through! {
        schema create_table phase begin_writes abort scan rows delete remove removals poison check shared
        usage fail
    }

    #[inline(always)]
    fn begin(&mut self) -> Result<()> {
        self.meter.enter(call::Begin);
        let result = self.store.begin();
        self.meter.exit(call::Begin);
        result
    }

    #[inline(always)]
    fn commit(&mut self) -> Result<()> {
        self.meter.enter(call::Commit);
        let result = self.store.commit();
        self.meter.exit(call::Commit);
        result
    }

    #[inline(always)]
    fn lookup<I: IndexType>(&mut self, index: &Index<I>, key: I::Key<'_>) -> Result<Option<RowId>> {
        self.meter.enter(call::Lookup);
        let result = self.store.lookup(index, key);
        self.meter.exit(call::Lookup);
        result
    }

    #[inline(always)]
    fn lookup_many<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        self.meter.enter(call::Lookup);
        let result = self.store.lookup_many(index, keys, found);
        self.meter.exit(call::Lookup);
        result
    }

    #[inline(always)]
    fn lookup_for_update<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<RowId>> {
        self.meter.enter(call::Lookup);
        let result = self.store.lookup_for_update(index, key);
        self.meter.exit(call::Lookup);
        result
    }

    #[inline(always)]
    fn lookup_many_for_update<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        self.meter.enter(call::Lookup);
        let result = self.store.lookup_many_for_update(index, keys, found);
        self.meter.exit(call::Lookup);
        result
    }

    #[inline(always)]
    fn prefetch_lookup<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
        self.meter.enter(call::Lookup);
        self.store.prefetch_lookup(index, key);
        self.meter.exit(call::Lookup);
    }

    #[inline(always)]
    fn prefetch_insert<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
        self.meter.enter(call::Insert);
        self.store.prefetch_insert(index, key);
        self.meter.exit(call::Insert);
    }

    #[inline(always)]
    fn prefetch<R: TableType>(&self, table: &Table<R>, row: RowId, fields: Fields<R>) {
        self.meter.enter(call::Lookup);
        self.store.prefetch(table, row, fields);
        self.meter.exit(call::Lookup);
    }

    #[inline(always)]
    fn find_ahead<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) -> Option<RowId> {
        self.meter.enter(call::Lookup);
        let found = self.store.find_ahead(index, key);
        self.meter.exit(call::Lookup);
        found
    }

    #[inline(always)]
    fn pin<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<Row<R, Self::Pin<'_>>> {
        self.meter.enter(call::Pin);
        let result = self.store.pin(table, row);
        self.meter.exit(call::Pin);
        result
    }

    #[inline(always)]
    fn update<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        fields: Fields<R>,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()> {
        self.meter.enter(call::Update);
        let result = self.store.update(table, row, fields, change);
        self.meter.exit(call::Update);
        result
    }

    #[inline(always)]
    fn set_variable<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        offset: usize,
        value: &[u8],
    ) -> Result<()> {
        self.meter.enter(call::Update);
        let result = self.store.set_variable(table, row, offset, value);
        self.meter.exit(call::Update);
        result
    }

    #[inline(always)]
    fn create<R: TableType>(
        &mut self,
        table: &Table<R>,
        fill: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<RowId> {
        self.meter.enter(call::Create);
        let result = self.store.create(table, fill);
        self.meter.exit(call::Create);
        result
    }

    #[inline(always)]
    fn insert<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<()> {
        self.meter.enter(call::Insert);
        let result = self.store.insert(index, key, row);
        self.meter.exit(call::Insert);
        result
    }

    #[inline(always)]
    fn insert_run<'k, I: IndexType>(
        &mut self,
        index: &Index<I>,
        rows: &[RowId],
        key: impl Fn(usize) -> I::Key<'k>,
    ) -> Result<()> {
        self.meter.enter(call::Insert);
        let result = self.store.insert_run(index, rows, key);
        self.meter.exit(call::Insert);
        result
    }
}
