//! The byte tree against a model, the standard library's B-tree.

use super::super::region::RESERVATION_BYTES;
use super::super::test_random::Random;
use super::{ABSENT, ByteTree, InsertError, KEY_BYTES_MAX, Position, RunError};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

type Model = BTreeMap<Vec<u8>, u32>;

/// How the keys of a test look.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Few letters, few lengths: prefixes of each other, zero bytes, equal heads.
    Crowded,
    /// A common prefix, a number, a name: like a secondary index.
    Composite,
    /// Long keys that differ late, among short ones.
    Long,
    /// 8 random bytes.
    Scattered,
}

fn key(shape: Shape, random: &mut Random) -> Vec<u8> {
    match shape {
        Shape::Crowded => {
            let len = random.below(8) as usize;
            (0..len).map(|_| [0, 1, 255][random.below(3) as usize]).collect()
        }
        Shape::Composite => {
            let mut key = b"warehouse".to_vec();
            key.push(random.below(3) as u8);
            let name = ["BAR", "OUGHT", "ABLE", "PRI"][random.below(4) as usize];
            key.extend_from_slice(name.as_bytes());
            key.extend_from_slice(&(random.below(400) as u32).to_be_bytes());
            key
        }
        Shape::Long => {
            let mut key = vec![7; random.below(1_021) as usize];
            key.extend_from_slice(&random.next().to_be_bytes()[..3]);
            key
        }
        Shape::Scattered => random.next().to_be_bytes().to_vec(),
    }
}

fn start_of(position: Position<'_>, key: &[u8]) -> bool {
    match position {
        Position::Before(bytes) => key >= bytes,
        Position::After(bytes) => key > bytes && !key.starts_with(bytes),
    }
}

fn collect(
    tree: &ByteTree,
    from: Position<'_>,
    to: Position<'_>,
    forward: bool,
) -> Vec<(Vec<u8>, u32)> {
    let mut entries = Vec::new();
    let visit = |key: &[u8], value| {
        entries.push((key.to_vec(), value));
        ControlFlow::Continue(())
    };
    let flow =
        if forward { tree.scan(from, to, visit) } else { tree.scan_backward(from, to, visit) };
    assert_eq!(flow, ControlFlow::Continue(()));
    entries
}

struct Pair {
    tree: ByteTree,
    model: Model,
    random: Random,
    shape: Shape,
}

impl Pair {
    fn new(seed: u64, shape: Shape) -> Pair {
        let tree = ByteTree::new(KEY_BYTES_MAX, RESERVATION_BYTES).unwrap();
        Pair { tree, model: Model::new(), random: Random::new(seed), shape }
    }

    fn key(&mut self) -> Vec<u8> {
        key(self.shape, &mut self.random)
    }

    fn existing_key(&mut self) -> Vec<u8> {
        let near = self.key();
        let next = self.model.range(near.clone()..).next().or(self.model.iter().next());
        next.map_or(near, |(key, _)| key.clone())
    }

    fn insert(&mut self, key: Vec<u8>) {
        let value = self.random.next() as u32 >> 1;
        let expected = match self.model.get(&key) {
            Some(&existing) => Err(InsertError::Duplicate(existing)),
            None => Ok(()),
        };
        assert_eq!(self.tree.insert(&key, value), expected);
        self.model.entry(key).or_insert(value);
    }

    fn remove(&mut self, key: &[u8]) {
        assert_eq!(self.tree.remove(key), self.model.remove(key));
    }

    fn check(&mut self) {
        self.tree.check().unwrap();
        assert_eq!(self.tree.len(), self.model.len());
        let keys: Vec<Vec<u8>> =
            (0..40).map(|i| if i % 2 == 0 { self.key() } else { self.existing_key() }).collect();
        let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut found = vec![0; keys.len()];
        self.tree.get_many(&slices, &mut found);
        for (key, found) in keys.iter().zip(found) {
            let expected = self.model.get(key).copied();
            assert_eq!(self.tree.get(key), expected);
            assert_eq!((found != ABSENT).then_some(found), expected);
        }
        for _ in 0..6 {
            let (from, to) = (self.bytes(), self.bytes());
            let (from, to) = (self.position(&from), self.position(&to));
            let expected: Vec<(Vec<u8>, u32)> = self
                .model
                .iter()
                .filter(|(key, _)| start_of(from, key) && !start_of(to, key))
                .map(|(key, &value)| (key.clone(), value))
                .collect();
            assert_eq!(collect(&self.tree, from, to, true), expected, "{from:?} {to:?}");
            let backward: Vec<_> = expected.into_iter().rev().collect();
            assert_eq!(collect(&self.tree, from, to, false), backward, "{from:?} {to:?}");
        }
    }

    /// A key that is there, or its start, or bytes beyond the longest key.
    fn bytes(&mut self) -> Vec<u8> {
        let mut key = self.existing_key();
        match self.random.below(4) {
            0 => key.truncate(self.random.below(key.len() as u64 + 1) as usize),
            1 => key.truncate(key.len().saturating_sub(2)),
            2 => key = self.key(),
            _ => key.resize(key.len() + 1_100 * usize::from(self.random.below(4) == 0), 7),
        }
        key
    }

    fn position<'a>(&mut self, bytes: &'a [u8]) -> Position<'a> {
        if self.random.below(2) == 0 { Position::Before(bytes) } else { Position::After(bytes) }
    }

    fn remove_everything(&mut self) {
        let mut keys: Vec<Vec<u8>> = self.model.keys().cloned().collect();
        while !keys.is_empty() {
            let at = self.random.below(keys.len() as u64) as usize;
            let key = keys.swap_remove(at);
            self.remove(&key);
            if keys.len().is_multiple_of(97) {
                self.tree.check().unwrap();
            }
        }
        assert_eq!((self.tree.height(), self.tree.slab.len()), (1, 1));
        self.tree.check().unwrap();
    }
}

#[test]
fn random_operations() {
    let shapes = [Shape::Crowded, Shape::Composite, Shape::Long, Shape::Scattered];
    for (seed, shape) in shapes.into_iter().enumerate() {
        let mut pair = Pair::new(seed as u64, shape);
        for step in 0..9_000 {
            let growing = step % 4_500 < 2_700;
            if pair.random.below(100) < if growing { 80 } else { 20 } {
                let key = pair.key();
                pair.insert(key);
            } else {
                let key = pair.existing_key();
                pair.remove(&key);
            }
            if step % 500 == 0 {
                pair.check();
            }
        }
        pair.check();
        pair.remove_everything();
        pair.insert(b"again".to_vec());
        pair.check();
    }
}

/// Keys with a very long common prefix fill a node; then come keys that do not share it, before and
/// behind and between.
#[test]
fn prefixes_that_stop_being_common() {
    let mut pair = Pair::new(9, Shape::Long);
    for number in 0..3_000u32 {
        let mut key = vec![5; 1_000];
        key.extend_from_slice(&number.to_be_bytes());
        pair.insert(key);
        if number % 50 == 0 {
            let len = pair.random.below(1_000) as usize;
            let mut key = vec![5; len];
            key.push([4, 6][(number / 50 % 2) as usize]);
            key.resize((len + 1).max(pair.random.below(1_024) as usize), 1);
            pair.insert(key);
        }
    }
    pair.check();
    pair.remove_everything();
}

#[test]
fn runs_of_keys_are_all_or_nothing() {
    let mut tree = ByteTree::new(16, RESERVATION_BYTES).unwrap();
    let keys: Vec<Vec<u8>> = (0..1_000u32).map(|i| i.to_be_bytes().to_vec()).collect();
    let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let values: Vec<u32> = (0..1_000).collect();
    tree.insert(slices[700], 7).unwrap();
    let error = RunError { index: 700, error: InsertError::Duplicate(7) };
    assert_eq!(tree.insert_run(&slices, &values), Err(error));
    tree.check().unwrap();
    assert_eq!((tree.len(), tree.get(slices[700]), tree.get(slices[3])), (1, Some(7), None));
    tree.insert_run(&slices[..700], &values[..700]).unwrap();
    assert_eq!(tree.get(slices[3]), Some(3));
    tree.check().unwrap();
}

#[test]
fn ascending_loads_fill_the_nodes() {
    let ascending = |number: u32| {
        let mut key = b"district".to_vec();
        key.extend_from_slice(&(number % 20).to_be_bytes());
        key.extend_from_slice(&(number / 20).to_be_bytes());
        key.extend_from_slice(b"some suffix");
        key
    };
    let mut tree = ByteTree::new(64, RESERVATION_BYTES).unwrap();
    for number in 0..40_000 {
        tree.insert(&ascending(number), number).unwrap();
    }
    tree.check().unwrap();
    assert!(tree.node_fill() > 0.9, "fill {}", tree.node_fill());

    let mut random = Random::new(3);
    let mut tree = ByteTree::new(64, RESERVATION_BYTES).unwrap();
    for _ in 0..40_000 {
        let key = [random.next().to_be_bytes(), random.next().to_be_bytes()].concat();
        tree.insert(&key, 1).unwrap();
    }
    assert!(tree.node_fill() > 0.6, "fill {}", tree.node_fill());
}

#[test]
fn limits_are_errors_and_change_nothing() {
    let mut tree = ByteTree::new(20, 64 << 10).unwrap();
    let error = InsertError::KeyTooLong { bytes_max: 20 };
    assert_eq!(tree.insert(&[1; 21], 1), Err(error));
    tree.insert(&[1; 20], 1).unwrap();
    let mut random = Random::new(5);
    let mut count = 1;
    let error = loop {
        match tree.insert(&random.next().to_be_bytes(), 1) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, InsertError::NoSpace(_)));
    assert!(tree.len() == count && count > 1_000);
    tree.check().unwrap();
}
