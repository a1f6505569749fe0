//! What only a run through a pipeline measures.

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo_engine::pipeline::{Busy, CheckpointStatistics};

use crate::files::{RawFlush, Recovery};
use crate::histogram::Latencies;

/// Measurements of a pipeline.
#[derive(Clone, Debug, Default)]
pub struct PipelineOutcome {
    /// How long the stages worked while they were measured.
    pub busy: Busy,
    /// Whether the callers' thread did the stages' work itself.
    pub is_carried: bool,
    /// Processor time of the pipeline's threads meanwhile, by the first stage on each; none where
    /// the system does not say.
    pub cpu: BTreeMap<String, Duration>,
    /// The device's time for a flush.
    pub raw_flush: Option<RawFlush>,
    /// How the database was recovered, if it was opened.
    pub recovery: Option<Recovery>,
    /// Checkpoints while callers were measured, if any are written.
    pub checkpoint: Option<CheckpointStatistics>,
    /// How long answers took that came while one was written.
    pub in_checkpoint: Latencies,
    /// How far calls were behind their times, in an open loop.
    pub behind: Option<Behind>,
    /// Memory that DB′ took when the measured part began, in bytes.
    pub copy_loaded_bytes: u64,
    /// Memory that the store took when the run was over, in bytes.
    pub store_end_bytes: u64,
    /// Problems that do not make the run a failure.
    pub notes: Vec<String>,
}

/// How far calls were behind the times at which they should have begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// The most that a call began late, in nanoseconds.
    pub ns_max: u64,
    /// How many calls should have begun before the end of the run and did not, about.
    pub not_begun: u64,
}
