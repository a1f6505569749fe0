//! `GroupLog`: the logging stage's interface to a log, which makes groups of records durable.
//!
//! The pipeline decides what goes into a group and when it is flushed; the log knows bytes, files
//! and checksums. Not here: what records mean (storage).
//!
//! A failure is final: the pipeline calls nothing after one. The only exception is a log without
//! room, which reports that before it has written anything and may be called again.

pub(crate) mod common;
pub(crate) mod room;
pub(crate) mod value_log;

pub(crate) use room::LogRoom;

use std::fmt;

use tombolo_storage::value_log::{GroupNumber, LogPosition, LogReader};

/// Why a log did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupLogError {
    /// There is no room for the group; nothing of it was written.
    Full,
    /// Something failed, as said here for the user; what is on disk behind the last sync is
    /// unknown.
    Failed(String),
}

impl fmt::Display for GroupLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the log has no room"),
            Self::Failed(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for GroupLogError {}

/// What a store has logged: whole transactions, in a buffer that is used again and again.
pub trait Records: Default + Send + Sync + 'static {
    /// The records.
    fn bytes(&self) -> &[u8];
    /// How many transactions they are.
    fn transactions(&self) -> u64;
    /// The memory the buffer holds, about.
    fn memory_bytes(&self) -> usize;
    /// Forgets the records; the memory stays.
    fn clear(&mut self);
}

/// Of executors without a log.
impl Records for () {
    fn bytes(&self) -> &[u8] {
        &[]
    }
    fn transactions(&self) -> u64 {
        0
    }
    fn memory_bytes(&self) -> usize {
        0
    }
    fn clear(&mut self) {}
}

/// What a log has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// So many bytes, when every batch is counted at its [`Cost`].
    pub bytes: u64,
    /// Whether that is all: if not, more is being made, and a batch that needs more waits instead of being
    /// refused.
    pub is_all: bool,
    /// Whether the room stage has something to do.
    pub more_is_wanted: bool,
}

/// The most room a batch takes, whichever other batches it is grouped with: headers, padding, what
/// is left of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Bytes, whatever its length.
    pub per_batch: u64,
    /// Bytes for each byte of its records.
    pub per_byte: u64,
}

impl Cost {
    /// What a batch with so many bytes of records takes; nothing without records.
    pub(crate) const fn of(self, record_bytes: u64) -> u64 {
        match record_bytes {
            0 => 0,
            bytes => self.per_batch.saturating_add(bytes.saturating_mul(self.per_byte)),
        }
    }

    /// How long the records of one batch may be to fit into so much room.
    pub(crate) const fn fitting(self, room_bytes: u64) -> u64 {
        room_bytes.saturating_sub(self.per_batch) / self.per_byte
    }
}

/// The log's room that batches may reserve, once it was asked for `wanted` bytes of it: a
/// seal needs some too, and comes unannounced.
pub(crate) fn unreserved(log: &mut dyn GroupLog, wanted: Option<u64>) -> Room {
    let sealed = log.cost().per_batch;
    if let Some(bytes) = wanted {
        log.want(bytes.saturating_add(sealed));
    }
    let room = log.room();
    Room { bytes: room.bytes.saturating_sub(sealed), ..room }
}

/// Makes room ahead of its use.
pub trait RoomMaker: Send {
    /// Makes some, if some is wanted and there is any to be made; says whether it did. May wait for
    /// the disk.
    ///
    /// # Errors
    /// Why the log has failed, in words.
    fn make(&mut self) -> Result<bool, String>;
}

/// A log that takes groups.
pub trait GroupLog: Send {
    /// Says what time it is, in microseconds since 1970, before anything is written: groups keep it.
    /// A log that is restored to a moment needs it.
    fn set_time(&mut self, _: u64) {}

    /// A stage waits until there is room for so many bytes, counted as [`Room::bytes`] are: less
    /// may be made ahead while none waits.
    fn want(&mut self, _: u64) {}

    /// Writes one group: the records of several batches, in this order, each batch whole
    /// transactions, in all so many. Together they are no longer than
    /// [`GroupLog::group_bytes_max`], and not empty.
    ///
    /// # Errors
    /// See [`GroupLogError`].
    fn append(&mut self, records: &[&[u8]], transactions: u64) -> Result<(), GroupLogError>;

    /// Makes every group written so far durable.
    ///
    /// # Errors
    /// See [`GroupLogError`].
    fn sync(&mut self) -> Result<(), GroupLogError>;

    /// Writes, durably, that every group so far is durable, so that damage to the last one is not
    /// taken for a torn tail.
    ///
    /// # Errors
    /// See [`GroupLogError`].
    fn seal(&mut self) -> Result<(), GroupLogError>;

    /// What still fits. Asked at every step: it does not wait.
    fn room(&mut self) -> Room;

    /// What makes room ahead of its use, for a thread that has time.
    fn room_maker(&mut self) -> Option<Box<dyn RoomMaker>> {
        None
    }

    /// Where the log ends, if all that was written is durable. A log that says nothing of it has no
    /// checkpoints.
    fn position(&self) -> Option<LogPosition> {
        None
    }

    /// Gives back the room of what is older than this group: a checkpoint holds it. Does not wait.
    fn release_before(&mut self, _: GroupNumber) {}

    /// Takes away what is not needed of its files, behind all writing. Waits for the disk.
    fn trim(&mut self) {}

    /// Keeps what is not older than this group, even if it is released: it is to be archived. Does not wait.
    fn keep_from(&mut self, _: GroupNumber) {}

    /// The last group, all before it durable, that is in no segment which is still written to; 0 for none.
    fn left_behind(&self) -> GroupNumber {
        0
    }

    /// Reads back what was written, concurrently with the writing.
    fn reader(&self) -> Option<LogReader> {
        None
    }

    /// The most bytes of records a group holds.
    fn group_bytes_max(&self) -> u64;

    /// What of its room batches take. Does not change.
    fn cost(&self) -> Cost;
}
