//! The memory store: rows in slabs, indexes in cache-conscious trees and hash tables, one transaction at a time.
//!
//! Start with `store.rs` (the store and its parts), `calls.rs` (what each call does) and `slab/` (where rows lie);
//! then `undo.rs` and `log.rs` (what a change leaves behind), `snapshot/` (reading as of one moment), `image/` and
//! `recovery/` (checkpoints, and rebuilding the store). Not here: threads, the log's files (`value_log/`).

#[expect(unsafe_code, reason = "nodes lie in raw slots and are searched with vector instructions")]
pub mod btree;
pub mod budget;
#[expect(
    unsafe_code,
    reason = "buckets lie in raw slots and are searched with vector instructions"
)]
pub mod hash;
pub mod image;
#[expect(unsafe_code, reason = "a slot is found by address arithmetic in mapped memory")]
pub mod region;
#[expect(unsafe_code, reason = "a slot is found by address arithmetic in mapped memory")]
pub mod slab;
pub mod snapshot;
#[cfg(test)]
pub(crate) mod test_random;
pub mod variable;

mod before_images;
mod calls;
mod check;
pub mod columns;
pub mod cursor;
pub mod dropping;
mod entries;
pub mod held;
pub mod homes;
mod index;
pub mod log;
pub mod online;
mod open_change;
mod packer;
pub mod preface;
pub(crate) mod profile;
pub mod recovery;
mod rows;
pub mod savepoint;
mod shared;
pub mod store;
pub mod undo;

use std::hash::{BuildHasher, Hasher, RandomState};

pub use rows::FoundRow;
pub use snapshot::{Snapshot, SnapshotCursor};
pub use store::{MemoryRow, MemoryStore};

/// The most memory that the images of all snapshots take together, in bytes, unless a store sets another bound.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;

/// How much memory a store may take, and the seed of its hash indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of address space for the rows of one table or the nodes of one index.
    pub structure_bytes_max: usize,
    /// Most bytes for all of the store; see [`MemoryStore::set_memory_bytes_max`].
    pub memory_bytes_max: u64,
    /// Most bytes of these for the before-images of snapshots; see [`MemoryStore::set_snapshot_bytes_max`].
    pub snapshot_bytes_max: u64,
    /// The seed of hash indexes. `None`: a random one for each index, so that no caller can choose keys that all
    /// fall into one chain. A number makes runs repeatable.
    pub hash_seed: Option<u64>,
}

impl Limits {
    /// The seed of the next hash index.
    fn hash_seed(&self) -> u64 {
        self.hash_seed.unwrap_or_else(|| RandomState::new().build_hasher().finish())
    }
}

impl Default for Limits {
    /// The default reservation of a region for each structure, and no bound on all of them together. A reservation is
    /// address space only; memory is taken as rows arrive.
    fn default() -> Self {
        Self {
            structure_bytes_max: region::RESERVATION_BYTES,
            memory_bytes_max: u64::MAX,
            snapshot_bytes_max: SNAPSHOT_BYTES_MAX,
            hash_seed: None,
        }
    }
}
