//! The columns that are added to items: a rating, for which slots have room, and a remark, for which rows
//! that may be rated get longer.
//!
//! Handles of items that were made before either was there stay in use (`tables.rs`). Here are those
//! that know the columns, as far as the store has them. Not here: when a column is added (the engines).

use tombolo_engine::transaction::{Stop, Transaction};
use tombolo_storage::error::{Error, SchemaError};
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::snapshot::{Slice, Snapshot, SnapshotCursor};
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::row::{Fields, Row, RowBytes, RowId};
use tombolo_storage::schema::{ColumnDef, DeclaredTable, Schema};
use tombolo_storage::store::{Store, Table, resolve_table};

use super::model::{ItemRow, Later, RATING, REMARK, item_number};
use super::request::{ItemKey, Text};
use super::tables::{Item, definition, name_in};

tombolo_storage::table! {
    /// Items with their ratings.
    pub struct RatedItem = "item" {
        GROUP: SmallInt [0..=99];
        ID: Integer [0..=9_999];
        NAME: Varchar<12>;
        BODY: Text;
        RATING: Nullable<SmallInt> => added;
    }
}
tombolo_storage::table! {
    /// Items with ratings and remarks.
    pub struct FullItem = "item" {
        GROUP: SmallInt [0..=99];
        ID: Integer [0..=9_999];
        NAME: Varchar<12>;
        BODY: Text;
        RATING: Nullable<SmallInt> => added;
        REMARK: Text => added;
    }
}

/// How many columns there are in the end.
pub(crate) const COLUMNS_MAX: usize = 2;

/// The table of all columns that are added.
pub(crate) const TABLE: &str = "item";

/// Its place among the workload's tables.
const POSITION: usize = 2;

/// The definition of the column that is added as number `number`, from 0.
pub(crate) fn added_column(number: usize) -> ColumnDef {
    FullItem::COLUMNS[definition(POSITION).columns.len() + number].clone()
}

/// How many of a schema's columns were added.
pub(crate) fn count(schema: &Schema) -> usize {
    schema.table(TABLE).map_or(0, |position| {
        schema.tables[position].columns.len() - definition(POSITION).columns.len()
    })
}

/// Handles of items with what was added.
#[derive(Clone, Debug)]
pub(super) struct AddedColumns {
    pub(super) rated: Option<Table<RatedItem>>,
    pub(super) full: Option<Table<FullItem>>,
}

/// What a row that was pinned holds in the columns its handle knows.
pub(super) fn later_of_rated<P: RowBytes>(row: &Row<RatedItem, P>) -> Later {
    Later { rating: row.get(RatedItem::RATING), remark: Vec::new() }
}

/// The same with all columns.
pub(super) fn later_of_full<P: RowBytes>(row: &Row<FullItem, P>) -> Later {
    Later { rating: row.get(FullItem::RATING), remark: row.get(FullItem::REMARK).to_vec() }
}

/// What a row holds in the columns of `$columns`, from a store or in a transaction.
macro_rules! later {
    ($columns:expr, $from:expr, $row:expr) => {
        match &$columns {
            AddedColumns { full: Some(table), .. } => $from
                .pin(table, $row)
                .map(|row| crate::workload::added_columns::later_of_full(&row)),
            AddedColumns { rated: Some(table), .. } => $from
                .pin(table, $row)
                .map(|row| crate::workload::added_columns::later_of_rated(&row)),
            _ => Ok(crate::workload::model::Later::default()),
        }
    };
}
pub(super) use later;

impl AddedColumns {
    /// Those that the schema has.
    ///
    /// # Errors
    /// When they are others.
    pub(super) fn of(schema: &Schema) -> Result<Self, SchemaError> {
        let columns = count(schema);
        Ok(Self {
            rated: (columns > RATING).then(|| resolve_table(schema)).transpose()?,
            full: (columns > REMARK).then(|| resolve_table(schema)).transpose()?,
        })
    }

    /// Makes an item with all columns, if they are there.
    pub(super) fn create<S: Store>(
        &self,
        tx: &mut Transaction<'_, S>,
        item: ItemKey,
        name: &[u8],
    ) -> Result<Option<RowId>, Error> {
        let Some(table) = &self.full else { return Ok(None) };
        let row = tx.create(table, |row| {
            row.set(FullItem::GROUP, item.0);
            row.set(FullItem::ID, item.1);
            row.set(FullItem::NAME, name);
        })?;
        Ok(Some(row))
    }

    /// Sets an item's rating; what it was. `None` aborts.
    pub(super) fn rate<S: Store>(
        &self,
        tx: &mut Transaction<'_, S>,
        row: RowId,
        rating: Option<i16>,
    ) -> Result<Option<u64>, Stop> {
        let Some(table) = &self.rated else { return Ok(None) };
        let mut before = None;
        tx.update(table, row, Fields::none().with(RatedItem::RATING), |row| {
            before = row.get(RatedItem::RATING);
            row.set(RatedItem::RATING, rating);
        })?;
        Ok(Some(before.unwrap_or_default() as u64))
    }

    /// Sets the remark on an item; how long it was. `None` aborts.
    pub(super) fn remark<S: Store>(
        &self,
        tx: &mut Transaction<'_, S>,
        row: RowId,
        remark: Text,
    ) -> Result<Option<u64>, Stop> {
        let Some(table) = &self.full else { return Ok(None) };
        let before = tx.pin(table, row)?.get(FullItem::REMARK).len();
        tx.set_variable(table, row, FullItem::REMARK.offset(), &remark.to_vec())?;
        Ok(Some(before as u64))
    }

    /// See `Handles::read_slice`.
    pub(super) fn read_slice<P: MemoryProfile>(
        &self,
        store: &MemoryStore<P>,
        snapshot: &Snapshot,
        item: &Table<Item>,
        cursor: &mut SnapshotCursor,
        rows_max: usize,
        number: &mut u64,
    ) -> Result<Slice, Error> {
        macro_rules! slice {
            ($table:expr, $item:ident, $later:expr) => {
                store.read_slice(snapshot, $table, cursor, rows_max, |_, row| {
                    let key = (row.get($item::GROUP), row.get($item::ID));
                    let (name, body) = (name_in(row.get($item::NAME)), row.get($item::BODY));
                    let later = $later(&row);
                    *number ^= item_number(key, &ItemRow { name, body: body.to_vec(), later });
                })
            };
        }
        match self {
            Self { full: Some(table), .. } => slice!(table, FullItem, later_of_full),
            Self { rated: Some(table), .. } => slice!(table, RatedItem, later_of_rated),
            _ => slice!(item, Item, |_: &_| Later::default()),
        }
    }
}
