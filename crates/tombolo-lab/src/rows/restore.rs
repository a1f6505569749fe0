//! Reads dumped rows back: PostgreSQL's COPY text, by the columns of any schema.
//!
//! The inverse of `dump.rs`. Every text is parsed strictly by its column's type and every row goes
//! through the store's dynamic path, which verifies types, ranges and unique keys. Not here: files
//! ([`NextRow`] gives lines).
//!
//! Invariant: what restores without an error dumps to the same text; another text of the same value
//! is refused as not canonical.

use tombolo_storage::dynamic::DynamicTable;
use tombolo_storage::error::{Error, SchemaError};
use tombolo_storage::schema::{ColumnDef, TableDef};
use tombolo_storage::store::Store;
use tombolo_storage::types::SqlType;
use tombolo_storage::value::Value;

/// The rows of a transaction while restoring.
const BATCH_ROWS: usize = 1_000;

/// Puts the next dumped row of a table into a line, without its end; false after the last. An error is one line for
/// the user.
pub type NextRow<'r> = &'r mut dyn FnMut(&str, &mut String) -> Result<bool, String>;

/// Why rows could not be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The store refused a table.
    #[error("the tables cannot be created: {0}")]
    Schema(#[from] SchemaError),
    /// The store refused to begin or commit.
    #[error(transparent)]
    Store(#[from] Error),
    /// A table cannot be read.
    #[error("{0}")]
    Read(String),
    /// A line is no row of its table.
    #[error("{table}.copy line {line}: {what}")]
    Row {
        /// The table.
        table: String,
        /// The line, from 1.
        line: u64,
        /// The error in it.
        what: String,
    },
}

/// Creates `tables` and fills them with dumped rows.
///
/// # Errors
/// As [`restore`], or a table the store refused.
pub fn restore_tables<S: Store>(
    store: &mut S,
    tables: Vec<TableDef>,
    next_row: NextRow<'_>,
) -> Result<(), RestoreError> {
    for table in tables {
        store.create_table(table)?;
    }
    restore(store, next_row)
}

/// Fills every table of `store` with dumped rows.
///
/// # Errors
/// The first line that is no row, or what the store refused.
pub fn restore<S: Store>(store: &mut S, next_row: NextRow<'_>) -> Result<(), RestoreError> {
    for position in 0..store.schema().tables.len() {
        restore_table(store, position, next_row)?;
    }
    Ok(())
}

fn restore_table<S: Store>(
    store: &mut S,
    position: usize,
    next_row: NextRow<'_>,
) -> Result<(), RestoreError> {
    let name = store.schema().tables[position].name.to_string();
    let table = DynamicTable::new(store.schema(), position);
    let (mut line, mut number, mut more) = (String::new(), 0, true);
    let mut texts = Texts::new(table.columns().len());
    while more {
        store.begin()?;
        store.begin_writes();
        for _ in 0..BATCH_ROWS {
            more = next_row(&name, &mut line).map_err(RestoreError::Read)?;
            if !more {
                break;
            }
            number += 1;
            insert(store, &table, &line, &mut texts).map_err(|what| RestoreError::Row {
                table: name.clone(),
                line: number,
                what,
            })?;
        }
        store.commit()?;
    }
    Ok(())
}

/// Memory that is kept from row to row.
struct Texts {
    /// Each column's text without escapes.
    unescaped: Vec<String>,
    /// The text that would be written for a value.
    canonical: Vec<u8>,
}

impl Texts {
    fn new(columns: usize) -> Self {
        Self { unescaped: vec![String::new(); columns], canonical: Vec::new() }
    }
}

/// Inserts the row that `line` is.
fn insert<S: Store>(
    store: &mut S,
    table: &DynamicTable,
    line: &str,
    texts: &mut Texts,
) -> Result<(), String> {
    let columns = table.columns();
    let Texts { unescaped, canonical } = texts;
    let mut fields = line.split('\t');
    let mut values = Vec::with_capacity(columns.len());
    for (column, text) in columns.iter().zip(unescaped) {
        let Some(field) = fields.next() else {
            return Err(format!("{} columns instead of {}", values.len(), columns.len()));
        };
        let parsed = parse(column, field, text, canonical);
        values.push(parsed.ok_or_else(|| {
            format!("{field:?} is no {:?} of column {}", column.sql, column.name)
        })?);
    }
    if fields.next().is_some() {
        return Err(format!("more than {} columns", columns.len()));
    }
    let refused = |error: Error| match error {
        Error::OutOfRange { column, .. } | Error::WrongType { column, .. } => {
            let name = columns.get(column as usize).map_or("?", |column| &column.name);
            format!("column {name}: {error}")
        }
        Error::Duplicate { .. } => "a row with the same key is there already".to_owned(),
        _ => error.to_string(),
    };
    table.insert(store, &values).map(|_| ()).map_err(refused)
}

/// The value that `field` is the COPY text of; `text` keeps what has to be unescaped.
fn parse<'a>(
    column: &ColumnDef,
    field: &'a str,
    text: &'a mut String,
    canonical: &mut Vec<u8>,
) -> Option<Value<'a>> {
    if field == "\\N" {
        return Some(Value::Null);
    }
    let value = match column.sql {
        SqlType::Boolean => match field {
            "t" => Value::Boolean(true),
            "f" => Value::Boolean(false),
            _ => return None,
        },
        SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => {
            Value::Integer(field.parse().ok()?)
        }
        SqlType::Decimal { scale, .. } => Value::Decimal { units: units(field, scale)?, scale },
        SqlType::Timestamp => Value::Timestamp(timestamp(field)?),
        SqlType::Date => Value::Date(i32::try_from(days(field)?).ok()?),
        SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Text => {
            unescape(field, text)?;
            return Some(Value::Text(text));
        }
        // No table that is dumped has one yet; see `Value::copy_text` for their text.
        SqlType::Double | SqlType::Bytes | SqlType::Uuid => return None,
    };
    // Only the text that would be written for it: no sign, zero or space more.
    canonical.clear();
    value.copy_bytes(canonical);
    (canonical == field.as_bytes()).then_some(value)
}

/// The units of a decimal with `scale` digits behind the point.
fn units(field: &str, scale: u8) -> Option<i128> {
    let (whole, fraction) = field.split_once('.').unwrap_or((field, ""));
    if fraction.len() != usize::from(scale) {
        return None;
    }
    format!("{whole}{fraction}").parse().ok()
}

/// Days since 2000-01-01 of `YYYY-MM-DD`, for years of this era.
fn days(field: &str) -> Option<i64> {
    let mut parts = field.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that the leap day is a year's last (H. Hinnant's days-from-civil).
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(year * 365 + leap_days + day_of_year - 730_425)
}

/// Microseconds since 2000-01-01 of `YYYY-MM-DD HH:MM:SS[.ffffff]`.
fn timestamp(field: &str) -> Option<i64> {
    let (date, time) = field.split_once(' ')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if fraction.len() > 6 || ![hour, minute, second].iter().all(|part| (0..60).contains(part)) {
        return None;
    }
    let micros: i64 = format!("{fraction:0<6}").parse().ok()?;
    let seconds = days(date)?.checked_mul(86_400)? + hour * 3_600 + minute * 60 + second;
    Some(seconds.checked_mul(1_000_000)? + micros)
}

/// Puts `field` with its escapes resolved into `text`; nothing when one is unknown.
fn unescape(field: &str, text: &mut String) -> Option<()> {
    text.clear();
    if !field.contains('\\') {
        text.push_str(field);
        return Some(());
    }
    let mut rest = field.chars();
    while let Some(c) = rest.next() {
        text.push(match c {
            '\\' => match rest.next()? {
                '\\' => '\\',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'b' => '\u{8}',
                'v' => '\u{b}',
                'f' => '\u{c}',
                _ => return None,
            },
            c => c,
        });
    }
    Some(())
}

#[cfg(test)]
mod tests;
