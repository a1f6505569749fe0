//! What the indexes of the memory store cost: nanoseconds per operation, for tuning.
//!
//! `index_probe [keys] [integer|runs|hash|bytes]` (by default 500,000 keys and everything) prints
//! one line per operation. Each operation runs in a function of its own whose name begins with
//! `probe_`, so instructions are counted with `valgrind --tool=callgrind --collect-atstart=no
//! --toggle-collect='*probe_get*' index_probe 100000`. Times on a shared machine move by a factor
//! of two: compare within one run.

use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::time::Instant;
use tombolo_storage::memory::btree::{ByteTree, IntegerTree};
use tombolo_storage::memory::hash::HashTable;
use tombolo_storage::memory::region::RESERVATION_BYTES;
use tombolo_storage::memory::slab::Slab;

#[path = "../src/memory/test_random.rs"]
mod test_random;

use test_random::Random;

/// Keys looked up together: about what a New-Order asks of one index.
const GROUP: usize = 12;
const ROW_BYTES: usize = 128;
const RUNS: u64 = 50;
const RUN_KEYS: u64 = 10;

#[expect(clippy::disallowed_methods, reason = "a measuring program outside of the engine")]
fn timed(name: &str, operations: usize, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    let nanoseconds = start.elapsed().as_secs_f64() * 1e9 / operations as f64;
    println!("{name:<44} {nanoseconds:8.1} ns");
}

/// Keys as a table has them: dense but for gaps, in random order.
fn shuffled_keys(count: usize, random: &mut Random) -> Vec<u64> {
    let mut keys: Vec<u64> = (0..count as u64).map(|key| key * 3).collect();
    for i in (1..keys.len()).rev() {
        keys.swap(i, random.below(i as u64 + 1) as usize);
    }
    keys
}

#[inline(never)]
fn probe_insert_random(tree: &mut IntegerTree, keys: &[u64]) {
    for (i, &key) in keys.iter().enumerate() {
        assert!(tree.insert(key, i as u32).is_ok());
    }
}

#[inline(never)]
fn probe_get(tree: &IntegerTree, keys: &[u64]) {
    for &key in keys {
        assert!(black_box(tree.get(key)).is_some());
    }
}

#[inline(never)]
fn probe_insert_ascending(tree: &mut IntegerTree, keys: &[u64]) {
    for (i, &key) in keys.iter().enumerate() {
        assert!(tree.insert(key, i as u32).is_ok());
    }
}

#[inline(never)]
fn probe_packed_get(tree: &IntegerTree, keys: &[u64]) {
    probe_get(tree, keys);
}

#[inline(never)]
fn probe_packed_many(tree: &mut IntegerTree, keys: &[u64]) {
    probe_many(tree, keys);
}

/// Each key depends on the look-up before, as in a program that does one thing after another.
#[inline(never)]
fn probe_dependent_get(tree: &IntegerTree, keys: &[u64]) {
    let mut at = 0;
    for _ in 0..keys.len() {
        let value = black_box(tree.get(keys[at])).unwrap_or(0) as usize;
        at = (value + 7_919) % keys.len();
    }
}

#[inline(never)]
fn probe_many(tree: &mut IntegerTree, keys: &[u64]) {
    for keys in keys.chunks_exact(GROUP) {
        let mut found = [0; GROUP];
        tree.find_many(keys, &mut found);
        black_box(found);
    }
}

#[inline(never)]
fn probe_rows(tree: &IntegerTree, rows: &Slab, keys: &[u64]) -> u64 {
    let mut sum = 0;
    for &key in keys {
        let Some(slot) = tree.get(key) else { continue };
        sum += u64::from(rows.slot(slot)[8]);
    }
    sum
}

#[inline(never)]
fn probe_many_rows(tree: &mut IntegerTree, rows: &Slab, keys: &[u64]) -> u64 {
    let mut sum = 0;
    for keys in keys.chunks_exact(GROUP) {
        let mut found = [0; GROUP];
        tree.find_many(keys, &mut found);
        for &slot in &found {
            rows.prefetch(slot, 0);
        }
        for &slot in &found {
            sum += u64::from(rows.slot(slot)[8]);
        }
    }
    sum
}

#[inline(never)]
fn probe_single_appends(tree: &mut IntegerTree, rounds: u64) {
    for round in 0..rounds {
        for run in 0..RUNS {
            assert!(tree.insert(run << 32 | round, 1).is_ok());
        }
    }
}

#[inline(never)]
fn probe_run_appends(tree: &mut IntegerTree, rounds: u64) {
    let values = [1; RUN_KEYS as usize];
    for round in 0..rounds {
        for run in 0..RUNS {
            let first = run << 32 | (round * RUN_KEYS);
            let keys: [u64; RUN_KEYS as usize] = std::array::from_fn(|i| first + i as u64);
            assert!(tree.insert_run(&keys, &values).is_ok());
        }
    }
}

#[inline(never)]
fn probe_scan(tree: &IntegerTree) -> u64 {
    let mut sum = 0;
    let flow = tree.scan(Bound::Unbounded, Bound::Unbounded, |key, value| {
        sum += key ^ u64::from(value);
        ControlFlow::Continue(())
    });
    assert!(flow.is_continue());
    sum
}

#[inline(never)]
fn probe_remove(tree: &mut IntegerTree, keys: &[u64]) {
    for &key in keys {
        assert!(tree.remove(key).is_some());
    }
}

fn integer_tree(keys: &[u64]) -> Option<()> {
    let mut tree = IntegerTree::new(RESERVATION_BYTES).ok()?;
    let count = keys.len();
    timed("integer: insert, random", count, || probe_insert_random(&mut tree, keys));
    let bytes = tree.committed_bytes() as f64 / count as f64;
    println!("  height {}, fill {:.2}, {bytes:.1} bytes a key", tree.height(), tree.leaf_fill());
    let mut rows = Slab::new(ROW_BYTES, RESERVATION_BYTES).ok()?;
    for _ in 0..count {
        let slot = rows.allocate().ok()?;
        rows.slot_mut(slot).fill(slot as u8);
    }
    let order = shuffled_keys(count, &mut Random::new(99));
    timed("integer: get", count, || probe_get(&tree, &order));
    timed("integer: get, each after the other", count, || probe_dependent_get(&tree, keys));
    timed("integer: find_many of 12", count, || probe_many(&mut tree, &order));
    timed("integer: get and row", count, || _ = black_box(probe_rows(&tree, &rows, &order)));
    timed("integer: find_many of 12 and rows", count, || {
        black_box(probe_many_rows(&mut tree, &rows, &order));
    });
    timed("integer: scan", count, || _ = black_box(probe_scan(&tree)));
    timed("integer: remove, random", count, || probe_remove(&mut tree, &order));

    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    let mut tree = IntegerTree::new(RESERVATION_BYTES).ok()?;
    timed("integer: insert, ascending", count, || probe_insert_ascending(&mut tree, &sorted));
    let bytes = tree.committed_bytes() as f64 / count as f64;
    println!("  height {}, fill {:.2}, {bytes:.1} bytes a key", tree.height(), tree.leaf_fill());
    timed("integer: get, packed", count, || probe_packed_get(&tree, &order));
    timed("integer: get, packed, each after the other", count, || probe_dependent_get(&tree, keys));
    timed("integer: find_many of 12, packed", count, || probe_packed_many(&mut tree, &order));
    Some(())
}

fn integer_runs(count: usize) -> Option<()> {
    let mut tree = IntegerTree::new(RESERVATION_BYTES).ok()?;
    let rounds = count as u64 / RUNS;
    timed("integer: insert, 50 runs", count, || probe_single_appends(&mut tree, rounds));
    println!("  fill {:.2}", tree.leaf_fill());
    let mut tree = IntegerTree::new(RESERVATION_BYTES).ok()?;
    timed("integer: insert_run of 10, 50 runs", count, || {
        probe_run_appends(&mut tree, rounds / RUN_KEYS);
    });
    println!("  fill {:.2}", tree.leaf_fill());
    Some(())
}

#[inline(never)]
fn probe_hash_insert(table: &mut HashTable, keys: &[u64]) {
    for (i, &key) in keys.iter().enumerate() {
        assert!(table.insert(key, i as u32).is_ok());
    }
}

#[inline(never)]
fn probe_hash_get(table: &HashTable, keys: &[u64]) {
    for &key in keys {
        assert!(black_box(table.get(key)).is_some());
    }
}

#[inline(never)]
fn probe_hash_many(table: &HashTable, keys: &[u64]) {
    for keys in keys.chunks_exact(GROUP) {
        let mut found = [0; GROUP];
        table.get_many(keys, &mut found);
        black_box(found);
    }
}

fn hash_table(keys: &[u64]) -> Option<()> {
    let count = keys.len();
    let mut table = HashTable::new(RESERVATION_BYTES, 1).ok()?;
    timed("hash: insert", count, || probe_hash_insert(&mut table, keys));
    println!("  {:.1} bytes a key", table.committed_bytes() as f64 / count as f64);
    let order = shuffled_keys(count, &mut Random::new(99));
    timed("hash: get", count, || probe_hash_get(&table, &order));
    timed("hash: get_many of 12", count, || probe_hash_many(&table, &order));
    Some(())
}

/// A key like that of an index on a name: a short common start, a name, a number.
fn byte_key(number: u64) -> [u8; 24] {
    let mut key = *b"....BAROUGHTABLE........";
    key[..4].copy_from_slice(&((number % 50) as u32).to_be_bytes());
    key[4..16].rotate_left((number / 50 % 12) as usize);
    key[16..].copy_from_slice(&number.to_be_bytes());
    key
}

#[inline(never)]
fn probe_byte_insert(tree: &mut ByteTree, keys: &[u64]) {
    for (i, &key) in keys.iter().enumerate() {
        assert!(tree.insert(&byte_key(key), i as u32).is_ok());
    }
}

#[inline(never)]
fn probe_byte_get(tree: &ByteTree, keys: &[u64]) {
    for &key in keys {
        assert!(black_box(tree.get(&byte_key(key))).is_some());
    }
}

#[inline(never)]
fn probe_byte_many(tree: &ByteTree, keys: &[u64]) {
    for keys in keys.chunks_exact(GROUP) {
        let keys: [[u8; 24]; GROUP] = std::array::from_fn(|i| byte_key(keys[i]));
        let mut found = [0; GROUP];
        tree.get_many(&keys.each_ref().map(|key| key.as_slice()), &mut found);
        black_box(found);
    }
}

fn byte_tree(keys: &[u64]) -> Option<()> {
    let count = keys.len();
    let mut tree = ByteTree::new(64, RESERVATION_BYTES).ok()?;
    timed("bytes: insert, random", count, || probe_byte_insert(&mut tree, keys));
    let bytes = tree.committed_bytes() as f64 / count as f64;
    println!("  height {}, fill {:.2}, {bytes:.1} bytes a key", tree.height(), tree.node_fill());
    let order = shuffled_keys(count, &mut Random::new(99));
    timed("bytes: get", count, || probe_byte_get(&tree, &order));
    timed("bytes: get_many of 12", count, || probe_byte_many(&tree, &order));
    Some(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count = arguments.first().and_then(|count| count.parse().ok()).unwrap_or(500_000);
    let part = arguments.get(1).map_or("all", String::as_str);
    let wanted = |name: &str| part == "all" || part == name;
    let keys = shuffled_keys(count, &mut Random::new(1));
    let done = (!wanted("integer") || integer_tree(&keys).is_some())
        && (!wanted("runs") || integer_runs(count).is_some())
        && (!wanted("hash") || hash_table(&keys).is_some())
        && (!wanted("bytes") || byte_tree(&keys).is_some());
    assert!(done, "not enough memory");
}
