//! What a stage is: something that is stepped, whichever thread does that.

use std::fmt;

/// What a step of a stage did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Work; there may be more.
    Progress,
    /// No work is left until something arrives or until this time, on the clock of the steps. The stage may
    /// have handed on in this step what it had held back; then it has woken the thread that waits for that.
    IdleUntil(Option<u64>),
    /// Nothing, and there never will be: the pipeline is closed and this stage is empty.
    Ended,
}

/// Which stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StageKind {
    /// Makes requests ready.
    Input,
    /// Runs transactions.
    Execution,
    /// Makes them durable.
    Logging,
    /// Hands out replies.
    Output,
    /// Makes room in the log ahead of its use.
    Room,
    /// Writes checkpoints, so that the log can go.
    Checkpoint,
    /// Copies the log into its archive, before it goes.
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
    /// Which one.
    fn kind(&self) -> StageKind;

    /// Does what there is to do, a bounded amount of it. Never waits, but for the log's own write
    /// and sync.
    fn step(&mut self, now_ns: u64) -> Step;

    /// Called once, after [`Step::Ended`]: gives back what the stage was lent.
    fn retire(self: Box<Self>) {}

    /// Notes how long steps that made progress took.
    fn worked(&self, ns: u64) {
        let _ = ns;
    }
}
