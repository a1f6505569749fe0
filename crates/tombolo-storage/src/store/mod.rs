//! `Store`: the calls of a transaction, as one trait that every store implements in every profile.
//!
//! The calls are those of the paper's Figure 4 (LG-15, LG-34): begin; look up a key in an index;
//! pin a row; update, create or delete a row; insert or remove an index entry; commit or abort.
//! Rows and index entries have separate calls on purpose: procedures make exactly the calls they need, and
//! the cost of each call can be counted. Code that works on any schema at run time is in
//! `dynamic.rs`; the types that separate a transaction's phases (reads first, then writes) are in
//! the engine.
//!
//! Not here: threads and waiting policy. A value implementing `Store` serves one transaction at a
//! time; a store that many threads share gives each thread a session that implements it.

mod calls;
mod shared;

use std::ops::ControlFlow;

use crate::error::{Error, Result, SchemaError};
use crate::key::{Dynamic, IndexShape, IndexType, Range, unfit_column};
use crate::row::{Fields, Row, RowBytes, RowId, RowMut};
use crate::schema::{ColumnDef, DeclaredIndex, DeclaredTable, Schema, TableDef};
use crate::words::column_text;

pub use shared::{Checker, SharedRows};

/// The type of a table handle's rows: known at compile time for a declared table, at run time for [`Dynamic`].
pub trait TableType: 'static {
    /// The properties that are known only at run time.
    type Shape: Clone + std::fmt::Debug + Send;
    /// Whether a store verifies that a row id names a live row. Procedures use ids that they just looked
    /// up, and need not pay for it.
    const CHECKED: bool;
    /// Bytes of a row's fixed part.
    fn size(shape: &Self::Shape) -> usize;
}

impl<R: DeclaredTable> TableType for R {
    type Shape = ();
    const CHECKED: bool = false;
    #[inline(always)]
    fn size((): &()) -> usize {
        R::SIZE
    }
}

impl TableType for Dynamic {
    type Shape = usize;
    const CHECKED: bool = true;
    #[inline(always)]
    fn size(size: &usize) -> usize {
        *size
    }
}

/// The handle of a table of one store, resolved once, for calls about rows.
#[derive(Debug)]
pub struct Table<R: TableType> {
    position: u32,
    database: u32,
    shape: R::Shape,
}

impl<R: TableType> Clone for Table<R> {
    fn clone(&self) -> Self {
        Self { position: self.position, database: self.database, shape: self.shape.clone() }
    }
}

impl<R: TableType<Shape: Copy>> Copy for Table<R> {}

impl<R: DeclaredTable> Table<R> {
    /// The handle of the table at `position`, to which `index` belongs.
    pub(crate) fn of<I: IndexType>(position: usize, index: &Index<I>) -> Self {
        Self { position: position as u32, database: index.database(), shape: () }
    }
}

impl<R: TableType> Table<R> {
    /// The number of its database ([`Schema::database`]).
    #[inline(always)]
    pub fn database(&self) -> u32 {
        self.database
    }

    /// Position in the schema.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.position as usize
    }

    /// Bytes of a row's fixed part.
    #[inline(always)]
    pub fn row_size(&self) -> usize {
        R::size(&self.shape)
    }
}

/// The handle of an index of one store, resolved once, for calls about keys.
#[derive(Debug)]
pub struct Index<I: IndexType> {
    position: u32,
    database: u32,
    shape: I::Shape,
}

impl<I: IndexType> Clone for Index<I> {
    fn clone(&self) -> Self {
        Self { position: self.position, database: self.database, shape: self.shape.clone() }
    }
}

impl<I: IndexType<Shape: Copy>> Copy for Index<I> {}

impl<I: IndexType> Index<I> {
    /// The handle of the index at `position` of `schema`.
    pub(crate) fn at(schema: &Schema, position: usize, shape: I::Shape) -> Self {
        Self { position: position as u32, database: schema.database(), shape }
    }

    /// The number of its database ([`Schema::database`]).
    #[inline(always)]
    pub fn database(&self) -> u32 {
        self.database
    }

    /// Position among all indexes of the schema, in the order of their creation.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.position as usize
    }

    /// The properties of the index that are known only at run time.
    #[inline(always)]
    pub fn shape(&self) -> &I::Shape {
        &self.shape
    }
}

/// The handle of a declared table that the schema contains with the same definition.
///
/// # Errors
/// When there is no such table, or its columns differ; the first difference is named.
pub fn resolve_table<R: DeclaredTable>(schema: &Schema) -> Result<Table<R>, SchemaError> {
    let position =
        schema.table(R::NAME).ok_or_else(|| SchemaError::new(R::NAME, "no such table"))?;
    let stored = &schema.tables[position];
    // The declaration may lack columns that were added at the end.
    let is_older = stored.columns[R::COLUMNS.len().min(stored.columns.len())..]
        .iter()
        .all(|column| column.added);
    let count = if is_older { R::COLUMNS.len() } else { stored.columns.len() };
    if let Some(i) =
        (0..count.max(R::COLUMNS.len())).find(|&i| stored.columns.get(i) != R::COLUMNS.get(i))
    {
        let said = |column: Option<&ColumnDef>| match column {
            None => "missing".to_owned(),
            Some(column) if column.is_dropped() => {
                format!("a dropped one, {}", column_text(column))
            }
            Some(column) => format!("{} {}", column.name, column_text(column)),
        };
        let what = format!(
            "column number {}: the database has {}, the program has {}: declare the table as it is",
            i + 1,
            said(stored.columns.get(i)),
            said(R::COLUMNS.get(i))
        );
        return Err(SchemaError::new(R::NAME, &what));
    }
    Ok(Table { position: position as u32, database: schema.database(), shape: () })
}

/// The handle of a declared index that the schema contains with the same definition.
///
/// # Errors
/// When there is no such index, or it or its table differs: the packing of a key depends on the columns'
/// declared ranges.
pub fn resolve_index<I: DeclaredIndex>(schema: &Schema) -> Result<Index<I>, SchemaError> {
    let refuse = |what| Err(SchemaError::new(I::NAME, what));
    let Some((table, i)) = schema.index(I::NAME) else { return refuse("no such index") };
    let stored = &schema.tables[table].indexes[i];
    if schema.tables[table].name != I::Table::NAME || stored.columns != I::COLUMNS {
        return refuse("the index has other columns in the database than in the program");
    }
    if stored.unique != I::UNIQUE || stored.kind != I::KIND {
        return refuse("the index is of another kind in the database than in the program");
    }
    resolve_table::<I::Table>(schema)?;
    let position = schema.index_position(table, i) as u32;
    Ok(Index { position, database: schema.database(), shape: () })
}

/// The error for a key that no row can have; it names the first column whose value is outside its range.
#[cold]
pub(crate) fn key_out_of_range<I: IndexType>(
    schema: &Schema,
    index: &Index<I>,
    key: I::Key<'_>,
) -> Error {
    let columns = schema.key_columns(index.position());
    let at = unfit_column::<I>(index.shape(), key, columns.len());
    let table = schema.index_at(index.position()).map_or(0, |(table, _)| table as u32);
    Error::OutOfRange { table, column: columns.get(at).map_or(0, |&column| column as u32) }
}

/// The handle of the table that a declared index is of; `None` where the schema has no such index.
pub fn table_of_index<I: DeclaredIndex>(
    schema: &Schema,
    index: &Index<I>,
) -> Option<Table<I::Table>> {
    schema.index_at(index.position()).map(|(table, _)| Table::of(table, index))
}

/// The run-time handle of the table at `position` of the schema.
///
/// # Panics
/// When there is no such table.
pub fn dynamic_table(schema: &Schema, position: usize) -> Table<Dynamic> {
    let shape = schema.tables[position].row_size();
    Table { position: position as u32, database: schema.database(), shape }
}

/// The run-time handles of the indexes of the table at `position` of the schema.
///
/// # Panics
/// When there is no such table.
pub fn dynamic_indexes(schema: &Schema, position: usize) -> Vec<Index<Dynamic>> {
    let table = &schema.tables[position];
    let handle = |(i, index)| Index {
        position: schema.index_position(position, i) as u32,
        database: schema.database(),
        shape: IndexShape::of(table, index),
    };
    table.indexes.iter().enumerate().map(handle).collect()
}

/// The order of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// The phase of a store's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// There is no transaction.
    Idle,
    /// It has written nothing yet.
    Reading,
    /// It may have written.
    Writing,
}

/// The memory that a store allocated from the system, and the bytes of its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes taken from the system.
    pub memory_bytes: u64,
    /// Bytes of all columns at full width, over all rows (and the bytes of their variable-length
    /// values).
    pub raw_row_bytes: u64,
    /// Bytes of the key columns at full width plus 8, over all index entries.
    pub raw_key_bytes: u64,
}

/// A store, as seen by one transaction at a time.
///
/// Every call except `begin` belongs to the transaction that `begin` opened; `commit` or `abort` ends it.
/// Reads see the transaction's own writes. `store/calls.rs` lists the calls for stores that wrap another
/// store.
pub trait Store: Sized {
    /// The guard that keeps a row in place while it is read.
    type Pin<'a>: RowBytes
    where
        Self: 'a;

    /// Whether `abort` can undo writes. If it cannot, a transaction must decide before its first write.
    const UNDO: bool;

    /// The tables and indexes.
    fn schema(&self) -> &Schema;

    /// Adds a table. Not part of a transaction.
    ///
    /// # Errors
    /// When the definition is invalid or memory is exhausted.
    fn create_table(&mut self, table: TableDef) -> Result<(), SchemaError>;

    /// Opens a transaction.
    ///
    /// # Errors
    /// When the store is poisoned.
    fn begin(&mut self) -> Result<()>;

    /// The phase of the transaction.
    fn phase(&self) -> Phase;

    /// Announces that writes follow. Only a store with undo can abort from here on.
    fn begin_writes(&mut self);

    /// Ends the transaction and keeps its changes.
    fn commit(&mut self) -> Result<()>;

    /// Ends the transaction and undoes its changes.
    ///
    /// # Errors
    /// `NoUndo` when there are changes and no undo information; the store is then poisoned.
    fn abort(&mut self) -> Result<()>;

    /// The row with this key in an index; the first one if the index is not unique.
    fn lookup<I: IndexType>(&mut self, index: &Index<I>, key: I::Key<'_>) -> Result<Option<RowId>>;

    /// Looks up `keys` together, in lock step if the store supports it, so that the cache misses of the
    /// look-ups overlap.
    ///
    /// # Panics
    /// When `found` is not as long as `keys`.
    fn lookup_many<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        assert_eq!(keys.len(), found.len());
        for (key, found) in keys.iter().zip(found) {
            *found = self.lookup(index, *key)?;
        }
        Ok(())
    }

    /// The same as `lookup`, but announces a change of the row: a store with locks takes the lock for
    /// changing it immediately, so that two transactions do not both read it and then wait for each other.
    #[inline(always)]
    fn lookup_for_update<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<RowId>> {
        self.lookup(index, key)
    }

    /// The same as `lookup_many`, but announces changes of the rows.
    ///
    /// # Panics
    /// When `found` is not as long as `keys`.
    #[inline(always)]
    fn lookup_many_for_update<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        self.lookup_many(index, keys, found)
    }

    /// Visits the rows with keys in `range`, until the visitor stops.
    fn scan<I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: Range<I::Key<'_>>,
        order: Order,
        visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Visits all rows of a table in the store's own order, until the visitor stops.
    fn rows<R: TableType>(
        &mut self,
        table: &Table<R>,
        visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Announces a look-up of `key`: a store in memory prefetches the memory that the look-up will
    /// read. Has no visible effect on the transaction and takes no lock.
    #[inline(always)]
    fn prefetch_lookup<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
        let _ = (index, key);
    }

    /// Announces the insertion of an entry with `key`; otherwise like `prefetch_lookup`.
    #[inline(always)]
    fn prefetch_insert<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
        let _ = (index, key);
    }

    /// Announces an access to the columns `fields` of a row.
    #[inline(always)]
    fn prefetch<R: TableType>(&self, table: &Table<R>, row: RowId, fields: Fields<R>) {
        let _ = (table, row, fields);
    }

    /// The row that currently has `key` in a unique index, for a transaction that will look it up later;
    /// `None` if the store does not know. Takes no lock. To be called some time after
    /// `prefetch_lookup`, because it reads the memory that `prefetch_lookup` prefetches.
    #[inline(always)]
    fn find_ahead<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) -> Option<RowId> {
        let _ = (index, key);
        None
    }

    /// The number of entries ever removed from an index: results of `find_ahead` are valid as long
    /// as it does not change. `None` if the store cannot look ahead.
    #[inline(always)]
    fn removals<I: IndexType>(&self, index: &Index<I>) -> Option<u64> {
        let _ = index;
        None
    }

    /// Holds a row in place for reading.
    ///
    /// # Errors
    /// `NoSuchRow`.
    fn pin<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<Row<R, Self::Pin<'_>>>;

    /// Changes a row in place, within `fields`. The caller updates index entries. If `change`
    /// panics the row is unchanged; without undo the store may refuse all further work.
    ///
    /// # Errors
    /// `NoSuchRow`.
    fn update<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        fields: Fields<R>,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()>;

    /// Sets the variable-length column whose handle is at `offset` of the row.
    ///
    /// # Errors
    /// `NoSuchRow`, `NoSpace`, or `OutOfRange` for a value longer than the store can hold.
    fn set_variable<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        offset: usize,
        value: &[u8],
    ) -> Result<()>;

    /// Creates a row and fills it in place; it starts with zeros, empty strings and nulls. The caller
    /// inserts index entries. If `fill` panics there is no row.
    ///
    /// # Errors
    /// `NoSpace`.
    fn create<R: TableType>(
        &mut self,
        table: &Table<R>,
        fill: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<RowId>;

    /// Deletes a row. The caller removes its index entries, and must not use its id again: a
    /// store without undo may give its slot to the next row immediately.
    ///
    /// # Errors
    /// `NoSuchRow`.
    fn delete<R: TableType>(&mut self, table: &Table<R>, row: RowId) -> Result<()>;

    /// Adds an index entry.
    ///
    /// # Errors
    /// `Duplicate` (a unique index holds the key), `OutOfRange` (a column's value is outside its
    /// declared range), `NoSpace`.
    fn insert<I: IndexType>(&mut self, index: &Index<I>, key: I::Key<'_>, row: RowId)
    -> Result<()>;

    /// Adds index entries of `rows`, the first under `key(0)` and so on in ascending order; the same
    /// as one `insert` each, but with a single search for the place, and the common part of the keys is
    /// packed only once.
    fn insert_run<'k, I: IndexType>(
        &mut self,
        index: &Index<I>,
        rows: &[RowId],
        key: impl Fn(usize) -> I::Key<'k>,
    ) -> Result<()> {
        rows.iter().enumerate().try_for_each(|(at, row)| self.insert(index, key(at), *row))
    }

    /// Removes the index entry of `row` under `key`; returns whether there was one.
    fn remove<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<bool>;

    /// Refuses everything from now on.
    fn poison(&mut self, reason: &'static str);

    /// Verifies every structure, and that every index contains exactly its table's rows; returns one entry per
    /// error.
    fn check(&mut self) -> Vec<Damage>;

    /// A view that several threads can read concurrently while nothing changes; `None` if rows have to
    /// be fetched.
    fn shared(&self) -> Option<Box<dyn SharedRows + '_>> {
        None
    }

    /// Memory taken and used.
    fn usage(&mut self) -> Usage;

    /// Ends a transaction that failed half-way: undoes its changes, or poisons a store without undo.
    ///
    /// # Errors
    /// The error of `abort`.
    fn fail(&mut self) -> Result<()> {
        if Self::UNDO {
            return self.abort();
        }
        self.poison("a transaction failed after its first write in a profile without undo");
        Err(Error::NoUndo)
    }
}

/// An error found by `check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The check that found it: `slabs`, `indexes`, …
    pub check: &'static str,
    /// The place and the error.
    pub what: String,
}
