//! Keys, and the islands on which they are.
//!
//! How keys are spread is part of a database: its directory says it, and every opening compares. Not here: rows, which
//! a program puts where their keys are.

use std::fmt;

use tombolo_engine::islands::commit::IslandId;
use tombolo_storage::types::SqlType;
use tombolo_storage::value::Value;

use crate::error::Error;

/// A key by which calls and rows are spread over islands: a number, a text, bytes, or several of these.
pub trait IslandKey {
    /// A number, by which keys are spread; the same in every version of this library.
    fn spread(&self) -> u64;

    /// Its place among keys that are spread by ranges, if it has one: numbers do.
    fn place(&self) -> Option<i64> {
        None
    }
}

/// Spreads numbers that are next to each other (the finisher of SplitMix64).
const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

macro_rules! number_keys {
    ($($type:ty),*) => {$(
        impl IslandKey for $type {
            #[inline]
            fn spread(&self) -> u64 {
                mixed(*self as u64)
            }

            #[inline]
            fn place(&self) -> Option<i64> {
                i64::try_from(*self).ok()
            }
        }
    )*};
}

number_keys!(i16, u16, i32, u32, i64, u64);

impl IslandKey for [u8] {
    fn spread(&self) -> u64 {
        // FNV-1a.
        let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
        mixed(self.iter().fold(0xCBF2_9CE4_8422_2325, hash))
    }
}

impl IslandKey for Vec<u8> {
    fn spread(&self) -> u64 {
        self.as_slice().spread()
    }
}

impl IslandKey for str {
    fn spread(&self) -> u64 {
        self.as_bytes().spread()
    }
}

impl IslandKey for String {
    fn spread(&self) -> u64 {
        self.as_str().spread()
    }
}

impl<const N: usize> IslandKey for [u8; N] {
    fn spread(&self) -> u64 {
        self.as_slice().spread()
    }
}

impl<A: IslandKey, B: IslandKey> IslandKey for (A, B) {
    fn spread(&self) -> u64 {
        mixed(self.0.spread().rotate_left(17) ^ self.1.spread())
    }
}

impl<K: IslandKey + ?Sized> IslandKey for &K {
    fn spread(&self) -> u64 {
        (**self).spread()
    }

    fn place(&self) -> Option<i64> {
        (**self).place()
    }
}

/// How keys are spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    Hash,
    /// The first number of each island but the first, ascending.
    Ranges(Vec<i64>),
}

impl Keys {
    /// The keys that are spread as this text says, which is that of `Display`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "hash" {
            return Some(Self::Hash);
        }
        let bounds = text.strip_prefix("ranges from")?.split_ascii_whitespace();
        bounds.map(|bound| bound.parse().ok()).collect::<Option<_>>().map(Self::Ranges)
    }

    /// The same of what a directory has recorded.
    ///
    /// # Errors
    /// [`Error::OtherVersion`] for a way that is not known.
    pub(crate) fn recorded(text: &str) -> Result<Self, Error> {
        let what = || format!("keys are spread by {text}, which this version does not know");
        Self::parse(text).ok_or_else(|| Error::OtherVersion(what()))
    }

    /// The island of a key, among so many; `None` for a key without a place, where keys are spread by ranges.
    #[inline]
    pub(super) fn island(
        &self,
        key: &(impl IslandKey + ?Sized),
        islands: usize,
    ) -> Option<IslandId> {
        let island = match self {
            Self::Hash => ((u128::from(key.spread()) * islands as u128) >> u64::BITS) as usize,
            Self::Ranges(bounds) => {
                let place = key.place()?;
                bounds.partition_point(|bound| *bound <= place)
            }
        };
        Some(IslandId(island as u16))
    }

    /// The same for the value of a column.
    pub(crate) fn island_of_value(&self, value: Value<'_>, islands: usize) -> Option<IslandId> {
        match value {
            Value::Integer(number) => self.island(&number, islands),
            Value::Text(text) => self.island(text, islands),
            Value::Bytes(bytes) => self.island(bytes, islands),
            Value::Uuid(uuid) => self.island(&uuid, islands),
            _ => None,
        }
    }

    /// Whether the values of columns of this type are keys.
    pub(super) const fn are_of(&self, sql: SqlType) -> bool {
        match sql {
            SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => true,
            SqlType::Varchar(_) | SqlType::Text | SqlType::Bytes | SqlType::Uuid => {
                matches!(self, Self::Hash)
            }
            _ => false,
        }
    }
}

impl Keys {
    /// Refuses keys that are not of so many islands.
    pub(crate) fn verify(&self, islands: usize) -> Result<(), Error> {
        let refuse = |what: String| Err(Error::Setting(what));
        if islands == 0 || islands > usize::from(u16::MAX) {
            return refuse(format!("{islands} islands: give 1 to {}", u16::MAX));
        }
        let Self::Ranges(bounds) = self else { return Ok(()) };
        if bounds.len() + 1 != islands {
            let (needed, given) = (islands - 1, bounds.len());
            let bound = if needed == 1 { "bound" } else { "bounds" };
            let were = if given == 1 { "was" } else { "were" };
            return refuse(format!(
                "{islands} islands have {needed} {bound} between their keys, and {given} {were} given"
            ));
        }
        match bounds.is_sorted_by(|a, b| a < b) {
            true => Ok(()),
            false => refuse("the bounds between the islands' keys must ascend".to_owned()),
        }
    }
}

/// Where keys are.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) keys: Keys,
    pub(crate) islands: usize,
}

impl Router {
    #[inline]
    pub(crate) fn island_of(&self, key: &(impl IslandKey + ?Sized)) -> Result<usize, Error> {
        match self.keys.island(key, self.islands) {
            Some(island) => Ok(island.index()),
            None => Err(Self::no_island()),
        }
    }

    #[cold]
    fn no_island() -> Error {
        let what = "the islands' keys are integers within 64 bits, and this key is none";
        Error::Schema(what.to_owned())
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hash => f.write_str("hash"),
            Self::Ranges(bounds) => {
                f.write_str("ranges from")?;
                bounds.iter().try_for_each(|bound| write!(f, " {bound}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows are where keys were in earlier versions: these numbers never change.
    #[test]
    fn keys_stay_where_they_are() {
        assert_eq!(0u64.spread(), 0);
        assert_eq!(1i32.spread(), 1i64.spread());
        assert_eq!(1u64.spread(), 0x5692_161D_100B_05E5);
        assert_eq!((-1i64).spread(), (-1i32).spread());
        assert_eq!("Lübeck".spread(), "Lübeck".as_bytes().spread());
        assert_ne!((1, 2).spread(), (2, 1).spread());
    }

    #[test]
    fn every_island_has_its_share() {
        for islands in [1, 2, 3, 7, 64] {
            let mut shares = vec![0; islands];
            for key in 0..10_000i64 {
                shares[Keys::Hash.island(&key, islands).unwrap().index()] += 1;
            }
            let fair = 10_000 / islands;
            assert!(shares.iter().all(|share| fair * 8 / 10 < *share), "{shares:?}");
        }
        let ranges = Keys::Ranges(vec![100, 200]);
        let island = |key: i64| ranges.island(&key, 3).unwrap().0;
        assert_eq!([99, 100, 199, 200].map(island), [0, 1, 1, 2]);
        assert_eq!((island(i64::MIN), island(i64::MAX)), (0, 2));
        assert_eq!(ranges.island("text", 3), None);
        assert_eq!(ranges.island(&u64::MAX, 3), None);
        assert_eq!(ranges.to_string(), "ranges from 100 200");
        for keys in [ranges, Keys::Hash, Keys::Ranges(Vec::new()), Keys::Ranges(vec![-5])] {
            assert_eq!(Keys::parse(&keys.to_string()), Some(keys));
        }
        assert_eq!(Keys::parse("ranges from x"), None);
        assert_eq!(Keys::parse("hash of 7"), None);
    }
}
