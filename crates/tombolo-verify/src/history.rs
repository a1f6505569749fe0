//! A history: the transactions to be judged, with numbers instead of names.
//!
//! Every table, key and value gets a number when it is first seen, so that ten million operations fit into
//! memory and compare in one instruction. Contradictory input is refused here ([`Refused`]). Not here: whether the
//! transactions can have happened.

use std::fmt;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::transaction::{Datum, Operation, Outcome, Transaction};

/// A table's key, as a number.
pub(crate) type KeyId = u32;
/// A value's identity, as a number.
pub(crate) type ValueId = u32;
/// A transaction, as its place in the history.
pub(crate) type TxnId = u32;

/// An operation in numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Read {
        key: KeyId,
        seen: Option<ValueId>,
    },
    /// A write, or a removal if there is no `value`.
    Write {
        key: KeyId,
        value: Option<ValueId>,
        over: Option<Option<ValueId>>,
    },
    /// A scan, as its place in the list of scans.
    Scan(u32),
}

/// A range that was read.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) table: u32,
    pub(crate) lo: Option<Datum>,
    pub(crate) hi: Option<Datum>,
    pub(crate) rows: Vec<(KeyId, ValueId)>,
}

/// The fields of a transaction except its operations.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// The line of the file, or its number from 1.
    pub(crate) line: u64,
    pub(crate) session: u32,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) outcome: Outcome,
    pub(crate) commit: Option<u64>,
    pub(crate) name: Option<Box<str>>,
    /// The beginning of its operations in the list of all; they end where the next transaction's begin.
    first_op: usize,
}

/// Names, numbered in the order of their first occurrence.
#[derive(Clone, Debug)]
pub(crate) struct Names<T> {
    numbers: HashMap<T, u32, FixedState>,
    names: Vec<T>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        let numbers = HashMap::with_hasher(FixedState::with_seed(0));
        Self { numbers, names: Vec::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Names<T> {
    fn number(&mut self, name: &T) -> u32 {
        if let Some(&known) = self.numbers.get(name) {
            return known;
        }
        let number = u32::try_from(self.names.len()).expect("fewer than 2^32 names");
        self.numbers.insert(name.clone(), number);
        self.names.push(name.clone());
        number
    }

    pub(crate) fn name(&self, number: u32) -> &T {
        &self.names[number as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

/// A recorded history.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub(crate) heads: Vec<Head>,
    ops: Vec<Op>,
    pub(crate) scans: Vec<Scan>,
    pub(crate) tables: Names<String>,
    pub(crate) keys: Names<(u32, Datum)>,
    pub(crate) values: Names<Datum>,
    pub(crate) sessions: Names<Datum>,
    /// The transaction that wrote a value to a key.
    pub(crate) writers: HashMap<(KeyId, ValueId), TxnId, FixedState>,
    commits: HashMap<u64, TxnId, FixedState>,
}

/// The reason that a transaction is not accepted into a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The field of the line.
    pub field: &'static str,
    /// The error, with a remedy.
    pub what: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field {}: {}", self.field, self.what)
    }
}

impl std::error::Error for Refused {}

fn refused<T>(field: &'static str, what: String) -> Result<T, Refused> {
    Err(Refused { field, what })
}

impl History {
    /// A history without transactions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The history of these transactions.
    ///
    /// # Errors
    /// If one of them contradicts itself or another.
    pub fn of<'t>(
        transactions: impl IntoIterator<Item = &'t Transaction>,
    ) -> Result<Self, Refused> {
        let mut history = Self::new();
        for transaction in transactions {
            history.push(transaction)?;
        }
        Ok(history)
    }

    /// The number of its transactions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The number of their operations.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.ops.len()
    }

    /// Adds a transaction; they may come in any order.
    ///
    /// # Errors
    /// If it contradicts itself or another; the history cannot be used then.
    pub fn push(&mut self, transaction: &Transaction) -> Result<(), Refused> {
        let line = self.heads.len() as u64 + 1;
        self.push_line(line, transaction)
    }

    pub(crate) fn push_line(&mut self, line: u64, given: &Transaction) -> Result<(), Refused> {
        let txn = TxnId::try_from(self.heads.len()).expect("fewer than 2^32 transactions");
        if given.end < given.begin {
            return refused("end", format!("{} is before begin, {}", given.end, given.begin));
        }
        if let Some(commit) = given.commit.filter(|_| given.outcome == Outcome::Committed)
            && let Some(other) = self.commits.insert(commit, txn)
        {
            let other = self.heads[other as usize].line;
            return refused("commit", format!("{commit} is the position of line {other} too"));
        }
        self.heads.push(Head {
            line,
            session: self.sessions.number(&given.session),
            begin: given.begin,
            end: given.end,
            outcome: given.outcome,
            commit: given.commit,
            name: given.name.as_deref().map(Box::from),
            first_op: self.ops.len(),
        });
        given.ops.iter().try_for_each(|operation| self.push_operation(txn, operation))
    }

    fn push_operation(&mut self, txn: TxnId, operation: &Operation) -> Result<(), Refused> {
        let op = match operation {
            Operation::Read { table, key, value } => {
                let key = self.key(table, key);
                Op::Read { key, seen: value.as_ref().map(|value| self.values.number(value)) }
            }
            Operation::Write { table, key, value, over } => {
                let key = self.key(table, key);
                let number = self.values.number(value);
                if let Some(other) = self.writers.insert((key, number), txn) {
                    let line = self.heads[other as usize].line;
                    let what = format!(
                        "{value} is written to key {} on line {line} too: give each write of a key another value",
                        self.key_text(key)
                    );
                    return refused("value", what);
                }
                Op::Write { key, value: Some(number), over: self.over(over.as_ref()) }
            }
            Operation::Delete { table, key, over } => {
                let key = self.key(table, key);
                Op::Write { key, value: None, over: self.over(over.as_ref()) }
            }
            Operation::Scan { table, lo, hi, rows } => {
                for (key, _) in rows {
                    if lo.as_ref().is_some_and(|lo| key < lo)
                        || hi.as_ref().is_some_and(|hi| key > hi)
                    {
                        return refused("rows", format!("key {key} is outside the scan's range"));
                    }
                }
                let number = self.tables.number(table);
                let numbered = rows.iter();
                let numbered = numbered
                    .map(|(key, value)| (self.key(table, key), self.values.number(value)))
                    .collect();
                let (lo, hi) = (lo.clone(), hi.clone());
                self.scans.push(Scan { table: number, lo, hi, rows: numbered });
                Op::Scan(u32::try_from(self.scans.len() - 1).expect("fewer than 2^32 scans"))
            }
        };
        self.ops.push(op);
        Ok(())
    }

    fn key(&mut self, table: &String, key: &Datum) -> KeyId {
        let table = self.tables.number(table);
        self.keys.number(&(table, key.clone()))
    }

    fn over(&mut self, over: Option<&Option<Datum>>) -> Option<Option<ValueId>> {
        over.map(|seen| seen.as_ref().map(|value| self.values.number(value)))
    }

    /// A transaction's operations.
    pub(crate) fn ops_of(&self, txn: TxnId) -> &[Op] {
        let next = self.heads.get(txn as usize + 1).map_or(self.ops.len(), |head| head.first_op);
        &self.ops[self.heads[txn as usize].first_op..next]
    }

    pub(crate) fn head(&self, txn: TxnId) -> &Head {
        &self.heads[txn as usize]
    }

    /// All transactions.
    pub(crate) fn txns(&self) -> std::ops::Range<TxnId> {
        0..u32::try_from(self.heads.len()).expect("fewer than 2^32 transactions")
    }

    /// A key as people read it: `account 7`.
    pub(crate) fn key_text(&self, key: KeyId) -> String {
        let (table, key) = self.keys.name(key);
        format!("{} {key}", self.tables.name(*table))
    }

    /// A value as people read it.
    pub(crate) fn value_text(&self, value: Option<ValueId>) -> String {
        value.map_or_else(|| "none".to_owned(), |value| self.values.name(value).to_string())
    }
}
