//! The table `client_seq(client, seq)`: which call of each caller was the last to commit.
//!
//! A row is written in the same transaction as what the call does, just before it commits, so that a
//! harness that knows which calls were answered can tell whether any of them is lost. The table is
//! there in databases that were run with `--acks` once. Not here: who was told (`acks.rs`).

use std::ops::ControlFlow;

use tombolo_storage::error::{Error, Result, SchemaError};
use tombolo_storage::key::{IndexType, Range};
use tombolo_storage::row::{Fields, Row, RowId, RowMut};
use tombolo_storage::schema::{DeclaredTable, Schema, TableDef};
use tombolo_storage::store::{
    Damage, Index, Order, Phase, Store, Table, TableType, Usage, resolve_index, resolve_table,
};
use tombolo_storage::{index, table};

use super::executor::{CallNumber, updated};
use crate::workload::tpcc::error::TpccError;

table! {
    /// CLIENT_SEQ.
    pub(crate) struct ClientSeq = "client_seq" {
        CLIENT: Integer [0..=1_048_575];
        SEQ: BigInt => hot;
    }
}
index! {
    /// Its primary key.
    pub(crate) struct ClientSeqKey = "client_seq_pk" on ClientSeq (CLIENT: Integer) unique Tree;
}
impl ClientSeq {
    /// What a call changes.
    const CALLED: Fields<Self> = Fields::none().with(Self::SEQ);
}

/// What writing a call's number logs, at most.
pub(super) const LOG_BYTES: usize = updated(ClientSeq::CALLED);

/// The rows of the callers of a run.
#[derive(Debug)]
pub(crate) struct Sequences {
    table: Table<ClientSeq>,
    /// By caller. A row's id never changes.
    rows: Vec<RowId>,
}

impl Sequences {
    /// Makes the table and rows of `clients` callers, as far as they are not there.
    ///
    /// # Errors
    /// What the store refused.
    pub(crate) fn open<S: Store>(
        store: &mut S,
        clients: u32,
    ) -> std::result::Result<Self, TpccError> {
        if store.schema().table(ClientSeq::NAME).is_none() {
            store.create_table(TableDef::of::<ClientSeq>().with::<ClientSeqKey>())?;
        }
        let (table, key) = Self::handles(store.schema())?;
        let mut rows = Vec::with_capacity(clients as usize);
        store.begin()?;
        store.begin_writes();
        for client in 0..clients as i32 {
            let found = store.lookup(&key, client)?;
            rows.push(match found {
                Some(row) => row,
                None => {
                    let row = store.create(&table, |row| row.set(ClientSeq::CLIENT, client))?;
                    store.insert(&key, client, row)?;
                    row
                }
            });
        }
        store.commit()?;
        Ok(Self { table, rows })
    }

    fn handles(
        schema: &Schema,
    ) -> std::result::Result<(Table<ClientSeq>, Index<ClientSeqKey>), SchemaError> {
        Ok((resolve_table(schema)?, resolve_index(schema)?))
    }

    /// The number of the last call of `client` that committed; 0 before the first.
    ///
    /// # Errors
    /// When the store refuses to be read.
    pub(crate) fn last<S: Store>(&self, store: &S, client: u32) -> Result<u64> {
        let row = store.pin(&self.table, self.rows[client as usize])?;
        Ok(row.get(ClientSeq::SEQ) as u64)
    }
}

/// A store in whose transactions the number of the call is written.
#[derive(Debug)]
pub(super) struct Numbered<'s, S> {
    store: &'s mut S,
    sequences: &'s Sequences,
    number: CallNumber,
}

impl<'s, S: Store> Numbered<'s, S> {
    /// `store` during the call with this number.
    pub(super) fn new(store: &'s mut S, sequences: &'s Sequences, number: CallNumber) -> Self {
        Self { store, sequences, number }
    }
}

impl<S: Store> Store for Numbered<'_, S> {
    type Pin<'a>
        = S::Pin<'a>
    where
        Self: 'a;

    const UNDO: bool = S::UNDO;

    fn schema(&self) -> &Schema {
        self.store.schema()
    }
    fn create_table(&mut self, table: TableDef) -> std::result::Result<(), SchemaError> {
        self.store.create_table(table)
    }
    fn begin(&mut self) -> Result<()> {
        self.store.begin()
    }
    fn phase(&self) -> Phase {
        self.store.phase()
    }
    fn begin_writes(&mut self) {
        self.store.begin_writes();
    }

    /// The call's number is the last that its transaction writes.
    fn commit(&mut self) -> Result<()> {
        let CallNumber { client, sequence } = self.number;
        if self.store.phase() == Phase::Reading {
            self.store.begin_writes();
        }
        let Some(&row) = self.sequences.rows.get(client as usize) else {
            return Err(Error::NoSuchRow { table: self.sequences.table.position() as u32 });
        };
        let set = |row: &mut RowMut<'_, ClientSeq>| row.set(ClientSeq::SEQ, sequence as i64);
        self.store.update(&self.sequences.table, row, ClientSeq::CALLED, set)?;
        self.store.commit()
    }

    fn abort(&mut self) -> Result<()> {
        self.store.abort()
    }
    fn lookup<I: IndexType>(&mut self, index: &Index<I>, key: I::Key<'_>) -> Result<Option<RowId>> {
        self.store.lookup(index, key)
    }
    fn lookup_many<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        self.store.lookup_many(index, keys, found)
    }
    fn lookup_for_update<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<RowId>> {
        self.store.lookup_for_update(index, key)
    }
    fn lookup_many_for_update<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        self.store.lookup_many_for_update(index, keys, found)
    }
    fn scan<I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: Range<I::Key<'_>>,
        order: Order,
        visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        self.store.scan(index, range, order, visit)
    }
    fn rows<R: TableType>(
        &mut self,
        table: &Table<R>,
        visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        self.store.rows(table, visit)
    }
    fn prefetch_lookup<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
        self.store.prefetch_lookup(index, key);
    }
    fn prefetch_insert<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
        self.store.prefetch_insert(index, key);
    }
    fn prefetch<R: TableType>(&self, table: &Table<R>, row: RowId, fields: Fields<R>) {
        self.store.prefetch(table, row, fields);
    }
    fn prefetch_found<I: IndexType, R: TableType>(
        &self,
        index: &Index<I>,
        key: I::Key<'_>,
        table: &Table<R>,
        fields: Fields<R>,
    ) {
        self.store.prefetch_found(index, key, table, fields);
    }
    fn pin<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<Row<R, Self::Pin<'_>>> {
        self.store.pin(table, row)
    }
    fn update<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        fields: Fields<R>,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()> {
        self.store.update(table, row, fields, change)
    }
    fn set_variable<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        offset: usize,
        value: &[u8],
    ) -> Result<()> {
        self.store.set_variable(table, row, offset, value)
    }
    fn create<R: TableType>(
        &mut self,
        table: &Table<R>,
        fill: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<RowId> {
        self.store.create(table, fill)
    }
    fn delete<R: TableType>(&mut self, table: &Table<R>, row: RowId) -> Result<()> {
        self.store.delete(table, row)
    }
    fn insert<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<()> {
        self.store.insert(index, key, row)
    }
    fn insert_run<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        rows: &[RowId],
    ) -> Result<()> {
        self.store.insert_run(index, keys, rows)
    }
    fn remove<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<bool> {
        self.store.remove(index, key, row)
    }
    fn poison(&mut self, reason: &'static str) {
        self.store.poison(reason);
    }
    fn check(&mut self) -> Vec<Damage> {
        self.store.check()
    }
    fn usage(&mut self) -> Usage {
        self.store.usage()
    }
    fn fail(&mut self) -> Result<()> {
        self.store.fail()
    }
}
