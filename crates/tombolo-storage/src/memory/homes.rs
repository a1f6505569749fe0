//! `Homes`: tables whose rows are spread over several stores by the value of a column; knows which values are this
//! store's.
//!
//! A transaction that leaves a row with another store's value in that column is refused when it commits. Its undo
//! notes show the rows to check: created ones, and those whose column it changed. So a transaction that changes no
//! such table pays nothing.
//!
//! Not here: which rows belong to a store (`crate::homes`).

use std::fmt;
use std::ops::Range;

use super::MemoryRow;
use super::online::row_of;
use super::store::MemoryStore;
use super::undo::{Change, Undo};
use crate::error::{Error, Result};
use crate::homes::{Home, IsHome};
use crate::profile::MemoryProfile;

/// The tables that are spread, by their positions.
#[derive(Default)]
pub(super) struct Homes {
    homes: Vec<Option<Home>>,
    /// Where their columns lie in a row; of other tables, nowhere.
    bytes: Vec<Range<u32>>,
}

impl fmt::Debug for Homes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.homes.iter().map(|home| home.as_ref().map(|home| home.column));
        f.debug_list().entries(columns).finish()
    }
}

impl Homes {
    pub(super) fn are_any(&self) -> bool {
        !self.homes.is_empty()
    }
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// From here on a row of `table` is admitted only if `is_home` says so of its value in `column`, which is never
    /// null.
    ///
    /// # Panics
    /// When there is no such table or column.
    pub fn keep_home(&mut self, table: usize, column: usize, is_home: IsHome) {
        let home = Home::new(&self.schema.tables[table].columns, column, is_home);
        let bytes = home.bytes.clone();
        let Homes { homes, bytes: places } = &mut self.homes;
        if homes.len() <= table {
            homes.resize(table + 1, None);
            places.resize(table + 1, 0..0);
        }
        (homes[table], places[table]) = (Some(home), bytes);
        self.watch();
    }

    /// How many rows of a table do not belong to this store.
    ///
    /// # Panics
    /// When there is no such table.
    pub fn strays(&self, table: usize) -> usize {
        let Some(home) = self.homes.homes.get(table).and_then(Option::as_ref) else { return 0 };
        self.tables[table].slab.live().filter(|row| !self.is_home(home, table, *row)).count()
    }

    fn is_home(&self, home: &Home, table: usize, row: u32) -> bool {
        let rows = &self.tables[table];
        let fixed = rows.slab.live_head(row.into(), rows.shape.row_bytes);
        fixed.is_none_or(|fixed| home.has(&MemoryRow { fixed, values: &rows.values }))
    }

    /// Whether a change may leave a row that belongs elsewhere.
    #[inline(always)]
    fn may_stray(&self, change: &Change) -> bool {
        let (table, start, end) = match *change {
            Change::Updated { table, offset, bytes, .. } => (table, offset, offset + bytes),
            Change::Created { table, .. } => (table, 0, u32::MAX),
            _ => return false,
        };
        let column = self.homes.bytes.get(table as usize);
        column.is_some_and(|column| start < column.end && column.start < end)
    }

    /// Refuses the open transaction if it leaves a row that belongs elsewhere, as its commit does.
    ///
    /// # Errors
    /// `Elsewhere`.
    #[inline(always)]
    pub fn verify_homes(&self) -> Result<()> {
        // Most transactions leave none that may.
        let may_stray = |change| self.may_stray(change);
        if self.homes.are_any() && self.undo.notes().0.iter().any(may_stray) {
            self.refuse_strays()?;
        }
        Ok(())
    }

    #[inline(never)]
    fn refuse_strays(&self) -> Result<()> {
        for change in self.undo.notes().0.iter().filter(|change| self.may_stray(change)) {
            if let Some((table, row)) = row_of(*change)
                && let Some(home) = &self.homes.homes[table as usize]
                && !self.is_home(home, table as usize, row)
            {
                return Err(Error::Elsewhere { table, column: home.column });
            }
        }
        Ok(())
    }
}
