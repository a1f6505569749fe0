//! The writer of a log whose records have positions (that of a paged store). It differs from others: a group has the
//! position at which its records end, in place of a number of transactions, and the position from which on a restart
//! needs the log, in place of a time. Segments are filled to their ends, and while the disk is full the log's end
//! is kept in the side file (`side.rs`).
//!
//! Not here: finding the beginning of a log and reading it (`value_log/positions.rs`), answering callers.

use super::{Closed, LogWriter, Parts, fail, sync_file};
use crate::value_log::group::HEADER_BYTES;
use crate::value_log::segment::FIRST_GROUP_OFFSET;
use crate::value_log::settings::{LogFailure, NoRoom};
use crate::value_log::side::{SLOT_BYTES, Side};
use crate::value_log::space::Shared;

impl LogWriter {
    /// The position behind everything written to segments.
    pub(crate) fn end(&self) -> u64 {
        self.tail.transactions
    }

    /// Bytes of segments that hold what is kept of the log, with what fills blocks up.
    pub(crate) fn used_bytes(&self) -> u64 {
        let full = self.closed.iter().map(|closed| closed.segment.header.capacity()).sum::<u64>();
        full + self.tail.at - FIRST_GROUP_OFFSET
    }

    /// Continues with this position if it is greater than the log's own.
    pub(crate) fn continue_at(&mut self, position: u64) {
        self.tail.transactions = self.tail.transactions.max(position);
    }

    /// Writes `records` behind the newest group, in as many groups as it takes to fill segments; for a
    /// caller that knows that there is room. Nothing is durable before [`Self::sync`].
    ///
    /// # Errors
    /// Final.
    pub(crate) fn append_filling(&mut self, records: &[&[u8]]) -> Result<(), LogFailure> {
        self.refuse_if_failed()?;
        self.write_groups(records, false, Shared::reserve_rest(&self.shared))?;
        self.is_sealed = false;
        Ok(())
    }

    /// Makes all `records` behind the newest group durable without taking room in a segment. Those that
    /// were set aside before are among them, and will be when they are appended.
    ///
    /// # Errors
    /// Final.
    ///
    /// # Panics
    /// When they are longer than a slot, or the log's records have no positions.
    pub(crate) fn set_aside(&mut self, records: &[&[u8]]) -> Result<(), LogFailure> {
        self.refuse_if_failed()?;
        let length = records.iter().map(|part| part.len()).sum();
        let mut group = self.next_group(length);
        let side = self.side.as_mut().expect("only a log with positions sets records aside");
        (group.sequence, group.offset) = (0, side.offset);
        group.transactions += length as u64;
        let block_bytes = self.current.header.block_bytes as usize;
        let bytes = group.bytes().next_multiple_of(block_bytes);
        assert!(bytes as u64 <= SLOT_BYTES);
        let (mut source, salt) = (Parts { parts: records, at: 0 }, self.current.header.salt);
        let buffer = self.buffer.padded(group.bytes(), bytes, |used| {
            source.read(&mut used[HEADER_BYTES..]);
            group.encode(salt, used);
        });
        let written = side.file.write_at(buffer, side.offset);
        let durable = written.and_then(|()| sync_file(&*side.file, &mut self.usage));
        durable.map_err(|error| fail(&mut self.failure, error))?;
        side.turn();
        side.end = group.transactions;
        Ok(())
    }

    /// The position from which on a restart needs the log, and what was set aside, if anything can be.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn needed_and_aside(&self) -> Result<(u64, Vec<u8>), LogFailure> {
        let aside = self.side.as_ref().map(Side::content).transpose()?;
        Ok((self.tail.time_us, aside.unwrap_or_default()))
    }

    fn no_room(&self) -> LogFailure {
        let why = self.shared.pool(|pool| pool.no_room.clone());
        LogFailure::Full(why.unwrap_or(NoRoom::NotReady))
    }

    /// Says, durably, that a restart needs nothing before `position`, which is durable, and gives the
    /// segments back that lie before it whole: they are used again. Returns how many.
    ///
    /// # Errors
    /// `Full` when there is no room to say so, or what is needed was set aside, which holds only as long as
    /// no group follows: nothing was given back. Everything else is final.
    pub(crate) fn release_to(&mut self, position: u64) -> Result<usize, LogFailure> {
        let aside = self.side.as_ref().map_or(0, |side| side.end);
        if aside > position.max(self.end()) {
            return Err(self.no_room());
        }
        self.tail.time_us = self.tail.time_us.max(position);
        let newest = self.sync()?;
        self.is_sealed = false;
        if self.seal()? == newest {
            return Err(self.no_room());
        }
        let last = self.closed[..self.closed_before(position)].last();
        let group = last.map_or(0, |last| last.run_ends + 1);
        Ok(self.release_before(group))
    }

    /// How many full segments lie before `position` whole.
    pub(crate) fn closed_before(&self, position: u64) -> usize {
        let is_before = |closed: &&Closed| closed.transactions <= position;
        self.closed.iter().take_while(is_before).count()
    }
}
