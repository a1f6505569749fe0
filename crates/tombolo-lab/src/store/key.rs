//! A key's values, whatever index it is of: written down in the typed form and read back.
//!
//! Not here: what they are for (`erased.rs`).

use tombolo_storage::key::{Fit, IndexType, KeyPart, Typed};
use tombolo_storage::types::SqlType;
use tombolo_storage::value::Value;

/// The values of the first columns of a key, as far as rows can have them.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyValues<'i> {
    parts: &'i [KeyPart],
    bytes: Vec<u8>,
}

impl<'i> KeyValues<'i> {
    /// The values of the first `columns` columns of `key`, up to the first that no row can have; `Fit`
    /// says whether there is one.
    pub(super) fn of<I: IndexType>(
        shape: &'i I::Shape,
        key: I::Key<'_>,
        columns: usize,
    ) -> (Self, Fit) {
        let (parts, mut bytes) = (I::parts(shape), Vec::new());
        let fit = I::encode_as::<Typed>(shape, key, columns, &mut bytes);
        (Self { parts, bytes }, fit)
    }

    /// The values.
    pub(super) fn values(&self) -> Vec<Value<'_>> {
        let mut reader = Reader { bytes: &self.bytes };
        self.parts.iter().map_while(|part| reader.value(part)).collect()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.values().len()
    }
}

/// Reads values in the typed form.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    /// A whole number of `width` bytes.
    fn integer(&mut self, width: usize) -> Option<i128> {
        let mut bytes = [0; 16];
        bytes[..width].copy_from_slice(self.take(width)?);
        let unused = i128::BITS - 8 * width as u32;
        Some(i128::from_le_bytes(bytes) << unused >> unused)
    }

    /// The next value; nothing where the key ends before it does.
    fn value(&mut self, part: &KeyPart) -> Option<Value<'a>> {
        if part.nullable && self.take(1)? == [1] {
            return Some(Value::Null);
        }
        Some(match part.sql {
            SqlType::Boolean => Value::Boolean(self.integer(1)? != 0),
            SqlType::SmallInt => Value::Integer(self.integer(2)? as i64),
            SqlType::Integer => Value::Integer(self.integer(4)? as i64),
            SqlType::BigInt => Value::Integer(self.integer(8)? as i64),
            SqlType::Date => Value::Date(self.integer(4)? as i32),
            SqlType::Timestamp => Value::Timestamp(self.integer(8)? as i64),
            SqlType::Decimal { scale, .. } => {
                Value::Decimal { units: self.integer(part.sql.width())?, scale }
            }
            SqlType::Double => {
                let bits = self.integer(8)? as u64;
                Value::Double(f64::from_bits(bits))
            }
            SqlType::Uuid => {
                let mut uuid = [0; 16];
                uuid.copy_from_slice(self.take(16)?);
                Value::Uuid(uuid)
            }
            SqlType::Char(width) => text(self.take(width.into())?),
            SqlType::Varchar(_) | SqlType::Text => {
                let length = self.integer(2)? as u16;
                text(self.take(length.into())?)
            }
            SqlType::Bytes => {
                let length = self.integer(2)? as u16;
                Value::Bytes(self.take(length.into())?)
            }
        })
    }
}

/// Text, or what is not UTF-8 as it is: indexes compare bytes.
fn text(bytes: &[u8]) -> Value<'_> {
    std::str::from_utf8(bytes).map_or(Value::Bytes(bytes), Value::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    tombolo_storage::table! {
        /// A column of each kind that a key can have.
        struct Mixed = "mixed" {
            A: Integer; B: Nullable<SmallInt>; C: Varchar<20>; D: Char<5>; E: Decimal<4, 2>;
            F: Timestamp; G: Boolean; H: Uuid; I: Text; J: Nullable<Date>; K: BigInt;
        }
    }
    tombolo_storage::index! {
        /// The first half.
        struct FirstKey = "first" on Mixed
            (A: Integer, B: Nullable<SmallInt>, C: Varchar<20>, D: Char<5>, E: Decimal<4, 2>,
             F: Timestamp) unique Tree;
    }
    tombolo_storage::index! {
        /// The second.
        struct SecondKey = "second" on Mixed
            (G: Boolean, H: Uuid, I: Text, J: Nullable<Date>, K: BigInt) unique Tree;
    }

    #[test]
    fn values_are_read_back() {
        let key = (-7, None, &b"ab"[..], &b"xy"[..], -501, 99);
        let (values, fit) = KeyValues::of::<FirstKey>(&(), key, usize::MAX);
        let expected = [
            Value::Integer(-7),
            Value::Null,
            Value::Text("ab"),
            Value::Text("xy   "),
            Value::Decimal { units: -501, scale: 2 },
            Value::Timestamp(99),
        ];
        assert_eq!((&values.values()[..], fit), (&expected[..], Fit::Within));
        let (values, _) = KeyValues::of::<FirstKey>(&(), key, 3);
        assert_eq!(values.values(), expected[..3]);
        let key = (true, [7; 16], &b"\xff"[..], Some(-1), i64::MIN);
        let (values, fit) = KeyValues::of::<SecondKey>(&(), key, usize::MAX);
        let expected = [
            Value::Boolean(true),
            Value::Uuid([7; 16]),
            Value::Bytes(b"\xff"),
            Value::Date(-1),
            Value::Integer(i64::MIN),
        ];
        assert_eq!((&values.values()[..], fit), (&expected[..], Fit::Within));
    }

    #[test]
    fn a_value_that_no_row_can_have_ends_the_key() {
        let key = (1, Some(2), &b"c"[..], &b"d"[..], 40_000, 99);
        let (values, fit) = KeyValues::of::<FirstKey>(&(), key, usize::MAX);
        assert_eq!((values.len(), fit), (4, Fit::Above));
        let key = (1, Some(2), &b"c"[..], &b"d"[..], -40_000, 99);
        assert_eq!(KeyValues::of::<FirstKey>(&(), key, usize::MAX).1, Fit::Below);
        assert_eq!(KeyValues::of::<FirstKey>(&(), key, 4).1, Fit::Within);
    }
}
