//! `Changes`: records of durable groups as they lie in the log, found by the row they are of (TPK-17).
//!
//! Where DB′ lies on disk only, what changed since the last checkpoint is all of it that is in memory:
//! the records, one behind the other, and for each of them eight bytes that say row and place. Sorted
//! by these, the records of a block's rows are together, each row's in the order of the log.
//!
//! Not here: what a record does to a row (`pass.rs`). Invariant: what is kept was decoded once, so it is
//! a record.

use std::ops::Range;

use crate::value_log::{Record, Records};

/// Where a row's number lies in what says where a record is; below is the place.
const ROW_SHIFT: u32 = 32;

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    records: Vec<u8>,
    /// By table: row and place of each record.
    places: Vec<Vec<u64>>,
}

/// A record, the row it is of and where it is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) row: u32,
    pub(super) place: u32,
    pub(super) record: Record<'a>,
}

impl Changes {
    /// Keeps a record of a row.
    ///
    /// # Errors
    /// More than can be kept, in words.
    pub(super) fn push(&mut self, table: usize, row: u32, record: &[u8]) -> Result<(), String> {
        let place = self.place_for(record.len())?;
        self.records.extend_from_slice(record);
        if self.places.len() <= table {
            self.places.resize_with(table + 1, Vec::new);
        }
        self.places[table].push(u64::from(row) << ROW_SHIFT | u64::from(place));
        Ok(())
    }

    /// Takes over what was kept later.
    ///
    /// # Errors
    /// As [`Changes::push`].
    pub(super) fn append(&mut self, later: Self) -> Result<(), String> {
        let first = u64::from(self.place_for(later.records.len())?);
        self.records.extend_from_slice(&later.records);
        let tables = self.places.len().max(later.places.len());
        self.places.resize_with(tables, Vec::new);
        for (own, later) in self.places.iter_mut().zip(later.places) {
            own.extend(later.into_iter().map(|place| place + first));
        }
        Ok(())
    }

    fn place_for(&self, bytes: usize) -> Result<u32, String> {
        let end = u32::try_from(self.records.len() + bytes);
        end.map(|_| self.records.len() as u32).map_err(|_| {
            "more than 4 GB of log are behind the image: open the database once with \
             checkpoint_copy = memory"
                .to_owned()
        })
    }

    /// Puts the records of each row together.
    pub(super) fn sort(&mut self) {
        self.places.iter_mut().for_each(|places| places.sort_unstable());
    }

    /// Those of a table's rows, by row and in the order of the log, once they are sorted.
    pub(super) fn of(&self, table: usize, rows: Range<u64>) -> impl Iterator<Item = Change<'_>> {
        let places = self.places.get(table).map_or(&[][..], |places| places);
        let before = |row: u64| places.partition_point(|&place| place >> ROW_SHIFT < row);
        let own = &places[before(rows.start)..before(rows.end)];
        own.iter().map(|&place| {
            let (row, place) = ((place >> ROW_SHIFT) as u32, place as u32);
            Change { row, place, record: self.at(place) }
        })
    }

    /// The record that is kept there.
    pub(super) fn at(&self, place: u32) -> Record<'_> {
        let record = Records::new(&self.records[place as usize..], place as usize).next();
        record.and_then(Result::ok).expect("a record that was kept")
    }

    /// Memory it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let places: usize = self.places.iter().map(Vec::capacity).sum();
        (self.records.capacity() + places * size_of::<u64>()) as u64
    }

    /// What is kept, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let places: usize = self.places.iter().map(Vec::len).sum();
        (self.records.len() + places * size_of::<u64>()) as u64
    }
}
