//! Rows: where each column lies, and reading and writing rows in place.
//!
//! A row is a run of bytes: presence bits of the nullable columns, then the *hot* columns (those
//! transactions touch, kept together so that they share a cache line), then the others, each
//! without padding. A set presence bit means "not null": a zeroed row has every nullable column
//! null. The layout is a function of the column list alone, so a schema declared in Rust and the
//! same schema described at run time agree byte for byte. Variable-length columns hold a handle
//! here; what it means is the store's business ([`RowBytes::variable`]).

use std::marker::PhantomData;

use crate::schema::ColumnDef;
use crate::types::{ColumnType, InlineType};

/// Names a row for as long as it lives: where a store keeps it, in whatever numbering the store
/// uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(std::num::NonZeroU64);

impl RowId {
    /// The row id of the store's location `location`.
    ///
    /// # Panics
    /// When `location` is `u64::MAX`.
    #[inline(always)]
    pub const fn new(location: u64) -> Self {
        match std::num::NonZeroU64::new(location.wrapping_add(1)) {
            Some(id) => Self(id),
            None => panic!("u64::MAX is no location"),
        }
    }

    /// The location `new` was given.
    #[inline(always)]
    pub const fn location(self) -> u64 {
        self.0.get() - 1
    }
}

/// Bytes of presence bits in front of a row.
const fn presence_bytes(columns: &[ColumnDef]) -> usize {
    let (mut nullable, mut i) = (0, 0);
    while i < columns.len() {
        nullable += columns[i].nullable as usize;
        i += 1;
    }
    nullable.div_ceil(8)
}

/// Bytes of the fixed part of a row with these columns.
pub const fn row_size(columns: &[ColumnDef]) -> usize {
    let (mut size, mut i) = (presence_bytes(columns), 0);
    while i < columns.len() {
        size += columns[i].sql.width();
        i += 1;
    }
    size
}

/// Offset of the column at `position`: hot columns first, each group in schema order.
pub const fn column_offset(columns: &[ColumnDef], position: usize) -> usize {
    let (mut offset, mut i) = (presence_bytes(columns), 0);
    while i < columns.len() {
        let before = match (columns[i].hot, columns[position].hot) {
            (true, false) => true,
            (false, true) => false,
            _ => i < position,
        };
        if before {
            offset += columns[i].sql.width();
        }
        i += 1;
    }
    offset
}

/// Number of the presence bit of the (nullable) column at `position`.
pub const fn presence_bit(columns: &[ColumnDef], position: usize) -> usize {
    let (mut bit, mut i) = (0, 0);
    while i < position {
        bit += columns[i].nullable as usize;
        i += 1;
    }
    bit
}

/// A column of table `R` with type `T`: its place in the row.
#[derive(Debug)]
pub struct Column<R, T> {
    position: u16,
    offset: u32,
    presence: u16,
    marker: PhantomData<fn() -> (R, T)>,
}

impl<R, T> Clone for Column<R, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R, T> Copy for Column<R, T> {}

impl<R, T: ColumnType> Column<R, T> {
    /// The column at `position` of a table with these columns; checked at compile time where used
    /// in a constant.
    pub const fn new(columns: &[ColumnDef], position: usize) -> Self {
        assert!(position < columns.len(), "no such column");
        assert!(columns[position].nullable == T::NULLABLE, "nullable where the type is not");
        Self {
            position: position as u16,
            offset: column_offset(columns, position) as u32,
            presence: presence_bit(columns, position) as u16,
            marker: PhantomData,
        }
    }
}

impl<R, T> Column<R, T> {
    /// Position in the table, counted from 0.
    #[inline(always)]
    pub const fn position(self) -> usize {
        self.position as usize
    }

    /// Offset in the row, in bytes.
    #[inline(always)]
    pub const fn offset(self) -> usize {
        self.offset as usize
    }

    #[inline(always)]
    pub(crate) const fn retyped<U>(self) -> Column<R, U> {
        Column {
            position: self.position,
            offset: self.offset,
            presence: self.presence,
            marker: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn is_present(self, row: &[u8]) -> bool {
        row[self.presence as usize / 8] & (1 << (self.presence % 8)) != 0
    }

    #[inline(always)]
    pub(crate) fn set_present(self, row: &mut [u8], present: bool) {
        let (byte, bit) = (self.presence as usize / 8, self.presence % 8);
        row[byte] = (row[byte] & !(1 << bit)) | ((present as u8) << bit);
    }
}

/// The bytes of a row that a store holds in place for the reader.
pub trait RowBytes {
    /// The fixed part.
    fn fixed(&self) -> &[u8];
    /// The value behind the handle a variable-length column holds.
    fn variable(&self, handle: u64) -> &[u8];
}

/// A row of table `R`, read in place: `P` is what the store holds on to (a pointer, a pinned page)
/// meanwhile.
#[derive(Debug)]
pub struct Row<R, P> {
    pin: P,
    marker: PhantomData<fn() -> R>,
}

impl<R, P: RowBytes> Row<R, P> {
    /// Wraps what a store pinned.
    #[inline(always)]
    pub const fn new(pin: P) -> Self {
        Self { pin, marker: PhantomData }
    }

    /// The value of `column`.
    #[inline(always)]
    pub fn get<T: ColumnType>(&self, column: Column<R, T>) -> T::Value<'_> {
        T::read(&self.pin, column)
    }

    /// The stored bytes, for callers that know the layout at run time.
    #[inline(always)]
    pub fn pin(&self) -> &P {
        &self.pin
    }
}

/// The contiguous part of a row that an update may change: undo and log keep exactly these bytes.
#[derive(Debug)]
pub struct Fields<R> {
    start: u32,
    end: u32,
    marker: PhantomData<fn() -> R>,
}

impl<R> Clone for Fields<R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for Fields<R> {}

impl<R> Fields<R> {
    /// No column.
    pub const fn none() -> Self {
        Self { start: u32::MAX, end: 0, marker: PhantomData }
    }

    /// A whole row of `size` bytes.
    #[inline(always)]
    pub const fn whole(size: usize) -> Self {
        Self { start: 0, end: size as u32, marker: PhantomData }
    }

    /// These and `column` (and, where it may be null, its presence bit).
    pub const fn with<T: ColumnType>(self, column: Column<R, T>) -> Self {
        let wider = self.cover(column.offset, column.offset + T::SQL.width() as u32);
        if T::NULLABLE {
            let byte = column.presence as u32 / 8;
            return wider.cover(byte, byte + 1);
        }
        wider
    }

    /// These and the bytes from `start` to before `end`.
    pub const fn cover(self, start: u32, end: u32) -> Self {
        Self {
            start: if start < self.start { start } else { self.start },
            end: if end > self.end { end } else { self.end },
            marker: PhantomData,
        }
    }

    /// First byte; that of the row when there is no column.
    #[inline(always)]
    pub const fn start(self) -> usize {
        if self.start > self.end { 0 } else { self.start as usize }
    }

    /// One past the last byte; the same as `start` when there is no column.
    #[inline(always)]
    pub const fn end(self) -> usize {
        self.end as usize
    }
}

/// A row of table `R` being written in place: only within the fields the update named.
#[derive(Debug)]
pub struct RowMut<'a, R> {
    bytes: &'a mut [u8],
    fields: Fields<R>,
}

impl<'a, R> RowMut<'a, R> {
    /// Opens `bytes`, the fixed part of a row, for changes within `fields`.
    #[inline(always)]
    pub fn new(bytes: &'a mut [u8], fields: Fields<R>) -> Self {
        Self { bytes, fields }
    }

    /// Writes `value` into `column`.
    ///
    /// # Panics
    /// When the update did not name the column: undo and log would not know of the change.
    #[inline(always)]
    pub fn set<T: InlineType>(&mut self, column: Column<R, T>, value: T::Value<'_>) {
        let needed = Fields::<R>::none().with(column);
        assert!(
            self.fields.start <= needed.start && needed.end <= self.fields.end,
            "column was not named in the update"
        );
        T::write(self.bytes, column, value);
    }

    /// The value of an inline `column` as it stands.
    #[inline(always)]
    pub fn get<T: InlineType>(&self, column: Column<R, T>) -> T::Value<'_> {
        T::read(self, column)
    }

    /// The bytes that may be changed, for callers that know the layout at run time.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.fields.start()..self.fields.end()]
    }
}

impl<R> RowBytes for RowMut<'_, R> {
    #[inline(always)]
    fn fixed(&self) -> &[u8] {
        self.bytes
    }
    /// # Panics
    /// Always: `get` admits inline columns only, so nothing can ask.
    fn variable(&self, _: u64) -> &[u8] {
        unreachable!("RowMut::get admits inline columns only")
    }
}
