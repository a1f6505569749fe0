//! Pin against evict, under loom: two threads that need more pages than there are frames.
//!
//! The bytes of frames are real memory, which loom does not watch; what it explores is whether a
//! guard ever shows the wrong page, or a page that was overwritten under a pin.

use loom::thread;

use super::{BufferPool, ExclusivePage, NoWriteAhead, PageAccess, ReadPage, SharedPage};
use crate::disk::{Disk, DiskError, DiskFile, Open};
use crate::latch::{Latched, RawLatch};
use crate::paged::page::{PageId, PageKind, PageMut, SlotKind, SmallPages, StoreId};
use crate::sync::Arc;

type Pool = BufferPool<SmallPages, Latched, NoWriteAhead>;

/// A file whose every call is one step to loom: its mutex is the standard library's.
#[derive(Clone, Debug, Default)]
struct OneStepFile(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Disk for OneStepFile {
    fn open(&self, _: &str, _: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        Ok(Box::new(self.clone()))
    }
    fn list(&self) -> Result<Vec<String>, DiskError> {
        Ok(Vec::new())
    }
    fn exists(&self, _: &str) -> Result<bool, DiskError> {
        Ok(true)
    }
    fn remove(&self, _: &str) -> Result<(), DiskError> {
        Ok(())
    }
    fn rename(&self, _: &str, _: &str) -> Result<(), DiskError> {
        Ok(())
    }
    fn sync_dir(&self) -> Result<(), DiskError> {
        Ok(())
    }
}

impl DiskFile for OneStepFile {
    fn name(&self) -> &str {
        "pages"
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), DiskError> {
        let from = offset as usize;
        bytes.copy_from_slice(&self.0.lock().unwrap()[from..from + bytes.len()]);
        Ok(())
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        let (mut file, from) = (self.0.lock().unwrap(), offset as usize);
        let len = file.len().max(from + bytes.len());
        file.resize(len, 0);
        file[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn sync(&self) -> Result<(), DiskError> {
        Ok(())
    }
    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        self.0.lock().unwrap().resize(bytes as usize, 0);
        Ok(())
    }
    fn len(&self) -> Result<u64, DiskError> {
        Ok(self.0.lock().unwrap().len() as u64)
    }
    fn try_lock(&self) -> Result<bool, DiskError> {
        Ok(true)
    }
}

const PERMUTATIONS_MAX: usize = 30_000;

/// A pool of `frames` frames and three pages, each of which holds its own number.
fn pool(frames: usize) -> Arc<Pool> {
    let pool = Pool::create(&OneStepFile::default(), frames, NoWriteAhead).unwrap();
    for _ in 0..3 {
        let mut page = pool.new_page(StoreId(1), PageKind::Heap).unwrap();
        let id = page.page().id();
        page.page_mut().insert(4, SlotKind::Record).unwrap();
        page.page_mut().record_mut(0).unwrap().copy_from_slice(&id.0.to_le_bytes());
    }
    Arc::new(pool)
}

fn explore(preemptions: usize, frames: usize, works: [fn(&Pool); 2]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    // Waiting for a page that is being read explodes; what is explored is always the same.
    model.max_permutations = Some(PERMUTATIONS_MAX);
    model.check(move || {
        let pool = pool(frames);
        let other = Arc::clone(&pool);
        let thread = thread::spawn(move || works[0](&other));
        works[1](&pool);
        thread.join().unwrap();
        assert_eq!(pool.frames.iter().map(|frame| frame.pins()).sum::<u32>(), 0);
    });
}

/// Pins a page's row; a pool that is in use whole may refuse.
fn pin(pool: &Pool, id: u32) {
    let Ok(page) = pool.fix_shared(PageId(id)) else { return };
    let row = page.pin(0).unwrap();
    assert_eq!(*row, id.to_le_bytes());
}

/// Writes a page's number into it again.
fn write(pool: &Pool, id: u32) {
    let Ok(mut page) = pool.fix_exclusive(PageId(id)) else { return };
    assert_eq!(page.page().id(), PageId(id));
    page.page_mut().record_mut(0).unwrap().copy_from_slice(&id.to_le_bytes());
}

#[test]
fn two_threads_load_the_same_page() {
    explore(1, 2, [|pool| pin(pool, 1), |pool| pin(pool, 1)]);
}

#[test]
fn a_pin_and_an_eviction() {
    explore(2, 2, [|pool| pin(pool, 3), |pool| pin(pool, 1)]);
}

#[test]
fn a_writer_and_an_eviction() {
    explore(2, 2, [|pool| write(pool, 2), |pool| pin(pool, 1)]);
}

#[test]
fn two_threads_and_one_frame() {
    explore(1, 1, [|pool| write(pool, 1), |pool| pin(pool, 2)]);
}

/// Two pages are read at the same time, one of which another thread needs.
#[test]
fn pages_read_together_and_a_pin_of_one() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(1);
    model.max_branches = 20_000;
    model.max_permutations = Some(PERMUTATIONS_MAX);
    model.check(move || {
        let pool = pool(4);
        pool.flush().unwrap();
        for index in 0..4 {
            drop(pool.evict(index));
        }
        let other = Arc::clone(&pool);
        let thread = thread::spawn(move || other.fetch_missing([1, 2].map(PageId).into_iter()));
        pin(&pool, 2);
        thread.join().unwrap();
        pin(&pool, 1);
        assert!((2..=3).contains(&pool.usage().misses));
        assert_eq!(pool.frames.iter().map(|frame| frame.pins()).sum::<u32>(), 0);
    });
}

/// A page that is in memory and clean is pinned and evicted at once; its frame is used for something else. It is not
/// read again, so that all of it is explored.
#[test]
fn a_pin_and_an_eviction_of_its_page() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static SEEN: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let pool = pool(2);
        pool.flush().unwrap();
        let index = (0..2).find(|&at| pool.frames[at as usize].page.get() == 3).unwrap();
        let other = Arc::clone(&pool);
        let thread = thread::spawn(move || {
            let Some(page) = other.fix_resident(PageId(3)) else { return };
            let row = page.pin(0).unwrap();
            // A point at which loom lets the other thread run.
            assert!(other.frames[index as usize].pins() > 0);
            assert_eq!(*row, 3_u32.to_le_bytes());
            SEEN[0].fetch_add(1, Relaxed);
        });
        if let Some(owned) = pool.evict(index) {
            SEEN[1].fetch_add(1, Relaxed);
            let _latch = owned.frame().latch.exclusive();
            // SAFETY: the frame is this thread's, as in `load`.
            let mut page = unsafe { PageMut::<SmallPages>::new(pool.base(index)) };
            page.format(PageId(9), StoreId(1), PageKind::Heap);
            page.insert(4, SlotKind::Record).unwrap();
            page.record_mut(0).unwrap().copy_from_slice(&9_u32.to_le_bytes());
        }
        thread.join().unwrap();
        assert_eq!(pool.frames.iter().map(|frame| frame.pins()).sum::<u32>(), 0);
    });
    let seen = SEEN.each_ref().map(|seen| seen.load(Relaxed));
    assert!(seen.iter().all(|&seen| seen > 1), "pinned and evicted: {seen:?}");
}
