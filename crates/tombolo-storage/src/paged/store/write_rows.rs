//! Rows and their values are made, changed and deleted, each under its lock: what is logged, then done to the page.
//!
//! Compiled once for all tables and procedures. Not here: the calls and their locks (`calls.rs`), entries of indexes
//! (`entries.rs`), how a change is undone (`undo.rs`).

use super::database::{Database, StructureLog, TableStore, change};
use super::rows::RowAccess;
use super::transaction::{Ghost, Session};
use crate::error::Result;
use crate::lock::Mode;
use crate::log::{ChangeKind, Logging};
use crate::paged::heap::{Place, RowFile};
use crate::probe::{self, Counter};
use crate::profile::PagedProfile;
use crate::row::RowId;

impl<P: PagedProfile> Session<P> {
    /// Makes a row through a copy (S9 on) or in place, and locks it. `fill` is called once, with zeros.
    #[inline(never)]
    pub(super) fn create_row(
        &mut self,
        database: &Database<P>,
        table: &TableStore<P>,
        size: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<RowId> {
        loop {
            let (mut blocked, lane) = (None, self.lane);
            let fill_row = |place: Place, record: &mut [u8]| {
                let row = place.row();
                if let Err(error) = self.try_lock(database, table.store, row, Mode::Exclusive) {
                    blocked = Some(row);
                    return Err(error.into());
                }
                if P::Pages::COPIES {
                    self.row.clear();
                    self.row.resize(size, 0);
                    fill(&mut self.row);
                    record.copy_from_slice(&self.row);
                    probe::count(Counter::PageCopies, 1);
                } else {
                    record.fill(0);
                    fill(record);
                }
                let change = change(ChangeKind::RowCreated, table.store, place, row);
                database.log.change(&mut self.log, change, &[], record)
            };
            let (pages, structure) = (&database.pages, StructureLog(database));
            let created = table.rows.create(pages, lane, size, fill_row, &structure);
            match (created, blocked) {
                // Another transaction waits for, or still holds, the row that had this place
                // before.
                (Err(_), Some(row)) => self.lock(database, table.store, row, Mode::Exclusive)?,
                (created, _) => return created,
            }
        }
    }

    /// Changes the bytes from `start` to before `end` of a locked row, through a copy (S9 on) or in
    /// place; `false` if there is none. `update` is called once, with the row's fixed part.
    #[inline(never)]
    pub(super) fn update_row(
        &mut self,
        database: &Database<P>,
        table: &TableStore<P>,
        row: RowId,
        (start, end): (usize, usize),
        update: &mut dyn FnMut(&mut [u8]),
    ) -> Result<bool> {
        table.rows.update(&database.pages, row, |place, record| {
            let mut change = change(ChangeKind::RowUpdated, table.store, place, row);
            change.within = start as u16;
            let log = &mut self.log;
            if P::Pages::COPIES {
                self.row.clear();
                self.row.extend_from_slice(record);
                update(&mut self.row);
                let after = &self.row[start..end];
                let stamp = database.log.change(log, change, &record[start..end], after)?;
                record[start..end].copy_from_slice(after);
                probe::count(Counter::PageCopies, 2);
                return Ok(stamp);
            }
            if P::Log::NUMBERS {
                self.before.clear();
                self.before.extend_from_slice(&record[start..end]);
            }
            let is_kept = !P::Log::RECORDS; // nothing takes changes back there
            let mut open = InPlace { record, start, before: &self.before, is_kept };
            update(open.record);
            let after = &open.record[start..end];
            let logged = database.log.change_apart(log, change, open.before, after);
            open.is_kept |= logged.is_ok();
            logged
        })
    }
}

/// Values of rows that are locked exclusively.
impl<P: PagedProfile> Session<P> {
    /// Puts a value down for a row, which will have the handle that is returned.
    pub(super) fn create_value(
        &mut self,
        database: &Database<P>,
        table: &TableStore<P>,
        row: RowId,
        value: &[u8],
    ) -> Result<u64> {
        let (pages, log) = (&database.pages, &mut self.log);
        let noted = |place: Place, value: &[u8]| {
            let change = change(ChangeKind::RowCreated, table.store, place, place.row());
            database.log.change_apart(log, change, &[], value)
        };
        table.rows.create_value(pages, self.lane, row, value, noted, &StructureLog(database))
    }

    /// Deletes the value of a handle that no row has any more.
    pub(super) fn delete_value(
        &mut self,
        database: &Database<P>,
        table: usize,
        handle: u64,
    ) -> Result<()> {
        let store = &database.tables[table];
        let Some(place) = self.forget_value(store, table, handle) else { return Ok(()) };
        let marked = self.mark_deleted(database, store, place, |_| ())?;
        assert!(marked, "a row's handle leads to its value");
        Ok(())
    }

    /// Says that the value of a handle that no row has is to go when the transaction commits.
    pub(super) fn forget_value(
        &mut self,
        store: &TableStore<P>,
        table: usize,
        handle: u64,
    ) -> Option<Place> {
        let place = store.rows.give_up_value(handle)?;
        self.ghosts.push(Ghost::Row { table, place });
        Some(place)
    }

    /// Marks a row or a value as deleted; `false` if there is none. `see` is shown its bytes.
    pub(super) fn mark_deleted(
        &mut self,
        database: &Database<P>,
        table: &TableStore<P>,
        place: Place,
        see: impl FnOnce(&[u8]),
    ) -> Result<bool> {
        let log = &mut self.log;
        table.rows.delete(&database.pages, place, |place, record| {
            see(record);
            let change = change(ChangeKind::RowDeleted, table.store, place, place.row());
            database.log.change_apart(log, change, record, &[])
        })
    }
}

/// A change of a row in place that the log does not know yet: what was there comes back, when the log
/// fails or the code that writes the row panics.
struct InPlace<'a> {
    record: &'a mut [u8],
    start: usize,
    before: &'a [u8],
    is_kept: bool,
}

impl Drop for InPlace<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.is_kept {
            self.record[self.start..self.start + self.before.len()].copy_from_slice(self.before);
        }
    }
}
