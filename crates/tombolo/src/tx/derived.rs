//! Structs as rows: what `#[derive(Table)]` implements, and what its code names.
//!
//! A derived table is a declared one ([`DeclaredTable`]) whose rows also are values of a struct. Not
//! here: the macro (`tombolo-derive`), fields (`types/field.rs`), transactions that read and write such
//! values (`tx/rows.rs`).

use tombolo_storage::key::IndexType;
pub use tombolo_storage::key::KeyPart;
pub use tombolo_storage::row::RowBytes;
use tombolo_storage::schema::TableDef;
pub use tombolo_storage::schema::{DeclaredIndex, DeclaredTable};

use super::{NewRow, RowRef};

/// A struct whose values are rows of a table; made by [`derive(Table)`](macro@crate::Table).
pub trait TableRow: DeclaredTable + Sized {
    /// The table's definition, with the indexes that the struct names.
    fn definition() -> TableDef;
    /// The value that a row holds.
    fn read<P: RowBytes>(row: &RowRef<'_, Self, P>) -> Self;
    /// Puts the value into a row.
    fn fill(&self, row: &mut NewRow<'_, Self>);
    /// How many bytes of the value lie outside its row.
    fn outside_bytes(&self) -> usize;
}

/// An index of a derived table, whose keys follow from values of its struct.
pub trait RowIndex: DeclaredIndex<Table: TableRow> + Sized {
    /// The key of a value.
    fn key_of(row: &Self::Table) -> <Self as IndexType>::Key<'_>;
}
