//! Ranges of keys, and the prefixes of keys they are made of.
//!
//! A [`Range`] lies between two [`Edge`]s, positions before or after all keys that begin with some
//! columns' values, so that scans of a prefix need no smallest or largest value.
//!
//! Not here: how keys compare (`mod.rs`), scans (the stores).

use std::ops::{self, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A position between keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge<K> {
    /// Before or after everything.
    Open,
    /// Before all keys whose first columns are those of the key; the number says how many count,
    /// the others are ignored. [`WHOLE`] stands for all columns.
    Before(K, usize),
    /// After all such keys.
    After(K, usize),
}

/// As a number of columns: all columns of the key.
pub const WHOLE: usize = usize::MAX;

/// The keys between two edges.
///
/// The ranges of the standard library are ranges of keys, too: `3..=5`, `(7, 2)..(7, 4)`, `..`.
///
/// ```
/// use tombolo_storage::key::Range;
/// // Of an index over (account, day): all of account 7; its days 2 to 4; everything before its day 2.
/// let all: Range<(i32, i32)> = Range::prefix((7,));
/// let days: Range<(i32, i32)> = Range::between((7, 2), (7, 4));
/// assert_eq!(days, Range::from((7, 2)..=(7, 4)));
/// let before: Range<(i32, i32)> = Range::from(..(7, 2));
/// # assert_eq!(all.upper, tombolo_storage::key::Edge::After((7, 0), 1));
/// # let _ = before;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<K> {
    /// Where it starts.
    pub lower: Edge<K>,
    /// Where it ends.
    pub upper: Edge<K>,
}

impl<K: Copy> Range<K> {
    /// Every key.
    pub const fn all() -> Self {
        Self { lower: Edge::Open, upper: Edge::Open }
    }

    /// All keys that begin with `prefix`: a tuple of the first values, or a whole key.
    #[inline(always)]
    pub fn prefix(prefix: impl KeyPrefix<K>) -> Self {
        Self::between(prefix, prefix)
    }

    /// All keys from those that begin with `first` to those that begin with `last`, both included.
    #[inline(always)]
    pub fn between(first: impl KeyPrefix<K>, last: impl KeyPrefix<K>) -> Self {
        let ((first, first_columns), (last, last_columns)) = (first.first_of(), last.first_of());
        Self { lower: Edge::Before(first, first_columns), upper: Edge::After(last, last_columns) }
    }

    /// The same keys without those behind all that begin with `last`.
    #[inline(always)]
    pub fn up_to(self, last: impl KeyPrefix<K>) -> Self {
        let (key, columns) = last.first_of();
        Self { upper: Edge::After(key, columns), ..self }
    }

    /// The same keys without those before the first that begins with `first`.
    #[inline(always)]
    pub fn starting_at(self, first: impl KeyPrefix<K>) -> Self {
        let (key, columns) = first.first_of();
        Self { lower: Edge::Before(key, columns), ..self }
    }
}

impl<K: Copy> From<RangeFull> for Range<K> {
    fn from(_: RangeFull) -> Self {
        Self::all()
    }
}

impl<K: Copy> From<ops::Range<K>> for Range<K> {
    fn from(range: ops::Range<K>) -> Self {
        let (lower, upper) = (Edge::Before(range.start, WHOLE), Edge::Before(range.end, WHOLE));
        Self { lower, upper }
    }
}

impl<K: Copy> From<RangeInclusive<K>> for Range<K> {
    fn from(range: RangeInclusive<K>) -> Self {
        Self::between(*range.start(), *range.end())
    }
}

impl<K: Copy> From<RangeFrom<K>> for Range<K> {
    fn from(range: RangeFrom<K>) -> Self {
        Self::all().starting_at(range.start)
    }
}

impl<K: Copy> From<RangeTo<K>> for Range<K> {
    fn from(range: RangeTo<K>) -> Self {
        Self { lower: Edge::Open, upper: Edge::Before(range.end, WHOLE) }
    }
}

impl<K: Copy> From<RangeToInclusive<K>> for Range<K> {
    fn from(range: RangeToInclusive<K>) -> Self {
        Self::all().up_to(range.end)
    }
}

/// A key, or its first values as a tuple: what [`Range::prefix`] and [`Range::between`] take.
pub trait KeyPrefix<K>: Copy {
    /// A key that begins with these values, and how many of its columns they are.
    fn first_of(self) -> (K, usize);
}

impl<K: Copy> KeyPrefix<K> for K {
    #[inline(always)]
    fn first_of(self) -> (K, usize) {
        (self, WHOLE)
    }
}

macro_rules! key_prefixes {
    // The values that a prefix has, in groups by the values that the keys have behind them.
    ($(($($first:ident $position:tt),+): $(($($rest:ident),+))+;)+) => {$(
        key_prefixes!(@of ($($first $position),+) $(($($rest),+))+);
    )+};
    (@of $first:tt $($rest:tt)+) => {
        $(key_prefixes!(@one $first $rest);)+
    };
    (@one ($($first:ident $position:tt),+) ($($rest:ident),+)) => {
        impl<$($first: Copy,)+ $($rest: Copy + Default),+> KeyPrefix<($($first,)+ $($rest),+)> for ($($first,)+) {
            #[inline(always)]
            fn first_of(self) -> (($($first,)+ $($rest),+), usize) {
                const COLUMNS: usize = [$($position),+].len();
                (($(self.$position,)+ $($rest::default()),+), COLUMNS)
            }
        }
    };
}

key_prefixes! {
    (A 0): (B) (B, C) (B, C, D) (B, C, D, E) (B, C, D, E, F);
    (A 0, B 1): (C) (C, D) (C, D, E) (C, D, E, F);
    (A 0, B 1, C 2): (D) (D, E) (D, E, F);
    (A 0, B 1, C 2, D 3): (E) (E, F);
    (A 0, B 1, C 2, D 3, E 4): (F);
}
