//! The column types: as run-time descriptions ([`SqlType`]) and as compile-time markers
//! ([`Integer`], [`Decimal`], …).
//!
//! A marker names a column's type for procedures, which read and write rows without copying and
//! without looking a type up; [`SqlType`] describes the same column to everything that learns the
//! schema at run time. Both agree on the stored form: little-endian, fixed width, at an offset the
//! layout (`row.rs`) decides.
//!
//! Lengths of `char(n)` and `varchar(n)` count bytes of UTF-8. They lie inside the row at full
//! width, so that a row never moves when a value grows; only [`Text`] and [`Bytes`], which have no
//! bound, live in a slot of their own.

use std::marker::PhantomData;

use crate::row::{Column, RowBytes};

/// The longest `char(n)` or `varchar(n)`; longer values are `text`.
pub const INLINE_BYTES_MAX: u16 = 2_000;

/// The longest `text` or `bytea`.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// The type of a column, as a schema states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlType {
    /// `boolean`, one byte.
    Boolean,
    /// `smallint`, two bytes.
    SmallInt,
    /// `integer`, four bytes.
    Integer,
    /// `bigint`, eight bytes.
    BigInt,
    /// `double precision`, eight bytes.
    Double,
    /// `numeric(precision, scale)`: an exact decimal, stored as a whole number of units of
    /// 10^-scale in the narrowest of 1, 2, 4, 8 or 16 bytes that holds `precision` digits.
    Decimal {
        /// Decimal digits in all, 1 to 38.
        precision: u8,
        /// Digits behind the point, at most `precision`.
        scale: u8,
    },
    /// `char(n)`: exactly n bytes, padded with blanks.
    Char(u16),
    /// `varchar(n)`: up to n bytes, inside the row.
    Varchar(u16),
    /// `text`: up to [`TEXT_BYTES_MAX`] bytes, outside the row.
    Text,
    /// `bytea`: up to [`TEXT_BYTES_MAX`] bytes, outside the row.
    Bytes,
    /// `date`: days since 2000-01-01.
    Date,
    /// `timestamp`: microseconds since 2000-01-01 00:00:00.
    Timestamp,
    /// `uuid`, sixteen bytes.
    Uuid,
}

impl SqlType {
    /// Bytes a value takes in the fixed part of a row.
    #[inline]
    pub const fn width(self) -> usize {
        match self {
            Self::Boolean => 1,
            Self::SmallInt => 2,
            Self::Integer | Self::Date => 4,
            Self::BigInt | Self::Double | Self::Timestamp | Self::Text | Self::Bytes => 8,
            Self::Decimal { precision, .. } => decimal_width(precision),
            Self::Char(n) => n as usize,
            Self::Varchar(n) => length_width(n) + n as usize,
            Self::Uuid => 16,
        }
    }

    /// Whether values lie outside the row, in a slot of their own.
    pub const fn is_variable(self) -> bool {
        matches!(self, Self::Text | Self::Bytes)
    }

    /// The smallest and largest value of a type whose values are whole numbers of at most 64 bits.
    pub const fn integer_range(self) -> Option<(i64, i64)> {
        match self {
            Self::Boolean => Some((0, 1)),
            Self::SmallInt => Some((i16::MIN as i64, i16::MAX as i64)),
            Self::Integer | Self::Date => Some((i32::MIN as i64, i32::MAX as i64)),
            Self::BigInt | Self::Timestamp => Some((i64::MIN, i64::MAX)),
            Self::Decimal { precision, .. } if precision <= 18 => {
                let most = 10i64.pow(precision as u32) - 1;
                Some((-most, most))
            }
            _ => None,
        }
    }
}

/// Bytes of a decimal with `precision` digits: 10^precision − 1 fits the signed integer of that
/// width.
#[inline]
pub const fn decimal_width(precision: u8) -> usize {
    match precision {
        0..=2 => 1,
        3..=4 => 2,
        5..=9 => 4,
        10..=18 => 8,
        _ => 16,
    }
}

/// Bytes in front of a `varchar(n)` that hold its length.
pub(crate) const fn length_width(n: u16) -> usize {
    if n <= 255 { 1 } else { 2 }
}

/// A column type as procedures see it: how its values are read from and written to a row.
pub trait ColumnType: 'static {
    /// The same type, described at run time.
    const SQL: SqlType;
    /// Whether the column may hold null.
    const NULLABLE: bool = false;
    /// The smallest and largest value, where that is narrower than the SQL type's own range.
    const RANGE: Option<(i64, i64)> = None;
    /// Whether the column was dropped: it has no name and no values, and keeps its place in the rows.
    const DROPPED: bool = false;
    /// A value, borrowed from the row where it has bytes of its own.
    type Value<'a>: Copy;

    /// Reads the value of `column`.
    fn read<'a, R, P: RowBytes>(row: &'a P, column: Column<R, Self>) -> Self::Value<'a>
    where
        Self: Sized;
}

/// A column type whose values lie inside the row, so that a procedure can write them in place.
pub trait InlineType: ColumnType {
    /// Whether a column can hold `value`.
    #[inline(always)]
    fn fits(value: Self::Value<'_>) -> bool {
        let _ = value;
        true
    }
    /// Writes `value` into `column`.
    ///
    /// # Panics
    /// When it does not fit.
    fn write<R>(row: &mut [u8], column: Column<R, Self>, value: Self::Value<'_>)
    where
        Self: Sized;
}

#[inline(always)]
fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[offset..offset + N]);
    out
}

/// A type of whole numbers, or of what is stored as one.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $rust:ty, $sql:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl ColumnType for $name {
            const SQL: SqlType = $sql;
            type Value<'a> = $rust;
            #[inline(always)]
            fn read<R, P: RowBytes>(row: &P, column: Column<R, Self>) -> $rust {
                let stored = <$rust>::from_le_bytes(array(row.fixed(), column.offset()));
                stored ^ column.default_bits() as $rust
            }
        }
        impl InlineType for $name {
            #[inline(always)]
            fn write<R>(row: &mut [u8], column: Column<R, Self>, value: $rust) {
                let bytes = (value ^ column.default_bits() as $rust).to_le_bytes();
                row[column.offset()..column.offset() + bytes.len()].copy_from_slice(&bytes);
            }
        }
    };
}

number!(/// `smallint`.
    SmallInt, i16, SqlType::SmallInt);
number!(/// `integer`.
    Integer, i32, SqlType::Integer);
number!(/// `bigint`.
    BigInt, i64, SqlType::BigInt);
number!(/// `date`, in days since 2000-01-01.
    Date, i32, SqlType::Date);
number!(/// `timestamp`, in microseconds since 2000-01-01 00:00:00.
    Timestamp, i64, SqlType::Timestamp);

/// `double precision`.
#[derive(Clone, Copy, Debug)]
pub struct Double;
impl ColumnType for Double {
    const SQL: SqlType = SqlType::Double;
    type Value<'a> = f64;
    #[inline(always)]
    fn read<R, P: RowBytes>(row: &P, column: Column<R, Self>) -> f64 {
        f64::from_le_bytes(array(row.fixed(), column.offset()))
    }
}
impl InlineType for Double {
    #[inline(always)]
    fn write<R>(row: &mut [u8], column: Column<R, Self>, value: f64) {
        row[column.offset()..column.offset() + 8].copy_from_slice(&value.to_le_bytes());
    }
}

/// `boolean`.
#[derive(Clone, Copy, Debug)]
pub struct Boolean;
impl ColumnType for Boolean {
    const SQL: SqlType = SqlType::Boolean;
    type Value<'a> = bool;
    #[inline(always)]
    fn read<R, P: RowBytes>(row: &P, column: Column<R, Self>) -> bool {
        (row.fixed()[column.offset()] != 0) != (column.default_bits() != 0)
    }
}
impl InlineType for Boolean {
    #[inline(always)]
    fn write<R>(row: &mut [u8], column: Column<R, Self>, value: bool) {
        row[column.offset()] = value as u8 ^ column.default_bits() as u8;
    }
}

/// `uuid`.
#[derive(Clone, Copy, Debug)]
pub struct Uuid;
impl ColumnType for Uuid {
    const SQL: SqlType = SqlType::Uuid;
    type Value<'a> = [u8; 16];
    #[inline(always)]
    fn read<R, P: RowBytes>(row: &P, column: Column<R, Self>) -> [u8; 16] {
        array(row.fixed(), column.offset())
    }
}
impl InlineType for Uuid {
    #[inline(always)]
    fn write<R>(row: &mut [u8], column: Column<R, Self>, value: [u8; 16]) {
        row[column.offset()..column.offset() + 16].copy_from_slice(&value);
    }
}

/// `numeric(P, S)` of at most 18 digits; the value is a whole number of units of 10^-S.
///
/// A value of more than P digits is a programming error and panics where it would not fit its
/// bytes.
#[derive(Clone, Copy, Debug)]
pub struct Decimal<const P: u8, const S: u8>;
impl<const P: u8, const S: u8> ColumnType for Decimal<P, S> {
    const SQL: SqlType = {
        assert!(P >= 1 && P <= 18 && S <= P, "a typed decimal has 1 to 18 digits");
        SqlType::Decimal { precision: P, scale: S }
    };
    type Value<'a> = i64;
    #[inline(always)]
    fn read<R, X: RowBytes>(row: &X, column: Column<R, Self>) -> i64 {
        read_units(row.fixed(), column.offset(), decimal_width(P)) as i64 ^ column.default_bits()
    }
}
impl<const P: u8, const S: u8> InlineType for Decimal<P, S> {
    #[inline(always)]
    fn fits(value: i64) -> bool {
        let most = const { 10u64.pow(P as u32) - 1 };
        // One compare for both sides: what is below the smallest value wraps around.
        (value as u64).wrapping_add(most) <= 2 * most
    }
    #[inline(always)]
    fn write<R>(row: &mut [u8], column: Column<R, Self>, value: i64) {
        assert!(Self::fits(value), "decimal out of range");
        let stored = value ^ column.default_bits();
        write_units(row, column.offset(), decimal_width(P), stored as i128);
    }
}

/// Reads a signed integer of `width` bytes.
#[inline(always)]
pub(crate) fn read_units(bytes: &[u8], offset: usize, width: usize) -> i128 {
    match width {
        1 => bytes[offset] as i8 as i128,
        2 => i16::from_le_bytes(array(bytes, offset)) as i128,
        4 => i32::from_le_bytes(array(bytes, offset)) as i128,
        8 => i64::from_le_bytes(array(bytes, offset)) as i128,
        _ => i128::from_le_bytes(array(bytes, offset)),
    }
}

/// Writes a signed integer of `width` bytes; the caller has checked that it fits.
#[inline(always)]
pub(crate) fn write_units(bytes: &mut [u8], offset: usize, width: usize, value: i128) {
    bytes[offset..offset + width].copy_from_slice(&value.to_le_bytes()[..width]);
}

/// `char(N)`: values are exactly N bytes of UTF-8, blanks included.
#[derive(Clone, Copy, Debug)]
pub struct Char<const N: u16>;
impl<const N: u16> ColumnType for Char<N> {
    const SQL: SqlType = SqlType::Char(N);
    type Value<'a> = &'a [u8];
    #[inline(always)]
    fn read<R, P: RowBytes>(row: &P, column: Column<R, Self>) -> &[u8] {
        &row.fixed()[column.offset()..column.offset() + N as usize]
    }
}
impl<const N: u16> InlineType for Char<N> {
    #[inline(always)]
    fn fits(value: &[u8]) -> bool {
        value.len() == N as usize
    }
    #[inline(always)]
    fn write<R>(row: &mut [u8], column: Column<R, Self>, value: &[u8]) {
        debug_assert!(std::str::from_utf8(value).is_ok(), "char holds UTF-8");
        // A shorter or longer value is a programming error: slices of unequal length panic.
        row[column.offset()..column.offset() + N as usize].copy_from_slice(value);
    }
}

/// `varchar(N)`: values are up to N bytes of UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Varchar<const N: u16>;
impl<const N: u16> ColumnType for Varchar<N> {
    const SQL: SqlType = SqlType::Varchar(N);
    type Value<'a> = &'a [u8];
    #[inline(always)]
    fn read<R, P: RowBytes>(row: &P, column: Column<R, Self>) -> &[u8] {
        read_varchar(row.fixed(), column.offset(), N)
    }
}
impl<const N: u16> InlineType for Varchar<N> {
    #[inline(always)]
    fn fits(value: &[u8]) -> bool {
        value.len() <= N as usize
    }
    #[inline(always)]
    fn write<R>(row: &mut [u8], column: Column<R, Self>, value: &[u8]) {
        debug_assert!(std::str::from_utf8(value).is_ok(), "varchar holds UTF-8");
        write_varchar(row, column.offset(), N, value);
    }
}

#[inline(always)]
pub(crate) fn read_varchar(bytes: &[u8], offset: usize, n: u16) -> &[u8] {
    let length = match length_width(n) {
        1 => bytes[offset] as usize,
        _ => u16::from_le_bytes(array(bytes, offset)) as usize,
    };
    let start = offset + length_width(n);
    &bytes[start..start + length]
}

/// Writes a `varchar(n)`; a value longer than n is a programming error and panics.
#[inline(always)]
pub(crate) fn write_varchar(bytes: &mut [u8], offset: usize, n: u16, value: &[u8]) {
    assert!(value.len() <= n as usize, "varchar too long");
    let start = offset + length_width(n);
    bytes[offset..start].copy_from_slice(&(value.len() as u16).to_le_bytes()[..length_width(n)]);
    bytes[start..start + value.len()].copy_from_slice(value);
}

macro_rules! variable {
    ($(#[$doc:meta])* $name:ident, $sql:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl ColumnType for $name {
            const SQL: SqlType = $sql;
            type Value<'a> = &'a [u8];
            #[inline(always)]
            fn read<R, P: RowBytes>(row: &P, column: Column<R, Self>) -> &[u8] {
                row.variable(u64::from_le_bytes(array(row.fixed(), column.offset())))
            }
        }
    };
}

variable!(/// `text`: written through `Store::set_variable`.
    Text, SqlType::Text);
variable!(/// `bytea`: written through `Store::set_variable`.
    Bytes, SqlType::Bytes);

/// A column of type `T` that may hold null.
#[derive(Clone, Copy, Debug)]
pub struct Nullable<T>(PhantomData<T>);
impl<T: ColumnType> ColumnType for Nullable<T> {
    const SQL: SqlType = T::SQL;
    const NULLABLE: bool = true;
    const RANGE: Option<(i64, i64)> = T::RANGE;
    type Value<'a> = Option<T::Value<'a>>;
    #[inline(always)]
    fn read<'a, R, P: RowBytes>(row: &'a P, column: Column<R, Self>) -> Option<T::Value<'a>> {
        if column.is_present(row.fixed()) { Some(T::read(row, column.retyped())) } else { None }
    }
}
impl<T: InlineType> InlineType for Nullable<T> {
    #[inline(always)]
    fn fits(value: Option<T::Value<'_>>) -> bool {
        value.is_none_or(T::fits)
    }
    #[inline(always)]
    fn write<R>(row: &mut [u8], column: Column<R, Self>, value: Option<T::Value<'_>>) {
        column.set_present(row, value.is_some());
        if let Some(value) = value {
            T::write(row, column.retyped(), value);
        }
    }
}

/// A column that was dropped, of type `T`: it keeps its place in the rows, and so in the declaration.
///
/// ```
/// use tombolo_storage::{schema::DeclaredTable, table};
/// table! {
///     /// Customers, whose remarks were dropped.
///     pub struct Customer = "customer" { ID: Integer; REMARK: Dropped<Text>; NAME: Varchar<40>; }
/// }
/// assert!(Customer::COLUMNS[1].is_dropped());
/// ```
pub struct Dropped<T>(PhantomData<fn() -> T>);

impl<T> Dropped<T> {
    /// What stands where its value would.
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for Dropped<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Dropped<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Dropped<T> {}

impl<T> PartialEq for Dropped<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Dropped<T> {}

impl<T> std::fmt::Debug for Dropped<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Dropped")
    }
}

impl<T: ColumnType> ColumnType for Dropped<T> {
    const SQL: SqlType = T::SQL;
    const NULLABLE: bool = T::NULLABLE;
    const DROPPED: bool = true;
    type Value<'a> = ();
    #[inline(always)]
    fn read<R, P: RowBytes>(_: &P, _: Column<R, Self>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_fit_their_bytes() {
        for precision in 1..=38 {
            let width = decimal_width(precision);
            let most = 10i128.pow(precision as u32) - 1;
            for units in [0, 1, -1, most, -most] {
                let mut bytes = [0xaa; 20];
                write_units(&mut bytes, 2, width, units);
                assert_eq!(read_units(&bytes, 2, width), units, "{precision} digits");
                assert_eq!((bytes[1], bytes[2 + width]), (0xaa, 0xaa), "{precision} digits");
            }
            let narrower = precision > 2 && most >> (4 * width - 1) == 0;
            assert!(!narrower, "{precision} digits would fit {} bytes", width / 2);
            let range = SqlType::Decimal { precision, scale: 0 }.integer_range();
            let expected = (precision <= 18).then_some((-most as i64, most as i64));
            assert_eq!(range, expected, "{precision} digits");
        }
    }

    #[test]
    fn varchar_lengths_take_one_byte_up_to_255() {
        for (n, prefix) in [(1, 1), (255, 1), (256, 2), (INLINE_BYTES_MAX, 2)] {
            assert_eq!(SqlType::Varchar(n).width(), prefix + n as usize);
            let mut bytes = vec![0xaa; SqlType::Varchar(n).width() + 2];
            for length in [n as usize, 0, 1] {
                let value = vec![b'v'; length];
                write_varchar(&mut bytes, 1, n, &value);
                assert_eq!(read_varchar(&bytes, 1, n), value);
                assert_eq!((bytes[0], bytes[bytes.len() - 1]), (0xaa, 0xaa));
            }
        }
    }

    crate::table! {
        /// Columns whose values can be wrong.
        struct Narrow = "narrow" { RATE: Decimal<3, 1>; CODE: Char<2>; NAME: Varchar<2>; }
    }

    #[test]
    fn values_that_do_not_fit_are_never_written() {
        let refused = |write: fn(&mut [u8])| {
            let mut row = vec![0; 2 + 2 + 3];
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| write(&mut row)));
            assert!(panic.is_err());
            assert_eq!(row, [0; 7]);
        };
        refused(|row| Decimal::write(row, Narrow::RATE, 1_000));
        refused(|row| Decimal::write(row, Narrow::RATE, -1_000));
        refused(|row| Decimal::write(row, Narrow::RATE, i64::MIN));
        refused(|row| Char::write(row, Narrow::CODE, b"a"));
        refused(|row| Char::write(row, Narrow::CODE, b"abc"));
        refused(|row| Varchar::write(row, Narrow::NAME, b"abc"));
    }
}
