//! Packed keys of many rows, made straight from the rows' bytes, column by column.
//!
//! For what makes the keys of all rows of a table: recovery and the check. Not here: keys of single
//! rows (`check.rs`), and what becomes of them.

use super::index::RowIndex;
use super::slab::Slab;
use crate::key::KeyPart;
use crate::schema::{TableDef, column_offset, presence_bit};

/// How many rows are best looked at together: they stay in the nearest caches while column after
/// column is read.
pub(super) const ROWS: usize = 1024;

/// Makes the keys of an index whose keys pack.
#[derive(Debug)]
pub(super) struct KeyPacker(Vec<PackedColumn>);

impl KeyPacker {
    /// For `index`, which is of `table`.
    pub(super) fn new(index: &RowIndex, table: &TableDef) -> Self {
        let positions = index.columns.iter().zip(index.shape.parts.iter());
        Self(positions.map(|(&column, &part)| PackedColumn::new(table, column, part)).collect())
    }

    /// Puts the keys of the rows in `slots` into `keys`.
    ///
    /// # Errors
    /// A slot whose row has a value outside its column's range.
    pub(super) fn pack(&self, rows: &Slab, slots: &[u32], keys: &mut Vec<u64>) -> Result<(), u32> {
        keys.clear();
        keys.resize(slots.len(), 0);
        self.0.iter().try_for_each(|column| column.join(rows, slots, keys))
    }
}

/// A column of a packed key, and where it lies in a row.
#[derive(Debug)]
struct PackedColumn {
    part: KeyPart,
    offset: usize,
    width: usize,
    /// The bit that says whether it is null, if it may be, and what the bit is then.
    null: Option<(usize, bool)>,
    /// The bits in which what is stored differs from the value.
    default_bits: i64,
}

impl PackedColumn {
    fn new(table: &TableDef, position: usize, part: KeyPart) -> Self {
        let column = &table.columns[position];
        Self {
            part,
            offset: column_offset(&table.columns, position),
            width: column.sql.width(),
            null: column
                .nullable
                .then(|| (presence_bit(&table.columns, position), column.marks_null())),
            default_bits: column.default_bits(),
        }
    }

    /// Joins this column to the keys of the rows in `slots`, which hold the columns before it; in
    /// the slot that is returned it is outside its range.
    fn join(&self, rows: &Slab, slots: &[u32], keys: &mut [u64]) -> Result<(), u32> {
        match self.width {
            1 => self.join_as(rows, slots, keys, |[a]| i64::from(a as i8)),
            2 => self.join_as(rows, slots, keys, |bytes| i64::from(i16::from_le_bytes(bytes))),
            4 => self.join_as(rows, slots, keys, |bytes| i64::from(i32::from_le_bytes(bytes))),
            8 => self.join_as(rows, slots, keys, i64::from_le_bytes),
            _ => unreachable!("a column of a packed key has at most 64 bits"),
        }
    }

    #[inline(always)]
    fn join_as<const WIDTH: usize>(
        &self,
        rows: &Slab,
        slots: &[u32],
        keys: &mut [u64],
        units_of: impl Fn([u8; WIDTH]) -> i64,
    ) -> Result<(), u32> {
        for (key, &slot) in keys.iter_mut().zip(slots) {
            let row = rows.slot(slot);
            let is_null =
                self.null.is_some_and(|(bit, mark)| (row[bit / 8] & (1 << (bit % 8)) != 0) == mark);
            let mut bytes = [0; WIDTH];
            bytes.copy_from_slice(&row[self.offset..self.offset + WIDTH]);
            let units = if is_null { None } else { Some(units_of(bytes) ^ self.default_bits) };
            *key = self.part.join(*key, units).ok_or(slot)?;
        }
        Ok(())
    }
}
