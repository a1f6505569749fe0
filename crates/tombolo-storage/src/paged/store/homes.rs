//! Tables that are spread over several databases by a column: a transaction that leaves a row which belongs to another
//! one is refused.
//!
//! The session notes the rows that it made, and those whose column it changed, and its user asks before the transaction
//! commits or prepares. Where no table is spread that costs a branch for each row that is written. Not here: which rows
//! belong here (`crate::homes`).

use super::PagedStore;
use super::database::{Database, TableStore};
use super::rows::{RowAccess, RowCopies};
use super::sharing::Sharing as _;
use super::transaction::Session;
use crate::error::{Error, Result};
use crate::homes::{Home, IsHome};
use crate::paged::heap::RowFile as _;
use crate::profile::PagedProfile;
use crate::row::RowId;

impl<P: PagedProfile> PagedStore<P> {
    /// From here on a row of `table` is admitted only if `is_home` says so of its value in `column`, which is never
    /// null: see [`PagedStore::verify_homes`].
    ///
    /// # Panics
    /// When there is no such table or column, or another session.
    pub fn keep_home(&mut self, table: usize, column: usize, is_home: IsHome) {
        let database = P::Latching::alone(&mut self.database).expect("there is one session");
        let columns = &database.schema.tables[table].columns;
        database.tables[table].home = Some(Home::new(columns, column, is_home));
    }

    /// How many rows of a table do not belong here. No other session may be at work.
    ///
    /// # Errors
    /// When a page is damaged or the disk fails.
    ///
    /// # Panics
    /// When there is no such table.
    pub fn strays(&self, table: usize) -> Result<u64> {
        let store = &self.database.tables[table];
        let mut rows = Vec::new();
        store.rows.scan(&self.database.pages, |row, deleted| {
            rows.extend((!deleted).then_some(row));
            std::ops::ControlFlow::Continue(())
        })?;
        rows.into_iter().try_fold(0, |strays, row| {
            Ok(strays + u64::from(!is_home(&self.database, store, &self.session.copies, row)?))
        })
    }

    /// Refuses the open transaction if it leaves a row that belongs elsewhere. It is to be asked before the transaction
    /// commits or is prepared.
    ///
    /// # Errors
    /// `Elsewhere`; when a page is damaged or the disk fails. The transaction is still open.
    #[inline]
    pub fn verify_homes(&self) -> Result<()> {
        if self.session.placed.is_empty() { Ok(()) } else { self.refuse_strays() }
    }

    #[inline(never)]
    fn refuse_strays(&self) -> Result<()> {
        for &(table, row) in &self.session.placed {
            let store = &self.database.tables[table];
            if let Some(home) = &store.home
                && !is_home(&self.database, store, &self.session.copies, row)?
            {
                return Err(Error::Elsewhere { table: table as u32, column: home.column });
            }
        }
        Ok(())
    }
}

/// Whether a row belongs here, or is none.
fn is_home<P: PagedProfile>(
    database: &Database<P>,
    table: &TableStore<P>,
    copies: &RowCopies,
    row: RowId,
) -> Result<bool> {
    let Some(home) = &table.home else { return Ok(true) };
    // What is deleted keeps its place until its transaction commits.
    if !table.rows.exists(&database.pages, row)? {
        return Ok(true);
    }
    let pinned = database.pages.pin_row(&table.rows, copies, row)?;
    Ok(pinned.is_none_or(|pinned| home.has(&pinned)))
}

impl<P: PagedProfile> Session<P> {
    /// Notes a row that its transaction made, or changed from `start` to before `end`.
    #[inline(always)]
    pub(super) fn note_placed(
        &mut self,
        (position, table): (usize, &TableStore<P>),
        row: RowId,
        (start, end): (usize, usize),
    ) {
        if let Some(home) = &table.home
            && home.is_changed_by(start, end)
        {
            self.placed.push((position, row));
        }
    }
}
