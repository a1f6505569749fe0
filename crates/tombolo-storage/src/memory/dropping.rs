//! Tables and indexes that go while transactions run.
//!
//! ```text
//!   drop_index ──► gone from schema and log ──► its entries are the caller's to give back
//!   drop_table ──► gone from schema and log ──► so are its rows and indexes
//!                        └── its long values: values_slice() … Done
//! ```
//!
//! A drop is one change of the schema between two transactions, and one record of the log: durable and
//! whole, or not there. What it was stays as an empty position, of which nothing has the number again:
//! a handle of before finds no row and no entry there, and whoever gave handles out tells by their
//! position that they are of what was dropped. The name is free at once.
//!
//! To give memory back takes a while, so structures go to the caller, who may have another thread for it.
//! Long values lie among those of other tables: they are freed row by row, a few between two
//! transactions. No crash hurts that: in a store that is opened again the values are not there.
//!
//! A long read knows rows and their table, so no table goes while one is under way. Not here: slices'
//! turns (engine `pipeline/long.rs`), the same in a replay (`recovery/`). Profiles without undo, and
//! those whose log holds commands, keep what they have.

use super::budget::Allowance;
use super::columns::Vacated;
use super::index::RowIndex;
use super::log::Log;
use super::online::Built;
use super::rows::Rows;
use super::slab::Slab;
use super::store::{MemoryStore, State};
use super::variable::Handle;
use crate::error::SchemaError;
use crate::profile::MemoryProfile;
use crate::store::Store;
use crate::value_log::SchemaKind;

/// What is left of a table that was dropped: rows whose long values have to be freed. There is one for
/// each, in the order of their drops; [`MemoryStore::values_slice`] works on the first.
#[derive(Debug)]
pub(super) struct Remains {
    slab: Slab,
    variable_offsets: Vec<usize>,
    /// The values of all slots below it were freed.
    cursor: u32,
}

impl Remains {
    pub(super) fn committed_bytes(&self) -> usize {
        self.slab.committed_bytes()
    }

    /// The handles of values that were not freed yet.
    pub(super) fn handles(&self) -> impl Iterator<Item = Handle> {
        self.slab.live_from(self.cursor).flat_map(|slot| {
            let bytes = self.slab.slot(slot);
            self.variable_offsets.iter().map(|&offset| Handle::read(bytes, offset))
        })
    }
}

/// What the structures of an empty position may take: what they are made with.
const EMPTY_BYTES: usize = 64 << 10;

/// Why no table is dropped while a snapshot is open.
const OPEN_SNAPSHOT: &str = "a long read is under way: try again when that is over";

impl<P: MemoryProfile> MemoryStore<P> {
    /// What an empty position may take.
    pub(super) fn no_allowance(&self) -> Allowance {
        Allowance::new(EMPTY_BYTES, &self.budget)
    }

    fn refuse_drop(&self, name: &str) -> Result<(), SchemaError> {
        let refuse = |what: &str| Err(SchemaError::new(name, what));
        match self.state {
            State::Idle if Self::UNDO && <P::Log as Log>::CHANGES_TABLES => Ok(()),
            State::Idle => {
                refuse("is dropped in a profile with undo and without a command log only")
            }
            State::Poisoned(reason) => refuse(reason),
            _ => panic!("a table or index is dropped between transactions"),
        }
    }

    /// Drops the index called `name`, from schema and log. What its entries lay in is the caller's.
    ///
    /// # Errors
    /// No such index, a table's primary key, a profile without undo, an earlier failure.
    ///
    /// # Panics
    /// Within a transaction.
    pub fn drop_index(&mut self, name: &str) -> Result<Vacated, SchemaError> {
        self.refuse_drop(name)?;
        let Some((table, number)) = self.schema.index(name) else {
            return Err(SchemaError::new(name, "no such index"));
        };
        let def = &self.schema.tables[table];
        if number == 0 && def.indexes[0].unique {
            let what = format!(
                "is the primary key of {}: its rows are told apart by it; drop the table, or keep it",
                def.name
            );
            return Err(SchemaError::new(name, &what));
        }
        let position = self.schema.index_position(table, number);
        let vacated = self.empty_index(position, table, number)?;
        self.schema.drop_index(table, number);
        self.log_change(SchemaKind::IndexDropped, table, None, name.as_bytes());
        self.unfollow(&[position]);
        Ok(Vacated::of(None, vec![vacated]))
    }

    /// Puts an empty index in the place of another one, which is the answer.
    fn empty_index(
        &mut self,
        position: usize,
        table: usize,
        number: usize,
    ) -> Result<RowIndex, SchemaError> {
        let table_def = &self.schema.tables[table];
        let def = &table_def.indexes[number];
        let nothing = RowIndex::new(table, table_def, def, &self.no_allowance(), 0);
        let nothing = nothing.map_err(|error| SchemaError::new(&def.name, &error.to_string()))?;
        Ok(std::mem::replace(&mut self.indexes[position], nothing))
    }

    /// Drops the table called `name` with its rows and indexes, from schema and log. What they lay in is
    /// the caller's; their long values are freed by [`MemoryStore::values_slice`].
    ///
    /// # Errors
    /// No such table, an index or a column of it that is being added, an open snapshot, a profile
    /// without undo, no address space, an earlier failure.
    ///
    /// # Panics
    /// Within a transaction.
    pub fn drop_table(&mut self, name: &str) -> Result<Vacated, SchemaError> {
        self.refuse_drop(name)?;
        let refuse = |what: &str| Err(SchemaError::new(name, what));
        let Some(position) = self.schema.table(name) else { return refuse("no such table") };
        if self.snapshots.are_open() {
            return refuse(OPEN_SNAPSHOT);
        }
        if self.online.builds_on(position) || self.columns.widens(position) {
            return refuse("an index or a column of it is being added: try again when it is");
        }
        let no_space = |error: &dyn std::fmt::Display| SchemaError::new(name, &error.to_string());
        // A handle of before finds rows as long as they were, and none.
        let def = &self.schema.tables[position];
        let mut nothing = Rows::new(def, &self.no_allowance()).map_err(|error| no_space(&error))?;
        if self.names_rows {
            let kept = nothing.slab.keep_generations(self.no_allowance());
            kept.map_err(|error| no_space(&error))?;
        }
        let mut vacated = Vec::new();
        let indexes =
            (0..def.indexes.len()).map(|number| self.schema.index_position(position, number));
        let indexes: Vec<_> = indexes.collect();
        for (number, &index) in indexes.iter().enumerate() {
            vacated.push(self.empty_index(index, position, number)?);
        }
        let rows = std::mem::replace(&mut self.tables[position], nothing);
        self.schema.drop_table(position);
        self.log_change(SchemaKind::TableDropped, position, None, &[]);
        self.unfollow(&indexes);
        let Rows { slab, variable_offsets, .. } = rows;
        if variable_offsets.is_empty() {
            return Ok(Vacated::of(Some(slab), vacated));
        }
        self.remains.push_back(Remains { slab, variable_offsets, cursor: 0 });
        Ok(Vacated::of(None, vacated))
    }

    /// Frees the long values of at most `rows_max` rows of a table that was dropped. What the rows lay in
    /// is the caller's when all are free.
    ///
    /// # Panics
    /// Within a transaction.
    pub fn values_slice(&mut self, rows_max: usize) -> (Built, Option<Vacated>) {
        assert!(
            matches!(self.state, State::Idle | State::Poisoned(_)),
            "values are freed between transactions"
        );
        let Some(remains) = self.remains.front_mut() else {
            return (Built::Done, None);
        };
        let slots = u32::try_from(rows_max.max(1)).unwrap_or(u32::MAX);
        let end = remains.cursor.saturating_add(slots).min(remains.slab.used());
        for slot in remains.slab.live_from(remains.cursor).take_while(|slot| *slot < end) {
            for &offset in &remains.variable_offsets {
                self.values.free(Handle::read(remains.slab.slot(slot), offset));
            }
        }
        remains.cursor = end;
        let more = Built::More { rows: slots as usize };
        if end < remains.slab.used() {
            return (more, None);
        }
        let slab = self.remains.pop_front().map(|remains| remains.slab);
        let left = if self.remains.is_empty() { Built::Done } else { more };
        (left, slab.map(|slab| Vacated::of(Some(slab), Vec::new())))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
