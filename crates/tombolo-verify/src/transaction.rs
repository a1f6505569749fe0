//! One transaction with its operations and their results: one line of a history.
//!
//! These are plain values with the names of the file's fields. Not here: whether they are consistent
//! (`history.rs`), whether they can have happened (`facts.rs`).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// A key, a value's identity or a session: a whole number, a text, or several of these for a compound key.
///
/// In the order of keys, numbers come before texts and texts before lists, each in their own order; ranges use it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Datum {
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(String),
    /// The parts of a compound key.
    List(Vec<Datum>),
}

impl From<i64> for Datum {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<&str> for Datum {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::List(parts) => {
                f.write_str("(")?;
                for (i, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
        }
    }
}

/// How a transaction ended, as far as its session knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its commit was confirmed.
    #[default]
    Committed,
    /// It was rolled back.
    Aborted,
    /// No answer arrived: it counts as committed if a committed transaction saw its writes.
    Unknown,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// A key was looked up.
    Read {
        /// The table.
        table: String,
        /// The key.
        key: Datum,
        /// The value seen; `null` if there was none.
        #[serde(deserialize_with = "must_stand")]
        value: Option<Datum>,
    },
    /// A key got a value that no other write gives it.
    Write {
        /// The table.
        table: String,
        /// The key.
        key: Datum,
        /// The value's identity.
        value: Datum,
        /// The replaced value, if the session knows it; `null` if there was none.
        #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
        over: Option<Option<Datum>>,
    },
    /// A key was removed. Removing an absent key is a read of none.
    Delete {
        /// The table.
        table: String,
        /// The key.
        key: Datum,
        /// The removed value, if the session knows it.
        #[serde(default, deserialize_with = "known", skip_serializing_if = "Option::is_none")]
        over: Option<Option<Datum>>,
    },
    /// All keys of a range were read.
    Scan {
        /// The table.
        table: String,
        /// The first key of the range; by default the table's first one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lo: Option<Datum>,
        /// The last key of the range (inclusive); by default the table's last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hi: Option<Datum>,
        /// Each key that was seen, with its value.
        rows: Vec<(Datum, Datum)>,
    },
}

impl Operation {
    /// A look-up.
    pub fn read(table: &str, key: impl Into<Datum>, value: Option<Datum>) -> Self {
        Self::Read { table: table.to_owned(), key: key.into(), value }
    }

    /// A write whose replaced value is unknown.
    pub fn write(table: &str, key: impl Into<Datum>, value: impl Into<Datum>) -> Self {
        let (table, key, value) = (table.to_owned(), key.into(), value.into());
        Self::Write { table, key, value, over: None }
    }

    /// A removal whose removed value is unknown.
    pub fn delete(table: &str, key: impl Into<Datum>) -> Self {
        Self::Delete { table: table.to_owned(), key: key.into(), over: None }
    }

    /// A scan of the range from `lo` to `hi`, both included.
    pub fn scan(
        table: &str,
        lo: impl Into<Datum>,
        hi: impl Into<Datum>,
        rows: Vec<(Datum, Datum)>,
    ) -> Self {
        let (lo, hi) = (Some(lo.into()), Some(hi.into()));
        Self::Scan { table: table.to_owned(), lo, hi, rows }
    }

    /// The same, with the replaced or removed value.
    #[must_use]
    pub fn over(mut self, replaced: Option<Datum>) -> Self {
        if let Self::Write { over, .. } | Self::Delete { over, .. } = &mut self {
            *over = Some(replaced);
        }
        self
    }
}

/// One transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// The session, thread or client that ran it.
    pub session: Datum,
    /// The time of its request, in nanoseconds of a clock that all sessions share.
    pub begin: u64,
    /// The time of its answer; for an unknown outcome, the time at which the session gave up.
    pub end: u64,
    /// How it ended.
    #[serde(default)]
    pub outcome: Outcome,
    /// Its position in the order of commits, if the engine reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<u64>,
    /// The program's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its operations, in order.
    pub ops: Vec<Operation>,
}

impl Transaction {
    /// A committed transaction of `session` that took from `begin` to `end`.
    pub fn committed(session: impl Into<Datum>, begin: u64, end: u64, ops: Vec<Operation>) -> Self {
        let outcome = Outcome::Committed;
        Self { session: session.into(), begin, end, outcome, commit: None, name: None, ops }
    }
}

/// A field that may be null, but must be present.
fn must_stand<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Datum>, D::Error> {
    Option::deserialize(deserializer)
}

/// A field that may be missing, which differs from null.
fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Datum>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
