//! Making changes again: by the calls that any transaction makes, so that log, snapshots, budget and undo see an
//! ordinary one.
//!
//! Rows that are created get new slots. Everything is verified against the store first: changes may come from a
//! row that was written by another process, long ago. Not here: which locks admit it.

use super::changes::{ChangedRow, Changes, Operation};
use super::raw::Raw;
use crate::error::{Error, Result};
use crate::key::Dynamic;
use crate::memory::MemoryStore;
use crate::memory::variable::HANDLE_BYTES;
use crate::profile::MemoryProfile;
use crate::row::{Fields, RowId};
use crate::store::{Index, Store, Table, dynamic_table};

/// Rows that were created, with their tables.
type Created = Vec<(u32, RowId)>;

impl<P: MemoryProfile> MemoryStore<P> {
    /// Makes changes again that a transaction made and that were set aside, as part of the open transaction.
    ///
    /// # Errors
    /// Those of the calls that write, and `UnfitChanges`; the transaction is then to be aborted.
    ///
    /// # Panics
    /// When no transaction writes.
    pub fn make(&mut self, changes: &Changes) -> Result<()> {
        let mut created = Created::new();
        changes.iter().try_for_each(|operation| self.make_one(operation, &mut created))
    }

    fn make_one(&mut self, operation: Operation<'_>, created: &mut Created) -> Result<()> {
        match operation {
            Operation::Remove { index, row, key } => {
                let (index, _) = self.raw_index(index)?;
                let is_removed = self.remove(&index, key, RowId::new(row.into()))?;
                if is_removed { Ok(()) } else { Err(Error::UnfitChanges) }
            }
            Operation::Delete { table, row } => {
                let (table, row) = self.row_of_change(table, ChangedRow::Slot(row), created)?;
                self.delete(&table, row)
            }
            Operation::Update { table: position, row, offset, bytes } => {
                let (table, row) = self.row_of_change(position, ChangedRow::Slot(row), created)?;
                let end = (offset as usize).checked_add(bytes.len());
                let end = end.filter(|&end| end <= table.row_size()).ok_or(Error::UnfitChanges)?;
                let shape = &self.tables[position as usize].shape;
                let mut handles = shape.handle_offsets.iter();
                if handles.any(|&handle| handle < end && (offset as usize) < handle + HANDLE_BYTES)
                {
                    return Err(Error::UnfitChanges);
                }
                let fields = Fields::none().cover(offset, end as u32);
                self.update(&table, row, fields, |row| row.bytes_mut().copy_from_slice(bytes))
            }
            Operation::Create { table: position, bytes } => {
                let table = self.table_of_change(position)?;
                if bytes.len() > table.row_size() {
                    return Err(Error::UnfitChanges);
                }
                let handles = self.tables[position as usize].shape.handle_offsets.clone();
                let row = self.create(&table, |row| {
                    let row = row.bytes_mut();
                    row[..bytes.len()].copy_from_slice(bytes);
                    handles.iter().for_each(|&at| row[at..at + HANDLE_BYTES].fill(0));
                })?;
                created.push((position, row));
                Ok(())
            }
            Operation::SetValue { table: position, row, offset, value } => {
                let (table, row) = self.row_of_change(position, row, created)?;
                let shape = &self.tables[position as usize].shape;
                if shape.variable_offsets.contains(&(offset as usize)) {
                    return self.set_variable(&table, row, offset as usize, value);
                }
                // That of a column that was dropped since is not needed.
                let was_dropped = shape.handle_offsets.contains(&(offset as usize));
                if was_dropped { Ok(()) } else { Err(Error::UnfitChanges) }
            }
            Operation::Insert { index, row, key } => {
                let (index, table) = self.raw_index(index)?;
                let (_, row) = self.row_of_change(table, row, created)?;
                self.insert(&index, key, row)
            }
        }
    }

    fn table_of_change(&self, table: u32) -> Result<Table<Dynamic>> {
        match self.schema.tables.get(table as usize) {
            Some(def) if !def.is_dropped() => Ok(dynamic_table(&self.schema, table as usize)),
            _ => Err(Error::UnfitChanges),
        }
    }

    /// A table and a live row in it.
    fn row_of_change(
        &self,
        position: u32,
        row: ChangedRow,
        created: &Created,
    ) -> Result<(Table<Dynamic>, RowId)> {
        let table = self.table_of_change(position)?;
        let row = match row {
            ChangedRow::Slot(slot) => RowId::new(slot.into()),
            ChangedRow::Created(number) => match created.get(number as usize) {
                Some(&(own, row)) if own == position => row,
                _ => return Err(Error::UnfitChanges),
            },
        };
        match self.live_slot(&table, row) {
            Ok(_) => Ok((table, row)),
            Err(_) => Err(Error::UnfitChanges),
        }
    }

    /// An index with the position of its table.
    fn raw_index(&self, position: u32) -> Result<(Index<Raw>, u32)> {
        let position = position as usize;
        let Some((table, _)) = self.schema.index_at(position) else {
            return Err(Error::UnfitChanges);
        };
        let shape = self.indexes[position].shape.clone();
        Ok((Index::at(&self.schema, position, shape), table as u32))
    }
}
