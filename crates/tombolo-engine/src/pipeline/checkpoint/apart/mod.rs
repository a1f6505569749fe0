//! The checkpoint stage in another process (TPK-33: configuration C).
//!
//! ```text
//!   database's process                               checkpoint process
//!   logging ─► [handover] ─► near ═══ link ═══► far ─► [handover] ─► the stages ─► image
//!      ▲                      │ ▲                │                       │
//!      └─ the log may go ─────┘ └──── reports ───┴──────── course ◄──────┘
//! ```
//!
//! The process has DB′, the image and the stages of `checkpoint/` as they are; what it lacks is a log,
//! so it is sent what is durable, and reads the log's files for what it was not sent: what was logged
//! before it was there, and what did not fit. Logging never waits for it: what the link does not take
//! waits in the handover, and past the handover's bound only the position is kept.
//!
//! It may end at any moment, and so may the database's process. Then the other one notices that the
//! link has ended. The process ends too. The database continues, its log grows, and after a while it starts
//! another process. That one loads the image as it lies there, reads the log behind it, and continues the
//! checkpoint that was interrupted, as a restart of the database would. A process that does not answer for long
//! is ended; the rest is the same.
//!
//! | file | holds |
//! |---|---|
//! | `protocol.rs` | what is said |
//! | `near.rs`, `told.rs` | the stage in the database's process; its course, as the other process reports it |
//! | `signs.rs` | whether the other process still answers |
//! | `far.rs`, `open.rs` | the other process; image and log as it finds them |
//! | `threads.rs` | that process on threads |
//!
//! Not here: links and starting processes (the doors). Invariants: the log is released only up to what
//! a report says, and a report says what is durable; one process at a time writes an image, which its
//! lock ensures, and it writes nothing before a process that has the directory has answered it.

mod far;
mod near;
mod open;
mod protocol;
mod signs;
mod threads;
mod told;

use std::sync::Arc;

pub use far::CheckpointProcess;
pub use threads::run_checkpoint_process;

use tombolo_storage::memory::Limits;
use tombolo_storage::memory::image::ImageSettings;
use tombolo_storage::value_log::LogPosition;

use super::super::log::Records;
use super::super::pool::Pool;
use super::arrivals::Arrivals;
use super::handover::Handover;
use super::{CheckpointPolicy, Course, Shares, ToCheckpoint, Wired};
use crate::processes::StartCompanion;
use near::Near;
use protocol::Welcome;

/// Checkpoints that another process writes.
pub struct CheckpointsApart {
    /// Starts the process, which gives its link to [`run_checkpoint_process`] with the directories
    /// that the database was opened with.
    pub start: Box<dyn StartCompanion>,
    /// The image's numbers.
    pub image: ImageSettings,
    /// The store's limits.
    pub limits: Limits,
    /// Parts that checkpoints are written in, each of which has a thread.
    pub parts: usize,
    /// The log's salt.
    pub salt: u64,
    /// The epoch it is in.
    pub epoch: u32,
    /// Whether its files are read directly.
    pub log_is_direct: bool,
}

/// The stage that speaks to another process, and the logging stage's end; the log ends at `position`.
pub(in crate::pipeline) fn wire_apart<A: Send + 'static, B: Records>(
    apart: CheckpointsApart,
    position: Option<LogPosition>,
    of: &Shares<'_, A, B>,
) -> Wired<B> {
    let CheckpointsApart { start, image, limits, parts, salt, epoch, log_is_direct } = apart;
    let course = Arc::new(Course::apart(Arc::clone(&of.preparing[0]), Arc::clone(&of.logging)));
    let CheckpointPolicy { queue_bytes_max, log_bytes, .. } = of.policy;
    let handover = Handover::new(queue_bytes_max, log_bytes, Arc::clone(&of.preparing[0]));
    let (handover, vectors) = (Arc::new(handover), Arc::new(Pool::new()));
    let welcome = Welcome {
        connection: 0,
        salt,
        epoch,
        position: LogPosition::default(),
        image,
        policy: of.policy,
        limits,
        parts: parts.max(1) as u64,
        log_is_direct,
    };
    let near = Near::new(near::Parts {
        start,
        welcome,
        position,
        arrivals: Arrivals::new(
            Arc::clone(&handover),
            Arc::clone(&course),
            Arc::clone(of.buffers),
            Arc::clone(&vectors),
        ),
        course: Arc::clone(&course),
        shared: Arc::clone(of.shared),
    });
    let to_checkpoint = ToCheckpoint {
        course,
        handovers: vec![handover],
        buffers: Arc::clone(of.buffers),
        vectors,
        settings: None,
        copied_bytes_max: 0, // that process counts what each flush took
        exchanges: Vec::new(),
        released: 0,
        is_gapless: position.is_some(),
    };
    (to_checkpoint, vec![Box::new(near)])
}
