//! Rows: reading and writing columns in place.
//!
//! A set presence bit means "not null": a zeroed row has every nullable column null. Variable-length columns hold a
//! handle here; what it means is the store's business ([`RowBytes::variable`]). Where a column that was added has
//! a default, what is stored is the value exclusive-or the default, and a presence bit that is set says null: so
//! zeros are the default. Not here: where each column lies (`schema/layout.rs`).

use std::marker::PhantomData;

use crate::types::{ColumnType, InlineType, Nullable};

/// Names a row for as long as it lives: where a store keeps it, in whatever numbering the store
/// uses. An id of a closure's transaction names no other row later on either; a store's own id, which
/// a procedure has, may. Neither is of use where the other belongs: it names no row there.
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

    /// The id of the same location with `bits` in its upper half, which is empty.
    #[inline(always)]
    pub(crate) fn with_upper_half(self, bits: u32) -> Self {
        Self(self.0 | u64::from(bits) << 32)
    }
}

/// A column of table `R` with type `T`: its place in the row.
#[derive(Debug)]
pub struct Column<R, T> {
    position: u16,
    offset: u32,
    presence: u32,
    /// [`ColumnDef::marks_null`](crate::schema::ColumnDef::marks_null).
    marks_null: bool,
    /// [`ColumnDef::default_bits`](crate::schema::ColumnDef::default_bits).
    default_bits: i64,
    marker: PhantomData<fn() -> (R, T)>,
}

impl<R, T> Clone for Column<R, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R, T> Copy for Column<R, T> {}

impl<R, T> Column<R, T> {
    /// The column that lies there; what the numbers mean is said at the fields.
    pub(crate) const fn placed(
        position: u16,
        offset: u32,
        presence: u32,
        marks_null: bool,
        default_bits: i64,
    ) -> Self {
        Self { position, offset, presence, marks_null, default_bits, marker: PhantomData }
    }

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

    /// The same column as one of another type with the same stored form, which a library over this
    /// crate knows it has.
    #[inline(always)]
    pub const fn retyped<U>(self) -> Column<R, U> {
        Column {
            position: self.position,
            offset: self.offset,
            presence: self.presence,
            marks_null: self.marks_null,
            default_bits: self.default_bits,
            marker: PhantomData,
        }
    }

    /// The bits that a stored value is exclusive-ored with; 0 unless there is a default.
    #[inline(always)]
    pub(crate) const fn default_bits(self) -> i64 {
        self.default_bits
    }

    #[inline(always)]
    pub(crate) fn is_present(self, row: &[u8]) -> bool {
        let is_set = row[self.presence as usize / 8] & (1 << (self.presence % 8)) != 0;
        is_set != self.marks_null
    }

    #[inline(always)]
    pub(crate) fn set_present(self, row: &mut [u8], present: bool) {
        let (byte, bit) = (self.presence as usize / 8, self.presence % 8);
        row[byte] = (row[byte] & !(1 << bit)) | (((present != self.marks_null) as u8) << bit);
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

    /// What the store pinned, without the type of its table.
    #[inline(always)]
    pub fn into_pin(self) -> P {
        self.pin
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
    #[inline(always)]
    pub const fn with<T: ColumnType>(self, column: Column<R, T>) -> Self {
        let wider = self.cover(column.offset, column.offset + const { T::SQL.width() as u32 });
        if T::NULLABLE {
            let byte = column.presence / 8;
            return wider.cover(byte, byte + 1);
        }
        wider
    }

    /// These and the bytes from `start` to before `end`.
    #[inline(always)]
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

    /// Says whether a nullable column holds a value; needed for those only whose values lie outside
    /// the row (`Store::set_variable` writes the value itself).
    ///
    /// # Panics
    /// As [`RowMut::set`].
    #[inline]
    pub fn set_present<T: ColumnType>(&mut self, column: Column<R, Nullable<T>>, present: bool) {
        let byte = column.presence / 8;
        assert!(
            self.fields.start <= byte && byte < self.fields.end,
            "column was not named in the update"
        );
        column.set_present(self.bytes, present);
    }

    /// The value of an inline `column` as it stands.
    #[inline(always)]
    pub fn get<T: InlineType>(&self, column: Column<R, T>) -> T::Value<'_> {
        T::read(self, column)
    }

    /// The bytes that may be changed, for callers that know the layout at run time. No user is one: among
    /// them are the handles of values outside the row.
    ///
    /// ```compile_fail
    /// fn overwrite<R>(row: &mut tombolo_storage::row::RowMut<'_, R>) {
    ///     row.bytes_mut().fill(1);
    /// }
    /// ```
    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.fields.start()..self.fields.end()]
    }
}

/// The row as one of another type with the same layout, which a library over this crate knows it has;
/// `fields` are those of `row`'s that may be changed.
#[inline(always)]
pub fn retyped<'a, R, Q>(row: &'a mut RowMut<'_, R>, fields: Fields<Q>) -> RowMut<'a, Q> {
    RowMut::new(row.bytes_mut(), fields)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{
        ColumnDef, DeclaredTable, TableDef, column_offset, presence_bit, row_size,
    };
    use crate::types::{BigInt, Boolean, Text};

    crate::table! {
        /// Ten nullable columns, so two bytes of presence bits; hot columns in between.
        struct Wide = "wide" {
            A: Nullable<SmallInt>;
            B: Varchar<300>;
            C: Nullable<Integer> => hot;
            D: Boolean;
            E: Nullable<Decimal<18, 2>>;
            F: Nullable<Text> => hot;
            G: Nullable<Char<7>>;
            H: Nullable<Uuid>;
            I: BigInt => hot;
            J: Nullable<Boolean>;
            K: Nullable<Date>;
            L: Nullable<Varchar<255>>;
            M: Nullable<Timestamp> => hot;
        }
    }

    /// Offset and presence bit of every column, as the constants have them.
    fn declared() -> Vec<(usize, usize)> {
        macro_rules! places {
            ($($column:ident)+) => {
                vec![$((Wide::$column.offset(), Wide::$column.presence as usize)),+]
            };
        }
        places!(A B C D E F G H I J K L M)
    }

    #[test]
    fn declared_places_are_those_computed_at_run_time() {
        let def = TableDef::of::<Wide>();
        for (position, (offset, presence)) in declared().into_iter().enumerate() {
            assert_eq!(offset, column_offset(&def.columns, position), "column {position}");
            assert_eq!(presence, presence_bit(&def.columns, position), "column {position}");
        }
        assert_eq!(Wide::M.position(), 12);
        assert_eq!(
            (Wide::SIZE, def.row_size()),
            (row_size(Wide::COLUMNS), row_size(Wide::COLUMNS))
        );
    }

    #[test]
    fn every_byte_of_a_row_belongs_to_one_column_and_hot_ones_come_first() {
        let mut owners = vec![0; Wide::SIZE];
        owners[..2].fill(1); // presence bits of ten columns
        let is_hot = |position: usize| Wide::COLUMNS[position].hot;
        let (mut hot_end, mut cold_start) = (0, usize::MAX);
        for (position, (offset, _)) in declared().into_iter().enumerate() {
            let end = offset + Wide::COLUMNS[position].sql.width();
            owners[offset..end].iter_mut().for_each(|owner| *owner += 1);
            if is_hot(position) {
                hot_end = hot_end.max(end);
            } else {
                cold_start = cold_start.min(offset);
            }
        }
        assert!(owners.iter().all(|&owners| owners == 1), "{owners:?}");
        assert_eq!((hot_end, cold_start), (2 + 4 + 8 + 8 + 8, hot_end));
    }

    crate::table! {
        /// What zeros stand for, by type.
        struct Defaults = "defaults" {
            ID: Integer;
            COUNT: Integer => or(-5);
            RATE: Nullable<Decimal<5, 2>> => or(100);
            SOLD: Boolean => or(1);
            NEXT: Nullable<Boolean> => or(0);
            SINCE: Date => or(1);
        }
    }

    #[test]
    fn zeros_stand_for_defaults_and_everything_else_for_itself() {
        let mut bytes = vec![0; Defaults::SIZE];
        let mut row = RowMut::new(&mut bytes, Fields::<Defaults>::whole(Defaults::SIZE));
        let all = |row: &RowMut<'_, Defaults>| {
            (
                row.get(Defaults::COUNT),
                row.get(Defaults::RATE),
                row.get(Defaults::SOLD),
                row.get(Defaults::NEXT),
                row.get(Defaults::SINCE),
            )
        };
        assert_eq!(all(&row), (-5, Some(100), true, Some(false), 1));
        for given in
            [(0, None, false, None, 0), (i32::MAX, Some(-99_999), true, Some(true), i32::MIN)]
        {
            row.set(Defaults::COUNT, given.0);
            row.set(Defaults::RATE, given.1);
            row.set(Defaults::SOLD, given.2);
            row.set(Defaults::NEXT, given.3);
            row.set(Defaults::SINCE, given.4);
            assert_eq!((row.get(Defaults::ID), all(&row)), (0, given));
            let columns = Defaults::COLUMNS;
            let read = |position| crate::value::read_value(&row, columns, position);
            let date = crate::value::Value::Date(given.4);
            assert_eq!((read(1).integer(), read(5)), (Some(i64::from(given.0)), date));
            assert_eq!(read(2).integer(), given.1);
            assert_eq!(read(4).integer(), given.3.map(i64::from));
        }
    }

    #[test]
    fn a_null_touches_only_its_own_bit() {
        let mut bytes = vec![0; Wide::SIZE];
        let mut row = RowMut::new(&mut bytes, Fields::<Wide>::whole(Wide::SIZE));
        row.set(Wide::M, Some(-1));
        row.set(Wide::A, Some(7));
        assert_eq!(
            (row.get(Wide::A), row.get(Wide::C), row.get(Wide::M)),
            (Some(7), None, Some(-1))
        );
        assert_eq!(bytes[..2], [1, 2]);
        let mut row = RowMut::new(&mut bytes, Fields::<Wide>::whole(Wide::SIZE));
        row.set(Wide::A, None);
        row.set(Wide::J, Some(false));
        assert_eq!((row.get(Wide::A), row.get(Wide::J)), (None, Some(false)));
        assert_eq!(bytes[..2], [1 << 6, 2]);
    }

    #[test]
    fn a_column_that_is_added_moves_no_other() {
        let mut columns = Wide::COLUMNS.to_vec();
        let places = |columns: &[ColumnDef]| -> Vec<_> {
            let place = |at| (column_offset(columns, at), presence_bit(columns, at));
            (0..columns.len()).map(place).collect()
        };
        for more in [
            ColumnDef::of::<Nullable<Text>>("n"),
            ColumnDef::of::<BigInt>("o"),
            ColumnDef::of::<Nullable<Boolean>>("p"),
        ] {
            let (before, size) = (places(&columns), row_size(&columns));
            let (width, sql) = (more.sql.width(), more.sql);
            columns.push(more.added());
            let after = places(&columns);
            assert_eq!(after[..before.len()], before);
            let (offset, bit) = after[before.len()];
            let is_null = columns[before.len()].nullable;
            let expected = match size + usize::from(is_null) {
                end if sql.is_variable() => end.next_multiple_of(8),
                end => end,
            };
            assert_eq!((offset, row_size(&columns)), (expected, expected + width));
            // The byte in front of it is its own, whatever lies before that.
            assert!(!is_null || bit == (offset - 1) * 8 && offset > size);
        }
    }

    #[test]
    fn fields_span_the_columns_and_their_presence_bits() {
        let none = Fields::<Wide>::none();
        assert_eq!((none.start(), none.end()), (0, 0));
        let one = none.with(Wide::I);
        assert_eq!((one.start(), one.end()), (Wide::I.offset(), Wide::I.offset() + 8));
        let two = one.with(Wide::D);
        assert_eq!((two.start(), two.end()), (Wide::I.offset(), Wide::D.offset() + 1));
        let nullable = none.with(Wide::M);
        assert_eq!((nullable.start(), nullable.end()), (1, Wide::M.offset() + 8));
        let whole = Fields::<Wide>::whole(Wide::SIZE).with(Wide::A);
        assert_eq!((whole.start(), whole.end()), (0, Wide::SIZE));
        assert_eq!(RowMut::new(&mut [0; 8], none).bytes_mut(), []);
    }

    #[test]
    #[should_panic(expected = "column was not named in the update")]
    fn a_nullable_column_needs_its_presence_bit_named() {
        let end = Wide::C.offset() as u32 + 4;
        let fields = Fields::<Wide>::none().cover(Wide::C.offset() as u32, end);
        RowMut::new(&mut vec![0; Wide::SIZE], fields).set(Wide::C, Some(1));
    }

    #[test]
    #[should_panic(expected = "column was not named in the update")]
    fn no_column_can_be_set_where_none_was_named() {
        RowMut::new(&mut vec![0; Wide::SIZE], Fields::<Wide>::none()).set(Wide::D, true);
    }

    #[test]
    fn row_ids_keep_their_location() {
        for location in [0, 1, u32::MAX as u64, u64::MAX - 1] {
            assert_eq!(RowId::new(location).location(), location);
        }
        assert_eq!(size_of::<Option<RowId>>(), 8);
        assert!(std::panic::catch_unwind(|| RowId::new(u64::MAX)).is_err());
    }
}
