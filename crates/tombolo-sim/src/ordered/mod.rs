//! Ordered execution over several islands (decision 0055), simulated: production pipelines with logs, images and
//! archives on one faulty disk, and transactions that commit on several of them at once.
//!
//! ```text
//!   callers ─ calls of one island ──────► pipeline of the island ─► log ─┐
//!      └──── transactions over several: all taken, run, put together ────┴─► answers, judged
//!   crash at any step ─► recover each island ─► cut off what is not on all ─► judged ─► again
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `world.rs` | one seed: lives, crashes, recoveries |
//! | `settings.rs` | what is drawn for a seed |
//! | `requests.rs` | transactions, and their tables |
//! | `opening.rs` | islands that are recovered, cut off and made ready |
//! | `life.rs` | from a start to a crash or a close: stages in any order, time |
//! | `calls.rs` | calls and transactions of callers, and what they are answered |
//! | `backups.rs` | a backup of all islands at one moment |
//! | `oracle.rs` | what must hold |
//!
//! The threads' part is the simulator's: it takes all islands, notes the number, commits and puts the records
//! together in the sequence in which the library's `Reach` does. Not here: islands that agree by messages (`commit/`),
//! a database alone (`world/`).

mod backups;
mod calls;
mod life;
mod opening;
mod oracle;
mod requests;
mod settings;
mod world;

use crate::world::SeedResult;
use world::World;

/// Runs one seed; `with_text` keeps its trace as text.
pub fn run_seed(seed: u64, with_text: bool) -> SeedResult {
    World::new(seed, with_text).run(seed)
}
