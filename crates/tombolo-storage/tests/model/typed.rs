//! Declared tables against a map: runs of index entries, updates of named fields, look-ups in lock
//! step.
//!
//! Here the calls are those of a procedure, one for each row and index entry, so a refused entry
//! leaves a transaction half done: it has to be aborted, and everything is as before.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tombolo_storage::error::{Error, Result};
use tombolo_storage::key::Range;
use tombolo_storage::row::{Fields, RowId};
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::{Index, Order, Store, Table, resolve_index, resolve_table};

use super::random::Random;

tombolo_storage::table! {
    /// Lines of orders.
    struct Line = "line" {
        W: SmallInt [-1..=2];
        O: Integer [0..=50];
        N: SmallInt [1..=40];
        ITEM: Nullable<Integer>;
        NAME: Varchar<6>;
        QUANTITY: Decimal<4, 0> => hot;
        DELIVERED: Nullable<Timestamp> => hot;
    }
}
tombolo_storage::index! {
    struct Key = "line_pk" on Line (W: SmallInt, O: Integer, N: SmallInt) unique Tree;
}
tombolo_storage::index! {
    struct ByItem = "line_item" on Line (ITEM: Nullable<Integer>, W: SmallInt) multiple Tree;
}
tombolo_storage::index! {
    struct ByName = "line_name" on Line
        (NAME: Varchar<6>, W: SmallInt, O: Integer, N: SmallInt) unique Hash;
}
tombolo_storage::index! {
    struct ByNumber = "line_number" on Line (N: SmallInt, O: Integer, W: SmallInt) unique Hash;
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    key: (i16, i32, i16),
    item: Option<i32>,
    name: Vec<u8>,
    quantity: i64,
    delivered: Option<i64>,
}

impl Row {
    fn by_number(&self) -> (i16, i32, i16) {
        (self.key.2, self.key.1, self.key.0)
    }

    fn by_name(&self) -> (&[u8], i16, i32, i16) {
        (&self.name, self.key.0, self.key.1, self.key.2)
    }
}

/// A store of lines and its model.
pub(crate) struct Lines<S: Store> {
    store: S,
    table: Table<Line>,
    key: Index<Key>,
    by_item: Index<ByItem>,
    by_name: Index<ByName>,
    by_number: Index<ByNumber>,
    rows: BTreeMap<RowId, Row>,
    random: Random,
    /// Transactions the store refused a part of, for each reason.
    pub(crate) duplicates: usize,
    pub(crate) out_of_range: usize,
    pub(crate) committed: usize,
}

impl<S: Store> Lines<S> {
    pub(crate) fn new(seed: u64, mut store: S) -> Self {
        let def = TableDef::of::<Line>().with::<Key>().with::<ByItem>();
        store.create_table(def.with::<ByName>().with::<ByNumber>()).unwrap();
        Self {
            table: resolve_table(store.schema()).unwrap(),
            key: resolve_index(store.schema()).unwrap(),
            by_item: resolve_index(store.schema()).unwrap(),
            by_name: resolve_index(store.schema()).unwrap(),
            by_number: resolve_index(store.schema()).unwrap(),
            store,
            rows: BTreeMap::new(),
            random: Random::new(seed),
            duplicates: 0,
            out_of_range: 0,
            committed: 0,
        }
    }

    pub(crate) fn transactions(&mut self, transactions: usize) {
        for _ in 0..transactions {
            let before = self.rows.clone();
            self.store.begin().unwrap();
            self.read();
            self.store.begin_writes();
            let written = self.write();
            if written.is_err() || self.random.percent(20) {
                self.store.fail().unwrap();
                self.rows = before;
            } else {
                self.committed += 1;
                self.store.commit().unwrap();
            }
            match written {
                Ok(()) => {}
                Err(Error::Duplicate { index: 0 }) => self.duplicates += 1,
                Err(Error::OutOfRange { .. }) => self.out_of_range += 1,
                Err(error) => panic!("{error:?}"),
            }
            self.verify();
        }
    }

    fn write(&mut self) -> Result<()> {
        for _ in 0..self.random.below(4) {
            match self.random.below(4) {
                0 | 1 => self.insert_order()?,
                2 => self.update()?,
                _ => self.delete()?,
            }
        }
        Ok(())
    }

    /// Lines of one order, whose keys ascend; a few are there already or outside of their range.
    fn insert_order(&mut self) -> Result<()> {
        let (w, o) = (self.random.below(4) as i16 - 1, self.random.below(51) as i32);
        let first = 1 + self.random.below(20) as i16;
        let most = if self.random.percent(5) { 40 } else { 20 };
        let last = first + self.random.below(most) as i16;
        let (mut keys, mut ids, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for n in first..=last {
            let row = Row {
                key: (w, o, n),
                item: self.random.percent(80).then_some(self.random.below(7) as i32 - 3),
                name: self.random.pick(&["", "a", "ab", "a\0b", "abcdef"]).as_bytes().to_vec(),
                quantity: self.random.below(19_999) as i64 - 9_999,
                delivered: self.random.percent(30).then_some(self.random.next() as i64),
            };
            ids.push(self.store.create(&self.table, |line| {
                line.set(Line::W, row.key.0);
                line.set(Line::O, row.key.1);
                line.set(Line::N, row.key.2);
                line.set(Line::ITEM, row.item);
                line.set(Line::NAME, &row.name);
                line.set(Line::QUANTITY, row.quantity);
                line.set(Line::DELIVERED, row.delivered);
            })?);
            keys.push(row.key);
            rows.push(row);
        }
        let is_there = keys.iter().any(|key| self.rows.values().any(|row| row.key == *key));
        let inserted = self.store.insert_run(&self.key, &ids, |at| keys[at]);
        assert_eq!(inserted.is_err(), is_there || last > 40, "{keys:?}");
        inserted?;
        self.store.insert_run(&self.by_number, &ids, |at| rows[at].by_number())?;
        self.store.insert_run(&self.by_name, &ids, |at| rows[at].by_name())?;
        for (row, id) in rows.iter().zip(&ids) {
            self.store.insert(&self.by_item, (row.item, row.key.0), *id)?;
        }
        self.rows.extend(ids.into_iter().zip(rows));
        Ok(())
    }

    fn any_row(&mut self) -> Option<RowId> {
        let place = self.random.below(self.rows.len().max(1) as u64) as usize;
        self.rows.keys().nth(place).copied()
    }

    /// In place, and with an entry that moves.
    fn update(&mut self) -> Result<()> {
        const FIELDS: Fields<Line> = Fields::none().with(Line::QUANTITY).with(Line::DELIVERED);
        let Some(id) = self.any_row() else { return Ok(()) };
        let (mut row, old) = (self.rows[&id].clone(), self.rows[&id].clone());
        row.quantity = -row.quantity;
        row.delivered = self.random.percent(50).then_some(self.random.next() as i64);
        self.store.update(&self.table, id, FIELDS, |line| {
            assert_eq!(line.get(Line::DELIVERED), old.delivered);
            line.set(Line::QUANTITY, row.quantity);
            line.set(Line::DELIVERED, row.delivered);
        })?;
        if self.random.percent(30) {
            row.item = Some(self.random.below(7) as i32);
            let removed = self.store.remove(&self.by_item, (old.item, old.key.0), id);
            assert_eq!(removed, Ok(true));
            let fields = Fields::none().with(Line::ITEM);
            self.store.update(&self.table, id, fields, |line| line.set(Line::ITEM, row.item))?;
            self.store.insert(&self.by_item, (row.item, row.key.0), id)?;
        }
        self.rows.insert(id, row);
        Ok(())
    }

    fn delete(&mut self) -> Result<()> {
        for _ in 0..self.random.below(30) {
            let Some(id) = self.any_row() else { return Ok(()) };
            let row = self.rows.remove(&id).unwrap();
            assert_eq!(self.store.remove(&self.key, row.key, id), Ok(true));
            assert_eq!(self.store.remove(&self.key, row.key, id), Ok(false));
            assert_eq!(self.store.remove(&self.by_item, (row.item, row.key.0), id), Ok(true));
            assert_eq!(self.store.remove(&self.by_name, row.by_name(), id), Ok(true));
            assert_eq!(self.store.remove(&self.by_number, row.by_number(), id), Ok(true));
            self.store.delete(&self.table, id)?;
        }
        Ok(())
    }

    /// Look-ups in lock step, some of keys outside of their ranges, and scans of orders.
    fn read(&mut self) {
        let mut keys = Vec::new();
        for _ in 0..self.random.below(50) {
            let wild = (self.random.below(9) as i16 - 4, self.random.below(70) as i32 - 10, 50);
            let known = self.any_row().map_or(wild, |id| self.rows[&id].key);
            keys.push(if self.random.percent(5) { wild } else { known });
        }
        let mut found = vec![None; keys.len()];
        self.store.lookup_many(&self.key, &keys, &mut found).unwrap();
        let find = |key| self.rows.iter().find(|(_, row)| row.key == key).map(|(id, _)| *id);
        let expected: Vec<_> = keys.iter().map(|&key| find(key)).collect();
        assert_eq!(found, expected);
        let by_number: Vec<_> = keys.iter().map(|&(w, o, n)| (n, o, w)).collect();
        found.fill(None);
        self.store.lookup_many(&self.by_number, &by_number, &mut found).unwrap();
        assert_eq!(found, expected);

        let (w, o) = (self.random.below(5) as i16 - 2, self.random.below(60) as i32);
        let mut lines = Vec::new();
        let range = Range::between((w, o), (w, o + 3));
        let visit = |id| {
            lines.push(self.rows[&id].key);
            ControlFlow::Continue(())
        };
        self.store.scan(&self.key, range, Order::Backward, visit).unwrap();
        let is_inside = |row: &&Row| row.key.0 == w && (o..=o + 3).contains(&row.key.1);
        let mut expected: Vec<_> = self.rows.values().filter(is_inside).map(|r| r.key).collect();
        expected.sort_by(|a, b| b.cmp(a));
        assert_eq!(lines, expected);
    }

    fn verify(&mut self) {
        assert_eq!(self.store.check(), []);
        self.store.begin().unwrap();
        self.verify_rows();
        self.store.commit().unwrap();
    }

    fn verify_rows(&mut self) {
        let mut read = BTreeMap::new();
        let mut ids = Vec::new();
        let visit = |id| {
            ids.push(id);
            ControlFlow::Continue(())
        };
        self.store.rows(&self.table, visit).unwrap();
        for id in ids {
            let line = self.store.pin(&self.table, id).unwrap();
            let row = Row {
                key: (line.get(Line::W), line.get(Line::O), line.get(Line::N)),
                item: line.get(Line::ITEM),
                name: line.get(Line::NAME).to_vec(),
                quantity: line.get(Line::QUANTITY),
                delivered: line.get(Line::DELIVERED),
            };
            read.insert(id, row);
        }
        assert_eq!(read, self.rows);
        let Some(id) = self.any_row() else { return };
        let row = &self.rows[&id];
        assert_eq!(self.store.lookup(&self.by_name, row.by_name()), Ok(Some(id)));
        let same = (row.item, row.key.0);
        let first = self.store.lookup(&self.by_item, same).unwrap().unwrap();
        assert_eq!((self.rows[&first].item, self.rows[&first].key.0), same);
    }
}
