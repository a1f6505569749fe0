//! Abort by the log (LG-18): a transaction's changes are undone one by one, newest first; all of them, or those
//! after a savepoint.
//!
//! Rows and values have not moved. Undo of entries is logical: an entry is found by its key,
//! so pages may have split since. Every undone change is logged as a compensation, which is
//! redone but never undone. Deleted rows and entries still exist as ghosts, which are revived, so abort
//! never needs space.
//!
//! After a crash `restart/undo.rs` does the same with records that were read back from the log.

use super::database::{Database, Owner, StructureLog, change};
use super::isolation::GapLocks;
use super::transaction::Session;
use crate::error::{Error, Result};
use crate::lock::Reads;
use crate::log::{ChangeKind, Logging, UndoRecord};
use crate::paged::heap::RowFile;
use crate::profile::PagedProfile;

impl<P: PagedProfile> Session<P> {
    /// Takes back everything the transaction changed.
    pub(super) fn undo(&mut self, database: &Database<P>) -> Result<()> {
        let mut undo = UndoRecord::new();
        while self.undo_newest(database, &mut undo, Reads::OfOthers)?.is_some() {}
        Ok(())
    }

    /// Takes back what the transaction, which goes on, changed behind its change with this LSN. Returns whether rows
    /// that it had made are gone.
    pub(super) fn undo_behind(&mut self, database: &Database<P>, lsn: u64) -> Result<bool> {
        let (mut undo, mut rows_gone) = (UndoRecord::new(), false);
        while database.log.newest_undoable(&self.log) > lsn {
            self.undo_newest(database, &mut undo, Reads::All)?;
            rows_gone |= undo.change.kind == ChangeKind::RowCreated;
        }
        database.log.stop_undo(&mut self.log);
        Ok(rows_gone)
    }

    /// Takes the newest change back that is not yet; returns the LSN of the one before it, or, when there is
    /// none, ends the transaction and returns nothing.
    pub(super) fn undo_newest(
        &mut self,
        database: &Database<P>,
        undo: &mut UndoRecord,
        reads: Reads,
    ) -> Result<Option<u64>> {
        if !database.log.next_undo(&mut self.log, undo) {
            database.log.end_abort(&mut self.log)?;
            return Ok(None);
        }
        let undone = match database.owners.get(usize::from(undo.change.store.0)) {
            Some(Owner::Table(table)) => self.undo_row(database, *table, undo)?,
            Some(Owner::Index(index)) => self.undo_entry(database, *index, undo, reads)?,
            None => false,
        };
        assert!(undone, "what a transaction changed is not there: {:?}", undo.change);
        Ok(Some(undo.previous))
    }

    fn undo_row(
        &mut self,
        database: &Database<P>,
        table: usize,
        undo: &UndoRecord,
    ) -> Result<bool> {
        let table = &database.tables[table];
        let (log, own) = (&database.log, &mut self.log);
        let (row, place) = (undo.change.row, undo.change.place);
        match undo.change.kind {
            ChangeKind::RowUpdated => {
                let within = usize::from(undo.change.within);
                table.rows.update(&database.pages, row, |place, record| {
                    let mut change = change(ChangeKind::RowUpdated, table.store, place, row);
                    change.within = undo.change.within;
                    let stamp = log.compensate(own, change, &undo.after, &undo.before)?;
                    record[within..within + undo.before.len()].copy_from_slice(&undo.before);
                    Ok(stamp)
                })
            }
            ChangeKind::RowCreated => {
                table.rows.purge::<Error>(&database.pages, place, |place, record| {
                    let change = change(ChangeKind::RowPurged, table.store, place, row);
                    log.compensate(own, change, record, &[])
                })
            }
            ChangeKind::RowDeleted => table.rows.revive(&database.pages, place, |place, record| {
                let change = change(ChangeKind::RowRevived, table.store, place, row);
                log.compensate(own, change, &[], record)
            }),
            kind => unreachable!("{kind:?} is not undone by itself"),
        }
    }

    pub(super) fn undo_entry(
        &mut self,
        database: &Database<P>,
        index: usize,
        undo: &UndoRecord,
        reads: Reads,
    ) -> Result<bool> {
        let index = &database.indexes[index];
        let (log, own) = (&database.log, &mut self.log);
        let row = undo.change.row;
        match undo.change.kind {
            ChangeKind::EntryInserted => {
                let (key, structure) = (&undo.after, StructureLog(database));
                let noted = |place| {
                    let change = change(ChangeKind::EntryRemoved, index.store, place, row);
                    log.compensate(own, change, key, &[])
                };
                let gaps = GapLocks::of(&self.held, database, index, self.isolation).keep(reads);
                index.tree.remove::<Error>(&database.pages, key, row, noted, &structure, &gaps)
            }
            // Marked and unmarked in place: others meet an entry of a committed key all the time.
            ChangeKind::EntryDeleted => {
                let key = &undo.before;
                index.tree.set_deleted(&database.pages, key, row, false, |place| {
                    let change = change(ChangeKind::EntryRevived, index.store, place, row);
                    log.compensate(own, change, &[], key)
                })
            }
            ChangeKind::EntryRevived => {
                let key = &undo.after;
                index.tree.set_deleted(&database.pages, key, row, true, |place| {
                    let change = change(ChangeKind::EntryDeleted, index.store, place, row);
                    log.compensate(own, change, key, &[])
                })
            }
            kind => unreachable!("{kind:?} is not undone by itself"),
        }
    }
}
