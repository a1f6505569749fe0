//! `Owner`: the number of a transaction over several islands, by which what it holds is known.
//!
//! Not here: what the number is made of (the engine), what is held (`memory/held/`).

use std::fmt;

/// The number of a transaction over several islands.
// Two halves, so that it is aligned as the other parts of an error are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner([u64; 2]);

impl Owner {
    /// The transaction with this number.
    pub const fn new(number: u128) -> Self {
        Self([(number >> 64) as u64, number as u64])
    }

    /// The number.
    pub const fn number(self) -> u128 {
        (self.0[0] as u128) << 64 | self.0[1] as u128
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.number())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}
