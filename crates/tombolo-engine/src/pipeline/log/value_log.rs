//! The value log as the pipeline's log: storage's `LogWriter` behind [`GroupLog`]. A log of commands
//! is the same one with other records, which nothing here reads.
//!
//! Room: a batch is charged what it may take on disk however it is grouped, and only what lies in
//! segments that are ready counts as room, so that an executed batch always finds some. Segments
//! are made ready by the room stage, which also tries a full disk again.
//!
//! Not here: groups, segments, recovery (storage `value_log/`).

use tombolo_storage::value_log::{
    GroupNumber, LogBuffer, LogFailure, LogPosition, LogReader, LogWriter, NoRoom, Preparer, Space,
};

use crate::pipeline::log::{Cost, GroupLog, GroupLogError, Records, Room, RoomMaker};

/// The most bytes of records a group holds: a write of some milliseconds.
pub const GROUP_BYTES_MAX: u64 = 16 << 20;

impl Records for LogBuffer {
    fn bytes(&self) -> &[u8] {
        self.as_slice()
    }
    fn transactions(&self) -> u64 {
        LogBuffer::transactions(self)
    }
    fn memory_bytes(&self) -> usize {
        LogBuffer::memory_bytes(self)
    }
    fn clear(&mut self) {
        LogBuffer::clear(self);
    }
}

/// A value log, or one of commands, that takes groups.
#[derive(Debug)]
pub struct ValueLogGroups {
    writer: LogWriter,
    space: Space,
    preparer: Preparer,
}

impl ValueLogGroups {
    /// Of a log that was just made or recovered.
    pub fn new(writer: LogWriter) -> Self {
        let (space, preparer) = (writer.space(), writer.preparer());
        Self { writer, space, preparer }
    }

    /// The newest group written, durable or not.
    pub fn newest(&self) -> GroupNumber {
        self.writer.newest()
    }

    /// The newest group known to be durable.
    pub fn durable(&self) -> GroupNumber {
        self.writer.durable()
    }
}

impl From<LogFailure> for GroupLogError {
    fn from(failure: LogFailure) -> Self {
        if failure.is_full() { Self::Full } else { Self::Failed(failure.to_string()) }
    }
}

impl GroupLog for ValueLogGroups {
    fn set_time(&mut self, now_us: u64) {
        self.writer.set_time(now_us);
    }

    fn want(&mut self, bytes: u64) {
        self.space.want(bytes);
    }

    fn append(&mut self, records: &[&[u8]], transactions: u64) -> Result<(), GroupLogError> {
        self.writer.append_group(records, transactions, None)?;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), GroupLogError> {
        self.writer.sync()?;
        Ok(())
    }

    fn seal(&mut self) -> Result<(), GroupLogError> {
        self.writer.seal()?;
        Ok(())
    }

    fn room(&mut self) -> Room {
        let more_is_wanted = self.preparer.is_wanted();
        let is_all = match self.space.look(GROUP_BYTES_MAX) {
            Ok(()) => false,
            // If all segments that are ever kept ready are, there is nothing to wait for.
            Err(NoRoom::NotReady) => self.space.is_all_ready(),
            Err(NoRoom::Limit { .. } | NoRoom::Device(_)) => true,
        };
        Room { bytes: self.space.available_bytes(), is_all, more_is_wanted }
    }

    fn room_maker(&mut self) -> Option<Box<dyn RoomMaker>> {
        Some(Box::new(SegmentMaker(self.preparer.clone())))
    }

    fn position(&self) -> Option<LogPosition> {
        let is_durable = self.writer.durable() == self.writer.newest();
        is_durable.then(|| self.writer.position())
    }

    fn release_before(&mut self, group: GroupNumber) {
        self.writer.release_before(group);
    }

    fn trim(&mut self) {
        // What is left behind is used again.
        _ = self.writer.trim();
    }

    fn keep_from(&mut self, group: GroupNumber) {
        self.writer.keep_from(group);
    }

    fn left_behind(&self) -> GroupNumber {
        self.writer.left_behind()
    }

    fn reader(&self) -> Option<LogReader> {
        Some(self.writer.reader())
    }

    fn group_bytes_max(&self) -> u64 {
        // What never fits into the segments kept ready is too large; the log is not full then. One
        // batch's overhead is kept for a seal.
        let room = self.space.ahead_bytes().saturating_sub(self.cost().per_batch);
        GROUP_BYTES_MAX.min(self.cost().fitting(room)).max(1)
    }

    fn cost(&self) -> Cost {
        // A group may have to leave the end of a segment behind that is as long as itself.
        Cost { per_batch: self.space.cost_bytes(0), per_byte: 2 }
    }
}

/// Makes segments ahead of their use.
struct SegmentMaker(Preparer);

impl RoomMaker for SegmentMaker {
    fn make(&mut self) -> Result<bool, String> {
        match self.0.prepare() {
            Ok(is_made) => Ok(is_made),
            Err(full) if full.is_full() => Ok(false),
            Err(failure) => Err(failure.to_string()),
        }
    }
}
