//! Reading all rows of a table, for conditions of consistency.

use std::ops::ControlFlow;

use tombolo_engine::transaction::Reading;
use tombolo_storage::error::Result;
use tombolo_storage::row::Row;
use tombolo_storage::schema::DeclaredTable;
use tombolo_storage::store::{Store, Table};

/// Calls `see` with every row of `table`.
pub(super) fn for_each_row<S: Store, R: DeclaredTable>(
    tx: &mut Reading<'_, S>,
    table: &Table<R>,
    mut see: impl FnMut(&Row<R, S::Pin<'_>>),
) -> Result<()> {
    let mut rows = Vec::new();
    tx.rows(table, |row| {
        rows.push(row);
        ControlFlow::Continue(())
    })?;
    for row in rows {
        see(&tx.pin(table, row)?);
    }
    Ok(())
}
