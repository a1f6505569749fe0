//! Makes a checkpoint process's DB′ from the image and the log after it, which another process
//! continues to write (TPK-20, TPK-22).
//!
//! This works like a restart of the database (`recovery/`), but does not cut the log: up to the position that the
//! database's process reports as durable, the log is complete. Not here: the log's own recovery, threads. Invariant:
//! nothing is written before image and log have been found to belong together.

use tombolo_storage::sync::Arc;

use tombolo_storage::disk::Disk;
use tombolo_storage::memory::image::{Checkpoints, Image, ImageFailure, LoadedPart};
use tombolo_storage::plant::{self, Plant};
use tombolo_storage::value_log::{LogFailure, LogPosition, LogReader, LogSettings};

use crate::checkpointing::Checkpointing;
use crate::pipeline::remote_checkpoint::protocol::Welcome;

/// Bytes of records that are read at a time.
const READ_BYTES: usize = 4 << 20;

/// What a process writes checkpoints with.
pub(crate) struct Opened {
    pub(crate) checkpointing: Checkpointing,
    /// Bytes of records behind the image.
    pub(crate) behind_bytes: u64,
    /// How far they go.
    pub(crate) position: LogPosition,
}

/// Why there is no DB′.
pub(crate) enum OpenFailure {
    Image(ImageFailure),
    Log(LogFailure),
    /// They do not fit together.
    Misfit(String),
}

impl From<ImageFailure> for OpenFailure {
    fn from(failure: ImageFailure) -> Self {
        Self::Image(failure)
    }
}

impl From<LogFailure> for OpenFailure {
    fn from(failure: LogFailure) -> Self {
        Self::Log(failure)
    }
}

impl std::fmt::Display for OpenFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Image(failure) => failure.fmt(f),
            Self::Log(failure) => failure.fmt(f),
            Self::Misfit(what) => f.write_str(what),
        }
    }
}

/// A reader of the database's log.
pub(crate) fn reader(disks: &[Arc<dyn Disk>], welcome: &Welcome) -> LogReader {
    let Welcome { salt, log_is_direct: direct, .. } = *welcome;
    LogReader::new(Arc::clone(&disks[0]), LogSettings { salt, direct, ..LogSettings::default() })
}

/// Opens the image, with DB′ as of the position that the welcome says; `report_progress` is called whenever a
/// piece of it was read.
///
/// # Errors
/// What does not fit, cannot be read, or has no memory.
pub(crate) fn open(
    disks: &[Arc<dyn Disk>],
    welcome: &Welcome,
    report_progress: &mut dyn FnMut(),
) -> Result<Opened, OpenFailure> {
    let image = Image::find(disks.to_vec(), welcome.image)?;
    let mut loaded = image.load(0, 1, welcome.limits, &mut |_| report_progress())?;
    let mut behind_bytes = 0;
    let mut log = reader(disks, welcome);
    let position = replay(&image, &mut loaded, &mut log, welcome, &mut |bytes| {
        behind_bytes += bytes as u64;
        report_progress();
    })?;
    if position.group < loaded.known() {
        return Err(OpenFailure::Misfit(format!(
            "the image holds changes of group {} of the log, which is durable up to group {}: image \
             and log do not belong together",
            loaded.known(),
            position.group
        )));
    }
    let mirrored = vec![loaded.mirror()?];
    report_progress();
    drop(loaded);
    let checkpoints = Checkpoints::start(image, &mirrored, welcome.salt, welcome.epoch)?;
    let parts = usize::try_from(welcome.parts).unwrap_or(1);
    let checkpointing = Checkpointing::start(checkpoints, mirrored, parts, position);
    Ok(Opened { checkpointing, behind_bytes, position })
}

/// Replays the log behind the image; returns how far it goes. Calls `report` with the bytes of each group's records.
fn replay(
    image: &Image,
    loaded: &mut LoadedPart,
    log: &mut LogReader,
    welcome: &Welcome,
    report: &mut dyn FnMut(usize),
) -> Result<LogPosition, OpenFailure> {
    let (mut at, to) = (image.position(), welcome.position);
    if plant::is(Plant::ApartLogNotRead) && at.group > 0 {
        return Ok(to);
    }
    // As a recovery does: an earlier process that continued this checkpoint may have replayed it too, and put
    // the values of that group's rows elsewhere.
    log.again(at);
    while at.group < to.group {
        at = log.read(at, to.group, READ_BYTES, &mut |position: LogPosition, records| {
            report(records.len());
            let applied = loaded.replay.apply_group(position.group, records);
            applied.map_err(|what| {
                let group = position.group;
                OpenFailure::Misfit(format!("group {group} of the log cannot be replayed: {what}"))
            })
        })?;
    }
    Ok(at)
}
