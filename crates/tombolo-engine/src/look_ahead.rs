//! How many transactions are looked ahead at, or none: found while they run, by what it brings (TPK-44).
//!
//! Whether it pays depends on how long a miss takes and how much of the data misses, which is not known
//! beforehand and changes while the data grow. So it is tried: every depth of `DEPTHS` runs `ROUNDS` slices of
//! `SLICE_TRANSACTIONS` transactions, in turn, and the depth that took the least time per transaction is used
//! for `USES` times as long. Of each depth's slices the faster half counts: the others were interrupted.
//! Looking ahead has to win by `GAIN_PERCENT_MIN`; where times say nothing (a simulated clock), the depth is
//! none.
//!
//! Not here: what looking ahead is (`procedure.rs`), clocks.

/// How many transactions may be looked ahead at. The lines of more do not fit the first-level cache.
const DEPTHS: [usize; 4] = [0, 2, 4, 8];
/// Transactions that are timed together.
const SLICE_TRANSACTIONS: usize = 256;
/// Slices of each depth in a trial.
const ROUNDS: usize = 8;
const TRIAL: usize = DEPTHS.len() * ROUNDS;
/// How much longer the best depth is used than all were tried: a depth that loses 15 % costs 0.2 %.
const USES: usize = 64;
/// By how much looking ahead must be faster than not.
const GAIN_PERCENT_MIN: u64 = 1;

/// How many transactions are looked ahead at. See the module's head.
#[derive(Clone, Debug)]
pub struct LookAhead {
    depth: usize,
    /// Nothing where the depth is given.
    trial: Option<Trial>,
}

#[derive(Clone, Debug)]
struct Trial {
    /// The slice at hand: those of the trial first, then those that use what it found.
    slice: usize,
    /// What the slice at hand ran so far, and how long that took.
    transactions: usize,
    ns: u64,
    /// What was found best last.
    best: usize,
    /// Picoseconds per transaction.
    times: [[u64; ROUNDS]; DEPTHS.len()],
}

impl LookAhead {
    /// Always so many.
    pub const fn always(transactions: usize) -> Self {
        Self { depth: transactions, trial: None }
    }

    /// As many as pay.
    pub const fn adapted() -> Self {
        let times = [[0; ROUNDS]; DEPTHS.len()];
        let trial = Trial { slice: 0, transactions: 0, ns: 0, best: 0, times };
        Self { depth: DEPTHS[0], trial: Some(trial) }
    }

    /// As a setting says: so many, or as many as pay.
    pub const fn of(setting: Option<usize>) -> Self {
        match setting {
            Some(transactions) => Self::always(transactions),
            None => Self::adapted(),
        }
    }

    /// How many to look ahead at now.
    #[inline]
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// After how many transactions to report how long they took; `None` where the depth is given. Reporting after
    /// fewer works as well; after more, the trial takes longer.
    #[inline]
    pub const fn slice(&self) -> Option<usize> {
        match &self.trial {
            Some(trial) => Some(SLICE_TRANSACTIONS - trial.transactions),
            None => None,
        }
    }

    /// How many to look ahead at where nothing can be timed.
    pub const fn untimed(&self) -> usize {
        if self.trial.is_some() { 0 } else { self.depth }
    }

    /// Says that so many transactions, looked ahead at as [`LookAhead::depth`] said, took `ns`.
    pub fn ran(&mut self, transactions: usize, ns: u64) {
        let Some(trial) = &mut self.trial else { return };
        trial.transactions += transactions;
        trial.ns += ns;
        if trial.transactions >= SLICE_TRANSACTIONS {
            self.depth = trial.next();
        }
    }
}

impl Trial {
    /// Which depth the slice tries, and in which round. Each round begins with another.
    const fn tries(slice: usize) -> (usize, usize) {
        let round = slice / DEPTHS.len();
        ((slice + round) % DEPTHS.len(), round)
    }

    /// Ends the slice at hand; the depth of the next.
    fn next(&mut self) -> usize {
        if self.slice < TRIAL {
            let (at, round) = Self::tries(self.slice);
            self.times[at][round] = self.ns * 1_000 / self.transactions as u64;
        }
        self.slice = (self.slice + 1) % (TRIAL + USES * TRIAL);
        (self.transactions, self.ns) = (0, 0);
        if self.slice == TRIAL {
            self.best = self.fastest();
        }
        match self.slice {
            slice if slice < TRIAL => DEPTHS[Self::tries(slice).0],
            _ => DEPTHS[self.best],
        }
    }

    /// The position of the depth that took the least time.
    fn fastest(&mut self) -> usize {
        let times = self.times.each_mut().map(|times| {
            times.sort_unstable();
            times[..ROUNDS / 2].iter().sum::<u64>()
        });
        let mut best = 0;
        for at in 1..DEPTHS.len() {
            let bound =
                if best == 0 { times[0] / 100 * (100 - GAIN_PERCENT_MIN) } else { times[best] };
            if times[at] < bound {
                best = at;
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Runs `slices` slices, each transaction of which takes what `ns` says of a depth; how many of the
    /// slices had which depth.
    fn run(look: &mut LookAhead, slices: usize, mut ns: impl FnMut(usize) -> u64) -> [usize; 4] {
        let mut used = [0; 4];
        for _ in 0..slices {
            let depth = look.depth();
            used[DEPTHS.iter().position(|&other| other == depth).unwrap()] += 1;
            // In parts, as a pipeline's batches are.
            look.ran(100, 100 * ns(depth));
            assert_eq!((look.depth(), look.slice()), (depth, Some(SLICE_TRANSACTIONS - 100)));
            look.ran(156, 156 * ns(depth));
        }
        used
    }

    #[test]
    fn what_is_given_is_kept() {
        for depth in [0, 1, 5, 100] {
            let mut look = LookAhead::of(Some(depth));
            (0..10_000).for_each(|at| look.ran(256, at));
            assert_eq!((look.depth(), look.untimed(), look.slice()), (depth, depth, None));
        }
        assert_eq!(LookAhead::of(None).untimed(), 0);
    }

    #[test]
    fn the_fastest_depth_is_used_most_of_the_time() {
        for (best, ns) in [
            (0, [800, 810, 820, 900]),
            (1, [1_000, 780, 800, 850]),
            (2, [1_000, 900, 790, 800]),
            (3, [1_000, 900, 800, 700]),
            // Too little to be worth it, and nothing at all.
            (0, [1_000, 995, 999, 1_000]),
            (0, [0, 0, 0, 0]),
        ] {
            let mut look = LookAhead::adapted();
            let time = |depth| ns[DEPTHS.iter().position(|&other| other == depth).unwrap()];
            let used = run(&mut look, TRIAL * (USES + 1), time);
            assert_eq!(used[best], ROUNDS + TRIAL * USES, "{used:?}");
            assert!(used.iter().all(|&slices| slices >= ROUNDS), "each is tried: {used:?}");
            // It continues by trying again.
            assert_eq!(run(&mut look, TRIAL, time), [ROUNDS; 4]);
        }
    }

    #[test]
    fn what_changes_is_noticed() {
        let mut look = LookAhead::adapted();
        let cycle = TRIAL * (USES + 1);
        let fits = |depth: usize| 500 + 10 * depth as u64;
        let misses = |depth: usize| if depth == 4 { 700 } else { 1_000 };
        assert_eq!(run(&mut look, cycle, fits)[0], ROUNDS + TRIAL * USES);
        assert_eq!(run(&mut look, cycle, misses)[2], ROUNDS + TRIAL * USES);
        assert_eq!(run(&mut look, cycle, fits)[0], ROUNDS + TRIAL * USES);
    }

    #[test]
    fn interruptions_do_not_mislead() {
        for seed in 0..50 {
            let mut rng = Rng::from_seed(seed);
            let mut look = LookAhead::adapted();
            // One slice in twenty is interrupted for the time of many; all vary by some percent.
            let used = run(&mut look, TRIAL * (USES + 1), |depth| {
                let time = if depth == 2 { 780 } else { 1_000 };
                let interrupted = if rng.below(40) == 0 { 20_000 } else { 0 };
                time + rng.below(60) + interrupted
            });
            assert_eq!(used[1], ROUNDS + TRIAL * USES, "{seed}: {used:?}");
        }
    }
}
