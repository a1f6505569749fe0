//! Several threads on one tree: with keys of their own, and with the same keys.

use super::*;
use crate::memory::test_random::Random;
use crate::sync::{AtomicU64, Ordering};
use std::collections::BTreeMap;

const THREADS: u64 = 4;

/// Inserts and removes entries with rows of its own, whose keys are other threads' too where
/// `stride` is 1; returns what it leaves.
fn work<P: PageAccess, K: KeyFormat>(
    tree: &BTree<P, K>,
    access: &P,
    thread: u64,
    keys: u64,
    stride: u64,
) -> BTreeMap<u64, u64> {
    let mut random = Random::new(thread);
    let (mut own, mut routes) = (BTreeMap::new(), Routes::default());
    for step in 0..20_000 {
        // In waves, so that leaves are divided and united all the time.
        let drains = step / 2_000 % 2 == 1;
        let n = random.below(keys) * stride + if stride > 1 { thread } else { 0 };
        let row = n * THREADS + thread + 1;
        match (own.contains_key(&n), drains || random.below(4) == 0) {
            (true, true) => {
                remove(tree, access, &key(n), row);
                own.remove(&n);
            }
            (false, false) => {
                insert(tree, access, &key(n), row);
                own.insert(n, row);
            }
            (there, _) => {
                let rows = find_by(tree, access, &mut routes, &key(n));
                assert_eq!(rows.contains(&row), there);
            }
        }
    }
    own
}

/// Scans while others work: keys ascend, or descend, and none comes twice.
fn watch<P: PageAccess, K: KeyFormat>(tree: &BTree<P, K>, access: &P, seed: u64) {
    let mut random = Random::new(seed);
    for _ in 0..150 {
        let from = key(random.below(4_000));
        for order in [Order::Forward, Order::Backward] {
            let found = scan(tree, access, Position::Before(&from), Position::Open, order);
            let mut entries: Vec<_> = found
                .iter()
                .map(|(key, row, _)| (u64::from_le_bytes(key[..].try_into().unwrap()), *row))
                .collect();
            if order == Order::Backward {
                entries.reverse();
            }
            assert!(entries.windows(2).all(|pair| pair[0] < pair[1]), "{order:?}");
        }
    }
}

fn together<P: PageAccess + Sync, K: KeyFormat>(access: &P, keys: u64, stride: u64)
where
    BTree<P, K>: Sync,
{
    let tree = &BTree::<P, K>::create(access, STORE, integers(false), &()).unwrap();
    let mut all = BTreeMap::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(tree, access, thread, keys, stride)))
            .collect();
        let watcher = scope.spawn(move || watch(tree, access, 99));
        for worker in workers {
            all.extend(worker.join().unwrap().into_iter().map(|(n, row)| ((n, row), ())));
        }
        watcher.join().unwrap();
    });
    let found = everything(tree, access).into_iter();
    let expected = all.keys().map(|&(n, row)| (key(n).to_vec(), row, false));
    assert!(found.eq(expected));
    assert_eq!((tree.check(access), access.check()), (vec![], vec![]));
}

#[test]
fn on_keys_of_their_own() {
    together::<_, IntegerKeys>(&small_pool(40), 2_000, THREADS);
}

#[test]
fn on_the_same_keys() {
    together::<_, TypedColumns>(&small_pool(40), 1_000, 1);
}

#[test]
fn in_direct_frames() {
    let disk = MemDisk::new();
    let frames = DirectFrames::<SmallPages, Latched>::create(&disk, LIMIT_BYTES).unwrap();
    together::<_, IntegerKeys>(&frames, 3_000, 1);
}

/// All threads insert the same keys, with rows of their own: each key goes to one of them.
#[test]
fn a_unique_key_is_inserted_once() {
    let pool = &small_pool(60);
    let tree = &BTree::<_, IntegerKeys>::create(pool, STORE, integers(true), &()).unwrap();
    let inserted = &AtomicU64::new(0);
    const KEYS: u64 = 8_000;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut meet = |_, deleted| if deleted { Meet::Pass } else { Meet::Duplicate };
                let mut last = LastInsertions::default();
                for n in 0..KEYS {
                    let n = n * 7 % KEYS;
                    // A ghost next to it, whose row may lie before or behind.
                    let ghost = RowId::new((thread + 1) * 1_000_000 + n);
                    let row = RowId::new((thread + 1) * 100_000 + n);
                    for row in [ghost, row] {
                        let answer = tree
                            .insert(pool, (&key(n), row), &mut last, &mut meet, unlogged, &())
                            .unwrap();
                        if answer == Inserted::Done {
                            inserted.fetch_add(1, Ordering::Relaxed);
                            if row == ghost {
                                tree.set_deleted(pool, &key(n), row, true, unlogged).unwrap();
                            }
                        }
                    }
                }
            });
        }
    });
    let entries = everything(tree, pool);
    assert_eq!(entries.len() as u64, inserted.load(Ordering::Relaxed));
    let live: Vec<_> = entries.iter().filter(|entry| !entry.2).map(|entry| &entry.0).collect();
    assert!(live.into_iter().cloned().eq((0..KEYS).map(|n| key(n).to_vec())));
    assert_eq!((tree.check(pool), pool.check()), (vec![], vec![]));
}
