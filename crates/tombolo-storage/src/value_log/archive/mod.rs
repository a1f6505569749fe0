//! The log's archive: all durable groups, kept in another directory for longer than the log needs them.
//!
//! ```text
//!   log ──Archiver::archive──► archive-unfinished ──sync, rename, sync──► archive-000003-000000004711
//!                                                                              │
//!   backup ──backup::restore_until──► its files, and the archive's groups behind them, up to one
//! ```
//!
//! A *part* is a file with groups that lie one behind the other in one segment, as they lie there
//! (`part.rs`). Parts are named by epoch and first group and follow each other without a gap: each says the
//! checksum of the group before its first. So an archive belongs to one course of a log: a log that was cut
//! before the archive's end, or restored to an earlier group, and then continued differently does not hold
//! the group the archive ends with, and is refused.
//!
//! Not here: when something is archived and what waits for it (the engine's stage), restoring
//! (`backup/`). Invariants: only durable groups are archived, once and in order; under its name a part is
//! whole and durable, whatever ends the process; nothing is written to a part again.

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

/// The file of a part that is being made, or was when the process ended.
const UNFINISHED_FILE: &str = "archive-unfinished";

/// What an archive holds.
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

/// What an archive holds from its oldest part to its newest, with gaps, if there are any.
fn held(parts: &[Part]) -> Option<Held> {
    let (first, last) = (&parts.first()?.head, &parts.last()?.head);
    let (first, first_us) = (first.first, first.first_us);
    Some(Held { first, first_us, last: last.end(), last_us: last.last_us })
}

/// Opens a file to be read.
fn open(disk: &dyn Disk, name: &str) -> Result<Box<dyn crate::disk::DiskFile>, DiskError> {
    disk.open(name, Open::Read)
}
