//! The log of a simulated database: its numbers, and a log that was opened.
//!
//! Not here: what is recorded in it (`recording.rs`), logs with an image (`image.rs`).

use std::sync::Arc;

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_storage::disk::Disk;
use tombolo_storage::memory::Limits;
use tombolo_storage::value_log::archive::Archiver;
use tombolo_storage::value_log::{
    LogFailure, LogKind, LogSettings, LogWriter, RecoverOptions, Replay, recover,
};

use super::refused::Refused;
use crate::faults::FaultyDisk;
use crate::swarm::Swarm;

/// The most bytes one transaction of the workload logs, in either kind of log.
pub(crate) const TRANSACTION_BYTES_MAX: u64 = 6 << 10;

/// A seed makes dozens of stores, so they are tiny.
pub(crate) const LIMITS: Limits = Limits {
    structure_bytes_max: 1 << 20,
    memory_bytes_max: u64::MAX,
    snapshot_bytes_max: 1 << 20,
    // The same seed makes the same chains, hence refusals for want of memory in the same places.
    hash_seed: Some(1),
};

/// A log that was opened.
#[derive(Debug)]
pub struct OpenLog {
    /// Continues the log.
    pub writer: LogWriter,
    /// Its image, if checkpoints are written.
    pub checkpointing: Option<Checkpointing>,
    /// Its archive, if the log is archived.
    pub archiver: Option<Archiver>,
    /// Bytes of records that the image does not hold.
    pub behind_bytes: u64,
}

/// The log's numbers.
pub(crate) fn log_settings(swarm: &Swarm) -> LogSettings {
    LogSettings {
        kind: LogKind::Value,
        segment_bytes: swarm.segment_bytes,
        segment_bytes_first: swarm.segment_bytes_first,
        block_bytes: 512,
        // The part that is ready has room for the largest transaction and for what blocks of 4,096 bytes waste.
        segments_ahead: (8 * TRANSACTION_BYTES_MAX).div_ceil(swarm.segment_bytes - (8 << 10))
            as usize,
        log_bytes_max: u64::MAX,
        direct: true,
        salt: swarm.salt,
    }
}

/// Opens a log of commands, or makes one.
pub(super) fn open_log(
    disk: &FaultyDisk,
    swarm: &Swarm,
    accept_loss: bool,
    replay: &mut dyn Replay,
) -> Result<OpenLog, Refused> {
    let door: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = RecoverOptions { accept_loss, ..RecoverOptions::default() };
    let recovered = recover(door.clone(), log_settings(swarm), options, replay, &mut |_| {});
    let opened = match recovered {
        Err(LogFailure::NoLog) => LogWriter::create(door, log_settings(swarm)),
        recovered => recovered.map(|recovered| recovered.writer),
    };
    let writer = opened.map_err(|failure| Refused::by_log(&failure))?;
    Ok(OpenLog { writer, checkpointing: None, archiver: None, behind_bytes: 0 })
}
