//! `LogTransaction`: a transaction's records in its session's buffer, and its claim on the log's space.
//!
//! Not here: publishing records (`session.rs`). Invariant: the reserved space suffices to end the transaction.

use super::ChangeKind;
use super::buffer::{Claim, Publisher};
use super::file::LEFT_FOR_IMAGES;
use super::record::{Content, END_BYTES, Record};
use crate::probe::{self, Counter};

/// What a transaction's buffer may keep for the next one, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What a session keeps of its transaction: its numbers, and its records as long as they can be
/// undone.
#[derive(Debug, Default)]
pub struct LogTransaction {
    pub(super) id: u64,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) is_undoing: bool,
    /// Whether it is committed and clears away what it deleted.
    pub(super) is_clearing: bool,
    /// What clearing that away takes of the log, in bytes.
    pub(super) to_clear: u64,
    /// What it has reserved of the file, in bytes.
    pub(super) reserved: u64,
    pub(super) records: Vec<u8>,
    /// The changes that are not undone: where in `records` each begins, and its LSN.
    pub(super) undoable: Vec<(usize, u64)>,
    /// None before its session's first record.
    pub(super) publisher: Option<Publisher>,
}

impl LogTransaction {
    /// The transaction's own number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The LSN of its first record; 0 if there is none.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The LSN of its last record; 0 if there is none.
    pub fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn reset(&mut self, id: u64) {
        (self.id, self.first, self.last, self.reserved) = (id, 0, 0, 0);
        (self.is_undoing, self.is_clearing, self.to_clear) = (false, false, 0);
        self.records.clear();
        self.undoable.clear();
        if self.records.capacity() > KEPT_BYTES_MAX {
            self.records.shrink_to(KEPT_BYTES_MAX);
            self.undoable.shrink_to(KEPT_BYTES_MAX / END_BYTES);
        }
    }

    /// Takes in a record that was read from the log.
    pub(super) fn recall(&mut self, lsn: u64, record: &Record<'_>) -> Result<(), &'static str> {
        if self.first == 0 {
            self.reset(record.transaction);
            self.first = lsn;
        }
        self.last = lsn;
        match record.content {
            Content::Committed { .. } => {
                self.is_clearing = true;
                self.records.clear();
                self.undoable.clear();
            }
            Content::Change { change, .. } if !record.is_redo_only => {
                self.undoable.push((record.encode(&mut self.records), lsn));
                let is_cleared = change.kind.is_cleared();
                self.to_clear += if is_cleared { record.bytes() as u64 } else { 0 };
            }
            // It clears away.
            Content::Change { .. } if self.is_clearing => {}
            Content::Change { change, .. } => {
                let newest = self.undoable.pop();
                let (start, _) = newest.ok_or("it undoes what its transaction did not do")?;
                match Record::parse(&self.records[start..])?.content {
                    Content::Change { change: undone, .. }
                        if undone.kind.undone_by() == Some(change.kind)
                            && (undone.store, undone.row) == (change.store, change.row) =>
                    {
                        self.forget(start, undone.kind);
                    }
                    _ => return Err("it undoes another change than its transaction's newest"),
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Forgets its newest change, which is being undone: it begins at `start` in `records`.
    pub(super) fn forget(&mut self, start: usize, kind: ChangeKind) {
        if kind.is_cleared() {
            self.to_clear -= (self.records.len() - start) as u64;
        }
        self.records.truncate(start);
    }

    /// The LSN of its newest change that is not undone; 0 if there is none.
    pub(super) fn newest_undoable(&self) -> u64 {
        self.undoable.last().map_or(0, |&(_, lsn)| lsn)
    }

    /// How many bytes of the log it may take from now on to the end.
    pub(super) fn bytes_to_end(&self) -> u64 {
        let end = END_BYTES as u64;
        end + if self.is_clearing { self.to_clear } else { self.records.len() as u64 + end }
    }

    /// What publishing a change of `bytes` bytes claims: space to undo it, or, of what undoes, out
    /// of the space that was reserved for that.
    #[inline(always)]
    pub(super) fn claim(&self, is_redo_only: bool, bytes: u64) -> Claim {
        debug_assert!(!self.is_undoing || self.reserved >= bytes, "no room is set aside to undo");
        if self.is_undoing {
            // What is left is for the record that ends the transaction.
            let reserved_after = self.reserved.saturating_sub(bytes).max(END_BYTES as u64);
            let reserved_after = reserved_after.min(self.reserved);
            return Claim { reserved_before: self.reserved, reserved_after, ..Claim::default() };
        }
        if self.is_clearing {
            let reserved_after = self.reserved.saturating_sub(bytes);
            return Claim { reserved_before: self.reserved, reserved_after, ..Claim::default() };
        }
        // For the record that ends it, and for the one behind what it clears away.
        let to_end = if self.first == 0 { 2 * END_BYTES as u64 } else { 0 };
        let to_undo = if is_redo_only { 0 } else { bytes };
        Claim {
            reserved_before: self.reserved,
            reserved_after: self.reserved + to_end + to_undo,
            left: LEFT_FOR_IMAGES,
            ..Claim::default()
        }
    }

    /// Notes that its record at `lsn` was published.
    #[inline(always)]
    pub(super) fn published(&mut self, lsn: u64, reserved: u64) {
        if self.first == 0 {
            self.first = lsn;
        }
        (self.last, self.reserved) = (lsn, reserved);
        probe::count(Counter::LsnWrites, 1);
    }
}
