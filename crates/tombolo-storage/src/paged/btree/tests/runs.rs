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
    last: [LastInsertions; 2],
    routes: Routes,
}

impl<'a, P: PageAccess, K: KeyFormat> Runs<'a, P, K> {
    /// Of a tree that is empty.
    fn new(access: &'a P, tree: BTree<P, K>) -> Self {
        let (keys, last, routes) = (BTreeSet::new(), [first(), first()], Routes::default());
        Self { access, tree, keys, last, routes }
    }

    fn insert(&mut self, caller: u64, n: u64) {
        let mut meet = |_, _| Meet::Duplicate;
        let (key, last) = (key(n), &mut self.last[caller as usize]);
        let row = RowId::new(n % 1_000 + 1);
        let inserted = self.tree.insert(self.access, (&key, row), last, &mut meet, unlogged, &());
        let expected = if self.keys.insert(n) { Inserted::Done } else { Inserted::Duplicate };
        assert_eq!(inserted, Ok(expected), "{n}");
    }

    /// Inserts keys that ascend by `step` from `from` on, as many together as go; none of them is there. Returns how
    /// many came behind the one before them.
    fn insert_run(&mut self, caller: u64, from: u64, [step, count]: [u64; 2]) -> usize {
        let keys: Vec<_> = (0..count).map(|i| (from + i * step, key(from + i * step))).collect();
        let (mut done, mut together) = (0, 0);
        while let Some((n, _)) = keys.get(done) {
            self.insert(caller, *n);
            done += 1;
            let run = keys[done..].iter().map(|(n, key)| {
                let (row, hint) = (RowId::new(n % 1_000 + 1), self.tree.hint_of(key));
                RunEntry { key, row, hint }
            });
            let last = &mut self.last[caller as usize];
            let behind = self.tree.insert_behind(self.access, run, last, &(), |_, _| Ok(None));
            let behind = behind.map_err(|error: PageError| error.to_string()).unwrap();
            self.keys.extend(keys[done..done + behind].iter().map(|(n, _)| *n));
            done += behind;
            together += behind;
        }
        together
    }

    fn remove(&mut self, n: u64) {
        assert!(self.keys.remove(&n));
        remove(&self.tree, self.access, &key(n), n % 1_000 + 1);
    }

    fn is_as_expected(&mut self) {
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
            let rows = find_by(&self.tree, self.access, &mut self.routes, &key(*n));
            assert_eq!(rows, [n % 1_000 + 1], "{n}");
        }
    }
}

fn runs<K: KeyFormat>(unique: bool, seed: u64) {
    let pool = small_pool(64);
    let tree = BTree::<_, K>::create(&pool, STORE, integers(unique), &()).unwrap();
    let mut runs = Runs::new(&pool, tree);
    let (mut random, mut next) = (Random::new(seed), [2; STREAMS as usize]);
    let mut together = 0;
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
            2..5 => {
                for _ in 0..=random.below(40) {
                    runs.insert(caller, start + next[stream as usize]);
                    next[stream as usize] += 2;
                }
            }
            _ => {
                let count = random.below(40) + 1;
                let next = &mut next[stream as usize];
                together += runs.insert_run(caller, start + *next, [2, count]);
                *next += 2 * count;
            }
        }
        if step % 500 == 499 {
            runs.is_as_expected();
        }
    }
    // Most of some 1,500 runs of twenty.
    assert!(together > 20_000, "{together}");
}

/// What does not belong behind the entry before it, or has no room there, is left.
#[test]
fn a_run_ends_where_another_entry_comes_between() {
    let pool = small_pool(16);
    let tree = BTree::<_, IntegerKeys>::create(&pool, STORE, integers(true), &()).unwrap();
    let mut runs = Runs::new(&pool, tree);
    let inserted = |runs: &mut Runs<'_, _, _>, numbers: &[u64]| {
        let keys: Vec<_> = numbers.iter().map(|n| (*n, key(*n))).collect();
        let run = keys.iter().map(|(n, key)| RunEntry {
            key,
            row: RowId::new(n % 1_000 + 1),
            hint: runs.tree.hint_of(key),
        });
        let mut logged = None;
        let log = |place: Place, count| {
            logged = Some((place.slot, count));
            Ok::<_, PageError>(None)
        };
        let count = runs.tree.insert_behind(runs.access, run, &mut runs.last[0], &(), log);
        let count = count.map_err(|error| error.to_string()).unwrap();
        assert_eq!(logged.map_or(0, |logged| logged.1), count);
        runs.keys.extend(&numbers[..count]);
        runs.is_as_expected();
        (count, logged.map(|logged| logged.0))
    };
    assert_eq!(inserted(&mut runs, &[1, 2]), (0, None), "nothing was inserted before");
    [100, 50, 10].into_iter().for_each(|n| runs.insert(0, n));
    assert_eq!(inserted(&mut runs, &[]), (0, None));
    assert_eq!(inserted(&mut runs, &[5, 20]), (0, None), "the first one lies before");
    assert_eq!(inserted(&mut runs, &[20, 30, 30, 40]), (2, Some(1)), "a key comes twice");
    assert_eq!(inserted(&mut runs, &[40, 35, 45]), (1, Some(3)), "they do not ascend");
    assert_eq!(inserted(&mut runs, &[45, 50, 60]), (1, Some(4)), "one is there");
    assert_eq!(inserted(&mut runs, &[46, 60]), (1, Some(5)), "another entry lies between");
    runs.insert(0, 60);
    assert_eq!(inserted(&mut runs, &[70, 80, 110]), (2, Some(8)));
    runs.insert(0, 110);
    let many: Vec<u64> = (111..2_000).collect();
    let (count, _) = inserted(&mut runs, &many);
    assert!((200..1_889).contains(&count), "{count} fill the leaf");
}

#[test]
fn callers_that_insert_runs_go_on_where_they_were() {
    for seed in 0..4 {
        runs::<IntegerKeys>(seed % 2 == 0, seed);
        runs::<TypedColumns>(seed % 2 == 0, seed);
    }
}

/// A restart redoes the entries of a run one by one: that has to make the same page of it.
#[test]
fn a_run_leaves_the_bytes_of_single_insertions() {
    fn bytes<K: KeyFormat>(seed: u64, together: bool) -> Vec<u8> {
        let pool = small_pool(64);
        let tree = BTree::<_, K>::create(&pool, STORE, integers(true), &()).unwrap();
        let (last, keys) = ([first(), first()], BTreeSet::new());
        let mut runs = Runs { access: &pool, tree, keys, last, routes: Routes::default() };
        let mut random = Random::new(seed);
        for _ in 0..400 {
            // Far from each other, so that heads are counted anew; some go, so that entries move together.
            let from = (random.below(1 << 40) + 1) << random.below(20);
            let (step, count) = (random.below(4) + 1, random.below(60) + 1);
            if runs.keys.range(from..from + step * count).next().is_some() {
                continue;
            }
            if together {
                runs.insert_run(0, from, [step, count]);
            } else {
                (0..count).for_each(|i| runs.insert(0, from + i * step));
            }
            for _ in 0..random.below(60) {
                let near = runs.keys.range(random.below(1 << 45)..).next().copied();
                near.into_iter().for_each(|n| runs.remove(n));
            }
        }
        runs.is_as_expected();
        let pages = (1..pool.page_count()).map(PageId);
        pages.flat_map(|id| pool.fix_shared(id).unwrap().page().bytes().to_vec()).collect()
    }
    for seed in 0..4 {
        assert!(bytes::<TypedColumns>(seed, true) == bytes::<TypedColumns>(seed, false), "{seed}");
        assert!(bytes::<IntegerKeys>(seed, true) == bytes::<IntegerKeys>(seed, false), "{seed}");
    }
}
