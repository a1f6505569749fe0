//! Structs as rows: what `#[derive(Table)]` implements, and what its code names.
//!
//! A derived table is a declared one ([`DeclaredTable`]) whose rows also are values of a struct. Not
//! here: the macro (`tombolo-derive`), transactions that read and write such values (`tx/rows.rs`).

use tombolo_storage::schema::TableDef;
use tombolo_storage::types::{
    BigInt, Boolean, Bytes, Char, ColumnType, Date, Decimal, Double, Integer, Nullable, SmallInt,
    Text, Timestamp, Uuid, Varchar,
};

pub use tombolo_storage::key::KeyPart;
pub use tombolo_storage::schema::{DeclaredIndex, DeclaredTable};

use crate::tx::{NewRow, RowRef};

/// A struct whose values are rows of a table; made by [`derive(Table)`](macro@crate::Table).
pub trait TableRow: DeclaredTable + Sized {
    /// The table's definition, with the indexes that the struct names.
    fn definition() -> TableDef;
    /// The value that a row holds.
    fn read(row: &RowRef<'_, Self>) -> Self;
    /// Puts the value into a row.
    fn fill(&self, row: &mut NewRow<'_, Self>);
}

/// A field's type, which holds what a column of type `T` does.
#[diagnostic::on_unimplemented(
    message = "a field of type `{Self}` does not hold what a column of type `{T}` does",
    label = "choose another type, or another `#[column(sql = …)]`"
)]
pub trait Field<T: ColumnType> {
    /// The value of a column.
    fn of(value: T::Value<'_>) -> Self;
    /// The value for a column.
    fn value(&self) -> T::Value<'_>;
}

macro_rules! copied {
    ($($field:ty: $column:ty $(where ($($generic:tt)+))?;)+) => {$(
        impl $(<$($generic)+>)? Field<$column> for $field {
            fn of(value: $field) -> Self {
                value
            }
            fn value(&self) -> $field {
                *self
            }
        }
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
            /// What is not UTF-8, which only bytes written as such can be, is replaced.
            fn of(value: &[u8]) -> Self {
                String::from_utf8_lossy(value).into_owned()
            }
            fn value(&self) -> &[u8] {
                self.as_bytes()
            }
        }
    )+};
}

text! {
    Text;
    Char<N> where (const N: u16);
    Varchar<N> where (const N: u16);
}

impl Field<Bytes> for Vec<u8> {
    fn of(value: &[u8]) -> Self {
        value.to_vec()
    }
    fn value(&self) -> &[u8] {
        self
    }
}

impl<T: ColumnType, F: Field<T>> Field<Nullable<T>> for Option<F> {
    fn of(value: Option<T::Value<'_>>) -> Self {
        value.map(F::of)
    }
    fn value(&self) -> Option<T::Value<'_>> {
        self.as_ref().map(F::value)
    }
}
