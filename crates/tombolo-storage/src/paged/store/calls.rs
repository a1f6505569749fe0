//! The calls a transaction makes, on the paged store: `Store` for [`PagedStore`].
//!
//! A component that a profile switches off is not in its code: each component is called through its trait, whose
//! implementation for *off* does nothing. Calls wait for locks only between two visits of a page: if another
//! transaction has locked an entry or row, the call leaves the page, waits, and searches again.

use std::ops::ControlFlow;

use super::database::{Database, IndexStore, TableStore, change};
use super::rows::RowAccess;
use super::transaction::{Ghost, Session};
use super::{PagedStore, Sharing};
use crate::error::{Error, Result, SchemaError};
use crate::key::{IndexType, Range, packed_bits};
use crate::lock::Mode;
use crate::log::{ChangeKind, Logging};
use crate::memory::variable::HANDLE_BYTES;
use crate::paged::btree::{KeyFormat, LastInsertions};
use crate::paged::heap::{Place, RowFile, read_handle};
use crate::probe::{self, Counter};
use crate::profile::PagedProfile;
use crate::row::{Fields, Row, RowId, RowMut};
use crate::schema::{Schema, TableDef};
use crate::store::{Damage, Index, Order, Phase, Store, Table, TableType, Usage, key_out_of_range};

/// How profile `P` holds a row.
type PinOf<'a, P> = <<P as PagedProfile>::Pages as RowAccess<
    <<P as PagedProfile>::Log as Logging>::Ahead,
>>::Pin<'a>;

/// Most entries that are inserted together.
const RUN_MAX: usize = 64;

impl<P: PagedProfile> Session<P> {
    /// Holds a locked row for reading; `None` if there is none.
    #[inline(never)]
    fn pin_row<'a>(
        &'a self,
        database: &'a Database<P>,
        table: &'a TableStore<P>,
        row: RowId,
    ) -> Result<Option<PinOf<'a, P>>> {
        probe::count(Counter::Pins, 1);
        Ok(database.pages.pin_row(&table.rows, &self.copies, row)?)
    }
}

/// Entries of indexes.
impl<P: PagedProfile> Session<P> {
    /// Inserts the entry of `row` under `key`.
    #[inline(always)]
    fn insert_under<I: IndexType>(
        &mut self,
        database: &Database<P>,
        index: &Index<I>,
        store: &IndexStore<P>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<()> {
        self.key.clear();
        if !append_key::<P, I>(index.shape(), key, &mut self.key) {
            return Err(key_out_of_range(&database.schema, index, key));
        }
        self.insert_entry(database, index.position() as u32, store, row)
    }

    /// Adds the stored form of a key that is to be inserted to `self.probes`.
    #[inline(always)]
    fn add_key<I: IndexType>(
        &mut self,
        database: &Database<P>,
        index: &Index<I>,
        store: &IndexStore<P>,
        key: I::Key<'_>,
    ) -> Result<()> {
        let encode = |bytes: &mut Vec<u8>| append_key::<P, I>(index.shape(), key, bytes);
        let is_added = self.probes.push(encode, |key| store.tree.hint_of(key));
        is_added.then_some(()).ok_or_else(|| key_out_of_range(&database.schema, index, key))
    }
}

/// A change of a row that is called once, in a form without its type: so the code around it is
/// compiled once for all tables and procedures.
#[inline(always)]
fn once<R>(change: impl FnOnce(&mut RowMut<'_, R>), fields: Fields<R>) -> impl FnMut(&mut [u8]) {
    let mut change = Some(change);
    move |bytes| {
        if let Some(change) = change.take() {
            change(&mut RowMut::new(bytes, fields));
        }
    }
}

/// Puts the stored form of a key that is to be inserted behind what is in `out`; `false` if it has none.
#[inline(always)]
fn append_key<P: PagedProfile, I: IndexType>(
    shape: &I::Shape,
    key: I::Key<'_>,
    out: &mut Vec<u8>,
) -> bool {
    P::Keys::append::<I>(shape, key, out) && !is_outside_range::<P, I>(shape, key)
}

/// Whether a value lies outside its column's declared range. Keys that pack have no form then;
/// those kept in another form are asked.
#[inline(always)]
fn is_outside_range<P: PagedProfile, I: IndexType>(shape: &I::Shape, key: I::Key<'_>) -> bool {
    let parts = I::parts(shape);
    let is_verified = P::Keys::is_packed(parts) || packed_bits(parts).is_none();
    !is_verified && I::pack(shape, key).is_none()
}

/// Refuses a row id that names no live row, for handles made at run time; procedures use ids they
/// just looked up.
#[inline(always)]
fn refuse_dead<P: PagedProfile, R: TableType>(
    database: &Database<P>,
    store: &TableStore<P>,
    table: &Table<R>,
    row: RowId,
) -> Result<()> {
    if R::CHECKED && !store.rows.exists(&database.pages, row)? {
        return Err(no_such_row(table));
    }
    Ok(())
}

#[cold]
fn no_such_row<R: TableType>(table: &Table<R>) -> Error {
    Error::NoSuchRow { table: table.position() as u32 }
}

impl<P: PagedProfile> Store for PagedStore<P> {
    type Pin<'a> = PinOf<'a, P>;

    const UNDO: bool = P::Log::RECORDS;

    fn schema(&self) -> &Schema {
        &self.database.schema
    }

    fn create_table(&mut self, table: TableDef) -> Result<(), SchemaError> {
        assert_eq!(self.session.phase, Phase::Idle, "a table is created outside transactions");
        match P::Latching::alone(&mut self.database) {
            Some(database) => {
                database.create_table(table)?;
                let count = database.indexes.len();
                self.session.last_insertions.resize(count, LastInsertions::default());
                Ok(())
            }
            None => Err(SchemaError::new(
                &table.name,
                "a table is created before other sessions are opened",
            )),
        }
    }

    #[inline]
    fn begin(&mut self) -> Result<()> {
        self.session.begin(&self.database)
    }

    #[inline(always)]
    fn phase(&self) -> Phase {
        self.session.phase
    }

    #[inline(always)]
    fn begin_writes(&mut self) {
        // A procedure that is a step of a transaction announces its writes again.
        if self.session.phase != Phase::Writing {
            self.session.phase = Phase::Writing;
            self.session.since.begin(self.database.log.durable());
        }
    }

    #[inline]
    fn commit(&mut self) -> Result<()> {
        self.session.commit(&self.database)
    }

    fn abort(&mut self) -> Result<()> {
        self.database.refuse_poisoned()?;
        if !Self::UNDO && self.session.phase == Phase::Writing {
            return self.fail();
        }
        self.session.abort(&self.database)
    }

    #[inline]
    fn lookup<I: IndexType>(&mut self, index: &Index<I>, key: I::Key<'_>) -> Result<Option<RowId>> {
        self.session.find(&self.database, index, key, Mode::Shared)
    }

    #[inline]
    fn lookup_for_update<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<RowId>> {
        self.session.find(&self.database, index, key, Mode::SharedIntentionExclusive)
    }

    #[inline]
    fn lookup_many<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        self.session.find_many(&self.database, index, keys, Mode::Shared, found)
    }

    #[inline]
    fn lookup_many_for_update<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        self.session.find_many(&self.database, index, keys, Mode::SharedIntentionExclusive, found)
    }

    #[inline(always)]
    fn prefetch<R: TableType>(&self, table: &Table<R>, row: RowId, fields: Fields<R>) {
        // By position, not by name: a hint is no call.
        let store = &self.database.tables[table.position()];
        store.rows.prefetch(&self.database.pages, row, (fields.start(), fields.end()));
    }

    fn scan<I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: Range<I::Key<'_>>,
        order: Order,
        mut visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        let (database, session) = (&*self.database, &mut self.session);
        session.note(database, false);
        let store = database.index(index);
        if !store.is_ordered {
            return Err(Error::Unordered { index: index.position() as u32 });
        }
        let (mut key, mut end_key) = (Vec::new(), Vec::new());
        std::mem::swap(&mut key, &mut session.key);
        std::mem::swap(&mut end_key, &mut session.end_key);
        let shape = index.shape();
        let lower = P::Keys::position::<I>(shape, &range.lower, &mut key);
        let upper = P::Keys::position::<I>(shape, &range.upper, &mut end_key);
        let scanned = session.scan(database, store, [lower, upper], order, &mut visit);
        (session.key, session.end_key) = (key, end_key);
        scanned
    }

    fn rows<R: TableType>(
        &mut self,
        table: &Table<R>,
        mut visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        let (database, session) = (&*self.database, &mut self.session);
        session.note(database, false);
        let store = database.table(table);
        // All of it is read, so all of it is locked: no other transaction can have a ghost here
        // then.
        session.lock_table(database, store.store, Mode::Shared)?;
        store.rows.scan(&database.pages, |row, deleted| {
            if deleted { ControlFlow::Continue(()) } else { visit(row) }
        })?;
        Ok(())
    }

    #[inline]
    fn pin<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<Row<R, Self::Pin<'_>>> {
        let (database, session) = (&*self.database, &self.session);
        session.note(database, false);
        let store = database.table(table);
        session.lock(database, store.store, row, Mode::Shared)?;
        refuse_dead(database, store, table, row)?;
        let pinned = session.pin_row(database, store, row)?;
        if P::Pages::COPIES {
            session.end_read(database, row);
        }
        pinned.map(Row::new).ok_or_else(|| no_such_row(table))
    }

    #[inline]
    fn update<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        fields: Fields<R>,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()> {
        debug_assert_eq!(self.session.phase, Phase::Writing);
        let (database, session) = (&*self.database, &mut self.session);
        session.note(database, true);
        let store = database.table(table);
        session.lock(database, store.store, row, Mode::SharedIntentionExclusive)?;
        let range = (fields.start(), fields.end());
        let mut change = once(change, fields);
        match session.update_row(database, store, row, range, &mut change)? {
            true => {
                session.note_placed((table.position(), store), row, range);
                Ok(())
            }
            false => Err(no_such_row(table)),
        }
    }

    fn set_variable<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        offset: usize,
        value: &[u8],
    ) -> Result<()> {
        debug_assert_eq!(self.session.phase, Phase::Writing);
        let (database, session) = (&*self.database, &mut self.session);
        session.note(database, true);
        let store = database.table(table);
        session.lock(database, store.store, row, Mode::SharedIntentionExclusive)?;
        refuse_dead(database, store, table, row)?;
        let handle = |record: &[u8]| read_handle(record, offset);
        let Some(before) = store.rows.read(&database.pages, row, handle)? else {
            return Err(no_such_row(table));
        };
        let position = table.position();
        let after = session.create_value(database, store, row, value)?;
        let mut swap = |fixed: &mut [u8]| {
            fixed[offset..offset + HANDLE_BYTES].copy_from_slice(&after.to_le_bytes());
        };
        let range = (offset, offset + HANDLE_BYTES);
        match session.update_row(database, store, row, range, &mut swap) {
            Ok(true) => {
                session.note_placed((position, store), row, range);
                session.delete_value(database, position, before)
            }
            refused => {
                // What the row does not name goes at the end, however the transaction ends.
                session.forget_value(store, position, after);
                refused.and(Err(no_such_row(table)))
            }
        }
    }

    #[inline]
    fn create<R: TableType>(
        &mut self,
        table: &Table<R>,
        fill: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<RowId> {
        debug_assert_eq!(self.session.phase, Phase::Writing);
        let (database, session) = (&*self.database, &mut self.session);
        session.note(database, true);
        let store = database.table(table);
        let mut fill = once(fill, Fields::whole(table.row_size()));
        let row = session.create_row(database, store, table.row_size(), &mut fill)?;
        session.note_placed((table.position(), store), row, (0, usize::MAX));
        Ok(row)
    }

    fn delete<R: TableType>(&mut self, table: &Table<R>, row: RowId) -> Result<()> {
        debug_assert_eq!(self.session.phase, Phase::Writing);
        let (database, session) = (&*self.database, &mut self.session);
        session.note(database, true);
        let store = database.table(table);
        session.lock(database, store.store, row, Mode::Exclusive)?;
        let position = table.position();
        let mut handles = Vec::new();
        let named = |record: &[u8]| {
            handles.extend(store.rows.layout().handles.iter().map(|&at| read_handle(record, at)));
        };
        let place = Place::of_row(row);
        if !session.mark_deleted(database, store, place, named)? {
            return Err(no_such_row(table));
        }
        session.ghosts.push(Ghost::Row { table: position, place });
        handles.into_iter().try_for_each(|handle| session.delete_value(database, position, handle))
    }

    #[inline]
    fn insert<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<()> {
        debug_assert_eq!(self.session.phase, Phase::Writing);
        let (database, session) = (&*self.database, &mut self.session);
        session.note(database, true);
        session.insert_under(database, index, database.index(index), key, row)
    }

    #[inline]
    fn insert_run<'k, I: IndexType>(
        &mut self,
        index: &Index<I>,
        rows: &[RowId],
        key: impl Fn(usize) -> I::Key<'k>,
    ) -> Result<()> {
        debug_assert_eq!(self.session.phase, Phase::Writing);
        let (database, session) = (&*self.database, &mut self.session);
        session.note(database, true);
        let store = database.index(index);
        for (first, rows) in rows.chunks(RUN_MAX).enumerate().map(|(n, rows)| (n * RUN_MAX, rows)) {
            session.probes.clear();
            let keys = (first..first + rows.len()).map(&key);
            let encoded = keys.map(|key| session.add_key(database, index, store, key));
            let refused = encoded.collect::<Result<()>>();
            // As one by one: those before are inserted.
            let rows = &rows[..session.probes.len()];
            session.insert_entries(database, index.position() as u32, store, rows)?;
            refused?;
        }
        Ok(())
    }

    fn remove<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<bool> {
        debug_assert_eq!(self.session.phase, Phase::Writing);
        let (database, session) = (&*self.database, &mut self.session);
        session.note(database, true);
        let store = database.index(index);
        if !P::Keys::encode::<I>(index.shape(), key, &mut session.key) {
            return Ok(false);
        }
        session.lock(database, store.table_store, row, Mode::Exclusive)?;
        let (log, key) = (&mut session.log, &session.key);
        let removed = store.tree.set_deleted(&database.pages, key, row, true, |place| {
            let change = change(ChangeKind::EntryDeleted, store.store, place, row);
            database.log.change_apart(log, change, key, &[])
        })?;
        if removed {
            session.ghost_keys.extend_from_slice(&session.key);
            let key_end = session.ghost_keys.len();
            let index = index.position();
            session.ghosts.push(Ghost::Entry { index, row, key_end });
        }
        Ok(removed)
    }

    #[cold]
    fn poison(&mut self, reason: &'static str) {
        self.session.poison(&self.database, reason);
    }

    fn check(&mut self) -> Vec<Damage> {
        self.database.check()
    }

    fn usage(&mut self) -> Usage {
        self.database.measure()
    }
}
