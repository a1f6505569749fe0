//! The checker of a paged database, and the measurement of its memory.
//!
//! Each page, heap file, slab, tree and lock is verified by its own module. This module verifies that
//! they agree: every live row is in each index of its table under its own key, every entry names a
//! live row, the only ghosts are those of prepared transactions, and every page has one owner. The row files verify
//! that each value belongs to one row. No transaction may run meanwhile.

use std::ops::ControlFlow;

use super::database::{Database, IndexStore, TableStore};
use super::entries::Visitor;
use super::prepared::PreparedDeletions;
use super::rows::{RowAccess, RowCopies};
use crate::key::Dynamic;
use crate::log::Logging;
use crate::paged::btree::{KeyFormat, Position, Routes};
use crate::paged::heap::{RowFile, read_handle};
use crate::paged::pool::{PageAccess, ReadPage, Result};
use crate::profile::PagedProfile;
use crate::row::{RowBytes, RowId};
use crate::store::{Damage, Order, Usage};
use crate::value::read_value;

/// How an index and the rows of its table disagree.
enum Disagreement {
    Ghosts(u64),
    Count { entries: u64, rows: usize },
    NotFound(RowId),
}

/// What an index and its table came to; compiled once, as [`note`].
fn disagreement(compared: Result<Option<Disagreement>>) -> Vec<Damage> {
    let what = match compared {
        Ok(None) => return Vec::new(),
        Ok(Some(Disagreement::Ghosts(count))) => {
            format!("{count} deleted entries were not cleared away")
        }
        Ok(Some(Disagreement::Count { entries, rows })) => {
            format!("{entries} entries for {rows} rows")
        }
        Ok(Some(Disagreement::NotFound(row))) => {
            format!("the row at {:#x} is not found by its key", row.location())
        }
        Err(error) => error.to_string(),
    };
    vec![Damage { check: "indexes", what }]
}

/// Notes what was found in a table or an index.
fn note(damage: &mut Vec<Damage>, kind: &str, name: &str, found: Vec<Damage>) {
    let named = |found: Damage| Damage { what: format!("{kind} {name}: {}", found.what), ..found };
    damage.extend(found.into_iter().map(named));
}

impl<P: PagedProfile> Database<P> {
    /// Verifies everything.
    pub(super) fn check(&self) -> Vec<Damage> {
        let (mut damage, deleted) = (self.pages.check(), self.prepared.deleted());
        for (at, (table, def)) in self.tables.iter().zip(&self.schema.tables).enumerate() {
            let is_deleted = |place| deleted.rows.contains(&(at, place));
            let found = table.rows.check_with_deleted(&self.pages, &is_deleted);
            note(&mut damage, "table", &def.name, found);
        }
        for (at, index) in self.indexes.iter().enumerate() {
            let mut found = index.tree.check(&self.pages);
            // Entries are compared with rows only where both can be walked.
            if found.is_empty() {
                found = disagreement(self.compare_entries(at, index, &deleted));
            }
            note(&mut damage, "index", &index.shape.name, found);
        }
        // Only where everything can be walked.
        if damage.is_empty() {
            damage = self
                .check_owners()
                .unwrap_or_else(|error| vec![Damage { check: "pages", what: error.to_string() }]);
        }
        damage.extend(self.log.check());
        damage
    }

    /// Every page but the first is free, or belongs to one table, one index or the catalogue.
    fn check_owners(&self) -> Result<Vec<Damage>> {
        let pages = &self.pages;
        let mut owned = pages.free_pages();
        for table in &self.tables {
            owned.extend(table.rows.owned_pages(pages)?);
        }
        for index in &self.indexes {
            owned.extend(index.tree.owned_pages(pages)?);
        }
        let mut next = pages.root();
        while let Some(id) = next {
            owned.push(id);
            next = pages.fix_shared(id)?.page().next();
        }
        let mut owners = vec![0_u32; pages.page_count() as usize];
        owned.iter().for_each(|id| owners[id.0 as usize] += 1);
        let wrong = (0..).zip(&owners).skip(1).filter(|(_, owners)| **owners != 1);
        let damage = |(id, owners): (u32, &u32)| {
            let what = match owners {
                0 => format!("page {id} is not free and nothing leads to it"),
                _ => format!("page {id} is used or free {owners} times"),
            };
            Damage { check: "pages", what }
        };
        Ok(wrong.map(damage).collect())
    }

    /// Every live row is in the index under its own key, and there are as many entries as rows;
    /// otherwise what is wrong.
    fn compare_entries(
        &self,
        at: usize,
        index: &IndexStore<P>,
        deleted_by: &PreparedDeletions,
    ) -> Result<Option<Disagreement>> {
        let table = &self.tables[index.table];
        let (mut entries, mut ghosts) = (0_u64, 0_u64);
        let count: Visitor<'_> = &mut |key, row, deleted| {
            entries += u64::from(!deleted);
            let is_expected = || deleted_by.entries.contains(&(at, row, key.to_vec()));
            ghosts += u64::from(deleted && !is_expected());
            ControlFlow::Continue(())
        };
        index.tree.scan(&self.pages, Position::Open, Position::Open, Order::Forward, count, &())?;
        if ghosts > 0 {
            return Ok(Some(Disagreement::Ghosts(ghosts)));
        }
        let rows = self.live_rows(table)?;
        if entries != rows.len() as u64 {
            return Ok(Some(Disagreement::Count { entries, rows: rows.len() }));
        }
        let (copies, mut routes, mut key) = (RowCopies::default(), Routes::default(), Vec::new());
        for row in rows {
            if !self.has_entry(index, table, row, &copies, &mut routes, &mut key)? {
                return Ok(Some(Disagreement::NotFound(row)));
            }
        }
        Ok(None)
    }

    /// Whether the index leads to `row` by the key in the row's own columns.
    fn has_entry(
        &self,
        index: &IndexStore<P>,
        table: &TableStore<P>,
        row: RowId,
        copies: &RowCopies,
        routes: &mut Routes,
        key: &mut Vec<u8>,
    ) -> Result<bool> {
        let columns = &self.schema.tables[index.table].columns;
        let Some(pinned) = self.pages.pin_row(&table.rows, copies, row)? else { return Ok(false) };
        let value = |&column: &usize| read_value(&pinned, columns, column);
        let values: Vec<_> = index.columns.iter().map(value).collect();
        let has_form = P::Keys::encode::<Dynamic>(&index.shape, &values, key);
        let mut found = false;
        let visit = |other, _| {
            found |= other == row;
            if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        index.tree.find(&self.pages, routes, key, visit, &())?;
        Ok(found && has_form)
    }

    /// All rows of a table that are not deleted.
    fn live_rows(&self, table: &TableStore<P>) -> Result<Vec<RowId>> {
        let mut rows = Vec::new();
        table.rows.scan(&self.pages, |row, deleted| {
            if !deleted {
                rows.push(row);
            }
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// Memory taken and used; what cannot be read counts as nothing.
    pub(super) fn measure(&self) -> Usage {
        let rows = self.tables.iter().map(|table| table.rows.memory_bytes()).sum::<u64>();
        let memory_bytes = self.pages.memory_bytes() + rows + self.log.usage().buffer_bytes;
        let mut usage = Usage { memory_bytes, ..Usage::default() };
        let mut rows_of = Vec::new();
        for table in &self.tables {
            let rows = self.live_rows(table).unwrap_or_default();
            rows_of.push(rows.len());
            usage.raw_row_bytes += (rows.len() * table.raw_row_bytes) as u64;
            if !table.rows.layout().handles.is_empty() {
                usage.raw_row_bytes += self.value_bytes(table, &rows);
            }
        }
        for index in &self.indexes {
            usage.raw_key_bytes += (rows_of[index.table] * (index.raw_key_bytes + 8)) as u64;
        }
        usage
    }

    /// Bytes of the variable-length values of `rows`.
    fn value_bytes(&self, table: &TableStore<P>, rows: &[RowId]) -> u64 {
        let copies = RowCopies::default();
        let mut bytes = 0;
        for &row in rows {
            if let Ok(Some(pinned)) = self.pages.pin_row(&table.rows, &copies, row) {
                let handles = &table.rows.layout().handles;
                let value = |&at: &usize| pinned.variable(read_handle(pinned.fixed(), at));
                bytes += handles.iter().map(|at| value(at).len() as u64).sum::<u64>();
            }
        }
        bytes
    }
}
