//! Runs of keys by several callers, each of whom begins where its last insertion ended, while leaves are divided,
//! united and given back.

use std::collections::BTreeSet;

use super::*;
use crate::memory::test_random::Random;

const STREAMS: u64 = 40;
/// Keys of a stream, with gaps of one between them.
const STREAM_KEYS: u64 = 1 << 32;

/// A tree, and what is in it.
struct Runs<'a, P: PageAccess, K: KeyFormat> {
    access: &'a P,
    tree: BTree<P, K>,
    keys: BTreeSet<u64>,
    last: [LastInsertion; 2],
}

impl<P: PageAccess, K: KeyFormat> Runs<'_, P, K> {
    fn insert(&mut self, caller: u64, n: u64) {
        let mut meet = |_, _| Meet::Duplicate;
        let (key, last) = (key(n), &mut self.last[caller as usize]);
        let row = RowId::new(n % 1_000 + 1);
        let inserted = self.tree.insert(self.access, (&key, row), last, &mut meet, unlogged, &());
        let expected = if self.keys.insert(n) { Inserted::Done } else { Inserted::Duplicate };
        assert_eq!(inserted, Ok(expected), "{n}");
    }

    fn remove(&mut self, n: u64) {
        assert!(self.keys.remove(&n));
        remove(&self.tree, self.access, &key(n), n % 1_000 + 1);
    }

    fn is_as_expected(&self) {
        let found = everything(&self.tree, self.access);
        assert!(
            found
                .iter()
                .map(|entry| entry.0.clone())
                .eq(self.keys.iter().map(|n| key(*n).to_vec()))
        );
        assert_eq!(self.tree.check(self.access), []);
        // Each is found from the root.
        for n in &self.keys {
            assert_eq!(find(&self.tree, self.access, &key(*n)), [n % 1_000 + 1], "{n}");
        }
    }
}

fn runs<K: KeyFormat>(unique: bool, seed: u64) {
    let pool = small_pool(64);
    let tree = BTree::<_, K>::create(&pool, STORE, integers(unique), &()).unwrap();
    let mut runs = Runs { access: &pool, tree, keys: BTreeSet::new(), last: [first(); 2] };
    let (mut random, mut next) = (Random::new(seed), [2; STREAMS as usize]);
    for step in 0..4_000 {
        let (caller, stream) = (random.below(2), random.below(STREAMS));
        let start = (stream + 1) * STREAM_KEYS;
        match random.below(8) {
            // All or some of a stream goes: leaves become empty, and their pages are others' leaves next.
            0 => {
                let end = start + random.below(next[stream as usize]);
                let gone: Vec<_> = runs.keys.range(start..end).copied().collect();
                gone.into_iter().for_each(|n| runs.remove(n));
            }
            // Between others.
            1 => {
                for _ in 0..20 {
                    let odd = random.below(next[stream as usize]) | 1;
                    runs.insert(caller, start + odd);
                }
            }
            _ => {
                for _ in 0..=random.below(40) {
                    runs.insert(caller, start + next[stream as usize]);
                    next[stream as usize] += 2;
                }
            }
        }
        if step % 500 == 499 {
            runs.is_as_expected();
        }
    }
}

#[test]
fn callers_that_insert_runs_go_on_where_they_were() {
    for seed in 0..4 {
        runs::<IntegerKeys>(seed % 2 == 0, seed);
        runs::<TypedColumns>(seed % 2 == 0, seed);
    }
}
