//! Demands for checkpoints, and the answers to them.
//!
//! Not here: when a checkpoint is written (`coordinator.rs`). Invariant: demands are met in
//! order, so one number suffices to say which of them are met.

use std::fmt;
use std::sync::Arc;

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
pub(crate) struct Demands {
    /// How many were made.
    pub(crate) asked: u64,
    /// How many of them, from the first on, were met.
    pub(crate) met: u64,
    /// How many of them, from the first on, get this answer if they were not met.
    pub(crate) refused: Option<(u64, CheckpointRefusal)>,
    /// The answer to all others.
    pub(crate) end: Option<CheckpointRefusal>,
}

impl Demands {
    pub(crate) fn outcome(&self, number: u64) -> Option<Result<(), CheckpointRefusal>> {
        if number <= self.met {
            return Some(Ok(()));
        }
        let refused = self.refused.as_ref().filter(|(up_to, _)| number <= *up_to);
        let refusal = refused.map(|(_, refusal)| refusal).or(self.end.as_ref())?;
        Some(Err(refusal.clone()))
    }
}
