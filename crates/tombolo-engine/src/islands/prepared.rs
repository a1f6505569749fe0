//! Prepared parts and decisions of transactions over several islands, as rows of an island.
//!
//! ```text
//!   participant:  executed ──prepare──► row: changes, locks ──commit──► changes made, no row
//!                                          │   ▲               abort──► no row
//!                                 crash ───┘   └─── open: locks taken again
//!   coordinator:  own part ──decide──► own changes made, row: the participants ──forget──► no row
//! ```
//!
//! Each arrow is one local transaction, so that log, image, replay, archive and backup treat these rows like any
//! others (docs/decisions/0046). An answer that depends on one of them leaves when that transaction is durable. A part
//! that changes nothing has no row, only its locks; after a crash the participant no longer knows it.
//!
//! Not here: messages, votes and when to decide (`commit/`). Invariants: a prepared part has a row exactly
//! until its changes are made or its transaction is known to be aborted; the locks of each row are held.

use std::ops::ControlFlow;

use tombolo_storage::error::{Error, Result, SchemaError};
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::held::{Changes, LockSet, Locks};
use tombolo_storage::owner::Owner;
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::row::RowId;
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::{Index, Store, Table, resolve_index, resolve_table};

use super::commit::{Age, Found, IslandId, TransactionNumber};
use crate::transaction::{Stop, execute_undoable};

tombolo_storage::table! {
    /// Parts that are prepared and not decided.
    pub struct Prepared = "tombolo_prepared" {
        NUMBER: Uuid;
        AGE: BigInt;
        FIRST: Uuid;
        CHANGES: Bytes;
        LOCKS: Bytes;
    }
}
tombolo_storage::index! {
    /// By the number of the transaction.
    pub struct PreparedByNumber = "tombolo_prepared_by_number" on Prepared (NUMBER: Uuid) unique Hash;
}
tombolo_storage::table! {
    /// Transactions that this island decided to commit, until all participants have confirmed.
    pub struct Decision = "tombolo_decision" { NUMBER: Uuid; PARTICIPANTS: Bytes; }
}
tombolo_storage::index! {
    /// By the number of the transaction.
    pub struct DecisionByNumber = "tombolo_decision_by_number" on Decision (NUMBER: Uuid) unique Hash;
}

/// The definitions of the tables.
pub fn prepared_tables() -> [TableDef; 2] {
    [
        TableDef::of::<Prepared>().with::<PreparedByNumber>(),
        TableDef::of::<Decision>().with::<DecisionByNumber>(),
    ]
}

/// The tables of prepared parts and of decisions.
#[derive(Clone, Copy, Debug)]
pub struct PreparedParts {
    prepared: Table<Prepared>,
    by_number: Index<PreparedByNumber>,
    decisions: Table<Decision>,
    decision_by_number: Index<DecisionByNumber>,
}

/// A transaction's number as rows have it.
pub(super) const fn id(number: TransactionNumber) -> [u8; 16] {
    number.owner().number().to_be_bytes()
}

pub(super) fn number(id: [u8; 16]) -> Result<TransactionNumber> {
    TransactionNumber::of(Owner::new(u128::from_be_bytes(id))).ok_or(Error::UnfitChanges)
}

/// Runs `work` as one transaction.
pub(super) fn transaction<S: Store, T>(
    store: &mut S,
    work: impl FnOnce(&mut S) -> Result<T>,
) -> Result<T> {
    let done = execute_undoable(store, |mut transaction| {
        let done = work(transaction.store())?;
        transaction.commit(done)
    });
    done.map_err(|stop| match stop {
        Stop::Error(error) => error,
        Stop::Abort(reason) => unreachable!("the work does not abort: {reason}"),
    })
}

impl PreparedParts {
    /// The tables of this schema.
    ///
    /// # Errors
    /// When the schema lacks one of them or defines it differently.
    pub fn new(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self {
            prepared: resolve_table(schema)?,
            by_number: resolve_index(schema)?,
            decisions: resolve_table(schema)?,
            decision_by_number: resolve_index(schema)?,
        })
    }

    /// Keeps a part that is executed and has acquired its locks, until its transaction is decided by another island.
    ///
    /// # Errors
    /// Those of the store, and `OutOfRange` if the part is too long for a row: it is not prepared, and has its locks.
    pub fn prepare<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        locks: &Locks,
        (number, age): (TransactionNumber, Age),
        changes: &Changes,
    ) -> Result<()> {
        let locks = locks.of(number.owner()).expect("a part has its locks before it is prepared");
        transaction(store, |store| {
            let row = store.create(&self.prepared, |row| {
                row.set(Prepared::NUMBER, id(number));
                row.set(Prepared::AGE, age.at.cast_signed());
                row.set(Prepared::FIRST, id(age.first));
            })?;
            let (changes, locks) = (changes.as_bytes(), locks.as_bytes());
            store.set_variable(&self.prepared, row, Prepared::CHANGES.offset(), changes)?;
            store.set_variable(&self.prepared, row, Prepared::LOCKS.offset(), locks)?;
            store.insert(&self.by_number, id(number), row)
        })
    }

    /// Bytes of the changes of a prepared part, if there is one.
    pub fn changes_bytes<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        number: TransactionNumber,
    ) -> Option<usize> {
        let bytes = transaction(store, |store| {
            let Some(row) = store.lookup(&self.by_number, id(number))? else { return Ok(None) };
            Ok(Some(store.pin(&self.prepared, row)?.get(Prepared::CHANGES).len()))
        });
        bytes.ok().flatten()
    }

    /// Commits a held part; returns whether there was one. A repeated decision finds none.
    ///
    /// # Errors
    /// Those of the store: the part is held as before, and the decision is to be repeated.
    pub fn commit<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        locks: &mut Locks,
        number: TransactionNumber,
    ) -> Result<bool> {
        transaction(store, |store| {
            let Some(row) = store.lookup(&self.by_number, id(number))? else { return Ok(()) };
            let changes =
                Changes::from_bytes(store.pin(&self.prepared, row)?.get(Prepared::CHANGES));
            store.make(&changes.ok_or(Error::UnfitChanges)?)?;
            self.remove(store, number, row)
        })?;
        Ok(locks.release(number.owner()))
    }

    /// Gives up a held part; returns whether there was one.
    ///
    /// # Errors
    /// Those of the store: the part is held as before.
    pub fn abort<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        locks: &mut Locks,
        number: TransactionNumber,
    ) -> Result<bool> {
        transaction(store, |store| match store.lookup(&self.by_number, id(number))? {
            Some(row) => self.remove(store, number, row),
            None => Ok(()),
        })?;
        Ok(locks.release(number.owner()))
    }

    fn remove<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        number: TransactionNumber,
        row: RowId,
    ) -> Result<()> {
        store.remove(&self.by_number, id(number), row)?;
        store.delete(&self.prepared, row)
    }

    /// Commits the part of the island that decides, and with it the decision.
    ///
    /// # Errors
    /// Those of the store: nothing is decided.
    pub fn decide<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        locks: &mut Locks,
        (number, own): (TransactionNumber, Option<&Changes>),
        participants: &[IslandId],
    ) -> Result<()> {
        transaction(store, |store| {
            own.map_or(Ok(()), |own| store.make(own))?;
            if participants.is_empty() {
                return Ok(()); // no island waits for the decision
            }
            let row = store.create(&self.decisions, |row| row.set(Decision::NUMBER, id(number)))?;
            let islands: Vec<u8> =
                participants.iter().flat_map(|island| island.0.to_le_bytes()).collect();
            store.set_variable(&self.decisions, row, Decision::PARTICIPANTS.offset(), &islands)?;
            store.insert(&self.decision_by_number, id(number), row)
        })?;
        locks.release(number.owner());
        Ok(())
    }

    /// Forgets a decision that all participants have confirmed; returns whether there was one.
    ///
    /// # Errors
    /// Those of the store.
    pub fn forget<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        number: TransactionNumber,
    ) -> Result<bool> {
        transaction(store, |store| {
            let Some(row) = store.lookup(&self.decision_by_number, id(number))? else {
                return Ok(false);
            };
            store.remove(&self.decision_by_number, id(number), row)?;
            store.delete(&self.decisions, row)?;
            Ok(true)
        })
    }

    /// Whether this island has decided that a transaction commits, and remembers it. If not, it is aborted, or
    /// all have confirmed, or it is not decided yet: which of them, the coordinator knows.
    ///
    /// # Errors
    /// Those of the store.
    pub fn is_committed<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        number: TransactionNumber,
    ) -> Result<bool> {
        let look_up =
            |store: &mut MemoryStore<P>| store.lookup(&self.decision_by_number, id(number));
        transaction(store, look_up).map(|row| row.is_some())
    }

    /// What was in doubt when the island was last open, whose locks are taken again, and what it had decided. To
    /// be called before anything else runs.
    ///
    /// # Errors
    /// `UnfitChanges`: a row is not one of this island, or two exclude each other. Those of the store.
    pub fn open<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        locks: &mut Locks,
    ) -> Result<Found> {
        transaction(store, |store| {
            let mut found = Found::default();
            for row in rows(store, &self.prepared)? {
                let row = store.pin(&self.prepared, row)?;
                let schema = store.schema();
                let changes = Changes::from_bytes(row.get(Prepared::CHANGES));
                let own = LockSet::from_bytes(row.get(Prepared::LOCKS), schema);
                let (Some(_), Some(own)) = (changes, own) else { return Err(Error::UnfitChanges) };
                let number = number(row.get(Prepared::NUMBER))?;
                let at = row.get(Prepared::AGE).cast_unsigned();
                let age = Age { at, first: self::number(row.get(Prepared::FIRST))? };
                if locks.conflict_with(&own).is_some() {
                    return Err(Error::UnfitChanges);
                }
                locks.acquire(number.owner(), own)?;
                found.prepared.push((number, age));
            }
            for row in rows(store, &self.decisions)? {
                let row = store.pin(&self.decisions, row)?;
                let (islands, rest) = row.get(Decision::PARTICIPANTS).as_chunks();
                if !rest.is_empty() {
                    return Err(Error::UnfitChanges);
                }
                let island = |bytes: &[u8; 2]| IslandId(u16::from_le_bytes(*bytes));
                let participants = islands.iter().map(island).collect();
                found.decided.push((number(row.get(Decision::NUMBER))?, participants));
            }
            Ok(found)
        })
    }
}

/// The ids of all rows of a table.
fn rows<P: MemoryProfile, R: tombolo_storage::store::TableType>(
    store: &mut MemoryStore<P>,
    table: &Table<R>,
) -> Result<Vec<RowId>> {
    let mut rows = Vec::new();
    store.rows(table, |row| {
        rows.push(row);
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

#[cfg(not(loom))]
#[cfg(test)]
pub(super) mod tests;
