//! Which handles are valid: those of this database whose table or index was not dropped since.
//!
//! A handle carries a number that no other database of the process has, and a call compares it with the number
//! that its database has now. When something is dropped, the database takes another number, so the comparison
//! recognises older handles. Only older handles are looked up here, which costs some instructions a call until the
//! program asks for new ones. Not here: the comparison (`mod.rs`), rows that are
//! gone (storage `memory/rows.rs`).

use tombolo_storage::error::Error as StoreError;
use tombolo_storage::schema::{ColumnDef, Schema};
use tombolo_storage::sync::{AtomicU32, Ordering};

/// The number for the next database that is opened, or dropped from.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// Given to one database, at one time.
pub(crate) fn next_number() -> u32 {
    NEXT_NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// What a handle is of, by its position.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    Table(usize),
    /// A table whose columns and indexes the handle knows as data.
    Whole(usize),
    Index(usize),
}

/// Those of one database.
#[derive(Clone)]
pub(crate) struct Handles {
    /// All numbers it had, ascending; the last is the one it has now.
    numbers: Vec<u32>,
    /// The number from which on a handle is valid. Handles of tables and indexes that are not listed are always
    /// valid; those of dropped ones never are.
    tables: Vec<u32>,
    wholes: Vec<u32>,
    indexes: Vec<u32>,
}

/// No handle has it.
const NONE: u32 = u32::MAX;
pub(super) const NO_DATABASE: u32 = NONE;

fn note(good: &mut Vec<u32>, position: usize, from: u32) {
    good.resize(good.len().max(position + 1), 0);
    good[position] = good[position].max(from);
}

impl Handles {
    pub(super) fn of(number: u32) -> Self {
        let numbers = vec![number];
        Self { numbers, tables: Vec::new(), wholes: Vec::new(), indexes: Vec::new() }
    }

    /// Whether a handle with this number may be used.
    ///
    /// # Errors
    /// `OtherDatabase`, `Dropped`.
    pub(crate) fn admit(&self, number: u32, of: Of) -> Result<(), StoreError> {
        if self.numbers.binary_search(&number).is_err() {
            return Err(StoreError::OtherDatabase);
        }
        let good = match of {
            Of::Table(position) => self.tables.get(position),
            Of::Whole(position) => self.wholes.get(position),
            Of::Index(position) => self.indexes.get(position),
        };
        match good {
            Some(&from) if number < from => Err(StoreError::Dropped),
            _ => Ok(()),
        }
    }

    /// The number of handles that are given out when the schema that `was` has become what it `is`.
    pub(super) fn follow(&mut self, was: &Schema, is: &Schema) -> u32 {
        let (mut next, last) = (None, self.numbers[self.numbers.len() - 1]);
        for (position, table) in was.live_tables() {
            let now = &is.tables[position];
            let is_dropped = |at| now.columns.get(at).is_some_and(ColumnDef::is_dropped);
            let has_less = (0..table.columns.len())
                .any(|at| is_dropped(at) && !table.columns[at].is_dropped());
            if has_less {
                // Its handles know the column, and those of its indexes read its rows.
                let from = *next.get_or_insert_with(next_number);
                note(&mut self.tables, position, from);
                note(&mut self.wholes, position, from);
                for number in 0..table.indexes.len() {
                    note(&mut self.indexes, was.index_position(position, number), from);
                }
            }
            for number in 0..table.indexes.len() {
                let index = was.index_position(position, number);
                if is.index_at(index).is_none() {
                    note(&mut self.indexes, index, NONE);
                    note(&mut self.wholes, position, *next.get_or_insert_with(next_number));
                }
            }
            if now.is_dropped() {
                next.get_or_insert_with(next_number);
                note(&mut self.tables, position, NONE);
                note(&mut self.wholes, position, NONE);
            }
        }
        self.numbers.extend(next);
        next.unwrap_or(last)
    }
}
