//! Snapshots: rows as they were at one moment, read in pieces while transactions continue.
//!
//! A long reader (scan, aggregate, dump, index build) opens a snapshot between two transactions and
//! reads a few rows at a time. Transactions change rows in place as always; while a snapshot is open
//! the first change of a row since then leaves the row as it was, its *before-image*, behind
//! (`before_images.rs`). What a snapshot shows of a row is its image if there is one, else the row itself.
//!
//! What it costs: without snapshots one predictable branch per commit; with them a look-up per
//! changed row, and a copy of the row, with its variable-length values, at its first change. Memory
//! for images is bounded, within the store's budget: when it is used up the *oldest* snapshot ends,
//! its reader gets an error ([`Error::SnapshotEnded`]), and transactions continue.
//!
//! Not here: when a reader reads (`pipeline/stages/long.rs` of the engine), indexes as they were: a
//! snapshot is read in slot order or by row id. Profiles without undo have no before-images, hence
//! no snapshots ([`Error::NoSnapshots`]).
//!
//! Implements "long reads run in slices on a snapshot" of the design.

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use super::before_images::WORD;
use super::store::{MemoryRow, MemoryStore, State};
use crate::error::{Error, Result};
use crate::profile::MemoryProfile;
use crate::row::{Row, RowId};
use crate::store::{Store, Table, TableType};

/// An open snapshot of one store. Give it back with [`MemoryStore::close_snapshot`]: until then
/// transactions keep images for it.
#[derive(Debug)]
#[must_use = "a snapshot stays open until it is closed"]
pub struct Snapshot {
    number: u64,
}

/// Where the reading of one table stands; a new one begins at the first row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCursor {
    slot: u32,
}

/// What is left of a table after a slice of it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// There may be more rows.
    More,
    /// All were visited.
    Done,
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// Opens a snapshot of the store as it is now.
    ///
    /// # Errors
    /// `NoSnapshots` in a profile without undo, `Poisoned`.
    ///
    /// # Panics
    /// Within a transaction.
    pub fn open_snapshot(&mut self) -> Result<Snapshot> {
        self.assert_between_transactions()?;
        if !Self::UNDO {
            return Err(Error::NoSnapshots);
        }
        let used = self.tables.iter().map(|rows| rows.slab.used());
        let number = self.snapshots.open(used);
        self.watch();
        Ok(Snapshot { number })
    }

    /// Closes a snapshot: what was kept for it alone is given back, the first megabyte of it here and
    /// the rest by [`MemoryStore::give_back_closed`].
    ///
    /// # Panics
    /// When the snapshot is of another store.
    pub fn close_snapshot(&mut self, snapshot: Snapshot) {
        self.snapshots.close(snapshot.number);
        self.watch();
    }

    /// Gives back about a megabyte of what was kept for snapshots that are closed; returns whether there
    /// is more. Until it is given back it is held.
    pub fn give_back_closed(&mut self) -> bool {
        self.snapshots.give_back()
    }

    /// Sets how many bytes the images of all snapshots may take together; it is part of what
    /// [`MemoryStore::set_memory_bytes_max`] bounds.
    pub fn set_snapshot_bytes_max(&mut self, bytes: u64) {
        self.snapshots.budget().set_bytes_max(bytes);
    }

    /// How many bytes the images of all snapshots take.
    pub fn snapshot_bytes(&self) -> u64 {
        self.snapshots.budget().held_bytes()
    }

    /// A row as it was, if it was there.
    ///
    /// # Errors
    /// `SnapshotEnded`, `Poisoned`.
    ///
    /// # Panics
    /// Within a transaction, or when the snapshot is of another store.
    pub fn snapshot_row<R: TableType>(
        &self,
        snapshot: &Snapshot,
        table: &Table<R>,
        row: RowId,
    ) -> Result<Option<Row<R, MemoryRow<'_>>>> {
        self.assert_between_transactions()?;
        let layer = self.snapshots.find(snapshot.number)?;
        let Ok(slot) = u32::try_from(row.location()) else { return Ok(None) };
        if slot >= self.snapshots.used(layer, table.position()) {
            return Ok(None);
        }
        Ok(self.row_as_it_was(layer, table.position(), slot).map(Row::new))
    }

    /// Visits rows of a table as they were, in the order of their ids, from where `cursor` stands:
    /// at most `rows_max` of them, and less where many slots are empty, so that a slice takes a
    /// bounded time. Moves `cursor` behind them.
    ///
    /// # Errors
    /// `SnapshotEnded`, `Poisoned`.
    ///
    /// # Panics
    /// Within a transaction, or when the snapshot is of another store.
    pub fn read_slice<R: TableType>(
        &self,
        snapshot: &Snapshot,
        table: &Table<R>,
        cursor: &mut SnapshotCursor,
        rows_max: usize,
        mut visit: impl FnMut(RowId, Row<R, MemoryRow<'_>>),
    ) -> Result<Slice> {
        self.assert_between_transactions()?;
        let layer = self.snapshots.find(snapshot.number)?;
        let position = table.position();
        let used = self.snapshots.used(layer, position);
        let mut left = rows_max.max(1);
        while cursor.slot < used {
            if left == 0 {
                return Ok(Slice::More);
            }
            let word = cursor.slot / WORD;
            let has_images = self.snapshots.has_entries(layer, position, word);
            let slots = match has_images {
                true => !0,
                false => self.tables[position].slab.live_word(word),
            };
            let mut slots = slots & !0 << (cursor.slot % WORD);
            if used - word * WORD < WORD {
                slots &= (1 << (used % WORD)) - 1;
            }
            // An empty word costs about what a row does.
            left -= usize::from(slots == 0);
            while slots != 0 && left > 0 {
                let slot = word * WORD + slots.trailing_zeros();
                slots &= slots - 1;
                let row = match has_images {
                    true => self.row_as_it_was(layer, position, slot),
                    false => Some(self.row_in_place(position, slot)),
                };
                cursor.slot = slot + 1;
                left -= 1;
                if let Some(row) = row {
                    visit(Self::row_id(slot), Row::new(row));
                }
            }
            if slots == 0 {
                cursor.slot = used.min((word + 1).saturating_mul(WORD));
            }
        }
        Ok(Slice::Done)
    }

    /// The row in a slot below those used when the snapshot was opened.
    #[inline]
    fn row_as_it_was(&self, layer: usize, table: usize, slot: u32) -> Option<MemoryRow<'_>> {
        match self.snapshots.image(layer, table, slot) {
            Some(image) => {
                let row_bytes = self.tables[table].shape.row_bytes;
                image.map(|(image, values)| MemoryRow { fixed: &image[..row_bytes], values })
            }
            None if self.tables[table].slab.is_live(slot) => Some(self.row_in_place(table, slot)),
            None => None,
        }
    }

    #[inline]
    fn row_in_place(&self, table: usize, slot: u32) -> MemoryRow<'_> {
        let rows = &self.tables[table];
        MemoryRow { fixed: &rows.slab.slot(slot)[..rows.shape.row_bytes], values: &rows.values }
    }

    /// Within a transaction rows may be changed whose images are not kept yet.
    fn assert_between_transactions(&self) -> Result<()> {
        match self.state {
            State::Idle => Ok(()),
            State::Poisoned(reason) => Err(Error::Poisoned { reason }),
            State::Prefaced | State::Reading | State::Writing => {
                panic!("a snapshot is used between transactions")
            }
        }
    }
}
