//! Random transactions on a store and on the model side by side: reads first, then writes and
//! reads, then a commit or an abort.

use tombolo_storage::dynamic::DynamicTable;
use tombolo_storage::error::Error;
use tombolo_storage::key::Dynamic;
use tombolo_storage::row::RowId;
use tombolo_storage::schema::{IndexDef, TableDef};
use tombolo_storage::store::{Index, Store, Usage, dynamic_indexes};

use super::cell::{Cell, admitted};
use super::definition;
use super::map::Map;
use super::random::Random;

/// Bytes of text in a key up to which no store may refuse it.
const KEY_TEXT_BYTES: usize = 300;

/// What happened, so that a test can verify that it tested something.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) inserted: usize,
    pub(crate) duplicates: usize,
    pub(crate) updated: usize,
    pub(crate) deleted: usize,
    pub(crate) too_long: usize,
    pub(crate) committed: usize,
    pub(crate) aborted: usize,
    pub(crate) out_of_space: usize,
    /// By form of index (`definition::Form`).
    pub(crate) found: [usize; 5],
    pub(crate) visited: [usize; 5],
    /// What was found ahead: still right when it was looked at again, or of an index that had lost
    /// entries since.
    pub(crate) hints_right: usize,
    pub(crate) hints_outdated: usize,
}

/// A row that was found ahead in an index.
pub(crate) struct Hint {
    pub(crate) table: usize,
    pub(crate) index: usize,
    pub(crate) key: Vec<Cell>,
    pub(crate) row: RowId,
    /// What the index had lost then.
    pub(crate) removals: u64,
}

/// A store and its model.
pub(crate) struct Run<S: Store> {
    pub(crate) store: S,
    pub(crate) maps: Vec<Map>,
    pub(crate) tables: Vec<DynamicTable>,
    pub(crate) indexes: Vec<Vec<Index<Dynamic>>>,
    /// Values that columns take again and again, by table and column.
    pub(crate) pools: Vec<Vec<Vec<Cell>>>,
    pub(crate) random: Random,
    pub(crate) counts: Counts,
    /// What was found ahead.
    pub(crate) hints: Vec<Hint>,
    /// Rows deleted by the transaction at hand.
    deleted: Vec<(usize, RowId)>,
    is_growing: bool,
    is_poisoned: bool,
}

impl<S: Store> Run<S> {
    /// An empty store that gets up to three tables drawn by `seed`.
    pub(crate) fn new(seed: u64, store: S) -> Self {
        let mut random = Random::new(seed);
        let defs: Vec<_> = (0..=random.below(3))
            .map(|i| definition::table(&mut random, &format!("t{i}")))
            .collect();
        Self::with_tables(random, store, defs)
    }

    /// An empty store that gets these tables.
    pub(crate) fn with_tables(mut random: Random, mut store: S, defs: Vec<TableDef>) -> Self {
        for def in &defs {
            store.create_table(def.clone()).unwrap();
        }
        let mut pool = |column| {
            let size = *random.pick(&[2, 4, 30]);
            (0..size).map(|_| admitted(&mut random, column)).collect()
        };
        let pools = defs.iter().map(|def| def.columns.iter().map(&mut pool).collect()).collect();
        let positions = 0..defs.len();
        Self {
            tables: positions.clone().map(|i| DynamicTable::new(store.schema(), i)).collect(),
            indexes: positions.map(|i| dynamic_indexes(store.schema(), i)).collect(),
            maps: defs.into_iter().map(Map::new).collect(),
            store,
            pools,
            random,
            counts: Counts::default(),
            hints: Vec::new(),
            deleted: Vec::new(),
            is_growing: true,
            is_poisoned: false,
        }
    }

    /// Runs `transactions` transactions and verifies everything after every tenth, or until a store
    /// without undo is out of space.
    pub(crate) fn transactions(&mut self, transactions: usize) {
        for i in 0..transactions {
            self.transaction();
            if self.is_poisoned {
                return;
            }
            if i % 10 == 9 {
                self.verify();
            }
            if self.random.percent(5) {
                self.is_growing = !self.is_growing;
            }
        }
        self.verify();
    }

    fn transaction(&mut self) {
        self.look_ahead();
        self.store.begin().unwrap();
        for _ in 0..self.random.below(4) {
            self.read_anything();
        }
        if self.random.percent(10) {
            self.store.abort().unwrap();
            return;
        }
        self.store.begin_writes();
        self.deleted.clear();
        let before = self.maps.clone();
        for _ in 0..self.random.below(25) {
            match self.change_anything() {
                Ok(()) => {}
                Err(Error::NoSpace { .. }) => return self.out_of_space(before),
                Err(error) => panic!("a change failed: {error:?}"),
            }
            if self.random.percent(40) {
                self.read_anything();
            }
        }
        if S::UNDO && self.random.percent(30) {
            self.counts.aborted += 1;
            self.store.abort().unwrap();
            self.maps = before;
            self.verify();
        } else {
            self.counts.committed += 1;
            self.store.commit().unwrap();
        }
    }

    /// A change found no memory: the store takes everything back, or refuses everything from now
    /// on.
    fn out_of_space(&mut self, before: Vec<Map>) {
        self.counts.out_of_space += 1;
        if S::UNDO {
            assert_eq!(self.store.fail(), Ok(()));
            self.maps = before;
            self.is_growing = false;
            self.verify();
            return;
        }
        assert_eq!(self.store.fail(), Err(Error::NoUndo));
        for _ in 0..2 {
            assert!(matches!(self.store.begin(), Err(Error::Poisoned { .. })));
            assert!(matches!(self.store.commit(), Err(Error::Poisoned { .. })));
            assert!(matches!(self.store.abort(), Err(Error::Poisoned { .. })));
        }
        self.is_poisoned = true;
    }

    fn change_anything(&mut self) -> Result<(), Error> {
        let table = self.random.below(self.maps.len() as u64) as usize;
        let inserts = if self.is_growing { 55 } else { 20 };
        match self.random.below(100) {
            choice if choice < inserts => self.insert(table),
            choice if choice < 75 => self.update(table),
            choice if choice < 95 => self.delete(table),
            _ => self.misuse(table),
        }
    }

    fn insert(&mut self, table: usize) -> Result<(), Error> {
        let columns = self.maps[table].table.columns.len();
        let row: Vec<_> = (0..columns).map(|column| self.draw(table, column)).collect();
        let values: Vec<_> = values(&self.maps[table].table, &row);
        let inserted = self.tables[table].insert(&mut self.store, &values);
        if self.is_refused(table, &row, None, inserted.err())? {
            return Ok(());
        }
        let id = inserted?;
        self.counts.inserted += 1;
        let is_reused = S::UNDO && self.deleted.contains(&(table, id));
        assert!(!is_reused, "a slot was reused before its transaction ended");
        assert!(self.maps[table].rows.insert(id, row).is_none(), "{id:?} is another row's");
        Ok(())
    }

    fn update(&mut self, table: usize) -> Result<(), Error> {
        let Some(id) = self.live_row(table) else { return Ok(()) };
        let mut row = self.maps[table].rows[&id].clone();
        for _ in 0..=self.random.below(3) {
            let column = self.random.below(row.len() as u64) as usize;
            row[column] = self.draw(table, column);
        }
        let values = values(&self.maps[table].table, &row);
        let updated = self.tables[table].update(&mut self.store, id, &values);
        if self.is_refused(table, &row, Some(id), updated.err())? {
            return Ok(());
        }
        self.counts.updated += 1;
        self.maps[table].rows.insert(id, row);
        Ok(())
    }

    fn delete(&mut self, table: usize) -> Result<(), Error> {
        let Some(id) = self.live_row(table) else { return Ok(()) };
        self.tables[table].delete(&mut self.store, id)?;
        self.counts.deleted += 1;
        self.deleted.push((table, id));
        self.maps[table].rows.remove(&id);
        Ok(())
    }

    /// Changes that must not change anything.
    fn misuse(&mut self, table: usize) -> Result<(), Error> {
        let map = &self.maps[table];
        let no_such_row = Err(Error::NoSuchRow { table: table as u32 });
        let dead = RowId::new(*self.random.pick(&[0, 1, 2, 17, 50, 1 << 32, (1 << 40) + 1]));
        if !map.rows.contains_key(&dead) {
            assert_eq!(self.tables[table].delete(&mut self.store, dead), no_such_row);
        }
        let (Some(row), Some(other)) = (self.live_row(table), self.live_row(table)) else {
            return Ok(());
        };
        let map = &self.maps[table];
        for (def, index) in map.table.indexes.iter().zip(&self.indexes[table]) {
            let key = Map::key(def, &map.rows[&other]);
            if !map.find(def, &key).contains(&row) {
                let values = key_values(&map.table, def, &key);
                assert_eq!(self.store.remove(index, &values, row), Ok(false));
            }
        }
        Ok(())
    }

    /// Whether the store refused `row` and was right to.
    fn is_refused(
        &mut self,
        table: usize,
        row: &[Cell],
        own: Option<RowId>,
        error: Option<Error>,
    ) -> Result<bool, Error> {
        let map = &self.maps[table];
        let first: usize = self.indexes[..table].iter().map(Vec::len).sum();
        let conflict =
            map.conflict(row, own).map(|index| Error::Duplicate { index: (first + index) as u32 });
        match error {
            Some(error @ Error::NoSpace { .. }) => return Err(error),
            Some(Error::OutOfRange { column, .. }) => {
                let too_long = |index: &IndexDef| {
                    let bytes: usize = index.columns.iter().map(|&c| row[c].len()).sum();
                    index.columns.contains(&(column as usize)) && bytes > KEY_TEXT_BYTES
                };
                assert!(map.table.indexes.iter().any(too_long), "column {column} of {row:?}");
                self.counts.too_long += 1;
            }
            error => {
                assert_eq!(error, conflict, "{row:?}");
                self.counts.duplicates += error.is_some() as usize;
            }
        }
        Ok(error.is_some())
    }

    /// A value for a column: mostly one that other rows have too.
    fn draw(&mut self, table: usize, column: usize) -> Cell {
        let def = &self.maps[table].table.columns[column];
        if def.nullable && self.random.percent(25) {
            return Cell::Null;
        }
        if self.random.percent(85) {
            return self.random.pick(&self.pools[table][column]).clone();
        }
        admitted(&mut self.random, def)
    }

    pub(crate) fn live_row(&mut self, table: usize) -> Option<RowId> {
        let rows = &self.maps[table].rows;
        rows.keys().nth(self.random.below(rows.len().max(1) as u64) as usize).copied()
    }

    /// The checker finds nothing, and every row and the counts of bytes agree with the model.
    pub(crate) fn verify(&mut self) {
        assert_eq!(self.store.check(), []);
        self.store.begin().unwrap();
        let mut worth = Usage::default();
        for (table, map) in self.tables.iter().zip(&self.maps) {
            let ids = table.row_ids(&mut self.store).unwrap();
            let mut sorted = ids.clone();
            sorted.sort();
            assert!(sorted.iter().eq(map.rows.keys()), "rows {ids:?}");
            for (&id, row) in &map.rows {
                self.verify_row(table, map, id, row);
                worth.raw_row_bytes += row.iter().zip(&map.table.columns).fold(0, |sum, (v, c)| {
                    let outside = if c.sql.is_variable() { v.len() } else { 0 };
                    sum + (c.sql.width() + outside) as u64
                });
            }
            for index in &map.table.indexes {
                let entry = map.table.raw_key_bytes(index) + 8;
                worth.raw_key_bytes += (entry * map.rows.len()) as u64;
            }
        }
        self.store.commit().unwrap();
        let usage = self.store.usage();
        worth.memory_bytes = usage.memory_bytes;
        assert_eq!(usage, worth);
    }

    pub(crate) fn verify_row(&self, table: &DynamicTable, map: &Map, id: RowId, row: &[Cell]) {
        let read = table.read(&self.store, id, |values| {
            for ((cell, value), column) in row.iter().zip(values).zip(&map.table.columns) {
                assert!(cell.reads_as(column.sql, *value), "{cell:?} reads as {value:?}");
            }
            values.len()
        });
        assert_eq!(read, Ok(row.len()));
    }
}

fn values<'a>(table: &TableDef, row: &'a [Cell]) -> Vec<tombolo_storage::value::Value<'a>> {
    row.iter().zip(&table.columns).map(|(cell, column)| cell.value(column.sql)).collect()
}

pub(crate) fn key_values<'a>(
    table: &TableDef,
    index: &IndexDef,
    key: &'a [Cell],
) -> Vec<tombolo_storage::value::Value<'a>> {
    let sql = |&column: &usize| table.columns[column].sql;
    key.iter().zip(&index.columns).map(|(cell, column)| cell.value(sql(column))).collect()
}
