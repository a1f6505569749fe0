//! Reading all rows of a table, and whole databases in one transaction: for conditions of consistency,
//! state hashes and dumps. Not here: what is made of the rows.

use std::ops::ControlFlow;

use tombolo_engine::transaction::Reading;
use tombolo_storage::error::{Error, Result};
use tombolo_storage::row::{Row, RowBytes};
use tombolo_storage::schema::DeclaredTable;
use tombolo_storage::store::{SharedRows, Store, Table, dynamic_table};

use crate::store::DynamicStore;

/// A row in place, wherever that is.
#[derive(Clone, Copy)]
pub(super) struct Seen<'r> {
    fixed: &'r [u8],
    row: &'r dyn RowBytes,
}

impl RowBytes for Seen<'_> {
    fn fixed(&self) -> &[u8] {
        self.fixed
    }

    fn variable(&self, handle: u64) -> &[u8] {
        self.row.variable(handle)
    }
}

/// What has rows.
pub(super) trait HasRows {
    /// Calls `see` with every row of `table`.
    fn for_each_row<R: DeclaredTable>(
        &mut self,
        table: &Table<R>,
        see: impl FnMut(&Row<R, Seen<'_>>),
    ) -> Result<()>;
}

impl HasRows for &dyn SharedRows {
    fn for_each_row<R: DeclaredTable>(
        &mut self,
        table: &Table<R>,
        mut see: impl FnMut(&Row<R, Seen<'_>>),
    ) -> Result<()> {
        let table = table.position();
        self.each_row(table, self.slots(table), &mut |row| {
            see(&Row::new(Seen { fixed: row.fixed(), row }));
        });
        Ok(())
    }
}

impl HasRows for &mut dyn DynamicStore {
    fn for_each_row<R: DeclaredTable>(
        &mut self,
        table: &Table<R>,
        mut see: impl FnMut(&Row<R, Seen<'_>>),
    ) -> Result<()> {
        let table = dynamic_table(self.schema(), table.position());
        self.each_row(&table, &mut |row| see(&Row::new(Seen { fixed: row.fixed(), row })))
    }
}

/// The rows that a procedure sees.
impl<S: Store> HasRows for Reading<'_, S> {
    fn for_each_row<R: DeclaredTable>(
        &mut self,
        table: &Table<R>,
        mut see: impl FnMut(&Row<R, Seen<'_>>),
    ) -> Result<()> {
        let mut rows = Vec::new();
        self.rows(table, |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        for row in rows {
            let row = self.pin(table, row)?;
            see(&Row::new(Seen { fixed: row.pin().fixed(), row: row.pin() }));
        }
        Ok(())
    }
}

/// What `read` reads, in one transaction.
///
/// # Errors
/// What it failed with, or that the store refuses to be read.
pub(crate) fn in_transaction<T, E: From<Error>>(
    store: &mut dyn DynamicStore,
    read: impl FnOnce(&mut dyn DynamicStore) -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    store.begin()?;
    let found = read(store);
    // Nothing was written: ending the transaction either way keeps the first error.
    store.commit()?;
    found
}
