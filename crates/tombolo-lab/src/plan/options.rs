//! The options of a database besides its profile.
//!
//! Not here: making one (`drive/open.rs`).

use std::path::PathBuf;
use std::sync::Arc;

use tombolo_storage::disk::{Disk, MemDisk};
use tombolo_storage::log::Durability;
use tombolo_storage::memory::Limits;
use tombolo_storage::paged::store::PagedSettings;

/// The options of a database besides its profile.
#[derive(Debug)]
pub struct Options {
    /// A memory store's limits.
    pub limits: Limits,
    /// A paged store's settings.
    pub paged: PagedSettings,
    /// Where a paged store's files go.
    pub disk: Arc<dyn Disk>,
    /// Threads that run transactions simultaneously once it was started.
    pub threads: usize,
    /// How often a transaction that gave way to others is tried again.
    pub retries_max: u64,
    /// How many of the inputs that come next are looked ahead at (TPK-44) where one session runs on a store
    /// that can gain by it; `None`: as many as pay. While counting there is no looking ahead unless a number
    /// was given.
    pub locate_ahead: Option<usize>,
    /// Where each committed call of a session is noted before the next, if it is.
    pub acks: Option<PathBuf>,
}

/// How often a transaction is tried again by default.
const RETRIES: u64 = 1_000;

impl Default for Options {
    /// In memory, the log too; one thread, which does not look ahead.
    fn default() -> Self {
        let mut paged = PagedSettings::default();
        paged.log.durability = Durability::None;
        Self {
            limits: Limits::default(),
            paged,
            disk: Arc::new(MemDisk::new()),
            threads: 1,
            retries_max: RETRIES,
            locate_ahead: Some(0),
            acks: None,
        }
    }
}

impl Options {
    /// The same, with no more address space for one structure than `limits` allow.
    #[must_use]
    pub fn within(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self.paged.structure_bytes_max = limits.structure_bytes_max;
        self
    }
}
