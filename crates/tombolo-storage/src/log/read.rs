//! Reading a log: its records in order, and where the intact part ends.
//!
//! The value log determines which bytes are the log, and whether the bytes after them are a torn tail or damage
//! (`value_log/positions.rs`). Records before the LSN from which on a restart needs the log are not shown,
//! because their segments may have been reused. Not here: redo and undo.

use super::record::Record;
use super::settings::{LogError, LogFailure};
use crate::disk::Disk;
use crate::value_log::{Positions, read_positions};

/// Where the intact part of a log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The LSN of the first record, if there is one: what came before is not needed.
    pub base: u64,
    /// The LSN that the next record would have.
    pub lsn: u64,
    /// Bytes of the torn tail.
    pub torn_bytes: u64,
}

/// Shows every intact record of the log on `disk` from LSN `from` on, in order; says where they end. From 0
/// on means all that is needed.
///
/// # Errors
/// When there is no log, it is of another version, another kind of database or damaged (with file and
/// offset), what is asked for was released, or the disk fails. Records before the damage were shown.
pub fn read_log(
    disk: &dyn Disk,
    from: u64,
    visit: impl FnMut(u64, &Record<'_>),
) -> Result<LogEnd, LogError> {
    let Positions { needed, end, torn_bytes, .. } = read_records(disk, from, visit)?;
    if from > 0 && from < needed {
        return Err(LogFailure::Released { lsn: from, base: needed }.into());
    }
    Ok(LogEnd { base: needed, lsn: end.max(needed), torn_bytes })
}

/// The same, with all that is known of the log.
pub(super) fn read_records(
    disk: &dyn Disk,
    from: u64,
    mut visit: impl FnMut(u64, &Record<'_>),
) -> Result<Positions, LogError> {
    let mut show = shown_from(from, |_, lsn, record| visit(lsn, record));
    Ok(read_positions(disk, &mut show)?)
}

/// What shows the records of an intact part of a log: from which LSN on a restart needs them, and each with its own.
/// Those before LSN `from` are not shown, nor what is not needed.
pub(super) fn shown_from(
    from: u64,
    mut visit: impl FnMut(u64, u64, &Record<'_>),
) -> impl FnMut(u64, u64, &[u8]) -> Result<(), String> {
    move |mut lsn: u64, needed: u64, mut bytes: &[u8]| {
        while !bytes.is_empty() {
            let record = Record::decode(bytes, lsn);
            let record = record.map_err(|what| format!("record {lsn}: {what}"))?;
            let length = record.bytes();
            if lsn >= needed.max(from) {
                visit(needed, lsn, &record);
            }
            (lsn, bytes) = (lsn + length as u64, &bytes[length..]);
        }
        Ok(())
    }
}
