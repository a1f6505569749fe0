//! The types of columns: those of SQL, and those of Rust that are stored as one of them.
//!
//! `#[derive(Table)]` chooses a column's type by its field's; declared tables name them. A column of type
//! [`As<F, T>`] is read, written and looked up as an `F` and stored as `T` stores its values; one of type
//! [`Str<T>`] is a `&str` where `T` alone is bytes.
//!
//! | a field of type | is stored as | unless `#[column(sql = …)]` says |
//! |---|---|---|
//! | `bool` | `boolean` | |
//! | `i8`, `u8`, `i16` | `smallint` | |
//! | `u16`, `i32` | `integer` | `Date`, days since 2000 (`i32`) |
//! | `u32`, `u64`, `i64` | `bigint` | `Timestamp`, microseconds since 2000; `Decimal<P, S>`, in last digits (`i64`) |
//! | `f32`, `f64` | `double precision` | |
//! | `String` | `text` | `Varchar<N>`, `Char<N>` |
//! | `Vec<u8>` | `bytea` | |
//! | `[u8; 16]`, `uuid::Uuid` (feature `uuid`) | `uuid` | |
//! | `std::time::SystemTime` | `timestamp` | |
//! | `chrono::NaiveDate` (feature `chrono`) | `date` | |
//! | `chrono::NaiveDateTime`, `chrono::DateTime<Utc>` (feature `chrono`) | `timestamp` | |
//! | `rust_decimal::Decimal` (feature `rust_decimal`) | | `Decimal<P, S>` |
//! | an enum with `#[derive(Enum)]` | `smallint`, by its discriminants | |
//! | an `Option` of one | the same, which may be null | |
//! | [`Dropped`] of one | what it was, in the place of a column that was dropped | the type that was named |
//!
//! A value that its column cannot hold — a `u64` of `i64::MAX` or more, a text that is too long, a decimal with
//! too many digits — is refused when it is written ([`StoreError::OutOfRange`](crate::StoreError)).
//!
//! Not here: how values lie in a row (`tombolo_storage::types`), structs as rows (`derived.rs`).

use std::marker::PhantomData;

use tombolo_storage::key::{Encoding, Fit, KeyColumn};
use tombolo_storage::row::{Column, RowBytes};

pub use tombolo_storage::types::*;

mod field;
mod native;

#[cfg(feature = "chrono")]
mod chrono;
#[cfg(feature = "rust_decimal")]
mod rust_decimal;
#[cfg(feature = "uuid")]
mod uuid;

#[doc(hidden)]
pub use field::field_as;
pub use field::{DefaultColumn, Field};

/// A type of Rust that is stored as a column of type `T` stores its values.
pub trait StoredAs<T: ColumnType>: Copy + 'static {
    /// The smallest and largest stored value, where not all of `T`'s stand for one of these. It leaves out
    /// the smallest and largest `i64` where not all values are stored.
    const RANGE: Option<(i64, i64)> = None;

    /// What is stored; `None` if a column cannot hold it.
    fn stored(self) -> Option<T::Value<'static>>;

    /// Whether a value that cannot be stored is less than all that can; else it is greater.
    fn is_below(self) -> bool {
        false
    }

    /// The value that this stands for.
    ///
    /// # Panics
    /// When it stands for none; nothing that [`StoredAs::stored`] made does that.
    fn from_stored(stored: T::Value<'_>) -> Self;
}

/// A column whose values are `F`s, stored as those of a column of type `T`.
#[derive(Clone, Copy, Debug)]
pub struct As<F, T>(PhantomData<(F, T)>);

impl<F: StoredAs<T>, T: ColumnType> ColumnType for As<F, T> {
    const SQL: SqlType = T::SQL;
    const RANGE: Option<(i64, i64)> = F::RANGE;
    type Value<'a> = F;

    #[inline(always)]
    fn read<R, P: RowBytes>(row: &P, column: Column<R, Self>) -> F {
        F::from_stored(T::read(row, column.retyped()))
    }
}

impl<F: StoredAs<T>, T: InlineType> InlineType for As<F, T> {
    #[inline(always)]
    fn fits(value: F) -> bool {
        value.stored().is_some_and(T::fits)
    }

    #[inline(always)]
    fn write<R>(row: &mut [u8], column: Column<R, Self>, value: F) {
        let Some(stored) = value.stored() else { panic!("a value does not fit its column") };
        T::write(row, column.retyped(), stored);
    }
}

impl<F: StoredAs<T>, T: KeyColumn> KeyColumn for As<F, T> {
    #[inline(always)]
    fn units(value: F) -> Option<i64> {
        match value.stored() {
            Some(stored) => T::units(stored),
            // No row has a key that its column cannot hold, so no range contains these numbers.
            None => Some(if value.is_below() { i64::MIN } else { i64::MAX }),
        }
    }

    #[inline]
    fn encode<E: Encoding>(value: F, out: &mut Vec<u8>) -> Fit {
        match value.stored() {
            Some(stored) => T::encode::<E>(stored, out),
            None if value.is_below() => Fit::Below,
            None => Fit::Above,
        }
    }
}

/// A column of text, whose values are `&str` where those of `T` are bytes.
#[derive(Clone, Copy, Debug)]
pub struct Str<T>(PhantomData<T>);

impl<T: for<'a> ColumnType<Value<'a> = &'a [u8]>> ColumnType for Str<T> {
    const SQL: SqlType = T::SQL;
    type Value<'a> = &'a str;

    /// # Panics
    /// When the bytes are not UTF-8, which only bytes that were written as such can be.
    #[inline]
    fn read<R, P: RowBytes>(row: &P, column: Column<R, Self>) -> &str {
        let bytes = T::read(row, column.retyped());
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => panic!("a text was written as bytes that are none: {error}"),
        }
    }
}

impl<T: InlineType + for<'a> ColumnType<Value<'a> = &'a [u8]>> InlineType for Str<T> {
    #[inline(always)]
    fn fits(value: &str) -> bool {
        T::fits(value.as_bytes())
    }

    #[inline(always)]
    fn write<R>(row: &mut [u8], column: Column<R, Self>, value: &str) {
        T::write(row, column.retyped(), value.as_bytes());
    }
}

impl<T: KeyColumn + for<'a> ColumnType<Value<'a> = &'a [u8]>> KeyColumn for Str<T> {
    #[inline(always)]
    fn units(value: &str) -> Option<i64> {
        T::units(value.as_bytes())
    }

    #[inline]
    fn encode<E: Encoding>(value: &str, out: &mut Vec<u8>) -> Fit {
        T::encode::<E>(value.as_bytes(), out)
    }
}
