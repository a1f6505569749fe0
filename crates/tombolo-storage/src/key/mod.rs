//! Index keys: from typed column values to the two forms an index orders.
//!
//! A key whose columns' declared ranges need at most 64 bits together is *packed* into one integer;
//! every other key is *normalised* into bytes that compare like the columns do. Either way
//! comparing two keys needs no types. The third form, `typed.rs`, is for stores that do compare by
//! type. Nulls sort last and count as equal.
//!
//! Hand-coded search on integer keys is LG-S1's removed form; its conventional form compares the
//! same values by type.

mod normalised;
mod range;
mod typed;

pub use normalised::Normalised;
pub use range::{Edge, KeyPrefix, Range, WHOLE};
pub(crate) use typed::key_length;
pub use typed::{Typed, TypedOrder};

use std::sync::Arc;

use crate::schema::{ColumnDef, IndexDef, TableDef};
use crate::types::{
    BigInt, Boolean, Bytes, Char, ColumnType, Date, Decimal, Double, Integer, Nullable, SmallInt,
    SqlType, Text, Timestamp, Uuid, Varchar, decimal_width,
};
use crate::value::Value;

/// The longest normalised key, in bytes. Keys in another form are refused by the length of their
/// normalised form too, so that every profile refuses the same ones.
pub const KEY_BYTES_MAX: usize = 1_000;

/// How one column enters a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPart {
    /// The column's type.
    pub sql: SqlType,
    /// Whether it may be null.
    pub nullable: bool,
    low: i64,
    /// Largest value minus `low`; a null packs as one more.
    span: u64,
    /// Bits in a packed key; `NOT_PACKED` where the type is no integer or its range too wide.
    bits: u32,
}

const NOT_PACKED: u32 = 1_000;

impl KeyPart {
    /// The part `column` makes.
    pub const fn of(column: &ColumnDef) -> Self {
        let range = match column.range {
            Some(range) => Some(range),
            None => column.sql.integer_range(),
        };
        let (low, span, bits) = match range {
            Some((low, high)) => {
                let span = high.wrapping_sub(low) as u64;
                let values = span as u128 + column.nullable as u128;
                (low, span, u128::BITS - values.leading_zeros())
            }
            None => (0, 0, NOT_PACKED),
        };
        Self { sql: column.sql, nullable: column.nullable, low, span, bits }
    }

    /// The parts of an index over `positions` of a table's columns.
    pub const fn sequence<const N: usize>(columns: &[ColumnDef], positions: &[usize]) -> [Self; N] {
        let mut parts =
            [Self { sql: SqlType::Boolean, nullable: false, low: 0, span: 0, bits: 0 }; N];
        let mut i = 0;
        while i < N {
            parts[i] = Self::of(&columns[positions[i]]);
            i += 1;
        }
        parts
    }

    /// Where `value` lies in this part's range.
    fn place_value(&self, value: &Value<'_>) -> Place {
        match (value.integer(), value) {
            (Some(units), _) => self.place(Some(units)),
            (None, Value::Null) if self.nullable => self.place(None),
            // Units of more than 64 bits; a null where none can be sorts last as well.
            (None, Value::Decimal { units, .. }) if *units < 0 => Place::Below,
            (None, _) => Place::Above,
        }
    }

    /// A packed key's columns up to this part's: those before it, packed, and this one as a whole
    /// number, `None` for null; nothing when that is outside its range.
    #[inline(always)]
    pub(crate) fn join(&self, before: u64, units: Option<i64>) -> Option<u64> {
        match self.place(units) {
            Place::Within(distance) => Some(before.unbounded_shl(self.bits) | distance),
            Place::Below | Place::Above => None,
        }
    }

    /// Where `units` (or null, of a nullable part) lies in this part's range.
    #[inline(always)]
    fn place(&self, units: Option<i64>) -> Place {
        match units {
            None => Place::Within(self.span.wrapping_add(1)),
            Some(units) => {
                // One compare for both sides: below `low` the distance wraps around to 2^64 less
                // something, and no range of 64-bit integers is that wide.
                let distance = units.wrapping_sub(self.low) as u64;
                if distance <= self.span {
                    Place::Within(distance)
                } else if units < self.low {
                    Place::Below
                } else {
                    Place::Above
                }
            }
        }
    }
}

enum Place {
    Below,
    Within(u64),
    Above,
}

/// Whether every value of a key is one its column's stored form can hold. No row has a key with a
/// value that is not, yet look-ups and edges may name one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Fit {
    /// Every one is.
    Within,
    /// One is not and sorts before all keys that begin with the bytes appended so far.
    Below,
    /// One is not and sorts after all of them.
    Above,
}

/// The first column of a key, counted in it, with a value that no key of the index has: outside what
/// its column declares, or too long. 0 if there is none.
#[cold]
pub(crate) fn unfit_column<I: IndexType>(
    shape: &I::Shape,
    key: I::Key<'_>,
    columns: usize,
) -> usize {
    let is_packed = packed_bits(I::parts(shape)).is_some();
    let mut bytes = Vec::new();
    let mut is_unfit = |columns: usize| {
        // If no key begins with these values, no key lies between their two edges.
        if is_packed
            && I::position(shape, key, columns, false) == I::position(shape, key, columns, true)
        {
            return true;
        }
        bytes.clear();
        let fit = I::encode(shape, key, columns, &mut bytes);
        fit != Fit::Within || bytes.len() > KEY_BYTES_MAX
    };
    (0..columns).find(|&at| is_unfit(at + 1)).unwrap_or(0)
}

/// Bits of a packed key, when all parts fit one integer together.
pub const fn packed_bits(parts: &[KeyPart]) -> Option<u32> {
    let (mut bits, mut i) = (0, 0);
    while i < parts.len() {
        bits += parts[i].bits;
        i += 1;
    }
    if bits <= 64 { Some(bits) } else { None }
}

/// The types of an index's columns: a tuple of column types.
pub trait KeyColumns: 'static {
    /// One key: a tuple of values.
    type Values<'a>: Copy;
    /// Packs `key`, or nothing when a value is outside its column's range.
    fn pack(key: Self::Values<'_>, parts: &[KeyPart]) -> Option<u64>;
    /// How many packed keys lie before the edge of the first `columns` columns of `key`.
    fn position(key: Self::Values<'_>, parts: &[KeyPart], columns: usize, after: bool) -> u128;
    /// Appends the form `E` of the first `columns` columns of `key`, up to a value that has none.
    fn encode<E: Encoding>(key: Self::Values<'_>, columns: usize, out: &mut Vec<u8>) -> Fit;
}

/// A form of values as bytes.
pub trait Encoding {
    /// Appends a whole number of `width` bytes.
    fn integer(value: i128, width: usize, out: &mut Vec<u8>) -> Fit;
    /// Appends a floating-point number. As in PostgreSQL the two zeros are equal, and so are all
    /// NaNs, which sort last.
    fn double(value: f64, out: &mut Vec<u8>) -> Fit;
    /// Appends exactly `width` bytes; a shorter value is padded with blanks as `char` is.
    fn padded(value: &[u8], width: usize, out: &mut Vec<u8>) -> Fit;
    /// Appends any bytes, of which a prefix sorts first.
    fn bytes(value: &[u8], out: &mut Vec<u8>) -> Fit;
}

/// A column type that can be part of a key.
pub trait KeyColumn: ColumnType {
    /// The value as the whole number that packs; `None` for null. Types that do not pack are never
    /// asked.
    fn units(value: Self::Value<'_>) -> Option<i64>;
    /// Appends the value's form `E`, if it has one.
    fn encode<E: Encoding>(value: Self::Value<'_>, out: &mut Vec<u8>) -> Fit;
}

macro_rules! number_key {
    ($($name:ident $(<$(const $g:ident: $t:ty),+>)?, $value:ident => $units:expr, $bytes:expr;)+) => {$(
        impl $(<$(const $g: $t),+>)? KeyColumn for $name $(<$($g),+>)? {
            #[inline(always)]
            fn units($value: Self::Value<'_>) -> Option<i64> {
                Some($units)
            }
            #[inline]
            fn encode<E: Encoding>($value: Self::Value<'_>, out: &mut Vec<u8>) -> Fit {
                E::integer($units as i128, $bytes, out)
            }
        }
    )+};
}

number_key! {
    SmallInt, value => value as i64, 2;
    Integer, value => value as i64, 4;
    BigInt, value => value, 8;
    Date, value => value as i64, 4;
    Timestamp, value => value, 8;
    Boolean, value => value as i64, 1;
    Decimal<const P: u8, const S: u8>, value => value, decimal_width(P);
}

macro_rules! bytes_key {
    ($($name:ident $(<const $g:ident: $t:ty>)?, $value:ident, $out:ident => $encode:expr;)+) => {$(
        impl $(<const $g: $t>)? KeyColumn for $name $(<$g>)? {
            #[inline(always)]
            fn units(_: Self::Value<'_>) -> Option<i64> {
                unreachable!("only keys of whole numbers are packed")
            }
            #[inline]
            fn encode<E: Encoding>($value: Self::Value<'_>, $out: &mut Vec<u8>) -> Fit {
                $encode
            }
        }
    )+};
}

bytes_key! {
    Char<const N: u16>, value, out => E::padded(value, N as usize, out);
    Uuid, value, out => E::padded(&value, 16, out);
    Double, value, out => E::double(value, out);
    Varchar<const N: u16>, value, out => E::bytes(value, out);
    Text, value, out => E::bytes(value, out);
    Bytes, value, out => E::bytes(value, out);
}

impl<T: KeyColumn> KeyColumn for Nullable<T> {
    #[inline(always)]
    fn units(value: Self::Value<'_>) -> Option<i64> {
        value.and_then(T::units)
    }
    #[inline]
    fn encode<E: Encoding>(value: Self::Value<'_>, out: &mut Vec<u8>) -> Fit {
        out.push(value.is_none() as u8);
        value.map_or(Fit::Within, |value| T::encode::<E>(value, out))
    }
}

/// Packs column by column; the position form works on as many as count.
struct Packer {
    packed: u64,
    rest: u32,
}

impl Packer {
    #[inline(always)]
    fn new(parts: &[KeyPart]) -> Self {
        let bits = match packed_bits(parts) {
            Some(bits) => bits,
            None => unreachable!("the key has no packed form"),
        };
        Self { packed: 0, rest: bits }
    }

    #[inline(always)]
    fn push(&mut self, part: &KeyPart, distance: u64) {
        self.packed = self.packed.unbounded_shl(part.bits) | distance;
        self.rest -= part.bits;
    }

    /// The edge behind (`after`) or before all keys that begin like this.
    #[inline(always)]
    fn edge(&self, after: bool) -> u128 {
        (self.packed as u128 + after as u128) << self.rest
    }

    /// Pushes a value, or gives the edge at which one outside the range lies.
    #[inline(always)]
    fn push_or_edge(&mut self, part: &KeyPart, place: Place) -> Result<(), u128> {
        match place {
            Place::Within(distance) => {
                self.push(part, distance);
                Ok(())
            }
            Place::Below => Err(self.edge(false)),
            Place::Above if part.nullable => {
                // Between the largest value and null.
                self.push(part, part.span);
                Err(self.edge(true))
            }
            Place::Above => Err(self.edge(true)),
        }
    }
}

macro_rules! key_columns {
    ($($name:ident $value:ident $position:tt),+) => {
        impl<$($name: KeyColumn),+> KeyColumns for ($($name,)+) {
            // One column is named without a tuple around it.
            type Values<'a> = key_columns!(@values 'a $($name),+);

            #[inline(always)]
            fn pack(key: Self::Values<'_>, parts: &[KeyPart]) -> Option<u64> {
                let key_columns!(@pattern $($value),+) = key;
                let mut packer = Packer::new(parts);
                $(match parts[$position].place($name::units($value)) {
                    Place::Within(distance) => packer.push(&parts[$position], distance),
                    _ => return None,
                })+
                Some(packer.packed)
            }

            #[inline]
            fn position(key: Self::Values<'_>, parts: &[KeyPart], columns: usize, after: bool) -> u128 {
                let key_columns!(@pattern $($value),+) = key;
                let mut packer = Packer::new(parts);
                $(if columns > $position
                    && let Err(edge) = {
                        let place = parts[$position].place($name::units($value));
                        packer.push_or_edge(&parts[$position], place)
                    }
                {
                    return edge;
                })+
                packer.edge(after)
            }

            #[inline]
            fn encode<Form: Encoding>(
                key: Self::Values<'_>,
                columns: usize,
                out: &mut Vec<u8>,
            ) -> Fit {
                let key_columns!(@pattern $($value),+) = key;
                $(if columns > $position {
                    match $name::encode::<Form>($value, out) {
                        Fit::Within => {}
                        outside => return outside,
                    }
                })+
                Fit::Within
            }
        }
    };
    (@values $a:lifetime $name:ident) => { $name::Value<$a> };
    (@values $a:lifetime $($name:ident),+) => { ($($name::Value<$a>,)+) };
    (@pattern $value:ident) => { $value };
    (@pattern $($value:ident),+) => { ($($value,)+) };
}

key_columns!(A a 0);
key_columns!(A a 0, B b 1);
key_columns!(A a 0, B b 1, C c 2);
key_columns!(A a 0, B b 1, C c 2, D d 3);
key_columns!(A a 0, B b 1, C c 2, D d 3, E e 4);
key_columns!(A a 0, B b 1, C c 2, D d 3, E e 4, F f 5);

/// What an index handle knows of its keys: a declared index at compile time, [`Dynamic`] at run
/// time.
pub trait IndexType: 'static {
    /// One key.
    type Key<'a>: Copy;
    /// What is known at run time only.
    type Shape: Clone + std::fmt::Debug + Send;
    /// The index's name.
    fn name(shape: &Self::Shape) -> &str;
    /// How the columns enter the key.
    fn parts(shape: &Self::Shape) -> &[KeyPart];
    /// Whether a key may occur once only.
    fn unique(shape: &Self::Shape) -> bool;
    /// How many values `key` has.
    fn columns(shape: &Self::Shape, key: Self::Key<'_>) -> usize {
        let _ = key;
        Self::parts(shape).len()
    }
    /// Packs `key`, or nothing when a value is outside its column's range.
    fn pack(shape: &Self::Shape, key: Self::Key<'_>) -> Option<u64>;
    /// How many packed keys lie before the edge of the first `columns` columns of `key`.
    fn position(shape: &Self::Shape, key: Self::Key<'_>, columns: usize, after: bool) -> u128;
    /// Appends the form `E` of the first `columns` columns of `key`, up to a value that has none.
    fn encode_as<E: Encoding>(
        shape: &Self::Shape,
        key: Self::Key<'_>,
        columns: usize,
        out: &mut Vec<u8>,
    ) -> Fit;
    /// Appends the normalised form of the first `columns` columns of `key`, up to a value that has
    /// none.
    #[inline]
    fn encode(shape: &Self::Shape, key: Self::Key<'_>, columns: usize, out: &mut Vec<u8>) -> Fit {
        Self::encode_as::<Normalised>(shape, key, columns, out)
    }
}

/// A table or index known at run time only.
#[derive(Clone, Copy, Debug)]
pub struct Dynamic;

/// A run-time index: its name and parts.
#[derive(Clone, Debug)]
pub struct IndexShape {
    pub(crate) name: Arc<str>,
    pub(crate) parts: Arc<[KeyPart]>,
    pub(crate) unique: bool,
}

impl IndexShape {
    /// The shape of `index` of `table`.
    pub fn of(table: &TableDef, index: &IndexDef) -> Self {
        let part = |&column: &usize| KeyPart::of(&table.columns[column]);
        Self {
            name: index.name.as_ref().into(),
            parts: index.columns.iter().map(part).collect(),
            unique: index.unique,
        }
    }

    /// The first `columns` parts with their values.
    fn counted<'a>(
        &'a self,
        key: &'a [Value<'a>],
        columns: usize,
    ) -> impl Iterator<Item = (&'a KeyPart, &'a Value<'a>)> {
        let columns = if columns == WHOLE { key.len() } else { columns }.min(self.parts.len());
        assert!(key.len() >= columns, "a key has fewer values than columns count");
        self.parts.iter().zip(key).take(columns)
    }
}

impl IndexType for Dynamic {
    type Key<'a> = &'a [Value<'a>];
    type Shape = IndexShape;

    fn name(shape: &IndexShape) -> &str {
        &shape.name
    }
    fn parts(shape: &IndexShape) -> &[KeyPart] {
        &shape.parts
    }
    fn unique(shape: &IndexShape) -> bool {
        shape.unique
    }
    fn columns(_: &IndexShape, key: &[Value<'_>]) -> usize {
        key.len()
    }
    fn pack(shape: &IndexShape, key: &[Value<'_>]) -> Option<u64> {
        assert_eq!(key.len(), shape.parts.len(), "a key has one value per column of its index");
        let mut packer = Packer::new(&shape.parts);
        for (part, value) in shape.parts.iter().zip(key) {
            match part.place_value(value) {
                Place::Within(distance) => packer.push(part, distance),
                _ => return None,
            }
        }
        Some(packer.packed)
    }
    fn position(shape: &IndexShape, key: &[Value<'_>], columns: usize, after: bool) -> u128 {
        let mut packer = Packer::new(&shape.parts);
        for (part, value) in shape.counted(key, columns) {
            if let Err(edge) = packer.push_or_edge(part, part.place_value(value)) {
                return edge;
            }
        }
        packer.edge(after)
    }
    fn encode_as<E: Encoding>(
        shape: &IndexShape,
        key: &[Value<'_>],
        columns: usize,
        out: &mut Vec<u8>,
    ) -> Fit {
        for (part, value) in shape.counted(key, columns) {
            match encode_value::<E>(part, value, out) {
                Fit::Within => {}
                outside => return outside,
            }
        }
        Fit::Within
    }
}

/// Appends the form `E` of a dynamic value, if it has one. A value no such column can have has none
/// and sorts last.
fn encode_value<E: Encoding>(part: &KeyPart, value: &Value<'_>, out: &mut Vec<u8>) -> Fit {
    if part.nullable {
        out.push(matches!(value, Value::Null) as u8);
    }
    match (part.sql, *value) {
        (_, Value::Null) if part.nullable => Fit::Within,
        (SqlType::Double, Value::Double(value)) => E::double(value, out),
        (SqlType::Char(n), Value::Text(text)) => E::padded(text.as_bytes(), n as usize, out),
        (SqlType::Char(n), Value::Bytes(value)) => E::padded(value, n as usize, out),
        (SqlType::Varchar(_) | SqlType::Text | SqlType::Bytes, Value::Text(text)) => {
            E::bytes(text.as_bytes(), out)
        }
        (SqlType::Varchar(_) | SqlType::Text | SqlType::Bytes, Value::Bytes(value)) => {
            E::bytes(value, out)
        }
        (SqlType::Uuid, Value::Uuid(uuid)) => E::padded(&uuid, 16, out),
        (SqlType::Decimal { .. }, Value::Decimal { units, .. }) => {
            E::integer(units, part.sql.width(), out)
        }
        (sql, value) => match value.integer() {
            Some(units) if sql.integer_range().is_some() => {
                E::integer(units as i128, sql.width(), out)
            }
            _ => Fit::Above,
        },
    }
}

#[cfg(test)]
mod tests;
