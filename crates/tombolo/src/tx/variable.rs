//! Columns whose values lie outside the row: what they are given, and how null is marked.
//!
//! Not here: where such values lie (the stores).

use tombolo_storage::row::{Column, RowMut};
use tombolo_storage::types::{Bytes, ColumnType, Nullable, Text};

mod sealed {
    use tombolo_storage::types::{Bytes, Nullable, Text};

    pub trait Sealed {}
    impl Sealed for Text {}
    impl Sealed for Bytes {}
    impl Sealed for Nullable<Text> {}
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

impl VariableType for Text {
    type Given<'a> = &'a str;
    fn bytes(given: Self::Given<'_>) -> Option<&[u8]> {
        Some(given.as_bytes())
    }
    fn mark<R>(_: &mut RowMut<'_, R>, _: Column<R, Self>, _: bool) {}
}

impl VariableType for Bytes {
    type Given<'a> = &'a [u8];
    fn bytes(given: Self::Given<'_>) -> Option<&[u8]> {
        Some(given)
    }
    fn mark<R>(_: &mut RowMut<'_, R>, _: Column<R, Self>, _: bool) {}
}

impl VariableType for Nullable<Text> {
    type Given<'a> = Option<&'a str>;
    fn bytes(given: Self::Given<'_>) -> Option<&[u8]> {
        given.map(str::as_bytes)
    }
    fn mark<R>(row: &mut RowMut<'_, R>, column: Column<R, Self>, is_present: bool) {
        row.set_present(column, is_present);
    }
}

impl VariableType for Nullable<Bytes> {
    type Given<'a> = Option<&'a [u8]>;
    fn bytes(given: Self::Given<'_>) -> Option<&[u8]> {
        given
    }
    fn mark<R>(row: &mut RowMut<'_, R>, column: Column<R, Self>, is_present: bool) {
        row.set_present(column, is_present);
    }
}
