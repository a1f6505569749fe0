//! Values as SQL, dumps and checks see them: one dynamically typed cell, and its text form.
//!
//! The text is PostgreSQL's COPY format, because state hashes and dumps are defined by it (cli.md,
//! "state_hash"). Procedures do not come through here: they read columns by type.

use std::fmt::Write as _;

use crate::row::{RowBytes, column_offset, presence_bit};
use crate::schema::ColumnDef;
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
        let null = column.nullable.then(|| {
            let bit = presence_bit(columns, position);
            (bit / 8, 1 << (bit % 8), !column.marks_null())
        });
        let default_bits = i128::from(column.default_bits());
        Self { sql: column.sql, offset: column_offset(columns, position), default_bits, null }
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

    /// Whether its values are of variable length, a row holding a handle of each.
    pub const fn is_variable(&self) -> bool {
        matches!(self.sql, SqlType::Text | SqlType::Bytes)
    }

    /// The handle of the column's value in `row`, if it is one of variable length and not null.
    pub fn handle(&self, row: &[u8]) -> Option<u64> {
        let is_null =
            self.null.is_some_and(|(byte, bit, if_zero)| (row[byte] & bit == 0) == if_zero);
        if is_null || !self.is_variable() {
            return None;
        }
        let units = read_units(row, self.offset, self.sql.width()) ^ self.default_bits;
        Some(units as u64)
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
        match *self {
            Self::Null => out.push_str("\\N"),
            Self::Boolean(value) => out.push(if value { 't' } else { 'f' }),
            Self::Integer(value) => {
                if value < 0 {
                    out.push('-');
                }
                push_digits(value.unsigned_abs(), 1, out);
            }
            Self::Double(value) => double_text(value, out),
            Self::Decimal { units, scale } => decimal_text(units, scale, out),
            Self::Text(text) => escape_text(text, out),
            Self::Bytes(bytes) => {
                out.push_str("\\\\x");
                for byte in bytes {
                    push_display(out, format_args!("{byte:02x}"));
                }
            }
            Self::Date(days) => date_text(days as i64, out),
            Self::Timestamp(micros) => timestamp_text(micros, out),
            Self::Uuid(bytes) => {
                for (i, byte) in bytes.iter().enumerate() {
                    if matches!(i, 4 | 6 | 8 | 10) {
                        out.push('-');
                    }
                    push_display(out, format_args!("{byte:02x}"));
                }
            }
        }
    }
}

/// Appends what `value` displays; writing to a string cannot fail.
fn push_display(out: &mut String, value: impl std::fmt::Display) {
    let written = write!(out, "{value}");
    debug_assert!(written.is_ok());
}

/// Appends `number` in decimal, with zeros in front up to `width` digits (20 at most). Most of a dump are
/// numbers, and what writes them through a format takes several times as long.
fn push_digits(mut number: u64, width: usize, out: &mut String) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while number > 0 || digits.len() - first < width {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    debug_assert!(digits[first..].is_ascii());
    out.extend(digits[first..].iter().map(|&digit| char::from(digit)));
}

/// PostgreSQL's shortest exact form: plain between 1e-4 and 1e15, with an exponent of two digits at
/// least outside.
fn double_text(value: f64, out: &mut String) {
    if value.is_nan() {
        return out.push_str("NaN");
    }
    if value.is_infinite() {
        return out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
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

fn decimal_text(units: i128, scale: u8, out: &mut String) {
    if units < 0 {
        out.push('-');
    }
    if let (Ok(magnitude), Some(unit)) =
        (u64::try_from(units.unsigned_abs()), 10u64.checked_pow(scale.into()))
    {
        push_digits(magnitude / unit, 1, out);
        if scale > 0 {
            out.push('.');
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

fn escape_text(text: &str, out: &mut String) {
    // What has no character to be escaped is appended at once; all of those are of one byte.
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'\\' | 8..=13)) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        match from.as_bytes()[0] {
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            8 => out.push_str("\\b"),
            11 => out.push_str("\\v"),
            _ => out.push_str("\\f"),
        }
        rest = &from[1..];
    }
    out.push_str(rest);
}

/// Days since 2000-01-01 as `YYYY-MM-DD` in the proleptic Gregorian calendar; years before 1 end in
/// ` BC`.
fn date_text(days: i64, out: &mut String) {
    let era = push_date(days, out);
    out.push_str(era);
}

/// Appends the date without its era, which it returns.
fn push_date(days: i64, out: &mut String) -> &'static str {
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
    let (year, suffix) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    for (number, width, after) in [(year, 4, "-"), (month, 2, "-"), (day, 2, "")] {
        push_digits(number as u64, width, out);
        out.push_str(after);
    }
    suffix
}

fn timestamp_text(micros: i64, out: &mut String) {
    const DAY: i64 = 86_400_000_000;
    let era = push_date(micros.div_euclid(DAY), out);
    let in_day = micros.rem_euclid(DAY);
    let (seconds, fraction) = (in_day / 1_000_000, in_day % 1_000_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    for (before, number) in [(' ', hour), (':', minute), (':', second)] {
        out.push(before);
        push_digits(number as u64, 2, out);
    }
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        push_display(out, format_args!(".{}", digits.trim_end_matches('0')));
    }
    out.push_str(era);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Value<'_>) -> String {
        let mut out = String::new();
        value.copy_text(&mut out);
        out
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
            (Value::Timestamp(1_000), "2000-01-01 00:00:00.001"),
            (Value::Timestamp(-1), "1999-12-31 23:59:59.999999"),
            (Value::Uuid([0xab; 16]), "abababab-abab-abab-abab-abababababab"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(value), expected);
        }
    }
}
