//! A store whose type is forgotten: for code that need not be fast and would otherwise be compiled
//! once per profile.
//!
//! [`DynamicStore`] is [`Store`] with run-time tables, indexes and visitors; every store is one.
//! [`Erased`] turns it back into a `Store`, so that loading, checking, dumping, restoring and
//! tampering are written once, over any store, and compiled once, over this one.
//!
//! What it costs: a virtual call per call, a key whose values are written down and read again, and
//! an allocation per pin. Not here: transactions that are measured.

use std::ops::ControlFlow;
use std::sync::Arc;

use tombolo_storage::error::{Error, Result, SchemaError};
use tombolo_storage::for_each_store_call;
use tombolo_storage::key::{Dynamic, Edge, Fit, IndexType, Range};
use tombolo_storage::row::{Fields, Row, RowBytes, RowId, RowMut, retyped};
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::{
    Index, Order, Store, Table, TableType, dynamic_indexes, dynamic_table,
};
use tombolo_storage::value::Value;

use super::key::KeyValues;

/// Called for each row until it breaks off.
type Visit<'v> = &'v mut dyn FnMut(RowId) -> ControlFlow<()>;
/// Changes or fills a row.
type Change<'c> = &'c mut dyn FnMut(&mut RowMut<'_, Dynamic>);

/// Expands `$each!` as `for_each_store_call!` does, for the calls that have run-time tables and indexes in
/// place of typed ones and pass nothing else that has a type.
macro_rules! for_each_untyped_call {
    ($each:ident) => {
        $each! { lookup mut [] (index: &Index<Dynamic>, key: &[Value<'_>]) -> Result<Option<RowId>> }
        $each! {
            lookup_for_update mut []
            (index: &Index<Dynamic>, key: &[Value<'_>]) -> Result<Option<RowId>>
        }
        $each! {
            scan mut []
            (index: &Index<Dynamic>, range: Range<&[Value<'_>]>, order: Order, visit: Visit<'_>)
            -> Result<()>
        }
        $each! { rows mut [] (table: &Table<Dynamic>, visit: Visit<'_>) -> Result<()> }
        $each! {
            update mut []
            (table: &Table<Dynamic>, row: RowId, fields: Fields<Dynamic>, change: Change<'_>) -> Result<()>
        }
        $each! {
            set_variable mut []
            (table: &Table<Dynamic>, row: RowId, offset: usize, value: &[u8]) -> Result<()>
        }
        $each! { create mut [] (table: &Table<Dynamic>, fill: Change<'_>) -> Result<RowId> }
        $each! { delete mut [] (table: &Table<Dynamic>, row: RowId) -> Result<()> }
        $each! { insert mut [] (index: &Index<Dynamic>, key: &[Value<'_>], row: RowId) -> Result<()> }
        $each! { remove mut [] (index: &Index<Dynamic>, key: &[Value<'_>], row: RowId) -> Result<bool> }
    };
}

/// A call without types, as it is declared.
macro_rules! declared {
    ($name:ident ref [] ($($argument:ident: $type:ty),*) -> $result:ty) => {
        fn $name(&self, $($argument: $type),*) -> $result;
    };
    ($name:ident mut [] ($($argument:ident: $type:ty),*) -> $result:ty) => {
        fn $name(&mut self, $($argument: $type),*) -> $result;
    };
    ($($typed:tt)*) => {};
}

/// A call without types, carried out by the call of the same name of [`Store`].
macro_rules! carried_out {
    ($name:ident ref [] ($($argument:ident: $type:ty),*) -> $result:ty) => {
        fn $name(&self, $($argument: $type),*) -> $result {
            Store::$name(self, $($argument),*)
        }
    };
    ($name:ident mut [] ($($argument:ident: $type:ty),*) -> $result:ty) => {
        fn $name(&mut self, $($argument: $type),*) -> $result {
            Store::$name(self, $($argument),*)
        }
    };
    ($($typed:tt)*) => {};
}

/// [`Store`] without its type: its calls that have no type of their own, and the others with run-time
/// tables and indexes.
#[expect(missing_docs, reason = "each call is the one of the same name of Store")]
pub trait DynamicStore {
    for_each_store_call! { declared }
    for_each_untyped_call! { declared }
    /// Shows all rows of a table, one after the other, without an allocation for each as a pin has.
    fn each_row(
        &mut self,
        table: &Table<Dynamic>,
        see: &mut dyn FnMut(&dyn RowBytes),
    ) -> Result<()>;
    fn pin<'a>(&'a self, table: &Table<Dynamic>, row: RowId) -> Result<ErasedPin<'a>>;
    fn insert_run(
        &mut self,
        index: &Index<Dynamic>,
        keys: &[&[Value<'_>]],
        rows: &[RowId],
    ) -> Result<()>;
}

impl<S: Store> DynamicStore for S {
    for_each_store_call! { carried_out }
    for_each_untyped_call! { carried_out }
    fn each_row(
        &mut self,
        table: &Table<Dynamic>,
        see: &mut dyn FnMut(&dyn RowBytes),
    ) -> Result<()> {
        if let Some(view) = Store::shared(self) {
            view.each_row(table.position(), view.slots(table.position()), see);
            return Ok(());
        }
        let mut rows = Vec::new();
        Store::rows(self, table, |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        rows.into_iter().try_for_each(|row| {
            see(Store::pin(self, table, row)?.pin());
            Ok(())
        })
    }
    fn pin<'a>(&'a self, table: &Table<Dynamic>, row: RowId) -> Result<ErasedPin<'a>> {
        Ok(ErasedPin(Box::new(Pinned(Store::pin(self, table, row)?))))
    }
    fn insert_run(
        &mut self,
        index: &Index<Dynamic>,
        keys: &[&[Value<'_>]],
        rows: &[RowId],
    ) -> Result<()> {
        Store::insert_run(self, index, rows, |at| keys[at])
    }
}

/// A row that a store of some type holds in place.
struct Pinned<P>(Row<Dynamic, P>);

impl<P: RowBytes> RowBytes for Pinned<P> {
    fn fixed(&self) -> &[u8] {
        self.0.pin().fixed()
    }
    fn variable(&self, handle: u64) -> &[u8] {
        self.0.pin().variable(handle)
    }
}

/// A row that a store of an unknown type holds in place.
pub struct ErasedPin<'a>(Box<dyn RowBytes + 'a>);

impl RowBytes for ErasedPin<'_> {
    fn fixed(&self) -> &[u8] {
        self.0.fixed()
    }
    fn variable(&self, handle: u64) -> &[u8] {
        self.0.variable(handle)
    }
}

impl std::fmt::Debug for ErasedPin<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ErasedPin").field(&self.fixed().len()).finish()
    }
}

/// The run-time handles of every table and index of a schema, by position.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    tables: Vec<Table<Dynamic>>,
    indexes: Vec<Index<Dynamic>>,
}

impl Handles {
    /// Those of `schema`.
    pub(crate) fn of(schema: &Schema) -> Self {
        let tables = 0..schema.tables.len();
        Self {
            tables: tables.clone().map(|table| dynamic_table(schema, table)).collect(),
            indexes: tables.flat_map(|table| dynamic_indexes(schema, table)).collect(),
        }
    }
}

/// A store of any type as a [`Store`].
///
/// It does not say that it can undo: its user decides before the first write.
pub struct Erased<'s> {
    store: &'s mut dyn DynamicStore,
    handles: Arc<Handles>,
}

impl std::fmt::Debug for Erased<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Erased").field("handles", &self.handles).finish_non_exhaustive()
    }
}

impl<'s> Erased<'s> {
    /// `store` without its type.
    pub fn new(store: &'s mut dyn DynamicStore) -> Self {
        let handles = Arc::new(Handles::of(store.schema()));
        Self { store, handles }
    }

    /// The same with handles that are known already.
    pub(crate) fn with_handles(store: &'s mut dyn DynamicStore, handles: Arc<Handles>) -> Self {
        Self { store, handles }
    }

    fn table<R: TableType>(handles: &Handles, table: &Table<R>) -> Table<Dynamic> {
        handles.tables[table.position()]
    }

    /// The error of a key that no row can have, because of its value number `at`.
    #[cold]
    fn unfit<I: IndexType>(&self, index: &Index<I>, at: usize) -> Error {
        let schema = self.store.schema();
        let place = schema.index_at(index.position());
        let (table, columns) = place.map_or((0, &[][..]), |(table, number)| {
            (table as u32, &schema.tables[table].indexes[number].columns[..])
        });
        let column = columns.get(at).map_or(0, |&column| column as u32);
        Error::OutOfRange { table, column }
    }
}

/// A key's values, and whether it has a value that no row can have.
fn values_of<'i, I: IndexType>(index: &'i Index<I>, key: I::Key<'_>) -> (KeyValues<'i>, Fit) {
    KeyValues::of::<I>(index.shape(), key, usize::MAX)
}

/// An edge whose key's values are in `values`.
fn erase_edge<'i, I: IndexType>(
    index: &'i Index<I>,
    edge: Edge<I::Key<'_>>,
    values: &mut KeyValues<'i>,
) -> Edge<()> {
    let (key, columns, after) = match edge {
        Edge::Open => return Edge::Open,
        Edge::Before(key, columns) => (key, columns, false),
        Edge::After(key, columns) => (key, columns, true),
    };
    let (found, fit) = KeyValues::of::<I>(index.shape(), key, columns);
    *values = found;
    // A value that no row can have lies before or after all keys that begin like the others.
    match fit {
        Fit::Within if !after => Edge::Before((), columns),
        Fit::Within => Edge::After((), columns),
        Fit::Below => Edge::Before((), values.len()),
        Fit::Above => Edge::After((), values.len()),
    }
}

/// A call without types, handed on to the store behind.
macro_rules! erased {
    (create_table $($changes_the_handles:tt)*) => {};
    ($name:ident ref [] ($($argument:ident: $type:ty),*) -> $result:ty) => {
        fn $name(&self, $($argument: $type),*) -> $result {
            self.store.$name($($argument),*)
        }
    };
    ($name:ident mut [] ($($argument:ident: $type:ty),*) -> $result:ty) => {
        fn $name(&mut self, $($argument: $type),*) -> $result {
            self.store.$name($($argument),*)
        }
    };
    ($($typed:tt)*) => {};
}

/// A look-up of the key's values.
macro_rules! looked_up {
    ($($name:ident)*) => {$(
        fn $name<I: IndexType>(
            &mut self,
            index: &Index<I>,
            key: I::Key<'_>,
        ) -> Result<Option<RowId>> {
            let (values, fit) = values_of(index, key);
            match fit {
                Fit::Within => {
                    self.store.$name(&self.handles.indexes[index.position()], &values.values())
                }
                Fit::Below | Fit::Above => Ok(None),
            }
        }
    )*};
}

/// `edge` with its key.
fn with_key<'k>(edge: Edge<()>, key: &'k [Value<'k>]) -> Edge<&'k [Value<'k>]> {
    match edge {
        Edge::Open => Edge::Open,
        Edge::Before((), columns) => Edge::Before(key, columns),
        Edge::After((), columns) => Edge::After(key, columns),
    }
}

impl Store for Erased<'_> {
    type Pin<'a>
        = ErasedPin<'a>
    where
        Self: 'a;

    const UNDO: bool = false;

    for_each_store_call! { erased }

    fn create_table(&mut self, table: TableDef) -> Result<(), SchemaError> {
        self.store.create_table(table)?;
        self.handles = Arc::new(Handles::of(self.store.schema()));
        Ok(())
    }

    looked_up! { lookup lookup_for_update }

    fn lookup_many_for_update<I: IndexType>(
        &mut self,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        assert_eq!(keys.len(), found.len());
        for (key, found) in keys.iter().zip(found) {
            *found = Store::lookup_for_update(self, index, *key)?;
        }
        Ok(())
    }

    fn scan<I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: Range<I::Key<'_>>,
        order: Order,
        mut visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        let (mut lower, mut upper) = (KeyValues::default(), KeyValues::default());
        let lower_edge = erase_edge(index, range.lower, &mut lower);
        let upper_edge = erase_edge(index, range.upper, &mut upper);
        let (lower, upper) = (lower.values(), upper.values());
        let range =
            Range { lower: with_key(lower_edge, &lower), upper: with_key(upper_edge, &upper) };
        self.store.scan(&self.handles.indexes[index.position()], range, order, &mut visit)
    }

    fn rows<R: TableType>(
        &mut self,
        table: &Table<R>,
        mut visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        self.store.rows(&Self::table(&self.handles, table), &mut visit)
    }

    fn pin<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<Row<R, ErasedPin<'_>>> {
        self.store.pin(&self.handles.tables[table.position()], row).map(Row::new)
    }

    fn update<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        fields: Fields<R>,
        change: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<()> {
        let mut change = Some(change);
        let mut apply = |row: &mut RowMut<'_, Dynamic>| {
            if let Some(change) = change.take() {
                change(&mut retyped(row, fields));
            }
        };
        // The whole row, since only whole rows can be seen as rows of another type.
        let whole = Fields::whole(table.row_size());
        self.store.update(&Self::table(&self.handles, table), row, whole, &mut apply)
    }

    fn set_variable<R: TableType>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        offset: usize,
        value: &[u8],
    ) -> Result<()> {
        self.store.set_variable(&Self::table(&self.handles, table), row, offset, value)
    }

    fn create<R: TableType>(
        &mut self,
        table: &Table<R>,
        fill: impl FnOnce(&mut RowMut<'_, R>),
    ) -> Result<RowId> {
        let mut fill = Some(fill);
        let whole = Fields::whole(table.row_size());
        let mut apply = |row: &mut RowMut<'_, Dynamic>| {
            if let Some(fill) = fill.take() {
                fill(&mut retyped(row, whole));
            }
        };
        self.store.create(&Self::table(&self.handles, table), &mut apply)
    }

    fn delete<R: TableType>(&mut self, table: &Table<R>, row: RowId) -> Result<()> {
        self.store.delete(&Self::table(&self.handles, table), row)
    }

    fn insert<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<()> {
        let (values, fit) = values_of(index, key);
        if fit != Fit::Within {
            return Err(self.unfit(index, values.len()));
        }
        self.store.insert(&self.handles.indexes[index.position()], &values.values(), row)
    }

    fn insert_run<'k, I: IndexType>(
        &mut self,
        index: &Index<I>,
        rows: &[RowId],
        key: impl Fn(usize) -> I::Key<'k>,
    ) -> Result<()> {
        let mut erased = Vec::with_capacity(rows.len());
        for at in 0..rows.len() {
            let (values, fit) = values_of(index, key(at));
            if fit != Fit::Within {
                return Err(self.unfit(index, values.len()));
            }
            erased.push(values);
        }
        let values: Vec<_> = erased.iter().map(KeyValues::values).collect();
        let keys: Vec<&[Value<'_>]> = values.iter().map(|values| &values[..]).collect();
        self.store.insert_run(&self.handles.indexes[index.position()], &keys, rows)
    }

    fn remove<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        row: RowId,
    ) -> Result<bool> {
        let (values, fit) = values_of(index, key);
        match fit {
            Fit::Within => {
                self.store.remove(&self.handles.indexes[index.position()], &values.values(), row)
            }
            Fit::Below | Fit::Above => Ok(false),
        }
    }
}
