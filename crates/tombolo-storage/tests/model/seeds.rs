//! Which seeds a test runs, and what happened under all of them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::definition::Form;
use super::run::Counts;

/// The seeds to run and whether they are the test's own choice.
fn seeds(default: u64) -> (std::ops::Range<u64>, bool) {
    let Ok(text) = std::env::var("TOMBOLO_MODEL_SEEDS") else { return (0..default, true) };
    let number = |text: &str| text.trim().parse().expect("TOMBOLO_MODEL_SEEDS is N or FROM..TO");
    match text.split_once("..") {
        Some((from, to)) => (number(from)..number(to), false),
        None => (0..number(&text), false),
    }
}

/// Runs `test` for every seed, says which one failed, and returns what happened in all, where the
/// seeds are the test's own.
pub(crate) fn for_seeds(name: &str, default: u64, test: impl Fn(u64) -> Counts) -> Option<Counts> {
    let (seeds, is_default) = seeds(default);
    let mut sum = Counts::default();
    for seed in seeds {
        match catch_unwind(AssertUnwindSafe(|| test(seed))) {
            Ok(counts) => sum.add(&counts),
            Err(panic) => {
                eprintln!(
                    "seed {seed} failed; replay: TOMBOLO_MODEL_SEEDS={seed}..{} \
                     cargo test -p tombolo-storage {name}",
                    seed + 1
                );
                resume_unwind(panic);
            }
        }
    }
    is_default.then_some(sum)
}

impl Counts {
    /// That every kind of call was made often enough.
    pub(crate) fn assert_tested_everything(&self) {
        let changes = [self.inserted, self.duplicates, self.updated, self.deleted, self.too_long];
        assert!(changes.iter().all(|&count| count > 10), "{self:?}");
        for form in Form::ALL {
            assert!(self.found[form as usize] > 100, "look-ups of {form:?}: {self:?}");
            let is_tree = !matches!(form, Form::PackedHash | Form::ByteHash);
            assert!(!is_tree || self.visited[form as usize] > 1_000, "scans of {form:?}: {self:?}");
        }
        assert_eq!(self.out_of_space, 0);
    }

    /// Adds what happened under another seed.
    pub(crate) fn add(&mut self, other: &Self) {
        self.inserted += other.inserted;
        self.duplicates += other.duplicates;
        self.updated += other.updated;
        self.deleted += other.deleted;
        self.too_long += other.too_long;
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.out_of_space += other.out_of_space;
        self.hints_right += other.hints_right;
        self.hints_outdated += other.hints_outdated;
        for form in Form::ALL {
            self.found[form as usize] += other.found[form as usize];
            self.visited[form as usize] += other.visited[form as usize];
        }
    }
}
