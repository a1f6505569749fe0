//! Columns that are added while transactions run: rows get longer, and stay where they are.
//!
//! ```text
//!   begin_column ──► widening ──column_slice() … Done──► widened ──finish_column──► in schema and log
//!                       │  slots in order, a few between           │  the slabs change places
//!                       └────────── give_up_column ◄───────────────┘ (also after a refusal)
//! ```
//!
//! An added column lies behind all others (`row.rs`), so the row with the column is the old row followed by
//! zeros: its slot number, its index entries and its values stay. If slots have room for the column, nothing
//! else has to be done. If not, rows are copied into a second slab of longer slots, each
//! into the slot of the same number; a commit copies its changed rows again. When all rows are copied,
//! the slabs change places, between two transactions.
//!
//! Handles that were made before have a shorter row, and stay valid: the columns that they read and write have the same
//! offsets, and in a row that they create the new column has its default (`row.rs`). *Invariant*: in a table with
//! added columns, slots that are not live hold zeros behind the original columns.
//!
//! What it costs: a table twice in memory while it is widened, a copy of each changed row per commit
//! meanwhile, and nothing afterwards but a comparison per deleted row. Not here: when slices run
//! (engine `pipeline/stages/long.rs`), the same in a replay (`recovery/`).

use super::index::RowIndex;
use super::log::Log;
use super::online::Built;
use super::region::RegionError;
use super::rows::Rows;
use super::slab::Slab;
use super::store::{MemoryStore, State, slot_bytes};
use super::undo::{Change, Undo};
use crate::error::SchemaError;
use crate::plant::{self, Plant};
use crate::profile::MemoryProfile;
use crate::schema::{ColumnDef, TableDef, column_offset, row_size};
use crate::store::Store;
use crate::value_log::{SchemaKind, definition};

/// A column that is being added. Give it to [`MemoryStore::finish_column`] or
/// [`MemoryStore::give_up_column`].
#[derive(Debug)]
#[must_use = "rows are copied until it is finished or dropped"]
pub struct ColumnBuild {
    number: u64,
}

/// The memory that rows lay in before they got longer or went, and entries of indexes that went. Giving
/// it back takes a while, so the caller does that where it has time.
#[derive(Debug)]
#[expect(dead_code, reason = "it is there to be dropped")]
pub struct Vacated {
    slab: Option<Slab>,
    rows: Option<Rows>,
    indexes: Vec<RowIndex>,
}

impl Vacated {
    pub(super) const fn of(slab: Option<Slab>, indexes: Vec<RowIndex>) -> Self {
        Self { slab, rows: None, indexes }
    }

    /// All of a table.
    pub(super) const fn of_table(rows: Rows, indexes: Vec<RowIndex>) -> Self {
        Self { slab: None, rows: Some(rows), indexes }
    }
}

/// What a store knows of columns that are added.
#[derive(Debug, Default)]
pub(super) struct Columns {
    widening: Option<Widening>,
    begun: u64,
}

#[derive(Debug)]
struct Widening {
    number: u64,
    table: usize,
    column: ColumnDef,
    /// The rows as they will be; `None` where slots have room already.
    rows: Option<Slab>,
    /// All slots below it were copied.
    cursor: u32,
    is_done: bool,
    /// Why it cannot be, if so.
    refused: Option<SchemaError>,
}

/// Why no column is added while a snapshot is open.
const OPEN_SNAPSHOT: &str = "a long read knows rows without it: try again when that is over";

/// Further bytes of a slot that gets longer, at least.
const WIDER_BYTES_MIN: usize = 16;

/// How long slots of a table's rows are: first for the columns that were not added, then each time
/// that one did not fit any more. A function of the definition alone: an image keeps these pieces of
/// slots apart, so that a ring is of one length for ever.
pub(super) fn slot_widths(table: &TableDef) -> Vec<usize> {
    let base = table.columns.iter().take_while(|column| !column.added).count();
    let mut last = slot_bytes(row_size(&table.columns[..base]));
    let mut widths = vec![last];
    for end in base + 1..=table.columns.len() {
        let size = row_size(&table.columns[..end]);
        if size > last {
            last = slot_bytes(size).max(last + WIDER_BYTES_MIN);
            widths.push(last);
        }
    }
    widths
}

/// Where each column of a row lies: a function of the definition alone, too.
#[derive(Clone, Debug, Default)]
pub(super) struct RowShape {
    pub(super) row_bytes: usize,
    /// Bytes of a row without the columns that were added.
    pub(super) base_bytes: usize,
    /// As [`slot_widths`].
    pub(super) widths: Vec<usize>,
    /// Offsets of the handles of variable-length columns.
    pub(super) variable_offsets: Vec<usize>,
    /// The same with those that were dropped, of which replayed rows and blocks hold zeros.
    pub(super) handle_offsets: Vec<usize>,
}

impl RowShape {
    pub(super) fn of(table: &TableDef) -> Self {
        let base = table.columns.iter().take_while(|column| !column.added).count();
        let is_variable = |&i: &usize| table.columns[i].sql.is_variable();
        let offset = |i| column_offset(&table.columns, i);
        let variable = (0..table.columns.len()).filter(is_variable);
        let live = variable.clone().filter(|&i| !table.columns[i].is_dropped());
        Self {
            row_bytes: table.row_size(),
            base_bytes: row_size(&table.columns[..base]),
            widths: slot_widths(table),
            variable_offsets: live.map(offset).collect(),
            handle_offsets: variable.map(offset).collect(),
        }
    }

    /// Whether a handle lies there of a column that was dropped.
    pub(super) fn is_dropped(&self, offset: usize) -> bool {
        !self.variable_offsets.contains(&offset) && self.handle_offsets.contains(&offset)
    }

    /// Where a piece of the slots begins, and how long it is.
    pub(super) fn piece(&self, piece: usize) -> Option<(usize, usize)> {
        let end = *self.widths.get(piece)?;
        let start = if piece == 0 { 0 } else { self.widths[piece - 1] };
        Some((start, end - start))
    }
}

impl Rows {
    /// Zeros in what was added, of a slot that is not live any more.
    #[inline]
    pub(super) fn forget_added(&mut self, slot: u32) {
        let RowShape { row_bytes, base_bytes, .. } = self.shape;
        if row_bytes > base_bytes && !plant::is(Plant::AddedNotCleared) {
            self.slab.clear(slot, base_bytes..row_bytes);
        }
    }

    /// The same rows with the columns of `table`, in `slab` if they lie there.
    pub(super) fn take_columns(&mut self, table: &TableDef, slab: Option<Slab>) -> Option<Slab> {
        let old = slab.map(|mut slab| {
            slab.take_generations(&mut self.slab);
            std::mem::replace(&mut self.slab, slab)
        });
        self.describe(table);
        assert_eq!(
            self.shape.widths.last(),
            Some(&self.slab.slot_bytes()),
            "slots are as long as rows"
        );
        old
    }
}

impl Widening {
    /// Copies the slots from `first` on once more, or for the first time.
    fn copy(&mut self, rows: &Rows, first: u32, slots: u32) {
        let Some(wider) = &mut self.rows else { return };
        if let Err(error) = wider.take_over(&rows.slab, first, slots) {
            self.refuse(&error);
        }
    }

    /// Zeros in what was added before, of a row that was copied and dies now: where it lay until now they
    /// are written later, when its slot is given back.
    fn forget_added(&mut self, rows: &Rows, slot: u32) {
        if let Some(wider) = &mut self.rows
            && !plant::is(Plant::AddedCopyNotCleared)
        {
            wider.clear(slot, rows.shape.base_bytes..rows.shape.row_bytes);
        }
    }

    #[cold]
    fn refuse(&mut self, error: &RegionError) {
        let what = format!(
            "no memory for the longer rows, which lie there twice meanwhile ({error}): raise \
             memory_bytes_max or delete rows"
        );
        self.refused = Some(SchemaError::new(&self.column.name, &what));
    }
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// Begins to add a column to a table, behind all others ([`ColumnDef::added`]). Neither in the
    /// schema nor in the log until it is finished; one at a time.
    ///
    /// # Errors
    /// No such table, a name that is taken, a definition no store can hold, another that was begun,
    /// an open snapshot, a profile without undo, no address space, an earlier failure.
    ///
    /// # Panics
    /// Within a transaction.
    pub fn begin_column(
        &mut self,
        table: &str,
        column: ColumnDef,
    ) -> Result<ColumnBuild, SchemaError> {
        let refuse = |what: &str| Err(SchemaError::new(&column.name, what));
        match self.state {
            State::Idle => {}
            State::Poisoned(reason) => return refuse(reason),
            _ => panic!("a column is begun between transactions"),
        }
        if !Self::UNDO || !<P::Log as Log>::CHANGES_TABLES {
            return refuse(
                "a column is added in a profile with undo and without a command log only",
            );
        }
        if self.columns.widening.is_some() {
            return refuse("another column is being added: try again when it is");
        }
        // Refused at the end, too; here it is refused before the table is copied.
        if self.snapshots.are_open() {
            return refuse(OPEN_SNAPSHOT);
        }
        let Some(position) = self.schema.table(table) else {
            return Err(SchemaError::new(table, "no such table"));
        };
        if self.frees_column_of(position) {
            return refuse("values of a dropped column are being freed: try again when they are");
        }
        let mut schema = self.schema.clone();
        schema.add_column(position, column.clone())?;
        let bytes = slot_widths(&schema.tables[position]).pop().unwrap_or_default();
        let is_wider = bytes > self.tables[position].slab.slot_bytes();
        let rows = is_wider.then(|| Slab::new(bytes, self.allowance())).transpose();
        let rows = rows.map_err(|error| SchemaError::new(&column.name, &error.to_string()))?;
        self.columns.begun += 1;
        let number = self.columns.begun;
        let column = column.added();
        let (cursor, is_done, refused) = (0, rows.is_none(), None);
        let widening = Widening { number, table: position, column, rows, cursor, is_done, refused };
        self.columns.widening = Some(widening);
        self.watch();
        Ok(ColumnBuild { number })
    }

    /// Copies at most `rows_max` slots.
    ///
    /// # Errors
    /// Why the column cannot be: no memory. It is to be dropped then.
    ///
    /// # Panics
    /// Within a transaction, or when the column is another store's.
    pub fn column_slice(
        &mut self,
        build: &ColumnBuild,
        rows_max: usize,
    ) -> Result<Built, SchemaError> {
        assert!(
            matches!(self.state, State::Idle | State::Poisoned(_)),
            "rows are copied between transactions"
        );
        let widening = self.columns.own(build);
        let rows = &self.tables[widening.table];
        let left = rows.slab.used() - widening.cursor;
        let slots = left.min(u32::try_from(rows_max.max(1)).unwrap_or(u32::MAX));
        if widening.refused.is_none() && !widening.is_done {
            widening.copy(rows, widening.cursor, slots);
            widening.cursor += slots;
            widening.is_done = slots == left;
        }
        match &widening.refused {
            Some(refused) => Err(refused.clone()),
            None if widening.is_done => Ok(Built::Done),
            None => Ok(Built::More { rows: slots as usize }),
        }
    }

    /// Makes a column part of its table, in the schema and in the log. The memory that rows lay in
    /// before is handed to the caller.
    ///
    /// # Errors
    /// Why it cannot be; it is dropped then.
    ///
    /// # Panics
    /// As [`MemoryStore::column_slice`], or when not all rows were copied.
    pub fn finish_column(&mut self, build: ColumnBuild) -> Result<Vacated, SchemaError> {
        self.columns.own(&build);
        let widening = self.columns.widening.take();
        self.watch();
        let Some(mut widening) = widening else { unreachable!("it was just there") };
        let refuse = |what: &str| Err(SchemaError::new(&widening.column.name, what));
        if let State::Poisoned(reason) = self.state {
            return refuse(reason);
        }
        if self.snapshots.are_open() {
            return refuse(OPEN_SNAPSHOT);
        }
        assert!(widening.is_done && self.state == State::Idle, "it is finished when all is copied");
        let (rows, cursor) = (&self.tables[widening.table], widening.cursor);
        // Those that were made since the last slice, and those that died.
        widening.copy(rows, cursor, rows.slab.used() - cursor);
        let Widening { table, column, rows, refused, .. } = widening;
        if let Some(refused) = refused {
            return Err(refused);
        }
        let position = self.schema.add_column(table, column.clone())?;
        let rows = rows.map(|mut rows| {
            rows.rebuild_free_list();
            rows
        });
        let old = self.tables[table].take_columns(&self.schema.tables[table], rows);
        let position = Some(position);
        if !plant::is(Plant::ColumnNotLogged) {
            let bytes = definition::encode_column(&column);
            self.log_change(SchemaKind::ColumnAdded, table, position, &bytes);
        }
        Ok(Vacated::of(old, Vec::new()))
    }

    /// Gives a column up that is being added.
    ///
    /// # Panics
    /// When it is another store's.
    pub fn give_up_column(&mut self, build: ColumnBuild) -> Vacated {
        self.columns.own(&build);
        let widening = self.columns.widening.take();
        self.watch();
        Vacated::of(widening.and_then(|widening| widening.rows), Vec::new())
    }

    /// What a commit does for a table that is widened: copies the rows it has changed, which never
    /// refuses the transaction.
    pub(super) fn copy_changed(&mut self) {
        let Some(widening) = &mut self.columns.widening else { return };
        let copies = widening.rows.is_some() && !plant::is(Plant::ColumnNotKept);
        if !copies || widening.refused.is_some() {
            return;
        }
        let rows = &self.tables[widening.table];
        let (changes, _) = self.undo.notes();
        for &change in changes {
            let (Change::Updated { table, row, .. }
            | Change::Created { table, row }
            | Change::Deleted { table, row }) = change
            else {
                continue;
            };
            if table as usize == widening.table && row < widening.cursor {
                widening.copy(rows, row, 1);
                if matches!(change, Change::Deleted { .. }) {
                    widening.forget_added(rows, row);
                }
            }
        }
    }
}

impl Columns {
    pub(super) fn is_any(&self) -> bool {
        self.widening.is_some()
    }

    /// Whether a column of the table at this position is being added.
    pub(super) fn widens(&self, table: usize) -> bool {
        self.widening.as_ref().is_some_and(|widening| widening.table == table)
    }

    fn own(&mut self, build: &ColumnBuild) -> &mut Widening {
        let own = self.widening.as_mut().filter(|widening| widening.number == build.number);
        own.expect("a column is added by the store that began it")
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
