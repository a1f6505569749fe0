//! Random reads on a store, each compared with what the model's rows say.

use std::ops::ControlFlow;

use tombolo_storage::error::Error;
use tombolo_storage::key::{Edge, Range};
use tombolo_storage::row::RowId;
use tombolo_storage::schema::IndexKind;
use tombolo_storage::store::{Order, Store};
use tombolo_storage::value::Value;

use super::cell::{Cell, wild};
use super::definition::Form;
use super::map::{Limit, Map};
use super::run::{Hint, Run, key_values};

impl<S: Store> Run<S> {
    pub(crate) fn read_anything(&mut self) {
        let table = self.random.below(self.maps.len() as u64) as usize;
        let indexes = self.indexes[table].len() as u64;
        if indexes == 0 || self.random.percent(15) {
            return self.read_rows(table);
        }
        let index = self.random.below(indexes) as usize;
        let is_tree = self.maps[table].table.indexes[index].kind == IndexKind::Tree;
        match self.random.below(4) {
            0 | 1 if is_tree => self.scan(table, index),
            2 => self.look_up_many(table, index),
            _ => self.look_up(table, index),
        }
    }

    /// Looks ahead in some index. What was found there before is right as long as the index has lost no
    /// entry.
    pub(crate) fn look_ahead(&mut self) {
        for hint in &self.hints {
            let map = &self.maps[hint.table];
            let now = self.store.removals(&self.indexes[hint.table][hint.index]);
            if now == Some(hint.removals) {
                let def = &map.table.indexes[hint.index];
                assert_eq!(map.find(def, &hint.key), [hint.row], "{def:?} {:?}", hint.key);
                self.counts.hints_right += 1;
            } else {
                self.counts.hints_outdated += 1;
            }
        }
        if self.hints.len() > 20 {
            self.hints.clear();
        }
        let table = self.random.below(self.maps.len() as u64) as usize;
        for index in 0..self.indexes[table].len() {
            let key = self.probe(table, index);
            let (map, handle) = (&self.maps[table], &self.indexes[table][index]);
            let values = key_values(&map.table, &map.table.indexes[index], &key);
            let found = self.store.find_ahead(handle, &values);
            if let (Some(row), Some(removals)) = (found, self.store.removals(handle)) {
                self.hints.push(Hint { table, index, key, row, removals });
            }
        }
    }

    /// A key to look for: a row's, one near it, or one of values that no row may have.
    fn probe(&mut self, table: usize, index: usize) -> Vec<Cell> {
        let live = self.live_row(table);
        let map = &self.maps[table];
        let def = &map.table.indexes[index];
        let mut key = match live {
            Some(id) => Map::key(def, &map.rows[&id]),
            None => vec![Cell::Null; def.columns.len()],
        };
        let strangeness = *self.random.pick(&[0, 0, 10, 50]);
        for (cell, &column) in key.iter_mut().zip(&def.columns) {
            if self.random.percent(strangeness) {
                *cell = wild(&mut self.random, &map.table.columns[column]);
            } else if self.random.percent(strangeness) {
                *cell = self.random.pick(&self.pools[table][column]).clone();
            }
        }
        key
    }

    fn look_up(&mut self, table: usize, index: usize) {
        let key = self.probe(table, index);
        let map = &self.maps[table];
        let def = &map.table.indexes[index];
        let values = key_values(&map.table, def, &key);
        let found = self.store.lookup(&self.indexes[table][index], &values).unwrap();
        self.judge(table, index, &key, found);
    }

    fn look_up_many(&mut self, table: usize, index: usize) {
        let keys: Vec<_> = (0..self.random.below(40)).map(|_| self.probe(table, index)).collect();
        let map = &self.maps[table];
        let def = &map.table.indexes[index];
        let values: Vec<_> = keys.iter().map(|key| key_values(&map.table, def, key)).collect();
        let slices: Vec<&[Value<'_>]> = values.iter().map(Vec::as_slice).collect();
        let mut found = vec![None; keys.len()];
        self.store.lookup_many(&self.indexes[table][index], &slices, &mut found).unwrap();
        for (key, found) in keys.iter().zip(found) {
            self.judge(table, index, key, found);
        }
    }

    fn judge(&mut self, table: usize, index: usize, key: &[Cell], found: Option<RowId>) {
        let map = &self.maps[table];
        let def = &map.table.indexes[index];
        let expected = map.find(def, key);
        assert!(!def.unique || expected.len() <= 1);
        match found {
            Some(id) => assert!(expected.contains(&id), "{def:?} {key:?}: {id:?}"),
            None => assert_eq!(expected, [], "{def:?} {key:?}"),
        }
        self.counts.found[Form::of(&map.table, def) as usize] += found.is_some() as usize;
    }

    fn edge(&mut self, table: usize, index: usize) -> Limit {
        let key = self.probe(table, index);
        let columns = self.random.below(key.len() as u64 + 1) as usize;
        match self.random.below(5) {
            0 => Limit::Open,
            1 | 2 => Limit::Before(key, columns),
            _ => Limit::After(key, columns),
        }
    }

    fn scan(&mut self, table: usize, index: usize) {
        let lower = self.edge(table, index);
        let mut upper = self.edge(table, index);
        if let (Limit::Before(key, columns), true) = (&lower, self.random.percent(40)) {
            upper = Limit::After(key.clone(), *columns);
        }
        let order = *self.random.pick(&[Order::Forward, Order::Backward]);
        let all = self.visit(table, index, (&lower, &upper), order, usize::MAX);

        let map = &self.maps[table];
        let def = &map.table.indexes[index];
        let what = || format!("{def:?} from {lower:?} to {upper:?} {order:?}");
        let mut sorted = all.clone();
        sorted.sort();
        assert_eq!(sorted, map.between(def, &lower, &upper), "{}", what());
        for pair in all.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|id| Map::key(def, &map.rows[&id]));
            let ordering = map.order(def, &a, &b, usize::MAX);
            let ordering = if order == Order::Forward { ordering } else { ordering.reverse() };
            assert!(if def.unique { ordering.is_lt() } else { ordering.is_le() }, "{}", what());
        }
        self.counts.visited[Form::of(&map.table, def) as usize] += all.len();

        let most = self.random.below(4) as usize + 1;
        let some = self.visit(table, index, (&lower, &upper), order, most);
        assert_eq!(some, all[..most.min(all.len())]);
    }

    /// The rows a scan visits before it is broken off at the `most`-th.
    fn visit(
        &mut self,
        table: usize,
        index: usize,
        (lower, upper): (&Limit, &Limit),
        order: Order,
        most: usize,
    ) -> Vec<RowId> {
        let map = &self.maps[table];
        let def = &map.table.indexes[index];
        let values = |limit| match limit {
            &Limit::Open => Vec::new(),
            Limit::Before(key, _) | Limit::After(key, _) => key_values(&map.table, def, key),
        };
        let (lower_values, upper_values) = (values(lower), values(upper));
        let edge = |limit: &Limit, values| match limit {
            Limit::Open => Edge::Open,
            Limit::Before(_, columns) => Edge::Before(values, *columns),
            Limit::After(_, columns) => Edge::After(values, *columns),
        };
        let range = Range {
            lower: edge(lower, lower_values.as_slice()),
            upper: edge(upper, upper_values.as_slice()),
        };
        let mut ids = Vec::new();
        let visit = |id| {
            ids.push(id);
            if ids.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.store.scan(&self.indexes[table][index], range, order, visit).unwrap();
        ids
    }

    fn read_rows(&mut self, table: usize) {
        let most = self.random.below(5) as usize;
        let mut ids = Vec::new();
        let visit = |id| {
            ids.push(id);
            if ids.len() > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.store.rows(self.tables[table].handle(), visit).unwrap();
        assert_eq!(ids.len(), self.maps[table].rows.len().min(most + 1));
        for &id in &ids {
            let map = &self.maps[table];
            self.verify_row(&self.tables[table], map, id, &map.rows[&id]);
        }
        let dead = RowId::new(*self.random.pick(&[0, 3, 40, 200, u32::MAX as u64, 1 << 32]));
        if !self.maps[table].rows.contains_key(&dead) {
            let read = self.tables[table].read(&self.store, dead, |_| ());
            assert_eq!(read, Err(Error::NoSuchRow { table: table as u32 }));
        }
    }
}
