//! Copies of inner nodes: they are used, lead where the latches do, and not at all once a step changed what they copy.

use super::*;
use crate::paged::btree::keys::Probe;
use crate::sync::Ordering;

/// Where copies lead, and where the latches do.
fn leaves<P: PageAccess, K: KeyFormat>(
    tree: &BTree<P, K>,
    access: &P,
    routes: &mut Routes,
    n: u64,
) -> (Option<PageId>, PageId) {
    let key = key(n);
    let probe = Probe::first_of(&tree.keys, &key);
    let routed = tree.route(routes, &probe).map(|routed| routed.leaf);
    (routed, tree.leaf(access, &probe).unwrap().page().id())
}

/// Keys `spread` apart, every `step`th of which is looked up.
fn copies_lead_where_latches_do<K: KeyFormat>(spread: u64, mut count: u64, step: usize) {
    let pool = small_pool(1_000);
    let tree = BTree::<_, K>::create(&pool, STORE, integers(true), &()).unwrap();
    let mut routes = Routes::default();
    (0..count).for_each(|n| insert(&tree, &pool, &key(n * spread), n));
    let levels = tree.measure(&pool).unwrap().levels;
    assert_eq!(levels, if count > 100_000 { 3 } else { 2 });
    for round in 0..2 {
        // Visited often enough, also those in whose place others are.
        for n in (0..count).step_by(step).flat_map(|n| [n; 3]) {
            assert_eq!(find_by(&tree, &pool, &mut routes, &key(n * spread)), [n]);
        }
        let (mut led, mut all) = (0, 0);
        for n in (0..count).step_by(step) {
            let (routed, leaf) = leaves(&tree, &pool, &mut routes, n * spread);
            (led, all) = (led + u64::from(routed.is_some()), all + 1);
            assert!(routed.is_none_or(|routed| routed == leaf), "{n}: {routed:?}, {leaf:?}");
        }
        // Where two nodes share a place, one has a copy; where a key is a separator, its row may decide.
        assert!(led > all / 2, "round {round}: {led} of {all}");
        // Some leaves are divided, and some given back: no copy leads to what they were.
        let changes = tree.changes.load(Ordering::Relaxed);
        (count..count + 1_000).for_each(|n| insert(&tree, &pool, &key(n * spread), n));
        let gone = round * 2_000..round * 2_000 + 1_000;
        gone.clone().for_each(|n| remove(&tree, &pool, &key(n * spread), n));
        gone.clone().for_each(|n| insert(&tree, &pool, &key(n * spread), n));
        assert!(tree.changes.load(Ordering::Relaxed) > changes + 2);
        count += 1_000;
        for n in (0..count).step_by(step) {
            let (routed, leaf) = leaves(&tree, &pool, &mut routes, n * spread);
            assert!(routed.is_none_or(|routed| routed == leaf), "{n}: {routed:?}, {leaf:?}");
        }
    }
    assert_eq!(tree.check(&pool), []);
}

#[test]
fn copies_of_nodes_lead_where_latches_do() {
    copies_lead_where_latches_do::<IntegerKeys>(1, 20_000, 1);
    copies_lead_where_latches_do::<TypedColumns>(1, 20_000, 1);
    copies_lead_where_latches_do::<TypedColumns>(1 << 40, 130_000, 7);
}

/// A page that has become another tree's leads nowhere.
#[test]
fn copies_of_one_tree_are_not_anothers() {
    let pool = small_pool(100);
    let tree = |store| BTree::<_, TypedColumns>::create(&pool, store, integers(true), &()).unwrap();
    let (first, second) = (tree(STORE), tree(StoreId(10)));
    let mut routes = Routes::default();
    for round in 0..3 {
        let (grows, shrinks) = if round % 2 == 0 { (&first, &second) } else { (&second, &first) };
        (0..4_000).for_each(|n| insert(grows, &pool, &key(n), n + 1));
        for n in (0..4_000).flat_map(|n| [n; 3]) {
            assert_eq!(find_by(grows, &pool, &mut routes, &key(n)), [n + 1]);
            assert_eq!(find_by(shrinks, &pool, &mut routes, &key(n)), [0; 0]);
        }
        (0..4_000).for_each(|n| remove(grows, &pool, &key(n), n + 1));
        for n in 0..4_000 {
            assert_eq!(find_by(grows, &pool, &mut routes, &key(n)), [0; 0]);
        }
    }
}
