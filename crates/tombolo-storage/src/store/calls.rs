//! The calls of [`Store`](super::Store), listed once: all wrappers of a store are generated from this list.
//!
//! Not here: what a call means (the trait), and the stores that carry it out.

/// Expands `$each! { $with name ref|mut [generics] (argument: type, …) -> result }` once per call of
/// [`Store`](crate::store::Store), in an `impl` or a trait. `ref` and `mut` say how a call takes the store;
/// generics are in brackets, empty where a call has none.
#[macro_export]
macro_rules! for_each_store_call {
    ($each:ident $($with:tt)*) => {
        $each! { $($with)* schema ref [] () -> &$crate::schema::Schema }
        $each! { $($with)* create_table mut [] (table: $crate::schema::TableDef)
            -> std::result::Result<(), $crate::error::SchemaError> }
        $each! { $($with)* begin mut [] () -> $crate::error::Result<()> }
        $each! { $($with)* phase ref [] () -> $crate::store::Phase }
        $each! { $($with)* begin_writes mut [] () -> () }
        $each! { $($with)* commit mut [] () -> $crate::error::Result<()> }
        $each! { $($with)* abort mut [] () -> $crate::error::Result<()> }
        $each! { $($with)* lookup mut [I: $crate::key::IndexType]
            (index: &$crate::store::Index<I>, key: I::Key<'_>)
            -> $crate::error::Result<Option<$crate::row::RowId>> }
        $each! { $($with)* lookup_for_update mut [I: $crate::key::IndexType]
            (index: &$crate::store::Index<I>, key: I::Key<'_>)
            -> $crate::error::Result<Option<$crate::row::RowId>> }
        $each! { $($with)* lookup_many mut [I: $crate::key::IndexType]
            (index: &$crate::store::Index<I>, keys: &[I::Key<'_>], found: &mut [Option<$crate::row::RowId>])
            -> $crate::error::Result<()> }
        $each! { $($with)* lookup_many_for_update mut [I: $crate::key::IndexType]
            (index: &$crate::store::Index<I>, keys: &[I::Key<'_>], found: &mut [Option<$crate::row::RowId>])
            -> $crate::error::Result<()> }
        $each! { $($with)* scan mut [I: $crate::key::IndexType]
            (index: &$crate::store::Index<I>, range: $crate::key::Range<I::Key<'_>>,
             order: $crate::store::Order,
             visit: impl FnMut($crate::row::RowId) -> std::ops::ControlFlow<()>)
            -> $crate::error::Result<()> }
        $each! { $($with)* rows mut [R: $crate::store::TableType]
            (table: &$crate::store::Table<R>,
             visit: impl FnMut($crate::row::RowId) -> std::ops::ControlFlow<()>)
            -> $crate::error::Result<()> }
        $each! { $($with)* prefetch_lookup ref [I: $crate::key::IndexType]
            (index: &$crate::store::Index<I>, key: I::Key<'_>) -> () }
        $each! { $($with)* prefetch_insert ref [I: $crate::key::IndexType]
            (index: &$crate::store::Index<I>, key: I::Key<'_>) -> () }
        $each! { $($with)* prefetch ref [R: $crate::store::TableType]
            (table: &$crate::store::Table<R>, row: $crate::row::RowId, fields: $crate::row::Fields<R>) -> () }
        $each! { $($with)* find_ahead ref [I: $crate::key::IndexType]
            (index: &$crate::store::Index<I>, key: I::Key<'_>) -> Option<$crate::row::RowId> }
        $each! { $($with)* removals ref [I: $crate::key::IndexType] (index: &$crate::store::Index<I>)
            -> Option<u64> }
        $each! { $($with)* pin ref [R: $crate::store::TableType]
            (table: &$crate::store::Table<R>, row: $crate::row::RowId)
            -> $crate::error::Result<$crate::row::Row<R, Self::Pin<'_>>> }
        $each! { $($with)* update mut [R: $crate::store::TableType]
            (table: &$crate::store::Table<R>, row: $crate::row::RowId, fields: $crate::row::Fields<R>,
             change: impl FnOnce(&mut $crate::row::RowMut<'_, R>)) -> $crate::error::Result<()> }
        $each! { $($with)* set_variable mut [R: $crate::store::TableType]
            (table: &$crate::store::Table<R>, row: $crate::row::RowId, offset: usize, value: &[u8])
            -> $crate::error::Result<()> }
        $each! { $($with)* create mut [R: $crate::store::TableType]
            (table: &$crate::store::Table<R>, fill: impl FnOnce(&mut $crate::row::RowMut<'_, R>))
            -> $crate::error::Result<$crate::row::RowId> }
        $each! { $($with)* delete mut [R: $crate::store::TableType]
            (table: &$crate::store::Table<R>, row: $crate::row::RowId) -> $crate::error::Result<()> }
        $each! { $($with)* insert mut [I: $crate::key::IndexType]
            (index: &$crate::store::Index<I>, key: I::Key<'_>, row: $crate::row::RowId)
            -> $crate::error::Result<()> }
        $each! { $($with)* insert_run mut ['k, I: $crate::key::IndexType]
            (index: &$crate::store::Index<I>, rows: &[$crate::row::RowId], key: impl Fn(usize) -> I::Key<'k>)
            -> $crate::error::Result<()> }
        $each! { $($with)* remove mut [I: $crate::key::IndexType]
            (index: &$crate::store::Index<I>, key: I::Key<'_>, row: $crate::row::RowId)
            -> $crate::error::Result<bool> }
        $each! { $($with)* poison mut [] (reason: &'static str) -> () }
        $each! { $($with)* check mut [] () -> Vec<$crate::store::Damage> }
        $each! { $($with)* shared ref [] () -> Option<Box<dyn $crate::store::SharedRows + '_>> }
        $each! { $($with)* usage mut [] () -> $crate::store::Usage }
        $each! { $($with)* fail mut [] () -> $crate::error::Result<()> }
    };
}
