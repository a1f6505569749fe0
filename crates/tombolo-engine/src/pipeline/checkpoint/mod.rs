//! The checkpoint stage: installs durable groups into DB′ and writes its blocks, so that older log can be reused
//! (TPK-14 … TPK-19, TPK-22, TPK-25).
//!
//! ```text
//!   logging ──records of a flush──► [handover] ──► install ──► DB′ ──► a batch of blocks ──► image
//!      ▲                                ▲             │                      │
//!      │                                │ behind:     └─ buffers to the pool │
//!      │                                └─ read from the log's files         │
//!      └──────────── the log may go before this group ◄── all parts done ◄───┘
//! ```
//!
//! A step installs at most a megabyte of arrived records, and then prepares one batch of blocks, so
//! neither waits for long for the other. That is one stage (`preparing.rs`); a second
//! one writes the batches (`writing.rs`): it waits for
//! the disk, so each part of DB′ has two threads of its own; nothing on the path of a transaction waits
//! for them. While the log is flushed, too, the device is left alone for a part of the time (setting
//! `checkpoint_device_percent`), unless the log runs short of room.
//!
//! Without a second copy nothing is installed, and the handover keeps only positions. Between two batches the execution
//! stage copies blocks from the store's rows; this stage writes them when the log is durable up to the position of the
//! copy (`fetching.rs`, `asked.rs`, `stages/copying.rs`).
//!
//! When the pipeline closes, a last checkpoint is written, if anything was logged since the last one:
//! the next process then has nothing to replay.
//!
//! Not here: when a checkpoint begins and how the parts agree (`coordinator.rs`), the records that logging passes
//! (`handover.rs`), DB′ and blocks (storage `memory/image/`). Invariants: only durable groups
//! are installed, in order; the buffers of an installment go back to the pool when all parts have
//! installed it; a failure of a checkpoint never stops the database.

pub(crate) mod arrivals;
pub(crate) mod asked;
mod coordinator;
mod demands;
mod fetching;
mod handles;
pub(crate) mod handover;
mod preparing;
pub(crate) mod sender;
pub(crate) mod state;
mod writing;

pub(crate) use std::sync::Arc;

use tombolo_storage::value_log::{LogPosition, LogReader};

pub use demands::CheckpointRefusal;
pub use handles::{CheckpointHandle, CheckpointHold};
pub(crate) use sender::{CheckpointControl, CheckpointSender};
pub(crate) use state::CheckpointState;
pub use state::CheckpointStatistics;

pub(crate) use asked::{AskRows, Asked, Fetched};

use arrivals::Arrivals;
use coordinator::Coordinator;
use fetching::Fetching;
use handover::Handover;
use preparing::Preparing;
use writing::{Exchange, Writing};

use crate::checkpointing::Checkpointing;
use crate::clock::Clock;
use crate::pipeline::log::Records;
use crate::pipeline::policy::CheckpointPolicy;
use crate::pipeline::stage::Stage;
use crate::pipeline::state::Shared;
use crate::pipeline::transport::{Pool, Signal};

/// The log as the stages see it: where it ends, and readers of it.
pub(crate) struct LogEnd<'a> {
    pub(crate) position: Option<LogPosition>,
    pub(crate) reader: &'a dyn Fn() -> Option<LogReader>,
}

/// What the checkpoint stages of a pipeline share.
pub(crate) struct Shares<'a, A, B> {
    pub(crate) shared: &'a Arc<Shared<A>>,
    pub(crate) buffers: &'a Arc<Pool<B>>,
    pub(crate) clock: &'a Arc<dyn Clock>,
    pub(crate) policy: CheckpointPolicy,
    /// The threads of the stages that prepare, of those that write, and the logging stage's.
    pub(crate) preparing: Vec<Arc<Signal>>,
    pub(crate) writing: Vec<Arc<Signal>>,
    pub(crate) logging: Arc<Signal>,
    /// Where the rows are, if they are in this process.
    pub(crate) rows: Option<Arc<dyn AskRows>>,
}

/// What is wired, whichever process writes the image: the logging stage's end, and the stages: those that prepare,
/// then those that write.
pub(crate) type Wired<B> = (CheckpointSender<B>, Vec<Box<dyn Stage>>);

/// The stages of a database's checkpoints; `behind_bytes` of log are behind the image.
pub(crate) fn wire<A: Send + 'static, B: Records>(
    checkpointing: Checkpointing,
    behind_bytes: u64,
    log: &LogEnd<'_>,
    of: &Shares<'_, A, B>,
) -> Wired<B> {
    let Checkpointing { checkpoints, parts } = checkpointing;
    let (log_end, is_writing) = (log.position, checkpoints.writing().is_some());
    let needed_from = checkpoints.position().group;
    let state =
        CheckpointState::new(needed_from, is_writing, of.preparing.clone(), of.logging.clone());
    let (state, vectors) = (Arc::new(state), Arc::new(Pool::new()));
    let coordinator = Arc::new(Coordinator::new(checkpoints, Arc::clone(&state)));
    let (mut handovers, mut exchanges) = (Vec::new(), Vec::new());
    let mut prepare: Vec<Box<dyn Stage>> = Vec::new();
    let mut write: Vec<Box<dyn Stage>> = Vec::new();
    for (number, part) in parts.into_iter().enumerate() {
        let (preparing, writing) = (of.preparing[number].clone(), of.writing[number].clone());
        let exchange = Arc::new(Exchange::new(preparing.clone(), writing));
        exchanges.push(Arc::clone(&exchange));
        let queue_bytes_max = part.installs().then_some(of.policy.queue_bytes_max);
        let handover =
            Arc::new(Handover::new(queue_bytes_max, of.policy.log_bytes, preparing.clone()));
        // Records that were written without the pipeline are only in the log. Without DB′ their size is not known:
        // they count as news, which the next checkpoint covers.
        let mut installed_bytes = behind_bytes;
        if let Some(end) = log_end.filter(|end| end.group > part.position().group) {
            handover.put_position(end);
            installed_bytes += u64::from(!part.installs());
        }
        handovers.push(Arc::clone(&handover));
        write.push(Box::new(Writing {
            exchange: Arc::clone(&exchange),
            shared: Arc::clone(of.shared),
            clock: Arc::clone(of.clock),
        }));
        prepare.push(Box::new(Preparing {
            number,
            installed_bytes,
            arrivals: Arrivals::new(
                handover,
                Arc::clone(&state),
                Arc::clone(of.buffers),
                Arc::clone(&vectors),
            ),
            exchange,
            asked_installed: 0,
            reader: (log.reader)(),
            fetching: Fetching::new(of.rows.clone(), Asked::new(preparing)),
            coordinator: Arc::clone(&coordinator),
            state: Arc::clone(&state),
            shared: Arc::clone(of.shared),
            clock: Arc::clone(of.clock),
            policy: of.policy,
            part,
            covered_bytes: 0,
            handed_in_bytes: 0,
            pause_until_ns: 0,
            retry_at_ns: 0,
            flushes: 0,
        }));
    }
    prepare.append(&mut write);
    let is_gapless = log_end.is_some();
    let buffers = Arc::clone(of.buffers);
    let sender = CheckpointSender {
        state,
        handovers,
        exchanges,
        buffers,
        vectors,
        settings: (log.reader)().map(|reader| reader.settings()),
        copied_bytes_max: sender::COPIED_BYTES_MAX,
        released: 0,
        is_gapless,
    };
    (sender, prepare)
}
