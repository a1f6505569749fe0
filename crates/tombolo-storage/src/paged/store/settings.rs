//! The sizes and limits of a paged database.

use super::isolation::Isolation;
use crate::lock::LockSettings;
use crate::log::LogSettings;

/// The sizes and limits of a paged database.
#[derive(Clone, Debug)]
pub struct PagedSettings {
    /// Bytes of the buffer pool; more than that many bytes of pages live on disk.
    pub pool_bytes: usize,
    /// Most bytes of address space for pages that all stay in memory (S9 off), or for the rows of
    /// one table.
    pub structure_bytes_max: usize,
    /// The lock table.
    pub locks: LockSettings,
    /// The log.
    pub log: LogSettings,
    /// Whether a database that was not closed is restarted when it is opened; else it is refused.
    pub restarts: bool,
    /// What transactions of new sessions are promised, where there are locks.
    pub isolation: Isolation,
    /// Transactions that are prepared and not decided at a time. Each has a place of a session in the lock table.
    pub prepared_max: u32,
    /// Bytes of the log's files, with what fills blocks up, after which a checkpoint is due: a restart reads about
    /// twice as many at most.
    pub checkpoint_log_bytes: u64,
}

impl Default for PagedSettings {
    /// 256 MB of pool, a checkpoint for each 128 MB of log.
    fn default() -> Self {
        Self {
            pool_bytes: 256 << 20,
            structure_bytes_max: crate::memory::region::RESERVATION_BYTES,
            locks: LockSettings::default(),
            log: LogSettings::default(),
            restarts: true,
            isolation: Isolation::default(),
            prepared_max: 64,
            checkpoint_log_bytes: 128 << 20,
        }
    }
}
