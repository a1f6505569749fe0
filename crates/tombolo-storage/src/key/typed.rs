//! The typed form of a key: every column as its type stores it, compared type by type (LG-S1 on).
//!
//! What a conventional engine does: the index knows its columns at run time only, and a comparison
//! asks each column what it is. Columns follow each other without gaps: a byte that is 1 for null
//! where the column may be null (nothing follows a null), then whole numbers and doubles
//! little-endian at the width of their type, `char(n)` padded with blanks, `uuid` as it is, and
//! everything else as two bytes of length and the bytes.
//!
//! A [`TypedOrder`] is worked out once per index: what to do column by column, one small step each.
//! Where two keys agreed so far, the next column begins at the same place in both, so a comparison
//! keeps one place and one limit, and a whole number of 32 bits takes a dozen instructions.
//!
//! Invariants: keys compare exactly as their normalised forms do (`key/tests.rs`), and are never
//! longer. No key is the beginning of another of the same index, so what follows one in memory
//! never decides.

use std::cmp::Ordering;

use super::normalised::{Leading, canonical, double_bits, outside_width};
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

/// How a comparison treats what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The byte that says whether a column is null; if it is, the step of its value is left out.
    Null,
    Integer8,
    Integer16,
    Integer32,
    Integer64,
    Integer128,
    Double,
    /// As many bytes.
    Fixed(u16),
    /// A length, and as many bytes.
    Counted,
}

impl Kind {
    /// The kind of a column's values.
    fn of(sql: SqlType) -> Self {
        match sql {
            SqlType::Boolean
            | SqlType::SmallInt
            | SqlType::Integer
            | SqlType::BigInt
            | SqlType::Date
            | SqlType::Timestamp
            | SqlType::Decimal { .. } => match sql.width() {
                1 => Self::Integer8,
                2 => Self::Integer16,
                4 => Self::Integer32,
                8 => Self::Integer64,
                _ => Self::Integer128,
            },
            SqlType::Double => Self::Double,
            SqlType::Char(_) | SqlType::Uuid => Self::Fixed(sql.width() as u16),
            SqlType::Varchar(_) | SqlType::Text | SqlType::Bytes => Self::Counted,
        }
    }

    /// Bytes of a value, where all have as many.
    fn width(self) -> usize {
        match self {
            Self::Null | Self::Integer8 => 1,
            Self::Integer16 => 2,
            Self::Integer32 => 4,
            Self::Integer64 | Self::Double => 8,
            Self::Integer128 => 16,
            Self::Fixed(width) => width.into(),
            Self::Counted => 0,
        }
    }
}

/// What a comparison does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    kind: Kind,
    /// The commonest kind is asked for first. A field of its own, since the compiler makes one
    /// table, or one chain with another order, of everything asked of one field.
    is_integer32: bool,
}

/// How typed keys of some columns are ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedOrder {
    steps: Box<[Step]>,
    /// The bits of a key, if its columns are whole numbers of up to 64 bits that are never null and all of them fit
    /// into the leading number, which then identifies the key; else 0.
    whole_bits: u32,
}

/// The value of type `$number` at `$at` in a key; returns if the key ends before.
macro_rules! value {
    ($number:ty, $key:expr, $at:expr) => {
        match $key.get($at..$at + size_of::<$number>()).and_then(<[u8]>::first_chunk) {
            Some(&bytes) => <$number>::from_le_bytes(bytes),
            None => return Ordering::Equal,
        }
    };
}

/// Compares the values of type `$number` at `$at` in two keys, and returns unless they are equal;
/// its value is where they end.
macro_rules! compare {
    ($number:ty, $key:expr, $other:expr, $at:expr) => {{
        let (value, wanted) = (value!($number, $key, $at), value!($number, $other, $at));
        if value != wanted {
            return if value < wanted { Ordering::Less } else { Ordering::Greater };
        }
        ($at + size_of::<$number>()) as u32
    }};
}

/// Appends the value of type `$number` at `$at` in a key to `$leading`; returns if the key ends
/// before. Its value is where it ends.
macro_rules! push {
    ($number:ty as $unsigned:ty, $leading:expr, $key:expr, $at:expr, $fill:expr) => {{
        let end = $at + size_of::<$number>();
        let Some(&bytes) = $key.get($at..end).and_then(<[u8]>::first_chunk) else {
            return $leading.filled($fill);
        };
        let flipped = <$number>::from_le_bytes(bytes) ^ <$number>::MIN;
        $leading.push((flipped as $unsigned).into(), <$number>::BITS);
        end
    }};
}

/// Takes a value of type `$number` off the front of `$rest` and appends it to `$leading`.
macro_rules! take {
    ($number:ty as $unsigned:ty, $leading:expr, $rest:expr) => {
        if let Some((&bytes, following)) = $rest.split_first_chunk() {
            let flipped = (<$number>::from_le_bytes(bytes) ^ <$number>::MIN) as $unsigned;
            $leading = $leading << <$number>::BITS | u128::from(flipped);
            $rest = following;
        }
    };
}

impl TypedOrder {
    /// The order of keys of these parts.
    pub fn of(parts: &[KeyPart]) -> Self {
        let null = |part: &KeyPart| part.nullable.then_some(Kind::Null);
        let kinds =
            parts.iter().flat_map(|part| null(part).into_iter().chain([Kind::of(part.sql)]));
        let step = |kind| Step { kind, is_integer32: kind == Kind::Integer32 };
        let steps: Box<[Step]> = kinds.map(step).collect();
        let is_short =
            |step: &Step| matches!(step.kind, Kind::Integer16 | Kind::Integer32 | Kind::Integer64);
        let bits = 8 * steps.iter().map(|step| step.kind.width() as u32).sum::<u32>();
        let is_whole = steps.iter().all(is_short) && bits <= u128::BITS;
        Self { steps, whole_bits: if is_whole { bits } else { 0 } }
    }

    /// How many bits of the leading number identify a key; 0 if the number does not identify it.
    #[inline(always)]
    pub(crate) fn whole_bits(&self) -> u32 {
        self.whole_bits
    }

    /// Compares the key that `key` begins with to `other`, which may end after some columns, or
    /// after the byte that says whether one is null: equal then if they agree so far.
    ///
    /// The usual whole numbers in front, often all there is, are compared in line.
    #[inline(always)]
    pub fn compare(&self, key: &[u8], other: &[u8]) -> Ordering {
        // One length for both: one check for both.
        let Some(both) = key.get(..other.len()) else {
            return compare_rest(&self.steps, key, other, 0);
        };
        // 32 bits: a place and a width together do not overflow then, which saves checks.
        let (mut place, mut steps) = (0u32, &self.steps[..]);
        while let [step, following @ ..] = steps {
            let at = place as usize;
            place = if step.is_integer32 {
                compare!(i32, both, other, at)
            } else {
                match step.kind {
                    Kind::Integer16 => compare!(i16, both, other, at),
                    Kind::Integer64 => compare!(i64, both, other, at),
                    _ => return compare_rest(steps, key, other, at),
                }
            };
            steps = following;
        }
        Ordering::Equal
    }

    /// The number that [`Normalised::leading`] makes of the normalised form of the same key, or of
    /// the same first columns of one.
    #[inline]
    pub(crate) fn leading(&self, key: &[u8], fill: bool) -> u128 {
        if key.len() as u32 * 8 == self.whole_bits {
            return self.whole(key, fill);
        }
        self.leading_of_some(key, fill)
    }

    /// The same of a whole key that the number identifies.
    #[inline(always)]
    fn whole(&self, key: &[u8], fill: bool) -> u128 {
        let (mut number, mut rest) = (0, key);
        for step in &*self.steps {
            if step.is_integer32 {
                take!(i32 as u32, number, rest);
            } else if step.kind == Kind::Integer16 {
                take!(i16 as u16, number, rest);
            } else {
                take!(i64 as u64, number, rest);
            }
        }
        let missing = u128::BITS - self.whole_bits;
        let filling = if fill { u128::MAX.unbounded_shr(self.whole_bits) } else { 0 };
        number.unbounded_shl(missing) | filling
    }

    /// The same of any key.
    #[inline(never)]
    fn leading_of_some(&self, key: &[u8], fill: bool) -> u128 {
        let (mut leading, mut at, mut steps) = (Leading::new(), 0, &self.steps[..]);
        while let [step, following @ ..] = steps {
            at = if step.is_integer32 {
                push!(i32 as u32, leading, key, at, fill)
            } else {
                match step.kind {
                    Kind::Integer16 => push!(i16 as u16, leading, key, at, fill),
                    Kind::Integer64 => push!(i64 as u64, leading, key, at, fill),
                    _ => return leading_rest(steps, key, at, leading).filled(fill),
                }
            };
            if leading.is_full() {
                break;
            }
            steps = following;
        }
        leading.filled(fill)
    }
}

/// Appends what follows `at` in a key to `leading`; the first of `steps` begins there.
#[inline(never)]
fn leading_rest(steps: &[Step], key: &[u8], at: usize, mut leading: Leading) -> Leading {
    let (mut at, mut steps) = (at, steps.iter());
    while let Some(step) = steps.next()
        && let Some(rest) = key.get(at..)
        && !leading.is_full()
    {
        let value = match step.kind {
            Kind::Counted => counted_at(key, at),
            kind => rest.get(..kind.width()),
        };
        let Some(value) = value else { break };
        at += value.len();
        match step.kind {
            Kind::Null => {
                leading.push_bytes(value);
                if value[0] != 0 {
                    steps.next();
                }
            }
            Kind::Counted => {
                at += LENGTH_BYTES;
                leading.push_ended(value);
            }
            Kind::Fixed(_) => leading.push_bytes(value),
            Kind::Double => {
                let mut bits = [0; size_of::<f64>()];
                bits.copy_from_slice(value);
                leading.push(double_bits(f64::from_le_bytes(bits)), u64::BITS);
            }
            _ => {
                // The sign's bit is in the last byte, which comes first, flipped.
                let mut flip = 0x80;
                for byte in value.iter().rev() {
                    leading.push(u64::from(byte ^ flip), u8::BITS);
                    flip = 0;
                }
            }
        }
    }
    leading
}

/// Compares keys that agree up to `start`, where the first of `steps` begins.
#[inline(never)]
fn compare_rest(steps: &[Step], key: &[u8], other: &[u8], start: usize) -> Ordering {
    let limit = key.len().min(other.len());
    let (both, others) = (&key[..limit], &other[..limit]);
    let (mut place, mut steps) = (start as u32, steps.iter());
    while let Some(step) = steps.next() {
        let at = place as usize;
        place = match step.kind {
            Kind::Integer8 => compare!(i8, both, others, at),
            Kind::Integer16 => compare!(i16, both, others, at),
            Kind::Integer32 => compare!(i32, both, others, at),
            Kind::Integer64 => compare!(i64, both, others, at),
            Kind::Integer128 => compare!(i128, both, others, at),
            Kind::Null => {
                let value_at = compare!(u8, both, others, at);
                if both[at] != 0 {
                    steps.next();
                }
                value_at
            }
            Kind::Double => {
                let (value, wanted) = (value!(f64, both, at), value!(f64, others, at));
                // There is one zero, and one NaN, a positive one: it sorts last.
                match value.total_cmp(&wanted) {
                    Ordering::Equal => (at + size_of::<f64>()) as u32,
                    order => return order,
                }
            }
            Kind::Fixed(width) => {
                let end = at + width as usize;
                match (both.get(at..end), others.get(at..end)) {
                    (Some(value), Some(wanted)) if value == wanted => end as u32,
                    (Some(value), Some(wanted)) => return value.cmp(wanted),
                    _ => return Ordering::Equal,
                }
            }
            Kind::Counted => match (counted_at(key, at), counted_at(other, at)) {
                (Some(value), Some(wanted)) if value == wanted => {
                    (at + LENGTH_BYTES + value.len()) as u32
                }
                (Some(value), Some(wanted)) => return value.cmp(wanted),
                _ => return Ordering::Equal,
            },
        };
    }
    Ordering::Equal
}

/// The bytes at `at` in a key that have their length in front.
#[inline(always)]
fn counted_at(key: &[u8], at: usize) -> Option<&[u8]> {
    let (&length, rest) = key.get(at..)?.split_first_chunk::<LENGTH_BYTES>()?;
    rest.get(..u16::from_le_bytes(length) as usize)
}

/// How long a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyLength {
    /// Bytes of its typed form.
    pub(crate) typed: usize,
    /// Bytes of its normalised form: at most twice as many.
    pub(crate) normalised: usize,
}

/// How long the key is that `key` begins with, if it is whole.
pub(crate) fn key_length(parts: &[KeyPart], key: &[u8]) -> Option<KeyLength> {
    let (mut typed, mut zeros) = (0, 0);
    for part in parts {
        if part.nullable {
            typed += 1;
            match key.get(typed - 1)? {
                0 => {}
                1 => continue,
                _ => return None,
            }
        }
        typed += match Kind::of(part.sql) {
            Kind::Counted => {
                let value = counted_at(key, typed)?;
                zeros += value.iter().filter(|&&byte| byte == 0).count();
                LENGTH_BYTES + value.len()
            }
            _ => part.sql.width(),
        };
    }
    // The normalised form has two bytes for a zero, and ends a value with two.
    (typed <= key.len()).then_some(KeyLength { typed, normalised: typed + zeros })
}
