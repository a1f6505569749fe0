//! The log's archive: a copy of all durable groups in another directory, kept after the log has released them.
//!
//! ```text
//!   log ──Archiver::archive──► archive-unfinished ──sync, rename, sync──► archive-000003-000000004711
//!                                                                              │
//!   backup ──backup::restore_until──► its files, and the following groups of the archive, up to a target
//! ```
//!
//! A *part* is a file with consecutive groups of one segment, byte for byte
//! (`part.rs`). Parts are named by epoch and first group and follow each other without a gap: each contains the
//! checksum of the group before its first. So an archive belongs to one history of a log: a log that was cut
//! before the archive's end, or restored to an earlier group, and then continued differently does not contain
//! the archive's last group, and is refused.
//!
//! Not here: the schedule of archiving and its waiters (the engine's stage), restoring
//! (`backup/`). Invariants: only durable groups are archived, once and in order; a part under its final name is
//! complete and durable after any end of the process; a part is never changed.

mod archiver;
mod failure;
mod keep;
mod part;
mod plan;

pub use archiver::{Archiver, LogArchive};
pub use failure::ArchiveFailure;
pub use plan::RestoreTarget;

pub(super) use keep::keep;
pub(crate) use plan::{Plan, Tail};

use super::settings::GroupNumber;
use super::start::LogPosition;
use crate::disk::{Disk, DiskError, Open};
use part::{Part, is_part};

/// The file of an unfinished part.
const UNFINISHED_FILE: &str = "archive-unfinished";

/// The content of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its first group.
    pub first: GroupNumber,
    /// The time of that one, in microseconds since 1970; 0 where it is not known.
    pub first_us: u64,
    /// Its last group.
    pub last: LogPosition,
    /// The time of that one.
    pub last_us: u64,
}

/// The parts in a directory, in the order of their groups.
fn parts(disk: &dyn Disk) -> Result<Vec<Part>, ArchiveFailure> {
    let names = disk.list()?.into_iter().filter(|name| is_part(name));
    let mut parts = names.map(|name| Part::read(disk, name)).collect::<Result<Vec<_>, _>>()?;
    parts.sort_by_key(|part| (part.head.first, part.head.epoch));
    Ok(parts)
}

/// The content of an archive from its oldest part to its newest, even if there are gaps.
fn held(parts: &[Part]) -> Option<Held> {
    let (first, last) = (&parts.first()?.head, &parts.last()?.head);
    let (first, first_us) = (first.first, first.first_us);
    Some(Held { first, first_us, last: last.end(), last_us: last.last_us })
}

/// Opens a file for reading.
fn open(disk: &dyn Disk, name: &str) -> Result<Box<dyn crate::disk::DiskFile>, DiskError> {
    disk.open(name, Open::Read)
}
