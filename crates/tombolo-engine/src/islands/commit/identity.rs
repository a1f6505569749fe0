//! Identities in the protocol: islands, numbers of transactions, ages, tenures.
//!
//! A number never repeats: an island counts its openings durably before it uses one. A transaction that runs again
//! has a new number and its old age.

use tombolo_storage::owner::Owner;

/// An island of a database, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IslandId(pub u16);

impl IslandId {
    /// Its place in a list of all islands.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for IslandId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "island {}", self.0)
    }
}

/// One run of a transaction over several islands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionNumber {
    /// Its coordinator.
    pub island: IslandId,
    /// Which opening of that island gave the number.
    pub opening: u32,
    /// Which transaction of that opening.
    pub counter: u64,
}

impl TransactionNumber {
    /// The number by which what the transaction holds is known.
    pub const fn owner(self) -> Owner {
        let island = (self.island.0 as u128) << (u32::BITS + u64::BITS);
        Owner::new(island | (self.opening as u128) << u64::BITS | self.counter as u128)
    }

    /// The transaction with this number; `None` if no island has it.
    pub fn of(owner: Owner) -> Option<Self> {
        let number = owner.number();
        let island = u16::try_from(number >> (u32::BITS + u64::BITS)).ok()?;
        let (opening, counter) = ((number >> u64::BITS) as u32, number as u64);
        Some(Self { island: IslandId(island), opening, counter })
    }
}

impl std::fmt::Display for TransactionNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.island.0, self.opening, self.counter)
    }
}

/// When a transaction began for the first time; the older of two is the smaller. No two have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Age {
    /// What the caller's clock said. Clocks of two islands may differ: that is unfair, and not wrong.
    pub at: u64,
    /// The number of its first run.
    pub first: TransactionNumber,
}

/// A time during which an island keeps each lock that it has voted for. A crash ends it (its locks of parts that
/// only read are in memory), and so does giving up such a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenure {
    /// The island's opening; 0: none is known.
    pub opening: u32,
    /// How often it has given up locks since.
    pub term: u32,
}

/// The newest tenure of each island that an island has heard of, itself included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tenures(Vec<Tenure>);

impl Tenures {
    pub(super) fn new(islands: usize) -> Self {
        Self(vec![Tenure::default(); islands])
    }

    pub(super) fn of(&self, island: IslandId) -> Tenure {
        self.0[island.index()]
    }

    pub(super) fn set(&mut self, island: IslandId, tenure: Tenure) {
        self.0[island.index()] = tenure;
    }

    /// Learns what another island has heard of.
    pub(super) fn merge(&mut self, heard: &Self) {
        self.0.iter_mut().zip(&heard.0).for_each(|(own, heard)| *own = (*own).max(*heard));
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = Tenure> {
        self.0.iter().copied()
    }
}

impl FromIterator<Tenure> for Tenures {
    fn from_iter<I: IntoIterator<Item = Tenure>>(tenures: I) -> Self {
        Self(tenures.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_that_of_its_owner() {
        for (island, opening, counter) in [(0, 1, 0), (1, 2, 3), (u16::MAX, u32::MAX, u64::MAX)] {
            let number = TransactionNumber { island: IslandId(island), opening, counter };
            assert_eq!(TransactionNumber::of(number.owner()), Some(number));
        }
        assert_eq!(TransactionNumber::of(Owner::new(1 << 112)), None);
    }
}
