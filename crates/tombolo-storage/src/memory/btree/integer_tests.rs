//! The integer tree against a model, the standard library's B-tree.

use super::super::budget::{Allowance, Budget};
use super::super::region::RESERVATION_BYTES;
use super::super::test_random::Random;
use super::{ABSENT, InsertError, IntegerTree, RunError};
use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::ControlFlow;

fn tree() -> IntegerTree {
    IntegerTree::new(RESERVATION_BYTES).unwrap()
}

fn collect(tree: &IntegerTree, from: Bound<u64>, to: Bound<u64>, forward: bool) -> Vec<(u64, u32)> {
    let mut entries = Vec::new();
    let visit = |key, value| {
        entries.push((key, value));
        ControlFlow::Continue(())
    };
    let flow =
        if forward { tree.scan(from, to, visit) } else { tree.scan_backward(from, to, visit) };
    assert_eq!(flow, ControlFlow::Continue(()));
    entries
}

fn bound(random: &mut Random, key: u64) -> Bound<u64> {
    match random.below(5) {
        0 => Unbounded,
        1 | 2 => Included(key),
        _ => Excluded(key),
    }
}

fn is_empty(from: Bound<u64>, to: Bound<u64>) -> bool {
    match (from, to) {
        (Included(from), Included(to)) => from > to,
        (Included(from) | Excluded(from), Excluded(to) | Included(to)) => from >= to,
        _ => false,
    }
}

struct Pair {
    tree: IntegerTree,
    model: BTreeMap<u64, u32>,
    random: Random,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        Pair { tree: tree(), model: BTreeMap::new(), random: Random::new(seed) }
    }

    fn insert(&mut self, key: u64) {
        let value = self.random.next() as u32 >> 1;
        let expected = match self.model.get(&key) {
            Some(&existing) => Err(InsertError::Duplicate(existing)),
            None => Ok(()),
        };
        assert_eq!(self.tree.insert(key, value), expected);
        self.model.entry(key).or_insert(value);
    }

    fn insert_run(&mut self, keys: &[u64]) -> bool {
        let values: Vec<u32> = keys.iter().map(|_| self.random.next() as u32 >> 1).collect();
        let mut grown = self.model.clone();
        let expected = keys.iter().zip(&values).enumerate().try_for_each(
            |(index, (&key, &value))| match grown.insert(key, value) {
                Some(existing) => Err(RunError { index, error: InsertError::Duplicate(existing) }),
                None => Ok(()),
            },
        );
        assert_eq!(self.tree.insert_run(keys, &values), expected);
        if expected.is_ok() {
            self.model = grown;
        }
        expected.is_ok()
    }

    fn remove(&mut self, key: u64) {
        assert_eq!(self.tree.remove(key), self.model.remove(&key));
    }

    fn existing_key(&mut self, near: u64) -> u64 {
        self.model.range(near..).next().or(self.model.iter().next()).map_or(near, |(&key, _)| key)
    }

    fn check(&mut self, space: u64) {
        self.tree.check().unwrap();
        assert_eq!(self.tree.len(), self.model.len());
        let mut keys: Vec<u64> = (0..37).map(|_| self.random.below(space)).collect();
        keys.push(u64::MAX);
        for key in &mut keys[..18] {
            *key = self.existing_key(*key);
        }
        let mut found = vec![0; keys.len()];
        self.tree.find_many(&keys, &mut found);
        for (key, found) in keys.iter().zip(found) {
            let expected = self.model.get(key).copied();
            assert_eq!(self.tree.get(*key), expected);
            assert_eq!((found != ABSENT).then_some(found), expected);
        }
        for _ in 0..4 {
            let (from, to) = (self.random.below(space), self.random.below(space));
            let from = if from % 2 == 0 { self.existing_key(from) } else { from };
            let to = if to % 2 == 0 { self.existing_key(to) } else { to };
            let (from, to) = (bound(&mut self.random, from), bound(&mut self.random, to));
            let expected: Vec<(u64, u32)> = if is_empty(from, to) {
                Vec::new()
            } else {
                self.model.range((from, to)).map(|(&key, &value)| (key, value)).collect()
            };
            assert_eq!(collect(&self.tree, from, to, true), expected);
            let backward: Vec<(u64, u32)> = expected.into_iter().rev().collect();
            assert_eq!(collect(&self.tree, from, to, false), backward);
        }
    }

    fn remove_everything(&mut self) {
        let mut keys: Vec<u64> = self.model.keys().copied().collect();
        while !keys.is_empty() {
            let at = self.random.below(keys.len() as u64) as usize;
            let key = keys.swap_remove(at);
            self.remove(key);
            if keys.len().is_multiple_of(257) {
                self.tree.check().unwrap();
            }
        }
        assert_eq!(self.tree.height(), 1);
        assert_eq!((self.tree.leaves.len(), self.tree.inners.len()), (1, 0));
        self.tree.check().unwrap();
    }
}

/// Random operations over key spaces from crowded to nearly empty.
#[test]
fn random_operations() {
    for (seed, space) in [(1, 50), (2, 3_000), (3, 20_000), (4, u64::MAX)] {
        let mut pair = Pair::new(seed);
        for step in 0..20_000 {
            let growing = step % 10_000 < 6_000;
            let key = pair.random.below(space);
            if pair.random.below(100) < if growing { 75 } else { 20 } {
                pair.insert(key);
            } else {
                let key = pair.existing_key(key);
                pair.remove(key);
            }
            if step % 500 == 0 {
                pair.check(space);
            }
        }
        pair.check(space);
        pair.remove_everything();
        pair.insert(7);
        pair.check(space);
    }
}

/// Interleaved ascending runs with their own prefixes, with deletions at the front (a queue) and
/// runs that hit duplicates.
#[test]
fn interleaved_runs() {
    for seed in 10..14 {
        let mut pair = Pair::new(seed);
        let shift = [4, 12, 20, 40][(seed - 10) as usize];
        let mut next = [0u64; 20];
        for step in 0..4_000 {
            let run = pair.random.below(20);
            let key = |offset: u64| (run << shift) + offset;
            let at = next[run as usize];
            match pair.random.below(6) {
                0 | 1 => {
                    pair.insert(key(at));
                    next[run as usize] += 1;
                }
                2..=4 => {
                    let length = 1 + pair.random.below(25);
                    let keys: Vec<u64> = (at..at + length).map(key).collect();
                    pair.insert_run(&keys);
                    next[run as usize] += length;
                }
                _ => {
                    for _ in 0..15 {
                        let key = pair.existing_key(key(0));
                        pair.remove(key);
                    }
                }
            }
            if step % 250 == 0 {
                pair.check((20 << shift) + 1_000);
            }
        }
        pair.remove_everything();
    }
}

/// Runs over a crowded key space: most hit a duplicate somewhere and must leave nothing behind.
#[test]
fn runs_are_all_or_nothing() {
    let mut pair = Pair::new(20);
    let mut inserted = 0;
    for step in 0..3_000 {
        let from = pair.random.below(3_000);
        let stride = 1 + pair.random.below(40);
        let mut keys: Vec<u64> =
            (0..pair.random.below(30)).map(|i| (from + i * stride) % 3_000).collect();
        if step % 10 != 0 {
            keys.sort_unstable();
        }
        inserted += u32::from(pair.insert_run(&keys));
        if step % 3 == 0 {
            let key = pair.existing_key(from);
            pair.remove(key);
        }
        if step % 100 == 0 {
            pair.check(3_000);
        }
    }
    pair.check(3_000);
    assert!((200..2_500).contains(&inserted), "{inserted} of 3,000 runs inserted");
}

#[test]
fn extreme_keys() {
    let mut pair = Pair::new(30);
    for key in [u64::MAX, 0, 1, u64::MAX - 1, 1 << 63, (1 << 63) - 1] {
        assert_eq!(pair.tree.get(key), None);
        pair.insert(key);
        pair.insert(key);
    }
    for key in 0..2_000 {
        pair.insert(key);
        pair.insert(u64::MAX - key);
    }
    pair.check(u64::MAX);
    pair.remove(u64::MAX);
    assert_eq!(pair.tree.get(u64::MAX), None);
    pair.remove_everything();
}

#[test]
fn ascending_and_descending_loads_fill_the_leaves() {
    let (mut ascending, mut descending, mut runs) = (tree(), tree(), tree());
    for key in 0..50_000u64 {
        ascending.insert(key, 1).unwrap();
        descending.insert(50_000 - key, 1).unwrap();
        runs.insert(((key % 50) << 32) + key / 50, 1).unwrap();
    }
    for tree in [&ascending, &descending, &runs] {
        tree.check().unwrap();
        assert!(tree.leaf_fill() > 0.9, "fill {}", tree.leaf_fill());
    }
    let mut random = Random::new(40);
    let mut scattered = tree();
    for _ in 0..50_000 {
        scattered.insert(random.next(), 1).unwrap();
    }
    assert!(scattered.leaf_fill() > 0.6, "fill {}", scattered.leaf_fill());
}

#[test]
fn no_space_changes_nothing() {
    let mut tree = IntegerTree::new(64 << 10).unwrap();
    let mut random = Random::new(50);
    let mut model = BTreeMap::new();
    let error = loop {
        let key = random.next();
        match tree.insert(key, 5) {
            Ok(()) => assert_eq!(model.insert(key, 5), None),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, InsertError::NoSpace(_)));
    tree.check().unwrap();
    let start = 1u64 << 40;
    let keys: Vec<u64> = (start..start + 10_000).collect();
    let error = tree.insert_run(&keys, &vec![1; 10_000]).unwrap_err();
    assert!(matches!(error.error, InsertError::NoSpace(_)) && error.index < 100);
    tree.check().unwrap();
    assert!(collect(&tree, Unbounded, Unbounded, true).into_iter().eq(model));
}

#[test]
fn a_scan_stops_when_asked() {
    let mut tree = tree();
    for key in 0..1_000 {
        tree.insert(key, key as u32).unwrap();
    }
    let mut seen = 0;
    let flow = tree.scan(Included(100), Unbounded, |key, value| {
        assert_eq!((key, value), (100 + seen, 100 + seen as u32));
        seen += 1;
        if seen == 50 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((flow, seen), (ControlFlow::Break(()), 50));
}

/// Looks every key of `keys` up, alone and in groups, after having asked for it.
fn find_all(pair: &mut Pair, keys: &[u64]) {
    for group in keys.chunks(13) {
        let mut found = vec![0; group.len()];
        for &key in group {
            pair.tree.prefetch_get(key);
            pair.tree.prefetch_insert(key);
            let expected = pair.model.get(&key).copied();
            let known = pair.tree.known(key);
            assert!(known.is_none() || known == expected, "key {key}");
            assert_eq!(pair.tree.get(key), expected, "key {key}");
        }
        if pair.random.below(2) == 0 {
            let key = group[pair.random.below(group.len() as u64) as usize];
            assert_eq!(pair.tree.find(key), pair.model.get(&key).copied(), "key {key}");
        }
        pair.tree.find_many(group, &mut found);
        for (&key, found) in group.iter().zip(found) {
            let expected = pair.model.get(&key).copied();
            assert_eq!(found, expected.unwrap_or(ABSENT), "key {key}");
        }
    }
}

#[test]
fn keys_with_gaps_of_all_kinds_are_found() {
    for (seed, gap_max) in [(1, 1), (2, 2), (3, 30), (4, 500), (5, 1 << 40)] {
        let mut pair = Pair::new(seed);
        let (mut key, mut keys) = (seed, Vec::new());
        while keys.len() < 20_000 {
            let bits = pair.random.below(13);
            let run = 1 + pair.random.below(1 << bits);
            keys.extend(key..key + run);
            key += run + pair.random.below(gap_max);
        }
        keys.extend([u64::MAX - 2, u64::MAX]);
        let in_order = seed % 2 == 1;
        for i in 0..keys.len() {
            let other = i + pair.random.below((keys.len() - i) as u64) as usize;
            if !in_order {
                keys.swap(i, other);
            }
            pair.insert(keys[i]);
        }
        assert!(pair.tree.height() > 3);
        let near = |&key: &u64| [key.saturating_sub(21), key, key.saturating_add(1)];
        let asked: Vec<u64> = keys.iter().flat_map(near).collect();
        find_all(&mut pair, &asked);
        pair.tree.check().unwrap();
        for &key in keys.iter().step_by(3) {
            assert_eq!(pair.tree.remove(key), pair.model.remove(&key));
        }
        find_all(&mut pair, &asked);
        pair.tree.check().unwrap();
    }
}

/// How many of `keys` the tree finds without a descent.
fn known(pair: &Pair, keys: &[u64]) -> usize {
    keys.iter().filter(|&&key| pair.tree.known(key).is_some()).count()
}

#[test]
fn neighbours_are_known_and_forgotten() {
    // Districts of customers and warehouses of stock: gaps between them.
    for (run, stride) in [(1_000, 1 << 12), (7_777, 1 << 13), (10_000, 1 << 14)] {
        let mut pair = Pair::new(run);
        let firsts = (1..=20_000 / run).map(|group| group * stride + 1);
        let keys: Vec<u64> = firsts.flat_map(|first| first..first + run).collect();
        for keys in keys.chunks(1_000) {
            assert!(pair.insert_run(keys));
        }
        let hits = known(&pair, &keys);
        assert!(hits * 100 > keys.len() * 98, "{hits} of {} keys of {run} in a run", keys.len());
        find_all(&mut pair, &keys);
        // But for leaves across the gaps.
        let hits = known(&pair, &keys);
        assert!(hits + 20 * (20_000 / run as usize) >= keys.len(), "{hits} of {}", keys.len());
        pair.tree.check().unwrap();
        for (i, &key) in keys.iter().enumerate().rev() {
            if i % 1_000 < 300 || i % 3 == 0 {
                pair.remove(key);
            }
        }
        find_all(&mut pair, &keys);
        pair.check(30 * stride);
        // The same keys with other values.
        for key in (0..6_000).map(|key| key * 7) {
            pair.insert(key);
        }
        find_all(&mut pair, &keys);
        pair.check(30 * stride);
        let left: Vec<u64> = pair.model.keys().copied().collect();
        for key in left {
            pair.remove(key);
        }
        assert_eq!(known(&pair, &keys), 0);
        find_all(&mut pair, &keys);
        pair.tree.check().unwrap();
    }
}

/// A queue: keys come at the back and go at the front, for ever.
#[test]
fn a_directory_moves_with_its_keys() {
    for is_ascending in [true, false] {
        let mut pair = Pair::new(u64::from(is_ascending));
        let key = |at: u64| if is_ascending { at } else { (1 << 40) - at };
        let mut bytes = 0;
        for at in 0..=400_000 {
            pair.insert(key(at));
            if at >= 3_000 {
                pair.remove(key(at - 3_000));
            }
            if at % 20_000 == 0 && at > 0 {
                let keys: Vec<u64> = (at - 2_900..=at).map(key).collect();
                find_all(&mut pair, &keys);
                assert_eq!(known(&pair, &keys), keys.len());
                pair.tree.check().unwrap();
                bytes = if at == 100_000 { pair.tree.committed_bytes() } else { bytes };
            }
        }
        assert_eq!(pair.tree.committed_bytes(), bytes, "it holds no more than it did");
    }
}

#[test]
fn keys_far_apart_have_no_directory() {
    let mut pair = Pair::new(3);
    let keys: Vec<u64> = (0..20_000).map(|at| at << 20).collect();
    keys.iter().for_each(|&key| pair.insert(key));
    let bytes = pair.tree.committed_bytes();
    find_all(&mut pair, &keys);
    assert_eq!((known(&pair, &keys), pair.tree.committed_bytes()), (0, bytes));
    // A few neighbours, again and again: no more pages than their number allows.
    let keys: Vec<u64> = (0..400).flat_map(|at| (at << 12..).take(20)).collect();
    let mut pair = Pair::new(4);
    keys.iter().for_each(|&key| pair.insert(key));
    find_all(&mut pair, &keys);
    find_all(&mut pair, &keys);
    let known = known(&pair, &keys);
    assert!((80..=20 * (4 + 2 * 8)).contains(&known), "{known} of {}", keys.len());
    pair.tree.check().unwrap();
}

#[test]
fn a_directory_without_memory_knows_nothing() {
    let mut tree = IntegerTree::new(16 << 10).unwrap();
    let mut keys = Vec::new();
    while tree.insert(keys.len() as u64, keys.len() as u32).is_ok() {
        keys.push(keys.len() as u64);
    }
    let mut found = vec![0; keys.len()];
    tree.find_many(&keys, &mut found);
    assert!(found.iter().zip(&keys).all(|(&value, &key)| u64::from(value) == key));
    tree.check().unwrap();
}

/// Its directory has no page then, not even the one that stands for none.
#[test]
fn a_tree_that_took_all_memory_finds_its_keys() {
    for pages in 2..40 {
        let budget = Budget::new(pages << 12);
        let Ok(mut tree) = IntegerTree::new(Allowance::new(1 << 20, &budget)) else { continue };
        let mut keys = Vec::new();
        while tree.insert(keys.len() as u64, keys.len() as u32).is_ok() {
            keys.push(keys.len() as u64);
        }
        for _ in 0..2 {
            assert!(keys.iter().all(|&key| tree.find(key) == Some(key as u32)), "{pages} pages");
        }
        assert_eq!(tree.find(keys.len() as u64), None);
        tree.check().unwrap();
    }
}

#[test]
fn the_highest_keys_are_found_as_all_others() {
    let mut pair = Pair::new(7);
    let keys: Vec<u64> = (u64::MAX - 5_000..=u64::MAX).collect();
    for first in [0, u64::from(u32::MAX) << 32] {
        let keys: Vec<u64> = (first..first + 5_000).collect();
        assert!(pair.insert_run(&keys));
    }
    assert!(pair.insert_run(&keys));
    find_all(&mut pair, &keys);
    for &key in &keys {
        pair.remove(key);
    }
    find_all(&mut pair, &keys);
    pair.tree.check().unwrap();
    // Without others, which are too far away, they have a directory.
    let mut pair = Pair::new(8);
    assert!(pair.insert_run(&keys));
    find_all(&mut pair, &keys);
    assert!(pair.tree.known(u64::MAX).is_some());
    pair.tree.check().unwrap();
}
