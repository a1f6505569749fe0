//! What a transaction can ask of a store: one trait, implemented by every store in every profile.
//!
//! The calls are those of the paper's Figure 4 (LG-15, LG-34): begin; look a key up in an index;
//! pin a row; update, create or delete a row; insert or remove an index entry; commit or abort.
//! Rows and index entries are separate calls on purpose: procedures say exactly what they need, and
//! what each call costs can be counted. Code that works on any schema at run time is in
//! `dynamic.rs`; the types that keep a transaction's phases apart (reads first, then writes) are
//! the engine's.
//!
//! Not here: threads and waiting policy. A value implementing `Store` serves one transaction at a
//! time; a store that many threads share hands each a session that implements it.

mod calls;
mod shared;

use std::ops::ControlFlow;

use crate::error::{Error, Result, SchemaError};
use crate::key::{Dynamic, IndexShape, IndexType, Range, unfit_column};
use crate::row::{Fields, Row, RowBytes, RowId, RowMut};
use crate::schema::{ColumnDef, DeclaredIndex, DeclaredTable, Schema, TableDef};
use crate::words::column_text;

pub use shared::{Checker, SharedRows};

/// What a table handle knows of its rows: a declared table at compile time, [`Dynamic`] at run
/// time.
pub trait TableType: 'static {
    /// What is known at run time only.
    type Shape: Clone + std::fmt::Debug + Send;
    /// Whether a store verifies that a row id names a live row. Procedures use ids they just looked
    /// up; they need not pay for it.
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

/// A table of one store, resolved once: calls about rows name it.
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
    /// The handle of the table at `position`, which `index` is of.
    pub(crate) fn of<I: IndexType>(position: usize, index: &Index<I>) -> Self {
        Self { position: position as u32, database: index.database(), shape: () }
    }
}

impl<R: TableType> Table<R> {
    /// The number of the database it is for ([`Schema::database`]).
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

/// An index of one store, resolved once: calls about keys name it.
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
    /// The number of the database it is for ([`Schema::database`]).
    #[inline(always)]
    pub fn database(&self) -> u32 {
        self.database
    }

    /// Position among all indexes of the schema, in the order they were made.
    #[inline(always)]
    pub fn position(&self) -> usize {
        self.position as usize
    }

    /// What the index type knows at run time only.
    #[inline(always)]
    pub fn shape(&self) -> &I::Shape {
        &self.shape
    }
}

/// The handle of a table that is declared and that the schema holds with the same definition.
///
/// # Errors
/// When there is no such table, or its columns differ; the first difference is named.
pub fn resolve_table<R: DeclaredTable>(schema: &Schema) -> Result<Table<R>, SchemaError> {
    let position =
        schema.table(R::NAME).ok_or_else(|| SchemaError::new(R::NAME, "no such table"))?;
    let stored = &schema.tables[position];
    // A declaration without the columns that were added has rows that end before them.
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

/// The handle of an index that is declared and that the schema holds with the same definition.
///
/// # Errors
/// When there is no such index, or it or its table differs: how a key packs depends on the columns'
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

/// The error that no row can have a key; it names the first column that makes it so.
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

/// Where a store's transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// There is none.
    Idle,
    /// It has written nothing yet.
    Reading,
    /// It may have written.
    Writing,
}

/// The memory a store took from the system, and the bytes of its content.
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

/// A store, as one transaction at a time sees it.
///
/// Every call but `begin` belongs to the transaction `begin` opened; `commit` or `abort` ends it.
/// Reads see the transaction's own writes. `store/calls.rs` lists the calls for stores that wrap another
/// store.
pub trait Store: Sized {
    /// What holds a row in place while it is read.
    type Pin<'a>: RowBytes
    where
        Self: 'a;

    /// Whether `abort` can take back writes. Where it cannot, a transaction decides before its
    /// first write.
    const UNDO: bool;

    /// The tables and indexes.
    fn schema(&self) -> &Schema;

    /// Adds a table. Not part of a transaction.
    ///
    /// # Errors
    /// When the definition is refused or memory is exhausted.
    fn create_table(&mut self, table: TableDef) -> Result<(), SchemaError>;

    /// Opens a transaction.
    ///
    /// # Errors
    /// When the store is poisoned.
    fn begin(&mut self) -> Result<()>;

    /// Where the transaction stands.
    fn phase(&self) -> Phase;

    /// Says that writes follow. Only a store with undo can abort from here on.
    fn begin_writes(&mut self);

    /// Ends the transaction and keeps its changes.
    fn commit(&mut self) -> Result<()>;

    /// Ends the transaction and takes its changes back.
    ///
    /// # Errors
    /// `NoUndo` when there are changes and no undo information; the store is poisoned then.
    fn abort(&mut self) -> Result<()>;

    /// The row a unique index holds for `key`; of a non-unique one, the first.
    fn lookup<I: IndexType>(&mut self, index: &Index<I>, key: I::Key<'_>) -> Result<Option<RowId>>;

    /// Looks up `keys` together, in lock step where the store can: the misses of one hide behind
    /// those of the others.
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

    /// The same as `lookup`, but says that the row will be changed: a store with locks locks it for
    /// that immediately, so that two transactions do not both read it and then wait for each other.
    #[inline(always)]
    fn lookup_for_update<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<RowId>> {
        self.lookup(index, key)
    }

    /// The same as `lookup_many`, but says that the rows will be changed.
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

    /// Visits the rows whose keys lie in `range`, until the visitor breaks off.
    fn scan<I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: Range<I::Key<'_>>,
        order: Order,
        visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Visits all rows of a table in the store's own order, until the visitor breaks off.
    fn rows<R: TableType>(
        &mut self,
        table: &Table<R>,
        visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Says that `key` will be looked up soon: a store in memory asks for what that look-up would
    /// wait for. Nothing is read that the transaction could see, nothing is locked.
    #[inline(always)]
    fn prefetch_lookup<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
        let _ = (index, key);
    }

    /// Says that an entry with `key` will be inserted soon; else as `prefetch_lookup`.
    #[inline(always)]
    fn prefetch_insert<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) {
        let _ = (index, key);
    }

    /// Says that the bytes of `fields` of a row will be read or written soon.
    #[inline(always)]
    fn prefetch<R: TableType>(&self, table: &Table<R>, row: RowId, fields: Fields<R>) {
        let _ = (table, row, fields);
    }

    /// The row that a unique index holds for `key` now, for a transaction that will look it up later;
    /// none where the store does not know. Locks nothing. To be called some time after
    /// `prefetch_lookup`: it reads the memory that `prefetch_lookup` asked for.
    #[inline(always)]
    fn find_ahead<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) -> Option<RowId> {
        let _ = (index, key);
        None
    }

    /// How many entries were ever removed from an index: what `find_ahead` found in it is right as long
    /// as this number stays the same. None where the store cannot look ahead.
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

    /// Changes a row in place, within `fields`. Index entries are the caller's business. When `change`
    /// panics the row is as it was; without undo the store may refuse everything from then on.
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

    /// Sets the variable-length column whose handle lies at `offset` of the row.
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

    /// Makes a row and fills it in place; it starts with zeros, empty strings and nulls. Index
    /// entries are the caller's business. When `fill` panics there is no row.
    ///
    /// # Errors
    /// `NoSpace`.
    fn create<R: TableType>(
        &mut self,
        table: &Table<R>,
        fill: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<RowId>;

    /// Deletes a row. Index entries are the caller's business. Its id is not to be used again: a
    /// store without undo may give its place to the next row immediately.
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
    /// as one `insert` each, but the place is looked for once, and what the keys have in common is
    /// packed once.
    fn insert_run<'k, I: IndexType>(
        &mut self,
        index: &Index<I>,
        rows: &[RowId],
        key: impl Fn(usize) -> I::Key<'k>,
    ) -> Result<()> {
        rows.iter().enumerate().try_for_each(|(at, row)| self.insert(index, key(at), *row))
    }

    /// Removes the index entry of `row` under `key`; says whether there was one.
    fn remove<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<bool>;

    /// Refuses everything from now on.
    fn poison(&mut self, reason: &'static str);

    /// Verifies every structure and that every index holds exactly its table's rows; one line per
    /// damage found.
    fn check(&mut self) -> Vec<Damage>;

    /// What several threads can read concurrently while nothing changes; nothing where rows have to
    /// be fetched.
    fn shared(&self) -> Option<Box<dyn SharedRows + '_>> {
        None
    }

    /// Memory taken and used.
    fn usage(&mut self) -> Usage;

    /// Ends a transaction that failed half-way: takes its changes back, or poisons the store where
    /// nothing can.
    ///
    /// # Errors
    /// What `abort` failed with.
    fn fail(&mut self) -> Result<()> {
        if Self::UNDO {
            return self.abort();
        }
        self.poison("a transaction failed after its first write in a profile without undo");
        Err(Error::NoUndo)
    }
}

/// Something `check` found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The check that found it: `slabs`, `indexes`, …
    pub check: &'static str,
    /// Where and what.
    pub what: String,
}
