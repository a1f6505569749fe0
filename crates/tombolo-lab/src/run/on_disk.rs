//! What a durable run has beside its store: the log, and the image that checkpoints are written to
//! (TPK-14 … TPK-19).
//!
//! What was loaded is in the log alone until a checkpoint holds it. That one is waited for before
//! anything is measured, so that what is measured are checkpoints of what transactions changed. Not
//! here: opening and making log and image (`durable/`), when a checkpoint begins (the engine's stage).

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_engine::pipeline::{
    Builder, CheckpointRefusal, CheckpointStatistics, Executor, Pipeline, ValueLogGroups,
};
use tombolo_storage::value_log::LogWriter;

use super::Plan;
use crate::durable::{OpenOptions, Recovery};
use crate::failure::Failure;
use crate::progress::Progress;

/// A log, and its image if checkpoints are written.
pub(crate) struct OnDisk {
    writer: LogWriter,
    checkpointing: Option<Checkpointing>,
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
        image: plan.image,
        checkpoint_threads: plan.checkpoint_threads,
        threads: plan.load_threads,
        ..OpenOptions::default()
    }
}

impl OnDisk {
    /// Of a database that was just loaded.
    pub(crate) fn loaded(writer: LogWriter, checkpointing: Option<Checkpointing>) -> Self {
        Self { writer, checkpointing, behind_bytes: 0, is_in_log_only: true }
    }

    /// Of a database that came back.
    pub(super) fn opened(
        writer: LogWriter,
        checkpointing: Option<Checkpointing>,
        recovery: &Recovery,
    ) -> Self {
        let (behind_bytes, is_in_log_only) = (recovery.record_bytes, recovery.image_bytes == 0);
        Self { writer, checkpointing, behind_bytes, is_in_log_only }
    }

    /// Whether a first checkpoint is missing.
    pub(super) fn wants_first_checkpoint(&self) -> bool {
        self.is_in_log_only && self.checkpointing.is_some()
    }

    /// A pipeline with this log, and with checkpoints if there is an image.
    pub(crate) fn wire<E: Executor>(self, builder: Builder<E>) -> Builder<E> {
        let Self { writer, checkpointing, behind_bytes, .. } = self;
        let builder = builder.log(Box::new(ValueLogGroups::new(writer)));
        match checkpointing {
            Some(checkpointing) => builder.checkpoints(checkpointing, behind_bytes),
            None => builder,
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
            CheckpointRefusal::Full(_) => "make room, or leave checkpoints out: --checkpoints off",
            _ => "give --data another disk, or leave checkpoints out: --checkpoints off",
        };
        Failure::environment(format!("no checkpoint of what was loaded: {refusal}: {what_to_do}"))
    })
}

/// What checkpoints came to between `before` and `after`.
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
        ..after
    }
}
