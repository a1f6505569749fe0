//! Records: the changes of a transaction, packed tightly, and the buffer that collects them.
//!
//! A buffer contains consecutive transactions: four bytes with the length of its records
//! (at least one byte), then the records. A record begins with one word of eight bytes:
//!
//! | bits | short word | extended word |
//! |---|---|---|
//! | 0–1 | 0 updated, 1 inserted, 2 deleted | 3 |
//! | 2–11 | number of bytes that follow, below 1,024 | 2–7: the kind, as before or as below |
//! | 12–23 | offset in the row, below 4,096 | 8–31: table |
//! | 24–31 | table, below 256 | |
//! | 32–63 | the row's slot | the same |
//!
//! Kinds of an extended word: 0 updated, 1 inserted, 2 deleted, 3 value set, 4 table created, 5 index
//! created, 6 column added, 7 table dropped, 8 index dropped, 9 column dropped. The word is followed by
//! four bytes of offset (for schema changes: one more than their number), four of length, and
//! the bytes. All numbers are little-endian. Nearly all records need only a short word, which is built with
//! a few shifts and no branch that depends on data.
//!
//! Not here: the meaning of a row's bytes (the schema's), groups, files. Invariant: a buffer
//! ends with a whole transaction.

use std::fmt;

/// Bytes of the length before a transaction's records.
pub const LENGTH_BYTES: usize = 4;

/// Bytes of a short record's head.
const SHORT_BYTES: usize = 8;

/// Bytes of an extended record's head, the longest head.
const EXTENDED_BYTES: usize = 16;

const UPDATED: u64 = 0;
const INSERTED: u64 = 1;
const DELETED: u64 = 2;
/// In a short word's kind: the word is extended.
const EXTENDED: u64 = 3;
const VALUE_SET: u64 = 3;
/// Kinds of schema changes, from the first one's number on.
const SCHEMA_CHANGES: [SchemaKind; 6] = [
    SchemaKind::TableCreated,
    SchemaKind::IndexCreated,
    SchemaKind::ColumnAdded,
    SchemaKind::TableDropped,
    SchemaKind::IndexDropped,
    SchemaKind::ColumnDropped,
];
const FIRST_SCHEMA_CHANGE: u64 = 4;

const LENGTH_SHIFT: u32 = 2;
const OFFSET_SHIFT: u32 = 12;
const TABLE_SHIFT: u32 = 24;
const ROW_SHIFT: u32 = 32;
const EXTENDED_TABLE_SHIFT: u32 = 8;

const SHORT_LENGTH_LIMIT: usize = 1 << (OFFSET_SHIFT - LENGTH_SHIFT);
const SHORT_OFFSET_LIMIT: usize = 1 << (TABLE_SHIFT - OFFSET_SHIFT);
const SHORT_TABLE_LIMIT: u32 = 1 << (ROW_SHIFT - TABLE_SHIFT);
const TABLE_LIMIT: u32 = 1 << (ROW_SHIFT - EXTENDED_TABLE_SHIFT);

/// One change, as it is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A row's bytes from `offset` on were changed.
    Updated {
        /// The table's position.
        table: u32,
        /// The row's slot.
        row: u32,
        /// First byte.
        offset: usize,
        /// The new bytes.
        bytes: &'a [u8],
    },
    /// A row was created.
    Inserted {
        /// The table's position.
        table: u32,
        /// The row's slot.
        row: u32,
        /// The whole fixed part, in which handles of variable-length columns are meaningless.
        fixed: &'a [u8],
    },
    /// A row was deleted.
    Deleted {
        /// The table's position.
        table: u32,
        /// The row's slot.
        row: u32,
    },
    /// A variable-length column was set.
    ValueSet {
        /// The table's position.
        table: u32,
        /// The row's slot.
        row: u32,
        /// The offset of the column's handle in the row.
        offset: usize,
        /// The value.
        value: &'a [u8],
    },
    /// The schema was changed.
    Schema(SchemaRecord<'a>),
}

/// A change of the schema, alone in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaRecord<'a> {
    /// The number of earlier changes; not recorded by earlier builds, which dropped nothing.
    pub number: Option<u32>,
    /// The kind of change.
    pub kind: SchemaKind,
    /// The position of the table; 0 for a created one.
    pub table: u32,
    /// The position of a created table in the schema, or of a column in its table; not recorded by earlier builds.
    pub position: Option<u32>,
    /// The definition of a created object (`definition.rs`), or the name of a dropped index.
    pub bytes: &'a [u8],
}

/// The kinds of schema changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaKind {
    /// A table was created, the next in the schema.
    TableCreated,
    /// An index was added to a table, its last.
    IndexCreated,
    /// A column was added to a table, its last. Rows have zeros in it.
    ColumnAdded,
    /// A table was dropped, with all its rows. Its position remains empty.
    TableDropped,
    /// An index of a table was dropped.
    IndexDropped,
    /// A column was dropped. It keeps its place in the rows.
    ColumnDropped,
}

/// Bytes that are not a record although their checksum is right: written by another program, or by a
/// defect of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Their offset from the first byte of the records.
    pub at: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no record begins at byte {} of the records", self.at)
    }
}

impl std::error::Error for Malformed {}

/// Transactions that were logged and not written to disk yet; a reusable buffer.
#[derive(Debug, Default)]
pub struct LogBuffer {
    bytes: Vec<u8>,
    used: usize,
    transactions: u64,
}

impl LogBuffer {
    /// An empty buffer without memory.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), used: 0, transactions: 0 }
    }

    /// The transactions.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Their length in bytes.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The number of transactions.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// The capacity of its memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Discards them and keeps the memory.
    pub fn clear(&mut self) {
        (self.used, self.transactions) = (0, 0);
    }
}

/// Writes records: a [`LogBuffer`] with one open transaction.
#[derive(Debug)]
pub(crate) struct RecordWriter {
    bytes: Vec<u8>,
    /// The place of the next record, after the room for the open transaction's length.
    at: usize,
    /// The beginning of the open transaction's records, after its length.
    start: usize,
    transactions: u64,
    /// Whether records are only counted; then there is no room for any.
    drops: bool,
}

impl Default for RecordWriter {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            at: LENGTH_BYTES,
            start: LENGTH_BYTES,
            transactions: 0,
            drops: false,
        }
    }
}

impl RecordWriter {
    #[inline(always)]
    pub(crate) fn updated(&mut self, table: u32, row: u32, offset: usize, bytes: &[u8]) {
        self.push(UPDATED, table, row, offset, bytes);
    }

    #[inline(always)]
    pub(crate) fn inserted(&mut self, table: u32, row: u32, fixed: &[u8]) {
        self.push(INSERTED, table, row, 0, fixed);
    }

    #[inline(always)]
    pub(crate) fn deleted(&mut self, table: u32, row: u32) {
        self.push(DELETED, table, row, 0, &[]);
    }

    pub(crate) fn value_set(&mut self, table: u32, row: u32, offset: usize, value: &[u8]) {
        self.push_extended(VALUE_SET, table, row, offset, value);
    }

    /// Positions and the number of changes are far below the maximum of their type.
    pub(crate) fn schema_changed(&mut self, change: &SchemaRecord<'_>) {
        let or_0 = |number: Option<u32>| number.map_or(0, |number| number + 1);
        let kind = FIRST_SCHEMA_CHANGE + change.kind as u64;
        let number = or_0(change.number) as usize;
        self.push_extended(kind, change.table, or_0(change.position), number, change.bytes);
    }

    #[inline(always)]
    fn push(&mut self, kind: u64, table: u32, row: u32, offset: usize, bytes: &[u8]) {
        let is_short = bytes.len() < SHORT_LENGTH_LIMIT
            && offset < SHORT_OFFSET_LIMIT
            && table < SHORT_TABLE_LIMIT;
        if !is_short {
            return self.push_extended(kind, table, row, offset, bytes);
        }
        let word = kind
            | (bytes.len() as u64) << LENGTH_SHIFT
            | (offset as u64) << OFFSET_SHIFT
            | u64::from(table) << TABLE_SHIFT
            | u64::from(row) << ROW_SHIFT;
        // In two steps, so that no sum has to be checked for overflow.
        let room = self.bytes.get_mut(self.at..);
        let Some(room) = room.and_then(|room| room.get_mut(..SHORT_BYTES + bytes.len())) else {
            // Checked here, so that it costs a log that is kept no instruction.
            if self.drops {
                self.at += SHORT_BYTES + bytes.len();
                return;
            }
            return self.push_in_new_room(word, bytes);
        };
        room[..SHORT_BYTES].copy_from_slice(&word.to_le_bytes());
        room[SHORT_BYTES..].copy_from_slice(bytes);
        self.at += SHORT_BYTES + bytes.len();
    }

    /// Writes a short record if the buffer is full.
    #[cold]
    #[inline(never)]
    fn push_in_new_room(&mut self, word: u64, bytes: &[u8]) {
        let room = self.room(SHORT_BYTES + bytes.len());
        room[..SHORT_BYTES].copy_from_slice(&word.to_le_bytes());
        room[SHORT_BYTES..].copy_from_slice(bytes);
    }

    #[cold]
    #[inline(never)]
    fn push_extended(&mut self, kind: u64, table: u32, row: u32, offset: usize, bytes: &[u8]) {
        assert!(table < TABLE_LIMIT, "more tables than the log can number");
        if self.drops {
            self.at += EXTENDED_BYTES + bytes.len();
            return;
        }
        let word = EXTENDED
            | kind << LENGTH_SHIFT
            | u64::from(table) << EXTENDED_TABLE_SHIFT
            | u64::from(row) << ROW_SHIFT;
        // Rows and values are far shorter than four gigabytes.
        let (offset, length) = (offset as u32, bytes.len() as u32);
        let room = self.room(EXTENDED_BYTES + bytes.len());
        room[..8].copy_from_slice(&word.to_le_bytes());
        room[8..12].copy_from_slice(&offset.to_le_bytes());
        room[12..16].copy_from_slice(&length.to_le_bytes());
        room[EXTENDED_BYTES..].copy_from_slice(bytes);
    }

    /// The next `bytes` bytes of the buffer, which count as written.
    #[inline(always)]
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        let (at, end) = (self.at, self.at + bytes);
        if end > self.bytes.len() {
            self.grow(end);
        }
        self.at = end;
        &mut self.bytes[at..end]
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, end: usize) {
        self.bytes.resize(end.next_power_of_two().max(64 << 10), 0);
    }

    /// Lets `fill` write into the next `bytes_max` bytes; `fill` returns how many it wrote.
    #[inline(always)]
    pub(crate) fn fill(&mut self, bytes_max: usize, fill: impl FnOnce(&mut [u8]) -> usize) {
        let (at, end) = (self.at, self.at + bytes_max);
        if end > self.bytes.len() {
            self.grow(end);
        }
        let written = fill(&mut self.bytes[at..end]);
        assert!(written <= bytes_max, "more bytes were written than there was room for");
        self.at = at + written;
    }

    /// The beginning of the open transaction's records, among those not taken yet.
    #[inline(always)]
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// The end of the open transaction's records.
    #[inline(always)]
    pub(crate) fn end(&self) -> usize {
        self.at
    }

    /// Bytes of the open transaction's records.
    #[inline(always)]
    pub(crate) fn open_bytes(&self) -> usize {
        self.at - self.start
    }

    /// Ends the open transaction and begins the next; a transaction without records leaves nothing.
    #[inline(always)]
    pub(crate) fn commit(&mut self) {
        let length = self.open_bytes();
        if length > 0 {
            self.commit_as(0);
        }
    }

    /// The same, even without records; `word` is combined with their length.
    #[inline(always)]
    pub(crate) fn commit_as(&mut self, word: u32) {
        let word = word | self.open_bytes() as u32;
        self.bytes[self.start - LENGTH_BYTES..][..LENGTH_BYTES]
            .copy_from_slice(&word.to_le_bytes());
        self.transactions += 1;
        self.at += LENGTH_BYTES;
        self.start = self.at;
    }

    /// Discards the open transaction's records.
    pub(crate) fn abort(&mut self) {
        self.at = self.start;
    }

    /// Discards the open transaction's records from `end` on.
    pub(crate) fn cut(&mut self, end: usize) {
        assert!(
            (self.start..=self.at).contains(&end),
            "only records of the open transaction are cut off"
        );
        self.at = end;
    }

    /// Discards all records, and only counts the bytes of later ones.
    pub(crate) fn drop_records(&mut self) {
        *self = Self { drops: true, ..Self::default() };
    }

    /// Whether records are only counted.
    #[inline(always)]
    pub(crate) fn drops(&self) -> bool {
        self.drops
    }

    /// Moves the ended transactions into `into`, which must be empty, and takes over its memory.
    pub(crate) fn take(&mut self, into: &mut LogBuffer) {
        assert!(into.is_empty(), "a log buffer was not cleared before it was used again");
        assert!(self.open_bytes() == 0, "the log is taken between transactions");
        if self.drops {
            return;
        }
        std::mem::swap(&mut self.bytes, &mut into.bytes);
        (into.used, into.transactions) = (self.ended_bytes(), self.transactions);
        (self.at, self.start, self.transactions) = (LENGTH_BYTES, LENGTH_BYTES, 0);
    }

    /// Bytes of ended transactions that were not taken yet.
    pub(crate) fn ended_bytes(&self) -> usize {
        self.start - LENGTH_BYTES
    }
}

/// The transactions of a buffer or a group, each as its records.
#[derive(Clone, Debug)]
pub struct Transactions<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Transactions<'a> {
    /// The transactions in `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, at: 0 }
    }
}

impl<'a> Iterator for Transactions<'a> {
    type Item = Result<Records<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let split = self.rest.split_first_chunk::<LENGTH_BYTES>().and_then(|(length, rest)| {
            let length = u32::from_le_bytes(*length) as usize;
            if length == 0 { None } else { rest.split_at_checked(length) }
        });
        let at = self.at;
        let Some((records, rest)) = split else {
            self.rest = &[];
            return Some(Err(Malformed { at }));
        };
        self.at += LENGTH_BYTES + records.len();
        self.rest = rest;
        Some(Ok(Records { rest: records, at: at + LENGTH_BYTES }))
    }
}

/// The records of one transaction.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    /// The records in `bytes`; errors count their offsets from `at` on.
    pub(crate) const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { rest: bytes, at }
    }

    fn decode(&self) -> Option<(Record<'a>, &'a [u8])> {
        let (word, rest) = self.rest.split_first_chunk::<8>()?;
        let word = u64::from_le_bytes(*word);
        let row = (word >> ROW_SHIFT) as u32;
        let field = |low: u32, high: u32| word >> low & ((1 << (high - low)) - 1);
        let mut kind = field(0, LENGTH_SHIFT);
        if kind != EXTENDED {
            let (bytes, rest) = rest.split_at_checked(field(LENGTH_SHIFT, OFFSET_SHIFT) as usize)?;
            let offset = field(OFFSET_SHIFT, TABLE_SHIFT) as usize;
            let table = field(TABLE_SHIFT, ROW_SHIFT) as u32;
            return Some((Self::record(kind, table, row, offset, bytes)?, rest));
        }
        kind = field(LENGTH_SHIFT, EXTENDED_TABLE_SHIFT);
        let table = field(EXTENDED_TABLE_SHIFT, ROW_SHIFT) as u32;
        let (offset, rest) = rest.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let offset = u32::from_le_bytes(*offset) as usize;
        Some((Self::record(kind, table, row, offset, bytes)?, rest))
    }

    fn record(
        kind: u64,
        table: u32,
        row: u32,
        offset: usize,
        bytes: &'a [u8],
    ) -> Option<Record<'a>> {
        Some(match kind {
            UPDATED => Record::Updated { table, row, offset, bytes },
            INSERTED => Record::Inserted { table, row, fixed: bytes },
            DELETED => Record::Deleted { table, row },
            VALUE_SET => Record::ValueSet { table, row, offset, value: bytes },
            _ => {
                let kind = kind.checked_sub(FIRST_SCHEMA_CHANGE)? as usize;
                Record::Schema(SchemaRecord {
                    number: (offset as u32).checked_sub(1),
                    kind: *SCHEMA_CHANGES.get(kind)?,
                    table,
                    position: row.checked_sub(1),
                    bytes,
                })
            }
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((record, rest)) = self.decode() else {
            self.rest = &[];
            return Some(Err(Malformed { at: self.at }));
        };
        self.at += self.rest.len() - rest.len();
        self.rest = rest;
        Some(Ok(record))
    }
}

#[cfg(test)]
mod tests;
