//! Entries of a command log, packed tightly.
//!
//! A group's records are entries, one behind the other. An entry begins with one word of four bytes:
//!
//! | bits | values | command | procedure |
//! |---|---|---|---|
//! | 30–31 | 0 | 1 | 2 |
//! | 20–29 | 0–29: bytes that follow, at least 1 | the procedure's number | the procedure's number |
//! | 0–19 | | bytes that follow | bytes that follow |
//!
//! *Values* are a transaction of a value log, its records behind its length, byte for byte: loaded
//! rows and created tables. A *command* is followed by its arguments, which its procedure alone
//! understands. A *procedure* gives a number its meaning from there on: four bytes of version, then
//! the name in UTF-8. All numbers are little-endian.
//!
//! Not here: groups, files, whether a name is known.

use crate::value_log::record::LENGTH_BYTES;
use crate::value_log::{Malformed, Records};

/// The most bytes a command's arguments take.
pub const ARGUMENTS_BYTES_MAX: usize = (1 << NUMBER_SHIFT) - 1;

/// How many procedures, each of its versions counted, a log can number.
pub const PROCEDURES_MAX: usize = 1 << (KIND_SHIFT - NUMBER_SHIFT);

/// The longest name of a procedure, in bytes.
pub const PROCEDURE_NAME_BYTES_MAX: usize = 255;

/// The most bytes the records of a transaction of values take.
pub(crate) const VALUES_BYTES_MAX: usize = (1 << KIND_SHIFT) - 1;

const NUMBER_SHIFT: u32 = 20;
const KIND_SHIFT: u32 = 30;
const VALUES: u32 = 0;
const COMMAND: u32 = 1;
const PROCEDURE: u32 = 2;
const VERSION_BYTES: usize = 4;

/// A procedure's number in one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcedureNumber(u16);

impl ProcedureNumber {
    /// The number `n`, if it is below [`PROCEDURES_MAX`].
    pub const fn new(n: usize) -> Option<Self> {
        if n < PROCEDURES_MAX { Some(Self(n as u16)) } else { None }
    }

    /// As an index.
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    /// The word of a command of this procedure, without its length.
    #[inline(always)]
    pub(super) const fn command_word(self) -> u32 {
        COMMAND << KIND_SHIFT | (self.0 as u32) << NUMBER_SHIFT
    }

    /// The word of this procedure's definition, without its length.
    pub(super) const fn procedure_word(self) -> u32 {
        PROCEDURE << KIND_SHIFT | (self.0 as u32) << NUMBER_SHIFT
    }
}

/// The bytes behind the word of a procedure's definition.
pub(super) fn procedure_bytes(version: u32, name: &str) -> Vec<u8> {
    [&version.to_le_bytes(), name.as_bytes()].concat()
}

/// One entry, as it is replayed.
#[derive(Clone, Debug)]
pub enum Entry<'a> {
    /// What a transaction changed, or a table that was made.
    Values(Records<'a>),
    /// A procedure was called, wrote and committed.
    Command {
        /// Which one.
        procedure: ProcedureNumber,
        /// With which arguments.
        arguments: &'a [u8],
    },
    /// The procedure that a number stands for from here on.
    Procedure {
        /// The number.
        number: ProcedureNumber,
        /// The procedure's version.
        version: u32,
        /// Its name.
        name: &'a str,
    },
}

/// The entries of a buffer or a group.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Entries<'a> {
    /// Those in `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, at: 0 }
    }

    #[inline]
    fn decode(&self) -> Option<(Entry<'a>, &'a [u8])> {
        let (word, rest) = self.rest.split_first_chunk::<LENGTH_BYTES>()?;
        let word = u32::from_le_bytes(*word);
        let number = ProcedureNumber((word >> NUMBER_SHIFT) as u16 % PROCEDURES_MAX as u16);
        let length = word as usize % (ARGUMENTS_BYTES_MAX + 1);
        match word >> KIND_SHIFT {
            VALUES => {
                let (records, rest) = rest.split_at_checked(word as usize)?;
                let records = Records::new(records, self.at + LENGTH_BYTES);
                (word > 0).then_some((Entry::Values(records), rest))
            }
            COMMAND => {
                let (arguments, rest) = rest.split_at_checked(length)?;
                Some((Entry::Command { procedure: number, arguments }, rest))
            }
            PROCEDURE => {
                let (bytes, rest) = rest.split_at_checked(length)?;
                let (version, name) = bytes.split_first_chunk::<VERSION_BYTES>()?;
                let name = std::str::from_utf8(name).ok()?;
                let is_name = !name.is_empty() && name.len() <= PROCEDURE_NAME_BYTES_MAX;
                let version = u32::from_le_bytes(*version);
                is_name.then_some((Entry::Procedure { number, version, name }, rest))
            }
            _ => None,
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((entry, rest)) = self.decode() else {
            self.rest = &[];
            return Some(Err(Malformed { at: self.at }));
        };
        self.at += self.rest.len() - rest.len();
        self.rest = rest;
        Some(Ok(entry))
    }
}
