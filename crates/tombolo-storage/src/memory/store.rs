//! The memory store: rows in slabs, found through indexes, changed in place by one thread (TPK-1,
//! TPK-7, LG-S11).
//!
//! A transaction's path: `begin` marks it open; look-ups go through `index.rs` to a slot number;
//! `pin` returns the slot's bytes; `update`, `create`, `delete`, `insert` and `remove` change
//! slots and entries in place and, if the profile has undo, note how to undo this;
//! `commit` frees deleted slots and discards the notes; `abort` applies them, newest first.
//!
//! Not here: durability (the log is called with every change), threads. Invariants: outside a
//! transaction every index entry names a live row with that key, and every live row has one entry in
//! each index of its table (`check.rs` verifies this); with undo, a deleted row's slot is not
//! reused before its transaction ends; after a failure without undo no transaction begins.

use std::cell::Cell;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

use super::Limits;
use super::before_images::Snapshots;
use super::btree::{InsertError, RunError};
use super::budget::{Allowance, Budget};
use super::columns::Columns;
use super::dropping::Remains;
use super::homes::Homes;
use super::index::{Entries, RowIndex, normalise};
use super::log::{Log, TooLong, ValueLog};
use super::online::Online;
use super::rows::{Rows, RowsInPlace};
use super::undo::{Change, Full, Undo};
use super::variable::{HANDLE_BYTES, Handle, SizeClasses, VALUE_BYTES_MAX};
use crate::command_log::ProcedureNumber;
use crate::error::{Error, Result};
use crate::key::IndexType;
use crate::profile::MemoryProfile;
use crate::row::{RowBytes, RowId};
use crate::schema::Schema;
use crate::store::{Index, Store, Table, TableType};
use crate::value_log::LogBuffer;

/// The state of the store's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    /// It has written a preface for the next transaction, which continues it.
    Prefaced,
    Reading,
    Writing,
    Poisoned(&'static str),
}

/// A main-memory store for one thread at a time.
///
/// It can be moved between threads but not shared, because nothing in it is latched.
///
/// ```
/// use tombolo_storage::{memory::{Limits, MemoryStore}, profile::Memory};
/// let store = MemoryStore::<Memory>::new(Limits::default());
/// fn assert_send<T: Send>(_: &T) {}
/// assert_send(&store);
/// ```
///
/// ```compile_fail
/// use tombolo_storage::{memory::{Limits, MemoryStore}, profile::Memory};
/// let store = MemoryStore::<Memory>::new(Limits::default());
/// fn assert_sync<T: Sync>(_: &T) {}
/// assert_sync(&store);
/// ```
#[derive(Debug)]
pub struct MemoryStore<P: MemoryProfile> {
    pub(super) tables: Vec<Rows>,
    pub(super) indexes: Vec<RowIndex>,
    pub(super) schema: Schema,
    pub(super) state: State,
    pub(super) undo: P::Undo,
    pub(super) log: P::Log,
    pub(super) limits: Limits,
    /// The memory budget of all structures together.
    pub(super) budget: Arc<Budget>,
    /// The before-images for long readers.
    pub(super) snapshots: Snapshots,
    /// Indexes that were added while transactions ran, or are being built.
    pub(super) online: Online,
    /// A column that is being added.
    pub(super) columns: Columns,
    /// The remains of dropped tables.
    pub(super) remains: VecDeque<Remains>,
    /// Indexes of the log that do not match the rows, and the reasons.
    pub(super) left_out: Vec<(String, String)>,
    /// The tables of which the store has only some rows.
    pub(super) homes: Homes,
    /// Whether commits have work to do for snapshots, added indexes or columns, or tables that are spread.
    pub(super) is_watched: bool,
    /// The same without tables that are spread.
    pub(super) is_served: bool,
    /// Whether ids of rows carry generations (`slab/generations.rs`).
    pub(super) names_rows: bool,
    /// Normalised keys of the current call; the second is for ranges.
    pub(super) key: Vec<u8>,
    pub(super) end_key: Vec<u8>,
    not_sync: PhantomData<Cell<()>>,
}

/// A row of a memory store, in place.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRow<'a> {
    pub(super) fixed: &'a [u8],
    pub(super) values: &'a SizeClasses,
}

impl RowBytes for MemoryRow<'_> {
    #[inline(always)]
    fn fixed(&self) -> &[u8] {
        self.fixed
    }
    #[inline]
    fn variable(&self, handle: u64) -> &[u8] {
        self.values.get(Handle::from_bits(handle))
    }
}

/// The slot size for rows of `row_bytes`: whole cache lines if that wastes little, so that no
/// row occupies one more line than necessary.
pub(super) fn slot_bytes(row_bytes: usize) -> usize {
    const LINE: usize = 64;
    let lines = row_bytes.next_multiple_of(LINE);
    if row_bytes > LINE / 2 && (lines - row_bytes) * 8 <= row_bytes {
        return lines;
    }
    row_bytes.next_multiple_of(8).max(16)
}

impl<P: MemoryProfile<Log = ValueLog>> MemoryStore<P> {
    /// From here on transactions leave nothing in the log: for a database in memory only.
    /// The log of a transaction is bounded nevertheless.
    pub fn drop_log(&mut self) {
        self.log.drop_ended();
    }
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// Whether the open transaction commits if it ends now, so that another store's may commit before it. Indexes
    /// that are being added could still refuse it.
    ///
    /// # Errors
    /// Why it does not.
    #[inline(always)]
    pub fn admit_commit(&self) -> Result<()> {
        match (self.state, self.log.refusal()) {
            (State::Poisoned(reason), _) => Err(Error::Poisoned { reason }),
            (_, Some(refusal)) => Err(refusal),
            (_, None) => Ok(()),
        }
    }

    /// An empty store.
    pub fn new(limits: Limits) -> Self {
        let budget = Budget::new(limits.memory_bytes_max);
        let mut undo = P::Undo::default();
        undo.take_from(&budget);
        Self {
            tables: Vec::new(),
            indexes: Vec::new(),
            schema: Schema::default(),
            state: State::Idle,
            undo,
            log: P::Log::default(),
            limits,
            snapshots: Snapshots::new(&budget, limits.snapshot_bytes_max),
            online: Online::default(),
            columns: Columns::default(),
            remains: VecDeque::new(),
            left_out: Vec::new(),
            homes: Homes::default(),
            is_watched: false,
            is_served: false,
            names_rows: false,
            budget,
            key: Vec::new(),
            end_key: Vec::new(),
            not_sync: PhantomData,
        }
    }

    /// Allocates and touches the memory for `rows` further rows of the table at position `table` and
    /// for their index entries, so that creating them never waits for the system.
    ///
    /// # Errors
    /// `NoSpace`; memory allocated so far is kept.
    ///
    /// # Panics
    /// When there is no such table.
    pub fn reserve(&mut self, table: usize, rows: usize) -> Result<()> {
        let slots = u32::try_from(rows).unwrap_or(u32::MAX);
        let mut reserved = self.tables[table].slab.reserve(slots);
        for number in 0..self.schema.tables[table].indexes.len() {
            let position = self.schema.index_position(table, number);
            reserved = reserved.and_then(|()| self.indexes[position].reserve(rows));
        }
        reserved.map_err(|_| self.no_space())
    }

    /// Sets the memory budget of the store, in place of that of its limits: for rows, index entries,
    /// variable-length values, undo notes and before-images for snapshots together. A
    /// transaction that would exceed it is refused with `NoSpace`. Memory already allocated beyond it
    /// is kept, and deleted rows make room for others of their table.
    pub fn set_memory_bytes_max(&mut self, bytes: u64) {
        self.budget.set_bytes_max(bytes);
    }

    /// The bytes of its budget that the store has allocated.
    pub fn memory_bytes(&self) -> u64 {
        self.budget.held_bytes()
    }

    /// The store's memory budget, from which any thread can read the allocated bytes.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// All rows where they are, for blocks of an image without a second copy; `None` while a transaction is
    /// open, and after a failure.
    pub fn rows_in_place(&self) -> Option<RowsInPlace<'_>> {
        let Self { schema, tables, .. } = self;
        (self.state == State::Idle).then_some(RowsInPlace { schema, tables })
    }

    /// The allowance of a new structure.
    pub(super) fn allowance(&self) -> Allowance {
        Allowance::new(self.limits.structure_bytes_max, &self.budget)
    }

    /// Moves the log records of transactions that ended since the last call into `into`, which must be
    /// empty; the store takes over its memory, so that nothing is copied. Without a log it does nothing.
    ///
    /// # Panics
    /// Within a transaction, or when `into` is not empty.
    pub fn take_log(&mut self, into: &mut LogBuffer) {
        match self.state {
            State::Idle => {}
            // If a transaction was open, what it logged is discarded.
            State::Poisoned(_) => self.log.aborted(),
            State::Prefaced | State::Reading | State::Writing => {
                panic!("the log is taken between transactions")
            }
        }
        self.log.take(into);
    }

    /// Declares that the next transaction is `procedure`, with the arguments that `encode` writes into
    /// at most `bytes_max` bytes; `encode` returns their length. Needed if the log contains commands
    /// ([`MemoryCommandLogged`](crate::profile::MemoryCommandLogged)); otherwise it does nothing.
    ///
    /// # Errors
    /// `LogTooLong`.
    ///
    /// # Panics
    /// When `encode` returns more than `bytes_max`.
    #[inline(always)]
    pub fn command(
        &mut self,
        procedure: ProcedureNumber,
        bytes_max: usize,
        encode: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<()> {
        assert!(!matches!(self.state, State::Writing), "a command is named before it runs");
        self.log.command(procedure, bytes_max, encode)
    }

    /// Records in the log, if it contains commands, the meaning of `number` from now on.
    ///
    /// # Panics
    /// When the name has no byte or more than 255.
    pub fn define_procedure(&mut self, number: ProcedureNumber, version: u32, name: &str) {
        self.log.procedure_defined(number, version, name);
    }

    /// The same rows and indexes with other components: a store loaded with one log continues with
    /// another. From here on, the same commands put new rows into the same slots as in a store that
    /// was replayed up to this point.
    ///
    /// # Errors
    /// `Poisoned`.
    ///
    /// # Panics
    /// Within a transaction, or when what was logged has not been taken.
    pub fn with_profile<Q: MemoryProfile>(self) -> Result<MemoryStore<Q>> {
        if let State::Poisoned(reason) = self.state {
            return Err(Error::Poisoned { reason });
        }
        assert_eq!(self.state, State::Idle, "a store changes its profile between transactions");
        assert_eq!(self.log_bytes(), 0, "what was logged is taken before the profile changes");
        let Self { mut tables, indexes, schema, limits, .. } = self;
        let Self { online, columns, remains, snapshots, budget, names_rows, left_out, .. } = self;
        tables.iter_mut().for_each(|rows| rows.slab.rebuild_free_list());
        // All structures share one budget.
        let mut undo = Q::Undo::default();
        undo.take_from(&budget);
        let empty = MemoryStore::<Q>::new(limits);
        let kept = MemoryStore { tables, indexes, schema, online, remains, undo, ..empty };
        let mut store = MemoryStore { columns, snapshots, budget, names_rows, left_out, ..kept };
        store.watch();
        Ok(store)
    }

    /// The number of bytes that [`MemoryStore::take_log`] would move.
    #[inline]
    pub fn log_bytes(&self) -> usize {
        self.log.waiting_bytes()
    }

    /// Sets the most bytes that one transaction may log; a write beyond it is refused.
    #[inline]
    pub fn set_transaction_log_bytes_max(&mut self, bytes: usize) {
        self.log.set_transaction_bytes_max(bytes);
    }

    /// Sets the most bytes that the open transaction may log after its preface; `None` when it has ended.
    pub fn set_rest_log_bytes_max(&mut self, bytes: Option<usize>) {
        self.log.set_rest_bytes_max(bytes);
    }

    /// Indexes that are in the log but not in this store, because it was opened without unfit indexes; with
    /// the reason why they do not match the rows. Once the rows fit, the store has them when opened again.
    pub fn left_out(&self) -> &[(String, String)] {
        &self.left_out
    }

    /// The number of rows of a table, as the open transaction sees it.
    pub fn rows_number<R: TableType>(&self, table: &Table<R>) -> u64 {
        self.tables[table.position()].slab.len() as u64
    }

    #[inline(always)]
    pub(super) fn slot(row: RowId) -> u32 {
        row.location() as u32
    }

    #[inline(always)]
    pub(super) fn row_id(slot: u32) -> RowId {
        RowId::new(slot as u64)
    }

    /// The slot of a live row.
    pub(super) fn live_slot<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<u32> {
        // Compares the whole location, because an id of another store may have more bits than a slot.
        match u32::try_from(row.location()) {
            Ok(slot) if self.tables[table.position()].slab.is_live(slot) => Ok(slot),
            _ => Err(Self::no_such_row(table)),
        }
    }

    // Never inlined: the call marks the path to it as unusual, so the compiler does not take the
    // code behind several such paths for a rare case.
    #[cold]
    #[inline(never)]
    pub(super) fn no_such_row<R: TableType>(table: &Table<R>) -> Error {
        Error::NoSuchRow { table: table.position() as u32 }
    }

    /// Inserts entries with ascending packed keys into the tree at `position`.
    #[inline(always)]
    pub(super) fn insert_packed_run(
        &mut self,
        position: usize,
        keys: &[u64],
        slots: &[u32],
    ) -> Result<()> {
        self.room_for_notes(keys.len(), 0)?;
        let Entries::Packed(tree) = &mut self.indexes[position].entries else {
            unreachable!("runs go into trees of packed keys")
        };
        if let Err(RunError { error, .. }) = tree.insert_run(keys, slots) {
            return Err(self.insert_error(position, error));
        }
        let index = position as u32;
        let entries = keys.iter().zip(slots);
        self.undo.note_all_in_room(entries.map(|(&key, &row)| Change::InsertedPacked {
            index,
            row,
            key,
        }));
        Ok(())
    }

    /// Puts the normalised form of `key` into `self.key`; returns whether a row can have that key.
    #[inline]
    pub(super) fn normalise<I: IndexType>(&mut self, index: &Index<I>, key: I::Key<'_>) -> bool {
        normalise(index, key, &mut self.key)
    }

    /// Makes the next transaction continue the open one. So the writes up to now — the *preface* —
    /// are committed or undone together with those of the next transaction,
    /// which need not know of them. The caller of `preface` ensures that the transaction ends, even if
    /// no other begins. This costs transactions without a preface nothing.
    ///
    /// ```
    /// use tombolo_storage::{memory::{Limits, MemoryStore}, profile::Memory, store::{Phase, Store}};
    /// let mut store = MemoryStore::<Memory>::new(Limits::default());
    /// store.begin()?;
    /// store.begin_writes();
    /// store.preface(); // after the first writes
    /// store.begin()?;
    /// assert_eq!(store.phase(), Phase::Reading);
    /// store.abort()?; // undoes the preface, too
    /// assert_eq!(store.phase(), Phase::Idle);
    /// # Ok::<(), tombolo_storage::error::Error>(())
    /// ```
    ///
    /// # Panics
    /// When no transaction writes, or in a profile without undo, where a transaction that only read
    /// could not undo the preface.
    pub fn preface(&mut self) {
        assert!(P::Undo::KEEPS, "a preface needs undo");
        assert_eq!(self.state, State::Writing, "a preface is written in a transaction");
        self.state = State::Prefaced;
    }

    /// Begins a transaction if the store is not idle: allowed only after a preface.
    #[cold]
    pub(super) fn begin_otherwise(&mut self) -> Result<()> {
        match self.state {
            State::Poisoned(reason) => Err(Error::Poisoned { reason }),
            State::Prefaced => {
                self.state = State::Reading;
                Ok(())
            }
            _ => {
                let reason = "a transaction began before the last one had ended";
                self.poison(reason);
                Err(Error::Poisoned { reason })
            }
        }
    }

    /// The error of a write that made its transaction's log too long.
    #[cold]
    #[inline(never)]
    pub(super) fn logged_too_much(&self) -> Error {
        let refusal = self.log.refusal();
        refusal.unwrap_or_else(|| unreachable!("what is too long is not committed"))
    }

    #[cold]
    pub(super) fn no_space(&mut self) -> Error {
        // A retry may succeed with the memory of closed snapshots.
        self.snapshots.give_back();
        Error::NoSpace { held_bytes: self.memory_bytes() }
    }

    /// Makes room for `changes` notes and `bytes` bytes of images.
    #[inline(always)]
    pub(super) fn room_for_notes(&mut self, changes: usize, bytes: usize) -> Result<()> {
        match self.undo.make_room(changes, bytes) {
            Ok(()) => Ok(()),
            Err(Full) => Err(self.no_space()),
        }
    }

    #[cold]
    pub(super) fn insert_error(&mut self, index: usize, error: InsertError) -> Error {
        match error {
            InsertError::Duplicate(_) => Error::Duplicate { index: index as u32 },
            InsertError::NoSpace(_) => self.no_space(),
            InsertError::KeyTooLong { .. } => self.unfit(index),
        }
    }

    /// Frees the slot or value left by a committed deletion or replacement.
    pub(super) fn give_back(tables: &mut [Rows], change: Change) {
        match change {
            Change::Deleted { table, row } => {
                let rows = &mut tables[table as usize];
                let bytes = rows.slab.head(row.into(), rows.shape.row_bytes).unwrap_or_default();
                for &offset in &rows.shape.variable_offsets {
                    rows.values.free(Handle::read(bytes, offset));
                }
                rows.forget_added(row);
                rows.slab.release(row);
            }
            Change::ValueReplaced { table, handle } => {
                tables[table as usize].values.free(Handle::from_bits(handle));
            }
            _ => {}
        }
    }

    /// Applies the undo notes, newest first.
    pub(super) fn roll_back(&mut self) -> Result<()> {
        let mut image = Vec::new();
        while let Some(change) = self.undo.pop(&mut image) {
            if self.take_back(change, &image).is_err() {
                return Err(self.not_undone());
            }
        }
        Ok(())
    }

    #[cold]
    pub(super) fn not_undone(&mut self) -> Error {
        let reason = "an aborted transaction could not be undone: no memory for an index entry";
        self.poison(reason);
        Error::Poisoned { reason }
    }

    /// Undoes one change.
    pub(super) fn take_back(&mut self, change: Change, image: &[u8]) -> Result<(), InsertError> {
        match change {
            Change::Updated { table, row, offset, .. } => {
                let slot = self.tables[table as usize].slab.slot_mut(row);
                slot[offset as usize..offset as usize + image.len()].copy_from_slice(image);
            }
            Change::Created { table, row } => {
                let rows = &mut self.tables[table as usize];
                rows.forget_added(row);
                rows.slab.free(row);
                rows.slab.end_generation(row);
            }
            Change::Deleted { table, row } => {
                let rows = &mut self.tables[table as usize];
                rows.slab.revive(row);
                rows.slab.take_end_back(row);
            }
            Change::ValueStored { table, handle } => {
                self.tables[table as usize].values.free(Handle::from_bits(handle));
            }
            Change::ValueReplaced { .. } => {}
            Change::InsertedPacked { index, key, .. } => {
                self.indexes[index as usize].remove_packed(key);
            }
            Change::RemovedPacked { index, row, key } => {
                let index = &mut self.indexes[index as usize];
                return index.put_back(|index| index.insert_packed(key, row));
            }
            Change::InsertedBytes { index, row, .. } => return self.remove_note(index, image, row),
            Change::RemovedBytes { index, row, .. } => {
                let index = &mut self.indexes[index as usize];
                return index.put_back(|index| Self::insert_note(index, image, row));
            }
        }
        Ok(())
    }

    fn remove_note(&mut self, index: u32, key: &[u8], row: u32) -> Result<(), InsertError> {
        match &mut self.indexes[index as usize].entries {
            Entries::Bytes(tree) => drop(tree.remove(key)),
            Entries::BytesHash(table) => drop(table.remove_pair(table.hash_bytes(key), row)),
            _ => unreachable!("a normalised key was noted for an index of packed keys"),
        }
        Ok(())
    }

    fn insert_note(index: &mut RowIndex, key: &[u8], row: u32) -> Result<(), InsertError> {
        match &mut index.entries {
            Entries::Bytes(tree) => tree.insert(key, row),
            Entries::BytesHash(table) => table.insert_pair(table.hash_bytes(key), row),
            _ => unreachable!("a normalised key was noted for an index of packed keys"),
        }
    }

    /// Stores `value` and puts its handle at `offset` of the row; the previous value is freed when
    /// the transaction ends.
    pub(super) fn replace_value(
        &mut self,
        table: usize,
        slot: u32,
        offset: usize,
        value: &[u8],
    ) -> Result<()> {
        if value.len() > VALUE_BYTES_MAX {
            let column = self.schema.tables[table].column_at(offset) as u32;
            return Err(Error::OutOfRange { table: table as u32, column });
        }
        self.room_for_notes(3, HANDLE_BYTES)?;
        let Ok(new) = self.tables[table].values.put(value) else { return Err(self.no_space()) };
        let position = table as u32;
        let bytes = &mut self.tables[table].slab.slot_mut(slot)[offset..offset + HANDLE_BYTES];
        let old = Handle::read(bytes, 0);
        let updated = Change::Updated {
            table: position,
            row: slot,
            offset: offset as u32,
            bytes: HANDLE_BYTES as u32,
        };
        self.undo.note_in_room(Change::ValueStored { table: position, handle: new.to_bits() });
        self.undo.note_image_in_room(updated, bytes);
        bytes.copy_from_slice(&new.to_bits().to_le_bytes());
        let logged = self.log.variable_set(position, slot, offset, value);
        if P::Undo::KEEPS {
            self.undo
                .note_in_room(Change::ValueReplaced { table: position, handle: old.to_bits() });
        } else {
            self.tables[table].values.free(old);
        }
        logged.map_err(|TooLong| self.logged_too_much())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_nearly_fill_lines_are_line_aligned() {
        for (row_bytes, slot) in
            [(10, 16), (27, 32), (53, 56), (58, 64), (88, 88), (310, 320), (679, 704)]
        {
            assert_eq!(slot_bytes(row_bytes), slot, "rows of {row_bytes}");
        }
    }
}
