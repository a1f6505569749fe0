//! A table and the plain values of its rows, declared together.
//!
//! The values are what the generator makes and what tests compute with, and what the loader and transactions write into
//! a store's row, column by column. How a row lies in a store is the store's affair.
//!
//! # Types
//! Identifiers are `i32`, except a district's, a carrier's and a line's number: `i16`. Every exact
//! decimal N(p, s) is an `i64` counting units of 10^−s: cents for money, 1/10,000 for rates, one
//! for counts. A time is an `i64`, microseconds since 2000-01-01 00:00:00. A column that may be
//! null is an [`Option`]. Strings are [`Text`] of the column's full width.

use tombolo_storage::row::{Column, RowMut};
use tombolo_storage::types::{
    Char, Decimal, InlineType, Integer, Nullable, SmallInt, Timestamp, Varchar,
};

use super::text::Text;

/// A column type with the type of the field that has its values outside a store.
pub trait Plain: InlineType + Sized {
    /// The type of that field.
    type Field;

    /// Writes a value into a column of a row.
    fn write<R>(value: &Self::Field, row: &mut RowMut<'_, R>, column: Column<R, Self>);
}

macro_rules! numbers {
    ($($type:ty = $value:ty $(where [$($of:tt)*])?;)*) => {$(
        impl $(<$($of)*>)? Plain for $type {
            type Field = $value;

            #[inline(always)]
            fn write<R>(value: &$value, row: &mut RowMut<'_, R>, column: Column<R, Self>) {
                row.set(column, *value);
            }
        }
    )*};
}
numbers! {
    SmallInt = i16;
    Integer = i32;
    Timestamp = i64;
    Nullable<SmallInt> = Option<i16>;
    Nullable<Timestamp> = Option<i64>;
    Decimal<P, S> = i64 where [const P: u8, const S: u8];
}

macro_rules! strings {
    ($($type:ident: $($width:literal)*;)*) => {$($(
        impl Plain for $type<$width> {
            type Field = Text<$width>;

            #[inline(always)]
            fn write<R>(value: &Self::Field, row: &mut RowMut<'_, R>, column: Column<R, Self>) {
                row.set(column, value.as_bytes());
            }
        }
    )*)*};
}
strings! {
    Char: 2 9 16 24;
    Varchar: 10 16 20 24 50 500;
}

/// Declares a table as `table!` does, and its rows as plain values, whose fields have lower-case names.
macro_rules! table_of_rows {
    (
        $(#[$doc:meta])*
        pub struct $table:ident of $row:ident = $name:literal {$(
            $field:ident = $column:ident: $type:ty $([$low:literal ..= $high:literal])? $(=> $hot:ident)?;
        )*}
    ) => {
        tombolo_storage::table! {
            $(#[$doc])*
            pub struct $table = $name {
                $($column: $type $([$low ..= $high])? $(=> $hot)?;)*
            }
        }

        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each field is the column of its name")]
        pub struct $row {
            $(pub $field: <$type as Plain>::Field,)*
        }

        impl Fill<$table> for $row {
            #[inline(always)]
            fn fill(&self, row: &mut RowMut<'_, $table>) {
                $(<$type>::write(&self.$field, row, <$table>::$column);)*
            }
        }
    };
}
pub(super) use table_of_rows;
