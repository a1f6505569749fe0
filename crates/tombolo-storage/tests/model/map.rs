//! The model: a map of rows, and scans that look at every one of them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use tombolo_storage::row::RowId;
use tombolo_storage::schema::{IndexDef, TableDef};

use super::cell::{Cell, compare};

/// An edge of a scan, as `tombolo_storage::key::Edge` has it.
#[derive(Clone, Debug)]
pub(crate) enum Limit {
    Open,
    Before(Vec<Cell>, usize),
    After(Vec<Cell>, usize),
}

/// The rows of one table.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub(crate) table: TableDef,
    pub(crate) rows: BTreeMap<RowId, Vec<Cell>>,
}

impl Map {
    pub(crate) fn new(table: TableDef) -> Self {
        Self { table, rows: BTreeMap::new() }
    }

    /// The values of an index's columns in a row.
    pub(crate) fn key(index: &IndexDef, row: &[Cell]) -> Vec<Cell> {
        index.columns.iter().map(|&column| row[column].clone()).collect()
    }

    /// How two keys of an index lie to each other by their first `columns` columns.
    pub(crate) fn order(
        &self,
        index: &IndexDef,
        a: &[Cell],
        b: &[Cell],
        columns: usize,
    ) -> Ordering {
        (0..columns.min(index.columns.len()))
            .map(|i| compare(self.table.columns[index.columns[i]].sql, &a[i], &b[i]))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// All rows with this key.
    pub(crate) fn find(&self, index: &IndexDef, key: &[Cell]) -> Vec<RowId> {
        let is_equal =
            |row: &[Cell]| self.order(index, &Self::key(index, row), key, key.len()).is_eq();
        self.rows.iter().filter(|(_, row)| is_equal(row)).map(|(id, _)| *id).collect()
    }

    /// The first unique index that holds the key of `row` for another row than `own`.
    pub(crate) fn conflict(&self, row: &[Cell], own: Option<RowId>) -> Option<usize> {
        self.table.indexes.iter().position(|index| {
            let holders = self.find(index, &Self::key(index, row));
            index.unique && holders.iter().any(|&id| Some(id) != own)
        })
    }

    /// All rows between two edges, in no order.
    pub(crate) fn between(&self, index: &IndexDef, lower: &Limit, upper: &Limit) -> Vec<RowId> {
        let is_inside = |row: &[Cell]| {
            let key = Self::key(index, row);
            let after_lower = match lower {
                Limit::Open => true,
                Limit::Before(edge, columns) => self.order(index, &key, edge, *columns).is_ge(),
                Limit::After(edge, columns) => self.order(index, &key, edge, *columns).is_gt(),
            };
            let before_upper = match upper {
                Limit::Open => true,
                Limit::Before(edge, columns) => self.order(index, &key, edge, *columns).is_lt(),
                Limit::After(edge, columns) => self.order(index, &key, edge, *columns).is_le(),
            };
            after_lower && before_upper
        };
        self.rows.iter().filter(|(_, row)| is_inside(row)).map(|(id, _)| *id).collect()
    }
}
