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
    let mut show = |mut lsn: u64, needed: u64, mut bytes: &[u8]| {
        while !bytes.is_empty() {
            let record = Record::decode(bytes, lsn)?;
            let length = record.bytes();
            if lsn >= needed.max(from) {
                visit(lsn, &record);
            }
            (lsn, bytes) = (lsn + length as u64, &bytes[length..]);
        }
        Ok(())
    };
    let found = read_positions(disk, &mut |lsn, needed, bytes| {
        show(lsn, needed, bytes).map_err(|what: &str| format!("record {lsn}: {what}"))
    });
    Ok(found?)
}
