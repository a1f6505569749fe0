//! Rows by their key, counted, and as values of a struct: read, made and replaced as a whole.
//!
//! Not here: how a struct becomes a row (`derived.rs`), single columns (`mod.rs`).

use tombolo_storage::key::IndexType;
use tombolo_storage::row::RowId;
use tombolo_storage::schema::DeclaredIndex;
use tombolo_storage::store::{Index, Table, TableType};

use super::guarded::{on, while_held};
use super::{Of, RowRef, Tx, replace};
use crate::error::Result;
use crate::tx::derived::{RowIndex, TableRow};

impl Tx<'_> {
    /// A row, as a value of its struct.
    ///
    /// ```
    /// use tombolo::{Database, Table};
    ///
    /// #[derive(Table, Debug, PartialEq)]
    /// #[index(ByName(name))]
    /// struct Planet {
    ///     #[key]
    ///     id: i16,
    ///     name: String,
    ///     #[column(sql = Decimal<9, 3>)]
    ///     mass: i64, // in thousandths
    ///     discovered: Option<i32>,
    /// }
    ///
    /// let db = Database::builder().define::<Planet>().in_memory()?;
    /// let (planets, by_id) = (db.table::<Planet>()?, db.index::<PlanetKey>()?);
    /// let found = db.transaction(move |tx| {
    ///     let mars = Planet { id: 4, name: "Mars".into(), mass: 107, discovered: None };
    ///     let row = tx.insert_row(&planets, &mars)?;
    ///     assert_eq!(tx.read_row(&planets, row)?, mars);
    ///     tx.update_row(&planets, row, &Planet { name: "Ares".into(), ..mars })?;
    ///     assert_eq!(tx.count(&planets)?, 1);
    ///     Ok(tx.find_row(&by_id, 4)?.map(|(_, planet)| planet.name))
    /// })?;
    /// assert_eq!(found.as_deref(), Some("Ares"));
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NoSuchRow`.
    pub fn read_row<R: TableRow>(&self, table: &Table<R>, row: RowId) -> Result<R> {
        Ok(R::read(&self.get(table, row)?))
    }

    /// The row that an index holds for `key`, or the first one if the index is not unique: its id, and the row,
    /// to be read in place.
    ///
    /// # Errors
    /// What the store refuses.
    #[inline(always)]
    pub fn find<I: DeclaredIndex + IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<(RowId, RowRef<'_, I::Table>)>> {
        if self.pass(index.database(), Of::Index(index.position()))?.is_some() {
            return self.find_guarded(index, key);
        }
        let found = self.store.find_named(index, key)?;
        Ok(found.map(|(id, row)| (id, RowRef::of(row))))
    }

    /// [`Tx::find`], if parts are held.
    #[cold]
    fn find_guarded<I: DeclaredIndex + IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<(RowId, RowRef<'_, I::Table>)>> {
        let Some(row) = self.lookup(index, key)? else { return Ok(None) };
        Ok(Some((row, self.get(&self.store.table_of(index), row)?)))
    }

    /// How many rows a table has, as the transaction sees it.
    ///
    /// # Errors
    /// A handle of another database, or a call that has ended.
    pub fn count<R: TableType>(&self, table: &Table<R>) -> Result<u64> {
        if let Some(guard) = self.pass(table.database(), Of::Table(table.position()))? {
            while_held(move || guard.admit_table(table))?;
        }
        Ok(self.store.rows_number(table))
    }

    /// The row that an index holds for `key`, or the first one if the index is not unique, as a value of its
    /// struct, and its id.
    ///
    /// # Errors
    /// What the store refuses.
    pub fn find_row<I: DeclaredIndex<Table: TableRow> + IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<Option<(RowId, I::Table)>> {
        let found = self.find(index, key)?;
        Ok(found.map(|(id, row)| (id, I::Table::read(&row))))
    }

    /// Makes a row of a value of its struct, or replaces the row that has its key in a unique index. Returns
    /// the row's id, and whether it was made.
    ///
    /// ```
    /// # use tombolo::{Database, Table};
    /// #[derive(Table)]
    /// struct Price {
    ///     #[key]
    ///     item: u32,
    ///     cents: i64,
    /// }
    /// # let db = Database::builder().define::<Price>().in_memory()?;
    /// # let by_item = db.index::<PriceKey>()?;
    /// # db.transaction(move |tx| {
    /// let (row, is_new) = tx.upsert_row(&by_item, &Price { item: 7, cents: 9_99 })?;
    /// assert_eq!((row, false), tx.upsert_row(&by_item, &Price { item: 7, cents: 8_99 })?);
    /// # assert!(is_new);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tx::insert`]; `Duplicate` for another unique index than this one.
    /// An index that is not unique does not compile: it does not say which row is meant.
    pub fn upsert_row<I: RowIndex>(
        &mut self,
        index: &Index<I>,
        value: &I::Table,
    ) -> Result<(RowId, bool)> {
        const { assert!(I::UNIQUE, "a row is replaced by a unique key") };
        let table = self.store.table_of(index);
        match self.lookup(index, I::key_of(value))? {
            Some(row) => self.update_row(&table, row, value).map(|()| (row, false)),
            None => self.insert_row(&table, value).map(|row| (row, true)),
        }
    }

    /// Makes a row of a value of its struct, with all its index entries.
    ///
    /// # Errors
    /// As [`Tx::insert`].
    pub fn insert_row<R: TableRow>(&mut self, table: &Table<R>, value: &R) -> Result<RowId> {
        self.insert(table, |row| value.fill(row))
    }

    /// Replaces a row by a value of its struct; index entries whose keys change move. All of it is
    /// written to the log: [`Tx::set`] and [`Tx::update`] write what changed.
    ///
    /// # Errors
    /// As [`Tx::update`].
    pub fn update_row<R: TableRow>(
        &mut self,
        table: &Table<R>,
        row: RowId,
        value: &R,
    ) -> Result<()> {
        let guard = self.pass_write(table.database(), Of::Table(table.position()))?;
        let entries = &self.tables.entries[table.position()];
        let updated =
            on!(self, guard, table, |store, row| replace(store, entries, (table, row), value));
        self.written(updated)
    }
}
