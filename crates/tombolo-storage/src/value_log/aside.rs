//! Copies of segments that a recovery with an accepted loss is about to overwrite or remove, in files with other
//! names (`lost-000001-log-000003`), so that their content remains readable.
//!
//! Not here: the extent of a loss (`walk.rs`). Invariants: the copies are durable before anything is changed; no
//! file of an earlier loss is overwritten; if a copy cannot be finished it is removed, and the loss is not
//! carried out.

use super::segment::file_name;
use super::settings::LogFailure;
use crate::disk::{Disk, DiskError, Open};

const PREFIX: &str = "lost-";
const NUMBER_DIGITS: usize = 6;
const CHUNK_BYTES: u64 = 1 << 20;

/// Copies the segments with these numbers; returns the names of the copies.
///
/// # Errors
/// `Disk`, also when the device is full; then there are no copies.
pub(super) fn keep(disk: &dyn Disk, numbers: &[u64]) -> Result<Vec<String>, LogFailure> {
    let names = disk.list()?;
    let loss = names.iter().filter_map(|name| loss_number(name)).max().unwrap_or(0) + 1;
    let mut kept = Vec::new();
    for &number in numbers {
        let from = file_name(number);
        kept.push(format!("{PREFIX}{loss:0NUMBER_DIGITS$}-{from}"));
        if let Err(error) = copy(disk, &from, &kept[kept.len() - 1]) {
            for copied in &kept {
                let _ = disk.remove(copied); // a remaining copy does no harm
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
