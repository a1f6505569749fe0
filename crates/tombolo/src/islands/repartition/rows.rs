//! The rows of a database whose number of islands changes, and the islands to which they go.
//!
//! Not here: how rows are inserted. Invariant: a table with rows of which nothing says where they belong is refused
//! before anything is copied.

use tombolo_engine::islands::membership::{Spread, spreads};
use tombolo_storage::dynamic::DynamicTable as Entries;
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::row::RowId;
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::Store;
use tombolo_storage::value::{OwnedValue, Value};

use crate::batches::RECORD_BYTES;
use crate::calls::OWN_PREFIX;
use crate::error::Error;
use crate::islands::key::Keys;
use crate::islands::opening::damaged;

/// A row's values.
pub(crate) type Row = Vec<OwnedValue>;

/// Where a row goes.
#[derive(Clone, Copy, Debug)]
enum Home {
    /// To the island of the key in this column.
    Column(usize),
    /// To each island.
    Each,
    /// To the first one: there is no other, or there are no rows.
    First,
}

/// A table of the old islands.
#[derive(Debug)]
pub(crate) struct OldTable {
    pub(crate) name: Box<str>,
    /// Its rows on each of them; of a table that is on each, those of the first.
    rows: Vec<Vec<RowId>>,
    home: Home,
}

/// How tables are spread: as recorded, and as declared now.
pub(crate) fn known_spreads<S: Store>(
    store: &mut S,
    declared: &[Spread],
) -> Result<Vec<Spread>, Error> {
    let mut all = spreads(store).map_err(damaged)?;
    all.retain(|recorded| declared.iter().all(|now| now.table != recorded.table));
    all.extend(declared.iter().cloned());
    Ok(all)
}

/// The tables of the program.
pub(crate) fn tables_of_program(schema: &Schema) -> impl Iterator<Item = &TableDef> {
    schema.tables.iter().filter(|table| !table.name.starts_with(OWN_PREFIX))
}

/// The program's tables on the islands in `stores`, whose rows go to `islands` others.
///
/// # Errors
/// [`Error::Schema`] for a table of which nothing says where its rows go.
pub(crate) fn old_tables<S: Store>(
    stores: &mut [&mut S],
    spreads: &[Spread],
    islands: usize,
) -> Result<Vec<OldTable>, Error> {
    let schema = stores[0].schema().clone();
    let table = |table: &TableDef| {
        let column = |name: &String| table.columns.iter().position(|one| *one.name == **name);
        let spread = spreads.iter().find(|spread| *spread.table == *table.name);
        let home = match spread {
            Some(Spread { column: None, .. }) => Some(Home::Each),
            Some(Spread { column: Some(name), .. }) => column(name).map(Home::Column),
            None => None,
        };
        let read = if matches!(home, Some(Home::Each)) { 1 } else { stores.len() };
        let rows = stores[..read].iter_mut().map(|store| row_ids(*store, &table.name));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        if home.is_none() && islands > 1 && rows.iter().any(|rows| !rows.is_empty()) {
            return Err(Error::Schema(format!(
                "nothing says how table {} is spread, so its rows have no island: open the database with spread_by, \
                 or everywhere, for this table, then try again",
                table.name
            )));
        }
        Ok(OldTable { name: (*table.name).into(), rows, home: home.unwrap_or(Home::First) })
    };
    tables_of_program(&schema).map(table).collect()
}

impl OldTable {
    /// How many rows it has.
    pub(crate) fn count(&self) -> u64 {
        self.rows.iter().map(|rows| rows.len() as u64).sum()
    }

    /// Gives each row to `add`, with an island to which it goes among so many, and about how many bytes it logs.
    pub(crate) fn each_row<S: Store>(
        &self,
        stores: &mut [&mut S],
        (keys, islands): (&Keys, usize),
        mut add: impl FnMut(usize, Row, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for (store, rows) in stores.iter_mut().zip(&self.rows) {
            visit(*store, &self.name, rows, |values| {
                let to = match self.home {
                    Home::First => 0..1,
                    Home::Each => 0..islands,
                    Home::Column(column) => {
                        let island = keys.island_of_value(values[column], islands);
                        let no_key = || format!("{:?} is no key of islands", values[column]);
                        let island = island.ok_or_else(|| Error::Schema(no_key()))?.index();
                        island..island + 1
                    }
                };
                for island in to {
                    let row = values.iter().map(OwnedValue::of).collect();
                    add(island, row, row_bytes(values))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The rows of a table.
pub(crate) fn row_ids<S: Store>(store: &mut S, table: &str) -> Result<Vec<RowId>, Error> {
    let Some(position) = store.schema().table(table) else { return Ok(Vec::new()) };
    let entries = Entries::new(store.schema(), position);
    let mut read = || -> Result<_, StoreError> {
        store.begin()?;
        let rows = entries.row_ids(store)?;
        store.commit()?;
        Ok(rows)
    };
    read().map_err(damaged)
}

/// Gives the values of these rows of a table to `visit`.
pub(crate) fn visit<S: Store>(
    store: &mut S,
    table: &str,
    rows: &[RowId],
    mut visit: impl FnMut(&[Value<'_>]) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(position) = store.schema().table(table) else { return Ok(()) };
    let entries = Entries::new(store.schema(), position);
    let mut read = || -> Result<_, StoreError> {
        store.begin()?;
        let mut visited = rows.iter().map(|row| entries.read(store, *row, &mut visit));
        let refused = visited.find(|visited| !matches!(visited, Ok(Ok(())))).transpose()?;
        store.commit()?;
        Ok(refused)
    };
    read().map_err(damaged)?.unwrap_or(Ok(()))
}

/// About how many bytes a row logs.
pub(crate) fn row_bytes(values: &[Value<'_>]) -> usize {
    let bytes = |value: &Value<'_>| match value {
        Value::Text(text) => text.len() + size_of::<u64>(),
        Value::Bytes(bytes) => bytes.len() + size_of::<u64>(),
        _ => size_of::<i128>(),
    };
    values.iter().map(bytes).sum::<usize>() + RECORD_BYTES
}
