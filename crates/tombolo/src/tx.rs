//! A transaction in a closure's hands: rows with their index entries.
//!
//! What is written here keeps every index of the table in step and every value within what its
//! column declares, so that a closure cannot leave half a row behind. A write that is refused dooms
//! the transaction: whatever the closure answers, everything is undone. Procedures that are counted
//! in instructions write rows and entries themselves (`Procedure`).
//!
//! Not here: queues and durability (`core.rs`), how the store does it.

use tombolo_engine::transaction::{Committed, Stop as EngineStop, Transaction, execute_undoable};
use tombolo_storage::dynamic::DynamicTable as Entries;
use tombolo_storage::error::{Error as StoreError, Result as Stored};
use tombolo_storage::key::IndexType;
use tombolo_storage::memory::MemoryRow;
use tombolo_storage::row::{Column, Fields, Row, RowId, RowMut, retyped};
use tombolo_storage::schema::DeclaredTable;
use tombolo_storage::store::{Index, Store, Table, TableType};
use tombolo_storage::types::{ColumnType, InlineType};
use tombolo_storage::value::Value;

use crate::calls::Outcome;
use crate::product::Product;
use crate::stop::{Result, Stop};
use crate::tx::derived::TableRow;

pub mod derived;
mod dynamic;
mod handles;
mod rows;
mod scan;
mod tables;
mod variable;
mod watch;

pub use dynamic::DynamicTable;
pub(crate) use handles::Of;
pub use scan::{Cursor, Rows};
pub(crate) use tables::{KnownSchema, Tables};
pub use variable::VariableType;
use watch::Watch;

/// A transaction: it reads and writes as it likes and is alone while it does. It commits when its
/// closure answers `Ok`.
///
/// Tables and indexes are named by handles, which are asked for once: [`Database::table`],
/// [`Database::index`], [`Database::dynamic_table`]. They are plain numbers, copied into as many closures
/// as need them; one of another database is refused ([`StoreError::OtherDatabase`]), and so is one of what was
/// dropped ([`StoreError::Dropped`]). A row is found by an
/// index, by a scan, or by the id it was given when it was made. An id is good until its row is deleted
/// or the database is closed; from then on it leads nowhere ([`StoreError::NoSuchRow`]), also when another
/// row takes the place, and so does an id of another table.
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
    inner: Transaction<'s, Product>,
    tables: &'s Tables,
    watch: Watch<'s>,
}

/// Runs a closure as one transaction.
#[inline(always)]
pub(crate) fn run<A>(
    store: &mut Product,
    tables: &Tables,
    closure: impl FnOnce(&mut Tx<'_>) -> Result<A, Stop>,
) -> Result<A, Stop> {
    // An error of the application's own goes around the engine, which knows none.
    let mut own = None;
    let ended = execute_undoable(store, |transaction| {
        let watch = Watch::new(&tables.limits);
        let mut tx = Tx { inner: transaction, tables, watch };
        match closure(&mut tx) {
            Ok(answer) => tx.commit(answer),
            Err(Stop::Abort(reason)) => Err(EngineStop::Abort(reason)),
            Err(Stop::Error(error)) => Err(EngineStop::Error(error)),
            Err(Stop::Own(error)) => {
                own = Some(error);
                Err(EngineStop::Abort("of its own"))
            }
        }
    });
    ended.map_err(|stop| match (stop, own) {
        // Unless the store could not undo it.
        (EngineStop::Abort(_), Some(own)) => Stop::Own(own),
        (stop, _) => Stop::of(stop),
    })
}

impl Tx<'_> {
    fn commit<A>(self, answer: A) -> Result<Committed<A>, EngineStop> {
        if let Some(error) = self.watch.refused() {
            return Err(EngineStop::Error(error));
        }
        self.inner.commit(answer)
    }

    /// A call begins that reads with a handle of this database.
    #[inline(always)]
    fn pass(&self, database: u32, of: Of) -> Result<()> {
        if database != self.tables.database {
            self.tables.admit_older(database, of)?;
        }
        Ok(self.watch.pass()?)
    }

    /// A call begins that writes with a handle of this database.
    #[inline(always)]
    fn pass_write(&self, database: u32, of: Of) -> Result<()> {
        self.watch.pass_write()?;
        if database != self.tables.database
            && let Err(refused) = self.tables.admit_older(database, of)
        {
            self.watch.refuse(refused);
            return Err(Stop::Error(refused));
        }
        Ok(())
    }

    /// The store's id of a row that is to be written.
    #[inline(always)]
    fn to_write<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<RowId> {
        self.pass_write(table.database(), Of::Table(table.position()))?;
        self.unnamed_to_write(table, row)
    }

    /// The same, of a call that has begun.
    #[inline(always)]
    fn unnamed_to_write<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<RowId> {
        let unnamed = self.inner.store_ref().unnamed(table, row);
        unnamed.map_err(|error| {
            self.watch.refuse(error);
            Stop::Error(error)
        })
    }

    /// Remembers a refused write.
    #[inline]
    fn written<T>(&mut self, written: Stored<T>) -> Result<T> {
        written.map_err(|error| {
            self.watch.refuse(error);
            Stop::Error(error)
        })
    }

    /// Runs a part of the transaction. Where it returns an error, or a write in it was refused, what it
    /// wrote is taken back, and the transaction may continue without it.
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
    /// What the part returns, or the error of its first refused write. A call that was ended by its deadline or
    /// its caller does not continue.
    pub fn savepoint<A>(&mut self, part: impl FnOnce(&mut Self) -> Result<A>) -> Result<A> {
        if let Some(refused) = self.watch.refused() {
            return Err(refused.into());
        }
        let savepoint = self.inner.store_ref().savepoint();
        let ended = part(self);
        let ended = match self.watch.refused() {
            Some(refused) => ended.and(Err(refused.into())),
            None => ended,
        };
        if ended.is_err() {
            let taken_back = self.inner.store().back_to(savepoint);
            self.written(taken_back)?;
            self.watch.forgive();
        }
        ended
    }

    /// What became of the call with a request id.
    pub(crate) fn outcome(&mut self, request_id: u128) -> Result<Outcome> {
        let requests = self.tables.requests();
        Ok(requests.outcome(self.inner.store(), request_id)?)
    }

    /// The row that an index holds for `key`; the first one if the index is not unique.
    ///
    /// # Errors
    /// What the store refuses.
    #[inline(always)]
    pub fn lookup<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<RowId>> {
        self.pass(index.database(), Of::Index(index.position()))?;
        Ok(self.inner.store().lookup_named(index, key)?)
    }

    /// A row, to be read in place.
    ///
    /// # Errors
    /// `NoSuchRow`.
    #[inline(always)]
    pub fn get<R: DeclaredTable>(&self, table: &Table<R>, row: RowId) -> Result<RowRef<'_, R>> {
        self.pass(table.database(), Of::Table(table.position()))?;
        Ok(RowRef(self.inner.store_ref().pin_named(table, row)?))
    }

    /// Makes a row with all its index entries; what `fill` does not set is zero, empty or null.
    ///
    /// # Errors
    /// `Duplicate`, `OutOfRange`, `WrongType`, `NoSpace`; the transaction can only abort then.
    pub fn insert<R: DeclaredTable>(
        &mut self,
        table: &Table<R>,
        fill: impl FnOnce(&mut NewRow<'_, R>),
    ) -> Result<RowId> {
        self.pass_write(table.database(), Of::Table(table.position()))?;
        let entries = &self.tables.entries[table.position()];
        let inserted = insert(self.inner.store(), entries, table, fill);
        let row = self.written(inserted)?;
        Ok(self.inner.store_ref().named(table, row))
    }

    /// Changes a row within `fields`, which name every column that `change` sets; index entries
    /// whose keys change move.
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
    /// `NoSuchRow`, and as [`Tx::insert`]; the transaction can only abort then.
    #[inline(always)] // of fields that are a constant nothing is left to compute
    pub fn update<R: DeclaredTable>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        fields: Fields<R>,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()> {
        self.pass_write(table.database(), Of::Table(table.position()))?;
        let entries = &self.tables.entries[table.position()];
        if entries.follows(fields.start(), fields.end()) {
            return self.update_followed(table, row, fields, change);
        }
        let updated = self.inner.store().update_named(table, row, fields, change);
        self.written(updated)
    }

    /// [`Tx::update`], where index entries may move or values may not be admitted.
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
        let updated = entries.change(self.inner.store(), row, bytes, |store| {
            store.update(table, row, fields, change)
        });
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

    /// A value that its column cannot hold was to be written.
    #[cold]
    fn misfit<R, T>(&mut self, table: &Table<R>, column: Column<R, T>) -> Result<()>
    where
        R: TableType,
    {
        let (table, column) = (table.position() as u32, column.position() as u32);
        self.written(Err(StoreError::OutOfRange { table, column }))
    }

    /// Sets one column of a row whose values have no bound: `text`, `bytea`.
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
        let row = self.to_write(table, row)?;
        let fields = Fields::none().with(column);
        let bytes = fields.start()..fields.end();
        let entries = &self.tables.entries[table.position()];
        let set = entries.change(self.inner.store(), row, bytes, |store| {
            if T::NULLABLE {
                let is_present = T::bytes(value).is_some();
                store.update(table, row, fields, |row| T::mark(row, column, is_present))?;
            }
            store.set_variable(table, row, column.offset(), T::bytes(value).unwrap_or_default())
        });
        self.written(set)
    }

    /// Deletes a row with all its index entries.
    ///
    /// # Errors
    /// `NoSuchRow`; the transaction can only abort then.
    pub fn delete<R: TableType>(&mut self, table: &Table<R>, row: RowId) -> Result<()> {
        let row = self.to_write(table, row)?;
        let entries = &self.tables.entries[table.position()];
        let deleted = entries.delete(self.inner.store(), row);
        self.written(deleted)
    }

    /// Gives the values of a row of any table to `read`.
    ///
    /// # Errors
    /// `NoSuchRow`.
    pub fn read_values<T>(
        &mut self,
        table: &DynamicTable,
        row: RowId,
        read: impl FnOnce(&[Value<'_>]) -> T,
    ) -> Result<T> {
        self.pass(table.handle().database(), Of::Whole(table.handle().position()))?;
        let row = self.inner.store_ref().unnamed(table.handle(), row)?;
        Ok(table.entries().read(self.inner.store(), row, read)?)
    }

    /// Makes a row of any table, with all its index entries, from one value for each column.
    ///
    /// # Errors
    /// As [`Tx::insert`].
    pub fn insert_values(&mut self, table: &DynamicTable, values: &[Value<'_>]) -> Result<RowId> {
        self.pass_write(table.handle().database(), Of::Whole(table.handle().position()))?;
        let inserted = table.entries().insert(self.inner.store(), values);
        let row = self.written(inserted)?;
        Ok(self.inner.store_ref().named(table.handle(), row))
    }

    /// Replaces the values of a row of any table; index entries whose keys change move.
    ///
    /// # Errors
    /// As [`Tx::update`].
    pub fn update_values(
        &mut self,
        table: &DynamicTable,
        row: RowId,
        values: &[Value<'_>],
    ) -> Result<()> {
        self.pass_write(table.handle().database(), Of::Whole(table.handle().position()))?;
        let row = self.unnamed_to_write(table.handle(), row)?;
        let updated = table.entries().update(self.inner.store(), row, values);
        self.written(updated)
    }
}

impl std::fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx").field("refused", &self.watch.refused()).finish_non_exhaustive()
    }
}

/// A row, read in place, as long as its transaction changes nothing.
#[derive(Debug)]
pub struct RowRef<'t, R>(Row<R, MemoryRow<'t>>);

impl<'t, R> RowRef<'t, R> {
    /// A row that the store shows.
    pub(crate) fn of(row: Row<R, MemoryRow<'t>>) -> Self {
        Self(row)
    }
}

impl<R> RowRef<'_, R> {
    /// The value of a column: a number, or bytes borrowed from the row.
    #[inline]
    pub fn get<T: ColumnType>(&self, column: Column<R, T>) -> T::Value<'_> {
        self.0.get(column)
    }

    /// The row as a value of its struct.
    pub fn read(&self) -> R
    where
        R: TableRow,
    {
        R::read(self)
    }
}

/// A row that is being made.
#[derive(Debug)]
pub struct NewRow<'a, R> {
    row: RowMut<'a, R>,
    /// The first column that was given a value it cannot hold.
    misfit: &'a mut Option<u32>,
    /// Values that lie outside the row: where their handles are, and the bytes.
    variable: &'a mut Vec<(usize, Vec<u8>)>,
}

impl<R> NewRow<'_, R> {
    /// Sets a column. A value that it cannot hold — too many digits, a text that is too long, or not as
    /// long as a `char` — is refused when the row is made.
    pub fn set<T: InlineType>(&mut self, column: Column<R, T>, value: T::Value<'_>) {
        match T::fits(value) {
            true => self.row.set(column, value),
            false => *self.misfit = self.misfit.or(Some(column.position() as u32)),
        }
    }

    /// Sets a column whose values have no bound: `text`, `bytea`.
    pub fn set_variable<T: VariableType>(&mut self, column: Column<R, T>, value: T::Given<'_>) {
        let bytes = T::bytes(value);
        T::mark(&mut self.row, column, bytes.is_some());
        self.variable.push((column.offset(), bytes.unwrap_or_default().to_vec()));
    }
}

/// Refuses a row whose columns were not all given values that they hold.
fn fits_all<R: TableType>(table: &Table<R>, misfit: Option<u32>) -> Stored<()> {
    let table = table.position() as u32;
    misfit.map_or(Ok(()), |column| Err(StoreError::OutOfRange { table, column }))
}

/// Makes a row: its fixed part, its other values, its index entries.
fn insert<S: Store, R: DeclaredTable>(
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
mod tests;
