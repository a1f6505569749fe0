//! The memory store: rows in slabs, indexes in cache-conscious trees.

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

/// How much memory a store may take, and what else is set for all of its structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of address space for the rows of one table or the nodes of one index.
    pub structure_bytes_max: usize,
    /// Most bytes for everything the store takes; see [`MemoryStore::set_memory_bytes_max`].
    pub memory_bytes_max: u64,
    /// Most bytes of these for what snapshots keep; see [`MemoryStore::set_snapshot_bytes_max`].
    pub snapshot_bytes_max: u64,
    /// Where hash indexes have their keys follows from it; `None`: from a number drawn for each, so that
    /// no caller can choose keys for one chain. A number is for runs that are to be the same again.
    pub hash_seed: Option<u64>,
}

impl Limits {
    /// The seed of the next hash index.
    fn hash_seed(&self) -> u64 {
        self.hash_seed.unwrap_or_else(|| RandomState::new().build_hasher().finish())
    }
}

impl Default for Limits {
    /// What a region reserves by itself: address space only, memory is taken as rows arrive. No
    /// bound on all structures together.
    fn default() -> Self {
        Self {
            structure_bytes_max: region::RESERVATION_BYTES,
            memory_bytes_max: u64::MAX,
            snapshot_bytes_max: SNAPSHOT_BYTES_MAX,
            hash_seed: None,
        }
    }
}
