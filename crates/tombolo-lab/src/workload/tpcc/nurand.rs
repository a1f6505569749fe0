//! NURand, the specification's non-uniform random number (2.1.6), and its constants of one run.
//!
//! NURand prefers some numbers by or-ing two uniform ones; which numbers those are is moved by a
//! constant C. Three constants belong to a run — for C_LAST, C_ID and OL_I_ID — and a fourth to the
//! load, because the last names in the database and those asked for must not favour the same ones.

use tombolo_engine::rng::Rng;

use super::{CUSTOMERS, ITEMS, Stream};

/// The A of C_LAST: last names are made of the numbers 0 to 999.
const A_LAST_NAME: i64 = 255;
/// The A of C_ID.
const A_CUSTOMER: i64 = 1_023;
/// The A of OL_I_ID.
const A_ITEM: i64 = 8_191;
/// The largest number that makes a last name.
pub const LAST_NAME_MAX: i64 = 999;

/// NURand(A, x, y) with the constant C: a number in `x..=y`.
#[inline]
fn nurand(rng: &mut Rng, a: i64, c: i64, x: i64, y: i64) -> i64 {
    (((rng.between(0, a) | rng.between(x, y)) + c) % (y - x + 1)) + x
}

/// The constants C of one load and the runs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// For C_LAST while loading.
    pub load_last_name: i64,
    /// For C_LAST in transaction inputs.
    pub run_last_name: i64,
    /// For C_ID in transaction inputs.
    pub customer: i64,
    /// For OL_I_ID in transaction inputs.
    pub item: i64,
}

impl Constants {
    /// The constants of `seed`.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = Stream::Constants.rng(seed, []);
        let load_last_name = rng.between(0, A_LAST_NAME);
        let run_last_name = loop {
            let candidate = rng.between(0, A_LAST_NAME);
            if last_name_delta_is_valid(load_last_name, candidate) {
                break candidate;
            }
        };
        let customer = rng.between(0, A_CUSTOMER);
        let item = rng.between(0, A_ITEM);
        Self { load_last_name, run_last_name, customer, item }
    }

    /// The number of a last name for a customer that is loaded.
    #[inline]
    pub fn loaded_last_name(&self, rng: &mut Rng) -> i64 {
        nurand(rng, A_LAST_NAME, self.load_last_name, 0, LAST_NAME_MAX)
    }

    /// The number of a last name that a transaction asks for.
    #[inline]
    pub fn last_name(&self, rng: &mut Rng) -> i64 {
        nurand(rng, A_LAST_NAME, self.run_last_name, 0, LAST_NAME_MAX)
    }

    /// A C_ID that a transaction asks for.
    #[inline]
    pub fn customer(&self, rng: &mut Rng) -> i32 {
        nurand(rng, A_CUSTOMER, self.customer, 1, i64::from(CUSTOMERS)) as i32
    }

    /// An OL_I_ID that a transaction asks for.
    #[inline]
    pub fn item(&self, rng: &mut Rng) -> i32 {
        nurand(rng, A_ITEM, self.item, 1, i64::from(ITEMS)) as i32
    }
}

/// 2.1.6.1: how far C_LAST's constant of the run lies from that of the load.
fn last_name_delta_is_valid(load: i64, run: i64) -> bool {
    let delta = (run - load).abs();
    (65..=119).contains(&delta) && delta != 96 && delta != 112
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_keep_the_delta_rule() {
        for seed in 0..2_000 {
            let constants = Constants::from_seed(seed);
            let delta = (constants.run_last_name - constants.load_last_name).abs();
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "{constants:?}");
            assert!((0..=255).contains(&constants.load_last_name));
            assert!((0..=255).contains(&constants.run_last_name));
            assert!((0..=1_023).contains(&constants.customer));
            assert!((0..=8_191).contains(&constants.item));
        }
        assert_ne!(Constants::from_seed(1), Constants::from_seed(2));
    }

    #[test]
    fn numbers_cover_exactly_their_range() {
        let constants = Constants::from_seed(1);
        let mut rng = Rng::from_seed(2);
        let mut names = [0_u32; 1_000];
        let mut customers = vec![0_u32; CUSTOMERS as usize + 1];
        for _ in 0..1_000_000 {
            names[constants.last_name(&mut rng) as usize] += 1;
            names[constants.loaded_last_name(&mut rng) as usize] += 1;
            customers[constants.customer(&mut rng) as usize] += 1;
            assert!((1..=ITEMS).contains(&constants.item(&mut rng)));
        }
        assert!(names.iter().all(|&count| count > 0));
        assert_eq!(customers[0], 0);
        // Numbers with few bits set are rare: one in a million draws, some of them.
        let drawn = customers[1..].iter().filter(|&&count| count > 0).count();
        assert!(drawn > 2_900, "only {drawn} of 3,000 customers");
    }

    #[test]
    fn numbers_are_skewed_as_published() {
        // Or-ing sets bits: with C = 0 and A = 255 the low eight bits of 3/4 of all draws are 1
        // each, so the one value 255 gets (3/4)^8 = 10 % of the low bytes instead of 1/256.
        let mut rng = Rng::from_seed(3);
        let draws = 100_000;
        let full = (0..draws).filter(|_| nurand(&mut rng, 255, 0, 0, 1_023) & 255 == 255).count();
        let share = full as f64 / f64::from(draws);
        assert!((0.095..0.105).contains(&share), "{share}");
    }
}
