//! The seeded random numbers of the model test: those of the crate's own tests, and choices by them.

#[path = "../../src/memory/test_random.rs"]
mod test_random;

pub(crate) use test_random::Random;

impl Random {
    /// True `percent` times in a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}
