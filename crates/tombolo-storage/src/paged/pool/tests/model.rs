//! Random operations on pages, the same on every way of reaching them, against a map.

use super::*;
use crate::disk::OsDisk;
use crate::memory::test_random::Random;
use crate::paged::pool::SpaceStep;
use std::collections::BTreeMap;

/// What each page should hold in its first record.
type Model = BTreeMap<u32, u64>;

fn verify(access: &impl PageAccess, model: &Model) {
    for (&id, &expected) in model {
        assert_eq!(value(&access.fix_shared(PageId(id)).unwrap()), expected);
    }
    assert_eq!(access.check(), []);
}

fn run(access: &impl PageAccess, model: &mut Model, seed: u64) {
    let mut random = Random::new(seed);
    for step in 0..4_000 {
        let nth = random.below(model.len().max(1) as u64) as usize;
        let chosen = model.keys().nth(nth).map(|&id| PageId(id));
        match (random.below(11), chosen) {
            (0..2, _) => {
                let id = page_with(access, step);
                assert_eq!(model.insert(id.0, step), None, "{id:?} was in use");
            }
            (2, Some(id)) => {
                access.free_page(access.fix_exclusive(id).unwrap());
                model.remove(&id.0);
            }
            (3..6, Some(id)) => {
                set_value(&mut access.fix_exclusive(id).unwrap(), step);
                model.insert(id.0, step);
            }
            (6..8, Some(id)) => {
                let pin = access.fix_shared(id).unwrap().pin(0).unwrap();
                assert_eq!(*pin, model[&id.0].to_le_bytes());
            }
            (8, Some(PageId(id))) => {
                // Among them may be some that are free, and some that never were.
                access.fetch((id..).step_by(1 + random.below(3) as usize).take(20).map(PageId));
            }
            (9.., Some(id)) => {
                let page = access.try_fix_shared(id).unwrap().unwrap();
                assert_eq!(value(&page), model[&id.0]);
            }
            _ => {}
        }
    }
    verify(access, model);
}

fn pool_of<S: PageSize, L: Latching>(frames: usize, seed: u64) {
    let (disk, mut model) = (MemDisk::new(), Model::new());
    let pool = BufferPool::<S, L, _>::create(&disk, frames, NoWriteAhead).unwrap();
    run(&pool, &mut model, seed);
    let mut step = SpaceStep::new(&pool);
    step.set_root(PageId(*model.keys().next().unwrap()));
    step.finish(None);
    drop(step);
    let root = pool.root();
    pool.close().unwrap();
    drop(pool);
    let pool = BufferPool::<S, L, _>::open(&disk, frames + 3, NoWriteAhead).unwrap();
    assert_eq!(pool.root(), root);
    verify(&pool, &model);
    run(&pool, &mut model, seed + 1);
    pool.close().unwrap();
    drop(pool);
    // What one writes, the other reads.
    let direct = DirectFrames::<S, L>::open(&disk, LIMIT_BYTES).unwrap();
    assert_eq!(direct.root(), root);
    verify(&direct, &model);
    run(&direct, &mut model, seed + 2);
    direct.close().unwrap();
    drop(direct);
    verify(&BufferPool::<S, L, _>::open(&disk, 2, NoWriteAhead).unwrap(), &model);
}

#[test]
fn buffer_pools() {
    pool_of::<SmallPages, Latched>(2, 1);
    pool_of::<SmallPages, Unlatched>(7, 2);
    pool_of::<LargePages, Latched>(100, 3);
    pool_of::<LargePages, Unlatched>(3, 4);
}

#[test]
fn a_file_of_the_system() {
    let directory = std::env::temp_dir().join(format!("tombolo-pool-{}", std::process::id()));
    _ = std::fs::remove_dir_all(&directory);
    let disk = OsDisk::create(&directory).unwrap();
    let mut model = Model::new();
    let pool = BufferPool::<SmallPages, Latched, _>::create(&disk, 5, NoWriteAhead).unwrap();
    run(&pool, &mut model, 31);
    let second = BufferPool::<SmallPages, Latched, _>::open(&disk, 5, NoWriteAhead);
    assert!(matches!(failure(second), PageFailure::InUse { .. }));
    pool.close().unwrap();
    drop(pool);
    let direct = DirectFrames::<SmallPages, Unlatched>::open(&disk, LIMIT_BYTES).unwrap();
    verify(&direct, &model);
    drop(direct);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn direct_frames() {
    for seed in [11, 12] {
        let create = DirectFrames::<SmallPages, Latched>::create;
        run(&create(&MemDisk::new(), LIMIT_BYTES).unwrap(), &mut Model::new(), seed);
        let create = DirectFrames::<LargePages, Unlatched>::create;
        run(&create(&MemDisk::new(), LIMIT_BYTES).unwrap(), &mut Model::new(), seed);
    }
}

#[test]
fn pointers() {
    run(&Pointers::<LargePages>::new(LIMIT_BYTES).unwrap(), &mut Model::new(), 21);
}
