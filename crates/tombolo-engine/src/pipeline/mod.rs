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
//! Each stage is a [`Stage`] whose `step` never blocks, except for the log's own write and sync. A stage
//! does not know which threads call `step`, nor how many: a [`StageLoop`] on a thread, a caller
//! that carries, or the simulator.
//!
//! | place | contains | used by |
//! |---|---|---|
//! | `assembly/` | wiring, starting, running, closing; statistics | a program |
//! | `callers/` | submitting and fetching replies; callers that do the stages' work while they wait | assembly |
//! | `stages/` | input, execution, logging, output; log room, archive, long work | callers, assembly |
//! | `checkpoint/` | stages next to the path: durable groups into DB′, its blocks onto the disk | logging, assembly |
//! | `remote_checkpoint/` | the same stages in another process, transparently to the rest | assembly |
//! | `policy/` | decisions: settings, threads of stages, flush delays, overruns | stages |
//! | `state/` | state shared by stages and callers: positions, poison, counters | all above |
//! | `transport/` | calls, queues, signals, seats, mailboxes, pools | all above |
//! | `log/` | the interfaces of a log and of its room; their implementation by the value log | all above |
//! | `stage.rs`, `stage_loop.rs` | the trait of a stage; the stages of one thread | all |
//!
//! Not here: limits of a single transaction.
//!
//! Invariants: one reply per accepted call; no reply is `Durable` before everything its
//! transaction wrote and read is on disk; after a failure of the log nothing is acknowledged; no
//! queue grows past its bound; the clock is read only through the clock door, and threads sleep only through
//! `sync.rs`.

mod assembly;
mod callers;
mod checkpoint;
mod log;
mod policy;
pub mod remote_checkpoint;
mod stage;
mod stage_loop;
mod stages;
mod state;
mod transport;

pub use assembly::Builder;
pub use assembly::running::{Closed, Pipeline};
pub use assembly::statistics::{Busy, Statistics};
pub use assembly::wires::Signalled;
pub use callers::carrying::carrier::{Carrier, Taken, WhileTaken};
pub use callers::long_intake::{LongIntake, NotTaken};
pub use callers::{Caller, NotSubmitted, Submitter};
pub use checkpoint::{CheckpointHandle, CheckpointHold, CheckpointRefusal, CheckpointStatistics};
pub use log::common::{CommonOrder, InCommon};
pub use log::value_log::{GROUP_BYTES_MAX, ValueLogGroups};
pub use log::{Cost, GroupLog, GroupLogError, Records, Room, RoomMaker};
pub use policy::{CheckpointPolicy, GroupPolicy, Options, Overrun, Spread};
pub use stage::{Stage, StageKind, Step};
pub use stage_loop::{StageLoop, WhenBroken};
pub use stages::execution::carried::{Carried, Panicked, Stands, Terms};
pub use stages::{
    ArchiveHandle, ArchiveRefusal, ArchiveStatistics, Archiving, Batch, CANCELLED, Executor,
    FlushObserver, LOG_BYTES_PER_CALL, LONG_WORKS_MAX, LongHandle, LongWork, Prepare, Sliced,
};
pub use state::Flush;
pub use transport::{
    Call, Durability, Failure, Load, Mailbox, NotPut, Outcome, Queue, Refusal, Reply, Signal, Sink,
    Slots, Tagged, guarded,
};

#[cfg(not(loom))]
#[cfg(test)]
mod tests;
