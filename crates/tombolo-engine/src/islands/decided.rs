//! `Decided`: the transactions over several islands that a paged store has decided to commit, as rows.
//!
//! A coordinator's part writes its transaction's number into a row and commits: only that commit is the decision. If no
//! row of its coordinator has a transaction's number, all its prepared parts are aborted
//! (presumed abort, decision 0058). A later decision overwrites a row when every participant of the earlier one
//! has committed durably, so there are about as many rows as concurrent transactions over several islands.
//!
//! Not here: when a row may be overwritten (the library, `paged/islands/`); decisions of islands of memory stores
//! (`prepared.rs`).

use std::ops::ControlFlow;

use tombolo_storage::error::{Error, Result};
use tombolo_storage::row::{Fields, RowId};
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::{Store, Table, resolve_table};

use super::commit::TransactionNumber;
use super::prepared::{id, number, transaction};

tombolo_storage::table! {
    /// Transactions that this island decided to commit.
    pub struct DecidedRow = "tombolo_decided" { NUMBER: Uuid; }
}

const NUMBER: Fields<DecidedRow> = Fields::none().with(DecidedRow::NUMBER);

/// The table's definition.
pub fn decided_table() -> TableDef {
    TableDef::of::<DecidedRow>()
}

/// The table.
#[derive(Clone, Copy, Debug)]
pub struct Decided(Table<DecidedRow>);

impl Decided {
    /// The table of this schema.
    ///
    /// # Errors
    /// `UnfitChanges` when the schema lacks it or defines it differently.
    pub fn of(schema: &Schema) -> Result<Self> {
        resolve_table(schema).map(Self).map_err(|_| Error::UnfitChanges)
    }

    /// Its rows.
    ///
    /// # Errors
    /// Those of the store; `UnfitChanges` for a number that is none.
    pub fn rows<S: Store>(&self, store: &mut S) -> Result<Vec<(RowId, TransactionNumber)>> {
        transaction(store, |store| {
            let mut rows = Vec::new();
            store.rows(&self.0, |row| {
                rows.push(row);
                ControlFlow::Continue(())
            })?;
            let read = rows.into_iter().map(|row| {
                let found = store.pin(&self.0, row)?.get(DecidedRow::NUMBER);
                Ok((row, number(found)?))
            });
            read.collect()
        })
    }

    /// Deletes rows whose transactions have committed on all participants, durably.
    ///
    /// # Errors
    /// Those of the store.
    pub fn forget<S: Store>(&self, store: &mut S, rows: &[RowId]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        transaction(store, |store| rows.iter().try_for_each(|&row| store.delete(&self.0, row)))
    }

    /// Decides, in the open transaction, once it commits: writes the number over that in a row, or makes one. The row.
    ///
    /// # Errors
    /// Those of the store.
    pub fn decide<S: Store>(
        &self,
        store: &mut S,
        row: Option<RowId>,
        transaction: TransactionNumber,
    ) -> Result<RowId> {
        let number = id(transaction);
        match row {
            Some(row) => store
                .update(&self.0, row, NUMBER, |row| row.set(DecidedRow::NUMBER, number))
                .map(|()| row),
            None => store.create(&self.0, |row| row.set(DecidedRow::NUMBER, number)),
        }
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use tombolo_storage::disk::MemDisk;
    use tombolo_storage::paged::store::{PagedSettings, PagedStore};
    use tombolo_storage::profile::Conventional;

    use super::*;
    use crate::islands::commit::IslandId;

    #[test]
    fn a_decision_is_written_over_another_one() {
        let settings = PagedSettings { pool_bytes: 1 << 20, ..PagedSettings::default() };
        let mut store = PagedStore::<Conventional>::create(&MemDisk::new(), &settings).unwrap();
        store.create_table(decided_table()).unwrap();
        let decided = Decided::of(store.schema()).unwrap();
        let of = |counter| TransactionNumber { island: IslandId(3), opening: 7, counter };
        assert_eq!(decided.rows(&mut store), Ok(Vec::new()));
        let decide = |store: &mut PagedStore<Conventional>, row, counter| {
            transaction(store, |store| decided.decide(store, row, of(counter))).unwrap()
        };
        let first = decide(&mut store, None, 1);
        let second = decide(&mut store, None, 2);
        assert_eq!(decide(&mut store, Some(first), 3), first);
        assert_eq!(decided.rows(&mut store), Ok(vec![(first, of(3)), (second, of(2))]));
    }
}
