//! The typed form of a key: every column as its type stores it, compared type by type (LG-S1 on).
//!
//! What a conventional engine does: the index knows its columns at run time only, and a comparison
//! asks each column what it is. Columns follow each other without gaps: a byte that is 1 for null
//! where the column may be null (nothing follows a null), then whole numbers and doubles
//! little-endian at the width of their type, `char(n)` padded with blanks, `uuid` as it is, and
//! everything else as two bytes of length and the bytes.
//!
//! Invariant: keys compare exactly as their normalised forms do (`key/tests.rs`), and are never
//! longer.

use std::cmp::Ordering;

use super::normalised::{canonical, outside_width};
use super::{Encoding, Fit, KeyPart, Normalised};
use crate::types::SqlType;

/// The form that is compared type by type.
#[derive(Clone, Copy, Debug)]
pub struct Typed;

/// Bytes of the length in front of a value without fixed width.
const LENGTH_BYTES: usize = 2;

impl Encoding for Typed {
    #[inline]
    fn integer(value: i128, width: usize, out: &mut Vec<u8>) -> Fit {
        let outside = outside_width(value, width);
        if outside == Fit::Within {
            out.extend_from_slice(&value.to_le_bytes()[..width]);
        }
        outside
    }

    fn double(value: f64, out: &mut Vec<u8>) -> Fit {
        out.extend_from_slice(&canonical(value).to_le_bytes());
        Fit::Within
    }

    #[inline]
    fn padded(value: &[u8], width: usize, out: &mut Vec<u8>) -> Fit {
        Normalised::padded(value, width, out)
    }

    #[inline]
    fn bytes(value: &[u8], out: &mut Vec<u8>) -> Fit {
        // No stored key is nearly as long, so nothing is lost for one that is looked for.
        let kept = value.len().min(u16::MAX as usize);
        out.extend_from_slice(&(kept as u16).to_le_bytes());
        out.extend_from_slice(&value[..kept]);
        Fit::Within
    }
}

/// Where a column starts that both keys have in the same place, since all before it are equal.
struct Walk<'a> {
    key: &'a [u8],
    other: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    /// The next `N` bytes of both.
    #[inline(always)]
    fn both<const N: usize>(&mut self) -> ([u8; N], [u8; N]) {
        let take = |bytes: &[u8]| {
            let mut taken = [0; N];
            taken.copy_from_slice(&bytes[self.at..self.at + N]);
            taken
        };
        let both = (take(self.key), take(self.other));
        self.at += N;
        both
    }

    /// Compares the next `bytes` bytes as bytes.
    #[inline(always)]
    fn fixed(&mut self, bytes: usize) -> Ordering {
        let end = self.at + bytes;
        let order = self.key[self.at..end].cmp(&self.other[self.at..end]);
        self.at = end;
        order
    }

    /// Compares values with their lengths in front.
    #[inline(always)]
    fn bytes(&mut self) -> Ordering {
        let (length, other_length) = self.both::<LENGTH_BYTES>();
        let (length, other_length) =
            (u16::from_le_bytes(length) as usize, u16::from_le_bytes(other_length) as usize);
        let order =
            self.key[self.at..self.at + length].cmp(&self.other[self.at..self.at + other_length]);
        self.at += length;
        order
    }

    #[inline(always)]
    fn double(&mut self) -> Ordering {
        let (value, other) = self.both::<8>();
        let (value, other) = (f64::from_le_bytes(value), f64::from_le_bytes(other));
        // Neither number of two that do not compare is a number, or one is: it sorts last.
        value.partial_cmp(&other).unwrap_or_else(|| value.is_nan().cmp(&other.is_nan()))
    }
}

/// Compares the next value of both as integers of type `$number`.
macro_rules! integers {
    ($walk:ident, $number:ty) => {{
        let (value, other) = $walk.both::<{ size_of::<$number>() }>();
        <$number>::from_le_bytes(value).cmp(&<$number>::from_le_bytes(other))
    }};
}

/// Compares a key with `other`, which may end after some columns, or after the byte that says
/// whether one is null: equal then if they agree so far.
#[inline]
pub fn compare_typed(parts: &[KeyPart], key: &[u8], other: &[u8]) -> Ordering {
    let mut walk = Walk { key, other, at: 0 };
    for part in parts {
        if walk.at >= other.len() {
            return Ordering::Equal;
        }
        if part.nullable {
            let ([null], [other_null]) = walk.both::<1>();
            if null != other_null {
                return null.cmp(&other_null);
            }
            if null != 0 {
                continue;
            }
            if walk.at >= other.len() {
                return Ordering::Equal;
            }
        }
        let order = match part.sql {
            SqlType::Integer | SqlType::Date => integers!(walk, i32),
            SqlType::BigInt | SqlType::Timestamp => integers!(walk, i64),
            SqlType::SmallInt => integers!(walk, i16),
            SqlType::Boolean => integers!(walk, i8),
            SqlType::Decimal { precision, .. } => match precision {
                0..=2 => integers!(walk, i8),
                3..=4 => integers!(walk, i16),
                5..=9 => integers!(walk, i32),
                10..=18 => integers!(walk, i64),
                _ => integers!(walk, i128),
            },
            SqlType::Double => walk.double(),
            SqlType::Char(width) => walk.fixed(width as usize),
            SqlType::Uuid => walk.fixed(16),
            SqlType::Varchar(_) | SqlType::Text | SqlType::Bytes => walk.bytes(),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// Bytes of the key that `key` begins with, if it is whole.
pub(crate) fn typed_bytes(parts: &[KeyPart], key: &[u8]) -> Option<usize> {
    let mut at = 0;
    for part in parts {
        if part.nullable {
            at += 1;
            match key.get(at - 1)? {
                0 => {}
                1 => continue,
                _ => return None,
            }
        }
        at += match part.sql {
            SqlType::Varchar(_) | SqlType::Text | SqlType::Bytes => {
                let length = key.get(at..at + LENGTH_BYTES)?;
                LENGTH_BYTES + usize::from(u16::from_le_bytes([length[0], length[1]]))
            }
            sql => sql.width(),
        };
    }
    (at <= key.len()).then_some(at)
}
