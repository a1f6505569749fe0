//! Tables, indexes and columns that are dropped while transactions run.
//!
//! ```text
//!   drop_index  ──► gone from schema and log ──► its entries are the caller's to give back
//!   drop_table  ──► gone from schema and log ──► so are its rows, their values and its indexes
//!   drop_column ──► gone from schema and log         its place in the rows stays
//!                        └── its long values: values_slice() … Done
//! ```
//!
//! A drop is one change of the schema between two transactions, and one record of the log, so it is durable as a
//! whole or not at all. Its position in the schema stays empty and is not reused: an earlier handle
//! finds no row and no entry there, and the code that issued the handle recognises the dropped table or index by the
//! position. The name can be reused immediately.
//!
//! Freeing memory takes a while, so structures are returned to the caller, which may free them on another thread.
//! A column's long values lie among those of other columns: they are freed row by row, a few between
//! two transactions. A crash meanwhile does no harm: a store that is opened again does not load these values.
//!
//! A long read uses rows and their table, so no table is dropped while one is under way. Not here: when
//! slices run (engine `pipeline/stages/long.rs`), the same in a replay (`recovery/`). Profiles without undo,
//! and those whose log holds commands, keep what they have.

use super::budget::Allowance;
use super::columns::Vacated;
use super::index::RowIndex;
use super::log::Log;
use super::online::Built;
use super::rows::Rows;
use super::store::{MemoryStore, State};
use super::variable::{HANDLE_BYTES, Handle};
use crate::error::SchemaError;
use crate::profile::MemoryProfile;
use crate::schema::column_offset;
use crate::store::Store;
use crate::value_log::SchemaKind;

/// What is left of a column that was dropped: long values that have to be freed. There is one for each
/// drop, in their order; [`MemoryStore::values_slice`] works on the first.
#[derive(Debug)]
pub(super) struct Remains {
    /// The table's position.
    table: usize,
    /// Where the column's handles lie. They are among those of the rows as long as this is there, so that a
    /// row that dies meanwhile frees its own.
    offset: usize,
    /// The values of all slots below it were freed.
    cursor: u32,
}

impl Remains {
    /// Frees the values of at most so many slots; whether that was all, and how many there were.
    fn free(&mut self, rows: &mut Rows, slots: u32) -> (bool, u32) {
        let Rows { slab, values, .. } = rows;
        let (first, used) = (self.cursor, slab.used());
        self.cursor = first.saturating_add(slots).min(used);
        let mut slot = first;
        loop {
            let next = slab.live_from(slot).next();
            let Some(live) = next.filter(|&live| live < self.cursor) else { break };
            values.free(Handle::read(slab.slot(live), self.offset));
            slab.clear(live, self.offset..self.offset + HANDLE_BYTES);
            slot = live + 1;
        }
        (self.cursor == used, self.cursor - first)
    }
}

/// The memory that the structures of an empty position may take: what they are made with.
const EMPTY_BYTES: usize = 64 << 10;

/// Why nothing that has rows is dropped while a snapshot is open.
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
            _ => panic!("tables, indexes and columns are dropped between transactions"),
        }
    }

    /// Drops the index called `name`, from schema and log. The memory of its entries is handed to
    /// the caller.
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
                "is the primary key of {}: it identifies the table's rows; drop the table, or keep it",
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

    /// Puts an empty index in the place of another one and returns that one.
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

    /// Drops the table called `name` with its rows and indexes, from schema and log. Their memory is
    /// handed to the caller.
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
        self.refuse_rows(name, position)?;
        let no_space = |error: &dyn std::fmt::Display| SchemaError::new(name, &error.to_string());
        // An earlier handle still sees rows of their length, but no row.
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
        self.remains.retain(|remains| remains.table != position);
        Ok(Vacated::of_table(rows, vacated))
    }

    /// Refuses to drop rows, or parts of rows, that a long read or a slice works on.
    fn refuse_rows(&self, name: &str, table: usize) -> Result<(), SchemaError> {
        if self.snapshots.are_open() {
            return Err(SchemaError::new(name, OPEN_SNAPSHOT));
        }
        if self.online.builds_on(table) || self.columns.widens(table) {
            let what = "an index or a column of the table is being added: try again when it is";
            return Err(SchemaError::new(name, what));
        }
        Ok(())
    }

    /// Drops a column, from schema and log. Its place in the rows stays, so that nothing else moves; its
    /// long values are freed by [`MemoryStore::values_slice`].
    ///
    /// # Errors
    /// No such table or column, an index that has it in its keys, the last column of its table, and as
    /// [`MemoryStore::drop_table`].
    ///
    /// # Panics
    /// Within a transaction.
    pub fn drop_column(&mut self, table: &str, column: &str) -> Result<(), SchemaError> {
        self.refuse_drop(table)?;
        let Some(position) = self.schema.table(table) else {
            return Err(SchemaError::new(table, "no such table"));
        };
        let (def, name) = (&self.schema.tables[position], format!("{table}.{column}"));
        let Some(at) = def.column(column) else {
            return Err(SchemaError::new(&name, "no such column"));
        };
        if let Some(index) = def.indexes.iter().find(|index| index.columns.contains(&at)) {
            let what = format!("index {} has it in its keys: drop that first", index.name);
            return Err(SchemaError::new(&name, &what));
        }
        if def.columns.iter().filter(|column| !column.is_dropped()).count() == 1 {
            let what = "is the table's last column: drop the table, or add another column first";
            return Err(SchemaError::new(&name, what));
        }
        self.refuse_rows(&name, position)?;
        let offset = column_offset(&def.columns, at);
        let has_values = def.columns[at].sql.is_variable();
        self.schema.drop_column(position, at);
        self.log_change(SchemaKind::ColumnDropped, position, Some(at), &[]);
        if has_values {
            self.remains.push_back(Remains { table: position, offset, cursor: 0 });
        }
        Ok(())
    }

    /// Whether values of a column of the table at this position are left that was dropped.
    pub(super) fn frees_column_of(&self, table: usize) -> bool {
        self.remains.iter().any(|remains| remains.table == table)
    }

    /// Frees the long values that at most `rows_max` rows have in columns that were dropped.
    ///
    /// # Panics
    /// Within a transaction.
    pub fn values_slice(&mut self, rows_max: usize) -> Built {
        assert!(
            matches!(self.state, State::Idle | State::Poisoned(_)),
            "values are freed between transactions"
        );
        let Some(remains) = self.remains.front_mut() else { return Built::Done };
        let slots = u32::try_from(rows_max.max(1)).unwrap_or(u32::MAX);
        let rows = &mut self.tables[remains.table];
        let (is_done, slots) = remains.free(rows, slots);
        if is_done {
            let offset = remains.offset;
            rows.shape.variable_offsets.retain(|&other| other != offset);
            self.remains.pop_front();
            if self.remains.is_empty() {
                return Built::Done;
            }
        }
        Built::More { rows: slots.max(1) as usize }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
