//! What a durable run has in addition to its store: the log, and the image that checkpoints are written to
//! (TPK-14 … TPK-19).
//!
//! What was loaded is in the log alone until a checkpoint holds it. That one is waited for before
//! anything is measured, so that what is measured are checkpoints of what transactions changed. Where
//! another process writes them (TPK-33), this one opens the log alone. Not here: opening and making
//! log and image (`durable/`), when a checkpoint begins (the engine's stage).

use std::path::Path;

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_engine::pipeline::remote_checkpoint::RemoteCheckpoints;
use tombolo_engine::pipeline::{
    Builder, CheckpointRefusal, CheckpointStatistics, Executor, Pipeline, ValueLogGroups,
};
use tombolo_storage::value_log::LogWriter;

use super::Plan;
use crate::checkpoint_process;
use crate::durable::{OpenOptions, Recovery};
use crate::failure::Failure;
use crate::progress::Progress;

/// A log, and its image if checkpoints are written.
pub(crate) struct OnDisk {
    writer: LogWriter,
    checkpointing: Option<Checkpointing>,
    /// The image, if another process has it.
    remote: Option<RemoteCheckpoints>,
    /// Bytes of records that were replayed behind the image.
    behind_bytes: u64,
    /// Whether no image holds any row.
    is_in_log_only: bool,
}

/// With what a plan's database is made or opened.
pub(crate) fn open_options(plan: &Plan) -> OpenOptions {
    OpenOptions {
        limits: plan.limits,
        log: plan.log,
        image: plan.image.filter(|_| !plan.remote_checkpoints),
        checkpoint_threads: plan.checkpoint_threads,
        threads: plan.load_threads,
        ..OpenOptions::default()
    }
}

/// The image of the database in `directory`, if another process is to write it.
fn remote(
    plan: &Plan,
    writer: &LogWriter,
    directory: &Path,
) -> Result<Option<RemoteCheckpoints>, Failure> {
    let Some(image) = plan.image.filter(|_| plan.remote_checkpoints) else { return Ok(None) };
    Ok(Some(RemoteCheckpoints {
        start: Box::new(checkpoint_process::program(directory)?),
        image,
        limits: plan.limits,
        parts: plan.checkpoint_threads,
        salt: writer.salt(),
        epoch: writer.epoch(),
        log_is_direct: plan.log.direct,
    }))
}

impl OnDisk {
    /// Of a database that was just loaded into `directory`.
    ///
    /// # Errors
    /// When another process is to write checkpoints and this one does not know its own program.
    pub(crate) fn loaded(
        plan: &Plan,
        directory: &Path,
        writer: LogWriter,
        checkpointing: Option<Checkpointing>,
    ) -> Result<Self, Failure> {
        let remote = remote(plan, &writer, directory)?;
        Ok(Self { writer, checkpointing, remote, behind_bytes: 0, is_in_log_only: true })
    }

    /// Of a database that came back from `directory`.
    ///
    /// # Errors
    /// As [`OnDisk::loaded`].
    pub(super) fn opened(
        plan: &Plan,
        directory: &Path,
        writer: LogWriter,
        checkpointing: Option<Checkpointing>,
        recovery: &Recovery,
    ) -> Result<Self, Failure> {
        let remote = remote(plan, &writer, directory)?;
        let (behind_bytes, is_in_log_only) = (recovery.behind_bytes(), recovery.image_bytes == 0);
        Ok(Self { writer, checkpointing, remote, behind_bytes, is_in_log_only })
    }

    /// Whether a first checkpoint is missing.
    pub(super) fn wants_first_checkpoint(&self) -> bool {
        self.is_in_log_only && (self.checkpointing.is_some() || self.remote.is_some())
    }

    /// A pipeline with this log, and with checkpoints if there is an image.
    pub(crate) fn wire<E: Executor>(self, builder: Builder<E>) -> Builder<E> {
        let Self { writer, checkpointing, remote, behind_bytes, .. } = self;
        let builder = builder.log(Box::new(ValueLogGroups::new(writer)));
        match (checkpointing, remote) {
            (Some(checkpointing), _) => builder.checkpoints(checkpointing, behind_bytes),
            (None, Some(remote)) => builder.remote_checkpoints(remote),
            (None, None) => builder,
        }
    }
}

/// Waits until an image holds all rows.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write_first_checkpoint<E: Executor>(
    pipeline: &Pipeline<E>,
    progress: &mut dyn Progress,
) -> Result<(), Failure> {
    progress.begin("writing what was loaded as a first checkpoint, before anything is measured");
    let written = pipeline.checkpoint().wait();
    progress.end();
    written.map_err(|refusal| {
        let what_to_do = match &refusal {
            CheckpointRefusal::Full(_) => "or leave checkpoints out: --checkpoints off",
            _ => "give --data another disk, or leave checkpoints out: --checkpoints off",
        };
        Failure::environment(format!("no checkpoint of what was loaded: {refusal}: {what_to_do}"))
    })
}

/// What checkpoints did between `before` and `after`.
pub(super) fn since(
    after: CheckpointStatistics,
    before: CheckpointStatistics,
) -> CheckpointStatistics {
    CheckpointStatistics {
        count: after.count - before.count,
        bytes: after.bytes - before.bytes,
        wall_ns: after.wall_ns - before.wall_ns,
        put_off: after.put_off - before.put_off,
        read_back_bytes: after.read_back_bytes - before.read_back_bytes,
        process_cpu_ns: after.process_cpu_ns - before.process_cpu_ns,
        ..after
    }
}
