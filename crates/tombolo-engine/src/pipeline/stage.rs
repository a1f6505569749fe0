//! `Stage`: a unit of work that any thread may step.

use std::fmt;

/// The result of a stage's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It did work; there may be more.
    Progress,
    /// No work is left until something arrives or until this time, on the clock of the steps. The stage may
    /// have passed on held items in this step; then it has woken the thread that waits for them.
    IdleUntil(Option<u64>),
    /// No work will ever come: the pipeline is closed and this stage is empty.
    Ended,
}

/// The kind of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StageKind {
    /// Prepares requests.
    Input,
    /// Runs transactions.
    Execution,
    /// Makes transactions durable.
    Logging,
    /// Delivers replies.
    Output,
    /// Prepares room in the log.
    Room,
    /// Writes checkpoints, so that old log can be reused.
    Checkpoint,
    /// Copies the log into its archive.
    Archive,
}

impl fmt::Display for StageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Execution => "execution",
            Self::Logging => "logging",
            Self::Output => "output",
            Self::Room => "room",
            Self::Checkpoint => "checkpoint",
            Self::Archive => "archive",
        })
    }
}

/// A stage of the pipeline.
pub trait Stage: Send {
    /// Its kind.
    fn kind(&self) -> StageKind;

    /// Does a bounded amount of the available work. Never waits, except for the log's own write
    /// and sync.
    fn step(&mut self, now_ns: u64) -> Step;

    /// Called once, after [`Step::Ended`]: returns the resources of the stage.
    fn retire(self: Box<Self>) {}

    /// Records the duration of steps that made progress.
    fn worked(&self, ns: u64) {
        let _ = ns;
    }
}
