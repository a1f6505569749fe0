//! Instructions of B+tree calls, counted by callgrind.
//!
//! ```text
//! cargo build --profile quick -p tombolo-storage --example btree_probe
//! valgrind --tool=callgrind --toggle-collect='*::work' \
//!     target/quick/examples/btree_probe direct-unlatched integers find
//! ```
//!
//! The first argument is the way of reaching pages (`pool`, `pool-unlatched`, `direct`,
//! `direct-unlatched`), the second the keys (`integers`, `typed`: three integer columns; `bytes`:
//! the same as bytes), the third what is done [`REPEATS`] times: `find`, `insert`, `append`,
//! `remove`, or `none` for making the keys alone. Divide the total, less that of `none`, by
//! [`REPEATS`]. Pages have 8 KB, the tree has [`ENTRIES`] entries on three levels.

use std::hint::black_box;
use std::ops::ControlFlow;

use tombolo_storage::disk::MemDisk;
use tombolo_storage::key::KeyPart;
use tombolo_storage::latch::{Latched, Unlatched};
use tombolo_storage::paged::btree::{
    BTree, Inserted, IntegerKeys, KeyFormat, KeyShape, LastInsertions, Meet, Routes, TypedColumns,
};
use tombolo_storage::paged::heap::{Place, Stamp};
use tombolo_storage::paged::page::{SmallPages, StoreId};
use tombolo_storage::paged::pool::{BufferPool, DirectFrames, NoWriteAhead, PageAccess, PageError};
use tombolo_storage::row::RowId;
use tombolo_storage::schema::ColumnDef;
use tombolo_storage::types::SqlType;

const REPEATS: u64 = 20_000;
const ENTRIES: u64 = 300_000;
const LIMIT_BYTES: usize = 256 << 20;

type Probe = Result<(), PageError>;

/// The stored form of key number `n`.
type Key = fn(u64, &mut Vec<u8>);

fn packed_key(n: u64, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&n.to_le_bytes());
}

/// Three columns: the first two repeat, as warehouse and district do.
fn columns(n: u64) -> [i32; 3] {
    [(n >> 16) as i32, (n >> 12 & 15) as i32, (n & 4_095) as i32]
}

fn typed_key(n: u64, out: &mut Vec<u8>) {
    out.clear();
    columns(n).iter().for_each(|column| out.extend_from_slice(&column.to_le_bytes()));
}

fn byte_key(n: u64, out: &mut Vec<u8>) {
    out.clear();
    columns(n).iter().for_each(|column| out.extend_from_slice(&column.to_be_bytes()));
}

fn unlogged(_: Place) -> Result<Stamp, PageError> {
    Ok(None)
}

/// Spreads numbers over the keys: an odd factor permutes them.
fn spread(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B1) % (1 << 20)
}

fn put<P: PageAccess, K: KeyFormat>(access: &P, tree: &BTree<P, K>, key: &[u8], row: u64) -> Probe {
    let (mut meet, mut last) = (|_, _| Meet::Duplicate, LastInsertions::default());
    let inserted =
        tree.insert(access, (key, RowId::new(row)), &mut last, &mut meet, unlogged, &())?;
    assert_eq!(inserted, Inserted::Done);
    Ok(())
}

#[inline(never)]
fn work<P: PageAccess, K: KeyFormat>(
    access: &P,
    tree: &BTree<P, K>,
    key: Key,
    what: &str,
) -> Probe {
    let (mut out, mut routes) = (Vec::with_capacity(64), Routes::default());
    for n in 0..REPEATS {
        match what {
            "find" => {
                key(spread(n * 7), &mut out);
                let mut found = None;
                let visit = |row, _| {
                    found = Some(row);
                    ControlFlow::Break(())
                };
                tree.find(access, &mut routes, &out, visit, &())?;
                black_box(found);
            }
            "insert" => {
                key(spread(ENTRIES + n), &mut out);
                put(access, tree, &out, ENTRIES + n)?;
            }
            "append" => {
                key((1 << 21) + n, &mut out);
                put(access, tree, &out, ENTRIES + n)?;
            }
            "remove" => {
                key(spread(n), &mut out);
                black_box(tree.remove(access, &out, RowId::new(n), unlogged, &(), &())?);
            }
            _ => {
                key(spread(n * 7), &mut out);
                black_box(&out);
            }
        }
    }
    Ok(())
}

fn probe<P: PageAccess, K: KeyFormat>(access: &P, shape: KeyShape, key: Key, what: &str) -> Probe {
    let tree = BTree::<P, K>::create(access, StoreId(1), shape, &())?;
    let mut out = Vec::new();
    for n in 0..ENTRIES {
        key(spread(n), &mut out);
        put(access, &tree, &out, n)?;
    }
    eprintln!("{:?}", tree.measure(access)?);
    work(access, &tree, key, what)
}

fn keys<P: PageAccess>(access: &P, keys: &str, what: &str) -> Probe {
    let part = |sql| {
        KeyPart::of(&ColumnDef {
            name: "c".into(),
            sql,
            nullable: false,
            range: None,
            hot: false,
            added: false,
            default: None,
        })
    };
    let three = KeyShape::new(&[SqlType::Integer; 3].map(part), true);
    match keys {
        "typed" => probe::<P, TypedColumns>(access, three, typed_key, what),
        "bytes" => probe::<P, IntegerKeys>(access, three, byte_key, what),
        _ => {
            let one = KeyShape::new(&[part(SqlType::BigInt)], true);
            probe::<P, IntegerKeys>(access, one, packed_key, what)
        }
    }
}

fn main() -> Probe {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().unwrap_or_default();
    let (way, form, what) = (next(), next(), next());
    let (disk, frames) = (MemDisk::new(), 6_000);
    match way.as_str() {
        "pool" => keys(
            &BufferPool::<SmallPages, Latched, _>::create(&disk, frames, NoWriteAhead)?,
            &form,
            &what,
        ),
        "pool-unlatched" => keys(
            &BufferPool::<SmallPages, Unlatched, _>::create(&disk, frames, NoWriteAhead)?,
            &form,
            &what,
        ),
        "direct" => {
            keys(&DirectFrames::<SmallPages, Latched>::create(&disk, LIMIT_BYTES)?, &form, &what)
        }
        _ => {
            keys(&DirectFrames::<SmallPages, Unlatched>::create(&disk, LIMIT_BYTES)?, &form, &what)
        }
    }
}
