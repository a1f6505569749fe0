//! `Changes`: what a transaction changed, as a value that outlives the transaction and the process.
//!
//! ```text
//!   one change:  1 kind │ 4 table or index │ 4 row │ kinds update, set value: 4 offset │ 4 length, bytes
//! ```
//!
//! Numbers are little-endian. A row is a slot where the transaction found it, and a number where it created it:
//! the first row is 0. The bytes are those of a key, a row or a value; a deletion has none. The changes are in an
//! order in which they can be made: entries are removed, rows deleted, rows updated, rows created, entries inserted.
//!
//! Each entry and each byte occurs once, as the transaction left it. Handles of values outside the row do not occur:
//! a value may lie somewhere else by then. Not here: finding the changes (`set_aside.rs`), making them (`make.rs`).

use super::sealed::{self, Mark};
use crate::key::KEY_BYTES_MAX;
use crate::source::Source;
use crate::types::TEXT_BYTES_MAX;

/// A row of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangedRow {
    /// It was there.
    Slot(u32),
    /// It was created: the first row is 0.
    Created(u32),
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation<'a> {
    /// An entry is removed.
    Remove { index: u32, row: u32, key: &'a [u8] },
    /// A row is deleted.
    Delete { table: u32, row: u32 },
    /// A row's bytes from `offset` on are these; no handle is among them.
    Update { table: u32, row: u32, offset: u32, bytes: &'a [u8] },
    /// A row is created; where it has handles, there are zeros.
    Create { table: u32, bytes: &'a [u8] },
    /// The value whose handle is at `offset` is this.
    SetValue { table: u32, row: ChangedRow, offset: u32, value: &'a [u8] },
    /// An entry is inserted.
    Insert { index: u32, row: ChangedRow, key: &'a [u8] },
}

const REMOVE: u8 = 1;
const DELETE: u8 = 2;
const UPDATE: u8 = 3;
const CREATE: u8 = 4;
const SET_VALUE: u8 = 5;
const SET_CREATED_VALUE: u8 = 6;
const INSERT: u8 = 7;
const INSERT_CREATED: u8 = 8;

const MARK: Mark = *b"TbC1";

/// What a transaction changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    bytes: Vec<u8>,
}

impl Changes {
    /// The changes as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The changes in `bytes`, if they are some. Whether they are of a store shows when they are made.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Source(sealed::content(bytes, MARK)?);
        let mut created = 0;
        while !from.0.is_empty() {
            match read(&mut from)? {
                Operation::Create { .. } => created += 1,
                Operation::SetValue { row: ChangedRow::Created(row), .. }
                | Operation::Insert { row: ChangedRow::Created(row), .. }
                    if row >= created =>
                {
                    return None;
                }
                _ => {}
            }
        }
        Some(Self { bytes: bytes.to_vec() })
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == sealed::HEAD_BYTES
    }

    /// The changes in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Operation<'_>> {
        let mut from = Source(&self.bytes[sealed::HEAD_BYTES..]);
        std::iter::from_fn(move || {
            (!from.0.is_empty())
                .then(|| read(&mut from).expect("what was written or verified is a change"))
        })
    }
}

fn read<'a>(from: &mut Source<'a>) -> Option<Operation<'a>> {
    let [kind] = from.array()?;
    let (position, row) = (from.short()?, from.short()?);
    let offset = match kind {
        UPDATE | SET_VALUE | SET_CREATED_VALUE => from.short()?,
        _ => 0,
    };
    let bytes = if kind == DELETE { &[] } else { from.bytes()? };
    let changed_row = match kind {
        SET_CREATED_VALUE | INSERT_CREATED => ChangedRow::Created(row),
        _ => ChangedRow::Slot(row),
    };
    let bytes_max = match kind {
        REMOVE | INSERT | INSERT_CREATED => KEY_BYTES_MAX,
        _ => TEXT_BYTES_MAX,
    };
    if bytes.len() > bytes_max {
        return None;
    }
    let (table, index, key, value) = (position, position, bytes, bytes);
    Some(match kind {
        REMOVE => Operation::Remove { index, row, key },
        DELETE => Operation::Delete { table, row },
        UPDATE => Operation::Update { table, row, offset, bytes },
        CREATE => Operation::Create { table, bytes },
        SET_VALUE | SET_CREATED_VALUE => {
            Operation::SetValue { table, row: changed_row, offset, value }
        }
        INSERT | INSERT_CREATED => Operation::Insert { index, row: changed_row, key },
        _ => return None,
    })
}

/// Changes while they are found.
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// With room for `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Self {
        Self { bytes: sealed::open_new(capacity) }
    }

    pub(super) fn write(&mut self, operation: &Operation<'_>) {
        let kind_of = |row, found, created| match row {
            ChangedRow::Slot(row) => (found, row),
            ChangedRow::Created(row) => (created, row),
        };
        let (position, (kind, row), offset, bytes) = match *operation {
            Operation::Remove { index, row, key } => (index, (REMOVE, row), None, key),
            Operation::Delete { table, row } => {
                self.head(DELETE, table, row);
                return;
            }
            Operation::Update { table, row, offset, bytes } => {
                (table, (UPDATE, row), Some(offset), bytes)
            }
            Operation::Create { table, bytes } => (table, (CREATE, 0), None, bytes),
            Operation::SetValue { table, row, offset, value } => {
                (table, kind_of(row, SET_VALUE, SET_CREATED_VALUE), Some(offset), value)
            }
            Operation::Insert { index, row, key } => {
                (index, kind_of(row, INSERT, INSERT_CREATED), None, key)
            }
        };
        self.head(kind, position, row);
        if let Some(offset) = offset {
            self.number(offset);
        }
        self.number(u32::try_from(bytes.len()).expect("rows, keys and values are short"));
        self.bytes.extend_from_slice(bytes);
    }

    fn head(&mut self, kind: u8, position: u32, row: u32) {
        self.bytes.push(kind);
        self.number(position);
        self.number(row);
    }

    fn number(&mut self, number: u32) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn changes(mut self) -> Changes {
        sealed::close(&mut self.bytes, MARK);
        Changes { bytes: self.bytes }
    }
}
