//! Several threads on one heap file: each changes rows of its own and meets the others' pages.

use super::*;
use crate::memory::test_random::Random;
use std::collections::BTreeMap;

const THREADS: u64 = 4;

/// What one thread does; the rows it leaves.
fn work<P: PageAccess>(
    file: &HeapFile<P>,
    access: &P,
    thread: u64,
    lane: usize,
) -> BTreeMap<RowId, Vec<u8>> {
    let mut random = Random::new(thread);
    let mut own: BTreeMap<RowId, Vec<u8>> = BTreeMap::new();
    for _ in 0..3_000 {
        let bytes = vec![random.below(256) as u8; random.below(200) as usize];
        let nth = random.below(own.len().max(1) as u64) as usize;
        let chosen = own.keys().nth(nth).copied();
        match (random.below(8), chosen) {
            (0..3, _) => {
                let row = create(file, access, lane, &bytes);
                assert!(own.insert(row, bytes).is_none());
            }
            (3, Some(row)) => {
                let log = |_: HeapChange<'_>| -> Result<Stamp> { Ok(None) };
                assert!(file.replace(access, lane, row, &bytes, log).unwrap());
                own.insert(row, bytes);
            }
            (4, Some(row)) => {
                let pin = file.pin(access, row).unwrap().unwrap();
                std::thread::yield_now();
                assert_eq!(&*pin, own[&row].as_slice());
            }
            (5, Some(row)) => {
                assert!(file.delete(access, row, unlogged).unwrap());
                if random.below(2) == 0 {
                    assert!(file.revive(access, row, unlogged).unwrap());
                } else {
                    assert!(file.purge(access, row, unlogged).unwrap());
                    own.remove(&row);
                }
            }
            (6, Some(row)) => {
                assert!(update(file, access, row, 77));
                own.get_mut(&row).unwrap().fill(77);
            }
            (7, Some(row)) => assert_eq!(read(file, access, row).as_ref(), own.get(&row)),
            _ => {}
        }
    }
    own
}

fn together<P: PageAccess + Sync>(access: &P, lanes: usize)
where
    HeapFile<P>: Sync,
{
    let file = &HeapFile::create_file(access, STORE, 8).unwrap();
    let mut all = BTreeMap::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(file, access, thread, thread as usize % lanes)))
            .collect();
        // Meanwhile this thread looks at everything without locks: no error, no row twice.
        for _ in 0..20 {
            let rows = scan(file, access);
            assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
        for worker in workers {
            for (row, bytes) in worker.join().unwrap() {
                assert_eq!(all.insert(row, bytes), None, "{row:?} belongs to two threads");
            }
        }
    });
    assert!(scan(file, access).into_iter().eq(all.keys().map(|&row| (row, false))));
    for (&row, bytes) in &all {
        assert_eq!(read(file, access, row).as_ref(), Some(bytes));
    }
    assert_eq!((file.check(access), access.check()), (vec![], vec![]));
}

#[test]
fn on_lanes_of_their_own() {
    together(&small_pool(24), THREADS as usize);
}

#[test]
fn on_one_lane() {
    together(&small_pool(24), 1);
}

#[test]
fn in_direct_frames() {
    let disk = MemDisk::new();
    together(&DirectFrames::<SmallPages, Latched>::create(&disk, LIMIT_BYTES).unwrap(), 2);
}
