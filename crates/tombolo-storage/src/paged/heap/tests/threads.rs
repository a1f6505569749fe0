//! Several threads on one heap file: each changes rows of its own and meets the others' pages.

use super::*;
use crate::memory::test_random::Random;
use std::collections::BTreeMap;

const THREADS: u64 = 4;

/// Rows begin with the handle of a value.
const HANDLE: [usize; 1] = [0];

/// A row's bytes behind the handle, and its value.
type Rows = BTreeMap<RowId, [Vec<u8>; 2]>;

fn read_all<P: PageAccess>(file: &HeapFile<P>, access: &P, row: RowId) -> [Vec<u8>; 2] {
    let mut copy = Vec::new();
    assert!(file.copy_with_values(access, row, &mut copy).unwrap());
    let value = value_in_copy(&copy, read_handle(&copy, 0)).to_vec();
    [copy[8..copy.len() - value.len()].to_vec(), value]
}

/// Gives a row another value.
fn set<P: PageAccess>(file: &HeapFile<P>, access: &P, lane: usize, row: RowId, value: &[u8]) {
    let after = file.create_value(access, lane, row, value, unlogged, &()).unwrap();
    let mut before = 0;
    let swap = |_: Place, bytes: &mut [u8]| -> Result<Stamp> {
        before = read_handle(bytes, 0);
        bytes[..8].copy_from_slice(&after.to_le_bytes());
        Ok(None)
    };
    assert!(file.update(access, row, swap).unwrap());
    if let Some(place) = file.give_up_value(before) {
        assert!(file.delete(access, place, unlogged).unwrap());
        assert!(file.purge(access, place, unlogged).unwrap());
    }
}

/// What one thread does; the rows it leaves.
fn work<P: PageAccess>(file: &HeapFile<P>, access: &P, thread: u64, lane: usize) -> Rows {
    let mut random = Random::new(thread);
    let mut own = Rows::new();
    for _ in 0..3_000 {
        let bytes = vec![random.below(256) as u8; random.below(200) as usize];
        let nth = random.below(own.len().max(1) as u64) as usize;
        let chosen = own.keys().nth(nth).copied();
        match (random.below(8), chosen) {
            (0..3, _) => {
                let row = create(file, access, lane, &[&[0; 8], bytes.as_slice()].concat());
                assert!(own.insert(row, [bytes, Vec::new()]).is_none());
            }
            (3, Some(row)) => {
                set(file, access, lane, row, &bytes);
                own.get_mut(&row).unwrap()[1] = bytes;
            }
            (4, Some(row)) => {
                let pin = file.pin(access, row).unwrap().unwrap();
                std::thread::yield_now();
                assert_eq!(&pin[8..], own[&row][0].as_slice());
            }
            (5, Some(row)) => {
                let place = Place::of_row(row);
                assert!(file.delete(access, place, unlogged).unwrap());
                assert!(file.revive(access, place, unlogged).unwrap());
                if random.below(2) == 0 {
                    set(file, access, lane, row, &[]);
                    assert!(file.delete(access, place, unlogged).unwrap());
                    assert!(file.purge(access, place, unlogged).unwrap());
                    own.remove(&row);
                }
            }
            (6, Some(row)) => {
                let change = |_: Place, bytes: &mut [u8]| -> Result<Stamp> {
                    bytes[8..].fill(77);
                    Ok(None)
                };
                assert!(file.update(access, row, change).unwrap());
                own.get_mut(&row).unwrap()[0].fill(77);
            }
            (7, Some(row)) => assert_eq!(&read_all(file, access, row), &own[&row]),
            _ => {}
        }
    }
    own
}

fn together<P: PageAccess + Sync>(access: &P, lanes: usize)
where
    HeapFile<P>: Sync,
{
    let file = &HeapFile::create_file(
        access,
        STORE,
        RowLayout { fixed_bytes: 8, handles: HANDLE.to_vec() },
    )
    .unwrap();
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
        assert_eq!(&read_all(file, access, row), bytes);
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
