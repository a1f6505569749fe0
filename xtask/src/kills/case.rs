//! What can be done to a process or to its files, how often each kind occurs, and the outcome.
//!
//! Not here: how it is done (`strike.rs`, `starve.rs`, `damage.rs`).

use super::chain::Chain;
use super::profile::Profile;
use super::{damage, starve, strike};
pub(super) use crate::random::Random;

/// One kind of case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Killed a while after its first answers.
    Working,
    /// Killed at any time since it was started.
    AnyTime,
    /// Killed when a thread of it makes a system call for the n-th time.
    Call(&'static str),
    /// Killed while it recovers, several times in a row.
    Recovering,
    /// The n-th sync fails: nothing may be written or answered after it.
    FailedSync,
    /// The n-th write fails: the same.
    FailedWrite,
    /// Its memory is limited.
    Memory,
    /// Its disk fills up, and later has room again.
    FullDisk,
    /// A byte of a file changes, or a file is cut short.
    Damage,
}

/// Kinds and how often each occurs.
const KINDS: [(Kind, u64); 12] = [
    (Kind::Working, 4),
    (Kind::AnyTime, 2),
    (Kind::Call("fdatasync"), 3),
    (Kind::Call("pwrite64"), 3),
    (Kind::Call("write"), 2),
    (Kind::Call("fallocate"), 1),
    (Kind::Call("fsync"), 1),
    (Kind::Recovering, 4),
    (Kind::FailedSync, 1),
    (Kind::FailedWrite, 1),
    (Kind::Memory, 1),
    (Kind::FullDisk, 1),
];

impl Kind {
    /// The kind of a case of a chain.
    pub(super) fn of(
        (profile, seed): (Profile, u64),
        chain: usize,
        at: usize,
        is_last: bool,
    ) -> Self {
        match (profile, Self::drawn(seed, chain, at)) {
            (Profile::Memory, _) if is_last => Self::Damage,
            (Profile::Conventional, Self::Memory) => Self::Working,
            (_, kind) => kind,
        }
    }

    /// One of [`KINDS`].
    fn drawn(seed: u64, chain: usize, at: usize) -> Self {
        let total: u64 = KINDS.iter().map(|(_, weight)| weight).sum();
        let mut left = Random::new(seed, chain, at).below(total);
        for (kind, weight) in KINDS {
            if left < weight {
                return kind;
            }
            left -= weight;
        }
        Self::Working
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::AnyTime => "any-time",
            Self::Call(call) => call,
            Self::Recovering => "recovering",
            Self::FailedSync => "failed-sync",
            Self::FailedWrite => "failed-write",
            Self::Memory => "memory",
            Self::FullDisk => "full-disk",
            Self::Damage => "damage",
        }
    }
}

/// The outcome of a case that lost nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It struck, once at each of these places.
    Struck(Vec<String>),
    /// It did not strike in any of its tries; why.
    Missed(String),
    /// It is impossible on this machine; why.
    Skipped(String),
}

impl Outcome {
    /// It struck once.
    pub(super) fn struck(place: impl Into<String>) -> Self {
        Self::Struck(vec![place.into()])
    }
}

/// Runs one case, and verifies what it leaves.
pub(super) fn run(chain: &mut Chain<'_>, kind: Kind, at: usize) -> Result<Outcome, String> {
    let random = &mut Random::new(!chain.world.seed, chain.number, at);
    match kind {
        Kind::Working => strike::working(chain, random),
        Kind::AnyTime => strike::any_time(chain, random),
        Kind::Call(call) => strike::at_call(chain, call, random),
        Kind::Recovering => strike::recovering(chain, random),
        Kind::FailedSync => strike::failed(chain, "fdatasync", "sync", random),
        Kind::FailedWrite => strike::failed(chain, "pwrite64", "write", random),
        Kind::Memory => starve::memory(chain, random),
        Kind::FullDisk => starve::full_disk(chain, random),
        Kind::Damage => damage::damage(chain, random),
    }
}

#[cfg(test)]
mod tests {
    use super::{KINDS, Kind, Profile, Random};

    #[test]
    fn every_kind_comes_up_and_a_seed_repeats() {
        let of =
            |profile, seed| (0..1_000).map(move |chain| Kind::of((profile, seed), chain, 3, false));
        let kinds = |seed| of(Profile::Memory, seed);
        for (kind, _) in KINDS {
            assert!(kinds(1).any(|of| of == kind), "{kind:?}");
        }
        assert!(kinds(1).eq(kinds(1)) && !kinds(1).eq(kinds(2)));
        assert_eq!(Kind::of((Profile::Memory, 1), 0, 9, true), Kind::Damage);
        let paged = [Kind::Memory, Kind::Damage]
            .map(|kind| of(Profile::Conventional, 1).any(|of| of == kind));
        assert_eq!(paged, [false, false]);
    }

    #[test]
    fn random_numbers_stay_within_their_limits() {
        let mut random = Random::new(1, 2, 3);
        assert!((0..100).all(|_| random.below(7) < 7 && random.one_of(&[4, 5]) / 2 == 2));
        assert_eq!(Random::new(1, 2, 3).below(0), 0);
        let found: Vec<u64> = (0..1_000).map(|_| random.magnitude(8)).collect();
        assert!(found.iter().all(|n| (1..=256).contains(n)));
        assert!(found.iter().filter(|&&n| n <= 4).count() > 200 && found.contains(&1));
        assert!(found.iter().filter(|&&n| n > 64).count() > 100);
    }
}
