//! Values of the model: owned, drawn at random, and compared by a definition of their own.
//!
//! The comparison here is the meaning of a column's order, written from its definition in SQL and
//! not from the encodings of keys it judges: numbers by value, text by its bytes, `char` with
//! blanks behind it, both zeros equal, NaN after all other numbers, null after everything and equal
//! to itself.

use std::cmp::Ordering;

use tombolo_storage::schema::ColumnDef;
use tombolo_storage::types::SqlType;
use tombolo_storage::value::Value;

use super::random::Random;

/// A value that outlives every row.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Null,
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Decimal(i128),
    Text(String),
    Bytes(Vec<u8>),
    Date(i32),
    Timestamp(i64),
    Uuid([u8; 16]),
}

impl Cell {
    /// The value a call takes.
    pub(crate) fn value(&self, sql: SqlType) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(value) => Value::Boolean(*value),
            Self::Integer(value) => Value::Integer(*value),
            Self::Double(value) => Value::Double(*value),
            Self::Decimal(units) => match sql {
                SqlType::Decimal { scale, .. } => Value::Decimal { units: *units, scale },
                _ => unreachable!("a decimal in a column of another type"),
            },
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::Date(days) => Value::Date(*days),
            Self::Timestamp(micros) => Value::Timestamp(*micros),
            Self::Uuid(uuid) => Value::Uuid(*uuid),
        }
    }

    /// Whether a column that stores this reads as `value`, to the bit.
    pub(crate) fn reads_as(&self, sql: SqlType, value: Value<'_>) -> bool {
        match (self, value) {
            (Self::Double(stored), Value::Double(read)) => stored.to_bits() == read.to_bits(),
            (Self::Text(text), Value::Text(read)) => match sql {
                SqlType::Char(n) => {
                    format!("{text}{}", " ".repeat(n as usize - text.len())) == read
                }
                _ => text == read,
            },
            _ => self.value(sql) == value,
        }
    }

    /// Bytes of a variable-length value.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

/// The order of two values of a column of type `sql`.
pub(crate) fn compare(sql: SqlType, a: &Cell, b: &Cell) -> Ordering {
    match (a, b) {
        (Cell::Null, Cell::Null) => Ordering::Equal,
        (Cell::Null, _) => Ordering::Greater,
        (_, Cell::Null) => Ordering::Less,
        (Cell::Boolean(a), Cell::Boolean(b)) => a.cmp(b),
        (Cell::Integer(a), Cell::Integer(b)) | (Cell::Timestamp(a), Cell::Timestamp(b)) => a.cmp(b),
        (Cell::Double(a), Cell::Double(b)) => {
            a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
        (Cell::Decimal(a), Cell::Decimal(b)) => a.cmp(b),
        (Cell::Text(a), Cell::Text(b)) => match sql {
            SqlType::Char(n) => compare_padded(a.as_bytes(), b.as_bytes(), n as usize),
            _ => a.as_bytes().cmp(b.as_bytes()),
        },
        (Cell::Bytes(a), Cell::Bytes(b)) => a.cmp(b),
        (Cell::Date(a), Cell::Date(b)) => a.cmp(b),
        (Cell::Uuid(a), Cell::Uuid(b)) => a.cmp(b),
        _ => unreachable!("values of different types: {a:?} and {b:?}"),
    }
}

fn compare_padded(a: &[u8], b: &[u8], n: usize) -> Ordering {
    let padded = |text: &[u8]| {
        let mut text = text.to_vec();
        text.resize(text.len().max(n), b' ');
        text
    };
    padded(a).cmp(&padded(b))
}

/// A value `column` admits, never null.
pub(crate) fn admitted(random: &mut Random, column: &ColumnDef) -> Cell {
    let (low, high) = column.range.or(column.sql.integer_range()).unwrap_or((0, 0));
    let mut integer = || between(random, low, high);
    match column.sql {
        SqlType::Boolean => Cell::Boolean(integer() != 0),
        SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => Cell::Integer(integer()),
        SqlType::Date => Cell::Date(integer() as i32),
        SqlType::Timestamp => Cell::Timestamp(integer()),
        SqlType::Decimal { precision, .. } if precision > 18 => {
            let most = 10i128.pow(precision as u32) - 1;
            let wide = (random.next() as i128) << 64 | random.next() as i128;
            let extremes = [0, 1, -1, most, -most, i64::MAX as i128 + 1, wide % (most + 1)];
            Cell::Decimal(*random.pick(&extremes) % (most + 1))
        }
        SqlType::Decimal { .. } => Cell::Decimal(integer() as i128),
        SqlType::Double => Cell::Double(double(random)),
        SqlType::Char(n) | SqlType::Varchar(n) => Cell::Text(text(random, n as usize)),
        SqlType::Text => Cell::Text(long_text(random)),
        SqlType::Bytes => Cell::Bytes(bytes(random)),
        SqlType::Uuid => Cell::Uuid(uuid(random)),
    }
}

/// Any value of the column's kind that a look-up or an edge may name: null, outside of the declared
/// range or of the type itself, too long.
pub(crate) fn wild(random: &mut Random, column: &ColumnDef) -> Cell {
    if random.below(8) == 0 {
        return Cell::Null;
    }
    let (low, high) = column.range.or(column.sql.integer_range()).unwrap_or((-1, 1));
    let near = [
        low.wrapping_sub(1),
        high.wrapping_add(1),
        low.saturating_sub(1_000),
        high.saturating_add(70_000),
        i64::MIN,
        i64::MAX,
        random.next() as i64,
    ];
    let integer = *random.pick(&near);
    match column.sql {
        SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => Cell::Integer(integer),
        SqlType::Timestamp => Cell::Timestamp(integer),
        SqlType::Date => Cell::Date(integer.clamp(i32::MIN as i64, i32::MAX as i64) as i32),
        SqlType::Decimal { .. } => {
            let beyond = [i128::MIN, i128::MAX, i64::MAX as i128 + 1, i64::MIN as i128 - 1];
            let wide = [integer as i128, integer as i128, *random.pick(&beyond)];
            Cell::Decimal(*random.pick(&wide))
        }
        SqlType::Char(n) | SqlType::Varchar(n) => Cell::Text(text(random, n as usize + 3)),
        _ => admitted(random, column),
    }
}

fn between(random: &mut Random, low: i64, high: i64) -> i64 {
    match random.below(6) {
        0 => low,
        1 => high,
        2 => 0i64.clamp(low, high),
        _ => {
            let values = high.wrapping_sub(low) as u64;
            low.wrapping_add(random.below(values.saturating_add(1).max(1)) as i64)
        }
    }
}

fn double(random: &mut Random) -> f64 {
    let special = [
        0.0,
        -0.0,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE,
        -f64::MIN_POSITIVE / 2.0,
        f64::MAX,
        -1.5,
        (random.next() as i64 as f64) / 1e6,
        f64::from_bits(random.next()),
    ];
    *random.pick(&special)
}

/// Text of at most `most` bytes, much of it a beginning of other text.
fn text(random: &mut Random, most: usize) -> String {
    let mut text = String::new();
    for _ in 0..random.below(9) {
        let piece = *random.pick(&["a", "b", "\0", " ", "\u{1}", "é", "abcdefgh", "\u{10ffff}"]);
        if text.len() + piece.len() <= most {
            text.push_str(piece);
        }
    }
    if random.below(12) == 0 {
        text.extend(std::iter::repeat_n('x', most.min(300) - text.len().min(most.min(300))));
    }
    text
}

/// Text of any length: short, over a boundary of sizes, or longer than any key.
fn long_text(random: &mut Random) -> String {
    let mut long = text(random, 40);
    if random.below(4) == 0 {
        long.push_str(&"y".repeat(*random.pick(&[31, 64, 200, 255, 256, 400, 1_100, 5_000])));
    }
    long
}

fn bytes(random: &mut Random) -> Vec<u8> {
    let length = *random.pick(&[0, 1, 2, 3, 9, 70]);
    (0..length).map(|_| *random.pick(&[0, 1, 2, 127, 128, 254, 255])).collect()
}

fn uuid(random: &mut Random) -> [u8; 16] {
    let mut uuid = [random.below(2) as u8 * 255; 16];
    uuid[random.below(16) as usize] = random.next() as u8;
    uuid
}
