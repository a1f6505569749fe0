//! Held parts against a trivial map and the checker of histories, their bytes against damage, and what excludes
//! what. `TOMBOLO_MODEL_SEEDS=500` runs more seeds of the model.

#![cfg(not(any(loom, shuttle)))]
#![expect(clippy::unwrap_used, reason = "a failing test may panic anywhere")]

#[path = "held/bytes.rs"]
mod bytes;
#[path = "held/exclusion.rs"]
mod exclusion;
#[path = "held/items.rs"]
mod items;
#[path = "../src/memory/test_random.rs"]
mod random;
#[path = "held/world.rs"]
mod world;

use tombolo_storage::profile::{Memory, MemoryLogged, MemoryProfile};
use world::{Counts, World};

fn seeds() -> u64 {
    std::env::var("TOMBOLO_MODEL_SEEDS").map_or(30, |seeds| seeds.parse().unwrap())
}

fn run<P: MemoryProfile>(seed: u64) -> Counts {
    let keys = [4, 8, 16, 24][seed as usize % 4];
    let held_max = [1, 2, 5, 12][seed as usize / 4 % 4];
    let mut world = World::<P>::new(seed, keys);
    for step in 0..400 {
        world.go_on(held_max);
        if step % 20 == 0 {
            world.check();
        }
    }
    world.end()
}

#[test]
fn the_order_of_decisions_explains_what_all_transactions_saw() {
    let mut all = Counts::default();
    for seed in 0..seeds() {
        println!("seed {seed}");
        let counts = if seed % 2 == 0 { run::<Memory>(seed) } else { run::<MemoryLogged>(seed) };
        all.local += counts.local;
        all.aborted += counts.aborted;
        all.committed_parts += counts.committed_parts;
        all.aborted_parts += counts.aborted_parts;
        all.met += counts.met;
        all.held_max = all.held_max.max(counts.held_max);
    }
    println!("{all:?}");
    assert!(all.held_max > 5 && all.committed_parts > 100 && all.aborted_parts > 50, "{all:?}");
    assert!(all.met > 100 && all.met < all.local, "{all:?}");
}
