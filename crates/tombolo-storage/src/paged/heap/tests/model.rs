//! Random operations on rows, the same wherever they lie, against a map.

use super::*;
use crate::memory::test_random::Random;
use std::collections::BTreeMap;

const ROW_BYTES: usize = 60;

/// A row's bytes, and whether it is deleted.
type Model = BTreeMap<RowId, (Vec<u8>, bool)>;

fn any(model: &Model, random: &mut Random) -> Option<RowId> {
    let nth = random.below(model.len().max(1) as u64) as usize;
    model.keys().nth(nth).copied()
}

fn verify<P: PageAccess, R: RowFile<P>>(file: &R, access: &P, model: &Model, sees_deleted: bool) {
    let expected = model.iter().filter(|(_, (_, deleted))| sees_deleted || !deleted);
    let expected: Vec<_> = expected.map(|(&row, (_, deleted))| (row, *deleted)).collect();
    assert_eq!(scan(file, access), expected);
    for (&row, (bytes, deleted)) in model {
        assert_eq!(read(file, access, row).as_ref(), Some(bytes));
        assert_eq!(&*file.pin(access, row).unwrap().unwrap(), bytes.as_slice());
        assert_eq!(file.exists(access, row).unwrap(), !deleted);
    }
}

/// One random operation that every row file knows.
fn step<P: PageAccess, R: RowFile<P>>(
    file: &R,
    access: &P,
    model: &mut Model,
    random: &mut Random,
    bytes: usize,
) {
    let (byte, lane) = (random.below(256) as u8, random.below(3) as usize);
    let row = any(model, random);
    match (random.below(10), row) {
        (0..4, _) => {
            let row = create(file, access, lane, &vec![byte; bytes]);
            let before = model.insert(row, (vec![byte; bytes], false));
            assert_eq!(before, None, "{row:?} was in use");
        }
        (4..6, Some(row)) => {
            let (bytes, deleted) = model.get_mut(&row).unwrap();
            assert_eq!(update(file, access, row, byte), !*deleted);
            if !*deleted {
                bytes.fill(byte);
            }
        }
        (6, Some(row)) => {
            let (_, deleted) = model.get_mut(&row).unwrap();
            assert_eq!(file.delete(access, Place::of_row(row), unlogged).unwrap(), !*deleted);
            *deleted = true;
        }
        (7, Some(row)) => {
            let (_, deleted) = model.get_mut(&row).unwrap();
            assert_eq!(file.revive(access, Place::of_row(row), unlogged).unwrap(), *deleted);
            *deleted = false;
        }
        (8.., Some(row)) => {
            assert!(file.purge(access, Place::of_row(row), unlogged).unwrap());
            assert!(model.remove(&row).is_some());
        }
        _ => {}
    }
}

/// Takes all deletions back, so that a checker has nothing to say.
fn revive_all<P: PageAccess, R: RowFile<P>>(file: &R, access: &P, model: &mut Model) {
    for (&row, (_, deleted)) in model.iter_mut().filter(|(_, (_, deleted))| *deleted) {
        file.revive(access, Place::of_row(row), unlogged).unwrap();
        *deleted = false;
    }
    assert_eq!(file.check(access), []);
}

fn fixed<P: PageAccess, R: RowFile<P>>(access: &P, seed: u64, sees_deleted: bool) {
    let file = R::create_file(access, STORE, RowLayout::fixed(ROW_BYTES)).unwrap();
    let (mut model, mut random) = (Model::new(), Random::new(seed));
    for n in 0..6_000 {
        step(&file, access, &mut model, &mut random, ROW_BYTES);
        if n % 1_500 == 0 {
            verify(&file, access, &model, sees_deleted);
        }
    }
    revive_all(&file, access, &mut model);
    verify(&file, access, &model, sees_deleted);
    assert_eq!(access.check(), []);
}

#[test]
fn rows_of_one_length() {
    fixed::<_, HeapFile<_>>(&small_pool(6), 1, true);
    let create = BufferPool::<LargePages, Unlatched, _>::create;
    fixed::<_, HeapFile<_>>(&create(&MemDisk::new(), 6, NoWriteAhead).unwrap(), 2, true);
    let create = DirectFrames::<SmallPages, Latched>::create;
    fixed::<_, HeapFile<_>>(&create(&MemDisk::new(), LIMIT_BYTES).unwrap(), 3, true);
    let create = DirectFrames::<LargePages, Unlatched>::create;
    fixed::<_, HeapFile<_>>(&create(&MemDisk::new(), LIMIT_BYTES).unwrap(), 4, true);
    fixed::<_, SlabRows>(&Pointers::<LargePages>::new(LIMIT_BYTES).unwrap(), 5, false);
}

/// Rows of any length.
fn any_length<P: PageAccess>(access: &P, file: &HeapFile<P>, model: &mut Model, seed: u64) {
    let mut random = Random::new(seed);
    for n in 0..6_000 {
        let longest = if random.below(20) == 0 { 3_000 } else { 80 };
        let bytes = random.below(longest) as usize;
        step(file, access, model, &mut random, bytes);
        if n % 1_500 == 0 {
            verify(file, access, model, true);
        }
    }
    revive_all(file, access, model);
    verify(file, access, model, true);
    assert_eq!(access.check(), []);
}

#[test]
fn rows_of_any_length_survive_closing() {
    let (disk, mut model) = (MemDisk::new(), Model::new());
    let pool = Small::create(&disk, 6, NoWriteAhead).unwrap();
    let file = HeapFile::create_file(&pool, STORE, RowLayout::fixed(8)).unwrap();
    any_length(&pool, &file, &mut model, 11);
    file.close(&pool, &()).unwrap();
    let root = file.root();
    pool.close().unwrap();
    drop((file, pool));
    let pool = DirectFrames::<SmallPages, Latched>::open(&disk, LIMIT_BYTES).unwrap();
    let file = HeapFile::open(&pool, root, RowLayout::fixed(8)).unwrap();
    verify(&file, &pool, &model, true);
    any_length(&pool, &file, &mut model, 12);
    file.close(&pool, &()).unwrap();
    pool.close().unwrap();
    drop((file, pool));
    let pool = BufferPool::<SmallPages, Unlatched, _>::open(&disk, 6, NoWriteAhead).unwrap();
    let file = HeapFile::open(&pool, root, RowLayout::fixed(8)).unwrap();
    verify(&file, &pool, &model, true);
    any_length(&pool, &file, &mut model, 13);
}
