//! B+trees against models, under threads, with full disks and damage.

mod model;
mod routes;
mod runs;
mod shape;
mod threads;

use super::*;
use crate::disk::MemDisk;
use crate::key::KeyPart;
use crate::latch::{Latched, Unlatched};
use crate::paged::heap::Place;
use crate::paged::page::PageSize;
use crate::paged::page::{LargePages, PageMut, SmallPages};
use crate::paged::pool::{BufferPool, DirectFrames, NoWriteAhead, Pointers};
use crate::paged::step::Stamp;
use crate::row::RowId;
use crate::schema::ColumnDef;
use crate::store::Order;
use crate::types::SqlType;
use std::ops::ControlFlow;

type Small = BufferPool<SmallPages, Latched, NoWriteAhead>;

const STORE: StoreId = StoreId(9);
const LIMIT_BYTES: usize = 256 << 20;

fn small_pool(frames: usize) -> Small {
    Small::create(&MemDisk::new(), frames, NoWriteAhead).unwrap()
}

fn part(sql: SqlType, nullable: bool) -> KeyPart {
    KeyPart::of(&ColumnDef {
        name: "c".into(),
        sql,
        nullable,
        range: None,
        hot: false,
        added: false,
        default: None,
    })
}

fn integers(unique: bool) -> KeyShape {
    KeyShape::new(&[part(SqlType::BigInt, false)], unique)
}

/// The stored form of an integer key, in both formats.
fn key(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

/// A log that keeps no numbers.
fn unlogged(_: Place) -> Result<Stamp> {
    Ok(None)
}

/// Of a caller that has not inserted anything yet.
fn first() -> LastInsertions {
    LastInsertions::default()
}

fn pass(_: RowId, _: bool) -> Meet {
    Meet::Pass
}

fn insert<P: PageAccess, K: KeyFormat>(tree: &BTree<P, K>, access: &P, key: &[u8], row: u64) {
    let inserted =
        tree.insert(access, (key, RowId::new(row)), &mut first(), &mut pass, unlogged, &());
    assert_eq!(inserted, Ok(Inserted::Done));
}

fn remove<P: PageAccess, K: KeyFormat>(tree: &BTree<P, K>, access: &P, key: &[u8], row: u64) {
    assert_eq!(tree.remove(access, key, RowId::new(row), unlogged, &(), &()), Ok(true));
}

/// The entries between two positions.
fn scan<P: PageAccess, K: KeyFormat>(
    tree: &BTree<P, K>,
    access: &P,
    lower: Position<'_>,
    upper: Position<'_>,
    order: Order,
) -> Vec<(Vec<u8>, u64, bool)> {
    let mut entries = Vec::new();
    let visit = |key: &[u8], row: RowId, deleted| {
        entries.push((key.to_vec(), row.location(), deleted));
        ControlFlow::Continue(())
    };
    tree.scan(access, lower, upper, order, visit, &()).unwrap();
    entries
}

fn everything<P: PageAccess, K: KeyFormat>(
    tree: &BTree<P, K>,
    access: &P,
) -> Vec<(Vec<u8>, u64, bool)> {
    scan(tree, access, Position::Open, Position::Open, Order::Forward)
}

/// The rows of a key.
fn find<P: PageAccess, K: KeyFormat>(tree: &BTree<P, K>, access: &P, key: &[u8]) -> Vec<u64> {
    find_by(tree, access, &mut Routes::default(), key)
}

/// The same by a caller that has looked up others.
fn find_by<P: PageAccess, K: KeyFormat>(
    tree: &BTree<P, K>,
    access: &P,
    routes: &mut Routes,
    key: &[u8],
) -> Vec<u64> {
    let mut rows = Vec::new();
    let visit = |row: RowId, _| {
        rows.push(row.location());
        ControlFlow::Continue(())
    };
    tree.find(access, routes, key, visit, &()).unwrap();
    rows
}

#[test]
fn entries_are_found_again() {
    let pool = small_pool(16);
    let tree = BTree::<_, IntegerKeys>::create(&pool, STORE, integers(true), &()).unwrap();
    for n in 0..50_000 {
        insert(&tree, &pool, &key(n * 7 % 50_000), n);
    }
    for n in 0..50_000 {
        assert_eq!(find(&tree, &pool, &key(n * 7 % 50_000)), [n]);
    }
    let found = everything(&tree, &pool);
    assert!(found.iter().map(|entry| entry.0.clone()).eq((0..50_000).map(|n| key(n).to_vec())));
    assert_eq!((tree.check(&pool), pool.check()), (vec![], vec![]));
}

#[test]
fn a_unique_key_that_occurs_twice_is_damage() {
    let pool = small_pool(16);
    let tree = BTree::<_, TypedColumns>::create(&pool, STORE, integers(true), &()).unwrap();
    (0..2_000).for_each(|n| insert(&tree, &pool, &key(n), n));
    insert(&tree, &pool, &key(700), 5_000);
    assert_eq!(tree.check(&pool).len(), 1);
    tree.set_deleted(&pool, &key(700), RowId::new(700), true, unlogged).unwrap();
    assert_eq!(tree.check(&pool), [], "an entry that is marked does not count");
}
