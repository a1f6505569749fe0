//! Indexes that are added while transactions run.
//!
//! ```text
//!   begin_index ──► building ──build_slice() … Done──► built ──finish_index──► followed
//!                      │  rows in slot order, a few between        │ logged, in the schema
//!                      │  two transactions                         │
//!                      └───────── give_up_index ◄─────────────────┘ (also after a refusal)
//! ```
//!
//! Procedures write index entries by hand, for the indexes they were compiled for, and know nothing
//! of one that came later. So from its beginning on the store itself keeps it: at commit it looks
//! at the undo notes, which name every row that was changed with what it was before, and moves the
//! entries whose keys have changed. A procedure that does know the index may write its entries too;
//! an entry that is there already stays.
//!
//! *building*: rows behind the cursor and rows written since are in it. The walk or a commit enters
//! a row, whichever comes first, so no snapshot is needed and no image is kept. Two rows with
//! one key in a unique index, at any moment of that time, refuse the index and not the transaction.
//! *followed*: a transaction that would give two rows one key is refused at its commit and undone.
//!
//! What it costs: nothing while there is none (snapshots and indexes share one branch per commit);
//! else each commit reads its notes, and makes the key before and after for each changed row of the
//! table. A transaction sees its own entries only if it wrote them itself.
//!
//! Not here: when slices run (engine `pipeline/stages/long.rs`), indexes as part of a table's definition.
//! Profiles without undo have no notes, and take no index later.

use super::entries::{Key, NotEntered, Within, key_of, leave};

use super::check::key_values;
use super::index::RowIndex;
use super::log::Log;
use super::rows::Rows;
use super::store::{MemoryRow, MemoryStore, State};
use super::undo::{Change, Undo};
use crate::error::{Error, Result, SchemaError};
use crate::plant::{self, Plant};
use crate::profile::MemoryProfile;
use crate::schema::{ColumnDef, IndexDef};
use crate::store::Store;
use crate::value_log::{SchemaKind, definition};

/// An index that is being built. Give it to [`MemoryStore::finish_index`] or
/// [`MemoryStore::give_up_index`]: until then transactions keep it.
#[derive(Debug)]
#[must_use = "an index is kept until it is finished or dropped"]
pub struct IndexBuild {
    number: u64,
}

/// What a slice of building came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Built {
    /// There are more rows.
    More {
        /// How many it looked at.
        rows: usize,
    },
    /// All are in it.
    Done,
}

/// What is kept in addition to the indexes that transactions know.
#[derive(Debug, Default)]
pub(super) struct Online {
    /// Positions of indexes that the store keeps itself.
    followed: Vec<usize>,
    building: Vec<Building>,
    /// Builds begun so far.
    begun: u64,
    /// Used again by every commit.
    rows: Vec<ChangedRow>,
    before: Vec<u8>,
    old: Vec<u8>,
    new: Vec<u8>,
}

#[derive(Debug)]
struct Building {
    number: u64,
    def: IndexDef,
    index: RowIndex,
    /// All slots below it were walked.
    cursor: u32,
    is_done: bool,
    /// Why it cannot be, if so.
    refused: Option<SchemaError>,
}

/// A row that the open transaction changed.
#[derive(Debug)]
struct ChangedRow {
    table: u32,
    row: u32,
    was_there: bool,
    is_there: bool,
    /// Where its bytes as they were begin.
    at: usize,
}

impl Online {
    pub(super) fn is_any(&self) -> bool {
        !self.followed.is_empty() || !self.building.is_empty()
    }

    /// Whether an index of the table at this position is being built.
    pub(super) fn builds_on(&self, table: usize) -> bool {
        self.building.iter().any(|building| building.index.table == table)
    }

    fn position(&self, build: &IndexBuild) -> usize {
        let position = self.building.iter().position(|other| other.number == build.number);
        position.expect("an index is built by the store that began it")
    }
}

impl Building {
    /// Remembers why this index cannot be; `row` is one that would be in it.
    #[cold]
    fn refuse(&mut self, why: &NotEntered, columns: &[ColumnDef], row: &MemoryRow<'_>) {
        let mut text = String::new();
        for value in key_values(row, columns, &self.index) {
            text.push_str(if text.is_empty() { "" } else { ", " });
            value.copy_text(&mut text);
        }
        let what = match why {
            NotEntered::Duplicate => format!(
                "two rows have the key ({text}), so the index cannot be unique: change one, or \
                 define it without unique"
            ),
            NotEntered::Unfit => format!(
                "the key ({text}) is too long for an index, or outside what its columns declare"
            ),
            NotEntered::NoSpace => {
                "no memory for its entries: raise memory_bytes_max or delete rows".to_owned()
            }
        };
        self.refused = Some(SchemaError::new(&self.def.name, &what));
    }

    /// Walks over as many slots as `rows_max` rows take.
    fn walk(&mut self, within: Within<'_>, rows_max: usize) -> Built {
        let (slab, mut left) = (&within.rows.slab, rows_max.max(1));
        let mut buffer = Vec::new();
        while self.cursor < slab.used() {
            if left == 0 {
                return Built::More { rows: rows_max.max(1) };
            }
            let first = self.cursor;
            let mut live = slab.live_word(first / 64) & !0 << (first % 64);
            // An empty word costs about what a row does.
            left -= usize::from(live == 0);
            while live != 0 && left > 0 {
                let slot = first / 64 * 64 + live.trailing_zeros();
                live &= live - 1;
                (self.cursor, left) = (slot + 1, left - 1);
                let row = within.row(slot);
                let key = key_of(&self.index, within.columns, &row, &mut buffer);
                if let Err(why) = within.enter(&mut self.index, key, slot) {
                    self.refuse(&why, within.columns, &row);
                    return Built::Done;
                }
            }
            if live == 0 {
                self.cursor = (first / 64 + 1).saturating_mul(64).min(slab.used());
            }
        }
        self.is_done = true;
        Built::Done
    }
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// Begins an index of a table: from now on what commits goes into it. Neither in the schema nor
    /// in the log, and not to be used, until it is finished.
    ///
    /// # Errors
    /// No such table, a name that is taken, a definition no store can hold, a profile without undo,
    /// no address space, an earlier failure.
    ///
    /// # Panics
    /// Within a transaction.
    pub fn begin_index(
        &mut self,
        table: &str,
        def: IndexDef,
    ) -> std::result::Result<IndexBuild, SchemaError> {
        let refuse = |what: &str| Err(SchemaError::new(&def.name, what));
        match self.state {
            State::Idle => {}
            State::Poisoned(reason) => return refuse(reason),
            _ => panic!("an index is begun between transactions"),
        }
        if !Self::UNDO || !<P::Log as Log>::CHANGES_TABLES {
            return refuse(
                "an index is added in a profile with undo and without a command log only",
            );
        }
        let Some(position) = self.schema.table(table) else {
            return Err(SchemaError::new(table, "no such table"));
        };
        if self.online.building.iter().any(|building| building.def.name == def.name) {
            return refuse("an index of this name is being built already");
        }
        if self.left_out.iter().any(|(name, _)| *name == def.name) {
            return refuse("it was left out: change the rows until they fit it, and open again");
        }
        let mut schema = self.schema.clone();
        schema.add_index(position, def.clone())?;
        let table = &schema.tables[position];
        let index =
            RowIndex::new(position, table, &def, &self.allowance(), self.limits.hash_seed());
        let index = index.map_err(|error| SchemaError::new(&def.name, &error.to_string()))?;
        self.online.begun += 1;
        let number = self.online.begun;
        let building = Building { number, def, index, cursor: 0, is_done: false, refused: None };
        self.online.building.push(building);
        self.watch();
        Ok(IndexBuild { number })
    }

    /// Puts at most `rows_max` rows into an index that is being built; less where many slots are
    /// empty, so that a slice takes a bounded time.
    ///
    /// # Errors
    /// Why the index cannot be: two rows with one key, of which the message names the key; no memory.
    /// It is to be dropped then.
    ///
    /// # Panics
    /// Within a transaction, or when the index is another store's.
    pub fn build_slice(
        &mut self,
        build: &IndexBuild,
        rows_max: usize,
    ) -> std::result::Result<Built, SchemaError> {
        assert!(
            matches!(self.state, State::Idle | State::Poisoned(_)),
            "an index is built between transactions"
        );
        let at = self.online.position(build);
        let building = &mut self.online.building[at];
        let table = building.index.table;
        let columns = &self.schema.tables[table].columns;
        let within = Within { rows: &self.tables[table], columns };
        let built = match &building.refused {
            None => building.walk(within, rows_max),
            Some(_) => Built::Done,
        };
        building.refused.clone().map_or(Ok(built), Err)
    }

    /// Makes an index that was built one of its table's, in the schema and in the log.
    ///
    /// # Errors
    /// Why it cannot be; it is dropped then.
    ///
    /// # Panics
    /// As [`MemoryStore::build_slice`], or when not all rows are in it.
    pub fn finish_index(&mut self, build: IndexBuild) -> std::result::Result<(), SchemaError> {
        let at = self.online.position(&build);
        let Building { def, index, is_done, refused, .. } = self.online.building.swap_remove(at);
        self.watch();
        if let Some(refused) = refused {
            return Err(refused);
        }
        if let State::Poisoned(reason) = self.state {
            return Err(SchemaError::new(&def.name, reason));
        }
        assert!(is_done && self.state == State::Idle, "an index is finished when all rows are in");
        let table = index.table;
        let position = self.schema.add_index(table, def.clone())?;
        assert_eq!(position, self.indexes.len(), "the schema counts the indexes of the store");
        self.indexes.push(index);
        if !plant::is(Plant::IndexNotLogged) {
            let bytes = definition::encode_index(&def);
            self.log_change(SchemaKind::IndexCreated, table, None, &bytes);
        }
        self.follow_index(position);
        Ok(())
    }

    /// Gives an index up that is being built.
    ///
    /// # Panics
    /// When it is another store's.
    pub fn give_up_index(&mut self, build: IndexBuild) {
        let at = self.online.position(&build);
        drop(self.online.building.swap_remove(at));
        self.watch();
    }

    /// Keeps the index at `position` among all from now on, because some procedures that write its
    /// table do not know it.
    ///
    /// # Panics
    /// When there is no such index, or in a profile without undo.
    pub fn follow_index(&mut self, position: usize) {
        assert!(Self::UNDO && position < self.indexes.len(), "an index is kept by undo notes");
        if !self.online.followed.contains(&position) {
            self.online.followed.push(position);
        }
        self.watch();
    }

    /// Stops keeping the indexes at these positions.
    pub(super) fn unfollow(&mut self, positions: &[usize]) {
        self.online.followed.retain(|followed| !positions.contains(followed));
        self.watch();
    }

    /// Makes commits serve open snapshots, added indexes and columns, and tables that are spread, and only if there
    /// are any.
    pub(super) fn watch(&mut self) {
        self.is_served = self.snapshots.are_open() || self.online.is_any() || self.columns.is_any();
        self.is_watched = self.is_served || self.homes.are_any();
    }

    /// What a commit does for tables that are spread, and for what [`MemoryStore::serve`] serves.
    #[inline(never)]
    pub(super) fn commit_watched(&mut self) -> Result<()> {
        self.verify_homes()?;
        if self.is_served { self.serve() } else { Ok(()) }
    }

    /// What a commit does for open snapshots and for indexes that the store keeps.
    #[cold]
    #[inline(never)]
    fn serve(&mut self) -> Result<()> {
        if self.online.is_any() {
            let mut rows = std::mem::take(&mut self.online.rows);
            let mut before = std::mem::take(&mut self.online.before);
            self.gather(&mut rows, &mut before);
            let followed = self.follow(&rows, &before);
            if followed.is_ok() {
                // From here on nothing refuses the transaction.
                self.build(&rows, &before);
            }
            (self.online.rows, self.online.before) = (rows, before);
            followed?;
        }
        if self.columns.is_any() {
            self.copy_changed();
        }
        if self.snapshots.are_open() {
            self.snapshots.keep(&self.tables, &self.undo);
            self.watch();
        }
        Ok(())
    }

    /// The rows that the open transaction changed in tables whose indexes are kept, and their bytes
    /// as they were.
    fn gather(&self, rows: &mut Vec<ChangedRow>, before: &mut Vec<u8>) {
        rows.clear();
        before.clear();
        let (changes, images) = self.undo.notes();
        let is_kept = |table: u32| {
            let mut followed = self.online.followed.iter();
            followed.any(|&position| self.indexes[position].table == table as usize)
                || self.online.building.iter().any(|built| built.index.table == table as usize)
        };
        for &change in changes {
            if let Some((table, row)) = row_of(change)
                && is_kept(table)
            {
                rows.push(ChangedRow { table, row, was_there: true, is_there: true, at: 0 });
            }
        }
        rows.sort_unstable_by_key(|row| (row.table, row.row));
        rows.dedup_by_key(|row| (row.table, row.row));
        for row in &mut *rows {
            let Rows { slab, shape, .. } = &self.tables[row.table as usize];
            row.at = before.len();
            before
                .extend_from_slice(slab.head(row.row.into(), shape.row_bytes).unwrap_or_default());
        }
        let mut end = images.len();
        for &change in changes.iter().rev() {
            if let Change::Updated { bytes, .. }
            | Change::InsertedBytes { bytes, .. }
            | Change::RemovedBytes { bytes, .. } = change
            {
                end -= bytes as usize;
            }
            let Some(key) = row_of(change) else { continue };
            let Ok(at) = rows.binary_search_by_key(&key, |row| (row.table, row.row)) else {
                continue;
            };
            match change {
                Change::Created { .. } => rows[at].was_there = false,
                Change::Deleted { .. } => rows[at].is_there = false,
                Change::Updated { offset, bytes, .. } => {
                    let (at, bytes) = (rows[at].at + offset as usize, bytes as usize);
                    before[at..at + bytes].copy_from_slice(&images[end..end + bytes]);
                }
                _ => {}
            }
        }
    }

    /// Moves the entries of changed rows, in the indexes of the schema that are kept; with notes, so
    /// that a refusal is undone with all the rest. All old entries go first, so that rows may
    /// exchange keys.
    fn follow(&mut self, rows: &[ChangedRow], before: &[u8]) -> Result<()> {
        if self.online.followed.is_empty() || plant::is(Plant::IndexNotKept) {
            return Ok(());
        }
        for enters in [false, true] {
            for row in rows {
                for at in 0..self.online.followed.len() {
                    let position = self.online.followed[at];
                    if self.indexes[position].table == row.table as usize {
                        self.follow_row(position, row, before, enters)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the entry of a row out of an index, or puts it in, if its key has changed.
    fn follow_row(
        &mut self,
        position: usize,
        row: &ChangedRow,
        before: &[u8],
        enters: bool,
    ) -> Result<()> {
        let mut buffers =
            (std::mem::take(&mut self.online.old), std::mem::take(&mut self.online.new));
        let index = &self.indexes[position];
        let within = self.within(index.table);
        let (old, new) = keys(index, within, row, before, &mut buffers);
        let moved = match (old, new) {
            _ if old == new => Ok(()),
            (Some(old), _) if !enters => self.unenter(position, old, row.row),
            (_, Some(new)) if enters => self.enter(position, new, row.row),
            _ => Ok(()),
        };
        (self.online.old, self.online.new) = buffers;
        moved
    }

    fn within(&self, table: usize) -> Within<'_> {
        let columns = &self.schema.tables[table].columns;
        Within { rows: &self.tables[table], columns }
    }

    fn unenter(&mut self, position: usize, key: Key<'_>, slot: u32) -> Result<()> {
        match key {
            Key::Packed(key) => {
                if self.indexes[position].find_packed(key) == Some(slot) {
                    self.room_for_notes(1, 0)?;
                    self.indexes[position].remove_packed(key);
                    let index = position as u32;
                    self.undo.note_in_room(Change::RemovedPacked { index, row: slot, key });
                }
                Ok(())
            }
            Key::Bytes(key) => {
                self.key.clear();
                self.key.extend_from_slice(key);
                self.remove_normalised(position, slot).map(|_| ())
            }
            Key::Unfit => Ok(()),
        }
    }

    fn enter(&mut self, position: usize, key: Key<'_>, slot: u32) -> Result<()> {
        let index = &self.indexes[position];
        match self.within(index.table).find(index, key, slot) {
            Some(own) if own == slot => return Ok(()), // its transaction knew the index
            Some(_) => return Err(Error::Duplicate { index: position as u32 }),
            None => {}
        }
        match key {
            Key::Packed(key) => {
                self.room_for_notes(1, 0)?;
                if let Err(error) = self.indexes[position].insert_packed(key, slot) {
                    return Err(self.insert_error(position, error));
                }
                let index = position as u32;
                self.undo.note_in_room(Change::InsertedPacked { index, row: slot, key });
                Ok(())
            }
            Key::Bytes(key) => {
                self.key.clear();
                self.key.extend_from_slice(key);
                self.insert_normalised(position, slot)
            }
            Key::Unfit => Err(self.unfit(position)),
        }
    }

    /// The same in indexes that are being built; a failure refuses the index, not the transaction.
    fn build(&mut self, rows: &[ChangedRow], before: &[u8]) {
        let mut buffers =
            (std::mem::take(&mut self.online.old), std::mem::take(&mut self.online.new));
        let mut building = std::mem::take(&mut self.online.building);
        for built in &mut building {
            let table = built.index.table;
            let own = |row: &&ChangedRow| row.table as usize == table;
            let within = self.within(table);
            for row in rows.iter().filter(own) {
                let (old, new) = keys(&built.index, within, row, before, &mut buffers);
                if let Some(old) = old
                    && Some(old) != new
                {
                    leave(&mut built.index, old, row.row);
                }
            }
            for row in rows.iter().filter(own) {
                let (_, new) = keys(&built.index, within, row, before, &mut buffers);
                let Some(new) = new else { continue };
                if built.refused.is_none()
                    && let Err(why) = within.enter(&mut built.index, new, row.row)
                {
                    built.refuse(&why, within.columns, &within.row(row.row));
                }
            }
        }
        self.online.building = building;
        (self.online.old, self.online.new) = buffers;
    }
}

/// The row a change is of.
pub(super) fn row_of(change: Change) -> Option<(u32, u32)> {
    match change {
        Change::Updated { table, row, .. }
        | Change::Created { table, row }
        | Change::Deleted { table, row } => Some((table, row)),
        _ => None,
    }
}

/// A changed row's key as it was and as it is.
fn keys<'k>(
    index: &RowIndex,
    within: Within<'_>,
    row: &ChangedRow,
    before: &[u8],
    (old, new): &'k mut (Vec<u8>, Vec<u8>),
) -> (Option<Key<'k>>, Option<Key<'k>>) {
    let fixed = &before[row.at..row.at + within.rows.shape.row_bytes];
    let was = MemoryRow { fixed, values: &within.rows.values };
    let was = row.was_there.then(|| key_of(index, within.columns, &was, old));
    let is = row.is_there.then(|| key_of(index, within.columns, &within.row(row.row), new));
    (was, is)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
