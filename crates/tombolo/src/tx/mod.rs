//! `Tx`: a transaction as a closure sees it, with rows and their index entries.
//!
//! Its writes update all indexes of the table, and refuse values that a column's declaration excludes, so
//! a closure cannot leave half a row behind. A refused write dooms the transaction: whatever the
//! closure returns, everything is undone. Procedures that must be as fast as possible write rows and entries
//! themselves (`Procedure`).
//!
//! Not here: queues and durability (`core.rs`), the store's implementation.

use std::marker::PhantomData;

use tombolo_storage::dynamic::DynamicTable as Entries;
use tombolo_storage::error::{Error as StoreError, Result as Stored};
use tombolo_storage::key::IndexType;
use tombolo_storage::memory::MemoryRow;
use tombolo_storage::memory::held::Guard;
use tombolo_storage::row::{Column, Fields, Row, RowBytes, RowId, RowMut, retyped};
use tombolo_storage::schema::DeclaredTable;
use tombolo_storage::store::{Index, Store, Table, TableType};
use tombolo_storage::types::{ColumnType, InlineType};
use tombolo_storage::value::Value;

use crate::calls::Outcome;
use crate::error::{Result, Stop};
use crate::product::Product;
use crate::tx::derived::TableRow;

pub mod derived;
mod dynamic;
mod guarded;
mod handles;
mod image;
mod rows;
mod run;
mod scan;
mod tables;
mod variable;
mod watch;

pub use dynamic::DynamicTable;
pub(crate) use guarded::Guards;
use guarded::{on, while_held};
pub(crate) use handles::{Of, next_number};
pub(crate) use image::RowImage;
pub(crate) use run::{engine_stop, run, run_steps, step, stopped};
pub(crate) use scan::fits;
pub use scan::{Cursor, Rows};
pub(crate) use tables::{KnownSchema, Tables};
pub use variable::VariableType;
use watch::Watch;

/// A transaction. It reads and writes without interference from others, and commits when its closure
/// returns `Ok`.
///
/// Handles name tables and indexes: [`Database::table`], [`Database::index`],
/// [`Database::dynamic_table`]. They are plain numbers that can be copied into any number of closures. A
/// handle of another database is refused ([`StoreError::OtherDatabase`]), and so is a handle of a dropped
/// table or index ([`StoreError::Dropped`]). A row is found by an index, by a scan, or by the id that it got
/// when it was created. An id is valid until its row is deleted or the database is closed; from then on it
/// is refused ([`StoreError::NoSuchRow`]), even if another row takes the slot. The same holds for an id of
/// another table.
///
/// ```
/// use tombolo::{Database, Order, Range, Stop, TableDef};
///
/// tombolo::table! {
///     /// Bookings of accounts.
///     pub struct Booking = "booking" { ACCOUNT: Integer; DAY: Date; AMOUNT: Decimal<12, 2>; WHY: Text; }
/// }
/// tombolo::index! {
///     /// An account's bookings by day.
///     pub struct ByDay = "booking_by_day" on Booking (ACCOUNT: Integer, DAY: Date) multiple Tree;
/// }
///
/// let db = Database::builder().table(TableDef::of::<Booking>().with::<ByDay>()).in_memory()?;
/// let (bookings, by_day) = (db.table::<Booking>()?, db.index::<ByDay>()?);
/// let sum = db.transaction(move |tx| {
///     for day in 1..=5 {
///         tx.insert(&bookings, |row| {
///             row.set(Booking::ACCOUNT, 7);
///             row.set(Booking::DAY, day);
///             row.set(Booking::AMOUNT, 100_00); // in units of the last digit
///             row.set_variable(Booking::WHY, "rent");
///         })?;
///     }
///     // Account 7, days 2 to 4.
///     let mut sum = 0;
///     for row in tx.range(&by_day, Range::between((7, 2), (7, 4)), Order::Forward)? {
///         sum += tx.get(&bookings, row)?.get(Booking::AMOUNT);
///     }
///     Ok(sum)
/// })?;
/// assert_eq!(sum, 300_00);
/// # Ok::<(), tombolo::Error>(())
/// ```
///
/// [`Database::table`]: crate::Database::table
/// [`Database::index`]: crate::Database::index
/// [`Database::dynamic_table`]: crate::Database::dynamic_table
pub struct Tx<'s> {
    store: &'s mut Product,
    tables: &'s Tables,
    /// The number in handles whose calls are admitted without further checks: the database's; while there is a `guard`,
    /// a number that no handle has.
    database: u32,
    /// Present while parts of transactions are held: compares each call with their locks.
    guard: Guards<'s>,
    watch: Watch,
}

impl<'s> Tx<'s> {
    /// Admits a read with this handle, which must be valid. If there is a guard, the caller lets the guard admit the
    /// rows that it reads.
    #[inline(always)]
    fn pass(&self, database: u32, of: Of) -> Result<Guards<'s>> {
        self.watch.pass(&self.tables.limits)?;
        if database == self.database {
            return Ok(None);
        }
        self.tables.admit_guarded(database, of)?;
        Ok(self.guard)
    }

    /// The same for a write.
    #[inline(always)]
    fn pass_write(&self, database: u32, of: Of) -> Result<Guards<'s>> {
        self.watch.pass_write(&self.tables.limits)?;
        if database == self.database {
            return Ok(None);
        }
        let admitted = self.tables.admit_guarded(database, of);
        if let Err(refused) = admitted {
            self.watch.refuse(refused);
            return Err(Stop::Error(refused));
        }
        Ok(self.guard)
    }

    /// The store's id of a row that is to be written.
    #[inline(always)]
    fn unnamed_to_write<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<RowId> {
        let unnamed = self.store.unnamed(table, row);
        unnamed.map_err(|error| {
            self.watch.refuse(error);
            Stop::Error(error)
        })
    }

    /// Records a refused write, which dooms the transaction.
    #[inline]
    fn written<T>(&mut self, written: Stored<T>) -> Result<T> {
        written.map_err(|error| {
            self.watch.refuse(error);
            Stop::Error(error)
        })
    }

    /// Runs a part of the transaction. If it returns an error, or a write in it was refused, its
    /// writes are undone, and the transaction may continue without them.
    ///
    /// ```
    /// # use tombolo::{Database, Table};
    /// # #[derive(Table)]
    /// # struct Guest { #[key] seat: u32 }
    /// # let db = Database::builder().define::<Guest>().in_memory()?;
    /// # let guests = db.table::<Guest>()?;
    /// let seated = db.transaction(move |tx| {
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
    /// The error of the part, or that of its first refused write. A call that was ended by its deadline or
    /// its caller does not continue.
    pub fn savepoint<A>(&mut self, part: impl FnOnce(&mut Self) -> Result<A>) -> Result<A> {
        if let Some(refused) = self.watch.refused() {
            return Err(refused.into());
        }
        let savepoint = self.store.savepoint();
        let ended = part(self);
        let ended = match self.watch.refused() {
            Some(refused) => ended.and(Err(refused.into())),
            None => ended,
        };
        if ended.is_err() {
            let taken_back = self.store.back_to(savepoint);
            self.written(taken_back)?;
            self.watch.forgive();
        }
        ended
    }

    /// The outcome of the call with a request id.
    pub(crate) fn outcome(&mut self, request_id: u128) -> Result<Outcome> {
        let requests = self.tables.requests();
        let guard = self.guard;
        Ok(on!(self, guard, |store| requests.outcome(store, request_id))?)
    }

    /// The row with this key in an index; the first one if the index is not unique.
    ///
    /// # Errors
    /// Those of the store.
    #[inline(always)]
    pub fn lookup<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<RowId>> {
        if let Some(guard) = self.pass(index.database(), Of::Index(index.position()))? {
            while_held(move || guard.admit_look_up(index, key))?;
        }
        Ok(self.store.lookup_named(index, key)?)
    }

    /// A row, for reading in place.
    ///
    /// # Errors
    /// `NoSuchRow`.
    #[inline(always)]
    pub fn get<R: DeclaredTable>(&self, table: &Table<R>, row: RowId) -> Result<RowRef<'_, R>> {
        if let Some(guard) = self.pass(table.database(), Of::Table(table.position()))? {
            let store = &*self.store;
            while_held(move || guard.admit_row(store, table, store.unnamed(table, row)?))?;
        }
        Ok(RowRef::of(self.store.pin_named(table, row)?))
    }

    /// Creates a row with all its index entries; columns that `fill` does not set are zero, empty or null.
    ///
    /// # Errors
    /// `Duplicate`, `OutOfRange`, `WrongType`, `NoSpace`; the transaction can then only abort.
    pub fn insert<R: DeclaredTable>(
        &mut self,
        table: &Table<R>,
        fill: impl FnOnce(&mut NewRow<'_, R>),
    ) -> Result<RowId> {
        let guard = self.pass_write(table.database(), Of::Table(table.position()))?;
        let entries = &self.tables.entries[table.position()];
        let inserted = on!(self, guard, |store| insert(store, entries, table, fill));
        let row = self.written(inserted)?;
        Ok(self.store.named(table, row))
    }

    /// Changes the columns `fields` of a row, which must include every column that `change` sets; index
    /// entries follow changed keys.
    ///
    /// ```
    /// # tombolo::table! {
    /// #     /// Goods.
    /// #     pub struct Item = "item" { ID: Integer; STOCK: Integer; PRICE: Decimal<9, 2>; }
    /// # }
    /// # use tombolo::{Database, Fields, TableDef};
    /// # let db = Database::builder().table(TableDef::of::<Item>()).in_memory()?;
    /// # let items = db.table::<Item>()?;
    /// const SOLD: Fields<Item> = Fields::none().with(Item::STOCK).with(Item::PRICE);
    /// # let left = db.transaction(move |tx| {
    /// #     let row = tx.insert(&items, |row| row.set(Item::STOCK, 5))?;
    /// tx.update(&items, row, SOLD, |row| {
    ///     row.set(Item::STOCK, row.get(Item::STOCK) - 1);
    ///     row.set(Item::PRICE, 9_99);
    /// })?;
    /// #     Ok(tx.get(&items, row)?.get(Item::STOCK))
    /// # })?;
    /// # assert_eq!(left, 4);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NoSuchRow`, and as [`Tx::insert`]; the transaction can then only abort.
    #[inline(always)] // constant `fields` leave nothing to compute at run time
    pub fn update<R: DeclaredTable>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        fields: Fields<R>,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()> {
        let guard = self.pass_write(table.database(), Of::Table(table.position()))?;
        if let Some(guard) = guard {
            return self.update_guarded(guard, (table, row), fields, change);
        }
        let entries = &self.tables.entries[table.position()];
        if entries.follows(fields.start(), fields.end()) {
            return self.update_followed(table, row, fields, change);
        }
        let updated = self.store.update_named(table, row, fields, change);
        self.written(updated)
    }

    /// [`Tx::update`], if index entries may change or values must be checked.
    #[inline(never)]
    fn update_followed<R: DeclaredTable>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        fields: Fields<R>,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()> {
        let row = self.unnamed_to_write(table, row)?;
        let bytes = fields.start()..fields.end();
        let entries = &self.tables.entries[table.position()];
        let updated = entries
            .change(self.store, row, bytes, |store| store.update(table, row, fields, change));
        self.written(updated)
    }

    /// [`Tx::update`], if parts are held; a function of its own, to keep the other paths short.
    #[cold]
    #[inline(never)]
    fn update_guarded<R: DeclaredTable>(
        &mut self,
        guard: &Guard<'_>,
        (table, row): (&Table<R>, RowId),
        fields: Fields<R>,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()> {
        let row = self.unnamed_to_write(table, row)?;
        let bytes = fields.start()..fields.end();
        let entries = &self.tables.entries[table.position()];
        let store = &mut guard.over(self.store);
        let updated =
            entries.change(store, row, bytes, |store| store.update(table, row, fields, change));
        self.written(updated)
    }

    /// Sets one column of a row.
    ///
    /// # Errors
    /// As [`Tx::update`].
    #[inline(always)]
    pub fn set<R: DeclaredTable, T: InlineType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        column: Column<R, T>,
        value: T::Value<'_>,
    ) -> Result<()> {
        if !T::fits(value) {
            return self.misfit(table, column);
        }
        let fields = Fields::none().with(column);
        self.update(table, row, fields, |row| row.set(column, value))
    }

    /// Refuses a value that its column cannot hold.
    #[cold]
    fn misfit<R, T>(&mut self, table: &Table<R>, column: Column<R, T>) -> Result<()>
    where
        R: TableType,
    {
        let (table, column) = (table.position() as u32, column.position() as u32);
        self.written(Err(StoreError::OutOfRange { table, column }))
    }

    /// Sets one variable-length column of a row: `text`, `bytea`.
    ///
    /// # Errors
    /// As [`Tx::update`].
    pub fn set_variable<R: DeclaredTable, T: VariableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        column: Column<R, T>,
        value: T::Given<'_>,
    ) -> Result<()> {
        let guard = self.pass_write(table.database(), Of::Table(table.position()))?;
        let entries = &self.tables.entries[table.position()];
        let set = on!(self, guard, table, |store, row| put_variable(
            store,
            entries,
            (table, row),
            column,
            value
        ));
        self.written(set)
    }

    /// Deletes a row with all its index entries.
    ///
    /// # Errors
    /// `NoSuchRow`; the transaction can then only abort.
    pub fn delete<R: TableType>(&mut self, table: &Table<R>, row: RowId) -> Result<()> {
        let guard = self.pass_write(table.database(), Of::Table(table.position()))?;
        let entries = &self.tables.entries[table.position()];
        let deleted = on!(self, guard, table, |store, row| entries.delete(store, row));
        self.written(deleted)
    }

    /// Calls `read` with the values of a row of any table.
    ///
    /// # Errors
    /// `NoSuchRow`.
    pub fn read_values<T>(
        &mut self,
        table: &DynamicTable,
        row: RowId,
        read: impl FnOnce(&[Value<'_>]) -> T,
    ) -> Result<T> {
        let guard = self.pass(table.handle().database(), Of::Whole(table.handle().position()))?;
        let row = self.store.unnamed(table.handle(), row)?;
        Ok(on!(self, guard, |store| table.entries().read(store, row, read))?)
    }

    /// Creates a row of any table, with all its index entries, from one value for each column.
    ///
    /// # Errors
    /// As [`Tx::insert`].
    pub fn insert_values(&mut self, table: &DynamicTable, values: &[Value<'_>]) -> Result<RowId> {
        let whole = Of::Whole(table.handle().position());
        let guard = self.pass_write(table.handle().database(), whole)?;
        let inserted = on!(self, guard, |store| table.entries().insert(store, values));
        let row = self.written(inserted)?;
        Ok(self.store.named(table.handle(), row))
    }

    /// Replaces the values of a row of any table; index entries follow changed keys.
    ///
    /// # Errors
    /// As [`Tx::update`].
    pub fn update_values(
        &mut self,
        table: &DynamicTable,
        row: RowId,
        values: &[Value<'_>],
    ) -> Result<()> {
        let whole = Of::Whole(table.handle().position());
        let guard = self.pass_write(table.handle().database(), whole)?;
        let (entries, table) = (table.entries(), table.handle());
        let updated = on!(self, guard, table, |store, row| entries.update(store, row, values));
        self.written(updated)
    }
}

impl std::fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx").field("refused", &self.watch.refused()).finish_non_exhaustive()
    }
}

/// A row, held for reading until the transaction makes its next change. `P` is the store's type of a held row; the
/// memory store's rows are read in place.
#[derive(Debug)]
pub struct RowRef<'t, R, P = MemoryRow<'t>> {
    row: Row<R, P>,
    transaction: PhantomData<&'t ()>,
}

impl<R, P> RowRef<'_, R, P> {
    /// Wraps a row of the store.
    #[inline(always)]
    pub(crate) const fn of(row: Row<R, P>) -> Self {
        Self { row, transaction: PhantomData }
    }
}

impl<R, P: RowBytes> RowRef<'_, R, P> {
    /// The value of a column: a number, or bytes borrowed from the row.
    #[inline]
    pub fn get<T: ColumnType>(&self, column: Column<R, T>) -> T::Value<'_> {
        self.row.get(column)
    }

    /// The row as a value of its struct.
    pub fn read(&self) -> R
    where
        R: TableRow,
    {
        R::read(self)
    }
}

/// A row that is being created.
#[derive(Debug)]
pub struct NewRow<'a, R> {
    row: RowMut<'a, R>,
    /// The first column that was set to a value it cannot hold.
    misfit: &'a mut Option<u32>,
    /// Values stored outside the row: the offsets of their handles, and the bytes.
    variable: &'a mut Vec<(usize, Vec<u8>)>,
}

impl<R> NewRow<'_, R> {
    /// Sets a column. A value that it cannot hold — too many digits, a text that is too long, or not as
    /// long as a `char` — is refused when the row is created.
    pub fn set<T: InlineType>(&mut self, column: Column<R, T>, value: T::Value<'_>) {
        match T::fits(value) {
            true => self.row.set(column, value),
            false => *self.misfit = self.misfit.or(Some(column.position() as u32)),
        }
    }

    /// Sets a variable-length column: `text`, `bytea`.
    pub fn set_variable<T: VariableType>(&mut self, column: Column<R, T>, value: T::Given<'_>) {
        let bytes = T::bytes(value);
        T::mark(&mut self.row, column, bytes.is_some());
        self.variable.push((column.offset(), bytes.unwrap_or_default().to_vec()));
    }
}

/// Refuses a row if a column was set to a value that it cannot hold.
pub(crate) fn fits_all<R: TableType>(table: &Table<R>, misfit: Option<u32>) -> Stored<()> {
    let table = table.position() as u32;
    misfit.map_or(Ok(()), |column| Err(StoreError::OutOfRange { table, column }))
}

/// Sets a column whose values lie outside the row.
#[inline(always)]
pub(crate) fn put_variable<S: Store, R: DeclaredTable, T: VariableType>(
    store: &mut S,
    entries: &Entries,
    (table, row): (&Table<R>, RowId),
    column: Column<R, T>,
    value: T::Given<'_>,
) -> Stored<()> {
    let fields = Fields::none().with(column);
    entries.change(store, row, fields.start()..fields.end(), |store| {
        if T::NULLABLE {
            let is_present = T::bytes(value).is_some();
            store.update(table, row, fields, |row| T::mark(row, column, is_present))?;
        }
        store.set_variable(table, row, column.offset(), T::bytes(value).unwrap_or_default())
    })
}

/// Replaces a row by a value of its struct.
#[inline(always)]
pub(crate) fn replace<S: Store, R: TableRow>(
    store: &mut S,
    entries: &Entries,
    (table, row): (&Table<R>, RowId),
    value: &R,
) -> Stored<()> {
    entries.change(store, row, 0..R::SIZE, |store| {
        let (whole, mut variable, mut misfit) = (Fields::whole(R::SIZE), Vec::new(), None);
        store.update(table, row, whole, |row| {
            let row = retyped(row, Fields::whole(R::SIZE));
            value.fill(&mut NewRow { row, misfit: &mut misfit, variable: &mut variable });
        })?;
        fits_all(table, misfit)?;
        variable
            .iter()
            .try_for_each(|(offset, bytes)| store.set_variable(table, row, *offset, bytes))
    })
}

/// Creates a row: its fixed part, its variable-length values, its index entries.
pub(crate) fn insert<S: Store, R: DeclaredTable>(
    store: &mut S,
    entries: &Entries,
    table: &Table<R>,
    fill: impl FnOnce(&mut NewRow<'_, R>),
) -> Stored<RowId> {
    let (mut variable, mut misfit) = (Vec::new(), None);
    let row = store.create(table, |row| {
        let whole = Fields::whole(R::SIZE);
        let row = retyped(row, whole);
        fill(&mut NewRow { row, misfit: &mut misfit, variable: &mut variable });
    })?;
    fits_all(table, misfit)?;
    for (offset, bytes) in &variable {
        store.set_variable(table, row, *offset, bytes)?;
    }
    entries.enter(store, row)?;
    Ok(row)
}

#[cfg(test)]
mod held_tests;
#[cfg(test)]
mod tests;
