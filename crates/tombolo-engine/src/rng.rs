//! The random door: the only source of random numbers in the project, and it is seeded.
//!
//! # What it is
//! [`Rng`] is xoshiro256++ 1.0 (Blackman and Vigna), its state filled by SplitMix64. Both are
//! written out here, not taken from a crate, because the bytes of every generated database and
//! every input depend on them: the same seed gives the same numbers in every version of every
//! dependency, on every machine.
//!
//! # Streams
//! [`Rng::stream`] derives a generator from a seed and a path such as `[table, warehouse,
//! district]`. Data that is generated in parallel takes one stream per part, so the result never
//! depends on which thread made which part, or when. Two different paths give unrelated states; a
//! path and its own prefix are different paths.
//!
//! # What it does not do
//! It is not for secrets, and a generator never reads entropy from the system: a caller that wants
//! another run passes another seed. [`entropy`] is for the one thing that must differ between two
//! databases of the same content, a log's salt.

use std::hash::{BuildHasher, RandomState};

/// A number the system has drawn, another one at each call. For salts: nothing that is to be run
/// again may depend on it.
#[must_use]
pub fn entropy() -> u64 {
    // The keys of a new `RandomState` are the system's random bytes, or follow from the last ones.
    RandomState::new().hash_one(0_u64)
}

/// A seeded generator of 64-bit numbers (xoshiro256++), its period 2^256 − 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

/// The increment of SplitMix64: 2^64 divided by the golden ratio, odd.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's output function: a bijection of 64-bit numbers in which every input bit reaches
/// every output bit.
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The state after `steps` increments from `seed`, mixed: the `steps`-th number of SplitMix64.
const fn split_mix(seed: u64, steps: u64) -> u64 {
    mix(seed.wrapping_add(GOLDEN_GAMMA.wrapping_mul(steps)))
}

impl Rng {
    /// The generator of `seed`.
    #[must_use]
    pub const fn from_seed(seed: u64) -> Self {
        // The four numbers of a SplitMix64 sequence are pairwise different, so the state is never
        // all zero, the one state xoshiro cannot leave.
        let state =
            [split_mix(seed, 1), split_mix(seed, 2), split_mix(seed, 3), split_mix(seed, 4)];
        Self { state }
    }

    /// The generator of one part of the data: independent of the streams of all other paths under
    /// `seed`.
    #[must_use]
    pub fn stream(seed: u64, path: &[u64]) -> Self {
        // The length goes in first, so that [1] and [1, 0] differ whatever mix(0) is.
        let mut hash = split_mix(seed ^ mix(path.len() as u64), 1);
        for &part in path {
            hash = split_mix(hash ^ split_mix(part, 1), 1);
        }
        Self::from_seed(hash)
    }

    /// The next 64 random bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = self.state;
        let result = s0.wrapping_add(s3).rotate_left(23).wrapping_add(s0);
        let (s2, s3) = (s2 ^ s0, s3 ^ s1);
        self.state = [s0 ^ s3, s1 ^ s2, s2 ^ (s1 << 17), s3.rotate_left(45)];
        result
    }

    /// A number in `0..n`, every one equally likely (Lemire's multiplication with rejection).
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "there is no number below 0");
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            // The 2^64 mod n lowest fractions would make some numbers more likely than others: draw
            // again.
            let biased = n.wrapping_neg() % n;
            while (product as u64) < biased {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// A number in `lo..=hi`, every one equally likely.
    ///
    /// # Panics
    /// If `lo > hi`.
    #[inline]
    pub fn between(&mut self, lo: i64, hi: i64) -> i64 {
        assert!(lo <= hi, "no number lies between {lo} and {hi}");
        // The span of a signed range always fits in u64; it is 2^64, written 0, only for the whole
        // range.
        let span = (hi.wrapping_sub(lo) as u64).wrapping_add(1);
        let offset = if span == 0 { self.next_u64() } else { self.below(span) };
        lo.wrapping_add(offset as i64)
    }

    /// Puts `items` in random order, every order equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_drawn_anew() {
        let drawn: [u64; 4] = std::array::from_fn(|_| entropy());
        assert!(drawn.windows(2).all(|pair| pair[0] != pair[1]), "{drawn:?}");
    }

    #[test]
    fn xoshiro_gives_the_published_numbers() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let expected = [
            41_943_041,
            58_720_359,
            3_588_806_011_781_223,
            3_591_011_842_654_386,
            9_228_616_714_210_784_205,
            9_973_669_472_204_895_162,
            14_011_001_112_246_962_877,
            12_406_186_145_184_390_807,
            15_849_039_046_786_891_736,
            10_450_023_813_501_588_000,
        ];
        assert_eq!(expected.map(|_| rng.next_u64()), expected);
    }

    #[test]
    fn split_mix_gives_the_published_numbers() {
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([1, 2, 3].map(|step| split_mix(1_234_567, step)), expected);
        assert_eq!(split_mix(0, 1), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn a_seed_is_the_whole_input() {
        let draw = |mut rng: Rng| [(); 8].map(|()| rng.next_u64());
        assert_eq!(draw(Rng::from_seed(7)), draw(Rng::from_seed(7)));
        assert_ne!(draw(Rng::from_seed(7)), draw(Rng::from_seed(8)));
        assert_eq!(draw(Rng::stream(7, &[1, 2])), draw(Rng::stream(7, &[1, 2])));
    }

    #[test]
    fn different_paths_give_different_streams() {
        let mut first = std::collections::BTreeSet::new();
        let mut streams = 0;
        for seed in 0..4 {
            let mut paths: Vec<Vec<u64>> = vec![vec![], vec![0], vec![0, 0], vec![0, 0, 0]];
            for table in 1..10 {
                for warehouse in 0..50 {
                    paths.extend((0..11).map(|district| vec![table, warehouse, district]));
                    paths.push(vec![table, warehouse]);
                }
            }
            streams += paths.len();
            first.extend(paths.iter().map(|path| Rng::stream(seed, path).next_u64()));
        }
        assert_eq!(first.len(), streams);
    }

    #[test]
    fn below_is_uniform_where_rejection_matters() {
        // For n = 3 · 2^62 a plain multiplication would give every third number twice the chance of
        // the others.
        let n = 3 << 62;
        let mut rng = Rng::from_seed(11);
        let mut counts = [0_u32; 3];
        for _ in 0..30_000 {
            counts[(rng.below(n) % 3) as usize] += 1;
        }
        // Standard deviation 82: four of them either way.
        assert!(counts.iter().all(|count| (9_672..10_328).contains(count)), "{counts:?}");
    }

    #[test]
    fn between_reaches_both_ends_and_stays_inside() {
        let mut rng = Rng::from_seed(3);
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[(rng.between(-3, 3) + 3) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (880..1_120).contains(count)), "{seen:?}");
        assert_eq!(rng.between(5, 5), 5);
        assert!((0..64).map(|_| rng.between(i64::MIN, i64::MAX)).any(|number| number < 0));
        assert!((0..64).map(|_| rng.between(i64::MIN, i64::MAX)).any(|number| number > 0));
    }

    #[test]
    fn shuffle_makes_every_order_equally_often() {
        let mut rng = Rng::from_seed(5);
        let mut orders = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            rng.shuffle(&mut items);
            *orders.entry(items).or_insert(0_u32) += 1;
        }
        assert_eq!(orders.len(), 24);
        assert!(orders.values().all(|count| (870..1_130).contains(count)), "{orders:?}");
    }
}
