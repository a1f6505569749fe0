//! Whole rows of any schema: what SQL, dumps, restores and tests do with a store.
//!
//! Here a row is a list of values; all its index entries are kept in step with it, which procedures
//! do call by call. Every value is verified against its column: type, null, length,
//! digits and declared range. Nothing is changed when one is refused.
//!
//! Not here: speed. A procedure that runs a million times a second declares its tables
//! (`schema/`).

use std::ops::{ControlFlow, Range};

use crate::error::{Error, Result};
use crate::key::{Dynamic, Fit, IndexType, KEY_BYTES_MAX};
use crate::row::{Fields, RowId, RowMut};
use crate::schema::{ColumnDef, Schema, TableDef, column_offset, presence_bit};
use crate::store::{Index, Store, Table, dynamic_indexes, dynamic_table};
use crate::types::{SqlType, TEXT_BYTES_MAX, write_units, write_varchar};
use crate::value::{OwnedValue, Value, read_value};

/// A table with its columns and indexes, resolved at run time.
#[derive(Clone, Debug)]
pub struct DynamicTable {
    table: Table<Dynamic>,
    columns: Vec<ColumnDef>,
    places: Vec<Place>,
    guarded: Guarded,
    indexes: Vec<(Index<Dynamic>, Vec<usize>)>,
}

/// Where a column lies in a row: what a change of a row asks of each, worked out once.
#[derive(Clone, Debug)]
struct Place {
    bytes: Range<usize>,
    /// The byte with the bit that says whether it is null, if it may be.
    marked_in: Option<usize>,
    /// Whether it admits whatever its bytes hold.
    admits_all: bool,
    /// Whether an index has it in its keys.
    is_in_key: bool,
}

impl Place {
    fn of(def: &TableDef, position: usize) -> Self {
        let columns = &def.columns;
        let (offset, column) = (column_offset(columns, position), &columns[position]);
        let is_whole = matches!(
            column.sql,
            SqlType::SmallInt
                | SqlType::Integer
                | SqlType::BigInt
                | SqlType::Double
                | SqlType::Date
                | SqlType::Timestamp
                | SqlType::Uuid
        );
        Self {
            bytes: offset..offset + column.sql.width(),
            marked_in: column.nullable.then(|| presence_bit(columns, position) / 8),
            admits_all: column.is_dropped() || is_whole && column.range.is_none(),
            is_in_key: def.indexes.iter().any(|index| index.columns.contains(&position)),
        }
    }

    /// Whether a change of it may move an index entry, or leave a value that it does not admit.
    fn is_guarded(&self) -> bool {
        self.is_in_key || !self.admits_all
    }

    /// Whether it, or the bit that says whether it is null, lies in `bytes` of the row.
    #[inline]
    fn lies_in(&self, bytes: &Range<usize>) -> bool {
        (self.bytes.start < bytes.end && bytes.start < self.bytes.end)
            || self.marked_in.is_some_and(|byte| bytes.contains(&byte))
    }
}

/// The bytes of a row of which a change may move an index entry, or leave a value that its column does
/// not admit. A bit stands for so many bytes that 64 are enough for the row.
#[derive(Clone, Copy, Debug)]
struct Guarded {
    bits: u64,
    /// A bit stands for two to the power of this.
    shift: u32,
}

impl Guarded {
    fn of(places: &[Place], row_size: usize) -> Self {
        let mut guarded =
            Self { bits: 0, shift: row_size.div_ceil(64).next_power_of_two().trailing_zeros() };
        for place in places.iter().filter(|place| place.is_guarded()) {
            let mark = place.marked_in.map(|byte| byte..byte + 1);
            for bytes in [Some(place.bytes.clone()), mark].into_iter().flatten() {
                guarded.bits |= guarded.mask(bytes.start, bytes.end);
            }
        }
        guarded
    }

    /// Whether the bytes from `start` to before `end` may be among them.
    #[inline(always)]
    fn may_hold(self, start: usize, end: usize) -> bool {
        self.bits & self.mask(start, end) != 0
    }

    #[inline(always)]
    fn mask(self, start: usize, end: usize) -> u64 {
        if start >= end {
            return 0;
        }
        // What lies behind the row counts as its last bytes: a store refuses that.
        let (first, last) = (start >> self.shift, (end - 1) >> self.shift);
        (!0 << first.min(63)) & (!0 >> (63 - last.min(63)))
    }
}

impl DynamicTable {
    /// The table at `position` of `schema`.
    ///
    /// # Panics
    /// When there is no such table.
    pub fn new(schema: &Schema, position: usize) -> Self {
        let def = &schema.tables[position];
        let columns_of = def.indexes.iter().map(|index| index.columns.clone());
        let places: Vec<_> = (0..def.columns.len()).map(|column| Place::of(def, column)).collect();
        Self {
            table: dynamic_table(schema, position),
            columns: def.columns.clone(),
            guarded: Guarded::of(&places, def.row_size()),
            places,
            indexes: dynamic_indexes(schema, position).into_iter().zip(columns_of).collect(),
        }
    }

    /// The table's handle.
    pub fn handle(&self) -> &Table<Dynamic> {
        &self.table
    }

    /// Its columns.
    pub fn columns(&self) -> &[ColumnDef] {
        &self.columns
    }

    /// The handles of its indexes.
    pub fn indexes(&self) -> impl Iterator<Item = &Index<Dynamic>> {
        self.indexes.iter().map(|(index, _)| index)
    }

    /// Gives the values of a row to `read`.
    ///
    /// # Errors
    /// `NoSuchRow`.
    pub fn read<S: Store, T>(
        &self,
        store: &S,
        row: RowId,
        read: impl FnOnce(&[Value<'_>]) -> T,
    ) -> Result<T> {
        let row = store.pin(&self.table, row)?;
        let values: Vec<_> =
            (0..self.columns.len()).map(|i| read_value(row.pin(), &self.columns, i)).collect();
        Ok(read(&values))
    }

    /// Inserts a row with all its index entries.
    ///
    /// # Errors
    /// A value its column does not admit (before anything is changed), or what the store refuses.
    pub fn insert<S: Store>(&self, store: &mut S, values: &[Value<'_>]) -> Result<RowId> {
        self.verify(values)?;
        self.verify_key_lengths(values)?;
        self.verify_unique(store, values, None)?;
        let row = store.create(&self.table, |row| self.write_inline(row, values))?;
        self.write_variable(store, row, values)?;
        for (index, columns) in &self.indexes {
            store.insert(index, &self.key(columns, values), row)?;
        }
        Ok(row)
    }

    /// Replaces a row's values; index entries whose keys change move.
    ///
    /// # Errors
    /// As [`DynamicTable::insert`], and `NoSuchRow`.
    pub fn update<S: Store>(&self, store: &mut S, row: RowId, values: &[Value<'_>]) -> Result<()> {
        self.verify(values)?;
        self.verify_key_lengths(values)?;
        self.verify_unique(store, values, Some(row))?;
        let moved = self.moved_entries(store, row, Some(values))?;
        for (index, old) in &moved {
            store.remove(index, &borrowed(old), row)?;
        }
        let whole = Fields::whole(self.table.row_size());
        store.update(&self.table, row, whole, |row| self.write_inline(row, values))?;
        self.write_variable(store, row, values)?;
        for (index, columns) in &self.indexes {
            if moved.iter().any(|(moved, _)| moved.position() == index.position()) {
                store.insert(index, &self.key(columns, values), row)?;
            }
        }
        Ok(())
    }

    /// Deletes a row with all its index entries.
    ///
    /// # Errors
    /// `NoSuchRow`.
    pub fn delete<S: Store>(&self, store: &mut S, row: RowId) -> Result<()> {
        for (index, old) in &self.moved_entries(store, row, None)? {
            store.remove(index, &borrowed(old), row)?;
        }
        store.delete(&self.table, row)
    }

    /// Verifies a row that was made by other calls, and adds its index entries.
    ///
    /// # Errors
    /// A value its column does not admit, or what the store refuses; what was done until then is
    /// for its transaction to undo.
    pub fn enter<S: Store>(&self, store: &mut S, row: RowId) -> Result<()> {
        self.verify_stored(store, row, &(0..self.table.row_size()))?;
        for (index, columns) in &self.indexes {
            let key = self.stored_key(store, row, columns)?;
            store.insert(index, &borrowed(&key), row)?;
        }
        Ok(())
    }

    /// Whether a change of a row's bytes from `start` to before `end` asks for
    /// [`DynamicTable::change`]; else it moves no index entry, and leaves no value that its column does
    /// not admit.
    #[inline(always)]
    pub fn follows(&self, start: usize, end: usize) -> bool {
        self.guarded.may_hold(start, end) && self.touches_guarded(start..end)
    }

    /// What [`Guarded::may_hold`] says, to the byte: columns that share a bit are distinguished.
    #[inline(never)]
    fn touches_guarded(&self, bytes: Range<usize>) -> bool {
        self.places.iter().any(|place| place.is_guarded() && place.lies_in(&bytes))
    }

    /// Lets `change` change a row by other calls, within `bytes` of its fixed part and the values
    /// whose handles lie there; verifies what is there then and moves the index entries whose keys
    /// have changed.
    ///
    /// # Errors
    /// As [`DynamicTable::enter`], and `NoSuchRow`.
    pub fn change<S: Store>(
        &self,
        store: &mut S,
        row: RowId,
        bytes: Range<usize>,
        change: impl FnOnce(&mut S) -> Result<()>,
    ) -> Result<()> {
        store.pin(&self.table, row)?;
        let mut before = Vec::new();
        for (index, columns) in &self.indexes {
            if columns.iter().any(|&column| self.places[column].lies_in(&bytes)) {
                before.push((index, columns, self.stored_key(store, row, columns)?));
            }
        }
        change(store)?;
        self.verify_stored(store, row, &bytes)?;
        for (index, columns, before) in before {
            let after = self.stored_key(store, row, columns)?;
            let (before, after) = (borrowed(&before), borrowed(&after));
            if before != after {
                store.remove(index, &before, row)?;
                store.insert(index, &after, row)?;
            }
        }
        Ok(())
    }

    /// All row ids, in the store's own order.
    ///
    /// # Errors
    /// What the store fails with.
    pub fn row_ids<S: Store>(&self, store: &mut S) -> Result<Vec<RowId>> {
        let mut ids = Vec::new();
        store.rows(&self.table, |row| {
            ids.push(row);
            ControlFlow::Continue(())
        })?;
        Ok(ids)
    }

    fn key<'a>(&self, columns: &[usize], values: &[Value<'a>]) -> Vec<Value<'a>> {
        columns.iter().map(|&column| values[column]).collect()
    }

    /// The indexes whose key of the stored row differs from that of `values` (all, without values),
    /// with the stored key.
    fn moved_entries<S: Store>(
        &self,
        store: &S,
        row: RowId,
        values: Option<&[Value<'_>]>,
    ) -> Result<Vec<(&Index<Dynamic>, Vec<OwnedValue>)>> {
        store.pin(&self.table, row)?; // also where there is no index
        let mut moved = Vec::new();
        for (index, columns) in &self.indexes {
            let stored = self.stored_key(store, row, columns)?;
            if values.is_none_or(|values| borrowed(&stored) != self.key(columns, values)) {
                moved.push((index, stored));
            }
        }
        Ok(moved)
    }

    /// Refuses a key longer than an index takes; the error names the column that makes it so.
    fn verify_key_lengths(&self, values: &[Value<'_>]) -> Result<()> {
        // No other value takes more bytes, and each byte of a text takes two at most.
        let bytes_most = |&column: &usize| match values[column] {
            Value::Text(text) => self.columns[column].sql.width() + text.len() * 2 + 3,
            Value::Bytes(bytes) => self.columns[column].sql.width() + bytes.len() * 2 + 3,
            _ => 17,
        };
        for (index, columns) in &self.indexes {
            if columns.iter().map(bytes_most).sum::<usize>() <= KEY_BYTES_MAX {
                continue;
            }
            let (key, mut bytes) = (self.key(columns, values), Vec::new());
            for (i, &column) in columns.iter().enumerate() {
                bytes.clear();
                let fit = Dynamic::encode(index.shape(), &key, i + 1, &mut bytes);
                if fit != Fit::Within || bytes.len() > KEY_BYTES_MAX {
                    return Err(self.out_of_range(column));
                }
            }
        }
        Ok(())
    }

    /// Refuses a key another row has in a unique index.
    fn verify_unique<S: Store>(
        &self,
        store: &mut S,
        values: &[Value<'_>],
        own: Option<RowId>,
    ) -> Result<()> {
        for (index, columns) in &self.indexes {
            if !Dynamic::unique(index.shape()) {
                continue;
            }
            let found = store.lookup(index, &self.key(columns, values))?;
            if found.is_some() && found != own {
                return Err(Error::Duplicate { index: index.position() as u32 });
            }
        }
        Ok(())
    }

    /// The values of some columns of a row.
    fn stored_key<S: Store>(
        &self,
        store: &S,
        row: RowId,
        columns: &[usize],
    ) -> Result<Vec<OwnedValue>> {
        let row = store.pin(&self.table, row)?;
        let value = |&column: &usize| OwnedValue::of(&read_value(row.pin(), &self.columns, column));
        Ok(columns.iter().map(value).collect())
    }

    /// Refuses a row whose columns in `bytes` hold values that they do not admit.
    fn verify_stored<S: Store>(&self, store: &S, row: RowId, bytes: &Range<usize>) -> Result<()> {
        let is_in_doubt = |place: &Place| !place.admits_all && place.lies_in(bytes);
        if !self.places.iter().any(is_in_doubt) {
            return Ok(());
        }
        let row = store.pin(&self.table, row)?;
        for (position, _) in self.places.iter().enumerate().filter(|(_, place)| is_in_doubt(place))
        {
            self.verify_value(position, &read_value(row.pin(), &self.columns, position))?;
        }
        Ok(())
    }

    /// Refuses a value that its column does not admit.
    fn verify_value(&self, position: usize, value: &Value<'_>) -> Result<()> {
        match admits(&self.columns[position], value) {
            Admission::Yes => Ok(()),
            Admission::WrongType => Err(self.wrong_type(position)),
            Admission::OutOfRange => Err(self.out_of_range(position)),
        }
    }

    fn wrong_type(&self, column: usize) -> Error {
        Error::WrongType { table: self.table.position() as u32, column: column as u32 }
    }

    fn out_of_range(&self, column: usize) -> Error {
        Error::OutOfRange { table: self.table.position() as u32, column: column as u32 }
    }

    /// Refuses values their columns do not admit.
    fn verify(&self, values: &[Value<'_>]) -> Result<()> {
        if values.len() != self.columns.len() {
            return Err(self.wrong_type(values.len().min(self.columns.len())));
        }
        values
            .iter()
            .enumerate()
            .try_for_each(|(position, value)| self.verify_value(position, value))
    }

    /// Writes every column that lies inside the row.
    fn write_inline(&self, row: &mut RowMut<'_, Dynamic>, values: &[Value<'_>]) {
        let bytes = row.bytes_mut();
        for (position, (column, value)) in self.columns.iter().zip(values).enumerate() {
            if column.is_dropped() {
                continue;
            }
            if column.nullable {
                let bit = presence_bit(&self.columns, position);
                let mark = ((*value == Value::Null) == column.marks_null()) as u8;
                bytes[bit / 8] = (bytes[bit / 8] & !(1 << (bit % 8))) | (mark << (bit % 8));
            }
            write_value(bytes, column_offset(&self.columns, position), column, value);
        }
    }

    fn write_variable<S: Store>(
        &self,
        store: &mut S,
        row: RowId,
        values: &[Value<'_>],
    ) -> Result<()> {
        for (position, (column, value)) in self.columns.iter().zip(values).enumerate() {
            if column.sql.is_variable() && !column.is_dropped() {
                let bytes = match value {
                    Value::Text(text) => text.as_bytes(),
                    Value::Bytes(bytes) => bytes,
                    _ => &[],
                };
                let offset = column_offset(&self.columns, position);
                store.set_variable(&self.table, row, offset, bytes)?;
            }
        }
        Ok(())
    }
}

enum Admission {
    Yes,
    WrongType,
    OutOfRange,
}

/// Whether `column` can hold `value`.
fn admits(column: &ColumnDef, value: &Value<'_>) -> Admission {
    let fits = |fits| if fits { Admission::Yes } else { Admission::OutOfRange };
    let matches = match (column.sql, value) {
        (_, Value::Null) if column.nullable || column.is_dropped() => return Admission::Yes,
        (_, Value::Null) => return Admission::WrongType,
        _ if column.is_dropped() => return Admission::WrongType,
        (SqlType::Char(n) | SqlType::Varchar(n), Value::Text(text)) => {
            return fits(text.len() <= n as usize);
        }
        (SqlType::Text, Value::Text(text)) => return fits(text.len() <= TEXT_BYTES_MAX),
        (SqlType::Bytes, Value::Bytes(bytes)) => return fits(bytes.len() <= TEXT_BYTES_MAX),
        (SqlType::Decimal { precision, scale }, Value::Decimal { units, scale: given }) => {
            if *given != scale {
                return Admission::WrongType;
            }
            if units.unsigned_abs() >= 10u128.pow(precision as u32) {
                return Admission::OutOfRange;
            }
            true
        }
        (SqlType::Boolean, Value::Boolean(_))
        | (SqlType::SmallInt | SqlType::Integer | SqlType::BigInt, Value::Integer(_))
        | (SqlType::Double, Value::Double(_))
        | (SqlType::Date, Value::Date(_))
        | (SqlType::Timestamp, Value::Timestamp(_))
        | (SqlType::Uuid, Value::Uuid(_)) => true,
        _ => false,
    };
    if !matches {
        return Admission::WrongType;
    }
    let range = column.range.or(column.sql.integer_range());
    match (range, value.integer()) {
        (Some((low, high)), Some(units)) => fits((low..=high).contains(&units)),
        _ => Admission::Yes,
    }
}

/// Writes an admitted value; null leaves zeros.
fn write_value(bytes: &mut [u8], offset: usize, column: &ColumnDef, value: &Value<'_>) {
    let (sql, width, default) = (column.sql, column.sql.width(), column.default_bits());
    match *value {
        Value::Text(text) if matches!(sql, SqlType::Char(_)) => {
            bytes[offset..offset + width].fill(b' ');
            bytes[offset..offset + text.len()].copy_from_slice(text.as_bytes());
        }
        Value::Text(text) => {
            if let SqlType::Varchar(n) = sql {
                write_varchar(bytes, offset, n, text.as_bytes());
            }
        }
        Value::Bytes(_) => {} // outside the row
        Value::Uuid(uuid) => bytes[offset..offset + width].copy_from_slice(&uuid),
        Value::Double(value) => write_units(bytes, offset, width, value.to_bits() as i128),
        Value::Decimal { units, .. } => {
            write_units(bytes, offset, width, units ^ i128::from(default));
        }
        Value::Null if sql.is_variable() => {} // the handle goes with the value it names
        Value::Null => bytes[offset..offset + width].fill(0),
        Value::Boolean(_) | Value::Integer(_) | Value::Date(_) | Value::Timestamp(_) => {
            let units = value.integer().unwrap_or_default() ^ default;
            write_units(bytes, offset, width, i128::from(units));
        }
    }
}

fn borrowed(values: &[OwnedValue]) -> Vec<Value<'_>> {
    values.iter().map(OwnedValue::value).collect()
}

#[cfg(test)]
mod tests;
