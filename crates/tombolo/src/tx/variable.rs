//! Columns whose values lie outside the row: the types of their values, and how null is marked.
//!
//! Not here: where such values lie (the stores).

use std::convert;

use tombolo_storage::row::{Column, RowMut};

use crate::types::{Bytes, ColumnType, Nullable, Str, Text};

mod sealed {
    use crate::types::{Bytes, Nullable, Str, Text};

    pub trait Sealed {}
    impl Sealed for Text {}
    impl Sealed for Str<Text> {}
    impl Sealed for Bytes {}
    impl Sealed for Nullable<Text> {}
    impl Sealed for Nullable<Str<Text>> {}
    impl Sealed for Nullable<Bytes> {}
}

/// A column type whose values have no bound: `text` takes `&str`, `bytea` takes `&[u8]`, and an
/// `Option` of it where the column may be null.
pub trait VariableType: ColumnType + sealed::Sealed {
    /// What a column is set to.
    type Given<'a>: Copy;
    /// Its bytes; `None` for null.
    #[doc(hidden)]
    fn bytes(given: Self::Given<'_>) -> Option<&[u8]>;
    /// Marks whether there is a value, where there may be none.
    #[doc(hidden)]
    fn mark<R>(row: &mut RowMut<'_, R>, column: Column<R, Self>, is_present: bool)
    where
        Self: Sized;
}

macro_rules! variable_types {
    ($($column:ty: $value:ty, $as_bytes:path;)+) => {$(
        impl VariableType for $column {
            type Given<'a> = &'a $value;
            fn bytes(given: Self::Given<'_>) -> Option<&[u8]> {
                Some($as_bytes(given))
            }
            fn mark<R>(_: &mut RowMut<'_, R>, _: Column<R, Self>, _: bool) {}
        }

        impl VariableType for Nullable<$column> {
            type Given<'a> = Option<&'a $value>;
            fn bytes(given: Self::Given<'_>) -> Option<&[u8]> {
                given.map($as_bytes)
            }
            fn mark<R>(row: &mut RowMut<'_, R>, column: Column<R, Self>, is_present: bool) {
                row.set_present(column, is_present);
            }
        }
    )+};
}

variable_types! {
    Text: str, str::as_bytes;
    Str<Text>: str, str::as_bytes;
    Bytes: [u8], convert::identity;
}
