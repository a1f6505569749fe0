//! Bad input: flipped bits, truncated files, other versions, full and failing disks.

use std::time::Duration;

use super::*;
use crate::disk::{DiskFile, Open};
use crate::memory::test_random::Random;
use crate::paged::pool::SpaceStep;
use crate::sync::Parker;

const PAGES: u64 = 10;

/// A closed file of ten pages.
fn closed() -> (MemDisk, Box<dyn DiskFile>) {
    let disk = MemDisk::new();
    let pool = Small::create(&disk, 4, NoWriteAhead).unwrap();
    for n in 0..PAGES {
        page_with(&pool, n);
    }
    pool.close().unwrap();
    let file = disk.open(PAGES_FILE, Open::Write).unwrap();
    (disk, file)
}

/// Opens the file, both ways, and reads every page; the first failure.
fn first_failure(disk: &MemDisk) -> Option<PageFailure> {
    let read = || -> Result<()> {
        let pool = Small::open(disk, 4, NoWriteAhead)?;
        for id in 1..pool.page_count() {
            pool.fix_shared(PageId(id))?;
        }
        pool.close()
    };
    read().err().map(|error| error.failure().clone())
}

fn damaged_at(disk: &MemDisk) -> (u64, String) {
    match first_failure(disk) {
        Some(PageFailure::Damaged { file, offset, what }) if file == PAGES_FILE => (offset, what),
        other => panic!("{other:?}"),
    }
}

/// Page 0, byte by byte: what docs/format.md says. If this fails, old files cannot be read.
#[test]
fn golden_header() {
    let (disk, _) = closed();
    let pool = Small::open(&disk, 4, NoWriteAhead).unwrap();
    let mut step = SpaceStep::new(&pool);
    step.set_root(PageId(3));
    step.finish(None);
    drop(step);
    for id in [7, 2] {
        pool.free_page(pool.fix_exclusive(PageId(id)).unwrap());
    }
    pool.close().unwrap();
    let mut header = [0; 80];
    disk.open(PAGES_FILE, Open::Read).unwrap().read_at(&mut header, 0).unwrap();
    #[rustfmt::skip]
    let expected: [u8; 76] = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // page 0, LSN 0
        0, 0, 1, 0, // store 0, kind 1
        0, 0, 40, 0, 0xD8, 0x1F, 0xFF, 0xFF, // no slots, 8,152 bytes free
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // no neighbours
        b't', b'o', b'm', b'b', b'o', b'l', b'o', b'\n', 5, 0, 0, 0, 0, 32, 0, 0, // 8,192
        11, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, // pages, first free, free ones
        3, 0, 0, 0, 1, 0, 0, 0, // root, closed
        0, 0, 0, 0,
    ];
    assert_eq!(header[4..], expected);
}

fn flip(file: &dyn DiskFile, offset: u64, bit: u64) {
    let mut byte = [0];
    file.read_at(&mut byte, offset).unwrap();
    file.write_at(&[byte[0] ^ 1 << bit], offset).unwrap();
}

#[test]
fn one_flipped_bit_is_refused_with_its_page() {
    let (disk, file) = closed();
    let mut random = Random::new(1);
    assert_eq!(first_failure(&disk), None);
    for _ in 0..300 {
        let (offset, bit) = (random.below((PAGES + 1) * 8192), random.below(8));
        flip(&*file, offset, bit);
        let (at, what) = damaged_at(&disk);
        // Inside the magic, version and page size the field itself is named.
        assert_eq!(at / 8192, offset / 8192, "{what}");
        if let Ok(direct) = DirectFrames::<SmallPages, Latched>::open(&disk, LIMIT_BYTES) {
            drop(direct);
            panic!("direct frames read what the pool refused");
        }
        flip(&*file, offset, bit);
        // The pool that failed to read it left it marked as not closed.
        reclose(&*file);
        assert_eq!(first_failure(&disk), None);
    }
}

/// Marks the file as closed again, which is what a failed opening took back.
fn reclose(file: &dyn DiskFile) {
    let (_, pristine) = closed();
    let mut header = vec![0; 8192];
    pristine.read_at(&mut header, 0).unwrap();
    file.write_at(&header, 0).unwrap();
}

#[test]
fn a_page_in_the_wrong_place_is_refused() {
    let (disk, file) = closed();
    let mut page = vec![0; 8192];
    file.read_at(&mut page, 3 * 8192).unwrap();
    file.write_at(&page, 5 * 8192).unwrap();
    let (at, what) = damaged_at(&disk);
    assert_eq!(at, 5 * 8192);
    assert!(what.contains("page 3"), "{what}");
}

#[test]
fn a_truncated_file_is_refused_where_it_ends() {
    for length in [0, 20, 60, 100, 8191, 8192, 8193, 5 * 8192, 11 * 8192 - 1] {
        let (disk, file) = closed();
        file.set_len(length).unwrap();
        assert_eq!(damaged_at(&disk).0, length);
    }
}

#[test]
fn another_version_size_or_file_is_refused_at_the_field() {
    let change = |offset: u64, bytes: &[u8]| {
        let (disk, file) = closed();
        file.write_at(bytes, offset).unwrap();
        damaged_at(&disk)
    };
    for other in [1_u32, 2, 3, 4, 6] {
        let (at, what) = change(48, &other.to_le_bytes());
        let expected = format!("version {other}, this program reads 5");
        assert!(at == 48 && what.contains(&expected), "{at}: {what}");
    }
    let (at, what) = change(40, b"SQLite f");
    assert!(at == 40 && what.contains("no data file"), "{at}: {what}");
    let (disk, _) = closed();
    let large = BufferPool::<LargePages, Latched, _>::open(&disk, 4, NoWriteAhead);
    let PageFailure::Damaged { offset, what, .. } = failure(large) else { panic!() };
    assert!(offset == 52 && what.contains("pages of 8192 bytes"), "{offset}: {what}");
}

#[test]
fn a_file_that_was_not_closed_or_is_in_use_is_refused() {
    let (disk, _) = closed();
    let pool = Small::open(&disk, 4, NoWriteAhead).unwrap();
    let file = PAGES_FILE.to_owned();
    assert_eq!(first_failure(&disk), Some(PageFailure::InUse { file: file.clone() }));
    pool.flush().unwrap();
    drop(pool);
    assert_eq!(first_failure(&disk), Some(PageFailure::NotClosed { file }));
}

#[test]
fn a_full_disk_refuses_new_pages_and_loses_nothing() {
    let disk = MemDisk::new();
    let pool = Small::create(&disk, 4, NoWriteAhead).unwrap();
    disk.set_capacity_bytes(Some(100 * 8192 + 5_000));
    let mut pages = Vec::new();
    let error = loop {
        match pool.new_page(StoreId(1), PageKind::Heap) {
            Ok(mut page) => {
                page.page_mut().insert(8, SlotKind::Record).unwrap();
                set_value(&mut page, pages.len() as u64);
                pages.push(page.page().id());
            }
            Err(error) => break error,
        }
    };
    assert!(error.is_full(), "{error}");
    assert_eq!(pages.len(), 99, "the disk was used to the last page");
    // What is free can be used.
    pool.free_page(pool.fix_exclusive(pages[50]).unwrap());
    assert_eq!(page_with(&pool, 50), pages[50]);
    assert_eq!(pool.check(), []);
    pool.close().unwrap();
    drop(pool);
    let pool = Small::open(&disk, 4, NoWriteAhead).unwrap();
    for (n, &id) in (0..).zip(&pages) {
        assert_eq!(value(&pool.fix_shared(id).unwrap()), n);
    }
}

#[test]
fn a_failing_write_is_an_error_and_loses_nothing() {
    let disk = MemDisk::new();
    let pool = Small::create(&disk, 4, NoWriteAhead).unwrap();
    let pages: Vec<PageId> = (0..20).map(|n| page_with(&pool, n)).collect();
    disk.set_fault(Some(Fault { operation: Operation::Write, after: 1, kind: ErrorKind::Other }));
    for &id in &pages {
        // All frames are dirty again and again: some eviction has to write.
        if let Ok(mut page) = pool.fix_exclusive(id) {
            let same = value(&page);
            set_value(&mut page, same);
        }
    }
    assert!(matches!(failure(pool.flush()), PageFailure::Disk(_)));
    disk.set_fault(None);
    for (n, &id) in (0..).zip(&pages) {
        assert_eq!(value(&pool.fix_shared(id).unwrap()), n);
    }
    pool.close().unwrap();
}

#[test]
fn a_failing_read_is_an_error_and_can_be_tried_again() {
    let disk = MemDisk::new();
    let pool = Small::create(&disk, 2, NoWriteAhead).unwrap();
    let pages: Vec<PageId> = (0..5).map(|n| page_with(&pool, n)).collect();
    disk.set_fault(Some(Fault { operation: Operation::Read, after: 0, kind: ErrorKind::Other }));
    for _ in 0..10 {
        assert!(matches!(failure(pool.fix_shared(pages[0])), PageFailure::Disk(_)));
    }
    disk.set_fault(None);
    assert_eq!(value(&pool.fix_shared(pages[0]).unwrap()), 0);
    assert_eq!(pool.check(), []);
}

#[test]
fn memory_that_ends_is_an_error() {
    let limit = 20 * LargePages::BYTES;
    let direct = DirectFrames::<LargePages, Unlatched>::create(&MemDisk::new(), limit).unwrap();
    let refused = (0..40).find_map(|_| direct.new_page(StoreId(1), PageKind::Heap).err());
    assert!(matches!(refused.unwrap().failure(), PageFailure::Memory(_)));
    assert_eq!(direct.page_count(), 20);
    assert_eq!(direct.check(), []);
}

/// A process that was killed keeps its file until its transfers are over.
#[test]
fn a_file_that_is_given_up_in_a_moment_is_waited_for() {
    let (disk, other) = closed();
    assert!(other.try_lock().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            Parker::<()>::default().park_for(Duration::from_millis(50));
            drop(other);
        });
        assert_eq!(first_failure(&disk), None);
    });
}
