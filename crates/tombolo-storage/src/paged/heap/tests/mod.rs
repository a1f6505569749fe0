//! Heap files and slabs against models, under threads, with values of any length, and damage.

mod model;
mod threads;
mod values;

use super::*;
use crate::disk::MemDisk;
use crate::latch::{Latched, Unlatched};
use crate::paged::page::{LargePages, SmallPages};
use crate::paged::pool::{
    BufferPool, DirectFrames, ExclusivePage, NoWriteAhead, PageFailure, Pointers, ReadPage,
};

type Small = BufferPool<SmallPages, Latched, NoWriteAhead>;

const STORE: StoreId = StoreId(9);
const LIMIT_BYTES: usize = 64 << 20;

fn small_pool(frames: usize) -> Small {
    Small::create(&MemDisk::new(), frames, NoWriteAhead).unwrap()
}

/// Makes a row of these bytes.
fn create<P: PageAccess, R: RowFile<P>>(file: &R, access: &P, lane: usize, row: &[u8]) -> RowId {
    let fill = |_: Place, bytes: &mut [u8]| -> Result<Stamp> {
        bytes.copy_from_slice(row);
        Ok(None)
    };
    file.create(access, lane, row.len(), fill, &()).unwrap()
}

fn update<P: PageAccess, R: RowFile<P>>(file: &R, access: &P, row: RowId, byte: u8) -> bool {
    let change = |_: Place, bytes: &mut [u8]| -> Result<Stamp> {
        bytes.fill(byte);
        Ok(None)
    };
    file.update(access, row, change).unwrap()
}

fn read<P: PageAccess, R: RowFile<P>>(file: &R, access: &P, row: RowId) -> Option<Vec<u8>> {
    file.read(access, row, <[u8]>::to_vec).unwrap()
}

/// A log that keeps no numbers.
fn unlogged(_: Place, _: &[u8]) -> Result<Stamp> {
    Ok(None)
}

/// All rows, and whether each is deleted.
fn scan<P: PageAccess, R: RowFile<P>>(file: &R, access: &P) -> Vec<(RowId, bool)> {
    let mut rows = Vec::new();
    let visit = |row, deleted| {
        rows.push((row, deleted));
        ControlFlow::Continue(())
    };
    file.scan(access, visit).unwrap();
    rows.sort_unstable();
    rows
}

#[test]
fn a_row_id_is_page_and_slot() {
    let place = Place::of_record(PageId(0x0102_0304), 0x0506);
    assert_eq!(place.row().location(), 0x0102_0304_0506);
    assert_eq!(Place::of_row(place.row()), place);
}

#[test]
fn equal_rows_take_the_places_of_those_that_left() {
    let pool = small_pool(8);
    let file = HeapFile::create_file(&pool, STORE, RowLayout::fixed(100)).unwrap();
    let fill =
        || -> Vec<RowId> { (0..1_000).map(|n| create(&file, &pool, 0, &[n as u8; 100])).collect() };
    let mut rows = fill();
    let pages = file.page_count();
    assert!(pages <= 1_000 / 77 + 1, "{pages} pages");
    for _ in 0..5 {
        for &row in &rows {
            assert!(file.purge(&pool, Place::of_row(row), unlogged).unwrap());
        }
        rows = fill();
        assert_eq!(file.check(&pool), []);
    }
    assert_eq!(file.page_count(), pages);
}

#[test]
fn lanes_fill_pages_of_their_own() {
    let pool = small_pool(40);
    let file = HeapFile::create_file(&pool, STORE, RowLayout::fixed(50)).unwrap();
    let pages: std::collections::BTreeSet<PageId> =
        (0..8).map(|lane| Place::of_row(create(&file, &pool, lane, &[1; 50])).page).collect();
    assert_eq!(pages.len(), 8);
    let again = Place::of_row(create(&file, &pool, 3, &[1; 50])).page;
    assert!(pages.contains(&again));
    assert_eq!(file.check(&pool), []);
}

#[test]
fn changes_are_stamped_with_what_the_log_answers() {
    let pool = small_pool(8);
    let file = HeapFile::create_file(&pool, STORE, RowLayout::fixed(10)).unwrap();
    let lsn = |row: RowId| pool.fix_shared(Place::of_row(row).page).unwrap().page().lsn();
    let fill = |_: Place, row: &mut [u8]| -> Result<Stamp> {
        row.fill(1);
        Ok(Some(5))
    };
    let row = file.create(&pool, 0, 10, fill, &());
    let row = row.unwrap();
    assert_eq!(lsn(row), 5);
    file.update(&pool, row, |_, _| -> Result<Stamp> { Ok(Some(6)) }).unwrap();
    assert_eq!(lsn(row), 6);
    file.update(&pool, row, |_, _| -> Result<Stamp> { Ok(None) }).unwrap();
    assert_eq!(lsn(row), 6);
    file.delete(&pool, Place::of_row(row), |_, before| -> Result<Stamp> {
        assert_eq!(before, [1; 10]);
        Ok(Some(7))
    })
    .unwrap();
    assert_eq!(lsn(row), 7);
    file.purge(&pool, Place::of_row(row), |_, _| -> Result<Stamp> { Ok(Some(8)) }).unwrap();
    assert_eq!(lsn(row), 8);
}

#[test]
fn what_the_log_refuses_does_not_happen() {
    let pool = small_pool(8);
    let file = HeapFile::create_file(&pool, STORE, RowLayout::fixed(10)).unwrap();
    let row = create(&file, &pool, 0, &[1; 10]);
    fn refuse(_: Place, _: &[u8]) -> Result<Stamp> {
        Err(PageFailure::TooManyPages.into())
    }
    assert!(file.create(&pool, 0, 10, |place, bytes| refuse(place, bytes), &()).is_err());
    assert!(file.update(&pool, row, |place, bytes| refuse(place, bytes)).is_err());
    assert!(file.delete(&pool, Place::of_row(row), refuse).is_err());
    assert!(file.purge(&pool, Place::of_row(row), refuse).is_err());
    assert!(file.create_value(&pool, 0, row, &[2; 90], refuse, &()).is_err());
    assert_eq!(scan(&file, &pool), [(row, false)]);
    assert_eq!(read(&file, &pool, row), Some(vec![1; 10]));
    assert_eq!(file.check(&pool), []);
}

#[test]
fn deleted_rows_stay_until_they_are_purged() {
    let pool = small_pool(8);
    let file = HeapFile::create_file(&pool, STORE, RowLayout::fixed(10)).unwrap();
    let row = create(&file, &pool, 0, &[1; 10]);
    assert!(file.delete(&pool, Place::of_row(row), unlogged).unwrap());
    assert!(!file.delete(&pool, Place::of_row(row), unlogged).unwrap(), "it is deleted");
    assert!(!update(&file, &pool, row, 2) && !file.exists(&pool, row).unwrap());
    assert_eq!(read(&file, &pool, row), Some(vec![1; 10]));
    assert_eq!(&*file.pin(&pool, row).unwrap().unwrap(), [1; 10]);
    assert_eq!(scan(&file, &pool), [(row, true)]);
    assert_eq!(file.check(&pool).len(), 1, "outside of transactions it is damage");
    assert!(file.revive(&pool, Place::of_row(row), unlogged).unwrap());
    assert!(!file.revive(&pool, Place::of_row(row), unlogged).unwrap(), "it is not deleted");
    assert!(update(&file, &pool, row, 2));
    assert!(file.purge(&pool, Place::of_row(row), unlogged).unwrap());
    assert!(!file.purge(&pool, Place::of_row(row), unlogged).unwrap());
    assert!(file.pin(&pool, row).unwrap().is_none());
}

#[test]
fn a_row_too_long_for_a_page_is_refused() {
    let pool = small_pool(8);
    let bytes_max = crate::paged::page::record_bytes_max::<SmallPages>();
    let too_long = PageFailure::RecordTooLong { bytes: bytes_max + 1, bytes_max };
    let refused =
        HeapFile::create_file(&pool, STORE, RowLayout::fixed(bytes_max + 1)).err().unwrap();
    assert_eq!(*refused.failure(), too_long);
    let file = HeapFile::create_file(&pool, STORE, RowLayout::fixed(bytes_max)).unwrap();
    for _ in 0..3 {
        create(&file, &pool, 0, &vec![1; bytes_max]);
        let refused = file.create(&pool, 0, bytes_max + 1, |place, row| unlogged(place, row), &());
        assert_eq!(*refused.err().unwrap().failure(), too_long);
    }
    assert_eq!(file.check(&pool), []);
}

#[test]
fn a_full_disk_refuses_rows_and_loses_none() {
    let disk = MemDisk::new();
    let pool = Small::create(&disk, 6, NoWriteAhead).unwrap();
    let file = HeapFile::create_file(&pool, STORE, RowLayout::fixed(1_000)).unwrap();
    disk.set_capacity_bytes(Some(60 * 8192));
    let mut rows = Vec::new();
    let error = loop {
        let n = rows.len() as u8;
        let fill = |_: Place, row: &mut [u8]| -> Result<Stamp> {
            row.fill(n);
            Ok(None)
        };
        match file.create(&pool, 0, 1_000, fill, &()) {
            Ok(row) => rows.push(row),
            Err(error) => break error,
        }
    };
    assert!(error.is_full(), "{error}");
    assert_eq!(rows.len(), 58 * 8);
    for (n, &row) in rows.iter().enumerate() {
        assert_eq!(read(&file, &pool, row), Some(vec![n as u8; 1_000]));
    }
    file.purge(&pool, Place::of_row(rows[0]), unlogged).unwrap();
    create(&file, &pool, 0, &[1; 1_000]);
    assert_eq!((file.check(&pool), pool.check()), (vec![], vec![]));
}

#[test]
fn a_pool_too_small_for_one_operation_says_so() {
    let pool = small_pool(1);
    let file = HeapFile::create_file(&pool, STORE, RowLayout::fixed(10)).unwrap();
    let refused = file.create(&pool, 0, 10, |place, row| unlogged(place, row), &()).err().unwrap();
    assert_eq!(*refused.failure(), PageFailure::PoolFull { frames: 1 });
    assert_eq!((scan(&file, &pool), pool.check()), (vec![], vec![]));
}

#[test]
fn the_map_grows_over_several_pages() {
    let pool = small_pool(10);
    // One row fills a page, so the map needs a second page soon.
    let file = HeapFile::create_file(&pool, STORE, RowLayout::fixed(8_000)).unwrap();
    let rows: Vec<RowId> = (0..2_100).map(|n| create(&file, &pool, 0, &[n as u8; 8_000])).collect();
    assert_eq!(file.page_count(), 2_100);
    assert_eq!(scan(&file, &pool).len(), rows.len());
    assert_eq!(file.check(&pool), []);
    file.close(&pool, &()).unwrap();
    let file = HeapFile::open(&pool, file.root(), RowLayout::fixed(8)).unwrap();
    assert_eq!((file.store(), file.page_count()), (STORE, 2_100));
    assert_eq!(file.check(&pool), []);
}

#[test]
fn what_is_no_map_is_not_opened() {
    let pool = small_pool(10);
    let file = HeapFile::create_file(&pool, STORE, RowLayout::fixed(100)).unwrap();
    let row = create(&file, &pool, 0, &[1; 100]);
    let refused =
        HeapFile::open(&pool, Place::of_row(row).page, RowLayout::fixed(8)).err().unwrap();
    assert!(refused.to_string().contains("no page of the map"), "{refused}");
    pool.fix_exclusive(file.root()).unwrap().page_mut().set_next(Some(file.root()));
    assert!(
        HeapFile::open(&pool, file.root(), RowLayout::fixed(8)).is_err(),
        "a map that leads back to itself"
    );
}
