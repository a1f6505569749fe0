//! The model: rows as maps, every request in a few lines, nothing clever.
//!
//! It says what a store must answer and hold. The hash of all rows is kept up to date with every
//! change, so that the state after each of thousands of transactions can be distinguished from the others
//! without being kept. Not here: transactions, order, what is durable (`oracle/history.rs`).

use std::collections::BTreeMap;

use super::request::{
    ACCOUNTS, ITEMS_PER_GROUP, ItemKey, OPENING_BALANCE, Request, Text, Work, request_id,
};

/// Tables of the workload, without the one in which ids are remembered.
pub const TABLES: usize = 3;

/// Ids that are remembered: few, so that many are forgotten.
pub const REQUEST_IDS_MAX: u64 = 12;

/// The columns that are added to items, in their order.
pub const RATING: usize = 0;
/// The second of them.
pub const REMARK: usize = 1;

/// An account's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRow {
    /// What it holds.
    pub balance: i64,
    /// How often it was changed.
    pub changes: i32,
    /// Its note.
    pub note: Option<Vec<u8>>,
}

/// An item's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRow {
    /// Its name.
    pub name: u8,
    /// Its body.
    pub body: Vec<u8>,
    /// What is in the columns that are added.
    pub later: Later,
}

/// What of an item is in columns that are added: nothing, as long as they are not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Later {
    /// Its rating.
    pub rating: Option<i16>,
    /// A remark.
    pub remark: Vec<u8>,
}

/// How many additions there are that were made while transactions ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Additions {
    /// Indexes.
    pub indexes: usize,
    /// Columns.
    pub columns: usize,
}

/// All rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// How many of the tables there are.
    pub tables: usize,
    /// What was added.
    pub added: Additions,
    /// Accounts by number.
    pub accounts: BTreeMap<i32, AccountRow>,
    /// Items by group and number.
    pub items: BTreeMap<ItemKey, ItemRow>,
    /// The number of each client's last transaction that changed something.
    pub clients: BTreeMap<i32, i64>,
    /// Requests with an id that are remembered, in the order they ran.
    pub requests: BTreeMap<i64, Remembered>,
}

/// A request with an id that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Its id.
    pub id: u128,
    /// Whether it committed.
    pub has_committed: bool,
}

impl Remembered {
    /// The row of what is remembered under `position` as a number.
    pub fn number(&self, position: i64) -> u64 {
        let id = fold(fold(4, self.id as u64), (self.id >> 64) as u64);
        fold(fold(id, position as u64), u64::from(self.has_committed))
    }
}

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It committed; what it read as a number.
    Committed(u64),
    /// It aborted by itself.
    Aborted,
    /// It panicked.
    Panicked,
    /// A request with its id had run before, and this time nothing did; whether it committed then.
    Repeated(bool),
}

/// Adds a number to a hash. No small number makes the hash 0, because a row whose number is 0 counts as absent.
pub const fn fold(hash: u64, number: u64) -> u64 {
    let mixed = hash.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ (mixed >> 32) ^ number).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ (mixed >> 32)
}

/// Adds a string to a hash.
pub fn fold_bytes(hash: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(fold(hash, bytes.len() as u64), fold)
}

/// An account's row as a number.
pub fn account_number(id: i32, balance: i64, changes: i32, note: Option<&[u8]>) -> u64 {
    let hash = fold(fold(fold(1, id as u64), balance as u64), changes as u64);
    note.map_or(hash, |note| fold_bytes(fold(hash, 1), note))
}

/// An item's row as a number.
pub fn item_number(key: ItemKey, row: &ItemRow) -> u64 {
    let hash = fold(fold(fold(2, key.0 as u64), key.1 as u64), u64::from(row.name));
    let hash = fold_bytes(hash, &row.body);
    let Later { rating, remark } = &row.later;
    let hash = rating.map_or(hash, |rating| fold(fold(hash, 1), rating as u64));
    if remark.is_empty() { hash } else { fold_bytes(fold(hash, 2), remark) }
}

/// What became of a request with an id as an answer.
pub fn outcome_number(has_committed: Option<bool>) -> u64 {
    has_committed.map_or(0, |has_committed| 1 + u64::from(has_committed))
}

/// A client's row as a number.
pub fn client_number(client: i32, number: i64) -> u64 {
    fold(fold(3, client as u64), number as u64)
}

impl State {
    /// A number for all tables and rows, in any order; indexes are derived from them, and a
    /// column that was added holds nothing at first.
    pub fn hash(&self) -> u64 {
        fold(self.rows_number(), self.tables as u64)
    }

    /// The rows' numbers, combined into one.
    pub fn rows_number(&self) -> u64 {
        let accounts = self.accounts.iter().map(|(id, row)| row.number(*id));
        let items = self.items.iter().map(|(key, row)| item_number(*key, row));
        let clients = self.clients.iter().map(|(client, number)| client_number(*client, *number));
        let requests = self.requests.iter().map(|(position, row)| row.number(*position));
        accounts.chain(items).chain(clients).chain(requests).fold(0, |all, row| all ^ row)
    }

    /// The next table is made.
    pub fn create_table(&mut self) {
        self.tables += 1;
    }

    /// Does what `request` asks; returns its outcome and whether anything changed.
    pub fn apply(&mut self, request: &Request) -> (Outcome, bool) {
        let Some(id) = request.id() else { return self.run(request) };
        if let Some(has_committed) = self.outcome_of(id) {
            return (Outcome::Repeated(has_committed), false);
        }
        let outcome = match self.run(request).0 {
            Outcome::Panicked => Outcome::Aborted,
            outcome => outcome,
        };
        self.remember(Remembered { id, has_committed: outcome != Outcome::Aborted });
        (outcome, true)
    }

    /// Whether the request with this id committed, if it is remembered.
    pub fn outcome_of(&self, id: u128) -> Option<bool> {
        self.requests.values().find(|row| row.id == id).map(|row| row.has_committed)
    }

    fn remember(&mut self, row: Remembered) {
        let position = self.requests.last_key_value().map_or(0, |(newest, _)| newest + 1);
        self.requests.retain(|&at, _| position.abs_diff(at) < REQUEST_IDS_MAX);
        self.requests.insert(position, row);
    }

    fn run(&mut self, request: &Request) -> (Outcome, bool) {
        let outcome = self.work(&request.work);
        let wrote = matches!(outcome, Outcome::Committed(_)) && !request.work.only_reads();
        if wrote {
            self.clients.insert(request.client, request.number);
        }
        (outcome, wrote)
    }

    fn work(&mut self, work: &Work) -> Outcome {
        match work {
            Work::Open => self.open(),
            Work::Transfer { from, to, amount } => self.transfer(*from, *to, *amount),
            Work::Note { account, note } => {
                let Some(row) = self.accounts.get_mut(account) else { return Outcome::Aborted };
                row.note = note.map(|note| note.to_vec());
                row.changes += 1;
                Outcome::Committed(row.changes as u64)
            }
            Work::Insert { item, name, body } => {
                if self.items.contains_key(item) {
                    return Outcome::Aborted;
                }
                self.items.insert(*item, ItemRow::new(*name, body.to_vec()));
                Outcome::Committed(0)
            }
            Work::Change { item, name, body } => {
                let Some(row) = self.items.get_mut(item) else { return Outcome::Aborted };
                let before = u64::from(row.name);
                row.name = *name;
                if let Some(body) = body {
                    row.body = body.to_vec();
                }
                Outcome::Committed(before)
            }
            Work::Delete { item } => match self.items.remove(item) {
                Some(row) => Outcome::Committed(item_number(*item, &row)),
                None => Outcome::Aborted,
            },
            Work::Rate { item, rating } => {
                let Some(later) = self.later(*item, RATING) else { return Outcome::Aborted };
                let before = std::mem::replace(&mut later.rating, *rating);
                Outcome::Committed(before.unwrap_or_default() as u64)
            }
            Work::Remark { item, remark } => {
                let Some(later) = self.later(*item, REMARK) else { return Outcome::Aborted };
                let before = std::mem::replace(&mut later.remark, remark.to_vec());
                Outcome::Committed(before.len() as u64)
            }
            Work::Restock { group, items, account, to, body } => {
                let outcome = self.transfer(*account, *to, i64::from(*items));
                if outcome != Outcome::Aborted {
                    self.restock(*group, *items, *body);
                }
                outcome
            }
            Work::ReadAccount { account } => match self.accounts.get(account) {
                Some(row) => Outcome::Committed(row.number(*account)),
                None => Outcome::Aborted,
            },
            Work::ReadGroup { group } => {
                let rows = self.items.range((*group, 0)..(*group + 1, 0));
                let number = |(key, row): (&ItemKey, &ItemRow)| item_number(*key, row);
                Outcome::Committed(rows.map(number).fold(0, fold))
            }
            Work::Audit => {
                let sum: i64 = self.accounts.values().map(|row| row.balance).sum();
                Outcome::Committed(sum as u64)
            }
            Work::Outcome { client, number } => {
                Outcome::Committed(outcome_number(self.outcome_of(request_id(*client, *number))))
            }
            Work::Fail { panics: true, .. } => Outcome::Panicked,
            Work::Fail { panics: false, .. } => Outcome::Aborted,
        }
    }

    fn open(&mut self) -> Outcome {
        if !self.accounts.is_empty() {
            return Outcome::Aborted;
        }
        for id in 0..ACCOUNTS {
            let row = AccountRow { balance: OPENING_BALANCE, changes: 0, note: None };
            self.accounts.insert(id, row);
        }
        Outcome::Committed(0)
    }

    fn restock(&mut self, group: i16, items: i32, body: Text) {
        for number in 0..ITEMS_PER_GROUP {
            self.items.remove(&(group, number));
        }
        for number in 0..items {
            let row = ItemRow::new(number as u8, body.to_vec());
            self.items.insert((group, number), row);
        }
    }

    /// What is in an item's added columns, if the item is there and the column at `position` of them.
    fn later(&mut self, item: ItemKey, position: usize) -> Option<&mut Later> {
        let is_there = self.added.columns > position;
        self.items.get_mut(&item).filter(|_| is_there).map(|row| &mut row.later)
    }

    fn transfer(&mut self, from: i32, to: i32, amount: i64) -> Outcome {
        let has = |row: &AccountRow| row.balance >= amount;
        if !self.accounts.get(&from).is_some_and(has) || !self.accounts.contains_key(&to) {
            return Outcome::Aborted;
        }
        let mut left = 0;
        if let Some(row) = self.accounts.get_mut(&from) {
            row.balance -= amount;
            row.changes += 1;
            left = row.balance as u64;
        }
        if let Some(row) = self.accounts.get_mut(&to) {
            row.balance += amount;
            row.changes += 1;
        }
        Outcome::Committed(left)
    }

    /// The first row in which the two differ, in words; `None` if they are equal.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self.tables != other.tables {
            return Some(format!("{} tables instead of {}", self.tables, other.tables));
        }
        if self.added != other.added {
            return Some(format!("{:?} instead of {:?}", self.added, other.added));
        }
        first_difference("request", &self.requests, &other.requests)
            .or_else(|| first_difference("client", &self.clients, &other.clients))
            .or_else(|| first_difference("account", &self.accounts, &other.accounts))
            .or_else(|| first_difference("item", &self.items, &other.items))
    }
}

impl ItemRow {
    /// Of an item that is made.
    pub fn new(name: u8, body: Vec<u8>) -> Self {
        Self { name, body, later: Later::default() }
    }
}

impl AccountRow {
    fn number(&self, id: i32) -> u64 {
        account_number(id, self.balance, self.changes, self.note.as_deref())
    }
}

fn first_difference<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    what: &str,
    found: &BTreeMap<K, V>,
    expected: &BTreeMap<K, V>,
) -> Option<String> {
    let keys = found.keys().chain(expected.keys());
    let mut differing: Vec<&K> = keys.filter(|key| found.get(key) != expected.get(key)).collect();
    differing.sort();
    let key = differing.first()?;
    let show = |row: Option<&V>| {
        let text = row.map_or("none".to_string(), |row| format!("{row:?}"));
        text.chars().take(80).collect::<String>()
    };
    let (found, expected) = (show(found.get(key)), show(expected.get(key)));
    Some(format!("{what} {key:?} is {found} instead of {expected}"))
}
