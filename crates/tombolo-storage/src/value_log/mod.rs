//! The value log: the changes of the memory store's transactions, in groups that become durable as a whole
//! (TPK-8, TPK-20 … TPK-26).
//!
//! The store puts *records* into a buffer (`record.rs`); the thread that runs transactions takes the
//! buffer once per batch and passes it to a [`LogWriter`], which writes it as one *group* (`group.rs`)
//! at the end of a *segment* (`segment.rs`), a file that is created and zeroed beforehand. After a restart
//! [`recover`] reads the groups in order, cuts off a torn tail, refuses damage, and passes every
//! complete transaction to a [`Replay`]; `memory/recovery/` rebuilds the store from them.
//!
//! Not here: threads, time, closing a group (the engine's), the meaning of rows. Invariants:
//! a group is written only after an unbroken chain of groups; nothing counts as durable before a
//! sync that began after its write has succeeded; after a failed write or sync nothing is written
//! any more; a block with a durable group is never written again.

mod aligned;
pub mod archive;
mod aside;
mod copy;
pub mod definition;
mod directory;
mod follow;
mod group;
mod groups;
mod lock;
mod positions;
mod reader;
pub mod record;
mod recover;
mod segment;
mod settings;
mod side;
mod space;
mod start;
mod survey;
mod walk;
mod writer;

pub use aligned::AlignedBuffer;
pub(crate) use copy::{copy, copy_positions};
pub use directory::{holds_log, log_bytes};
pub use follow::{LogReader, Visit};
pub use lock::{CHECKPOINT_LOCK_FILE, CheckpointLock, DirectoryLock, LOCK_FILE, refuse_copy};
pub(crate) use positions::{Positions, ReadLog, read_positions};
pub use record::{LogBuffer, Malformed, Record, Records, SchemaKind, SchemaRecord, Transactions};
pub use recover::{Cut, Lost, Progress, Recovered, Refused, Replay, recover, recover_locked};
pub(crate) use settings::BLOCK_BYTES_MAX;
pub use settings::{
    FORMAT_VERSION, FORMAT_VERSION_OLDEST, GroupNumber, LogFailure, LogKind, LogSettings, LogUsage,
    NoRoom,
};
pub(crate) use side::SLOT_BYTES;
pub use space::{Preparer, Reservation, Space};
pub use start::{LogPosition, LogStart, RecoverOptions};
pub use survey::{SegmentState, SegmentSurvey, Survey, survey, survey_locked};
pub use writer::LogWriter;

#[cfg(test)]
#[cfg(not(loom))]
pub(crate) mod tests;
