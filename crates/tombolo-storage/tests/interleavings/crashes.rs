//! Sessions in drawn orders on a disk that fails at a drawn call, and what is found when the power is back.
//!
//! Sessions run transactions with early lock release and group commit, and checkpoints, until the disk fails beneath
//! them, also while they wait for a lock, for another's flush or for a frame. The disk keeps what was synced, and of
//! the rest some sectors. The database is opened again, sometimes after an opening that the disk ended as well, and
//! read; its sessions go on, until all that any life saw is judged as one history: what was confirmed is there, what
//! was not is there wholly or not at all, and no confirmed transaction read what is gone.
//!
//! The same on a disk that reports syncs and does not make them: the database is refused, or opens.
//!
//! Not here: prepared transactions, savepoints, full disks (the crash model, `paged/store/tests/crashes/`, has one
//! thread for its sessions).

use super::callers::{Caller, Seen, Sizes};
use super::crash_disk::CrashDisk;
use super::test_random::Random;
use super::{SESSIONS_MAX, SIZES, draw, worlds};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tombolo_storage::paged::store::{Isolation, PagedStore};
use tombolo_storage::plant::{self, Plant};
use tombolo_storage::profile::Conventional;
use tombolo_storage::store::Store;
use tombolo_storage::sync::shuttle::rand::{Rng, thread_rng};
use tombolo_storage::sync::shuttle::thread;

/// Lives of one database at most.
const LIVES_MAX: i64 = 3;
/// More than a plant needs to be noticed.
const PLANT_SEEDS: u64 = 2_000;

fn below(bound: u64) -> u64 {
    thread_rng().gen_range(0..bound)
}

/// Few keys at which sessions meet, and as many aside as take more pages than the pool has, or almost none.
fn sizes() -> Sizes {
    let isolation = [Isolation::Serializable, Isolation::ReadCommitted][below(2) as usize];
    Sizes { keys_aside: [2, 60][below(2) as usize], isolation, ..SIZES }
}

/// Runs sessions until the disk fails, or for a while. The numbers of their sessions follow `number`.
fn live(first: &Caller, disk: &CrashDisk, number: i64) {
    let threads: Vec<_> = (1..=2 + below(SESSIONS_MAX as u64 - 1) as i64)
        .map(|session| {
            let mut caller = first.another(number + session, draw());
            let work =
                move || (0..6).try_for_each(|_| caller.random()).map_err(|why| why.to_string());
            thread::spawn(work)
        })
        .collect();
    for thread in threads {
        let ended = thread.join().unwrap();
        assert!(ended.is_ok() || disk.has_failed(), "{ended:?}");
    }
}

/// What is found when the power is back.
fn power_back(disk: &CrashDisk) -> CrashDisk {
    let mut random = Random::new(thread_rng().gen_range(0..u64::MAX));
    disk.crash(&mut random)
}

/// One world: a database lives several times.
fn world() {
    let sizes = sizes();
    let mut disk = CrashDisk::default();
    let mut first = Caller::first(&disk, sizes, draw());
    for life in 0..=below(LIVES_MAX as u64) as i64 {
        let number = life * (SESSIONS_MAX + 1);
        let calls = [20, 100, 400][below(3) as usize];
        disk.fail_after(Some(below(calls)));
        live(&first, &disk, number);
        disk.fail_after(Some(0));
        let seen = first.seen.clone();
        drop(first);
        disk = power_back(&disk);
        first = open_again(&mut disk, sizes, seen, number + SESSIONS_MAX + 1);
        first.read_all();
    }
    first.judge();
}

/// Opens the database, in one of three cases after an opening that the disk ended.
fn open_again(disk: &mut CrashDisk, sizes: Sizes, seen: Seen, number: i64) -> Caller {
    if below(3) == 0 {
        disk.fail_after(Some(below(60)));
        let opened = PagedStore::<Conventional>::open(disk, &sizes.settings());
        disk.fail_after(Some(0));
        drop(opened.map(drop));
        *disk = power_back(disk);
    }
    let store = PagedStore::<Conventional>::open(disk, &sizes.settings()).unwrap();
    Caller::of(store, sizes, seen, number, draw())
}

#[test]
fn what_was_confirmed_in_drawn_orders_is_there_after_a_crash() {
    worlds(4, world);
}

/// One world with a disk whose syncs are lies from some moment on. What it kept may be of different times, which no
/// engine can always notice; but opening, checking and reading end, and what opens and passes the check can be read.
fn lies() {
    let sizes = sizes();
    let disk = CrashDisk::default();
    let first = Caller::first(&disk, sizes, draw());
    disk.lie_after(Some(below(30)));
    disk.fail_after(Some(below(400)));
    live(&first, &disk, 0);
    disk.fail_after(Some(0));
    drop(first);
    let disk = power_back(&disk);
    if let Ok(mut store) = PagedStore::<Conventional>::open(&disk, &sizes.settings()) {
        let (damage, read) = (store.check(), store.read_all());
        assert!(!damage.is_empty() || read.is_ok(), "{read:?}");
    }
}

#[test]
fn what_a_disk_that_lies_keeps_is_refused_or_opened() {
    worlds(8, lies);
}

/// One of the first worlds notices a bug that is planted.
fn notices(plant: Plant) {
    let passes = |seed| {
        let run = || plant::with(plant, || super::run(seed, world));
        catch_unwind(AssertUnwindSafe(run)).is_ok()
    };
    let noticed = (0..PLANT_SEEDS).find(|seed| !passes(*seed));
    println!("{}: noticed by seed {noticed:?}", plant.name());
    assert!(noticed.is_some(), "{}", plant.name());
}

#[test]
fn a_commit_that_is_confirmed_before_it_is_durable_is_noticed() {
    notices(Plant::CommitNotFlushed);
}

#[test]
fn a_page_that_is_written_before_its_log_is_noticed() {
    notices(Plant::PageBeforeItsLog);
}

#[test]
fn a_reader_that_is_confirmed_before_what_it_read_is_durable_is_noticed() {
    notices(Plant::ReaderNotHardened);
}
