//! `Changes`: records of durable groups as they lie in the log, found by the row they are of (TPK-17).
//!
//! Where DB′ lies on disk only, what changed since the last checkpoint is all of it that is in memory:
//! the records, one behind the other, and for each of them eight bytes that say row and place. Sorted
//! by these, the records of a block's rows are together, each row's in the order of the log. Where rows
//! change often, [`Changes::squeeze`] lets go of what a later record writes over.
//!
//! Not here: what a record does to a row (`pass.rs`). Invariant: what is kept was decoded once, so it is
//! a record.

use std::ops::Range;

use crate::value_log::{Record, Records};

/// Where a row's number lies in what says where a record is; below is the place.
const ROW_SHIFT: u32 = 32;

/// Vectors grow by one part in so many: twice the length would be twice the bound.
const GROWTH: usize = 8;

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
        reserve(&mut self.records, record.len());
        self.records.extend_from_slice(record);
        if self.places.len() <= table {
            self.places.resize_with(table + 1, Vec::new);
        }
        let places = &mut self.places[table];
        reserve(places, 1);
        places.push(u64::from(row) << ROW_SHIFT | u64::from(place));
        Ok(())
    }

    /// Takes over what was kept later.
    ///
    /// # Errors
    /// As [`Changes::push`].
    pub(super) fn append(&mut self, later: Self) -> Result<(), String> {
        let first = u64::from(self.place_for(later.records.len())?);
        reserve(&mut self.records, later.records.len());
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

    /// Lets go of records that later ones of their rows make good for: bytes and values that are written
    /// over, and all that a row was before it was inserted or deleted. Takes as much memory again as is
    /// left, until it is over.
    pub(super) fn squeeze(&mut self) {
        self.sort();
        let mut left = Self::default();
        let mut row = Vec::new();
        for (table, places) in self.places.iter().enumerate() {
            for places in places.chunk_by(|a, b| a >> ROW_SHIFT == b >> ROW_SHIFT) {
                row.clear();
                row.extend(places.iter().map(|&place| (place as u32, true)));
                self.drop_written_over(&mut row);
                for &(place, _) in row.iter().filter(|(_, is_kept)| *is_kept) {
                    let bytes = self.bytes_at(place);
                    left.push(table, (places[0] >> ROW_SHIFT) as u32, bytes)
                        .expect("less than there was");
                }
            }
        }
        *self = left;
    }

    /// Of a row's records, in the order of the log, those that are kept.
    fn drop_written_over(&self, row: &mut [(u32, bool)]) {
        // What later records wrote: the row from here to there, and values by their columns' offsets.
        let (mut written, mut values) = (0..0, Vec::new());
        let mut is_over = false;
        for (place, is_kept) in row.iter_mut().rev() {
            match self.at(*place) {
                Record::Updated { offset, bytes, .. } => {
                    let own = offset..offset + bytes.len();
                    let is_inside = written.start <= own.start && own.end <= written.end;
                    *is_kept = !(is_over || is_inside);
                    // One range is remembered, the longest: what is outside of it is kept.
                    if own.len() > written.len() {
                        written = own;
                    }
                }
                Record::ValueSet { offset, .. } => {
                    *is_kept = !(is_over || values.contains(&offset));
                    values.push(offset);
                }
                // These are kept: they say whether the row lives.
                Record::Inserted { .. } | Record::Deleted { .. } => is_over = true,
                Record::TableCreated { .. }
                | Record::IndexCreated { .. }
                | Record::ColumnAdded { .. } => {}
            }
        }
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

    fn bytes_at(&self, place: u32) -> &[u8] {
        let from = &self.records[place as usize..];
        let mut records = Records::new(from, place as usize);
        records.next();
        &from[..from.len() - records.rest().len()]
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

fn reserve<T>(vector: &mut Vec<T>, more: usize) {
    if vector.capacity() - vector.len() < more {
        vector.reserve_exact(more.max(vector.len() / GROWTH).max(64));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::memory::test_random::Random;
    use crate::value_log::record::RecordWriter;
    use crate::value_log::{LogBuffer, Transactions};

    const ROW_BYTES: usize = 24;

    /// What records make of one row: whether it lives, its bytes, its values.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Row {
        lives: bool,
        bytes: [u8; ROW_BYTES],
        values: BTreeMap<usize, Vec<u8>>,
    }

    /// All rows after all records, done one by one.
    fn done(changes: &Changes) -> BTreeMap<(usize, u32), Row> {
        let mut rows: BTreeMap<(usize, u32), Row> = BTreeMap::new();
        for table in 0..2 {
            for Change { row, record, .. } in changes.of(table, 0..u64::from(u32::MAX)) {
                let own = rows.entry((table, row)).or_default();
                match record {
                    Record::Updated { offset, bytes, .. } => {
                        own.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
                    }
                    Record::Inserted { fixed, .. } => {
                        *own = Row { lives: true, ..Row::default() };
                        own.bytes.copy_from_slice(fixed);
                    }
                    Record::Deleted { .. } => *own = Row::default(),
                    Record::ValueSet { offset, value, .. } => {
                        own.values.insert(offset, value.to_vec());
                    }
                    _ => unreachable!("none of a row"),
                }
            }
        }
        rows
    }

    fn push(changes: &mut Changes, write: impl FnOnce(&mut RecordWriter)) {
        let (mut writer, mut log) = (RecordWriter::default(), LogBuffer::default());
        write(&mut writer);
        writer.commit();
        writer.take(&mut log);
        for records in Transactions::new(log.as_slice()) {
            let mut records = records.expect("a transaction");
            let bytes = records.rest();
            let (table, row) = match records.next().expect("a record").expect("a sound one") {
                Record::Updated { table, row, .. }
                | Record::Inserted { table, row, .. }
                | Record::Deleted { table, row }
                | Record::ValueSet { table, row, .. } => (table, row),
                _ => unreachable!("none of a row"),
            };
            changes.push(table as usize, row, bytes).expect("there is room");
        }
    }

    /// Rows end the same whether or not, and whenever, what was written over was let go.
    #[test]
    fn what_is_let_go_changes_nothing() {
        let mut random = Random::new(7);
        let mut below = |n: u64| random.below(n) as usize;
        for _ in 0..30 {
            let (mut whole, mut squeezed) = (Changes::default(), Changes::default());
            for step in 0..120_u8 {
                let (table, row) = (below(2) as u32, below(4) as u32);
                let (kind, offset) = (below(10), below(ROW_BYTES as u64));
                let length = 1 + below((ROW_BYTES - offset) as u64);
                let write = |writer: &mut RecordWriter| match kind {
                    0 => writer.inserted(table, row, &[step; ROW_BYTES]),
                    1 => writer.deleted(table, row),
                    2 | 3 => writer.value_set(table, row, offset % 3 * 8, &vec![step; length]),
                    _ => writer.updated(table, row, offset, &[step; ROW_BYTES][..length]),
                };
                push(&mut whole, write);
                push(&mut squeezed, write);
                if below(30) == 0 {
                    squeezed.squeeze();
                }
            }
            squeezed.squeeze();
            whole.sort();
            assert_eq!(done(&squeezed), done(&whole));
            assert!(squeezed.bytes() < whole.bytes());
        }
    }

    /// A row that changes often in the same place is there once.
    #[test]
    fn a_row_that_changes_often_is_there_once() {
        let mut changes = Changes::default();
        let balance = |changes: &mut Changes, to: u8| {
            push(changes, |writer| writer.updated(0, 3, 8, &[to; 8]));
        };
        balance(&mut changes, 0);
        let one = changes.bytes();
        (1..100).for_each(|to| balance(&mut changes, to));
        changes.squeeze();
        assert_eq!(changes.bytes(), one);
        assert_eq!(done(&changes)[&(0, 3)].bytes[8..16], [99; 8]);
    }
}
