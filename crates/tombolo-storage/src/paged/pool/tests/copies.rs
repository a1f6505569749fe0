//! Torn pages: a crash at every call to the disk, then every page is whole again.

use super::*;
use crate::memory::test_random::Random;
use crate::paged::pool::copies::Copies;
use crate::value_log::tests::crash_disk::CrashDisk;

/// Pages with numbers that grow, more than there are frames, written back by eviction and by checkpoints.
/// Returns the least LSN each page must have in the file.
fn work(disk: &CrashDisk, random: &mut Random) -> (Vec<u64>, Result<()>) {
    let mut durable = Vec::new();
    let done = (|| -> Result<()> {
        let log = Arc::new(TestLog::default());
        let pool = Logged::create(disk, 8, Arc::clone(&log))?;
        let (mut pages, mut newest) = (Vec::new(), Vec::new());
        for lsn in 1..400 {
            if pages.len() < 12 || pages.len() < 40 && random.below(4) == 0 {
                pages.push(page_with_result(&pool, lsn)?);
                newest.push(lsn);
            }
            let at = random.below(pages.len() as u64) as usize;
            let mut page = pool.fix_exclusive(pages[at])?;
            set_value(&mut page, lsn);
            page.page_mut().set_lsn(lsn);
            newest[at] = lsn;
            drop(page);
            if random.below(30) == 0 {
                pool.flush()?;
                durable.clone_from(&newest);
            }
        }
        pool.close()?;
        durable.clone_from(&newest);
        Ok(())
    })();
    (durable, done)
}

fn page_with_result(pool: &Logged, lsn: u64) -> Result<PageId> {
    let mut page = pool.new_page(StoreId(1), PageKind::Heap)?;
    page.page_mut().insert(8, SlotKind::Record).unwrap();
    set_value(&mut page, lsn);
    page.page_mut().set_lsn(lsn);
    Ok(page.page().id())
}

/// Repairs what a crash left; how many pages were torn. Every page is whole then, or was never written.
fn repaired(disk: &CrashDisk, durable: &[u64]) -> u32 {
    let Ok(file) = disk.open(PAGES_FILE, Open::Write) else { return 0 };
    let Ok(copies) = Copies::open::<SmallPages>(disk) else { return 0 };
    let torn = copies.repair::<SmallPages>(&*file).unwrap();
    let mut page = crate::paged::page::PageBuffer::<SmallPages>::new();
    for id in 0..file.len().unwrap() / 8_192 {
        file.read_at(page.bytes_mut(0, 1), id * 8_192).unwrap();
        if page.page().bytes().iter().all(|byte| *byte == 0) {
            assert!(id == 0 || id > durable.len() as u64, "page {id} is gone");
            continue;
        }
        let whole =
            page.page().verify_checksum().and_then(|()| page.page().verify(PageId(id as u32)));
        assert_eq!(whole, Ok(()), "page {id}");
        if let Some(lsn) = (id as usize).checked_sub(1).and_then(|at| durable.get(at)) {
            assert!(page.page().lsn() >= *lsn, "page {id} is older than what was synced");
            assert_eq!(page.page().record(0).unwrap(), page.page().lsn().to_le_bytes());
        }
    }
    torn
}

#[test]
fn no_page_stays_torn() {
    let mut torn = 0;
    for seed in 0..3 {
        let mut calls = 0;
        loop {
            let disk = CrashDisk::default();
            disk.fail_after(Some(calls));
            let (durable, result) = work(&disk, &mut Random::new(seed));
            disk.fail_after(None);
            torn += repaired(&disk.crash(&mut Random::new(calls)), &durable);
            if result.is_ok() {
                break;
            }
            calls += 1;
        }
        assert!(calls > 100, "{calls} calls");
    }
    assert!(torn > 100, "{torn} pages were torn: the test has to see some");
}

/// What is dirty when a checkpoint looks is what the file may not have, were it to end after a sync.
#[test]
fn dirty_pages_are_known_by_their_first_change() {
    let (pool, log, pages) = logged_pool(40, 20);
    assert_eq!(pool.dirty_pages().len(), 20);
    pool.flush().unwrap();
    assert_eq!(pool.dirty_pages(), []);
    for (n, &id) in pages[..3].iter().enumerate() {
        log.durable.store(100 * (n as u64 + 1), Ordering::SeqCst);
        let mut page = pool.fix_exclusive(id).unwrap();
        page.page_mut().set_lsn(1_000);
        let mut again = |lsn| page.page_mut().set_lsn(lsn);
        again(1_001);
        drop(page);
        log.durable.store(5_000, Ordering::SeqCst);
        drop(pool.fix_exclusive(id).unwrap());
    }
    // Held alone counts, too: the change is logged before the page shows it.
    drop(pool.fix_exclusive(pages[4]).unwrap());
    let lsns = |pool: &Logged| -> Vec<u64> {
        pool.dirty_pages().into_iter().map(|dirty| dirty.recovery_lsn).collect()
    };
    assert_eq!(lsns(&pool), [100, 200, 300, 5_000]);
    pool.write_older(250).unwrap();
    assert_eq!(lsns(&pool), [300, 5_000]);
    pool.write_older(5_001).unwrap();
    assert_eq!(lsns(&pool), [0; 0]);
}
