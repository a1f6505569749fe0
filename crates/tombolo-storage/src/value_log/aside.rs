//! Copies of what a recovery that accepts a loss is about to write over or remove, in files of other
//! names (`lost-000001-log-000003`): what the log's files still hold remains readable there.
//!
//! Not here: what is lost (`walk.rs`). Invariants: the copies are durable before anything is changed; no
//! file of an earlier loss is written over; a copy that cannot be finished is removed, and nothing is
//! lost then.

use super::segment::file_name;
use super::settings::LogFailure;
use crate::disk::{Disk, DiskError, Open};

const PREFIX: &str = "lost-";
const NUMBER_DIGITS: usize = 6;
const CHUNK_BYTES: u64 = 1 << 20;

/// Copies the segments of these numbers; the names of the copies.
///
/// # Errors
/// `Disk`, also when the device is full; there are no copies then.
pub(super) fn keep(disk: &dyn Disk, numbers: &[u64]) -> Result<Vec<String>, LogFailure> {
    let names = disk.list()?;
    let loss = names.iter().filter_map(|name| loss_number(name)).max().unwrap_or(0) + 1;
    let mut kept = Vec::new();
    for &number in numbers {
        let from = file_name(number);
        kept.push(format!("{PREFIX}{loss:0NUMBER_DIGITS$}-{from}"));
        if let Err(error) = copy(disk, &from, &kept[kept.len() - 1]) {
            for copied in &kept {
                let _ = disk.remove(copied); // a copy that stays does no harm
            }
            return Err(error.into());
        }
    }
    disk.sync_dir()?;
    Ok(kept)
}

fn loss_number(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.get(..NUMBER_DIGITS)?.parse().ok()
}

fn copy(disk: &dyn Disk, from: &str, to: &str) -> Result<(), DiskError> {
    let (from, to) = (disk.open(from, Open::Read)?, disk.open(to, Open::New)?);
    let (mut at, length) = (0, from.len()?);
    let mut chunk = vec![0; CHUNK_BYTES.min(length) as usize];
    while at < length {
        let bytes = &mut chunk[..CHUNK_BYTES.min(length - at) as usize];
        from.read_at(bytes, at)?;
        to.write_at(bytes, at)?;
        at += bytes.len() as u64;
    }
    to.sync()
}
