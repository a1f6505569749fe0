//! Loads into SQLite the rows that our own loader makes, by one prepared INSERT per table.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Result, Statement};
use tombolo_engine::threads;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::Bare;
use tombolo_storage::row::RowBytes;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::{Store, dynamic_table};
use tombolo_storage::value::{ColumnReader, Value};

use super::schema;
use crate::compare::sqlite::failed;
use crate::failure::{Blamed, Failure};
use crate::store::DynamicStore;
use crate::workload::rows::in_transaction;
use crate::workload::tpcc::loader::{self, Scale};

/// The parameter that is this text, without a check that it is UTF-8: rows hold ASCII only.
pub(super) fn text(bytes: &[u8]) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(ValueRef::Text(bytes))
}

/// Loads the initial database; calls `progress` after each table.
pub(super) fn load(
    connection: &Connection,
    scale: Scale,
    progress: &mut dyn FnMut(f64),
) -> Result<(), Failure> {
    let mut store = MemoryStore::<Bare>::new(Limits::default());
    loader::load(&mut store, scale, threads::available(), |_, _| ()).or_environment()?;
    let schema = Store::schema(&store).clone();
    for (position, table) in schema.live_tables() {
        let handle = dynamic_table(&schema, position);
        let mut insert = Insert::prepare(connection, table).map_err(failed)?;
        let mut inserted = Ok(());
        let read = in_transaction(&mut store, |store: &mut dyn DynamicStore| {
            store.each_row(&handle, &mut |row| {
                if inserted.is_ok() {
                    inserted = insert.row(row);
                }
            })
        });
        read.or_check()?;
        inserted.map_err(failed)?;
        progress((position + 1) as f64 / schema.tables.len() as f64);
    }
    Ok(())
}

/// The INSERT of a table: its packed key, if it has one, and all columns that are not in that.
struct Insert<'c> {
    statement: Statement<'c>,
    /// The columns of the key, with their bits.
    key: Vec<(ColumnReader, u32)>,
    others: Vec<ColumnReader>,
}

impl<'c> Insert<'c> {
    fn prepare(connection: &'c Connection, table: &TableDef) -> Result<Self> {
        let packed = schema::KEYS.iter().find(|key| *key.table == *table.name);
        let in_key = packed.map_or(&[][..], |key| key.columns);
        let (mut names, mut others) = (Vec::from_iter(packed.map(|key| key.name)), Vec::new());
        // As the key has them, which is another order than the table's.
        let mut key: Vec<_> = in_key.iter().map(|_| None).collect();
        for (position, column) in table.columns.iter().enumerate() {
            let reader = ColumnReader::new(&table.columns, position);
            match in_key.iter().position(|(name, _)| *name == &*column.name) {
                Some(place) => key[place] = Some((reader, in_key[place].1)),
                None => {
                    names.push(&column.name);
                    others.push(reader);
                }
            }
        }
        let key = key.into_iter().flatten().collect();
        let marks = vec!["?"; names.len()].join(", ");
        let (table, names) = (&table.name, names.join(", "));
        let insert = format!("INSERT INTO {table} ({names}) VALUES ({marks})");
        Ok(Self { statement: connection.prepare(&insert)?, key, others })
    }

    fn row(&mut self, row: &dyn RowBytes) -> Result<()> {
        let mut bound = 0;
        let mut bind = |value: ToSqlOutput<'_>| {
            bound += 1;
            self.statement.raw_bind_parameter(bound, value)
        };
        if !self.key.is_empty() {
            let pack = |key, (column, bits): &(ColumnReader, u32)| match column.read(row) {
                Value::Integer(part) => key << bits | part,
                _ => key,
            };
            bind(self.key.iter().fold(0_i64, pack).into())?;
        }
        for column in &self.others {
            bind(match column.read(row) {
                Value::Integer(number) | Value::Timestamp(number) => number.into(),
                Value::Decimal { units, .. } => (units as i64).into(),
                Value::Text(value) => text(value.as_bytes()),
                _ => rusqlite::types::Null.into(),
            })?;
        }
        self.statement.raw_execute().map(drop)
    }
}
