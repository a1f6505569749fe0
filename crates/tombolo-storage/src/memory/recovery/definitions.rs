//! What a log says of tables, indexes and columns, replayed into a schema.
//!
//! A record may have been replayed before, or be in an image, whose definitions may be newer: it does
//! nothing then. Not here: rows.

use crate::schema::Schema;
use crate::value_log::definition;

/// Adds a table; its position if it is new.
///
/// # Errors
/// What is wrong with it, in words.
pub(in crate::memory) fn create_table(
    schema: &mut Schema,
    bytes: &[u8],
) -> Result<Option<usize>, String> {
    let table = definition::decode(bytes)
        .ok_or("a table's definition cannot be read: it is damaged, or of another build")?;
    if let Some(position) = schema.table(&table.name)
        && schema.tables[position].extends(&table)
    {
        // Perhaps with indexes that come later in the log.
        return Ok(None);
    }
    schema.add(table).map(Some).map_err(|error| error.to_string())
}

/// Adds an index. Its entries follow from the rows, as those of all indexes.
///
/// # Errors
/// What is wrong with it, in words.
pub(in crate::memory) fn create_index(
    schema: &mut Schema,
    table: usize,
    bytes: &[u8],
) -> Result<(), String> {
    let index = definition::decode_index(bytes).ok_or("an index's definition cannot be read")?;
    let Some(known) = schema.tables.get(table) else {
        return Err(format!("an index of table {table}, which was not created yet"));
    };
    if known.indexes.contains(&index) {
        return Ok(());
    }
    schema.add_index(table, index).map(|_| ()).map_err(|error| error.to_string())
}

/// Adds a column; whether it is new.
///
/// # Errors
/// What is wrong with it, in words.
pub(in crate::memory) fn add_column(
    schema: &mut Schema,
    table: usize,
    bytes: &[u8],
) -> Result<bool, String> {
    let column = definition::decode_column(bytes)
        .ok_or("a column's definition cannot be read: it is damaged, or of another build")?;
    let Some(known) = schema.tables.get(table) else {
        return Err(format!("a column of table {table}, which was not created yet"));
    };
    if known.columns.contains(&column) {
        return Ok(false);
    }
    schema.add_column(table, column).map_err(|error| error.to_string())?;
    Ok(true)
}
