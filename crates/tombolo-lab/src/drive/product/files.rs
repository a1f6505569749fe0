//! What a durable database has in addition to its store: the log, and the image that checkpoints are written
//! to (TPK-14 … TPK-19).
//!
//! What was loaded is in the log alone until a checkpoint holds it. That one is waited for before
//! anything is measured, so that what is measured are checkpoints of what transactions changed. Where
//! another process writes them (TPK-33), this one opens the log alone. Not here: opening and making
//! log and image (`files/`), when a checkpoint begins (the engine's stage).

use std::path::{Path, PathBuf};

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_engine::pipeline::remote_checkpoint::RemoteCheckpoints;
use tombolo_engine::pipeline::{
    Builder, CheckpointRefusal, CheckpointStatistics, Executor, Pipeline, ValueLogGroups,
};
use tombolo_storage::value_log::LogWriter;

use crate::drive::checkpoint_process;
use crate::failure::Failure;
use crate::files::{OpenOptions, Recovery};
use crate::plan::Plan;
use crate::progress::Progress;

/// A log, and its image if checkpoints are written.
pub(crate) struct Files {
    directory: PathBuf,
    /// Away while what is loaded is written.
    pub(super) writer: Option<LogWriter>,
    checkpointing: Option<Checkpointing>,
    /// Bytes of records that were replayed behind the image.
    behind_bytes: u64,
    /// Whether no image holds any row.
    is_in_log_only: bool,
}

/// With what a plan's database is made or opened.
pub(super) fn open_options(plan: &Plan) -> OpenOptions {
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

impl Files {
    /// Of a database that was just made in `directory`.
    pub(super) fn created(
        directory: &Path,
        writer: LogWriter,
        checkpointing: Option<Checkpointing>,
    ) -> Self {
        let (directory, writer) = (directory.to_owned(), Some(writer));
        Self { directory, writer, checkpointing, behind_bytes: 0, is_in_log_only: true }
    }

    /// Of a database that came back from `directory`.
    pub(super) fn opened(
        directory: &Path,
        writer: LogWriter,
        checkpointing: Option<Checkpointing>,
        recovery: &Recovery,
    ) -> Self {
        let (behind_bytes, is_in_log_only) = (recovery.behind_bytes(), recovery.image_bytes == 0);
        let created = Self::created(directory, writer, checkpointing);
        Self { behind_bytes, is_in_log_only, ..created }
    }

    /// Whether a first checkpoint is missing.
    pub(super) fn wants_first(&self, plan: &Plan) -> bool {
        self.is_in_log_only && plan.image.is_some()
    }

    /// The log alone.
    pub(super) fn into_writer(self) -> LogWriter {
        self.writer.expect("the log is back when loading is over")
    }

    /// A pipeline with this log, and with checkpoints if there is an image.
    ///
    /// # Errors
    /// When another process is to write checkpoints and this one does not know its own program.
    pub(super) fn wire<E: Executor>(
        mut self,
        plan: &Plan,
        builder: Builder<E>,
    ) -> Result<Builder<E>, Failure> {
        let (checkpointing, behind_bytes) = (self.checkpointing.take(), self.behind_bytes);
        let directory = std::mem::take(&mut self.directory);
        let writer = self.into_writer();
        let remote = remote(plan, &writer, &directory)?;
        let builder = builder.log(Box::new(ValueLogGroups::new(writer)));
        Ok(match (checkpointing, remote) {
            (Some(checkpointing), _) => builder.checkpoints(checkpointing, behind_bytes),
            (None, Some(remote)) => builder.remote_checkpoints(remote),
            (None, None) => builder,
        })
    }
}

/// Waits until an image holds all rows.
///
/// # Errors
/// When it cannot be written.
pub(super) fn write_first_checkpoint<E: Executor>(
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

/// The checkpoints between `before` and `after`.
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
