//! Handles of tables and indexes, resolved together: a struct of them says its fields once.

use tombolo_storage::error::SchemaError;
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable, Schema};
use tombolo_storage::store::{Index, Table, resolve_index, resolve_table};

/// What a schema resolves: a table, an index, or a struct of them.
pub(crate) trait Resolve: Sized {
    /// The handles in `schema`.
    ///
    /// # Errors
    /// When the schema lacks a table or an index, or defines one differently.
    fn resolve(schema: &Schema) -> Result<Self, SchemaError>;
}

impl<R: DeclaredTable> Resolve for Table<R> {
    fn resolve(schema: &Schema) -> Result<Self, SchemaError> {
        resolve_table(schema)
    }
}

impl<I: DeclaredIndex> Resolve for Index<I> {
    fn resolve(schema: &Schema) -> Result<Self, SchemaError> {
        resolve_index(schema)
    }
}

/// An index that not every schema of the workload has.
impl<I: DeclaredIndex> Resolve for Option<Index<I>> {
    fn resolve(schema: &Schema) -> Result<Self, SchemaError> {
        schema.index(I::NAME).map(|_| resolve_index(schema)).transpose()
    }
}

/// Declares a struct of handles, whose fields are resolved in their order.
macro_rules! handles {
    (
        $(#[$attribute:meta])*
        $visible:vis struct $name:ident$(<$of:ident: $bound:path>)? {
            $($(#[$doc:meta])* $field_visible:vis $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$attribute])*
        $visible struct $name$(<$of: $bound>)? {
            $($(#[$doc])* $field_visible $field: $type,)*
        }

        impl$(<$of: $bound>)? $crate::workload::resolve::Resolve for $name$(<$of>)? {
            fn resolve(
                schema: &tombolo_storage::schema::Schema,
            ) -> Result<Self, tombolo_storage::error::SchemaError> {
                use $crate::workload::resolve::Resolve;
                Ok(Self { $($field: Resolve::resolve(schema)?,)* })
            }
        }
    };
}
