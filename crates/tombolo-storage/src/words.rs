//! Columns and indexes in words, as SQL would say them: for messages to the user who defined them.
//!
//! Not here: reading such words, values (`value.rs`).

use crate::schema::{ColumnDef, IndexDef, IndexKind, TableDef};
use crate::types::SqlType;

/// A column without its name, as SQL would say it.
pub fn column_text(column: &ColumnDef) -> String {
    let mut text = type_text(column.sql);
    if !column.nullable {
        text.push_str(" not null");
    }
    if let Some((low, high)) = column.range {
        text.push_str(&format!(" from {low} to {high}"));
    }
    if column.hot {
        text.push_str(" (hot)");
    }
    if let Some(default) = column.default {
        text.push_str(&format!(" default {default}"));
    }
    if column.added {
        text.push_str(" (added)");
    }
    text
}

fn type_text(sql: SqlType) -> String {
    match sql {
        SqlType::Boolean => "boolean".to_owned(),
        SqlType::SmallInt => "smallint".to_owned(),
        SqlType::Integer => "integer".to_owned(),
        SqlType::BigInt => "bigint".to_owned(),
        SqlType::Double => "double precision".to_owned(),
        SqlType::Decimal { precision, scale } => format!("numeric({precision},{scale})"),
        SqlType::Char(n) => format!("char({n})"),
        SqlType::Varchar(n) => format!("varchar({n})"),
        SqlType::Text => "text".to_owned(),
        SqlType::Bytes => "bytea".to_owned(),
        SqlType::Date => "date".to_owned(),
        SqlType::Timestamp => "timestamp".to_owned(),
        SqlType::Uuid => "uuid".to_owned(),
    }
}

/// An index without its name.
pub fn index_text(table: &TableDef, index: &IndexDef) -> String {
    let name = |&column: &usize| table.columns.get(column).map_or("?", |column| &column.name);
    let columns: Vec<_> = index.columns.iter().map(name).collect();
    let unique = if index.unique { "unique " } else { "" };
    let kind = match index.kind {
        IndexKind::Tree => "tree",
        IndexKind::Hash => "hash",
    };
    format!("{unique}{kind} ({})", columns.join(", "))
}
