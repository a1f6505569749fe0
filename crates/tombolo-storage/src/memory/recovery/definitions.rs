//! What a log says of tables, indexes and columns, replayed into a schema.
//!
//! A record may have been replayed before, or be in an image, whose definitions may be newer: it does
//! nothing then. Changes are numbered, so a schema knows by their count which changes it holds,
//! whatever was dropped and made again since. Earlier builds did not number them, and
//! dropped nothing: their changes are known by what they made.
//!
//! Rows name tables by their positions and columns by their places, so a record that finds
//! another number or position than it was written for is refused: a log that lost a definition before
//! it, on a medium that lost the catalogue with it, too, would give its rows to others. Not here: rows.

use crate::schema::Schema;
use crate::value_log::{SchemaKind, SchemaRecord, definition};

/// What a change of the schema means for rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::memory) enum Effect {
    /// None: it is of an index, or was made before.
    None,
    /// There is a table more, the last.
    TableCreated,
    /// The table at this position has a column more, its last.
    ColumnAdded(usize),
    /// The table at this position is gone.
    TableDropped(usize),
    /// The table at this position has a column less.
    ColumnDropped(usize),
}

/// Makes a change, unless it was made.
///
/// # Errors
/// What is wrong with it, in words.
pub(in crate::memory) fn apply(
    schema: &mut Schema,
    change: &SchemaRecord<'_>,
) -> Result<Effect, String> {
    let next = schema.changes();
    match change.number {
        // All that have no number come before all that have one.
        None if next > 0 => return Ok(Effect::None),
        Some(number) if number < next => return Ok(Effect::None),
        Some(number) if number > next => {
            return Err(format!(
                "change number {number} of the schema comes where number {next} is the next: what \
                 the log said of another one is lost"
            ));
        }
        _ => {}
    }
    let (table, bytes) = (change.table as usize, change.bytes);
    if change.kind != SchemaKind::TableCreated
        && schema.tables.get(table).is_none_or(|table| table.is_dropped())
    {
        return Err(format!("a change of table {table}, which is not there"));
    }
    let effect = match change.kind {
        SchemaKind::TableCreated => create_table(schema, change.position, bytes)?,
        SchemaKind::IndexCreated => create_index(schema, table, bytes)?,
        SchemaKind::ColumnAdded => add_column(schema, table, change.position, bytes)?,
        SchemaKind::TableDropped => {
            schema.drop_table(table);
            Effect::TableDropped(table)
        }
        SchemaKind::IndexDropped => drop_index(schema, table, bytes)?,
        SchemaKind::ColumnDropped => drop_column(schema, table, change.position)?,
    };
    if change.number.is_some() {
        schema.count_change();
    }
    Ok(effect)
}

/// Adds a table, unless an earlier build logged one that is there.
fn create_table(
    schema: &mut Schema,
    logged_as: Option<u32>,
    bytes: &[u8],
) -> Result<Effect, String> {
    let table = definition::decode(bytes)
        .ok_or("a table's definition cannot be read: it is damaged, or of another build")?;
    let known = schema.table(&table.name).filter(|&known| schema.tables[known].extends(&table));
    let position = match known {
        // Perhaps with indexes that come later in the log.
        Some(known) => known,
        None => schema.add(table).map_err(|error| error.to_string())?,
    };
    is_in_place("table", &schema.tables[position].name, logged_as, position)?;
    Ok(if known.is_none() { Effect::TableCreated } else { Effect::None })
}

/// Adds an index. Its entries follow from the rows, as those of all indexes.
fn create_index(schema: &mut Schema, table: usize, bytes: &[u8]) -> Result<Effect, String> {
    let index = definition::decode_index(bytes).ok_or("an index's definition cannot be read")?;
    if !schema.tables[table].indexes.contains(&index) {
        schema.add_index(table, index).map_err(|error| error.to_string())?;
    }
    Ok(Effect::None)
}

fn drop_index(schema: &mut Schema, table: usize, name: &[u8]) -> Result<Effect, String> {
    let indexes = &schema.tables[table].indexes;
    let number = indexes.iter().position(|index| index.name.as_bytes() == name);
    let number = number.ok_or_else(|| {
        format!("index `{}` was dropped and is not there", String::from_utf8_lossy(name))
    })?;
    schema.drop_index(table, number);
    Ok(Effect::None)
}

fn drop_column(schema: &mut Schema, table: usize, position: Option<u32>) -> Result<Effect, String> {
    let position = position.map_or(usize::MAX, |position| position as usize);
    let column = schema.tables[table].columns.get(position);
    if column.is_none_or(|column| column.is_dropped()) {
        return Err(format!("column {position} of table {table} was dropped and is not there"));
    }
    schema.drop_column(table, position);
    Ok(Effect::ColumnDropped(table))
}

/// Adds a column, unless an earlier build logged one that is there.
fn add_column(
    schema: &mut Schema,
    table: usize,
    logged_as: Option<u32>,
    bytes: &[u8],
) -> Result<Effect, String> {
    let column = definition::decode_column(bytes)
        .ok_or("a column's definition cannot be read: it is damaged, or of another build")?;
    let known = schema.tables[table].columns.iter().position(|known| *known == column);
    let position = match known {
        Some(known) => known,
        None => schema.add_column(table, column).map_err(|error| error.to_string())?,
    };
    is_in_place("column", &schema.tables[table].columns[position].name, logged_as, position)?;
    Ok(if known.is_none() { Effect::ColumnAdded(table) } else { Effect::None })
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
