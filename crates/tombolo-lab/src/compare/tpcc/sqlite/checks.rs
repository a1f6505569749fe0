//! The twelve consistency conditions (3.3.2.1 – 3.3.2.12) asked of SQLite in SQL, and the state
//! hash of its rows.
//!
//! Every query finds a place where its condition does not hold. The readings are those of our own
//! conditions (`workload/tpcc/checks.rs`); the code shares nothing with them but the names.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, OptionalExtension, Result, Row};
use tombolo_storage::schema::{ColumnDef, TableDef};
use tombolo_storage::types::SqlType;
use tombolo_storage::value::Value;

use crate::compare::sqlite::sections;
use crate::rows::StateHash;

/// Sums, and the queries that ask for them and find a violation, each under the name of its check. A range of keys is
/// all rows whose key begins with another.
const QUERIES: &str = include_str!("checks.sql");

/// The name of each check and its query.
pub(super) fn queries() -> impl Iterator<Item = (&'static str, &'static str)> {
    sections(QUERIES).skip(1)
}

/// Where the condition that `query` asks does not hold, if anywhere.
pub(super) fn violation(connection: &Connection, query: &str) -> Result<Option<String>> {
    let (_, sums) = sections(QUERIES).next().expect("sums come first");
    let query = format!("{sums}{query} LIMIT 1");
    connection.query_row(&query, [], |row| row.get(0)).optional()
}

/// The errors that SQLite finds in its pages and indexes, if any.
pub(super) fn damage(connection: &Connection) -> Result<Option<String>> {
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok((found != "ok").then_some(found))
}

/// The hash of the rows of `tables`, as our own of the same rows.
pub(super) fn state_hash(connection: &Connection, tables: &[TableDef]) -> Result<StateHash> {
    let mut hash = StateHash::default();
    let mut text = Vec::new();
    for table in tables {
        let columns: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
        let query = format!("SELECT {} FROM {}", columns.join(", "), table.name);
        let mut statement = connection.prepare(&query)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            text.clear();
            for (position, column) in table.columns.iter().enumerate() {
                if position > 0 {
                    text.push(b'\t');
                }
                value(row, position, column)?.copy_bytes(&mut text);
            }
            hash.add(&table.name, &text);
        }
    }
    Ok(hash)
}

/// The value of a column as our store would give it.
fn value<'r>(row: &'r Row<'_>, position: usize, column: &ColumnDef) -> Result<Value<'r>> {
    let stored = row.get_ref(position)?;
    Ok(match (stored, column.sql) {
        (ValueRef::Null, _) => Value::Null,
        (ValueRef::Text(_), SqlType::Char(_) | SqlType::Varchar(_)) => {
            Value::Text(stored.as_str()?)
        }
        (ValueRef::Integer(n), SqlType::SmallInt | SqlType::Integer) => Value::Integer(n),
        (ValueRef::Integer(n), SqlType::Timestamp) => Value::Timestamp(n),
        (ValueRef::Integer(n), SqlType::Decimal { scale, .. }) => {
            Value::Decimal { units: n.into(), scale }
        }
        _ => {
            let name = column.name.to_string();
            return Err(Error::InvalidColumnType(position, name, stored.data_type()));
        }
    })
}
