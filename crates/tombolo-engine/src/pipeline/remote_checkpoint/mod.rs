//! The checkpoint stage in another process (TPK-33: configuration C).
//!
//! ```text
//!   database's process                               checkpoint process
//!   logging ─► [handover] ─► client ═══ link ═══► server ─► [handover] ─► the stages ─► image
//!      ▲                      │ ▲                    │                       │
//!      └─ the log may go ─────┘ └────── reports ─────┴──────── state ◄───────┘
//! ```
//!
//! The checkpoint process has DB′, the image and the same stages of `checkpoint/`. It has no log of its own, so it
//! receives durable records, and reads others from the log's files: records from before it started, and those that did
//! not fit. Logging never waits for it: records that the link does not accept
//! wait in the handover, and past the handover's bound only the position is kept.
//!
//! Either process may end at any moment; the other one notices that the link has ended. The checkpoint process then
//! ends, too. The database continues, its log grows, and after a while it starts
//! another process, which loads the image, reads the log after it, and continues the
//! interrupted checkpoint, as a restart of the database would. A process that does not answer for a long time
//! is ended, and replaced in the same way.
//!
//! | file | contains |
//! |---|---|
//! | `protocol.rs` | the messages |
//! | `client.rs`, `mirror.rs` | the stage in the database's process; the state that the other reports |
//! | `heartbeat.rs` | whether the other process still answers |
//! | `server.rs`, `opening.rs` | the other process; image and log as it finds them |
//! | `threads.rs` | that process on threads |
//! | `processes.rs` | the door to processes: starting and ending one |
//!
//! Not here: links and starting processes (the doors). Invariants: the log is released only up to the group in
//! a report, which is durable; its lock ensures that one process at a time writes an image, and that process writes
//! nothing before the process that holds the directory has answered it.

mod client;
mod heartbeat;
mod mirror;
mod opening;
mod processes;
mod protocol;
mod server;
mod threads;

use std::sync::Arc;

pub use crate::pipeline::remote_checkpoint::processes::{
    Companion, Process, Program, StartCompanion, wait_for_parent,
};
pub use crate::pipeline::remote_checkpoint::server::CheckpointProcess;
pub use crate::pipeline::remote_checkpoint::threads::run_checkpoint_process;

use tombolo_storage::memory::Limits;
use tombolo_storage::memory::image::{ImageSettings, SecondCopy};
use tombolo_storage::value_log::LogPosition;

use crate::pipeline::checkpoint::arrivals::Arrivals;
use crate::pipeline::checkpoint::handover::Handover;
use crate::pipeline::checkpoint::{CheckpointSender, CheckpointState};
use crate::pipeline::checkpoint::{Shares, Wired};
use crate::pipeline::log::Records;
use crate::pipeline::policy::CheckpointPolicy;
use crate::pipeline::remote_checkpoint::client::Client;
use crate::pipeline::remote_checkpoint::protocol::Welcome;
use crate::pipeline::transport::Pool;

/// Checkpoints that another process writes.
pub struct RemoteCheckpoints {
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
pub(crate) fn wire<A: Send + 'static, B: Records>(
    remote: RemoteCheckpoints,
    position: Option<LogPosition>,
    of: &Shares<'_, A, B>,
) -> Wired<B> {
    assert!(remote.image.copy == SecondCopy::Memory, "the rows are in this process");
    let RemoteCheckpoints { start, image, limits, parts, salt, epoch, log_is_direct } = remote;
    let stages = vec![Arc::clone(&of.preparing[0])];
    let state = Arc::new(CheckpointState::new(0, false, stages, Arc::clone(&of.logging)));
    let CheckpointPolicy { queue_bytes_max, log_bytes, .. } = of.policy;
    let handover = Handover::new(Some(queue_bytes_max), log_bytes, Arc::clone(&of.preparing[0]));
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
    let client = Client::new(client::Parts {
        start,
        welcome,
        position,
        arrivals: Arrivals::new(
            Arc::clone(&handover),
            Arc::clone(&state),
            Arc::clone(of.buffers),
            Arc::clone(&vectors),
        ),
        state: Arc::clone(&state),
        shared: Arc::clone(of.shared),
    });
    let sender = CheckpointSender {
        state,
        handovers: vec![handover],
        buffers: Arc::clone(of.buffers),
        vectors,
        settings: None,
        copied_bytes_max: 0, // that process counts what each flush took
        exchanges: Vec::new(),
        released: 0,
        is_gapless: position.is_some(),
    };
    (sender, vec![Box::new(client)])
}
