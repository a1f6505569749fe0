//! The encoding of a table's definition: the content of a *table created* record; an *index created* record has
//! one index, a *column added* record one column.
//!
//! | part | bytes |
//! |---|---|
//! | name | 2 length, then UTF-8 |
//! | columns | 2 number, then each as below |
//! | indexes | 2 number, then each as below |
//!
//! A column: name; 1 type; 2 and 2 the type's numbers (length; precision, scale); 1 flags (bit 0
//! nullable, 1 hot, 2 has a range, 3 was added, 4 was added and its handle is aligned, 5 has a default, 6 was
//! dropped: of those without a name, and no others);
//! with a range 8 and 8 its ends; with a default 8. An index: name; 1 flags (bit 0 unique, 1 hash); 2 number
//! of columns, 2 each position.
//!
//! Types: 1 boolean, 2 smallint, 3 integer, 4 bigint, 5 double, 6 decimal, 7 char, 8 varchar, 9 text,
//! 10 bytes, 11 date, 12 timestamp, 13 uuid. All numbers are little-endian.
//!
//! Not here: whether a store accepts the table (`TableDef::validate`). Numbers never get a
//! second meaning: a new type gets a new number.

use std::borrow::Cow;

use crate::schema::{ColumnDef, IndexDef, IndexKind, TableDef};
use crate::source::Source;
use crate::types::SqlType;

const NULLABLE: u8 = 1;
const HOT: u8 = 2;
const RANGE: u8 = 4;
const ADDED: u8 = 8;
/// Set for every added column whose values are outside the row, since their handles are aligned (`row.rs`): rows
/// of earlier builds have another layout and are refused.
const ALIGNED: u8 = 16;
/// Rows that were created without the column have the default, and values are stored as their difference
/// from it.
const DEFAULT: u8 = 32;
/// It has no name but keeps its place in the rows.
const DROPPED: u8 = 64;
const UNIQUE: u8 = 1;
const HASH: u8 = 2;

/// The definition as bytes.
///
/// # Panics
/// When a name or a list is longer than 65,535, which `TableDef::validate` refuses.
pub fn encode(table: &TableDef) -> Vec<u8> {
    let mut out = Vec::new();
    put_name(&mut out, &table.name);
    put_count(&mut out, table.columns.len());
    for column in &table.columns {
        put_column(&mut out, column);
    }
    put_count(&mut out, table.indexes.len());
    for index in &table.indexes {
        put_index(&mut out, index);
    }
    out
}

/// An index's definition as bytes.
///
/// # Panics
/// As [`encode`].
pub fn encode_index(index: &IndexDef) -> Vec<u8> {
    let mut out = Vec::new();
    put_index(&mut out, index);
    out
}

/// The index in `bytes`, if they are one and nothing else.
pub fn decode_index(bytes: &[u8]) -> Option<IndexDef> {
    let mut from = Source(bytes);
    let index = from.index()?;
    from.0.is_empty().then_some(index)
}

/// A column's definition as bytes.
///
/// # Panics
/// As [`encode`].
pub fn encode_column(column: &ColumnDef) -> Vec<u8> {
    let mut out = Vec::new();
    put_column(&mut out, column);
    out
}

/// The column in `bytes`, if they are one and nothing else.
pub fn decode_column(bytes: &[u8]) -> Option<ColumnDef> {
    let mut from = Source(bytes);
    let column = from.column()?;
    from.0.is_empty().then_some(column)
}

fn put_column(out: &mut Vec<u8>, column: &ColumnDef) {
    put_name(out, &column.name);
    let (tag, first, second) = type_numbers(column.sql);
    out.push(tag);
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(&second.to_le_bytes());
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    out.push(
        flag(column.nullable, NULLABLE)
            | flag(column.hot, HOT)
            | flag(column.range.is_some(), RANGE)
            | flag(column.added, ADDED)
            | flag(column.added && column.sql.is_variable(), ALIGNED)
            | flag(column.default.is_some(), DEFAULT)
            | flag(column.is_dropped(), DROPPED),
    );
    if let Some((low, high)) = column.range {
        out.extend_from_slice(&low.to_le_bytes());
        out.extend_from_slice(&high.to_le_bytes());
    }
    if let Some(default) = column.default {
        out.extend_from_slice(&default.to_le_bytes());
    }
}

fn put_index(out: &mut Vec<u8>, index: &IndexDef) {
    put_name(out, &index.name);
    let hash = if index.kind == IndexKind::Hash { HASH } else { 0 };
    let unique = if index.unique { UNIQUE } else { 0 };
    out.push(hash | unique);
    put_count(out, index.columns.len());
    for &column in &index.columns {
        put_count(out, column);
    }
}

/// The definition in `bytes`, if they are one and nothing else.
pub fn decode(bytes: &[u8]) -> Option<TableDef> {
    let mut from = Source(bytes);
    let name = from.name()?;
    let columns = (0..from.count()?).map(|_| from.column()).collect::<Option<_>>()?;
    let indexes = (0..from.count()?).map(|_| from.index()).collect::<Option<_>>()?;
    from.0.is_empty().then_some(TableDef { name, columns, indexes })
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    let count = u16::try_from(count).expect("no count of a schema exceeds 65,535");
    out.extend_from_slice(&count.to_le_bytes());
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    put_count(out, name.len());
    out.extend_from_slice(name.as_bytes());
}

fn type_numbers(sql: SqlType) -> (u8, u16, u16) {
    match sql {
        SqlType::Boolean => (1, 0, 0),
        SqlType::SmallInt => (2, 0, 0),
        SqlType::Integer => (3, 0, 0),
        SqlType::BigInt => (4, 0, 0),
        SqlType::Double => (5, 0, 0),
        SqlType::Decimal { precision, scale } => (6, precision.into(), scale.into()),
        SqlType::Char(n) => (7, n, 0),
        SqlType::Varchar(n) => (8, n, 0),
        SqlType::Text => (9, 0, 0),
        SqlType::Bytes => (10, 0, 0),
        SqlType::Date => (11, 0, 0),
        SqlType::Timestamp => (12, 0, 0),
        SqlType::Uuid => (13, 0, 0),
    }
}

fn type_of(tag: u8, first: u16, second: u16) -> Option<SqlType> {
    Some(match tag {
        1 => SqlType::Boolean,
        2 => SqlType::SmallInt,
        3 => SqlType::Integer,
        4 => SqlType::BigInt,
        5 => SqlType::Double,
        6 => SqlType::Decimal {
            precision: u8::try_from(first).ok()?,
            scale: u8::try_from(second).ok()?,
        },
        7 => SqlType::Char(first),
        8 => SqlType::Varchar(first),
        9 => SqlType::Text,
        10 => SqlType::Bytes,
        11 => SqlType::Date,
        12 => SqlType::Timestamp,
        13 => SqlType::Uuid,
        _ => return None,
    })
}

impl Source<'_> {
    fn number(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn count(&mut self) -> Option<usize> {
        self.number().map(usize::from)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn name(&mut self) -> Option<Cow<'static, str>> {
        let length = self.count()?;
        let name = self.take(length)?;
        Some(Cow::Owned(std::str::from_utf8(name).ok()?.to_owned()))
    }

    fn column(&mut self) -> Option<ColumnDef> {
        let name = self.name()?;
        let numbers = (self.byte()?, self.number()?, self.number()?);
        let sql = type_of(numbers.0, numbers.1, numbers.2)?;
        let flags = self.byte()?;
        let range = match flags & RANGE {
            0 => None,
            _ => Some((i64::from_le_bytes(self.array()?), i64::from_le_bytes(self.array()?))),
        };
        let default = match flags & DEFAULT {
            0 => None,
            _ => Some(i64::from_le_bytes(self.array()?)),
        };
        let [nullable, hot, added, aligned] =
            [NULLABLE, HOT, ADDED, ALIGNED].map(|flag| flags & flag != 0);
        let is_known = flags & !(NULLABLE | HOT | RANGE | ADDED | ALIGNED | DEFAULT | DROPPED) == 0
            && name.is_empty() == (flags & DROPPED != 0)
            && aligned == (added && sql.is_variable())
            && type_numbers(sql) == numbers;
        is_known.then_some(ColumnDef { name, sql, nullable, range, hot, added, default })
    }

    fn index(&mut self) -> Option<IndexDef> {
        let name = self.name()?;
        let flags = self.byte()?;
        let columns = (0..self.count()?).map(|_| self.count()).collect::<Option<_>>()?;
        let kind = if flags & HASH == 0 { IndexKind::Tree } else { IndexKind::Hash };
        let is_known = flags & !(UNIQUE | HASH) == 0;
        is_known.then_some(IndexDef { name, columns, unique: flags & UNIQUE != 0, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableDef {
        let types = [
            SqlType::Boolean,
            SqlType::SmallInt,
            SqlType::Integer,
            SqlType::BigInt,
            SqlType::Double,
            SqlType::Decimal { precision: 12, scale: 2 },
            SqlType::Char(300),
            SqlType::Varchar(2_000),
            SqlType::Text,
            SqlType::Bytes,
            SqlType::Date,
            SqlType::Timestamp,
            SqlType::Uuid,
        ];
        let column = |(i, &sql): (usize, &SqlType)| ColumnDef {
            name: if i == 4 { "".into() } else { format!("column {i} ä").into() },
            sql,
            nullable: i % 2 == 0,
            range: (i == 2).then_some((i64::MIN, -1)),
            hot: i % 3 == 0,
            added: i > 7,
            default: (i > 9 && i < 12).then_some(i64::MAX - i as i64),
        };
        let index = |name: &'static str, columns: &[usize], unique, kind| IndexDef {
            name: name.into(),
            columns: columns.to_vec(),
            unique,
            kind,
        };
        TableDef {
            name: "everything".into(),
            columns: types.iter().enumerate().map(column).collect(),
            indexes: vec![
                index("pk", &[0, 12], true, IndexKind::Tree),
                index("many", &[3], false, IndexKind::Tree),
                index("hash", &[12], true, IndexKind::Hash),
            ],
        }
    }

    #[test]
    fn what_is_encoded_is_decoded_and_nothing_less() {
        let bytes = encode(&table());
        assert_eq!(decode(&bytes), Some(table()));
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length} bytes of {}", bytes.len());
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat()), None);
        for index in &table().indexes {
            let bytes = encode_index(index);
            assert_eq!(decode_index(&bytes).as_ref(), Some(index));
            assert!((0..bytes.len()).all(|length| decode_index(&bytes[..length]).is_none()));
            assert_eq!(decode_index(&[&bytes[..], &[0]].concat()), None);
        }
    }

    #[test]
    fn a_column_alone_is_encoded_and_decoded() {
        for column in &table().columns {
            let bytes = encode_column(column);
            assert_eq!(decode_column(&bytes).as_ref(), Some(column));
            assert!((0..bytes.len()).all(|length| decode_column(&bytes[..length]).is_none()));
            assert_eq!(decode_column(&[&bytes[..], &[0]].concat()), None);
        }
    }

    /// Its rows are laid out otherwise.
    #[test]
    fn an_added_text_of_before_handles_were_aligned_is_refused() {
        let text = &table().columns[8];
        let mut bytes = encode_column(text);
        let flags = bytes.len() - 1;
        assert_eq!(bytes[flags], NULLABLE | ADDED | ALIGNED);
        bytes[flags] &= !ALIGNED;
        assert_eq!(decode_column(&bytes), None);
        let mut bytes = encode_column(&ColumnDef { added: false, ..text.clone() });
        bytes[flags] |= ALIGNED;
        assert_eq!(decode_column(&bytes), None);
    }

    #[test]
    fn the_bytes_are_those_the_format_states() {
        let column = ColumnDef {
            name: "a".into(),
            sql: SqlType::Decimal { precision: 4, scale: 1 },
            nullable: true,
            range: Some((-1, 2)),
            hot: false,
            added: true,
            default: Some(1),
        };
        let index =
            IndexDef { name: "i".into(), columns: vec![0], unique: true, kind: IndexKind::Hash };
        let table = TableDef { name: "t".into(), columns: vec![column], indexes: vec![index] };
        let expected: &[&[u8]] = &[
            &[1, 0],
            b"t",
            &[1, 0, 1, 0],
            b"a",
            &[6, 4, 0, 1, 0, NULLABLE | RANGE | ADDED | DEFAULT],
            &[255; 8],
            &[2, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0, 1, 0],
            b"i",
            &[UNIQUE | HASH, 1, 0, 0, 0],
        ];
        assert_eq!(encode(&table), expected.concat());
    }

    #[test]
    fn changed_bytes_never_panic() {
        let bytes = encode(&table());
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(decode(&changed), Some(table()));
        }
    }
}
