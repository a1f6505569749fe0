//! `Gathered`: records of durable groups as they came, where DB′ lies on disk only (TPK-17).
//!
//! Where rows change often, [`Gathered::squeeze`] lets go of what later records write over. It goes
//! through a table's records backwards, as they lie, and remembers with a bit for each row and kind of
//! record what was written later; then it moves those that count together, in place. Nothing is sorted
//! and no row is looked for, so that a stage that installs millions of records a second has the time.
//!
//! Not here: what a record does to a row (`pass.rs`), records by row (`changes.rs`). Invariant: what is
//! kept was decoded once, so it is a record.

use super::super::bits::Bits;
use super::changes::{Changes, TableChanges};
use crate::value_log::Record;

/// Kinds of records that are distinguished in a table, as a table has few: bytes from here to there,
/// the value of a column. Of further kinds all are kept.
const KINDS_MAX: usize = 32;

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    /// In the order of the log.
    tables: Vec<TableChanges>,
}

impl Gathered {
    /// Keeps a record of a row.
    ///
    /// # Errors
    /// More than can be kept, in words.
    pub(super) fn push(&mut self, table: usize, row: u32, record: &[u8]) -> Result<(), String> {
        if self.tables.len() <= table {
            self.tables.resize_with(table + 1, TableChanges::default);
        }
        self.tables[table].push(row, record)
    }

    /// Forgets what is kept of a table that was dropped.
    pub(super) fn forget(&mut self, table: usize) {
        if let Some(own) = self.tables.get_mut(table) {
            *own = TableChanges::default();
        }
    }

    /// Drops records that later ones of their rows replace: bytes and values that are written over, and
    /// all that a row was before it was inserted or deleted.
    pub(super) fn squeeze(&mut self) {
        self.tables.iter_mut().for_each(squeeze);
    }

    /// By row, behind those of `before`.
    ///
    /// # Errors
    /// As [`Gathered::push`].
    pub(super) fn into_changes(self, before: Option<Changes>) -> Result<Changes, String> {
        let mut changes = before.unwrap_or_default();
        changes.append(self.tables)?;
        Ok(changes)
    }

    /// Memory it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.tables.iter().map(TableChanges::memory_bytes).sum()
    }

    /// What is kept, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.tables.iter().map(TableChanges::bytes).sum()
    }
}

fn squeeze(of: &mut TableChanges) {
    let (mut later, mut counts) = (Later::default(), Bits::default());
    for number in (0..of.len()).rev() {
        let (row, place) = of.row_and_place(number);
        if !later.hides(row, of.at(place)) {
            counts.insert(number);
        }
    }
    of.retain(|number| counts.contains(number));
}

/// What later records did to the rows of a table.
#[derive(Default)]
struct Later {
    /// Rows that were made or deleted.
    over: Bits,
    /// Rows of which this was written.
    written: Vec<(Kind, Bits)>,
}

/// What of a row a record writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bytes { offset: usize, length: usize },
    Value { offset: usize },
}

impl Later {
    /// Whether later records hide what a record did to a row; it counts among them afterwards.
    fn hides(&mut self, row: u32, record: Record<'_>) -> bool {
        let row = row as usize;
        let kind = match record {
            Record::Updated { offset, bytes, .. } => Kind::Bytes { offset, length: bytes.len() },
            Record::ValueSet { offset, .. } => Kind::Value { offset },
            Record::Inserted { .. } | Record::Deleted { .. } => return !self.over.insert(row),
            Record::Schema(_) => return false,
        };
        if self.over.contains(row) {
            return true;
        }
        let known = self.written.iter().position(|(known, _)| *known == kind);
        let known = known.or_else(|| {
            let has_room = self.written.len() < KINDS_MAX;
            has_room.then(|| self.written.push((kind, Bits::default())))?;
            Some(self.written.len() - 1)
        });
        known.is_some_and(|known| !self.written[known].1.insert(row))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::changes::Change;
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
    fn done(gathered: Gathered) -> BTreeMap<(usize, u32), Row> {
        let changes = gathered.into_changes(None).expect("there is room");
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

    fn push(gathered: &mut Gathered, write: impl FnOnce(&mut RecordWriter)) {
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
            gathered.push(table as usize, row, bytes).expect("there is room");
        }
    }

    /// Rows end the same whether or not overwritten records were dropped, and at any time.
    #[test]
    fn what_is_let_go_changes_nothing() {
        let mut random = Random::new(7);
        let mut below = |n: u64| random.below(n) as usize;
        for _ in 0..30 {
            let (mut whole, mut squeezed) = (Gathered::default(), Gathered::default());
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
            assert!(squeezed.bytes() < whole.bytes());
            assert_eq!(done(squeezed), done(whole));
        }
    }

    /// A row that changes often in the same place is there once.
    #[test]
    fn a_row_that_changes_often_is_there_once() {
        let mut gathered = Gathered::default();
        let balance = |gathered: &mut Gathered, to: u8| {
            push(gathered, |writer| writer.updated(0, 3, 8, &[to; 8]));
        };
        balance(&mut gathered, 0);
        let one = gathered.bytes();
        (1..100).for_each(|to| balance(&mut gathered, to));
        gathered.squeeze();
        assert_eq!(gathered.bytes(), one);
        assert_eq!(done(gathered)[&(0, 3)].bytes[8..16], [99; 8]);
    }
}
