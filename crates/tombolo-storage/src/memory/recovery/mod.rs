//! Rebuilds a store from a value log: rows by slot first, then free lists and indexes (TPK-20 …
//! TPK-26).
//!
//! ```text
//!   value_log::recover ──records──► ReplayPart::apply   (all parts see all records, each keeps its
//!                                        │               own tables: a thread may have a part)
//!                                   ReplayPart::finish  free lists, index entries
//!                                        │
//!                                   MemoryStore::from_replay
//! ```
//!
//! A record names a slot, so replaying one is a copy: no key is looked for, no index touched. It is
//! idempotent: replayed again from any group on, the same log leaves the same rows. Indexes are
//! built when all rows are there, from sorted keys (`indexes.rs`). A handle of a variable-length
//! value is valid only in the process that made it: handles in records are ignored,
//! and values are stored anew.
//!
//! If an index does not match its rows — a procedure omitted an entry, or set a value outside its declared
//! range — opening is refused with the index's name, unless the caller asks to leave such indexes out.
//!
//! Not here: files and groups (`value_log/recover.rs`), threads (the engine gives each a part).

mod columns;
pub(in crate::memory) mod definitions;
mod image;
mod indexes;

use definitions::Effect;
pub(in crate::memory) use image::{SlabName, Slots};

use std::sync::Arc;

use super::Limits;
use super::budget::{Allowance, Budget};
use super::columns::RowShape;
use super::index::RowIndex;
use super::region::RegionError;
use super::rows::Rows;
use super::store::MemoryStore;
use super::variable::{HANDLE_BYTES, Handle};
use crate::plant::{self, Plant};
use crate::profile::MemoryProfile;
use crate::schema::{Schema, TableDef};
use crate::value_log::{GroupNumber, Record, Records, Refused, Replay, SchemaRecord, Transactions};

/// Rows of some of the tables of a log, as far as it was replayed.
#[derive(Debug)]
pub struct ReplayPart {
    part: usize,
    parts: usize,
    allowance: Allowance,
    limits: Limits,
    budget: Arc<Budget>,
    schema: Schema,
    /// By position in the schema; those of other parts are `None`.
    tables: Vec<Option<Rows>>,
    handles: Vec<(usize, u64)>,
    applied: u64,
    fuzzy: Fuzzy,
    without_unfit_indexes: bool,
}

/// What is still open after rows were loaded from an image, whose blocks are of different moments
/// (`memory/image/`): until the log was replayed up to the newest of them, a record may be of a row
/// that is gone by then.
#[derive(Debug, Default)]
struct Fuzzy {
    /// The newest group whose changes any loaded block holds; 0 when nothing is open.
    until: GroupNumber,
    /// Values that the image does not hold, by table, slot and offset of the handle: the log must
    /// bring them, or take their rows away.
    dangling: Vec<(u32, u32, usize)>,
}

/// Records whose rows were asked for, so that memory is waited for once and not for each.
struct Ahead<'a> {
    records: [Option<Record<'a>>; AHEAD],
    len: usize,
}

/// How many rows are asked for together: about twice as many as a core waits for at the same time.
const AHEAD: usize = 32;

impl Ahead<'_> {
    const fn new() -> Self {
        Self { records: [None; AHEAD], len: 0 }
    }
}

/// A part whose log is over: rows, free slots and index entries are complete.
#[derive(Debug)]
pub struct RebuiltPart {
    parts: usize,
    budget: Arc<Budget>,
    schema: Schema,
    /// With the indexes that rows fit.
    tables: Vec<Option<(Rows, Vec<RowIndex>)>>,
    left_out: Vec<LeftOut>,
    applied: u64,
}

impl RebuiltPart {
    /// How many records of this part's rows were replayed.
    pub fn applied(&self) -> u64 {
        self.applied
    }
}

impl ReplayPart {
    /// Part `part` of `parts`: some of the tables; each is in one part.
    ///
    /// # Panics
    /// When there is no such part.
    pub fn new(part: usize, parts: usize, limits: Limits) -> Self {
        assert!(part < parts, "part {part} of {parts}");
        let (schema, tables, handles) = (Schema::default(), Vec::new(), Vec::new());
        let fuzzy = Fuzzy::default();
        // What the log holds was within the bounds once: nothing is refused here.
        let budget = Budget::new(u64::MAX);
        let allowance = Allowance::new(limits.structure_bytes_max, &budget);
        let (applied, without_unfit_indexes) = (0, false);
        Self {
            part,
            parts,
            allowance,
            limits,
            budget,
            schema,
            tables,
            handles,
            applied,
            fuzzy,
            without_unfit_indexes,
        }
    }

    /// Leaves indexes out that the rows do not fit, in place of refusing: so that the rows can be read out,
    /// or changed until they fit. [`MemoryStore::left_out`] says which those are.
    pub fn leave_out_unfit_indexes(&mut self) {
        self.without_unfit_indexes = true;
    }

    /// Replays whole transactions; records of other parts' tables are skipped.
    ///
    /// # Errors
    /// What is wrong with a record, or that there is no memory, in words.
    pub fn apply(&mut self, transactions: &[u8]) -> Result<(), String> {
        let mut ahead = Ahead::new();
        for records in Transactions::new(transactions) {
            self.look_at(records.map_err(|error| error.to_string())?, &mut ahead)?;
        }
        self.catch_up(&mut ahead)
    }

    /// Replays the transactions of group `group`, which comes behind all groups so far.
    ///
    /// # Errors
    /// As [`ReplayPart::apply`] and [`ReplayPart::begin_group`].
    pub fn apply_group(&mut self, group: GroupNumber, transactions: &[u8]) -> Result<(), String> {
        self.begin_group(group)?;
        self.apply(transactions)
    }

    /// Says that what is applied next is of this group. After loading an image this ends the
    /// leniency that rows of different moments need; a replay without it is lenient until
    /// [`ReplayPart::settle`].
    ///
    /// # Errors
    /// As [`ReplayPart::settle`].
    #[inline]
    pub fn begin_group(&mut self, group: GroupNumber) -> Result<(), String> {
        if self.fuzzy.until != 0 && group > self.fuzzy.until { self.settle() } else { Ok(()) }
    }

    /// The log was replayed up to everything a loaded image holds: its rows are those of one moment
    /// from here on. Without an image nothing happens.
    ///
    /// # Errors
    /// That a value is missing, which the image does not hold and the log did not bring: they do
    /// not belong together, or one of them is damaged.
    pub fn settle(&mut self) -> Result<(), String> {
        let Fuzzy { dangling, .. } = std::mem::take(&mut self.fuzzy);
        for (position, row, offset) in dangling {
            let Some(Some(table)) = self.tables.get(position as usize) else { continue };
            let slab = &table.slab;
            let is_open =
                slab.is_live(row) && Handle::read(slab.slot(row), offset) == Handle::DANGLING;
            if is_open && !plant::is(Plant::DanglingAccepted) {
                return Err(format!(
                    "table {position}, slot {row}: the image does not hold the value at byte \
                     {offset}, and the log did not bring it: image and log do not belong together"
                ));
            }
        }
        Ok(())
    }

    /// Replays the records of one transaction, as [`ReplayPart::apply`] does.
    ///
    /// # Errors
    /// As [`ReplayPart::apply`].
    #[inline]
    pub fn apply_transaction(&mut self, records: Records<'_>) -> Result<(), String> {
        let mut ahead = Ahead::new();
        self.look_at(records, &mut ahead)?;
        self.catch_up(&mut ahead)
    }

    /// Asks for the rows of `records`, and applies those that have been waiting long enough.
    #[inline(always)]
    fn look_at<'a>(&mut self, records: Records<'a>, ahead: &mut Ahead<'a>) -> Result<(), String> {
        for record in records {
            let record = record.map_err(|error| error.to_string())?;
            let (position, row, offset) = match record {
                Record::Schema(change) => {
                    self.catch_up(ahead)?;
                    self.change_schema(&change)?;
                    continue;
                }
                Record::Updated { table, row, offset, .. }
                | Record::ValueSet { table, row, offset, .. } => (table as usize, row, offset),
                Record::Inserted { table, row, .. } | Record::Deleted { table, row } => {
                    (table as usize, row, 0)
                }
            };
            match self.tables.get(position) {
                Some(Some(_)) if self.forgets(position) => continue,
                Some(Some(table)) => table.slab.prefetch(row, offset),
                Some(None) => continue,
                None => {
                    return Err(format!("a record of table {position}, which was not created yet"));
                }
            }
            ahead.records[ahead.len] = Some(record);
            ahead.len += 1;
            if ahead.len == AHEAD {
                self.catch_up(ahead)?;
            }
        }
        Ok(())
    }

    /// Whether nothing of this table is replayed: of none, unless that is planted.
    #[inline(always)]
    fn forgets(&self, position: usize) -> bool {
        plant::is(Plant::IdsNotReplayed) && self.schema.tables[position].name == "tombolo_request"
    }

    /// Applies what was looked at.
    fn catch_up(&mut self, ahead: &mut Ahead<'_>) -> Result<(), String> {
        let Self { tables, handles, applied, fuzzy, .. } = self;
        let is_fuzzy = fuzzy.until != 0;
        let records = &ahead.records[..std::mem::take(&mut ahead.len)];
        *applied += records.len() as u64;
        for &record in records.iter().flatten() {
            let (Record::Updated { table: position, row, .. }
            | Record::Inserted { table: position, row, .. }
            | Record::Deleted { table: position, row }
            | Record::ValueSet { table: position, row, .. }) = record
            else {
                continue;
            };
            let Some(Some(table)) = tables.get_mut(position as usize) else { continue };
            let done = match record {
                Record::Updated { offset, bytes, .. } => table.update(row, offset, bytes, handles),
                Record::Inserted { fixed, .. } => table.insert(row, fixed),
                Record::Deleted { .. } => {
                    table.delete(row);
                    Ok(())
                }
                // The row is gone in the image, which is newer.
                Record::ValueSet { .. } if is_fuzzy && !table.slab.is_live(row) => Ok(()),
                Record::ValueSet { offset, value, .. } => table.set_value(row, offset, value),
                Record::Schema(_) => Ok(()),
            };
            done.map_err(|what| format!("table {position}, slot {row}: {what}"))?;
        }
        Ok(())
    }

    fn change_schema(&mut self, change: &SchemaRecord<'_>) -> Result<(), String> {
        match definitions::apply(&mut self.schema, change)? {
            Effect::None => {}
            Effect::TableCreated => {
                let table = self.empty_table(self.tables.len()).map_err(no_memory)?;
                self.tables.push(table);
            }
            Effect::ColumnAdded(position) => {
                let def = &self.schema.tables[position];
                if let Some(table) = &mut self.tables[position] {
                    table.widen(def, &self.allowance).map_err(no_memory)?;
                }
            }
            Effect::ColumnDropped(position) => {
                let def = &self.schema.tables[position];
                if let Some(table) = &mut self.tables[position] {
                    table.forget_dropped(def);
                    let handles = RowShape::of(def);
                    self.fuzzy.dangling.retain(|&(table, _, offset)| {
                        table as usize != position || !handles.is_dropped(offset)
                    });
                }
            }
            // From here on its records are skipped like those of other parts' tables.
            Effect::TableDropped(position) => self.tables[position] = None,
        }
        Ok(())
    }

    /// A table without rows, if it is of this part and was not dropped.
    fn empty_table(&self, position: usize) -> Result<Option<Rows>, RegionError> {
        let def = &self.schema.tables[position];
        if def.is_dropped() || !is_own(position, self.part, self.parts) {
            return Ok(None);
        }
        Rows::new(def, &self.allowance).map(Some)
    }

    /// Rebuilds free lists and indexes. Settles ([`ReplayPart::settle`]) before.
    ///
    /// # Errors
    /// That there is no memory, or that the rows do not fit the schema, in words.
    pub fn finish(mut self) -> Result<RebuiltPart, String> {
        self.settle()?;
        let Self { parts, allowance, limits, budget, schema, tables, applied, .. } = self;
        let without_unfit_indexes = self.without_unfit_indexes;
        let (mut rebuilt, mut left_out) = (Vec::new(), Vec::new());
        for (position, table) in tables.into_iter().enumerate() {
            let Some(mut table) = table else {
                rebuilt.push(None);
                continue;
            };
            table.forget_dead();
            table.slab.rebuild_free_list();
            let def = &schema.tables[position];
            let mut indexes = Vec::new();
            for (number, index) in def.indexes.iter().enumerate() {
                let empty = RowIndex::new(position, def, index, &allowance, limits.hash_seed());
                let empty = empty.map_err(no_memory)?;
                let built = indexes::build(empty, def, &table);
                match built {
                    Ok(built) => indexes.push(built),
                    Err(NotBuilt::NoMemory(what)) => return Err(what),
                    Err(NotBuilt::Unfit(what)) if without_unfit_indexes => {
                        left_out.push(LeftOut { table: position, number, what });
                    }
                    Err(NotBuilt::Unfit(what)) => {
                        return Err(format!(
                            "index {}: {what}; to read the rows out, or to change them until they \
                             fit, open without unfit indexes",
                            index.name
                        ));
                    }
                }
            }
            rebuilt.push(Some((table, indexes)));
        }
        Ok(RebuiltPart { parts, budget, schema, tables: rebuilt, applied, left_out })
    }
}

/// An index that the rows do not fit.
#[derive(Debug)]
struct LeftOut {
    table: usize,
    /// Its number among the indexes of its table.
    number: usize,
    what: String,
}

/// Why an index was not built.
enum NotBuilt {
    NoMemory(String),
    /// The rows do not fit it.
    Unfit(String),
}

/// A log replayed by one thread: [`ReplayPart`] number 0 of 1.
impl Replay for ReplayPart {
    fn replay(&mut self, group: GroupNumber, records: &[u8]) -> Result<(), Refused> {
        self.apply_group(group, records).map_err(|what| (group, what))
    }
}

/// Whether part `part` of `parts` keeps the table at `position`. Not every second table: in TPC-C that
/// puts 80 % of the work into one of two parts, this half.
pub(in crate::memory) fn is_own(position: usize, part: usize, parts: usize) -> bool {
    (position ^ position >> 1) % parts == part
}

fn no_memory(error: RegionError) -> String {
    format!("no memory for what the log holds: {error}")
}

impl Rows {
    #[inline]
    fn insert(&mut self, row: u32, fixed: &[u8]) -> Result<(), String> {
        let RowShape { row_bytes: bytes, base_bytes, .. } = self.shape;
        // Procedures that know nothing of columns that were added make shorter ones.
        if !(base_bytes..=bytes).contains(&fixed.len()) {
            return Err(format!("a row of {} bytes where they have {bytes}", fixed.len()));
        }
        if !self.shape.variable_offsets.is_empty() {
            self.free_values(row);
        }
        let (_, slot) = self.slab.claim(row).map_err(no_memory)?;
        slot[..fixed.len()].copy_from_slice(fixed);
        slot[fixed.len()..bytes].fill(0);
        for &offset in &self.shape.handle_offsets {
            slot[offset..offset + HANDLE_BYTES].fill(0);
        }
        Ok(())
    }

    #[inline]
    fn update(
        &mut self,
        row: u32,
        offset: usize,
        bytes: &[u8],
        handles: &mut Vec<(usize, u64)>,
    ) -> Result<(), String> {
        let Self { slab, shape, .. } = self;
        let slot =
            slab.head_mut(row.into(), shape.row_bytes).ok_or("the row was never inserted")?;
        let end = offset + bytes.len();
        let Some(range) = slot.get_mut(offset..end) else {
            return Err(format!("bytes {offset} to {end} are not all in the row"));
        };
        handles.clear();
        for &at in &shape.handle_offsets {
            if at >= offset && at + HANDLE_BYTES <= end {
                handles.push((at - offset, Handle::read(range, at - offset).to_bits()));
            }
        }
        range.copy_from_slice(bytes);
        for &(at, handle) in &*handles {
            range[at..at + HANDLE_BYTES].copy_from_slice(&handle.to_le_bytes());
        }
        Ok(())
    }

    fn delete(&mut self, row: u32) {
        if plant::is(Plant::DeletesNotReplayed) {
            return;
        }
        self.free_values(row);
        self.slab.retire(row);
    }

    /// Frees the values of a row, if it is live.
    fn free_values(&mut self, row: u32) {
        if !self.slab.is_live(row) {
            return;
        }
        for &offset in &self.shape.variable_offsets {
            let slot = self.slab.slot_mut(row);
            let handle = Handle::read(slot, offset);
            slot[offset..offset + HANDLE_BYTES].fill(0);
            if handle != Handle::DANGLING {
                self.values.free(handle);
            }
        }
    }

    fn set_value(&mut self, row: u32, offset: usize, value: &[u8]) -> Result<(), String> {
        let shape = &self.shape;
        if shape.is_dropped(offset) {
            return Ok(()); // the image knows more than the record
        }
        if !shape.variable_offsets.contains(&offset) {
            return Err(format!("no variable-length column lies at byte {offset} of the row"));
        }
        if !self.slab.is_live(row) {
            return Err("a value of a row that is not there".to_owned());
        }
        let new = self.values.put(value).map_err(no_memory)?;
        let slot = &mut self.slab.slot_mut(row)[offset..offset + HANDLE_BYTES];
        let old = Handle::read(slot, 0);
        slot.copy_from_slice(&new.to_bits().to_le_bytes());
        if old != Handle::DANGLING {
            self.values.free(old);
        }
        Ok(())
    }
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// The store a log describes: all parts of one replay, in any order.
    ///
    /// # Errors
    /// That there is no memory, in words.
    ///
    /// # Panics
    /// When a part is missing, or they are not of the same log.
    pub fn from_replay(limits: Limits, parts: Vec<RebuiltPart>) -> Result<Self, String> {
        let mut store = Self::new(limits);
        let first = parts.first().expect("a store is made of at least one part");
        assert_eq!(first.parts, parts.len(), "a part of the replay is missing");
        store.schema = first.schema.clone();
        let mut tables: Vec<_> = store.schema.tables.iter().map(|_| None).collect();
        let mut left_out = Vec::new();
        for part in parts {
            assert_eq!(part.schema, store.schema, "the parts are of different logs");
            store.budget.adopt(&part.budget);
            for (place, table) in tables.iter_mut().zip(part.tables) {
                *place = place.take().or(table);
            }
            left_out.extend(part.left_out);
        }
        // From the last one on: a number is that among all indexes of its table.
        for LeftOut { table, number, what } in left_out.into_iter().rev() {
            let name = store.schema.tables[table].indexes[number].name.to_string();
            store.schema.drop_index(table, number);
            store.left_out.push((name, what));
        }
        store.schema.close_gaps();
        let mut placed: Vec<_> = (0..store.schema.indexes()).map(|_| None).collect();
        for (position, table) in tables.into_iter().enumerate() {
            if store.schema.tables[position].is_dropped() {
                let nothing = Rows::new(&TableDef::dropped(), &store.no_allowance());
                store.tables.push(nothing.map_err(no_memory)?);
                continue;
            }
            let (table, indexes) = table.expect("two parts of a replay are the same");
            store.tables.push(table);
            for (number, index) in indexes.into_iter().enumerate() {
                placed[store.schema.index_position(position, number)] = Some(index);
            }
        }
        let built = |index: Option<_>| index.expect("each index was built by its part");
        store.indexes.extend(placed.into_iter().map(built));
        Ok(store)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
pub(crate) mod tests;
