//! `Lock`: what a held part has locked, or what an access needs; and the locks of one part as bytes.
//!
//! ```text
//!   one lock:  1 kind │ 4 table or index │ kind 1, table: nothing        │ 1 mode
//!                                        │ kind 2, row:   4 slot         │
//!                                        │ kind 3, key:   2 length, key  │
//!                                        │ kind 4, range: two edges, each 1 after? 2 length, first bytes │
//! ```
//!
//! Numbers are little-endian. A key is in the form in which its index has it, packed ones as eight bytes in order:
//! so all keys compare as bytes. The mode is the last byte, so that locks on the same thing differ there only.
//!
//! Not here: which locks exclude each other in a store (`locks.rs`), what an access has to lock (`guarded.rs`).

use super::sealed::{self, Mark};
use crate::key::KEY_BYTES_MAX;
use crate::memory::btree::Position;
use crate::schema::Schema;
use crate::source::Source;

/// What was done, or is to be done, with a thing that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is read.
    Read,
    /// Something in it changes: a row of a table, an entry under a key that several rows may have. Several
    /// transactions may do that, while none reads the whole.
    ChangeWithin,
    /// It is changed.
    Write,
}

impl Mode {
    // One bit each for the first two: a transaction that has both has all bits.
    const fn bits(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::ChangeWithin => 2,
            Self::Write => 3,
        }
    }

    const fn of_bits(bits: u8) -> Option<Self> {
        match bits {
            1 => Some(Self::Read),
            2 => Some(Self::ChangeWithin),
            3 => Some(Self::Write),
            _ => None,
        }
    }
}

/// A lock on one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock<'a> {
    /// A table as a whole.
    Table {
        /// Its position.
        table: u32,
        /// How.
        mode: Mode,
    },
    /// A row, wherever it is found.
    Row {
        /// Its table.
        table: u32,
        /// Its slot.
        row: u32,
        /// How.
        mode: Mode,
    },
    /// A key of an index, whether or not a row has it.
    Key {
        /// The index.
        index: u32,
        /// The key.
        key: &'a [u8],
        /// How.
        mode: Mode,
    },
    /// All keys of an index between two places, whether or not rows have them; they are read.
    Range {
        /// The index.
        index: u32,
        /// Where it begins.
        lower: Position<'a>,
        /// Where it ends.
        upper: Position<'a>,
    },
}

const TABLE: u8 = 1;
const ROW: u8 = 2;
const KEY: u8 = 3;
const RANGE: u8 = 4;

/// About the length of a lock.
const LOCK_BYTES: usize = 12;

const MARK: Mark = *b"TbL1";

/// The first sixteen bytes as a number, with `fill` for each byte that there is not. Such numbers are ordered as
/// the bytes are, or equal.
pub(super) fn leading(bytes: &[u8], fill: u8) -> u128 {
    if let Some(&leading) = bytes.first_chunk() {
        return u128::from_be_bytes(leading);
    }
    let mut leading = [fill; size_of::<u128>()];
    leading[..bytes.len()].copy_from_slice(bytes);
    u128::from_be_bytes(leading)
}

/// The bytes of an edge, and whether it is behind all keys that begin with them.
pub(super) fn edge(position: Position<'_>) -> (&[u8], bool) {
    match position {
        Position::Before(bytes) => (bytes, false),
        Position::After(bytes) => (bytes, true),
    }
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(bytes.len()).expect("no key is longer than an index takes");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

impl<'a> Lock<'a> {
    fn write(&self, out: &mut Vec<u8>) {
        let mut begin = |kind, position: u32| {
            out.push(kind);
            out.extend_from_slice(&position.to_le_bytes());
        };
        let mode = match *self {
            Self::Table { table, mode } => {
                begin(TABLE, table);
                mode
            }
            Self::Row { table, row, mode } => {
                begin(ROW, table);
                out.extend_from_slice(&row.to_le_bytes());
                mode
            }
            Self::Key { index, key, mode } => {
                begin(KEY, index);
                put_bytes(key, out);
                mode
            }
            Self::Range { index, lower, upper } => {
                begin(RANGE, index);
                for (bytes, is_after) in [edge(lower), edge(upper)] {
                    out.push(is_after.into());
                    put_bytes(bytes, out);
                }
                Mode::Read
            }
        };
        out.push(mode.bits());
    }

    fn read(from: &mut Source<'a>) -> Option<Self> {
        let [kind] = from.array()?;
        let position = from.short()?;
        let lock = |mode, row, key, (lower, upper)| match kind {
            TABLE => Some(Self::Table { table: position, mode }),
            ROW => Some(Self::Row { table: position, row, mode }),
            KEY => Some(Self::Key { index: position, key, mode }),
            _ if mode == Mode::Read => Some(Self::Range { index: position, lower, upper }),
            _ => None,
        };
        let (mut row, mut key) = (0, &[][..]);
        let mut edges = (Position::Before(key), Position::After(key));
        match kind {
            TABLE => {}
            ROW => row = from.short()?,
            KEY => key = key_bytes(from)?,
            RANGE => edges = (read_edge(from)?, read_edge(from)?),
            _ => return None,
        }
        let [bits] = from.array()?;
        lock(Mode::of_bits(bits)?, row, key, edges)
    }

    /// Whether the schema has what is locked.
    fn is_of(&self, schema: &Schema) -> bool {
        match *self {
            Self::Table { table, .. } | Self::Row { table, .. } => {
                schema.tables.get(table as usize).is_some_and(|table| !table.is_dropped())
            }
            Self::Key { index, .. } | Self::Range { index, .. } => {
                schema.index_at(index as usize).is_some()
            }
        }
    }
}

fn key_bytes<'a>(from: &mut Source<'a>) -> Option<&'a [u8]> {
    let length = from.array().map(u16::from_le_bytes)?.into();
    if length > KEY_BYTES_MAX { None } else { from.take(length) }
}

fn read_edge<'a>(from: &mut Source<'a>) -> Option<Position<'a>> {
    let [is_after] = from.array()?;
    let bytes = key_bytes(from)?;
    match is_after {
        0 => Some(Position::Before(bytes)),
        1 => Some(Position::After(bytes)),
        _ => None,
    }
}

/// Rows that a part locks one by one before it locks a table as a whole.
const ROWS_MAX: usize = 1_000;

/// Locks in the order in which they were noted, some of them repeatedly.
#[derive(Debug, Default)]
pub(super) struct Noted {
    bytes: Vec<u8>,
    /// Where the newest lock begins.
    last: usize,
    /// The tables that are read as a whole, whose rows need no locks.
    whole: Vec<u32>,
    /// Rows noted since the last table.
    rows: usize,
}

impl Noted {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.whole.clear();
        (self.last, self.rows) = (0, 0);
    }

    /// Whether so many rows are noted that a table is better locked as a whole.
    pub(super) fn has_many_rows(&self) -> bool {
        self.rows >= ROWS_MAX
    }

    pub(super) fn note(&mut self, lock: &Lock<'_>) {
        match *lock {
            Lock::Row { table, mode: Mode::Read, .. } if self.whole.contains(&table) => return,
            Lock::Table { table, mode: Mode::Read } if !self.whole.contains(&table) => {
                self.whole.push(table);
                self.rows = 0;
            }
            _ => {}
        }
        let at = self.bytes.len();
        lock.write(&mut self.bytes);
        // A row is read several times in turn.
        if self.bytes[self.last..at] == self.bytes[at..] {
            self.bytes.truncate(at);
        } else {
            self.last = at;
            self.rows += usize::from(matches!(lock, Lock::Row { .. }));
        }
    }

    /// The locks, each once, without the rows of tables that are read as a whole, and without `left_out`.
    pub(super) fn locks(&self, left_out: impl Fn(&Lock<'_>) -> bool) -> LockSet {
        let is_needless = |lock: &Lock<'_>| match lock {
            Lock::Row { table, mode: Mode::Read, .. } => self.whole.contains(table),
            _ => false,
        };
        let all = Each::of(&self.bytes);
        let needed = all.filter(|(_, lock)| !is_needless(lock) && !left_out(lock));
        let mut records = Vec::with_capacity(self.bytes.len() / LOCK_BYTES);
        // The first bytes are the whole of most locks.
        records.extend(needed.map(|(bytes, _)| (leading(bytes, 0), bytes)));
        records.sort_unstable();
        let mut bytes = sealed::open_new(self.bytes.len());
        let mut before: &[u8] = &[];
        for (_, record) in records {
            let (mode, thing) = record.split_last().expect("a lock ends with its mode");
            if !before.is_empty() && *thing == before[..before.len() - 1] {
                // All bits of both.
                *bytes.last_mut().expect("the same lock was written") |= mode;
            } else {
                bytes.extend_from_slice(record);
            }
            before = record;
        }
        sealed::close(&mut bytes, MARK);
        LockSet { bytes }
    }
}

/// The locks that one part holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSet {
    bytes: Vec<u8>,
}

impl LockSet {
    /// The locks as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The locks in `bytes`, if they are locks of a store with this schema.
    pub fn from_bytes(bytes: &[u8], schema: &Schema) -> Option<Self> {
        let mut from = Source(sealed::content(bytes, MARK)?);
        while !from.0.is_empty() {
            if !Lock::read(&mut from)?.is_of(schema) {
                return None;
            }
        }
        Some(Self { bytes: bytes.to_vec() })
    }

    /// The locks.
    pub fn iter(&self) -> impl Iterator<Item = Lock<'_>> {
        self.iter_placed().map(|(_, lock)| lock)
    }

    /// The locks, each with the place where it begins.
    pub(super) fn iter_placed(&self) -> impl Iterator<Item = (u32, Lock<'_>)> {
        let mut start = sealed::HEAD_BYTES;
        Each::of(&self.bytes[start..]).map(move |(bytes, lock)| {
            let own = start as u32;
            start += bytes.len();
            (own, lock)
        })
    }

    /// The lock that begins at a place.
    pub(super) fn at(&self, start: u32) -> Lock<'_> {
        let lock = Lock::read(&mut Source(&self.bytes[start as usize..]));
        lock.expect("a lock begins there")
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == sealed::HEAD_BYTES
    }
}

/// Each lock with its bytes.
struct Each<'a>(Source<'a>);

impl<'a> Each<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self(Source(bytes))
    }
}

impl<'a> Iterator for Each<'a> {
    type Item = (&'a [u8], Lock<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let before = self.0.0;
        if before.is_empty() {
            return None;
        }
        let lock = Lock::read(&mut self.0).expect("what was written or verified is a lock");
        Some((&before[..before.len() - self.0.0.len()], lock))
    }
}
