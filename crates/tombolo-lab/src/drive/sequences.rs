//! The table `client_seq(client, seq)`: which call of each caller was the last to commit.
//!
//! A row is written in the same transaction as what the call does, just before it commits, so that a
//! harness that knows which calls were answered can find whether any of them is lost. The table is
//! there in databases that were run with `--acks` once. Not here: which calls were answered (`acks.rs`).

use tombolo_storage::error::{Error, Result, SchemaError};
use tombolo_storage::row::{Fields, RowId, RowMut};
use tombolo_storage::schema::{DeclaredTable, Schema, TableDef};
use tombolo_storage::store::{Index, Phase, Store, Table, resolve_index, resolve_table};
use tombolo_storage::{index, table};

use crate::workload::error::WorkloadError;
use crate::workload::log_bytes::updated;

/// A caller, and which of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallNumber {
    /// The caller, from 0.
    pub(crate) client: u32,
    /// The number of its call, from 1.
    pub(crate) sequence: u64,
}

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
    /// The columns that a call changes.
    const CALLED: Fields<Self> = Fields::none().with(Self::SEQ);
}

/// The most bytes that writing a call's number logs.
pub(crate) const LOG_BYTES: usize = updated(ClientSeq::CALLED);

/// The rows of the callers of a run.
#[derive(Debug)]
pub(crate) struct Sequences {
    table: Table<ClientSeq>,
    /// By caller. A row's id never changes.
    rows: Vec<RowId>,
}

impl Sequences {
    /// Makes the table and rows of `clients` callers, as far as they are not there. With them comes the number of each
    /// caller's last call that committed, 0 before the first.
    ///
    /// # Errors
    /// The store's error.
    pub(crate) fn open<S: Store>(
        store: &mut S,
        clients: u32,
    ) -> std::result::Result<(Self, Vec<u64>), WorkloadError> {
        if store.schema().table(ClientSeq::NAME).is_none() {
            store.create_table(TableDef::of::<ClientSeq>().with::<ClientSeqKey>())?;
        }
        let (table, key) = Self::handles(store.schema())?;
        let (mut rows, mut last) = (Vec::new(), Vec::new());
        store.begin()?;
        store.begin_writes();
        for client in 0..clients as i32 {
            let found = store.lookup(&key, client)?;
            let row = match found {
                Some(row) => row,
                None => {
                    let row = store.create(&table, |row| row.set(ClientSeq::CLIENT, client))?;
                    store.insert(&key, client, row)?;
                    row
                }
            };
            last.push(store.pin(&table, row)?.get(ClientSeq::SEQ) as u64);
            rows.push(row);
        }
        store.commit()?;
        Ok((Self { table, rows }, last))
    }

    fn handles(
        schema: &Schema,
    ) -> std::result::Result<(Table<ClientSeq>, Index<ClientSeqKey>), SchemaError> {
        Ok((resolve_table(schema)?, resolve_index(schema)?))
    }
}

/// A store in whose transactions the number of the call is written.
#[derive(Debug)]
pub(crate) struct Numbered<'s, S> {
    store: &'s mut S,
    sequences: &'s Sequences,
    number: CallNumber,
}

impl<'s, S: Store> Numbered<'s, S> {
    /// `store` during the call with this number.
    pub(crate) fn new(store: &'s mut S, sequences: &'s Sequences, number: CallNumber) -> Self {
        Self { store, sequences, number }
    }

    /// Writes the call's number: the last that its transaction writes.
    fn write_number(&mut self) -> Result<()> {
        let CallNumber { client, sequence } = self.number;
        if self.store.phase() == Phase::Reading {
            self.store.begin_writes();
        }
        let Some(&row) = self.sequences.rows.get(client as usize) else {
            return Err(Error::NoSuchRow { table: self.sequences.table.position() as u32 });
        };
        let set = |row: &mut RowMut<'_, ClientSeq>| row.set(ClientSeq::SEQ, sequence as i64);
        self.store.update(&self.sequences.table, row, ClientSeq::CALLED, set)
    }
}

/// A commit is preceded by writing the call's number; every other call is passed on unchanged.
macro_rules! numbered {
    ($store:ident commit $arguments:tt $call:expr) => {{
        $store.write_number()?;
        $call
    }};
    ($store:ident $name:ident $arguments:tt $call:expr) => {
        $call
    };
}

impl<S: Store> Store for Numbered<'_, S> {
    pass_through! { numbered }
}
