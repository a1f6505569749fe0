//! Rows with a key of every kind, steps of transactions on them, and the same steps on a trivial map.
//!
//! A step does the same to any store and to the map, and says what it saw. So a transaction is right in a place of
//! an order if the map, at that place, lets it see the same.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::random::Random;
use tombolo_storage::error::{Error, Result};
use tombolo_storage::key::Range;
use tombolo_storage::row::{Fields, RowId};
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::{Index, Order, Store, Table, resolve_index, resolve_table};

tombolo_storage::table! {
    /// A row with unique keys in trees and hash tables, packed and as bytes, and one that rows share.
    pub(crate) struct Item = "item" {
        ID: Integer;
        CODE: Varchar<40>;
        NUMBER: Integer;
        NAME: Varchar<40>;
        KIND: Integer;
        VALUE: BigInt => hot;
        NOTE: Text;
    }
}
tombolo_storage::index! { pub(crate) struct ById = "item_id" on Item (ID: Integer) unique Tree; }
tombolo_storage::index! { pub(crate) struct ByCode = "item_code" on Item (CODE: Varchar<40>) unique Tree; }
tombolo_storage::index! { pub(crate) struct ByNumber = "item_number" on Item (NUMBER: Integer) unique Hash; }
tombolo_storage::index! { pub(crate) struct ByName = "item_name" on Item (NAME: Varchar<40>) unique Hash; }
tombolo_storage::index! { pub(crate) struct ByKind = "item_kind" on Item (KIND: Integer) multiple Tree; }

pub(crate) fn item_table() -> TableDef {
    TableDef::of::<Item>()
        .with::<ById>()
        .with::<ByCode>()
        .with::<ByNumber>()
        .with::<ByName>()
        .with::<ByKind>()
}

/// A row; its texts are made of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Values {
    pub(crate) id: i32,
    pub(crate) code: i32,
    pub(crate) number: i32,
    pub(crate) name: i32,
    pub(crate) kind: i32,
    pub(crate) value: i64,
    /// Length of the note, which is made of the value.
    pub(crate) note: usize,
}

/// A key below 24 as text: the first sixteen bytes are those of all, and one is the beginning of the next.
pub(crate) fn text(number: i32) -> String {
    format!("a long beginning {}", "1".repeat(number as usize))
}

pub(crate) fn note(value: i64, len: usize) -> Vec<u8> {
    vec![b'a' + (value % 26) as u8; len]
}

/// One step of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Read(Key),
    ReadMany(Vec<i32>),
    /// Reads at most so many rows of a range of ids, or of codes.
    Scan {
        by_code: bool,
        first: i32,
        last: i32,
        order: Order,
        rows_max: usize,
    },
    Kind(i32),
    HasKind(i32),
    All,
    Insert(Values),
    Delete(i32),
    Update {
        id: i32,
        value: i64,
        note: Option<usize>,
    },
    /// Gives a row other keys and another kind.
    Rekey {
        id: i32,
        code: i32,
        number: i32,
        kind: i32,
    },
    /// Gives the keys of one row to a new one.
    Replace {
        id: i32,
        value: i64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Key {
    Id(i32),
    Code(i32),
    Number(i32),
    Name(i32),
}

/// What a step saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Rows(Vec<Values>),
    IsThere(bool),
    /// Whether it was done.
    Done(bool),
}

impl Step {
    /// A step about one of `keys` keys of each kind; `value` is written by no other.
    pub(crate) fn random(random: &mut Random, keys: u64, value: i64) -> Self {
        let mut key = || random.below(keys) as i32;
        let (id, code, number, name) = (key(), key(), key(), key());
        let (kind, value) = (id % 5, value);
        let length = [0, 3, 40, 3_000][random.below(4) as usize];
        match random.below(24) {
            0..=2 => Self::Read(Key::Id(id)),
            3 => Self::Read(Key::Code(code)),
            4 => Self::Read(Key::Number(number)),
            5 => Self::Read(Key::Name(name)),
            6 => Self::ReadMany(vec![id, code, number]),
            7..=10 => {
                let order = [Order::Forward, Order::Backward][random.below(2) as usize];
                let (by_code, rows_max) = (random.below(2) == 0, 1 + random.below(4) as usize);
                let last = (id + random.below(6) as i32).min(keys as i32);
                Self::Scan { by_code, first: id, last, order, rows_max }
            }
            11 => Self::Kind(kind),
            12 => Self::HasKind(kind),
            13 if random.below(6) == 0 => Self::All,
            13..=16 => Self::Insert(Values { id, code, number, name, kind, value, note: length }),
            17 | 18 => Self::Delete(id),
            19 => Self::Rekey { id, code, number, kind: code % 5 },
            20 => Self::Replace { id, value },
            _ => {
                let note = (random.below(2) == 0).then_some(length);
                Self::Update { id, value, note }
            }
        }
    }
}

/// The rows as a trivial map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) rows: BTreeMap<i32, Values>,
}

impl Model {
    fn find(&self, key: Key) -> Option<Values> {
        let has = |row: &&Values| match key {
            Key::Id(id) => row.id == id,
            Key::Code(code) => text(row.code) == text(code),
            Key::Number(number) => row.number == number,
            Key::Name(name) => text(row.name) == text(name),
        };
        self.rows.values().find(has).copied()
    }

    fn insert(&mut self, row: Values) -> bool {
        let keys =
            [Key::Id(row.id), Key::Code(row.code), Key::Number(row.number), Key::Name(row.name)];
        let is_free = keys.iter().all(|key| self.find(*key).is_none());
        if is_free {
            self.rows.insert(row.id, row);
        }
        is_free
    }

    pub(crate) fn step(&mut self, step: &Step) -> Seen {
        let of_kind = |rows: &BTreeMap<i32, Values>, kind| {
            rows.values().filter(|row| row.kind == kind).copied().collect::<Vec<_>>()
        };
        match *step {
            Step::Read(key) => Seen::Rows(self.find(key).into_iter().collect()),
            Step::ReadMany(ref ids) => {
                Seen::Rows(ids.iter().filter_map(|&id| self.find(Key::Id(id))).collect())
            }
            Step::Scan { by_code, first, last, order, rows_max } => {
                let mut rows: Vec<_> = self.rows.values().copied().collect();
                if by_code {
                    rows.sort_by_key(|row| text(row.code));
                    let (first, last) = (text(first), text(last));
                    rows.retain(|row| (first.clone()..=last.clone()).contains(&text(row.code)));
                } else {
                    rows.retain(|row| (first..=last).contains(&row.id));
                }
                if order == Order::Backward {
                    rows.reverse();
                }
                rows.truncate(rows_max);
                Seen::Rows(rows)
            }
            Step::Kind(kind) => Seen::Rows(of_kind(&self.rows, kind)),
            Step::HasKind(kind) => Seen::IsThere(!of_kind(&self.rows, kind).is_empty()),
            Step::All => Seen::Rows(self.rows.values().copied().collect()),
            Step::Insert(row) => Seen::Done(self.insert(row)),
            Step::Delete(id) => Seen::Done(self.rows.remove(&id).is_some()),
            Step::Update { id, value, note } => {
                let row = self.rows.get_mut(&id);
                Seen::Done(row.is_some_and(|row| {
                    // The note is made of the value only where it is written with it.
                    (row.value, row.note) = (value, note.unwrap_or(0));
                    true
                }))
            }
            Step::Rekey { id, code, number, kind } => {
                let are_free = self.find(Key::Code(code)).is_none()
                    && self.find(Key::Number(number)).is_none();
                let row = self.rows.get_mut(&id).filter(|_| are_free);
                Seen::Done(row.is_some_and(|row| {
                    (row.code, row.number, row.kind) = (code, number, kind);
                    true
                }))
            }
            Step::Replace { id, value } => {
                let row = self.rows.get_mut(&id);
                Seen::Done(row.map(|row| row.value = value).is_some())
            }
        }
    }
}

/// The handles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Items {
    pub(crate) table: Table<Item>,
    pub(crate) by_id: Index<ById>,
    pub(crate) by_code: Index<ByCode>,
    by_number: Index<ByNumber>,
    by_name: Index<ByName>,
    pub(crate) by_kind: Index<ByKind>,
}

impl Items {
    pub(crate) fn of(schema: &Schema) -> Self {
        Self {
            table: resolve_table(schema).unwrap(),
            by_id: resolve_index(schema).unwrap(),
            by_code: resolve_index(schema).unwrap(),
            by_number: resolve_index(schema).unwrap(),
            by_name: resolve_index(schema).unwrap(),
            by_kind: resolve_index(schema).unwrap(),
        }
    }

    fn find<S: Store>(&self, store: &mut S, key: Key) -> Result<Option<RowId>> {
        match key {
            Key::Id(id) => store.lookup(&self.by_id, id),
            Key::Code(code) => store.lookup(&self.by_code, text(code).as_bytes()),
            Key::Number(number) => store.lookup_for_update(&self.by_number, number),
            Key::Name(name) => store.lookup(&self.by_name, text(name).as_bytes()),
        }
    }

    /// A row. The numbers that its texts are made of are not stored; they follow from the lengths.
    pub(crate) fn read<S: Store>(&self, store: &S, row: RowId) -> Result<Values> {
        let row = store.pin(&self.table, row)?;
        let made_of = |bytes: &[u8]| (bytes.len() - text(0).len()) as i32;
        let (value, bytes) = (row.get(Item::VALUE), row.get(Item::NOTE));
        assert_eq!(bytes, note(value, bytes.len()), "a note is of its row's value");
        Ok(Values {
            id: row.get(Item::ID),
            code: made_of(row.get(Item::CODE)),
            number: row.get(Item::NUMBER),
            name: made_of(row.get(Item::NAME)),
            kind: row.get(Item::KIND),
            value,
            note: bytes.len(),
        })
    }

    fn read_all<S: Store>(&self, store: &S, rows: &[RowId]) -> Result<Vec<Values>> {
        rows.iter().map(|&row| self.read(store, row)).collect()
    }

    /// Inserts a row; a key that another row has takes everything back.
    pub(crate) fn insert<S: Store>(&self, store: &mut S, values: Values) -> Result<bool> {
        let (code, name) = (text(values.code), text(values.name));
        let row = store.create(&self.table, |row| {
            row.set(Item::ID, values.id);
            row.set(Item::CODE, code.as_bytes());
            row.set(Item::NUMBER, values.number);
            row.set(Item::NAME, name.as_bytes());
            row.set(Item::KIND, values.kind);
            row.set(Item::VALUE, values.value);
        })?;
        let note = note(values.value, values.note);
        store.set_variable(&self.table, row, Item::NOTE.offset(), &note)?;
        match self.enter(store, &values, row) {
            Ok(()) => Ok(true),
            Err(Error::Duplicate { .. }) => {
                self.leave(store, &values, row)?;
                store.delete(&self.table, row)?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn enter<S: Store>(&self, store: &mut S, values: &Values, row: RowId) -> Result<()> {
        store.insert_run(&self.by_id, &[row], |_| values.id)?;
        store.insert(&self.by_code, text(values.code).as_bytes(), row)?;
        store.insert(&self.by_number, values.number, row)?;
        store.insert(&self.by_name, text(values.name).as_bytes(), row)?;
        store.insert(&self.by_kind, values.kind, row)
    }

    /// Removes those entries of a row that there are.
    fn leave<S: Store>(&self, store: &mut S, values: &Values, row: RowId) -> Result<()> {
        store.remove(&self.by_id, values.id, row)?;
        store.remove(&self.by_code, text(values.code).as_bytes(), row)?;
        store.remove(&self.by_number, values.number, row)?;
        store.remove(&self.by_name, text(values.name).as_bytes(), row)?;
        store.remove(&self.by_kind, values.kind, row).map(|_| ())
    }

    pub(crate) fn step<S: Store>(&self, store: &mut S, step: &Step) -> Result<Seen> {
        let mut found = Vec::new();
        match *step {
            Step::Read(key) => found.extend(self.find(store, key)?),
            Step::ReadMany(ref ids) => {
                let mut rows = vec![None; ids.len()];
                store.lookup_many(&self.by_id, ids, &mut rows)?;
                found.extend(rows.into_iter().flatten());
            }
            Step::Scan { by_code, first, last, order, rows_max } => {
                let visit = |row| {
                    found.push(row);
                    match found.len() < rows_max {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                };
                if by_code {
                    let (first, last) = (text(first), text(last));
                    let range = Range::between(first.as_bytes(), last.as_bytes());
                    store.scan(&self.by_code, range, order, visit)?;
                } else {
                    store.scan(&self.by_id, Range::between(first, last), order, visit)?;
                }
            }
            Step::Kind(kind) => {
                let visit = |row| {
                    found.push(row);
                    ControlFlow::Continue(())
                };
                store.scan(&self.by_kind, Range::between(kind, kind), Order::Forward, visit)?;
            }
            Step::HasKind(kind) => {
                return Ok(Seen::IsThere(store.lookup(&self.by_kind, kind)?.is_some()));
            }
            Step::All => store.rows(&self.table, |row| {
                found.push(row);
                ControlFlow::Continue(())
            })?,
            _ => return self.write(store, step).map(Seen::Done),
        }
        let mut rows = self.read_all(store, &found)?;
        if matches!(step, Step::Kind(_) | Step::All) {
            rows.sort_unstable();
        }
        Ok(Seen::Rows(rows))
    }

    fn write<S: Store>(&self, store: &mut S, step: &Step) -> Result<bool> {
        let id = match *step {
            Step::Insert(values) => return self.insert(store, values),
            Step::Delete(id)
            | Step::Update { id, .. }
            | Step::Rekey { id, .. }
            | Step::Replace { id, .. } => id,
            _ => unreachable!("the others read"),
        };
        let Some(row) = self.find(store, Key::Id(id))? else { return Ok(false) };
        match *step {
            Step::Update { value, note: length, .. } => {
                let fields = Fields::none().with(Item::VALUE);
                store.update(&self.table, row, fields, |row| row.set(Item::VALUE, value))?;
                let note = note(value, length.unwrap_or(0));
                store.set_variable(&self.table, row, Item::NOTE.offset(), &note)?;
            }
            Step::Rekey { code, number, kind, .. } => {
                let before = self.read(store, row)?;
                let are_free = self.find(store, Key::Code(code))?.is_none()
                    && self.find(store, Key::Number(number))?.is_none();
                if !are_free {
                    return Ok(false);
                }
                self.leave(store, &before, row)?;
                let after = Values { code, number, kind, ..before };
                let code = text(code);
                let fields = Fields::none().with(Item::CODE).with(Item::NUMBER).with(Item::KIND);
                store.update(&self.table, row, fields, |row| {
                    row.set(Item::CODE, code.as_bytes());
                    row.set(Item::NUMBER, number);
                    row.set(Item::KIND, kind);
                })?;
                self.enter(store, &after, row)?;
            }
            _ => {
                let before = self.read(store, row)?;
                self.leave(store, &before, row)?;
                store.delete(&self.table, row)?;
                if let Step::Replace { value, .. } = *step {
                    return self.insert(store, Values { value, ..before });
                }
            }
        }
        Ok(true)
    }
}
