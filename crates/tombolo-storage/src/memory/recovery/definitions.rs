//! What a log says of tables, indexes and columns, replayed into a schema.
//!
//! A record may have been replayed before, or be in an image, whose definitions may be newer: it does
//! nothing then. Rows name tables by their positions and columns by their places, so a record that finds
//! another position than it was written for is refused: a log that lost a definition before it, on a
//! medium that lost the catalogue with it, too, would give its rows to others. Not here: rows.

use crate::schema::Schema;
use crate::value_log::definition;

/// Adds a table; its position if it is new.
///
/// # Errors
/// What is wrong with it, in words.
pub(in crate::memory) fn create_table(
    schema: &mut Schema,
    logged_as: Option<u32>,
    bytes: &[u8],
) -> Result<Option<usize>, String> {
    let table = definition::decode(bytes)
        .ok_or("a table's definition cannot be read: it is damaged, or of another build")?;
    let known = schema.table(&table.name).filter(|&known| schema.tables[known].extends(&table));
    let position = match known {
        // Perhaps with indexes that come later in the log.
        Some(known) => known,
        None => schema.add(table).map_err(|error| error.to_string())?,
    };
    is_in_place("table", &schema.tables[position].name, logged_as, position)?;
    Ok(known.is_none().then_some(position))
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
    logged_as: Option<u32>,
    bytes: &[u8],
) -> Result<bool, String> {
    let column = definition::decode_column(bytes)
        .ok_or("a column's definition cannot be read: it is damaged, or of another build")?;
    let Some(known) = schema.tables.get(table) else {
        return Err(format!("a column of table {table}, which was not created yet"));
    };
    let known = known.columns.iter().position(|known| *known == column);
    let position = match known {
        Some(known) => known,
        None => schema.add_column(table, column).map_err(|error| error.to_string())?,
    };
    is_in_place("column", &schema.tables[table].columns[position].name, logged_as, position)?;
    Ok(known.is_none())
}

/// Whether it is, or comes to be, at the position it was logged for, if the log says.
fn is_in_place(
    what: &str,
    name: &str,
    logged_as: Option<u32>,
    position: usize,
) -> Result<(), String> {
    match logged_as {
        Some(logged_as) if logged_as as usize != position => Err(format!(
            "{what} `{name}` was made as number {logged_as} and would be number {position}: \
             the definition of another one is lost"
        )),
        _ => Ok(()),
    }
}
