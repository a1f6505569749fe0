//! Demands: checkpoints that are asked for, and the answers.
//!
//! Not here: when one is written (`course.rs`). Invariant: demands are met from the
//! first on, so a number says which of them were.

use std::fmt;
use std::sync::Arc;

use super::course::Course;

/// Why a checkpoint that was asked for was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckpointRefusal {
    /// This database writes none: it has no log, no image, or the setting is off.
    Off,
    /// The disk is full: make room and ask again.
    Full(Arc<str>),
    /// The image or the log has failed; no checkpoint is written before a restart.
    Failed(Arc<str>),
    /// The database is being closed.
    Closed,
}

impl CheckpointRefusal {
    /// Whether asking again may succeed.
    pub const fn retry(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

impl fmt::Display for CheckpointRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str(
                "the database writes no checkpoints: open it with checkpoints on, and with a log",
            ),
            Self::Full(what) | Self::Failed(what) => f.write_str(what),
            Self::Closed => f.write_str("the database is being closed"),
        }
    }
}

impl std::error::Error for CheckpointRefusal {}

/// The demands of a pipeline.
#[derive(Debug, Default)]
pub(super) struct Demands {
    /// How many were made.
    pub(super) asked: u64,
    /// How many of them, from the first on, were met.
    pub(super) met: u64,
    /// How many of them, from the first on, get this answer if they were not met.
    pub(super) refused: Option<(u64, CheckpointRefusal)>,
    /// The answer to all others.
    pub(super) end: Option<CheckpointRefusal>,
}

/// A checkpoint that was asked for.
#[derive(Clone, Debug)]
pub struct CheckpointHandle(Result<(Arc<Course>, u64), CheckpointRefusal>);

impl CheckpointHandle {
    /// Asks for a checkpoint that holds everything that was durable before this call.
    pub(in crate::pipeline) fn ask(course: Option<&Arc<Course>>) -> Self {
        let Some(course) = course else { return Self(Err(CheckpointRefusal::Off)) };
        let mut demands = course.demands.lock();
        demands.asked += 1;
        let number = demands.asked;
        drop(demands);
        course.wake_stages();
        Self(Ok((Arc::clone(course), number)))
    }

    /// What became of it, if it is over.
    pub fn poll(&self) -> Option<Result<(), CheckpointRefusal>> {
        match &self.0 {
            Err(refusal) => Some(Err(refusal.clone())),
            Ok((course, number)) => course.demands.lock().outcome(*number),
        }
    }

    /// Waits until it is complete.
    ///
    /// # Errors
    /// Why it will not be, or not now.
    pub fn wait(&self) -> Result<(), CheckpointRefusal> {
        let (course, number) = self.0.as_ref().map_err(CheckpointRefusal::clone)?;
        let mut demands = course.demands.lock();
        loop {
            if let Some(outcome) = demands.outcome(*number) {
                return outcome;
            }
            demands = course.demands_changed.wait(demands);
        }
    }
}

impl Demands {
    fn outcome(&self, number: u64) -> Option<Result<(), CheckpointRefusal>> {
        if number <= self.met {
            return Some(Ok(()));
        }
        let refused = self.refused.as_ref().filter(|(up_to, _)| number <= *up_to);
        let refusal = refused.map(|(_, refusal)| refusal).or(self.end.as_ref())?;
        Some(Err(refusal.clone()))
    }
}
