//! The stages, one file or folder each; `batch.rs` is the item that execution passes to logging.

pub(crate) mod archive;
pub(crate) mod batch;
pub(crate) mod copying;
pub(crate) mod execution;
pub(crate) mod executor;
pub(crate) mod group;
pub(crate) mod input;
pub(crate) mod logging;
pub(crate) mod long;
pub(crate) mod output;
pub(crate) mod room;

pub use archive::{ArchiveHandle, ArchiveRefusal, ArchiveStatistics, Archiving};
pub(crate) use archive::{ArchiveStage, ArchiveState};
pub(crate) use batch::LogBatch;
pub use executor::{Batch, Executor, LOG_BYTES_PER_CALL};
pub(crate) use input::Input;
pub use input::Prepare;
pub use logging::FlushObserver;
pub(crate) use logging::Logging;
pub use long::{CANCELLED, LONG_WORKS_MAX, LongHandle, LongWork, Sliced};
pub(crate) use long::{LongCall, LongWorks};
pub(crate) use output::{Outbox, Output, Parcel};
pub(crate) use room::MakingRoom;
