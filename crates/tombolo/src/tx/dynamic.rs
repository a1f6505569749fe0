//! A table whose columns are known at run time only, as a closure names it.
//!
//! Not here: what reads and writes its rows ([`Tx`](super::Tx)).

use tombolo_storage::dynamic::DynamicTable as Entries;
use tombolo_storage::key::Dynamic;
use tombolo_storage::schema::{ColumnDef, Schema};
use tombolo_storage::store::{Index, Table};

/// The handle of a table that is described at run time; see
/// [`Database::dynamic_table`](crate::Database::dynamic_table).
///
/// ```
/// # use tombolo::{ColumnDef, Database, IndexDef, IndexKind, Order, Range, TableDef, Value, types};
/// # let by_size = IndexDef {
/// #     name: "box_by_size".into(), columns: vec![1], unique: false, kind: IndexKind::Tree,
/// # };
/// # let columns = [ColumnDef::of::<types::Integer>("id"), ColumnDef::of::<types::Double>("size")];
/// # let table = TableDef { name: "box".into(), columns: columns.into(), indexes: vec![by_size] };
/// # let db = Database::builder().table(table).in_memory()?;
/// let boxes = db.dynamic_table("box")?;
/// let found = db.transaction(move |tx| {
///     for id in 0..4 {
///         tx.insert_values(&boxes, &[Value::Integer(id), Value::Double(id as f64 / 2.0)])?;
///     }
///     // Keys are values, one for each column of the index.
///     let Some(by_size) = boxes.index("box_by_size") else { return Ok(0) };
///     let range = Range::between(&[Value::Double(0.5)][..], &[Value::Double(1.0)][..]);
///     Ok(tx.range(by_size, range, Order::Forward)?.len())
/// })?;
/// assert_eq!(found, 2);
/// # Ok::<(), tombolo::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DynamicTable {
    entries: Entries,
    /// Names of its indexes.
    names: Vec<String>,
}

impl DynamicTable {
    pub(crate) fn new(schema: &Schema, position: usize) -> Self {
        let indexes = schema.tables[position].indexes.iter();
        let names = indexes.map(|index| index.name.to_string()).collect();
        Self { entries: Entries::new(schema, position), names }
    }

    pub(crate) const fn entries(&self) -> &Entries {
        &self.entries
    }

    /// What calls name that take rows of any table: [`Tx::rows`](super::Tx::rows),
    /// [`Tx::delete`](super::Tx::delete).
    pub fn handle(&self) -> &Table<Dynamic> {
        self.entries.handle()
    }

    /// Its columns, in the order of a row's values.
    pub fn columns(&self) -> &[ColumnDef] {
        self.entries.columns()
    }

    /// One of its indexes. Keys are slices of values, one for each of its columns.
    pub fn index(&self, name: &str) -> Option<&Index<Dynamic>> {
        let position = self.names.iter().position(|own| own == name)?;
        self.entries.indexes().nth(position)
    }
}
