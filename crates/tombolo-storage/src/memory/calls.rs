//! The calls of a transaction on the memory store: `Store` for [`MemoryStore`].
//!
//! No call takes a lock or latch, allocates, or copies a row; a component that the profile switches off
//! leaves no code. A key of a declared index is packed by constants, and its structure is
//! known when the call is compiled.

use std::ops::ControlFlow;

use super::btree::{ABSENT, LOCK_STEP, Position};
use super::index::{Entries, RowIndex, is_packed};
use super::log::{Log, TooLong};
use super::open_change::OpenChange;
use super::region::RegionError;
use super::rows::Rows;
use super::store::{MemoryRow, MemoryStore, State};
use super::undo::{Change, Undo};
use crate::error::{Error, Result, SchemaError};
use crate::key::{Edge, Fit, IndexType, Range};
use crate::profile::MemoryProfile;
use crate::row::{Fields, Row, RowId, RowMut};
use crate::schema::{Schema, TableDef};
use crate::store::{
    Damage, Index, Order, Phase, SharedRows, Store, Table, TableType, Usage, key_out_of_range,
};
use crate::value_log::{SchemaKind, definition};

/// The packed keys of a range: from the first number to before the second.
#[inline(always)]
pub(super) fn packed_ends<I: IndexType>(
    index: &Index<I>,
    range: &Range<I::Key<'_>>,
) -> (u128, u128) {
    let edge = |edge: &Edge<_>, open| match *edge {
        Edge::Open => open,
        Edge::Before(key, columns) => I::position(index.shape(), key, columns, false),
        Edge::After(key, columns) => I::position(index.shape(), key, columns, true),
    };
    (edge(&range.lower, 0), edge(&range.upper, 1 << 64))
}

/// Writes the bytes with which the keys at an edge of a range begin; returns whether the edge is after all keys with
/// this prefix rather than before them. `None`, and no bytes, for an open edge.
#[inline(always)]
pub(super) fn normalised_edge<I: IndexType>(
    index: &Index<I>,
    edge: &Edge<I::Key<'_>>,
    out: &mut Vec<u8>,
) -> Option<bool> {
    out.clear();
    let (key, columns, is_after) = match *edge {
        Edge::Open => return None,
        Edge::Before(key, columns) => (key, columns, false),
        Edge::After(key, columns) => (key, columns, true),
    };
    Some(match I::encode(index.shape(), key, columns, out) {
        Fit::Within => is_after,
        Fit::Below => false,
        Fit::Above => true,
    })
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// Asserts that a transaction writes: a write outside a transaction would be part of the next one.
    ///
    /// # Panics
    /// When no transaction writes.
    #[inline(always)]
    fn assert_writing(&self) {
        assert!(
            matches!(self.state, State::Writing),
            "a write belongs to a transaction that writes"
        );
    }

    /// The same as [`Store::pin`], for a live row only.
    #[inline(always)]
    fn pin_live<R: TableType>(
        &self,
        table: &Table<R>,
        row: RowId,
    ) -> Result<Row<R, MemoryRow<'_>>> {
        let slab = &self.tables[table.position()].slab;
        self.pinned(table, slab.live_head(row.location(), table.row_size()))
    }

    #[inline(always)]
    pub(super) fn pinned<'a, R: TableType>(
        &'a self,
        table: &Table<R>,
        fixed: Option<&'a [u8]>,
    ) -> Result<Row<R, MemoryRow<'a>>> {
        match fixed {
            Some(fixed) => {
                Ok(Row::new(MemoryRow { fixed, values: &self.tables[table.position()].values }))
            }
            None => Err(Self::no_such_row(table)),
        }
    }

    /// Changes the row in slot `place`, if there is such a slot; with `is_checked`, only if it is
    /// live.
    #[inline(always)]
    pub(super) fn update_in<R: TableType>(
        &mut self,
        table: &Table<R>,
        place: u64,
        fields: Fields<R>,
        is_checked: bool,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()> {
        self.assert_writing();
        let (slot, position) = (place as u32, table.position() as u32);
        let mut open = OpenChange::of(self);
        let store = &mut *open.store;
        let (slab, size) = (&mut store.tables[table.position()].slab, table.row_size());
        let bytes = match is_checked {
            true => slab.live_head_mut(place, size),
            false => slab.head_mut(place, size),
        };
        let Some(bytes) = bytes else { return Err(Self::no_such_row(table)) };
        let (start, end) = (fields.start(), fields.end());
        if store.undo.note_update(position, slot, start as u32, &bytes[start..end]).is_err() {
            return Err(store.refuse_last());
        }
        open.is_noted = true;
        change(&mut RowMut::new(bytes, fields));
        let logged = store.log.updated(position, slot, start, &bytes[start..end]);
        open.end();
        logged.map_err(|TooLong| self.logged_too_much())
    }

    /// Visits the slots of the rows with keys in `range`, and their table.
    ///
    /// # Errors
    /// `Unordered` for a hash index.
    pub(super) fn scan_slots<I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: Range<I::Key<'_>>,
        order: Order,
        mut visit: impl FnMut(&Rows, u32) -> ControlFlow<()>,
    ) -> Result<()> {
        let entries = &self.indexes[index.position()];
        let rows = &self.tables[entries.table];
        if !entries.is_ordered() {
            return Err(Error::Unordered { index: index.position() as u32 });
        }
        if is_packed(index) {
            let (lower, upper) = packed_ends(index, &range);
            entries.scan_packed(lower, upper, order, |_, slot| visit(rows, slot));
            return Ok(());
        }
        let lower = normalised_edge(index, &range.lower, &mut self.key);
        let upper = normalised_edge(index, &range.upper, &mut self.end_key);
        let position = |after, bytes, open| match after {
            None => open,
            Some(false) => Position::Before(bytes),
            Some(true) => Position::After(bytes),
        };
        let lower = position(lower, self.key.as_slice(), Position::Before(&[]));
        let upper = position(upper, self.end_key.as_slice(), Position::After(&[]));
        entries.scan_bytes(lower, upper, order, |_, slot| visit(rows, slot));
        Ok(())
    }

    /// Looks up the keys that were not found yet, several packed ones together.
    #[inline(never)]
    fn lookup_unknown<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        if !is_packed(index) {
            for (key, found) in keys.iter().zip(found) {
                *found = self.lookup(index, *key)?;
            }
            return Ok(());
        }
        let (mut places, mut packed) = ([0; LOCK_STEP], [0; LOCK_STEP]);
        let mut slots = [ABSENT; LOCK_STEP];
        let mut next = 0;
        while next < keys.len() {
            let mut count = 0;
            while next < keys.len() && count < LOCK_STEP {
                // No row has a key outside its columns' ranges.
                if found[next].is_none()
                    && let Some(key) = I::pack(index.shape(), keys[next])
                {
                    (places[count], packed[count]) = (next, key);
                    count += 1;
                }
                next += 1;
            }
            let entries = &mut self.indexes[index.position()];
            entries.look_up_many_packed(&packed[..count], &mut slots[..count]);
            for (&place, &slot) in places[..count].iter().zip(&slots) {
                found[place] = (slot != ABSENT).then(|| Self::row_id(slot));
            }
        }
        Ok(())
    }
}

impl<P: MemoryProfile> Store for MemoryStore<P> {
    type Pin<'a> = MemoryRow<'a>;

    const UNDO: bool = P::Undo::KEEPS;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn create_table(&mut self, table: TableDef) -> Result<(), SchemaError> {
        assert_eq!(self.phase(), Phase::Idle, "a table is created outside transactions");
        let no_space = |error: RegionError| SchemaError::new(&table.name, &error.to_string());
        let mut schema = self.schema.clone();
        let position = schema.add(table.clone())?;
        let mut rows = Rows::new(&table, &self.allowance()).map_err(no_space)?;
        if self.names_rows {
            rows.slab.keep_generations(self.allowance()).map_err(no_space)?;
        }
        let index =
            |def| RowIndex::new(position, &table, def, &self.allowance(), self.limits.hash_seed());
        let indexes: Result<Vec<_>, _> = table.indexes.iter().map(index).collect();
        self.indexes.extend(indexes.map_err(no_space)?);
        self.tables.push(rows);
        self.schema = schema;
        let bytes = definition::encode(&table);
        self.log_change(SchemaKind::TableCreated, 0, Some(position), &bytes);
        Ok(())
    }

    #[inline(always)]
    fn begin(&mut self) -> Result<()> {
        if self.state != State::Idle {
            return self.begin_otherwise();
        }
        self.state = State::Reading;
        Ok(())
    }

    #[inline(always)]
    fn phase(&self) -> Phase {
        match self.state {
            State::Idle | State::Poisoned(_) => Phase::Idle,
            State::Reading => Phase::Reading,
            State::Prefaced | State::Writing => Phase::Writing,
        }
    }

    #[inline(always)]
    fn begin_writes(&mut self) {
        assert!(matches!(self.state, State::Reading), "writes begin once, in a transaction");
        self.state = State::Writing;
    }

    #[inline(always)]
    fn commit(&mut self) -> Result<()> {
        self.admit_commit()?;
        // Snapshots, added indexes and spread tables cost a transaction only this branch while there are none.
        if Self::UNDO && self.is_watched {
            self.commit_watched()?;
        }
        let tables = &mut self.tables;
        self.undo.finish(|change| Self::give_back(tables, change));
        self.log.committed();
        self.state = State::Idle;
        Ok(())
    }

    fn abort(&mut self) -> Result<()> {
        if let State::Poisoned(reason) = self.state {
            return Err(Error::Poisoned { reason });
        }
        if !Self::UNDO && self.state == State::Writing {
            return self.fail();
        }
        self.roll_back()?;
        self.log.aborted();
        self.state = State::Idle;
        Ok(())
    }

    #[inline(always)]
    fn lookup<I: IndexType>(&mut self, index: &Index<I>, key: I::Key<'_>) -> Result<Option<RowId>> {
        if is_packed(index) {
            let Some(key) = I::pack(index.shape(), key) else { return Ok(None) };
            return Ok(self.indexes[index.position()].look_up_packed(key).map(Self::row_id));
        }
        if !self.normalise(index, key) {
            return Ok(None);
        }
        Ok(self.find_normalised(index.position()).map(Self::row_id))
    }

    #[inline(always)]
    fn lookup_many<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        assert_eq!(keys.len(), found.len());
        if !is_packed(index) {
            return self.lookup_unknown(index, keys, found);
        }
        if let Entries::Packed(tree) = &self.indexes[index.position()].entries {
            // Look-ups answered by the directory do not wait for each other.
            let mut are_known = true;
            for (found, key) in found.iter_mut().zip(keys) {
                let key = I::pack(index.shape(), *key);
                *found = key.and_then(|key| tree.known(key)).map(Self::row_id);
                are_known &= found.is_some();
            }
            if are_known {
                return Ok(());
            }
        } else {
            found.fill(None);
        }
        self.lookup_unknown(index, keys, found)
    }

    fn scan<I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: Range<I::Key<'_>>,
        order: Order,
        mut visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        self.scan_slots(index, range, order, |_, slot| visit(Self::row_id(slot)))
    }

    fn rows<R: TableType>(
        &mut self,
        table: &Table<R>,
        mut visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut slots = self.tables[table.position()].slab.live();
        let _ = slots.try_for_each(|slot| visit(Self::row_id(slot)));
        Ok(())
    }

    #[inline(always)]
    fn prefetch_lookup<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
        if is_packed(index)
            && let Some(key) = I::pack(index.shape(), key)
        {
            self.indexes[index.position()].prefetch_find_packed(key);
        }
    }

    #[inline(always)]
    fn prefetch_insert<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
        if is_packed(index)
            && let Some(key) = I::pack(index.shape(), key)
        {
            self.indexes[index.position()].prefetch_insert_packed(key);
        }
    }

    #[inline(always)]
    fn prefetch<R: TableType>(&self, table: &Table<R>, row: RowId, fields: Fields<R>) {
        let slab = &self.tables[table.position()].slab;
        let mut offset = fields.start();
        while offset < fields.end() {
            slab.prefetch(Self::slot(row), offset);
            offset += 64;
        }
        // Slots need not begin at a cache line: the last byte may lie in the next one. With short
        // fields it seldom does.
        if fields.end() > fields.start() + 16 {
            slab.prefetch(Self::slot(row), fields.end() - 1);
        }
    }

    #[inline(always)]
    fn find_ahead<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) -> Option<RowId> {
        if !is_packed(index) {
            return None;
        }
        let key = I::pack(index.shape(), key)?;
        self.indexes[index.position()].find_packed(key).map(Self::row_id)
    }

    #[inline(always)]
    fn removals<I: IndexType>(&self, index: &Index<I>) -> Option<u64> {
        Some(self.indexes[index.position()].removals)
    }

    #[inline(always)]
    fn pin<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<Row<R, MemoryRow<'_>>> {
        if R::CHECKED {
            return self.pin_live(table, row);
        }
        let slab = &self.tables[table.position()].slab;
        self.pinned(table, slab.head(row.location(), table.row_size()))
    }

    #[inline(always)]
    fn update<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        fields: Fields<R>,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()> {
        self.update_in(table, row.location(), fields, R::CHECKED, change)
    }

    fn set_variable<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        offset: usize,
        value: &[u8],
    ) -> Result<()> {
        self.assert_writing();
        let slot = self.live_slot(table, row)?;
        self.replace_value(table.position(), slot, offset, value)
    }

    #[inline(always)]
    fn create<R: TableType>(
        &mut self,
        table: &Table<R>,
        fill: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<RowId> {
        self.assert_writing();
        let (size, position) = (table.row_size(), table.position() as u32);
        let mut open = OpenChange::of(self);
        let store = &mut *open.store;
        let slab = &mut store.tables[table.position()].slab;
        let Ok((slot, bytes)) = slab.allocate_zeroed(size) else { return Err(store.no_space()) };
        if store.undo.note(Change::Created { table: position, row: slot }).is_err() {
            return Err(store.refuse_last());
        }
        open.is_noted = true;
        fill(&mut RowMut::new(bytes, Fields::whole(size)));
        let logged = store.log.created(position, slot, bytes);
        open.end();
        match logged {
            Ok(()) => Ok(Self::row_id(slot)),
            Err(TooLong) => Err(self.logged_too_much()),
        }
    }

    fn delete<R: TableType>(&mut self, table: &Table<R>, row: RowId) -> Result<()> {
        self.assert_writing();
        let slot = self.live_slot(table, row)?;
        self.room_for_notes(1, 0)?;
        let position = table.position() as u32;
        let rows = &mut self.tables[table.position()];
        if !rows.slab.retire(slot) {
            return Err(Error::NoSuchRow { table: position });
        }
        rows.slab.end_generation(slot);
        let logged = self.log.deleted(position, slot);
        let change = Change::Deleted { table: position, row: slot };
        if Self::UNDO {
            self.undo.note_in_room(change);
        } else {
            Self::give_back(&mut self.tables, change);
        }
        logged.map_err(|TooLong| self.logged_too_much())
    }

    #[inline(always)]
    fn insert<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<()> {
        self.assert_writing();
        let (position, slot) = (index.position(), Self::slot(row));
        if is_packed(index) {
            let Some(key) = I::pack(index.shape(), key) else {
                return Err(key_out_of_range(&self.schema, index, key));
            };
            if let Err(error) = self.indexes[position].insert_packed(key, slot) {
                return Err(self.insert_error(position, error));
            }
            let change = Change::InsertedPacked { index: position as u32, row: slot, key };
            if self.undo.note(change).is_err() {
                return Err(self.refuse_last());
            }
            return Ok(());
        }
        if !self.normalise(index, key) {
            return Err(key_out_of_range(&self.schema, index, key));
        }
        self.insert_normalised(position, slot)
    }

    #[inline(always)]
    fn insert_run<'k, I: IndexType>(
        &mut self,
        index: &Index<I>,
        rows: &[RowId],
        key: impl Fn(usize) -> I::Key<'k>,
    ) -> Result<()> {
        self.assert_writing();
        let position = index.position();
        if !matches!(self.indexes[position].entries, Entries::Packed(_)) {
            return insert_each(self, index, rows, key);
        }
        let (mut packed, mut slots) = ([0; LOCK_STEP], [0; LOCK_STEP]);
        let mut first = 0;
        for rows in rows.chunks(LOCK_STEP) {
            let entries = packed.iter_mut().zip(&mut slots);
            for ((packed, slot), (at, row)) in entries.zip((first..).zip(rows)) {
                match I::pack(index.shape(), key(at)) {
                    Some(key) => (*packed, *slot) = (key, Self::slot(*row)),
                    None => return Err(key_out_of_range(&self.schema, index, key(at))),
                }
            }
            self.insert_packed_run(position, &packed[..rows.len()], &slots[..rows.len()])?;
            first += LOCK_STEP;
        }
        Ok(())
    }

    #[inline]
    fn remove<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<bool> {
        self.assert_writing();
        let (position, slot) = (index.position(), Self::slot(row));
        if is_packed(index) {
            let Some(key) = I::pack(index.shape(), key) else { return Ok(false) };
            self.room_for_notes(1, 0)?;
            let entries = &mut self.indexes[position];
            if entries.find_packed(key) != Some(slot) {
                return Ok(false);
            }
            entries.remove_packed(key);
            let change = Change::RemovedPacked { index: position as u32, row: slot, key };
            self.undo.note_in_room(change);
            return Ok(true);
        }
        if !self.normalise(index, key) {
            return Ok(false);
        }
        self.remove_normalised(position, slot)
    }

    #[cold]
    fn poison(&mut self, reason: &'static str) {
        self.state = State::Poisoned(reason);
    }

    fn check(&mut self) -> Vec<Damage> {
        self.verify()
    }

    fn shared(&self) -> Option<Box<dyn SharedRows + '_>> {
        Some(Box::new(self.view()))
    }

    fn usage(&mut self) -> Usage {
        self.measure()
    }
}

/// [`Store::insert_run`] for an index that is not a tree of packed keys.
#[cold]
#[inline(never)]
fn insert_each<'k, S: Store, I: IndexType>(
    store: &mut S,
    index: &Index<I>,
    rows: &[RowId],
    key: impl Fn(usize) -> I::Key<'k>,
) -> Result<()> {
    rows.iter().enumerate().try_for_each(|(at, row)| store.insert(index, key(at), *row))
}
