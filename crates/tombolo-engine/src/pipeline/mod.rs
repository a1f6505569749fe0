//! The pipeline: input, execution, logging, output (TPK-2 … TPK-13, TPK-43, TPK-44, TPK-47).
//!
//! ```text
//!   caller ─► [intake] ─► input ─► [input queue] ─► execution ─► [log queue] ─► logging
//!     ▲    (with input stages only)                     │                          │
//!     ├──────────── (output ◄─ [output queue]) ◄────────┴── early answers          │
//!     │                                ▲                                           │
//!     └────────────────────────────────┴───────── answers that are durable ────────┘
//!                                        image ◄─ checkpoint ◄─ [handover] ◄─ records
//! ```
//!
//! One file per stage, each a [`Stage`] whose `step` never blocks but for the log's own write and sync. A stage
//! does not know from where, and on how many threads, `step` is called: the `threads` door loops over stages,
//! the simulator interleaves them.
//!
//! | file | holds |
//! |---|---|
//! | `queue.rs`, `signal.rs` | bounded queues drained whole; waking a thread that sleeps |
//! | `call.rs` | calls, replies, what a reply stands for |
//! | `callers.rs`, `slots.rs` | callers: submitting, fetching replies, being called back; their places |
//! | `mailbox.rs` | replies that are fetched: asleep, or in one `poll` with sockets |
//! | `executor.rs` | what is executed: the trait a workload implements |
//! | `returns.rs`, `flush_time.rs` | how long a flush waits for callers that were just answered; what flushes take |
//! | `log.rs` | where groups go: the trait a log implements |
//! | `input.rs`, `execution.rs`, `logging.rs`, `output.rs` | the stages |
//! | `long.rs`, `overrun.rs` | long work in slices between batches; procedures that take too long |
//! | `room.rs` | a stage next to the path: room in the log, made ahead of its use |
//! | `checkpoint/` | stages next to the path: durable groups into DB′, its blocks onto the disk |
//! | `value_log.rs` | the value log behind that trait |
//! | `assembly.rs`, `places.rs` | wiring, starting, closing; which stage is on which thread |
//! | `carry.rs`, `seat.rs`, `waiters.rs` | callers that do the stages' work while they wait |
//! | `options.rs` | the settings' values |
//! | `statistics.rs`, `shared.rs`, `pool.rs` | counters, positions and poison, buffers that return |
//!
//! Not here: limits of a single transaction.
//!
//! Invariants: one reply per call that was taken in; no reply says `Durable` before what its
//! transaction wrote and read is on disk; after a failure of the log nothing is acknowledged; no
//! queue grows past its bound; no clock is read but through the clock door, no thread sleeps but through
//! `sync.rs`.

use std::fmt;

mod archive;
mod assembly;
mod call;
mod callers;
mod carry;
mod checkpoint;
mod execution;
mod executor;
mod flush_time;
mod input;
mod log;
mod logging;
mod long;
mod mailbox;
mod options;
mod output;
mod overrun;
mod places;
mod pool;
mod queue;
mod returns;
mod room;
mod running;
mod seat;
mod shared;
mod signal;
mod slots;
mod statistics;
mod to_log;
mod value_log;
mod waiters;

pub use archive::{ArchiveHandle, ArchiveRefusal, ArchiveStatistics, Archiving};
pub use assembly::{Builder, Signalled};
pub use call::{Call, Durability, Failure, Outcome, Refusal, Reply, guarded, panic_message};
pub use callers::{Caller, NotSubmitted, Sink, Submitter, Tagged};
pub use carry::Carrier;
pub use checkpoint::{
    CheckpointHandle, CheckpointHold, CheckpointPolicy, CheckpointProcess, CheckpointRefusal,
    CheckpointStatistics, CheckpointsApart, run_checkpoint_process,
};
pub use execution::{Carried, Panicked, Stands, Terms};
pub use executor::{Batch, Executor, LOG_BYTES_PER_CALL};
pub use input::Prepare;
pub use log::{Cost, GroupLog, GroupLogError, Records, Room, RoomMaker};
pub use logging::{FlushObserver, GroupPolicy};
pub use long::{CANCELLED, LONG_WORKS_MAX, LongHandle, LongIntake, LongWork, NotTaken, Sliced};
pub use mailbox::Mailbox;
pub use options::{Options, Spread};
pub use overrun::Overrun;
pub use queue::{Load, NotPut, Queue};
pub use running::{Closed, Pipeline};
pub use signal::Signal;
pub use slots::Slots;
pub use statistics::{Busy, Flush, Statistics};
pub use value_log::{GROUP_BYTES_MAX, ValueLogGroups};

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
    fn retire(self: Box<Self>);

    /// Notes how long steps that made progress took.
    fn worked(&self, ns: u64);
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests;
