//! `PagedTx`: a transaction on the paged store, as a closure sees it.
//!
//! The calls have the names and the meaning of those of [`Tx`](crate::Tx), and write rows with all their index
//! entries by the same code (`tx/mod.rs`). Not here: sessions, retries, durability (`database.rs`).
//!
//! Invariant: a row's id names that row or no row. An id carries the number of its transaction, because another row may
//! get the place of a deleted row when the deleting transaction has ended.

use std::cell::Cell;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use tombolo_storage::dynamic::DynamicTable as Entries;
use tombolo_storage::error::{Error as StoreError, Result as Stored};
use tombolo_storage::key::{IndexType, Range};
use tombolo_storage::paged::store::RowCopy;
use tombolo_storage::row::{Column, Fields, Row, RowId, RowMut};
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable, Schema};
use tombolo_storage::store::{Index, Order, Store as _, Table, TableType, table_of_index};
use tombolo_storage::types::InlineType;
use tombolo_storage::value::Value;

use super::ids::{Ids, Place};
use super::sessions::Store;
use crate::error::{Result, Stop};
use crate::tx::derived::{RowIndex, TableRow};
use crate::tx::{self, DynamicTable, NewRow, RowRef, VariableType};

/// The tables of a paged database, with their indexes as data.
pub(super) struct PagedTables {
    pub(super) schema: Arc<Schema>,
    entries: Vec<Entries>,
}

impl PagedTables {
    /// Of a schema with the number of its database.
    pub(super) fn of(schema: Schema) -> Self {
        let tables = 0..schema.tables.len();
        let entries = tables.map(|position| Entries::new(&schema, position)).collect();
        Self { schema: Arc::new(schema), entries }
    }
}

/// Names a row in the transaction that found or created it. In another transaction, or with another table, it is
/// refused ([`StoreError::NoSuchRow`](crate::StoreError::NoSuchRow)): look the row up again by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PagedRowId {
    transaction: u64,
    table: u32,
    row: RowId,
}

/// A row of a paged database, copied out of its page.
pub type PagedRow<'t, R> = RowRef<'t, R, RowCopy<'t>>;

/// A transaction of a [`PagedDatabase`](crate::PagedDatabase), with the calls of [`Tx`](crate::Tx).
///
/// Other transactions run at the same time. A call that needs a lock of another transaction waits for it; if two
/// transactions wait for each other, one of them is undone, and its closure runs again. A closure should return the
/// errors of its calls, by `?`: a transaction that was chosen to give way can only be undone.
///
/// ```
/// use tombolo::{Database, Order, PagedTx, Stop, Table};
///
/// #[derive(Table)]
/// #[index(ByOwner(owner))]
/// struct Account {
///     #[key]
///     id: u64,
///     owner: u32,
///     cents: i64,
/// }
/// # let place = tempfile::tempdir().unwrap();
/// # let directory = place.path().join("bank");
/// let db = Database::builder().define::<Account>().paged().open(&directory)?;
/// let (accounts, by_id) = (db.table::<Account>()?, db.index::<AccountKey>()?);
/// let by_owner = db.index::<ByOwner>()?;
/// db.transaction(|tx| {
///     (1..4_u64).try_for_each(|id| tx.insert_row(&accounts, &Account { id, owner: 7, cents: 100 }).map(drop))
/// })?;
/// let transfer = |tx: &mut PagedTx<'_>, from: u64, to: u64, cents: i64| -> Result<(), Stop> {
///     for (id, change) in [(from, -cents), (to, cents)] {
///         let row = tx.lookup_for_update(&by_id, id)?.ok_or(Stop::Abort("no such account"))?;
///         let now = tx.get(&accounts, row)?.get(Account::CENTS) + change;
///         tx.set(&accounts, row, Account::CENTS, now)?;
///     }
///     Ok(())
/// };
/// db.transaction(|tx| transfer(tx, 1, 2, 30))?;
/// let balances = db.read(|tx| {
///     let rows = tx.range(&by_owner, 7..=7, Order::Forward)?;
///     rows.into_iter().map(|row| Ok(tx.read_row(&accounts, row)?.cents)).collect::<Result<Vec<_>, Stop>>()
/// })?;
/// assert_eq!(balances, [70, 130, 100]);
/// # db.close()?;
/// # Ok::<(), tombolo::Error>(())
/// ```
pub struct PagedTx<'s> {
    pub(super) store: &'s mut Store,
    tables: &'s PagedTables,
    pub(super) ids: &'s mut Ids,
    /// Whether writes are refused.
    pub(super) only_reads: bool,
    /// The first refusal, which dooms the transaction.
    refused: Cell<Option<StoreError>>,
}

impl<'s> PagedTx<'s> {
    /// The transaction that is open in `store`, which knows these ids.
    pub(super) fn new(
        store: &'s mut Store,
        tables: &'s PagedTables,
        ids: &'s mut Ids,
        only_reads: bool,
    ) -> Self {
        Self { store, tables, ids, only_reads, refused: Cell::new(None) }
    }

    /// The reason that it can only be undone, if there is one.
    pub(super) fn refused(&self) -> Option<StoreError> {
        self.refused.get()
    }

    #[cold]
    pub(super) fn doom(&self, error: StoreError) -> Stop {
        self.refused.set(self.refused.get().or(Some(error)));
        Stop::Error(error)
    }

    /// Admits a read with a handle of this database.
    #[inline]
    fn pass(&self, database: u32) -> Result<()> {
        match database == self.tables.schema.database() {
            true => Ok(()),
            false => Err(Stop::Error(StoreError::OtherDatabase)),
        }
    }

    /// Admits a procedure, which may write. After a refused write no procedure runs.
    pub(super) fn pass_step(&self, database: u32) -> Result<()> {
        match self.refused.get() {
            Some(refused) => Err(Stop::Error(refused)),
            None => self.pass(database),
        }
    }

    /// Admits a write. After a refused write no other write runs.
    #[inline]
    fn pass_write(&self, database: u32) -> Result<()> {
        if let Some(refused) = self.refused.get() {
            return Err(Stop::Error(refused));
        }
        if self.only_reads {
            return Err(self.doom(StoreError::LogTooLong { bytes_max: 0 }));
        }
        self.pass(database).map_err(|_| self.doom(StoreError::OtherDatabase))
    }

    /// The result of a read. If the read was chosen to give way to another transaction, it dooms this one, whose locks
    /// others wait for.
    #[inline]
    fn was_read<T>(&self, read: Stored<T>) -> Result<T> {
        read.map_err(|error| if error.retry() { self.doom(error) } else { Stop::Error(error) })
    }

    #[inline]
    fn written<T>(&self, written: Stored<T>) -> Result<T> {
        written.map_err(|error| self.doom(error))
    }

    #[inline]
    fn id(&self, table: usize, row: RowId) -> PagedRowId {
        PagedRowId { transaction: self.ids.newest(), table: table as u32, row }
    }

    /// The store's id of a row.
    #[inline]
    fn row(&self, table: usize, id: PagedRowId) -> Stored<RowId> {
        match self.ids.knows(id.transaction) && id.table as usize == table {
            true => Ok(id.row),
            false => Err(StoreError::NoSuchRow { table: table as u32 }),
        }
    }

    #[inline]
    fn row_to_write(&self, table: usize, id: PagedRowId) -> Result<RowId> {
        self.written(self.row(table, id))
    }

    /// As [`Tx::savepoint`](crate::Tx::savepoint): runs a part of the transaction. If it returns an error, or a write
    /// in it was refused, its writes are undone, and the transaction may continue without them. Its locks
    /// stay, so the rows that it read do not change. Ids that it got may name no row afterwards.
    ///
    /// ```
    /// # use tombolo::{Database, Table};
    /// # #[derive(Table)]
    /// # struct Guest { #[key] seat: u32 }
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = Database::builder().define::<Guest>().paged().pool_bytes(4 << 20).open(place.path())?;
    /// # let guests = db.table::<Guest>()?;
    /// let seated = db.transaction(|tx| {
    ///     tx.insert_row(&guests, &Guest { seat: 2 })?;
    ///     let mut seated = Vec::new();
    ///     for seat in 1..=3 {
    ///         // Seat 2 is taken.
    ///         if tx.savepoint(|tx| tx.insert_row(&guests, &Guest { seat })).is_ok() {
    ///             seated.push(seat);
    ///         }
    ///     }
    ///     Ok(seated)
    /// })?;
    /// assert_eq!(seated, [1, 3]);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of the part, or that of its first refused write. A transaction that was chosen to give way, or did not
    /// get a lock in time, does not continue: others may wait for its locks.
    pub fn savepoint<A>(&mut self, part: impl FnOnce(&mut Self) -> Result<A>) -> Result<A> {
        if let Some(refused) = self.refused.get() {
            return Err(Stop::Error(refused));
        }
        let place = Place::here(self.store, self.ids);
        let ended = part(self);
        let refused = self.refused.get();
        let ended = match refused {
            Some(refused) => ended.and(Err(Stop::Error(refused))),
            None => ended,
        };
        if ended.is_err() && !refused.is_some_and(StoreError::retry) {
            let undone = place.back(self.store, self.ids);
            self.written(undone)?;
            self.refused.set(None);
        }
        ended
    }

    /// The position of an index's table.
    fn table_at<I: IndexType>(&self, index: &Index<I>) -> usize {
        self.tables.schema.index_at(index.position()).map_or(usize::MAX, |(table, _)| table)
    }

    /// As [`Tx::lookup`](crate::Tx::lookup).
    ///
    /// # Errors
    /// Those of the store.
    pub fn lookup<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<PagedRowId>> {
        self.pass(index.database())?;
        let found = self.store.lookup(index, key);
        let found = self.was_read(found)?;
        Ok(found.map(|row| self.id(self.table_at(index), row)))
    }

    /// The same for a row that the transaction is going to change: it is locked for the change at once. Without this,
    /// two transactions that read a row and then change it would wait for each other.
    ///
    /// # Errors
    /// Those of the store.
    pub fn lookup_for_update<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<PagedRowId>> {
        self.pass(index.database())?;
        let found = self.store.lookup_for_update(index, key);
        let found = self.was_read(found)?;
        Ok(found.map(|row| self.id(self.table_at(index), row)))
    }

    /// A row, copied out of its page.
    ///
    /// # Errors
    /// `NoSuchRow`.
    pub fn get<R: DeclaredTable>(
        &self,
        table: &Table<R>,
        row: PagedRowId,
    ) -> Result<PagedRow<'_, R>> {
        self.pass(table.database())?;
        let row = self.was_read(self.row(table.position(), row))?;
        if !self.ids.has_deleted {
            return Ok(RowRef::of(self.was_read(self.store.pin(table, row))?));
        }
        // A row that this transaction deleted keeps its place until the end. Only with a handle that was made at run
        // time does the store verify that the row lives.
        let handle = self.tables.entries[table.position()].handle();
        let pinned = self.was_read(self.store.pin(handle, row))?;
        Ok(RowRef::of(Row::new(pinned.into_pin())))
    }

    /// As [`Tx::find`](crate::Tx::find).
    ///
    /// # Errors
    /// Those of the store.
    pub fn find<I: DeclaredIndex + IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<(PagedRowId, PagedRow<'_, I::Table>)>> {
        let Some(row) = self.lookup(index, key)? else { return Ok(None) };
        let table = self.table_of(index)?;
        Ok(Some((row, self.get(&table, row)?)))
    }

    /// As [`Tx::find_row`](crate::Tx::find_row).
    ///
    /// # Errors
    /// Those of the store.
    pub fn find_row<I: DeclaredIndex<Table: TableRow> + IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<(PagedRowId, I::Table)>> {
        Ok(self.find(index, key)?.map(|(id, row)| (id, I::Table::read(&row))))
    }

    fn table_of<I: DeclaredIndex>(&self, index: &Index<I>) -> Result<Table<I::Table>> {
        let table = table_of_index(&self.tables.schema, index);
        table.ok_or(Stop::Error(StoreError::OtherDatabase))
    }

    /// As [`Tx::read_row`](crate::Tx::read_row).
    ///
    /// # Errors
    /// `NoSuchRow`.
    pub fn read_row<R: TableRow>(&self, table: &Table<R>, row: PagedRowId) -> Result<R> {
        Ok(R::read(&self.get(table, row)?))
    }

    /// As [`Tx::insert`](crate::Tx::insert).
    ///
    /// # Errors
    /// `Duplicate`, `OutOfRange`, `WrongType`, `RowTooLong`; the transaction can then only abort.
    pub fn insert<R: DeclaredTable>(
        &mut self,
        table: &Table<R>,
        fill: impl FnOnce(&mut NewRow<'_, R>),
    ) -> Result<PagedRowId> {
        self.pass_write(table.database())?;
        let entries = &self.tables.entries[table.position()];
        let inserted = tx::insert(self.store, entries, table, fill);
        let row = self.written(inserted)?;
        Ok(self.id(table.position(), row))
    }

    /// As [`Tx::insert_row`](crate::Tx::insert_row).
    ///
    /// # Errors
    /// As [`PagedTx::insert`].
    pub fn insert_row<R: TableRow>(&mut self, table: &Table<R>, value: &R) -> Result<PagedRowId> {
        self.insert(table, |row| value.fill(row))
    }

    /// As [`Tx::upsert_row`](crate::Tx::upsert_row).
    ///
    /// # Errors
    /// As [`PagedTx::insert`]; `Duplicate` for another unique index than this one.
    pub fn upsert_row<I: RowIndex>(
        &mut self,
        index: &Index<I>,
        value: &I::Table,
    ) -> Result<(PagedRowId, bool)> {
        const { assert!(I::UNIQUE, "a row is replaced by a unique key") };
        match self.lookup_for_update(index, I::key_of(value))? {
            Some(row) => self.update_row(&self.table_of(index)?, row, value).map(|()| (row, false)),
            None => self.insert_row(&self.table_of(index)?, value).map(|row| (row, true)),
        }
    }

    /// As [`Tx::update`](crate::Tx::update).
    ///
    /// # Errors
    /// `NoSuchRow`, and as [`PagedTx::insert`]; the transaction can then only abort.
    pub fn update<R: DeclaredTable>(
        &mut self,
        table: &Table<R>,
        row: PagedRowId,
        fields: Fields<R>,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()> {
        self.pass_write(table.database())?;
        let row = self.row_to_write(table.position(), row)?;
        let entries = &self.tables.entries[table.position()];
        let (start, end) = (fields.start(), fields.end());
        let updated = match entries.follows(start, end) {
            true => entries.change(self.store, row, start..end, |store| {
                store.update(table, row, fields, change)
            }),
            false => self.store.update(table, row, fields, change),
        };
        self.written(updated)
    }

    /// As [`Tx::update_row`](crate::Tx::update_row).
    ///
    /// # Errors
    /// As [`PagedTx::update`].
    pub fn update_row<R: TableRow>(
        &mut self,
        table: &Table<R>,
        row: PagedRowId,
        value: &R,
    ) -> Result<()> {
        self.pass_write(table.database())?;
        let row = self.row_to_write(table.position(), row)?;
        let entries = &self.tables.entries[table.position()];
        let replaced = tx::replace(self.store, entries, (table, row), value);
        self.written(replaced)
    }

    /// As [`Tx::set`](crate::Tx::set).
    ///
    /// # Errors
    /// As [`PagedTx::update`].
    pub fn set<R: DeclaredTable, T: InlineType>(
        &mut self,
        table: &Table<R>,
        row: PagedRowId,
        column: Column<R, T>,
        value: T::Value<'_>,
    ) -> Result<()> {
        if !T::fits(value) {
            self.pass_write(table.database())?;
            let (table, column) = (table.position() as u32, column.position() as u32);
            return Err(self.doom(StoreError::OutOfRange { table, column }));
        }
        let fields = Fields::none().with(column);
        self.update(table, row, fields, |row| row.set(column, value))
    }

    /// As [`Tx::set_variable`](crate::Tx::set_variable).
    ///
    /// # Errors
    /// As [`PagedTx::update`].
    pub fn set_variable<R: DeclaredTable, T: VariableType>(
        &mut self,
        table: &Table<R>,
        row: PagedRowId,
        column: Column<R, T>,
        value: T::Given<'_>,
    ) -> Result<()> {
        self.pass_write(table.database())?;
        let row = self.row_to_write(table.position(), row)?;
        let entries = &self.tables.entries[table.position()];
        let set = tx::put_variable(self.store, entries, (table, row), column, value);
        self.written(set)
    }

    /// As [`Tx::delete`](crate::Tx::delete).
    ///
    /// # Errors
    /// `NoSuchRow`; the transaction can then only abort.
    pub fn delete<R: TableType>(&mut self, table: &Table<R>, row: PagedRowId) -> Result<()> {
        self.pass_write(table.database())?;
        let row = self.row_to_write(table.position(), row)?;
        self.ids.has_deleted = true;
        let deleted = self.tables.entries[table.position()].delete(self.store, row);
        self.written(deleted)
    }

    /// As [`Tx::scan`](crate::Tx::scan). If the transaction is serializable, no other transaction changes the range
    /// before this one has ended.
    ///
    /// # Errors
    /// `Unordered` for a hash index; `KeyColumns` if the range has no columns, or more than the index.
    pub fn scan<'k, I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: impl Into<Range<I::Key<'k>>>,
        order: Order,
        mut visit: impl FnMut(PagedRowId) -> ControlFlow<()>,
    ) -> Result<()> {
        let range = range.into();
        self.pass(index.database())?;
        tx::fits(index, &range)?;
        let (transaction, table) = (self.ids.newest(), self.table_at(index) as u32);
        let scanned = self
            .store
            .scan(index, range, order, |row| visit(PagedRowId { transaction, table, row }));
        self.was_read(scanned)
    }

    /// As [`Tx::range`](crate::Tx::range).
    ///
    /// # Errors
    /// As [`PagedTx::scan`].
    pub fn range<'k, I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: impl Into<Range<I::Key<'k>>>,
        order: Order,
    ) -> Result<Vec<PagedRowId>> {
        let mut rows = Vec::new();
        self.scan(index, range, order, |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// All rows of a table, in the store's own order. The table is locked: no other transaction changes it before
    /// this one has ended.
    ///
    /// # Errors
    /// Those of the store.
    pub fn rows<R: TableType>(&mut self, table: &Table<R>) -> Result<Vec<PagedRowId>> {
        self.pass(table.database())?;
        let (transaction, position) = (self.ids.newest(), table.position() as u32);
        let mut rows = Vec::new();
        let visited = self.store.rows(table, |row| {
            rows.push(PagedRowId { transaction, table: position, row });
            ControlFlow::Continue(())
        });
        self.was_read(visited).map(|()| rows)
    }

    /// As [`Tx::read_values`](crate::Tx::read_values).
    ///
    /// # Errors
    /// `NoSuchRow`.
    pub fn read_values<T>(
        &mut self,
        table: &DynamicTable,
        row: PagedRowId,
        read: impl FnOnce(&[Value<'_>]) -> T,
    ) -> Result<T> {
        self.pass(table.handle().database())?;
        let row = self.was_read(self.row(table.handle().position(), row))?;
        self.was_read(table.entries().read(&*self.store, row, read))
    }

    /// As [`Tx::insert_values`](crate::Tx::insert_values).
    ///
    /// # Errors
    /// As [`PagedTx::insert`].
    pub fn insert_values(
        &mut self,
        table: &DynamicTable,
        values: &[Value<'_>],
    ) -> Result<PagedRowId> {
        self.pass_write(table.handle().database())?;
        let inserted = table.entries().insert(self.store, values);
        let row = self.written(inserted)?;
        Ok(self.id(table.handle().position(), row))
    }

    /// As [`Tx::update_values`](crate::Tx::update_values).
    ///
    /// # Errors
    /// As [`PagedTx::update`].
    pub fn update_values(
        &mut self,
        table: &DynamicTable,
        row: PagedRowId,
        values: &[Value<'_>],
    ) -> Result<()> {
        self.pass_write(table.handle().database())?;
        let row = self.row_to_write(table.handle().position(), row)?;
        let updated = table.entries().update(self.store, row, values);
        self.written(updated)
    }
}

impl fmt::Debug for PagedTx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedTx").field("refused", &self.refused.get()).finish_non_exhaustive()
    }
}
