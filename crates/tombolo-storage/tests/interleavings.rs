//! Whole transactions of several sessions under shuttle: orders of their steps are drawn, and what the sessions saw
//! is judged.
//!
//! Few keys and the smallest pool (`callers/mod.rs`). Each seed draws sessions, transactions and every switch from one
//! session to another; the same seed runs the same again.
//!
//! Not here: what one structure does in *every* order (loom's tests), disks that fail
//! (`interleavings/crashes.rs`).

#![cfg(shuttle)]

mod callers;
#[expect(dead_code, reason = "disks are never full here")]
#[path = "../src/value_log/tests/crash_disk.rs"]
mod crash_disk;
#[path = "interleavings/crashes.rs"]
mod crashes;
#[path = "../src/memory/test_random.rs"]
mod test_random;
/// Where the disk looks for its random numbers.
mod memory {
    pub(crate) use super::test_random;
}

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use callers::{Caller, Draw, Sizes};
use tombolo_storage::disk::{self, MemDisk};
use tombolo_storage::paged::store::Isolation;
use tombolo_storage::sync;
use tombolo_storage::sync::shuttle::rand::{Rng, thread_rng};
use tombolo_storage::sync::shuttle::scheduler::RandomScheduler;
use tombolo_storage::sync::shuttle::{Config, FailurePersistence, MaxSteps, Runner, thread};

const SESSIONS_MAX: i64 = 3;
const SIZES: Sizes = Sizes {
    keys: 6,
    keys_aside: 120,
    looks_again: true,
    // Eight pages for each session, as many as it may pin.
    pool_bytes: (1 + SESSIONS_MAX as usize) * 8 * 8192,
    isolation: Isolation::Serializable,
};
/// Seeds of one run; `TOMBOLO_SEEDS` says another number, `TOMBOLO_SEED` the first.
const SEEDS: u64 = 300;
/// Switches after which a run counts as one that does not end.
const STEPS_MAX: usize = 5_000_000;

/// The scheduler's random numbers: the seed determines them, too.
fn draw() -> Draw {
    Box::new(|below| thread_rng().gen_range(0..below))
}

/// One world: sessions run, then all is judged.
fn world(isolation: Isolation) {
    // In every other world sessions meet at few keys all the time, and all of them fit the pool.
    let is_dense = thread_rng().gen_range(0..2) == 0;
    let keys_aside = if is_dense { 2 } else { SIZES.keys_aside };
    let first = Caller::first(&MemDisk::new(), Sizes { keys_aside, isolation, ..SIZES }, draw());
    let sessions = thread_rng().gen_range(2..=SESSIONS_MAX);
    let threads: Vec<_> = (1..=sessions)
        .map(|session| {
            let mut caller = first.another(session, draw());
            thread::spawn(move || (0..6).for_each(|_| caller.random().unwrap()))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let judged = first.judge();
    assert!(judged.is_decided && judged.transactions > judged.aborted, "{judged:?}");
}

fn number(variable: &str, default: u64) -> u64 {
    let set = std::env::var(variable);
    set.map_or(default, |text| text.parse().expect("a number"))
}

/// Runs the world of a seed.
fn run(seed: u64, world: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    Runner::new(RandomScheduler::new_from_seed(seed, 1), config).run(world);
}

/// Runs the worlds of one in `part` seeds.
fn worlds(part: u64, world: impl Fn() + Copy + Send + Sync + 'static) {
    let first = number("TOMBOLO_SEED", 0);
    let seeds = number("TOMBOLO_SEEDS", SEEDS).div_ceil(part);
    for seed in first..first + seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed, world))) {
            eprintln!("TOMBOLO_SEED={seed} runs it again");
            resume_unwind(panic);
        }
    }
}

#[test]
fn sessions_in_drawn_orders_are_serializable() {
    worlds(1, || world(Isolation::Serializable));
}

#[test]
fn sessions_in_drawn_orders_read_what_is_committed() {
    worlds(1, || world(Isolation::ReadCommitted));
}
