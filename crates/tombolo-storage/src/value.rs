//! Values as SQL, dumps and checks see them: one dynamically typed cell, and its text form.
//!
//! The text is PostgreSQL's COPY format, because state hashes and dumps are defined by it (cli.md,
//! "state_hash"). Procedures do not come through here: they read columns by type.

use std::io::Write as _;

use crate::row::RowBytes;
use crate::schema::{ColumnDef, column_offset, presence_bit};
use crate::types::{SqlType, read_units, read_varchar};

/// The value of one column, borrowed from its row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// `boolean`.
    Boolean(bool),
    /// `smallint`, `integer` or `bigint`.
    Integer(i64),
    /// `double precision`.
    Double(f64),
    /// `numeric`: `units` × 10^-`scale`.
    Decimal {
        /// The whole number of units.
        units: i128,
        /// Digits behind the point.
        scale: u8,
    },
    /// `char`, `varchar` or `text`.
    Text(&'a str),
    /// `bytea`.
    Bytes(&'a [u8]),
    /// `date`, in days since 2000-01-01.
    Date(i32),
    /// `timestamp`, in microseconds since 2000-01-01.
    Timestamp(i64),
    /// `uuid`.
    Uuid([u8; 16]),
}

/// A value that outlives its row.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedValue {
    /// One of a fixed length.
    Plain(Value<'static>),
    /// Text.
    Text(Box<str>),
    /// Bytes.
    Bytes(Box<[u8]>),
}

impl OwnedValue {
    /// A copy of a value.
    pub fn of(value: &Value<'_>) -> Self {
        Self::Plain(match *value {
            Value::Text(text) => return Self::Text(text.into()),
            Value::Bytes(bytes) => return Self::Bytes(bytes.into()),
            Value::Null => Value::Null,
            Value::Boolean(value) => Value::Boolean(value),
            Value::Integer(value) => Value::Integer(value),
            Value::Double(value) => Value::Double(value),
            Value::Decimal { units, scale } => Value::Decimal { units, scale },
            Value::Date(days) => Value::Date(days),
            Value::Timestamp(micros) => Value::Timestamp(micros),
            Value::Uuid(uuid) => Value::Uuid(uuid),
        })
    }

    /// The value.
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Plain(value) => *value,
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

/// Reads the column at `position` from a row of a table with these columns.
///
/// Text that is no UTF-8 (a procedure wrote it) reads as bytes.
pub fn read_value<'a, P: RowBytes>(
    row: &'a P,
    columns: &[ColumnDef],
    position: usize,
) -> Value<'a> {
    ColumnReader::new(columns, position).read(row)
}

/// Reads one column of many rows: where it lies in them is found once.
#[derive(Clone, Copy, Debug)]
pub struct ColumnReader {
    sql: SqlType,
    offset: usize,
    default_bits: i128,
    /// Of a column that may be null: the byte and the bit of it that say so, and whether that is 0.
    null: Option<(usize, u8, bool)>,
}

impl ColumnReader {
    /// For the column at `position` of a table with these columns.
    pub fn new(columns: &[ColumnDef], position: usize) -> Self {
        let column = &columns[position];
        let null = match column.is_dropped() {
            true => Some((0, 0, true)), // no bit says that there is a value
            false => column.nullable.then(|| {
                let bit = presence_bit(columns, position);
                (bit / 8, 1 << (bit % 8), !column.marks_null())
            }),
        };
        let default_bits = i128::from(column.default_bits());
        Self { sql: column.sql, offset: column_offset(columns, position), default_bits, null }
    }

    /// Whether its values lie outside the fixed part of a row.
    pub const fn is_variable(&self) -> bool {
        matches!(self.sql, SqlType::Text | SqlType::Bytes)
    }

    /// The column's value in `row`.
    ///
    /// Text that is no UTF-8 (a procedure wrote it) reads as bytes.
    pub fn read<'a, P: RowBytes + ?Sized>(&self, row: &'a P) -> Value<'a> {
        let (bytes, offset) = (row.fixed(), self.offset);
        if let Some((byte, bit, if_zero)) = self.null
            && (bytes[byte] & bit == 0) == if_zero
        {
            return Value::Null;
        }
        let units = || read_units(bytes, offset, self.sql.width()) ^ self.default_bits;
        let integer = || units() as i64;
        let text = |bytes| match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(text),
            Err(_) => Value::Bytes(bytes),
        };
        match self.sql {
            SqlType::Boolean => Value::Boolean(units() != 0),
            SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => Value::Integer(integer()),
            SqlType::Double => Value::Double(f64::from_bits(integer() as u64)),
            SqlType::Decimal { scale, .. } => Value::Decimal { units: units(), scale },
            SqlType::Char(n) => text(&bytes[offset..offset + n as usize]),
            SqlType::Varchar(n) => text(read_varchar(bytes, offset, n)),
            SqlType::Text => text(row.variable(integer() as u64)),
            SqlType::Bytes => Value::Bytes(row.variable(integer() as u64)),
            SqlType::Date => Value::Date(integer() as i32),
            SqlType::Timestamp => Value::Timestamp(integer()),
            SqlType::Uuid => {
                let mut uuid = [0; 16];
                uuid.copy_from_slice(&bytes[offset..offset + 16]);
                Value::Uuid(uuid)
            }
        }
    }
}

impl Value<'_> {
    /// The value as a whole number, for the types that are one (units, for decimals of at most 18
    /// digits).
    pub fn integer(&self) -> Option<i64> {
        match *self {
            Self::Boolean(value) => Some(value as i64),
            Self::Integer(value) | Self::Timestamp(value) => Some(value),
            Self::Date(days) => Some(days as i64),
            Self::Decimal { units, .. } => i64::try_from(units).ok(),
            _ => None,
        }
    }

    /// Appends the value in PostgreSQL's COPY text form.
    pub fn copy_text(&self, out: &mut String) {
        let mut text = Vec::new();
        self.copy_bytes(&mut text);
        out.push_str(&String::from_utf8_lossy(&text));
    }

    /// The same as bytes, for whole rows: a string would examine each piece again.
    pub fn copy_bytes(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Null => out.extend_from_slice(b"\\N"),
            Self::Boolean(value) => out.push(if value { b't' } else { b'f' }),
            Self::Integer(value) => {
                if value < 0 {
                    out.push(b'-');
                }
                push_digits(value.unsigned_abs(), 1, out);
            }
            Self::Double(value) => double_text(value, out),
            Self::Decimal { units, scale } => decimal_text(units, scale, out),
            Self::Text(text) => escape_text(text.as_bytes(), out),
            Self::Bytes(bytes) => {
                out.extend_from_slice(b"\\\\x");
                for byte in bytes {
                    push_display(out, format_args!("{byte:02x}"));
                }
            }
            Self::Date(days) => date_text(days as i64, out),
            Self::Timestamp(micros) => timestamp_text(micros, out),
            Self::Uuid(bytes) => {
                for (i, byte) in bytes.iter().enumerate() {
                    if matches!(i, 4 | 6 | 8 | 10) {
                        out.push(b'-');
                    }
                    push_display(out, format_args!("{byte:02x}"));
                }
            }
        }
    }
}

/// Appends what `value` displays; writing to bytes in memory cannot fail.
fn push_display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    let written = write!(out, "{value}");
    debug_assert!(written.is_ok());
}

/// All numbers of two digits, one after the other.
const PAIRS: [u8; 200] = {
    let mut pairs = [b'0'; 200];
    let mut number = 0;
    while number < 100 {
        pairs[2 * number] += number as u8 / 10;
        pairs[2 * number + 1] += number as u8 % 10;
        number += 1;
    }
    pairs
};

/// Appends `number` in decimal, with zeros in front up to `width` digits (20 at most). Most of a dump is
/// numbers, and writing them through a format takes several times as long.
fn push_digits(mut number: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while number > 9 {
        let pair = (number % 100) as usize * 2;
        number /= 100;
        first -= 2;
        digits[first..first + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if number > 0 {
        first -= 1;
        digits[first] += number as u8;
    }
    out.extend_from_slice(&digits[first.min(digits.len() - width)..]);
}

/// PostgreSQL's shortest exact form: plain between 1e-4 and 1e15, with an exponent of two digits at
/// least outside.
fn double_text(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if value.is_infinite() {
        return out.extend_from_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e15).contains(&magnitude) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ('-', rest),
            None => ('+', exponent),
        };
        return push_display(out, format_args!("{digits}e{sign}{exponent:0>2}"));
    }
    push_display(out, value);
}

fn decimal_text(units: i128, scale: u8, out: &mut Vec<u8>) {
    if units < 0 {
        out.push(b'-');
    }
    if let (Ok(magnitude), Some(unit)) =
        (u64::try_from(units.unsigned_abs()), 10u64.checked_pow(scale.into()))
    {
        push_digits(magnitude / unit, 1, out);
        if scale > 0 {
            out.push(b'.');
            push_digits(magnitude % unit, scale.into(), out);
        }
        return;
    }
    let (magnitude, unit) = (units.unsigned_abs(), 10u128.pow(scale as u32));
    push_display(out, magnitude / unit);
    if scale > 0 {
        push_display(out, format_args!(".{:0width$}", magnitude % unit, width = scale as usize));
    }
}

/// The second character of an escaped byte's form.
const fn escape(byte: u8) -> Option<u8> {
    match byte {
        b'\\' => Some(b'\\'),
        b'\n' => Some(b'n'),
        b'\r' => Some(b'r'),
        b'\t' => Some(b't'),
        8 => Some(b'b'),
        11 => Some(b'v'),
        12 => Some(b'f'),
        _ => None,
    }
}

fn escape_text(text: &[u8], out: &mut Vec<u8>) {
    // Usually there is nothing to escape, so all bytes are tested in one pass first; all characters
    // that are escaped have one byte.
    let is_escaped = |&byte: &u8| byte == b'\\' || byte.wrapping_sub(8) <= 13 - 8;
    if !text.iter().fold(false, |any, byte| any | is_escaped(byte)) {
        return out.extend_from_slice(text);
    }
    for &byte in text {
        match escape(byte) {
            Some(second) => out.extend_from_slice(&[b'\\', second]),
            None => out.push(byte),
        }
    }
}

/// Days since 2000-01-01 as `YYYY-MM-DD` in the proleptic Gregorian calendar; years before 1 end in
/// ` BC`.
fn date_text(days: i64, out: &mut Vec<u8>) {
    let era = push_date(days, out);
    out.extend_from_slice(era);
}

/// Appends the date without its era, which it returns.
fn push_date(days: i64, out: &mut Vec<u8>) -> &'static [u8] {
    // Count from 0000-03-01, so that the leap day is a year's last (H. Hinnant's civil-from-days).
    let shifted = days + 730_425;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + (month <= 2) as i64;
    let (year, suffix) = if year > 0 { (year, &b""[..]) } else { (1 - year, &b" BC"[..]) };
    for (number, width, after) in [(year, 4, &b"-"[..]), (month, 2, b"-"), (day, 2, b"")] {
        push_digits(number as u64, width, out);
        out.extend_from_slice(after);
    }
    suffix
}

fn timestamp_text(micros: i64, out: &mut Vec<u8>) {
    const DAY: i64 = 86_400_000_000;
    let era = push_date(micros.div_euclid(DAY), out);
    let in_day = micros.rem_euclid(DAY);
    let (seconds, fraction) = (in_day / 1_000_000, in_day % 1_000_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    for (before, number) in [(b' ', hour), (b':', minute), (b':', second)] {
        out.push(before);
        push_digits(number as u64, 2, out);
    }
    if fraction != 0 {
        out.push(b'.');
        push_digits(fraction as u64, 6, out);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
    out.extend_from_slice(era);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Value<'_>) -> String {
        let mut out = String::new();
        value.copy_text(&mut out);
        out
    }

    /// Numbers of every length, and their neighbours, are written as the standard library does.
    #[test]
    fn digits_are_those_of_the_number() {
        let powers = (0..20).map(|digits| 10u64.pow(digits));
        let around = powers.flat_map(|power| [power - 1, power, power + 1, power / 7 * 9]);
        for number in around.chain([u64::MAX, u64::MAX - 1]) {
            for width in 1..=20 {
                let mut out = b"x".to_vec();
                push_digits(number, width, &mut out);
                assert_eq!(String::from_utf8(out).unwrap(), format!("x{number:0width$}"));
            }
        }
    }

    #[test]
    fn text_form_is_postgresqls() {
        let cases = [
            (Value::Null, "\\N"),
            (Value::Boolean(true), "t"),
            (Value::Integer(-7), "-7"),
            (Value::Integer(0), "0"),
            (Value::Integer(i64::MIN), "-9223372036854775808"),
            (Value::Integer(i64::MAX), "9223372036854775807"),
            (Value::Double(0.1), "0.1"),
            (Value::Double(1e15), "1e+15"),
            (Value::Double(1.5e-7), "1.5e-07"),
            (Value::Double(-0.0), "-0"),
            (Value::Double(f64::INFINITY), "Infinity"),
            (Value::Decimal { units: -1_005, scale: 2 }, "-10.05"),
            (Value::Decimal { units: -5, scale: 2 }, "-0.05"),
            (Value::Decimal { units: 42, scale: 0 }, "42"),
            (Value::Decimal { units: i128::from(u64::MAX) + 1, scale: 3 }, "18446744073709551.616"),
            (Value::Decimal { units: 7, scale: 20 }, "0.00000000000000000007"),
            (Value::Text(""), ""),
            (Value::Text("a\tb\\c\n"), "a\\tb\\\\c\\n"),
            (Value::Text("\\\\ü\r\u{8}\u{b}\u{c}é\u{e}"), "\\\\\\\\ü\\r\\b\\v\\fé\u{e}"),
            (Value::Bytes(&[0, 255]), "\\\\x00ff"),
            (Value::Date(0), "2000-01-01"),
            (Value::Date(59), "2000-02-29"),
            (Value::Date(-1), "1999-12-31"),
            (Value::Date(-730_485), "0001-01-01 BC"),
            (Value::Timestamp(0), "2000-01-01 00:00:00"),
            (Value::Timestamp(100_000), "2000-01-01 00:00:00.1"),
            (Value::Timestamp(1_000), "2000-01-01 00:00:00.001"),
            (Value::Timestamp(-1), "1999-12-31 23:59:59.999999"),
            (Value::Uuid([0xab; 16]), "abababab-abab-abab-abab-abababababab"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(value), expected);
        }
    }
}
