//! Reading a log: its records in order, and where the intact part ends.
//!
//! What follows the last intact record is a *torn tail* if it may never have been durable: a flush
//! that did not end before a crash leaves its bytes wholly, partly or not at all, in any order. It
//! is *damage* if a later record proves that it was: a record that ends a transaction says up to
//! where the log was known to be durable when it was made. What was flushed last is named by no
//! such record, so damage there looks like a torn tail.
//!
//! Not here: redo and undo.

use std::ops::ControlFlow;

use super::file::{LOG_FILE, RECORDS_OFFSET, damaged, read_header};
use super::record::{ALIGNMENT_BYTES, Content, HEADER_BYTES, RECORD_BYTES_MAX, Record, length};
use super::settings::LogError;
use crate::disk::{Disk, DiskFile, Open};

const WINDOW_BYTES: usize = 1 << 20;
const _: () = assert!(WINDOW_BYTES >= 2 * RECORD_BYTES_MAX);

/// Where the intact part of a log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The LSN of the first record, if there is one.
    pub base: u64,
    /// The LSN that the next record would have.
    pub lsn: u64,
    /// Bytes of the torn tail, from there to the last byte that is not 0.
    pub torn_bytes: u64,
}

/// Shows every intact record of the log on `disk` with its LSN, in order; says where they end.
///
/// # Errors
/// When there is no log, it is of another version or damaged (with file and offset), or the disk
/// fails. Records before the damage were shown.
pub fn read_log(
    disk: &dyn Disk,
    mut visit: impl FnMut(u64, &Record<'_>),
) -> Result<LogEnd, LogError> {
    let file = disk.open(LOG_FILE, Open::Read)?;
    let (header, damaged_copy) = read_header(&*file)?;
    let mut reader = Reader::new(&*file, header.base)?;
    let end = reader.end(&mut visit)?;
    match damaged_copy {
        Some(offset) if end.lsn == end.base => {
            Err(damaged(&*file, offset, "a copy of the header is damaged"))
        }
        _ => Ok(end),
    }
}

/// Why a reader goes no further.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    /// Where in the file.
    pub(super) offset: u64,
    /// What is wrong there.
    pub(super) what: &'static str,
}

/// Reads records one after the other.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    file: &'a dyn DiskFile,
    base: u64,
    /// The LSN where the file ends.
    end: u64,
    position: u64,
    window: Vec<u8>,
    /// The LSN where the window begins.
    window_start: u64,
    stop: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `file`, whose first record has the LSN `base`.
    pub(super) fn new(file: &'a dyn DiskFile, base: u64) -> Result<Self, LogError> {
        let bytes = file.len()?;
        let end = base.saturating_add(bytes.saturating_sub(RECORDS_OFFSET));
        let window = Vec::with_capacity(WINDOW_BYTES.min((end - base) as usize));
        let stop = "the file ends";
        Ok(Self { file, base, end, position: base, window, window_start: base, stop })
    }

    /// The LSN of the next record.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Where and why the last call of `next` found none.
    pub(super) fn stop(&self) -> Stop {
        Stop { offset: RECORDS_OFFSET + (self.position - self.base), what: self.stop }
    }

    /// The bytes from `lsn` on, as many as the longest record has where the file has them.
    fn bytes_at(&mut self, lsn: u64) -> Result<&[u8], LogError> {
        let wanted = (self.end - lsn).min(RECORD_BYTES_MAX as u64) as usize;
        let at = lsn.wrapping_sub(self.window_start) as usize;
        if lsn < self.window_start || at + wanted > self.window.len() {
            let bytes = (self.end - lsn).min(WINDOW_BYTES as u64) as usize;
            self.window.resize(bytes, 0);
            self.window_start = lsn;
            self.file.read_at(&mut self.window, RECORDS_OFFSET + (lsn - self.base))?;
            return Ok(&self.window[..wanted]);
        }
        Ok(&self.window[at..at + wanted])
    }

    /// The next record and its LSN; `None` where there is no intact one.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Record<'_>)>, LogError> {
        let lsn = self.position;
        match Record::decode(self.bytes_at(lsn)?, lsn).map(|record| record.bytes()) {
            Err(what) => {
                self.stop = what;
                Ok(None)
            }
            Ok(bytes) => {
                self.position += bytes as u64;
                // Verified a moment ago; read again because a borrow cannot outlive the `match`.
                let record = Record::parse(&self.bytes_at(lsn)?[..bytes]);
                Ok(record.ok().map(|record| (lsn, record)))
            }
        }
    }

    /// Shows all further records and says where they end.
    pub(super) fn end(
        &mut self,
        mut visit: impl FnMut(u64, &Record<'_>),
    ) -> Result<LogEnd, LogError> {
        while let Some((lsn, record)) = self.next()? {
            visit(lsn, &record);
        }
        let (stop, lsn) = (self.stop(), self.position);
        let mut torn_end = lsn;
        let proof = self.search(lsn, |at, bytes| {
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                torn_end = torn_end.max(at + last as u64 + 1);
            }
            match Record::decode(bytes, at).map(|record| record.content) {
                Ok(Content::Committed { durable } | Content::Aborted { durable })
                    if durable > lsn && durable <= at =>
                {
                    ControlFlow::Break(at)
                }
                _ => ControlFlow::Continue(()),
            }
        })?;
        if let Some(later) = proof {
            let what = format!("{}, but record {later} says that it was durable", stop.what);
            return Err(damaged(self.file, stop.offset, what));
        }
        Ok(LogEnd { base: self.base, lsn, torn_bytes: torn_end - lsn })
    }

    /// Shows what lies at every place after `lsn` where a record could begin, and is not all zeros.
    fn search(
        &mut self,
        lsn: u64,
        mut visit: impl FnMut(u64, &[u8]) -> ControlFlow<u64>,
    ) -> Result<Option<u64>, LogError> {
        let mut at = lsn;
        while at < self.end {
            let bytes = self.bytes_at(at)?;
            let piece = &bytes[..bytes.len().min(ALIGNMENT_BYTES)];
            if piece.iter().any(|byte| *byte != 0) {
                let record = length(bytes).unwrap_or(HEADER_BYTES).min(bytes.len());
                if let ControlFlow::Break(found) = visit(at, &bytes[..record]) {
                    return Ok(Some(found));
                }
            }
            at += ALIGNMENT_BYTES as u64;
        }
        Ok(None)
    }
}
