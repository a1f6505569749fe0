//! How trees fill, shrink and refuse: runs, long keys, runs of one key, logs, full disks, damage.

use super::*;
use crate::error::Error;
use crate::key::{Dynamic, IndexShape, KEY_BYTES_MAX};
use crate::memory::test_random::Random;
use crate::paged::step::Step;
use crate::sync::{AtomicU64, Ordering};
use crate::value::Value;

type Integers<P> = BTree<P, IntegerKeys>;

/// How full the leaves are, in hundredths.
fn fill<P: PageAccess, K: KeyFormat>(tree: &BTree<P, K>, access: &P) -> u64 {
    let usage = tree.measure(access).unwrap();
    usage.entry_bytes * 100 / (usage.leaves * P::Size::BYTES as u64)
}

#[test]
fn ascending_and_descending_keys_fill_their_leaves() {
    let pool = small_pool(16);
    let tree = Integers::create(&pool, STORE, integers(true), &()).unwrap();
    (0..100_000).for_each(|n| insert(&tree, &pool, &key(n), n));
    assert!(fill(&tree, &pool) >= 98, "{}", fill(&tree, &pool));
    let tree = BTree::<_, TypedColumns>::create(&pool, STORE, integers(true), &()).unwrap();
    (0..100_000).rev().for_each(|n| insert(&tree, &pool, &key(n), n));
    assert!(fill(&tree, &pool) >= 98, "{}", fill(&tree, &pool));
    assert_eq!(tree.check(&pool), []);
}

#[test]
fn runs_in_turns_fill_their_leaves() {
    let pool = small_pool(64);
    let tree = Integers::create(&pool, STORE, integers(true), &()).unwrap();
    // Ten districts of two warehouses; an order has ten lines.
    let mut random = Random::new(1);
    let mut next = [0; 20];
    for _ in 0..20_000 {
        let district = random.below(20) as usize;
        for _ in 0..10 {
            insert(&tree, &pool, &key((district as u64) << 32 | next[district]), 1);
            next[district] += 1;
        }
    }
    assert!(fill(&tree, &pool) >= 90, "{}", fill(&tree, &pool));
    assert_eq!(tree.check(&pool), []);
}

#[test]
fn queues_give_their_leaves_back() {
    let pool = small_pool(64);
    let tree = Integers::create(&pool, STORE, integers(true), &()).unwrap();
    for n in 0..60_000 {
        insert(&tree, &pool, &key(n), n);
        if n >= 2_000 {
            remove(&tree, &pool, &key(n - 2_000), n - 2_000);
        }
    }
    let usage = tree.measure(&pool).unwrap();
    assert!(usage.leaves <= 8 && usage.levels == 2, "{usage:?}");
    assert!(pool.page_count() < 20, "{}", pool.page_count());
    assert_eq!((tree.check(&pool), pool.check()), (vec![], vec![]));
}

/// Whether an index of these keys takes one with a text, a number and bytes.
fn takes<K: KeyFormat>(text: &str, number: Option<i64>, bytes: &[u8]) -> bool {
    let parts =
        [part(SqlType::Text, false), part(SqlType::BigInt, true), part(SqlType::Bytes, true)];
    let shape = IndexShape { name: "i".into(), parts: parts.into(), unique: true };
    let key = [Value::Text(text), number.map_or(Value::Null, Value::Integer), Value::Bytes(bytes)];
    let mut out = Vec::new();
    let takes = K::encode::<Dynamic>(&shape, &key, &mut out);
    assert!(!takes || K::verify(&shape.parts, &out).is_ok());
    takes
}

/// In the normalised form a zero takes two bytes, in the typed form one.
#[test]
fn both_formats_refuse_the_same_keys() {
    let (mut taken, mut refused) = (0, 0);
    for zeros in [0, 1, 200, 480, 490] {
        // Each text ends with two bytes, a null byte stands before two columns.
        let rest = KEY_BYTES_MAX - 2 * zeros - 6;
        for spare in [0, 1, 8, 9] {
            for over in [0, 1] {
                let text = "x".repeat(rest - spare + over);
                let number = (spare >= 8).then_some(-1);
                let bytes = vec![0; zeros + spare % 8];
                let normalised = text.len() + 2 * bytes.len() + 6 + 8 * usize::from(spare >= 8);
                let expected = normalised <= KEY_BYTES_MAX;
                assert_eq!(takes::<IntegerKeys>(&text, number, &bytes), expected, "{normalised}");
                assert_eq!(takes::<TypedColumns>(&text, number, &bytes), expected, "{normalised}");
                *if expected { &mut taken } else { &mut refused } += 1;
            }
        }
    }
    assert_eq!((taken, refused), (10, 30));
    for length in [1_001, 65_535, 65_536, 70_000] {
        let text = "x".repeat(length);
        assert!(
            !takes::<IntegerKeys>(&text, None, b"") && !takes::<TypedColumns>(&text, None, b"")
        );
    }
}

#[test]
fn the_longest_keys() {
    let pool = small_pool(16);
    let shape = || KeyShape::new(&[part(SqlType::Bytes, false)], false);
    let tree = BTree::<_, TypedColumns>::create(&pool, STORE, shape(), &()).unwrap();
    let long = |n: u64, bytes: usize| {
        let mut key = (bytes as u16 - 2).to_le_bytes().to_vec();
        key.resize(bytes - 8, 3);
        // No zeros: they count twice.
        key.extend_from_slice(format!("{n:08}").as_bytes());
        key
    };
    let mut random = Random::new(5);
    let lengths: Vec<usize> = (0..2_000).map(|_| 10 + random.below(991) as usize).collect();
    for (n, &bytes) in (0..).zip(&lengths) {
        insert(&tree, &pool, &long(n * 7_919 % 2_000, bytes), n);
    }
    assert_eq!(tree.check(&pool), []);
    for (n, &bytes) in (0..).zip(&lengths) {
        assert_eq!(find(&tree, &pool, &long(n * 7_919 % 2_000, bytes)), [n]);
        remove(&tree, &pool, &long(n * 7_919 % 2_000, bytes), n);
    }
    assert_eq!(tree.measure(&pool).unwrap().leaves, 1);
    let refused =
        tree.insert(&pool, (&[0; 1_001], RowId::new(1)), &mut first(), &mut pass, unlogged, &());
    assert!(refused.unwrap_err().to_string().contains("1001 bytes"));
    assert_eq!((tree.check(&pool), pool.check()), (vec![], vec![]));
}

#[test]
fn one_unique_key_deleted_and_inserted_a_thousand_times() {
    for descending in [false, true] {
        let pool = small_pool(32);
        let tree = Integers::create(&pool, STORE, integers(true), &()).unwrap();
        (0..1_000).for_each(|n| insert(&tree, &pool, &key(n * 2), n));
        let mut meet = |_, deleted| if deleted { Meet::Pass } else { Meet::Wait };
        for n in 0..3_000 {
            let row = RowId::new(10_000 + if descending { 3_000 - n } else { n * 7 % 3_000 });
            let mut met = 0;
            let mut seen = |row, deleted| {
                met += 1;
                meet(row, deleted)
            };
            let done = tree.insert(&pool, (&key(777), row), &mut first(), &mut seen, unlogged, &());
            assert_eq!(done, Ok(Inserted::Done));
            assert!(met >= n, "{met} of {n} deleted entries were met");
            let other = RowId::new(if n % 2 == 0 { 1 } else { 90_000 });
            let waits =
                tree.insert(&pool, (&key(777), other), &mut first(), &mut meet, unlogged, &());
            assert_eq!(waits, Ok(Inserted::Wait(row)));
            assert_eq!(tree.set_deleted(&pool, &key(777), row, true, unlogged), Ok(true));
        }
        assert_eq!(find(&tree, &pool, &key(777)).len(), 3_000);
        assert_eq!(tree.check(&pool), []);
        (0..3_000)
            .for_each(|n| remove(&tree, &pool, &key(777), 10_000 + n + u64::from(descending)));
        assert_eq!(everything(&tree, &pool).len(), 1_000);
        assert_eq!((tree.check(&pool), pool.check()), (vec![], vec![]));
    }
}

/// Gives numbers, and counts the pages reported to it.
#[derive(Default)]
struct Numbers {
    lsn: AtomicU64,
    pages: AtomicU64,
    freed: AtomicU64,
    broken: AtomicU64,
    left: AtomicU64,
}

/// All pages, byte by byte.
fn images(pool: &Small) -> Vec<Vec<u8>> {
    (1..pool.page_count())
        .map(|id| pool.fix_shared(PageId(id)).unwrap().page().bytes().to_vec())
        .collect()
}

impl Numbers {
    fn next(&self) -> Stamp {
        Some(self.lsn.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl Structure for Numbers {
    const LOGS: bool = true;

    fn changes<S: PageSize>(&self, step: &Step<'_, S>) -> Result<Stamp, Error> {
        if self.broken.load(Ordering::Relaxed) != 0 {
            return Err(Error::Poisoned { reason: "the log is broken" });
        }
        let pages = step.images.len() + step.changed.len();
        self.pages.fetch_add(pages as u64, Ordering::Relaxed);
        self.freed.fetch_add(step.freed.len() as u64, Ordering::Relaxed);
        Ok(self.next())
    }

    fn is_left(&self, _: &PageError) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn every_change_is_stamped_with_what_the_log_answers() {
    let (pool, log) = (small_pool(16), Numbers::default());
    let tree = Integers::create(&pool, STORE, integers(true), &log).unwrap();
    let lsn = |place: Option<Place>| pool.fix_shared(place.unwrap().page).unwrap().page().lsn();
    for n in 0..2_000 {
        let mut at = None;
        let noted = |place| -> Result<Stamp> {
            assert_eq!(at.replace(place), None, "logged twice");
            Ok(log.next())
        };
        let done =
            tree.insert(&pool, (&key(n), RowId::new(n)), &mut first(), &mut pass, noted, &log);
        assert_eq!(done, Ok(Inserted::Done));
        assert_eq!(lsn(at), log.lsn.load(Ordering::Relaxed));
    }
    // The new root's three pages, then parent and halves.
    let leaves = tree.measure(&pool).unwrap().leaves;
    assert_eq!(log.pages.load(Ordering::Relaxed), 1 + 3 + 3 * (leaves - 2));
    let root = pool.fix_shared(tree.root()).unwrap().page().lsn();
    assert!(root > 0);
    let mut at = None;
    let noted = |place| -> Result<Stamp> {
        at = Some(place);
        Ok(log.next())
    };
    assert_eq!(tree.set_deleted(&pool, &key(9), RowId::new(9), true, noted), Ok(true));
    assert_eq!(lsn(at), log.lsn.load(Ordering::Relaxed));
    for n in 0..2_000 {
        let noted = |_| -> Result<Stamp> { Ok(log.next()) };
        assert_eq!(tree.remove(&pool, &key(n), RowId::new(n), noted, &log, &()), Ok(true));
    }
    assert_eq!(log.freed.load(Ordering::Relaxed), leaves);
    assert_eq!(lsn(Some(Place::of_record(tree.root(), 0))), log.lsn.into_inner());
    assert_eq!((tree.check(&pool), pool.check()), (vec![], vec![]));
}

#[test]
fn what_the_log_refuses_does_not_happen() {
    let pool = small_pool(16);
    let tree = Integers::create(&pool, STORE, integers(true), &()).unwrap();
    (0..1_000).for_each(|n| insert(&tree, &pool, &key(n * 2), n));
    let refuse = |_| -> Result<Stamp> { Err(PageFailure::TooManyPages.into()) };
    for n in 0..1_000 {
        let row = RowId::new(n);
        assert!(
            tree.insert(&pool, (&key(n * 2 + 1), row), &mut first(), &mut pass, refuse, &())
                .is_err()
        );
        assert!(tree.remove(&pool, &key(n * 2), row, refuse, &(), &()).is_err());
        assert!(tree.set_deleted(&pool, &key(n * 2), row, true, refuse).is_err());
    }
    let found = everything(&tree, &pool);
    assert!(found.into_iter().eq((0..1_000).map(|n| (key(n * 2).to_vec(), n, false))));
    // A step that cannot be logged leaves a whole tree, and the entry is not there.
    let log = Numbers { broken: AtomicU64::new(1), ..Numbers::default() };
    let mut refused = 0;
    for n in 2_000..4_000 {
        let before = images(&pool);
        let done =
            tree.insert(&pool, (&key(n), RowId::new(n)), &mut first(), &mut pass, unlogged, &log);
        if done.is_err() {
            refused += 1;
            let changed = images(&pool).into_iter().filter(|page| !before.contains(page));
            assert_eq!(changed.count(), 0, "pages that were taken are as they were");
        }
        assert_eq!(find(&tree, &pool, &key(n)).len(), usize::from(done.is_ok()));
        if refused == 3 {
            break;
        }
    }
    assert_eq!(refused, 3);
    // Nor is a page given back; what failed is reported.
    let leaves = tree.measure(&pool).unwrap().leaves;
    (1..1_000).for_each(|n| {
        assert_eq!(tree.remove(&pool, &key(n * 2), RowId::new(n), unlogged, &log, &()), Ok(true));
    });
    assert!(log.left.load(Ordering::Relaxed) > 0);
    assert_eq!(tree.measure(&pool).unwrap().leaves, leaves);
    assert_eq!((tree.check(&pool), pool.check()), (vec![], vec![]));
}

#[test]
fn a_full_disk_leaves_the_tree_whole() {
    // Three pages are one too few for the first division; then every other one meets the limit.
    for pages in 2..24 {
        let disk = MemDisk::new();
        disk.set_capacity_bytes(Some(pages * SmallPages::BYTES as u64));
        let pool = BufferPool::<SmallPages, Latched, _>::create(&disk, 12, NoWriteAhead).unwrap();
        let shape = KeyShape::new(&[part(SqlType::Char(300), false)], true);
        let tree = BTree::<_, TypedColumns>::create(&pool, STORE, shape, &()).unwrap();
        let mut random = Random::new(pages);
        let mut there = std::collections::BTreeSet::new();
        let mut refused = 0;
        while refused < 100 {
            let n = random.below(1 << 30);
            let mut key = n.to_be_bytes().to_vec();
            key.resize(300, 0);
            match tree.insert(&pool, (&key, RowId::new(n)), &mut first(), &mut pass, unlogged, &())
            {
                Ok(_) => {
                    there.insert(n);
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.is_full(), "{error}");
                    assert_eq!(find(&tree, &pool, &key), []);
                }
            }
            if refused == 50 {
                refused += 1;
                assert_eq!((tree.check(&pool), pool.check()), (vec![], vec![]));
                disk.set_capacity_bytes(Some((pages + 4) * SmallPages::BYTES as u64));
            }
        }
        let found = everything(&tree, &pool).into_iter().map(|entry| entry.1);
        assert!(found.eq(there));
        assert_eq!((tree.check(&pool), pool.check()), (vec![], vec![]));
    }
}

#[test]
fn a_tree_is_opened_again() {
    let pool = small_pool(16);
    let tree = Integers::create(&pool, STORE, integers(true), &()).unwrap();
    (0..5_000).for_each(|n| insert(&tree, &pool, &key(n), n));
    let root = tree.root();
    let tree = Integers::open(&pool, STORE, root, integers(true)).unwrap();
    assert_eq!(find(&tree, &pool, &key(4_321)), [4_321]);
    let other = BTree::<_, TypedColumns>::open(&pool, STORE, root, integers(true));
    assert!(other.err().unwrap().to_string().contains("another form"));
    assert!(Integers::open(&pool, StoreId(1), root, integers(true)).is_err());
}

#[test]
fn damage_is_found() {
    let damages: [fn(&mut PageMut<'_, SmallPages>); 10] = [
        |page| page.set_next(None),
        |page| page.set_previous(Some(PageId(1))),
        |page| page.body_mut()[2] = 1,
        |page| page.body_mut()[3] ^= 1,
        |page| page.body_mut()[0] = 0xff,
        // Unit and base of the heads.
        |page| page.body_mut()[10] ^= 0x20,
        |page| page.body_mut()[17] ^= 0x20,
        // A byte of a slot's offset, of its head, and the last one of the first entry's key.
        |page| page.body_mut()[33] ^= 0x10,
        |page| page.body_mut()[36] ^= 0x01,
        |page| *page.body_mut().last_mut().unwrap() ^= 0x40,
    ];
    for damage in damages {
        let pool = small_pool(64);
        let tree = BTree::<_, TypedColumns>::create(&pool, STORE, integers(true), &()).unwrap();
        (0..3_000).for_each(|n| insert(&tree, &pool, &key(n), n));
        let mut at = None;
        let note = |place| -> Result<Stamp> {
            at = Some(place);
            Ok(None)
        };
        tree.set_deleted(&pool, &key(1_000), RowId::new(1_000), true, note).unwrap();
        assert_eq!(tree.check(&pool), []);
        damage(&mut pool.fix_exclusive(at.unwrap().page).unwrap().page_mut());
        let found = tree.check(&pool);
        assert!(!found.is_empty() && found[0].check == "btree", "{found:?}");
    }
}
