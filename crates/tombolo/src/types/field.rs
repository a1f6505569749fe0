//! Fields of derived tables: which column a field of a type gets, and how its values get there and back.
//!
//! Not here: which types of Rust are stored as which of SQL (`native.rs`, and a file for each crate).

use tombolo_storage::row::{Column, RowBytes};

use super::*;
use crate::tx::{NewRow, RowRef};

/// The column that a field of this type gets unless `#[column(sql = …)]` names another.
#[diagnostic::on_unimplemented(
    message = "no column holds a `{Self}`",
    label = "a field of this type needs `#[column(sql = …)]`, or another type",
    note = "columns hold bool, integers up to 64 bits, f32, f64, String, Vec<u8>, [u8; 16], \
            SystemTime, enums with #[derive(Enum)], an Option of one, and types of chrono, uuid and \
            rust_decimal with the feature of that name"
)]
pub trait DefaultColumn {
    /// The column's type in SQL.
    type Sql: ColumnType;
}

/// A field's type, which holds what a column of type `T` does.
#[diagnostic::on_unimplemented(
    message = "a field of type `{Self}` cannot represent a column of type `{T}`",
    label = "choose another type, or another `#[column(sql = …)]`"
)]
pub trait Field<T: ColumnType>: Sized {
    /// The column's type, with values that are read and written as Rust's.
    type Column: ColumnType;

    /// The value of a row's column.
    fn read<R, P: RowBytes>(row: &RowRef<'_, R, P>, column: Column<R, Self::Column>) -> Self {
        Self::of(row.get(column))
    }
    /// Puts the value into a row's column.
    fn fill<R>(&self, row: &mut NewRow<'_, R>, column: Column<R, Self::Column>);
    /// Puts the value, or null, into a row's column that may be null.
    fn fill_nullable<R>(
        value: Option<&Self>,
        row: &mut NewRow<'_, R>,
        column: Column<R, Nullable<Self::Column>>,
    );
    /// The field's value for a column's.
    fn of(value: <Self::Column as ColumnType>::Value<'_>) -> Self;
    /// The column's value for the field's, as in a key.
    fn value(&self) -> <Self::Column as ColumnType>::Value<'_>;
    /// How many bytes of the value lie outside its row.
    #[inline]
    fn outside_bytes(&self) -> usize {
        0
    }
}

impl<F: DefaultColumn> DefaultColumn for Dropped<F> {
    type Sql = F::Sql;
}

/// A field that stands for a column that was dropped, of the type that its `F` or `#[column(sql = …)]` says.
impl<F, T: ColumnType> Field<T> for Dropped<F> {
    type Column = Dropped<T>;

    fn fill<R>(&self, _: &mut NewRow<'_, R>, _: Column<R, Self::Column>) {}
    fn fill_nullable<R>(
        _: Option<&Self>,
        _: &mut NewRow<'_, R>,
        _: Column<R, Nullable<Self::Column>>,
    ) {
    }
    fn of((): ()) -> Self {
        Self::new()
    }
    fn value(&self) {}
}

/// Fields whose values are copied between field and column. The column may have another type: `copied!(i32: Date)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __copied_field {
    ($field:ty: $sql:ty => $column:ty $(, [$($generic:tt)+])?) => {
        impl $(<$($generic)+>)? $crate::types::Field<$sql> for $field {
            type Column = $column;
            fn fill<R>(
                &self,
                row: &mut $crate::NewRow<'_, R>,
                column: $crate::Column<R, Self::Column>,
            ) {
                row.set(column, *self);
            }
            fn fill_nullable<R>(
                value: Option<&Self>,
                row: &mut $crate::NewRow<'_, R>,
                column: $crate::Column<R, $crate::types::Nullable<Self::Column>>,
            ) {
                row.set(column, value.copied());
            }
            fn of(value: $field) -> Self {
                value
            }
            fn value(&self) -> $field {
                *self
            }
        }
    };
}

/// Fields of a type that is stored as one of SQL ([`StoredAs`]): `field_as!(u8: SmallInt)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __field_as {
    ($field:ty: $sql:ty $(, [$($generic:tt)+])?) => {
        $crate::__copied_field!($field: $sql => $crate::types::As<$field, $sql> $(, [$($generic)+])?);
    };
}
pub use crate::__field_as as field_as;

/// Fields of their column's own type.
macro_rules! copied {
    ($($field:ty: $column:ty $(where ($($generic:tt)+))?;)+) => {$(
        $crate::__copied_field!($field: $column => $column $(, [$($generic)+])?);
    )+};
}

copied! {
    bool: Boolean;
    i16: SmallInt;
    i32: Integer;
    i64: BigInt;
    f64: Double;
    i32: Date;
    i64: Timestamp;
    [u8; 16]: Uuid;
    i64: Decimal<P, S> where (const P: u8, const S: u8);
}

macro_rules! text {
    ($($column:ty $(where ($($generic:tt)+))?;)+) => {$(
        impl $(<$($generic)+>)? Field<$column> for String {
            type Column = Str<$column>;
            fn fill<R>(&self, row: &mut NewRow<'_, R>, column: Column<R, Self::Column>) {
                row.set(column, self);
            }
            fn fill_nullable<R>(
                value: Option<&Self>,
                row: &mut NewRow<'_, R>,
                column: Column<R, Nullable<Self::Column>>,
            ) {
                row.set(column, value.map(String::as_str));
            }
            fn of(value: &str) -> Self {
                value.to_owned()
            }
            fn value(&self) -> &str {
                self
            }
        }
    )+};
}

text! {
    Char<N> where (const N: u16);
    Varchar<N> where (const N: u16);
}

/// Values outside the row.
macro_rules! variable {
    ($($field:ty: $sql:ty, $column:ty, $value:ty, $to_owned:ident;)+) => {$(
        impl Field<$sql> for $field {
            type Column = $column;
            fn fill<R>(&self, row: &mut NewRow<'_, R>, column: Column<R, $column>) {
                row.set_variable(column, self.as_ref());
            }
            fn fill_nullable<R>(
                value: Option<&Self>,
                row: &mut NewRow<'_, R>,
                column: Column<R, Nullable<$column>>,
            ) {
                row.set_variable(column, value.map(AsRef::as_ref));
            }
            fn of(value: &$value) -> Self {
                value.$to_owned()
            }
            fn value(&self) -> &$value {
                self
            }
            fn outside_bytes(&self) -> usize {
                self.len()
            }
        }
    )+};
}

variable! {
    String: Text, Str<Text>, str, to_owned;
    Vec<u8>: Bytes, Bytes, [u8], to_vec;
}

impl<T: ColumnType, F: Field<T>> Field<Nullable<T>> for Option<F> {
    type Column = Nullable<F::Column>;
    fn fill<R>(&self, row: &mut NewRow<'_, R>, column: Column<R, Self::Column>) {
        F::fill_nullable(self.as_ref(), row, column);
    }
    fn fill_nullable<R>(
        value: Option<&Self>,
        _: &mut NewRow<'_, R>,
        _: Column<R, Nullable<Self::Column>>,
    ) {
        unreachable!("a column is null in one way: {}", value.is_some());
    }
    fn of(value: Option<<F::Column as ColumnType>::Value<'_>>) -> Self {
        value.map(F::of)
    }
    fn value(&self) -> Option<<F::Column as ColumnType>::Value<'_>> {
        self.as_ref().map(F::value)
    }
    fn outside_bytes(&self) -> usize {
        self.as_ref().map_or(0, F::outside_bytes)
    }
}

macro_rules! default_columns {
    ($($field:ty: $sql:ty;)+) => {$(
        impl DefaultColumn for $field {
            type Sql = $sql;
        }
    )+};
}

default_columns! {
    bool: Boolean;
    i16: SmallInt;
    i32: Integer;
    i64: BigInt;
    f64: Double;
    [u8; 16]: Uuid;
    String: Text;
    Vec<u8>: Bytes;
}

impl<F: DefaultColumn> DefaultColumn for Option<F> {
    type Sql = Nullable<F::Sql>;
}
