//! Kinds of transaction: what is counted and timed apart. Their names are each workload's
//! ([`Workload::KINDS`](super::Workload::KINDS)).

/// The most kinds that a workload has: there are as many counters.
pub const KINDS_MAX: usize = 6;

/// A kind of transaction, by its place among those of its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(u8);

impl Kind {
    /// The kind at `place`.
    pub const fn at(place: u8) -> Self {
        assert!((place as usize) < KINDS_MAX);
        Self(place)
    }

    /// Its place, from 0.
    #[inline(always)]
    pub const fn place(self) -> usize {
        self.0 as usize
    }
}
