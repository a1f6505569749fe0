//! Backups that are kept over crashes, to restore databases from them.

use tombolo_engine::rng::Rng;
use tombolo_storage::disk::MemDisk;
use tombolo_storage::value_log::GroupNumber;

use crate::trace::number_of;

/// Backups, and the chances of what becomes of them.
#[derive(Clone, Debug)]
pub(super) struct Backups {
    pub(super) rng: Rng,
    /// Each with the group it goes up to.
    pub(super) kept: Vec<(MemDisk, GroupNumber)>,
}

impl Backups {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: Rng::stream(seed, &[number_of("restores")]), kept: Vec::new() }
    }

    /// The database that the backups are of was given up.
    pub(super) fn forget(&mut self) {
        self.kept.clear();
    }
}
