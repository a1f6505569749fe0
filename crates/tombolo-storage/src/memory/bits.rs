//! `Bits`: a set of small numbers, a bit each: rows of a table, slots of a size class, records.
//!
//! Words of 64 bits, as a slab's live bits are. Not here: those themselves, which grow with their region
//! (`slab.rs`). Invariant: what lies behind the last word is in no set.

/// See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::memory) struct Bits(Vec<u64>);

impl FromIterator<u64> for Bits {
    /// A set of words.
    fn from_iter<W: IntoIterator<Item = u64>>(words: W) -> Self {
        Self(words.into_iter().collect())
    }
}

impl Bits {
    /// An empty set that has room for numbers below `count`.
    pub(in crate::memory) fn below(count: u32) -> Self {
        Self(vec![0; count.div_ceil(64) as usize])
    }

    /// Makes room for numbers below `count`.
    pub(in crate::memory) fn grow(&mut self, count: u32) {
        self.0.resize(self.0.len().max(count.div_ceil(64) as usize), 0);
    }

    /// Its words.
    pub(in crate::memory) fn words(&self) -> &[u64] {
        &self.0
    }

    /// Memory it takes, in bytes.
    pub(in crate::memory) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }

    /// Whether a number is in it.
    pub(in crate::memory) fn contains(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Puts a number in, making room if there is none; says whether it is new.
    pub(in crate::memory) fn insert(&mut self, number: usize) -> bool {
        if number / 64 >= self.0.len() {
            self.0.resize(number / 64 + 1, 0);
        }
        !self.put(number, true)
    }

    /// Puts a number in or takes it out; says whether it was in.
    ///
    /// # Panics
    /// When there is no room for it.
    pub(in crate::memory) fn put(&mut self, number: usize, is_in: bool) -> bool {
        let (word, bit) = (&mut self.0[number / 64], number % 64);
        let was_in = *word >> bit & 1 == 1;
        *word = *word & !(1 << bit) | u64::from(is_in) << bit;
        was_in
    }

    /// Takes a number out; says whether it was in.
    pub(in crate::memory) fn remove(&mut self, number: usize) -> bool {
        self.contains(number) && self.put(number, false)
    }

    /// The lowest number from `from` on, and below `end`, that is not in it; else one that is not
    /// below `end`.
    ///
    /// # Panics
    /// When there is no room for numbers below `end`.
    pub(in crate::memory) fn first_out(&self, mut from: u32, end: u32) -> u32 {
        while from < end {
            let out = !self.0[from as usize / 64] >> (from % 64);
            if out != 0 {
                return from + out.trailing_zeros();
            }
            from = (from / 64 + 1) * 64;
        }
        from
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::memory::test_random::Random;

    #[test]
    fn it_has_what_was_put_in_and_not_taken_out() {
        let mut random = Random::new(3);
        let (mut bits, mut model) = (Bits::below(1), BTreeSet::new());
        for _ in 0..3_000 {
            let number = random.below(400) as usize;
            match random.below(4) {
                0 => assert_eq!(bits.remove(number), model.remove(&number)),
                1 if number / 64 < bits.words().len() => {
                    let is_in = random.below(2) == 0;
                    assert_eq!(bits.put(number, is_in), model.contains(&number));
                    _ = if is_in { model.insert(number) } else { model.remove(&number) };
                }
                _ => assert_eq!(bits.insert(number), model.insert(number)),
            }
            assert!((0..450).all(|number| bits.contains(number) == model.contains(&number)));
            let count: u32 = bits.words().iter().map(|word| word.count_ones()).sum();
            assert_eq!(count as usize, model.len());
        }
        assert_eq!(bits.words().iter().copied().collect::<Bits>(), bits);
    }

    #[test]
    fn the_first_that_is_out_is_found() {
        let mut bits = Bits::below(200);
        assert_eq!((bits.first_out(0, 200), bits.first_out(130, 200)), (0, 130));
        (0..190).for_each(|number| _ = bits.insert(number));
        bits.put(70, false);
        assert_eq!((bits.first_out(0, 200), bits.first_out(71, 200)), (70, 190));
        assert!(bits.first_out(71, 150) >= 150);
        assert_eq!(bits.first_out(250, 200), 250);
    }

    #[test]
    fn room_is_made_and_never_taken() {
        let mut bits = Bits::default();
        bits.grow(65);
        assert_eq!((bits.words().len(), bits.memory_bytes() >= 16), (2, true));
        bits.insert(64);
        bits.grow(10);
        assert!(bits.contains(64) && !bits.contains(1_000) && !bits.remove(1_000));
    }
}
