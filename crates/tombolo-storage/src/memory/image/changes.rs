//! `Changes`: records of durable groups, found by the row they are of (TPK-17).
//!
//! Where DB′ lies on disk only, what changed since the last checkpoint is all of it that is in memory: a
//! table's records, one behind the other, and for each of them eight bytes that say row and place. Sorted
//! by these, the records of a block's rows are together, each row's in the order of the log.
//!
//! Not here: what a record does to a row (`pass.rs`), records as they come (`gathered.rs`). Invariants:
//! what is kept was decoded once, so it is a record; [`Changes`] are sorted.

use std::ops::Range;

use crate::value_log::{Record, Records};

/// Where a row's number lies in what says where a record is; below is the place.
const ROW_SHIFT: u32 = 32;

/// Vectors grow by one part in so many: twice the length would be twice the bound.
const GROWTH: usize = 8;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Changes {
    tables: Vec<TableChanges>,
}

/// A record, the row it is of and where it is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) row: u32,
    pub(super) place: u32,
    pub(super) record: Record<'a>,
}

impl Changes {
    /// Takes over what was logged later, by table.
    ///
    /// # Errors
    /// More than can be kept, in words.
    pub(super) fn append(&mut self, later: Vec<TableChanges>) -> Result<(), String> {
        let tables = self.tables.len().max(later.len());
        self.tables.resize_with(tables, TableChanges::default);
        for (own, later) in self.tables.iter_mut().zip(later) {
            own.append(later)?;
            own.places.sort_unstable();
        }
        Ok(())
    }

    /// Those of a table's rows, by row and in the order of the log.
    pub(super) fn of(&self, table: usize, rows: Range<u64>) -> impl Iterator<Item = Change<'_>> {
        let places = self.tables.get(table).map_or(&[][..], |own| &own.places);
        let before = |row: u64| places.partition_point(|&place| place >> ROW_SHIFT < row);
        let own = before(rows.start)..before(rows.end);
        own.map(move |number| {
            let (row, place) = self.tables[table].row_and_place(number);
            Change { row, place, record: self.at(table, place) }
        })
    }

    /// The record of a table that is kept there.
    pub(super) fn at(&self, table: usize, place: u32) -> Record<'_> {
        self.tables[table].at(place)
    }

    /// What is kept, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.tables.iter().map(TableChanges::bytes).sum()
    }

    /// Memory it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.tables.iter().map(TableChanges::memory_bytes).sum()
    }
}

/// Records of one table's rows.
#[derive(Clone, Debug, Default)]
pub(super) struct TableChanges {
    records: Vec<u8>,
    /// Row and place of each record.
    places: Vec<u64>,
}

impl TableChanges {
    /// Keeps a record of a row.
    ///
    /// # Errors
    /// More than can be kept, in words.
    pub(super) fn push(&mut self, row: u32, record: &[u8]) -> Result<(), String> {
        let place = self.place_for(record.len())?;
        reserve(&mut self.records, record.len());
        self.records.extend_from_slice(record);
        reserve(&mut self.places, 1);
        self.places.push(u64::from(row) << ROW_SHIFT | u64::from(place));
        Ok(())
    }

    fn append(&mut self, later: Self) -> Result<(), String> {
        if self.places.is_empty() {
            *self = later;
            return Ok(());
        }
        let first = u64::from(self.place_for(later.records.len())?);
        reserve(&mut self.records, later.records.len());
        self.records.extend_from_slice(&later.records);
        reserve(&mut self.places, later.places.len());
        self.places.extend(later.places.into_iter().map(|place| place + first));
        Ok(())
    }

    fn place_for(&self, bytes: usize) -> Result<u32, String> {
        let end = u32::try_from(self.records.len() + bytes);
        end.map(|_| self.records.len() as u32).map_err(|_| {
            "more than 4 GB of log are behind a table's image: open the database once with \
             checkpoint_copy = memory"
                .to_owned()
        })
    }

    /// Keeps those records of which `counts` says so, given their numbers; they are in the order of the
    /// log, so each ends where the next one begins.
    pub(super) fn retain(&mut self, counts: impl Fn(usize) -> bool) {
        let (mut kept, mut to) = (0, 0);
        for number in 0..self.places.len() {
            let from = self.row_and_place(number).1 as usize;
            // What was moved lies before this one.
            let next = number + 1;
            let end = match next < self.places.len() {
                true => self.row_and_place(next).1 as usize,
                false => self.records.len(),
            };
            if counts(number) {
                self.records.copy_within(from..end, to);
                self.places[kept] = self.places[number] >> ROW_SHIFT << ROW_SHIFT | to as u64;
                (kept, to) = (kept + 1, to + (end - from));
            }
        }
        self.places.truncate(kept);
        self.records.truncate(to);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Of which row a record is, and where it is kept.
    pub(super) fn row_and_place(&self, number: usize) -> (u32, u32) {
        let place = self.places[number];
        ((place >> ROW_SHIFT) as u32, place as u32)
    }

    /// The record that is kept there.
    pub(super) fn at(&self, place: u32) -> Record<'_> {
        let record = Records::new(&self.records[place as usize..], place as usize).next();
        record.and_then(Result::ok).expect("a record that was kept")
    }

    /// Memory it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.records.capacity() + self.places.capacity() * size_of::<u64>()) as u64
    }

    /// What is kept, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        (self.records.len() + self.places.len() * size_of::<u64>()) as u64
    }
}

fn reserve<T>(vector: &mut Vec<T>, more: usize) {
    if vector.capacity() - vector.len() < more {
        vector.reserve_exact(more.max(vector.len() / GROWTH).max(64));
    }
}
