//! Values that grow and shrink, each in a slot of its own; their rows stay where they are.

use super::*;
use crate::memory::test_random::Random;
use crate::paged::page::SlotKind;
use std::collections::BTreeMap;

const FIXED_BYTES: usize = 20;
const HANDLES: [usize; 2] = [2, 12];

fn layout() -> RowLayout {
    RowLayout { fixed_bytes: FIXED_BYTES, handles: HANDLES.to_vec() }
}

/// Gives a row another value; what it had is gone for good. Says where the new one lies.
fn set<P: PageAccess>(
    file: &HeapFile<P>,
    access: &P,
    row: RowId,
    at: usize,
    value: &[u8],
) -> Option<Place> {
    let before = file.read(access, row, |fixed| read_handle(fixed, at)).unwrap().unwrap();
    let after = file.create_value(access, 0, row, value, unlogged, &()).unwrap();
    let swap = |_: Place, fixed: &mut [u8]| -> Result<Stamp> {
        fixed[at..at + 8].copy_from_slice(&after.to_le_bytes());
        Ok(None)
    };
    assert!(file.update(access, row, swap).unwrap());
    if let Some(place) = file.give_up_value(before) {
        assert!(file.delete(access, place, unlogged).unwrap());
        assert!(!file.delete(access, place, unlogged).unwrap(), "it is deleted");
        assert!(file.purge(access, place, unlogged).unwrap());
    }
    file.give_up_value(after)
}

/// Deletes a row and its values and clears them away.
fn remove<P: PageAccess>(file: &HeapFile<P>, access: &P, row: RowId) {
    let handles = |fixed: &[u8]| HANDLES.map(|at| read_handle(fixed, at));
    let handles = file.read(access, row, handles).unwrap().unwrap();
    let mut places: Vec<Place> =
        handles.into_iter().filter_map(|h| file.give_up_value(h)).collect();
    places.push(Place::of_row(row));
    for &place in &places {
        assert!(file.delete(access, place, unlogged).unwrap());
    }
    // Deleted, they can be read all the same, and come back.
    values(file, access, row);
    for &place in &places {
        assert!(file.revive(access, place, unlogged).unwrap());
        assert!(!file.revive(access, place, unlogged).unwrap(), "it is not deleted");
    }
    for &place in &places {
        assert!(file.purge(access, place, unlogged).unwrap());
        assert!(!file.purge(access, place, unlogged).unwrap());
    }
}

/// The values of a row.
fn values<P: PageAccess>(file: &HeapFile<P>, access: &P, row: RowId) -> [Vec<u8>; 2] {
    let mut copy = Vec::new();
    assert!(file.copy_with_values(access, row, &mut copy).unwrap());
    HANDLES.map(|at| value_in_copy(&copy, read_handle(&copy, at)).to_vec())
}

#[test]
fn a_value_grows_twice_and_shrinks() {
    let pool = small_pool(8);
    let file = HeapFile::create_file(&pool, STORE, layout()).unwrap();
    let row = create(&file, &pool, 0, &[0; FIXED_BYTES]);
    let others = |count: usize| {
        for _ in 0..count {
            create(&file, &pool, 0, &[0; 1_000]);
        }
    };
    let home = Place::of_row(row).page;
    let near = set(&file, &pool, row, 2, &[2; 2_000]).unwrap();
    assert_eq!((near.page, near.kind), (home, SlotKind::Value), "there is room");
    others(6);
    assert_ne!(set(&file, &pool, row, 2, &[3; 3_000]).unwrap().page, home, "there is none");
    others(20);
    let last = set(&file, &pool, row, 2, &[4; 7_000]).unwrap();
    assert_eq!(values(&file, &pool, row), [vec![4; 7_000], vec![]]);
    assert_eq!(set(&file, &pool, row, 12, &[5; 1]).unwrap().page, home);
    assert_eq!(values(&file, &pool, row), [vec![4; 7_000], vec![5]]);
    assert_eq!(set(&file, &pool, row, 2, &[]), None, "no bytes take no slot");
    assert!(!file.purge(&pool, last, unlogged).unwrap(), "it is gone");
    assert_eq!(values(&file, &pool, row), [vec![], vec![5]]);
    assert_eq!(read(&file, &pool, row).unwrap().len(), FIXED_BYTES);
    assert_eq!(scan(&file, &pool).len(), 27, "values are no rows");
    remove(&file, &pool, row);
    assert!(file.read(&pool, row, |_| ()).unwrap().is_none());
    assert_eq!(scan(&file, &pool).len(), 26);
    assert_eq!(file.check(&pool), []);
}

#[test]
fn a_pinned_row_keeps_its_page_from_being_compacted() {
    let pool = small_pool(8);
    let file = HeapFile::create_file(&pool, STORE, layout()).unwrap();
    let mut bytes = [0; 1_000];
    let rows: Vec<RowId> = (0..8)
        .map(|n| {
            bytes[FIXED_BYTES..].fill(n);
            create(&file, &pool, 0, &bytes)
        })
        .collect();
    for &row in &rows[1..4] {
        file.purge(&pool, Place::of_row(row), unlogged).unwrap();
    }
    let home = Place::of_row(rows[7]).page;
    let pin = file.pin(&pool, rows[7]).unwrap().unwrap();
    // Three holes of 1,000 bytes: enough together, but rows would have to move.
    let away = create(&file, &pool, 1, &[0; 2_500]);
    assert_ne!(Place::of_row(away).page, home);
    assert_ne!(set(&file, &pool, rows[0], 2, &[8; 2_500]).unwrap().page, home);
    assert_eq!(*pin, bytes);
    drop(pin);
    assert_eq!(set(&file, &pool, rows[4], 2, &[8; 2_500]).unwrap().page, home);
    assert_eq!(file.check(&pool), []);
}

#[test]
fn a_handle_that_leads_nowhere_is_damage() {
    let pool = small_pool(8);
    let file = HeapFile::create_file(&pool, STORE, layout()).unwrap();
    let [row, other] = [(); 2].map(|()| create(&file, &pool, 0, &[0; FIXED_BYTES]));
    set(&file, &pool, row, 2, &[2; 2_000]);
    set(&file, &pool, other, 2, &[3; 3_000]);
    assert_eq!(file.check(&pool), []);
    let handle = |row| file.read(&pool, row, |fixed| read_handle(fixed, 2)).unwrap().unwrap();
    let (own, others) = (handle(row), handle(other));
    let spoil = |wrong: u64| {
        let change = |_: Place, fixed: &mut [u8]| -> Result<Stamp> {
            fixed[2..10].copy_from_slice(&wrong.to_le_bytes());
            Ok(None)
        };
        assert!(file.update(&pool, row, change).unwrap());
        let mut copy = Vec::new();
        let copied = file.copy_with_values(&pool, row, &mut copy);
        let found = file.check(&pool);
        let left = found.iter().filter(|found| found.what.contains("belongs to no row"));
        assert_eq!(left.count(), found.len() / 2);
        (copied.map_err(|error| error.to_string()), found.len())
    };
    for wrong in [own ^ 1, own ^ 8 << 16] {
        let (copied, found) = spoil(wrong);
        let error = copied.unwrap_err();
        assert!(error.contains("does not hold the value that a row has there"), "{error}");
        assert_eq!(found, 2, "seen from both ends");
    }
    assert!(spoil(own ^ 1 << 40).0.is_err(), "no such page");
    // Two rows with one value: each can be read, the checker sees both what is missing and what is left.
    let (copied, found) = spoil(others);
    assert_eq!((copied, found), (Ok(true), 2));
    assert_eq!(spoil(own), (Ok(true), 0));
}

/// An id may be anything, the place of a value among others.
#[test]
fn a_value_is_no_row() {
    let pool = small_pool(8);
    let file = HeapFile::create_file(&pool, STORE, layout()).unwrap();
    let row = create(&file, &pool, 0, &[0; FIXED_BYTES]);
    let value = set(&file, &pool, row, 2, &[2; 100]).unwrap();
    let id = value.row();
    assert!(!file.exists(&pool, id).unwrap() && file.exists(&pool, row).unwrap());
    assert!(read(&file, &pool, id).is_none() && file.pin(&pool, id).unwrap().is_none());
    assert!(!update(&file, &pool, id, 7));
    for place in [Place::of_row(id), Place { kind: SlotKind::Value, ..Place::of_row(row) }] {
        assert!(!file.delete(&pool, place, unlogged).unwrap());
        assert!(!file.revive(&pool, place, unlogged).unwrap());
        assert!(!file.purge(&pool, place, unlogged).unwrap());
    }
    assert_eq!(values(&file, &pool, row), [vec![2; 100], vec![]]);
    assert_eq!(file.check(&pool), []);
}

type Model = BTreeMap<RowId, [Vec<u8>; 2]>;

fn verify<P: PageAccess>(file: &HeapFile<P>, access: &P, model: &Model) {
    assert!(scan(file, access).into_iter().eq(model.keys().map(|&row| (row, false))));
    for (&row, expected) in model {
        assert_eq!(&values(file, access, row), expected);
    }
    assert_eq!((file.check(access), access.check()), (vec![], vec![]));
}

fn grow_and_shrink<P: PageAccess>(file: &HeapFile<P>, access: &P, model: &mut Model, seed: u64) {
    let mut random = Random::new(seed);
    for n in 0..5_000 {
        let nth = random.below(model.len().max(1) as u64) as usize;
        let chosen = model.keys().nth(nth).copied();
        match (random.below(10), chosen) {
            (0..2, _) => {
                let row = create(file, access, random.below(3) as usize, &[0; FIXED_BYTES]);
                assert!(model.insert(row, Default::default()).is_none(), "{row:?} was in use");
            }
            (2, Some(row)) => {
                remove(file, access, row);
                model.remove(&row);
            }
            (3.., Some(row)) => {
                let longest = if random.below(20) == 0 { 3_000 } else { 80 };
                let value = vec![random.below(256) as u8; random.below(longest) as usize];
                let which = random.below(2) as usize;
                set(file, access, row, HANDLES[which], &value);
                model.get_mut(&row).unwrap()[which] = value;
            }
            _ => {}
        }
        if n % 1_000 == 0 {
            verify(file, access, model);
        }
    }
    verify(file, access, model);
}

#[test]
fn values_that_grow_and_shrink_survive_closing() {
    let (disk, mut model) = (MemDisk::new(), Model::new());
    let pool = Small::create(&disk, 6, NoWriteAhead).unwrap();
    let file = HeapFile::create_file(&pool, STORE, layout()).unwrap();
    grow_and_shrink(&file, &pool, &mut model, 21);
    file.close(&pool, &()).unwrap();
    let root = file.root();
    pool.close().unwrap();
    drop((file, pool));
    let pool = DirectFrames::<SmallPages, Latched>::open(&disk, LIMIT_BYTES).unwrap();
    let file = HeapFile::open(&pool, root, layout()).unwrap();
    verify(&file, &pool, &model);
    for (&row, expected) in &model {
        let handles = |fixed: &[u8]| HANDLES.map(|at| read_handle(fixed, at));
        let handles = file.read(&pool, row, handles).unwrap().unwrap();
        assert_eq!(
            &handles.map(|handle| value_in_frame(&pool, handle).unwrap().to_vec()),
            expected
        );
    }
    grow_and_shrink(&file, &pool, &mut model, 22);
    file.close(&pool, &()).unwrap();
    pool.close().unwrap();
    drop((file, pool));
    let pool = BufferPool::<SmallPages, Unlatched, _>::open(&disk, 6, NoWriteAhead).unwrap();
    let file = HeapFile::open(&pool, root, layout()).unwrap();
    verify(&file, &pool, &model);
    grow_and_shrink(&file, &pool, &mut model, 23);
}
