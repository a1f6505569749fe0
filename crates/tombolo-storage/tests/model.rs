//! The memory store against a model: random transactions over random schemas, with and without
//! undo, with little memory.
//!
//! Every call that `Store` and `DynamicTable` offer for schemas known at run time is made with
//! random arguments and its answer compared with that of a map of rows and scans that look at all
//! of them (`model/map.rs`), whose order of values is its own (`model/cell.rs`).
//! `TOMBOLO_MODEL_SEEDS=500` runs more seeds, `TOMBOLO_MODEL_SEEDS=17..18` the one that failed.

#![expect(clippy::unwrap_used, reason = "a failing test may panic anywhere")]

#[path = "model/cell.rs"]
mod cell;
#[path = "model/definition.rs"]
mod definition;
#[path = "model/map.rs"]
mod map;
#[path = "model/random.rs"]
mod random;
#[path = "model/reads.rs"]
mod reads;
#[path = "model/run.rs"]
mod run;
#[path = "model/seeds.rs"]
mod seeds;
#[path = "model/typed.rs"]
mod typed;

use tombolo_storage::disk::MemDisk;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::paged::store::{PagedSettings, PagedStore};
use tombolo_storage::profile::{Bare, Conventional, Memory, MemoryProfile, PagedProfile};
use tombolo_storage::store::Store;

use run::{Counts, Run};
use seeds::for_seeds;

/// Every tenth seed runs long enough for trees of several levels.
fn run<S: Store>(seed: u64, store: S) -> Counts {
    let mut run = Run::new(seed, store);
    run.transactions(if seed % 10 == 9 { 400 } else { 60 });
    run.counts
}

fn memory_store<P: MemoryProfile>(structure_bytes_max: usize) -> MemoryStore<P> {
    MemoryStore::new(Limits { structure_bytes_max, ..Limits::default() })
}

/// A paged store in memory, with fewer frames than pages where it has frames.
fn paged_store<P: PagedProfile>() -> PagedStore<P> {
    let settings = PagedSettings {
        pool_bytes: 512 << 10,
        structure_bytes_max: 64 << 20,
        ..PagedSettings::default()
    };
    PagedStore::create(&MemDisk::new(), &settings).unwrap()
}

/// So little memory that it runs out within a few hundred rows, in rows, values, trees or tables.
fn run_in_little_space<P: MemoryProfile>(seed: u64) -> Counts {
    let kilobytes = [16, 20, 28, 40, 64][seed as usize % 5];
    let mut run = Run::new(seed, memory_store::<P>(kilobytes << 10));
    run.transactions(300);
    run.counts
}

#[test]
fn memory_profile_agrees() {
    let name = "memory_profile_agrees";
    let Some(counts) = for_seeds(name, 60, |seed| run(seed, memory_store::<Memory>(64 << 20)))
    else {
        return;
    };
    assert!(counts.aborted > 100 && counts.committed > 100, "{counts:?}");
    assert!(counts.hints_right > 1_000 && counts.hints_outdated > 1_000, "{counts:?}");
    counts.assert_tested_everything();
}

#[test]
fn bare_profile_agrees() {
    let name = "bare_profile_agrees";
    let Some(counts) = for_seeds(name, 60, |seed| run(seed, memory_store::<Bare>(64 << 20))) else {
        return;
    };
    assert!(counts.aborted == 0 && counts.committed > 100, "{counts:?}");
    counts.assert_tested_everything();
}

#[test]
fn want_of_space_is_undone() {
    let name = "want_of_space_is_undone";
    let Some(counts) = for_seeds(name, 30, run_in_little_space::<Memory>) else { return };
    assert!(counts.out_of_space > 100 && counts.committed > 1_000, "{counts:?}");
}

#[test]
fn want_of_space_poisons_without_undo() {
    let name = "want_of_space_poisons_without_undo";
    let Some(counts) = for_seeds(name, 60, run_in_little_space::<Bare>) else { return };
    assert!(counts.out_of_space > 10 && counts.committed > 100, "{counts:?}");
}

#[test]
fn conventional_profile_agrees() {
    let name = "conventional_profile_agrees";
    let store = paged_store::<Conventional>;
    let Some(counts) = for_seeds(name, 60, |seed| run(seed, store())) else { return };
    assert!(counts.aborted > 100 && counts.committed > 100, "{counts:?}");
    counts.assert_tested_everything();
}

fn lines<S: Store>(seed: u64, store: S) -> Counts {
    let mut lines = typed::Lines::new(seed, store);
    lines.transactions(150);
    Counts {
        duplicates: lines.duplicates,
        too_long: lines.out_of_range,
        committed: lines.committed,
        ..Counts::default()
    }
}

#[test]
fn declared_tables_agree() {
    let counts = for_seeds("declared_tables_agree", 10, |seed| {
        let mut counts = lines(seed, memory_store::<Memory>(16 << 20));
        counts.add(&lines(seed, paged_store::<Conventional>()));
        counts
    });
    let Some(counts) = counts else { return };
    assert!(counts.duplicates > 50 && counts.too_long > 10 && counts.committed > 300, "{counts:?}");
}
