//! Pseudo-random numbers for randomised commands: the same for the same seed, hence predictable.

/// Numbers that follow from a seed (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, chain: usize, at: usize) -> Self {
        let mut random = Self(seed);
        for part in [chain as u64, at as u64] {
            random.0 = random.next() ^ part;
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// From 1 to 2^`bits`: small numbers as often as large ones.
    pub(crate) fn magnitude(&mut self, bits: u64) -> u64 {
        let most = 1 << (1 + self.below(bits));
        1 + self.below(most)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
