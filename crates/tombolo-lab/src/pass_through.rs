//! What the stores around a store have in common: the calls they hand on as they are.
//!
//! A store that counts, numbers or announces some calls holds the other in its field `store` and
//! names the rest in [`pass_through!`](pass_through), in its `impl Store`. Everything is inlined: a
//! call that passes through costs nothing. Not here: what happens to the other calls.

/// In an `impl<S: Store> Store for ...`: the associated items, and the calls named, are those of the
/// field `store`.
macro_rules! pass_through {
    ($($call:ident)*) => {
        type Pin<'a>
            = S::Pin<'a>
        where
            Self: 'a;

        const UNDO: bool = S::UNDO;

        $($crate::pass_through::call! { $call })*
    };
}

/// One call that passes through.
macro_rules! call {
    (schema) => {
        #[inline(always)]
        fn schema(&self) -> &tombolo_storage::schema::Schema {
            self.store.schema()
        }
    };
    (create_table) => {
        #[inline(always)]
        fn create_table(
            &mut self,
            table: tombolo_storage::schema::TableDef,
        ) -> std::result::Result<(), tombolo_storage::error::SchemaError> {
            self.store.create_table(table)
        }
    };
    (shared) => {
        #[inline(always)]
        fn shared(&self) -> Option<tombolo_storage::memory::SharedView<'_>> {
            self.store.shared()
        }
    };
    (begin) => {
        #[inline(always)]
        fn begin(&mut self) -> tombolo_storage::error::Result<()> {
            self.store.begin()
        }
    };
    (phase) => {
        #[inline(always)]
        fn phase(&self) -> tombolo_storage::store::Phase {
            self.store.phase()
        }
    };
    (begin_writes) => {
        #[inline(always)]
        fn begin_writes(&mut self) {
            self.store.begin_writes();
        }
    };
    (commit) => {
        #[inline(always)]
        fn commit(&mut self) -> tombolo_storage::error::Result<()> {
            self.store.commit()
        }
    };
    (abort) => {
        #[inline(always)]
        fn abort(&mut self) -> tombolo_storage::error::Result<()> {
            self.store.abort()
        }
    };
    (lookup) => {
        #[inline(always)]
        fn lookup<I: tombolo_storage::key::IndexType>(
            &mut self,
            index: &tombolo_storage::store::Index<I>,
            key: I::Key<'_>,
        ) -> tombolo_storage::error::Result<Option<tombolo_storage::row::RowId>> {
            self.store.lookup(index, key)
        }
    };
    (lookup_for_update) => {
        #[inline(always)]
        fn lookup_for_update<I: tombolo_storage::key::IndexType>(
            &mut self,
            index: &tombolo_storage::store::Index<I>,
            key: I::Key<'_>,
        ) -> tombolo_storage::error::Result<Option<tombolo_storage::row::RowId>> {
            self.store.lookup_for_update(index, key)
        }
    };
    (lookup_many) => {
        #[inline(always)]
        fn lookup_many<I: tombolo_storage::key::IndexType>(
            &mut self,
            index: &tombolo_storage::store::Index<I>,
            keys: &[I::Key<'_>],
            found: &mut [Option<tombolo_storage::row::RowId>],
        ) -> tombolo_storage::error::Result<()> {
            self.store.lookup_many(index, keys, found)
        }
    };
    (lookup_many_for_update) => {
        #[inline(always)]
        fn lookup_many_for_update<I: tombolo_storage::key::IndexType>(
            &mut self,
            index: &tombolo_storage::store::Index<I>,
            keys: &[I::Key<'_>],
            found: &mut [Option<tombolo_storage::row::RowId>],
        ) -> tombolo_storage::error::Result<()> {
            self.store.lookup_many_for_update(index, keys, found)
        }
    };
    (scan) => {
        #[inline(always)]
        fn scan<I: tombolo_storage::key::IndexType>(
            &mut self,
            index: &tombolo_storage::store::Index<I>,
            range: tombolo_storage::key::Range<I::Key<'_>>,
            order: tombolo_storage::store::Order,
            visit: impl FnMut(tombolo_storage::row::RowId) -> std::ops::ControlFlow<()>,
        ) -> tombolo_storage::error::Result<()> {
            self.store.scan(index, range, order, visit)
        }
    };
    (rows) => {
        #[inline(always)]
        fn rows<R: tombolo_storage::store::TableType>(
            &mut self,
            table: &tombolo_storage::store::Table<R>,
            visit: impl FnMut(tombolo_storage::row::RowId) -> std::ops::ControlFlow<()>,
        ) -> tombolo_storage::error::Result<()> {
            self.store.rows(table, visit)
        }
    };
    (prefetch_lookup) => {
        #[inline(always)]
        fn prefetch_lookup<I: tombolo_storage::key::IndexType>(
            &self,
            index: &tombolo_storage::store::Index<I>,
            key: I::Key<'_>,
        ) {
            self.store.prefetch_lookup(index, key);
        }
    };
    (prefetch_insert) => {
        #[inline(always)]
        fn prefetch_insert<I: tombolo_storage::key::IndexType>(
            &self,
            index: &tombolo_storage::store::Index<I>,
            key: I::Key<'_>,
        ) {
            self.store.prefetch_insert(index, key);
        }
    };
    (prefetch) => {
        #[inline(always)]
        fn prefetch<R: tombolo_storage::store::TableType>(
            &self,
            table: &tombolo_storage::store::Table<R>,
            row: tombolo_storage::row::RowId,
            fields: tombolo_storage::row::Fields<R>,
        ) {
            self.store.prefetch(table, row, fields);
        }
    };
    (find_ahead) => {
        #[inline(always)]
        fn find_ahead<I: tombolo_storage::key::IndexType>(
            &self,
            index: &tombolo_storage::store::Index<I>,
            key: I::Key<'_>,
        ) -> Option<tombolo_storage::row::RowId> {
            self.store.find_ahead(index, key)
        }
    };
    (removals) => {
        #[inline(always)]
        fn removals<I: tombolo_storage::key::IndexType>(
            &self,
            index: &tombolo_storage::store::Index<I>,
        ) -> Option<u64> {
            self.store.removals(index)
        }
    };
    (pin) => {
        #[inline(always)]
        fn pin<R: tombolo_storage::store::TableType>(
            &self,
            table: &tombolo_storage::store::Table<R>,
            row: tombolo_storage::row::RowId,
        ) -> tombolo_storage::error::Result<tombolo_storage::row::Row<R, Self::Pin<'_>>> {
            self.store.pin(table, row)
        }
    };
    (update) => {
        #[inline(always)]
        fn update<R: tombolo_storage::store::TableType>(
            &mut self,
            table: &tombolo_storage::store::Table<R>,
            row: tombolo_storage::row::RowId,
            fields: tombolo_storage::row::Fields<R>,
            change: impl FnOnce(&mut tombolo_storage::row::RowMut<'_, R>),
        ) -> tombolo_storage::error::Result<()> {
            self.store.update(table, row, fields, change)
        }
    };
    (set_variable) => {
        #[inline(always)]
        fn set_variable<R: tombolo_storage::store::TableType>(
            &mut self,
            table: &tombolo_storage::store::Table<R>,
            row: tombolo_storage::row::RowId,
            offset: usize,
            value: &[u8],
        ) -> tombolo_storage::error::Result<()> {
            self.store.set_variable(table, row, offset, value)
        }
    };
    (create) => {
        #[inline(always)]
        fn create<R: tombolo_storage::store::TableType>(
            &mut self,
            table: &tombolo_storage::store::Table<R>,
            fill: impl FnOnce(&mut tombolo_storage::row::RowMut<'_, R>),
        ) -> tombolo_storage::error::Result<tombolo_storage::row::RowId> {
            self.store.create(table, fill)
        }
    };
    (delete) => {
        #[inline(always)]
        fn delete<R: tombolo_storage::store::TableType>(
            &mut self,
            table: &tombolo_storage::store::Table<R>,
            row: tombolo_storage::row::RowId,
        ) -> tombolo_storage::error::Result<()> {
            self.store.delete(table, row)
        }
    };
    (insert) => {
        #[inline(always)]
        fn insert<I: tombolo_storage::key::IndexType>(
            &mut self,
            index: &tombolo_storage::store::Index<I>,
            key: I::Key<'_>,
            row: tombolo_storage::row::RowId,
        ) -> tombolo_storage::error::Result<()> {
            self.store.insert(index, key, row)
        }
    };
    (insert_run) => {
        #[inline(always)]
        fn insert_run<'k, I: tombolo_storage::key::IndexType>(
            &mut self,
            index: &tombolo_storage::store::Index<I>,
            rows: &[tombolo_storage::row::RowId],
            key: impl Fn(usize) -> I::Key<'k>,
        ) -> tombolo_storage::error::Result<()> {
            self.store.insert_run(index, rows, key)
        }
    };
    (remove) => {
        #[inline(always)]
        fn remove<I: tombolo_storage::key::IndexType>(
            &mut self,
            index: &tombolo_storage::store::Index<I>,
            key: I::Key<'_>,
            row: tombolo_storage::row::RowId,
        ) -> tombolo_storage::error::Result<bool> {
            self.store.remove(index, key, row)
        }
    };
    (poison) => {
        #[inline(always)]
        fn poison(&mut self, reason: &'static str) {
            self.store.poison(reason);
        }
    };
    (check) => {
        #[inline(always)]
        fn check(&mut self) -> Vec<tombolo_storage::store::Damage> {
            self.store.check()
        }
    };
    (usage) => {
        #[inline(always)]
        fn usage(&mut self) -> tombolo_storage::store::Usage {
            self.store.usage()
        }
    };
    (fail) => {
        #[inline(always)]
        fn fail(&mut self) -> tombolo_storage::error::Result<()> {
            self.store.fail()
        }
    };
}

pub(crate) use {call, pass_through};
